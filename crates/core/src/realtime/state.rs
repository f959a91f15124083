//! How a path is doing, and what may be spent on it: four states and a bucket of tokens. Ours.
//!
//! Extra packets help against loss and hurt where the air is full, so the state is asked before any is sent. What never
//! happens here: a copy is paid for that was not earned by messages before it.

use crate::time::{Duration, Instant};

/// How the path is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// Nothing is wrong.
    #[default]
    Clean,
    /// Something was lost of late.
    Lossy,
    /// Round trips take twice as long as they could: what is sent waits, and more of it waits longer.
    Queued,
    /// No connection gets anything through.
    Outage,
}

impl State {
    /// Its name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Lossy => "lossy",
            Self::Queued => "queued",
            Self::Outage => "outage",
        }
    }
}

/// A loss is remembered this long: losses come in bursts of about a second on wireless links. Ours.
pub const LOSS_MEMORY: Duration = Duration::from_secs(2);
/// Round trips count as inflated from twice the shortest one on, and only if that is more than this: the jitter of an idle
/// wireless link (WiFiSeer, MobiSys 2016: median hop latency of a few milliseconds). Ours.
pub const QUEUED_FLOOR: Duration = Duration::from_millis(10);
/// No connection has got anything through for so many times the patience. Ours.
pub const OUTAGE_FACTOR: u32 = 4;

/// The state from what is known. `stuck` is how many times its patience the least stuck connection has been waiting.
pub fn judge(now: Instant, smoothed: Duration, shortest: Duration, last_loss: Option<Instant>, stuck: u32) -> State {
    if stuck >= OUTAGE_FACTOR {
        State::Outage
    } else if smoothed >= shortest * 2 && smoothed >= shortest + QUEUED_FLOOR {
        State::Queued
    } else if last_loss.is_some_and(|at| now.since(at) < LOSS_MEMORY) {
        State::Lossy
    } else {
        State::Clean
    }
}

/// A thousandth of a packet is what tokens are counted in.
const PACKET: u32 = 1000;

/// Extra packets, earned by messages.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    tokens: u32,
    most: u32,
}

impl TokenBucket {
    /// A full bucket of `packets`.
    pub fn new(packets: u32) -> Self {
        Self { tokens: packets * PACKET, most: packets * PACKET }
    }

    /// A message was sent: `percent` of a packet more may be spent.
    pub fn earn(&mut self, percent: u32) {
        self.tokens = (self.tokens + percent * PACKET / 100).min(self.most);
    }

    /// Takes a packet, if there is one.
    pub fn take(&mut self) -> bool {
        let enough = self.tokens >= PACKET;
        if enough {
            self.tokens -= PACKET;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn inflated_round_trips_outweigh_a_loss_and_an_outage_outweighs_both() {
        let now = Instant::from_millis(10_000);
        let lost = Some(Instant::from_millis(9_000));
        assert_eq!(judge(now, ms(22), ms(20), None, 0), State::Clean);
        assert_eq!(judge(now, ms(22), ms(20), lost, 0), State::Lossy);
        assert_eq!(judge(now, ms(45), ms(20), lost, 0), State::Queued);
        assert_eq!(judge(now, ms(45), ms(20), lost, 4), State::Outage);
        assert_eq!(judge(Instant::from_millis(11_000), ms(22), ms(20), lost, 0), State::Clean);
    }

    #[test]
    fn the_jitter_of_a_short_path_is_no_queue() {
        assert_eq!(judge(Instant::ZERO, ms(6), ms(2), None, 0), State::Clean);
        assert_eq!(judge(Instant::ZERO, ms(13), ms(2), None, 0), State::Queued);
        assert_eq!(judge(Instant::ZERO, ms(115), ms(100), None, 0), State::Clean, "nor is that of a long one");
    }

    #[test]
    fn copies_are_paid_for_by_messages() {
        let mut bucket = TokenBucket::new(2);
        assert!(bucket.take() && bucket.take() && !bucket.take());
        for _ in 0..6 {
            bucket.earn(15);
        }
        assert!(!bucket.take());
        bucket.earn(15);
        assert!(bucket.take() && !bucket.take());
    }
}
