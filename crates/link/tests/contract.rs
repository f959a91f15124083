//! What every member of every registry keeps, on a link that also queues, delays and loses.
//!
//! Each model of each kind is put into links whose other stages are simple and into one whose other stages are not, and
//! a bursty, mixed load goes through. Nothing is released early, packets are conserved and stay in order, the same seed
//! gives the same result bit for bit, and how often the caller polls changes nothing.

use std::collections::BTreeMap;

use headstart_core::time::{Duration, Instant};
use headstart_link::{
    Counters, Dropped, Entry, Link, LinkSpec, Order, Outcome, Packet, Spec, delay, loss, parse, preset, queue, rate,
};

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

/// What became of every packet.
#[derive(Debug, Default, PartialEq)]
struct Story {
    released: Vec<(Instant, Numbered)>,
    /// On arrival, or on the way and then when.
    dropped: Vec<(u64, Option<Instant>, Dropped)>,
    counters: Counters,
}

impl Story {
    fn take(&mut self, outcome: Outcome<Numbered>) {
        match outcome {
            Outcome::Released(at, packet) => self.released.push((at, packet)),
            Outcome::Dropped(at, why, packet) => self.dropped.push((packet.number, Some(at), why)),
        }
    }
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

fn run(spec: &LinkSpec, seed: u64, polling: Polling) -> Story {
    let mut link = Link::new(spec, seed);
    let mut story = Story::default();
    let mut tick = Instant::ZERO;
    for (at, packet) in load() {
        match polling {
            Polling::Exact => {
                while let Some(deadline) = link.poll_timeout().filter(|deadline| deadline.at <= at) {
                    std::iter::from_fn(|| link.poll_outcome(deadline.at)).for_each(|outcome| story.take(outcome));
                }
            }
            Polling::Lazy => std::iter::from_fn(|| link.poll_outcome(at)).for_each(|outcome| story.take(outcome)),
            Polling::Ahead(by) => {
                let past = at + Duration::from_nanos(by);
                std::iter::from_fn(|| link.poll_outcome(past)).for_each(|outcome| story.take(outcome));
            }
            Polling::Ticking(step) => {
                while tick + Duration::from_nanos(step) <= at {
                    tick += Duration::from_nanos(step);
                    std::iter::from_fn(|| link.poll_outcome(tick)).for_each(|outcome| story.take(outcome));
                }
            }
        }
        let number = packet.number;
        if let Err(why) = link.push(at, packet) {
            story.dropped.push((number, None, why));
        }
    }
    let mut barren = None;
    while let Some(deadline) = link.poll_timeout() {
        let got = link.poll_outcome(deadline.at);
        // A deadline that brings nothing out is the start of work; the next is later.
        assert!(barren.is_none_or(|before| before < deadline.at), "the deadline {deadline:?} brings nothing");
        barren = got.is_none().then_some(deadline.at);
        got.into_iter().for_each(|outcome| story.take(outcome));
    }
    std::iter::from_fn(|| link.poll_outcome(Instant::FAR_FUTURE)).for_each(|outcome| story.take(outcome));
    // Drops are told when the caller next asks; what counts is their moment.
    story.dropped.sort_unstable_by_key(|(number, ..)| *number);
    story.counters = link.counters();
    story
}

fn keeps_the_contract(what: &str, spec: &LinkSpec) {
    let story = run(spec, 7, Polling::Exact);
    let sent: BTreeMap<u64, (Instant, usize)> = load().into_iter().map(|(at, p)| (p.number, (at, p.size))).collect();

    assert!(story.released.len() > 20, "{what}: only {} packets came through", story.released.len());
    let least = spec.least_delay();
    for (release, packet) in &story.released {
        let (arrival, size) = sent[&packet.number];
        assert!(*release >= arrival + least, "{what}: {} was released early", packet.number);
        assert_eq!(packet.size, size, "{what}");
    }
    assert!(story.released.is_sorted_by_key(|(at, _)| *at), "{what}: releases go back in time");
    if spec.order == Order::Kept {
        assert!(story.released.is_sorted_by_key(|(_, packet)| packet.number), "{what}: order is lost");
    }

    let mut seen: Vec<u64> = story.released.iter().map(|(_, packet)| packet.number).collect();
    seen.extend(story.dropped.iter().map(|(number, ..)| *number));
    seen.sort_unstable();
    assert!(seen.iter().eq(sent.keys()), "{what}: packets appear or vanish");
    for (number, at, _) in &story.dropped {
        assert!(at.is_none_or(|at| at >= sent[number].0), "{what}: {number} was dropped before it came");
    }

    let counters = story.counters;
    let lost = story.dropped.iter().filter(|(.., why)| *why == Dropped::Lost).count() as u64;
    assert_eq!(counters.packets_in, sent.len() as u64, "{what}");
    assert_eq!(counters.packets_out, story.released.len() as u64, "{what}");
    assert_eq!(counters.packets_lost, lost, "{what}");
    assert_eq!(counters.packets_dropped, story.dropped.len() as u64 - lost, "{what}");
    assert_eq!(counters.packets_held(), 0, "{what}");
    let bytes_in: usize = sent.values().map(|(_, size)| size).sum();
    assert_eq!(counters.bytes_in, bytes_in as u64, "{what}");
    assert_eq!(counters.bytes_out + counters.bytes_lost + counters.bytes_dropped, counters.bytes_in, "{what}");

    let polled = [Polling::Exact, Polling::Lazy, Polling::Ticking(777_777), Polling::Ticking(50_000_000)];
    let ahead = [Polling::Ahead(100_000), Polling::Ahead(7_000_000)];
    // A queue that looks at its head cannot know of packets that it has not been shown.
    let ahead = if spec.queue.build().drops_heads() { &[][..] } else { &ahead };
    for polling in polled.iter().chain(ahead) {
        assert_eq!(run(spec, 7, *polling), story, "{what}: the same seed gave another result");
    }
}

/// Builds the example of a registry entry, with a file for those that name one.
fn example<M: ?Sized>(entry: &Entry<M>) -> Spec<M> {
    let mut files = |path: &str| match path {
        "delays.trace" => Ok("0 10\n500 30.5\n1000 2\n2000 12\n".to_owned()),
        _ => Ok("0\n1\n1\n3\n7\n12\n12\n12\n13\n20\n".to_owned()),
    };
    let spec = (entry.parse)(entry.example, &mut files).unwrap_or_else(|why| panic!("{}: {why}", entry.name));
    assert_eq!(spec.name(), entry.name);
    assert!(!entry.what.is_empty() && !entry.source.is_empty(), "{}", entry.name);
    spec
}

fn surroundings() -> [LinkSpec; 4] {
    [
        "rate=unlimited",
        "rate=20mbit,delay=3ms,queue=15p",
        "rate=8mbit,delay=normal:20ms:5ms,loss=gilbert-elliott:2%:30%,queue=30kb",
        "rate=4mbit,delay=uniform:5ms:50ms,queue=codel:1ms:20ms:60p,order=free",
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
