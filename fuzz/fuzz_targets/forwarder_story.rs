//! Any story of a stream through the forwarder: what one side says the other hears, against a reference TCP.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/models/forwarder/story.rs"]
mod story;

/// Longer stories take time and say no more.
const STEPS: usize = 600;

fuzz_target!(|bytes: &[u8]| {
    let steps = bytes.as_chunks().0;
    story::play(&steps[..steps.len().min(STEPS)]);
});
