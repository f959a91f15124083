//! A delay that is equally likely anywhere between two bounds.

use headstart_core::time::{Duration, Instant};

use super::{Delay, DelaySpec};
use crate::quantity;
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "uniform";
const FORM: &str = "LEAST:MOST";

pub(super) const ENTRY: Entry<dyn Delay> = Entry {
    name: NAME,
    what: "a delay equally likely anywhere between two bounds",
    source: "netem's default jitter; waiting for a periodic grant (an LTE scheduling request) is uniform",
    parameters: FORM,
    example: "10ms:20ms",
    parse,
};

/// A delay between `least` and `most`, both possible; the bounds may come in either order.
pub fn uniform(least: Duration, most: Duration) -> DelaySpec {
    let (least, most) = (least.min(most), least.max(most));
    let text = format!("{}:{}", quantity::show_duration(least), quantity::show_duration(most));
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let (least, most) = (nanos(least), nanos(most));
    DelaySpec::new(NAME, text, move || Box::new(Uniform { least, most }))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<DelaySpec, BadModel> {
    let parts = split(text, NAME, FORM, 2..=2)?;
    let (least, most) = (quantity::duration(&parts[0])?, quantity::duration(&parts[1])?);
    if least > most {
        return Err(BadModel::Senseless { model: NAME, reason: "the first bound is above the second: swap them" });
    }
    Ok(uniform(least, most))
}

/// Both bounds in nanoseconds.
struct Uniform {
    least: u64,
    most: u64,
}

impl Delay for Uniform {
    fn draw(&mut self, _: Instant, rng: &mut fastrand::Rng) -> Duration {
        Duration::from_nanos(rng.u64(self.least..=self.most))
    }

    fn least(&self) -> Duration {
        Duration::from_nanos(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quarter_of_the_range_gets_a_quarter_of_the_draws() {
        let mut model = uniform(Duration::from_millis(10), Duration::from_millis(20)).build();
        let mut rng = fastrand::Rng::with_seed(3);
        let mut counts = [0u32; 4];
        for _ in 0..40_000 {
            let nanos = model.draw(Instant::ZERO, &mut rng).as_nanos() as u64 - 10_000_000;
            counts[(nanos / 2_500_001) as usize] += 1;
        }
        // Binomial, 40000 draws at 1/4: five standard deviations are 433.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 433), "{counts:?}");
    }

    #[test]
    fn bounds_read_in_their_order_and_may_be_one() {
        let read = |text: &str| parse(text, &mut |_| Err(String::new()));
        assert_eq!(read("10ms:20ms").unwrap().build().least(), Duration::from_millis(10));
        assert_eq!(read("10ms:10ms").unwrap().to_string(), "uniform:10ms:10ms");
        assert!(read("20ms:10ms").is_err());
    }
}
