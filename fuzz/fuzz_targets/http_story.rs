//! Any story of a client of `headstart serve`, in HTTP/1.1 or HTTP/2: answers are whole and within their credit, and nothing is held
//! behind them.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cli/tests/models/http.rs"]
mod story;

/// Longer stories take time and say no more.
const STEPS: usize = 200;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, steps)) = bytes.split_first() else { return };
    let steps = steps.as_chunks().0;
    let steps = &steps[..steps.len().min(STEPS)];
    match first % 2 {
        0 => story::http1::story(steps),
        _ => story::http2::story(steps),
    }
});
