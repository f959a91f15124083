//! A heavy-tailed delay: Pareto's distribution between a least and a most value.
//!
//! Of the delays above any value, the same share is twice as long: `2^-SHAPE`. The smaller the shape, the heavier the tail;
//! below 2 the uncut distribution has no variance, below 1 no mean, hence the cut. What is never drawn: a delay outside the
//! two bounds.

use headstart_core::time::{Duration, Instant};

use super::{Delay, DelaySpec, from_nanos, nanos};
use crate::quantity::{self, show_duration};
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "pareto";
const FORM: &str = "LEAST:SHAPE:MOST";
/// A larger shape leaves next to nothing above the least delay.
const MOST_SHAPE: f64 = 100.0;

pub(super) const ENTRY: Entry<dyn Delay> = Entry {
    name: NAME,
    what: "a heavy-tailed delay: Pareto's distribution of that shape, cut to the bounds",
    source: "netem's `distribution pareto`; inverse transform of the cut distribution",
    parameters: FORM,
    example: "10ms:1.5:500ms",
    parse,
};

/// A Pareto delay; the bounds may come in either order, the shape is held between a thousandth and a hundred.
pub fn pareto(least: Duration, shape: f64, most: Duration) -> DelaySpec {
    let (least, most) = (least.min(most), least.max(most));
    let shape = if shape.is_nan() { 1.0 } else { shape.clamp(0.001, MOST_SHAPE) };
    let text = format!("{}:{shape}:{}", show_duration(least), show_duration(most));
    let (least, most) = (nanos(least), nanos(most));
    DelaySpec::new(NAME, text, move || Box::new(Pareto { least, shape, most }))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<DelaySpec, BadModel> {
    let parts = split(text, NAME, FORM, 3..=3)?;
    let (least, most) = (quantity::duration(&parts[0])?, quantity::duration(&parts[2])?);
    let senseless = |reason| BadModel::Senseless { model: NAME, reason };
    if least.is_zero() || least > most {
        return Err(senseless("LEAST must be above zero and not above MOST: write e.g. pareto:10ms:1.5:500ms"));
    }
    let plain = parts[1].bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let shape = if plain { parts[1].parse().ok() } else { None };
    let shape = shape.filter(|shape| (0.001..=MOST_SHAPE).contains(shape));
    Ok(pareto(least, shape.ok_or_else(|| senseless("SHAPE must be a number from 0.001 to 100, e.g. 1.5"))?, most))
}

/// Bounds in nanoseconds.
struct Pareto {
    least: f64,
    shape: f64,
    most: f64,
}

impl Delay for Pareto {
    fn draw(&mut self, _: Instant, rng: &mut fastrand::Rng) -> Duration {
        // The share of the uncut distribution that is above `most`.
        let above = (self.least / self.most).powf(self.shape);
        let value = self.least * (1.0 - rng.f64() * (1.0 - above)).powf(-1.0 / self.shape);
        from_nanos(if value.is_nan() { self.least } else { value.clamp(self.least, self.most) })
    }

    fn least(&self) -> Duration {
        from_nanos(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_delays_above_any_value_the_same_share_is_twice_as_long() {
        let mut model = pareto(Duration::from_millis(10), 1.5, Duration::from_secs(3600)).build();
        let mut rng = fastrand::Rng::with_seed(19);
        let draws: Vec<f64> = (0..200_000).map(|_| nanos(model.draw(Instant::ZERO, &mut rng)) / 1e6).collect();
        let above = |millis: f64| draws.iter().filter(|&&d| d > millis).count() as f64;
        for millis in [10.0, 20.0, 40.0, 80.0] {
            // 2^-1.5 is 0.354; the last step has some 8800 draws: four standard errors are 0.02.
            let share = above(2.0 * millis) / above(millis);
            assert!((share - 0.3536).abs() < 0.021, "{share} above {millis} ms");
        }
    }

    #[test]
    fn no_delay_is_outside_the_bounds_even_with_the_heaviest_tail() {
        let (least, most) = (Duration::from_millis(5), Duration::from_millis(50));
        let mut model = pareto(most, 0.001, least).build();
        let mut rng = fastrand::Rng::with_seed(23);
        assert!((0..10_000).all(|_| (least..=most).contains(&model.draw(Instant::ZERO, &mut rng))));
        assert_eq!(model.least(), least);
    }

    #[test]
    fn nonsense_is_refused() {
        let read = |text: &str| parse(text, &mut |_| Err(String::new()));
        assert_eq!(read("10ms:1.5:500ms").unwrap().to_string(), "pareto:10ms:1.5:500ms");
        assert!(read("5ms:1:5ms").is_ok());
        for text in ["10ms:1.5", "0:1:5ms", "5ms:1:1ms", "5ms:0:9ms", "5ms:x:9ms", "5ms:1e1:9ms", "5ms:101:9ms"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_cut_off_is_cut_off_of_all_draws_alike() {
        // Of shape 1 the inverse is uniform: between 1/10 and 1/20, with its middle at 3/40.
        let mut model = pareto(Duration::from_millis(10), 1.0, Duration::from_millis(20)).build();
        let mut rng = fastrand::Rng::with_seed(29);
        let draws: Vec<f64> = (0..40_000).map(|_| nanos(model.draw(Instant::ZERO, &mut rng)) / 1e6).collect();
        // Binomial: five standard deviations are 500.
        let below = draws.iter().filter(|&&d| d < 40.0 / 3.0).count();
        assert!(below.abs_diff(20_000) < 500, "{below}");
        assert!(draws.iter().filter(|&&d| d == 10.0 || d == 20.0).count() < 10, "neither bound is special");
    }
}
