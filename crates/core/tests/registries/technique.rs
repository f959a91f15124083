//! Techniques: each question has an answer whatever the path looks like, alone and joined with any other.

use crate::{MOMENTS, TIMES, are_named, round_trips};
use headstart_core::realtime::technique::{ALL, View, find};
use headstart_core::realtime::{MAX_CONNECTIONS, State};

/// The name of each entry, with a number where it wants one.
pub fn names() -> Vec<String> {
    ALL.iter().map(|entry| entry.name.replace("-P", "-50")).collect()
}

/// Each by itself, and each with each.
fn combinations() -> Vec<String> {
    let names = names();
    let pairs = names.iter().flat_map(|a| names.iter().map(move |b| format!("{a}+{b}")));
    names.iter().cloned().chain(pairs).collect()
}

#[test]
fn every_technique_is_named_and_found() {
    let names = names();
    let entries: Vec<_> = names.iter().zip(ALL).map(|(name, entry)| (name.as_str(), entry.what)).collect();
    are_named(&entries, '-', |name| find(name).is_ok().then(|| name.to_owned()));
}

#[test]
fn every_technique_has_an_answer_to_every_view_and_always_the_same() {
    let states = [State::Clean, State::Lossy, State::Queued, State::Outage];
    let views = MOMENTS.into_iter().flat_map(|now| {
        round_trips().into_iter().flat_map(move |rtt| {
            TIMES.into_iter().flat_map(move |time| {
                states.into_iter().flat_map(move |state| {
                    let shortest = rtt.map(|rtt| rtt.smoothed);
                    let view = View { now, rtt, shortest, interval: Some(time), jitter: time, tolerance: 8, state };
                    [view, View { interval: None, shortest: None, tolerance: 0, ..view }]
                })
            })
        })
    });
    let views: Vec<View> = views.collect();
    for name in combinations() {
        let technique = find(&name).unwrap();
        assert!((1..=MAX_CONNECTIONS).contains(&technique.connections()), "{name}");
        for view in &views {
            let answers =
                || (technique.one_of(view), technique.patience(view), technique.carries(view), technique.pace(view));
            assert_eq!(answers(), answers(), "{name}: {view:?}");
            assert!(technique.one_of(view) >= 1, "{name} sends nothing of a lane: {view:?}");
            assert!(technique.earns(view) <= 100, "{name} may send more copies than messages: {view:?}");
            // Nobody is late before a round trip has passed, nor missed before the next is due.
            let early = technique.patience(view).zip(view.rtt).is_some_and(|(patience, rtt)| patience < rtt.smoothed);
            assert!(!early, "{name} has less patience than a round trip takes: {view:?}");
            for interval in TIMES {
                let silence = technique.silence(view, interval);
                assert!(silence.is_none_or(|silence| silence > interval), "{name} misses what is not due: {view:?}");
            }
        }
    }
}
