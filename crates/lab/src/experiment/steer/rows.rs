//! Each policy beside the fat channel alone, the bytes that it spends, the page that loses most, and the project's targets.

use super::play::Block;
use super::{FAT, METRIC, OURS, STATE};
use crate::experiment::target::Target;
use crate::experiment::{Outcome, Price, Row};
use crate::stats::{Pairing, Statistic};

/// A page that is slower by less is not slower, in percent.
const SLOWER: f64 = 1.0;
/// How far a policy must be ahead of the paper's best one through a tunnel, in points: the project's own target.
const AHEAD: f64 = 5.0;

/// Adds everything that a block shows; `serving` ties rows to claims.
pub fn add(outcome: &mut Outcome, block: &Block, serving: impl Fn(Row) -> anyhow::Result<Row>) -> anyhow::Result<()> {
    let name = &block.cell.name;
    let Some(base) = block.series(FAT) else { return Ok(()) };
    let mut means: Vec<(&'static str, f64, f64)> = Vec::new();
    for (n, (entry, times)) in block.times.iter().enumerate() {
        let Some(series) = block.series(entry.name) else { continue };
        let share = |bytes: &[f64; 2]| 100.0 * bytes[1] / (bytes[0] + bytes[1]).max(1.0);
        let pages = block.bytes[n].len().max(1) as f64;
        let mean_share = block.bytes[n].iter().map(share).sum::<f64>() / pages;
        let fast_kb = block.bytes[n].iter().map(|b| b[1]).sum::<f64>() / pages / 1e3;
        if entry.name != FAT {
            outcome.rows.push(serving(Row::compare(&series, &base, Statistic::Mean, Pairing::Paired, outcome.seed)?)?);
            let saved: Vec<f64> =
                times.iter().zip(&base.values).filter_map(|(t, b)| Some(100.0 * (1.0 - t / (*b)?))).collect();
            let worst = saved.iter().copied().fold(f64::INFINITY, f64::min);
            let slower = saved.iter().filter(|s| **s < -SLOWER).count() as f64 / saved.len().max(1) as f64;
            let mean = saved.iter().sum::<f64>() / saved.len().max(1) as f64;
            outcome.rows.push(Row::measured(name, "saved, mean of pages", "%", entry.name, mean));
            if worst.is_finite() {
                outcome.rows.push(Row::measured(name, "saved, the page that loses most", "%", entry.name, worst));
            }
            outcome.rows.push(Row::measured(name, "pages slower by more than 1 %", "%", entry.name, 100.0 * slower));
            let share = Row::measured(name, "share of bytes over the fast channel, mean", "%", entry.name, mean_share);
            outcome.rows.push(serving(share)?);
            means.push((entry.name, times.iter().sum::<f64>() / times.len().max(1) as f64, mean));
            if entry.name == OURS {
                outcome.notes.push(Target::AtLeast(-SLOWER).note(
                    &format!("{name}, {OURS}, the page that loses most saves"),
                    worst,
                    "%",
                ));
            }
        }
        outcome.prices.push(Price {
            condition: name.clone(),
            arm: entry.name.into(),
            what: "over the fast channel, a page".into(),
            unit: "kB".into(),
            amount: fast_kb,
        });
        outcome.samples.push(series);
    }
    let of = |arm: &str| means.iter().find(|(name, ..)| *name == arm);
    let best = means.iter().filter(|(name, ..)| *name != OURS).min_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some(ours), Some(best)) = (of(OURS), best) {
        let what = format!("{name}, {OURS} beside the best other one ({}), ratio of mean {METRIC}", best.0);
        outcome.notes.push(Target::AtMost(1.0).note(&what, ours.1 / best.1, "x"));
    }
    if let (true, Some(ours), Some(state)) = (block.cell.tunnel, of(OURS), of(STATE)) {
        let what = format!("{name}, {OURS} ahead of {STATE} in what pages save");
        outcome.notes.push(Target::AtLeast(AHEAD).note(&what, ours.2 - state.2, "points"));
    }
    if block.failed > 0 {
        outcome.invalidate(format!("{name}: {} objects were not loaded", block.failed));
    }
    Ok(())
}
