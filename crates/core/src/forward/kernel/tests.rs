//! Records as the kernel's programs write them, by hand.

use super::*;
use crate::forward::meter::{self, Sources};

/// What our clock began at.
const ORIGIN: u64 = 1_000_000_000;

/// Where it is told how a connection began, and where what is known of the run of data that is not over.
const ORIGIN_AT: usize = 136;
const RUN_AT: usize = ORIGIN_AT + 8 * 4 + 2 * 8 + 136;
const ACKNOWLEDGED_AT: usize = RUN_AT + 4 * 8 + 6 * 4 + 136 + 4 * 8;

/// The peer has said its end: no record depends on it alone.
const BY_PEER: u32 = 2;

fn ms(n: u64) -> u64 {
    if n == 0 { 0 } else { ORIGIN + n * 1_000_000 }
}

/// Fields of a structure, as they are appended.
#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn u32s(&mut self, all: &[u32]) -> &mut Self {
        all.iter().for_each(|n| self.0.extend(n.to_ne_bytes()));
        self
    }

    fn u64s(&mut self, all: &[u64]) -> &mut Self {
        all.iter().for_each(|n| self.0.extend(n.to_ne_bytes()));
        self
    }

    fn whose(&mut self) -> &mut Self {
        self.u64s(&[77]).u32s(&[4711, 1000]);
        self.0.extend(b"curl\0\0\0\0\0\0\0\0\0\0\0\0");
        self
    }

    fn ends(&mut self, peer_port: u16) -> &mut Self {
        self.0.extend("::ffff:192.0.2.1".parse::<Ipv6Addr>().unwrap().octets());
        self.0.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        self.0.extend(4000u16.to_ne_bytes());
        self.0.extend(peer_port.to_ne_bytes());
        self.u32s(&[0])
    }

    fn way(&mut self, bytes: u64) -> &mut Self {
        self.u64s(&[bytes, 3, ms(40), ms(80), bytes, 40_000_000, 2, 40_000_000, 20_000_000]);
        self.u32s(&[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }
}

/// A connection with everything: times in milliseconds, an error, whose ends were said.
fn flow([syn, connected, ended]: [u64; 3], error: u32, fins: u32) -> Vec<u8> {
    let mut written = Written::default();
    written.u32s(&[KIND_FLOW, error]).u64s(&[9]).whose().ends(443);
    written.u64s(&[ms(10), ms(syn), ms(connected), ms(ended), ms(41), ms(66)]);
    written.u32s(&[0, fins, 2, 7, 0x6a7c_2d3e, 0, 0, 0]).u64s(&[0, 0]).way(5000);
    // Of the 64 ms from the handshake on, in jiffies of 4 ms: 12, 8 and 4; segments of 1250 bytes.
    written.u64s(&[0, 0, 0, ms(100)]).u32s(&[100, 0, 3, 2, 1, 1250]).way(9000);
    // Three answers, a run of data, two requests; 20 segments in 2 ms.
    written.u64s(&[90_000_000, 40_000_000, 100_000, 8_000_000, 0, 0, 2, 8_000_000, 6_000_000]);
    written.u32s(&[3, 5000, 4000, 3, 20, 2000]);
    let mut trips = [0; TRIPS];
    // 5000 us lie between 4096 + 0 and 4096 + 1024, and 9000 us between 8192 and 10240.
    (trips[(12 - 4) * 4], trips[(13 - 4) * 4]) = (90, 10);
    written.u32s(&trips);
    assert_eq!(written.0.len(), FLOW);
    written.0
}

fn read(bytes: &[u8]) -> (Flow, Whose) {
    Reader::new(ORIGIN, Duration::from_millis(4)).flow(bytes).unwrap()
}

#[test]
fn a_connection_is_read_as_it_was_written_and_has_every_meter_that_the_kernel_feeds() {
    let (flow, whose) = read(&flow([11, 36, 100], 0, BY_PROGRAM));
    assert_eq!((whose.pid, whose.user, whose.cgroup, whose.name.as_str()), (4711, 1000, 77, "curl"));
    assert_eq!((flow.app.to_string(), flow.peer.to_string()), ("192.0.2.1:4000".into(), "[2001:db8::1]:443".into()));
    assert_eq!(
        (flow.asked, flow.end, flow.ended),
        (Instant::from_millis(10), FlowEnd::Finished, Some(Instant::from_millis(100)))
    );
    let values: BTreeMap<_, _> = meter::ALL.iter().map(|meter| (meter.name, (meter.read)(&flow))).collect();
    for meter in meter::ALL {
        assert_eq!(values[meter.name].is_some(), meter.sources != Sources::Forwarder, "{}", meter.name);
    }
    let expected = [
        ("connect_ms", 25.0),
        ("rtt_ms", 5.0),
        ("least_rtt_ms", 4.0),
        ("request_rtt_ms", 4.0),
        ("longest_request_rtt_ms", 6.0),
        ("tls_hello_ms", 25.0),
        ("up_mbit_s", 100.0),
        ("up_busy_ms", 8.0),
        ("up_gap_ms", 20.0),
        ("longest_down_gap_ms", 20.0),
        ("retransmissions", 3.0),
        ("lost", 2.0),
        ("rtt_p95_ms", 9.216),
        ("connect_call_ms", 26.0),
        ("answer_ms", 30.0),
        ("longest_answer_ms", 40.0),
        ("reordered", 7.0),
        ("limited_app_ms", 40.0),
        ("limited_cwnd_ms", 12.0),
        ("limited_rwnd_ms", 8.0),
        ("limited_sndbuf_ms", 4.0),
        ("delivery_mbit_s", 100.0),
    ];
    for (name, value) in expected {
        assert!((values[name].unwrap() - value).abs() < 1e-9, "{name}: {values:?}");
    }
    assert_eq!((flow.up.bytes, flow.down.bytes, flow.up.gaps.histogram[5]), (5000, 9000, 2));
    assert_eq!(flow.kernel_stats.unwrap().mptcp, Some(0x6a7c_2d3e));
}

#[test]
fn an_end_is_what_the_kernel_told_the_program() {
    let end = |times, error, fins| read(&flow(times, error, fins)).0.end;
    let (open, there) = ([11, 36, 0], [11, 36, 100]);
    assert_eq!(end(open, 0, 0), FlowEnd::Open);
    assert_eq!((end(there, 0, BY_PROGRAM), end(there, 0, 0)), (FlowEnd::Finished, FlowEnd::ResetByProgram));
    assert_eq!((end(there, 104, 0), end(there, 110, BY_PROGRAM)), (FlowEnd::ResetByPeer, FlowEnd::Silent));
    let never = [11, 0, 100];
    assert_eq!((end(never, 111, 0), end(never, 113, 0)), (FlowEnd::Refused, FlowEnd::Unreachable));
    assert_eq!((end(never, 110, 0), end(never, 0, 0)), (FlowEnd::Silent, FlowEnd::ResetByProgram));
    assert_eq!(end([0, 0, 100], 0, 0), FlowEnd::Failed, "no SYN ever left");
}

#[test]
fn who_said_its_end_first_has_closed_it_and_otherwise_who_reset_it() {
    let closed = |times, error, fins| read(&flow(times, error, fins)).0.kernel_stats.unwrap().closed_by;
    let there = [11, 36, 100];
    assert_eq!(closed(there, 0, BY_PROGRAM | BY_PEER), Some(Side::Program));
    assert_eq!(closed(there, 0, BY_PROGRAM | BY_PEER | PEER_FIRST), Some(Side::Peer));
    // A reset behind an end does not change who was first.
    assert_eq!(closed(there, 104, BY_PROGRAM), Some(Side::Program));
    assert_eq!((closed(there, 104, 0), closed(there, 0, 0)), (Some(Side::Peer), Some(Side::Program)));
    assert_eq!((closed([11, 36, 0], 0, 0), closed(there, 110, 0)), (None, None), "open, and silent");
    assert_eq!((closed([11, 0, 100], 111, 0), closed([11, 0, 100], 0, 0)), (None, None), "there was no connection");
    assert_eq!((Side::Program.name(), Side::Peer.name()), ("program", "peer"));
}

#[test]
fn what_was_accepted_or_there_before_has_no_time_of_connecting() {
    let mut bytes = flow([0, 36, 100], 0, BY_PROGRAM);
    let connect = meter::ALL.iter().find(|meter| meter.name == "connect_ms").unwrap();
    for (origin, expected) in [(1u32, (true, false)), (2, (false, true))] {
        bytes[ORIGIN_AT..ORIGIN_AT + 4].copy_from_slice(&origin.to_ne_bytes());
        let (flow, _) = read(&bytes);
        let stats = flow.kernel_stats.as_ref().unwrap();
        assert_eq!(((stats.accepted, stats.before), flow.connected.is_some()), (expected, true));
        assert_eq!((connect.read)(&flow), None);
    }
}

#[test]
fn the_latest_run_of_data_counts_as_far_as_it_is_acknowledged() {
    let read_with = |run: u64, acknowledged: u64| {
        let mut bytes = flow([11, 36, 0], 0, 0);
        let mut write = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        let told =
            [(RUN_AT, run), (RUN_AT + 8, ms(50)), (ACKNOWLEDGED_AT, acknowledged), (ACKNOWLEDGED_AT + 8, ms(90))];
        told.into_iter().for_each(|(at, value)| write(at, value));
        let flow = read(&bytes).0;
        (flow.delivered.bytes, flow.delivered.took, flow.requests.count, flow.requests.longest)
    };
    let millis = Duration::from_millis;
    assert_eq!(read_with(0, 0), (100_000, millis(8), 2, millis(6)), "none");
    assert_eq!(read_with(500, 500), (100_000, millis(8), 3, millis(10)), "a request, from its last byte on");
    assert_eq!(read_with(500, 400), (100_000, millis(8), 2, millis(6)), "a request of which some is on its way");
    assert_eq!(read_with(16_000, 16_000), (116_000, millis(48), 3, millis(10)), "both");
    assert_eq!(read_with(50_000, 20_000), (120_000, millis(48), 2, millis(6)), "data of which some is on its way");
    assert_eq!(read_with(50_000, 50_000), (150_000, millis(48), 2, millis(6)), "data, all of it");
}

#[test]
fn what_is_cut_off_anywhere_is_no_record() {
    let whole = flow([11, 36, 100], 0, 0);
    let mut reader = Reader::new(ORIGIN, Duration::from_millis(4));
    assert!(matches!(reader.event(&whole), Some(Event::Record(Record::Flow(_), _))));
    for len in 0..whole.len() {
        assert_eq!(reader.event(&whole[..len]), None, "{len}");
    }
    assert_eq!(reader.event(&[9; 1000]), None);
}

fn message(socket: u64, up: u32, at: u64, text: &[u8]) -> Vec<u8> {
    segment(socket, up, at, [0, 0], text)
}

/// A segment of so many bytes from a number on, of which `text` is there; none for a datagram.
fn segment(socket: u64, up: u32, at: u64, [len, sequence]: [u32; 2], text: &[u8]) -> Vec<u8> {
    let mut written = Written::default();
    written.u32s(&[KIND_LOOKUP, up]).u64s(&[ms(at)]).whose().ends(53).u64s(&[socket]);
    written.u32s(&[text.len() as u32, len, sequence, 0]);
    written.0.extend(text);
    written.0
}

/// A query of DNS, and its answer.
fn exchange() -> (Vec<u8>, Vec<u8>) {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x03www\x07example\x00\x00\x01\x00\x01");
    let mut answer = query.clone();
    answer[2] = 0x81;
    (query, answer)
}

#[test]
fn a_lookup_is_a_question_and_its_answer_over_the_same_socket() {
    let (query, answer) = exchange();
    let mut reader = Reader::new(ORIGIN, Duration::from_millis(4));
    assert_eq!(reader.event(&message(5, 0, 4, &answer)), Some(Event::Nothing), "no program has asked");
    assert!(reader.lookups.is_empty(), "strangers take no place");
    assert_eq!(reader.event(&message(5, 1, 5, &query)), Some(Event::Nothing));
    let Some(Event::Answered(exchanges, whose)) = reader.event(&message(5, 0, 25, &answer)) else { panic!() };
    let [exchange] = exchanges.as_slice() else { panic!("{exchanges:?}") };
    assert_eq!((exchange.name.as_str(), exchange.took, whose.pid), ("www.example", Duration::from_millis(20), 4711));
    assert_eq!(reader.event(&message(5, 0, 26, &answer)), Some(Event::Nothing), "it was answered");
}

#[test]
fn lookups_over_a_stream_are_told_when_the_last_byte_of_their_answer_has_come() {
    let (query, answer) = exchange();
    let framed = |message: &[u8]| [&(message.len() as u16).to_be_bytes()[..], message].concat();
    let (first, mut second) = (framed(&query), framed(&query));
    second[3] = 0x35;
    let mut answers = framed(&answer);
    let len = answers.len();
    answers.extend(framed(&[&second[2..4], &answer[2..]].concat()));
    let mut reader = Reader::new(ORIGIN, Duration::from_millis(4));
    let asked = [first.as_slice(), &second].concat();
    assert_eq!(reader.event(&segment(5, 1, 5, [2, 100], &asked[..2])), Some(Event::Nothing), "a length alone");
    let rest = asked.len() as u32 - 2;
    assert_eq!(reader.event(&segment(5, 1, 6, [rest, 102], &asked[2..])), Some(Event::Nothing));
    let cut = |from: usize, to: usize| segment(5, 0, 26, [(to - from) as u32, 7 + from as u32], &answers[from..to]);
    assert_eq!(reader.event(&cut(0, len - 1)), Some(Event::Nothing));
    let Some(Event::Answered(exchanges, _)) = reader.event(&cut(len - 1, answers.len())) else { panic!() };
    let told: Vec<_> = exchanges.iter().map(|exchange| (exchange.name.as_str(), exchange.took)).collect();
    assert_eq!(told, [("www.example", Duration::from_millis(20)); 2]);
    let mut ended = flow([11, 36, 100], 0, BY_PROGRAM);
    ended[8..16].copy_from_slice(&5u64.to_ne_bytes());
    reader.event(&ended).unwrap();
    assert!(reader.lookups.is_empty(), "the connection is over");
}

#[test]
fn of_too_many_sockets_those_that_asked_longest_ago_are_forgotten_whatever_their_numbers() {
    let (query, answer) = exchange();
    let mut reader = Reader::new(ORIGIN, Duration::from_millis(4));
    // Sockets of one processor have larger numbers than those that others make later.
    for socket in 0..3 * MOST_SOCKETS as u64 {
        reader.event(&message(1_000_000 - socket, 1, 30 + socket, &query)).unwrap();
    }
    assert_eq!(reader.lookups.len(), MOST_SOCKETS);
    let mut answered = |number: u64| {
        let event = reader.event(&message(1_000_000 - number, 0, 9000, &answer)).unwrap();
        matches!(event, Event::Answered(..))
    };
    let most = MOST_SOCKETS as u64;
    assert!(answered(3 * most - 1) && answered(2 * most) && !answered(2 * most - 1));
}

#[test]
fn datagrams_are_read_and_quic_among_them() {
    let datagrams = |first_len: u32, first_up: u32| {
        let mut written = Written::default();
        written.u32s(&[KIND_DATAGRAMS, first_len]).whose().ends(443).u64s(&[ms(5), ms(35)]).way(4000).way(8000);
        written.u64s(&[0, 3, 90_000_000, 40_000_000]).u32s(&[1, first_up]);
        written.0.extend([0xc0, 0, 0, 0, 1, 0, 4, 9, 9, 9, 9]);
        written.0.resize(DATAGRAMS, 0);
        Reader::new(ORIGIN, Duration::from_millis(4)).datagrams(&written.0).unwrap().0
    };
    let flow = datagrams(1200, 1);
    let quic = flow.quic.clone().unwrap();
    assert_eq!((quic.version, quic.handshake, quic.spins.count), (1, Some(Duration::from_millis(30)), 3));
    assert_eq!((flow.up.bytes, flow.down.bytes, flow.icmp_errors), (4000, 8000, None));
    assert_eq!(datagrams(1199, 1).quic, None, "too short to be a client's first");
    assert_eq!(datagrams(1200, 0).quic, None, "the first was not the program's");
}

#[test]
fn peers_and_closed_sockets_are_told_apart() {
    let event = |kind| {
        let mut written = Written::default();
        written.u32s(&[kind, 0]).u64s(&[5, 1, 2, 3]);
        Reader::new(ORIGIN, Duration::from_millis(4)).event(&written.0)
    };
    let Some(Event::Peer { socket: 5, key }) = event(KIND_PEER) else { panic!("no peer") };
    assert_eq!(key[8], 1);
    assert_eq!(event(KIND_CLOSED), Some(Event::Closed { socket: 5 }));
}

#[test]
fn what_the_kernel_has_not_measured_is_unknown_and_not_zero() {
    let with = |times, told: &[(usize, u32)]| {
        let mut bytes = flow(times, 0, 0);
        told.iter().for_each(|(at, value)| bytes[*at..at + 4].copy_from_slice(&value.to_ne_bytes()));
        let flow = read(&bytes).0;
        let stats = flow.kernel_stats.clone().unwrap();
        (flow, stats)
    };
    let (token, limited_at, rtts) = (ORIGIN_AT + 4 * 4, RUN_AT + 3 * 8, ACKNOWLEDGED_AT + 5 * 8 + 4);
    let (known, stats) = with([11, 36, 0], &[]);
    assert!(known.facts.is_some_and(|facts| facts.min_rtt.is_some()) && known.handshake.is_some());
    assert!(stats.limits.is_some() && stats.delivery.is_some() && stats.mptcp.is_some());
    assert_eq!((known.connected, known.ended), (Some(Instant::from_millis(36)), None));
    let none = [(token, 0), (limited_at, 0), (limited_at + 4, 0), (rtts, 0), (rtts + 16, 0)];
    let (unknown, stats) = with([11, 0, 0], &none);
    assert_eq!((unknown.facts, unknown.handshake, unknown.connected), (None, None, None));
    assert_eq!((stats.limits, stats.delivery, stats.mptcp), (None, None, None));
    // One of the two ends of a time alone is none; a connection that was there before has none of its own.
    assert_eq!(with([0, 36, 0], &[]).0.handshake, None);
    assert_eq!(with([11, 0, 0], &[]).1.limits, None);
    assert_eq!(with([11, 36, 0], &none).1.limits, None);
    assert_eq!(with([11, 36, 0], &[(ORIGIN_AT, BEFORE)]).1.limits, None);
    for least in [0, u32::MAX] {
        assert_eq!(with([11, 36, 0], &[(rtts + 4, least)]).0.facts.and_then(|facts| facts.min_rtt), None);
    }
    assert_eq!(TcpStats::default().round_trip(0.5), None);
}
