//! Smoothed round-trip time and its variation, by the rule of RFC 6298, section 2.

use crate::time::Duration;

/// An estimate of a round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttEstimate {
    /// SRTT of RFC 6298.
    pub smoothed: Duration,
    /// RTTVAR of RFC 6298.
    pub variation: Duration,
    /// Another host's, to begin with: the first sample of this host replaces it.
    pub prior: bool,
}

impl RttEstimate {
    /// The estimate after one sample: its variation is half of it (RFC 6298, 2.2).
    pub fn first(sample: Duration) -> Self {
        Self { smoothed: sample, variation: sample / 2, prior: false }
    }

    /// The estimate after one more sample: gains 1/8 and 1/4 (RFC 6298, 2.3).
    pub fn update(self, sample: Duration) -> Self {
        if self.prior {
            return Self::first(sample);
        }
        let error = self.smoothed.abs_diff(sample);
        let (smoothed, variation) = ((self.smoothed * 7 + sample) / 8, (self.variation * 3 + error) / 4);
        Self { smoothed, variation, prior: false }
    }

    /// The estimate `old`, if any, after `sample`.
    pub fn extend(old: Option<Self>, sample: Duration) -> Self {
        old.map_or_else(|| Self::first(sample), |e| e.update(sample))
    }

    /// By when an answer should have come: SRTT + 4 RTTVAR (RFC 6298, 2.3, without its one-second floor).
    pub fn timeout(self) -> Duration {
        self.smoothed + self.variation * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_samples_shrink_the_variation_and_keep_the_mean() {
        let ms = Duration::from_millis;
        let mut e = RttEstimate::first(ms(40));
        for _ in 0..40 {
            e = e.update(ms(40));
        }
        assert_eq!(e.smoothed, ms(40));
        assert!(e.timeout() < ms(41), "{e:?}");
    }

    #[test]
    fn one_sample_of_this_host_outweighs_what_another_says() {
        let ms = Duration::from_millis;
        let prior = RttEstimate { prior: true, ..RttEstimate::first(ms(400)) };
        assert_eq!(RttEstimate::extend(Some(prior), ms(40)), RttEstimate::first(ms(40)));
    }
}
