//! Any story of flows over two channels: each packet is held exactly as long as one before it may still come.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/models/resequencer/story.rs"]
mod story;

/// Longer stories take time and say no more.
const STEPS: usize = 800;

fuzz_target!(|bytes: &[u8]| {
    let steps = bytes.as_chunks().0;
    story::play(&steps[..steps.len().min(STEPS)]);
});
