//! HyStart as Linux's `tcp_cubic.c` has it, without pacing: slow start is left when as much is under way as fits, which the
//! acknowledgements of one round trip show. They come in a train as long as half a round trip, or round trips have become
//! longer. What `headstart_core::cwnd` has is another one (RFC 9406).

use headstart_core::time::{Duration, Instant};

/// Below this window it does not look (Linux: `hystart_low_window`), in segments.
pub const LOW_WINDOW: f64 = 16.0;
/// A round is judged by more samples than this (Linux: `HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;
/// Acknowledgements of a train are no further apart than this (Linux: `hystart_ack_delta_us`).
const APART: Duration = Duration::from_millis(2);
/// What aggregation may add to a train (Linux: `hystart_ack_delay`, which is a millisecond below 260 MB/s).
const AGGREGATION: Duration = Duration::from_millis(1);
/// A rise of an eighth of the least round trip, within these, is one (Linux: `HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));

/// What a round trip's worth of acknowledgements has shown.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The number whose acknowledgement ends it.
    pub end: u64,
    began: Instant,
    /// The last acknowledgement of its train.
    train: Instant,
    least: Duration,
    samples: u32,
}

impl Round {
    /// A round that begins now and goes on until `end` is acknowledged.
    pub fn new(now: Instant, end: u64) -> Self {
        Self { end, began: now, train: now, least: Duration::MAX, samples: 0 }
    }

    /// A sample of it, `least` being the least round trip of all: whether as much is under way as fits.
    pub fn is_full(&mut self, now: Instant, rtt: Duration, least: Duration) -> bool {
        let mut full = false;
        if now - self.train <= APART {
            self.train = now;
            full = now - self.began > (least + AGGREGATION) / 2;
        }
        self.least = self.least.min(rtt);
        self.samples += 1;
        full || self.samples > SAMPLES && self.least > least + (least / 8).clamp(RISE.0, RISE.1)
    }
}
