//! The parts, each by itself, and the three ways whole, over the same names of the same worlds: in virtual time, and in
//! namespaces with the shipped program.

use super::equations::{ConnectMethod, Handshake, Parts};
use crate::condition::Condition;
use crate::netns::{Network, Visited, Visitor};
use crate::sim::{Arm, Session, Settings, Visit};
use anyhow::Context as _;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Want, race};
use headstart_core::path::Family;
use headstart_core::time::Duration;

/// Between two visits.
const PAUSE: Duration = Duration::from_millis(100);
/// In namespaces an attempt that takes longer is cut, for the parts and for the whole alike; virtual time has patience.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// What one name came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Name {
    /// The parts.
    pub parts: Parts,
    /// Each way, in the order of [`ConnectMethod::ALL`].
    pub whole: [Whole; 3],
}

/// One way to connect to one name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole {
    /// Until there was an address to go on; none where the speed cannot look into the race.
    pub lookup: Option<Duration>,
    /// Until there was a connection; none if there was none.
    pub total: Option<Duration>,
}

/// How much: worlds, and names in each.
pub type Size = (u64, usize);

fn worlds(condition: &Condition, (worlds, sites): Size, seed: u64) -> impl Iterator<Item = crate::world::World> {
    let mut seeds = fastrand::Rng::with_seed(seed);
    let draw = condition.world;
    (0..worlds).map(move |_| draw(seeds.u64(..), sites))
}

/// In virtual time: exact, seeded, without a packet.
pub fn in_virtual_time(condition: &Condition, size: Size, seed: u64) -> anyhow::Result<Vec<Name>> {
    let mut names = Vec::new();
    for world in worlds(condition, size, seed) {
        let session = |arm| Session::new(&world, Settings { arm, lifetime: Lifetime::Off, seed: world.seed });
        let visits = |arm, want| -> anyhow::Result<Vec<Visit>> {
            let mut session = session(arm)?;
            let visit = |site| {
                let visit = session.visit(site, want);
                session.idle(PAUSE);
                visit
            };
            Ok((0..world.sites.len()).map(visit).collect())
        };
        let (v4, v6) = (visits(Arm::Bare, Want::Only(Family::V4))?, visits(Arm::Bare, Want::Only(Family::V6))?);
        let mut ways = Vec::new();
        for way in ConnectMethod::ALL {
            ways.push(visits(Arm::Race(race::find(way.race())?), Want::Both)?);
        }
        let handshake = |v: &Visit| Handshake { took: v.connect, succeeded: v.reached.is_some() };
        for site in 0..world.sites.len() {
            let whole = |way: usize| {
                let visit = &ways[way][site];
                Whole { lookup: Some(visit.lookup), total: visit.reached.is_some().then_some(visit.total) }
            };
            let (v4, v6) = (&v4[site], &v6[site]);
            let parts = Parts { a: v4.lookup, aaaa: v6.lookup, v4: handshake(v4), v6: handshake(v6) };
            names.push(Name { parts, whole: [0, 1, 2].map(whole) });
        }
    }
    Ok(names)
}

/// In namespaces; and why the times may not be believed.
pub fn in_namespaces(condition: &Condition, size: Size, seed: u64) -> anyhow::Result<(Vec<Name>, Vec<String>)> {
    let (mut names, mut doubts) = (Vec::new(), Vec::new());
    for world in worlds(condition, size, seed) {
        let network = Network::build(&world).context("building the network")?;
        let mut alone = Visitor::bare(&network)?;
        let mut ways = Vec::new();
        for way in ConnectMethod::ALL {
            ways.push(Visitor::with_race(&network, race::find(way.race())?, Lifetime::Off, [])?);
        }
        for site in &world.sites {
            let mut part = |family| -> anyhow::Result<(Duration, Handshake)> {
                // The client says how long a failed attempt took only by how long it took in all.
                let before = network.clock().now();
                let visited = alone.visit(&site.name, Some(family), PATIENCE)?;
                let took = network.clock().now() - before;
                let handshake = match visited.connect {
                    Some(took) => Handshake { took, succeeded: true },
                    None => Handshake { took: took.saturating_sub(visited.lookup), succeeded: false },
                };
                Ok((visited.lookup, handshake))
            };
            let ((a, v4), (mut aaaa, mut v6)) = (part(Family::V4)?, part(Family::V6)?);
            if !v6.succeeded {
                // Nor does it say of a failure how long the lookup took: the record's own delay says by how much AAAA is
                // later than A.
                aaaa = a + site.aaaa.delay.saturating_sub(site.a.delay);
                v6.took = v6.took.saturating_sub(aaaa);
            }
            let mut whole = [Whole { lookup: None, total: None }; 3];
            for (visitor, whole) in ways.iter_mut().zip(&mut whole) {
                let Visited { lookup, connect, .. } = visitor.visit(&site.name, None, PATIENCE)?;
                whole.total = connect.map(|connect| lookup + connect);
            }
            names.push(Name { parts: Parts { a, aaaa, v4, v6 }, whole });
        }
        doubts.extend(network.certificate().doubt());
    }
    Ok((names, doubts))
}
