//! The experiment with real packets: the shipped program, preloaded library and supervisor included, on the kernel's own
//! sockets, through namespaces and the emulator. Arms take turns at every name, so that a disturbance meets all alike.

use super::speed::{Answers, Measured, Plan, Size, Speed, Taken, Timing};
use crate::condition::Condition;
use crate::experiment::Speeds;
use crate::netns::{Network, Visitor};
use crate::sim::{Arm, faster};
use crate::world::World;
use anyhow::Context as _;
use headstart_core::path::Family;
use headstart_core::time::Duration;

/// How long the client that warms the history waits for a dead family.
const WARMING_PATIENCE: Duration = Duration::from_secs(1);
/// An attempt to connect that takes longer is cut, and the client goes on to the next address.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same where only the median matters and few hosts are silent.
const SHORT_PATIENCE: Duration = Duration::from_secs(3);
/// An arm that needs this long at the median is not made to visit one name after the other, but all at once.
const SLOW: Duration = Duration::from_secs(2);
/// After warming: unused sockets are closed by then.
const SETTLE: Duration = Duration::from_secs(3);

/// See the module.
pub const SPEED: Speed = Speed {
    suffix: "-netns",
    wanted: Speeds::in_namespaces,
    size,
    measure,
    about: "Namespaces: the shipped `headstart run` and its client (libc's getaddrinfo and connect) over kernel sockets, the \
            lab's DNS and web servers, and the emulator in real time. An attempt to connect is cut after 20 s (3 s in \
            paper1-lte), where the kernel alone would continue for 131 s. Prices are counted in virtual time, where every packet \
            is seen.",
};

/// Names visited; a name costs all arms together about half a second. Quick runs leave out what differs little.
fn size(condition: &Condition, answers: Answers, quick: bool) -> Size {
    let sites = match (condition.name, answers, quick) {
        ("paper1-lte", _, false) => 120,
        ("paper1-lte", _, true) => 20,
        ("healthy" | "ipv6-slower", _, false) => 30,
        ("healthy", Answers::Cold, true) => 12,
        ("aaaa-lost" | "ipv6-black-hole", Answers::Cold, true) => 4,
        (_, _, false) => 10,
        (_, _, true) => 0,
    };
    Size { worlds: u64::from(sites > 0), sites }
}

fn measure(plan: &Plan, arms: &[Arm]) -> anyhow::Result<Measured> {
    let mut measured = Measured { taken: vec![Taken::default(); arms.len()], doubts: Vec::new() };
    // Which arms are slow is known beforehand, from virtual time.
    let simulated = (super::virtual_time::SPEED.measure)(plan, arms)?;
    let slow: Vec<bool> = simulated.taken.iter().map(is_slow).collect();
    let patience = if slow.contains(&true) { PATIENCE } else { SHORT_PATIENCE };
    for world in plan.worlds() {
        let network = Network::build(&world).context("building the network")?;
        let start = |arm: &Arm| start(&network, &world, plan, *arm);
        let mut visitors = arms.iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
        warm(&mut visitors, arms, &world)?;
        network.clock().sleep(SETTLE);
        for (n, site) in world.sites.iter().enumerate() {
            // The first arm finds a colder machine, so the arms take turns to be first.
            for i in (0..arms.len()).map(|i| (i + n) % arms.len()).filter(|i| !slow[*i]) {
                let visit = visitors[i].visit(&site.name, None, patience)?;
                measured.taken[i].visits.push(timing(visit));
            }
        }
        let names: Vec<&str> = world.sites.iter().map(|s| s.name.as_str()).collect();
        let together = std::thread::scope(|scope| {
            let slow = visitors.iter_mut().enumerate().filter(|(i, _)| slow[*i]);
            let threads: Vec<_> = slow.map(|(i, v)| (i, scope.spawn(|| v.visit_all(&names, patience)))).collect();
            threads.into_iter().map(|(i, t)| (i, t.join())).collect::<Vec<_>>()
        });
        for (i, visits) in together {
            let visits = visits.map_err(|_| anyhow::anyhow!("a thread that visits panicked"))??;
            measured.taken[i].visits.extend(visits.into_iter().map(timing));
        }
        measured.doubts.extend(network.certificate().doubt());
    }
    Ok(measured)
}

fn is_slow(taken: &Taken) -> bool {
    let mut totals: Vec<_> = taken.visits.iter().map(|v| v.total.unwrap_or(Duration::MAX)).collect();
    totals.sort();
    totals.get(totals.len() / 2).is_some_and(|median| *median > SLOW)
}

fn start(network: &Network, world: &World, plan: &Plan, arm: Arm) -> anyhow::Result<Visitor> {
    let visitor = match arm {
        Arm::Bare => Visitor::bare(network),
        Arm::Race(entry) => {
            let truth = faster(world, plan.answers.lifetime())?;
            Visitor::with_race(network, entry, plan.answers.lifetime(), truth)
        }
    };
    visitor.with_context(|| format!("starting the client of {arm}"))
}

/// Every name over each family alone, all arms at once: nothing is measured here. `bare` keeps no history.
fn warm(visitors: &mut [Visitor], arms: &[Arm], world: &World) -> anyhow::Result<()> {
    let of_one = |visitor: &mut Visitor| {
        for site in &world.sites {
            for family in [Family::V4, Family::V6] {
                visitor.visit(&site.name, Some(family), WARMING_PATIENCE)?;
            }
        }
        anyhow::Ok(())
    };
    let ended = std::thread::scope(|scope| {
        let racing = visitors.iter_mut().zip(arms).filter(|(_, arm)| **arm != Arm::Bare);
        let threads: Vec<_> = racing.map(|(visitor, _)| scope.spawn(|| of_one(visitor))).collect();
        threads.into_iter().map(|t| t.join()).collect::<Vec<_>>()
    });
    for end in ended {
        end.map_err(|_| anyhow::anyhow!("a thread that warms the history panicked"))??;
    }
    Ok(())
}

fn timing(visit: crate::netns::Visited) -> Timing {
    Timing { lookup: None, getaddrinfo: visit.lookup, total: visit.connect.map(|connect| visit.lookup + connect) }
}
