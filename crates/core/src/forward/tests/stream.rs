//! Data in both directions: in order, whole, at the pace of the slower side.

use super::*;
use crate::forward::{MUCH, UNSENT, UNSENT_AT_FIRST, WINDOW};

#[test]
fn data_is_acknowledged_when_the_socket_has_it() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.app(Flags::ACK, 1, first, b"hello");
    assert_eq!(rig.sent, b"hello");
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(6));
    rig.takes = 2;
    rig.app(Flags::ACK, 6, first, b"world");
    assert_eq!(rig.sent, b"hellowo");
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(8), "as much as the socket took");
    rig.takes = usize::MAX;
    let flow = rig.flow.unwrap();
    rig.input(Input::Writable { flow });
    assert_eq!(rig.sent, b"helloworld");
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(11));
    rig.pass(Duration::from_millis(100));
    assert!(rig.segments().is_empty());
    assert_eq!(rig.forwarder.poll_timeout(), None, "nothing to wake up for");
}

//= RFC 9293#3.8.6.3
#[test]
fn what_waits_for_long_is_acknowledged_before_the_program_would_send_it_again() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.takes = 0;
    rig.app(Flags::ACK, 1, first, b"hello");
    assert!(rig.segments().is_empty());
    rig.pass(Duration::from_millis(199));
    let (ack, _) = rig.segments().pop().unwrap();
    assert_eq!(ack.acknowledged, ISS.wrapping_add(6));
    assert_eq!(usize::from(ack.window) << 4, (65_536 - 5) & !15, "and takes up room");
    assert_eq!(rig.forwarder.poll_timeout(), None);
}

//= RFC 9293#3.8.6/edge
#[test]
fn a_full_socket_closes_the_window_and_nothing_is_lost() {
    let mut rig = Rig::open();
    let first = rig.first();
    // By then the window is as large as it gets.
    let before = 8 * WINDOW;
    let data = text(before + 2 * WINDOW);
    for (n, chunk) in data[..before].chunks(1024).enumerate() {
        rig.app(Flags::ACK, 1 + 1024 * n as u32, first, chunk);
    }
    let (last, _) = rig.segments().pop().unwrap();
    assert!(usize::from(last.window) << 4 > WINDOW - 16);
    rig.takes = 1000;
    let (mut at, mut edge) = (before, before + WINDOW - 15);
    // The program sends as far as it may, whatever comes.
    for _ in 0..2000 {
        let end = (at + 1448).min(edge).min(data.len());
        if end > at {
            rig.app(Flags::ACK, 1 + at as u32, first, &data[at..end]);
            at = end;
        }
        rig.pass(Duration::from_millis(1));
        for (ack, _) in rig.segments() {
            let acknowledged = ack.acknowledged.wrapping_sub(ISS.wrapping_add(1)) as usize;
            let told = acknowledged + (usize::from(ack.window) << 4);
            assert!(told + 16 > edge || told >= edge - 15, "a window is not drawn back");
            edge = edge.max(told);
        }
    }
    assert!(rig.forwarder.waiting() <= WINDOW && at <= before + 1000 + WINDOW, "{at} bytes parked");
    assert!(rig.forwarder.waiting() > WINDOW - 65_536, "and not much less: {}", rig.forwarder.waiting());
    rig.takes = usize::MAX;
    let flow = rig.flow.unwrap();
    rig.input(Input::Writable { flow });
    assert_eq!(rig.sent, data[..at]);
    assert!(usize::from(rig.segments().pop().unwrap().0.window) << 4 > WINDOW - 16);
    // The bound of the issue.
    const { assert!(WINDOW + UNSENT < 1_000_000 && UNSENT_AT_FIRST <= UNSENT && MUCH as usize > UNSENT_AT_FIRST) };
}

#[test]
fn who_has_sent_little_is_held_up_sooner() {
    let mut rig = Rig::open();
    let first = rig.first();
    let window = |rig: &mut Rig| usize::from(rig.segments().pop().unwrap().0.window) << 4;
    rig.app(Flags::ACK, 1, first, &text(1000));
    assert!((65_000..66_000).contains(&window(&mut rig)));
    for n in 0..400 {
        rig.app(Flags::ACK, 1001 + 1000 * n, first, &text(1000));
    }
    // An eighth of what it has sent more.
    assert!((115_000..116_000).contains(&window(&mut rig)));
}

#[test]
fn without_super_packets_the_window_stays_within_the_queue_of_the_interface() {
    // The longest segments are super-packets but in name.
    for (mss, most) in [(1460, 65_536), (65_495, WINDOW)] {
        let mut rig = Rig::with(Settings { long_segments: true, ..Settings::default() });
        let syn = Segment { mss: Some(mss), scale: Some(7), ..rig.segment(Flags::SYN, 0, 0) };
        rig.tell(&syn, b"");
        let flow = rig.flow.unwrap();
        rig.input(Input::Connected { flow, mss: Some(1460) });
        rig.first = rig.segments().pop().unwrap().0.sequence.wrapping_add(1);
        for n in 0..8 * WINDOW as u32 / 1024 {
            rig.app(Flags::ACK, 1 + 1024 * n, rig.first, &text(1024));
        }
        let window = usize::from(rig.segments().pop().unwrap().0.window) << 4;
        assert!((most - 16..=most).contains(&window), "{window} where {mss} is the longest segment");
    }
}

#[test]
fn a_batch_is_acknowledged_at_its_end_or_by_a_quarter_of_the_window() {
    let mut rig = Rig::open();
    let (first, data) = (rig.first(), text(40 * 1000));
    let acked = |rig: &mut Rig| -> Vec<u32> {
        rig.segments().iter().map(|(ack, _)| ack.acknowledged.wrapping_sub(ISS.wrapping_add(1))).collect()
    };
    rig.input(Input::Batch);
    for (n, chunk) in data.chunks(1000).enumerate() {
        rig.app(Flags::ACK, 1 + 1000 * n as u32, first, chunk);
    }
    assert_eq!(acked(&mut rig), [17_000, 34_000], "64 KiB are the window");
    rig.input(Input::BatchEnd);
    assert_eq!(acked(&mut rig), [40_000]);
    rig.input(Input::BatchEnd);
    assert!(acked(&mut rig).is_empty());
    // What the program waits for is told at once: something known, something early; and so is the peer's data.
    rig.input(Input::Batch);
    rig.app(Flags::ACK, 1, first, &data[..1000]);
    rig.app(Flags::ACK, 42_001, first, b"early");
    assert_eq!(acked(&mut rig), [40_000; 2]);
    rig.app(Flags::ACK, 40_001, first, &text(2000));
    assert_eq!(acked(&mut rig), [42_005]);
    rig.app(Flags::ACK, 42_006, first, b"x");
    assert!(acked(&mut rig).is_empty());
    rig.peer(b"answer");
    assert_eq!(acked(&mut rig), [42_006]);
    rig.app(Flags::ACK | Flags::FIN, 42_007, first, b"");
    assert!(acked(&mut rig).is_empty() && rig.did_shut(), "who has said all waits for no answer");
    rig.input(Input::BatchEnd);
    assert_eq!(acked(&mut rig), [42_007]);
    assert_eq!(
        rig.forwarder.poll_timeout().map(|due| due.why),
        Some("data that a program's kernel has not acknowledged")
    );
}

#[test]
fn what_a_row_of_packets_brings_goes_to_the_socket_at_once() {
    let mut rig = Rig::open();
    let (first, data) = (rig.first(), text(5000));
    rig.input(Input::Batch);
    rig.input(Input::Row);
    for n in 0..4 {
        rig.app(Flags::ACK, 1 + 1000 * n, first, &data[1000 * n as usize..][..1000]);
    }
    assert!(rig.sent.is_empty() && rig.segments().is_empty(), "nothing is acknowledged that no socket has");
    rig.takes = 2500;
    rig.input(Input::RowEnd);
    assert_eq!((rig.calls, rig.sent.as_slice()), (1, &data[..2500]));
    // What was not taken waits in front of what comes.
    rig.input(Input::Row);
    rig.app(Flags::ACK | Flags::FIN, 4001, first, &data[4000..]);
    rig.input(Input::RowEnd);
    rig.input(Input::BatchEnd);
    assert_eq!((rig.calls, rig.forwarder.waiting()), (1, 2500));
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(2501));
    rig.takes = usize::MAX;
    let flow = rig.flow.unwrap();
    rig.input(Input::Writable { flow });
    assert_eq!((rig.calls, rig.sent.as_slice(), rig.did_shut()), (2, &data[..], true));
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(5002));
}

#[test]
fn a_row_that_ends_with_a_reset_is_heard_before_it() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.input(Input::Row);
    rig.app(Flags::ACK, 1, first, b"last words");
    rig.app(Flags::RST, 11, first, b"");
    assert_eq!((rig.sent.as_slice(), rig.did_close()), (&b"last words"[..], Some(true)));
    rig.input(Input::RowEnd);
    assert_eq!(rig.calls, 1);
}

#[test]
fn an_urgent_byte_in_a_row_goes_by_itself_and_in_order() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.input(Input::Row);
    rig.app(Flags::ACK, 1, first, b"one");
    let urgent = Segment { urgent: 4, ..rig.segment(Flags::ACK | Flags::URG, 4, first) };
    rig.tell(&urgent, b"abc!def");
    rig.app(Flags::ACK, 11, first, b"two");
    // A row that is not ended ends with the batch.
    rig.input(Input::BatchEnd);
    assert_eq!((rig.sent.as_slice(), rig.urgent.as_slice(), rig.calls), (&b"oneabc!deftwo"[..], &[6][..], 3));
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(14));
}

//= RFC 9293#3.10.7.4/order
#[test]
fn segments_out_of_order_wait_for_the_one_before_them() {
    let mut rig = Rig::open();
    let first = rig.first();
    let data = text(500);
    for part in [400..500, 100..200, 200..400, 100..200] {
        rig.app(Flags::ACK, 1 + part.start as u32, first, &data[part]);
        assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(1), "a duplicate acknowledgement");
    }
    assert!(rig.sent.is_empty());
    rig.app(Flags::ACK, 1, first, &data[..150]);
    assert_eq!(rig.sent, data);
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(501));
    rig.app(Flags::ACK, 301, first, &data[300..]);
    assert_eq!(rig.sent, data, "what is known is not sent twice");
}

//= RFC 9293#3.8.5
#[test]
fn an_urgent_byte_stays_urgent() {
    let mut rig = Rig::open();
    let first = rig.first();
    let urgent = Segment { urgent: 4, ..rig.segment(Flags::ACK | Flags::URG, 1, first) };
    rig.tell(&urgent, b"abc!def");
    assert_eq!((rig.sent.as_slice(), rig.urgent.as_slice()), (&b"abc!def"[..], &[3][..]));
    rig.packets.clear();
    let flow = rig.flow.unwrap();
    let mut bytes = vec![0; HEADROOM];
    bytes.push(b'!');
    rig.input(Input::Received { flow, bytes, urgent: true });
    let (segment, data) = rig.segments().pop().unwrap();
    assert!(segment.flags.has(Flags::URG) && segment.urgent == 1 && data == b"!");
}

//= RFC 9293#3.8.1/retransmit
#[test]
fn what_the_program_does_not_acknowledge_is_sent_again_at_growing_intervals() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.peer(b"hello");
    let (segment, data) = rig.segments().pop().unwrap();
    assert_eq!((segment.sequence, data.as_slice()), (first, &b"hello"[..]));
    rig.pass(Duration::from_millis(1500));
    let again = rig.segments();
    assert_eq!(again.len(), 3, "after 200, 600 and 1400 ms");
    assert_eq!(rig.forwarder.open()[0].local_retransmissions, 3);
    assert!(again.iter().all(|(segment, data)| segment.sequence == first && data == b"hello"));
    rig.app(Flags::ACK, 1, first.wrapping_add(5), b"");
    assert_eq!(rig.forwarder.poll_timeout().map(|deadline| deadline.at > rig.now), Some(true), "an old timer at most");
    rig.pass(Duration::from_secs(10));
    assert!(rig.segments().is_empty() && rig.forwarder.poll_timeout().is_none(), "and then there is no reason to wake");
}

#[test]
fn three_duplicates_are_a_loss() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.peer(b"one");
    rig.peer(b"two");
    rig.packets.clear();
    for _ in 0..3 {
        assert!(rig.segments().is_empty());
        rig.app(Flags::ACK, 1, first, b"");
    }
    let again = rig.segments();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].0.sequence, again[0].1.as_slice()), (first, &b"one"[..]));
}

#[test]
fn no_more_is_read_than_the_program_has_room_for() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    // 1000 << 7 bytes are told after the handshake.
    let room = rig.forwarder.room(rig.now, flow);
    assert_eq!(room, 65_400 / 1448 * 1448, "a packet");
    let data = text(1000 << 7);
    rig.peer(&data[..room]);
    rig.peer(&data[room..]);
    assert_eq!(rig.forwarder.room(rig.now, flow), 0);
    rig.did.clear();
    rig.app(Flags::ACK, 1, first.wrapping_add(room as u32), b"");
    assert!(matches!(rig.did[..], [Output::Resume { .. }]), "{:?}", rig.did);
    assert_eq!(rig.forwarder.room(rig.now, flow), room);
}

//= RFC 9293#3.8.6.1
#[test]
fn a_closed_window_is_asked_about_in_case_its_opening_was_lost() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    let closed = Segment { window: 0, ..rig.segment(Flags::ACK, 1, first) };
    rig.tell(&closed, b"");
    assert_eq!(rig.forwarder.room(rig.now, flow), 0);
    rig.pass(Duration::from_secs(4));
    let probes = rig.segments();
    assert_eq!(probes.len(), 2);
    assert_eq!(probes[0].0.sequence, first.wrapping_sub(1));
    rig.app(Flags::ACK, 1, first, b"");
    assert!(rig.did.iter().any(|output| matches!(output, Output::Resume { .. })));
    rig.pass(Duration::from_secs(600));
    assert!(rig.segments().is_empty());
}

#[test]
fn a_window_that_closes_with_data_on_its_way_is_asked_about_as_well() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    let data = text(1000 << 7);
    let room = rig.forwarder.room(rig.now, flow);
    rig.peer(&data[..room]);
    rig.peer(&data[room..]);
    assert_eq!(rig.forwarder.room(rig.now, flow), 0);
    // The program's kernel has all of it, and the program reads none.
    let all = first.wrapping_add(data.len() as u32);
    let closed = Segment { window: 0, ..rig.segment(Flags::ACK, 1, all) };
    rig.tell(&closed, b"");
    rig.packets.clear();
    // Its window opens, and that is lost.
    rig.pass(Duration::from_secs(4));
    let probes = rig.segments();
    assert_eq!(probes.len(), 2);
    assert_eq!(probes[0].0.sequence, all.wrapping_sub(1));
    rig.app(Flags::ACK, 1, all, b"");
    assert!(rig.did.iter().any(|output| matches!(output, Output::Resume { .. })));
}

//= RFC 9293#3.8.4
#[test]
fn a_program_that_asks_whether_its_peer_is_there_is_answered_when_the_peer_has_answered() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.app(Flags::ACK, 1, first, b"x");
    rig.packets.clear();
    rig.pass(Duration::from_secs(75));
    rig.did.clear();
    rig.app(Flags::ACK, 1, first, b"");
    assert!(rig.segments().is_empty(), "the answer is the peer's");
    assert!(matches!(rig.did[..], [Output::KeepAlive { .. }]), "{:?}", rig.did);
    rig.input(Input::Alive { flow: rig.flow.unwrap() });
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(2));
    // What asks without such a silence asks for room, and that is ours to tell.
    rig.app(Flags::ACK, 2, first, b"y");
    rig.packets.clear();
    rig.app(Flags::ACK, 2, first, b"");
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(3));
}

#[test]
fn small_segments_have_the_programs_own_setting_looked_up_now_and_then() {
    let mut rig = Rig::open();
    let first = rig.first();
    for n in 0..100 {
        rig.app(Flags::ACK, 1 + n, first, b"x");
    }
    let looks = rig.did.iter().filter(|output| matches!(output, Output::MirrorOptions { .. })).count();
    assert_eq!(looks, 7, "at the 1st, 2nd, 4th … 64th");
    rig.did.clear();
    rig.app(Flags::ACK, 101, first, &text(1448));
    assert!(rig.did.is_empty());
}

#[test]
fn a_change_of_the_traffic_class_is_passed_on() {
    let mut rig = Rig::open();
    let first = rig.first();
    let segment = rig.segment(Flags::ACK, 1, first);
    let mut bytes = packet(rig.app, rig.peer, &segment, b"x");
    bytes[1] = 0x22;
    rig.input(Input::Packet { bytes, segment: None });
    assert!(rig.did.iter().any(|output| matches!(output, Output::Mark { traffic_class: 0x20, .. })));
}

#[test]
fn what_is_learned_of_the_path_is_told_once_and_not_before_the_program_is_answered() {
    let mut rig = Rig::new();
    rig.syn();
    let flow = rig.flow.unwrap();
    rig.input(Input::PathMtu { flow, mtu: 1300 });
    assert!(rig.packets.is_empty());
    rig.input(Input::Connected { flow, mss: Some(1448) });
    rig.first = rig.segments().pop().unwrap().0.sequence.wrapping_add(1);
    rig.app(Flags::ACK, 1, rig.first, b"12345");
    rig.packets.clear();
    let mut told = |mtu| {
        rig.input(Input::PathMtu { flow, mtu });
        let packet = rig.packets.pop();
        assert!(rig.packets.is_empty());
        packet
    };
    assert!(told(1500).is_none(), "as its segments say that it takes");
    assert!(told(1499).is_some(), "a byte less");
    let (header, message) = told(1400).expect("a message");
    assert_eq!((header.protocol, header.source), (ip::ICMP, PEER.parse::<SocketAddr>().unwrap().ip()));
    assert_eq!((message[..2].to_vec(), message[6..8].to_vec()), (vec![3, 4], 1400u16.to_be_bytes().to_vec()));
    // The packet that it quotes is one on the way, or its kernel would not believe it (RFC 5927, section 4.1).
    let quoted = tcp::parse(&message[8 + 20..]).unwrap().0;
    assert_eq!((quoted.source, quoted.destination, quoted.sequence), (4000, 80, ISS.wrapping_add(6)));
    assert!(told(1400).is_none() && told(1450).is_none(), "it knows");
    assert!(told(1300).is_some());
}

#[test]
fn a_packet_that_is_alone_in_its_row_goes_to_the_socket_at_its_end() {
    let mut rig = Rig::open();
    let first = rig.first();
    for (n, word) in [b"one", b"two"].into_iter().enumerate() {
        rig.input(Input::Row);
        rig.app(Flags::ACK, 1 + 3 * n as u32, first, word);
        assert_eq!(rig.calls, n);
        rig.input(Input::RowEnd);
        assert_eq!(rig.calls, n + 1);
    }
    assert_eq!(rig.sent, b"onetwo");
}

#[test]
fn data_comes_with_what_makes_its_checksum_right_and_as_one_segment_if_it_is_one() {
    for (app, peer) in [(APP, PEER), ("[2001:db8::7]:4000", "[2001:db8::1]:80")] {
        let mut rig = Rig::new();
        (rig.app, rig.peer) = (app.parse().unwrap(), peer.parse().unwrap());
        rig.handshake();
        for (len, is_one) in [(1, true), (1448, true), (1449, false)] {
            let (flow, bytes) = (rig.flow.unwrap(), [&[0; HEADROOM][..], &text(len)].concat());
            rig.forwarder.handle_input(rig.now, Input::Received { flow, bytes, urgent: false });
            let Some(Output::Packet(packet)) = rig.forwarder.poll_output() else { panic!("a packet") };
            assert!(ip::is_sound(&finished(&packet)) && packet.segments.is_none() == is_one, "{packet:?}");
        }
    }
}
