//! Any streams of a client of HTTP/3: what is taken in is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cli/tests/models/http3.rs"]
mod story;

/// Longer stories take time and say no more.
const STEPS: usize = 400;

fuzz_target!(|bytes: &[u8]| {
    let steps = bytes.as_chunks().0;
    story::story(&steps[..steps.len().min(STEPS)]);
});
