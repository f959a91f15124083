//! One connection through a forwarder: a reference TCP at the program's end, a socket at the peer's. The model test and the fuzz target
//! `forwarder_story` play it.
//!
//! After each step: what the socket has is the beginning of what the program said; what the program was sent is, byte for byte, what the
//! peer said, and within the window; nothing is acknowledged that was not said, what is acknowledged and not in the socket fits in
//! the window, and the right edge of a window is never drawn back. Once nothing is lost any more, everything arrives and both close.

use headstart_core::forward::{Agreed, Forwarder, HEADROOM, Input, Output, Piece, Settings, WINDOW, advance};
use headstart_core::machine::Machine;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::tcp::{self, Flags, Segment};
use headstart_core::wire::ip::{self, Header, TCP};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

const APP: &str = "192.0.2.7:4000";
const PEER: &str = "198.51.100.1:80";
/// The number of the program's SYN: numbers go round soon.
const ISS: u32 = 0xffff_f000;
const MSS: usize = 1448;
/// The program's window scale, and what its kernel keeps for it.
const SCALE: u8 = 7;
const ROOM: usize = 96 * 1024;

/// The byte at this place of a stream: differs from its neighbours and between directions.
fn byte(up: bool, at: usize) -> u8 {
    ((at * 7 + at / 251) as u8) ^ if up { 0x55 } else { 0 }
}

fn stream(up: bool, from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|at| byte(up, at)).collect()
}

/// The program's end. Places are counted from the first byte of a stream; the FIN has the place behind the last.
#[derive(Default)]
struct Program {
    /// Up: the first place that is not acknowledged, the next, and how far the window goes.
    unacked: usize,
    next: usize,
    edge: usize,
    /// Where its FIN is, if it has said all.
    end: Option<usize>,
    /// Down: the first number, what is there in order, what came early, how much of it was read, the FIN, and the edge that was told.
    first: u32,
    come: usize,
    early: BTreeMap<usize, usize>,
    read: usize,
    fin: Option<usize>,
    told: usize,
}

/// The peer's end: a socket.
#[derive(Default)]
struct Peer {
    has: usize,
    takes: usize,
    shut: bool,
    written: usize,
    ended: bool,
}

struct Story {
    forwarder: Forwarder,
    now: Instant,
    program: Program,
    peer: Peer,
    flow: headstart_core::forward::FlowId,
    up: VecDeque<Vec<u8>>,
    down: VecDeque<(Segment, Vec<u8>)>,
    /// Gracefully or not.
    closed: Option<bool>,
    /// Both ends have timestamps and ranges; the forwarder's clock as it was told last.
    stamped: bool,
    clock: u32,
}

/// Plays a story.
pub fn play(steps: &[[u8; 4]]) {
    let mut story = Story::open(steps.len() % 2 == 1);
    for step in steps {
        story.step(*step);
        assert!(story.forwarder.waiting() <= WINDOW, "{} bytes wait for a socket", story.forwarder.waiting());
    }
    story.finish();
}

impl Story {
    /// A connection that is open on both sides.
    fn open(stamped: bool) -> Self {
        let mut story = Self {
            forwarder: Forwarder::new(Settings::default()),
            now: Instant::from_millis(1000),
            program: Program { edge: 65_535, told: ROOM, ..Program::default() },
            peer: Peer { takes: 20_000, ..Peer::default() },
            flow: headstart_core::forward::FlowId(0),
            up: VecDeque::new(),
            down: VecDeque::new(),
            closed: None,
            stamped,
            clock: 0,
        };
        let syn = Segment { mss: Some(1460), scale: Some(SCALE), sequence: ISS, flags: Flags::SYN, ..story.segment() };
        story.input(Input::Packet { bytes: packet(&Segment { takes_ranges: stamped, ..syn }, &[]), segment: None });
        let agreed = Agreed { timestamps: true, ranges: true };
        story.input(Input::Agreed { flow: story.flow, agreed });
        story.input(Input::Connected { flow: story.flow, mss: Some(MSS as u16) });
        let (answer, _) = story.down.pop_front().expect("an answer");
        assert_eq!((answer.stamps.is_some(), answer.takes_ranges), (stamped, stamped));
        assert!(answer.flags.has(Flags::SYN | Flags::ACK) && answer.acknowledged == ISS.wrapping_add(1));
        story.program.first = answer.sequence.wrapping_add(1);
        story.acknowledge();
        let bytes = story.up.pop_front().expect("an acknowledgement");
        story.input(Input::Packet { bytes, segment: None });
        story
    }

    fn step(&mut self, [kind, a, low, high]: [u8; 4]) {
        let much = usize::from(u16::from_le_bytes([low, high]));
        match kind % 16 {
            0..=2 => self.says(1 + much % MSS),
            3 => self.says_again(much),
            4 if a < 16 => self.ends(),
            5 | 6 => self.carry_up(usize::from(a), low),
            7 | 8 => self.carry_down(usize::from(a), low & 7 == 7),
            9 => _ = if a & 1 == 0 { self.up.pop_front().is_some() } else { self.down.pop_front().is_some() },
            10 | 11 => self.peer_says(1 + much),
            12 if a < 16 => self.peer_ends(),
            13 => self.takes(much),
            14 => self.program.read = (self.program.read + much).min(self.program.come),
            _ => self.pass(Duration::from_millis(u64::from(low) * if a < 16 { 4 } else { 1 })),
        }
    }

    fn segment(&self) -> Segment {
        let (source, destination) = (4000, 80);
        let window = (self.program.told - self.program.come.min(self.program.told)) >> SCALE;
        let come = self.program.come + usize::from(self.program.fin.is_some_and(|fin| fin == self.program.come));
        let acknowledged = self.program.first.wrapping_add(come as u32);
        let sequence = ISS.wrapping_add(1).wrapping_add(self.program.next as u32);
        Segment {
            source,
            destination,
            sequence,
            acknowledged,
            flags: Flags::ACK,
            window: window as u16,
            stamps: self.stamped.then_some(((self.now.as_nanos() / 1_000_000) as u32, 0)),
            ..Segment::default()
        }
    }

    /// Tells the program's window as it is now, and acknowledges.
    fn acknowledge(&mut self) {
        self.tell_window();
        let segment = self.segment();
        self.up.push_back(packet(&segment, &[]));
    }

    /// A window may have been closed, and its opening lost (RFC 9293, section 3.8.6.1).
    fn probe(&mut self) {
        self.tell_window();
        let segment = self.segment();
        let before = Segment { sequence: segment.sequence.wrapping_sub(1), ..segment };
        self.up.push_back(packet(&before, &[]));
    }

    fn tell_window(&mut self) {
        let (come, read) = (self.program.come, self.program.read);
        let units = (ROOM - (come - read)) >> SCALE;
        self.program.told = self.program.told.max(come + (units << SCALE));
    }

    /// The program sends what is between these places, with its FIN if that is there.
    fn send(&mut self, from: usize, to: usize) {
        self.tell_window();
        let fin = self.program.end == Some(to);
        let flags = if fin { Flags::ACK | Flags::FIN } else { Flags::ACK };
        let segment = Segment { sequence: ISS.wrapping_add(1).wrapping_add(from as u32), flags, ..self.segment() };
        self.up.push_back(packet(&segment, &stream(true, from, to)));
    }

    /// The place behind the last byte that was sent.
    fn data_end(&self) -> usize {
        self.program.end.unwrap_or(self.program.next)
    }

    fn says(&mut self, len: usize) {
        let Program { next, edge, end, .. } = self.program;
        let to = (next + len).min(edge);
        if end.is_none() && to > next {
            self.program.next = to;
            self.send(next, to);
        }
    }

    fn says_again(&mut self, much: usize) {
        let (from, end) = (self.program.unacked, self.data_end());
        if from < self.program.next {
            let from = from + much % (end - from.min(end)).max(1);
            self.send(from.min(end), (from + MSS).min(end));
        }
    }

    fn ends(&mut self) {
        if self.program.end.is_none() && self.program.next < self.program.edge {
            let end = self.program.next;
            self.program.end = Some(end);
            self.program.next += 1;
            self.send(end, end);
        }
    }

    /// One of the next packets comes to the forwarder, by itself or as one of a batch or a row.
    fn carry_up(&mut self, nth: usize, how: u8) {
        let Some(bytes) = self.up.remove(nth % self.up.len().clamp(1, 8)) else { return };
        let (batch, row, twice) = (how & 1 != 0, how & 3 == 3, how & 28 == 28);
        if batch {
            self.input(Input::Batch);
        }
        if row {
            self.input(Input::Row);
        }
        if twice {
            self.input(Input::Packet { bytes: bytes.clone(), segment: None });
        }
        self.input(Input::Packet { bytes, segment: None });
        if row {
            self.input(Input::RowEnd);
        }
        if batch {
            self.input(Input::BatchEnd);
        }
    }

    /// One of the next packets comes to the program.
    fn carry_down(&mut self, nth: usize, twice: bool) {
        let Some((segment, data)) = self.down.remove(nth % self.down.len().clamp(1, 8)) else { return };
        for _ in 0..=usize::from(twice) {
            self.hear(&segment, &data);
        }
    }

    /// RFC 9293, section 3.10.7.4, of a receiver without congestion control.
    fn hear(&mut self, segment: &Segment, data: &[u8]) {
        if segment.flags.has(Flags::RST) {
            // What is late belongs to no connection any more.
            assert_eq!(self.closed, Some(true), "{segment:?}");
            return;
        }
        assert!(segment.flags.has(Flags::ACK), "{segment:?}");
        let acknowledged = segment.acknowledged.wrapping_sub(ISS.wrapping_add(1)) as usize;
        assert!(acknowledged <= self.program.next, "{acknowledged} acknowledged, {} sent", self.program.next);
        let fin = usize::from(self.peer.shut);
        assert!(acknowledged <= self.peer.has + fin + WINDOW, "acknowledged, and kept nowhere");
        let edge = acknowledged + (usize::from(segment.window) << 4);
        self.program.unacked = self.program.unacked.max(acknowledged);
        self.program.edge = self.program.edge.max(edge);
        let at = segment.sequence.wrapping_sub(self.program.first) as i32;
        if data.is_empty() && !segment.flags.has(Flags::FIN) {
            // Something before what is known asks for an answer.
            if at < self.program.come as i32 {
                self.acknowledge();
            }
            return;
        }
        let at = usize::try_from(at).expect("nothing comes before the first byte");
        assert!(
            at + data.len() <= self.program.told,
            "beyond the window: {} of {}",
            at + data.len(),
            self.program.told
        );
        assert!(at + data.len() <= self.peer.written, "that was never written");
        assert!(data == stream(false, at, at + data.len()), "{} bytes at {at} are others", data.len());
        if segment.flags.has(Flags::FIN) {
            assert!(self.peer.ended && at + data.len() == self.peer.written, "an end before the end");
            self.program.fin = Some(at + data.len());
        }
        self.program.early.insert(at, self.program.early.get(&at).copied().unwrap_or(0).max(at + data.len()));
        while let Some((_, end)) = self.program.early.first_key_value().filter(|(at, _)| **at <= self.program.come) {
            self.program.come = self.program.come.max(*end);
            self.program.early.pop_first();
        }
        self.acknowledge();
    }

    fn peer_says(&mut self, most: usize) {
        let room = self.forwarder.room(self.now, self.flow).min(most);
        if room > 0 && !self.peer.ended && self.closed.is_none() {
            let mut bytes = vec![0; HEADROOM];
            bytes.extend(stream(false, self.peer.written, self.peer.written + room));
            self.peer.written += room;
            self.input(Input::Received { flow: self.flow, bytes, urgent: false });
        }
    }

    fn peer_ends(&mut self) {
        if !std::mem::replace(&mut self.peer.ended, true) && self.closed.is_none() {
            self.input(Input::Ended { flow: self.flow });
        }
    }

    fn takes(&mut self, more: usize) {
        self.peer.takes = self.peer.takes.saturating_add(more);
        self.input(Input::Writable { flow: self.flow });
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.forwarder.poll_timeout().filter(|deadline| deadline.at <= end) {
            self.now = self.now.max(deadline.at);
            self.forwarder.handle_timeout(self.now);
            self.drain();
            let next = self.forwarder.poll_timeout();
            assert!(next.is_none_or(|next| next.at > self.now), "a timer that has gone off is still there: {next:?}");
        }
        self.now = end;
    }

    fn input(&mut self, input: Input) {
        self.forwarder.handle_input(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.forwarder.poll_output() {
            match output {
                Output::Packet(packet) => {
                    let (header, payload) = ip::parse(packet.as_slice()).expect("a packet");
                    assert_eq!((header.protocol, header.destination), (TCP, app().ip()));
                    let (segment, data) = tcp::parse(payload).expect("a segment");
                    if let Some((clock, _)) = segment.stamps.filter(|_| self.clock != 0) {
                        assert!(!tcp::before(clock, self.clock), "the clock goes back");
                    }
                    assert!(segment.stamps.is_some() == self.stamped || segment.flags.has(Flags::RST), "{segment:?}");
                    self.clock = segment.stamps.map_or(self.clock, |(clock, _)| clock);
                    self.down.push_back((segment, data.to_vec()));
                }
                Output::Connect { flow, .. } => self.flow = flow,
                Output::Send { flow, pieces, .. } => self.socket_takes(flow, pieces),
                Output::Shutdown { .. } => {
                    assert!(self.program.end == Some(self.peer.has) && !self.peer.shut, "shut at {}", self.peer.has);
                    self.peer.shut = true;
                }
                Output::KeepAlive { flow } => self.forwarder.handle_input(self.now, Input::Alive { flow }),
                Output::Close { flow, abrupt } => {
                    assert!(self.closed.is_none(), "closed twice");
                    self.closed = Some(!abrupt);
                    self.forwarder.handle_input(self.now, Input::Closed { flow, facts: None });
                }
                Output::TimeOut { .. } => panic!("nothing has timed out"),
                _ => {}
            }
        }
    }

    fn socket_takes(&mut self, flow: headstart_core::forward::FlowId, mut pieces: VecDeque<Piece>) {
        assert!(!self.peer.shut, "behind the end");
        let all: Vec<u8> = pieces.iter().flat_map(Piece::data).copied().collect();
        let has = self.peer.has;
        assert!(all == stream(true, has, has + all.len()), "{} bytes at {has} are others", all.len());
        assert!(has + all.len() <= self.data_end(), "that was never written");
        let taken = all.len().min(self.peer.takes);
        self.peer.takes -= taken;
        self.peer.has += taken;
        advance(&mut pieces, taken, drop);
        self.forwarder.handle_input(self.now, Input::Sent { flow, pieces });
    }

    /// Nothing is lost any more, and both sides take everything and end.
    fn finish(&mut self) {
        self.takes(usize::MAX / 2);
        for _ in 0..400 {
            while !self.up.is_empty() || !self.down.is_empty() {
                self.carry_up(0, 0);
                self.carry_down(0, false);
                self.program.read = self.program.come;
            }
            if self.closed.is_some() {
                break;
            }
            self.peer_ends();
            self.ends();
            let (from, end) = (self.program.unacked, self.data_end());
            if self.program.next > from {
                self.send(from.min(end), (from + MSS).min(end))
            } else {
                self.probe()
            }
            self.pass(Duration::from_millis(250));
        }
        assert_eq!(self.closed, Some(true), "it never ends, or by a reset");
        assert_eq!((self.peer.has, self.peer.shut), (self.data_end(), true), "up");
        assert_eq!((self.program.come, self.program.fin), (self.peer.written, Some(self.peer.written)), "down");
        assert_eq!(self.forwarder.waiting(), 0);
    }
}

fn app() -> SocketAddr {
    APP.parse().expect("an address")
}

/// A packet of the program.
fn packet(segment: &Segment, data: &[u8]) -> Vec<u8> {
    let peer: SocketAddr = PEER.parse().expect("an address");
    let (source, destination) = (app().ip(), peer.ip());
    let header =
        Header { source, destination, protocol: TCP, traffic_class: 0, hop_limit: 64, whole: true, fragment: None };
    tcp::packet(&header, segment, data)
}
