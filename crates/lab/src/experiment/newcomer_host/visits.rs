//! First visits: what a host that has just joined waits for its first connection to each site.

use super::{ALONE, Context, Measured, PRIOR};
use crate::condition;
use crate::experiment::in_ms;
use crate::sim::{Arm, Session, Settings};
use crate::stats::Statistic;
use crate::world::World;
use headstart_core::connect::Want;
use headstart_core::connect::cache::Lifetime;
use headstart_core::path::record::NetworkRecord;
use headstart_core::time::Duration;

/// How long after the veteran's last visit the newcomer begins; shorter than failures are remembered.
const LATER: Duration = Duration::from_secs(60);
/// Times that the veteran visits each site.
const VISITS: usize = 2;

/// A condition: what the veteran learned in, and what the newcomer meets.
pub struct Case {
    name: &'static str,
    learned: &'static str,
    met: &'static str,
}

const ALL: &[Case] = &[
    Case { name: "healthy", learned: "healthy", met: "healthy" },
    Case { name: "ipv6-slower", learned: "ipv6-slower", met: "ipv6-slower" },
    Case { name: "ipv6-black-hole", learned: "ipv6-black-hole", met: "ipv6-black-hole" },
    Case { name: "wrong-all-well", learned: "healthy", met: "ipv6-black-hole" },
    Case { name: "wrong-ipv6-dead", learned: "ipv6-black-hole", met: "healthy" },
];

/// The case of `name`, if it is one of visits.
pub fn find(name: &str) -> Option<&'static Case> {
    ALL.iter().find(|case| case.name == name)
}

impl Case {
    /// What it is, in words.
    pub fn about(&self) -> anyhow::Result<String> {
        let met = condition::find(self.met)?.what;
        if self.learned == self.met {
            return Ok(format!("{met}; the veteran learned there."));
        }
        Ok(format!("{met}; the veteran learned where {}.", condition::find(self.learned)?.what))
    }
}

/// Worlds of so many sites.
fn size(quick: bool) -> (u64, usize) {
    if quick { (2, 12) } else { (20, 25) }
}

/// Plays `case`: the time of each first visit, alone and with the veteran's experience.
pub fn play(case: &Case, cx: &Context) -> anyhow::Result<Vec<Measured>> {
    let (worlds, sites) = size(cx.quick);
    let mut arms = vec![(ALONE, Vec::new()), (PRIOR, Vec::new())];
    for n in 0..worlds {
        let mut rng = fastrand::Rng::with_seed(cx.seed ^ (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let [learning, meeting] = [rng.u64(..), rng.u64(..)];
        let prior = learn(&(condition::find(case.learned)?.world)(learning, sites), sites, learning)?;
        let world = (condition::find(case.met)?.world)(meeting, sites);
        arms[0].1.extend(first_visits(&world, sites, meeting, &[])?);
        arms[1].1.extend(first_visits(&world, sites, meeting, &prior)?);
    }
    let statistics = &[Statistic::Median, Statistic::Mean, Statistic::Quantile(0.95)];
    Ok(vec![Measured { metric: "first visit", unit: "ms", statistics, arms }])
}

fn session(world: &World, seed: u64) -> anyhow::Result<Session> {
    Ok(Session::new(world, Settings { arm: Arm::find("adaptive")?, lifetime: Lifetime::Off, seed })?)
}

/// What a veteran exports.
fn learn(world: &World, sites: usize, seed: u64) -> anyhow::Result<Vec<NetworkRecord>> {
    let mut veteran = session(world, seed)?;
    for _ in 0..VISITS {
        (0..sites).for_each(|site| _ = veteran.visit(site, Want::Both));
    }
    Ok(veteran.learned().into_iter().map(|record| record.aged(LATER)).collect())
}

fn first_visits(world: &World, sites: usize, seed: u64, prior: &[NetworkRecord]) -> anyhow::Result<Vec<Option<f64>>> {
    let mut newcomer = session(world, seed)?;
    newcomer.take_prior(prior);
    let visit = |site| {
        let visit = newcomer.visit(site, Want::Both);
        visit.reached.map(|_| in_ms(visit.total))
    };
    Ok((0..sites).map(visit).collect())
}
