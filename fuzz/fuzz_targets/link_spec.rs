//! Any text is a link or an error; what is a link survives being written, and carries packets by the rules of links.
//!
//! Rules: never early, never reordered, nothing made or lost but what the counters say, and never stuck for ever. The
//! trace file that a text may name is foreign too. No real file is read.
#![no_main]

use headstart_core::time::{Duration, Instant};
use headstart_link::{Link, LinkSpec, parse_with_files};
use libfuzzer_sys::fuzz_target;

/// Packets a run at most: enough to fill small queues, few enough to stay quick.
const MOST_PACKETS: usize = 64;
/// Releases that a slow but valid rate may spread over; more is somebody's century.
const PATIENCE: u64 = u64::MAX / 4;

fuzz_target!(|input: (&str, &str, u64, Vec<(u32, u16)>)| {
    let (text, trace, seed, arrivals) = input;
    let read = |text: &str| parse_with_files(text, &mut |_| Ok(trace.to_owned()));
    match read(text) {
        Ok((up, down)) => {
            for spec in [&up, &down] {
                let written = spec.to_string();
                let (again, _) = read(&written).unwrap_or_else(|e| panic!("`{written}` does not read back: {e}"));
                assert_eq!(again, *spec, "`{written}` reads back as another link");
            }
            carry(&up, seed, &arrivals);
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});

fn carry(spec: &LinkSpec, seed: u64, arrivals: &[(u32, u16)]) {
    let mut link = Link::new(spec, seed);
    let least = spec.least_delay();
    let mut now = Instant::ZERO;
    let mut earliest = Vec::new();
    for (gap, bytes) in arrivals.iter().take(MOST_PACKETS) {
        now += Duration::from_micros(u64::from(*gap));
        if link.push(now, vec![0; usize::from(*bytes)]).is_ok() {
            earliest.push((now + least, usize::from(*bytes)));
        }
    }
    let mut taken = earliest.into_iter();
    let mut last = Instant::ZERO;
    while let Some(deadline) = link.poll_timeout() {
        if deadline.at.as_nanos() > PATIENCE {
            return;
        }
        while let Some((release, packet)) = link.poll(deadline.at) {
            let (earliest, bytes) = taken.next().expect("a packet came out that never went in");
            assert_eq!(packet.len(), bytes, "packets changed their order");
            assert!(release >= earliest, "released {release:?}, at the earliest {earliest:?}");
            assert!(release >= last, "released {release:?} after {last:?}");
            last = release;
        }
    }
    assert_eq!(taken.next(), None, "a packet is stuck");
    assert_eq!(link.counters().packets_held(), 0, "the counters do not add up");
}
