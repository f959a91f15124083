//! Echoes: whose they are, and what is counted and timed of them.

use super::*;
use crate::forward::EchoFlow;
use crate::wire::ip::icmp::{self, Trouble};
use std::net::IpAddr;

const MINUTE: Duration = Duration::from_secs(60);

fn message(kind: u8, id: u16, number: u16) -> Vec<u8> {
    [&[kind, 0, 0, 0][..], &id.to_be_bytes(), &number.to_be_bytes(), b"how far?"].concat()
}

/// The program at this address asks the peer.
fn ask(rig: &mut Rig, app: &str, id: u16, number: u16) {
    let bytes = icmp::packet_of(app.parse().unwrap(), rig.peer.ip(), (0, 64), message(8, id, number));
    rig.input(Input::Packet { bytes, segment: None });
    assert!(matches!(rig.did.pop(), Some(Output::Echo { .. })));
}

/// The peer replies; the program's address that gets the reply, if any does.
fn reply(rig: &mut Rig, id: u16, number: u16) -> Option<IpAddr> {
    rig.input(Input::Echoed { from: rig.peer.ip(), message: message(0, id, number), hop_limit: 61 });
    rig.packets.pop().map(|(header, _)| header.destination)
}

fn fails(rig: &mut Rig, message: Vec<u8>) -> Vec<u8> {
    let (to, reporter, trouble) = (rig.peer.ip(), None, Trouble::HostUnreachable);
    rig.input(Input::EchoFailed { to, reporter, message, trouble, hop_limit: 63 });
    rig.packets.pop().expect("the program hears of it").1
}

fn seen(rig: &Rig) -> &EchoFlow {
    rig.forwarder.echo_flows().next().expect("an asker")
}

#[test]
fn each_reply_is_timed_from_its_own_request_and_what_fails_is_counted() {
    let mut rig = Rig::new();
    for number in 1..=4 {
        ask(&mut rig, "192.0.2.7", 9, number);
        rig.pass(Duration::from_secs(1));
    }
    // The second is replied to, twice, and then the first.
    for number in [2, 2, 1] {
        assert_eq!(reply(&mut rig, 9, number), Some(rig.app.ip()));
    }
    (0..2).for_each(|_| drop(fails(&mut rig, message(8, 9, 3))));
    let flow = seen(&rig);
    assert_eq!((flow.requests, flow.replies, flow.icmp_errors), (4, 3, 2));
    assert_eq!((flow.trips.count, flow.trips.total), (2, Duration::from_secs(3 + 4)));
    assert!(rig.records.is_empty(), "it is the same asker");
}

#[test]
fn of_many_requests_without_a_reply_the_latest_can_be_timed() {
    let mut rig = Rig::new();
    (0..65).for_each(|number| ask(&mut rig, "192.0.2.7", 9, number));
    assert!(reply(&mut rig, 9, 0).is_some(), "it is passed on all the same");
    assert_eq!(seen(&rig).trips.count, 0);
    reply(&mut rig, 9, 1);
    assert_eq!((seen(&rig).replies, seen(&rig).trips.count), (2, 1));
}

#[test]
fn a_reply_is_the_programs_for_a_minute() {
    let mut rig = Rig::new();
    ask(&mut rig, "192.0.2.7", 9, 1);
    rig.pass(MINUTE - Duration::from_millis(1));
    assert!(reply(&mut rig, 9, 1).is_some());
    rig.pass(Duration::from_millis(1));
    assert!(reply(&mut rig, 9, 1).is_none());
}

#[test]
fn a_number_is_of_the_program_that_has_used_it_last() {
    let mut rig = Rig::new();
    ask(&mut rig, "192.0.2.7", 9, 1);
    ask(&mut rig, "192.0.2.8", 9, 1);
    assert!(matches!(&rig.records[..], [Record::Echo(flow)] if flow.app == rig.app.ip()), "{:?}", rig.records);
    assert_eq!(reply(&mut rig, 9, 1), Some("192.0.2.8".parse().unwrap()));
}

#[test]
fn an_asker_is_recorded_when_it_makes_room_or_a_minute_has_passed() {
    let mut rig = Rig::new();
    for id in 0..256 {
        rig.pass(Duration::from_millis(1));
        ask(&mut rig, "192.0.2.7", id, 1);
    }
    rig.pass(Duration::from_millis(1));
    ask(&mut rig, "192.0.2.7", 0, 2);
    assert!(rig.records.is_empty(), "there is room for as many");
    ask(&mut rig, "192.0.2.7", 256, 1);
    assert!(matches!(&rig.records[..], [Record::Echo(flow)] if flow.id == 1), "the one that was silent for longest");
    rig.pass(MINUTE);
    ask(&mut rig, "192.0.2.7", 257, 1);
    assert_eq!((rig.records.len(), rig.forwarder.echo_flows().count()), (1 + 256, 1));
}

#[test]
fn of_a_long_request_an_error_quotes_what_every_host_takes() {
    let mut rig = Rig::new();
    ask(&mut rig, "192.0.2.7", 9, 1);
    let request = [message(8, 9, 1), text(1400)].concat();
    let error = fails(&mut rig, request.clone());
    let (header, quoted) = ip::parse(&error[8..]).expect("a packet of the length that it says");
    assert_eq!((header.source, quoted), (rig.app.ip(), &request[..icmp::most_quoted(true) - 20]));
}
