//! Timestamps and selective acknowledgements, as a program sees them.

use super::*;
use crate::forward::Agreed;

const BOTH: Agreed = Agreed { timestamps: true, ranges: true };

/// The program's SYN, with its clock, and the answer of the forwarder where the host has agreed on this with the peer.
fn opened(rig: &mut Rig, offers: bool, agreed: Option<Agreed>) -> Segment {
    let syn = Segment { mss: Some(1460), scale: Some(7), ..rig.segment(Flags::SYN, 0, 0) };
    let offer = Segment { takes_ranges: true, stamps: Some((5000, 0)), ..syn };
    rig.tell(if offers { &offer } else { &syn }, b"");
    let flow = rig.flow.unwrap();
    agreed.into_iter().for_each(|agreed| rig.input(Input::Agreed { flow, agreed }));
    rig.input(Input::Connected { flow, mss: Some(1448) });
    let answer = rig.segments().pop().expect("an answer").0;
    rig.first = answer.sequence.wrapping_add(1);
    answer
}

/// A program and a peer that have both.
fn stamped() -> Rig {
    let mut rig = Rig::new();
    opened(&mut rig, true, Some(BOTH));
    say(&mut rig, 1, 5001, b"");
    rig.packets.clear();
    rig
}

/// The program says something at this moment of its clock.
fn say(rig: &mut Rig, offset: u32, clock: u32, data: &[u8]) {
    let segment = rig.segment(Flags::ACK, offset, rig.first);
    rig.tell(&Segment { stamps: Some((clock, 0)), ..segment }, data);
}

#[test]
fn a_program_has_what_both_it_and_the_peer_have_and_segments_as_long_as_without_a_forwarder() {
    let [stamps, ranges] = [(true, false), (false, true)].map(|(timestamps, ranges)| Agreed { timestamps, ranges });
    for (offers, agreed, has, mss) in [
        (true, Some(BOTH), BOTH, 1460),
        (true, Some(stamps), stamps, 1460),
        (true, Some(ranges), ranges, 1448),
        (true, None, Agreed::default(), 1448),
        (false, Some(BOTH), Agreed::default(), 1448),
    ] {
        let mut rig = Rig::new();
        let answer = opened(&mut rig, offers, agreed);
        assert_eq!((answer.stamps.is_some(), answer.takes_ranges), (has.timestamps, has.ranges), "{agreed:?}");
        assert_eq!(answer.mss, Some(mss));
        assert!(answer.stamps.is_none_or(|(_, echo)| echo == 5000));
        say(&mut rig, 1, 5001, b"");
        let flow = rig.flow.unwrap();
        let mut bytes = vec![0; HEADROOM];
        bytes.extend(text(3000));
        rig.forwarder.handle_input(rig.now, Input::Received { flow, bytes, urgent: false });
        let mut packets = std::iter::from_fn(|| rig.forwarder.poll_output()).filter_map(|output| match output {
            Output::Packet(packet) => Some(packet),
            _ => None,
        });
        let packet = packets.next().expect("a packet");
        // What a wire had: 1448 bytes, and 12 of timestamps where both have them.
        let headers = 40 + if has.timestamps { 12 } else { 0 };
        assert_eq!((packet.segments, packet.as_slice().len()), (Some((1448, headers)), 3000 + usize::from(headers)));
        let (_, payload) = ip::parse(packet.as_slice()).unwrap();
        assert_eq!(tcp::parse(payload).unwrap().1, text(3000));
    }
}

#[test]
fn the_clock_goes_on_and_the_programs_is_echoed_as_of_what_was_acknowledged_last() {
    let mut rig = stamped();
    let (before, _) = { (rig.peer(b"x"), rig.segments().pop().unwrap().0.stamps.unwrap()) }.1;
    rig.pass(Duration::from_millis(70));
    rig.peer(b"y");
    let (clock, echo) = rig.segments().pop().unwrap().0.stamps.unwrap();
    assert_eq!((clock.wrapping_sub(before), echo), (70, 5001));
    say(&mut rig, 1, 5075, b"hello");
    assert_eq!(rig.segments().pop().unwrap().0.stamps.unwrap().1, 5075);
    // Beyond a gap: its acknowledgement is of what was said before.
    say(&mut rig, 100, 5090, b"later");
    assert_eq!(rig.segments().pop().unwrap().0.stamps.unwrap().1, 5075);
    // An event of a moment ago turns no clock back.
    rig.now = Instant::from_millis(1000);
    rig.peer(b"z");
    assert_eq!(rig.segments().pop().unwrap().0.stamps.unwrap().0, clock);
    rig.now = Instant::from_millis(1070);
    // What is sent once more has the clock of now.
    rig.pass(Duration::from_millis(300));
    let (again, _) = rig.segments().pop().expect("x and y are not acknowledged");
    assert_eq!(again.stamps.unwrap().0.wrapping_sub(clock), 130, "200 ms after x");
}

#[test]
fn a_segment_of_the_past_is_acknowledged_and_not_taken_and_after_24_days_there_is_no_past() {
    let mut rig = stamped();
    say(&mut rig, 1, 10, b"past");
    assert_eq!((rig.segments().pop().unwrap().0.acknowledged, &rig.sent[..]), (ISS.wrapping_add(1), &b""[..]));
    // A reset is taken by its number alone.
    say(&mut rig, 1, 5002, b"now");
    assert_eq!(rig.sent, b"now");
    let plain = rig.segment(Flags::ACK, 4, rig.first);
    rig.tell(&plain, b"...");
    assert_eq!(rig.sent, b"now...", "without any it is taken, as Linux does");
    rig.now += Duration::from_secs(25 * 24 * 3600);
    say(&mut rig, 7, 10, b"later");
    assert_eq!(rig.sent, b"now...later");
    let reset = Segment { stamps: Some((1, 0)), ..rig.segment(Flags::RST, 12, 0) };
    rig.tell(&reset, b"");
    assert_eq!(rig.did_close(), Some(true));
}

#[test]
fn what_came_beyond_a_gap_is_said_the_latest_first_and_joined_and_no_more_than_there_is_room_for() {
    let mut rig = stamped();
    let number = |offset: u32| ISS.wrapping_add(offset);
    let mut told = |at: u32, len: usize| {
        say(&mut rig, at, 5001, &text(len));
        let flow = rig.flow;
        let packet = rig.packets.pop().unwrap().1;
        assert!(rig.packets.is_empty() && flow.is_some());
        let options = &packet[20 + 12..4 * usize::from(packet[12] >> 4)];
        let words = options.get(4..).unwrap_or_default().chunks(8);
        words
            .map(|pair| [0, 4].map(|at| u32::from_be_bytes(pair[at..at + 4].try_into().unwrap())))
            .map(|[from, to]| (from, to))
            .collect::<Vec<_>>()
    };
    let range = |from, to| (number(from), number(to));
    assert_eq!(told(101, 100), [range(101, 201)]);
    assert_eq!(told(401, 100), [range(401, 501), range(101, 201)]);
    assert_eq!(told(201, 100), [range(101, 301), range(401, 501)]);
    assert_eq!(told(601, 10), [range(601, 611), range(101, 301), range(401, 501)]);
    assert_eq!(told(701, 10), [range(701, 711), range(101, 301), range(401, 501)], "three of four");
    assert_eq!(told(301, 100), [range(101, 501), range(601, 611), range(701, 711)]);
    assert_eq!(told(1, 100), [range(701, 711), range(601, 611)]);
}

#[test]
fn a_program_that_is_called_has_what_its_caller_has() {
    for (agreed, answers) in [(BOTH, true), (BOTH, false), (Agreed::default(), true)] {
        let mut rig = Rig::new();
        rig.flow = rig.forwarder.call(rig.now, rig.app, rig.peer, (Some(1448), agreed));
        rig.drain();
        let syn = rig.segments().pop().unwrap().0;
        assert_eq!((syn.stamps.is_some(), syn.takes_ranges), (agreed.timestamps, agreed.ranges));
        assert_eq!(syn.mss, Some(if agreed.timestamps { 1460 } else { 1448 }));
        rig.first = syn.sequence.wrapping_add(1);
        let answer = Segment { mss: Some(1460), ..rig.segment(Flags::SYN | Flags::ACK, 0, rig.first) };
        let with = Segment { takes_ranges: true, stamps: Some((77, 0)), ..answer };
        rig.tell(if answers { &with } else { &answer }, b"");
        let opened = rig.segments().pop().unwrap().0;
        let expected = (agreed.timestamps && answers).then_some(77);
        assert_eq!(opened.stamps.map(|(_, echo)| echo), expected);
    }
}
