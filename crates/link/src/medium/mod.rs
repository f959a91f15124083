//! What joins the two directions of a link: one trait, one registry.
//!
//! On a [`wire`] each direction has its own rate, and neither knows of the other. A shared medium is one server for both:
//! only one of them is carried at a time, and how long each waits depends on what the other sends. A medium never looks
//! at a packet's content, and does not hold packets: the [`Duplex`](crate::Duplex) does.

mod wire;
pub mod wlan;

pub use wire::wire;
pub use wlan::wlan;

use headstart_core::time::Instant;

use crate::{Entry, Spec};

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// Away from the host, or from the first node to the second.
    Up,
    /// Towards the host.
    Down,
}

impl Way {
    /// Both, in the order in which arrays hold them.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// The place of this direction in arrays of two.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// What joins the directions.
pub enum Medium {
    /// Nothing: each has its own rate.
    Wire,
    /// One server of both.
    Shared(Box<dyn Shared>),
}

/// A transmission that is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When.
    pub at: Instant,
    /// Which directions transmit: one, or both if they collide.
    pub ways: [bool; 2],
}

/// A server of both directions. The link asks [`Shared::contend`] whose turn it is, takes packets out of the queue as long
/// as they [fit](Shared::fits), and lets [`Shared::carry`] say which were received.
///
/// `ready` says for each direction since when something waits, `None` if nothing does; at least one is `Some` in each call.
pub trait Shared: Send {
    /// When there may be something to do next, were nothing else to come.
    fn next(&self, ready: [Option<Instant>; 2]) -> Instant;

    /// Lets the medium go on until `until` or the next turn of either direction, whichever is first. After a turn,
    /// [`Shared::carry`] comes next.
    fn contend(&mut self, ready: [Option<Instant>; 2], until: Instant, rng: &mut fastrand::Rng) -> Option<Turn>;

    /// Whether one transmission may hold so many packets of so many bytes together; true for a single packet.
    fn fits(&self, packets: usize, bytes: usize) -> bool;

    /// Carries out `turn` with packets of these bytes. Sets for each whether it was `received`, which comes all false, and
    /// says when the transmission is through.
    fn carry(
        &mut self,
        turn: Turn,
        bytes: [&[usize]; 2],
        received: [&mut [bool]; 2],
        rng: &mut fastrand::Rng,
    ) -> Instant;

    /// How often a packet is transmitted before it counts as lost; at least once.
    fn most_tries(&self) -> u32;

    /// How many packets may be under way from the first that is not received on: the receiver releases in order.
    fn window(&self) -> usize;
}

/// The recipe of a medium.
pub type MediumSpec = Spec<Medium>;

/// All media. The first is what a link without `medium=` has.
pub const ALL: &[Entry<Medium>] = &[
    // One line a model.
    wire::ENTRY,
    wlan::ENTRY,
];
