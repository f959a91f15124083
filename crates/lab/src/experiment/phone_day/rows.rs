//! What the days came to: connection by connection for P1.1 to P1.3, launch by launch for P1.4 to P1.7.

use super::{BASELINE, Lived, OTHERS};
use crate::experiment::app_session::{AT_ONCE, HITS, METRICS, share};
use crate::experiment::target::Target;
use crate::experiment::{Claims, Outcome, Row, Series, in_ms};
use crate::sim::{Granted, Launch};
use crate::stats::{Pairing, Statistic};

/// A metric of a connection, its statistic in the paper, and the claim and case that it is beside.
type Metric = (&'static str, Statistic, (&'static str, &'static str), fn(&Granted) -> f64);

const EACH: [Metric; 3] = [
    ("DNS lookup time", Statistic::Quantile(0.75), ("P1.1", "no-cache"), |g| in_ms(g.lookup)),
    ("TCP connect time", Statistic::Quantile(0.75), ("P1.2", ""), |g| in_ms(g.connect)),
    ("connectivity overhead", Statistic::Median, ("P1.3", "no-cache"), |g| in_ms(g.lookup + g.connect)),
];

/// Adds a row and, in a note, what it says beside the claim: its verdict is that of the claim's own experiment.
pub fn beside(outcome: &mut Outcome, row: Row, (id, case): (&str, &str)) -> anyhow::Result<()> {
    let row = row.serving(&Claims::built_in()?, id, case)?;
    if let (Some(verdict), Some(ratio), Some(paper)) = (row.verdict, row.ratio, row.paper) {
        let (condition, arm, metric) = (&row.condition, &row.arm, &row.metric);
        outcome.notes.push(format!("{condition}, {arm}, {id} ({metric}): {ratio:.2}, paper {paper:.2}: {verdict}"));
    }
    outcome.rows.push(Row { claim: None, verdict: None, ..row });
    Ok(())
}

/// The rows of a place. With caches, launches are compared; without, connections.
pub fn add(outcome: &mut Outcome, (kind, name): (&str, &str), lived: &[Lived], cached: bool) -> anyhow::Result<()> {
    let here = |lived: &Lived| -> Vec<Launch> {
        lived.launches.iter().filter(|(at, _)| *at == kind).map(|(_, launch)| launch.clone()).collect()
    };
    let all: Vec<(&str, Vec<Launch>)> = lived.iter().map(|lived| (lived.arm.name, here(lived))).collect();
    let Some((_, base)) = all.iter().find(|(arm, _)| *arm == BASELINE) else { return Ok(()) };
    let each = |metric: &Metric, arm: &str, launches: &[Launch]| {
        let value = |g: &Granted| g.connected.then(|| metric.3(g));
        let values = launches.iter().flat_map(|launch| &launch.granted).map(value);
        Series::with_failures(name, metric.0, "ms", arm, values)
    };
    for (arm, launches) in &all {
        let launches: Vec<&Launch> = launches.iter().collect();
        let shares = [(HITS, share(&launches, |g| g.hit)), (AT_ONCE, share(&launches, |g| g.at_once))];
        let failed = ("failed", share(&launches, |g| !g.connected));
        for (metric, value) in shares.into_iter().filter(|_| cached).chain([failed]) {
            outcome.rows.push(Row::measured(name, metric, "%", arm, value));
        }
    }
    for (arm, launches) in all.iter().filter(|(arm, _)| *arm != BASELINE) {
        for metric in EACH.iter().filter(|_| !cached) {
            let (ours, theirs) = (each(metric, arm, launches), each(metric, BASELINE, base));
            let row = Row::compare(&ours, &theirs, metric.1, Pairing::Paired, outcome.seed)?;
            add_row(outcome, row, Some(metric.2))?;
            outcome.samples.push(ours);
        }
        for (metric, unit, claim, value) in METRICS.iter().filter(|_| cached) {
            let series =
                |arm: &str, all: &[Launch]| Series::with_failures(name, metric, unit, arm, all.iter().map(value));
            let (ours, theirs) = (series(arm, launches), series(BASELINE, base));
            let row = Row::compare(&ours, &theirs, Statistic::Mean, Pairing::Paired, outcome.seed)?;
            add_row(outcome, row, *claim)?;
            outcome.samples.push(ours);
        }
    }
    Ok(())
}

/// Adds a row; beside the claim, if it is of an arm that the claim says something of.
fn add_row(outcome: &mut Outcome, row: Row, claim: Option<(&str, &str)>) -> anyhow::Result<()> {
    match claim.filter(|_| row.arm != OTHERS) {
        Some(claim) => beside(outcome, row, claim),
        None => {
            outcome.rows.push(row);
            Ok(())
        }
    }
}

/// What the whole day cost. Paper 1 claims that power draw does not change (section V); what stands for power here are wake-ups and bytes.
pub fn prices(outcome: &mut Outcome, condition: &str, lived: &[Lived]) {
    for Lived { arm, traffic, wakeups, unused, .. } in lived {
        for (what, unit, amount) in [
            ("wake-ups of the radio", "", traffic.radio_wakeups as f64),
            ("the radio awake", "s", traffic.radio_awake.as_secs_f64()),
            ("wake-ups of connectors by themselves", "", *wakeups as f64),
            ("bytes of lookups and handshakes", "kB", (traffic.bytes_up + traffic.bytes_down) as f64 / 1e3),
            ("DNS queries", "", traffic.queries as f64),
            ("connection attempts", "", traffic.syns as f64),
            ("connections opened and not used", "", *unused as f64),
        ] {
            outcome.price(condition, arm.name, &format!("{what}, the whole day"), unit, amount);
        }
    }
    let of = |name: &str| lived.iter().find(|lived| lived.arm.name == name).map(|lived| lived.traffic);
    let Some((engine, bare)) = of(super::ENGINE).zip(of(BASELINE)) else { return };
    // No significant change; the bound is ours.
    for (what, ours, theirs) in [
        ("wake-ups of the radio", engine.radio_wakeups as f64, bare.radio_wakeups as f64),
        ("time that the radio is awake", engine.radio_awake.as_secs_f64(), bare.radio_awake.as_secs_f64()),
    ] {
        let what = format!("{condition}, the whole day, engine beside sequential, {what}");
        outcome.notes.push(Target::AtMost(1.05).note(&what, ours / theirs, "x"));
    }
}
