//! One connection of a session: what is on its way over it, and what is to be written on it next.

use super::super::frame::{Decoder, Proof};
use super::super::lane::WINDOW;
use crate::time::Instant;
use std::collections::VecDeque;

/// A message by lane (its place in the list of lanes) and number.
pub(super) type Handle = (usize, u64);

/// A message that was written on this connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub message: Handle,
    pub sent: Instant,
    /// The message went before, over this connection or another.
    pub copy: bool,
    /// Bytes of the connection up to its end.
    pub end: u64,
}

/// Messages that are not acknowledged, beyond which no more values are sent: their lanes are not held up by them, and a peer that never
/// acknowledges would have them kept in mind for ever. Forty thousand a second at a round trip of 200 ms. Ours.
pub(super) const MOST_OWED: usize = 8 * WINDOW;
/// Messages of which it is kept in mind that a copy was there first. Ours.
const MOST_AHEAD: usize = 64;

/// Messages that the peer has by a copy, and when that was known; what was sent first is on its way.
#[derive(Debug, Default)]
pub(super) struct Ahead(VecDeque<(Handle, Instant)>);

impl Ahead {
    /// A copy was there first.
    pub fn note(&mut self, now: Instant, message: Handle) {
        self.0.truncate(MOST_AHEAD - 1);
        self.0.push_front((message, now));
    }

    /// When a copy was there, if what has come now was sent first.
    pub fn take(&mut self, come: &Flight) -> Option<Instant> {
        let at = self.0.iter().position(|(message, _)| *message == come.message && !come.copy)?;
        self.0.remove(at).map(|(_, known)| known)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub id: u32,
    pub decoder: Decoder,
    /// Something has come in, and it began as it should.
    pub introduced: bool,
    pub hello: bool,
    /// This side opened it.
    pub opened: bool,
    /// The peer has said that it runs headstart, and which connection this is.
    pub met: bool,
    pub welcome: Option<Proof>,
    pub bye: bool,
    pub notices: u32,
    pub fillers: u32,
    pub echoes: u32,
    /// Messages to be resent here.
    pub again: VecDeque<Handle>,
    /// Written and not acknowledged by the peer, oldest first.
    pub flights: VecDeque<Flight>,
    /// Messages written so far.
    pub sent: u64,
    /// Messages that came in so far.
    pub received: u64,
    /// Of those, how many were acknowledged to the peer.
    pub acknowledged: u64,
    /// An acknowledgement is due.
    pub ack: bool,
    /// Bytes written so far.
    pub written: u64,
    /// Bytes that the peer's kernel is known to have.
    pub kernel_has: u64,
    /// A message on it was overdue, and is not acknowledged yet.
    pub stalled: bool,
    /// Something that was sent later over another connection has arrived, and its oldest message has not: it waits for TCP to
    /// send it again.
    pub overtaken: bool,
    /// What came over it was acknowledged over another connection only: acknowledgements on it are held up.
    pub mute: bool,
    /// Told the caller that there is something to write, and not asked since.
    pub announced: bool,
}

impl Wire {
    /// Messages that are not acknowledged, neither by the peer nor by its kernel; oldest first.
    pub fn unacknowledged(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().filter(|flight| flight.end > self.kernel_has)
    }

    /// Whether something may be written: the side that opened it speaks first.
    pub fn may_speak(&self) -> bool {
        self.opened || self.met
    }

    /// Whether the peer owes so many acknowledgements that values wait.
    pub fn owes_much(&self) -> bool {
        self.flights.len() >= MOST_OWED
    }

    /// Whether there is something to write besides new messages.
    pub fn has_work(&self) -> bool {
        let control = self.hello
            || self.welcome.is_some()
            || self.ack
            || self.bye
            || self.notices + self.fillers + self.echoes > 0;
        control || !self.again.is_empty()
    }
}
