//! A world played bare and under headstart, and the laws by which the two are compared.

use super::client::visit;
use super::headstart::{PORT, Supervisor};
use super::sim::{Event, Os, Sim, Syn, ms};
use super::world::{Client, Fate, Record, Says, Server, World};
use headstart_core::connect::Tally;
use headstart_core::connect::race;
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

/// No program waits longer: 61 silent addresses, and what comes before them.
const LIMIT: Duration = Duration::from_secs(9000);
/// How long nothing happens before it is looked at what is left open: longer than anything is kept, the kernel's attempts
/// among it.
const REST: Duration = Duration::from_secs(700);

/// How much sooner or later a host moves that moves by luck when it does: in milliseconds, what is allowed to be later by anyhow.
const MOMENT: i64 = 50;

/// One way of breaking the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Law {
    /// Whoever connects bare connects under headstart.
    Reaches,
    /// The same where bare connects by luck: it would not, had a server lost one question more or less.
    ReachesByLuck,
    /// Never later than bare by more than 50 ms or 10 %.
    InTime,
    /// The same where bare is as soon by luck.
    InTimeByLuck,
    /// At most one SYN an address and second.
    OneSynASecond,
    /// Where all refuse: bare's SYNs and one an address.
    NoStorm,
    /// Only addresses of families that the program's hints allow.
    Hints,
    /// Nothing is left open.
    NothingLeft,
    /// Where both families are answered within the Resolution Delay, a program that gets both without headstart gets both.
    ToldBoth,
}

impl Law {
    /// The promise that is broken, be it by bare's luck.
    pub fn promise(self) -> Self {
        match self {
            Self::ReachesByLuck => Self::Reaches,
            Self::InTimeByLuck => Self::InTime,
            law => law,
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// Who was reached in each visit, and how long that took.
    pub visits: Vec<(Option<IpAddr>, Duration)>,
    pub syns: Vec<Syn>,
    /// What the program was told in each visit.
    pub told: Vec<Vec<IpAddr>>,
    pub touched: BTreeSet<IpAddr>,
    pub left: Option<String>,
    pub tally: Tally,
}

/// Plays `world`, bare if there is no race.
pub fn play(world: &Rc<World>, race: Option<&'static race::Entry>) -> Run {
    let supervisor = race.map(|race| Supervisor::new(world, race));
    let os = Os(Rc::new(RefCell::new(Sim::new(world, supervisor))));
    let mut visits = Vec::new();
    for n in 0..world.visits {
        {
            let mut sim = os.0.borrow_mut();
            sim.begin_visit(n);
            if let Some(to) = world.moves.as_ref().filter(|to| to.visit == n) {
                sim.after(ms(to.after), Event::Move);
            }
        }
        let began = os.now();
        let reached = os.run(LIMIT, visit(&os, world.client)).flatten();
        visits.push((reached, os.now() - began));
        Supervisor::with(&mut os.0.borrow_mut(), Supervisor::ended);
        os.run(ms(world.pause), std::future::pending::<()>());
    }
    os.run(REST, std::future::pending::<()>());
    let sim = os.0.borrow();
    let supervisor = sim.supervisor.as_ref();
    Run {
        visits,
        syns: sim.syns.clone(),
        told: sim.told.clone(),
        touched: supervisor.map(|s| s.touched.clone()).unwrap_or_default(),
        left: supervisor.and_then(Supervisor::leftovers),
        tally: supervisor.map(|s| s.connector.tally()).unwrap_or_default(),
    }
}

/// What was broken, and how.
pub struct Broken {
    pub law: Law,
    pub how: String,
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.law, self.how)
    }
}

/// Laws that a race is excused from, and why.
pub fn is_excused(race: &race::Entry, law: Law) -> bool {
    match race.name {
        // One lookup after the other, no delay between attempts: that is what it is there to show.
        "sequential" => matches!(law, Law::InTime | Law::InTimeByLuck),
        _ => false,
    }
}

/// Every law that `run` breaks where `bare` does not.
pub fn judge(world: &World, bare: &Run, run: &Run) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut found = |law, how: String| broken.push(Broken { law, how });
    let late = |alone: Duration, took: Duration| took > alone + (alone / 10).max(ms(50));
    for (n, ((by_itself, alone), (reached, took))) in bare.visits.iter().zip(&run.visits).enumerate() {
        if is_overtaken(world, n, bare, run) {
            continue;
        }
        let is_excused = || fails_with_all(world, n, run) || was_tried_before_the_move(n, bare, run);
        if by_itself.is_some() && reached.is_none() && !is_excused() {
            let law =
                if luck(world).all(|bare| bare.visits[n].0.is_some()) { Law::Reaches } else { Law::ReachesByLuck };
            found(law, format!("visit {n}: bare {by_itself:?} after {alone:?}, fails after {took:?}"));
        }
        if by_itself.is_some() && reached.is_some() && late(*alone, *took) {
            let is_late = |bare: Run| bare.visits[n].0.is_some() && late(bare.visits[n].1, *took);
            let law = if luck(world).all(is_late) { Law::InTime } else { Law::InTimeByLuck };
            found(law, format!("visit {n}: bare {by_itself:?} after {alone:?}, {reached:?} after {took:?}"));
        }
    }
    let has_both = |list: &[IpAddr]| Family::BOTH.iter().all(|f| list.iter().any(|a| Family::of(*a) == *f));
    if world.is_healthy() {
        let mut told = bare.told.iter().zip(&run.told).enumerate();
        if let Some((n, (_, list))) = told.find(|(_, (by_itself, list))| has_both(by_itself) && !has_both(list)) {
            found(Law::ToldBoth, format!("visit {n}: told {list:?}"));
        }
    }
    if let Some((first, again)) = twice_a_second(world, run).filter(|_| twice_a_second(world, bare).is_none()) {
        found(Law::OneSynASecond, format!("{} at {:?} and {:?}", again.to, first.at, again.at));
    }
    if world.all_refuse() {
        let addresses = world.v4.len() + world.v6.len();
        for n in 0..world.visits {
            // A guess is a SYN more for each address, no storm.
            let is_of_it = |syn: &&Syn| syn.visit == n && syn.port == PORT && !syn.guessed;
            let count = |run: &Run| run.syns.iter().filter(is_of_it).count();
            let (by_itself, under) = (count(bare), count(run));
            if under > by_itself + addresses {
                found(Law::NoStorm, format!("visit {n}: {under} SYNs, bare {by_itself}, {addresses} addresses"));
            }
        }
    }
    let families = run.touched.iter().copied().chain(run.syns.iter().map(|syn| syn.to));
    if let Some(stranger) = families.into_iter().find(|a| !world.allows(Family::of(*a))) {
        found(Law::Hints, format!("{stranger}"));
    }
    if let Some(left) = &run.left {
        found(Law::NothingLeft, left.clone());
    }
    broken
}

/// Bare runs of the worlds in which a server that loses questions, or fails at first, does so once more or once less, and of those in which
/// the host moves a moment sooner or later. Where these differ from the one that was played, that one was luck.
pub fn luck(world: &World) -> impl Iterator<Item = Run> {
    let changes = [(-1, 0), (1, 0), (0, -1), (0, 1)];
    let places = (0..world.servers.len()).flat_map(|server| Family::BOTH.map(|family| (server, family)));
    let all = places.flat_map(move |place| changes.map(|change| (place, change)));
    let of_servers = all.filter_map(|((server, family), (lost, failed))| {
        let mut world = world.clone();
        let Server { a, aaaa, .. } = &mut world.servers[server];
        let record = if family == Family::V4 { a } else { aaaa }.as_mut()?;
        if (lost != 0 && record.lost == 0) || (failed != 0 && record.failed == 0) {
            return None;
        }
        record.lost = record.lost.checked_add_signed(lost)?;
        record.failed = record.failed.checked_add_signed(failed)?;
        Some(world)
    });
    let of_moves = [-MOMENT, MOMENT].into_iter().filter_map(|moment| {
        let mut world = world.clone();
        let to = world.moves.as_mut()?;
        to.after = to.after.saturating_add_signed(moment);
        Some(world)
    });
    of_servers.chain(of_moves).map(|world| play(&Rc::new(world), None))
}

/// Whether the host moved after the program had begun to connect under headstart, or had failed there, and before it began bare: it
/// was caught by the move because it was sooner, and is not compared (docs/decisions/0065). Nor is a run that had failed everywhere before
/// the move where bare was still failing, slower, and then met the new network: only one that is no sooner would (0114).
fn is_overtaken(world: &World, visit: usize, bare: &Run, run: &Run) -> bool {
    let Some(to) = world.moves.as_ref().filter(|to| to.visit == visit) else { return false };
    let begins = |run: &Run| run.visits[..visit].iter().map(|(_, took)| *took + ms(world.pause)).sum::<Duration>();
    let first = |run: &Run| run.syns.iter().find(|syn| syn.visit == visit).map(|syn| syn.at - Instant::ZERO);
    let moved = |run: &Run| begins(run) + ms(to.after);
    let end = |run: &Run| begins(run) + run.visits[visit].1;
    let failed_before = run.visits[visit].0.is_none() && end(run) < moved(run);
    if failed_before && end(bare) >= moved(bare) {
        return true;
    }
    let bare_after = first(bare).is_some_and(|at| at >= moved(bare));
    let under_before = first(run).is_some_and(|at| at < moved(run)) || run.visits[visit].1 < ms(to.after);
    bare_after && under_before
}

/// Whether the address that bare was reached after the host had moved was tried under headstart before that: it was sooner, and that address
/// was not to be reached then.
fn was_tried_before_the_move(visit: usize, bare: &Run, run: &Run) -> bool {
    let is_tried = |run: &Run, to: IpAddr, moved: bool| {
        run.syns.iter().any(|syn| syn.visit == visit && syn.to == to && syn.moved == moved)
    };
    bare.visits[visit]
        .0
        .is_some_and(|to| is_tried(bare, to, true) && !is_tried(bare, to, false) && is_tried(run, to, false))
}

fn twice_a_second(world: &World, run: &Run) -> Option<(Syn, Syn)> {
    let mut last: BTreeMap<(IpAddr, u16), Syn> = BTreeMap::new();
    // What is opened before a program has said a port may be of no use to it; a refusal is.
    let is_of_use = |syn: &&Syn| !syn.guessed || matches!(world.fate(syn.to, syn.moved), Fate::Refuses(_));
    run.syns.iter().filter(is_of_use).find_map(|syn| {
        let before = last.insert((syn.to, syn.port), *syn)?;
        // On another network it is another host that is asked.
        (syn.at - before.at < ms(1000) && syn.moved == before.moved && !was_reset(world, before, syn.at))
            .then_some((before, *syn))
    })
}

/// Whether the program was told every address that there is, and fails bare too where it is: it gives each address but the last a while only
/// (Node: 250 ms), and bare it was told fewer, for want of an answer.
fn fails_with_all(world: &World, visit: usize, run: &Run) -> bool {
    let at_once = Some(Record { after: 1, says: Says::Addresses, lost: 0, failed: 0 });
    let servers = vec![Server { a: at_once, aaaa: at_once, https: at_once }];
    let before = World { servers, visits: 1, moves: None, ..world.clone() };
    let after = world.moves.clone().filter(|to| to.visit <= visit);
    let after = after.map(|to| World { v4: to.v4, v6: to.v6, routes: to.routes, ..before.clone() });
    let fails = |world: World| {
        let bare = play(&Rc::new(world), None);
        run.told[visit].len() == bare.told[0].len() && bare.visits[0].0.is_none()
    };
    world.client == Client::Node && std::iter::once(before).chain(after).all(fails)
}

/// Whether the server had reset the connection of `syn` by `now`. What a server does with a connection is seen when it does it (0055),
/// and the program cannot be given this one any more: it needs another, as it would bare.
fn was_reset(world: &World, syn: Syn, now: Instant) -> bool {
    matches!(world.fate(syn.to, syn.moved), Fate::Resets(rtt, after) if now - syn.at >= ms(rtt + after))
}
