//! Stories of single packets and sockets, in virtual time.

mod called;
mod contract;
mod datagrams;
mod differential;
mod echoes;
mod endings;
mod hostile;
mod mapped;
mod opening;
mod received;
mod stamps;
mod stream;
mod windows;

use super::{Failure, FlowId, Forwarder, HEADROOM, Input, Output, Packet, Piece, Record, Settings, advance, profile};
use crate::machine::Machine;
use crate::time::{Duration, Instant};
use crate::wire::ip::tcp::{self, Flags, Segment};
use crate::wire::ip::{self, Header, TCP, checksum};
use std::net::SocketAddr;

const APP: &str = "192.0.2.7:4000";
const PEER: &str = "198.51.100.1:80";
/// The program's first number.
const ISS: u32 = 0xffff_ff00;

/// A forwarder, a program that is played by hand, and a socket that takes what it is told to.
struct Rig {
    forwarder: Forwarder,
    now: Instant,
    app: SocketAddr,
    peer: SocketAddr,
    /// What came to the program: headers and data.
    packets: Vec<(Header, Vec<u8>)>,
    /// Everything else, in order.
    did: Vec<Output>,
    /// Bytes that the socket still takes.
    takes: usize,
    /// What the socket has.
    sent: Vec<u8>,
    /// By how many calls.
    calls: usize,
    /// Where urgent bytes are in it.
    urgent: Vec<usize>,
    records: Vec<Record>,
    flow: Option<FlowId>,
    /// The number of the first byte that comes to the program.
    first: u32,
}

impl Rig {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        Self {
            forwarder: Forwarder::new(settings),
            now: Instant::from_millis(1000),
            app: APP.parse().unwrap(),
            peer: PEER.parse().unwrap(),
            packets: Vec::new(),
            did: Vec::new(),
            takes: usize::MAX,
            sent: Vec::new(),
            calls: 0,
            urgent: Vec::new(),
            records: Vec::new(),
            flow: None,
            first: 0,
        }
    }

    /// A rig with an open connection, as a program opens it.
    fn open() -> Self {
        let mut rig = Self::new();
        rig.handshake();
        rig
    }

    fn handshake(&mut self) {
        self.syn();
        let flow = self.flow.unwrap();
        self.input(Input::Connected { flow, mss: Some(1448) });
        let answer = self.segments().pop().expect("an answer").0;
        assert_eq!(answer.acknowledged, ISS.wrapping_add(1));
        self.first = answer.sequence.wrapping_add(1);
        self.app(Flags::ACK, 1, self.first, b"");
        self.packets.clear();
        self.did.clear();
    }

    fn first(&self) -> u32 {
        self.first
    }

    fn syn(&mut self) {
        let segment = Segment { mss: Some(1460), scale: Some(7), ..self.segment(Flags::SYN, 0, 0) };
        self.tell(&segment, b"");
    }

    fn segment(&self, flags: Flags, offset: u32, acknowledged: u32) -> Segment {
        let (source, destination) = (self.app.port(), self.peer.port());
        let sequence = ISS.wrapping_add(offset);
        Segment { source, destination, sequence, acknowledged, flags, window: 1000, ..Segment::default() }
    }

    /// The program sends a segment; `offset` is from its SYN.
    fn app(&mut self, flags: Flags, offset: u32, acknowledged: u32, data: &[u8]) {
        self.tell(&self.segment(flags, offset, acknowledged), data);
    }

    fn tell(&mut self, segment: &Segment, data: &[u8]) {
        let bytes = packet(self.app, self.peer, segment, data);
        self.input(Input::Packet { bytes, segment: None });
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
                    self.packets.push((header, payload.to_vec()));
                }
                Output::Send { flow, mut pieces, urgent } => {
                    assert!(!pieces.is_empty() && (pieces.len() == 1 || !urgent));
                    self.calls += 1;
                    let all: Vec<u8> = pieces.iter().flat_map(Piece::data).copied().collect();
                    let taken = all.len().min(self.takes);
                    self.takes -= taken;
                    self.sent.extend(&all[..taken]);
                    if urgent && taken == all.len() {
                        self.urgent.push(self.sent.len() - 1);
                    }
                    advance(&mut pieces, taken, drop);
                    self.forwarder.handle_input(self.now, Input::Sent { flow, pieces });
                }
                Output::Connect { flow, .. } => {
                    self.flow = Some(flow);
                    self.did.push(output);
                }
                Output::Close { flow, .. } => {
                    self.did.push(output);
                    self.forwarder.handle_input(self.now, Input::Closed { flow, facts: None });
                }
                Output::Record(record) => self.records.push(record),
                other => self.did.push(other),
            }
        }
    }

    /// Time passes, and timers go off.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.forwarder.poll_timeout().filter(|deadline| deadline.at <= end) {
            self.now = self.now.max(deadline.at);
            self.forwarder.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// TCP segments that came to the program since the last look.
    fn segments(&mut self) -> Vec<(Segment, Vec<u8>)> {
        let packets = std::mem::take(&mut self.packets);
        let tcp = packets.into_iter().filter(|(header, _)| header.protocol == TCP);
        tcp.map(|(_, payload)| tcp::parse(&payload).map(|(segment, data)| (segment, data.to_vec())).unwrap()).collect()
    }

    /// The peer's data.
    fn peer(&mut self, data: &[u8]) {
        let mut bytes = vec![0; HEADROOM];
        bytes.extend(data);
        let flow = self.flow.unwrap();
        self.input(Input::Received { flow, bytes, urgent: false });
    }

    fn fails(&mut self, why: Failure) {
        let flow = self.flow.unwrap();
        self.input(Input::Failed { flow, why });
    }

    fn did_close(&self) -> Option<bool> {
        self.did.iter().find_map(|output| match output {
            Output::Close { abrupt, .. } => Some(*abrupt),
            _ => None,
        })
    }

    fn did_shut(&self) -> bool {
        self.did.iter().any(|output| matches!(output, Output::Shutdown { .. }))
    }
}

/// A packet of the program.
fn packet(app: SocketAddr, peer: SocketAddr, segment: &Segment, data: &[u8]) -> Vec<u8> {
    let header = Header {
        source: app.ip(),
        destination: peer.ip(),
        protocol: TCP,
        traffic_class: 0xb8,
        hop_limit: 64,
        whole: true,
        fragment: None,
    };
    tcp::packet(&header, segment, data)
}

/// `len` bytes that are all different from their neighbours.
fn text(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// A packet to a program as its interface makes it: its checksum is filled in.
fn finished(packet: &Packet) -> Vec<u8> {
    let mut bytes = packet.as_slice().to_vec();
    let (start, place) = packet.checksum.expect("the sum of the pseudo header alone");
    let sum = !checksum::fold(checksum::add(0, &bytes[usize::from(start)..]));
    assert_ne!(sum, 0, "which would say that there is none");
    bytes[usize::from(start + place)..][..2].copy_from_slice(&sum.to_be_bytes());
    bytes
}
