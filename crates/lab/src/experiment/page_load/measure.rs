//! Loads: every arm, every page, a first and a later visit.

use super::AccessNetwork;
use crate::condition::page::world;
use crate::experiment::{Fall, Outcome, Series, Waterfall, in_ms};
use crate::page::{Dependency, Object, Page};
use crate::sim::{Browser, BrowserArm, Load, Timing};
use crate::world::World;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, race};
use headstart_core::time::Duration;

/// All of connect together.
pub const OURS: &str = "headstart";
/// The same in a browser that speaks HTTP/3.
pub const OURS_H3: &str = "headstart-h3";
/// That browser by itself.
pub const BARE_H3: &str = "bare-h3";
/// The browser alone once more, while the same links draw other numbers: how much of a difference is luck.
pub const AGAIN: &str = "bare-again";
/// What the other arms are compared with.
pub const BASELINES: [&str; 2] = ["sequential", "bare"];
/// What is measured.
pub const METRIC: &str = "page load time";

/// 3600 s: paper 1, section III-C.
const AN_HOUR: Lifetime = Lifetime::Fixed(Duration::from_secs(3600));
/// Between the visits: longer than the lifetime of every record, shorter than an hour.
const BETWEEN: Duration = Duration::from_secs(1800);
/// A week of visits, three a day: what servers pay once a network is known.
const A_WEEK: usize = 21;
const THREE_A_DAY: Duration = Duration::from_secs(8 * 3600);

/// Which visit of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    First,
    Later,
    Launched,
}

impl Visit {
    pub const ALL: [Self; 3] = [Self::First, Self::Later, Self::Launched];

    fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Later => "later",
            Self::Launched => "launched",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::First => "by a host on its first visit",
            Self::Later => "half an hour after the first visit",
            Self::Launched => "by a program that has been launched on this page three times before, half an hour apart",
        }
    }

    /// Visits of the page before this one.
    fn before(self) -> usize {
        match self {
            Self::First => 0,
            Self::Later => 1,
            // Habits count from the third launch on: core's `pool` and `prefetch_model`.
            Self::Launched => 3,
        }
    }
}

/// The arms, baselines first, and whether each speaks HTTP/3.
pub fn arms() -> Vec<(BrowserArm, bool)> {
    let raced = |race: &'static race::Entry| match race.name {
        "simultaneous" => BrowserArm { name: race.name, race, lifetime: AN_HOUR, ahead: Ahead::OFF, ready: false },
        name => BrowserArm { name, race, lifetime: Lifetime::Ttl, ahead: Ahead::OFF, ready: false },
    };
    let ours = race::ALL.iter().find(|e| e.name == race::DEFAULT);
    let ahead = |race| BrowserArm { name: OURS, race, lifetime: AN_HOUR, ahead: Ahead::ON, ready: false };
    let all = [BrowserArm::BARE].into_iter().chain(race::ALL.iter().map(raced));
    let again = BrowserArm { name: AGAIN, ..BrowserArm::BARE };
    let over_tcp = all.chain(ours.map(ahead)).chain([BrowserArm::READY, again]).map(|arm| (arm, false));
    let named = |name, arm: BrowserArm| (BrowserArm { name, ..arm }, true);
    let over_quic = [named(BARE_H3, BrowserArm::BARE)].into_iter();
    over_tcp.chain(over_quic).chain(ours.map(|race| named(OURS_H3, ahead(race)))).collect()
}

/// What one arm did.
pub struct Taken {
    pub arm: BrowserArm,
    http3: bool,
    /// By visit, a value a page, in ms; nothing of visits that the arm does not make.
    pub times: [Vec<f64>; 3],
    /// By visit, the share of that which pages wait for names and for TCP, in percent: on the path to the load event.
    pub waits: [Vec<[f64; 2]>; 3],
    spent: Spent,
}

/// What an arm's loads came to together.
#[derive(Default)]
struct Spent {
    loads: u64,
    failed: u64,
    syns: u64,
    queries: u64,
    unused: u64,
    connections: u64,
    /// Attempts and connections of first visits alone.
    first: (u64, u64),
    /// Those of a week of visits; nothing of most arms.
    week: (u64, u64),
}

/// One network and one reading of the pages.
pub struct Block {
    pub name: String,
    access: &'static AccessNetwork,
    suffix: &'static str,
    reading: Dependency,
    pub taken: Vec<Taken>,
}

/// The visits of an arm: those that learn from launch to launch, and what they are compared with, make more of them.
fn visits(arm: &BrowserArm) -> &'static [Visit] {
    let more =
        arm.ready || arm.ahead != Ahead::OFF || BASELINES.contains(&arm.name) || [AGAIN, BARE_H3].contains(&arm.name);
    if more { &Visit::ALL } else { &[Visit::First, Visit::Later] }
}

impl Block {
    pub fn new(access: &'static AccessNetwork, suffix: &'static str, reading: Dependency) -> Self {
        let taken = |(arm, http3)| {
            let (times, waits) = Default::default();
            Taken { arm, http3, times, waits, spent: Spent::default() }
        };
        let name = match reading {
            Dependency::Structure => format!("{}{suffix}", access.name),
            Dependency::Gate => format!("{}{suffix}-gates", access.name),
        };
        Self { name, access, suffix, reading, taken: arms().into_iter().map(taken).collect() }
    }

    /// Loads a page under every arm, as often as the arm's visits take, in each of `seeds` worlds.
    pub fn load(&mut self, page: &Page, seed: u64, seeds: u64) -> anyhow::Result<()> {
        let Self { access, reading, .. } = *self;
        let over_tcp = page.over_tcp();
        for taken in &mut self.taken {
            let visits = visits(&taken.arm);
            let page = if taken.http3 { page } else { &over_tcp };
            let mut sums = [0.0; Visit::ALL.len()];
            let mut waits = [[Duration::ZERO; 2]; Visit::ALL.len()];
            for n in 0..seeds {
                let (mut world, seed) = world_of(access, page, seed, n);
                if taken.arm.name == AGAIN {
                    world.seed = !world.seed;
                }
                let mut browser = Browser::new(&world, taken.arm, seed)?;
                for before in 0..=visits.iter().map(|v| v.before()).max().unwrap_or(0) {
                    let load = browser.load(page, reading);
                    taken.count(&load);
                    if before == 0 {
                        taken.spent.first.0 += browser.traffic().syns;
                        taken.spent.first.1 += load.connections as u64;
                    }
                    if let Some(visit) = visits.iter().find(|v| v.before() == before) {
                        sums[*visit as usize] += load.time.as_secs_f64() * 1e3;
                        let parts = load.parts(page, reading);
                        waits[*visit as usize][0] += parts.dns;
                        waits[*visit as usize][1] += parts.connect;
                    }
                    browser.idle(BETWEEN);
                }
                let traffic = browser.traffic();
                taken.spent.syns += traffic.syns;
                taken.spent.queries += traffic.queries;
                taken.spent.unused += browser.unused();
            }
            if [BrowserArm::BARE.name, OURS].contains(&taken.arm.name) {
                taken.visit_for_a_week(page, reading, world_of(access, page, seed, 0))?;
            }
            for visit in visits {
                // To the microsecond: a text of it reads back as the same number.
                let n = *visit as usize;
                taken.times[n].push((sums[n] / seeds as f64 * 1e3).round() / 1e3);
                taken.waits[n].push(waits[n].map(|wait| 100.0 * wait.as_secs_f64() * 1e3 / sums[n].max(1e-3)));
            }
        }
        Ok(())
    }

    /// The page whose gain is nearest to the median of all, so that a picture of it shows neither the best nor the worst.
    pub fn typical(&self) -> usize {
        let times = |arm: &str| {
            let taken = self.taken.iter().find(|t| t.arm.name == arm);
            taken.map_or(&[][..], |t| t.times[Visit::Launched as usize].as_slice())
        };
        let gains = times(OURS).iter().zip(times(BrowserArm::BARE.name)).map(|(a, b)| a / b);
        let mut gains: Vec<(f64, usize)> = gains.enumerate().map(|(n, gain)| (gain, n)).collect();
        gains.sort_by(|a, b| a.0.total_cmp(&b.0));
        gains.get(gains.len() / 2).map_or(0, |(_, page)| *page)
    }

    /// The launched visit of `page` in its first world, object by object: bare, and under headstart, in the order in which the
    /// bare browser wanted them.
    pub fn waterfalls(&self, page: &Page, seed: u64) -> anyhow::Result<Vec<Waterfall>> {
        let mut all: Vec<(&str, Load)> = Vec::new();
        let page = &page.over_tcp();
        for taken in &self.taken {
            if ![BrowserArm::BARE.name, OURS].contains(&taken.arm.name) {
                continue;
            }
            let (world, seed) = world_of(self.access, page, seed, 0);
            let mut browser = Browser::new(&world, taken.arm, seed)?;
            for _ in 0..Visit::Launched.before() {
                browser.load(page, self.reading);
                browser.idle(BETWEEN);
            }
            all.push((taken.arm.name, browser.load(page, self.reading)));
        }
        let mut order: Vec<usize> = (0..page.objects.len()).collect();
        if let Some((_, first)) = all.first() {
            order.sort_by_key(|n| first.objects[*n].wanted);
        }
        let condition = self.condition(Visit::Launched);
        Ok(all.iter().map(|(arm, load)| waterfall(condition.clone(), arm, page, load, &order)).collect())
    }

    /// The name of the condition in rows.
    pub fn condition(&self, visit: Visit) -> String {
        let base = format!("{}{}-{}", self.access.name, self.suffix, visit.name());
        match self.reading {
            Dependency::Structure => base,
            Dependency::Gate => format!("{base}-gates"),
        }
    }

    /// The times of one arm.
    pub fn series(&self, visit: Visit, arm: &str) -> Option<Series> {
        let taken = self.taken.iter().find(|t| t.arm.name == arm)?;
        let values = taken.times[visit as usize].iter().copied();
        if values.len() == 0 {
            return None;
        }
        Some(Series::new(&self.condition(visit), METRIC, "ms", arm, values))
    }

    /// All samples.
    pub fn samples(&self) -> Vec<Series> {
        let of = |visit| self.taken.iter().filter_map(move |t| self.series(visit, t.arm.name));
        Visit::ALL.into_iter().flat_map(of).collect()
    }

    /// Adds what each arm cost, all its visits together.
    pub fn add_prices(&self, outcome: &mut Outcome) {
        for taken in &self.taken {
            let mut price_of = |what: &str, amount: u64, of: u64| {
                outcome.price(&self.name, taken.arm.name, what, "", amount as f64 / of.max(1) as f64);
            };

            let mut price = |what: &str, amount: u64| price_of(what, amount, taken.spent.loads);
            price("connection attempts a load", taken.spent.syns);
            price("connections used a load", taken.spent.connections);
            price("connections opened and not used, a load", taken.spent.unused);
            price("DNS queries a load", taken.spent.queries);
            if taken.spent.failed > 0 {
                price("objects not loaded, a load", taken.spent.failed);
            }
            price_of("connection attempts a connection used, first visits", taken.spent.first.0, taken.spent.first.1);
            if taken.spent.week.1 > 0 {
                let what = "connection attempts a connection used, a week of three visits a day";
                price_of(what, taken.spent.week.0, taken.spent.week.1);
            }
        }
    }
}

/// World number `n` of a page, and its seed: the same under every arm.
fn world_of(access: &AccessNetwork, page: &Page, seed: u64, n: u64) -> (World, u64) {
    let seed = seed.wrapping_mul(7919).wrapping_add(n);
    (world(page, access.link, access.families, seed), seed)
}

fn waterfall(condition: String, arm: &str, page: &Page, load: &Load, order: &[usize]) -> Waterfall {
    let bar = |(object, t): (&Object, &Timing)| Fall {
        kind: format!("{:?}", object.kind).to_lowercase(),
        host: page.hosts[object.host].name.clone(),
        wanted_ms: in_ms(t.wanted),
        sent_ms: in_ms(t.sent),
        first_byte_ms: in_ms(t.first_byte),
        end_ms: in_ms(t.end),
    };
    let all = order.iter().map(|n| (&page.objects[*n], &load.objects[*n]));
    let falls = all.filter(|(_, t)| !t.failed).map(bar).collect();
    Waterfall { condition, arm: arm.into(), page: page.name.clone(), load_ms: in_ms(load.time), falls }
}

impl Taken {
    fn count(&mut self, load: &Load) {
        self.spent.loads += 1;
        self.spent.connections += load.connections as u64;
        self.spent.failed += load.objects.iter().filter(|o| o.failed).count() as u64;
    }

    fn visit_for_a_week(
        &mut self,
        page: &Page,
        reading: Dependency,
        (world, seed): (World, u64),
    ) -> anyhow::Result<()> {
        let mut browser = Browser::new(&world, self.arm, seed)?;
        for _ in 0..A_WEEK {
            self.spent.week.1 += browser.load(page, reading).connections as u64;
            browser.idle(THREE_A_DAY);
        }
        self.spent.week.0 += browser.traffic().syns;
        Ok(())
    }
}
