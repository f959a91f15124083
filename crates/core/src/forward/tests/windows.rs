//! What a program's kernel says of its window, and what it cannot have said.

use super::*;

/// RFC 9293, 3.10.7.4: "If the ACK acks something not yet sent (SEG.ACK > SND.NXT), then send an ACK, drop the segment, and return."
//= RFC 9293#3.10.7.4/unsent
#[test]
fn an_acknowledgement_of_what_was_never_sent_is_answered_and_its_segment_dropped() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.peer(b"hello");
    rig.packets.clear();
    rig.app(Flags::ACK, 1, first.wrapping_add(6), b"request");
    let answers = rig.segments();
    assert_eq!(answers.len(), 1, "an acknowledgement, and nothing else");
    let (answer, data) = &answers[0];
    assert_eq!((answer.sequence, answer.acknowledged), (first.wrapping_add(5), ISS.wrapping_add(1)));
    assert!(data.is_empty() && rig.sent.is_empty(), "its data is none of the connection");
    // What is on its way is still on its way: it goes again.
    rig.packets.clear();
    rig.pass(Duration::from_millis(300));
    assert_eq!(rig.segments().last().map(|(_, data)| data.clone()), Some(b"hello".to_vec()));
}

/// RFC 9293, 3.10.7.4: a window is taken from a segment with SND.WL1 < SEG.SEQ, or SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK:
/// "the check here prevents using old segments to update the window."
//= RFC 9293#3.10.7.4/window
#[test]
fn an_old_segment_that_comes_late_does_not_change_the_window() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    // The program has said a byte, and then another and that its window is closed.
    rig.app(Flags::ACK, 1, first, b"x");
    let closed = Segment { window: 0, ..rig.segment(Flags::ACK, 2, first) };
    rig.tell(&closed, b"y");
    assert_eq!(rig.forwarder.room(rig.now, flow), 0);
    // From before that byte, by its number: overtaken on its way.
    rig.app(Flags::ACK, 1, first, b"");
    assert_eq!(rig.forwarder.room(rig.now, flow), 0, "an old window");
    // As new as what was last heard: that may open it.
    rig.app(Flags::ACK, 3, first, b"");
    assert!(rig.forwarder.room(rig.now, flow) > 0);
}

/// RFC 9293, 3.8.6.2.1: a sender waits for a whole segment, or for half of the largest window that it was ever told.
//= RFC 9293#3.8.6.2.1
#[test]
fn a_window_that_opens_by_little_is_not_filled_with_small_segments() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    // In units of 128 bytes: a segment of 1448 does not fit into eleven of them.
    for (window, takes) in [(0, false), (1, false), (11, false), (12, true)] {
        let said = Segment { window, ..rig.segment(Flags::ACK, 1, first) };
        rig.tell(&said, b"");
        assert_eq!(rig.forwarder.room(rig.now, flow) > 0, takes, "{} bytes", window * 128);
    }
}

/// A program whose window was never large would wait for ever for a whole segment's room.
//= RFC 9293#3.8.6.2.1
#[test]
fn a_window_that_never_was_larger_takes_half_of_it() {
    let mut rig = Rig::new();
    // Without scaling, so that it is never more than a thousand bytes.
    let syn = Segment { mss: Some(1460), ..rig.segment(Flags::SYN, 0, 0) };
    rig.tell(&syn, b"");
    let flow = rig.flow.unwrap();
    rig.input(Input::Connected { flow, mss: Some(1448) });
    let first = rig.segments().pop().unwrap().0.sequence.wrapping_add(1);
    for (window, takes) in [(1000, true), (499, false), (500, true)] {
        let said = Segment { window, ..rig.segment(Flags::ACK, 1, first) };
        rig.tell(&said, b"");
        assert_eq!(rig.forwarder.room(rig.now, flow) > 0, takes, "{window} bytes");
    }
}

/// RFC 5681, section 2: a duplicate acknowledgement has no data, no FIN, and the window of the one before.
#[test]
fn what_brings_data_an_end_or_another_window_is_no_sign_of_a_loss() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.peer(b"one");
    rig.packets.clear();
    (0..4).for_each(|n| rig.app(Flags::ACK, 1 + n, first, b"x"));
    for window in [900, 800, 700, 600] {
        let said = Segment { window, ..rig.segment(Flags::ACK, 5, first) };
        rig.tell(&said, b"");
    }
    let same = Segment { window: 600, ..rig.segment(Flags::ACK, 5, first) };
    rig.tell(&same, b"");
    rig.tell(&same, b"");
    let end = Segment { flags: Flags::ACK | Flags::FIN, ..same };
    rig.tell(&end, b"");
    assert!(rig.segments().iter().all(|(_, data)| data.is_empty()));
    assert_eq!(rig.forwarder.open()[0].local_retransmissions, 0);
}

#[test]
fn a_closed_window_is_asked_about_only_where_there_is_something_to_send() {
    let mut rig = Rig::open();
    let closed = Segment { window: 0, ..rig.segment(Flags::ACK, 1, rig.first()) };
    rig.tell(&closed, b"");
    rig.pass(Duration::from_secs(10));
    assert!(rig.segments().is_empty(), "the peer has said nothing");
    assert_eq!(rig.forwarder.poll_timeout(), None);
}

#[test]
fn a_window_that_is_full_is_not_asked_about_while_its_data_is_sent_again() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    let data = text(1000 << 7);
    let room = rig.forwarder.room(rig.now, flow);
    rig.peer(&data[..room]);
    rig.peer(&data[room..]);
    assert_eq!(rig.forwarder.room(rig.now, flow), 0);
    rig.packets.clear();
    rig.pass(Duration::from_millis(1300));
    let again = rig.segments();
    assert!(again.len() >= 2 && again.iter().all(|(segment, data)| !data.is_empty() && segment.sequence == first));
}

#[test]
fn what_is_never_acknowledged_is_sent_again_twelve_times_and_then_the_program_is_gone() {
    let mut rig = Rig::open();
    rig.peer(b"hello");
    rig.packets.clear();
    rig.pass(Duration::from_secs(341));
    assert_eq!((rig.segments().len(), rig.did_close()), (12, None));
    rig.pass(Duration::from_secs(2));
    let last = rig.segments();
    assert_eq!((last.len(), rig.did_close()), (1, Some(true)));
    assert!(last[0].0.flags.has(Flags::RST));
}
