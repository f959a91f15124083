//! The two address families, and what is known of each on a network, suspension included.
//!
//! Paper 1, section III-B: after three subsequent failures the thread of a family is suspended until connectivity
//! returns. Ours asks for failures at different peers, since one dead server says nothing of a family; a family without
//! a route is suspended at once; and a suspension ends by probing, after 30 s at first.

use super::RttEstimate;
use crate::time::{Duration, Instant};
use std::net::IpAddr;

/// Failures in a row, each at another peer, that suspend a family: paper 1, section III-B.
pub const SUSPEND_AFTER: usize = 3;
/// Lookups given up in a row after which that record type is not waited for: one may be a broken server's, two are not.
pub const SWALLOWED_AFTER: u32 = 2;
/// First time that a suspended family rests before it is probed.
pub const FIRST_REST: Duration = Duration::from_secs(30);
/// Longest time that a suspended family rests; each failed probe doubles the rest up to it.
pub const LONGEST_REST: Duration = Duration::from_secs(600);

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4; its addresses are in A records.
    V4,
    /// IPv6; its addresses are in AAAA records.
    V6,
}

impl Family {
    /// Both, in the order of preference of RFC 6724 on a dual-stack host.
    pub const BOTH: [Self; 2] = [Self::V6, Self::V4];

    /// The family of `addr`.
    pub fn of(addr: IpAddr) -> Self {
        if addr.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// What is known of a family on one network.
#[derive(Clone, Debug)]
pub struct FamilyHistory {
    /// Round-trip times of handshakes, over all peers.
    pub rtt: Option<RttEstimate>,
    /// Time from query to answer of this family's record type.
    pub lookup: Option<RttEstimate>,
    /// Whether the host has a route for it.
    pub has_route: bool,
    unanswered: u32,
    failed_at: Vec<IpAddr>,
    suspended_until: Option<Instant>,
    rest: Duration,
}

impl Default for FamilyHistory {
    fn default() -> Self {
        Self {
            rtt: None,
            lookup: None,
            has_route: true,
            unanswered: 0,
            failed_at: Vec::new(),
            suspended_until: None,
            rest: FIRST_REST,
        }
    }
}

impl FamilyHistory {
    /// Whether connections should not be opened over it at `now`, unless it is the only family.
    pub fn is_suspended(&self, now: Instant) -> bool {
        !self.has_route || self.suspended_until.is_some_and(|until| now < until)
    }

    /// How long after `now` failures keep it suspended; a missing route does not count here.
    pub fn suspended_for(&self, now: Instant) -> Duration {
        self.suspended_until.map_or(Duration::ZERO, |until| until - now)
    }

    /// Whether a suspension has run out and a probe should find out whether the family is back.
    pub fn wants_probe(&self, now: Instant) -> bool {
        self.has_route && self.suspended_until.is_some_and(|until| now >= until)
    }

    pub(super) fn connected(&mut self, rtt: Duration) {
        self.rtt = Some(RttEstimate::extend(self.rtt, rtt));
        self.failed_at.clear();
        self.suspended_until = None;
        self.rest = FIRST_REST;
    }

    pub(super) fn failed(&mut self, now: Instant, peer: IpAddr) {
        if self.wants_probe(now) {
            self.rest = (self.rest * 2).min(LONGEST_REST);
            self.suspended_until = Some(now + self.rest);
        } else if !self.failed_at.contains(&peer) {
            self.failed_at.push(peer);
            if self.failed_at.len() >= SUSPEND_AFTER {
                self.failed_at.clear();
                self.suspended_until = Some(now + self.rest);
            }
        }
    }

    /// Takes in that a lookup of this family's record type was answered, and how long it took if that is known.
    pub fn looked_up(&mut self, took: Option<Duration>) {
        self.unanswered = 0;
        if let Some(took) = took {
            self.lookup = Some(RttEstimate::extend(self.lookup, took));
        }
    }

    /// Takes in that a lookup of this family's record type was given up.
    pub fn lookup_unanswered(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Whether lookups of this family's record type are being swallowed on this network: do not wait for one. They
    /// are still asked, and the first answer ends it.
    pub fn is_unanswered(&self) -> bool {
        self.unanswered >= SWALLOWED_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    #[test]
    fn three_failures_at_one_peer_suspend_nothing_three_at_different_peers_do() {
        let mut f = FamilyHistory::default();
        for _ in 0..5 {
            f.failed(Instant::ZERO, peer(1));
        }
        assert!(!f.is_suspended(Instant::ZERO));
        f.failed(Instant::ZERO, peer(2));
        f.failed(Instant::ZERO, peer(3));
        assert!(f.is_suspended(Instant::ZERO));
    }

    #[test]
    fn a_success_in_between_starts_the_count_again() {
        let mut f = FamilyHistory::default();
        f.failed(Instant::ZERO, peer(1));
        f.failed(Instant::ZERO, peer(2));
        f.connected(Duration::from_millis(20));
        f.failed(Instant::ZERO, peer(3));
        assert!(!f.is_suspended(Instant::ZERO));
    }

    #[test]
    fn the_rest_doubles_with_each_failed_probe_up_to_ten_minutes_and_a_good_one_ends_it() {
        let mut f = FamilyHistory::default();
        let mut now = Instant::ZERO;
        (1..=3).for_each(|n| f.failed(now, peer(n)));
        let mut rests = Vec::new();
        for _ in 0..6 {
            let until = f.suspended_until.unwrap();
            rests.push((until - now).as_secs());
            assert!(f.is_suspended(now) && f.wants_probe(until));
            now = until;
            f.failed(now, peer(9));
        }
        assert_eq!(rests, [30, 60, 120, 240, 480, 600]);
        f.connected(Duration::from_millis(20));
        assert!(!f.is_suspended(now) && !f.wants_probe(now));
    }

    #[test]
    fn lookups_are_swallowed_after_two_in_a_row_until_one_is_answered() {
        let mut f = FamilyHistory::default();
        f.lookup_unanswered();
        assert!(!f.is_unanswered());
        f.lookup_unanswered();
        assert!(f.is_unanswered());
        f.looked_up(None);
        assert!(!f.is_unanswered() && f.lookup.is_none());
    }

    #[test]
    fn a_family_without_a_route_is_suspended_at_once() {
        let f = FamilyHistory { has_route: false, ..FamilyHistory::default() };
        assert!(f.is_suspended(Instant::ZERO) && !f.wants_probe(Instant::ZERO));
    }
}
