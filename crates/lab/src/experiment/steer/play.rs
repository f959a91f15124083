//! One load of one page over two channels, and every policy over a set of pages.

use super::bound::pooled;
use super::network::Network;
use super::{BOUND, FAT};
use crate::condition::page::{Families, with_twins, world};
use crate::experiment::Series;
use crate::page::recording::cache::{ORIGIN, PARENT};
use crate::page::{Dependency, Object, Page, Protocol};
use crate::sim::{Browser, BrowserArm, Load, Steering};
use headstart_core::steer::Channel;
use headstart_core::steer::policy::{self, Entry};
use headstart_core::time::Duration;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A condition: a pair of channels, inside the emulator or through a tunnel.
#[derive(Clone, Debug)]
pub struct Cell {
    /// As in rows.
    pub name: String,
    pub network: Network,
    pub tunnel: bool,
}

impl Cell {
    pub fn new(way: &str, network: Network) -> Self {
        Self { name: format!("{way}-{}", network.name), network, tunnel: way == "tunnel" }
    }
}

/// What a load came to.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub load: Load,
    /// Bytes on the fat channel and on the fast one.
    pub bytes: [u64; 2],
}

impl Loaded {
    /// An object was not loaded.
    pub fn failed(&self) -> bool {
        self.load.objects.iter().any(|object| object.failed)
    }

    /// The page load time in ms; none if an object was not loaded: a page that gave up early is not a fast one.
    pub fn time(&self) -> Option<f64> {
        (!self.failed()).then(|| rounded(self.load.time))
    }
}

/// `page` with a second host beside each that objects come from over the fast channel, the hosts that were doubled, and
/// which of all hosts are bound to it.
fn split(page: &Page, policy: &Entry) -> (Page, Vec<usize>, BTreeSet<usize>) {
    let (mut page, mut twins, mut bound) = (page.clone(), Vec::new(), BTreeSet::new());
    let chooser = (policy.new)();
    for n in 0..page.objects.len() {
        let Object { host, response_bytes, urgency, .. } = page.objects[n];
        let about = policy::Object { bytes: Some(response_bytes), urgency };
        if chooser.object(&about) != Some(Channel::Fast) {
            continue;
        }
        let at = twins.iter().position(|of| *of == host).unwrap_or_else(|| {
            twins.push(host);
            let twin =
                crate::page::Host { name: format!("{}-fast", page.hosts[host].name), ..page.hosts[host].clone() };
            page.hosts.push(twin);
            twins.len() - 1
        });
        let twin = page.hosts.len() - twins.len() + at;
        page.objects[n].host = twin;
        bound.insert(twin);
    }
    (page, twins, bound)
}

/// A browser before the world of `page`.
pub struct Visitor {
    browser: Browser,
    page: Page,
}

impl Visitor {
    pub fn new(page: &Page, cell: &Cell, policy: &'static Entry, seed: u64) -> anyhow::Result<Self> {
        Self::over(page, &cell.network, cell.network.fat.into(), cell.tunnel, policy, seed)
    }

    /// A browser that has the bound of `cell` in the place of its channels.
    pub fn bound(page: &Page, cell: &Cell, seed: u64) -> anyhow::Result<Self> {
        Self::over(page, &cell.network, pooled(&cell.network)?, false, policy::find(FAT)?, seed)
    }

    fn over(
        page: &Page,
        network: &Network,
        fat: String,
        tunnel: bool,
        policy: &'static Entry,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let (page_of_policy, twins, bound) = split(page, policy);
        let world = with_twins(world(page, network.fat, Families::Alike, seed), &twins);
        let steering = Steering { fat, fast: network.fast.into(), policy, tunnel, bound };
        let browser = Browser::steered(&world, BrowserArm::BARE, seed, &steering)?;
        Ok(Self { browser, page: page_of_policy })
    }

    pub fn load(&mut self) -> Loaded {
        let before = self.browser.channel_bytes();
        let load = self.browser.load(&self.page, Dependency::Structure);
        let after = self.browser.channel_bytes();
        Loaded { load, bytes: [0, 1].map(|c| after[c] - before[c]) }
    }
}

/// Loads `page` once.
pub fn load(page: &Page, cell: &Cell, policy: &'static Entry, seed: u64) -> anyhow::Result<Loaded> {
    Ok(Visitor::new(page, cell, policy, seed)?.load())
}

/// The paper's rules for packets with all that `value` has beside its rule: the queue, the order, the acknowledgements. How much of
/// a difference is the rule, and how much the plumbing (docs/decisions/0142). Rules for objects have no use for it: hosts that are bound
/// to a channel do not overtake themselves.
static WITH_QUEUE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let with = |name: &'static str, rule: &str| {
        let published = policy::find(rule).expect("the registry has the paper's rules");
        Entry { name, queues: true, keeps_order: true, acknowledges_over_fat: true, ..*published }
    };
    vec![
        with("pkt-state+queue", "pkt-state"),
        with("pkt-control+queue", "pkt-control"),
        with("pkt-uplink+queue", "pkt-uplink"),
        with("asap+queue", "asap"),
    ]
});

/// The pages of one condition, under every policy.
pub struct Block {
    pub cell: Cell,
    /// By policy, those of the registry first: its page load times in ms, a value a page; none where a load has failed.
    pub times: Vec<(&'static Entry, Vec<Option<f64>>)>,
    /// By policy, the bytes of each page on the fat channel and on the fast one.
    pub bytes: Vec<Vec<[f64; 2]>>,
    /// The page load times of what no policy can beat.
    pub bound: Vec<Option<f64>>,
}

impl Block {
    pub fn new(cell: Cell) -> Self {
        let times: Vec<_> = policy::ALL.iter().map(|entry| (entry, Vec::new())).collect();
        Self { cell, bytes: vec![Vec::new(); times.len()], times, bound: Vec::new() }
    }

    /// With the paper's rules once more, with what `value` has beside its rule.
    pub fn with_queue(cell: Cell) -> Self {
        let mut block = Self::new(cell);
        block.times.extend(WITH_QUEUE.iter().map(|entry| (entry, Vec::new())));
        block.bytes.resize(block.times.len(), Vec::new());
        block
    }

    /// Loads a page in each of `worlds` worlds.
    pub fn load(&mut self, page: &Page, seed: u64, worlds: u64) -> anyhow::Result<()> {
        let seeds = (0..worlds).map(|world| seed.wrapping_mul(7919).wrapping_add(world));
        let mean = |sum: Option<f64>| sum.map(|sum| to_the_microsecond(sum / worlds as f64));
        for (n, (entry, times)) in self.times.iter_mut().enumerate() {
            let (mut sum, mut bytes) = (Some(0.0), [0.0; 2]);
            for seed in seeds.clone() {
                let loaded = load(page, &self.cell, entry, seed)?;
                sum = sum.zip(loaded.time()).map(|(sum, time)| sum + time);
                for (total, of) in bytes.iter_mut().zip(loaded.bytes) {
                    *total += of as f64 / worlds as f64;
                }
            }
            times.push(mean(sum));
            self.bytes[n].push(bytes);
        }
        let mut sum = Some(0.0);
        for seed in seeds {
            sum = sum.zip(Visitor::bound(page, &self.cell, seed)?.load().time()).map(|(sum, time)| sum + time);
        }
        self.bound.push(mean(sum));
        Ok(())
    }

    /// The times of a policy, or of the bound.
    pub fn series(&self, name: &str) -> Option<Series> {
        let of_a_policy = self.times.iter().find(|(entry, _)| entry.name == name).map(|(_, times)| times);
        let times = of_a_policy.or((name == BOUND).then_some(&self.bound))?;
        Some(Series::with_failures(&self.cell.name, super::METRIC, "ms", name, times.iter().copied()))
    }
}

/// Milliseconds.
pub fn rounded(time: Duration) -> f64 {
    to_the_microsecond(time.as_secs_f64() * 1e3)
}

/// A text of it reads back as the same number.
fn to_the_microsecond(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// Shares of answers that the edge has, and that its parent has; the rest comes from the origin. The paper takes them from
/// headers that CDNs send and prints none of them: ours.
const CACHED: [f64; 2] = [2.0 / 3.0, 5.0 / 6.0];

/// A page as the paper's testbed would serve it: every host at the end of the channels, answers after none, one or two hops
/// of its CDN, HTTP/1.1.
pub fn as_in_the_paper(page: &Page, seed: u64) -> Page {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x0005_c0de);
    let mut page = over(page, Protocol::Http1);
    for host in &mut page.hosts {
        host.leg = Duration::ZERO;
    }
    for object in &mut page.objects {
        object.think = match rng.f64() {
            x if x < CACHED[0] => Duration::ZERO,
            x if x < CACHED[1] => PARENT,
            _ => PARENT + ORIGIN,
        };
    }
    page
}

/// A page whose objects all come over `protocol`.
pub fn over(page: &Page, protocol: Protocol) -> Page {
    let mut page = page.clone();
    for object in &mut page.objects {
        object.protocol = protocol;
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::network::BASE;
    use super::super::{OURS, STATE};
    use super::*;

    #[test]
    fn a_rule_with_queue_is_the_papers_rule_with_what_value_has_beside_its_own() {
        let block = Block::with_queue(Cell::new("ideal", BASE));
        let plumbing = |e: &Entry| (e.queues, e.keeps_order, e.acknowledges_over_fat);
        let names: Vec<_> = block.times.iter().map(|(entry, _)| entry.name).collect();
        let (published, with) = names.split_at(policy::ALL.len());
        assert!(published.iter().copied().eq(policy::ALL.iter().map(|e| e.name)), "existing arms stay as they are");
        assert_eq!((with.len(), block.bytes.len()), (4, names.len()));
        for (entry, _) in &block.times[published.len()..] {
            let rule = policy::find(entry.name.strip_suffix("+queue").unwrap()).unwrap();
            assert_eq!(plumbing(entry), plumbing(policy::find(OURS).unwrap()), "{}", entry.name);
            assert_ne!(plumbing(rule), plumbing(entry), "{}", entry.name);
            assert_eq!(format!("{:?}", (entry.new)()), format!("{:?}", (rule.new)()), "the same rule");
        }
        assert!(with.contains(&"pkt-state+queue") && published.contains(&STATE));
    }
}
