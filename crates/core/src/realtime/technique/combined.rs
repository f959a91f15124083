//! Several techniques at once: each question goes to all of them, and the one that does most has its way.

use super::{Technique, View};
use crate::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct Combined(Vec<Box<dyn Technique>>);

impl Combined {
    /// All of these at once.
    pub fn new(first: Box<dyn Technique>, rest: Vec<Box<dyn Technique>>) -> Self {
        Self(std::iter::once(first).chain(rest).collect())
    }

    fn each<T>(&self, ask: impl Fn(&dyn Technique) -> T) -> impl Iterator<Item = T> {
        self.0.iter().map(move |technique| ask(technique.as_ref()))
    }
}

impl Technique for Combined {
    fn connections(&self) -> usize {
        self.each(|t| t.connections()).max().unwrap_or(1)
    }

    fn acknowledges(&self) -> bool {
        self.each(|t| t.acknowledges()).any(|yes| yes)
    }

    fn echoes(&self) -> bool {
        self.each(|t| t.echoes()).any(|yes| yes)
    }

    fn one_of(&self, view: &View) -> u32 {
        self.each(|t| t.one_of(view)).max().unwrap_or(1)
    }

    fn silence(&self, view: &View, interval: Duration) -> Option<Duration> {
        self.each(|t| t.silence(view, interval)).flatten().min()
    }

    fn patience(&self, view: &View) -> Option<Duration> {
        self.each(|t| t.patience(view)).flatten().min()
    }

    fn carries(&self, view: &View) -> Option<usize> {
        self.each(|t| t.carries(view)).flatten().max()
    }

    fn earns(&self, view: &View) -> u32 {
        self.each(|t| t.earns(view)).max().unwrap_or(0)
    }

    fn pace(&self, view: &View) -> Option<Duration> {
        self.each(|t| t.pace(view)).flatten().max()
    }
}
