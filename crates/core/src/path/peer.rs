//! What is known of one peer address on one network.

use super::RttEstimate;
use crate::time::{Duration, Instant};

/// A failure older than this is forgotten: "on the order of 10 minutes", RFC 6555, section 4.2.
pub const FAILURE_MEMORY: Duration = Duration::from_secs(600);

/// History of one peer.
#[derive(Clone, Debug)]
pub struct PeerHistory {
    /// Round-trip time of its handshakes; a lower bound where one was given up.
    pub rtt: Option<RttEstimate>,
    /// Whether it has ever completed a handshake.
    pub has_answered: bool,
    /// When it was last tried.
    pub last_used: Instant,
    last_failure: Option<Instant>,
}

impl PeerHistory {
    pub(super) fn new(now: Instant) -> Self {
        Self { rtt: None, has_answered: false, last_used: now, last_failure: None }
    }

    /// Whether the last attempt failed, less than 10 minutes ago (`FAILURE_MEMORY`).
    pub fn is_failing(&self, now: Instant) -> bool {
        self.last_failure.is_some_and(|at| now < at + FAILURE_MEMORY)
    }

    pub(super) fn connected(&mut self, now: Instant, rtt: Duration) {
        self.rtt = Some(RttEstimate::extend(self.rtt, rtt));
        self.has_answered = true;
        self.last_used = now;
        self.last_failure = None;
    }

    /// A handshake was given up after `waited` without an answer: the round-trip time is no less than that.
    pub(super) fn outlasted(&mut self, now: Instant, waited: Duration) {
        self.last_used = now;
        if self.rtt.is_none_or(|known| known.smoothed < waited) {
            self.rtt = Some(RttEstimate::first(waited));
        }
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.last_used = now;
        self.last_failure = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_forgiven_by_a_success_and_forgotten_after_ten_minutes() {
        let mut p = PeerHistory::new(Instant::ZERO);
        p.failed(Instant::ZERO);
        assert!(p.is_failing(Instant::from_millis(599_999)));
        assert!(!p.is_failing(Instant::from_millis(600_000)));
        p.connected(Instant::from_millis(5), Duration::from_millis(20));
        assert!(!p.is_failing(Instant::from_millis(6)));
    }
}
