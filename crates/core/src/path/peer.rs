//! What is known of one peer address on one network.

use super::RttEstimate;
use crate::time::{Duration, Instant};

/// A failure older than this is forgotten: "on the order of 10 minutes", RFC 6555, section 4.2.
pub const FAILURE_MEMORY: Duration = Duration::from_secs(600);
/// How soon an address answers that programs will not have given up: what Node allows each address but the last is 250 ms (`autoSelectFamilyAttemptTimeout`); a fifth less for what varies.
pub const SOON: Duration = Duration::from_millis(200);

/// History of one peer.
#[derive(Clone, Debug)]
pub struct PeerHistory {
    /// Round-trip time of its handshakes; a lower bound where one was given up.
    pub rtt: Option<RttEstimate>,
    /// Whether it has ever completed a handshake.
    pub has_answered: bool,
    /// When it was last tried.
    pub last_used: Instant,
    /// Until when a failure counts.
    pub(super) failing_until: Option<Instant>,
    /// Only another host has tried it.
    pub(super) prior: bool,
}

impl PeerHistory {
    pub(super) fn new(now: Instant) -> Self {
        Self { rtt: None, has_answered: false, last_used: now, failing_until: None, prior: false }
    }

    /// Whether the last attempt failed, less than 10 minutes ago (`FAILURE_MEMORY`).
    pub fn is_failing(&self, now: Instant) -> bool {
        self.failing_until.is_some_and(|until| now < until)
    }

    /// Whether only another host has tried it.
    pub fn is_prior(&self) -> bool {
        self.prior
    }

    /// Whether a program that gets this peer alone will connect: it has answered, and sooner than programs give up an address
    /// that is one of several.
    pub fn will_do(&self, now: Instant) -> bool {
        let soon = self.rtt.is_some_and(|rtt| rtt.smoothed <= SOON);
        self.has_answered && soon && !self.is_failing(now)
    }

    pub(super) fn connected(&mut self, now: Instant, rtt: Duration) {
        self.rtt = Some(RttEstimate::extend(self.rtt, rtt));
        self.has_answered = true;
        self.last_used = now;
        self.failing_until = None;
        self.prior = false;
    }

    /// A handshake was given up without an answer. If that took longer than was expected, the round-trip time is no less
    /// than what was `waited`.
    pub(super) fn outlasted(&mut self, now: Instant, waited: Option<Duration>) {
        self.last_used = now;
        self.prior = false;
        self.rtt = waited.map(RttEstimate::first).or(self.rtt);
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.last_used = now;
        self.prior = false;
        self.failing_until = Some(now + FAILURE_MEMORY);
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
