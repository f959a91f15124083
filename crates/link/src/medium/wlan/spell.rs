//! Something that is on and off by turns, each for an exponentially distributed time.
//!
//! Memoryless, so that a long gap may be skipped without playing it: what holds after it is drawn from the long-run shares.
//! What never happens here: a clock is read, or a spell ends before it began.

use headstart_core::time::{Duration, Instant};

/// A gap of so many mean cycles is skipped: what was before it is forgotten to a share of e^-20.
const FORGOTTEN_CYCLES: u32 = 20;

/// See the module.
pub(super) struct Spell {
    mean_on: Duration,
    mean_off: Duration,
    on: bool,
    /// When the present spell ends.
    until: Instant,
    begun: bool,
}

impl Spell {
    /// On for `mean_on` and off for `mean_off` on average; zero is never.
    pub fn new(mean_on: Duration, mean_off: Duration) -> Self {
        Self { mean_on, mean_off, on: false, until: Instant::ZERO, begun: false }
    }

    /// Whether it is on at `at`; `at` never decreases from call to call.
    pub fn at(&mut self, at: Instant, rng: &mut fastrand::Rng) -> bool {
        let cycle = self.mean_on.saturating_add(self.mean_off);
        if self.mean_on.is_zero() || self.mean_off.is_zero() {
            (self.on, self.until) = (self.mean_off.is_zero() && !self.mean_on.is_zero(), Instant::FAR_FUTURE);
        } else if !self.begun || at.since(self.until) > cycle.saturating_mul(FORGOTTEN_CYCLES) {
            self.on = rng.f64() * cycle.as_secs_f64() < self.mean_on.as_secs_f64();
            self.until = at + self.draw(rng);
        }
        self.begun = true;
        while self.until <= at && self.until != Instant::FAR_FUTURE {
            self.on = !self.on;
            self.until += self.draw(rng);
        }
        self.on
    }

    /// When the present spell ends, as of the last [`Spell::at`].
    pub fn until(&self) -> Instant {
        self.until
    }

    /// The length of a spell of the present kind, at least a microsecond.
    fn draw(&self, rng: &mut fastrand::Rng) -> Duration {
        let mean = if self.on { self.mean_on } else { self.mean_off };
        // 1 - u is in (0, 1].
        let nanos = -(1.0 - rng.f64()).ln() * mean.as_nanos() as f64;
        Duration::from_nanos(nanos as u64).max(Duration::from_micros(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_on(mut spell: Spell, step: Duration, count: u32) -> f64 {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut at = Instant::ZERO;
        let on = (0..count).filter(|_| {
            at += step;
            spell.at(at, &mut rng)
        });
        on.count() as f64 / f64::from(count)
    }

    #[test]
    fn it_is_on_for_its_share_of_the_time_whether_time_is_played_or_skipped() {
        let spell = || Spell::new(Duration::from_millis(100), Duration::from_millis(300));
        // 2000 cycles: the standard error is about sqrt(0.25 * 0.75 / 2000) = 0.01.
        assert!((share_on(spell(), Duration::from_millis(1), 800_000) - 0.25).abs() < 0.04);
        assert!((share_on(spell(), Duration::from_secs(60), 20_000) - 0.25).abs() < 0.02);
    }

    #[test]
    fn zero_is_never() {
        let second = Duration::from_secs(1);
        assert_eq!(share_on(Spell::new(second, Duration::ZERO), second, 100), 1.0);
        assert_eq!(share_on(Spell::new(Duration::ZERO, second), second, 100), 0.0);
        assert_eq!(share_on(Spell::new(Duration::ZERO, Duration::ZERO), second, 100), 0.0);
    }
}
