//! What bounds the copies of a message: the bucket, how often it hops, and how much reordering is no loss.

use super::*;
use crate::realtime::messenger::connection::MOST_OWED;

#[test]
fn copies_are_paid_for_out_of_the_bucket_and_then_tcp_has_to_do() {
    let mut pair = Pair::new("hedge");
    pair.events(0..10);
    pair.black_hole(6);
    // Each takes a segment of its own, and none is heard of again.
    for number in 10..22 {
        pair.ends[0].send(pair.now, EVENT, Kind::Event, 0, &[number; 500]).unwrap();
    }
    pair.drain(0);
    pair.run(ms(20));
    assert_eq!(pair.ends[0].stats(pair.now).copies, u64::from(BUCKET), "of twelve that are overdue");
}

#[test]
fn a_message_that_goes_nowhere_hops_ever_more_slowly_and_not_for_ever() {
    let mut pair = Pair::new("hedge");
    pair.events(0..10);
    for id in 6..8 {
        pair.connect(id);
    }
    pair.run(ms(100));
    pair.black_hole(8);
    let sent = pair.now;
    pair.event(10);
    // Patience is 14 ms, twice as long after each hop, and no longer than eight times. The bucket holds four copies …
    let expected: Vec<Duration> = [0, 1, 3, 7, 15, 23].map(|times| ms(14 * times)).into();
    pair.run(ms(14 * 16));
    assert_eq!(pair.written(10, sent), expected[..5]);
    // … and messages earn more.
    pair.event(11);
    pair.run(ms(14 * 8));
    assert_eq!(pair.written(10, sent), expected);
    // Two connections are left, and there is enough to pay with: but five copies are enough.
    pair.event(12);
    pair.event(13);
    pair.run(ms(14 * 40));
    assert_eq!(pair.written(10, sent).len(), 1 + usize::from(MOST_AGAIN));
}

#[test]
fn what_was_sent_just_before_something_that_has_arrived_is_not_lost_yet() {
    let mut pair = Pair::over("auto", ms(20));
    pair.events(0..10);
    pair.ends[0].choose(pair.now);
    let first = Connection(pair.ends[0].primary.unwrap());
    // Three milliseconds late, on a path whose round trip is forty.
    pair.held.push((first, Some(0), pair.now + ms(23)));
    pair.event(10);
    pair.run(ms(2));
    pair.event(11);
    assert_ne!(Some(first.0), pair.ends[0].primary, "it goes where nothing is on its way");
    pair.run(ms(60));
    assert!(pair.arrival(11) < pair.arrival(10));
    let stats = pair.ends[0].stats(pair.now);
    assert_eq!((stats.stalls, stats.copies, stats.state), (0, 0, State::Clean));
}

#[test]
fn a_side_that_has_nothing_to_say_can_say_that_it_is_there() {
    let mut pair = Pair::new("plain");
    pair.run(ms(1000));
    let (before, fillers) = (pair.writes[1], pair.ends[1].stats(pair.now).fillers);
    for _ in 0..2 {
        pair.ends[1].assure(Connection(0));
    }
    pair.ends[1].assure(Connection(7));
    pair.drain(1);
    pair.run(ms(100));
    assert_eq!((pair.writes[1] - before, pair.ends[1].stats(pair.now).fillers - fillers), (1, 1), "once, where it is");
    assert!(pair.got[0].is_empty());
}

#[test]
fn values_wait_for_a_peer_that_does_not_acknowledge_and_the_newest_goes_when_it_does() {
    let mut pair = Pair::new("plain");
    let mut frame = Vec::new();
    let mut write = |pair: &mut Pair, payload: &[u8]| {
        pair.now += ms(1);
        pair.ends[0].send(pair.now, STATE, Kind::Latest, 0, payload).unwrap();
        frame.clear();
        while pair.ends[0].transmit(pair.now, Connection(0), &mut frame) {}
    };
    for n in 0..2 * MOST_OWED {
        write(&mut pair, &n.to_be_bytes());
    }
    assert_eq!(pair.ends[0].wires[0].flights.len(), MOST_OWED);
    assert_eq!(pair.ends[0].poll_timeout(), None, "nothing is due before the peer has spoken");
    // What has to arrive is not held up.
    pair.event(1);
    assert_eq!(pair.ends[0].wires[0].flights.len(), MOST_OWED + 1);
    let (mut counts, mut ack) = (Counts::default(), Vec::new());
    assert!(counts.push(0, pair.ends[0].wires[0].sent));
    Frame::Ack(counts).encode(&mut ack);
    pair.ends[0].received(pair.now, Connection(0), &ack).unwrap();
    let mut out = Vec::new();
    assert!(pair.ends[0].transmit(pair.now, Connection(0), &mut out));
    let newest = (2 * MOST_OWED - 1).to_be_bytes();
    assert!(out.ends_with(&newest) && !pair.ends[0].transmit(pair.now, Connection(0), &mut out), "{out:?}");
}
