//! How the worker waits for what comes next: with open eyes for a moment where an answer is due, and otherwise asleep.

use super::accelerator::Accelerator;
use super::{Worker, WorkerError, failed};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;

impl Worker {
    /// Waits for events until `until`, for ever if none.
    pub(super) fn wait(&mut self, now: Instant, until: Option<Instant>) -> Result<(), WorkerError> {
        if until.is_some_and(|until| until <= now) {
            // No wait, just a look at what else there is.
            return self.poll.wait(&self.clock, until, &mut self.tokens).map_err(failed("looking at events"));
        }
        // Nobody waits for anything here.
        self.stock.refill(&self.exit);
        if !self.looks_out {
            return self.poll.wait(&self.clock, until, &mut self.tokens).map_err(failed("waiting for events"));
        }
        let passed = Some(std::mem::take(&mut self.passed));
        let (poll, clock) = (&mut self.poll, &self.clock);
        poll.look_out(clock, &mut self.lookout, passed, until, &mut self.tokens).map_err(failed("waiting for events"))
    }

    /// When to wake at the latest.
    pub(super) fn until(&self, now: Instant, patience: Option<Instant>) -> Option<Instant> {
        let mut until = self.forwarder.poll_timeout().map(|deadline| deadline.at);
        let mut earlier = |at: Instant| until = Some(until.map_or(at, |until| until.min(at)));
        self.silence.deadline().into_iter().for_each(&mut earlier);
        self.programs.until().into_iter().for_each(&mut earlier);
        self.accelerator.iter().filter_map(Accelerator::deadline).for_each(&mut earlier);
        match self.peers.until() {
            None if !self.queue.is_empty() => earlier(now),
            // Who sleeps sleeps, whatever waits.
            Some(at) if !self.upstreams.is_empty() => earlier(at),
            _ => {}
        }
        patience.into_iter().for_each(earlier);
        until
    }
}
