//! Start rules and congestion controllers: whatever a path is remembered for, and in whatever order its events come.

use crate::are_named;
use headstart_core::cwnd::controller;
use headstart_core::cwnd::history::{Remembered, Trust};
use headstart_core::cwnd::start::{self, Advice, Entry, Loss, Terms, View};
use headstart_core::time::{Duration, Instant};
use proptest::prelude::*;

#[test]
fn every_start_rule_and_every_controller_is_named_and_found() {
    let rules: Vec<_> = start::ALL.iter().map(|entry| (entry.name, entry.what)).collect();
    are_named(&rules, '-', |name| start::find(name).map(|entry| entry.name.to_owned()));
    let controllers: Vec<_> = controller::ALL.iter().map(|entry| (entry.name, entry.what)).collect();
    are_named(&controllers, '-', |name| controller::find(name).map(|entry| entry.name.to_owned()));
}

/// Nothing, something, and all that there can be.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), 1u64..10_000_000, Just(u64::MAX)]
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0u64), 1u64..1_000_000_000, Just(u64::MAX)].prop_map(Duration::from_nanos)
}

fn remembered() -> impl Strategy<Value = Remembered> {
    let times = (time(), time(), time());
    (bytes(), bytes(), times, bytes(), any::<bool>()).prop_map(|(window, average, (rtt, least, age), rate, exact)| {
        let trust = if exact { Trust::Exact } else { Trust::Prefix };
        Remembered { window, found: window % 2 == 0, average, rtt, least, rate, age, trust }
    })
}

fn terms() -> impl Strategy<Value = Terms> {
    let pacing = prop_oneof![Just(0.0), Just(1.25), Just(f64::MAX)];
    (bytes(), bytes(), proptest::option::of(remembered()), bytes(), pacing)
        .prop_map(|(initial, packet, remembered, most, pacing)| Terms { initial, packet, remembered, most, pacing })
}

/// What happens next, with how things stand then.
type Step = (u8, View, u64, Option<Remembered>);

fn step() -> impl Strategy<Value = Step> {
    let view =
        (any::<u64>(), bytes(), bytes(), proptest::option::of(time()), proptest::option::of(time()), any::<bool>());
    let view = view.prop_map(|(now, flight, window, latest, shortest, app_limited)| View {
        now: Instant::from_nanos(now),
        flight,
        window,
        latest,
        shortest,
        app_limited,
    });
    (any::<u8>(), view, bytes(), proptest::option::of(remembered()))
}

/// What a rule says to all of it.
fn play(entry: &Entry, terms: &Terms, steps: &[Step]) -> Vec<Advice> {
    let mut rule = (entry.new)(terms);
    let mut said = Vec::new();
    for (what, view, number, granted) in steps {
        let sent = Instant::from_nanos(*number);
        said.push(match what % 6 {
            0 => rule.sent(view, *number),
            1 => rule.acknowledged(view, sent, *number),
            2 => rule.end_of_acknowledgement(view),
            3 => rule.lost(view, &Loss { sent, bytes: *number, persistent: false }),
            4 => rule.lost(view, &Loss { sent, bytes: 0, persistent: true }),
            _ if rule.wants_lease() => rule.leased(view, *granted),
            _ => rule.end_of_acknowledgement(view),
        });
        if rule.take_refuted() {
            assert!(!rule.take_refuted(), "{entry:?} says twice that the memory is wrong");
        }
        // Events come to an end.
        assert!((0..100).any(|_| rule.poll_event().is_none()), "{entry:?} has events without end");
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_start_rule_bears_every_story(terms in terms(), steps in proptest::collection::vec(step(), 0..60)) {
        for entry in start::ALL {
            let said = play(entry, &terms, &steps);
            prop_assert_eq!(&play(entry, &terms, &steps), &said, "{:?} is not deterministic", entry);
            for (advice, (_, view, ..)) in said.iter().zip(&steps) {
                // No memory is worth more than what was allowed, than what there was, or than what was on its way.
                let most = terms.most.max(terms.initial).max(view.window).max(view.flight);
                prop_assert!(advice.window.is_none_or(|window| window <= most), "{:?}: {:?} of {:?}", entry, advice, view);
            }
        }
    }

    #[test]
    fn every_controller_bears_every_beginning(window in bytes(), packet in bytes(), steps in proptest::collection::vec(step(), 0..40)) {
        for entry in controller::ALL {
            let tell = || {
                let mut it = (entry.new)(window, packet);
                let mut windows = Vec::new();
                for (what, view, number, _) in &steps {
                    let rtt = view.latest.unwrap_or_default();
                    match what % 7 {
                        0 => it.grow(view.now, *number, rtt),
                        1 => it.sample(rtt, view.app_limited),
                        2 => it.idle(rtt),
                        3 => it.reduce(view.now),
                        4 => it.collapse(view.now),
                        5 => it.set(*number, Some(view.window)),
                        _ => it.set_packet(*number),
                    }
                    assert_eq!(it.boxed().window(), it.window(), "{entry:?}: a copy is another");
                    windows.push(it.window());
                }
                windows
            };
            let told = tell();
            prop_assert!(told.iter().all(|window| *window <= controller::MOST.max(packet.saturating_mul(2))), "{:?}: {:?}", entry, told);
            prop_assert_eq!(told, tell(), "{:?} is not deterministic", entry);
        }
    }
}
