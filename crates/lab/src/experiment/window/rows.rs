//! Rows and targets of the window experiments: each arm beside the default, its harm beside its gain.

use super::{Arm, Cell, DEFAULT};
use crate::experiment::target::Target;
use crate::experiment::{Claims, Outcome, Row, Series};
use crate::stats::{Pairing, Statistic};

/// What of a trial a series is made of.
#[derive(Clone, Copy)]
pub enum Metric {
    /// How long it took.
    Time,
    /// What the queue dropped, of all flows.
    Drops,
    /// What the server lost.
    Lost,
    /// What the background flows got.
    Background,
}

impl Metric {
    fn name(self, cell: &Cell) -> (String, &'static str) {
        let what = cell.what();
        match self {
            Self::Time => (format!("latency of {what}"), "ms"),
            Self::Drops => (format!("drops beside {what}"), "packets"),
            Self::Lost => (format!("loss ratio of {what}"), "%"),
            Self::Background => (format!("goodput of others beside {what}"), "Mbit/s"),
        }
    }

    fn of(self, cell: &Cell, arm: &Arm) -> Series {
        let (metric, unit) = self.name(cell);
        let values = arm.trials.iter().map(|trial| match self {
            Self::Time => trial.ms,
            Self::Drops => Some(trial.drops),
            Self::Lost => Some(trial.lost),
            Self::Background => Some(trial.background),
        });
        Series::with_failures(&cell.name(), &metric, unit, arm.name, values)
    }
}

/// The row that compares `arm` with the default by the mean of `metric`; `None` for the default itself, and if no trial of
/// either came to an end.
pub fn compared(cell: &Cell, arms: &[Arm], arm: &Arm, metric: Metric, seed: u64) -> anyhow::Result<Option<Row>> {
    let Some(base) = arms.iter().find(|arm| arm.name == DEFAULT) else { return Ok(None) };
    let (ours, theirs) = (metric.of(cell, arm), metric.of(cell, base));
    let both = ours.meets(&theirs);
    if arm.name == DEFAULT || !both {
        return Ok(None);
    }
    Ok(Some(Row::compare(&ours, &theirs, Statistic::Mean, Pairing::Paired, seed)?))
}

/// The series of a cell, and rows of `metrics` for every arm. Returns the ratios of the means, in the order of arms and
/// metrics.
pub fn add(
    outcome: &mut Outcome,
    cell: &Cell,
    arms: &[Arm],
    metrics: &[Metric],
    serving: impl Fn(Row, Metric) -> anyhow::Result<Row>,
) -> anyhow::Result<()> {
    let seed = outcome.seed;
    for arm in arms {
        for metric in metrics {
            outcome.samples.push(metric.of(cell, arm));
            if let Some(row) = compared(cell, arms, arm, *metric, seed)? {
                outcome.rows.push(serving(row, *metric)?);
            }
        }
        let (time, base) = (Metric::Time.of(cell, arm), arms.iter().find(|arm| arm.name == DEFAULT));
        if let Some(base) = base.filter(|base| base.name != arm.name && time.failed() > 0) {
            outcome.rows.push(Row::failures(&time, &Metric::Time.of(cell, base)));
        }
    }
    Ok(())
}

/// The standard deviation of an arm's times beside the default's, for P2.3.
pub fn spread(cell: &Cell, arms: &[Arm], arm: &Arm, claims: &Claims) -> anyhow::Result<Option<Row>> {
    let Some(base) = arms.iter().find(|arm| arm.name == DEFAULT) else { return Ok(None) };
    let deviation = |arm: &Arm| {
        let values = Metric::Time.of(cell, arm).present();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / values.len().saturating_sub(1).max(1) as f64).sqrt()
    };
    let (ours, theirs) = (deviation(arm), deviation(base));
    let (metric, unit) = Metric::Time.name(cell);
    let row = Row::measured(&cell.name(), &format!("{metric}, standard deviation"), unit, arm.name, ours);
    Ok(Some(row.beside(DEFAULT, theirs).serving(claims, "P2.3", "")?))
}

/// The mean of `metric` under `arm`, and its ratio to the default's.
pub fn means(cell: &Cell, arms: &[Arm], name: &str, metric: Metric) -> Option<(f64, f64)> {
    let mean = |name: &str| {
        let values = metric.of(cell, arms.iter().find(|arm| arm.name == name)?).present();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (ours, theirs) = (mean(name)?, mean(DEFAULT)?);
    Some((ours, if theirs == ours { 1.0 } else { ours / theirs }))
}

/// Says whether the ratio of `metric` under `arm` reaches a target. Targets are of virtual time.
pub fn target(outcome: &mut Outcome, cell: &Cell, arms: &[Arm], name: &str, metric: Metric, target: Target) {
    if cell.real {
        return;
    }
    let what = format!("{}, {name}, {}, ratio to default", cell.condition, metric.name(cell).0);
    outcome.notes.push(match means(cell, arms, name, metric) {
        Some((_, ratio)) if ratio.is_finite() => target.note(&what, ratio, "x"),
        _ => format!("{what}: no ratio: the default's is zero, or no transfer finished; target {target}"),
    });
}

/// Says whether the mean of `metric` under `arm` itself reaches a target.
pub fn absolute(outcome: &mut Outcome, cell: &Cell, arms: &[Arm], name: &str, metric: Metric, target: Target) {
    if let (false, Some((ours, _))) = (cell.real, means(cell, arms, name, metric)) {
        let (what, unit) = metric.name(cell);
        outcome.notes.push(target.note(&format!("{}, {name}, {what}", cell.condition), ours, unit));
    }
}
