//! Quantiles of values that come in groups, such as the messages of streams, with intervals that know it.
//!
//! The messages of one stream suffer together, so whole streams are resampled (a cluster bootstrap), in pairs. Values are
//! sorted once; a resample only counts how often each group was drawn, from the nearer end of the sorted values.

use super::bootstrap::{Interval, MIN_FOR_INTERVAL};
use super::{Estimate, StatsError, quantile, quantile_of};

/// Resamples behind each interval: fewer than for single values, for there are many more values.
const RESAMPLES: usize = 400;

/// Every value of every group.
struct Pool {
    sorted: Vec<(f64, u32)>,
    /// Values of each group.
    sizes: Vec<u64>,
}

impl Pool {
    fn new(groups: &[Vec<f64>]) -> Self {
        let values = (0u32..).zip(groups).flat_map(|(group, values)| values.iter().map(move |v| (*v, group)));
        let mut sorted: Vec<_> = values.collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Self { sorted, sizes: groups.iter().map(|values| values.len() as u64).collect() }
    }

    /// The quantile at `p` where group k counts `times[k]` times: the first value that reaches that share.
    fn quantile(&self, times: &[u32], p: f64) -> f64 {
        let total: u64 = self.sizes.iter().zip(times).map(|(size, times)| size * u64::from(*times)).sum();
        let wanted = (total as f64 * p).ceil().max(1.0) as u64;
        let count = |group: &u32| u64::from(times[*group as usize]);
        let mut seen = 0;
        let found = if p < 0.5 {
            self.sorted.iter().find(|(_, group)| {
                seen += count(group);
                seen >= wanted
            })
        } else {
            let above = total.saturating_sub(wanted);
            self.sorted.iter().rev().find(|(_, group)| {
                seen += count(group);
                seen > above
            })
        };
        found.or(self.sorted.last()).map_or(0.0, |(value, _)| *value)
    }
}

/// The quantile of all values of `groups`.
pub fn pooled_quantile(groups: &[Vec<f64>], p: f64) -> Result<f64, StatsError> {
    quantile(&groups.concat(), p)
}

/// The quantile at `p` of all values of `ours` divided by that of `baseline`, with its 95 % interval; the groups at one
/// index are of the same trial.
pub fn pooled_ratio(ours: &[Vec<f64>], baseline: &[Vec<f64>], p: f64, seed: u64) -> Result<Estimate, StatsError> {
    if ours.len() != baseline.len() {
        return Err(StatsError::LengthsDiffer { ours: ours.len(), baseline: baseline.len() });
    }
    let (numerator, denominator) = (pooled_quantile(ours, p)?, pooled_quantile(baseline, p)?);
    if denominator == 0.0 {
        return Err(StatsError::ZeroBaseline { statistic: format!("p{}", p * 100.0) });
    }
    let value = numerator / denominator;
    if ours.len() < MIN_FOR_INTERVAL {
        return Ok(Estimate { value, interval: None });
    }
    let (a, b) = (Pool::new(ours), Pool::new(baseline));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut times = vec![0u32; ours.len()];
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            times.fill(0);
            for _ in 0..ours.len() {
                times[rng.usize(..ours.len())] += 1;
            }
            a.quantile(&times, p) / b.quantile(&times, p)
        })
        .collect();
    let interval = Interval { lo: quantile_of(&mut ratios, 0.025), hi: quantile_of(&mut ratios, 0.975) };
    Ok(Estimate { value, interval: (interval.lo.is_finite() && interval.hi.is_finite()).then_some(interval) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_equals_is_one_and_of_halves_a_half() {
        let base: Vec<Vec<f64>> =
            (0..30).map(|k| (0..60).map(|i| 10.0 + f64::from((k * 7 + i * 13) % 50)).collect()).collect();
        let half: Vec<Vec<f64>> = base.iter().map(|g| g.iter().map(|v| v / 2.0).collect()).collect();
        let same = pooled_ratio(&base, &base, 0.95, 1).unwrap();
        assert_eq!((same.value, same.interval), (1.0, Some(Interval { lo: 1.0, hi: 1.0 })));
        assert_eq!(pooled_ratio(&half, &base, 0.95, 1).unwrap().value, 0.5);
    }

    #[test]
    fn one_bad_stream_widens_the_interval_as_a_whole() {
        let calm = vec![vec![10.0; 60]; 20];
        let mut bad = calm.clone();
        // 60 of 1200 values, in one stream: just at the 95th percentile.
        bad[3] = vec![100.0; 60];
        let interval = pooled_ratio(&bad, &calm, 0.95, 1).unwrap().interval.unwrap();
        assert_eq!((interval.lo, interval.hi), (1.0, 10.0));
    }

    #[test]
    fn a_quantile_is_the_first_value_that_reaches_its_share_from_whichever_end_it_is_looked_for() {
        let groups: Vec<Vec<f64>> = vec![vec![3.0, 1.0], vec![2.0], vec![5.0, 4.0, 4.0]];
        let pool = Pool::new(&groups);
        for times in [[1, 1, 1], [0, 3, 1], [2, 0, 0], [0, 0, 0]] {
            let mut all: Vec<f64> = Vec::new();
            for (group, n) in groups.iter().zip(times) {
                (0..n).for_each(|_| all.extend(group));
            }
            all.sort_unstable_by(f64::total_cmp);
            for p in [0.0, 0.1, 0.49, 0.5, 0.51, 0.95, 1.0] {
                let rank = (all.len() as f64 * p).ceil().max(1.0) as usize - 1;
                assert_eq!(pool.quantile(&times, p), *all.get(rank).unwrap_or(&5.0), "{times:?} at {p}");
            }
        }
    }

    #[test]
    fn groups_that_do_not_pair_up_are_refused() {
        assert!(pooled_ratio(&[vec![1.0]], &[], 0.5, 1).is_err());
        assert!(pooled_ratio(&[vec![]], &[vec![]], 0.5, 1).is_err());
    }
}
