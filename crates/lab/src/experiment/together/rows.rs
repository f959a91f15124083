//! Each arm beside bare, the page that loses most, and the project's targets.

use super::arm::{AGAIN, ALL_BUT_ACCESS, ALL_COLUMNS, BARE};
use super::play::{Block, METRICS, PAGE, VISITS};
use crate::experiment::target::Target;
use crate::experiment::{Outcome, Row, Series, losers};
use crate::stats::{Pairing, Statistic};

/// The mean page load time of all columns together, in parts of bare: 45 % less.
const MOST: f64 = 0.55;
/// Leaving out a column that carries no pages changes no page by more.
const SAME: f64 = 0.01;
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
                    outcome.rows.extend(losers::rows(&series, &bare));
                }
                outcome.samples.push(series);
            }
        }
        for taken in &block.taken {
            let arm = taken.arm.name;
            for (part, mean) in block.parts(visit, arm) {
                let metric = format!("of the page load time, {part}, mean");
                outcome.rows.push(Row::measured(&block.condition(visit), &metric, "ms", arm, mean));
            }
        }
        targets(outcome, block, visit)?;
    }
    block.add_prices(outcome);
    let failed: u64 = block.taken.iter().map(|taken| taken.failed).sum();
    if failed > 0 {
        outcome.notes.push(format!("{}: {failed} objects were not loaded, all arms together", block.name));
    }
    Ok(())
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
    let worst = losers::percent(&all, &bare).into_iter().fold(f64::NEG_INFINITY, f64::max);
    note("slower than bare, the page that loses most".into(), Target::AtMost(losers::SLOWER), worst, "%");
    if let Some(bound) = of(ALL_BUT_ACCESS) {
        let ours = ratio(&bare)?;
        let least = ours / ratio(&bound)?;
        if least > MOST {
            let share = 100.0 * (1.0 - ours) / (1.0 - least);
            let text = format!(
                "{condition}: {MOST} is better than {ALL_BUT_ACCESS} allows ({least:.3}); `all` has {share:.0} % of that gain"
            );
            outcome.notes.push(text);
        }
    }
    if let Some(again) = of(AGAIN) {
        let slower = |series: &Series| {
            let percent = losers::percent(series, &bare);
            (percent.iter().filter(|p| **p > losers::SLOWER).count(), percent.len())
        };
        let ((ours, pages), (luck, _)) = (slower(&all), slower(&again));
        let text =
            format!("{condition}: slower than bare by more than 1 %: all {ours}, {AGAIN} {luck} of {pages} pages");
        outcome.notes.push(text);
    }
    Ok(())
}
