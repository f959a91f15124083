//! Two results side by side: what got better, what got worse, and what cannot be told apart.
//!
//! Rows are matched by experiment, condition, metric and arm. Where both have the series behind a row, the second's value is divided by the
//! first's with a bootstrap interval, in pairs where both come from the same seeds, all of them; otherwise the two values are compared without
//! an interval, and nothing is judged. What has no direction that is better (a count, a share) is never called worse.

use crate::experiment::{Direction, Outcome, Row, Series};
use crate::stats::{Interval, Pairing, Statistic};
use serde::Serialize;

/// Seed of the resamples.
const SEED: u64 = 1;

/// What is said of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// The whole interval is worse.
    Worse,
    /// The whole interval is better.
    Better,
    /// The whole interval is beside one; which way is better is not known.
    Changed,
    /// The interval reaches one.
    Same,
    /// There is no interval.
    Unknown,
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Changed => "changed",
            Self::Same => "same",
            Self::Unknown => "no interval",
        })
    }
}

/// A row in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The experiment.
    pub experiment: String,
    /// The network and workload.
    pub condition: String,
    /// What was measured, with the statistic.
    pub metric: String,
    /// The unit of `before` and `after`.
    pub unit: String,
    /// The way of doing the work.
    pub arm: String,
    /// The value in the first result.
    pub before: f64,
    /// The value in the second.
    pub after: f64,
    /// `after` / `before`; none if that is zero.
    pub ratio: Option<f64>,
    /// Its 95 % interval, where the samples are there.
    pub interval: Option<Interval>,
    /// What that says.
    pub judged: Judged,
}

/// Two results side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Rows that are in both, worst first.
    pub changes: Vec<Difference>,
    /// Rows that only the first has, as "experiment: condition, metric, arm".
    pub only_before: Vec<String>,
    /// Rows that only the second has.
    pub only_after: Vec<String>,
}

/// Compares the rows of two results. A change of less than `tolerance` (0.02 for 2 %) is the same.
pub fn compare(before: &[Outcome], after: &[Outcome], tolerance: f64) -> Comparison {
    let mut changes: Vec<Difference> = Vec::new();
    let mut only_after = Vec::new();
    for new in after {
        let old = before.iter().find(|old| is_same_kind(old, new));
        for row in rows(new) {
            let earlier = old.and_then(|old| Some((old, old.rows.iter().find(|earlier| is_same_row(earlier, row))?)));
            match earlier {
                Some((old, earlier)) => changes.push(change(old, earlier, new, row, tolerance)),
                None => only_after.push(name(new, row)),
            }
        }
    }
    let is_gone = |old: &Outcome, row: &Row| {
        let new = after.iter().find(|new| is_same_kind(old, new));
        !new.is_some_and(|new| new.rows.iter().any(|later| is_same_row(row, later)))
    };
    let gone = before.iter().flat_map(|old| rows(old).map(move |row| (old, row)));
    let only_before = gone.filter(|(old, row)| is_gone(old, row)).map(|(old, row)| name(old, row)).collect();
    changes.sort_by_key(|change| change.judged);
    Comparison { changes, only_before, only_after }
}

/// The rows of a result, each arm once: it stands in a row for each of its baselines.
fn rows(outcome: &Outcome) -> impl Iterator<Item = &Row> {
    let is_first = |n: usize, row: &Row| !outcome.rows[..n].iter().any(|before| is_same_row(before, row));
    outcome.rows.iter().enumerate().filter(move |(n, row)| is_first(*n, row)).map(|(_, row)| row)
}

fn is_same_row(a: &Row, b: &Row) -> bool {
    (&a.condition, &a.metric, &a.arm, &a.unit) == (&b.condition, &b.metric, &b.arm, &b.unit)
}

fn name(outcome: &Outcome, row: &Row) -> String {
    format!("{}: {}, {}, {}", outcome.experiment, row.condition, row.metric, row.arm)
}

/// Results of another extent, and of other pages, are not of the same kind.
fn is_same_kind(a: &Outcome, b: &Outcome) -> bool {
    let extent = |o: &Outcome| o.extent.as_ref().map(|e| (e.quick, e.speeds, e.pages.clone()));
    a.experiment == b.experiment && extent(a) == extent(b)
}

fn change(old: &Outcome, earlier: &Row, new: &Outcome, row: &Row, tolerance: f64) -> Difference {
    let estimate = row.metric.rsplit_once(", ").and_then(|(metric, statistic)| {
        let statistic: Statistic = statistic.parse().ok()?;
        let a = new.series(&row.condition, metric, &row.arm)?;
        let b = old.series(&row.condition, metric, &row.arm)?;
        let is_paired = parts(new, a) == parts(old, b);
        let pairing = if is_paired { Pairing::Paired } else { Pairing::Unpaired };
        a.ratio(b, statistic, pairing, SEED).ok()
    });
    let (ratio, interval) = match estimate {
        Some(estimate) => (Some(estimate.value), estimate.interval),
        None => ((earlier.ours != 0.0).then(|| row.ours / earlier.ours), None),
    };
    Difference {
        experiment: new.experiment.clone(),
        condition: row.condition.clone(),
        metric: row.metric.clone(),
        unit: row.unit.clone(),
        arm: row.arm.clone(),
        before: earlier.ours,
        after: row.ours,
        ratio,
        interval,
        judged: judged(interval, better(&row.unit), tolerance),
    }
}

/// The seeds that a series is of, and how many trials of each it has: where they are the same, trials are pairs.
fn parts(outcome: &Outcome, series: &Series) -> Vec<(u64, usize)> {
    if series.parts.is_empty() { vec![(outcome.seed, series.values.len())] } else { series.parts.clone() }
}

/// Which way is better, where the unit says so: times are to be short, rates high.
fn better(unit: &str) -> Option<Direction> {
    match unit {
        "us" | "µs" | "ms" | "s" => Some(Direction::Lower),
        _ if unit.ends_with("bit/s") => Some(Direction::Higher),
        _ => None,
    }
}

fn judged(interval: Option<Interval>, better: Option<Direction>, tolerance: f64) -> Judged {
    let Some(Interval { lo, hi }) = interval else { return Judged::Unknown };
    let (lower, higher) = (hi < 1.0 / (1.0 + tolerance), lo > 1.0 + tolerance);
    match (lower, higher, better) {
        (false, false, _) => Judged::Same,
        (_, _, None) => Judged::Changed,
        (true, _, Some(Direction::Lower)) | (_, true, Some(Direction::Higher)) => Judged::Better,
        _ => Judged::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::tests::outcome;
    use super::*;

    /// The same result with `arm` slower by `factor`.
    fn slower(factor: f64) -> Outcome {
        let mut outcome = outcome(1);
        outcome.samples[0].values.iter_mut().for_each(|v| *v = v.map(|v| v * factor));
        let (a, b) = (outcome.samples[0].clone(), outcome.samples[1].clone());
        outcome.rows[0] = Row::compare(&a, &b, Statistic::Median, Pairing::Paired, 1).unwrap();
        outcome
    }

    #[test]
    fn a_regression_is_named_first_and_the_same_is_the_same() {
        let of = |after: Outcome, tolerance| compare(&[outcome(1)], &[after], tolerance).changes;
        let same = of(outcome(1), 0.0);
        assert_eq!(same[0].judged, Judged::Same);
        let worse = of(slower(1.1), 0.0);
        assert_eq!((worse[0].judged, worse[0].metric.as_str()), (Judged::Worse, "connect time, median"));
        assert!((worse[0].ratio.unwrap() - 1.1).abs() < 1e-9 && worse[0].interval.is_some());
        assert_eq!(of(slower(1.1), 0.2)[0].judged, Judged::Same, "within the tolerance");
        assert_eq!(of(slower(0.9), 0.0)[0].judged, Judged::Better);
        let counts = worse.iter().find(|c| c.metric == "attempts").unwrap();
        assert_eq!((counts.judged, counts.interval), (Judged::Unknown, None));
    }

    #[test]
    fn trials_are_pairs_only_where_all_seeds_are_the_same() {
        // The second seed is of another level: with a wrong partner each trial differs from it by far.
        let of = |seeds: [u64; 2]| {
            let mut all = slower(1.0);
            for series in &mut all.samples {
                let more: Vec<_> = series.values.iter().map(|v| v.map(|v| v * (1.0 + seeds[1] as f64))).collect();
                series.parts = vec![(seeds[0], series.values.len()), (seeds[1], more.len())];
                series.values.extend(more);
            }
            let (a, b) = (&all.samples[0], &all.samples[1]);
            all.rows[0] = Row::compare(a, b, Statistic::Median, Pairing::Paired, 1).unwrap();
            all
        };
        let interval = |after: Outcome| compare(&[of([1, 2])], &[after], 0.0).changes[0].interval.unwrap();
        let same = interval(of([1, 2]));
        assert_eq!((same.lo, same.hi), (1.0, 1.0), "in pairs nothing differs");
        let other = interval(of([1, 3]));
        let (new, old) = (of([1, 3]), of([1, 2]));
        let unpaired = new.samples[0].ratio(&old.samples[0], Statistic::Median, Pairing::Unpaired, SEED).unwrap();
        assert_eq!(Some(other), unpaired.interval);
    }

    #[test]
    fn rates_are_better_when_they_are_higher_and_counts_are_neither() {
        let beyond = Some(Interval { lo: 1.2, hi: 1.3 });
        assert_eq!(judged(beyond, better("Mbit/s"), 0.0), Judged::Better);
        assert_eq!(judged(beyond, better("ms"), 0.0), Judged::Worse);
        assert_eq!(judged(beyond, better("SYNs"), 0.0), Judged::Changed);
    }

    #[test]
    fn what_has_no_counterpart_is_named() {
        let mut more = outcome(1);
        more.rows.push(Row::measured("healthy", "queries", "", "adaptive", 3.0));
        let found = compare(&[more.clone()], &[outcome(1)], 0.0);
        assert_eq!(found.only_before, ["connect-model: healthy, queries, adaptive"]);
        assert!(found.only_after.is_empty() && compare(&[outcome(1)], &[more], 0.0).only_after.len() == 1);
    }

    #[test]
    fn results_of_another_extent_are_not_compared() {
        let extent = crate::experiment::Extent {
            quick: true,
            speeds: crate::experiment::Speeds::Virtual,
            conditions: None,
            pages: None,
            seconds: 1.0,
        };
        let of = |pages: Option<&str>| {
            let extent = crate::experiment::Extent { pages: pages.map(Into::into), ..extent.clone() };
            Outcome { extent: Some(extent), ..outcome(1) }
        };
        assert!(compare(&[outcome(1)], &[of(None)], 0.0).changes.is_empty());
        // Of two sets of pages each is compared with itself, whatever their order.
        let slower = Outcome { extent: of(Some("p")).extent, ..slower(2.0) };
        let found = compare(&[of(Some("q")), of(Some("p"))], &[slower, of(Some("q"))], 0.0);
        let judged: Vec<_> = found.changes.iter().map(|change| change.judged).collect();
        assert_eq!(judged, [Judged::Worse, Judged::Same, Judged::Unknown, Judged::Unknown]);
        assert!(found.only_before.is_empty() && found.only_after.is_empty());
    }
}
