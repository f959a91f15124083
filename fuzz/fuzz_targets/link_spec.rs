//! Any text is a link or an error; what is a link survives being written, and carries packets by the rules of links.
//!
//! Rules: never early, never reordered unless the link says so, nothing made or lost but what is told, and never stuck for
//! ever. The files that a text may name (traces of rates and of delays) are foreign too. No real file is read.
#![no_main]

use headstart_core::time::{Duration, Instant};
use headstart_link::medium::Way;
use headstart_link::{Duplex, DuplexSpec, Order, Outcome, parse_duplex_with_files};
use libfuzzer_sys::fuzz_target;

/// Packets a run at most: enough to fill small queues, few enough to stay quick.
const MOST_PACKETS: usize = 64;
/// Releases that a slow but valid rate may spread over; more is somebody's century.
const PATIENCE: u64 = u64::MAX / 4;
/// Bytes that a number precedes.
const NUMBER: usize = 8;

fuzz_target!(|input: (&str, &str, u64, Vec<(u32, u16, bool)>)| {
    let (text, file, seed, arrivals) = input;
    let read = |text: &str| parse_duplex_with_files(text, &mut |_| Ok(file.to_owned()));
    match read(text) {
        Ok(spec) => {
            let written = spec.to_string();
            let again = read(&written).unwrap_or_else(|e| panic!("`{written}` does not read back: {e}"));
            assert_eq!(again, spec, "`{written}` reads back as another link");
            carry(&spec, seed, &arrivals);
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});

fn carry(spec: &DuplexSpec, seed: u64, arrivals: &[(u32, u16, bool)]) {
    let mut duplex = Duplex::new(spec, seed);
    let mut now = Instant::ZERO;
    // By direction: the earliest release and the size of each packet, by its number; `None` once it has come to its end.
    let mut under_way: [Vec<Option<(Instant, usize)>>; 2] = Default::default();
    for (gap, bytes, down) in arrivals.iter().take(MOST_PACKETS) {
        now += Duration::from_micros(u64::from(*gap));
        let way = Way::BOTH[usize::from(*down)];
        let sent = &mut under_way[way.index()];
        let bytes = NUMBER + usize::from(*bytes);
        let mut packet = (sent.len() as u64).to_be_bytes().to_vec();
        packet.resize(bytes, 0);
        let taken = duplex.push(now, way, packet).is_ok();
        sent.push(taken.then(|| (now + spec.way(way).least_delay(), bytes)));
    }
    let (mut last, mut newest) = (Instant::ZERO, [None; 2]);
    while let Some(deadline) = duplex.poll_timeout() {
        if deadline.at.as_nanos() > PATIENCE {
            return;
        }
        while let Some((way, outcome)) = duplex.poll_outcome(deadline.at) {
            let (released, packet) = match outcome {
                Outcome::Released(at, packet) => (Some(at), packet),
                Outcome::Dropped(at, _, packet) => {
                    assert!(at <= deadline.at, "dropped {at:?}, told at {:?}", deadline.at);
                    (None, packet)
                }
            };
            let number = u64::from_be_bytes(packet[..NUMBER].try_into().expect("a numbered packet"));
            let sent = under_way[way.index()][number as usize].take();
            let (earliest, bytes) = sent.expect("a packet came out that never went in, or twice");
            assert_eq!(packet.len(), bytes, "a packet was changed");
            let Some(release) = released else { continue };
            assert!(release >= earliest, "released {release:?}, at the earliest {earliest:?}");
            assert!(release >= last, "released {release:?} after {last:?}");
            last = release;
            if spec.way(way).order == Order::Kept {
                assert!(newest[way.index()] < Some(number), "packets changed their order");
                newest[way.index()] = Some(number);
            }
        }
    }
    assert!(under_way.iter().flatten().all(Option::is_none), "a packet is stuck");
    assert!(Way::BOTH.iter().all(|way| duplex.counters(*way).packets_held() == 0), "the counters do not add up");
}
