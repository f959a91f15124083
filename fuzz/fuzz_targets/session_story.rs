//! Any story of a session: two ends, connections that are lost, programs. Nothing is lost, order is kept, bounds hold.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/models/delivery/story.rs"]
mod story;

/// Longer stories take time and say no more.
const STEPS: usize = 400;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, steps)) = bytes.split_first() else { return };
    let technique = ["auto", "plain", "reduction-50+trigger+echo"][usize::from(*first) % 3];
    let mut session = story::Session::new(technique);
    for step in steps.as_chunks().0.iter().take(STEPS) {
        session.step(&story::Step::of(*step));
    }
    session.finish();
    session.keeps_its_promises();
});
