//! What a decision takes: a packet read, its channel chosen, its place given.
//!
//! `cargo bench -p headstart-core --bench steer`. Twenty thousand flows, asked for in an order without pattern, so that nearly
//! each one misses the processor's caches. Nothing is written but what Criterion writes.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use headstart_core::machine::Machine;
use headstart_core::steer::policy;
use headstart_core::steer::{ChannelSettings, Facts, FlowKey, Input, Kind, Settings, Steerer, Use};
use headstart_core::time::{Duration, Instant};

const FLOWS: u64 = 20_000;

fn settings(name: &str) -> Settings {
    let channel = |rate, micros| ChannelSettings {
        rate,
        delay: Duration::from_micros(micros),
        loss: None,
        overhead: 68,
        compresses: true,
        uses: Use::Primary,
    };
    Settings {
        policy: policy::find(name).expect("a policy of the registry"),
        uplink: true,
        full: 1412,
        channels: [channel(1_500_000_000, 15_000), channel(2_000_000, 2_500)],
        probes: None,
    }
}

/// A key like those of a keyed hash: the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn key(n: u64) -> FlowKey {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    FlowKey(n ^ (n >> 31))
}

/// A packet of a flow that has no neighbours.
fn packet(n: u64) -> Facts {
    let flow = key(n % FLOWS);
    let (kind, len) = match n % 4 {
        0 => (Kind::Open, 60),
        1 => (Kind::Ack, 52),
        2 => (Kind::Data, 400),
        _ => (Kind::Data, 1412),
    };
    Facts { len, payload: if kind == Kind::Data { len - 52 } else { 0 }, ack: Some(n as u32), ..Facts::of(flow, kind) }
}

fn decisions(c: &mut Criterion) {
    for name in ["pkt-state", "value"] {
        let mut steerer = Steerer::new(settings(name));
        let mut n = 0u64;
        c.bench_function(&format!("a decision by {name}"), |b| {
            b.iter(|| {
                n = n.wrapping_add(7_919);
                // A packet each 100 us: most of the time somebody waits for the fast channel.
                let now = Instant::from_nanos(n * 13);
                steerer.handle_input(now, Input::Packet(black_box(packet(n)), n));
                steerer.handle_timeout(now);
                while let Some(output) = steerer.poll_output() {
                    black_box(&output);
                }
            });
        });
    }
}

criterion_group!(benches, decisions);
criterion_main!(benches);
