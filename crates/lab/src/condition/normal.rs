//! Stratified standard normal draws: every quantile of the distribution is there, whatever the seed.
//!
//! Latin hypercube sampling (McKay, Beckman and Conover, Technometrics 1979): each of n equal slices of the distribution
//! is drawn from once, in random order. A world of a few hundred sites then has the medians and quartiles that its
//! parameters say, and seeds differ in how sites combine, not in how long the tail happens to be.

/// `n` standard normal values, one from each of `n` equally likely slices, in random order.
pub(super) fn stratified(rng: &mut fastrand::Rng, n: usize) -> Vec<f64> {
    let mut values: Vec<f64> =
        // The middle half of a slice: the outermost slices have no end.
        (0..n).map(|i| quantile((i as f64 + 0.25 + 0.5 * rng.f64()) / n as f64)).collect();
    rng.shuffle(&mut values);
    values
}

/// The quantile of the standard normal distribution at probability `p`, 0 < p < 1.
///
/// Acklam's rational approximation, with a relative error below 1.15e-9.
fn quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 5] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0];
    /// Where the central region ends.
    const TAIL: f64 = 0.02425;
    let polynomial = |of: &[f64], x: f64| of.iter().fold(0.0, |sum, c| sum * x + c);
    if p < TAIL {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    } else if p > 1.0 - TAIL {
        -quantile(1.0 - p)
    } else {
        let q = p - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / polynomial(&B, r)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, z) in [(0.5, 0.0), (0.75, 0.674_489_75), (0.975, 1.959_963_985), (0.999, 3.090_232_306)] {
            assert!((quantile(p) - z).abs() < 1e-8 && (quantile(1.0 - p) + z).abs() < 1e-8, "{p}");
        }
    }

    #[test]
    fn a_small_sample_has_the_shape_of_the_whole_distribution() {
        let values = stratified(&mut fastrand::Rng::with_seed(1), 200);
        let below = |z: f64| values.iter().filter(|v| **v < z).count();
        assert_eq!([below(0.0), below(0.674_489_75), below(-0.674_489_75)], [100, 150, 50]);
        assert!(!values.is_sorted());
    }
}
