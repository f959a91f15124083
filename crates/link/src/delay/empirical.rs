//! A delay with a measured distribution, given by its quantiles.
//!
//! The list is the distribution's quantiles at equal steps from the 0th to the last percentile; draws lie between two
//! neighbours, linearly. So five numbers are the box plot: minimum, lower quartile, median, upper quartile, maximum. What
//! is never drawn: a delay outside the list.

use headstart_core::time::{Duration, Instant};

use super::{Delay, DelaySpec, from_nanos, nanos};
use crate::quantity;
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "empirical";
const FORM: &str = "MIN:…:MAX";

pub(super) const ENTRY: Entry<dyn Delay> = Entry {
    name: NAME,
    what: "a measured distribution: its quantiles at equal steps from minimum to maximum, linear in between",
    source: "inverse transform of an empirical distribution, as netem's distribution tables",
    parameters: FORM,
    example: "8ms:9ms:10ms:12ms:30ms",
    parse,
};

/// A delay with the given quantiles, which are sorted first. No quantile is no delay, one is a constant.
pub fn empirical(quantiles: &[Duration]) -> DelaySpec {
    let mut sorted = quantiles.to_vec();
    sorted.sort_unstable();
    let text = sorted.iter().map(|&delay| quantity::show_duration(delay)).collect::<Vec<_>>().join(":");
    DelaySpec::new(NAME, text, move || Box::new(Empirical(sorted.clone())))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<DelaySpec, BadModel> {
    let parts = split(text, NAME, FORM, 1..=usize::MAX)?;
    let quantiles = parts.iter().map(|part| quantity::duration(part)).collect::<Result<Vec<_>, _>>()?;
    if !quantiles.is_sorted() {
        return Err(BadModel::Senseless { model: NAME, reason: "the quantiles must not decrease: sort them" });
    }
    Ok(empirical(&quantiles))
}

/// Sorted.
struct Empirical(Vec<Duration>);

impl Delay for Empirical {
    fn draw(&mut self, _: Instant, rng: &mut fastrand::Rng) -> Duration {
        let place = rng.f64() * self.0.len().saturating_sub(1) as f64;
        let index = place as usize;
        match (self.0.get(index), self.0.get(index + 1)) {
            (Some(&low), Some(&high)) => from_nanos(nanos(low) + (nanos(high) - nanos(low)) * place.fract()),
            (Some(&only), None) => only,
            (None, _) => Duration::ZERO,
        }
    }

    fn least(&self) -> Duration {
        self.0.first().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draws_have_the_quantiles_that_were_given() {
        let given: Vec<_> = [8, 9, 10, 12, 30].map(Duration::from_millis).into();
        let mut model = empirical(&given).build();
        let mut rng = fastrand::Rng::with_seed(5);
        let mut draws: Vec<f64> = (0..40_001).map(|_| nanos(model.draw(Instant::ZERO, &mut rng)) / 1e6).collect();
        draws.sort_by(f64::total_cmp);
        for (quarter, wanted) in [(1, 9.0), (2, 10.0), (3, 12.0)] {
            let found = draws[quarter * 10_000];
            assert!((found - wanted).abs() < 0.4, "quartile {quarter}: {found}");
        }
        assert!(draws[0] >= 8.0 && draws[40_000] <= 30.0);
    }

    #[test]
    fn one_quantile_is_a_constant_and_none_is_no_delay() {
        let mut rng = fastrand::Rng::with_seed(5);
        assert_eq!(
            empirical(&[Duration::from_millis(3)]).build().draw(Instant::ZERO, &mut rng),
            Duration::from_millis(3)
        );
        assert_eq!(empirical(&[]).build().draw(Instant::ZERO, &mut rng), Duration::ZERO);
    }

    #[test]
    fn the_least_is_the_first_quantile() {
        let ms = Duration::from_millis;
        assert_eq!(empirical(&[ms(9), ms(3), ms(5)]).build().least(), ms(3));
        assert_eq!(empirical(&[]).build().least(), Duration::ZERO);
    }
}
