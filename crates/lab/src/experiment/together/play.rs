//! Loads: every arm, every page, visit by visit, by itself or beside a call, messages and a download.

use super::arm::{AGAIN, ALL, Arm, BOUNDS, LUCK, NO_LINK, NO_NETWORK};
use crate::condition::page::{Families, world};
use crate::experiment::{Outcome, Series};
use crate::page::{Dependency, Host, Kind, Object, Page, Protocol, Start};
use crate::sim::{Delays, Load, Parts, Wanted};
use crate::world::World;
use headstart_core::time::Duration;

/// Between two visits, as in `page-load`: longer than the lifetime of every record, shorter than an hour.
const BETWEEN: Duration = Duration::from_secs(1800);
/// Bytes of the download that goes on beside a page.
const DOWNLOAD: u64 = 5_000_000;
/// The distance of its host beyond the link: what the generator gives hosts of contents at the median, rounded.
const DOWNLOAD_LEG: Duration = Duration::from_millis(15);
/// The fast channel.
pub const FAST: &str = "urllc";

/// What is measured.
pub const PAGE: &str = "page load time";
pub const CALL: &str = "delay of a call's packets over the access, p95";
pub const MESSAGES: &str = "delay of messages over the access, p95";
pub const FETCHED: &str = "time of a 5 MB download";
pub const METRICS: [&str; 4] = [PAGE, CALL, MESSAGES, FETCHED];

/// What a load event waits for, one after the other ([`crate::sim::Parts::named`]).
const PARTS: usize = 8;

/// Visits of a page that count: its name, and visits before it. Habits count from the third launch on.
pub const VISITS: [(&str, usize); 3] = [("first", 0), ("later", 1), ("launched", 3)];
/// Loads of a page in a world.
const LOADS: usize = VISITS[VISITS.len() - 1].1 + 1;

/// Where pages are loaded, and beside what.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Its name in tables.
    pub name: &'static str,
    /// The access link, which is the fat channel where packets are steered.
    pub fat: &'static str,
    /// The round trip of that link: what a handshake of the messages has found.
    idle_rtt: Duration,
    /// Beside a call, messages and a download.
    pub busy: bool,
}

/// Every situation. The last is as far from the core of its network as the middle one of paper 5's round trips (Fig. 5a): a cell at
/// its edge, or a host that roams.
pub const SITUATIONS: [Situation; 3] = [
    Situation { name: "pages", fat: "lte", idle_rtt: Duration::from_millis(18), busy: false },
    Situation { name: "busy", fat: "lte", idle_rtt: Duration::from_millis(18), busy: true },
    Situation { name: "far", fat: "lte,delay=normal:50ms:500us", idle_rtt: Duration::from_millis(100), busy: false },
];

/// One condition: what each arm did with each page.
pub struct Block {
    pub name: String,
    pub situation: Situation,
    pub taken: Vec<Taken>,
}

/// What an arm did.
pub struct Taken {
    pub arm: Arm,
    /// By visit, then by metric, a value a page.
    values: [[Vec<f64>; METRICS.len()]; VISITS.len()],
    /// Bytes up and down, bytes over the fast channel, attempts, queries, connections never used; and loads.
    spent: [u64; 5],
    loads: u64,
    pub failed: u64,
    /// What the load events of each visit waited for, its loads together ([`crate::sim::Parts::named`]).
    parts: [[Duration; PARTS]; VISITS.len()],
}

/// `page` with a download beside it, which nothing of the page waits for.
fn with_download(page: &Page) -> Page {
    let mut page = page.clone();
    page.hosts.push(Host { name: "download.example".into(), leg: DOWNLOAD_LEG, own: false });
    page.objects.push(Object {
        host: page.hosts.len() - 1,
        protocol: Protocol::Http2,
        kind: Kind::Other,
        status: 200,
        request_bytes: 500,
        response_bytes: DOWNLOAD,
        think: Duration::ZERO,
        urgency: 7,
        structure: Start::AtOnce,
        gate: Start::AtOnce,
    });
    page
}

/// The world of a page under an arm: the same one, but for luck and the bounds.
fn world_of(page: &Page, situation: &Situation, arm: &Arm, seed: u64) -> World {
    let mut world = world(page, situation.fat, Families::Paper1, seed);
    if arm.name == AGAIN {
        world.seed = !world.seed;
    }
    if BOUNDS.iter().any(|bound| bound.name == arm.name) {
        world.link = NO_LINK.into();
    }
    if arm.name == NO_NETWORK {
        for site in &mut world.sites {
            (site.a.delay, site.aaaa.delay) = (Duration::ZERO, Duration::ZERO);
            site.v4.iter_mut().chain(&mut site.v6).for_each(|host| host.extra_rtt = Duration::ZERO);
        }
    }
    world
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The 95th percentile of delays, by the nearest rank.
pub fn p95(delays: &[f64]) -> f64 {
    let mut sorted = delays.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0.0)
}

impl Block {
    pub fn new(name: String, situation: Situation) -> Self {
        let busy = situation.busy;
        let taken = |arm: &Arm| {
            let (values, parts) = Default::default();
            Taken { arm: *arm, values, spent: [0; 5], loads: 0, failed: 0, parts }
        };
        // Without messages there is nothing that the column of messages could do.
        let arms = ALL.iter().filter(|arm| busy || !["realtime", "all-but-realtime"].contains(&arm.name));
        let bounds = BOUNDS.iter().filter(|_| !busy);
        Self { name, situation, taken: arms.chain([&LUCK]).chain(bounds).map(taken).collect() }
    }

    /// Loads a page under every arm in each of so many worlds.
    pub fn load(&mut self, page: &Page, seed: u64, worlds: u64) -> anyhow::Result<()> {
        let page = if self.situation.busy { with_download(page) } else { page.clone() };
        for taken in &mut self.taken {
            let mut sums = [[0.0; METRICS.len()]; VISITS.len()];
            for n in 0..worlds {
                let seed = seed.wrapping_mul(7919).wrapping_add(n);
                let world = world_of(&page, &self.situation, &taken.arm, seed);
                let mut browser = taken.arm.browser(&world, FAST, seed)?;
                for before in 0..LOADS {
                    let (load, delays) = if self.situation.busy {
                        let wanted =
                            Wanted { call: true, messages: Some((taken.arm.technique(), self.situation.idle_rtt)) };
                        browser.load_beside(&page, Dependency::Structure, &wanted)?
                    } else {
                        (browser.load(&page, Dependency::Structure), Delays::default())
                    };
                    taken.loads += 1;
                    taken.failed += load.objects.iter().filter(|o| o.failed).count() as u64;
                    if let Some(visit) = VISITS.iter().position(|(_, visits)| *visits == before) {
                        let of = values(&load, &delays);
                        sums[visit].iter_mut().zip(of).for_each(|(sum, value)| *sum += value);
                        let parts = load.parts(&page, Dependency::Structure).named();
                        taken.parts[visit].iter_mut().zip(parts).for_each(|(sum, (_, part))| *sum += part);
                    }
                    browser.idle(BETWEEN);
                }
                let traffic = browser.traffic();
                let fast = browser.channel_bytes()[1];
                let spent =
                    [traffic.bytes_up + traffic.bytes_down, fast, traffic.syns, traffic.queries, browser.unused()];
                taken.spent.iter_mut().zip(spent).for_each(|(sum, value)| *sum += value);
            }
            for (visit, sums) in sums.iter().enumerate() {
                for (metric, sum) in sums.iter().enumerate() {
                    // To the microsecond: a text of it reads back as the same number.
                    taken.values[visit][metric].push((sum / worlds as f64 * 1e3).round() / 1e3);
                }
            }
        }
        Ok(())
    }

    /// The name of the condition in rows.
    pub fn condition(&self, visit: usize) -> String {
        format!("{}-{}", self.name, VISITS[visit].0)
    }

    /// The values of one arm.
    pub fn series(&self, visit: usize, metric: usize, arm: &str) -> Option<Series> {
        if metric > 0 && !self.situation.busy {
            return None;
        }
        let taken = self.taken.iter().find(|taken| taken.arm.name == arm)?;
        let values = taken.values[visit][metric].iter().copied();
        Some(Series::new(&self.condition(visit), METRICS[metric], "ms", arm, values))
    }

    /// What the load events of an arm waited for at the mean of its loads, by name, in ms; together the page load time.
    pub fn parts(&self, visit: usize, arm: &str) -> Vec<(&'static str, f64)> {
        let Some(taken) = self.taken.iter().find(|taken| taken.arm.name == arm) else { return Vec::new() };
        let loads = (taken.loads / LOADS as u64).max(1) as f64;
        let names = Parts::default().named().map(|(name, _)| name);
        names.into_iter().zip(taken.parts[visit]).map(|(name, sum)| (name, ms(sum) / loads)).collect()
    }

    /// Adds what each arm cost, its visits together.
    pub fn add_prices(&self, outcome: &mut Outcome) {
        const WHAT: [(&str, &str, f64); 5] = [
            ("up and down, a load", "kB", 1e3),
            ("over the fast channel, a load", "kB", 1e3),
            ("connection attempts a load", "", 1.0),
            ("DNS queries a load", "", 1.0),
            ("connections opened and not used, a load", "", 1.0),
        ];
        for taken in &self.taken {
            for ((what, unit, per), spent) in WHAT.into_iter().zip(taken.spent) {
                let amount = spent as f64 / per / taken.loads.max(1) as f64;
                outcome.price(&self.name, taken.arm.name, what, unit, amount);
            }
        }
    }
}

/// A load's values, metric by metric.
fn values(load: &Load, delays: &Delays) -> [f64; METRICS.len()] {
    let download = load.objects.last().map_or(Duration::ZERO, |object| object.end);
    [ms(load.time), p95(&delays.call), p95(&delays.messages), ms(download)]
}
