//! The arms: nothing, each column alone, all but one, and all.

use crate::sim::{Browser, BrowserArm, Steering};
use crate::world::World;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, race};
use headstart_core::cwnd::start;
use headstart_core::realtime::technique;
use headstart_core::steer::policy;
use headstart_core::time::Duration;
use std::collections::BTreeSet;

/// What everything is compared with.
pub const BARE: &str = "bare";
/// The same once more, while the links draw other numbers: how much of a difference is luck.
pub const AGAIN: &str = "bare-again";
/// Every column at once.
pub const ALL_COLUMNS: &str = "all";
/// Bare, over an access link that takes no time: what a faster access link could still gain.
pub const NO_ACCESS: &str = "no-access";
/// Bare, where nothing takes time but what pages compute and servers think: the floor.
pub const NO_NETWORK: &str = "no-network";
/// Every column over an access link that takes no time: how near the columns come to what they can do at most.
pub const ALL_BUT_ACCESS: &str = "all-no-access";
/// An access link that takes no time.
pub const NO_LINK: &str = "delay=0ms";
/// How long names are kept: paper 1, section III-C, as in `page-load`.
const AN_HOUR: Lifetime = Lifetime::Fixed(Duration::from_secs(3600));

/// Which columns are switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Its name in tables.
    pub name: &'static str,
    pub connect: bool,
    pub cwnd: bool,
    pub steer: bool,
    pub realtime: bool,
}

const NOTHING: Arm = Arm { name: BARE, connect: false, cwnd: false, steer: false, realtime: false };
const EVERYTHING: Arm = Arm { name: ALL_COLUMNS, connect: true, cwnd: true, steer: true, realtime: true };

/// What differs from bare by luck alone.
pub const LUCK: Arm = Arm { name: AGAIN, ..NOTHING };

/// Bounds that no arm reaches, and that say what could be gained.
pub const BOUNDS: [Arm; 3] = [
    Arm { name: NO_ACCESS, ..NOTHING },
    Arm { name: NO_NETWORK, ..NOTHING },
    // What takes no time has no second channel.
    Arm { name: ALL_BUT_ACCESS, steer: false, ..EVERYTHING },
];

/// Every arm, the baseline first. Column `forward` measures and carries faster nothing: it has no arm.
pub const ALL: [Arm; 10] = [
    NOTHING,
    Arm { name: "connect", connect: true, ..NOTHING },
    Arm { name: "cwnd", cwnd: true, ..NOTHING },
    Arm { name: "steer", steer: true, ..NOTHING },
    Arm { name: "realtime", realtime: true, ..NOTHING },
    Arm { name: "all-but-connect", connect: false, ..EVERYTHING },
    Arm { name: "all-but-cwnd", cwnd: false, ..EVERYTHING },
    Arm { name: "all-but-steer", steer: false, ..EVERYTHING },
    Arm { name: "all-but-realtime", realtime: false, ..EVERYTHING },
    EVERYTHING,
];

fn entry<T: Copy>(all: &'static [T], is: impl Fn(&T) -> bool, what: &str) -> anyhow::Result<&'static T> {
    all.iter().find(|entry| is(entry)).ok_or_else(|| anyhow::anyhow!("the default {what} is in no registry"))
}

impl Arm {
    /// A browser of this arm that has never loaded anything: `world` behind its own link, or behind this and `fast`.
    pub fn browser(&self, world: &World, fast: &str, seed: u64) -> anyhow::Result<Browser> {
        let browser = if self.steer {
            Browser::steered(world, self.connecting()?, seed, &self.steering(&world.link, fast)?)?
        } else {
            Browser::new(world, self.connecting()?, seed)?
        };
        Ok(browser.before(self.rule()?, world))
    }

    /// The same behind the world's link alone, to be moved from there.
    pub fn browser_at(&self, world: &World, seed: u64) -> anyhow::Result<Browser> {
        Ok(Browser::new(world, self.connecting()?, seed)?.before(self.rule()?, world))
    }

    /// How its browser gets connected.
    fn connecting(&self) -> anyhow::Result<BrowserArm> {
        let ours = entry(race::ALL, |race| race.name == race::DEFAULT, "race")?;
        Ok(if self.connect {
            BrowserArm { name: self.name, race: ours, lifetime: AN_HOUR, ahead: Ahead::ON, ready: false }
        } else {
            BrowserArm { name: self.name, ..BrowserArm::BARE }
        })
    }

    /// The channels of this arm.
    fn steering(&self, fat: &str, fast: &str) -> anyhow::Result<Steering> {
        let policy = entry(policy::ALL, |policy| policy.name == policy::DEFAULT, "policy")?;
        Ok(Steering { fat: fat.into(), fast: fast.into(), policy, tunnel: true, bound: BTreeSet::new() })
    }

    /// By which rule servers start.
    fn rule(&self) -> anyhow::Result<&'static start::Entry> {
        let name = if self.cwnd { start::DEFAULT } else { "default" };
        entry(start::ALL, |rule| rule.name == name, "start rule")
    }

    /// By which technique messages are sent.
    pub fn technique(&self) -> &'static str {
        if self.realtime { technique::DEFAULT } else { "plain" }
    }
}
