//! A normally distributed delay, cut off three standard deviations from its mean and at zero by drawing again.
//!
//! The cut keeps one packet in a million from stopping all that follow it, since order is kept. What is never drawn: a
//! delay below zero or outside mean ± 3 sd.

use headstart_core::time::{Duration, Instant};

use super::{Delay, DelaySpec, from_nanos, nanos};
use crate::quantity;
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "normal";
const FORM: &str = "MEAN:SD";
/// Standard deviations on either side: 0.27 % of the draws of an uncut normal lie outside three.
const CUT: f64 = 3.0;

pub(super) const ENTRY: Entry<dyn Delay> = Entry {
    name: NAME,
    what: "a truncated normal delay: mean and standard deviation, at most 3 sd from the mean, never below zero",
    source: "netem's `distribution normal`; polar method of Marsaglia and Bray (SIAM Review, 1964)",
    parameters: FORM,
    example: "15ms:2ms",
    parse,
};

/// A truncated normal delay.
pub fn normal(mean: Duration, sd: Duration) -> DelaySpec {
    let text = format!("{}:{}", quantity::show_duration(mean), quantity::show_duration(sd));
    DelaySpec::new(NAME, text, move || Box::new(Normal { mean: nanos(mean), sd: nanos(sd) }))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<DelaySpec, BadModel> {
    let parts = split(text, NAME, FORM, 2..=2)?;
    Ok(normal(quantity::duration(&parts[0])?, quantity::duration(&parts[1])?))
}

struct Normal {
    /// Nanoseconds.
    mean: f64,
    /// Nanoseconds.
    sd: f64,
}

impl Delay for Normal {
    fn draw(&mut self, _: Instant, rng: &mut fastrand::Rng) -> Duration {
        loop {
            // At least 49 % of the draws are kept, since the mean is not negative.
            let z = standard(rng);
            let value = self.mean + self.sd * z;
            if z.abs() <= CUT && value >= 0.0 {
                return from_nanos(value);
            }
        }
    }

    fn least(&self) -> Duration {
        // One nanosecond for the rounding of a draw.
        from_nanos((self.mean - CUT * self.sd - 1.0).max(0.0))
    }
}

/// A standard normal draw.
fn standard(rng: &mut fastrand::Rng) -> f64 {
    loop {
        let (x, y) = (rng.f64() * 2.0 - 1.0, rng.f64() * 2.0 - 1.0);
        let s = x * x + y * y;
        if s > 0.0 && s < 1.0 {
            return x * (-2.0 * s.ln() / s).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(mean_ms: u64, sd_ms: u64, count: usize) -> Vec<f64> {
        let mut model = normal(Duration::from_millis(mean_ms), Duration::from_millis(sd_ms)).build();
        let mut rng = fastrand::Rng::with_seed(7);
        (0..count).map(|_| nanos(model.draw(Instant::ZERO, &mut rng)) / 1e6).collect()
    }

    #[test]
    fn mean_spread_and_cut_are_as_asked() {
        let all = draws(50, 4, 100_000);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let sd = (all.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
        // The standard error of the mean is 4 / sqrt(100000) = 0.0126; a normal cut at 3 sd keeps 98.66 % of its sd.
        assert!((mean - 50.0).abs() < 0.05, "{mean}");
        assert!((sd - 4.0 * 0.9866).abs() < 0.04, "{sd}");
        assert!(all.iter().all(|d| (38.0..=62.0).contains(d)));
    }

    #[test]
    fn no_delay_is_below_zero_even_around_zero() {
        let all = draws(0, 5, 1000);
        assert!(all.iter().all(|d| (0.0..=15.0).contains(d)));
        assert!(all.iter().any(|d| *d > 1.0));
    }

    #[test]
    fn no_spread_is_a_constant() {
        assert!(draws(9, 0, 10).iter().all(|d| *d == 9.0));
    }

    #[test]
    fn the_least_is_three_deviations_below_the_mean_and_never_below_zero() {
        let ms = Duration::from_millis;
        assert_eq!(normal(ms(50), ms(4)).build().least(), ms(38) - Duration::from_nanos(1));
        assert_eq!(normal(ms(5), ms(4)).build().least(), Duration::ZERO);
    }

    #[test]
    fn a_standard_draw_has_the_tails_of_the_normal_distribution() {
        let mut rng = fastrand::Rng::with_seed(7);
        let draws: Vec<f64> = (0..200_000).map(|_| standard(&mut rng)).collect();
        let share = |from: f64, to: f64| draws.iter().filter(|z| (from..to).contains(*z)).count() as f64 / 200_000.0;
        // Five standard errors are at most 0.0056.
        for (from, to, wanted) in [(-1.0, 0.0, 0.3413), (0.0, 1.0, 0.3413), (1.0, 2.0, 0.1359), (-2.0, -1.0, 0.1359)] {
            assert!((share(from, to) - wanted).abs() < 0.0056, "{} from {from} to {to}", share(from, to));
        }
        assert!((share(2.0, 9.0) - 0.0228).abs() < 0.0017 && (share(-9.0, -2.0) - 0.0228).abs() < 0.0017);
    }
}
