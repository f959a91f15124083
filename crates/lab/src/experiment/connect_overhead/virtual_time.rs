//! The experiment in virtual time: a [`Session`] for each world. Exact, seeded, without a packet.

use super::speed::{Answers, Measured, Paid, Plan, Size, Speed, Taken, Timing};
use crate::condition::Condition;
use crate::experiment::Speeds;
use crate::sim::{Arm, Session, Settings, Spent, Visit};
use headstart_core::connect::Want;
use headstart_core::path::Family;
use headstart_core::time::Duration;

/// Between two visits: nothing but an exploration reaches from one into the next.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the client that warms the history waits for a dead family, as `curl --connect-timeout 5` would.
const PATIENCE: Duration = Duration::from_secs(5);
/// After the last visit: every unused socket is closed by then.
const SETTLE: Duration = Duration::from_secs(10);

/// See the module.
pub const SPEED: Speed = Speed {
    suffix: "",
    wanted: Speeds::in_virtual_time,
    size,
    measure,
    about: "Virtual time: the supervisor's connector, glibc's way of resolving and Linux's way of connecting, over the link \
            models. Computing takes no time.",
};

/// The paper's phones loaded 300 sites; 6000 page loads in all. Where all sites are alike, 24 to a world: with IPv6 in a
/// black hole a host without headstart needs 131 s for each, and its session must not outlast the 3600 s of a cache.
fn size(condition: &Condition, _: Answers, quick: bool) -> Size {
    let varied = condition.name == "paper1-lte";
    match (varied, quick) {
        (true, false) => Size { worlds: 8, sites: 300 },
        (true, true) => Size { worlds: 2, sites: 300 },
        (false, false) => Size { worlds: 12, sites: 24 },
        (false, true) => Size { worlds: 4, sites: 24 },
    }
}

fn measure(plan: &Plan, arms: &[Arm]) -> anyhow::Result<Measured> {
    let taken = arms.iter().map(|arm| measure_one(plan, *arm)).collect::<anyhow::Result<_>>()?;
    Ok(Measured { taken, doubts: Vec::new() })
}

fn measure_one(plan: &Plan, arm: Arm) -> anyhow::Result<Taken> {
    let mut taken = Taken::default();
    let mut paid = Paid { unused: Some(0), bytes: Some(0), ..Paid::default() };
    for world in plan.worlds() {
        let settings = Settings { arm, lifetime: plan.answers.lifetime(), seed: world.seed };
        let mut session = Session::new(&world, settings)?;
        for site in 0..world.sites.len() {
            for family in [Family::V4, Family::V6] {
                session.visit_within(site, Want::Only(family), Some(PATIENCE));
                session.idle(PAUSE);
            }
        }
        session.idle(SETTLE);
        let before = session.spent();
        for site in 0..world.sites.len() {
            taken.visits.push(timing(&session.visit(site, Want::Both)));
            session.idle(PAUSE);
        }
        session.idle(SETTLE);
        add(&mut paid, &before, &session.spent());
    }
    taken.paid = paid;
    Ok(taken)
}

fn timing(visit: &Visit) -> Timing {
    Timing {
        lookup: Some(visit.lookup),
        getaddrinfo: visit.getaddrinfo,
        total: visit.reached.is_some().then_some(visit.total),
    }
}

fn add(paid: &mut Paid, before: &Spent, after: &Spent) {
    paid.connections += after.connections - before.connections;
    paid.attempts += after.traffic.syns - before.traffic.syns;
    paid.queries += after.traffic.queries - before.traffic.queries;
    let bytes = |s: &Spent| s.traffic.bytes_up + s.traffic.bytes_down;
    paid.unused = paid.unused.map(|n| n + after.unused - before.unused);
    paid.bytes = paid.bytes.map(|n| n + bytes(after) - bytes(before));
}
