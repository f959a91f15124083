//! What a messenger tells the program that it is for.

use super::*;

/// Takes what the first end has to write to the second one, which hands nothing to its program.
fn carry(pair: &mut Pair) {
    while let Some(output) = pair.ends[0].poll_output() {
        let Output::Write(connection) = output else { continue };
        let mut bytes = Vec::new();
        while pair.ends[0].transmit(pair.now, connection, &mut bytes) {
            pair.ends[1].received(pair.now, connection, &bytes).unwrap();
            bytes.clear();
        }
    }
}

#[test]
fn it_tells_what_it_is_and_what_it_has_done() {
    let mut pair = Pair::new("hedge");
    let end = &pair.ends[0];
    assert_eq!((end.session(), end.technique(), end.connections()), (SessionId([1; 16]), "hedge", 6));
    assert_eq!(end.rtt().map(|rtt| rtt.smoothed), Some(ms(10)));
    pair.events(0..3);
    assert_eq!((pair.ends[0].stats(pair.now).sent, pair.ends[0].on_their_way()), (3, 0));
    pair.black_hole(6);
    pair.events(3..5);
    assert_eq!((pair.ends[0].stats(pair.now).sent, pair.ends[0].on_their_way()), (5, 2));
}

#[test]
fn what_waits_for_a_program_is_told_to_it_and_to_the_peer_when_it_leaves() {
    let mut pair = Pair::new("plain");
    assert!(!pair.ends[1].has_some() && !pair.ends[1].is_full());
    for number in 0..3 {
        pair.ends[0].send(pair.now, EVENT, Kind::Event, 0, &[number; 50]).unwrap();
    }
    carry(&mut pair);
    assert!(pair.ends[1].has_some() && !pair.ends[1].is_full());
    pair.ends[1].hold_at_most(100);
    assert!(pair.ends[1].is_full());
    let mut bytes = Vec::new();
    assert_eq!(pair.ends[1].receive(&mut bytes).map(|what| what.seq), Some(0));
    assert_eq!((pair.ends[0].peer_has_left(), pair.ends[0].untaken_by_peer()), (false, 0));
    // Without a word to its program, which has left too.
    pair.ends[1].leave();
    let mut bytes = Vec::new();
    while pair.ends[1].transmit(pair.now, Connection(0), &mut bytes) {}
    pair.ends[0].received(pair.now, Connection(0), &bytes).unwrap();
    assert_eq!((pair.ends[0].peer_has_left(), pair.ends[0].untaken_by_peer()), (true, 2));
}

#[test]
fn a_lane_is_full_when_its_window_is_and_no_other_is() {
    let mut pair = Pair::new("plain");
    pair.black_hole(1);
    pair.ends[0].send(pair.now, STATE, Kind::Ordered, 0, &[]).unwrap();
    for _ in 0..WINDOW {
        assert!(!pair.ends[0].is_lane_full(EVENT));
        pair.ends[0].send(pair.now, EVENT, Kind::Event, 0, &[1; MAX_MESSAGE]).unwrap();
    }
    let full = [EVENT, STATE, LaneId(3)].map(|lane| pair.ends[0].is_lane_full(lane));
    assert_eq!((full, pair.ends[0].on_their_way()), ([true, false, false], WINDOW + 1));
    for _ in 0..3 {
        assert_eq!(pair.ends[0].send(pair.now, EVENT, Kind::Event, 0, &[1; 9]), Err(SendError::Full(EVENT.0)));
    }
    assert_eq!(pair.ends[0].spare.len(), 1, "what is refused leaves its buffer");
    assert_eq!(pair.ends[0].stats(pair.now).sent, WINDOW as u64 + 1);
}

#[test]
fn a_connection_that_is_not_there_is_assured_of_nothing() {
    let mut pair = Pair::new("plain");
    pair.run(ms(1000));
    let before = pair.writes[1];
    pair.ends[1].assure(Connection(7));
    pair.drain(1);
    pair.run(ms(100));
    assert_eq!(pair.writes[1], before);
    pair.ends[1].assure(Connection(0));
    pair.drain(1);
    pair.run(ms(100));
    assert_eq!(pair.writes[1], before + 1);
}

#[test]
fn there_is_an_outage_when_nothing_gets_through_for_four_times_the_patience() {
    let mut pair = Pair::new("plain");
    let rtt = pair.ends[0].rtt().unwrap();
    assert_eq!((rtt.smoothed, rtt.variation), (ms(10), ms(5)), "as the only round trip so far says");
    pair.black_hole(1);
    pair.event(0);
    pair.run(ms(79));
    assert_eq!(pair.ends[0].stats(pair.now).state, State::Clean);
    pair.run(ms(1));
    assert_eq!(pair.ends[0].stats(pair.now).state, State::Outage);
}

#[test]
fn what_a_program_never_sees_since_something_newer_came_is_counted() {
    let mut pair = Pair::new("plain");
    for (lane, kind, number) in [(STATE, Kind::Latest, 0), (STATE, Kind::Latest, 1), (EVENT, Kind::Event, 2)] {
        pair.ends[0].send(pair.now, lane, kind, 0, &[number; 50]).unwrap();
        carry(&mut pair);
    }
    let stats = pair.ends[1].stats(pair.now);
    assert_eq!((stats.received, stats.conflated, stats.copies_received), (3, 1, 0));
}
