//! The experiment `emulator`, run as the command runs it: inside, quickly, with real packets.
//!
//! Bounds hold on any machine: a machine that is too slow makes packets late, never early, and the run invalid.
#![forbid(unsafe_code)]

use headstart_lab::experiment::{Context, Speeds, emulator};
use headstart_lab::netns::{Entered, Entry};

#[test]
fn what_it_reports_is_possible_over_the_link_that_it_was_told() {
    let test = "what_it_reports_is_possible_over_the_link_that_it_was_told";
    let alone = [test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"];
    match Entry::with_arguments(alone).enter() {
        Ok(Entered::Inside) => {}
        Ok(Entered::Ended(status)) => return assert_eq!(status, 0, "failed inside its namespaces; see above"),
        Err(e) => panic!("{e}"),
    }
    let cx = Context { quick: true, speeds: Speeds::Both, ..Context::new(5) };
    let outcome = emulator::ENTRY.start(&cx).unwrap();
    let value = |metric: &str| outcome.rows.iter().find(|r| r.metric == metric).unwrap_or_else(|| panic!("{metric}"));
    for family in ["IPv4", "IPv6"] {
        let rtt = value(&format!("RTT of a handshake over {family}, median"));
        // The kernel rounds to microseconds.
        assert!(rtt.ours >= 29.99, "{} ms is less than twice 15 ms", rtt.ours);
        let connect = value(&format!("time in connect over {family}, median"));
        assert!(connect.baseline.is_some_and(|b| (30.0..30.1).contains(&b)), "virtual time: {connect:?}");
        assert!(connect.ours >= rtt.ours, "connect took less than the handshake");
    }
    let rate = value("rate of a download at the IP layer, mean after 2 s");
    // Bytes that came in order late may be counted after the first two seconds: one queue of 1000 packets.
    assert!(rate.ours > 0.0 && rate.ours < 105.0, "{} Mbit/s through 100", rate.ours);
    assert!(value("lateness of packets, p99").ours >= value("lateness of packets, p50").ours);
    assert_eq!(outcome.valid, outcome.why_invalid.is_empty());
    assert!(outcome.notes.iter().any(|n| n.contains(" 0 early")), "nothing may leave early: {:?}", outcome.notes);
}
