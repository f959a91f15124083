//! The comparisons: arms against baselines, claims of the paper, the share of the way to the oracle, and the agreement of
//! two speeds.

use super::series::{Metric, one};
use super::speed::{Answers, Taken};
use super::{Block, name};
use crate::condition;
use crate::experiment::{Claims, Outcome, Row, Series};
use crate::sim::Arm;
use crate::stats::{Pairing, Statistic, StatsError};

/// The statistics of every metric.
const STATISTICS: [Statistic; 3] = [Statistic::Median, Statistic::Quantile(0.75), Statistic::Quantile(0.99)];

/// The paper's method, which its claims are judged by, and ours, which stands beside it.
const PAPERS: &str = "simultaneous";
const OURS: &str = "adaptive";
/// What both are compared with.
const BASELINES: [&str; 2] = ["sequential", "happy-eyeballs-v2"];
const BOUND: &str = "oracle";

/// Distances from a baseline to the bound below this share of the baseline are none: there is nothing to close.
const NO_DISTANCE: f64 = 0.05;

/// Longer visits are cut in namespaces, in milliseconds.
const MOST_WAITED_FOR: f64 = 20_000.0;

impl Block {
    fn taken(&self, arm: &str) -> Option<(Arm, &Taken)> {
        self.taken.iter().find(|(a, _)| a.name() == arm).map(|(a, t)| (*a, t))
    }

    fn series(&self, metric: Metric, arm: &str) -> Option<Series> {
        let (arm, taken) = self.taken(arm)?;
        Some(one(&self.condition, metric, arm, taken)).filter(|s| s.failed() < s.values.len())
    }
}

/// Every comparison within a block: overhead first and with intervals, its parts behind.
pub(super) fn of(block: &Block, seed: u64) -> Result<Vec<Row>, StatsError> {
    let mut rows = Vec::new();
    // Every race of the registry against both baselines; they themselves once.
    let races = |but: &[&str]| -> Vec<&str> {
        block.taken.iter().map(|(a, _)| a.name()).filter(|n| *n != Arm::Bare.name() && !but.contains(n)).collect()
    };
    for (baseline, arms) in
        [(BASELINES[0], races(&BASELINES[..1])), (BASELINES[1], races(&BASELINES)), (Arm::Bare.name(), vec![OURS])]
    {
        for arm in arms {
            for metric in Metric::ALL {
                let (Some(a), Some(b)) = (block.series(metric, arm), block.series(metric, baseline)) else { continue };
                for statistic in STATISTICS {
                    let row = match metric {
                        Metric::Total => Some(Row::compare(&a, &b, statistic, Pairing::Paired, seed)?),
                        _ => plain(&a, &b, statistic)?,
                    };
                    rows.extend(row);
                }
            }
            rows.extend(failures(block, arm, baseline));
        }
    }
    for arm in [PAPERS, OURS] {
        rows.extend(share_of_the_way(block, arm)?);
    }
    Ok(rows)
}

/// A comparison without an interval; none where both sides are zero.
fn plain(a: &Series, b: &Series, statistic: Statistic) -> Result<Option<Row>, StatsError> {
    let (ours, baseline) = (statistic.of(&a.present())?, statistic.of(&b.present())?);
    if ours == 0.0 && baseline == 0.0 {
        return Ok(None);
    }
    let metric = format!("{}, {statistic}", a.metric);
    Ok(Some(Row::measured(&a.condition, &metric, &a.unit, &a.arm, ours).beside(&b.arm, baseline)))
}

/// Visits without a connection, where there were any.
fn failures(block: &Block, arm: &str, baseline: &str) -> Option<Row> {
    let whole = |arm| block.taken(arm).map(|(a, t)| one(&block.condition, Metric::Total, a, t));
    let (a, b) = (whole(arm)?, whole(baseline)?);
    (a.failed() + b.failed() > 0).then(|| Row::failures(&a, &b))
}

/// How much of the distance between the median of Happy Eyeballs v2 and that of the oracle `arm` covers, in percent.
fn share_of_the_way(block: &Block, arm: &str) -> Result<Option<Row>, StatsError> {
    let median = |arm| match block.series(Metric::Total, arm) {
        Some(s) => Statistic::Median.of(&s.present()).map(Some),
        None => Ok(None),
    };
    let (Some(from), Some(to), Some(at)) = (median(BASELINES[1])?, median(BOUND)?, median(arm)?) else {
        return Ok(None);
    };
    if from - to < NO_DISTANCE * from {
        return Ok(None);
    }
    let metric = "share of the way from happy-eyeballs-v2 to oracle, median overhead";
    Ok(Some(Row::measured(&block.condition, metric, "%", arm, 100.0 * (from - at) / (from - to))))
}

/// The rows that serve claims, from the blocks of one speed. The paper's own method is judged; ours stands beside it.
pub(super) fn claimed(blocks: &[Block], claims: &Claims, seed: u64) -> anyhow::Result<Vec<Row>> {
    let place = condition::find("paper1-lte")?;
    let block = |answers| blocks.iter().find(|b| b.condition.starts_with(&name(place, answers)));
    let cold = block(Answers::Cold);
    let p75 = Statistic::Quantile(0.75);
    let mut rows = Vec::new();
    let mut serve = |id, case, ours: Option<&Block>, metric: Metric, statistic| -> anyhow::Result<()> {
        let (Some(ours), Some(theirs)) = (ours, cold) else { return Ok(()) };
        for (arm, baseline) in [PAPERS, OURS].into_iter().flat_map(|arm| BASELINES.map(|b| (arm, b))) {
            let (Some(mut a), Some(b)) = (ours.series(metric, arm), theirs.series(metric, baseline)) else { continue };
            if case == "cache" {
                a.metric.push_str(" (baseline without cache)");
            }
            let row = Row::compare(&a, &b, statistic, Pairing::Paired, seed)?.serving(claims, id, case)?;
            let verdict = row.verdict.filter(|_| arm == PAPERS);
            rows.push(Row { verdict, ..row });
        }
        Ok(())
    };
    serve("P1.3", "no-cache", cold, Metric::Total, Statistic::Median)?;
    serve("P1.3", "cache", block(Answers::Cached), Metric::Total, Statistic::Median)?;
    serve("P1.1", "no-cache", cold, Metric::Lookup, p75)?;
    serve("P1.11", "no-cache", cold, Metric::GetAddrInfo, p75)?;
    serve("P1.2", "", cold, Metric::Connect, p75)?;
    Ok(rows)
}

/// Another speed against virtual time: what both can see, at the median. The ratio should be one.
pub(super) fn agreement(
    condition: &str,
    arm: Arm,
    simulated: &Taken,
    measured: &Taken,
    seed: u64,
) -> Result<Vec<Row>, StatsError> {
    let mut rows = Vec::new();
    for metric in [Metric::Total, Metric::GetAddrInfo] {
        let at = |speed: &str, taken| Series {
            arm: speed.into(),
            metric: format!("{} of {arm}", metric.name()),
            ..one(condition, metric, arm, taken)
        };
        let (a, b) = (at("namespaces", measured), at("virtual-time", simulated));
        if a.present().is_empty() || b.present().is_empty() {
            continue;
        }
        // Where real packets are not waited for as long as virtual ones, and where both are next to nothing, there is
        // nothing to agree on.
        let expected = Statistic::Median.of(&b.present())?;
        if !(1.0..MOST_WAITED_FOR).contains(&expected) {
            continue;
        }
        rows.push(Row::compare(&a, &b, Statistic::Median, Pairing::Unpaired, seed)?);
    }
    Ok(rows)
}

/// Adds what the arms of a block cost: packets and sockets beyond the one connection that a program wanted. An arm that got no
/// connection has no price.
pub(super) fn prices(outcome: &mut Outcome, block: &Block) {
    for (arm, Taken { paid, .. }) in block.taken.iter().filter(|(_, taken)| taken.paid.connections > 0) {
        for (what, unit, spent) in [
            ("connection attempts per connection", "", Some(paid.attempts)),
            ("DNS queries per connection", "", Some(paid.queries)),
            ("unused connections per connection", "", paid.unused),
            ("bytes per connection, handshakes and lookups", "B", paid.bytes),
        ] {
            let each = spent.map(|spent| spent as f64 / paid.connections as f64);
            each.into_iter().for_each(|each| outcome.price(&block.condition, arm.name(), what, unit, each));
        }
    }
}
