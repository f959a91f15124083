//! How connections begin: the truth about the peer, and never before it is known.

use super::*;
use crate::forward::FlowEnd;
use crate::wire::ip::ICMP;
use crate::wire::ip::icmp::Trouble;

#[test]
fn a_program_is_answered_when_the_peer_has_answered_and_never_earlier() {
    let mut rig = Rig::new();
    rig.syn();
    assert!(matches!(
        rig.did[0],
        Output::Connect { traffic_class: 0xb8, hop_limit: 64, no_delay: true, mss: 1460, .. }
    ));
    rig.pass(Duration::from_secs(30));
    rig.syn();
    assert!(rig.packets.is_empty(), "patience is silence");
    let connects = rig.did.iter().filter(|did| matches!(did, Output::Connect { .. }));
    assert_eq!(connects.count(), 1, "the same SYN again is not another connection");
    let flow = rig.flow.unwrap();
    rig.input(Input::Connected { flow, mss: Some(1400) });
    let (answer, _) = rig.segments().pop().unwrap();
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    assert_eq!((answer.mss, answer.scale), (Some(1400), Some(4)), "as long as the path takes");
    assert_eq!(answer.window, 65_535, "the window of a SYN-ACK is not scaled");
}

#[test]
fn without_super_packets_segments_longer_than_any_wires_stay_long_and_count_as_the_path_has_them() {
    for (offered, answered) in [(65_495, 65_495), (8960, 1448), (1460, 1448)] {
        let mut rig = Rig::with(Settings { long_segments: true, ..Settings::default() });
        let syn = Segment { mss: Some(offered), scale: Some(7), ..rig.segment(Flags::SYN, 0, 0) };
        rig.tell(&syn, b"");
        let flow = rig.flow.unwrap();
        rig.input(Input::Connected { flow, mss: Some(1448) });
        let (answer, _) = rig.segments().pop().unwrap();
        assert_eq!(answer.mss, Some(answered));
        rig.first = answer.sequence.wrapping_add(1);
        rig.app(Flags::ACK, 1, rig.first, &text(20_000));
        let room = rig.forwarder.room(rig.now, flow);
        assert_eq!(room, if answered > 1448 { 65_400 } else { 65_400 / 1448 * 1448 }, "a packet at most");
        let mut bytes = vec![0; HEADROOM];
        bytes.extend(text(room));
        rig.forwarder.handle_input(rig.now, Input::Received { flow, bytes, urgent: false });
        let Some(Output::Packet(packet)) = rig.forwarder.poll_output() else { panic!("a packet") };
        assert_eq!(packet.segments.is_none(), answered > 1448);
        let seen = &rig.forwarder.open()[0];
        assert_eq!(seen.down.packets, room.div_ceil(1448) as u64);
        assert_eq!(seen.up.packets, if answered > 1448 { 14 } else { 1 }, "as the socket will cut it, or as it came");
    }
}

#[test]
fn a_connection_to_port_zero_is_the_peers_to_refuse() {
    let mut rig = Rig::new();
    rig.peer.set_port(0);
    rig.syn();
    assert!(matches!(rig.did[..], [Output::Connect { peer, .. }] if peer == rig.peer), "{:?}", rig.did);
    rig.fails(Failure::Refused);
    assert!(rig.segments().pop().unwrap().0.flags.has(Flags::RST));
}

#[test]
fn windows_are_scaled_only_for_who_offers_it() {
    let mut rig = Rig::new();
    let plain = Segment { mss: Some(1460), ..rig.segment(Flags::SYN, 0, 0) };
    rig.tell(&plain, b"");
    let flow = rig.flow.unwrap();
    rig.input(Input::Connected { flow, mss: None });
    let (answer, _) = rig.segments().pop().unwrap();
    assert_eq!((answer.mss, answer.scale), (Some(1460), None));
    rig.app(Flags::ACK, 1, answer.sequence.wrapping_add(1), b"x");
    assert_eq!(rig.segments().pop().unwrap().0.window, 65_535);
}

//= RFC 9293#3.10.7.3
#[test]
fn a_refusal_is_a_reset_that_acknowledges_the_syn() {
    let mut rig = Rig::new();
    rig.syn();
    rig.fails(Failure::Refused);
    let (reset, _) = rig.segments().pop().unwrap();
    let told = (reset.flags, reset.sequence, reset.acknowledged);
    assert_eq!(told, (Flags::RST | Flags::ACK, 0, ISS.wrapping_add(1)), "there is no number of the peer's");
    assert_eq!(rig.did_close(), Some(true));
    assert!(rig.forwarder.open().is_empty() && rig.forwarder.poll_timeout().is_none());
}

#[test]
fn no_route_is_an_error_that_quotes_the_syn() {
    for (trouble, code) in [(Trouble::NoRoute, 0), (Trouble::HostUnreachable, 1), (Trouble::Prohibited, 13)] {
        let mut rig = Rig::new();
        rig.syn();
        rig.fails(Failure::Trouble(trouble));
        let (header, message) = rig.packets.pop().unwrap();
        assert_eq!((header.protocol, message[0], message[1]), (ICMP, 3, code));
        assert_eq!(header.destination, rig.app.ip());
        let quoted = &message[8..];
        assert_eq!((&quoted[12..16], &quoted[20..22]), (&[192, 0, 2, 7][..], &4000_u16.to_be_bytes()[..]));
    }
}

#[test]
fn what_a_router_says_of_a_connection_comes_to_the_program_as_the_routers() {
    for (app, peer, router, kinds) in [
        (APP, PEER, "203.0.113.1", [(11, 0), (3, 13), (3, 3)]),
        ("[2001:db8::7]:4000", "[2001:db8::1]:80", "2001:db8:5::1", [(3, 0), (1, 1), (1, 4)]),
    ] {
        let troubles = [Trouble::HopsExceeded, Trouble::Prohibited, Trouble::PortUnreachable];
        for (trouble, kind) in troubles.into_iter().zip(kinds) {
            let mut rig = Rig::new();
            (rig.app, rig.peer) = (app.parse().unwrap(), peer.parse().unwrap());
            rig.syn();
            let reporter = router.parse().unwrap();
            rig.fails(Failure::Told { reporter, trouble });
            let (header, message) = rig.packets.pop().unwrap();
            assert_eq!((header.source, (message[0], message[1])), (reporter, kind), "{trouble:?}");
            assert_eq!(ip::parse(&message[8..]).map(|(quoted, _)| quoted.destination), Some(rig.peer.ip()));
            assert_eq!(rig.did_close(), Some(true));
            let Some(Record::Flow(flow)) = rig.records.pop() else { panic!("no record") };
            assert_eq!(flow.end == FlowEnd::Refused, trouble == Trouble::PortUnreachable, "{trouble:?}");
        }
    }
}

#[test]
fn what_the_host_itself_says_of_a_neighbour_does_not_come_from_the_programs_own_address() {
    let mut rig = Rig::new();
    rig.syn();
    let reporter = rig.app.ip();
    rig.fails(Failure::Told { reporter, trouble: Trouble::HostUnreachable });
    let (header, message) = rig.packets.pop().unwrap();
    assert_eq!((header.source, (message[0], message[1])), (rig.peer.ip(), (3, 1)));
}

#[test]
fn silence_is_silence() {
    for why in [Failure::Silence, Failure::Here] {
        let mut rig = Rig::new();
        rig.syn();
        rig.fails(why);
        assert!(rig.packets.is_empty());
        rig.did.clear();
        rig.syn();
        assert!(matches!(rig.did[0], Output::Connect { .. }), "the program may try again");
    }
}

#[test]
fn an_answer_that_is_lost_is_given_again_for_as_long_as_a_kernel_would() {
    let mut rig = Rig::new();
    rig.syn();
    let flow = rig.flow.unwrap();
    rig.input(Input::Connected { flow, mss: None });
    rig.pass(Duration::from_secs(31));
    assert_eq!(rig.segments().len(), 1 + 5);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.segments().pop().unwrap().0.flags, Flags::RST | Flags::ACK);
    assert_eq!(rig.did_close(), Some(true), "and the peer is not left waiting");
}

#[test]
fn a_program_that_gives_up_is_followed() {
    let mut rig = Rig::new();
    rig.syn();
    rig.app(Flags::RST, 1, 0, b"");
    assert_eq!(rig.did_close(), Some(true));
}

#[test]
fn a_program_that_is_silent_about_giving_up_is_looked_at_and_followed() {
    let mut rig = Rig::new();
    rig.syn();
    let flow = rig.flow.unwrap();
    let look = |rig: &mut Rig, time| {
        rig.did.clear();
        rig.pass(time);
        rig.did.iter().any(|did| matches!(did, Output::LookAtProgram { .. }))
    };
    // Linux repeats a SYN 1, 2, 3, 4, 5, 7, 11, 19, 35 and 67 s after the first: each time the program is looked at before.
    let tick = Duration::from_millis(50);
    let looks: Vec<_> = (1..=1400).filter(|_| look(&mut rig, tick)).map(|n| n * 50).collect();
    assert_eq!(looks, [900, 1900, 2900, 3900, 4900, 6900, 10_900, 18_900, 34_900, 50_900, 66_900]);
    rig.input(Input::GivenUp { flow });
    assert_eq!(rig.did_close(), Some(true));
    assert!(!look(&mut rig, Duration::from_secs(100)));
    assert!(rig.packets.is_empty(), "a program that is gone hears nothing");
}

#[test]
fn a_syn_that_is_never_repeated_or_late_is_still_wanted() {
    // A kernel with tcp_syn_retries of 1 says it twice, and one whose timer is slow says nothing for long: neither ends anything.
    for repeats in [&[][..], &[1], &[9, 31]] {
        let mut rig = Rig::new();
        rig.syn();
        for seconds in repeats {
            rig.pass(Duration::from_secs(*seconds));
            rig.syn();
        }
        rig.pass(Duration::from_secs(60));
        assert_eq!(rig.did_close(), None, "{repeats:?}");
        let flow = rig.flow.unwrap();
        rig.input(Input::Connected { flow, mss: None });
        assert_eq!(rig.segments().pop().unwrap().0.flags, Flags::SYN | Flags::ACK, "{repeats:?}");
        // What was asked before it was open is not answered after.
        rig.did.clear();
        rig.input(Input::GivenUp { flow });
        assert_eq!(rig.did_close(), None);
    }
}

#[test]
fn who_answers_early_is_found_out_and_keeps_what_was_said_meanwhile() {
    let settings = Settings { profile: profile::find("early-synack").unwrap(), ..Settings::default() };
    let mut rig = Rig::with(settings);
    rig.syn();
    let (answer, _) = rig.segments().pop().expect("at once");
    rig.app(Flags::ACK, 1, answer.sequence.wrapping_add(1), b"GET /");
    assert!(rig.sent.is_empty());
    let flow = rig.flow.unwrap();
    rig.input(Input::Connected { flow, mss: Some(1448) });
    assert_eq!(rig.sent, b"GET /");
    let mut rig = Rig::with(Settings { profile: profile::find("early-synack").unwrap(), ..Settings::default() });
    rig.syn();
    rig.fails(Failure::Refused);
    assert_eq!(rig.segments().len(), 2, "a connection, and then its end");
}

#[test]
fn ipv6_is_as_good() {
    let mut rig = Rig::new();
    (rig.app, rig.peer) = ("[2001:db8::7]:4000".parse().unwrap(), "[2001:db8::1]:80".parse().unwrap());
    rig.handshake();
    rig.app(Flags::ACK, 1, rig.first(), b"hello");
    rig.peer(b"world");
    assert_eq!(rig.sent, b"hello");
    assert!(rig.segments().iter().any(|(_, data)| data == b"world"));
    rig.syn();
    let mut rig = Rig::new();
    (rig.app, rig.peer) = ("[2001:db8::7]:4000".parse().unwrap(), "[2001:db8::1]:80".parse().unwrap());
    rig.syn();
    rig.fails(Failure::Trouble(Trouble::HostUnreachable));
    assert_eq!(rig.packets[0].1[..2], [1, 3]);
}

#[test]
fn a_full_table_leaves_newcomers_unanswered_and_serves_the_others() {
    let mut rig = Rig::with(Settings { most_flows: 3, ..Settings::default() });
    rig.handshake();
    for port in 5000..5100 {
        rig.app.set_port(port);
        rig.syn();
    }
    assert_eq!(rig.forwarder.open().len(), 3);
    assert_eq!(rig.forwarder.tally().refused, 98);
    // The latest two are answered, and then there is no place that could be another's.
    for port in [5098, 5099] {
        let open = rig.forwarder.open();
        let flow = open.iter().find(|flow| flow.app.port() == port).expect("it has a place").id;
        rig.input(Input::Connected { flow, mss: None });
    }
    rig.did.clear();
    rig.app.set_port(6000);
    rig.syn();
    assert!(rig.did.is_empty() && rig.forwarder.tally().refused == 99, "{:?}", rig.did);
    rig.app.set_port(4000);
    let acknowledged = rig.first();
    rig.app(Flags::ACK, 1, acknowledged, b"still here");
    assert_eq!(rig.sent, b"still here");
}

#[test]
fn a_flood_of_syns_to_a_silent_peer_takes_no_place_from_another() {
    let mut rig = Rig::with(Settings { most_flows: 64, ..Settings::default() });
    let (honest, silent) = ("198.51.100.7:80".parse().unwrap(), "203.0.113.9:80".parse().unwrap());
    let flood = |rig: &mut Rig| {
        rig.peer = silent;
        for port in 5000..9000 {
            rig.app.set_port(port);
            rig.syn();
        }
    };
    flood(&mut rig);
    (rig.peer, rig.flow) = (honest, None);
    rig.app.set_port(4000);
    rig.syn();
    let flow = rig.flow.expect("it gets a place at once");
    flood(&mut rig);
    assert!(rig.forwarder.open().len() <= 64);
    rig.packets.clear();
    rig.input(Input::Connected { flow, mss: None });
    assert_eq!(rig.segments().pop().expect("an answer").0.flags, Flags::SYN | Flags::ACK);
    // And what was dropped for others may try again.
    rig.peer = silent;
    rig.app.set_port(5000);
    rig.did.clear();
    rig.syn();
    assert!(rig.did.iter().any(|did| matches!(did, Output::Connect { .. })), "{:?}", rig.did);
}

#[test]
fn until_the_peer_has_answered_nothing_but_the_exact_reset_counts() {
    let mut rig = Rig::new();
    rig.syn();
    rig.did.clear();
    rig.app(Flags::RST, 100, 0, b"");
    let first = rig.forwarder.open()[0].id;
    // Of a connection that had the same ends before.
    for flags in [Flags::ACK, Flags::FIN | Flags::ACK, Flags::SYN | Flags::ACK] {
        let mut bytes = packet(rig.app, rig.peer, &rig.segment(flags, 1, 4711), b"old");
        bytes[1] = 0x22;
        rig.input(Input::Packet { bytes, segment: None });
    }
    assert!(rig.did.is_empty() && rig.packets.is_empty(), "{:?} {:?}", rig.did, rig.packets);
    assert_eq!((rig.forwarder.open()[0].id, rig.forwarder.open()[0].up.bytes), (first, 0));
    rig.app(Flags::RST, 1, 0, b"");
    assert_eq!(rig.did_close(), Some(true));
}

#[test]
fn a_syn_that_comes_again_is_answered_again_and_another_one_is_questioned_once_it_is_open() {
    let mut rig = Rig::new();
    rig.syn();
    let flow = rig.flow.unwrap();
    rig.input(Input::Connected { flow, mss: Some(1448) });
    let (answer, _) = rig.segments().pop().unwrap();
    rig.syn();
    let (again, _) = rig.segments().pop().expect("the answer was lost");
    assert_eq!((again.flags, again.sequence, again.mss), (answer.flags, answer.sequence, answer.mss));
    rig.app(Flags::SYN, 5000, 0, b"");
    assert!(rig.segments().is_empty(), "that is not the one that was answered");
    rig.app(Flags::ACK, 1, answer.sequence.wrapping_add(1), b"");
    rig.app(Flags::SYN, 5000, 0, b"");
    let (question, _) = rig.segments().pop().expect("a question");
    assert_eq!((question.flags, question.acknowledged), (Flags::ACK, ISS.wrapping_add(1)));
    // And once it has answered, a program is not looked at as one that waits.
    rig.did.clear();
    rig.peer(b"hello");
    rig.pass(Duration::from_secs(5));
    assert!(!rig.did.iter().any(|did| matches!(did, Output::LookAtProgram { .. })));
}

#[test]
fn who_answers_early_reads_nothing_of_a_peer_that_is_not_there_yet() {
    let mut rig = Rig::with(Settings { profile: profile::find("early-synack").unwrap(), ..Settings::default() });
    rig.syn();
    let (flow, answer) = (rig.flow.unwrap(), rig.segments().pop().expect("at once").0);
    assert_eq!(rig.forwarder.room(rig.now, flow), 0);
    let did_resume = |rig: &mut Rig| rig.did.drain(..).any(|did| matches!(did, Output::Resume { .. }));
    rig.app(Flags::ACK, 1, answer.sequence.wrapping_add(1), b"");
    assert!(!did_resume(&mut rig));
    rig.input(Input::Connected { flow, mss: Some(1448) });
    assert!(did_resume(&mut rig));
}
