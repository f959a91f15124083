//! How many packets may wait for the rate: one trait, one registry.
//!
//! The packet that the rate is working on has left the queue, and one that finds the rate idle never joins it, so no queue
//! is too small to pass anything. A model only judges; the link holds the packets, first in, first out.

mod codel;
mod drop_tail;
mod infinite;

pub use codel::codel;
pub use drop_tail::drop_tail;
pub use infinite::infinite;

use headstart_core::time::Instant;

use crate::{Entry, Spec};

/// Room of a queue that is not specified, in packets: netem's default limit, and Linux's default transmit queue.
pub const DEFAULT_PACKETS: usize = 1000;

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets that wait.
    pub packets: usize,
    /// Bytes of those packets.
    pub bytes: usize,
}

/// A packet at the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it came.
    pub arrival: Instant,
    /// Its bytes.
    pub bytes: usize,
    /// What waits behind it.
    pub behind: Backlog,
}

/// One verdict a packet on arrival, and one on the head whenever the rate is about to take it.
pub trait Queue: Send {
    /// Whether a packet of `bytes` that comes at `at` may join `backlog`; if not, it is dropped.
    fn admits(&mut self, at: Instant, bytes: usize, backlog: Backlog) -> bool;

    /// Whether [`Queue::drops`] has anything to say at all. It always answers the same.
    fn drops_heads(&self) -> bool {
        false
    }

    /// How many packets to drop from the head at `now`, when the rate is about to take a packet; `heads` are the packets
    /// that wait, one after the other. The packet after the dropped ones is taken without another question.
    fn drops(&mut self, _now: Instant, _heads: &mut dyn Iterator<Item = Head>) -> usize {
        0
    }
}

/// The recipe of a queue.
pub type QueueSpec = Spec<dyn Queue>;

/// All queues. The first is what a bare value means: `queue=100p` is `queue=drop-tail:100p`.
pub const ALL: &[Entry<dyn Queue>] = &[
    // One line a model.
    drop_tail::ENTRY,
    codel::ENTRY,
    infinite::ENTRY,
];
