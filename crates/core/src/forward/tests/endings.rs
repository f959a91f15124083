//! How connections end: each half by itself, or both at once.

use super::*;
use crate::forward::FlowEnd;
use crate::wire::ip::icmp::Trouble;

#[test]
fn a_fin_comes_behind_all_data_and_not_before_the_socket_has_it() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.takes = 3;
    rig.app(Flags::ACK | Flags::FIN, 1, first, b"hello");
    assert!(!rig.did_shut());
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(4));
    rig.takes = usize::MAX;
    let flow = rig.flow.unwrap();
    rig.input(Input::Writable { flow });
    assert!(rig.did_shut() && rig.sent == b"hello");
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(7), "the FIN has a number of its own");
}

//= RFC 9293#3.6.1/half
#[test]
fn a_half_that_has_ended_leaves_the_other_open_for_hours() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.app(Flags::ACK | Flags::FIN, 1, first, b"request");
    rig.pass(Duration::from_secs(3 * 3600));
    assert_eq!(rig.did_close(), None);
    rig.packets.clear();
    rig.peer(b"at last");
    assert_eq!(rig.segments().pop().unwrap().1, b"at last");
    rig.app(Flags::ACK, 9, first.wrapping_add(7), b"");
    let flow = rig.flow.unwrap();
    rig.input(Input::Ended { flow });
    assert_eq!(rig.segments().pop().unwrap().0.flags, Flags::FIN | Flags::ACK);
    rig.app(Flags::ACK, 9, first.wrapping_add(8), b"");
    assert_eq!(rig.did_close(), Some(false), "without a reset");
    let Some(Record::Flow(flow)) = rig.records.pop() else { panic!("no record") };
    assert_eq!((flow.end, flow.up.bytes, flow.down.bytes), (FlowEnd::Finished, 7, 7));
}

#[test]
fn a_peer_that_has_ended_still_hears_the_program() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    rig.input(Input::Ended { flow });
    rig.app(Flags::ACK, 1, first.wrapping_add(1), b"");
    rig.pass(Duration::from_secs(3600));
    rig.app(Flags::ACK, 1, first.wrapping_add(1), &text(900));
    assert_eq!(rig.sent, text(900));
    rig.app(Flags::ACK | Flags::FIN, 901, first.wrapping_add(1), b"");
    assert_eq!((rig.did_shut(), rig.did_close()), (true, Some(false)));
    assert_eq!(rig.forwarder.poll_timeout(), None);
}

#[test]
fn a_peers_reset_is_the_programs_with_the_exact_number() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.peer(b"hello");
    rig.app(Flags::ACK, 1, first.wrapping_add(5), b"");
    rig.packets.clear();
    rig.fails(Failure::Reset);
    let (reset, _) = rig.segments().pop().unwrap();
    assert_eq!((reset.flags, reset.sequence), (Flags::RST | Flags::ACK, first.wrapping_add(5)));
    assert_eq!(rig.did_close(), Some(true));
    assert!(matches!(&rig.records[0], Record::Flow(flow) if flow.end == FlowEnd::ResetByPeer));
}

#[test]
fn a_reset_behind_the_peers_end_is_the_programs_too() {
    for said in [&b""[..], b"last words"] {
        let mut rig = Rig::open();
        let (flow, end) = (rig.flow.unwrap(), rig.first().wrapping_add(said.len() as u32 + 1));
        if !said.is_empty() {
            rig.peer(said);
        }
        rig.input(Input::Ended { flow });
        rig.app(Flags::ACK, 1, end, b"");
        rig.app(Flags::ACK, 1, end, b"too late");
        rig.packets.clear();
        rig.fails(Failure::Reset);
        let (reset, _) = rig.segments().pop().expect("a reset");
        assert_eq!((reset.flags, reset.sequence), (Flags::RST | Flags::ACK, end), "behind the number of the end");
        assert_eq!(rig.did_close(), Some(true));
        assert!(matches!(&rig.records[0], Record::Flow(flow) if flow.end == FlowEnd::ResetByPeer));
    }
}

#[test]
fn a_reset_takes_nothing_from_a_program_that_was_lost_on_the_way_to_it() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    rig.peer(b"last words");
    rig.input(Input::Ended { flow });
    rig.packets.clear();
    rig.fails(Failure::Reset);
    // Before all that it has acknowledged: its kernel answers at once.
    let (asked, _) = rig.segments().pop().expect("a question");
    assert_eq!((asked.flags, asked.sequence), (Flags::ACK, first.wrapping_sub(1)));
    assert!(!rig.forwarder.is_needed(), "no socket takes what the program sends");
    // The packet has never come, and what the program says meanwhile goes nowhere.
    rig.app(Flags::ACK, 1, first, b"");
    rig.app(Flags::ACK, 1, first, b"into nothing");
    // Neither has anything that acknowledges nothing, or what has not been said.
    rig.app(Flags::PSH, 1, first.wrapping_add(11), b"");
    rig.app(Flags::ACK, 1, first.wrapping_add(12), b"");
    rig.fails(Failure::Reset);
    assert!(rig.segments().is_empty() && rig.sent.is_empty() && rig.did_close().is_none());
    // Its kernel asks for it by saying the same three times, or it comes in time.
    (0..2).for_each(|_| rig.app(Flags::ACK, 1, first, b""));
    assert_eq!(rig.segments().pop().expect("once more").1, b"last words");
    rig.pass(Duration::from_millis(250));
    assert_eq!(rig.segments().pop().expect("once more").1, b"last words");
    rig.app(Flags::ACK, 13, first.wrapping_add(10), b"");
    assert!(rig.segments().is_empty(), "the end has not come yet");
    rig.app(Flags::ACK, 13, first.wrapping_add(11), b"");
    let (reset, _) = rig.segments().pop().expect("a reset");
    assert_eq!((reset.flags, reset.sequence), (Flags::RST | Flags::ACK, first.wrapping_add(11)));
    assert_eq!((rig.did_close(), rig.forwarder.poll_timeout()), (Some(true), None));
}

#[test]
fn a_program_that_is_gone_when_its_peer_is_reset_leaves_nothing() {
    for answer in [Some(Flags::RST), None] {
        let mut rig = Rig::open();
        let first = rig.first();
        rig.peer(b"hello");
        rig.fails(Failure::Reset);
        match answer {
            Some(flags) => rig.app(flags, 1, first, b""),
            None => rig.pass(Duration::from_secs(3600)),
        }
        assert_eq!((rig.did_close(), rig.forwarder.open().len()), (Some(true), 0));
        assert!(matches!(&rig.records[0], Record::Flow(flow) if flow.end == FlowEnd::ResetByPeer));
    }
}

//= RFC 9293#3.10.7.4/rst
#[test]
fn a_programs_reset_is_the_peers_and_a_guess_is_not() {
    let mut rig = Rig::open();
    rig.app(Flags::RST, 0x7000_0000, 0, b"");
    assert!(rig.did_close().is_none() && rig.segments().is_empty(), "it is far off");
    // A guess that is near is questioned (RFC 5961, section 3.2).
    rig.app(Flags::RST, 100, 0, b"");
    let (question, _) = rig.segments().pop().expect("a question");
    assert_eq!((question.flags, question.acknowledged), (Flags::ACK, ISS.wrapping_add(1)));
    assert_eq!(rig.did_close(), None);
    // A kernel that knows of no connection answers it by the number that was asked for.
    rig.app(Flags::RST, 1, 0, b"");
    assert_eq!(rig.did_close(), Some(true));
    assert!(rig.segments().is_empty(), "nobody answers a reset");
}

#[test]
fn a_reset_by_what_a_program_knows_to_be_acknowledged_ends_it_while_its_bytes_wait_for_the_socket() {
    for offset in [1, 6] {
        let mut rig = Rig::open();
        let first = rig.first();
        rig.takes = 0;
        rig.app(Flags::ACK, 1, first, b"hello");
        rig.app(Flags::RST, offset, 0, b"");
        assert_eq!(rig.did_close(), Some(true), "{offset}");
    }
}

#[test]
fn a_reset_of_an_opening_need_not_be_exact() {
    let mut rig = Rig::new();
    rig.syn();
    let flow = rig.flow.unwrap();
    rig.input(Input::Connected { flow, mss: None });
    rig.app(Flags::RST, 5, 0, b"");
    assert_eq!(rig.did_close(), Some(true));
}

#[test]
fn what_comes_behind_a_programs_end_is_left_out() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.app(Flags::ACK | Flags::FIN, 1, first, b"");
    rig.packets.clear();
    rig.app(Flags::ACK, 2, first, b"too late");
    assert!(rig.segments().is_empty() && rig.sent.is_empty());
    // The same end again, which its kernel sends where the answer was lost, is answered.
    rig.app(Flags::ACK | Flags::FIN, 1, first, b"");
    assert_eq!(rig.segments().pop().expect("an answer").0.acknowledged, ISS.wrapping_add(2));
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    rig.input(Input::Ended { flow });
    rig.pass(Duration::from_millis(250));
    let fins = rig.segments();
    assert_eq!(fins.len(), 2);
    assert!(fins.iter().all(|(segment, _)| segment.sequence == first && segment.flags.has(Flags::FIN)));
}

//= RFC 9293#3.5.2
#[test]
fn what_belongs_to_no_connection_is_told_so() {
    let mut rig = Rig::new();
    rig.app(Flags::ACK, 1, 777, b"data");
    let (reset, _) = rig.segments().pop().unwrap();
    assert_eq!((reset.flags, reset.sequence), (Flags::RST, 777));
    rig.app(Flags::FIN, 1, 0, b"");
    let (reset, _) = rig.segments().pop().unwrap();
    assert_eq!((reset.flags, reset.acknowledged), (Flags::RST | Flags::ACK, ISS.wrapping_add(2)));
    rig.app(Flags::RST, 1, 0, b"");
    assert!(rig.segments().is_empty());
}

#[test]
fn whether_a_program_is_done_is_known_from_its_fin() {
    let mut rig = Rig::open();
    let first = rig.first();
    assert!(rig.forwarder.is_needed());
    rig.takes = 0;
    rig.app(Flags::ACK | Flags::FIN, 1, first, b"last words");
    assert!(rig.forwarder.is_needed());
    rig.takes = 100;
    let flow = rig.flow.unwrap();
    rig.input(Input::Writable { flow });
    assert!(!rig.forwarder.is_needed());
}

#[test]
fn the_last_word_in_a_batch_is_acknowledged_before_all_is_forgotten() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    rig.input(Input::Ended { flow });
    rig.app(Flags::ACK, 1, first.wrapping_add(1), b"");
    rig.packets.clear();
    rig.input(Input::Batch);
    rig.app(Flags::ACK | Flags::FIN, 1, first.wrapping_add(1), b"");
    let (ack, _) = rig.segments().pop().expect("an acknowledgement");
    assert_eq!(ack.acknowledged, ISS.wrapping_add(2));
    assert_eq!(rig.did_close(), Some(false));
    rig.input(Input::BatchEnd);
    assert!(rig.segments().is_empty() && rig.forwarder.open().is_empty());
}

#[test]
fn a_path_that_times_out_leaves_the_programs_kernel_to_time_out_by_the_error_that_it_would_have_had() {
    for (why, error) in [(Failure::Silence, 0), (Failure::Trouble(Trouble::HostUnreachable), 1)] {
        let mut rig = Rig::open();
        let first = rig.first();
        rig.app(Flags::ACK, 1, first, b"x");
        rig.packets.clear();
        rig.did.clear();
        rig.fails(why);
        let icmp: Vec<_> = rig.packets.drain(..).collect();
        assert!(icmp.iter().all(|(header, _)| header.protocol == ip::ICMP) && icmp.len() == error, "{icmp:?}");
        if let Some((_, message)) = icmp.first() {
            // It quotes what that kernel takes for its own: ports, and a number that it may have sent (RFC 5927, section 4.1).
            let quoted = &message[28..];
            assert_eq!(quoted[..4], [4000u16.to_be_bytes(), 80u16.to_be_bytes()].concat());
            assert_eq!(quoted[4..8], ISS.wrapping_add(2).to_be_bytes());
        }
        assert!(matches!(rig.did[..], [Output::TimeOut { .. }]), "{:?}", rig.did);
        // It asks and hears nothing, and gives up.
        rig.app(Flags::ACK, 1, first, b"");
        rig.app(Flags::ACK, 2, first, b"more");
        assert!(rig.packets.is_empty(), "{:?}", rig.packets);
        rig.app(Flags::RST | Flags::ACK, 2, first, b"");
        assert!(rig.packets.is_empty() && rig.did_close() == Some(true));
        let Some(Record::Flow(flow)) = rig.records.pop() else { panic!("no record") };
        assert_eq!(flow.end, if error == 0 { FlowEnd::Silent } else { FlowEnd::Unreachable });
    }
}

#[test]
fn a_kernel_that_cannot_be_made_to_time_out_or_does_not_sees_a_reset() {
    let mut rig = Rig::open();
    rig.fails(Failure::Silence);
    rig.fails(Failure::Here);
    assert!(rig.segments().pop().unwrap().0.flags.has(Flags::RST) && rig.did_close() == Some(true));
    let mut rig = Rig::open();
    rig.fails(Failure::Silence);
    rig.pass(Duration::from_secs(3));
    assert!(rig.segments().pop().unwrap().0.flags.has(Flags::RST) && rig.did_close() == Some(true));
}

#[test]
fn a_program_that_asks_again_before_its_old_socket_is_closed_has_a_new_connection() {
    let mut rig = Rig::new();
    rig.syn();
    let (old, syn) = (rig.flow.unwrap(), Segment { mss: Some(1460), ..rig.segment(Flags::SYN, 0, 0) });
    rig.forwarder.handle_input(rig.now, Input::Failed { flow: old, why: Failure::Refused });
    let bytes = packet(rig.app, rig.peer, &syn, b"");
    rig.forwarder.handle_input(rig.now, Input::Packet { bytes, segment: None });
    // The old one is closed now.
    rig.drain();
    let new = rig.flow.unwrap();
    assert!(new != old && rig.forwarder.open().len() == 1);
    rig.packets.clear();
    rig.syn();
    assert_eq!(rig.flow, Some(new), "the same SYN again is not another connection");
    rig.input(Input::Connected { flow: new, mss: None });
    assert_eq!(rig.segments().pop().expect("an answer").0.flags, Flags::SYN | Flags::ACK);
}

#[test]
fn a_kernel_that_is_left_to_time_out_hears_nothing_meanwhile() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    rig.peer(b"hello");
    rig.packets.clear();
    rig.fails(Failure::Silence);
    rig.did.clear();
    assert!(!rig.forwarder.is_needed(), "no socket takes what the program sends");
    rig.peer(b"late");
    rig.input(Input::Ended { flow });
    rig.input(Input::PathMtu { flow, mtu: 1300 });
    // What would be a loss, and data of another class, which is the program's last word.
    (0..4).for_each(|_| rig.app(Flags::ACK, 1, first, b""));
    let mut bytes = packet(rig.app, rig.peer, &rig.segment(Flags::ACK | Flags::FIN, 1, first), b"x");
    bytes[1] = 0x22;
    rig.input(Input::Packet { bytes, segment: None });
    rig.pass(Duration::from_millis(2999));
    assert!(rig.packets.is_empty() && rig.did.is_empty(), "{:?} {:?}", rig.packets, rig.did);
    rig.pass(Duration::from_millis(1));
    assert_eq!((rig.segments().len(), rig.did_close()), (1, Some(true)), "it has not");
}

#[test]
fn an_end_is_said_once() {
    let mut rig = Rig::open();
    let flow = rig.flow.unwrap();
    (0..2).for_each(|_| rig.input(Input::Ended { flow }));
    assert_eq!(rig.segments().len(), 1);
}

#[test]
fn a_half_that_has_ended_can_still_be_reset() {
    for program_first in [true, false] {
        let mut rig = Rig::open();
        let (first, flow) = (rig.first(), rig.flow.unwrap());
        let reset_at = if program_first {
            rig.app(Flags::ACK | Flags::FIN, 1, first, b"");
            2
        } else {
            rig.input(Input::Ended { flow });
            rig.app(Flags::ACK, 1, first.wrapping_add(1), b"");
            1
        };
        rig.app(Flags::RST, reset_at, 0, b"");
        assert_eq!(rig.did_close(), Some(true), "{program_first}");
        assert!(matches!(&rig.records[..], [Record::Flow(flow)] if flow.end == FlowEnd::ResetByProgram));
    }
}
