//! What the equations predict beside what was measured.

use super::equations::{ConnectMethod, each_family_by_itself, gain, gain_percent};
use super::measure::Name;
use crate::experiment::{Claims, Row, Series};
use crate::stats::{Pairing, Statistic, StatsError};
use headstart_core::time::Duration;

/// The claim.
pub const CLAIM: &str = "P1.10";
/// The arm that was computed.
pub const EQUATIONS: &str = "equations";
/// As the method is described, not as its equations are printed.
const BY_ITSELF: &str = "each-family-by-itself";
const OVERHEAD: &str = "connectivity overhead";

/// Milliseconds, to the microsecond.
fn ms(time: Duration) -> f64 {
    time.as_nanos().div_ceil(1000) as f64 / 1e3
}

fn series(condition: &str, metric: &str, arm: &str, values: impl IntoIterator<Item = Option<f64>>) -> Series {
    Series::with_failures(condition, metric, "ms", arm, values)
}

/// Rows and samples of a condition; rows serve the claim where `claims` are given.
pub fn of(
    condition: &str,
    names: &[Name],
    claims: Option<&Claims>,
    seed: u64,
) -> anyhow::Result<(Vec<Row>, Vec<Series>)> {
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    let median =
        |ours: &Series, baseline: &Series| Row::compare(ours, baseline, Statistic::Median, Pairing::Paired, seed);
    let serving = |row: Row, case: &str| match claims {
        Some(claims) => row.serving(claims, CLAIM, case),
        None => Ok(row),
    };
    let each = |f: &dyn Fn(&Name) -> Option<f64>| names.iter().map(f).collect::<Vec<_>>();
    for (i, way) in ConnectMethod::ALL.into_iter().enumerate() {
        // Where one of the two has no connection the pair is left out of the comparison.
        let metric = format!("{OVERHEAD} of {}", way.race());
        let measured = series(condition, &metric, way.race(), each(&|n| n.whole[i].total.map(ms)));
        let predicted = series(condition, &metric, EQUATIONS, each(&|n| way.overhead(&n.parts).map(ms)));
        if measured.present().is_empty() || predicted.present().is_empty() {
            continue;
        }
        rows.push(serving(median(&measured, &predicted)?, way.race())?);
        if way == ConnectMethod::Simultaneous {
            let described = series(condition, &metric, BY_ITSELF, each(&|n| each_family_by_itself(&n.parts).map(ms)));
            rows.push(median(&measured, &described)?);
            samples.push(described);
        }
        let lookup = series(condition, &format!("DNS lookup time of {}", way.race()), way.race(), {
            each(&|n| n.whole[i].total.and(n.whole[i].lookup).map(ms))
        });
        if !lookup.present().is_empty() {
            let of = |metric: &str, f: &dyn Fn(&Name) -> Option<f64>| series(condition, metric, EQUATIONS, each(f));
            rows.push(median(&lookup, &of(&lookup.metric, &|n| Some(ms(way.lookup(&n.parts)))))?);
            let connect = series(condition, &format!("TCP connect time of {}", way.race()), way.race(), {
                each(&|n| Some(ms(n.whole[i].total?.saturating_sub(n.whole[i].lookup?))))
            });
            rows.push(median(&connect, &of(&connect.metric, &|n| way.connect(&n.parts).map(ms)))?);
        }
        samples.extend([measured, predicted]);
    }
    rows.extend(gains(condition, names, claims)?);
    rows.extend(order(condition, names, claims)?);
    Ok((rows, samples))
}

/// What `simultaneous` gains over `sequential`, as measured and by the equations.
fn gains(condition: &str, names: &[Name], claims: Option<&Claims>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let each = |f: &dyn Fn(&Name) -> Option<f64>| names.iter().map(f).collect::<Vec<_>>();
    // They may be zero, and below: of those there is no ratio.
    let measured_gain = |n: &Name| Some(ms(n.whole[2].total?) - ms(n.whole[0].total?));
    let percent = |n: &Name| Some(100.0 * measured_gain(n)? / ms(n.whole[2].total?));
    for (metric, unit, ours, theirs) in [
        ("gain of simultaneous over sequential", "ms", each(&measured_gain), each(&|n| gain(&n.parts))),
        ("share gained by simultaneous over sequential", "%", each(&percent), each(&|n| gain_percent(&n.parts))),
    ] {
        let both = ours.into_iter().zip(theirs).filter_map(|(a, b)| a.zip(b));
        let (ours, theirs): (Vec<f64>, Vec<f64>) = both.unzip();
        if ours.is_empty() {
            continue;
        }
        let (a, b) = (Statistic::Median.of(&ours)?, Statistic::Median.of(&theirs)?);
        let metric = format!("{metric}, {}", Statistic::Median);
        rows.push(Row {
            claim: claims.map(|_| CLAIM.to_owned()),

            ..Row::measured(condition, &metric, unit, ConnectMethod::Simultaneous.race(), a).beside(EQUATIONS, b)
        });
    }
    Ok(rows)
}

/// Equation 9, the order of the three: how many of its pairs hold for what was measured, and how many for what the
/// equations predict of the parts. By the medians, and name by name.
fn order(condition: &str, names: &[Name], claims: Option<&Claims>) -> anyhow::Result<Vec<Row>> {
    // Only names that every way reached, and that the equations say it would.
    let complete = names.iter().filter_map(|n| {
        let measured = all(n.whole.map(|w| w.total.map(ms)))?;
        Some((measured, all(ConnectMethod::ALL.map(|way| way.overhead(&n.parts).map(ms)))?))
    });
    let (measured, predicted): (Vec<[f64; 3]>, Vec<[f64; 3]>) = complete.unzip();
    if measured.is_empty() {
        return Ok(Vec::new());
    }
    let row = |metric: &str, unit: &str, ours: f64, equations: f64| Row {
        claim: claims.map(|_| CLAIM.to_owned()),
        ..Row::measured(condition, metric, unit, "measured", ours).beside(EQUATIONS, equations)
    };
    let share = |of_names: &[[f64; 3]]| {
        let pairs: usize = of_names.iter().map(in_order).sum();
        100.0 * pairs as f64 / (PAIRS.len() * of_names.len()) as f64
    };
    let by_medians = |of_names| medians(of_names).map(|m| in_order(&m) as f64);
    Ok(vec![
        row(
            "pairs in the order of equation 9, by the medians",
            "of 3",
            by_medians(&measured)?,
            by_medians(&predicted)?,
        ),
        row("pairs in the order of equation 9, over all names", "%", share(&measured), share(&predicted)),
    ])
}

const PAIRS: [[usize; 2]; 3] = [[0, 1], [1, 2], [0, 2]];

fn medians(of_names: &[[f64; 3]]) -> Result<[f64; 3], StatsError> {
    let median = |way: usize| Statistic::Median.of(&of_names.iter().map(|n| n[way]).collect::<Vec<_>>());
    Ok([median(0)?, median(1)?, median(2)?])
}

fn all(values: [Option<f64>; 3]) -> Option<[f64; 3]> {
    let [a, b, c] = values;
    Some([a?, b?, c?])
}

/// Differences below this share are none: jitter alone is as much.
const SAME: f64 = 0.05;

/// How many pairs are in the order of equation 9, which is that of [`ConnectMethod::ALL`], or as good as equal.
fn in_order(of_ways: &[f64; 3]) -> usize {
    PAIRS.iter().filter(|[a, b]| of_ways[*a] <= of_ways[*b] * (1.0 + SAME)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_in_the_order_of_equation_9() {
        assert_eq!(in_order(&[80.0, 100.0, 120.0]), 3);
        assert_eq!(in_order(&[80.0, 124.0, 116.0]), 2);
        assert_eq!(in_order(&[80.0, 120.0, 116.0]), 3, "as good as equal");
        assert_eq!(in_order(&[120.0, 100.0, 80.0]), 0);
    }
}
