//! Arms beside their baselines, the paper's claim, and the page that loses most.

use super::measure::{AGAIN, BARE_H3, BASELINES, Block, METRIC, OURS, OURS_H3, Visit};
use crate::experiment::{Claims, Row, Series, losers};
use crate::stats::{Pairing, Statistic};

/// The claim.
pub const CLAIM: &str = "P1.8";
/// The condition by which it is judged: the paper's network, as far as its baselines show it.
pub const JUDGED: &str = "dual-stack";
/// The paper's method.
const PAPERS: &str = "simultaneous";
const STATISTICS: [Statistic; 3] = [Statistic::Mean, Statistic::Median, Statistic::Quantile(0.95)];

/// The pages that the paper looks at, in ms: Fig. 17.
const PAPERS_PAGES: std::ops::Range<f64> = 1500.0..3000.0;

/// Every comparison of a block; rows serve the claim where `claims` are given.
pub fn of(block: &Block, claims: Option<&Claims>, seed: u64) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let names: Vec<&str> = block.taken.iter().map(|t| t.arm.name).collect();
    for visit in Visit::ALL {
        for baseline in BASELINES {
            for arm in names.iter().filter(|n| !BASELINES.contains(n) || (**n == "bare" && baseline != "bare")) {
                let (Some(a), Some(b)) = (block.series(visit, arm), block.series(visit, baseline)) else { continue };
                for statistic in STATISTICS {
                    rows.push(Row::compare(&a, &b, statistic, Pairing::Paired, seed)?);
                }
                if let Some((a, b)) = of_the_papers_size(block, &a, &b) {
                    let row = Row::compare(&a, &b, Statistic::Mean, Pairing::Paired, seed)?;
                    rows.push(match claims.filter(|_| *arm == PAPERS && baseline == "sequential") {
                        Some(claims) => row.serving(claims, CLAIM, "least")?,
                        None => row,
                    });
                }
            }
        }
        if let (Some(a), Some(b)) = (block.series(visit, OURS_H3), block.series(visit, BARE_H3)) {
            rows.push(Row::compare(&a, &b, Statistic::Mean, Pairing::Paired, seed)?);
        }
        rows.extend([OURS, AGAIN].into_iter().flat_map(|arm| against_bare(block, visit, arm)));
        rows.extend(waits(block, visit));
    }
    Ok(rows)
}

/// The pages of two series that take 1.5 to 3 s under `sequential` on a first visit, if there are any.
fn of_the_papers_size(block: &Block, a: &Series, b: &Series) -> Option<(Series, Series)> {
    let sequential = block.series(Visit::First, BASELINES[0])?;
    let fits: Vec<bool> = sequential.values.iter().map(|v| v.is_some_and(|v| PAPERS_PAGES.contains(&v))).collect();
    let metric = format!("{METRIC} of pages of 1.5 to 3 s");
    let kept = |s: &Series| Series {
        metric: metric.clone(),
        values: s.values.iter().zip(&fits).filter(|(_, fits)| **fits).map(|(v, _)| *v).collect(),
        ..s.clone()
    };
    fits.contains(&true).then(|| (kept(a), kept(b)))
}

/// How much of the load time pages wait for names and connections: what could be gained below a browser, and what is
/// left of it.
fn waits(block: &Block, visit: Visit) -> Vec<Row> {
    let mut rows = Vec::new();
    for taken in block.taken.iter().filter(|t| t.arm.name == OURS || BASELINES.contains(&t.arm.name)) {
        let pages = &taken.waits[visit as usize];
        for (n, what) in ["names", "TCP"].into_iter().enumerate().filter(|_| !pages.is_empty()) {
            let mean = pages.iter().map(|p| p[n]).sum::<f64>() / pages.len() as f64;
            let metric = format!("of the page load time, waiting for {what}, mean");
            rows.push(Row::measured(&block.condition(visit), &metric, "%", taken.arm.name, mean));
        }
    }
    rows
}

/// Whether any page is slower than with the browser alone, and by how much.
fn against_bare(block: &Block, visit: Visit, arm: &str) -> Vec<Row> {
    let (Some(ours), Some(bare)) = (block.series(visit, arm), block.series(visit, "bare")) else { return Vec::new() };
    losers::rows(&ours, &bare)
}
