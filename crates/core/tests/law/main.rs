//! Never less able, never slower: the law of the connect column, played in random worlds (docs/decisions/0055).
//!
//! A world is a name's servers, the addresses that they give and how these treat a SYN. Models of programs go there bare, over
//! models of the kernel and of the C libraries, and the same programs go there under headstart: the real `Connector`, with
//! the supervisor's hands around it. Both runs are compared by the laws of `judge`.
//!
//! `cargo xtask law --worlds N --seed N` plays more. `HEADSTART_LAW=SEED:FIRST:COUNT` says which; world 42 of seed 1 alone is
//! played again by `1:42:1`.
#![forbid(unsafe_code)]

mod client;
mod headstart;
mod judge;
mod known;
mod resolver;
mod sim;
mod stories;
mod world;

use headstart_core::connect::race;
use judge::{Broken, Law, is_excused, judge, play};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use world::{World, worlds};

/// Worlds of a test run, and their seed.
const WORLDS: u64 = 10_000;
const SEED: u64 = 1;
/// Threads that play; each world is played by one.
const THREADS: u64 = 2;
/// Steps of making a world simpler.
const SIMPLER: usize = 3000;

/// The seed, the first world, and how many.
fn wanted() -> [u64; 3] {
    let Ok(text) = std::env::var("HEADSTART_LAW") else { return [SEED, 0, WORLDS] };
    let numbers: Vec<_> = text.split(':').map(|n| n.parse().expect("HEADSTART_LAW=SEED:FIRST:COUNT")).collect();
    numbers.try_into().expect("HEADSTART_LAW=SEED:FIRST:COUNT")
}

/// World `n` of a seed, to be made simpler.
fn world(seed: u64, n: u64) -> impl ValueTree<Value = World> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&n.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    worlds().new_tree(&mut runner).expect("every world is possible")
}

/// Whom the laws are for.
fn races() -> impl Iterator<Item = &'static race::Entry> {
    race::ALL.iter().filter(|entry| !entry.lab_only)
}

/// What `race` breaks in `world`, but what it is excused from.
pub fn broken_by(world: &World, race: &'static race::Entry) -> Vec<Broken> {
    let world = Rc::new(world.clone());
    let broken = judge(&world, &play(&world, None), &play(&world, Some(race)));
    broken.into_iter().filter(|b| !is_excused(race, b.law)).collect()
}

/// The simplest world that breaks `law` as this one does, and how.
fn simplest(tree: &mut impl ValueTree<Value = World>, race: &'static race::Entry, law: Law) -> (World, String) {
    let how = |world: &World| broken_by(world, race).into_iter().find(|b| b.law == law).map(|b| b.how);
    let mut best = (tree.current(), how(&tree.current()).unwrap_or_default());
    let mut more = tree.simplify();
    for _ in 0..SIMPLER {
        if !more {
            break;
        }
        let world = tree.current();
        more = match how(&world) {
            Some(how) => {
                best = (world, how);
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    best
}

/// Which race breaks which law: how often, and in which world first.
type Found = BTreeMap<(&'static str, Law), (u64, u64)>;

/// What was found, how many SYNs healthy worlds saw for how many connections, and how many visits came to a connection under
/// headstart alone, by race.
#[derive(Default)]
struct Played {
    found: Found,
    healthy: BTreeMap<&'static str, (u64, u64)>,
    saved: BTreeMap<&'static str, u64>,
}

/// Plays every `THREADS`th of the worlds from `first` on.
fn play_worlds(seed: u64, worlds: impl Iterator<Item = u64>) -> Played {
    let mut result = Played::default();
    for n in worlds {
        let current = Rc::new(world(seed, n).current());
        let bare = play(&current, None);
        for race in races() {
            let run = play(&current, Some(race));
            if current.is_healthy() && !current.ahead {
                let (syns, connections) = result.healthy.entry(race.name).or_default();
                *syns += run.syns.len() as u64 - run.tally.explorations;
                *connections += run.visits.iter().filter(|(reached, _)| reached.is_some()).count() as u64;
            }
            let both = bare.visits.iter().zip(&run.visits);
            let saved = both.filter(|((by_itself, _), (reached, _))| by_itself.is_none() && reached.is_some()).count();
            *result.saved.entry(race.name).or_default() += saved as u64;
            for broken in judge(&current, &bare, &run).into_iter().filter(|b| !is_excused(race, b.law)) {
                result.found.entry((race.name, broken.law)).or_insert((0, n)).0 += 1;
            }
        }
    }
    result
}

fn play_all(seed: u64, first: u64, count: u64) -> Played {
    let results: Vec<_> = std::thread::scope(|scope| {
        let each = (0..THREADS).map(|t| {
            scope.spawn(move || play_worlds(seed, (first..first + count).skip(t as usize).step_by(THREADS as usize)))
        });
        let threads: Vec<_> = each.collect();
        threads.into_iter().map(|thread| thread.join().expect("it plays on")).collect()
    });
    let mut all = Played::default();
    for result in results {
        for (key, (times, n)) in result.found {
            let entry = all.found.entry(key).or_insert((0, n));
            *entry = (entry.0 + times, entry.1.min(n));
        }
        for (name, (syns, connections)) in result.healthy {
            let entry = all.healthy.entry(name).or_default();
            *entry = (entry.0 + syns, entry.1 + connections);
        }
        for (name, saved) in result.saved {
            *all.saved.entry(name).or_default() += saved;
        }
    }
    all
}

/// Counter-examples of a race, each made simple, with what happens in them, for mending them: `HEADSTART_LAW_SHOW=RACE:LAW:COUNT`.
#[test]
fn counter_examples() {
    let Ok(text) = std::env::var("HEADSTART_LAW_SHOW") else { return };
    let words: Vec<_> = text.split(':').collect();
    let [name, law, most] = words[..] else { panic!("HEADSTART_LAW_SHOW=RACE:LAW:COUNT") };
    let race = race::find(name).expect("it is registered");
    let [seed, first, count] = wanted();
    let breaks = |n: &u64| {
        let found = broken_by(&world(seed, *n).current(), race);
        found.into_iter().find(|b| format!("{:?}", b.law) == law).map(|b| (*n, b.law))
    };
    let most = most.parse().expect("HEADSTART_LAW_SHOW=RACE:LAW:COUNT");
    for (n, law) in (first..first + count).filter_map(|n| breaks(&n)).take(most) {
        let (world, how) = simplest(&mut world(seed, n), race, law);
        let world = Rc::new(world);
        sim::TRACE.store(true, Ordering::Relaxed);
        println!("  BARE");
        let bare = play(&world, None);
        println!("  UNDER");
        let run = play(&world, Some(race));
        sim::TRACE.store(false, Ordering::Relaxed);
        println!(
            "world {n}: {how}\n  {world:?}\n  bare {:?}\n  {:?}\n  under {:?}\n  {:?}",
            bare.visits, bare.syns, run.visits, run.syns
        );
    }
}

#[test]
fn whoever_connects_bare_connects_no_later_under_headstart() {
    let [seed, first, count] = wanted();
    let Played { found, healthy, saved } = play_all(seed, first, count);
    println!("{count} worlds of seed {seed} from {first} on, {} races", races().count());
    for (name, (syns, connections)) in &healthy {
        println!("{name}: {syns} SYNs for {connections} connections where all is well");
    }
    for (name, saved) in &saved {
        println!("{name}: {saved} visits come to a connection that come to none without headstart");
    }
    let mut beyond = Vec::new();
    for ((name, law), (times, n)) in &found {
        let allowed = known::allowed(name, *law, count);
        println!("{name} breaks {law:?} {times} times (known: {allowed}), first in world {n}");
        if *times > allowed {
            let race = race::find(name).expect("it is registered");
            let (world, how) = simplest(&mut world(seed, *n), race, *law);
            println!("  {how}\n  {world:?}");
            beyond.push((name, law, times));
        }
    }
    assert!(beyond.is_empty(), "broken more often than is known: {beyond:?}; world N alone: HEADSTART_LAW={seed}:N:1");
    for (name, (syns, connections)) in healthy.iter().filter(|(name, _)| **name != "simultaneous") {
        assert!(*syns * 100 <= *connections * 110, "{name}: {syns} SYNs for {connections} connections");
    }
}
