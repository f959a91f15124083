//! Any story of a journal of changes whose files are cut and harmed: every change is known.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/io/tests/models/journal.rs"]
mod story;

/// Longer stories take time and say no more.
const STEPS: usize = 100;

fuzz_target!(|bytes: &[u8]| {
    let steps = bytes.as_chunks().0;
    story::play(&steps[..steps.len().min(STEPS)]);
});
