//! The results of many seeds as one result, with the same rows.
//!
//! A row that is a statistic of two series is computed anew from the series of all seeds, end to end, with an interval from whole seeds
//! resampled (paired where it was). Whether it is such a row is not guessed: the statistic that its name says is computed of
//! the series of each task, and must be the row's value. All other rows (counts, shares, model figures) are the mean over the tasks,
//! resampled by task.

use super::{Counted, Task};
use crate::experiment::{Claims, Condition, Extent, Outcome, Price, Row, Series, Speeds};
use crate::stats::{self, Heterogeneity, Interval, Pairing, Statistic};
use std::collections::{BTreeMap, BTreeSet};

/// Seed of the resamples: a report of the same results is the same.
const SEED: u64 = 1;
/// Notes of the tasks that are kept.
const MOST_NOTES: usize = 40;

/// What comes together: results of another extent or of other pages are another experiment.
type Key = (String, bool, bool, Option<String>);

/// Results while they are being pooled.
#[derive(Debug, Default)]
pub struct Pooled {
    groups: BTreeMap<Key, Group>,
}

/// How far the tasks of a row, and the hosts that did them, agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The experiment.
    pub experiment: String,
    /// The row: condition, metric, arm and baseline.
    pub row: Row,
    /// Between seeds.
    pub seeds: Heterogeneity,
    /// Between hosts, if there were several; in virtual time hosts do not matter.
    pub hosts: Option<Heterogeneity>,
}

/// What is pooled of one row: it, and what it was in each task.
#[derive(Debug)]
struct Line {
    row: Row,
    /// How it follows from series, while that holds of every task.
    rule: Option<(String, Statistic, Pairing)>,
    tasks: Vec<Of>,
}

/// A row in one task.
#[derive(Debug)]
struct Of {
    host: String,
    ours: f64,
    baseline: Option<f64>,
    ratio: Option<f64>,
    interval: Option<Interval>,
}

#[derive(Debug)]
struct Group {
    /// The first result, for what is the same in all.
    first: Outcome,
    lines: Vec<Line>,
    samples: Vec<Series>,
    conditions: Vec<Condition>,
    prices: Vec<(Price, usize)>,
    notes: Vec<String>,
    seeds: BTreeSet<u64>,
    planned: BTreeSet<String>,
    hosts: BTreeSet<String>,
    speeds: Speeds,
    tasks: usize,
    seconds: f64,
}

impl Pooled {
    /// Adds a result. One that is not valid is left out.
    pub fn add(&mut self, counted: &Counted) {
        let (task, outcome) = (&counted.record.task, &counted.outcome);
        if !outcome.valid {
            return;
        }
        let pages = task.pages.as_ref().map(|pages| pages.sha256.clone());
        let key = (task.experiment.clone(), pages.is_some(), task.quick, pages);
        let group = self.groups.entry(key).or_insert_with(|| Group::new(task, outcome));
        group.add(task, &counted.record.host, outcome);
    }

    /// The pooled results, by experiment; full runs of the built-in pages before others.
    pub fn finish(self, claims: &Claims) -> Vec<(Outcome, Vec<Agreement>)> {
        self.groups.into_values().map(|group| group.finish(claims)).collect()
    }
}

/// Pools results that are all there.
pub fn pool<'a>(results: impl IntoIterator<Item = &'a Counted>, claims: &Claims) -> Vec<(Outcome, Vec<Agreement>)> {
    let mut pooled = Pooled::default();
    results.into_iter().for_each(|counted| pooled.add(counted));
    pooled.finish(claims)
}

impl Group {
    fn new(task: &Task, outcome: &Outcome) -> Self {
        let first = Outcome { rows: Vec::new(), samples: Vec::new(), prices: Vec::new(), ..outcome.clone() };
        Self {
            first,
            lines: Vec::new(),
            samples: Vec::new(),
            conditions: Vec::new(),
            prices: Vec::new(),
            notes: Vec::new(),
            seeds: BTreeSet::new(),
            planned: BTreeSet::new(),
            hosts: BTreeSet::new(),
            speeds: task.speed,
            tasks: 0,
            seconds: 0.0,
        }
    }

    fn add(&mut self, task: &Task, host: &str, outcome: &Outcome) {
        self.tasks += 1;
        self.seeds.insert(task.seed);
        self.planned.insert(task.condition.clone());
        self.hosts.insert(host.to_owned());
        self.seconds += outcome.extent.as_ref().map_or(0.0, |extent| extent.seconds);
        if self.speeds != task.speed {
            self.speeds = Speeds::Both;
        }
        for (n, row) in outcome.rows.iter().enumerate() {
            self.add_row(n, row, host, outcome);
        }
        for (n, series) in outcome.samples.iter().enumerate() {
            match position(&self.samples, n, |s| same_series(s, series)) {
                Some(at) => {
                    let pooled = &mut self.samples[at];
                    pooled.values.extend_from_slice(&series.values);
                    pooled.parts.push((task.seed, series.values.len()));
                }
                None => {
                    let parts = vec![(task.seed, series.values.len())];
                    self.samples.push(Series { parts, ..series.clone() });
                }
            }
        }
        for price in &outcome.prices {
            let same = |p: &&mut (Price, usize)| {
                (&p.0.condition, &p.0.arm, &p.0.what) == (&price.condition, &price.arm, &price.what)
            };
            match self.prices.iter_mut().find(same) {
                Some((pooled, n)) => {
                    pooled.amount += price.amount;
                    *n += 1;
                }
                None => self.prices.push((price.clone(), 1)),
            }
        }
        for condition in &outcome.conditions {
            if !self.conditions.iter().any(|c| c.name == condition.name) {
                self.conditions.push(condition.clone());
            }
        }
        for note in &outcome.notes {
            if self.notes.len() < MOST_NOTES && !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }

    fn add_row(&mut self, n: usize, row: &Row, host: &str, outcome: &Outcome) {
        let (ours, baseline, ratio, interval) = (row.ours, row.baseline, row.ratio, row.interval);
        let of = Of { host: host.to_owned(), ours, baseline, ratio, interval };
        let rule = rule(row, outcome);
        match position(&self.lines, n, |line| same_row(&line.row, row)) {
            Some(at) => {
                let line = &mut self.lines[at];
                if line.rule != rule {
                    line.rule = None;
                }
                line.tasks.push(of);
            }
            None => self.lines.push(Line { row: row.clone(), rule, tasks: vec![of] }),
        }
    }

    fn finish(self, claims: &Claims) -> (Outcome, Vec<Agreement>) {
        let experiment = &self.first.experiment;
        let rows: Vec<Row> = self.lines.iter().map(|line| line.pooled(&self.samples).judged_anew(claims)).collect();
        let agreements =
            self.lines.iter().zip(&rows).filter_map(|(line, row)| line.agreement(experiment, row)).collect();
        let list = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(", ");
        let (from, to) = (self.seeds.first().copied().unwrap_or(0), self.seeds.last().copied().unwrap_or(0));
        let mut notes = vec![format!(
            "Pooled of {} tasks with {} seeds from {from} to {to}, done by {}.",
            self.tasks,
            self.seeds.len(),
            list(&self.hosts)
        )];
        notes.extend(self.notes);
        let quick = self.first.extent.as_ref().is_some_and(|extent| extent.quick);
        let conditions = Some(self.planned.into_iter().collect());
        let pages = self.first.extent.as_ref().and_then(|extent| extent.pages.clone());
        let seconds = (self.seconds / self.seeds.len().max(1) as f64 * 1e3).round() / 1e3;
        let extent = Extent { quick, speeds: self.speeds, conditions, pages, seconds };
        let prices = self.prices.into_iter().map(|(price, n)| Price { amount: price.amount / n as f64, ..price });
        let mut samples = self.samples;
        for series in samples.iter_mut().filter(|series| matches!(series.parts[..], [(seed, _)] if seed == from)) {
            series.parts.clear();
        }
        let outcome = Outcome {
            seed: from,
            extent: Some(extent),
            rows,
            samples,
            prices: prices.collect(),
            conditions: self.conditions,
            notes,
            ..self.first
        };
        (outcome, agreements)
    }
}

impl Line {
    /// The row of all tasks.
    fn pooled(&self, samples: &[Series]) -> Row {
        let row = &self.row;
        let of = |arm: &str, metric: &str| {
            samples.iter().find(|s| s.condition == row.condition && s.metric == metric && s.arm == arm)
        };
        let anew = self.rule.as_ref().and_then(|(metric, statistic, pairing)| {
            let (ours, baseline) = (of(&row.arm, metric)?, of(row.baseline_arm.as_deref()?, metric)?);
            Row::compare(ours, baseline, *statistic, *pairing, SEED).ok()
        });
        let found = anew.or_else(|| {
            let series = |values: Vec<Option<f64>>| Series::with_failures("", "", "", "", values);
            let ours = series(self.tasks.iter().map(|of| Some(of.ours)).collect());
            let baseline = series(self.tasks.iter().map(|of| of.baseline).collect());
            row.baseline_arm.as_ref()?;
            Row::compare(&ours, &baseline, Statistic::Mean, Pairing::Paired, SEED).ok()
        });
        match found {
            Some(Row { ours, baseline, ratio, interval, .. }) => Row { ours, baseline, ratio, interval, ..row.clone() },
            None => {
                let ours = self.tasks.iter().map(|of| of.ours).sum::<f64>() / self.tasks.len() as f64;
                Row { ours, ..row.clone() }
            }
        }
    }

    /// How far its tasks agree; none where they have no ratio.
    fn agreement(&self, experiment: &str, row: &Row) -> Option<Agreement> {
        let estimates = |of: &dyn Fn(&Of) -> bool| -> Vec<(f64, Option<Interval>)> {
            self.tasks.iter().filter(|t| of(t)).filter_map(|t| Some((t.ratio?, t.interval))).collect()
        };
        let seeds = stats::heterogeneity(&estimates(&|_| true))?;
        let hosts: BTreeSet<&str> = self.tasks.iter().map(|of| of.host.as_str()).collect();
        let by_host: Vec<(f64, Option<Interval>)> = hosts
            .iter()
            .filter_map(|host| stats::combine(&estimates(&|of| of.host == **host)))
            .map(|(ratio, interval)| (ratio, Some(interval)))
            .collect();
        let hosts = if by_host.len() > 1 { stats::heterogeneity(&by_host) } else { None };
        Some(Agreement { experiment: experiment.to_owned(), row: row.clone(), seeds, hosts })
    }
}

/// Where the one that is wanted stands. Results of one kind have the same order, so that it is looked for at `likely` first.
fn position<T>(all: &[T], likely: usize, is: impl Fn(&T) -> bool) -> Option<usize> {
    if all.get(likely).is_some_and(&is) { Some(likely) } else { all.iter().position(is) }
}

fn same_series(a: &Series, b: &Series) -> bool {
    (&a.condition, &a.metric, &a.arm, &a.unit) == (&b.condition, &b.metric, &b.arm, &b.unit)
}

fn same_row(a: &Row, b: &Row) -> bool {
    (&a.condition, &a.metric, &a.arm, &a.baseline_arm) == (&b.condition, &b.metric, &b.arm, &b.baseline_arm)
        && (&a.unit, &a.claim, a.paper) == (&b.unit, &b.claim, b.paper)
}

/// The statistic of which series `row` is, if it is one: its name says which, its numbers whether it is true.
fn rule(row: &Row, outcome: &Outcome) -> Option<(String, Statistic, Pairing)> {
    let (metric, statistic) = row.metric.rsplit_once(", ")?;
    let statistic: Statistic = statistic.parse().ok()?;
    let ours = outcome.series(&row.condition, metric, &row.arm)?;
    let baseline = outcome.series(&row.condition, metric, row.baseline_arm.as_deref()?)?;
    let is = |(a, b): (Vec<f64>, Vec<f64>)| {
        let near = |value: Option<f64>, row: Option<f64>| {
            value.zip(row).is_some_and(|(a, b)| (a - b).abs() <= 1e-9 * (a.abs() + b.abs()))
        };
        near(statistic.of(&a).ok(), Some(row.ours)) && near(statistic.of(&b).ok(), row.baseline)
    };
    if ours.pairs(baseline).is_ok_and(is) {
        return Some((metric.to_owned(), statistic, Pairing::Paired));
    }
    is((ours.present(), baseline.present())).then(|| (metric.to_owned(), statistic, Pairing::Unpaired))
}

#[cfg(test)]
mod tests {
    use super::super::Provenance;
    use super::super::folder::tests::{outcome, task};
    use super::*;

    fn counted(seed: u64, host: &str) -> Counted {
        let (version, sha256) = (1, String::new());
        Counted {
            record: Provenance { version, task: task(seed), host: host.into(), runs: 1, sha256, brief: None },
            outcome: outcome(seed),
        }
    }

    fn pooled(results: &[Counted]) -> (Outcome, Vec<Agreement>) {
        let mut all = pool(results, &Claims::built_in().unwrap());
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn one_seed_pooled_is_itself() {
        let (one, _) = pooled(&[counted(1, "a")]);
        let original = outcome(1);
        assert_eq!((&one.rows, &one.samples), (&original.rows, &original.samples));
        one.check().unwrap();
    }

    #[test]
    fn a_statistic_is_of_the_values_of_all_seeds_and_other_rows_are_means() {
        let results: Vec<Counted> = (1..=3).map(|seed| counted(seed, "a")).collect();
        let (all, _) = pooled(&results);
        assert_eq!((all.samples[0].values.len(), &all.samples[0].parts[..]), (30, &[(1, 10), (2, 10), (3, 10)][..]));
        let median = stats::median(&all.samples[0].present()).unwrap();
        assert_eq!((all.rows[0].ours, all.rows[0].metric.as_str()), (median, "connect time, median"));
        let ratio = all.rows[0].ratio.unwrap();
        assert!((ratio - 0.8).abs() < 1e-12 && all.rows[0].interval.is_some());
        assert_eq!((all.rows[1].ours, all.rows[1].ratio), (3.0, None), "attempts: the mean of 2, 3 and 4");
        assert!(all.notes[0].contains("3 tasks with 3 seeds from 1 to 3, done by a"), "{}", all.notes[0]);
        all.check().unwrap();
    }

    #[test]
    fn an_interval_is_as_wide_as_seeds_differ() {
        let mut results: Vec<Counted> = (1..=12).map(|seed| counted(seed, "a")).collect();
        for (n, counted) in results.iter_mut().enumerate() {
            let outcome = &mut counted.outcome;
            outcome.samples[0].values.iter_mut().flatten().for_each(|v| *v *= 1.0 + 0.1 * n as f64);
            let (a, b) = (&outcome.samples[0], &outcome.samples[1]);
            outcome.rows[0] = Row::compare(a, b, Statistic::Median, Pairing::Paired, 1).unwrap();
        }
        let (all, _) = pooled(&results);
        let bare = |series: &Series| Series { parts: Vec::new(), ..series.clone() };
        let (a, b) = (bare(&all.samples[0]), bare(&all.samples[1]));
        let single = Row::compare(&a, &b, Statistic::Median, Pairing::Paired, 1).unwrap();
        let wide = |row: &Row| row.interval.map(|i| i.hi - i.lo).unwrap();
        assert_eq!(all.rows[0].ratio, single.ratio);
        assert!(wide(&all.rows[0]) > 1.5 * wide(&single), "{:?} {:?}", all.rows[0].interval, single.interval);
    }

    #[test]
    fn a_row_that_only_looks_like_a_statistic_of_its_series_is_not_computed_from_it() {
        let mut results: Vec<Counted> = (1..=3).map(|seed| counted(seed, "a")).collect();
        for counted in &mut results {
            let row = &mut counted.outcome.rows[0];
            (row.ours, row.baseline, row.ratio) = (7.0, Some(14.0), Some(0.5));
        }
        let (all, _) = pooled(&results);
        assert_eq!((all.rows[0].ours, all.rows[0].baseline, all.rows[0].ratio), (7.0, Some(14.0), Some(0.5)));
    }

    #[test]
    fn what_was_not_valid_is_not_pooled_and_hosts_are_compared() {
        let mut results: Vec<Counted> = (1..=4).map(|seed| counted(seed, if seed < 3 { "a" } else { "b" })).collect();
        results[3].outcome.invalidate("busy");
        for (n, counted) in results.iter_mut().enumerate() {
            let ratio = 0.8 + 0.05 * n as f64;
            let row = &mut counted.outcome.rows[0];
            row.ratio = Some(ratio);
            row.interval = Some(Interval { lo: ratio * 0.99, hi: ratio * 1.01 });
        }
        let (all, agreements) = pooled(&results);
        assert_eq!(all.samples[0].values.len(), 30);
        let [agreement] = agreements.as_slice() else { panic!("{agreements:?}") };
        assert_eq!((agreement.seeds.estimates, agreement.seeds.least, agreement.seeds.most), (3, 0.8, 0.9));
        assert!(agreement.seeds.i_squared_percent.unwrap() > 50.0);
        assert_eq!(agreement.hosts.unwrap().estimates, 2);
    }
}
