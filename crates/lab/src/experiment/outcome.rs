//! What an experiment found: rows that compare an arm with a baseline, the samples behind them, and what it all cost.
//!
//! The shape of a [`Row`] and of [`Outcome::last_line`] is read by other programs and changes only together with
//! [`FORMAT_VERSION`]. Numbers that are not known are null, never zero; nothing here measures.

use super::verdict::{Measured, Printed, judge, judge_ours};
use super::{Claim, Claims, ClaimsError, Extent, Figure, Verdict, Waterfall, is_plausible};
use crate::device::DeviceState;
use crate::stats::{self, Estimate, Interval, Pairing, Statistic, StatsError};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Version of the JSON that is written here.
pub const FORMAT_VERSION: u32 = 1;

/// One comparison: an arm, its baseline, and how they relate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Claim of `docs/claims.toml` that it serves, or none.
    pub claim: Option<String>,
    /// The network and workload.
    pub condition: String,
    /// What was measured, with the statistic: "DNS lookup time, p75".
    pub metric: String,
    /// Unit of `ours` and `baseline`.
    pub unit: String,
    /// The way of doing the work that this row is about.
    pub arm: String,
    /// What it is compared with, or none.
    pub baseline_arm: Option<String>,
    /// The value of the arm, in `unit`.
    pub ours: f64,
    /// The value of the baseline, in `unit`.
    pub baseline: Option<f64>,
    /// `ours` / `baseline`; none if there is no baseline or it is zero.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub interval: Option<Interval>,
    /// The ratio in the paper.
    pub paper: Option<f64>,
    /// What the row says about its claim; absent where none is judged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
}

impl Row {
    /// A value without a baseline.
    pub fn measured(condition: &str, metric: &str, unit: &str, arm: &str, value: f64) -> Self {
        Self {
            claim: None,
            condition: condition.into(),
            metric: metric.into(),
            unit: unit.into(),
            arm: arm.into(),
            baseline_arm: None,
            ours: value,
            baseline: None,
            ratio: None,
            interval: None,
            paper: None,
            verdict: None,
        }
    }

    /// Compares a statistic of two series of the same condition, metric and unit, with the 95 % interval of the ratio.
    ///
    /// Trials that failed have no value and are left out (with [`Pairing::Paired`] the whole pair is); show them with
    /// [`Row::failures`]. A baseline of zero leaves ratio and interval empty.
    pub fn compare(
        ours: &Series,
        baseline: &Series,
        statistic: Statistic,
        pairing: Pairing,
        seed: u64,
    ) -> Result<Self, StatsError> {
        let (a, b) = match pairing {
            Pairing::Paired => ours.pairs(baseline)?,
            Pairing::Unpaired => (ours.present(), baseline.present()),
        };
        let (x, y) = (statistic.of(&a)?, statistic.of(&b)?);
        let (ratio, interval) = match ours.ratio(baseline, statistic, pairing, seed) {
            Ok(r) => (Some(r.value), r.interval),
            Err(StatsError::ZeroBaseline { .. }) => (None, None),
            Err(e) => return Err(e),
        };
        let metric = format!("{}, {statistic}", ours.metric);
        Ok(Self {
            baseline_arm: Some(baseline.arm.clone()),
            baseline: Some(y),
            ratio,
            interval,
            ..Self::measured(&ours.condition, &metric, &ours.unit, &ours.arm, x)
        })
    }

    /// Compares the share of trials that failed, in percent.
    pub fn failures(ours: &Series, baseline: &Series) -> Self {
        let (x, y) = (ours.failed_percent(), baseline.failed_percent());
        Self {
            baseline_arm: Some(baseline.arm.clone()),
            baseline: Some(y),
            ratio: (y > 0.0).then(|| x / y),
            ..Self::measured(&ours.condition, &format!("{}, failed", ours.metric), "%", &ours.arm, x)
        }
    }

    /// Ties the row to claim `id`, takes the paper's ratio from `claims` (the figure against this row's baseline arm in
    /// `case`, see [`Claims::ratio`]) and judges it.
    ///
    /// A claim that has no such figure leaves `paper` and `verdict` empty. A row of another statistic than the figure's is
    /// refused: a 95th percentile says nothing about a median.
    pub fn serving(mut self, claims: &Claims, id: &str, case: &str) -> Result<Self, ClaimsError> {
        let claim = claims.get(id)?;
        let figure = self.baseline_arm.as_deref().and_then(|b| claim.figure(b, case));
        if let Some(statistic) = figure.and_then(|f| f.statistic.as_deref())
            && !self.metric.ends_with(&format!(", {statistic}"))
        {
            let (statistic, metric) = (statistic.into(), self.metric);
            return Err(ClaimsError::OtherStatistic { id: id.into(), statistic, metric });
        }
        self.claim = Some(id.into());
        self.paper = figure.map(Figure::ratio);
        self.verdict = figure.map(|figure| self.judged(claim, figure));
        Ok(self)
    }

    /// Judges a row anew whose numbers were pooled, by the figure that it was compared with before.
    pub(crate) fn judged_anew(mut self, claims: &Claims) -> Self {
        let claim = self.claim.as_deref().and_then(|id| claims.get(id).ok());
        let same = |f: &&Figure| Some(&f.baseline) == self.baseline_arm.as_ref() && Some(f.ratio()) == self.paper;
        let figure = claim.and_then(|claim| Some((claim, claim.figures.iter().find(same)?)));
        self.verdict = figure.map(|(claim, figure)| self.judged(claim, figure));
        self
    }

    pub(crate) fn judged(&self, claim: &Claim, figure: &Figure) -> Verdict {
        let (Some(ratio), Some(interval), Some(baseline)) = (self.ratio, self.interval, self.baseline) else {
            return Verdict::InstrumentOnly;
        };
        let measured = Measured { ratio, interval, baseline };
        // A share of a value cannot be compared with the value.
        let printed = Printed { ratio: figure.ratio(), baseline: figure.theirs.filter(|_| self.unit == claim.unit) };
        if figure.arm == self.arm { judge(measured, printed) } else { judge_ours(measured, printed, claim.better) }
    }
}

/// A time as a value of a series: in ms, to the microsecond, so that a text of it reads back as the same number.
pub(super) fn in_ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// The values of one metric of one arm in one condition, in the order of the trials.
///
/// In a paired design, index i of every arm of a condition is the same trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The network and workload.
    pub condition: String,
    /// What was measured, without a statistic: "DNS lookup time".
    pub metric: String,
    /// Unit of the values.
    pub unit: String,
    /// The way of doing the work.
    pub arm: String,
    /// A value a trial; null for a trial that failed.
    pub values: Vec<Option<f64>>,
    /// Of pooled series: the seeds and how many values each has, end to end. Empty where all are of the result's seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<(u64, usize)>,
}

impl Series {
    /// A series in which every trial has a value.
    pub fn new(condition: &str, metric: &str, unit: &str, arm: &str, values: impl IntoIterator<Item = f64>) -> Self {
        Self::with_failures(condition, metric, unit, arm, values.into_iter().map(Some))
    }

    /// A series in which trials may have failed.
    pub fn with_failures(
        condition: &str,
        metric: &str,
        unit: &str,
        arm: &str,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        Self {
            condition: condition.into(),
            metric: metric.into(),
            unit: unit.into(),
            arm: arm.into(),
            values: values.into_iter().collect(),
            parts: Vec::new(),
        }
    }

    /// The values of the trials that have one.
    pub fn present(&self) -> Vec<f64> {
        self.values.iter().copied().flatten().collect()
    }

    /// How many trials failed.
    pub fn failed(&self) -> usize {
        self.values.iter().filter(|v| v.is_none()).count()
    }

    fn failed_percent(&self) -> f64 {
        // No trials, no failures; max(1) only keeps 0/0 away.
        100.0 * self.failed() as f64 / self.values.len().max(1) as f64
    }

    /// The trials that have a value under both arms.
    pub(crate) fn pairs(&self, other: &Self) -> Result<(Vec<f64>, Vec<f64>), StatsError> {
        if self.values.len() != other.values.len() {
            return Err(StatsError::LengthsDiffer { ours: self.values.len(), baseline: other.values.len() });
        }
        Ok(present(&self.values, &other.values))
    }

    /// A statistic of it divided by that of `baseline`. Of pooled series whole seeds are resampled: their trials have much in common.
    pub(crate) fn ratio(
        &self,
        baseline: &Self,
        statistic: Statistic,
        pairing: Pairing,
        seed: u64,
    ) -> Result<Estimate, StatsError> {
        let (a, b): (Vec<_>, Vec<_>) = match pairing {
            Pairing::Paired if self.parts == baseline.parts && self.values.len() == baseline.values.len() => {
                self.by_part().zip(baseline.by_part()).map(|(a, b)| present(a, b)).unzip()
            }
            Pairing::Paired => {
                let (a, b) = self.pairs(baseline)?;
                (vec![a], vec![b])
            }
            Pairing::Unpaired => {
                let groups = |series: &Self| series.by_part().map(|v| v.iter().copied().flatten().collect()).collect();
                (groups(self), groups(baseline))
            }
        };
        match (&a[..], &b[..]) {
            ([a], [b]) => stats::ratio(a, b, statistic, pairing, seed),
            _ => stats::grouped_ratio(&a, &b, statistic, pairing, seed),
        }
    }

    /// The values of each seed.
    fn by_part(&self) -> impl Iterator<Item = &[Option<f64>]> {
        let whole = [(0, self.values.len())];
        let parts = if self.parts.is_empty() { whole.to_vec() } else { self.parts.clone() };
        let mut rest = &self.values[..];
        parts.into_iter().map(move |(_, n)| {
            let (part, after) = rest.split_at(n.min(rest.len()));
            rest = after;
            part
        })
    }
}

/// The trials that have a value in both.
fn present(a: &[Option<f64>], b: &[Option<f64>]) -> (Vec<f64>, Vec<f64>) {
    a.iter().zip(b).filter_map(|(a, b)| Some(((*a)?, (*b)?))).unzip()
}

/// A condition in words, for the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its name, as in rows.
    pub name: String,
    /// The network and the workload, with numbers and their source.
    pub about: String,
}

/// What an arm cost: extra packets, unused sockets, bytes, processor time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The network and workload.
    pub condition: String,
    /// The way of doing the work.
    pub arm: String,
    /// What was spent: "extra SYNs per connection".
    pub what: String,
    /// Unit of the amount; empty for a plain count.
    pub unit: String,
    /// How much.
    pub amount: f64,
}

/// Everything that an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Version of this format.
    pub version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// Whether the numbers may be believed.
    pub valid: bool,
    /// Why not, one sentence each.
    pub why_invalid: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// How much was asked for, and how long it took; not known of results of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<Extent>,
    /// The comparisons, most important first.
    pub rows: Vec<Row>,
    /// The samples behind them.
    pub samples: Vec<Series>,
    /// What each arm cost.
    pub prices: Vec<Price>,
    /// Page loads to be drawn; of one condition and page each under several arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waterfalls: Vec<Waterfall>,
    /// The conditions in words.
    pub conditions: Vec<Condition>,
    /// How it was measured, one paragraph each.
    pub method: Vec<String>,
    /// Anything that a reader must know, one sentence or paragraph each.
    pub notes: Vec<String>,
    /// The machine during the run, if it was recorded.
    pub device: Option<DeviceState>,
}

impl Outcome {
    /// An outcome without content, valid until something speaks against it.
    pub fn new(experiment: &str, seed: u64) -> Self {
        Self {
            version: FORMAT_VERSION,
            experiment: experiment.into(),
            valid: true,
            why_invalid: Vec::new(),
            seed,
            extent: None,
            rows: Vec::new(),
            samples: Vec::new(),
            prices: Vec::new(),
            waterfalls: Vec::new(),
            conditions: Vec::new(),
            method: Vec::new(),
            notes: Vec::new(),
            device: None,
        }
    }

    /// Marks the run as not to be believed; rows that judged a claim then only show that the instrument works.
    pub fn invalidate(&mut self, why: impl Into<String>) {
        self.valid = false;
        self.why_invalid.push(why.into());
        for verdict in self.rows.iter_mut().filter_map(|r| r.verdict.as_mut()) {
            *verdict = Verdict::InstrumentOnly;
        }
    }

    /// The series of one arm, if it was kept.
    pub fn series(&self, condition: &str, metric: &str, arm: &str) -> Option<&Series> {
        self.samples.iter().find(|s| s.condition == condition && s.metric == metric && s.arm == arm)
    }

    /// The last line of `--json`: one object with `version`, `experiment`, `valid`, `seed` and `rows`, no line break.
    pub fn last_line(&self) -> String {
        /// The part of an outcome that other programs read.
        #[derive(Serialize)]
        struct LastLine<'a> {
            version: u32,
            experiment: &'a str,
            valid: bool,
            seed: u64,
            rows: &'a [Row],
        }
        let Self { version, experiment, valid, seed, rows, .. } = self;
        let line = LastLine { version: *version, experiment, valid: *valid, seed: *seed, rows };
        serde_json::to_string(&line).expect("strings, numbers and booleans always have a JSON form")
    }

    /// Checks what every reader relies on: a time that is one, finite numbers, ratios and intervals that fit, a reason for every invalid run.
    pub fn check(&self) -> Result<(), OutcomeError> {
        let fault = |row: usize, what| Err(OutcomeError::Row { experiment: self.experiment.clone(), row, what });
        if self.valid != self.why_invalid.is_empty() {
            return Err(OutcomeError::Validity { experiment: self.experiment.clone(), valid: self.valid });
        }
        if let Some(seconds) = self.extent.as_ref().map(|extent| extent.seconds).filter(|s| !is_plausible(*s)) {
            return Err(OutcomeError::Time { experiment: self.experiment.clone(), seconds: seconds.to_string() });
        }
        for (i, r) in self.rows.iter().enumerate() {
            let ends = r.interval.map(<[f64; 2]>::from).into_iter().flatten();
            let numbers = [Some(r.ours), r.baseline, r.ratio, r.paper].into_iter().flatten().chain(ends);
            if !numbers.into_iter().all(f64::is_finite) {
                return fault(i, "a number that is not finite");
            }
            if r.baseline.is_some() != r.baseline_arm.is_some() {
                return fault(i, "a baseline without its arm, or an arm without its value");
            }
            match (r.ratio, r.baseline) {
                (Some(_), None) => return fault(i, "a ratio to no baseline"),
                (Some(q), Some(b)) if (q * b - r.ours).abs() > 1e-9 * (r.ours.abs() + b.abs()) => {
                    return fault(i, "a ratio that is not ours / baseline");
                }
                _ => {}
            }
            if r.interval.is_some_and(|n| n.lo > n.hi) {
                return fault(i, "an interval whose ends are swapped");
            }
            if r.verdict.is_some() && r.claim.is_none() {
                return fault(i, "a verdict on no claim");
            }
        }
        for s in &self.samples {
            let series = || format!("{}/{}/{}", s.condition, s.metric, s.arm);
            if s.values.iter().flatten().any(|v| !v.is_finite()) {
                return Err(OutcomeError::Sample { experiment: self.experiment.clone(), series: series() });
            }
            let of_parts = s.parts.iter().try_fold(0usize, |sum, (_, n)| sum.checked_add(*n));
            if !s.parts.is_empty() && of_parts != Some(s.values.len()) {
                return Err(OutcomeError::Parts { experiment: self.experiment.clone(), series: series() });
            }
        }
        Ok(())
    }
}

/// An outcome that no reader could rely on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutcomeError {
    /// A row contradicts itself.
    #[error("experiment '{experiment}', row {row} has {what}: fix the experiment; its results were not written")]
    Row {
        /// The experiment.
        experiment: String,
        /// Index of the row.
        row: usize,
        /// The contradiction.
        what: &'static str,
    },
    /// `valid` and `why_invalid` contradict each other.
    #[error("experiment '{experiment}' says valid = {valid} and its reasons say otherwise: use Outcome::invalidate")]
    Validity {
        /// The experiment.
        experiment: String,
        /// What it says.
        valid: bool,
    },
    /// It says that it took a time that nothing takes.
    #[error("experiment '{experiment}' says that it took {seconds} s; times are from 0 to 30 days")]
    Time {
        /// The experiment.
        experiment: String,
        /// What it says.
        seconds: String,
    },
    /// The seeds of a pooled series have other values than it.
    #[error("experiment '{experiment}', series {series} has not as many values as its parts say")]
    Parts {
        /// The experiment.
        experiment: String,
        /// Condition, metric and arm.
        series: String,
    },
    /// A sample holds NaN or an infinity.
    #[error(
        "experiment '{experiment}', series {series} holds a value that is not finite: record a failed trial as null"
    )]
    Sample {
        /// The experiment.
        experiment: String,
        /// Condition, metric and arm.
        series: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Series, Series) {
        let base: Vec<f64> = (0..20).map(|i| 60.0 + f64::from(i)).collect();
        let ours: Vec<f64> = base.iter().map(|v| v * 0.5).collect();
        (Series::new("c", "time", "ms", "adaptive", ours), Series::new("c", "time", "ms", "sequential", base))
    }

    #[test]
    fn a_row_has_exactly_the_agreed_fields() {
        let (a, b) = pair();
        let row = Row::compare(&a, &b, Statistic::Median, Pairing::Paired, 1).unwrap();
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"claim":null,"condition":"c","metric":"time, median","unit":"ms","arm":"adaptive","baseline_arm":"sequential","ours":34.75,"baseline":69.5,"ratio":0.5,"interval":[0.5,0.5],"paper":null}"#
        );
        let judged = Row { verdict: Some(Verdict::InstrumentOnly), claim: Some("P1.1".into()), ..row };
        assert!(serde_json::to_string(&judged).unwrap().ends_with(r#""paper":null,"verdict":"instrument only"}"#));
    }

    #[test]
    fn a_row_that_serves_a_claim_takes_the_papers_ratio_and_is_judged() {
        let (a, b) = pair();
        let claims = Claims::built_in().unwrap();
        let row = Row::compare(&a, &b, Statistic::Quantile(0.75), Pairing::Paired, 1).unwrap();
        let row = row.serving(&claims, "P1.1", "no-cache").unwrap();
        assert_eq!((row.paper, row.verdict), (Some(0.64), Some(Verdict::Exceeded)), "headstart's own method");
        let papers = Row { arm: "simultaneous".into(), ..row.clone() };
        let judged = |row: Row| row.serving(&claims, "P1.1", "no-cache").unwrap().verdict;
        assert_eq!(judged(papers.clone()), Some(Verdict::Stronger), "the paper's own");
        let elsewhere = Row { ours: 75.0, baseline: Some(150.0), ..papers };
        assert_eq!(judged(elsewhere.clone()), Some(Verdict::ProblemAbsent), "the paper's baseline takes 75 ms");
        assert_eq!(judged(Row { unit: "%".into(), ..elsewhere }), Some(Verdict::Stronger), "no time, so not compared");
        assert!(row.clone().serving(&claims, "P9.9", "").is_err());
        let other = Row { baseline_arm: Some("telegraph".into()), ..row }.serving(&claims, "P1.1", "no-cache").unwrap();
        assert_eq!((other.paper, other.verdict), (None, None));
    }

    #[test]
    fn a_row_of_another_statistic_than_the_papers_is_refused() {
        let (a, b) = pair();
        let row = Row::compare(&a, &b, Statistic::Median, Pairing::Paired, 1).unwrap();
        let text = row.serving(&Claims::built_in().unwrap(), "P1.1", "no-cache").unwrap_err().to_string();
        assert!(text.contains("'time, median'") && text.contains("p75 of claim P1.1"), "{text}");
    }

    #[test]
    fn failed_trials_leave_the_pair_out_and_are_counted_on_their_own() {
        let a = Series::with_failures("c", "time", "ms", "a", [Some(1.0), None, Some(3.0), Some(5.0)]);
        let b = Series::with_failures("c", "time", "ms", "b", [Some(2.0), Some(90.0), None, Some(10.0)]);
        let row = Row::compare(&a, &b, Statistic::Mean, Pairing::Paired, 1).unwrap();
        assert_eq!((row.ours, row.baseline, row.interval), (3.0, Some(6.0), None));
        let failed = Row::failures(&a, &b);
        assert_eq!(
            (failed.ours, failed.baseline, failed.ratio, failed.unit.as_str()),
            (25.0, Some(25.0), Some(1.0), "%")
        );
    }

    #[test]
    fn a_zero_baseline_leaves_the_ratio_empty() {
        let a = Series::new("c", "loss", "%", "a", [1.0; 8]);
        let b = Series::new("c", "loss", "%", "b", [0.0; 8]);
        let row = Row::compare(&a, &b, Statistic::Mean, Pairing::Unpaired, 1).unwrap();
        assert_eq!((row.ours, row.baseline, row.ratio, row.interval), (1.0, Some(0.0), None, None));
    }

    #[test]
    fn the_last_line_is_one_object_with_the_agreed_fields() {
        let mut o = Outcome::new("probe", 9);
        o.notes.push("two\nlines".into());
        assert_eq!(o.last_line(), r#"{"version":1,"experiment":"probe","valid":true,"seed":9,"rows":[]}"#);
    }

    #[test]
    fn an_invalid_run_judges_nothing() {
        let (a, b) = pair();
        let row = Row::compare(&a, &b, Statistic::Quantile(0.75), Pairing::Paired, 1).unwrap();
        let mut o = Outcome::new("probe", 1);
        o.rows = vec![row.serving(&Claims::built_in().unwrap(), "P1.1", "no-cache").unwrap()];
        o.invalidate("the machine was busy");
        assert_eq!(o.rows[0].verdict, Some(Verdict::InstrumentOnly));
        assert_eq!(o.check(), Ok(()));
    }

    #[test]
    fn contradictions_are_refused_and_named() {
        let (a, b) = pair();
        let good = Row::compare(&a, &b, Statistic::Median, Pairing::Paired, 1).unwrap();
        let faults = [
            (Row { ours: f64::NAN, ..good.clone() }, "not finite"),
            (Row { baseline: None, ..good.clone() }, "without its arm"),
            (Row { ratio: Some(0.9), ..good.clone() }, "not ours / baseline"),
            (Row { interval: Some(Interval { lo: 2.0, hi: 1.0 }), ..good.clone() }, "swapped"),
            (Row { verdict: Some(Verdict::Exceeded), ..good.clone() }, "no claim"),
        ];
        for (row, expected) in faults {
            let o = Outcome { rows: vec![good.clone(), row], ..Outcome::new("probe", 1) };
            let text = o.check().unwrap_err().to_string();
            assert!(text.contains("row 1") && text.contains(expected), "{text}");
        }
        assert!(Outcome { valid: false, ..Outcome::new("probe", 1) }.check().is_err());
        for seconds in [1e30, -500.0, f64::NAN, f64::INFINITY] {
            let extent =
                Extent { quick: true, speeds: crate::experiment::Speeds::Both, conditions: None, pages: None, seconds };
            let text = Outcome { extent: Some(extent), ..Outcome::new("probe", 1) }.check().unwrap_err().to_string();
            assert!(text.contains("from 0 to 30 days"), "{text}");
        }
        let nan = Outcome { samples: vec![Series::new("c", "m", "ms", "a", [f64::NAN])], ..Outcome::new("probe", 1) };
        assert!(nan.check().unwrap_err().to_string().contains("c/m/a"));
        let series = Series { parts: vec![(1, usize::MAX), (2, 2)], ..Series::new("c", "m", "ms", "a", [1.0]) };
        let parts = Outcome { samples: vec![series], ..Outcome::new("probe", 1) };
        assert!(parts.check().unwrap_err().to_string().contains("as its parts say"));
    }

    #[test]
    fn outcomes_survive_a_round_trip() {
        let (a, b) = pair();
        let mut o = Outcome::new("probe", u64::MAX);
        o.rows.push(Row::compare(&a, &b, Statistic::Median, Pairing::Paired, 1).unwrap());
        o.samples = vec![a, b];
        let text = serde_json::to_string(&o).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), o);
    }
}
