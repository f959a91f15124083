//! What experiments add to an outcome in the same way: conditions, prices, failures, doubts. Nothing here measures.

use super::outcome::{Condition, Outcome, Price, Row, Series};
use std::fmt::Display;

impl Outcome {
    /// Adds a condition, in words.
    pub(super) fn condition(&mut self, name: impl Into<String>, about: impl Into<String>) {
        self.conditions.push(Condition { name: name.into(), about: about.into() });
    }

    /// Adds a paragraph on how it was measured.
    pub(super) fn how(&mut self, text: &str) {
        self.method.push(text.to_owned());
    }

    /// Adds what an arm has cost.
    pub(super) fn price(&mut self, condition: &str, arm: &str, what: &str, unit: &str, amount: f64) {
        let (condition, arm, what, unit) = (condition.into(), arm.into(), what.into(), unit.into());
        self.prices.push(Price { condition, arm, what, unit, amount });
    }

    /// Adds the shares of failed trials, if any has failed.
    pub(super) fn failures(&mut self, ours: &Series, baseline: &Series) {
        if ours.failed() + baseline.failed() > 0 {
            self.rows.push(Row::failures(ours, baseline));
        }
    }

    /// Marks the run by each of what speaks against its times.
    pub(super) fn doubts(&mut self, doubts: impl IntoIterator<Item = String>) {
        doubts.into_iter().for_each(|doubt| self.invalidate(doubt));
    }

    /// Marks the run by each of what speaks against the times of `place`.
    pub(super) fn doubts_of(&mut self, place: &str, doubts: impl IntoIterator<Item: Display>) {
        self.doubts(doubts.into_iter().map(|doubt| format!("{place}: {doubt}")));
    }
}

impl Row {
    /// Beside the value of another arm, without an interval; beside zero there is no ratio.
    pub(super) fn beside(self, arm: &str, value: f64) -> Self {
        let ratio = (value > 0.0).then(|| self.ours / value);
        Self { baseline_arm: Some(arm.into()), baseline: Some(value), ratio, ..self }
    }
}

impl Series {
    /// Whether some trial has a value under both arms.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.values.iter().zip(&other.values).any(|(a, b)| a.is_some() && b.is_some())
    }
}
