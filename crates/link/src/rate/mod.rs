//! How fast packets leave the queue: one trait, one registry.
//!
//! A rate is a server that works on one packet at a time, in whole nanoseconds of logical time. It never looks at a
//! packet's content and never drops one.

mod constant;
mod recorded;
mod trace;
mod unlimited;

pub use constant::constant;
pub use recorded::{BadTrace, Trace};
pub use trace::trace;
pub use unlimited::unlimited;

use headstart_core::time::Instant;

use crate::{Entry, Spec};

/// A server of packets. The link asks [`Rate::start`], takes the packet out of the queue at that moment, and gives it to
/// [`Rate::serve`].
pub trait Rate: Send {
    /// When work on the next packet begins, if it is in the queue since `ready`; never before `ready`.
    fn start(&self, ready: Instant) -> Instant;

    /// Works on a packet of `bytes` from `start` on, which [`Rate::start`] has just named; says when it is through.
    fn serve(&mut self, start: Instant, bytes: usize) -> Instant;
}

/// The recipe of a rate.
pub type RateSpec = Spec<dyn Rate>;

/// All rates. The first is what a bare value means: `rate=100mbit` is `rate=constant:100mbit`.
pub const ALL: &[Entry<dyn Rate>] = &[
    // One line a model.
    constant::ENTRY,
    trace::ENTRY,
    unlimited::ENTRY,
];
