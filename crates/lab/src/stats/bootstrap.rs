//! Seeded bootstrap intervals: percentile method, 95 %, [`RESAMPLES`] resamples.
//!
//! Efron, Bootstrap Methods (Annals of Statistics, 1979). Samples that were taken together (the same trial under two
//! arms) are resampled as pairs, so that what both suffered cancels out. No interval is invented for samples too small
//! to carry one: below [`MIN_FOR_INTERVAL`] values there is none.

use super::{Statistic, StatsError, quantile_of};
use serde::{Deserialize, Serialize};

/// Resamples behind each interval: the 2.5th percentile then rests on 50 of them.
pub const RESAMPLES: usize = 2000;

/// Fewest values that carry a 95 % interval. Of n values, all lie on one side of the true median with probability
/// 2^(1-n); that falls below 5 % at n = 6.
pub const MIN_FOR_INTERVAL: usize = 6;

/// The two ends of a 95 % interval; `[lo, hi]` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

impl From<[f64; 2]> for Interval {
    fn from([lo, hi]: [f64; 2]) -> Self {
        Self { lo, hi }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(i: Interval) -> Self {
        [i.lo, i.hi]
    }
}

/// A statistic and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The statistic of the sample itself.
    pub value: f64,
    /// Its 95 % interval; none if the sample is smaller than [`MIN_FOR_INTERVAL`].
    pub interval: Option<Interval>,
}

/// How two samples belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// The values at one index are the same trial under both arms.
    Paired,
    /// The samples are independent.
    Unpaired,
}

/// `statistic` of `values` with its interval.
pub fn estimate(values: &[f64], statistic: Statistic, seed: u64) -> Result<Estimate, StatsError> {
    let value = statistic.of(values)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut sample = vec![0.0; values.len()];
    let interval = interval_of(values.len(), || {
        sample.fill_with(|| values[rng.usize(..values.len())]);
        statistic.of_checked(&mut sample)
    });
    Ok(Estimate { value, interval })
}

/// `statistic` of `ours` divided by that of `baseline`, with the interval of the ratio.
///
/// There is no interval if a resample of the baseline can come out as zero often enough to leave an end infinite.
pub fn ratio(
    ours: &[f64],
    baseline: &[f64],
    statistic: Statistic,
    pairing: Pairing,
    seed: u64,
) -> Result<Estimate, StatsError> {
    let (numerator, denominator) = (statistic.of(ours)?, statistic.of(baseline)?);
    if pairing == Pairing::Paired && ours.len() != baseline.len() {
        return Err(StatsError::LengthsDiffer { ours: ours.len(), baseline: baseline.len() });
    }
    if denominator == 0.0 {
        return Err(StatsError::ZeroBaseline { statistic: statistic.to_string() });
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut a, mut b) = (vec![0.0; ours.len()], vec![0.0; baseline.len()]);
    let interval = interval_of(ours.len().min(baseline.len()), || {
        match pairing {
            Pairing::Paired => {
                for (x, y) in a.iter_mut().zip(&mut b) {
                    let i = rng.usize(..ours.len());
                    (*x, *y) = (ours[i], baseline[i]);
                }
            }
            Pairing::Unpaired => {
                a.fill_with(|| ours[rng.usize(..ours.len())]);
                b.fill_with(|| baseline[rng.usize(..baseline.len())]);
            }
        }
        let (x, y) = (statistic.of_checked(&mut a), statistic.of_checked(&mut b));
        // 0/0 has no size; it counts as no difference, so that it cannot hide an infinite end.
        if x == 0.0 && y == 0.0 { 1.0 } else { x / y }
    });
    Ok(Estimate { value: numerator / denominator, interval })
}

/// As [`ratio`], of values in groups such as the trials of a seed, which have more in common than those of another.
///
/// Whole groups are resampled (Davison & Hinkley, Bootstrap Methods and their Application, 1997, section 3.8), from fewer than
/// [`MIN_FOR_INTERVAL`] groups also the values in them: so few groups alone would make the interval too narrow. Paired groups, and the
/// values in them, are drawn together.
pub fn grouped_ratio(
    ours: &[Vec<f64>],
    baseline: &[Vec<f64>],
    statistic: Statistic,
    pairing: Pairing,
    seed: u64,
) -> Result<Estimate, StatsError> {
    let (all_ours, all_baseline) = (ours.concat(), baseline.concat());
    let (numerator, denominator) = (statistic.of(&all_ours)?, statistic.of(&all_baseline)?);
    let is_fair = |(a, b): (&Vec<f64>, &Vec<f64>)| a.len() == b.len();
    if pairing == Pairing::Paired && !(ours.len() == baseline.len() && ours.iter().zip(baseline).all(is_fair)) {
        return Err(StatsError::LengthsDiffer { ours: all_ours.len(), baseline: all_baseline.len() });
    }
    if denominator == 0.0 {
        return Err(StatsError::ZeroBaseline { statistic: statistic.to_string() });
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut a, mut b) = (Vec::with_capacity(all_ours.len()), Vec::with_capacity(all_baseline.len()));
    let interval = interval_of(all_ours.len().min(all_baseline.len()), || {
        match pairing {
            Pairing::Paired => draw(&mut rng, ours.len(), |group| ours[group].len(), &mut |group, value| {
                a.push(ours[group][value]);
                b.push(baseline[group][value]);
            }),
            Pairing::Unpaired => {
                draw(&mut rng, ours.len(), |group| ours[group].len(), &mut |g, v| a.push(ours[g][v]));
                draw(&mut rng, baseline.len(), |group| baseline[group].len(), &mut |g, v| b.push(baseline[g][v]));
            }
        }
        let (x, y) = (statistic.of_checked(&mut a), statistic.of_checked(&mut b));
        a.clear();
        b.clear();
        if x == 0.0 && y == 0.0 { 1.0 } else { x / y }
    });
    Ok(Estimate { value: numerator / denominator, interval })
}

/// Draws `groups` groups, and hands out what is drawn of each: at least one value.
fn draw(rng: &mut fastrand::Rng, groups: usize, size: impl Fn(usize) -> usize, each: &mut impl FnMut(usize, usize)) {
    let mut drawn = 0;
    while drawn == 0 {
        for _ in 0..groups {
            let group = rng.usize(..groups);
            let size = size(group);
            drawn += size;
            for value in 0..size {
                each(group, if groups < MIN_FOR_INTERVAL { rng.usize(..size) } else { value });
            }
        }
    }
}

/// `statistic` of the differences `ours - baseline` trial by trial, in the unit of the samples.
pub fn paired_difference(
    ours: &[f64],
    baseline: &[f64],
    statistic: Statistic,
    seed: u64,
) -> Result<Estimate, StatsError> {
    if ours.len() != baseline.len() {
        return Err(StatsError::LengthsDiffer { ours: ours.len(), baseline: baseline.len() });
    }
    super::all_finite(ours)?;
    super::all_finite(baseline)?;
    let differences: Vec<f64> = ours.iter().zip(baseline).map(|(x, y)| x - y).collect();
    estimate(&differences, statistic, seed)
}

/// The 2.5th and 97.5th percentile of what `resample` yields; none if there are too few values or an end is infinite.
fn interval_of(values: usize, mut resample: impl FnMut() -> f64) -> Option<Interval> {
    if values < MIN_FOR_INTERVAL {
        return None;
    }
    let mut statistics: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    let interval = Interval { lo: quantile_of(&mut statistics, 0.025), hi: quantile_of(&mut statistics, 0.975) };
    (interval.lo.is_finite() && interval.hi.is_finite()).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exponential variates with the given mean: skewed like latencies.
    fn exponential(rng: &mut fastrand::Rng, mean: f64, n: usize) -> Vec<f64> {
        (0..n).map(|_| -mean * (1.0 - rng.f64()).ln()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_digits() {
        let v = exponential(&mut fastrand::Rng::with_seed(1), 50.0, 40);
        // The mean: a bootstrapped median moves between few values, on which different seeds may well agree.
        let once = estimate(&v, Statistic::Mean, 7).unwrap();
        assert_eq!(once, estimate(&v, Statistic::Mean, 7).unwrap());
        assert_ne!(once, estimate(&v, Statistic::Mean, 8).unwrap());
        let i = once.interval.unwrap();
        assert!(i.lo < once.value && once.value < i.hi);
    }

    #[test]
    fn the_interval_of_a_median_covers_the_truth_about_nineteen_times_in_twenty() {
        let mut rng = fastrand::Rng::with_seed(42);
        let truth = 50.0 * std::f64::consts::LN_2;
        let covered = (0..200)
            .filter(|&round| {
                let v = exponential(&mut rng, 50.0, 30);
                let i = estimate(&v, Statistic::Median, round).unwrap().interval.unwrap();
                i.lo <= truth && truth <= i.hi
            })
            .count();
        assert!((180..=199).contains(&covered), "covered {covered} of 200");
    }

    #[test]
    fn the_interval_of_a_ratio_covers_the_truth_about_nineteen_times_in_twenty() {
        let mut rng = fastrand::Rng::with_seed(43);
        for pairing in [Pairing::Unpaired, Pairing::Paired] {
            let covered = (0..200)
                .filter(|&round| {
                    let base = exponential(&mut rng, 100.0, 40);
                    let ours = exponential(&mut rng, 64.0, 40);
                    let i = ratio(&ours, &base, Statistic::Median, pairing, round).unwrap().interval.unwrap();
                    i.lo <= 0.64 && 0.64 <= i.hi
                })
                .count();
            assert!((180..=199).contains(&covered), "{pairing:?} covered {covered} of 200");
        }
    }

    #[test]
    fn an_interval_of_groups_covers_the_truth_where_one_of_single_values_is_too_narrow() {
        let mut rng = fastrand::Rng::with_seed(44);
        let (mut of_groups, mut of_values) = (0, 0);
        for round in 0..200 {
            // The effect is another in each group, around a factor of one.
            let (mut ours, mut base) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let effect = (0.4 * (rng.f64() + rng.f64() - 1.0)).exp();
                let values: Vec<f64> = (0..15).map(|_| 50.0 + 10.0 * rng.f64()).collect();
                ours.push(values.iter().map(|v| v * effect * (0.98 + 0.04 * rng.f64())).collect::<Vec<f64>>());
                base.push(values);
            }
            let covers = |i: Interval| usize::from(i.lo <= 1.0 && 1.0 <= i.hi);
            let grouped = grouped_ratio(&ours, &base, Statistic::Median, Pairing::Paired, round).unwrap();
            let single = ratio(&ours.concat(), &base.concat(), Statistic::Median, Pairing::Paired, round).unwrap();
            assert_eq!(grouped.value, single.value);
            of_groups += covers(grouped.interval.unwrap());
            of_values += covers(single.interval.unwrap());
        }
        assert!((178..=199).contains(&of_groups), "covered {of_groups} of 200");
        assert!(of_values < 140, "covered {of_values} of 200");
    }

    #[test]
    fn groups_without_a_value_and_of_unlike_sizes_are_no_harm() {
        let ours = [vec![], vec![2.0; 9], vec![2.0]];
        let of = |base: &[Vec<f64>], pairing| grouped_ratio(&ours, base, Statistic::Mean, pairing, 1);
        let found = of(&[vec![4.0; 8]], Pairing::Unpaired).unwrap();
        assert_eq!(found, Estimate { value: 0.5, interval: Some(Interval { lo: 0.5, hi: 0.5 }) });
        assert!(matches!(of(&[vec![4.0; 8]], Pairing::Paired), Err(StatsError::LengthsDiffer { .. })));
        assert!(matches!(of(&[vec![0.0; 8]], Pairing::Unpaired), Err(StatsError::ZeroBaseline { .. })));
        assert!(matches!(of(&[vec![]], Pairing::Unpaired), Err(StatsError::Empty { .. })));
    }

    #[test]
    fn pairing_removes_what_both_arms_suffered() {
        let mut rng = fastrand::Rng::with_seed(3);
        let base: Vec<f64> = exponential(&mut rng, 100.0, 60).iter().map(|v| v + 10.0).collect();
        let ours: Vec<f64> = base.iter().map(|v| v * (0.78 + 0.04 * rng.f64())).collect();
        let width = |p| {
            let i = ratio(&ours, &base, Statistic::Median, p, 5).unwrap().interval.unwrap();
            i.hi - i.lo
        };
        assert!(width(Pairing::Paired) * 4.0 < width(Pairing::Unpaired));
    }

    #[test]
    fn too_few_values_have_a_value_and_no_interval() {
        let one = estimate(&[3.0], Statistic::Median, 1).unwrap();
        assert_eq!(one, Estimate { value: 3.0, interval: None });
        assert_eq!(ratio(&[1.0; 5], &[2.0; 90], Statistic::Median, Pairing::Unpaired, 1).unwrap().interval, None);
        assert!(estimate(&[1.0; 6], Statistic::Median, 1).unwrap().interval.is_some());
    }

    #[test]
    fn constant_samples_are_known_exactly() {
        let r = ratio(&[3.0; 8], &[4.0; 8], Statistic::Median, Pairing::Paired, 1).unwrap();
        assert_eq!(r, Estimate { value: 0.75, interval: Some(Interval { lo: 0.75, hi: 0.75 }) });
    }

    #[test]
    fn ratios_to_nothing_and_ill_paired_samples_are_refused() {
        let zero = ratio(&[1.0; 8], &[0.0; 8], Statistic::Median, Pairing::Paired, 1);
        assert_eq!(zero, Err(StatsError::ZeroBaseline { statistic: "median".into() }));
        let uneven = ratio(&[1.0; 8], &[1.0; 7], Statistic::Median, Pairing::Paired, 1);
        assert_eq!(uneven, Err(StatsError::LengthsDiffer { ours: 8, baseline: 7 }));
        assert!(matches!(estimate(&[f64::NAN; 9], Statistic::Mean, 1), Err(StatsError::NotFinite { index: 0, .. })));
        assert!(matches!(paired_difference(&[], &[], Statistic::Mean, 1), Err(StatsError::Empty { .. })));
    }

    #[test]
    fn a_baseline_that_is_mostly_zero_has_no_finite_interval() {
        let base = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        let r = ratio(&[1.0; 9], &base, Statistic::Median, Pairing::Unpaired, 1).unwrap();
        assert_eq!((r.value, r.interval), (1.0, None));
    }

    #[test]
    fn paired_differences_keep_the_unit() {
        let base: Vec<f64> = (0..20).map(f64::from).collect();
        let ours: Vec<f64> = base.iter().map(|v| v - 3.0).collect();
        let d = paired_difference(&ours, &base, Statistic::Median, 1).unwrap();
        assert_eq!(d, Estimate { value: -3.0, interval: Some(Interval { lo: -3.0, hi: -3.0 }) });
    }
}
