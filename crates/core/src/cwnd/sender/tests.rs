//! A sender on a pipe of its own, and a sender whose every input is a lie.

use super::super::history::{Remembered, Trust};
use super::*;
use proptest::prelude::*;

const PACKET: u64 = 1200;
const INITIAL: u64 = 12_000;
const MS: Duration = Duration::from_millis(1);

fn terms(window: Option<u64>) -> Terms {
    let remembered = window.map(|window| Remembered {
        window,
        found: false,
        average: window,
        rtt: 40 * MS,
        least: 40 * MS,
        rate: 0,
        age: Duration::ZERO,
        trust: Trust::Exact,
    });
    Terms { initial: INITIAL, packet: PACKET, remembered, most: 1 << 30, pacing: 1.0 }
}

fn sender(rule: &str, window: Option<u64>) -> Sender {
    Sender::new(start::find(rule).unwrap(), controller::find("cubic").unwrap(), &terms(window))
}

/// Sends full windows for `rounds` over a path of 40 ms that loses nothing, spread over half of it; grants every lease. The
/// windows at the end of each.
fn rounds(sender: &mut Sender, from: Instant, rounds: usize) -> (Instant, Vec<u64>) {
    let (mut now, mut windows) = (from, Vec::new());
    for _ in 0..rounds {
        if sender.wants_lease() {
            sender.leased(now, terms(Some(480_000)).remembered);
        }
        let began = now;
        let mut sent = Vec::new();
        while sender.flight() + PACKET <= sender.window() {
            sent.push(now);
            sender.sent(now, PACKET);
            now += Duration::from_micros(20);
        }
        now = began;
        for (k, at) in sent.iter().enumerate() {
            now = *at + 40 * MS;
            sender.acknowledged(now, *at, PACKET, false);
            sender.end_of_acknowledgement(now, (sent.len() - 1 - k) as u64 * PACKET, false);
        }
        windows.push(sender.window());
    }
    (now, windows)
}

#[test]
fn without_a_memory_every_rule_is_the_default_packet_for_packet() {
    let windows = |rule: &str| rounds(&mut sender(rule, None), Instant::from_millis(1), 6).1;
    assert_eq!(windows("default"), [24_000, 48_000, 96_000, 192_000, 384_000, 768_000]);
    for entry in start::ALL {
        assert_eq!(windows(entry.name), windows("default"), "{entry:?}");
    }
}

#[test]
fn careful_resume_jumps_after_the_initial_window_and_the_average_at_once() {
    let windows = |rule: &str| rounds(&mut sender(rule, Some(480_000)), Instant::from_millis(1), 3).1;
    assert_eq!(windows("careful-resume")[..2], [24_000, 480_000], "half of it was sent, and slow start doubled that");
    assert_eq!(windows("careful-wireless"), windows("careful-resume"));
    assert_eq!(windows("history-average")[0], 960_000);
    let mut average = sender("history-average", Some(480_000));
    rounds(&mut average, Instant::from_millis(1), 1);
    assert_eq!(average.poll_event().map(|event| event.saved_window), Some(480_000));
    assert_eq!(windows("default")[1], 48_000);
}

#[test]
fn where_packets_wait_after_a_jump_every_controller_grows_by_half_of_what_arrives_at_most() {
    let jumped = |controller: &controller::Entry, rtt: Duration| {
        let rule = start::find("careful-resume").unwrap();
        let mut sender = Sender::new(rule, controller, &terms(Some(480_000)));
        let (now, _) = rounds(&mut sender, Instant::from_millis(1), 1);
        sender.leased(now, terms(Some(480_000)).remembered);
        (0..200).for_each(|_| sender.sent(now, PACKET));
        for left in (0..200).rev() {
            sender.acknowledged(now + rtt, now, PACKET, false);
            sender.end_of_acknowledgement(now + rtt, left * PACKET, false);
        }
        (sender.window() - 240_000) / PACKET
    };
    for controller in controller::ALL {
        // HyStart++ has seen a rise as great as this by itself, and a quarter is enough.
        let slowed = 192 / if controller.name == "cubic" { 4 } else { 2 };
        assert_eq!((jumped(controller, 40 * MS), jumped(controller, 60 * MS)), (200, 8 + slowed), "{controller:?}");
    }
}

#[test]
fn losses_of_one_flight_are_answered_once() {
    let mut sender = sender("default", None);
    let (now, _) = rounds(&mut sender, Instant::from_millis(1), 3);
    let loss = |sent| Loss { sent, bytes: PACKET, persistent: false };
    sender.lost(now + 50 * MS, &loss(now));
    let once = sender.window();
    sender.lost(now + 51 * MS, &loss(now + MS));
    assert_eq!((once, sender.window()), (67_200, 67_200));
    sender.lost(now + 120 * MS, &loss(now + 60 * MS));
    assert_eq!(sender.window(), 47_040);
}

#[test]
fn a_sample_says_what_the_path_carried_and_needs_four_initial_windows() {
    let mut sender = sender("default", None);
    let (now, _) = rounds(&mut sender, Instant::from_millis(1), 2);
    assert_eq!(sender.sample(Medium::Wired), None, "36 kB are too little");
    assert_eq!((sender.initial(), sender.last_feedback()), (INITIAL, Some(now)));
    rounds(&mut sender, now, 4);
    let sample = sender.sample(Medium::Wired).unwrap();
    assert_eq!((sample.window, sample.rtt, sample.limited), (768_000, 40 * MS, true));
    // 384 kB were acknowledged within a round trip; the first packet of them ended the one before.
    assert!((380_000..=384_000).contains(&sample.carried), "{sample:?}");
}

#[test]
fn who_finds_packets_waiting_before_its_own_can_has_a_share_of_the_path() {
    let shared = |first: Duration| {
        let (mut sender, began) = (sender("default", None), Instant::from_millis(1));
        let mut hear = |sent: Instant, rtt: Duration| {
            sender.sent(sent, 6 * INITIAL);
            sender.acknowledged(sent + rtt, sent, 6 * INITIAL, false);
            sender.end_of_acknowledgement(sent + rtt, 0, false);
        };
        hear(began, first);
        hear(began + 100 * MS, 40 * MS);
        hear(began + 200 * MS, 90 * MS);
        sender.sample(Medium::Wired).unwrap().shared
    };
    assert!(!shared(40 * MS) && !shared(45 * MS), "what waits later may be its own");
    assert!(shared(46 * MS), "an eighth more than the shortest");
}

#[test]
fn on_a_path_that_is_known_slow_start_ends_with_a_queue_and_who_did_not_come_so_far_says_nothing_of_the_path() {
    let found = terms(Some(120_000)).remembered.map(|known| Remembered { found: true, ..known });
    let terms = Terms { remembered: found, ..terms(None) };
    // A path of 40 ms that carries 120 kB in them: what is more waits.
    let played = |carries: u64| {
        let mut sender =
            Sender::new(start::find("careful-resume").unwrap(), controller::find("cubic").unwrap(), &terms);
        let mut now = Instant::from_millis(1);
        for _ in 0..8 {
            let packets = sender.window() / PACKET;
            (0..packets).for_each(|_| sender.sent(now, PACKET));
            let heard = now + (40 * MS).mul_f64((packets * PACKET) as f64 / carries as f64).max(40 * MS);
            (0..packets).for_each(|_| sender.acknowledged(heard, now, PACKET, false));
            sender.end_of_acknowledgement(heard, 0, false);
            if sender.wants_lease() {
                sender.leased(heard, found);
            }
            now = heard + MS;
        }
        sender
    };
    let same = played(120_000);
    assert!(same.threshold().is_some_and(|end| (240_000..=480_000).contains(&end)), "{same:?}");
    assert!(same.window() < 520_000 && !same.sample(Medium::Wired).unwrap().limited, "{same:?}");
    let wider = played(12_000_000);
    assert!(wider.threshold().is_none() && wider.window() > 2_000_000, "{wider:?}");
    assert!(wider.sample(Medium::Wired).unwrap().limited, "it never came to the end of slow start");
}

#[test]
fn a_branch_takes_neither_memory_nor_lease_nor_an_unproved_window() {
    let mut sender = sender("careful-resume", Some(480_000));
    let (now, _) = rounds(&mut sender, Instant::from_millis(1), 1);
    sender.leased(now, terms(Some(480_000)).remembered);
    assert_eq!((sender.phase(), sender.window()), (Phase::Unvalidated, 240_000));
    let branch = sender.branch();
    assert_eq!((branch.phase(), branch.window(), branch.wants_lease()), (Phase::Normal, INITIAL, false));
}

#[test]
fn a_window_grows_by_what_was_sent_after_a_loss_and_not_by_what_was_sent_before() {
    let mut sender = sender("default", None);
    let (now, _) = rounds(&mut sender, Instant::from_millis(1), 3);
    sender.sent(now, 200 * PACKET);
    sender.lost(now + 50 * MS, &Loss { sent: now, bytes: PACKET, persistent: false });
    let mut acknowledged = |sent: Instant, packets: u64| {
        sender.acknowledged(sent + 60 * MS, sent, packets * PACKET, false);
        sender.window()
    };
    assert_eq!([now, now + 50 * MS].map(|sent| acknowledged(sent, 20)), [67_200; 2]);
    assert!(acknowledged(now + 51 * MS, 60) > 67_200);
}

#[test]
fn when_nothing_gets_through_two_packets_are_left_of_the_length_that_they_have_by_then() {
    for controller in controller::ALL {
        let mut sender = Sender::new(start::find("default").unwrap(), controller, &terms(None));
        let (now, _) = rounds(&mut sender, Instant::from_millis(1), 3);
        sender.set_packet(1_400);
        sender.lost(now + 500 * MS, &Loss { sent: now + 200 * MS, bytes: 0, persistent: true });
        assert_eq!(sender.window(), 2_800, "{controller:?}");
    }
}

#[test]
fn a_jump_that_meets_a_loss_refutes_the_memory_once_and_its_phases_are_told() {
    let mut sender = sender("careful-resume", Some(480_000));
    let (now, _) = rounds(&mut sender, Instant::from_millis(1), 1);
    sender.leased(now, terms(Some(480_000)).remembered);
    (0..200).for_each(|_| sender.sent(now, PACKET));
    assert!(!sender.take_refuted());
    sender.lost(now + 50 * MS, &Loss { sent: now, bytes: 10 * PACKET, persistent: false });
    assert_eq!([sender.take_refuted(), sender.take_refuted()], [true, false]);
    let phases: Vec<_> = std::iter::from_fn(|| sender.poll_event()).map(|event| event.new).collect();
    assert_eq!(phases.last(), Some(&Phase::SafeRetreat), "{phases:?}");
    assert!(phases.contains(&Phase::Unvalidated) && !phases.contains(&Phase::Normal), "{phases:?}");
}

#[test]
fn where_packets_wait_after_a_retreat_slow_start_to_the_threshold_is_half_as_fast() {
    for controller in controller::ALL {
        let rule = start::find("careful-resume").unwrap();
        let mut sender = Sender::new(rule, controller, &terms(Some(480_000)));
        let (now, _) = rounds(&mut sender, Instant::from_millis(1), 1);
        sender.leased(now, terms(Some(480_000)).remembered);
        (0..200).for_each(|_| sender.sent(now, PACKET));
        sender.lost(now + 50 * MS, &Loss { sent: now, bytes: PACKET, persistent: false });
        let mut hear = |sent: Instant, packets: u64| {
            (0..packets).for_each(|_| {
                sender.acknowledged(sent + 60 * MS, sent, PACKET, false);
                sender.end_of_acknowledgement(sent + 60 * MS, PACKET, false);
            });
            (sender.phase(), sender.window(), sender.threshold().unwrap_or(0))
        };
        hear(now, 199);
        assert_eq!(hear(now + 70 * MS, 1), (Phase::Normal, 2 * PACKET, 119_400), "{controller:?}");
        assert_eq!(hear(now + 140 * MS, 1).1, 2 * PACKET + PACKET / 2, "{controller:?}");
    }
}

#[test]
fn what_was_acknowledged_at_the_moment_it_was_sent_makes_no_path_infinitely_fast() {
    let (mut sender, now) = (sender("default", None), Instant::from_millis(1));
    for (sent, heard) in [(now, now), (now + MS, now + 41 * MS)] {
        sender.sent(sent, 2 * INITIAL);
        sender.acknowledged(heard, sent, 2 * INITIAL, false);
        sender.end_of_acknowledgement(heard, 0, false);
    }
    // Four initial windows, no less; 24 kB in 40 ms.
    let sample = sender.sample(Medium::Wired).unwrap();
    assert!((500_000..=1_200_000).contains(&sample.rate), "{sample:?}");
}

#[test]
fn a_connection_whose_slow_start_has_just_ended_by_itself_has_found_what_the_path_carries() {
    let (mut sender, mut now) = (sender("default", None), Instant::from_millis(1));
    let mut rtt = 40 * MS;
    // Round trips rise after the first round; five rounds later slow start is over.
    for _ in 0..10 {
        (0..10).for_each(|_| sender.sent(now, PACKET));
        for left in (0..10).rev() {
            sender.acknowledged(now + rtt, now, PACKET, false);
            sender.end_of_acknowledgement(now + rtt, left * PACKET, false);
            let Some(sample) = sender.sample(Medium::Wired) else { continue };
            assert_eq!(sample.limited, sender.threshold().is_none(), "{sender:?}");
        }
        (now, rtt) = (now + rtt + MS, 60 * MS);
    }
    assert!(sender.threshold().is_some(), "{sender:?}");
}

proptest! {
    #[test]
    fn whatever_it_is_told_its_window_stays_within_bounds(
        rule in 0..start::ALL.len(),
        which in 0..controller::ALL.len(),
        window in proptest::option::of(any::<u64>()),
        steps in proptest::collection::vec((0u8..8, any::<u32>(), any::<u32>(), any::<bool>()), 0..300),
    ) {
        let mut sender = Sender::new(&start::ALL[rule], &controller::ALL[which], &terms(window));
        for (what, bytes, time, flag) in steps {
            // The clock goes back as well, and what is acknowledged was perhaps never sent.
            let (now, bytes) = (Instant::from_nanos(u64::from(time) * 1000), u64::from(bytes));
            match what {
                0 | 1 => sender.sent(now, bytes),
                2 | 3 => sender.acknowledged(now, Instant::from_nanos(bytes * 500), bytes, flag),
                4 => sender.end_of_acknowledgement(now, bytes, flag),
                5 => sender.lost(now, &Loss { sent: now, bytes, persistent: flag }),
                6 => sender.set_packet(1200 + bytes % 300),
                _ if sender.wants_lease() => sender.leased(now, terms(Some(bytes)).remembered.filter(|_| flag)),
                _ => {}
            }
            prop_assert!((2400..=controller::MOST).contains(&sender.window()));
            if let Some(sample) = sender.sample(Medium::Wireless) {
                prop_assert!(sample.carried <= controller::MOST && (0.0..=1.0).contains(&sample.loss));
            }
        }
    }
}
