//! What the launches of an app came to, arm beside arm.

use super::apps::START;
use super::{BASELINE, DEFAULT, JUDGED, LEARNED, Played};
use crate::experiment::target::Target;
use crate::experiment::{Claims, Outcome, Row, Series};
use crate::sim::{Granted, Launch};
use crate::stats::{Pairing, Statistic};
use headstart_core::connect::PoolMiss;
use headstart_core::time::Duration;

/// Names that were there when they were asked for.
pub const HITS: &str = "look-ups answered at once";
/// Connections that were there when they were asked for.
pub const AT_ONCE: &str = "connections served from the pool";
/// Spare connections that were never used.
pub const UNUSED: &str = "spare connections unused";
/// Of the connections wanted, those that were not there, by reason.
const MISSED: &str = "not served from the pool";

fn ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

fn percent(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

/// What is averaged over a launch, and what is counted.
fn mean(launch: &Launch, of: impl Fn(&Granted) -> f64) -> Option<f64> {
    let connected: Vec<_> = launch.granted.iter().filter(|g| g.connected).map(of).collect();
    (!connected.is_empty()).then(|| connected.iter().sum::<f64>() / connected.len() as f64)
}

/// Of all connections wanted, those of which this is so, in percent.
pub fn share(launches: &[&Launch], of: impl Fn(&Granted) -> bool) -> f64 {
    let all = || launches.iter().flat_map(|l| &l.granted);
    percent(all().filter(|g| of(g)).count(), all().count())
}

/// A metric with its value of a launch.
pub type Metric = (&'static str, &'static str, Option<(&'static str, &'static str)>, fn(&Launch) -> Option<f64>);

/// What is compared launch by launch, with the claim and the case that it serves.
pub const METRICS: &[Metric] = &[
    ("DNS traffic", "queries", Some(("P1.4", "most")), |l| Some(l.queries.len() as f64)),
    ("DNS traffic after the start", "queries", None, |l| {
        Some(l.queries.iter().filter(|at| **at > START).count() as f64)
    }),
    ("DNS lookup time", "ms", Some(("P1.5", "most")), |l| mean(l, |g| ms(g.lookup))),
    ("effective TCP connect time", "ms", Some(("P1.7", "most")), |l| mean(l, |g| ms(g.connect))),
    ("time until connected", "ms", None, |l| mean(l, |g| ms(g.lookup + g.connect))),
];

/// Adds the rows, samples, prices and verdicts of a condition.
pub fn add(
    outcome: &mut Outcome,
    condition: &str,
    played: &[Played],
    claims: &Claims,
    seed: u64,
) -> anyhow::Result<()> {
    let learned = |p: &Played| -> Vec<Launch> {
        p.launches.iter().filter(|(n, _)| *n >= LEARNED).map(|(_, l)| l.clone()).collect()
    };
    let later: Vec<(&str, Vec<Launch>)> = played.iter().map(|p| (p.arm, learned(p))).collect();
    let Some((_, baseline)) = later.iter().find(|(arm, _)| *arm == BASELINE) else { return Ok(()) };
    let series = |arm: &str, launches: &[Launch], (metric, unit, _, value): &Metric| {
        Series::with_failures(condition, metric, unit, arm, launches.iter().map(value))
    };
    for metric in METRICS {
        let base = series(BASELINE, baseline, metric);
        for (arm, launches) in later.iter().filter(|(arm, _)| *arm != BASELINE) {
            let ours = series(arm, launches, metric);
            let row = Row::compare(&ours, &base, Statistic::Mean, Pairing::Paired, seed)?;
            outcome.rows.push(match metric.2 {
                Some((claim, case)) if *arm == JUDGED => row.serving(claims, claim, case)?,
                _ => row,
            });
            outcome.samples.push(ours);
        }
        outcome.samples.push(base);
    }
    for (arm, launches) in &later {
        let all: Vec<&Launch> = launches.iter().collect();
        let served = |metric: &str, claim: &str, value: f64| Row {
            claim: (*arm == JUDGED).then(|| claim.to_owned()),
            ..Row::measured(condition, metric, "%", arm, value)
        };
        outcome.rows.push(served(HITS, "P1.5", share(&all, |g| g.hit)));
        outcome.rows.push(served(AT_ONCE, "P1.6", share(&all, |g| g.at_once)));
        let (spares, taken) = spares(launches);
        if spares > 0 {
            let unused = percent(spares - taken, spares);
            outcome.rows.push(Row::measured(condition, UNUSED, "%", arm, unused));
            let wanted = all.iter().map(|l| l.granted.len()).sum();
            for why in PoolMiss::ALL {
                let missed = all.iter().filter_map(|l| l.tally.missed.get(&why)).sum::<u64>() as usize;
                let metric = format!("{MISSED}: {}", why.describe());
                outcome.rows.push(Row::measured(condition, &metric, "%", arm, percent(missed, wanted)));
            }
        }
        outcome.rows.push(Row::measured(condition, "failed", "%", arm, share(&all, |g| !g.connected)));
        prices(outcome, condition, arm, launches);
    }
    for p in played {
        let every: Vec<&Launch> = p.launches.iter().map(|(_, l)| l).collect();
        for (metric, value) in [(HITS, share(&every, |g| g.hit)), (AT_ONCE, share(&every, |g| g.at_once))] {
            outcome.rows.push(Row::measured(condition, &format!("{metric}, all launches"), "%", p.arm, value));
        }
    }
    targets(outcome, condition);
    Ok(())
}

fn spares(launches: &[Launch]) -> (usize, usize) {
    let sum = |of: fn(&Launch) -> u64| launches.iter().map(of).sum::<u64>() as usize;
    (sum(|l| l.tally.spares), sum(|l| l.tally.spares_taken))
}

fn prices(outcome: &mut Outcome, condition: &str, arm: &str, launches: &[Launch]) {
    let sum = |of: fn(&Launch) -> u64| launches.iter().map(of).sum::<u64>() as f64;
    let connections = launches.iter().flat_map(|l| &l.granted).filter(|g| g.connected).count().max(1) as f64;
    for (what, unit, amount) in [
        ("attempts (SYNs) per connection", "", sum(|l| l.tally.attempts) / connections),
        ("queries per connection", "", sum(|l| l.queries.len() as u64) / connections),
        ("queries sent ahead per connection", "", sum(|l| l.tally.queries_ahead) / connections),
        ("spare connections opened per connection", "", sum(|l| l.tally.spares) / connections),
        ("connections opened and not used, per connection", "", sum(|l| l.tally.unused) / connections),
    ] {
        outcome.price(condition, arm, what, unit, amount);
    }
}

/// Says which of the project's own targets were reached.
fn targets(outcome: &mut Outcome, condition: &str) {
    let find = |metric: &str, arm: &str| {
        outcome.rows.iter().find(|r| r.condition == condition && r.metric == metric && r.arm == arm)
    };
    let less = |metric: &str| find(&format!("{metric}, mean"), JUDGED).and_then(|r| r.ratio).map(|q| 100.0 * (1.0 - q));
    let value = |metric: &str, arm: &str| find(metric, arm).map(|r| r.ours);
    let all = [
        ("look-ups answered at once, cache lifetime of the paper", value(HITS, JUDGED), Target::AtLeast(90.0)),
        ("look-ups answered at once, by default", value(HITS, DEFAULT), Target::AtLeast(75.0)),
        ("DNS lookup time saved", less("DNS lookup time"), Target::AtLeast(95.0)),
        ("DNS traffic after the start saved", less("DNS traffic after the start"), Target::AtLeast(80.0)),
        ("connections without a round trip", value(AT_ONCE, JUDGED), Target::AtLeast(70.0)),
        ("spare connections unused", value(UNUSED, JUDGED), Target::AtMost(30.0)),
        ("effective connect time saved", less("effective TCP connect time"), Target::AtLeast(50.0)),
    ];
    let notes: Vec<_> = all
        .into_iter()
        .filter_map(|(what, value, target)| Some(format!("{condition}: {}.", target.note(what, value?, "%"))))
        .collect();
    outcome.notes.extend(notes);
}
