//! How far a run is: one step a page, whether it is to be stopped asked before each.

use crate::experiment::{Context, Outcome};

/// The steps of one run.
pub struct Steps<'a> {
    cx: &'a Context,
    done: u64,
    total: u64,
}

impl<'a> Steps<'a> {
    /// A run of `total` steps.
    pub fn new(cx: &'a Context, total: usize) -> Self {
        Self { cx, done: 0, total: total as u64 }
    }

    /// Whether to take the next step, `doing`. If the run is to be stopped instead, `outcome` says so from then on.
    pub fn next(&mut self, outcome: &mut Outcome, doing: &str) -> bool {
        if self.cx.progress.stop() {
            outcome.invalidate("it was stopped early");
            return false;
        }
        self.cx.progress.step(self.done, self.total, doing);
        self.done += 1;
        true
    }
}
