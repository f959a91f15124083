//! The shape of a sample: its empirical distribution and the five numbers of a box plot.
//!
//! Whiskers follow Tukey (1977): the farthest values within 1.5 interquartile ranges of the box. Nothing is smoothed and
//! no outlier is dropped.

use super::{Statistic, StatsError, quantile_of};

/// The empirical cumulative distribution function of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Ecdf {
    sorted: Vec<f64>,
}

impl Ecdf {
    /// Share of values at or below `x`, 0..=1.
    pub fn at(&self, x: f64) -> f64 {
        self.sorted.partition_point(|v| *v <= x) as f64 / self.sorted.len() as f64
    }

    /// The values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// The corners of the step function: each distinct value with the share at or below it, ascending.
    pub fn steps(&self) -> Vec<(f64, f64)> {
        let n = self.sorted.len() as f64;
        let mut steps: Vec<(f64, f64)> = Vec::with_capacity(self.sorted.len());
        for (i, &x) in self.sorted.iter().enumerate() {
            let share = (i + 1) as f64 / n;
            match steps.last_mut() {
                Some(last) if last.0 == x => last.1 = share,
                _ => steps.push((x, share)),
            }
        }
        steps
    }
}

/// The empirical distribution of `values`.
pub fn ecdf(values: &[f64]) -> Result<Ecdf, StatsError> {
    Statistic::Median.check(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(Ecdf { sorted })
}

/// The five numbers of a box plot, and what lies outside of its whiskers.
#[derive(Clone, Debug, PartialEq)]
pub struct FiveNumbers {
    /// Smallest value not more than 1.5 interquartile ranges below the box.
    pub whisker_low: f64,
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// Largest value not more than 1.5 interquartile ranges above the box.
    pub whisker_high: f64,
    /// The values beyond the whiskers, ascending.
    pub outliers: Vec<f64>,
}

/// The five numbers of `values`.
pub fn five_numbers(values: &[f64]) -> Result<FiveNumbers, StatsError> {
    let sorted = ecdf(values)?.sorted;
    let mut scratch = sorted.clone();
    let [q1, median, q3] = [0.25, 0.5, 0.75].map(|p| quantile_of(&mut scratch, p));
    let reach = 1.5 * (q3 - q1);
    let inside = |v: &f64| (q1 - reach..=q3 + reach).contains(v);
    // An interpolated quartile may lie beyond every value inside the reach; a whisker never ends within the box.
    let whisker_low = sorted.iter().copied().find(inside).map_or(q1, |v| v.min(q1));
    let whisker_high = sorted.iter().rev().copied().find(inside).map_or(q3, |v| v.max(q3));
    let outliers = sorted.into_iter().filter(|v| !inside(v)).collect();
    Ok(FiveNumbers { whisker_low, q1, median, q3, whisker_high, outliers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_steps_once_a_distinct_value() {
        let e = ecdf(&[3.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(e.steps(), [(1.0, 0.25), (2.0, 0.5), (3.0, 1.0)]);
        assert_eq!((e.at(0.9), e.at(2.5), e.at(3.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn far_values_are_outliers_and_stay_visible() {
        let mut v: Vec<f64> = (1..=9).map(f64::from).collect();
        v.push(100.0);
        let b = five_numbers(&v).unwrap();
        assert_eq!((b.whisker_low, b.q1, b.median, b.q3, b.whisker_high), (1.0, 3.25, 5.5, 7.75, 9.0));
        assert_eq!(b.outliers, [100.0]);
    }

    #[test]
    fn one_value_is_a_flat_box_and_nothing_is_refused() {
        let b = five_numbers(&[4.0]).unwrap();
        assert_eq!((b.whisker_low, b.q1, b.median, b.q3, b.whisker_high), (4.0, 4.0, 4.0, 4.0, 4.0));
        assert!(b.outliers.is_empty());
        assert!(matches!(five_numbers(&[]), Err(StatsError::Empty { .. })));
        assert!(matches!(ecdf(&[f64::NAN]), Err(StatsError::NotFinite { .. })));
    }

    #[test]
    fn whiskers_never_end_inside_the_box() {
        let b = five_numbers(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 50.0, 100.0]).unwrap();
        assert!(b.whisker_low <= b.q1 && b.q1 <= b.q3 && b.q3 <= b.whisker_high);
    }
}
