//! The contract that every mechanism of the pure floors keeps: four verbs, and a deadline that says why.
//!
//! Feed one input, drain all outputs, then sleep until the deadline. The reason for waking is part of the deadline, so
//! that wake-ups can be counted by cause (a phone's battery is spent on wake-ups). A timeout that comes early or late must do no
//! harm. Failures of the network are inputs; an `Err` is for a caller's mistake.

use crate::time::Instant;

/// When a machine wants to be woken, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The moment to call [`Machine::handle_timeout`].
    pub at: Instant,
    /// The reason, one of a small fixed set per machine, e.g. `"connection attempt delay"`.
    pub why: &'static str,
}

/// A pure state machine. See the module for the contract.
pub trait Machine {
    /// What the world tells it.
    type Input;
    /// What it asks of the world.
    type Output;

    /// Takes in one event.
    fn handle_input(&mut self, now: Instant, input: Self::Input);
    /// Time has passed; `now` may be earlier or later than the deadline that was asked for.
    fn handle_timeout(&mut self, now: Instant);
    /// The next thing to do, in order; `None` once everything is drained.
    fn poll_output(&mut self) -> Option<Self::Output>;
    /// When to wake next, or `None` to sleep until an input comes.
    fn poll_timeout(&self) -> Option<Deadline>;
}
