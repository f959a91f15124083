//! What was seen of a flow, as it was seen: times and counts, from which [`meter`](super::meter) makes numbers.

use super::FlowId;
use crate::time::{Duration, Instant};
use std::net::SocketAddr;

/// What a host knows of a connection of its own (TCP_INFO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest one, if known.
    pub min_rtt: Option<Duration>,
    /// Segments that were retransmitted.
    pub retransmissions: u32,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowEnd {
    /// It has not.
    #[default]
    Open,
    /// Both sides had said all.
    Finished,
    /// The program reset it.
    ResetByProgram,
    /// The peer reset it.
    ResetByPeer,
    /// No program listened.
    Refused,
    /// No way led there.
    Unreachable,
    /// The peer did not answer.
    Silent,
    /// This host could not.
    Failed,
}

impl FlowEnd {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Finished => "finished",
            Self::ResetByProgram => "reset-by-program",
            Self::ResetByPeer => "reset-by-peer",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::Failed => "failed",
        }
    }
}

/// Times between packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    pub(super) last: Option<Instant>,
    /// How many there are.
    pub count: u64,
    /// All of them together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
    /// How many there are below 1, 2, 4 … 16384 ms, each counted once, and last those above.
    pub histogram: [u32; 16],
}

impl Gaps {
    /// A packet came by.
    pub(super) fn packet(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.since(last);
            self.count += 1;
            self.total += gap;
            self.longest = self.longest.max(gap);
            let place = (0..15).find(|n| gap.as_millis() < 1 << n).unwrap_or(15);
            self.histogram[place] += 1;
        }
    }
}

/// Round trips that were timed one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trips {
    /// How many there are.
    pub count: u64,
    /// All of them together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Trips {
    /// One more.
    pub(super) fn trip(&mut self, took: Duration) {
        self.count += 1;
        self.total = self.total.saturating_add(took);
        self.longest = self.longest.max(took);
    }
}

/// Data, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes.
    pub bytes: u64,
    /// The time that they took.
    pub took: Duration,
}

impl Transfer {
    /// So much more, in so long.
    pub(super) fn more(&mut self, bytes: u64, took: Duration) {
        self.bytes += bytes;
        self.took = self.took.saturating_add(took);
    }
}

/// A silence that is longer than this, and than two round trips, is the sender's pause and not the network's. 200 ms: what is lost
/// is retransmitted by then (RFC 6298 as Linux has it).
const PAUSE: Duration = Duration::from_millis(200);

/// What was seen of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Bytes of data.
    pub bytes: u64,
    /// Segments or datagrams with data.
    pub packets: u64,
    /// When the first came.
    pub first: Option<Instant>,
    /// When the last came.
    pub last: Option<Instant>,
    /// Times between them.
    pub gaps: Gaps,
    /// What came behind something else without a pause between, and the times between.
    pub without_pauses: Transfer,
}

impl Direction {
    /// Data came by, in `packets` pieces; a round trip takes so long, if that is known.
    pub(super) fn data(&mut self, now: Instant, bytes: usize, packets: usize, trip: Option<Duration>) {
        let gap = self.last.map(|last| now.since(last));
        if let Some(gap) = gap.filter(|gap| *gap <= PAUSE.max(trip.unwrap_or_default() * 2)) {
            self.without_pauses.more(bytes as u64, gap);
        }
        self.bytes += bytes as u64;
        self.packets += packets as u64;
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.gaps.packet(now);
    }
}

/// Places of the kernel's histogram of round trips.
pub(super) const TRIPS: usize = 80;
/// Its first place is for what is below two to this power of microseconds.
const TRIPS_FROM: u32 = 4;

/// What only the kernel tells of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpStats {
    /// A peer asked for it, and the program listened.
    pub accepted: bool,
    /// It was open before the measurement began, so that neither its handshake nor the process that opened it is known.
    pub before: bool,
    /// Segments that the kernel took for lost.
    pub lost: u32,
    /// How often segments came in another order than they were sent in.
    pub reordered: u32,
    /// Who ended it first, be it by a FIN or by a reset.
    pub closed_by: Option<Side>,
    /// Times from the program's latest data until the peer's next came.
    pub answers: Trips,
    /// What it waited for; none of a connection that was open before the measurement.
    pub limits: Option<Limits>,
    /// The kernel's latest sample of the rate at which data reaches the peer: so many bytes in this time.
    pub delivery: Option<(u64, Duration)>,
    /// It is a subflow of a connection of MPTCP (RFC 8684): that connection's token, the same for all of its subflows.
    pub mptcp: Option<u32>,
    /// Smoothed round trips, one for each that was taken: how many there are in each place.
    pub(super) trips: Vec<u32>,
}

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program.
    Program,
    /// Its peer.
    Peer,
}

impl Side {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Peer => "peer",
        }
    }
}

/// For how long a connection waited for what, of its time from the handshake to its end or until now. They add up to that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The program: it had sent nothing that was not acknowledged.
    pub application: Duration,
    /// The congestion window and acknowledgements: the network.
    pub network: Duration,
    /// The receive window of the peer.
    pub receiver: Duration,
    /// The program's own send buffer.
    pub buffer: Duration,
}

impl TcpStats {
    /// What this share of all smoothed round trips does not exceed, as the middle of its place: off by an eighth at most.
    pub fn round_trip(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.trips.iter().map(|count| u64::from(*count)).sum();
        let mut left = (all as f64 * share).ceil().max(1.0) as u64;
        let place = self.trips.iter().position(|count| {
            left = left.saturating_sub(u64::from(*count));
            left == 0
        });
        (all > 0).then(|| Duration::from_micros(middle(place.unwrap_or(TRIPS - 1))))
    }
}

/// The middle of a place of the histogram, in microseconds: four for each doubling.
fn middle(place: usize) -> u64 {
    let (doubling, quarter) = (place as u32 / 4 + TRIPS_FROM, place as u64 % 4);
    let width = 1u64 << (doubling - 2);
    (4 + quarter) * width + width / 2
}

/// What was seen of a TCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its name in the forwarder.
    pub id: FlowId,
    /// The program's end.
    pub app: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// When the program, or the peer, asked for it.
    pub asked: Instant,
    /// When the peer was connected, or the program where the peer has asked.
    pub connected: Option<Instant>,
    /// How long its handshake took by the kernel that made it, if that tells.
    pub handshake: Option<Duration>,
    /// The peer asked for it, and the forwarder has carried that to the program.
    pub accepted: bool,
    /// Where a race over the addresses of the peer's name has led it, if one was run: perhaps not to the peer's own. How long it
    /// took says nothing of a connection without a race.
    pub accelerated: Option<SocketAddr>,
    /// That connection was begun before the program's SYN came.
    pub ahead: bool,
    /// Data of the program.
    pub up: Direction,
    /// Data of the peer.
    pub down: Direction,
    /// When the first record of TLS came from the program, if one did, and the peer's answer.
    pub hello: (Option<Instant>, Option<Instant>),
    /// Data of the program that the peer has acknowledged, and the time in which some was on its way.
    pub delivered: Transfer,
    /// What the host knew of its connection to the peer.
    pub facts: Option<Facts>,
    /// From the last bytes of what the program said to the peer's acknowledgement of them, where that is timed.
    pub requests: Trips,
    /// Segments that had to be retransmitted between the program and here.
    pub local_retransmissions: u32,
    /// Statistics that only the kernel has; none for a flow that the forwarder carried.
    pub kernel_stats: Option<Box<TcpStats>>,
    /// How it ended.
    pub end: FlowEnd,
    /// When it ended.
    pub ended: Option<Instant>,
}

impl Flow {
    pub(super) fn new(id: FlowId, (app, peer): (SocketAddr, SocketAddr), asked: Instant) -> Self {
        Self {
            id,
            app,
            peer,
            asked,
            connected: None,
            handshake: None,
            accepted: false,
            accelerated: None,
            ahead: false,
            up: Direction::default(),
            down: Direction::default(),
            hello: (None, None),
            delivered: Transfer::default(),
            facts: None,
            requests: Trips::default(),
            local_retransmissions: 0,
            kernel_stats: None,
            end: FlowEnd::Open,
            ended: None,
        }
    }

    /// Whether the program accepted it: the peer asked for it.
    pub fn is_accepted(&self) -> bool {
        self.accepted || self.kernel_stats.as_ref().is_some_and(|stats| stats.accepted)
    }

    /// The program has sent `data`, of which this is the beginning.
    pub(super) fn sent(&mut self, now: Instant, data: &[u8], segments: usize) {
        if self.up.packets == 0 && is_tls(data, 1) {
            self.hello.0 = Some(now);
        }
        self.up.data(now, data.len(), segments, self.handshake);
    }

    /// The peer has sent `data`.
    pub(super) fn received(&mut self, now: Instant, data: &[u8], segments: usize) {
        if self.down.packets == 0 && self.hello.0.is_some() && is_tls(data, 2) {
            self.hello.1 = Some(now);
        }
        self.down.data(now, data.len(), segments, self.handshake);
    }

    pub(super) fn end(&mut self, now: Instant, how: FlowEnd) {
        if self.end == FlowEnd::Open {
            self.end = how;
            self.ended = Some(now);
        }
    }
}

/// Whether a record of TLS begins here with a handshake message of this type (RFC 8446, section 5.1 and 4).
fn is_tls(data: &[u8], message: u8) -> bool {
    matches!(data, [22, 3, _, _, _, kind, ..] if *kind == message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_where_they_belong() {
        let mut gaps = Gaps::default();
        for millis in [0, 20, 40, 140, 140, 144] {
            gaps.packet(Instant::from_millis(millis));
        }
        assert_eq!((gaps.count, gaps.longest, gaps.total), (5, Duration::from_millis(100), Duration::from_millis(144)));
        let mut expected = [0; 16];
        // 4 ms are not below 4 ms.
        (expected[0], expected[3], expected[5], expected[7]) = (1, 1, 2, 1);
        assert_eq!(gaps.histogram, expected);
    }

    #[test]
    fn a_tls_handshake_is_timed_from_hello_to_hello() {
        let end = "192.0.2.1:1".parse().unwrap();
        let mut flow = Flow::new(FlowId(0), (end, end), Instant::ZERO);
        flow.sent(Instant::from_millis(1), &[22, 3, 1, 0, 9, 1, 0], 1);
        flow.received(Instant::from_millis(9), &[22, 3, 3, 0, 9, 2, 0], 1);
        assert_eq!(flow.hello, (Some(Instant::from_millis(1)), Some(Instant::from_millis(9))));
        let mut flow = Flow::new(FlowId(0), (end, end), Instant::ZERO);
        flow.sent(Instant::from_millis(1), b"GET / HTTP/1.1", 1);
        flow.received(Instant::from_millis(9), &[22, 3, 3, 0, 9, 2, 0], 1);
        assert_eq!(flow.hello, (None, None), "the program has not said hello");
    }

    #[test]
    fn a_silence_is_a_pause_where_it_is_longer_than_two_round_trips() {
        let counted = |gap, trip: Option<u64>| {
            let mut direction = Direction::default();
            for at in [0, gap] {
                direction.data(Instant::from_millis(at), 100, 1, trip.map(Duration::from_millis));
            }
            direction.without_pauses.took == Duration::from_millis(gap)
        };
        assert!(counted(200, None) && !counted(201, None));
        assert!(counted(600, Some(300)) && !counted(601, Some(300)));
        assert!(counted(200, Some(5)), "of what is near, too");
    }

    #[test]
    fn every_end_has_a_name_of_its_own() {
        let all = [
            FlowEnd::Open,
            FlowEnd::Finished,
            FlowEnd::ResetByProgram,
            FlowEnd::ResetByPeer,
            FlowEnd::Refused,
            FlowEnd::Unreachable,
            FlowEnd::Silent,
            FlowEnd::Failed,
        ];
        let names: std::collections::BTreeSet<_> = all.map(FlowEnd::name).into();
        assert_eq!(names.len(), all.len());
        assert!(names.iter().all(|name| format!("{all:?}").to_lowercase().contains(&name.replace('-', ""))));
    }

    #[test]
    fn the_middle_of_each_place_of_round_trips_is_an_eighth_from_its_edges_at_most() {
        // Places as the kernel's programs count them: by the highest bit and the two behind it.
        for us in (16..100_000u64).step_by(7) {
            let doubling = us.ilog2();
            let place = 4 * (doubling - TRIPS_FROM) as usize + (us >> (doubling - 2)) as usize % 4;
            assert!(middle(place).abs_diff(us) * 8 <= us, "{us}: {}", middle(place));
        }
    }
}
