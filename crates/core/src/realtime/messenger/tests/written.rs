//! What is written in one write and what in another, what the program is told to write, and when it is woken.

use super::*;

fn start() -> Instant {
    Instant::from_millis(1000)
}

/// One end with so many connections that are up and greeted, the handshake of the first of which took `rtt` milliseconds.
pub(super) fn end(name: &str, connections: u32, rtt: u64) -> Messenger {
    let session = SessionId([1; 16]);
    let mut end = Messenger::new(session, settings(name));
    for id in 0..connections {
        let rtt = (id == 0).then_some(ms(rtt));
        open(&mut end, id, rtt);
        writes(&mut end, start(), id);
        let mut welcome = Vec::new();
        Frame::Welcome(Proof::welcome(session, id)).encode(&mut welcome);
        end.received(start(), Connection(id), &welcome).unwrap();
    }
    while end.poll_output().is_some() {}
    end
}

fn open(end: &mut Messenger, id: u32, rtt: Option<Duration>) {
    end.handle_input(start(), Input::Opened { connection: Connection(id), rtt, introduce: true });
}

pub(super) fn event(end: &mut Messenger, length: usize) {
    end.send(start(), EVENT, Kind::Event, 0, &vec![0; length]).unwrap();
}

/// How many bytes the messages in these frames have.
pub(super) fn messages(mut bytes: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some((frame, length)) = Frame::decode(bytes).unwrap() {
        if let Frame::Message { payload, .. } = frame {
            lengths.push(payload.len());
        }
        bytes = &bytes[length..];
    }
    lengths
}

/// The same of all that there is to write on a connection, write by write.
pub(super) fn writes(end: &mut Messenger, now: Instant, id: u32) -> Vec<Vec<usize>> {
    let (mut all, mut out) = (Vec::new(), Vec::new());
    while end.transmit(now, Connection(id), &mut out) {
        all.push(messages(&out));
        out.clear();
    }
    all
}

#[test]
fn what_goes_again_fills_segments_and_a_new_message_takes_what_is_left_of_the_last() {
    // 134 bytes with their headers: four of them are a segment.
    let written = |lost: usize, new: usize| {
        let mut end = end("plain", 1, 10);
        (0..lost).for_each(|_| event(&mut end, 130));
        writes(&mut end, start(), 0);
        end.handle_input(start(), Input::Closed(Connection(0)));
        event(&mut end, new);
        open(&mut end, 1, None);
        let written = writes(&mut end, start(), 1);
        let stats = end.stats(start());
        assert_eq!((stats.written, stats.copies), (2 * lost as u64 + 1, lost as u64));
        assert_eq!((stats.bytes, stats.bytes_again), (134 * 2 * lost as u64 + new as u64 + 4, 134 * lost as u64));
        written
    };
    assert_eq!(written(3, 130), [[130; 4]]);
    assert_eq!(written(3, 131), [vec![130; 3], vec![131]]);
    assert_eq!(written(9, 130), [vec![130; 4], vec![130; 4], vec![130; 2]]);
}

#[test]
fn values_go_at_once_and_over_a_new_connection_the_newest_goes_again() {
    let mut end = end("plain", 1, 10);
    for length in 1..=3 {
        end.send(start(), STATE, Kind::Latest, 0, &vec![0; length]).unwrap();
        assert_eq!(writes(&mut end, start(), 0), [[length]]);
    }
    end.handle_input(start(), Input::Closed(Connection(0)));
    open(&mut end, 1, None);
    assert_eq!(writes(&mut end, start(), 1), [[3]]);
    assert_eq!(end.on_their_way(), 1);
}

#[test]
fn an_acknowledgement_goes_in_the_segment_of_a_message_if_it_is_short() {
    let mut short = end("plain", 2, 10);
    event(&mut short, 50);
    (short.wires[0].ack, short.wires[0].received) = (true, 1);
    let mut out = vec![0; 100];
    assert!(short.transmit(start(), Connection(0), &mut out));
    let (frame, length) = Frame::decode(&out[100..]).unwrap().unwrap();
    assert!(matches!(frame, Frame::Ack(counts) if counts.as_slice() == [(0, 1)]), "and only what has come");
    assert_eq!((messages(&out[100 + length..]), short.stats(start()).acks), (vec![50], 1));
    let mut long = end("plain", 16, 10);
    event(&mut long, 50);
    long.wires[0].ack = true;
    long.wires.iter_mut().for_each(|wire| wire.received = 1 << 60);
    assert_eq!(writes(&mut long, start(), 0), [vec![], vec![50]]);
}

#[test]
fn control_frames_come_on_top_of_messages_unless_they_are_a_quarter_of_a_segment() {
    let lengths = |counted: u32| {
        let mut end = end("plain", 1, 10);
        (0..4).for_each(|_| event(&mut end, 130));
        writes(&mut end, start(), 0);
        end.handle_input(start(), Input::Closed(Connection(0)));
        (1..=counted).for_each(|id| open(&mut end, id, None));
        end.wires[0].ack = true;
        end.wires.iter_mut().for_each(|wire| wire.received = 1 << 60);
        let (mut lengths, mut out) = (Vec::new(), Vec::new());
        while end.transmit(start(), Connection(1), &mut out) {
            lengths.push(out.len());
            out.clear();
        }
        lengths
    };
    // A greeting of 34 bytes; an acknowledgement of three, and ten for each connection.
    assert_eq!(lengths(9), [34 + 93 + drive::ONE_SEGMENT]);
    assert_eq!(lengths(10), [34 + 103, drive::ONE_SEGMENT]);
}

#[test]
fn tiny_segments_are_written_one_by_one_and_messages_wait_for_the_last() {
    let mut end = end("plain", 1, 10);
    event(&mut end, 50);
    end.wires[0].fillers = FILLERS;
    assert_eq!(writes(&mut end, start(), 0), [vec![], vec![], vec![50]]);
    let mut pair = Pair::new("trigger");
    pair.ends.iter_mut().for_each(|end| end.settings.resume = false);
    pair.events(0..5);
    pair.run(ms(500));
    let counted = [0, 1].map(|end| pair.ends[end].stats(pair.now)).map(|stats| (stats.notices, stats.fillers));
    assert_eq!(counted, [(0, 3), (1, 0)], "a notice, and what answers it");
}

#[test]
fn of_messages_that_wait_the_one_that_has_waited_longest_goes_first() {
    let mut end = end("plain", 1, 10);
    for (lane, millis, length) in [(1, 0, 10), (2, 1, 20), (1, 2, 11), (3, 2, 30)] {
        end.send(start() + ms(millis), LaneId(lane), Kind::Event, 0, &vec![0; length]).unwrap();
    }
    assert_eq!(writes(&mut end, start() + ms(5), 0), [[10], [20], [11], [30]]);
}

#[test]
fn the_program_is_told_once_to_write_and_only_where_there_is_something_that_may_be_said() {
    let mut end = end("plain", 1, 10);
    let told = |end: &mut Messenger| std::iter::from_fn(|| end.poll_output()).collect::<Vec<_>>();
    let write = |id| Output::Write(Connection(id));
    end.handle_timeout(start());
    end.received(start(), Connection(0), &[]).unwrap();
    assert!(told(&mut end).is_empty());
    let mut out = Vec::new();
    event(&mut end, 10);
    event(&mut end, 11);
    assert_eq!(told(&mut end), [write(0)]);
    assert!(end.transmit(start(), Connection(0), &mut out));
    event(&mut end, 12);
    assert!(told(&mut end).is_empty(), "it asks until there is nothing more");
    assert_eq!(writes(&mut end, start(), 0), [[11], [12]]);
    // The other side opened this one, and has not said who it is.
    end.handle_input(start(), Input::Opened { connection: Connection(1), rtt: None, introduce: false });
    (0..2).for_each(|_| end.leave());
    assert_eq!(told(&mut end), [write(0)]);
    assert!(!end.transmit(start(), Connection(1), &mut out));
}

#[test]
fn a_connection_that_is_there_already_or_one_too_many_is_none() {
    let mut end = end("plain", 2, 10);
    (0..2).for_each(|id| open(&mut end, id, None));
    assert_eq!(end.connections(), 2);
    (0..20).for_each(|id| open(&mut end, id, None));
    assert_eq!(end.connections(), MAX_CONNECTIONS);
}

#[test]
fn a_value_that_is_held_wakes_its_sender_unless_it_cannot_be_written() {
    let mut end = end("reduction-50", 1, 10);
    end.send(start(), STATE, Kind::Latest, 0, &[0]).unwrap();
    assert_eq!((writes(&mut end, start(), 0), end.poll_timeout()), (vec![vec![1]], None));
    end.send(start() + ms(1), STATE, Kind::Latest, 0, &[1]).unwrap();
    // Two intervals, and a quarter of one.
    assert_eq!(end.poll_timeout().map(|deadline| deadline.at), Some(start() + Duration::from_micros(67_500)));
    event(&mut end, 10);
    assert_eq!(end.poll_timeout(), None, "an event waits for the connection already");
}

#[test]
fn where_half_of_the_values_are_sent_one_is_missed_after_twice_the_time() {
    let mut pair = Pair::new("reduction-50+trigger");
    pair.ends.iter_mut().for_each(|end| end.settings.resume = false);
    pair.ends[0].send(pair.now, STATE, Kind::Latest, 0, &[0]).unwrap();
    pair.drain(0);
    // Five milliseconds to get there, 60 until the next one is due, and 20 more.
    pair.run(ms(84));
    assert_eq!(pair.writes, [1, 0]);
    pair.run(ms(2));
    assert_eq!(pair.writes[1], 1);
}

#[test]
fn an_acknowledgement_that_is_due_goes_over_the_connection_that_it_is_of() {
    let mut pair = Pair::new("plain");
    pair.connect(1);
    pair.run(ms(50));
    let before = pair.writes[1];
    pair.event(0);
    pair.run(ms(300));
    assert_eq!((pair.writes[1] - before, pair.ends[0].on_their_way()), (1, 0));
}

#[test]
fn what_is_acknowledged_when_it_suits_the_peer_is_no_measure_of_the_path() {
    let mut pair = Pair::new("plain");
    pair.events(0..20);
    pair.run(ms(400));
    assert_eq!((pair.ends[0].on_their_way(), pair.ends[0].stats(pair.now).smoothed), (0, Some(ms(10))));
}

#[test]
fn of_what_is_on_an_overdue_connection_what_the_peers_kernel_has_does_not_go_again() {
    let mut pair = Pair::new("hedge");
    pair.events(0..10);
    let (connection, sent) = (Connection(pair.ends[0].primary.unwrap()), pair.now);
    pair.black_hole(6);
    pair.event(10);
    pair.ends[0].handle_input(pair.now, Input::Unacknowledged { connection, bytes: 0 });
    pair.event(11);
    pair.run(ms(20));
    assert_eq!((pair.written(10, sent), pair.written(11, sent)), (vec![ms(0)], vec![ms(0), ms(14)]));
}

#[test]
fn four_messages_that_fill_a_segment_are_paid_for_by_one() {
    let mut pair = Pair::new("hedge");
    pair.events(0..10);
    pair.black_hole(6);
    for number in 10..30 {
        pair.ends[0].send(pair.now, EVENT, Kind::Event, 0, &[number; 130]).unwrap();
    }
    pair.drain(0);
    pair.run(ms(20));
    assert_eq!(pair.ends[0].stats(pair.now).copies, 4 * u64::from(BUCKET));
}

#[test]
fn a_connection_that_was_left_is_not_gone_to_however_empty_it_is() {
    let mut end = end("hedge", 4, 10);
    event(&mut end, 50);
    assert_eq!(writes(&mut end, start(), 0), [[50]]);
    end.wires[1].stalled = true;
    end.handle_timeout(start() + ms(19));
    assert_eq!((end.primary, end.stats(start()).stalls), (Some(2), 1));
    assert_eq!(writes(&mut end, start() + ms(19), 2), [[50]]);
}
