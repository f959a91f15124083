//! Over which connection a message goes, and what goes along with it, asked of one end.

use super::written::{end, event, messages, writes};
use super::*;

fn start() -> Instant {
    Instant::from_millis(1000)
}

/// One end with round trips of 40 ms, where what is not acknowledged is overdue after 64; messages of these lengths are on its
/// first connections, one on each.
fn sent(connections: u32, lengths: &[usize]) -> Messenger {
    let mut end = end("auto", connections, 40);
    for (id, length) in (0..).zip(lengths) {
        event(&mut end, *length);
        assert_eq!(writes(&mut end, start(), id), [[*length]], "it goes where nothing is on its way");
    }
    end
}

/// What goes along over connection `at`, so many milliseconds later, with a message that takes `size` bytes.
fn along(end: &mut Messenger, later: u64, at: usize, size: usize) -> Vec<usize> {
    let mut out = Vec::new();
    end.carry(start() + ms(later), at, size, &mut out);
    messages(&out)
}

#[test]
fn what_is_overdue_goes_along_if_the_segment_has_room_for_it_and_not_twice() {
    let mut end = sent(2, &[50]);
    assert!(along(&mut end, 63, 1, 100).is_empty(), "it is not overdue");
    assert!(along(&mut end, 64, 1, 536 - 52).is_empty(), "53 bytes with its header");
    assert_eq!(along(&mut end, 64, 1, 536 - 53), [50]);
    assert_eq!((end.stats(start()).carried, end.stats(start()).copies), (1, 1));
    assert!(along(&mut end, 64, 1, 100).is_empty(), "it is on its way there");
    // Of two the newest, where there is room for one.
    let mut end = sent(3, &[50, 51]);
    assert_eq!(along(&mut end, 64, 2, 536 - 60), [51]);
    let mut end = sent(3, &[50, 51]);
    assert_eq!(along(&mut end, 64, 2, 100), [50, 51], "and the oldest first");
    let mut end = sent(2, &[50]);
    end.handle_input(start(), Input::Unacknowledged { connection: Connection(0), bytes: 0 });
    assert!(along(&mut end, 64, 1, 100).is_empty(), "the peer's kernel has it");
}

#[test]
fn after_a_loss_one_message_that_is_not_overdue_goes_along_and_it_is_the_newest() {
    let mut end = sent(3, &[50, 51]);
    end.gauge.last_loss = Some(start());
    assert_eq!(along(&mut end, 1, 2, 100), [51]);
}

#[test]
fn what_went_over_two_connections_at_once_goes_along_over_a_third_only_and_once() {
    let mut end = sent(3, &[50]);
    end.write(start(), 1, (0, 0), true, &mut Vec::new());
    assert!(along(&mut end, 64, 1, 100).is_empty());
    assert_eq!(along(&mut end, 64, 2, 100), [50]);
}

#[test]
fn a_connection_is_overtaken_by_what_was_sent_a_quarter_of_a_round_trip_later() {
    let mut end = sent(2, &[50]);
    for (micros, stalls) in [(9_999, 0), (10_000, 1), (20_000, 1)] {
        end.newest = start() + Duration::from_micros(micros);
        end.overtake(start() + ms(50));
        assert_eq!((end.wires[0].overtaken, end.stats(start()).stalls), (stalls > 0, stalls), "{micros}");
    }
}

#[test]
fn a_message_goes_where_nothing_is_late_and_in_a_burst_of_losses_where_nothing_was_sent_for_longest() {
    // How many milliseconds ago something was sent on each connection, and is not acknowledged.
    let chosen = |rtt, ago: &[&[u64]]| {
        let mut end = end("auto", ago.len() as u32, rtt);
        event(&mut end, 50);
        for (wire, ago) in end.wires.iter_mut().zip(ago) {
            let flight = |ago: &u64| Flight {
                message: (0, 9),
                sent: Instant::from_millis(1000 - ago),
                copy: false,
                end: u64::MAX,
            };
            wire.flights.extend(ago.iter().map(flight));
        }
        end.choose(start());
        (end.primary, end.spell)
    };
    assert_eq!(chosen(40, &[&[70], &[20, 10]]), (Some(1), false), "the first one is overdue");
    assert_eq!(chosen(40, &[&[70], &[80]]), (Some(0), false), "the later one of both");
    assert_eq!(chosen(40, &[&[20, 10], &[5]]), (Some(1), false), "where less is on its way");
    assert_eq!(chosen(20, &[&[20, 10], &[5]]), (Some(0), false), "unless that is soon known to have come");
    assert_eq!(chosen(40, &[&[100, 5], &[50]]), (Some(1), true));
}

#[test]
fn what_is_overdue_waits_for_the_next_message_where_round_trips_are_longer_than_an_interval() {
    let next = |name, connections, rtt| {
        let mut end = end(name, connections, rtt);
        event(&mut end, 50);
        end.next_message(&end.view(start())).map(|next| next.since(start()))
    };
    assert_eq!(next("auto", 2, 40), Some(Duration::from_micros(37_500)), "an interval and a quarter");
    assert_eq!([next("auto", 2, 20), next("auto", 2, 30)], [None; 2]);
    assert_eq!([next("auto", 1, 40), next("hedge", 2, 40)], [None; 2], "nothing would take it along");
}

#[test]
fn a_connection_of_which_only_others_bring_acknowledgements_is_left_until_it_brings_one() {
    let mut end = sent(2, &[50, 51]);
    let mut hears = |over: u32, counts: [u64; 2]| {
        let (mut all, mut bytes) = (Counts::default(), Vec::new());
        (0..).zip(counts).for_each(|(id, count)| assert!(all.push(id, count)));
        Frame::Ack(all).encode(&mut bytes);
        end.received(start() + ms(40), Connection(over), &bytes).unwrap();
        event(&mut end, 52);
        let primary = end.primary.unwrap();
        writes(&mut end, start() + ms(40), primary);
        primary
    };
    assert_eq!(hears(1, [1, 1]), 1);
    assert_eq!(hears(0, [1, 2]), 0);
}

#[test]
fn of_messages_that_a_copy_was_ahead_of_the_last_sixty_four_are_kept_in_mind() {
    let mut ahead = Ahead::default();
    (0..100).for_each(|seq| ahead.note(start() + ms(seq), (0, seq)));
    let mut take = |seq, copy| ahead.take(&Flight { message: (0, seq), sent: start(), copy, end: 0 });
    assert_eq!(take(99, true), None, "that is the copy");
    assert_eq!([take(99, false), take(99, false)], [Some(start() + ms(99)), None]);
    assert_eq!((0..99).filter(|seq| take(*seq, false).is_some()).collect::<Vec<_>>(), (36..99).collect::<Vec<_>>());
}

#[test]
fn after_a_greeting_that_was_refused_nothing_else_is_taken() {
    let mut end = Messenger::new(SessionId([1; 16]), settings("plain"));
    end.handle_input(start(), Input::Opened { connection: Connection(0), rtt: None, introduce: true });
    let said = |frame: Frame<'_>| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    };
    let message = Frame::Message { lane: EVENT, kind: Kind::Event, seq: 0, key: 0, payload: b"x" };
    for words in [said(Frame::Welcome(Proof(0))), said(message)] {
        assert!(end.received(start(), Connection(0), &words).is_err());
    }
    assert_eq!((end.untaken(), end.answered()), (0, 0));
}
