//! The seam between what is measured and how: a speed takes a [`Plan`] and gives back what visits took and cost.
//!
//! To add a speed: a file with a [`Speed`], a line in the list of speeds in the module above. Nothing here knows which
//! speeds there are.

use crate::condition::Condition;
use crate::experiment::Speeds;
use crate::sim::Arm;
use crate::world::World;
use headstart_core::connect::cache::Lifetime;
use headstart_core::time::Duration;

/// Whether answers come from a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Every lookup goes to the server.
    Cold,
    /// Answers are kept for an hour whatever their TTL, as in paper 1, and the names have been looked up before.
    Cached,
}

impl Answers {
    /// Both, in the order of tables.
    pub const BOTH: [Self; 2] = [Self::Cold, Self::Cached];

    /// `cold` or `cached`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Cached => "cached",
        }
    }

    /// How long headstart keeps answers.
    pub fn lifetime(self) -> Lifetime {
        match self {
            Self::Cold => Lifetime::Off,
            // 3600 s: paper 1, section III-C.
            Self::Cached => Lifetime::Fixed(Duration::from_secs(3600)),
        }
    }

    /// One sentence for the report.
    pub fn about(self) -> &'static str {
        match self {
            Self::Cold => "No answer is cached: every lookup goes to the server.",
            Self::Cached => {
                "Headstart keeps answers for 3600 s (paper 1) and has looked up every name before; `bare` has no cache."
            }
        }
    }
}

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Worlds drawn, each with a host of its own that starts without history.
    pub worlds: u64,
    /// Names in each; each is visited once after the visits that warm the history.
    pub sites: usize,
}

/// One condition with one treatment of answers.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The network and its names.
    pub condition: &'a Condition,
    /// Cold or cached.
    pub answers: Answers,
    /// How much.
    pub size: Size,
    /// Seed of the run.
    pub seed: u64,
}

impl Plan<'_> {
    /// The worlds of the plan: the same for every arm, treatment of answers and speed.
    pub fn worlds(&self) -> impl Iterator<Item = World> + '_ {
        // Runs with neighbouring seeds share no world: fastrand mixes what it is seeded with.
        let mut seeds = fastrand::Rng::with_seed(self.seed);
        (0..self.size.worlds).map(move |_| (self.condition.world)(seeds.u64(..), self.size.sites))
    }
}

/// What one visit took, as far as the speed can see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Until the race had an address to go on; none where the speed cannot look into the race.
    pub lookup: Option<Duration>,
    /// In getaddrinfo.
    pub getaddrinfo: Duration,
    /// Until the program had its connection; none if it got none.
    pub total: Option<Duration>,
}

/// What all visits of a plan cost, those that warm the history left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Paid {
    /// Connections that the program got.
    pub connections: u64,
    /// First SYNs to hosts.
    pub attempts: u64,
    /// DNS queries.
    pub queries: u64,
    /// Connections opened and never used; none where the speed cannot tell.
    pub unused: Option<u64>,
    /// Bytes of IP packets both ways; none where the speed cannot tell.
    pub bytes: Option<u64>,
}

/// What a plan came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Every visit: world by world, in the order of the names.
    pub visits: Vec<Timing>,
    /// Their price.
    pub paid: Paid,
}

/// What the arms of a plan came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// For each arm, in the order asked for.
    pub taken: Vec<Taken>,
    /// Why the times may not be believed: what the instrument says of itself.
    pub doubts: Vec<String>,
}

/// One of the lab's speeds.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// What the names of conditions end in at this speed; nothing for virtual time.
    pub suffix: &'static str,
    /// Whether a run asks for it.
    pub wanted: fn(Speeds) -> bool,
    /// How much is measured of a condition; the flag is for a quick run. No worlds: the condition is left out.
    pub size: fn(&Condition, Answers, bool) -> Size,
    /// Measures these arms. Failed visits are results; `Err` is for an instrument that could not be set up.
    pub measure: fn(&Plan, &[Arm]) -> anyhow::Result<Measured>,
    /// How it measures, a paragraph for the report.
    pub about: &'static str,
}
