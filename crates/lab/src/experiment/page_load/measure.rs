//! Loads: every arm, every page, a first and a later visit.

use super::Place;
use crate::condition::page::world;
use crate::experiment::{Price, Series};
use crate::page::{Dependency, Page};
use crate::sim::{Browser, BrowserArm, Load};
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::race;
use headstart_core::time::Duration;

/// 3600 s: paper 1, section III-C.
const AN_HOUR: Lifetime = Lifetime::Fixed(Duration::from_secs(3600));
/// Between the visits: longer than the lifetime of every record, shorter than an hour.
const BETWEEN: Duration = Duration::from_secs(1800);
/// After a load: every socket that nobody wants is closed by then.
const SETTLE: Duration = Duration::from_secs(10);

/// Which visit of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    First,
    Later,
}

impl Visit {
    pub const BOTH: [Self; 2] = [Self::First, Self::Later];

    fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Later => "later",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::First => "by a host that has never been there",
            Self::Later => "half an hour after the first visit",
        }
    }
}

/// The arms, baselines first.
pub fn arms() -> Vec<BrowserArm> {
    let raced = |race: &'static race::Entry| match race.name {
        "simultaneous" => BrowserArm { name: race.name, race, lifetime: AN_HOUR },
        name => BrowserArm { name, race, lifetime: Lifetime::Ttl },
    };
    let ours = race::ALL.iter().find(|e| e.name == race::DEFAULT);
    let ours = ours.map(|race| BrowserArm { name: super::rows::OURS, race, lifetime: AN_HOUR });
    [BrowserArm::BARE].into_iter().chain(race::ALL.iter().map(raced)).chain(ours).collect()
}

/// What one arm did.
pub struct Taken {
    pub arm: BrowserArm,
    /// By visit, a value a page, in ms.
    pub times: [Vec<f64>; 2],
    loads: u64,
    failed: u64,
    syns: u64,
    queries: u64,
    unused: u64,
    connections: u64,
}

/// One network and one reading of the pages.
pub struct Block {
    pub name: String,
    place: &'static Place,
    reading: Dependency,
    pub taken: Vec<Taken>,
}

impl Block {
    pub fn new(place: &'static Place, reading: Dependency) -> Self {
        let taken = |arm| Taken {
            arm,
            times: [Vec::new(), Vec::new()],
            loads: 0,
            failed: 0,
            syns: 0,
            queries: 0,
            unused: 0,
            connections: 0,
        };
        let name = match reading {
            Dependency::Structure => place.name.to_owned(),
            Dependency::Gate => format!("{}-gates", place.name),
        };
        Self { name, place, reading, taken: arms().into_iter().map(taken).collect() }
    }

    /// Loads a page under every arm, twice in each of `seeds` worlds.
    pub fn load(&mut self, page: &Page, seed: u64, seeds: u64) -> anyhow::Result<()> {
        let Self { place, reading, .. } = *self;
        for taken in &mut self.taken {
            let mut sums = [0.0; 2];
            for n in 0..seeds {
                let seed = seed.wrapping_mul(7919).wrapping_add(n);
                let world = world(page, place.link, place.families, seed);
                let mut browser = Browser::new(&world, taken.arm, seed)?;
                let first = browser.load(page, reading);
                browser.idle(BETWEEN);
                let later = browser.load(page, reading);
                browser.idle(SETTLE);
                for (sum, load) in sums.iter_mut().zip([&first, &later]) {
                    *sum += load.time.as_secs_f64() * 1e3;
                    taken.count(load);
                }
                let traffic = browser.traffic();
                taken.syns += traffic.syns;
                taken.queries += traffic.queries;
                taken.unused += browser.unused();
            }
            for (times, sum) in taken.times.iter_mut().zip(sums) {
                // To the microsecond: a text of it reads back as the same number.
                times.push((sum / seeds as f64 * 1e3).round() / 1e3);
            }
        }
        Ok(())
    }

    /// The name of the condition in rows.
    pub fn condition(&self, visit: Visit) -> String {
        match self.reading {
            Dependency::Structure => format!("{}-{}", self.place.name, visit.name()),
            Dependency::Gate => format!("{}-{}-gates", self.place.name, visit.name()),
        }
    }

    /// The times of one arm.
    pub fn series(&self, visit: Visit, arm: &str) -> Option<Series> {
        let taken = self.taken.iter().find(|t| t.arm.name == arm)?;
        let values = taken.times[visit as usize].iter().copied();
        Some(Series::new(&self.condition(visit), super::rows::METRIC, "ms", arm, values))
    }

    /// All samples.
    pub fn samples(&self) -> Vec<Series> {
        let of = |visit| self.taken.iter().filter_map(move |t| self.series(visit, t.arm.name));
        Visit::BOTH.into_iter().flat_map(of).collect()
    }

    /// What each arm cost, first and later visits together.
    pub fn prices(&self) -> Vec<Price> {
        let mut prices = Vec::new();
        for taken in &self.taken {
            let mut price = |what: &str, unit: &str, amount: u64| {
                prices.push(Price {
                    condition: self.name.clone(),
                    arm: taken.arm.name.into(),
                    what: what.into(),
                    unit: unit.into(),
                    amount: amount as f64 / taken.loads.max(1) as f64,
                });
            };
            price("connection attempts a load", "", taken.syns);
            price("connections used a load", "", taken.connections);
            price("connections opened and not used, a load", "", taken.unused);
            price("DNS queries a load", "", taken.queries);
            if taken.failed > 0 {
                price("objects not loaded, a load", "", taken.failed);
            }
        }
        prices
    }
}

impl Taken {
    fn count(&mut self, load: &Load) {
        self.loads += 1;
        self.connections += load.connections as u64;
        self.failed += load.objects.iter().filter(|o| o.failed).count() as u64;
    }
}
