//! Whether several estimates of one ratio agree as well as their intervals let expect.
//!
//! Cochran's Q and I² (Higgins and Thompson, Quantifying heterogeneity in a meta-analysis, Statistics in Medicine, 2002), on
//! logarithms of ratios, with the standard error that a 95 % interval stands for.

use super::Interval;

/// Half of a 95 % interval in standard errors.
const HALF: f64 = 1.959_964;

/// How far several estimates of one ratio are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heterogeneity {
    /// How many there are.
    pub estimates: usize,
    /// The smallest ratio.
    pub least: f64,
    /// The largest ratio.
    pub most: f64,
    /// Share of their variance that chance does not explain, in percent; none where fewer than two have an interval with a width.
    pub i_squared_percent: Option<f64>,
}

/// How far `estimates` are apart; none if there is none.
pub fn heterogeneity(estimates: &[(f64, Option<Interval>)]) -> Option<Heterogeneity> {
    let (first, _) = estimates.first()?;
    let (least, most) = estimates.iter().fold((*first, *first), |(a, b), (ratio, _)| (a.min(*ratio), b.max(*ratio)));
    let weighted: Vec<(f64, f64)> = estimates.iter().filter_map(|(ratio, known)| weight(*ratio, (*known)?)).collect();
    let i_squared_percent = (weighted.len() > 1).then(|| {
        let (_, mean) = weighted_mean(&weighted);
        let q: f64 = weighted.iter().map(|(log, weight)| weight * (log - mean).powi(2)).sum();
        let by_chance = (weighted.len() - 1) as f64;
        if q > by_chance { 100.0 * (q - by_chance) / q } else { 0.0 }
    });
    Some(Heterogeneity { estimates: estimates.len(), least, most, i_squared_percent })
}

/// Several estimates as one, by their precision, with its interval; none where no interval has a width.
pub fn combine(estimates: &[(f64, Option<Interval>)]) -> Option<(f64, Interval)> {
    let weighted: Vec<(f64, f64)> = estimates.iter().filter_map(|(ratio, known)| weight(*ratio, (*known)?)).collect();
    if weighted.is_empty() {
        return None;
    }
    let (weight, mean) = weighted_mean(&weighted);
    let half = HALF / weight.sqrt();
    Some((mean.exp(), Interval { lo: (mean - half).exp(), hi: (mean + half).exp() }))
}

/// Sum of the weights, and the mean.
fn weighted_mean(weighted: &[(f64, f64)]) -> (f64, f64) {
    let weight: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    (weight, weighted.iter().map(|(log, weight)| log * weight).sum::<f64>() / weight)
}

/// The logarithm of a ratio and its weight, one by its variance.
fn weight(ratio: f64, Interval { lo, hi }: Interval) -> Option<(f64, f64)> {
    let error = (hi.ln() - lo.ln()) / (2.0 * HALF);
    (ratio > 0.0 && lo > 0.0 && error > 0.0 && error.is_finite()).then(|| (ratio.ln(), error.powi(-2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ratio: f64, width: f64) -> (f64, Option<Interval>) {
        (ratio, Some(Interval { lo: ratio / width, hi: ratio * width }))
    }

    #[test]
    fn what_agrees_is_chance_and_what_does_not_is_not() {
        let same = heterogeneity(&[of(0.8, 1.1), of(0.8, 1.2), of(0.8, 1.1)]).unwrap();
        assert_eq!((same.estimates, same.least, same.most, same.i_squared_percent), (3, 0.8, 0.8, Some(0.0)));
        let apart = heterogeneity(&[of(0.5, 1.05), of(0.9, 1.05)]).unwrap();
        assert!(apart.i_squared_percent.unwrap() > 95.0, "{apart:?}");
        let two = heterogeneity(&[of(0.8, 1.1), of(0.9, 1.1)]).unwrap().i_squared_percent.unwrap();
        let q = (1.125f64.ln() * HALF / 1.1f64.ln()).powi(2) / 2.0;
        assert!((two - 100.0 * (q - 1.0) / q).abs() < 1e-9, "{two}");
    }

    #[test]
    fn without_intervals_there_is_a_range_alone() {
        let bare = heterogeneity(&[(0.5, None), (2.0, None)]).unwrap();
        assert_eq!((bare.least, bare.most, bare.i_squared_percent), (0.5, 2.0, None));
        assert_eq!(heterogeneity(&[]), None);
        let exact = [(0.5, Some(Interval { lo: 0.5, hi: 0.5 })), (0.5, Some(Interval { lo: 0.5, hi: 0.5 }))];
        assert_eq!(heterogeneity(&exact).unwrap().i_squared_percent, None);
    }

    #[test]
    fn the_more_precise_counts_more() {
        let (mean, interval) = combine(&[of(0.5, 1.01), of(1.0, 2.0)]).unwrap();
        assert!(mean < 0.51 && interval.hi < 0.52, "{mean} {interval:?}");
        assert_eq!(combine(&[(1.0, None)]), None);
    }
}
