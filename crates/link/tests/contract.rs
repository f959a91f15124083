//! What every member of every registry keeps, on a link that also queues, delays and loses.
//!
//! Each model of each kind is put into links whose other stages are simple and into one whose other stages are not, and
//! a bursty, mixed load goes through. Nothing is released early, packets are conserved and stay in order, the same seed
//! gives the same result bit for bit, and how often the caller polls changes nothing.

use std::collections::BTreeMap;

use headstart_core::time::{Duration, Instant};
use headstart_link::{Counters, Dropped, Entry, Link, LinkSpec, Packet, Spec, delay, loss, parse, preset, queue, rate};

#[derive(Clone, Debug, PartialEq)]
struct Numbered {
    number: u64,
    size: usize,
}

impl Packet for Numbered {
    fn wire_len(&self) -> usize {
        self.size
    }
}

/// Bursts of one to twenty packets of 40 to 1500 bytes, with idle gaps, over some seconds.
fn load() -> Vec<(Instant, Numbered)> {
    let mut rng = fastrand::Rng::with_seed(42);
    let (mut at, mut number, mut all) = (Instant::from_millis(1), 0, Vec::new());
    for _ in 0..200 {
        at += Duration::from_nanos(rng.u64(0..30_000_000));
        for _ in 0..rng.u64(1..=20) {
            all.push((at, Numbered { number, size: rng.usize(40..=1500) }));
            number += 1;
            at += Duration::from_nanos(rng.u64(0..3) * 1000);
        }
    }
    all
}

#[derive(Debug, PartialEq)]
struct Outcome {
    released: Vec<(Instant, Numbered)>,
    dropped: Vec<(u64, Dropped)>,
    counters: Counters,
}

/// When the caller polls.
#[derive(Clone, Copy)]
enum Polling {
    /// At each deadline, on time.
    Exact,
    /// Only before each arrival, and once at the end.
    Lazy,
    /// Each so many nanoseconds.
    Ticking(u64),
    /// So many nanoseconds past each arrival, before the link hears of it.
    Ahead(u64),
}

fn run(spec: &LinkSpec, seed: u64, polling: Polling) -> Outcome {
    let mut link = Link::new(spec, seed);
    let (mut released, mut dropped) = (Vec::new(), Vec::new());
    let mut tick = Instant::ZERO;
    for (at, packet) in load() {
        match polling {
            Polling::Exact => {
                while let Some(deadline) = link.poll_timeout().filter(|deadline| deadline.at <= at) {
                    released.extend(link.poll(deadline.at));
                }
            }
            Polling::Lazy => released.extend(std::iter::from_fn(|| link.poll(at))),
            Polling::Ahead(by) => {
                let past = at + Duration::from_nanos(by);
                released.extend(std::iter::from_fn(|| link.poll(past)));
            }
            Polling::Ticking(step) => {
                while tick + Duration::from_nanos(step) <= at {
                    tick += Duration::from_nanos(step);
                    released.extend(std::iter::from_fn(|| link.poll(tick)));
                }
            }
        }
        let number = packet.number;
        if let Err(why) = link.push(at, packet) {
            dropped.push((number, why));
        }
    }
    let mut rounds = 0;
    while let Some(deadline) = link.poll_timeout() {
        let got = link.poll(deadline.at);
        // A deadline without a release is the start of work; it cannot come twice in a row for one packet.
        rounds = if got.is_some() { 0 } else { rounds + 1 };
        assert!(rounds < 3, "the deadline {deadline:?} brings nothing");
        released.extend(got);
    }
    Outcome { released, dropped, counters: link.counters() }
}

fn keeps_the_contract(what: &str, spec: &LinkSpec) {
    let outcome = run(spec, 7, Polling::Exact);
    let sent: BTreeMap<u64, (Instant, usize)> = load().into_iter().map(|(at, p)| (p.number, (at, p.size))).collect();

    assert!(outcome.released.len() > 20, "{what}: only {} packets came through", outcome.released.len());
    let least = spec.least_delay();
    for (release, packet) in &outcome.released {
        let (arrival, size) = sent[&packet.number];
        assert!(*release >= arrival + least, "{what}: {} was released early", packet.number);
        assert_eq!(packet.size, size, "{what}");
    }
    assert!(outcome.released.is_sorted_by_key(|(at, _)| *at), "{what}: releases go back in time");
    assert!(outcome.released.is_sorted_by_key(|(_, packet)| packet.number), "{what}: order is lost");

    let mut seen: Vec<u64> = outcome.released.iter().map(|(_, packet)| packet.number).collect();
    seen.extend(outcome.dropped.iter().map(|(number, _)| *number));
    seen.sort_unstable();
    assert!(seen.iter().eq(sent.keys()), "{what}: packets appear or vanish");

    let counters = outcome.counters;
    let count = |why| outcome.dropped.iter().filter(|(_, found)| *found == why).count() as u64;
    assert_eq!(counters.packets_in, sent.len() as u64, "{what}");
    assert_eq!(counters.packets_out, outcome.released.len() as u64, "{what}");
    assert_eq!(counters.packets_lost, count(Dropped::Lost), "{what}");
    assert_eq!(counters.packets_dropped, count(Dropped::QueueFull), "{what}");
    assert_eq!(counters.packets_held(), 0, "{what}");
    let bytes_in: usize = sent.values().map(|(_, size)| size).sum();
    assert_eq!(counters.bytes_in, bytes_in as u64, "{what}");
    assert_eq!(counters.bytes_out + counters.bytes_lost + counters.bytes_dropped, counters.bytes_in, "{what}");

    let others = [Polling::Lazy, Polling::Ticking(777_777), Polling::Ticking(50_000_000)];
    let late = [Polling::Ahead(100_000), Polling::Ahead(7_000_000)];
    for polling in [Polling::Exact].into_iter().chain(others).chain(late) {
        assert_eq!(run(spec, 7, polling), outcome, "{what}: the same seed gave another result");
    }
}

/// Builds the example of a registry entry. Trace files all hold the same few opportunities.
fn example<M: ?Sized>(entry: &Entry<M>) -> Spec<M> {
    let mut files = |_: &str| Ok("0\n1\n1\n3\n7\n12\n12\n12\n13\n20\n".to_owned());
    let spec = (entry.parse)(entry.example, &mut files).unwrap_or_else(|why| panic!("{}: {why}", entry.name));
    assert_eq!(spec.name(), entry.name);
    assert!(!entry.what.is_empty() && !entry.source.is_empty(), "{}", entry.name);
    spec
}

fn surroundings() -> [LinkSpec; 3] {
    [
        "rate=unlimited",
        "rate=20mbit,delay=3ms,queue=15p",
        "rate=8mbit,delay=normal:20ms:5ms,loss=gilbert-elliott:2%:30%,queue=30kb",
    ]
    .map(|text| parse(text).unwrap().0)
}

#[test]
fn every_rate_keeps_the_contract() {
    for entry in rate::ALL {
        for around in surroundings() {
            let spec = around.with_rate(example(entry));
            keeps_the_contract(&format!("{spec}"), &spec);
        }
    }
}

#[test]
fn every_delay_keeps_the_contract() {
    for entry in delay::ALL {
        for around in surroundings() {
            let spec = around.with_delay(example(entry));
            keeps_the_contract(&format!("{spec}"), &spec);
        }
    }
}

#[test]
fn every_loss_keeps_the_contract() {
    for entry in loss::ALL {
        for around in surroundings() {
            let spec = around.with_loss(example(entry));
            keeps_the_contract(&format!("{spec}"), &spec);
        }
    }
}

#[test]
fn every_queue_keeps_the_contract() {
    for entry in queue::ALL {
        for around in surroundings() {
            let spec = around.with_queue(example(entry));
            keeps_the_contract(&format!("{spec}"), &spec);
        }
    }
}

#[test]
fn every_preset_keeps_the_contract() {
    for preset in preset::ALL {
        keeps_the_contract(preset.name, &(preset.up)());
        keeps_the_contract(preset.name, &(preset.down)());
    }
}

#[test]
fn another_seed_gives_another_result_where_chance_plays() {
    let (spec, _) = parse("delay=uniform:1ms:9ms,loss=5%").unwrap();
    assert_ne!(run(&spec, 7, Polling::Exact), run(&spec, 8, Polling::Exact));
}

#[test]
fn names_are_unique_within_a_kind() {
    fn names<M: ?Sized>(all: &[Entry<M>]) -> Vec<&'static str> {
        all.iter().map(|entry| entry.name).collect()
    }
    for mut all in [names(rate::ALL), names(delay::ALL), names(loss::ALL), names(queue::ALL)] {
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
