//! What comes of a program that is known, early, or beyond the window, and what it does to acknowledgements.

use super::*;

#[test]
fn a_byte_that_is_known_asks_as_nothing_does_and_what_comes_with_it_is_taken() {
    let mut rig = Rig::open();
    let first = rig.first();
    let asked = |rig: &mut Rig| rig.did.drain(..).any(|did| matches!(did, Output::KeepAlive { .. }));
    let acked = |rig: &mut Rig| rig.segments().pop().map(|(ack, _)| ack.acknowledged.wrapping_sub(ISS));
    rig.app(Flags::ACK, 1, first, b"abc");
    rig.pass(Duration::from_secs(75));
    assert_eq!((asked(&mut rig), acked(&mut rig)), (false, Some(4)));
    rig.app(Flags::ACK, 3, first, b"c");
    assert_eq!((asked(&mut rig), acked(&mut rig)), (true, None), "as some kernels ask");
    // What was sent again is known here, as is an old nothing.
    rig.app(Flags::ACK, 2, first, b"b");
    assert_eq!((asked(&mut rig), acked(&mut rig)), (false, Some(4)));
    rig.app(Flags::ACK, 2, first, b"");
    assert_eq!((asked(&mut rig), acked(&mut rig)), (false, Some(4)));
    rig.app(Flags::ACK, 3, first, b"cd");
    assert_eq!((asked(&mut rig), acked(&mut rig), rig.sent.as_slice()), (false, Some(5), &b"abcd"[..]));
    // Who asks while data waits asks for room.
    rig.takes = 0;
    rig.app(Flags::ACK, 5, first, b"waits");
    rig.pass(Duration::from_secs(75));
    rig.packets.clear();
    rig.app(Flags::ACK, 9, first, b"");
    assert_eq!((asked(&mut rig), acked(&mut rig)), (false, Some(10)));
    assert_eq!(rig.forwarder.open()[0].local_retransmissions, 1);
}

#[test]
fn an_end_that_comes_with_what_is_known_is_an_end() {
    for (offset, known) in [(3, &b"c"[..]), (1, b"abc")] {
        let mut rig = Rig::open();
        let first = rig.first();
        rig.app(Flags::ACK, 1, first, b"abc");
        rig.app(Flags::ACK | Flags::FIN, offset, first, known);
        assert_eq!((rig.did_shut(), rig.sent.as_slice()), (true, &b"abc"[..]));
        assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(5));
    }
}

#[test]
fn what_is_beyond_the_window_is_left_out_and_an_end_at_its_edge_is_not() {
    let mut rig = Rig::open();
    // The first window is not scaled.
    let (first, flow, edge) = (rig.first(), rig.flow.unwrap(), 65_535);
    let data = text(edge + 500);
    rig.takes = 0;
    for (n, part) in data[..edge - 36].chunks(1000).enumerate() {
        rig.app(Flags::ACK, 1 + 1000 * n as u32, first, part);
    }
    // As much of this as there is room for, and nothing of that which comes behind it.
    rig.app(Flags::ACK | Flags::FIN, 1 + edge as u32 - 36, first, &data[edge - 36..edge + 64]);
    rig.app(Flags::ACK, 1 + edge as u32, first, b"beyond");
    rig.app(Flags::ACK, 1 + edge as u32 + 200, first, &data[edge + 200..edge + 300]);
    assert_eq!((rig.forwarder.waiting(), rig.did_shut()), (edge, false));
    rig.packets.clear();
    rig.takes = usize::MAX;
    rig.input(Input::Writable { flow });
    rig.packets.clear();
    rig.app(Flags::ACK, 1 + edge as u32, first, &data[edge..edge + 200]);
    assert_eq!(rig.sent, data[..edge + 200]);
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(1 + edge as u32 + 200));
    // An end alone is no data.
    let packets = rig.forwarder.open()[0].up.packets;
    rig.app(Flags::ACK | Flags::FIN, 1 + edge as u32 + 200, first, b"");
    assert_eq!((rig.did_shut(), rig.forwarder.open()[0].up.packets), (true, packets));
}

#[test]
fn of_what_comes_early_64_segments_are_kept_and_each_counts_as_one_that_was_lost() {
    let mut rig = Rig::open();
    let (first, data) = (rig.first(), text(710));
    for n in (1..=70).chain([1]) {
        rig.app(Flags::ACK, 1 + 10 * n as u32, first, &data[10 * n..10 * n + 10]);
    }
    rig.app(Flags::ACK, 1, first, &data[..10]);
    assert_eq!((rig.sent.len(), &rig.sent), (650, &data[..650].to_vec()));
    assert_eq!(rig.forwarder.open()[0].local_retransmissions, 71);
}

#[test]
fn a_place_of_an_urgent_byte_counts_only_where_there_is_said_to_be_one() {
    let mut rig = Rig::open();
    let first = rig.first();
    let plain = Segment { urgent: 4, ..rig.segment(Flags::ACK, 1, first) };
    rig.tell(&plain, b"abcdef");
    assert_eq!((rig.sent.as_slice(), rig.urgent.len(), rig.calls), (&b"abcdef"[..], 0, 1));
}

#[test]
fn what_comes_exactly_as_it_came_before_counts_as_sent_again() {
    let mut rig = Rig::open();
    let first = rig.first();
    for times in 0..3 {
        rig.app(Flags::ACK, 1, first, b"abc");
        assert_eq!(rig.forwarder.open()[0].local_retransmissions, times);
        assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(4));
    }
    assert_eq!(rig.sent, b"abc");
}

#[test]
fn an_end_that_comes_as_the_window_is_full_to_the_last_byte_is_an_end() {
    for comes_with_data in [true, false] {
        let mut rig = Rig::open();
        // The first window is not scaled.
        let (first, flow, edge) = (rig.first(), rig.flow.unwrap(), 65_535);
        let data = text(edge);
        rig.takes = 0;
        for (n, part) in data.chunks(1285).enumerate() {
            let is_last = 1285 * (n + 1) == edge;
            let end = if is_last && comes_with_data { Flags::FIN } else { Flags::ACK };
            rig.app(Flags::ACK | end, 1 + 1285 * n as u32, first, part);
        }
        if !comes_with_data {
            rig.app(Flags::ACK | Flags::FIN, 1 + edge as u32, first, b"");
        }
        rig.takes = usize::MAX;
        rig.input(Input::Writable { flow });
        assert_eq!((rig.sent.len(), rig.did_shut()), (edge, true), "{comes_with_data}");
    }
}

#[test]
fn an_end_is_heard_once_and_one_that_comes_early_keeps_nothing_from_being_put_off() {
    let mut rig = Rig::open();
    let (first, data) = (rig.first(), text(100));
    let acked = |rig: &mut Rig| -> Vec<u32> {
        rig.segments().iter().map(|(ack, _)| ack.acknowledged.wrapping_sub(ISS.wrapping_add(1))).collect()
    };
    rig.input(Input::Batch);
    rig.app(Flags::ACK | Flags::FIN, 101, first, b"");
    assert_eq!(acked(&mut rig), [0], "something before it is missing");
    rig.app(Flags::ACK, 1, first, &data[..50]);
    assert!(acked(&mut rig).is_empty());
    rig.input(Input::BatchEnd);
    assert_eq!(acked(&mut rig), [50]);
    rig.app(Flags::ACK | Flags::FIN, 51, first, &data[50..]);
    assert_eq!((rig.did_shut(), acked(&mut rig)), (true, vec![101]));
    rig.did.clear();
    // Another behind it is nonsense.
    rig.app(Flags::ACK | Flags::FIN, 102, first, b"");
    assert_eq!((rig.did_shut(), acked(&mut rig)), (false, vec![101]));
}

#[test]
fn a_segment_is_small_if_it_is_shorter_than_the_longest() {
    let mut rig = Rig::open();
    let (first, mut at) = (rig.first(), 1);
    for (len, looks) in [(1448, true), (1448, false), (1447, true), (1448, false), (1420, true), (1, false), (1, true)]
    {
        rig.did.clear();
        rig.app(Flags::ACK, at, first, &text(len));
        at += len as u32;
        let looked = rig.did.iter().any(|output| matches!(output, Output::MirrorOptions { .. }));
        assert_eq!(looked, looks, "{len} bytes up to {at}");
    }
}

#[test]
fn a_socket_is_given_one_thing_at_a_time() {
    let mut rig = Rig::open();
    let (first, flow) = (rig.first(), rig.flow.unwrap());
    let given = |rig: &mut Rig| -> Vec<u8> {
        let outputs: Vec<_> = std::iter::from_fn(|| rig.forwarder.poll_output()).collect();
        let sends = outputs.iter().filter_map(|output| match output {
            Output::Send { pieces, .. } => Some(pieces.iter().flat_map(Piece::data).copied().collect::<Vec<_>>()),
            _ => None,
        });
        sends.collect::<Vec<_>>().concat()
    };
    for (offset, word, gets) in [(1, b"one", &b"one"[..]), (4, b"two", b"")] {
        let segment = rig.segment(Flags::ACK, offset, first);
        let bytes = packet(rig.app, rig.peer, &segment, word);
        rig.forwarder.handle_input(rig.now, Input::Packet { bytes, segment: None });
        assert_eq!(given(&mut rig), gets);
    }
    rig.forwarder.handle_input(rig.now, Input::Sent { flow, pieces: Default::default() });
    assert_eq!(given(&mut rig), b"two");
}

#[test]
fn what_comes_behind_data_that_waits_does_not_put_off_its_acknowledgement() {
    let mut rig = Rig::open();
    let first = rig.first();
    rig.takes = 0;
    rig.app(Flags::ACK, 1, first, b"hello");
    rig.pass(Duration::from_millis(60));
    rig.app(Flags::ACK, 6, first, b"world");
    rig.pass(Duration::from_millis(39));
    assert!(rig.segments().is_empty());
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.segments().pop().unwrap().0.acknowledged, ISS.wrapping_add(11));
}
