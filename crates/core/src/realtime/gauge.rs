//! What one end knows of its path: round trips, the rhythm of messages, losses. Measures, decides nothing.

use crate::path::RttEstimate;
use crate::time::{Duration, Instant};

/// The shortest round trip is forgotten after one to two of these: paths change. Ours.
const MIN_WINDOW: Duration = Duration::from_secs(10);
/// A pause this many times as long as the interval so far is the end of a gesture, not a longer interval. Ours.
const PAUSE: u32 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    pub rtt: Option<RttEstimate>,
    shortest: [Option<Duration>; 2],
    window_began: Instant,
    pub last_loss: Option<Instant>,
    pub sends: Rhythm,
    pub arrivals: Rhythm,
}

impl Gauge {
    pub fn sample(&mut self, now: Instant, rtt: Duration) {
        self.rtt = Some(RttEstimate::extend(self.rtt, rtt));
        if now.since(self.window_began) > MIN_WINDOW {
            self.shortest = [self.shortest[1], None];
            self.window_began = now;
        }
        self.shortest[1] = Some(self.shortest[1].map_or(rtt, |old| old.min(rtt)));
    }

    /// The shortest round trip of the last ten to twenty seconds.
    pub fn shortest(&self) -> Option<Duration> {
        self.shortest.into_iter().flatten().min()
    }
}

/// The time between messages, and how much it varies.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    pub last: Option<Instant>,
    mean: Option<Duration>,
    pub jitter: Duration,
}

impl Rhythm {
    pub fn beat(&mut self, now: Instant) {
        if let Some(gap) = self.last.map(|last| now.since(last)) {
            match self.mean {
                None => self.mean = Some(gap),
                Some(mean) if gap > mean * PAUSE && !mean.is_zero() => {}
                // Gain 1/8 as for round trips (RFC 6298), 1/16 for the jitter (RFC 3550, section 6.4.1).
                Some(mean) => {
                    self.jitter = (self.jitter * 15 + mean.abs_diff(gap)) / 16;
                    self.mean = Some((mean * 7 + gap) / 8);
                }
            }
        }
        self.last = Some(now);
    }

    pub fn interval(&self) -> Option<Duration> {
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_pause_between_gestures_is_no_interval() {
        let mut rhythm = Rhythm::default();
        for k in 0..20 {
            rhythm.beat(at(30 * k));
        }
        rhythm.beat(at(10_000));
        assert_eq!(rhythm.interval(), Some(Duration::from_millis(30)));
        assert_eq!(rhythm.jitter, Duration::ZERO);
    }

    #[test]
    fn the_shortest_round_trip_is_forgotten_in_the_end() {
        let mut gauge = Gauge::default();
        gauge.sample(at(1), Duration::from_millis(5));
        for k in 1..30 {
            gauge.sample(at(1000 * k + 7), Duration::from_millis(50));
        }
        assert_eq!(gauge.shortest(), Some(Duration::from_millis(50)));
    }

    #[test]
    fn an_interval_follows_and_says_how_much_it_varies() {
        let mut rhythm = Rhythm::default();
        for millis in [0, 30, 80, 110] {
            rhythm.beat(at(millis));
        }
        // 30, 50 and 30 ms: an eighth and a sixteenth of the difference, each time.
        assert_eq!(rhythm.interval(), Some(Duration::from_nanos(32_187_500)));
        assert_eq!(rhythm.jitter, Duration::from_nanos(1_328_125));
        // Messages that came at once have no interval that a pause could be long beside.
        let mut rhythm = Rhythm::default();
        [0, 0, 80].into_iter().for_each(|millis| rhythm.beat(at(millis)));
        assert_eq!(rhythm.interval(), Some(Duration::from_millis(10)));
    }
}
