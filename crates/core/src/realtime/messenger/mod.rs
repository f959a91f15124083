//! One end of a session: which message goes when over which connection, and what is reported to the other end.
//!
//! The caller owns the connections and writes what [`Messenger::transmit`] gives it, one write a call, so that a frame is a
//! segment (TCP_NODELAY). It asks only when it can write, so that what waits here, not in a buffer of the kernel, is newest
//! first replaced. What never happens here: a message of an `Event` or `Ordered` lane is dropped or handed out twice, or
//! memory grows with what a peer sends or a program does not take.

mod connection;
mod drive;
mod incoming;
mod spread;
#[cfg(test)]
mod tests;

use super::frame::{Hello, MAX_COUNTS, MAX_MESSAGE, SessionId};
use super::gauge::Gauge;
use super::inbox::{Delivered, Inbox};
use super::lane::{Kind, LaneId, MAX_LANES};
use super::outgoing::{OutgoingLane, Queued};
use super::state::{self, State, TokenBucket};
use super::technique::{Technique, View};
use crate::path::RttEstimate;
use crate::time::{Duration, Instant};
use connection::{Ahead, Flight, Handle, Wire};
use spread::Tolerance;
use std::collections::VecDeque;

/// Connections of a session at most, those that are being given up included.
pub const MAX_CONNECTIONS: usize = MAX_COUNTS;
/// Packets that the bucket of extra ones holds: a burst that takes a whole window of messages at a short interval. Ours.
const BUCKET: u32 = 4;
/// A message is resent by itself at most so often, once over each other connection of `hedge`; then TCP's own retransmission is
/// as good. Ours.
const MOST_AGAIN: u8 = 5;
/// Without a technique that acknowledges each message, one is sent after so many … Ours.
const ACK_EVERY: u64 = 16;
/// … or so long after the first that was not acknowledged. Ours.
const ACK_WITHIN: Duration = Duration::from_millis(200);
/// Tiny segments that answer a notice: three duplicate acknowledgements start a fast retransmission (RFC 5681, section 3.2).
const FILLERS: u32 = 3;
/// Buffers that are kept for messages to come.
const SPARE: usize = 256;

/// Number of a connection in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection(pub u32);

/// How a session is to be.
#[derive(Debug)]
pub struct Settings {
    /// What is done so that messages do not wait.
    pub technique: Box<dyn Technique>,
    /// Its name, sent to the peer by the side that connects.
    pub name: String,
    /// The time between two messages, if the program knows it.
    pub interval: Option<Duration>,
    /// Keep what is not acknowledged, so that it can be resent when connections are lost. Without it nothing is
    /// acknowledged unless the technique wants it.
    pub resume: bool,
    /// Bytes that wait for the program before no more is to be read.
    pub inbox_bytes: usize,
}

impl Settings {
    /// With a technique by its name: resuming, with 256 KiB for a program that is slow to read.
    pub fn new(name: &str) -> Result<Self, super::technique::UnknownTechnique> {
        let technique = super::technique::find(name)?;
        Ok(Self { technique, name: name.into(), interval: None, resume: true, inbox_bytes: 256 << 10 })
    }
}

/// What the world tells a messenger, besides bytes and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A connection is up; its handshake took `rtt`, if that is known.
    Opened {
        /// Its number.
        connection: Connection,
        /// Round-trip time of the handshake.
        rtt: Option<Duration>,
        /// This side opened it and has to introduce itself.
        introduce: bool,
    },
    /// A connection is gone.
    Closed(Connection),
    /// The peer's kernel has all but so many of the bytes that were written on the connection.
    Unacknowledged {
        /// Its number.
        connection: Connection,
        /// Bytes written and not acknowledged by TCP.
        bytes: u64,
    },
}

/// What a messenger asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// There is something to write on this connection: call [`Messenger::transmit`] when it can be written, until there is
    /// nothing left.
    Write(Connection),
    /// A message has come in: call [`Messenger::receive`].
    Deliver,
}

/// Result of handing in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It will be sent.
    Accepted,
    /// It will be sent in place of an older value of the same key, which will not.
    Conflated,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too many messages of the lane are on their way.
    #[error("lane {0} has {window} messages on their way: wait until the peer has some of them", window = super::WINDOW)]
    Full(u8),
    /// The message is too long.
    #[error("a message of {0} bytes, at most {MAX_MESSAGE}: send streams over a connection of their own")]
    TooLong(usize),
    /// No such lane can be.
    #[error("lane {0}, they count from 0 to {last}", last = MAX_LANES - 1)]
    NoLane(u8),
    /// The lane has another kind.
    #[error("lane {0} is of another kind: each lane has one kind for as long as the session lasts")]
    OtherKind(u8),
}

/// What a session has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages handed in.
    pub sent: u64,
    /// Frames of messages written, copies included.
    pub written: u64,
    /// Of those, copies.
    pub copies: u64,
    /// Of the copies, those that went in the segment of a new message.
    pub carried: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Of those, bytes of copies: what the technique pays.
    pub bytes_again: u64,
    /// Messages of which a copy was acknowledged before what was sent first.
    pub ahead: u64,
    /// By how much, added up: from the acknowledgement of the copy to that of what was sent first. What is never acknowledged, since its
    /// connection is lost, adds nothing.
    pub saved: Duration,
    /// Messages that were dropped for newer values before they were sent, or by the receiver.
    pub conflated: u64,
    /// Messages handed to the program.
    pub received: u64,
    /// Copies that came in.
    pub copies_received: u64,
    /// Times that a connection was left because a message on it was overdue, or overtaken.
    pub stalls: u64,
    /// Of those, how often the message was only late.
    pub late: u64,
    /// Notices sent (Trigger).
    pub notices: u64,
    /// Echoes and tiny segments sent.
    pub fillers: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Smoothed round-trip time of messages.
    pub smoothed: Option<Duration>,
    /// The shortest of late.
    pub shortest: Option<Duration>,
    /// How the path is doing.
    pub state: State,
}

/// See the module.
#[derive(Debug)]
pub struct Messenger {
    settings: Settings,
    session: SessionId,
    wires: Vec<Wire>,
    primary: Option<u32>,
    lanes: Vec<OutgoingLane>,
    inbox: Inbox,
    gauge: Gauge,
    bucket: TokenBucket,
    outputs: VecDeque<Output>,
    spare: Vec<Vec<u8>>,
    stats: Stats,
    ahead: Ahead,
    /// The peer has shown that it speaks this protocol.
    ours: bool,
    /// Connections left since the last acknowledgement.
    hops: u32,
    tolerance: Tolerance,
    /// When the latest sent of the messages that are known to have arrived was sent.
    newest: Instant,
    /// Room to choose what is repeated.
    carried: Vec<(Instant, Handle, usize)>,
    /// When an acknowledgement last acknowledged something new.
    last_ack: Instant,
    /// Over which connection without a hole, as far as was known, a new message went last.
    last_whole: Option<u32>,
    /// When that was chosen, what was due to be acknowledged was not.
    spell: bool,
    /// The peer has left for good, and so many messages that it had were not taken.
    peer_left: Option<u64>,
    /// Whatever answers at the peer's address does not know the session.
    forgotten: bool,
    /// The same of some connections, while the peer answers on others.
    scattered: bool,
    /// The receiver has said that it misses a message, and none has come since.
    noticed: bool,
    /// When the first message came that is not acknowledged, where not each one is.
    ack_since: Option<Instant>,
    /// When `handle_timeout` was called last: what it has found not yet due is not due for `poll_timeout` either.
    looked: Instant,
}

impl Messenger {
    /// One end of session `session`, without connections.
    pub fn new(session: SessionId, settings: Settings) -> Self {
        Self {
            inbox: Inbox::new(settings.inbox_bytes),
            settings,
            session,
            wires: Vec::new(),
            primary: None,
            lanes: Vec::new(),
            gauge: Gauge::default(),
            bucket: TokenBucket::new(BUCKET),
            outputs: VecDeque::new(),
            spare: Vec::new(),
            stats: Stats::default(),
            ours: false,
            hops: 0,
            tolerance: Tolerance::default(),
            newest: Instant::ZERO,
            looked: Instant::ZERO,
            carried: Vec::new(),
            ahead: Ahead::default(),
            last_ack: Instant::ZERO,
            last_whole: None,
            spell: false,
            peer_left: None,
            forgotten: false,
            scattered: false,
            noticed: false,
            ack_since: None,
        }
    }

    /// Connections that should be open: one until the peer has shown that it speaks this protocol, and where some of them lead to
    /// another machine, which does not know the session.
    pub fn connections_wanted(&self) -> usize {
        if self.ours && !self.scattered { self.settings.technique.connections().min(MAX_CONNECTIONS) } else { 1 }
    }

    /// The session's name.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Whether the peer has shown that it speaks this protocol.
    pub fn peer_is_ours(&self) -> bool {
        self.ours
    }

    /// The technique, by its name.
    pub fn technique(&self) -> &str {
        &self.settings.name
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.wires.len()
    }

    /// Of those, how many the peer has answered on.
    pub fn answered(&self) -> usize {
        self.wires.iter().filter(|wire| wire.met).count()
    }

    /// Whether the peer has said that it does not know the session, when there was no connection on which it does.
    pub fn peer_has_forgotten(&self) -> bool {
        self.forgotten
    }

    /// Takes a message in, to be sent as soon as it can.
    pub fn send(&mut self, now: Instant, lane: LaneId, kind: Kind, key: u64, bytes: &[u8]) -> Result<Sent, SendError> {
        if lane.0 >= MAX_LANES {
            return Err(SendError::NoLane(lane.0));
        }
        if bytes.len() > MAX_MESSAGE {
            return Err(SendError::TooLong(bytes.len()));
        }
        let at = match self.lanes.iter().position(|l| l.id == lane) {
            Some(at) if self.lanes[at].kind != kind => return Err(SendError::OtherKind(lane.0)),
            Some(at) => at,
            None => {
                self.lanes.push(OutgoingLane::new(lane, kind));
                self.lanes.len() - 1
            }
        };
        let key = if kind == Kind::Latest { key } else { 0 };
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(bytes);
        let queued = match self.lanes[at].push(now, key, kept, &mut self.spare) {
            Ok(queued) => queued,
            Err(kept) => {
                self.recycle(kept);
                return Err(SendError::Full(lane.0));
            }
        };
        self.lanes[at].tidy(&mut self.spare);
        self.stats.sent += 1;
        self.gauge.sends.beat(now);
        let earned = self.settings.technique.earns(&self.view(now));
        self.bucket.earn(earned);
        self.announce_new(now);
        if queued == Queued::New {
            return Ok(Sent::Accepted);
        }
        self.stats.conflated += 1;
        Ok(Sent::Conflated)
    }

    /// The next message that came in; its bytes take the place of what is in `into`.
    pub fn receive(&mut self, into: &mut Vec<u8>) -> Option<Delivered> {
        self.inbox.take(into)
    }

    /// Has so many bytes wait for the program, before no more is to be read.
    pub fn hold_at_most(&mut self, bytes: usize) {
        self.inbox.set_limit(bytes);
    }

    /// The peer sends over so many lanes, messages of at most so many bytes: of `Ordered` ones that come before others are to be, no more is
    /// kept than it may have on its way then, and a connection that brings more fails. By default, four lanes of the longest messages.
    pub fn expect(&mut self, lanes: usize, longest: usize) {
        self.inbox.expect(lanes, longest);
    }

    /// Tells the peer over a connection that this side is there, though it has nothing to say.
    pub fn assure(&mut self, connection: Connection) {
        if let Some(at) = self.wires.iter().position(|wire| wire.id == connection.0) {
            self.wires[at].fillers = self.wires[at].fillers.max(1);
            self.announce(at);
        }
    }

    /// Whether the program has so much to take that the connections should not be read.
    pub fn is_full(&self) -> bool {
        self.inbox.is_full()
    }

    /// Whether a message waits for the program.
    pub fn has_some(&self) -> bool {
        self.inbox.has_some()
    }

    /// Bytes that wait for the program, and what keeping them takes besides.
    pub fn untaken(&self) -> usize {
        self.inbox.bytes()
    }

    /// The same, with what waits for messages that are to come before it.
    pub fn kept(&self) -> usize {
        self.inbox.kept()
    }

    /// Tells the peer that this side leaves for good.
    pub fn leave(&mut self) {
        for at in 0..self.wires.len() {
            self.wires[at].bye = true;
            self.announce(at);
        }
    }

    /// Whether the peer has left for good: nothing more will come.
    pub fn peer_has_left(&self) -> bool {
        self.peer_left.is_some()
    }

    /// Messages that the peer acknowledged, and that its program had not taken when it left.
    pub fn untaken_by_peer(&self) -> u64 {
        self.peer_left.unwrap_or(0)
    }

    /// What has been done so far.
    pub fn stats(&self, now: Instant) -> Stats {
        Stats {
            smoothed: self.gauge.rtt.map(|rtt| rtt.smoothed),
            shortest: self.gauge.shortest(),
            state: self.state(now),
            ..self.stats
        }
    }

    /// Messages that were handed in and that the peer is not known to have.
    pub fn on_their_way(&self) -> usize {
        self.lanes.iter().map(OutgoingLane::len).sum()
    }

    /// Whether any message was handed in.
    pub const fn has_sent(&self) -> bool {
        self.stats.sent > 0
    }

    /// Whether a message of this lane would be refused now.
    pub fn is_lane_full(&self, lane: LaneId) -> bool {
        self.lanes.iter().any(|l| l.id == lane && l.len() >= super::WINDOW)
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    fn wire(&mut self, id: u32) -> Option<&mut Wire> {
        self.wires.iter_mut().find(|wire| wire.id == id)
    }

    /// The oldest message whose acknowledgement this connection waits for; one that was acknowledged over another does not count.
    fn waiting<'a>(&self, wire: &'a Wire) -> Option<&'a Flight> {
        wire.unacknowledged().find(|flight| !self.lanes[flight.message.0].is_done(flight.message.1))
    }

    /// The state of the path.
    fn state(&self, now: Instant) -> State {
        let (Some(rtt), Some(shortest)) = (self.gauge.rtt, self.gauge.shortest()) else { return State::Clean };
        let patience = (rtt.smoothed + rtt.variation * 2).max(Duration::from_millis(4));
        let stuck = |wire: &Wire| {
            self.waiting(wire).map_or(0, |flight| {
                u32::try_from(now.since(flight.sent).as_nanos() / patience.as_nanos().max(1)).unwrap_or(u32::MAX)
            })
        };
        let least = self.wires.iter().map(stuck).min().unwrap_or(0);
        state::judge(now, rtt.smoothed, shortest, self.gauge.last_loss, least)
    }

    fn view(&self, now: Instant) -> View {
        View {
            now,
            rtt: self.gauge.rtt,
            shortest: self.gauge.shortest(),
            interval: self.settings.interval.or(self.gauge.sends.interval()),
            jitter: self.gauge.arrivals.jitter,
            tolerance: self.tolerance.times,
            state: self.state(now),
        }
    }

    /// The round-trip estimate, for the caller's statistics.
    pub fn rtt(&self) -> Option<RttEstimate> {
        self.gauge.rtt
    }

    fn hello(&self, connection: u32) -> Hello<'_> {
        let interval = self.settings.interval.map_or(0, |i| u32::try_from(i.as_micros()).unwrap_or(0));
        Hello {
            session: self.session,
            connection,
            interval_micros: interval,
            technique: &self.settings.name,
            goes_on: self.ours,
        }
    }
}
