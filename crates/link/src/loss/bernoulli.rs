//! Each packet is lost with the same chance, whatever happened to the others.

use super::{Loss, LossSpec};
use crate::quantity;
use crate::spec::split;
use crate::{BadModel, Entry, Files};
use headstart_core::time::Instant;

const NAME: &str = "bernoulli";
const FORM: &str = "SHARE";

pub(super) const ENTRY: Entry<dyn Loss> = Entry {
    name: NAME,
    what: "each packet is lost with the same probability, independently",
    source: "netem's `loss random`, which paper 2 (Table 1) used; mahimahi's mm-loss",
    parameters: FORM,
    example: "10%",
    parse,
};

/// Independent loss of a share between 0 and 1; values outside are clamped, what is no number is no loss.
pub fn bernoulli(share: f64) -> LossSpec {
    let share = super::share(share);
    LossSpec::new(NAME, quantity::show_fraction(share), move || Box::new(Bernoulli(share)))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<LossSpec, BadModel> {
    let parts = split(text, NAME, FORM, 1..=1)?;
    Ok(bernoulli(quantity::fraction(&parts[0])?))
}

struct Bernoulli(f64);

impl Loss for Bernoulli {
    fn loses(&mut self, _: Instant, rng: &mut fastrand::Rng) -> bool {
        // A draw is below 1, so that 0 loses nothing and 1 everything.
        rng.f64() < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(share: f64, count: u32) -> u32 {
        let mut model = bernoulli(share).build();
        let mut rng = fastrand::Rng::with_seed(11);
        (0..count).map(|_| u32::from(model.loses(Instant::ZERO, &mut rng))).sum()
    }

    #[test]
    fn the_share_is_within_four_standard_deviations_of_the_binomial() {
        for share in [0.01, 0.02, 0.08, 0.5] {
            let count = 200_000;
            let (mean, sd) = (f64::from(count) * share, (f64::from(count) * share * (1.0 - share)).sqrt());
            let found = f64::from(lost(share, count));
            assert!((found - mean).abs() < 4.0 * sd, "{share}: {found}");
        }
    }

    #[test]
    fn nothing_and_everything_are_exact() {
        assert_eq!(lost(0.0, 10_000), 0);
        assert_eq!(lost(1.0, 10_000), 10_000);
        assert_eq!(lost(f64::NAN, 10_000), 0);
    }
}
