//! Datagrams, echoes, fragments, and what the network says of them.

use super::*;
use crate::forward::{MappingId, NotCarried};
use crate::wire::dns::Answer;
use crate::wire::ip::icmp::{self, Trouble, most_quoted};
use crate::wire::ip::{ICMP, UDP, udp};
use crate::wire::record::RecordType;
use std::net::IpAddr;

pub(super) fn datagram(app: SocketAddr, to: SocketAddr, class: u8, ttl: u8, data: &[u8]) -> Vec<u8> {
    let header = Header {
        source: app.ip(),
        destination: to.ip(),
        protocol: UDP,
        traffic_class: class,
        hop_limit: ttl,
        whole: true,
        fragment: None,
    };
    let start = ip::header_len(to.ip());
    let mut bytes = vec![0; start + udp::HEADER];
    ip::write(&header, udp::HEADER + data.len(), &mut bytes);
    udp::write(app.port(), to.port(), data.len(), &mut bytes[start..]);
    bytes.extend(data);
    bytes
}

pub(super) fn ask(rig: &mut Rig, to: &str, data: &[u8]) {
    let bytes = datagram(rig.app, to.parse().unwrap(), 0xb9, 3, data);
    rig.input(Input::Packet { bytes, segment: None });
}

#[test]
fn one_socket_serves_a_port_whomever_it_speaks_to() {
    let mut rig = Rig::new();
    ask(&mut rig, "198.51.100.1:1000", b"one");
    ask(&mut rig, "198.51.100.2:2000", b"two");
    let [
        Output::Map { mapping, app },
        Output::Datagram { traffic_class, hop_limit, bytes, from, .. },
        Output::Datagram { to, .. },
    ] = &rig.did[..]
    else {
        panic!("{:?}", rig.did)
    };
    assert_eq!((*app, *traffic_class, *hop_limit, &bytes[*from..]), (rig.app, 0xb9, 3, &b"one"[..]));
    assert_eq!(to.port(), 2000);
    let (mapping, from) = (*mapping, "203.0.113.9:99".parse().unwrap());
    let mut bytes = vec![0; HEADROOM];
    bytes.extend(b"from a stranger");
    rig.input(Input::Datagram { mapping, from, bytes, marks: (1, 43), train: None });
    let (header, payload) = rig.packets.pop().unwrap();
    let marks = (header.source, header.traffic_class, header.hop_limit);
    assert_eq!(marks, (from.ip(), 1, 43), "ECN comes through, and how far it came");
    assert_eq!(udp::parse(&payload), Some((99, 4000, &b"from a stranger"[..])));
}

#[test]
fn a_port_that_could_have_no_socket_asks_for_one_again() {
    let mut rig = Rig::new();
    ask(&mut rig, "198.51.100.1:1000", b"one");
    let Output::Map { mapping, .. } = rig.did[0] else { panic!("{:?}", rig.did) };
    rig.input(Input::NotMapped { mapping });
    rig.did.clear();
    ask(&mut rig, "198.51.100.1:1000", b"two");
    let [Output::Map { mapping: again, .. }, Output::Datagram { mapping: of, .. }] = rig.did[..] else {
        panic!("{:?}", rig.did)
    };
    assert!(again != mapping && of == again);
}

/// A datagram of a stranger to a port.
pub(super) fn strange(rig: &mut Rig, mapping: MappingId, from: &str) {
    let bytes = [&[0; HEADROOM][..], b"hello"].concat();
    rig.input(Input::Datagram { mapping, from: from.parse().unwrap(), bytes, marks: (0, 64), train: None });
}

#[test]
fn a_port_that_a_program_has_bound_hears_strangers_however_long_it_was_silent() {
    let mut rig = Rig::new();
    let (mapping, is_new) = rig.forwarder.bound(rig.now, rig.app).unwrap();
    assert!(is_new && rig.did.is_empty(), "its socket is the caller's business");
    rig.pass(Duration::from_secs(3600));
    strange(&mut rig, mapping, "203.0.113.9:99");
    assert_eq!(rig.packets.pop().unwrap().0.source, "203.0.113.9".parse::<IpAddr>().unwrap());
    // The answer goes by the same socket, and none is asked for.
    ask(&mut rig, "203.0.113.9:99", b"yes");
    let [Output::Datagram { mapping: of, .. }] = &rig.did[..] else { panic!("{:?}", rig.did) };
    assert_eq!((*of, rig.forwarder.bound(rig.now, rig.app)), (mapping, Some((mapping, false))));
    rig.forwarder.unbound(mapping);
    rig.drain();
    assert!(matches!(rig.did.last(), Some(Output::Unmap { .. })));
    assert!(matches!(&rig.records[..], [Record::Udp(flow)] if flow.down.packets == 1 && flow.up.packets == 1));
    assert_eq!((rig.forwarder.mappings(), rig.forwarder.poll_timeout()), (0, None));
}

#[test]
fn a_port_that_has_sent_is_held_from_when_it_is_bound() {
    let mut rig = Rig::new();
    ask(&mut rig, "198.51.100.1:1000", b"one");
    let Output::Map { mapping, .. } = rig.did[0] else { panic!("{:?}", rig.did) };
    assert_eq!(rig.forwarder.bound(rig.now, rig.app), Some((mapping, false)));
    rig.pass(Duration::from_secs(3600));
    ask(&mut rig, "198.51.100.1:1000", b"two");
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.forwarder.mappings(), 1);
    // One that is only sent from is none that can be let go.
    rig.forwarder.unbound(mapping);
    ask(&mut rig, "198.51.100.1:1000", b"three");
    let Some(Output::Map { mapping, .. }) = rig.did.iter().rev().nth(1) else { panic!("{:?}", rig.did) };
    rig.forwarder.unbound(*mapping);
    assert_eq!(rig.forwarder.mappings(), 1);
}

#[test]
fn ports_that_are_held_leave_half_of_the_places_and_none_of_them_makes_room() {
    let mut rig = Rig::with(Settings { most_mappings: 4, ..Settings::default() });
    let app = |port| SocketAddr::new(rig.app.ip(), port);
    let held: Vec<_> = (1..=3).map(|port| rig.forwarder.bound(rig.now, app(port))).collect();
    assert!(held[0].is_some() && held[1].is_some() && held[2].is_none(), "{held:?}");
    assert_eq!(rig.forwarder.bound(rig.now, app(1)), held[0].map(|(id, _)| (id, false)), "it is there");
    for port in 100..200 {
        rig.app.set_port(port);
        ask(&mut rig, "198.51.100.1:1000", b"one");
    }
    assert_eq!(rig.forwarder.mappings(), 4);
    strange(&mut rig, held[1].unwrap().0, "203.0.113.9:99");
    assert_eq!(rig.packets.len(), 1);
}

/// What was recorded of peers of a port, each with what it has said and heard.
fn peers(rig: &mut Rig, mapping: MappingId) -> Vec<(SocketAddr, u64, u64)> {
    rig.forwarder.unbound(mapping);
    rig.drain();
    let records = std::mem::take(&mut rig.records).into_iter();
    let of = |record| match record {
        Record::Udp(flow) => (flow.peer, flow.down.packets, flow.up.packets),
        other => panic!("{other:?}"),
    };
    records.map(of).collect()
}

#[test]
fn strangers_of_one_network_make_no_more_records_than_its_part_of_the_places_and_all_are_carried_and_counted() {
    let apps = [
        ("192.0.2.7:4000", "203.0.113.9", "203.0.113.9:0"),
        ("[2001:db8::7]:4000", "[2001:db8:9::9]", "[2001:db8:9::]:0"),
    ];
    for (app, flooding, rest) in apps {
        let mut rig = Rig::new();
        rig.app = app.parse().unwrap();
        let (mapping, _) = rig.forwarder.bound(rig.now, rig.app).unwrap();
        let own = if rig.app.is_ipv4() { "198.51.100.1:7" } else { "[2001:db8:1::1]:7" };
        ask(&mut rig, own, b"own");
        for port in 1001..=6000 {
            rig.now += Duration::from_millis(1);
            strange(&mut rig, mapping, &format!("{flooding}:{port}"));
        }
        assert_eq!(rig.packets.len(), 5000, "each is carried");
        assert!(rig.records.is_empty(), "none has made room for another");
        // One that has no record of its own is answered, and that is counted with its network.
        ask(&mut rig, &format!("{flooding}:5000"), b"yes");
        let Some(Output::Datagram { to, .. }) = rig.did.last() else { panic!("{:?}", rig.did) };
        assert_eq!(to.port(), 5000);
        let peers = peers(&mut rig, mapping);
        assert_eq!(peers.len(), 1 + 64 + 1);
        assert_eq!(peers.iter().map(|(_, down, _)| down).sum::<u64>(), 5000);
        assert!(peers.contains(&(rest.parse().unwrap(), 5000 - 64, 1)), "{peers:?}");
    }
}

#[test]
fn a_flood_of_many_networks_takes_no_place_of_what_the_program_asks() {
    let mut rig = Rig::new();
    let (mapping, _) = rig.forwarder.bound(rig.now, rig.app).unwrap();
    (1001..=1128).for_each(|port| ask(&mut rig, &format!("198.51.100.1:{port}"), b"own"));
    for n in 0..5000 {
        rig.now += Duration::from_millis(1);
        strange(&mut rig, mapping, &format!("203.{}.{}.1:9", n / 250, n % 250));
    }
    assert_eq!(rig.packets.len(), 5000);
    let early = rig.records.len();
    assert_eq!(early, 5000 - 128, "the oldest stranger makes room");
    let peers = peers(&mut rig, mapping);
    let own = |peers: &[(SocketAddr, u64, u64)]| peers.iter().filter(|(_, _, up)| *up == 1).count();
    assert_eq!((own(&peers[..early]), own(&peers[early..]), peers.len()), (0, 128, 128 + 5000));
}

#[test]
fn a_member_of_a_flooded_large_network_is_still_served_and_has_a_record_of_its_own() {
    let mut rig = Rig::new();
    rig.app = "[2001:db8::7]:4000".parse().unwrap();
    let (mapping, _) = rig.forwarder.bound(rig.now, rig.app).unwrap();
    // All of one provider's, from a /48.
    for n in 0..5000 {
        rig.now += Duration::from_millis(1);
        strange(&mut rig, mapping, &format!("[2001:db8:77:{:x}::{n:x}]:9", n % 40));
    }
    rig.packets.clear();
    let early = rig.records.len();
    strange(&mut rig, mapping, "[2001:db8:77:ffff::1]:9");
    ask(&mut rig, "[2001:db8:77:ffff::1]:9", b"yes");
    assert_eq!(rig.packets.len(), 1);
    let peers = peers(&mut rig, mapping);
    assert!(peers[early..].contains(&("[2001:db8:77:ffff::1]:9".parse().unwrap(), 1, 1)), "{peers:?}");
}

#[test]
fn a_datagram_that_the_programs_kernel_refuses_is_told() {
    for (app, stranger) in [("192.0.2.7", "203.0.113.9"), ("2001:db8::7", "2001:db8:9::9")] {
        let (app, stranger): (IpAddr, IpAddr) = (app.parse().unwrap(), stranger.parse().unwrap());
        for (trouble, is_told) in [(Trouble::PortUnreachable, true), (Trouble::HostUnreachable, false)] {
            let mut rig = Rig::new();
            let bytes = icmp::error(app, stranger, trouble, &[7; 60], 64).unwrap();
            rig.input(Input::Packet { bytes, segment: None });
            assert_eq!(rig.did.iter().any(|output| matches!(output, Output::Unbound)), is_told, "{trouble:?}");
        }
    }
}

#[test]
fn a_train_of_datagrams_stays_one_both_ways_and_its_questions_are_timed_one_by_one() {
    let mut rig = Rig::new();
    let query = |id: u8| [&[0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x01a\x00\x00\x10\x00\x01"].concat();
    let train = [query(1), query(2), query(3)].concat();
    let size = Some(query(1).len() as u16);
    let bytes = datagram(rig.app, "198.51.100.53:53".parse().unwrap(), 0, 64, &train);
    rig.input(Input::Packet { bytes, segment: size });
    let [Output::Map { mapping, .. }, Output::Datagram { bytes, from, train: told, .. }] = &rig.did[..] else {
        panic!("{:?}", rig.did)
    };
    assert_eq!((&bytes[*from..], *told), (&train[..], size));
    let (mapping, from) = (*mapping, "198.51.100.53:53".parse().unwrap());
    let bytes = [&[0; HEADROOM][..], &train].concat();
    let answers = Input::Datagram { mapping, from, bytes, marks: (0, 64), train: size };
    rig.forwarder.handle_input(rig.now, answers);
    let mut came = None;
    while let Some(output) = rig.forwarder.poll_output() {
        match output {
            Output::Packet(packet) => came = Some(packet),
            Output::Record(record) => rig.records.push(record),
            other => panic!("{other:?}"),
        }
    }
    let packet = came.expect("a packet");
    assert_eq!(packet.segments, Some((19, 28)));
    let (_, payload) = ip::parse(packet.as_slice()).unwrap();
    assert_eq!(udp::parse(payload), Some((53, 4000, &train[..])));
    assert_eq!(rig.records.len(), 3);
    // What would be one datagram anyway is none, and neither is nonsense.
    for size in [Some(200), Some(57), Some(0), None] {
        let bytes = datagram(rig.app, "198.51.100.53:53".parse().unwrap(), 0, 64, &train);
        rig.input(Input::Packet { bytes, segment: size });
        assert!(matches!(rig.did.last(), Some(Output::Datagram { train: None, .. })), "{size:?}");
    }
}

#[test]
fn a_silent_port_loses_its_socket_after_five_minutes_and_an_answer_counts() {
    let mut rig = Rig::new();
    ask(&mut rig, "198.51.100.1:1000", b"one");
    rig.pass(Duration::from_secs(299));
    ask(&mut rig, "198.51.100.1:1000", b"two");
    rig.pass(Duration::from_secs(200));
    rig.app.set_port(4001);
    ask(&mut rig, "198.51.100.1:1000", b"another");
    rig.pass(Duration::from_secs(99));
    assert_eq!(rig.forwarder.mappings(), 2);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.forwarder.mappings(), 1, "the other was not silent for so long");
    rig.pass(Duration::from_secs(200));
    assert_eq!(rig.forwarder.mappings(), 0);
    assert!(matches!(rig.did.last(), Some(Output::Unmap { .. })));
    assert_eq!(rig.forwarder.poll_timeout(), None);
}

#[test]
fn the_port_that_was_silent_for_longest_makes_room() {
    let mut rig = Rig::with(Settings { most_mappings: 2, ..Settings::default() });
    for port in [1, 2, 3] {
        rig.now += Duration::from_secs(1);
        rig.app.set_port(port);
        ask(&mut rig, "198.51.100.1:1000", b"x");
    }
    assert_eq!(rig.forwarder.mappings(), 2);
    assert!(rig.did.iter().any(|output| matches!(output, Output::Unmap { mapping } if mapping.0 == 0)));
}

#[test]
fn what_the_network_says_of_a_datagram_reaches_the_program_from_who_said_it() {
    let mut rig = Rig::new();
    ask(&mut rig, "198.51.100.1:33434", b"probe");
    let Output::Map { mapping, .. } = rig.did[0] else { panic!() };
    let to = "198.51.100.1:33434".parse().unwrap();
    let router: IpAddr = "203.0.113.1".parse().unwrap();
    for (reporter, trouble, words) in [
        (Some(router), Trouble::HopsExceeded, [11, 0]),
        (Some(router), Trouble::Unreachable(10), [3, 10]),
        (None, Trouble::PortUnreachable, [3, 3]),
        (None, Trouble::TooBig(1300), [3, 4]),
    ] {
        let data = [b"probe", &[0; 600][..]].concat();
        rig.input(Input::DatagramFailed { mapping, to, reporter, trouble, data, hop_limit: 62 });
        let (header, message) = rig.packets.pop().unwrap();
        assert_eq!((header.protocol, header.hop_limit, &message[..2]), (ICMP, 62, &words[..]));
        assert_eq!(header.source, reporter.unwrap_or(to.ip()));
        let (quoted, ports) = (&message[8..28], &message[28..32]);
        assert_eq!((&quoted[12..16], ports), (&[192, 0, 2, 7][..], &[0x0f, 0xa0, 0x82, 0x9a][..]));
        assert_eq!((&message[36..41], message.len()), (&b"probe"[..], 8 + most_quoted(true)));
        let (_, quoted) = ip::parse(&message[8..]).expect("a packet of the length that it says");
        assert!(udp::parse(quoted).is_some_and(|(.., data)| data.starts_with(b"probe")));
    }
    assert_eq!(rig.forwarder.udp_flows().next().unwrap().icmp_errors, Some(4));
}

#[test]
fn a_lookup_is_timed_as_it_passes() {
    let mut rig = Rig::new();
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x03www\x07example\x00\x00\x01\x00\x01");
    ask(&mut rig, "198.51.100.53:53", &query);
    rig.pass(Duration::from_millis(17));
    answer(&mut rig, &query);
    let [Record::Dns(lookup)] = &rig.records[..] else { panic!("{:?}", rig.records) };
    assert_eq!((lookup.name.as_str(), lookup.took), ("www.example", Duration::from_millis(17)));
    let said = Answer::Addresses(vec![[192, 0, 2, 80].into()], Duration::from_secs(60));
    assert_eq!(lookup.answer, Some((RecordType::A, said)));
    assert_eq!(rig.packets.len(), 1, "and passed on");
}

/// The server's answer to a query: one address.
fn answer(rig: &mut Rig, query: &[u8]) {
    let mut bytes = vec![0; HEADROOM];
    bytes.extend(query);
    (bytes[HEADROOM + 2], bytes[HEADROOM + 7]) = (0x81, 1);
    bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80]);
    let Output::Map { mapping, .. } = rig.did[0] else { panic!() };
    rig.input(Input::Datagram {
        mapping,
        from: "198.51.100.53:53".parse().unwrap(),
        bytes,
        marks: (0, 64),
        train: None,
    });
}

#[test]
fn an_answer_to_another_question_says_nothing_of_this_one() {
    let mut rig = Rig::new();
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x03www\x07example\x00\x00\x01\x00\x01");
    ask(&mut rig, "198.51.100.53:53", &query);
    let mut other = query.clone();
    other[13] = b'x';
    answer(&mut rig, &other);
    let [Record::Dns(lookup)] = &rig.records[..] else { panic!("{:?}", rig.records) };
    assert_eq!(lookup.answer, None);
    assert_eq!(rig.packets.len(), 1, "it is passed on all the same");
}

#[test]
fn what_a_server_has_said_before_answers_for_it_and_is_no_time_of_its_own() {
    let mut rig = Rig::new();
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x03www\x07example\x00\x00\x01\x00\x01");
    ask(&mut rig, "198.51.100.53:53", &query);
    let mut bytes = [&[0; HEADROOM], &query[..]].concat();
    (bytes[HEADROOM + 2], bytes[HEADROOM + 7]) = (0x81, 1);
    bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80]);
    let Output::Map { mapping, .. } = rig.did[0] else { panic!() };
    let said = bytes[HEADROOM..].to_vec();
    rig.input(Input::Answered { mapping, server: "198.51.100.53:53".parse().unwrap(), bytes });
    let [Record::Dns(lookup)] = &rig.records[..] else { panic!("{:?}", rig.records) };
    assert!(lookup.cached && lookup.reply == said && lookup.answer.is_some(), "{lookup:?}");
    let [(header, payload)] = &rig.packets[..] else { panic!("{:?}", rig.packets) };
    assert_eq!(header.source, "198.51.100.53".parse::<IpAddr>().unwrap());
    assert_eq!(udp::parse(payload).map(|(source, _, data)| (source, data)), Some((53, &said[..])));
}

#[test]
fn an_echo_comes_back_to_who_asked_for_it_and_to_nobody_else() {
    let mut rig = Rig::new();
    let (app, to) = (rig.app.ip(), rig.peer.ip());
    let request = vec![8, 0, 0, 0, 0, 9, 0, 1, 1, 2, 3];
    let bytes = icmp::packet_of(app, to, (0, 64), request.clone());
    rig.input(Input::Packet { bytes, segment: None });
    let [Output::Echo { hop_limit: 64, .. }] = rig.did[..] else { panic!("{:?}", rig.did) };
    let mut reply = request.clone();
    reply[0] = 0;
    rig.input(Input::Echoed { from: to, message: reply.clone(), hop_limit: 61 });
    let header = rig.packets.pop().unwrap().0;
    assert_eq!((header.destination, header.hop_limit), (app, 61));
    reply[5] = 8;
    rig.input(Input::Echoed { from: to, message: reply, hop_limit: 61 });
    assert!(rig.packets.is_empty());
    let router = "203.0.113.1".parse().unwrap();
    let (reporter, trouble) = (Some(router), Trouble::HopsExceeded);
    let input = Input::EchoFailed { to, reporter, message: request, trouble, hop_limit: 63 };
    rig.input(input);
    let (header, message) = rig.packets.pop().unwrap();
    assert_eq!((header.source, header.hop_limit), (router, 63));
    assert_eq!((message[0], message[28..36].to_vec()), (11, vec![8, 0, 0, 0, 0, 9, 0, 1]));
}

#[test]
fn a_datagram_in_fragments_is_sent_in_one_piece() {
    let mut rig = Rig::new();
    let data = text(3000);
    let whole = datagram(rig.app, "198.51.100.1:1000".parse().unwrap(), 0, 64, &data);
    let payload = &whole[20..];
    for (offset, part) in [(1480, &payload[1480..2960]), (0, &payload[..1480]), (2960, &payload[2960..])] {
        let mut bytes = whole[..20].to_vec();
        bytes[2..4].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
        let more = if offset == 2960 { 0 } else { 0x2000 };
        bytes[6..8].copy_from_slice(&(more | (offset / 8) as u16).to_be_bytes());
        bytes.extend(part);
        rig.input(Input::Packet { bytes, segment: None });
    }
    let sent = rig.did.iter().find_map(|output| match output {
        Output::Datagram { bytes, from, whole, .. } => Some((bytes[*from..].to_vec(), *whole)),
        _ => None,
    });
    assert_eq!(sent, Some((data, false)));
}

#[test]
fn over_ipv6_too_what_came_in_fragments_may_leave_in_fragments_and_what_came_whole_may_not() {
    let mut rig = Rig::new();
    rig.app = "[2001:db8::7]:4000".parse().unwrap();
    let data = text(3000);
    let packet = datagram(rig.app, "[2001:db8:1::1]:1000".parse().unwrap(), 0, 64, &data);
    let payload = &packet[40..];
    for (offset, part) in [(0, &payload[..1448]), (1448, &payload[1448..])] {
        let mut bytes = packet[..40].to_vec();
        bytes[4..6].copy_from_slice(&((8 + part.len()) as u16).to_be_bytes());
        bytes[6] = 44;
        let more = u16::from(offset == 0);
        bytes.extend([&[UDP, 0][..], &(offset as u16 | more).to_be_bytes(), &[0, 0, 0, 9], part].concat());
        rig.input(Input::Packet { bytes, segment: None });
    }
    ask(&mut rig, "[2001:db8:1::1]:1000", b"short");
    let sent = rig.did.iter().filter_map(|output| match output {
        Output::Datagram { bytes, from, whole, .. } => Some((bytes[*from..].to_vec(), *whole)),
        _ => None,
    });
    assert_eq!(sent.collect::<Vec<_>>(), [(data, false), (b"short".to_vec(), true)]);
}

#[test]
fn what_is_for_many_or_for_nobody_stays_here() {
    let mut rig = Rig::new();
    for to in ["224.0.0.251:5353", "255.255.255.255:67", "0.0.0.0:1", "127.0.0.1:1"] {
        ask(&mut rig, to, b"x");
    }
    rig.app = "[2001:db8::7]:4000".parse().unwrap();
    for to in ["[ff02::fb]:5353", "[fe80::1]:1", "[::]:1", "[::1]:1"] {
        ask(&mut rig, to, b"x");
    }
    assert!(rig.did.is_empty());
    assert_eq!(rig.forwarder.tally().left_out, 8);
}

#[test]
fn what_is_damaged_or_makes_no_sense_is_counted_and_left_out() {
    let mut rig = Rig::new();
    (0..2).for_each(|_| rig.forwarder.leave_out());
    let header = |protocol| Header {
        source: rig.app.ip(),
        destination: rig.peer.ip(),
        protocol,
        traffic_class: 0,
        hop_limit: 64,
        whole: true,
        fragment: None,
    };
    let short = |protocol| {
        let mut bytes = vec![0; 20 + 4];
        ip::write(&header(protocol), 4, &mut bytes);
        bytes
    };
    let to_port_zero = datagram(rig.app, "198.51.100.1:0".parse().unwrap(), 0, 64, b"x");
    for bytes in [vec![], vec![0x45; 10], short(UDP), to_port_zero, short(TCP), short(ICMP)] {
        rig.input(Input::Packet { bytes, segment: None });
    }
    assert!(rig.did.is_empty() && rig.packets.is_empty(), "{:?}", rig.did);
    assert_eq!((rig.forwarder.tally().packets, rig.forwarder.tally().left_out), (8, 8));
}

#[test]
fn what_is_not_carried_is_counted_by_what_it_is() {
    let mut rig = Rig::new();
    for (to, times) in [("224.0.0.251:5353", 3), ("255.255.255.255:67", 2), ("198.51.100.1:9", 1)] {
        (0..times).for_each(|_| ask(&mut rig, to, b"x"));
    }
    let header = |destination: &str, protocol| Header {
        source: rig.app.ip(),
        destination: destination.parse().unwrap(),
        protocol,
        traffic_class: 0,
        hop_limit: 64,
        whole: false,
        fragment: None,
    };
    // SCTP and a report of IGMP.
    for header in [header("198.51.100.1", 132), header("224.0.0.22", 2)] {
        let mut bytes = vec![0; ip::header_len(header.destination) + 8];
        ip::write(&header, 8, &mut bytes);
        rig.input(Input::Packet { bytes, segment: None });
    }
    let (multicast, broadcast, link_local, other_protocols) = (3, 2, 0, 1);
    let expected = NotCarried { multicast, broadcast, link_local, other_protocols };
    assert_eq!((rig.forwarder.tally().not_carried, rig.forwarder.tally().left_out), (expected, 7));
}

#[test]
fn over_ipv6_what_is_not_carried_is_counted_by_what_it_is_and_what_is_for_nobody_is_not() {
    let mut rig = Rig::new();
    rig.app = "[2001:db8::7]:4000".parse().unwrap();
    for (to, times) in [("[ff02::fb]:5353", 3), ("[fe80::1]:9", 2), ("[::1]:9", 1)] {
        (0..times).for_each(|_| ask(&mut rig, to, b"x"));
    }
    // SCTP, and what a kernel says of its neighbours.
    for (to, protocol) in [("2001:db8::1", 132), ("::1", 132), ("ff02::16", 58)] {
        let (source, destination) = (rig.app.ip(), to.parse().unwrap());
        let (traffic_class, hop_limit, whole, fragment) = (0, 64, true, None);
        let header = Header { source, destination, protocol, traffic_class, hop_limit, whole, fragment };
        let mut bytes = vec![0; 48];
        ip::write(&header, 8, &mut bytes);
        rig.input(Input::Packet { bytes, segment: None });
    }
    let expected = NotCarried { multicast: 3, broadcast: 0, link_local: 2, other_protocols: 1 };
    assert_eq!((rig.forwarder.tally().not_carried, rig.forwarder.tally().left_out), (expected, 9));
}

/// The numbers of datagrams that went out, and of those that came in, each of which begins with its own.
pub(super) fn passed_on(rig: &mut Rig) -> (Vec<u8>, Vec<u8>) {
    let up = rig.did.drain(..).filter_map(|output| match output {
        Output::Datagram { bytes, from, .. } => Some(bytes[from]),
        _ => None,
    });
    let up = up.collect();
    let down = rig.packets.drain(..).map(|(_, payload)| payload[udp::HEADER]).collect();
    (up, down)
}

#[test]
fn of_a_bunch_a_third_of_a_buffer_goes_at_once_and_the_rest_soon_in_order() {
    let mut rig = Rig::new();
    let peer = "198.51.100.1:1000";
    let (mapping, _) = rig.forwarder.bound(rig.now, rig.app).unwrap();
    let bunch = |rig: &mut Rig| {
        for n in 0..100 {
            ask(rig, peer, &[n]);
            let bytes = [&[0; HEADROOM][..], &[n]].concat();
            rig.input(Input::Datagram { mapping, from: peer.parse().unwrap(), bytes, marks: (0, 64), train: None });
        }
    };
    let numbers = |range: std::ops::Range<u8>| range.collect::<Vec<_>>();
    bunch(&mut rig);
    assert_eq!(passed_on(&mut rig), (numbers(0..32), numbers(0..32)));
    assert_eq!(rig.forwarder.poll_timeout().map(|deadline| deadline.why), Some("datagrams of a bunch"));
    rig.pass(Duration::from_millis(1));
    let (up, down) = passed_on(&mut rig);
    assert!((16..40).contains(&up.len()) && up == numbers(32..32 + up.len() as u8) && down == up, "{up:?}");
    rig.pass(Duration::from_millis(4));
    assert_eq!(passed_on(&mut rig), (numbers(32 + up.len() as u8..100), numbers(32 + up.len() as u8..100)));
    assert_eq!(rig.forwarder.poll_timeout(), None, "nothing is held, so nothing is waited for");
    // Where the port is closed, what is held goes before.
    rig.pass(Duration::from_secs(1));
    bunch(&mut rig);
    rig.forwarder.unbound(mapping);
    rig.drain();
    assert!(matches!(rig.did.last(), Some(Output::Unmap { .. })));
    assert_eq!(passed_on(&mut rig), (numbers(0..100), numbers(0..100)));
    assert_eq!(rig.forwarder.poll_timeout(), None);
}
