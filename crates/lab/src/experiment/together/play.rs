//! Loads: every arm, every page, visit by visit, by itself or beside a call, messages and a download.

use super::arm::{AGAIN, ALL, Arm, BOUNDS, LUCK, NO_ACCESS, NO_LINK, NO_NETWORK};
use crate::condition::page::{Families, world};
use crate::experiment::{Price, Series};
use crate::page::{Dependency, Host, Kind, Object, Page, Protocol, Start};
use crate::sim::{Heard, Load, Wanted};
use crate::world::World;
use headstart_core::time::Duration;

/// Between two visits, as in `page-load`: longer than the lifetime of every record, shorter than an hour.
const BETWEEN: Duration = Duration::from_secs(1800);
/// Bytes of the download that goes on beside a page.
const DOWNLOAD: u64 = 5_000_000;
/// The distance of its host beyond the link: what the generator gives hosts of contents at the median, rounded.
const DOWNLOAD_LEG: Duration = Duration::from_millis(15);
/// The round trip of link `lte`: what a handshake of the messages has found.
const IDLE_RTT: Duration = Duration::from_millis(18);
/// The fat channel and the fast one.
pub const FAT: &str = "lte";
pub const FAST: &str = "urllc";

/// What is measured.
pub const PAGE: &str = "page load time";
pub const CALL: &str = "delay of a call's packets over the access, p95";
pub const MESSAGES: &str = "delay of messages over the access, p95";
pub const FETCHED: &str = "time of a 5 MB download";
pub const METRICS: [&str; 4] = [PAGE, CALL, MESSAGES, FETCHED];

/// Visits of a page that count: its name, and visits before it. Habits count from the third launch on.
pub const VISITS: [(&str, usize); 3] = [("first", 0), ("later", 1), ("launched", 3)];

/// One condition: what each arm did with each page.
pub struct Block {
    pub name: String,
    /// Beside a call, messages and a download.
    busy: bool,
    pub taken: Vec<Taken>,
}

/// What an arm did.
pub struct Taken {
    pub arm: Arm,
    /// By visit, then by metric, a value a page.
    values: [[Vec<f64>; METRICS.len()]; VISITS.len()],
    /// Bytes up and down, bytes over the fast channel, attempts, queries, connections that nobody used; and loads.
    spent: [u64; 5],
    loads: u64,
    pub failed: u64,
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
fn world_of(page: &Page, arm: &Arm, seed: u64) -> World {
    let mut world = world(page, FAT, Families::Paper1, seed);
    if arm.name == AGAIN {
        world.seed = !world.seed;
    }
    if [NO_ACCESS, NO_NETWORK].contains(&arm.name) {
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
    pub fn new(name: String, busy: bool) -> Self {
        let taken = |arm: &Arm| Taken { arm: *arm, values: Default::default(), spent: [0; 5], loads: 0, failed: 0 };
        // Without messages there is nothing that the column of messages could do.
        let arms = ALL.iter().filter(|arm| busy || !["realtime", "all-but-realtime"].contains(&arm.name));
        let bounds = BOUNDS.iter().filter(|_| !busy);
        Self { name, busy, taken: arms.chain([&LUCK]).chain(bounds).map(taken).collect() }
    }

    /// Loads a page under every arm in each of so many worlds.
    pub fn load(&mut self, page: &Page, seed: u64, worlds: u64) -> anyhow::Result<()> {
        let page = if self.busy { with_download(page) } else { page.clone() };
        for taken in &mut self.taken {
            let mut sums = [[0.0; METRICS.len()]; VISITS.len()];
            for n in 0..worlds {
                let seed = seed.wrapping_mul(7919).wrapping_add(n);
                let world = world_of(&page, &taken.arm, seed);
                let mut browser = taken.arm.browser(&world, FAST, seed)?;
                for before in 0..=VISITS[VISITS.len() - 1].1 {
                    let (load, heard) = if self.busy {
                        let wanted = Wanted { call: true, messages: Some((taken.arm.technique(), IDLE_RTT)) };
                        browser.load_beside(&page, Dependency::Structure, &wanted)?
                    } else {
                        (browser.load(&page, Dependency::Structure), Heard::default())
                    };
                    taken.loads += 1;
                    taken.failed += load.objects.iter().filter(|o| o.failed).count() as u64;
                    if let Some(visit) = VISITS.iter().position(|(_, visits)| *visits == before) {
                        let of = values(&load, &heard);
                        sums[visit].iter_mut().zip(of).for_each(|(sum, value)| *sum += value);
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
        if metric > 0 && !self.busy {
            return None;
        }
        let taken = self.taken.iter().find(|taken| taken.arm.name == arm)?;
        let values = taken.values[visit][metric].iter().copied();
        Some(Series::new(&self.condition(visit), METRICS[metric], "ms", arm, values))
    }

    /// What each arm cost, its visits together.
    pub fn prices(&self) -> Vec<Price> {
        const WHAT: [(&str, &str, f64); 5] = [
            ("up and down, a load", "kB", 1e3),
            ("over the fast channel, a load", "kB", 1e3),
            ("connection attempts a load", "", 1.0),
            ("DNS queries a load", "", 1.0),
            ("connections opened and not used, a load", "", 1.0),
        ];
        let of = |taken: &Taken| {
            WHAT.iter()
                .zip(taken.spent)
                .map(|((what, unit, per), spent)| Price {
                    condition: self.name.clone(),
                    arm: taken.arm.name.into(),
                    what: (*what).into(),
                    unit: (*unit).into(),
                    amount: spent as f64 / per / taken.loads.max(1) as f64,
                })
                .collect::<Vec<_>>()
        };
        self.taken.iter().flat_map(of).collect()
    }
}

/// A load's values, metric by metric.
fn values(load: &Load, heard: &Heard) -> [f64; METRICS.len()] {
    let download = load.objects.last().map_or(Duration::ZERO, |object| object.end);
    [ms(load.time), p95(&heard.call), p95(&heard.messages), ms(download)]
}
