//! How many packets a second each kind of link carries in virtual time, on one core.
//!
//! `cargo bench -p headstart-link`. A packet is a handle of eight bytes, so that what is measured is the link and not the
//! copying of payloads. Each link gets as many packets as its rate lets through, spread over time with some bursts, and is
//! polled at every arrival, as the simulator and the emulator do. Nothing is written but what Criterion writes.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headstart_core::time::{Duration, Instant};
use headstart_link::medium::Way;
use headstart_link::{Duplex, Link, LinkSpec, Network, Packet, parse_duplex_with_files};

/// Packets an iteration.
const PACKETS: u64 = 20_000;

/// What the caller would keep a payload by.
#[derive(Clone, Copy)]
struct Handle {
    _number: u32,
    bytes: u32,
}

impl Packet for Handle {
    fn wire_len(&self) -> usize {
        self.bytes as usize
    }
}

fn handle(number: u64) -> Handle {
    Handle { _number: number as u32, bytes: 1200 }
}

/// One direction of a link that is written so; trace files hold an opportunity each millisecond, or a few delays.
fn direction(text: &str) -> LinkSpec {
    let mut files = |path: &str| match path {
        "delays" => Ok("0 10\n50 12.5\n100 9\n".to_owned()),
        _ => Ok((1..=1000).map(|millis| format!("{millis}\n")).collect()),
    };
    parse_duplex_with_files(text, &mut files).unwrap_or_else(|why| panic!("{text}: {why}")).up
}

/// Each kind with what it is to show, and the gap between packets in nanoseconds.
const LINKS: &[(&str, &str, u64)] = &[
    ("ideal", "delay=0ms", 1000),
    ("embb", "embb", 6400),
    ("yardstick", "yardstick", 96_000),
    ("jitter", "rate=1gbit,delay=normal:10ms:1ms", 9600),
    ("reordering", "rate=1gbit,delay=uniform:5ms:15ms,order=free", 9600),
    ("bernoulli", "rate=1gbit,delay=10ms,loss=1%", 9600),
    ("gilbert-elliott", "rate=1gbit,delay=10ms,loss=gilbert-elliott:1%:30%", 9600),
    ("rate-trace", "rate=trace:rates,delay=10ms", 800_000),
    ("delay-trace", "rate=1gbit,delay=trace:delays", 9600),
    ("drop-tail-overload", "rate=1gbit,delay=10ms,queue=100p", 8000),
    ("codel-overload", "rate=1gbit,delay=10ms,queue=codel", 8000),
];

fn links(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("link");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, text, gap) in LINKS {
        let spec = direction(text);
        group.bench_function(*name, |bencher| {
            bencher.iter(|| {
                let mut link = Link::new(&spec, 1);
                let mut at = Instant::ZERO;
                for number in 0..PACKETS {
                    // Four at once, then a gap for four.
                    if number % 4 == 0 {
                        at += Duration::from_nanos(4 * gap);
                    }
                    while let Some(released) = link.poll(at) {
                        black_box(released);
                    }
                    let _ = black_box(link.push(at, handle(number)));
                }
                while let Some(released) = link.poll(Instant::FAR_FUTURE) {
                    black_box(released);
                }
                link.counters()
            });
        });
    }
    group.finish();
}

fn duplexes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("duplex");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, text, gap) in
        [("lte", "lte", 96_000), ("wlan-strong", "wlan-strong", 400_000), ("wlan-weak", "wlan-weak", 1_500_000)]
    {
        let spec = parse_duplex_with_files(text, &mut |_| Err(String::new())).expect("a preset");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut duplex = Duplex::new(&spec, 1);
                let mut at = Instant::ZERO;
                for number in 0..PACKETS {
                    if number % 4 == 0 {
                        at += Duration::from_nanos(4 * gap);
                    }
                    while let Some(released) = duplex.poll(at) {
                        black_box(released);
                    }
                    let way = if number % 4 == 0 { Way::Up } else { Way::Down };
                    let _ = black_box(duplex.push(at, way, handle(number)));
                }
                while let Some(released) = duplex.poll(Instant::FAR_FUTURE) {
                    black_box(released);
                }
                duplex.counters(Way::Down)
            });
        });
    }
    group.finish();
}

/// A packet over two hops and its answer back, from deadline to deadline.
fn networks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("network");
    group.throughput(Throughput::Elements(2 * PACKETS));
    let (near, far) = (direction("rate=1gbit,delay=1ms"), direction("rate=1gbit,delay=10ms"));
    group.bench_function("two-hops-there-and-back", |bencher| {
        bencher.iter(|| {
            let mut network = Network::new();
            let [host, router, server] = ["host", "router", "server"].map(|name| network.add_node(name));
            network.connect(host, router, &near, &near, 1);
            network.connect(router, server, &far, &far, 2);
            let mut at = Instant::ZERO;
            for number in 0..PACKETS {
                at += Duration::from_nanos(10_000);
                while let Some((when, node, packet)) = network.poll(at) {
                    if node == server {
                        let _ = network.send(when, server, host, packet);
                    }
                }
                let _ = network.send(at, host, server, handle(number));
            }
            let mut arrived = 0u64;
            while let Some((when, node, packet)) = network.poll(Instant::FAR_FUTURE) {
                if node == server {
                    let _ = network.send(when, server, host, packet);
                }
                arrived += 1;
            }
            arrived
        });
    });
    group.finish();
}

criterion_group!(benches, links, duplexes, networks);
criterion_main!(benches);
