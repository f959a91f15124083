//! HyStart++ (RFC 9406): the end of slow start by a rise of the round-trip time, before the queue overflows.
//!
//! The bound L on growth by one acknowledgement is not here: section 4.2 lifts it for senders that pace.

use crate::time::Duration;

/// MIN_RTT_THRESH, MAX_RTT_THRESH: RFC 9406, section 4.3.
const RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// MIN_RTT_DIVISOR.
const RISE_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE.
const SAMPLES: u32 = 8;
/// CSS_GROWTH_DIVISOR.
const GROWTH_DIVISOR: f64 = 4.0;
/// CSS_ROUNDS.
const CONSERVATIVE_ROUNDS: u32 = 5;

/// Watches the round-trip times of a slow start.
#[derive(Clone, Debug, Default)]
pub struct HyStart {
    last_round: Option<Duration>,
    this_round: Option<Duration>,
    samples: u32,
    /// Conservative slow start: its baseline and the rounds that it has lasted.
    conservative: Option<(Duration, u32)>,
}

impl HyStart {
    /// A sample; true if slow start is over.
    pub fn sample(&mut self, rtt: Duration, ends_round: bool) -> bool {
        if ends_round {
            (self.last_round, self.this_round, self.samples) = (self.this_round.or(self.last_round), None, 0);
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= CONSERVATIVE_ROUNDS {
                    return true;
                }
            }
        }
        let least = self.this_round.map_or(rtt, |least| least.min(rtt));
        self.this_round = Some(least);
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES {
            return false;
        }
        match (self.conservative, self.last_round) {
            (Some((baseline, _)), _) if least < baseline => self.conservative = None,
            (None, Some(last)) if least >= last.saturating_add((last / RISE_DIVISOR).clamp(RISE.0, RISE.1)) => {
                self.conservative = Some((least, 0));
            }
            _ => {}
        }
        false
    }

    /// By how much of the acknowledged bytes the window grows.
    pub fn share(&self) -> f64 {
        if self.conservative.is_some() { 1.0 / GROWTH_DIVISOR } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A round of `count` samples; whether slow start ended in it.
    fn round(hystart: &mut HyStart, rtt: Duration, count: u32) -> bool {
        (0..count).map(|k| hystart.sample(rtt, k == 0)).fold(false, |over, now| over | now)
    }

    #[test]
    fn a_rise_slows_the_growth_and_five_rounds_later_slow_start_is_over() {
        let mut hystart = HyStart::default();
        assert!(!round(&mut hystart, ms(40), 10) && !round(&mut hystart, ms(44), 10));
        assert_eq!(hystart.share(), 1.0, "4 ms are less than an eighth");
        round(&mut hystart, ms(50), 10);
        assert_eq!(hystart.share(), 0.25);
        assert!((0..4).all(|_| !round(&mut hystart, ms(52), 10)));
        assert!(round(&mut hystart, ms(52), 10));
    }

    #[test]
    fn a_rise_that_was_jitter_is_forgotten() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(40), 10);
        round(&mut hystart, ms(60), 10);
        assert_eq!(hystart.share(), 0.25);
        round(&mut hystart, ms(41), 10);
        assert_eq!(hystart.share(), 1.0);
    }

    #[test]
    fn fewer_than_eight_samples_prove_nothing() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(40), 7);
        round(&mut hystart, ms(90), 7);
        assert_eq!(hystart.share(), 1.0);
    }
}
