//! Ports that are mapped: datagrams that come to them singly and in trains, how many ports there may be, and what is recorded of their peers.

use super::datagrams::{ask, datagram, passed_on, strange};
use super::*;
use crate::forward::MappingId;
use crate::wire::ip::udp;

/// What a datagram of a peer, or a train of them, comes to its program as.
fn came(rig: &mut Rig, mapping: MappingId, from: &str, data: &[u8], train: Option<u16>) -> Option<Packet> {
    let bytes = [&[0; HEADROOM][..], data].concat();
    let input = Input::Datagram { mapping, from: from.parse().unwrap(), bytes, marks: (0, 64), train };
    rig.forwarder.handle_input(rig.now, input);
    let outputs = std::iter::from_fn(|| rig.forwarder.poll_output());
    let packets = outputs.filter_map(|output| if let Output::Packet(packet) = output { Some(packet) } else { None });
    packets.last()
}

#[test]
fn a_datagram_comes_with_what_makes_its_checksum_right_be_it_empty_and_never_from_the_other_family() {
    let of_both = [
        ("192.0.2.7:4000", "198.51.100.1:9", "[2001:db8::1]:9"),
        ("[2001:db8::7]:4000", "[2001:db8::1]:9", "198.51.100.1:9"),
    ];
    for (app, from, other) in of_both {
        let mut rig = Rig::new();
        let (mapping, _) = rig.forwarder.bound(rig.now, app.parse().unwrap()).unwrap();
        for data in [&b""[..], b"odd", b"even"] {
            let packet = came(&mut rig, mapping, from, data, None).expect("a packet");
            let bytes = finished(&packet);
            assert!(ip::is_sound(&bytes), "{bytes:?}");
            assert_eq!(udp::parse(ip::parse(&bytes).unwrap().1), Some((9, 4000, data)));
        }
        assert!(came(&mut rig, mapping, other, b"x", None).is_none());
        let (from, other) = (from.parse().unwrap(), other.parse().unwrap());
        let (marks, train, short) = ((0, 64), None, || vec![0; HEADROOM - 1]);
        rig.input(Input::Datagram { mapping, from, bytes: short(), marks, train });
        rig.input(Input::Answered { mapping, server: from, bytes: short() });
        rig.input(Input::Answered { mapping, server: other, bytes: vec![0; HEADROOM + 12] });
        assert!(rig.packets.is_empty(), "{:?}", rig.packets);
        rig.input(Input::Answered { mapping, server: from, bytes: vec![0; HEADROOM] });
        assert_eq!(rig.packets.len(), 1);
    }
}

#[test]
fn what_comes_as_a_train_of_one_is_a_datagram_like_any() {
    let mut rig = Rig::new();
    let (mapping, _) = rig.forwarder.bound(rig.now, rig.app).unwrap();
    for (size, segments) in [(9, None), (8, None), (7, Some((7, 28)))] {
        let packet = came(&mut rig, mapping, "203.0.113.9:99", b"8 bytes.", Some(size)).unwrap();
        assert_eq!(packet.segments, segments, "{size}");
    }
}

#[test]
fn a_train_counts_as_all_of_its_datagrams() {
    let mut rig = Rig::new();
    let peer: SocketAddr = "198.51.100.1:1000".parse().unwrap();
    let (mapping, _) = rig.forwarder.bound(rig.now, rig.app).unwrap();
    // Of the 32 that go at once, it is 31.
    let (train, size) = (text(31 * 10), Some(10));
    let bytes = datagram(rig.app, peer, 0, 64, &train);
    rig.input(Input::Packet { bytes, segment: size });
    let bytes = [&[0; HEADROOM][..], &train].concat();
    rig.input(Input::Datagram { mapping, from: peer, bytes, marks: (0, 64), train: size });
    for _ in 0..3 {
        ask(&mut rig, "198.51.100.1:1000", b"x");
        strange(&mut rig, mapping, "198.51.100.1:1000");
    }
    let (up, down) = passed_on(&mut rig);
    assert_eq!((up.len(), down.len()), (2, 2));
}

#[test]
fn a_port_that_is_bound_costs_another_its_socket_only_where_there_is_no_place_left() {
    let mut rig = Rig::with(Settings { most_mappings: 6, ..Settings::default() });
    let ip = rig.app.ip();
    let app = |port| SocketAddr::new(ip, port);
    let unmapped = |rig: &mut Rig| {
        rig.drain();
        let did = std::mem::take(&mut rig.did).into_iter();
        did.filter_map(|output| if let Output::Unmap { mapping } = output { Some(mapping.0) } else { None })
            .collect::<Vec<_>>()
    };
    for port in 1..=4 {
        rig.now += Duration::from_secs(1);
        rig.app.set_port(port);
        ask(&mut rig, "198.51.100.1:1000", b"x");
    }
    assert!(rig.forwarder.bound(rig.now, app(5)).is_some() && unmapped(&mut rig).is_empty());
    rig.app.set_port(6);
    ask(&mut rig, "198.51.100.1:1000", b"x");
    // All places are taken: by four that have sent, one that is held, and this one.
    let (third, is_new) = rig.forwarder.bound(rig.now, app(3)).unwrap();
    assert!(!is_new && unmapped(&mut rig).is_empty(), "it has its socket");
    let seventh = rig.forwarder.bound(rig.now, app(7));
    assert_eq!((seventh.map(|(_, is_new)| is_new), unmapped(&mut rig)), (Some(true), vec![0]));
    assert_eq!((rig.forwarder.mappings(), rig.forwarder.bound(rig.now, app(8))), (6, None), "half of them are held");
    rig.forwarder.unbound(third);
    assert!(rig.forwarder.bound(rig.now, app(8)).is_some() && rig.forwarder.bound(rig.now, app(9)).is_none());
}

#[test]
fn of_too_many_peers_the_one_that_was_silent_for_longest_is_recorded_and_makes_room() {
    let mut rig = Rig::new();
    let speak = |rig: &mut Rig, port: u16| {
        rig.now += Duration::from_millis(1);
        ask(rig, &format!("198.51.100.1:{port}"), b"x");
    };
    (1001..=1256).for_each(|port| speak(&mut rig, port));
    speak(&mut rig, 1001);
    assert!(rig.records.is_empty(), "there is room for as many");
    speak(&mut rig, 1257);
    assert!(matches!(&rig.records[..], [Record::Udp(flow)] if flow.peer.port() == 1002), "{:?}", rig.records);
}
