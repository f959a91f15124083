//! What a look into a memory of a million paths takes, and how much room they need.
//!
//! `cargo bench -p headstart-core`. Addresses are asked for in an order without pattern, so that nearly each lookup misses the
//! processor's caches. Nothing is written but what Criterion writes.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{Criterion, criterion_group, criterion_main};
use headstart_core::cwnd::history::{History, Medium, Outcome, Sample, Settings};
use headstart_core::path::NetworkId;
use headstart_core::time::{Duration, Instant};

/// Addresses; each has a record, and so have their prefixes.
const ADDRESSES: u32 = 500_000;
const NETWORK: NetworkId = NetworkId(1);

/// The address of a number; neighbours in number are none in prefix.
fn address(number: u32) -> IpAddr {
    IpAddr::from(number.wrapping_mul(2_654_435_761).to_be_bytes())
}

fn lookups(c: &mut Criterion) {
    let now = Instant::from_millis(1000);
    let sample = Sample {
        window: 400_000,
        carried: 400_000,
        rtt: Duration::from_millis(38),
        rate: 12_500_000,
        loss: 0.0,
        limited: false,
        shared: false,
        outcome: Outcome::Clean,
        medium: Medium::Wired,
    };
    let mut history = History::new(Settings { quota: 1_000_000, ..Settings::default() }, [7; 16]);
    for number in 0..ADDRESSES {
        history.learn(now, NETWORK, address(number), &sample);
    }
    println!("{} records in {:.1} MB", history.len(), history.bytes() as f64 / 1e6);
    let mut number = 0u32;
    let mut next = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        number % ADDRESSES
    };
    c.bench_function("recall a known address", |b| b.iter(|| black_box(history.recall(now, NETWORK, address(next())))));
    c.bench_function("recall an unknown address", |b| {
        b.iter(|| black_box(history.recall(now, NetworkId(2), address(next()))));
    });
    c.bench_function("learn", |b| b.iter(|| history.learn(now, NETWORK, address(next()), &sample)));
}

criterion_group!(benches, lookups);
criterion_main!(benches);
