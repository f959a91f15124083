//! What the forwarder allocates for a packet in steady state, counted by an allocator of this process's own: a buffer for what it
//! writes itself; what passes through is neither copied nor put elsewhere.

use headstart_core::forward::{FlowId, Forwarder, HEADROOM, Input, Output, Settings};
use headstart_core::machine::Machine;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::tcp::{self, Flags, Segment};
use headstart_core::wire::ip::{self, Header, TCP};
use std::net::SocketAddr;

const PACKETS: u32 = 10_000;
const DATA: u32 = 1448;

/// A program's end and what has come of it, with an open connection.
struct Rig {
    forwarder: Forwarder,
    now: Instant,
    flow: FlowId,
    /// The number of the first byte for the program.
    first: u32,
    /// Packets and bytes for the program since the last look.
    packets: u64,
    heard: u64,
    /// Bytes for the peer.
    sent: u64,
}

fn packet(flags: Flags, sequence: u32, acknowledged: u32, data: &[u8]) -> Vec<u8> {
    let (app, peer): (SocketAddr, SocketAddr) = ("192.0.2.7:4000".parse().unwrap(), "198.51.100.1:80".parse().unwrap());
    let (mss, scale) = if flags.has(Flags::SYN) { (Some(1460), Some(7)) } else { (None, None) };
    let (source, destination) = (app.port(), peer.port());
    let segment = Segment {
        source,
        destination,
        sequence,
        acknowledged,
        flags,
        window: 60_000,
        mss,
        scale,
        ..Segment::default()
    };
    let header = Header {
        source: app.ip(),
        destination: peer.ip(),
        protocol: TCP,
        traffic_class: 0,
        hop_limit: 64,
        whole: true,
        fragment: None,
    };
    tcp::packet(&header, &segment, data)
}

impl Rig {
    fn new() -> Self {
        let forwarder = Forwarder::new(Settings::default());
        let (now, flow) = (Instant::from_millis(1000), FlowId(0));
        let mut rig = Self { forwarder, now, flow, first: 0, packets: 0, heard: 0, sent: 0 };
        rig.input(Input::Packet { bytes: packet(Flags::SYN, 0, 0, b""), segment: None });
        rig.input(Input::Connected { flow: rig.flow, mss: Some(1448) });
        rig.input(Input::Packet { bytes: packet(Flags::ACK, 1, rig.first, b""), segment: None });
        rig
    }

    fn input(&mut self, input: Input) {
        self.now += Duration::from_micros(10);
        self.forwarder.handle_input(self.now, input);
        if self.forwarder.poll_timeout().is_some_and(|due| due.at <= self.now) {
            self.forwarder.handle_timeout(self.now);
        }
        while let Some(output) = self.forwarder.poll_output() {
            match output {
                Output::Connect { flow, .. } => self.flow = flow,
                Output::Packet(packet) => {
                    let (_, payload) = ip::parse(packet.as_slice()).expect("a packet");
                    let (segment, data) = tcp::parse(payload).expect("a segment");
                    if segment.flags.has(Flags::SYN) {
                        self.first = segment.sequence.wrapping_add(1);
                    }
                    self.packets += 1;
                    self.heard += data.len() as u64;
                }
                Output::Send { flow, mut pieces, .. } => {
                    self.sent += pieces.iter().map(|piece| piece.data().len() as u64).sum::<u64>();
                    pieces.clear();
                    self.forwarder.handle_input(self.now, Input::Sent { flow, pieces });
                }
                _ => {}
            }
        }
    }
}

#[test]
fn what_a_program_sends_costs_only_the_answers_own_buffer() {
    let mut rig = Rig::new();
    let all: Vec<_> = (0..2 * PACKETS)
        .map(|n| packet(Flags::ACK, 1 + n * DATA, rig.first, &[7; DATA as usize]))
        .map(|bytes| Input::Packet { bytes, segment: None })
        .collect();
    let mut all = all.into_iter();
    all.by_ref().take(PACKETS as usize).for_each(|input| rig.input(input));
    (rig.packets, rig.sent) = (0, 0);
    let counted = allocation_counter::measure(|| all.for_each(|input| rig.input(input)));
    assert_eq!(rig.sent, u64::from(PACKETS * DATA));
    // An answer is bytes, and the count of who shares them.
    assert!(rig.packets > 0 && counted.count_total <= 2 * rig.packets, "{} {}", counted.count_total, rig.packets);
}

#[test]
fn what_a_peer_sends_is_not_copied() {
    let mut rig = Rig::new();
    let (flow, first) = (rig.flow, rig.first);
    let pairs: Vec<_> = (0..2 * PACKETS)
        .map(|n| {
            let bytes = vec![7; HEADROOM + DATA as usize];
            let acknowledged = first.wrapping_add((n + 1) * DATA);
            let ack = packet(Flags::ACK, 1, acknowledged, b"");
            [Input::Received { flow, bytes, urgent: false }, Input::Packet { bytes: ack, segment: None }]
        })
        .collect();
    let mut pairs = pairs.into_iter().flatten();
    pairs.by_ref().take(2 * PACKETS as usize).for_each(|input| rig.input(input));
    (rig.packets, rig.heard) = (0, 0);
    let counted = allocation_counter::measure(|| pairs.for_each(|input| rig.input(input)));
    assert_eq!(rig.heard, u64::from(PACKETS * DATA));
    // The count of who shares it; and the table of timers, while only one connection has any, is made anew with its only entry.
    assert!(counted.count_total <= 2 * rig.packets, "{} {}", counted.count_total, rig.packets);
}
