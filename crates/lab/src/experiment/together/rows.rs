//! Each arm beside bare, the page that loses most, and the project's targets.

use super::arm::{ALL_COLUMNS, BARE};
use super::play::{Block, METRICS, PAGE, VISITS};
use crate::experiment::target::Target;
use crate::experiment::{Outcome, Row, Series};
use crate::stats::{Pairing, Statistic};

/// The mean page load time of all columns together, in parts of bare: 45 % less.
const MOST: f64 = 0.55;
/// Leaving out a column that carries no pages changes no page by more.
const SAME: f64 = 0.01;
/// A page that is slower by less is not slower, in percent.
const SLOWER: f64 = 1.0;
/// Without each of these, pages must be slower than with all.
const CARRYING: [&str; 3] = ["all-but-connect", "all-but-cwnd", "all-but-steer"];
/// Without this, as quick.
const OTHER: &str = "all-but-realtime";

/// Adds everything that a block shows.
pub fn add(outcome: &mut Outcome, block: &Block) -> anyhow::Result<()> {
    for visit in 0..VISITS.len() {
        for (metric, name) in METRICS.iter().enumerate() {
            let Some(bare) = block.series(visit, metric, BARE) else { continue };
            for taken in &block.taken {
                let Some(series) = block.series(visit, metric, taken.arm.name) else { continue };
                if taken.arm.name != BARE {
                    for statistic in [Statistic::Mean, Statistic::Median] {
                        let row = Row::compare(&series, &bare, statistic, Pairing::Paired, outcome.seed)?;
                        outcome.rows.push(row);
                    }
                }
                if *name == PAGE && taken.arm.name != BARE {
                    outcome.rows.extend(losers(&series, &bare));
                }
                outcome.samples.push(series);
            }
        }
        targets(outcome, block, visit)?;
    }
    outcome.prices.extend(block.prices());
    let failed: u64 = block.taken.iter().map(|taken| taken.failed).sum();
    if failed > 0 {
        outcome.notes.push(format!("{}: {failed} objects were not loaded, all arms together", block.name));
    }
    Ok(())
}

/// By how much pages are slower than bare, in percent.
fn slower(series: &Series, bare: &Series) -> Vec<f64> {
    series.present().iter().zip(bare.present()).filter(|(_, b)| *b > 0.0).map(|(a, b)| 100.0 * (a / b - 1.0)).collect()
}

fn losers(series: &Series, bare: &Series) -> Vec<Row> {
    let percent = slower(series, bare);
    let worst = percent.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !worst.is_finite() {
        return Vec::new();
    }
    let share = 100.0 * percent.iter().filter(|p| **p > SLOWER).count() as f64 / percent.len() as f64;
    let row = |metric: &str, value: f64| Row::measured(&series.condition, metric, "%", &series.arm, value);
    vec![
        row("slower than bare, the page that loses most", worst),
        row("pages slower than bare by more than 1 %", share),
    ]
}

fn targets(outcome: &mut Outcome, block: &Block, visit: usize) -> anyhow::Result<()> {
    let of = |arm: &str| block.series(visit, 0, arm);
    let (Some(all), Some(bare)) = (of(ALL_COLUMNS), of(BARE)) else { return Ok(()) };
    let condition = block.condition(visit);
    let mut note = |what: String, target: Target, value: f64, unit: &str| {
        outcome.notes.push(target.note(&format!("{condition}, all: {what}"), value, unit));
    };
    let ratio = |other: &Series| -> anyhow::Result<f64> {
        Ok(Statistic::Mean.of(&all.present())? / Statistic::Mean.of(&other.present())?)
    };
    note("mean page load time in parts of bare".into(), Target::AtMost(MOST), ratio(&bare)?, "x");
    for name in CARRYING {
        if let Some(without) = of(name) {
            note(format!("gained over {name}"), Target::AtLeast(0.0), 100.0 * (1.0 - ratio(&without)?), "%");
        }
    }
    if let Some(without) = of(OTHER) {
        note(
            format!("differs from {OTHER} by"),
            Target::AtMost(100.0 * SAME),
            100.0 * (ratio(&without)? - 1.0).abs(),
            "%",
        );
    }
    let worst = slower(&all, &bare).into_iter().fold(f64::NEG_INFINITY, f64::max);
    note("slower than bare, the page that loses most".into(), Target::AtMost(SLOWER), worst, "%");
    Ok(())
}
