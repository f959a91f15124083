//! Any text is a trace of packet deliveries or an error with its line, and what is a trace survives being written.
//!
//! Traces come from other tools (mahimahi's format) and are given on the command line.
#![no_main]

use headstart_link::rate::Trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Trace::parse("fuzz", text) {
        Ok(trace) => {
            let millis = trace.millis();
            assert!(millis.is_sorted(), "a trace out of order was taken");
            assert!(millis.last().is_some_and(|last| *last > 0), "a trace that lasts nothing was taken");
            let rate = trace.bits_per_second();
            assert!(rate.is_finite() && rate > 0.0, "a trace with a rate of {rate} bit/s was taken");
            assert_eq!(Trace::parse("fuzz", &trace.to_text()), Ok(trace), "what was written does not read back");
        }
        Err(e) => assert!(e.to_string().starts_with("fuzz"), "an error that does not name the file: {e}"),
    }
});
