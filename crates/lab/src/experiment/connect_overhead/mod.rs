//! `connect-overhead`: how long it takes until an unmodified program has a connection, lookup included, with every race
//! and without headstart (paper 1, Figs. 10-12: claims P1.1, P1.2, P1.3).
//!
//! Every condition of [`crate::condition`], with cold answers and with cached ones; every arm visits the same names of
//! the same worlds in the same order, so all comparisons are paired by visit. The speeds at which it can run are lines in
//! `SPEEDS`. Nothing here knows which arm is ours.

mod namespaces;

mod rows;
mod series;
pub mod speed;
mod virtual_time;

use super::{Claims, Context, Entry, Outcome, Speeds, Steps};
use crate::condition::{self, Condition};
use crate::sim::Arm;
use speed::{Answers, Plan, Speed, Taken};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "connect-overhead",
    shows: "Unmodified programs connect sooner, lookup included, and never later where there is no gain",
    claims: &["P1.1", "P1.11", "P1.2", "P1.3"],
    conditions: &[
        "paper1-lte-cold",
        "paper1-lte-cached",
        "healthy-cold",
        "healthy-cached",
        "ipv6-slower-cold",
        "ipv6-slower-cached",
        "aaaa-lost-cold",
        "aaaa-lost-cached",
        "a-lost-cold",
        "a-lost-cached",
        "ipv6-black-hole-cold",
        "ipv6-black-hole-cached",
    ],
    speeds: Speeds::Both,
    run,
};

/// Every speed; the first is virtual time, which every other is compared with.
const SPEEDS: &[Speed] = &[virtual_time::SPEED, namespaces::SPEED];

/// Every condition with every treatment of answers, cold before cached.
fn settings() -> impl Iterator<Item = (&'static Condition, Answers)> {
    condition::ALL.iter().flat_map(|c| Answers::BOTH.map(|a| (c, a)))
}

/// The name of a condition with a treatment of answers, as in rows.
fn name(condition: &Condition, answers: Answers) -> String {
    format!("{}-{}", condition.name, answers.name())
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let speeds: Vec<&Speed> = SPEEDS.iter().filter(|s| (s.wanted)(cx.speeds)).collect();
    anyhow::ensure!(!speeds.is_empty(), "connect-overhead cannot run at speed '{}': try sim", cx.speeds);
    run_at(cx, &speeds)
}

/// What was measured in one condition at one speed, each arm in the order of [`Arm::all`].
struct Block {
    condition: String,
    taken: Vec<(Arm, Taken)>,
}

fn run_at(cx: &Context, speeds: &[&Speed]) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    outcome.method = method(speeds);
    outcome.notes = NOTES.iter().map(|n| (*n).to_owned()).collect();
    let wanted: Vec<_> = settings().filter(|(c, a)| cx.wants(&name(c, *a))).collect();
    let arms: Vec<Arm> = Arm::all().collect();
    let plans = speeds.iter().flat_map(|speed| {
        wanted.iter().map(move |(condition, answers)| {
            let size = (speed.size)(condition, *answers, cx.quick);
            (*speed, Plan { condition, answers: *answers, size, seed: cx.seed })
        })
    });
    let plans: Vec<_> = plans.filter(|(_, plan)| plan.size.worlds > 0).collect();
    let mut steps = Steps::new(cx, plans.len());
    // Virtual time first: where another speed runs too, its worlds are played again at that size, to be compared.
    for speed in speeds {
        let mut blocks = Vec::new();
        for (_, plan) in plans.iter().filter(|(s, _)| s.suffix == speed.suffix) {
            let place = name(plan.condition, plan.answers);
            let condition_name = format!("{place}{}", speed.suffix);
            if !steps.next(&mut outcome, &condition_name) {
                return Ok(outcome);
            }
            let measured = (speed.measure)(plan, &arms)?;
            outcome.doubts_of(&condition_name, measured.doubts);
            let taken: Vec<(Arm, Taken)> = arms.iter().copied().zip(measured.taken).collect();
            if speed.suffix != SPEEDS[0].suffix {
                let simulated = (SPEEDS[0].measure)(plan, &arms)?.taken;
                for ((arm, measured), simulated) in taken.iter().zip(&simulated) {
                    outcome.rows.extend(rows::agreement(&place, *arm, simulated, measured, cx.seed)?);
                }
            }
            outcome.condition(condition_name.clone(), about(plan));
            blocks.push(Block { condition: condition_name, taken });
        }
        for block in &blocks {
            outcome.samples.extend(series::of(block));
            rows::prices(&mut outcome, block);
        }
        outcome.rows.extend(rows::claimed(&blocks, &claims, cx.seed)?);
        for block in &blocks {
            outcome.rows.extend(rows::of(block, cx.seed)?);
        }
    }
    Ok(outcome)
}

/// What a reader is told of a condition.
fn about(plan: &Plan<'_>) -> String {
    let Plan { condition, answers, size, .. } = plan;
    let [what, why, answers] = [condition.what, condition.why, answers.about()];
    format!("{what}. {why} {answers} {} worlds of {} names.", size.worlds, size.sites)
}

fn method(speeds: &[&Speed]) -> Vec<String> {
    let mut method = vec![
        "A program looks up a name (getaddrinfo with a port) and connects to the first address in the answer, on failure to the \
         next. Each name is visited beforehand once over each family alone, as `curl -4` and `curl -6` would, in every arm alike, \
         so that races with a history of paths have one. Then each name is visited with both families. Arms visit the same names \
         of the same worlds in the same order; intervals are 95 % bootstrap intervals over pairs of visits."
            .to_owned(),
        "DNS lookup time is the time until the race had an address: its first connection attempt, or the answer to getaddrinfo if \
         that came first. TCP connect time is the rest. (A race may connect before getaddrinfo returns, since getaddrinfo returns \
         all addresses at once or none; what the program waits for in getaddrinfo is a metric of its own.) Connectivity overhead \
         is the sum."
            .to_owned(),
    ];
    method.extend(speeds.iter().map(|s| s.about.to_owned()));
    method
}

const NOTES: &[&str] = &[
    "`simultaneous` is the method of paper 1. In its equation 2, lookups last until both answers are there; that is its time in \
     getaddrinfo. RFC 8305 continues with AAAA alone, or 50 ms after A; a method that waits for both cannot be faster on any \
     network, so by equation 2 the paper's 48 ms against 53 ms cannot come from the standard as written (its equation 3 adds the \
     resolution delay even where AAAA came first). P1.1 is therefore judged by both definitions.",
    "P1.3 with a cache compares as the paper does: a cached lookup with baselines that have no cache. Here every cached \
     lookup is a hit; the paper's 77 ms beside 81 contains its misses, and prints no hit rate for them.",
    "Resets after hand-over are not counted here: a simulated host never resets a connection that it has accepted.",
];

#[cfg(test)]
mod tests;
