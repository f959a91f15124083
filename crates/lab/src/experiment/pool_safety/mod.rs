//! `pool-safety`: whether a connection that was opened ahead is ever a bad one (an instrument; the only number is zero).
//!
//! The shipped program, the kernel's TCP, in namespaces: a client is launched again and again under one supervisor,
//! waits for a time that it draws, and then says something on connections to a dozen hosts. Some of their servers close
//! what is silent for 1, 5 or 15 s; while connections lie open, servers restart and the network changes. A program that
//! connects of its own never fails here, so whatever is reset or refused is the pool's doing.

mod round;

use super::{Context, Entry, Outcome, Row, Speeds};
use crate::experiment::target::Target;
use crate::lock;
use crate::server::idle::WAITED;
use round::{Disturbance, Launched};
use std::sync::Mutex;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "pool-safety",
    shows: "Prefetched connections are never reset or refused after they are handed over",
    claims: &[],
    conditions: &["idle-close", "restarts", "network-changes"],
    speeds: Speeds::Namespaces,
    run,
};

/// Hand-overs of a full run, over all conditions, and of a quick one; and launches after which a condition is given up.
const HAND_OVERS: (u64, u64) = (10_000, 120);
const MAX_LAUNCHES: (u64, u64) = (6_000, 120);
/// Launches of a supervisor; the next begins with nothing learned.
const ROUND: u64 = 60;
/// Networks at once, each with its supervisor: clients spend their time waiting. More than two cores can do anything for.
const AT_ONCE: usize = 8;

const ARM: &str = "headstart";

/// What a condition has come to, and what is under way for it.
#[derive(Debug, Default)]
struct Sum {
    launched: Launched,
    /// Launches that were done or are to be done by a round that goes on.
    begun: u64,
    /// Hand-overs of rounds that go on.
    going: u64,
    /// Rounds begun, by which they are seeded.
    rounds: u64,
}

impl Sum {
    fn handed_over(&self) -> u64 {
        self.launched.handed_over + self.going
    }
}

/// How much of each condition is wanted.
#[derive(Clone, Copy)]
struct Wanted {
    hand_overs: u64,
    launches: u64,
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let pick = |(full, quick): (u64, u64)| if cx.quick { quick } else { full };
    let conditions: Vec<_> = Disturbance::ALL.into_iter().filter(|d| cx.wants(d.name())).collect();
    let many = conditions.len().max(1) as u64;
    let wanted = Wanted { hand_overs: pick(HAND_OVERS).div_ceil(many), launches: pick(MAX_LAUNCHES) / many };
    let sums = Mutex::new(conditions.iter().map(|_| Sum::default()).collect::<Vec<_>>());
    // In a quick run one round is enough for each.
    let at_once = if cx.quick { conditions.len() } else { AT_ONCE };
    let worked: Vec<anyhow::Result<()>> = std::thread::scope(|scope| {
        let worker = || scope.spawn(|| rounds(cx, &conditions, wanted, &sums));
        let workers: Vec<_> = (0..at_once).map(|_| worker()).collect();
        let joined = workers.into_iter().map(|w| w.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a round panicked"))));
        joined.collect()
    });
    worked.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
    cx.goes_on(&mut outcome);
    let mut all = Launched::default();
    for (disturbance, sum) in conditions.iter().zip(lock(&sums).iter()) {
        add(&mut outcome, disturbance.name(), &sum.launched);
        let about = disturbance.about().to_owned();
        outcome.condition(disturbance.name(), about);
        all.add(&sum.launched);
    }
    add(&mut outcome, "all", &all);
    let about = "All of these together.".to_owned();
    outcome.condition("all", about);
    outcome.notes.extend([
        format!("{}.", Target::AtMost(0.0).note("reset or refused after hand-over", all.failed as f64, "connections")),
        format!(
            "{}.",
            Target::AtLeast(pick(HAND_OVERS) as f64).note("handed over", all.handed_over as f64, "connections")
        ),
    ]);
    outcome.notes.extend(all.complaints.iter().take(20).cloned());
    Ok(outcome)
}

/// Plays rounds of whatever lacks most, until nothing lacks anything.
fn rounds(cx: &Context, conditions: &[Disturbance], wanted: Wanted, sums: &Mutex<Vec<Sum>>) -> anyhow::Result<()> {
    loop {
        // In a line of its own, so that the others are not locked out while this one plays.
        let next = next_round(cx.seed, wanted, &mut lock(sums));
        let Some((which, launches, seed)) = next else { return Ok(()) };
        let goes_on = |launched: &Launched| {
            let mut sums = lock(sums);
            sums[which].going += launched.handed_over;
            let done = sums.iter().map(|sum| sum.handed_over().min(wanted.hand_overs)).sum();
            cx.progress.step(done, wanted.hand_overs * sums.len() as u64, conditions[which].name());
            !cx.progress.stop() && sums[which].handed_over() < wanted.hand_overs
        };
        let played = round::play(conditions[which], launches, seed, &cx.measured_program()?, &goes_on)?;
        let mut sums = lock(sums);
        let sum = &mut sums[which];
        sum.going -= played.handed_over;
        sum.begun -= launches - played.launches;
        sum.launched.add(&played);
        if cx.progress.stop() {
            return Ok(());
        }
    }
}

/// The condition that lacks most, how often to launch its client, and the seed of that.
fn next_round(seed: u64, wanted: Wanted, sums: &mut [Sum]) -> Option<(usize, u64, u64)> {
    let lacks = |sum: &Sum| sum.handed_over() < wanted.hand_overs && sum.begun < wanted.launches;
    let (which, sum) =
        sums.iter_mut().enumerate().filter(|(_, s)| lacks(s)).min_by_key(|(_, s)| (s.begun, s.handed_over()))?;
    let launches = ROUND.min(wanted.launches - sum.begun);
    sum.begun += launches;
    sum.rounds += 1;
    let seed = fastrand::Rng::with_seed(seed ^ (which as u64) << 32 ^ sum.rounds).u64(..);
    Some((which, launches, seed))
}

fn add(outcome: &mut Outcome, condition: &str, sum: &Launched) {
    let row = |metric: &str, value: u64| Row::measured(condition, metric, "connections", ARM, value as f64);
    outcome.rows.push(row("reset or refused after hand-over", sum.failed));
    outcome.rows.push(row("handed over that were opened ahead", sum.handed_over));
    outcome.rows.push(row("connections of the program", sum.connections));
    for (patience, activity) in &sum.activity {
        let who = match patience {
            Some(patience) => format!("servers that close after {} s", patience.as_secs()),
            None => "servers that never close".to_owned(),
        };
        outcome.rows.push(row(
            &format!("{who}: silent for {} ms or more before the first word", WAITED.as_millis()),
            activity.waited,
        ));
        let metric = format!("{who}: longest silence before the first word");
        outcome.rows.push(Row::measured(condition, &metric, "ms", ARM, activity.longest.as_secs_f64() * 1e3));
    }
    let spares = sum.opened as f64 / sum.handed_over.max(1) as f64;
    outcome.price(condition, ARM, "spare connections opened for each that was handed over", "", spares);
}

const METHOD: [&str; 2] = [
    "Each launch is a `headstart run` of headstart's own client under a supervisor that knows the launches before it. The client \
     waits, looks up twelve names and connects to all at once, sends a line on each connection and waits for the answer. The \
     supervisor counted how many of its connections had been opened ahead of time; the servers saw how long each was idle before \
     its first data. No idle connection to a server that closes after 1 s is handed over.",
    "Every connection of a launch counts as failed that was refused, reset, or closed before the answer, whether it was opened \
     ahead or not. Supervisors are replaced after 60 launches, so each learns its servers again; several networks, each with its \
     own supervisor and servers, run at once.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_go_to_what_lacks_most_with_seeds_of_their_own_until_nothing_lacks() {
        let wanted = Wanted { hand_overs: 100, launches: 70 };
        let mut sums = [Sum::default(), Sum::default()];
        let mut rounds: Vec<_> = (0..4).map_while(|_| next_round(7, wanted, &mut sums)).collect();
        assert_eq!(rounds.iter().map(|r| (r.0, r.1)).collect::<Vec<_>>(), [(0, 60), (1, 60), (0, 10), (1, 10)]);
        assert_eq!(next_round(7, wanted, &mut sums), None, "as many as may be are begun");
        rounds.dedup_by_key(|r| r.2);
        assert_eq!(rounds.len(), 4);
        sums[0].begun = 20;
        (sums[1].begun, sums[1].going) = (10, 100);
        assert_eq!(next_round(7, wanted, &mut sums).map(|r| r.0), Some(0), "the other has enough");
    }
}
