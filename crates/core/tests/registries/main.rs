//! What every entry of every registry of this crate owes, whoever wrote it: a name that is found again, a line that says what
//! it is, and an answer, the same one each time, to input that no network would give.
//!
//! A registry is walked from its `ALL`: whoever adds a line there is tested here, and writes nothing. What a variant is for is
//! tested beside it.
#![forbid(unsafe_code)]

mod forward;
mod policy;
mod race;
mod session;
mod technique;
mod window;

use headstart_core::path::RttEstimate;
use headstart_core::time::{Duration, Instant};

/// No time, the shortest, some, and the longest that two moments can be apart.
const TIMES: [Duration; 4] =
    [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(30), Duration::from_nanos(u64::MAX)];

/// The ends of every clock, and something between.
const MOMENTS: [Instant; 3] = [Instant::ZERO, Instant::from_millis(1000), Instant::FAR_FUTURE];

/// Nothing known, and round trips of [`TIMES`], steady and not.
fn round_trips() -> Vec<Option<RttEstimate>> {
    let each = TIMES.into_iter().flat_map(|smoothed| {
        [Duration::ZERO, smoothed].map(|variation| Some(RttEstimate { smoothed, variation, prior: false }))
    });
    std::iter::once(None).chain(each).collect()
}

/// Names are words joined by `joint`, each is there once and found again, and each entry says what it is in a line.
fn are_named(entries: &[(&str, &str)], joint: char, find: impl Fn(&str) -> Option<String>) {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    assert!(!entries.is_empty());
    for (name, what) in entries {
        assert!(name.split(joint).all(is_word), "{name:?} is not words joined by {joint:?}");
        assert_eq!(entries.iter().filter(|(other, _)| other == name).count(), 1, "{name:?} is there twice");
        assert_eq!(find(name).as_deref(), Some(*name), "{name:?} is not found by its name");
        assert!(what.len() > 3 && what.trim() == *what && !what.contains('\n'), "{name:?} says {what:?} of itself");
        assert!(
            !what.ends_with('.') && what != name,
            "{name:?}: a line that says what it is, not a sentence: {what:?}"
        );
        for wrong in [name.to_uppercase(), format!("{name} "), format!(" {name}"), format!("{name}{joint}")] {
            assert_eq!(find(&wrong), None, "{wrong:?} is taken for {name:?}");
        }
    }
    assert_eq!(find(""), None);
}
