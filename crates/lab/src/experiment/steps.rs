//! How far a run is, and whether it is to be stopped: asked before each step.

use super::{Context, Outcome};

/// The steps of one run.
pub(super) struct Steps<'a> {
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
        let goes_on = self.cx.goes_on(outcome);
        if goes_on {
            self.cx.progress.step(self.done, self.total, doing);
            self.done += 1;
        }
        goes_on
    }
}

impl Context {
    /// Whether the run goes on; if it is to be stopped, `outcome` says so from then on.
    pub(super) fn goes_on(&self, outcome: &mut Outcome) -> bool {
        let stop = self.progress.stop();
        if stop {
            outcome.invalidate("it was stopped early");
        }
        !stop
    }
}
