//! What the lab says about samples: medians, quantiles, intervals, distributions.
//!
//! Pure and seeded: the same samples and the same seed give the same digits on every machine. Quantiles are Hyndman and
//! Fan's definition 7 (linear interpolation, the default of R and NumPy), intervals are percentile bootstraps
//! (Efron 1979), see [`estimate`]. A value that is not finite is refused, never dropped: a trial that failed has to be
//! counted by the caller that ran it.

mod bootstrap;
mod heterogeneity;
mod pooled;
mod shape;

pub use bootstrap::{
    Estimate, Interval, MIN_FOR_INTERVAL, Pairing, RESAMPLES, estimate, grouped_ratio, paired_difference, ratio,
};
pub use heterogeneity::{Heterogeneity, combine, heterogeneity};
pub use pooled::{pooled_quantile, pooled_ratio};
pub use shape::{Ecdf, FiveNumbers, ecdf, five_numbers};

use std::fmt;

/// Why a statistic could not be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// There was nothing to summarise.
    #[error("no values to compute the {statistic} of: check that the trials produced any before summarising")]
    Empty {
        /// The statistic asked for.
        statistic: String,
    },
    /// A value was NaN or infinite.
    #[error("value {index} is {value}, not a finite number: record a failed trial as failed, not as a value")]
    NotFinite {
        /// Index of the first such value.
        index: usize,
        /// The value.
        value: f64,
    },
    /// Paired samples of different lengths.
    #[error("paired samples must be equally long, got {ours} and {baseline}: pair them by trial, or compare unpaired")]
    LengthsDiffer {
        /// Length of the first sample.
        ours: usize,
        /// Length of the second sample.
        baseline: usize,
    },
    /// A probability outside 0..=1.
    #[error("{0} is not a probability: give a quantile between 0 and 1")]
    NotAProbability(f64),
    /// A ratio to zero.
    #[error("the {statistic} of the baseline is zero, so a ratio to it means nothing: report a difference instead")]
    ZeroBaseline {
        /// The statistic asked for.
        statistic: String,
    },
}

/// One number that stands for a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// The quantile at 0.5.
    Median,
    /// The quantile at this probability, 0..=1.
    Quantile(f64),
    /// Standard deviation with the divisor n - 1; zero for one value.
    StandardDeviation,
}

impl Statistic {
    /// The statistic of `values`.
    pub fn of(self, values: &[f64]) -> Result<f64, StatsError> {
        self.check(values)?;
        Ok(self.of_checked(&mut values.to_vec()))
    }

    /// Refuses what [`Statistic::of_checked`] could not handle.
    fn check(self, values: &[f64]) -> Result<(), StatsError> {
        if let Self::Quantile(p) = self
            && !(0.0..=1.0).contains(&p)
        {
            return Err(StatsError::NotAProbability(p));
        }
        if values.is_empty() {
            return Err(StatsError::Empty { statistic: self.to_string() });
        }
        all_finite(values)
    }

    /// The statistic of values that were checked; reorders them.
    fn of_checked(self, values: &mut [f64]) -> f64 {
        match self {
            Self::Mean => mean_of(values),
            Self::Median => quantile_of(values, 0.5),
            Self::Quantile(p) => quantile_of(values, p),
            Self::StandardDeviation => {
                if values.len() < 2 {
                    return 0.0;
                }
                let mean = mean_of(values);
                let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
                (squares / (values.len() - 1) as f64).sqrt()
            }
        }
    }
}

impl std::str::FromStr for Statistic {
    type Err = ();

    /// Reads what [`Statistic`] writes.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "mean" => Ok(Self::Mean),
            "median" => Ok(Self::Median),
            "standard deviation" => Ok(Self::StandardDeviation),
            _ => {
                let percent: f64 = text.strip_prefix('p').and_then(|p| p.parse().ok()).ok_or(())?;
                if (0.0..=100.0).contains(&percent) { Ok(Self::Quantile(percent / 100.0)) } else { Err(()) }
            }
        }
    }
}

impl fmt::Display for Statistic {
    /// `mean`, `median`, `p75`, `standard deviation`: as it stands in tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Median => f.write_str("median"),
            // Three decimals of a percentile are enough for p99.999, and hide that 0.29 * 100 is not quite 29.
            Self::Quantile(p) => write!(f, "p{}", (p * 100_000.0).round() / 1000.0),
            Self::StandardDeviation => f.write_str("standard deviation"),
        }
    }
}

/// The middle of `values`; of an even number of values the mean of the two middle ones.
pub fn median(values: &[f64]) -> Result<f64, StatsError> {
    Statistic::Median.of(values)
}

/// The quantile of `values` at probability `p`, by definition 7 of Hyndman and Fan (1996).
///
/// With the values sorted as x₀ … xₙ₋₁ and h = (n - 1)·p, it is x at ⌊h⌋ plus the fraction of h times the step to the next
/// value: the minimum at 0, the maximum at 1, the usual median at 0.5.
pub fn quantile(values: &[f64], p: f64) -> Result<f64, StatsError> {
    Statistic::Quantile(p).of(values)
}

fn all_finite(values: &[f64]) -> Result<(), StatsError> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(StatsError::NotFinite { index, value: values[index] }),
        None => Ok(()),
    }
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Definition 7 by selection: linear time, which is what makes thousands of resamples cheap.
fn quantile_of(values: &mut [f64], p: f64) -> f64 {
    let h = (values.len() - 1) as f64 * p;
    let below = (h.floor() as usize).min(values.len() - 1);
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let fraction = h - below as f64;
    if fraction <= 0.0 || above.is_empty() {
        return low;
    }
    let next = above.iter().copied().fold(f64::INFINITY, f64::min);
    low + fraction * (next - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_definition_seven() {
        let v = [40.0, 10.0, 30.0, 20.0];
        assert_eq!(median(&v), Ok(25.0));
        assert_eq!(quantile(&v, 0.0), Ok(10.0));
        assert_eq!(quantile(&v, 1.0), Ok(40.0));
        // numpy.quantile([10, 20, 30, 40], 0.75) == 32.5
        assert_eq!(quantile(&v, 0.75), Ok(32.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Ok(2.0));
    }

    #[test]
    fn one_value_is_every_quantile_of_itself() {
        for p in [0.0, 0.3, 0.5, 1.0] {
            assert_eq!(quantile(&[7.5], p), Ok(7.5));
        }
        assert_eq!(Statistic::StandardDeviation.of(&[7.5]), Ok(0.0));
    }

    #[test]
    fn nothing_and_nan_are_refused_with_a_reason() {
        assert_eq!(median(&[]), Err(StatsError::Empty { statistic: "median".into() }));
        assert!(matches!(median(&[1.0, f64::NAN]), Err(StatsError::NotFinite { index: 1, .. })));
        assert!(matches!(Statistic::Mean.of(&[f64::INFINITY]), Err(StatsError::NotFinite { index: 0, .. })));
        assert_eq!(quantile(&[1.0], 1.5), Err(StatsError::NotAProbability(1.5)));
        assert!(matches!(quantile(&[1.0], f64::NAN), Err(StatsError::NotAProbability(_))));
    }

    #[test]
    fn mean_and_deviation_are_the_usual_ones() {
        let v = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(Statistic::Mean.of(&v), Ok(5.0));
        let sd = Statistic::StandardDeviation.of(&v).unwrap();
        assert!((sd - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn statistics_are_named_as_in_tables() {
        let names: Vec<_> = [Statistic::Mean, Statistic::Median, Statistic::Quantile(0.75), Statistic::Quantile(0.999)]
            .map(|s| s.to_string())
            .into();
        assert_eq!(names, ["mean", "median", "p75", "p99.9"]);
        for name in names.iter().map(String::as_str).chain(["standard deviation"]) {
            assert_eq!(name.parse::<Statistic>().map(|s| s.to_string()).as_deref(), Ok(name));
        }
        assert!(["p", "p101", "failed", "share"].iter().all(|name| name.parse::<Statistic>().is_err()));
    }
}
