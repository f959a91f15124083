//! A program and its peer over a link in virtual time, with the forwarder of an engine between them or without: handshakes, requests,
//! a stream of messages, datagrams.
//!
//! The forwarder is `core`'s, with any profile; it is read at that profile's [`Pace`], as `io`'s worker reads it. The program's own
//! kernel is played by hand: it loses nothing, and acknowledges each packet. Of the forwarder's kernel there is what these
//! measurements turn on: Nagle's algorithm (RFC 9293, section 3.7.4). No time is spent on computing.
//!
//! [`Pace`]: headstart_core::forward::pace::Pace

use super::driver::Driven;
use headstart_core::forward::pace::Sleeper;
use headstart_core::forward::profile::Entry;
use headstart_core::forward::{FlowId, Forwarder, HEADROOM, Input, Output, Piece, Settings};
use headstart_core::machine::Machine;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::tcp::{self, Flags, Segment};
use headstart_core::wire::ip::{self, Header, TCP, UDP, udp};
use headstart_link::medium::Way;
use headstart_link::{Duplex, Packet, ParseError, parse_duplex};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const APP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 4000);
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 443);
/// The largest payload of a segment over a path of 1500 bytes, and headers of IPv4 and TCP.
const MSS: u16 = 1460;
const HEADERS: usize = 40;
const UDP_HEADERS: usize = 28;
/// No measurement waits longer for one event: nothing here is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// What crosses the link; payload in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    Handshake,
    Acknowledged(usize),
    Data(usize),
    Datagram(usize),
}

impl Packet for Carried {
    fn wire_len(&self) -> usize {
        match *self {
            Self::Handshake | Self::Acknowledged(_) => HEADERS,
            Self::Data(len) => HEADERS + len,
            Self::Datagram(len) => UDP_HEADERS + len,
        }
    }
}

/// The sending half of a kernel's socket.
struct Socket {
    no_delay: bool,
    unsent: usize,
    on_the_way: usize,
}

impl Socket {
    /// The next segment to go.
    fn next(&mut self) -> Option<usize> {
        let len = self.unsent.min(MSS.into());
        // Nagle: less than a whole segment goes only when nothing is on its way.
        let goes = len > 0 && (self.no_delay || len == usize::from(MSS) || self.on_the_way == 0);
        goes.then(|| {
            self.unsent -= len;
            self.on_the_way += len;
            len
        })
    }
}

/// A forwarder, and who reads for it.
struct Between {
    forwarder: Forwarder,
    flow: Option<FlowId>,
    programs: Sleeper,
    peers: Sleeper,
    from_program: VecDeque<Vec<u8>>,
    from_peer: VecDeque<usize>,
}

/// See the module.
pub struct Tunnel {
    now: Instant,
    link: Duplex<Carried>,
    between: Option<Between>,
    socket: Socket,
    /// The next byte that the program sends, and that it expects.
    sequence: u32,
    expected: u32,
    connected: Option<Instant>,
    /// The longest segment that the program was told to send.
    mss: u16,
    /// When data came to the program, and packets with data to the peer.
    near: Vec<Instant>,
    far: Vec<Instant>,
    /// The peer answers with as much as it gets.
    answers: bool,
}

impl Driven for Tunnel {
    fn deadline(&mut self) -> Option<Instant> {
        let sleeps = self.between.as_ref().map(|between| {
            let peers = between.peers.until().filter(|_| between.flow.is_some());
            [between.programs.until(), peers, between.forwarder.poll_timeout().map(|deadline| deadline.at)]
        });
        let link = self.link.poll_timeout().map(|deadline| deadline.at);
        sleeps.into_iter().flatten().flatten().chain(link).min()
    }

    fn woken(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some((_, way, what)) = self.link.poll(self.now) {
            match way {
                Way::Up => self.arrived(what),
                Way::Down => self.came_back(what),
            }
        }
        let due = |sleeper: &Sleeper| sleeper.until().is_some_and(|until| until <= self.now);
        let (programs, peers) = self.between.as_ref().map_or((false, false), |b| (due(&b.programs), due(&b.peers)));
        if programs {
            self.read_program();
        }
        if peers {
            self.read_peer();
        }
        if let Some(between) = &mut self.between {
            between.forwarder.wake(self.now);
        }
        self.carry_out();
    }
}

impl Tunnel {
    /// Over `link`, through a forwarder of this profile or without one; the program has TCP_NODELAY set.
    pub fn new(link: &str, profile: Option<&'static Entry>, seed: u64) -> Result<Self, ParseError> {
        let between = profile.map(|profile| Between {
            forwarder: Forwarder::new(Settings { seed, profile, ..Settings::default() }),
            flow: None,
            programs: Sleeper::new(profile.programs),
            peers: Sleeper::new(profile.peers),
            from_program: VecDeque::new(),
            from_peer: VecDeque::new(),
        });
        Ok(Self {
            now: Instant::ZERO,
            link: Duplex::new(&parse_duplex(link)?, seed),
            between,
            socket: Socket { no_delay: true, unsent: 0, on_the_way: 0 },
            sequence: 1,
            expected: 0,
            connected: None,
            mss: MSS,
            near: Vec::new(),
            far: Vec::new(),
            answers: false,
        })
    }

    /// Connects after `rest`; how long it took.
    pub fn connect(&mut self, rest: Duration) -> Option<Duration> {
        self.run(self.now + rest, |_| false);
        let began = self.now;
        let syn = Segment { mss: Some(MSS), scale: Some(7), sequence: 0, flags: Flags::SYN, ..self.segment() };
        match self.between {
            Some(_) => self.hand_to_forwarder(tcp::packet(&header(TCP), &syn, &[])),
            None => self.send(Carried::Handshake),
        }
        self.run(began + PATIENCE, |t| t.connected.is_some());
        self.connected.map(|at| at - began)
    }

    /// The longest TCP packet that the program may send, in bytes.
    pub fn longest_packet(&self) -> usize {
        HEADERS + usize::from(self.mss)
    }

    /// Sends `len` bytes and waits for as many; how long it took.
    pub fn ask(&mut self, len: usize) -> Option<Duration> {
        self.answers = true;
        let (began, before) = (self.now, self.near.len());
        self.say(len);
        self.run(began + PATIENCE, |t| t.near.len() > before);
        self.near.get(before).map(|at| *at - began)
    }

    /// Sends `count` messages at this distance; the times between packets with data where the link ends.
    pub fn stream(&mut self, count: u32, len: usize, apart: Duration, over_udp: bool) -> Vec<Duration> {
        let start = self.now;
        for n in 0..count {
            self.run(start + apart * n, |_| false);
            if over_udp { self.say_by_datagram(len) } else { self.say(len) }
        }
        // The last ones come too: no forwarder sleeps so long.
        self.run(self.now + Duration::from_secs(1), |_| false);
        gaps(&self.far)
    }

    /// The peer sends `count` messages at this distance; the times between them in the program.
    pub fn listen(&mut self, count: u32, len: usize, apart: Duration) -> Vec<Duration> {
        let (start, before) = (self.now, self.near.len());
        for n in 0..count {
            self.run(start + apart * n, |_| false);
            let _ = self.link.push(self.now, Way::Down, Carried::Data(len));
        }
        self.run(self.now + Duration::from_secs(1), |_| false);
        gaps(&self.near[before..])
    }

    fn segment(&self) -> Segment {
        let (source, destination) = (APP.port(), PEER.port());
        let (sequence, acknowledged) = (self.sequence, self.expected);
        Segment { source, destination, sequence, acknowledged, flags: Flags::ACK, window: 1000, ..Segment::default() }
    }

    /// The program writes to its connection.
    fn say(&mut self, len: usize) {
        match self.between {
            Some(_) => {
                let segment = Segment { flags: Flags::ACK | Flags::PSH, ..self.segment() };
                self.sequence = self.sequence.wrapping_add(len as u32);
                self.hand_to_forwarder(tcp::packet(&header(TCP), &segment, &vec![7; len]));
            }
            None => self.write(len),
        }
    }

    fn say_by_datagram(&mut self, len: usize) {
        if self.between.is_none() {
            return self.send(Carried::Datagram(len));
        }
        let start = ip::header_len(PEER.ip());
        let mut bytes = vec![0; start + udp::HEADER];
        ip::write(&header(UDP), udp::HEADER + len, &mut bytes);
        udp::write(APP.port(), PEER.port(), len, &mut bytes[start..]);
        bytes.resize(start + udp::HEADER + len, 7);
        self.hand_to_forwarder(bytes);
    }

    /// A packet of the program is in the interface.
    fn hand_to_forwarder(&mut self, packet: Vec<u8>) {
        let Some(between) = &mut self.between else { return };
        between.from_program.push_back(packet);
        if between.programs.until().is_none() {
            self.read_program();
        }
    }

    fn read_program(&mut self) {
        let Some(between) = &mut self.between else { return };
        let found = !between.from_program.is_empty();
        between.forwarder.handle_input(self.now, Input::Batch);
        while let Some(bytes) = between.from_program.pop_front() {
            between.forwarder.handle_input(self.now, Input::Packet { bytes, segment: None });
        }
        between.forwarder.handle_input(self.now, Input::BatchEnd);
        // It reads until there is nothing, and then sleeps.
        [found, false].into_iter().skip(usize::from(!found)).for_each(|found| between.programs.read(self.now, found));
        self.carry_out();
    }

    fn read_peer(&mut self) {
        let Some(between) = &mut self.between else { return };
        let Some(flow) = between.flow else { return };
        let found = !between.from_peer.is_empty();
        while let Some(len) = between.from_peer.pop_front() {
            let bytes = [vec![0; HEADROOM], vec![7; len]].concat();
            between.forwarder.handle_input(self.now, Input::Received { flow, bytes, urgent: false });
        }
        [found, false].into_iter().skip(usize::from(!found)).for_each(|found| between.peers.read(self.now, found));
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.between.as_mut().and_then(|between| between.forwarder.poll_output()) {
            match output {
                Output::Connect { flow, no_delay, .. } => {
                    self.between.iter_mut().for_each(|between| between.flow = Some(flow));
                    self.socket.no_delay = no_delay;
                    self.send(Carried::Handshake);
                }
                Output::Send { flow, pieces, .. } => {
                    let len = pieces.iter().map(|piece: &Piece| piece.data().len()).sum();
                    self.write(len);
                    self.tell(Input::Sent { flow, pieces: VecDeque::new() });
                }
                Output::Datagram { bytes, from, .. } => self.send(Carried::Datagram(bytes.len() - from)),
                Output::Packet(packet) => self.hand_to_program(packet.as_slice()),
                // Where options cannot be read, as on a phone, nothing is mirrored; the rest is of endings, which are not played.
                _ => {}
            }
        }
    }

    fn tell(&mut self, input: Input) {
        if let Some(between) = &mut self.between {
            between.forwarder.handle_input(self.now, input);
        }
    }

    /// A packet for the program.
    fn hand_to_program(&mut self, packet: &[u8]) {
        let Some((segment, data)) = ip::parse(packet).and_then(|(_, payload)| tcp::parse(payload)) else { return };
        if segment.flags.has(Flags::SYN) {
            self.connected.get_or_insert(self.now);
            self.mss = segment.mss.unwrap_or(self.mss);
            self.expected = segment.sequence.wrapping_add(1);
        } else if data.is_empty() || segment.sequence != self.expected {
            return;
        } else {
            self.near.push(self.now);
            self.expected = self.expected.wrapping_add(data.len() as u32);
        }
        let answer = tcp::packet(&header(TCP), &self.segment(), &[]);
        self.hand_to_forwarder(answer);
    }

    /// The socket gets data to send.
    fn write(&mut self, len: usize) {
        self.socket.unsent += len;
        self.push();
    }

    fn push(&mut self) {
        while let Some(len) = self.socket.next() {
            self.send(Carried::Data(len));
        }
    }

    fn send(&mut self, what: Carried) {
        // The links that are measured over have no end of room.
        let _ = self.link.push(self.now, Way::Up, what);
    }

    /// Something has reached the peer.
    fn arrived(&mut self, what: Carried) {
        let answer = match what {
            Carried::Handshake => Some(Carried::Handshake),
            Carried::Acknowledged(_) => None,
            Carried::Data(len) => Some(Carried::Acknowledged(len)),
            Carried::Datagram(_) => None,
        };
        if matches!(what, Carried::Data(_) | Carried::Datagram(_)) {
            self.far.push(self.now);
        }
        let data = Some(what).filter(|what| self.answers && matches!(what, Carried::Data(_)));
        for packet in answer.into_iter().chain(data) {
            let _ = self.link.push(self.now, Way::Down, packet);
        }
    }

    /// Something has come back from the peer.
    fn came_back(&mut self, what: Carried) {
        match (what, &mut self.between) {
            (Carried::Handshake, Some(between)) => {
                if let Some(flow) = between.flow {
                    self.tell(Input::Connected { flow, mss: Some(MSS) });
                    self.carry_out();
                }
            }
            (Carried::Handshake, None) => self.connected = Some(self.now),
            (Carried::Acknowledged(len), _) => {
                self.socket.on_the_way -= len;
                self.push();
            }
            (Carried::Data(len), Some(between)) => {
                between.from_peer.push_back(len);
                if between.peers.until().is_none() {
                    self.read_peer();
                }
            }
            (Carried::Data(_), None) => self.near.push(self.now),
            (Carried::Datagram(_), _) => {}
        }
    }
}

fn header(protocol: u8) -> Header {
    Header {
        source: APP.ip(),
        destination: PEER.ip(),
        protocol,
        traffic_class: 0,
        hop_limit: 64,
        whole: true,
        fragment: None,
    }
}

fn gaps(times: &[Instant]) -> Vec<Duration> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::forward::profile;

    const LINK: &str = "rate=50mbit,delay=10ms";
    const MS: Duration = Duration::from_millis(1);

    fn tunnel(profile: Option<&str>) -> Tunnel {
        Tunnel::new(LINK, profile.map(|name| profile::find(name).unwrap()), 1).unwrap()
    }

    #[test]
    fn through_our_forwarder_all_takes_as_long_as_without_one_and_through_one_that_sleeps_it_does_not() {
        let of = |profile| {
            let mut t = tunnel(profile);
            let connect = t.connect(50 * MS).unwrap();
            (connect, t.ask(64).unwrap(), t.longest_packet())
        };
        let (bare, ours, sleepy) = (of(None), of(Some("ours")), of(Some("sleepy-64k")));
        assert!(bare.0 >= 20 * MS && bare.0 < 21 * MS, "{bare:?}");
        assert_eq!(ours, bare);
        assert!(sleepy.1 > 50 * MS && sleepy.2 > 60_000, "{sleepy:?}");
    }

    #[test]
    fn one_that_answers_early_connects_in_no_time() {
        assert!(tunnel(Some("early-synack")).connect(MS).unwrap() < MS);
    }

    #[test]
    fn messages_go_one_by_one_unless_nagles_algorithm_holds_them() {
        let long = |profile| {
            let mut t = tunnel(profile);
            t.connect(MS);
            t.stream(50, 1300, 15 * MS, false).iter().filter(|gap| **gap > 16 * MS).count()
        };
        assert_eq!((long(None), long(Some("ours"))), (0, 0));
        // It reads what programs send at once, and has lost their TCP_NODELAY.
        assert!(long(Some("early-synack")) > 5, "{}", long(Some("early-synack")));
    }

    #[test]
    fn datagrams_and_what_comes_in_are_all_there() {
        for profile in [None, Some("ours"), Some("adaptive-sleep"), Some("sleepy-64k"), Some("early-synack")] {
            let mut t = tunnel(profile);
            assert_eq!(t.stream(30, 160, 20 * MS, true).len(), 29, "{profile:?}");
            let mut t = tunnel(profile);
            t.connect(MS);
            assert_eq!(t.listen(30, 1300, 20 * MS).iter().sum::<Duration>().as_millis() / 100, 5, "{profile:?}");
        }
    }
}
