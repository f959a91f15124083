//! Each policy beside the fat channel alone, the bytes that it spends, the page that loses most, the bound, and the project's targets.

use super::play::Block;
use super::{BOUND, FAT, METRIC, OURS, STATE, bound};
use crate::experiment::target::Target;
use crate::experiment::{Outcome, Row, Series};
use crate::stats::{Pairing, Statistic};

/// A page that is slower by less is not slower, in percent.
const SLOWER: f64 = 1.0;
/// How far a policy must be ahead of the paper's best one through a tunnel, in points: the project's own target.
const AHEAD: f64 = 5.0;

/// What is measured of a policy's price.
const SHARE: &str = "share of bytes over the fast channel";

/// Adds the row of `ours` beside `baseline`, and one of failed loads if there were any. `serving` ties rows to claims.
pub fn compare(
    outcome: &mut Outcome,
    ours: &Series,
    baseline: &Series,
    serving: impl Fn(Row) -> anyhow::Result<Row>,
) -> anyhow::Result<()> {
    if ours.meets(baseline) {
        let row = Row::compare(ours, baseline, Statistic::Mean, Pairing::Paired, outcome.seed)?;
        outcome.rows.push(serving(row)?);
    }
    outcome.failures(ours, baseline);
    Ok(())
}

/// The mean, if no page failed: a policy that loses pages is not measured by the others.
fn mean(times: &[Option<f64>]) -> Option<f64> {
    let sum = times.iter().copied().sum::<Option<f64>>()?;
    (!times.is_empty()).then(|| sum / times.len() as f64)
}

/// What each page saves, in percent; none where it failed, with or without the policy.
fn saved(times: &[Option<f64>], base: &[Option<f64>]) -> Vec<f64> {
    times.iter().zip(base).filter_map(|(t, b)| Some(100.0 * (1.0 - (*t)? / (*b)?))).collect()
}

/// Of each page's bytes under a policy, how many went over the fast channel.
fn shares(block: &Block, policy: usize) -> Series {
    let share = |bytes: &[f64; 2]| 100.0 * bytes[1] / (bytes[0] + bytes[1]).max(1.0);
    let shares = block.bytes[policy].iter().map(share);
    Series::new(&block.cell.name, SHARE, "%", block.times[policy].0.name, shares)
}

/// Adds everything that a block shows; `serving` ties rows to claims.
pub fn add(outcome: &mut Outcome, block: &Block, serving: impl Fn(Row) -> anyhow::Result<Row>) -> anyhow::Result<()> {
    let name = &block.cell.name;
    let Some(base) = block.series(FAT) else { return Ok(()) };
    let papers = block.times.iter().position(|(entry, _)| entry.name == STATE).map(|n| shares(block, n));
    let Some(papers) = papers else { return Ok(()) };
    let mut means: Vec<(&'static str, Option<f64>, f64)> = Vec::new();
    for (n, (entry, times)) in block.times.iter().enumerate() {
        let Some(series) = block.series(entry.name) else { continue };
        let pages = block.bytes[n].len().max(1) as f64;
        let mean_share = shares(block, n).present().iter().sum::<f64>() / pages;
        let fast_kb = block.bytes[n].iter().map(|b| b[1]).sum::<f64>() / pages / 1e3;
        if entry.name != FAT {
            compare(outcome, &series, &base, &serving)?;
            let saved = saved(times, &base.values);
            let worst = saved.iter().copied().fold(f64::INFINITY, f64::min);
            let slower = saved.iter().filter(|s| **s < -SLOWER).count() as f64 / saved.len().max(1) as f64;
            let average = saved.iter().sum::<f64>() / saved.len().max(1) as f64;
            if worst.is_finite() {
                outcome.rows.push(Row::measured(name, "saved, mean of pages", "%", entry.name, average));
                outcome.rows.push(Row::measured(name, "saved, the page that loses most", "%", entry.name, worst));
                let slower = Row::measured(name, "pages slower by more than 1 %", "%", entry.name, 100.0 * slower);
                outcome.rows.push(slower);
            }
            let share = match entry.name {
                STATE => Row::measured(name, &format!("{SHARE}, mean"), "%", entry.name, mean_share),
                _ => Row::compare(&shares(block, n), &papers, Statistic::Mean, Pairing::Paired, outcome.seed)?,
            };
            outcome.rows.push(serving(share)?);
            means.push((entry.name, mean(times), average));
            if entry.name == OURS && worst.is_finite() {
                outcome.notes.push(Target::AtLeast(-SLOWER).note(
                    &format!("{name}, {OURS}, the page that loses most saves"),
                    worst,
                    "%",
                ));
            }
        }
        outcome.price(name, entry.name, "over the fast channel, a page", "kB", fast_kb);
        outcome.samples.push(series);
    }
    let bound = add_bound(outcome, block, &base)?;
    judge(outcome, block, &means, bound);
    Ok(())
}

/// Sets what each policy's pages take (`means`: its name, the mean time, and what pages save on average) beside its targets.
fn judge(outcome: &mut Outcome, block: &Block, means: &[(&'static str, Option<f64>, f64)], bound: Option<f64>) {
    let name = &block.cell.name;
    let lost = |arm: &str| block.series(arm).map_or(0, |s| s.failed());
    let beyond_the_baseline = lost(OURS).saturating_sub(lost(FAT)) as f64;
    if beyond_the_baseline > 0.0 {
        let what = format!("{name}, pages that {OURS} fails to load and {FAT} does not");
        outcome.notes.push(Target::AtMost(0.0).note(&what, beyond_the_baseline, "pages"));
    }
    let of = |arm: &str| means.iter().find(|(name, ..)| *name == arm);
    let others = means.iter().filter(|(name, ..)| *name != OURS).filter_map(|(name, mean, _)| Some((*name, (*mean)?)));
    if let (Some((_, Some(ours), _)), Some(best)) = (of(OURS), others.min_by(|a, b| a.1.total_cmp(&b.1))) {
        let what = format!("{name}, {OURS} beside the best other one ({}), ratio of mean {METRIC}", best.0);
        outcome.notes.push(Target::AtMost(1.0).note(&what, ours / best.1, "x"));
    }
    if let (true, Some(ours), Some(state)) = (block.cell.tunnel, of(OURS), of(STATE)) {
        let what = format!("{name}, {OURS} ahead of {STATE} in what pages save");
        let most = bound.map_or(f64::INFINITY, |bound| bound - state.2);
        outcome.notes.push(bound::note(&what, ours.2 - state.2, AHEAD, most, "points"));
    }
}

/// Adds what no policy can beat; what pages save by it on average, in percent.
fn add_bound(outcome: &mut Outcome, block: &Block, base: &Series) -> anyhow::Result<Option<f64>> {
    let Some(series) = block.series(BOUND).filter(|series| !series.values.is_empty()) else { return Ok(None) };
    compare(outcome, &series, base, Ok)?;
    let saved = saved(&block.bound, &base.values);
    let average = (!saved.is_empty()).then(|| saved.iter().sum::<f64>() / saved.len() as f64);
    if let Some(average) = average {
        outcome.rows.push(Row::measured(&block.cell.name, "saved, mean of pages", "%", BOUND, average));
    }
    outcome.samples.push(series);
    Ok(average)
}

#[cfg(test)]
mod tests {
    use super::super::network::BASE;
    use super::super::play::Cell;
    use super::*;

    #[test]
    fn a_load_that_fails_counts_against_its_policy_and_spoils_no_other() {
        let mut block = Block::new(Cell::new("ideal", BASE));
        for (n, (entry, times)) in block.times.iter_mut().enumerate() {
            *times = vec![Some(100.0), (entry.name != "single-fast").then_some(200.0 - n as f64)];
            block.bytes[n] = vec![[90.0, 10.0]; 2];
        }
        let mut outcome = Outcome::new("x", 1);
        add(&mut outcome, &block, Ok).unwrap();
        assert!(outcome.valid);
        let of = |metric: &str, arm: &str| outcome.rows.iter().find(|r| r.metric.ends_with(metric) && r.arm == arm);
        assert_eq!(of("failed", "single-fast").map(|r| (r.ours, r.baseline)), Some((50.0, Some(0.0))));
        assert!(of("failed", STATE).is_none());
        // The pair that failed is left out of both.
        assert_eq!(of("mean", "single-fast").and_then(|r| r.baseline), Some(100.0));
        let beside = outcome.notes.iter().find(|n| n.contains("beside the best")).unwrap();
        assert!(!beside.contains("single-fast"), "{beside}");
    }

    #[test]
    fn how_far_ahead_of_the_paper_is_asked_of_nobody_beyond_the_bound() {
        let told = |bound: f64| {
            let mut block = Block::new(Cell::new("tunnel", BASE));
            for (n, (entry, times)) in block.times.iter_mut().enumerate() {
                *times = vec![Some(if entry.name == OURS { 95.0 } else { 100.0 - n as f64 / 100.0 })];
                block.bytes[n] = vec![[90.0, 10.0]];
            }
            block.bound = vec![Some(bound)];
            let mut outcome = Outcome::new("x", 1);
            add(&mut outcome, &block, Ok).unwrap();
            let row = outcome.rows.iter().find(|r| r.arm == BOUND && r.metric.starts_with("saved"));
            assert!(row.is_some_and(|r| (r.ours - (100.0 - bound)).abs() < 1e-9));
            // It is no other policy that ours could be compared with.
            assert!(outcome.notes.iter().all(|n| !n.contains(BOUND)) && outcome.check().is_ok());
            outcome.notes.into_iter().find(|n| n.contains("ahead of")).unwrap()
        };
        assert!(told(95.5).contains("beyond the bound") && told(90.0).ends_with("MISSED"));
    }

    #[test]
    fn a_policy_that_loads_nothing_is_told_as_such() {
        let mut block = Block::new(Cell::new("tunnel", BASE));
        for (n, (entry, times)) in block.times.iter_mut().enumerate() {
            *times = vec![(entry.name != OURS).then_some(100.0)];
            block.bytes[n] = vec![[90.0, 10.0]];
        }
        let mut outcome = Outcome::new("x", 1);
        add(&mut outcome, &block, Ok).unwrap();
        assert!(
            outcome.notes.iter().any(|n| n.contains("fails to load") && n.ends_with("MISSED")),
            "{:?}",
            outcome.notes
        );
        assert!(outcome.check().is_ok());
    }
}
