//! Peers that call a program.

use super::*;
use crate::forward::{Agreed, FlowEnd, Record};

/// A host that says nothing of the connection.
const NONE: (Option<u16>, Agreed) = (None, Agreed { timestamps: false, ranges: false });

/// Our first number is behind the SYN that comes to the program.
fn called() -> (Rig, Segment) {
    let mut rig = Rig::new();
    let flow =
        rig.forwarder.call(rig.now, rig.app, rig.peer, (Some(1448), Agreed::default())).expect("there is a place");
    rig.flow = Some(flow);
    rig.drain();
    let (syn, data) = rig.segments().pop().expect("a SYN");
    assert!(data.is_empty() && syn.flags == Flags::SYN, "{syn:?}");
    assert_eq!((syn.source, syn.destination), (rig.peer.port(), rig.app.port()));
    assert_eq!((syn.mss, syn.scale.is_some()), (Some(1448), true));
    rig.first = syn.sequence.wrapping_add(1);
    (rig, syn)
}

/// The program's kernel answers.
fn answer(rig: &mut Rig, window: u16) {
    let segment = rig.segment(Flags::SYN | Flags::ACK, 0, rig.first);
    rig.tell(&Segment { mss: Some(1460), scale: Some(7), window, ..segment }, b"");
}

fn open() -> Rig {
    let (mut rig, _) = called();
    answer(&mut rig, 65_160);
    let acknowledgement = rig.segments().pop().expect("it is open").0;
    assert_eq!(acknowledgement.flags, Flags::ACK);
    assert_eq!((acknowledgement.sequence, acknowledgement.acknowledged), (rig.first, ISS.wrapping_add(1)));
    rig
}

fn record(rig: &Rig) -> (FlowEnd, bool, bool) {
    let Some(Record::Flow(flow)) = rig.records.last() else { panic!("{:?}", rig.records) };
    (flow.end, flow.is_accepted(), flow.connected.is_some())
}

#[test]
fn a_call_is_answered_and_data_goes_both_ways_until_both_have_ended() {
    let mut rig = open();
    let flow = rig.flow.unwrap();
    assert!(rig.did.iter().any(|output| matches!(output, Output::Resume { .. })), "the peer's socket is read now");
    assert!(rig.forwarder.room(rig.now, flow) >= 1448);
    rig.peer(b"question");
    let (segment, data) = rig.segments().pop().unwrap();
    assert_eq!((segment.sequence, &data[..]), (rig.first, &b"question"[..]));
    rig.app(Flags::ACK | Flags::PSH, 1, rig.first.wrapping_add(8), b"answer");
    assert_eq!(rig.sent, b"answer");
    rig.input(Input::Ended { flow });
    let fin = rig.segments().pop().unwrap().0;
    assert!(fin.flags.has(Flags::FIN) && fin.sequence == rig.first.wrapping_add(8));
    rig.app(Flags::ACK | Flags::FIN, 7, rig.first.wrapping_add(9), b"");
    assert_eq!((rig.did_shut(), rig.did_close()), (true, Some(false)));
    assert_eq!(record(&rig), (FlowEnd::Finished, true, true));
}

#[test]
fn what_a_peer_has_said_before_the_program_answers_waits_in_its_socket() {
    let (mut rig, _) = called();
    let flow = rig.flow.unwrap();
    assert_eq!(rig.forwarder.room(rig.now, flow), 0);
    answer(&mut rig, 65_160);
    assert!(rig.forwarder.room(rig.now, flow) > 0);
}

#[test]
fn the_window_of_the_programs_answer_is_as_it_stands_there() {
    let (mut rig, _) = called();
    answer(&mut rig, 2000);
    let flow = rig.flow.unwrap();
    assert_eq!(rig.forwarder.room(rig.now, flow), 2000, "no scale is applied to it");
}

#[test]
fn a_call_that_is_not_answered_is_repeated_and_given_up() {
    let (mut rig, first) = called();
    rig.pass(Duration::from_millis(999));
    assert!(rig.segments().is_empty());
    rig.pass(Duration::from_secs(3));
    let again = rig.segments();
    assert_eq!((again.len(), rig.forwarder.tally().wake_ups), (2, 2), "after 1 and 3 s");
    assert!(again.iter().all(|(syn, _)| (syn.sequence, syn.flags) == (first.sequence, Flags::SYN)));
    rig.pass(Duration::from_secs(120));
    assert_eq!((rig.did_close(), record(&rig)), (Some(true), (FlowEnd::Failed, true, false)));
    assert_eq!(rig.forwarder.poll_timeout().map(|due| due.why), None);
}

#[test]
fn a_refusal_resets_the_peer_and_a_reset_of_something_else_does_not() {
    let (mut rig, _) = called();
    rig.app(Flags::RST | Flags::ACK, 0, rig.first.wrapping_sub(1), b"");
    rig.app(Flags::RST, 0, 0, b"");
    assert_eq!(rig.did_close(), None);
    rig.app(Flags::RST | Flags::ACK, 0, rig.first, b"");
    assert_eq!((rig.did_close(), record(&rig)), (Some(true), (FlowEnd::Refused, true, false)));
}

#[test]
fn a_program_that_remembers_another_connection_of_these_ends_forgets_it_and_is_called_again() {
    let (mut rig, syn) = called();
    rig.app(Flags::ACK, 77, 4711, b"");
    let reset = rig.segments().pop().unwrap().0;
    assert_eq!((reset.flags, reset.sequence), (Flags::RST, 4711));
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.segments().pop().unwrap().0.sequence, syn.sequence);
    answer(&mut rig, 65_160);
    assert_eq!(rig.segments().pop().unwrap().0.flags, Flags::ACK);
}

#[test]
fn an_answer_that_is_repeated_is_acknowledged_again() {
    let mut rig = open();
    answer(&mut rig, 65_160);
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(1));
}

#[test]
fn a_caller_that_is_gone_before_the_answer_is_said_to_be_gone() {
    let (mut rig, syn) = called();
    rig.fails(Failure::Reset);
    let reset = rig.segments().pop().unwrap().0;
    assert_eq!((reset.flags, reset.sequence), (Flags::RST, syn.sequence.wrapping_add(1)));
    assert_eq!(record(&rig), (FlowEnd::ResetByPeer, true, false));
}

#[test]
fn there_is_no_call_of_one_with_the_same_ends_nor_to_many_nor_beyond_what_there_is_room_for() {
    let (mut rig, _) = called();
    let (app, peer, now) = (rig.app, rig.peer, rig.now);
    assert_eq!(rig.forwarder.call(now, app, peer, NONE), None);
    for other in ["127.0.0.1:9", "224.0.0.1:9", "[2001:db8::1]:9"] {
        assert_eq!(rig.forwarder.call(now, app, other.parse().unwrap(), NONE), None, "{other}");
    }
    let mut small = Rig::with(Settings { most_flows: 1, ..Settings::default() });
    assert!(small.forwarder.call(now, app, peer, NONE).is_some());
    assert_eq!(small.forwarder.call(now, app, "198.51.100.1:81".parse().unwrap(), NONE), None);
    assert_eq!(small.forwarder.tally().refused, 1);
}

#[test]
fn callers_leave_the_program_half_of_the_places() {
    let mut rig = Rig::with(Settings { most_flows: 4, ..Settings::default() });
    let calls = |rig: &mut Rig| {
        let peers = (1..=4).map(|n| format!("198.51.100.{n}:81").parse().unwrap());
        peers.filter(|peer| rig.forwarder.call(rig.now, rig.app, *peer, NONE).is_some()).count()
    };
    assert_eq!(calls(&mut rig), 2);
    rig.syn();
    assert!(rig.flow.is_some(), "the program still connects");
}

#[test]
fn one_caller_that_takes_what_it_gets_leaves_places_for_others_and_gets_them_again_when_it_leaves() {
    let mut rig = Rig::with(Settings { most_flows: 128, ..Settings::default() });
    let call = |rig: &mut Rig, host: u8, port: u16| {
        let peer = format!("198.51.100.{host}:{port}").parse().unwrap();
        rig.forwarder.call(rig.now, rig.app, peer, NONE)
    };
    let first: Vec<_> = (1..=100).filter_map(|port| call(&mut rig, 1, port)).collect();
    assert_eq!(first.len(), 32, "half of what callers may have");
    let others = (2..=250).filter(|host| call(&mut rig, *host, 1).is_some()).count();
    assert_eq!(others, 32);
    rig.drain();
    // All of them are refused by the program, or gone: their places are free.
    for flow in first {
        rig.input(Input::Failed { flow, why: Failure::Reset });
    }
    assert_eq!((200..=300).filter(|port| call(&mut rig, 9, *port).is_some()).count(), 3, "one of its own is left");
    assert!(call(&mut rig, 1, 500).is_some());
}

#[test]
fn an_address_with_more_than_its_part_keeps_what_it_has_and_gets_more_when_others_have_left() {
    let mut rig = Rig::new();
    let peer = |host: u32, port: u16| SocketAddr::from((std::net::Ipv4Addr::from(0xcb00_7100 + host), port));
    let call = |rig: &mut Rig, host, port| rig.forwarder.call(rig.now, rig.app, peer(host, port), NONE);
    let many: Vec<_> = (1..=700).filter_map(|port| call(&mut rig, 1, port)).collect();
    let others: Vec<_> = (0..3500).filter_map(|n| call(&mut rig, 1000 + n, 9)).collect();
    assert_eq!((many.len(), others.len()), (700, 3500), "more than 4096 are open");
    // The program answers one of the many; it is as open as any.
    rig.drain();
    let syns = rig.segments();
    let (rig_peer, syn) = (peer(1, 700), syns.iter().find(|(syn, _)| syn.source == 700).unwrap().0);
    (rig.peer, rig.first) = (rig_peer, syn.sequence.wrapping_add(1));
    answer(&mut rig, 65_160);
    rig.packets.clear();
    assert_eq!(call(&mut rig, 1, 701), None);
    assert!(call(&mut rig, 2, 1).is_some(), "one that has fewer is served");
    rig.flow = many.last().copied();
    rig.peer(b"question");
    assert_eq!(rig.segments().pop().unwrap().1, b"question");
    rig.app(Flags::ACK | Flags::PSH, 1, rig.first.wrapping_add(8), b"answer");
    assert_eq!((&rig.sent[..], rig.did_close()), (&b"answer"[..], None));
    for flow in others.into_iter().take(200) {
        rig.input(Input::Failed { flow, why: Failure::Reset });
    }
    assert!(call(&mut rig, 1, 702).is_some(), "less than 4096 are");
}

#[test]
fn a_call_that_has_ended_leaves_its_place_before_its_socket_is_closed() {
    let mut rig = Rig::with(Settings { most_flows: 4, ..Settings::default() });
    let call = |rig: &mut Rig, host: u8| {
        let peer = format!("198.51.100.{host}:81").parse().unwrap();
        rig.forwarder.call(rig.now, rig.app, peer, NONE)
    };
    let flow = call(&mut rig, 1).unwrap();
    // Its socket takes its time.
    rig.forwarder.handle_input(rig.now, Input::Failed { flow, why: Failure::Reset });
    let others = (2..9).filter(|host| call(&mut rig, *host).is_some());
    assert_eq!(others.count(), 2);
}

#[test]
fn a_place_is_a_callers_until_it_is_gone_and_is_given_back_once() {
    let mut rig = Rig::with(Settings { most_flows: 8, ..Settings::default() });
    let call = |rig: &mut Rig, port: u16| {
        let flow = rig.forwarder.call(rig.now, rig.app, format!("198.51.100.1:{port}").parse().unwrap(), NONE);
        rig.drain();
        flow
    };
    let (first, second) = (call(&mut rig, 81).unwrap(), call(&mut rig, 82).unwrap());
    rig.pass(Duration::from_secs(1));
    assert_eq!(call(&mut rig, 83), None, "it has what it may have");
    // The program's own connection to the same host is none of them, however it ends.
    rig.syn();
    rig.fails(Failure::Refused);
    rig.syn();
    rig.input(Input::Closed { flow: rig.flow.unwrap(), facts: None });
    assert_eq!((rig.forwarder.open().len(), call(&mut rig, 83)), (2, None));
    rig.input(Input::Failed { flow: first, why: Failure::Reset });
    let third = call(&mut rig, 83).expect("one has left");
    assert_eq!(call(&mut rig, 84), None);
    // Sockets that are closed of themselves.
    rig.input(Input::Closed { flow: second, facts: None });
    assert!(call(&mut rig, 84).is_some() && call(&mut rig, 85).is_none());
    rig.input(Input::Closed { flow: third, facts: None });
    assert!(call(&mut rig, 83).is_some(), "with the same ends as one before");
}
