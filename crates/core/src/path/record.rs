//! What is worth keeping of networks after a restart, as plain records: ages instead of moments, and nothing that a
//! restart ends (suspensions, translators, routes).
//!
//! What never happens here: reading or writing. A store takes [`PathBook::records`] and gives them back to
//! [`PathBook::recall`], which lets what has been learned since stand.

use super::peer::FAILURE_MEMORY;
use super::{Family, FamilyHistory, Network, NetworkId, PathBook, PeerHistory, RttEstimate};
use crate::time::{Duration, Instant};
use std::net::IpAddr;

/// Peers of a network that are recorded, those used last.
pub const MAX_PEERS_RECORDED: usize = 512;

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NetworkRecord {
    /// Which one.
    pub id: NetworkId,
    /// What is known of IPv4 there.
    pub v4: FamilyRecord,
    /// What is known of IPv6 there.
    pub v6: FamilyRecord,
    /// What is known of peers, the one used last first.
    pub peers: Vec<PeerRecord>,
}

/// An address family on one network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FamilyRecord {
    /// Round-trip time of handshakes, over all peers.
    pub rtt: Option<RttRecord>,
    /// Time from query to answer.
    pub lookup: Option<RttRecord>,
}

/// A smoothed time and its variation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RttRecord {
    /// Microseconds.
    pub smoothed_us: u32,
    /// Microseconds.
    pub variation_us: u32,
}

/// A peer on one network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PeerRecord {
    /// Its address.
    pub address: IpAddr,
    /// Round-trip time of its handshakes; a lower bound where one was given up.
    pub rtt: Option<RttRecord>,
    /// Whether it has ever completed a handshake.
    pub has_answered: bool,
    /// How long ago it was last tried, in seconds.
    pub used_ago_s: u64,
    /// How long ago it failed, in seconds, if it has not answered since.
    pub failed_ago_s: Option<u64>,
}

impl NetworkRecord {
    /// The same record when `time` more has passed.
    pub fn aged(mut self, time: Duration) -> Self {
        for peer in &mut self.peers {
            peer.used_ago_s = peer.used_ago_s.saturating_add(time.as_secs());
            peer.failed_ago_s = peer.failed_ago_s.map(|ago| ago.saturating_add(time.as_secs()));
        }
        self
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        let empty = FamilyRecord::default();
        self.peers.is_empty() && (self.v4, self.v6) == (empty, empty)
    }
}

impl From<RttEstimate> for RttRecord {
    fn from(rtt: RttEstimate) -> Self {
        let us = |d: Duration| u32::try_from(d.as_micros()).unwrap_or(u32::MAX);
        Self { smoothed_us: us(rtt.smoothed), variation_us: us(rtt.variation) }
    }
}

impl From<RttRecord> for RttEstimate {
    fn from(rtt: RttRecord) -> Self {
        let us = |us: u32| Duration::from_micros(us.into());
        Self { smoothed: us(rtt.smoothed_us), variation: us(rtt.variation_us), prior: false }
    }
}

impl FamilyHistory {
    fn to_record(&self) -> FamilyRecord {
        let own = |rtt: Option<RttEstimate>| rtt.filter(|rtt| !rtt.prior).map(Into::into);
        FamilyRecord { rtt: own(self.rtt), lookup: own(self.lookup) }
    }

    fn recall(&mut self, record: &FamilyRecord) {
        self.rtt = self.rtt.or(record.rtt.map(Into::into));
        self.lookup = self.lookup.or(record.lookup.map(Into::into));
    }

    fn take_prior(&mut self, record: &FamilyRecord) {
        let prior = |rtt: RttRecord| RttEstimate { prior: true, ..rtt.into() };
        self.rtt = self.rtt.or(record.rtt.map(prior));
        self.lookup = self.lookup.or(record.lookup.map(prior));
    }
}

impl PeerHistory {
    fn to_record(&self, now: Instant, address: IpAddr) -> PeerRecord {
        let failed = self.failing_until.filter(|until| now < *until).map(|until| FAILURE_MEMORY - (until - now));
        PeerRecord {
            address,
            rtt: self.rtt.filter(|rtt| !rtt.prior).map(Into::into),
            has_answered: self.has_answered,
            used_ago_s: (now - self.last_used).as_secs(),
            failed_ago_s: failed.map(|ago| ago.as_secs()),
        }
    }

    fn recalled(now: Instant, record: &PeerRecord) -> Self {
        let ago = |s| Duration::from_secs(s);
        // The failure may be older than the clock.
        let left = record.failed_ago_s.map(|s| FAILURE_MEMORY.saturating_sub(ago(s)));
        Self {
            rtt: record.rtt.map(Into::into),
            has_answered: record.has_answered,
            last_used: Instant::from_nanos(now.as_nanos().saturating_sub(nanos(ago(record.used_ago_s)))),
            failing_until: left.filter(|left| !left.is_zero()).map(|left| now + left),
            prior: false,
        }
    }

    /// What another host says of it. That it answered there is no promise: no program gets this peer alone because of it.
    fn of_another(now: Instant, record: &PeerRecord) -> Self {
        let mut peer = Self::recalled(now, record);
        peer.rtt = peer.rtt.map(|rtt| RttEstimate { prior: true, ..rtt });
        Self { has_answered: false, prior: true, ..peer }
    }
}

impl Network {
    fn to_record(&self, now: Instant, id: NetworkId) -> NetworkRecord {
        let own = self.peers.iter().filter(|(_, peer)| !peer.is_prior());
        let mut peers: Vec<_> = own.map(|(addr, peer)| peer.to_record(now, *addr)).collect();
        peers.sort_by_key(|peer| (peer.used_ago_s, peer.address));
        peers.truncate(MAX_PEERS_RECORDED);
        let of = |family| self.family(family).to_record();
        NetworkRecord { id, v4: of(Family::V4), v6: of(Family::V6), peers }
    }

    fn recall(&mut self, now: Instant, record: NetworkRecord) {
        self.v4.recall(&record.v4);
        self.v6.recall(&record.v6);
        for peer in record.peers.into_iter().take(MAX_PEERS_RECORDED) {
            self.peers.entry(peer.address).or_insert_with(|| PeerHistory::recalled(now, &peer));
        }
    }

    fn take_prior(&mut self, now: Instant, record: &NetworkRecord) {
        self.v4.take_prior(&record.v4);
        self.v6.take_prior(&record.v6);
        for peer in record.peers.iter().take(MAX_PEERS_RECORDED) {
            if self.peers.len() >= super::MAX_PEERS {
                break;
            }
            self.peers.entry(peer.address).or_insert_with(|| PeerHistory::of_another(now, peer));
        }
    }
}

impl PathBook {
    /// What is known of every network, the current one first.
    pub fn records(&self, now: Instant) -> Vec<NetworkRecord> {
        let ids = std::iter::once(self.current).chain(self.former.iter().rev().copied());
        let known = ids.filter_map(|id| Some(self.networks.get(&id)?.to_record(now, id)));
        known.filter(|record| !record.is_empty()).collect()
    }

    /// Takes in what was known before a restart, the network used last first. What has been learned since stands, and so
    /// do the bounds.
    pub fn recall(&mut self, now: Instant, records: Vec<NetworkRecord>) {
        for record in records {
            if self.makes_room(record.id) {
                self.networks.entry(record.id).or_default().recall(now, record);
            }
        }
    }

    /// Takes in what other hosts learned of the same networks, the most trusted first: it fills gaps, and stands until this host
    /// has tried for itself. It is never among [`PathBook::records`].
    pub fn take_prior(&mut self, now: Instant, records: &[NetworkRecord]) {
        let (here, elsewhere): (Vec<_>, Vec<_>) = records.iter().partition(|record| record.id == self.current);
        for record in here.into_iter().chain(elsewhere) {
            if self.makes_room(record.id) {
                self.networks.entry(record.id).or_default().take_prior(now, record);
            }
        }
    }

    /// Whether there is room for network `id`, which was left the longest ago of all unless it is known.
    fn makes_room(&mut self, id: NetworkId) -> bool {
        if id != self.current && !self.former.contains(&id) {
            if self.former.len() + 1 >= super::MAX_NETWORKS {
                return false;
            }
            self.former.push_front(id);
        }
        true
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{MAX_NETWORKS, Outcome};

    fn v4(n: u32) -> IpAddr {
        IpAddr::from((0xc000_0200 + n).to_be_bytes())
    }
    fn at(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }
    const MS: Duration = Duration::from_millis(1);

    fn learned() -> PathBook {
        let mut book = PathBook::default();
        book.move_to(NetworkId(1));
        book.current().record(at(10), v4(1), Outcome::Connected(20 * MS));
        book.current().record(at(40), v4(2), Outcome::Failed);
        book.current().family_mut(Family::V4).looked_up(Some(9 * MS));
        book.move_to(NetworkId(2));
        book.current().record(at(50), v4(3), Outcome::Connected(30 * MS));
        book
    }

    #[test]
    fn what_is_recalled_is_what_was_recorded_only_older() {
        let records = learned().records(at(100));
        assert_eq!(records.iter().map(|r| r.id.0).collect::<Vec<_>>(), [2, 1], "the current one first");
        let mut book = PathBook::default();
        book.move_to(NetworkId(1));
        let later = records.into_iter().map(|r| r.aged(Duration::from_secs(30))).collect();
        book.recall(at(1000), later);
        let now = at(1000);
        assert_eq!(book.current().peer(v4(1)).unwrap().rtt.unwrap().smoothed, 20 * MS);
        assert_eq!(book.current().family(Family::V4).lookup.unwrap().smoothed, 9 * MS);
        assert!(book.current().is_failing(v4(2), now), "90 s ago");
        assert!(!book.current().is_failing(v4(2), now + Duration::from_secs(511)), "more than 10 min ago");
        book.move_to(NetworkId(2));
        assert!(book.current().peer(v4(3)).is_some_and(|p| p.has_answered));
    }

    #[test]
    fn a_failure_from_before_the_supervisors_clock_began_is_still_forgotten_in_time() {
        let records = learned().records(at(100)).into_iter().map(|r| r.aged(Duration::from_secs(540))).collect();
        let mut book = PathBook::default();
        book.move_to(NetworkId(1));
        book.recall(at(0), records);
        assert!(!book.current().is_failing(v4(2), at(1)), "600 s ago, and the clock began a second ago");
    }

    #[test]
    fn what_was_learned_since_stands() {
        let mut book = PathBook::default();
        book.move_to(NetworkId(1));
        book.current().record(at(5), v4(2), Outcome::Connected(70 * MS));
        book.recall(at(6), learned().records(at(100)));
        assert!(!book.current().is_failing(v4(2), at(7)));
        assert_eq!(book.current().family(Family::V4).rtt.unwrap().smoothed, 70 * MS);
        assert!(book.current().peer(v4(1)).is_some(), "and what was not is added");
    }

    #[test]
    fn what_another_host_says_fills_gaps_until_this_host_has_tried() {
        let mut book = PathBook::default();
        book.move_to(NetworkId(1));
        book.current().record(at(90), v4(2), Outcome::Connected(70 * MS));
        book.take_prior(at(100), &learned().records(at(100)));
        let here = book.current();
        assert!(!here.is_failing(v4(2), at(101)), "own experience stands");
        assert_eq!(here.family(Family::V4).rtt.unwrap().smoothed, 70 * MS);
        let peer = here.peer(v4(1)).unwrap();
        assert_eq!((peer.rtt.unwrap().smoothed, peer.has_answered), (20 * MS, false), "expected, not promised");
        assert_eq!(here.family(Family::V4).lookup.unwrap().smoothed, 9 * MS);
        here.record(at(102), v4(1), Outcome::Connected(200 * MS));
        here.family_mut(Family::V4).looked_up(Some(90 * MS));
        assert_eq!(here.peer(v4(1)).unwrap().rtt.unwrap().smoothed, 200 * MS, "at once");
        assert_eq!(here.family(Family::V4).lookup.unwrap().smoothed, 90 * MS);
    }

    #[test]
    fn a_failure_that_another_host_saw_ends_as_an_own_one_does() {
        let mut book = PathBook::default();
        book.move_to(NetworkId(1));
        book.take_prior(at(100), &learned().records(at(100)));
        assert!(book.current().is_failing(v4(2), at(101)) && !book.current().is_failing(v4(2), at(641)));
        book.current().record(at(110), v4(2), Outcome::Connected(5 * MS));
        assert!(!book.current().is_failing(v4(2), at(111)));
    }

    #[test]
    fn what_another_host_said_is_never_passed_on_as_own() {
        let mut book = PathBook::default();
        book.take_prior(at(100), &learned().records(at(100)));
        assert_eq!(book.records(at(100)), []);
        book.move_to(NetworkId(1));
        book.current().record(at(110), v4(1), Outcome::Abandoned(MS));
        let records = book.records(at(110));
        assert_eq!(records[0].peers.iter().map(|p| (p.address, p.rtt)).collect::<Vec<_>>(), [(v4(1), None)]);
        assert_eq!(records[0].v4, FamilyRecord::default());
    }

    #[test]
    fn the_bounds_hold_whatever_is_recalled() {
        let peer = |n| PeerRecord { address: v4(n), rtt: None, has_answered: false, used_ago_s: 0, failed_ago_s: None };
        let many = (0..100u64).map(|id| NetworkRecord {
            id: NetworkId(id),
            peers: (0..2000).map(peer).collect(),
            ..NetworkRecord::default()
        });
        let mut book = PathBook::default();
        let many: Vec<_> = many.collect();
        book.take_prior(at(0), &many);
        book.recall(at(0), many);
        assert!(book.networks.len() <= MAX_NETWORKS);
        assert!(book.networks.values().all(|n| n.peers.len() <= MAX_PEERS_RECORDED));
        book.move_to(NetworkId(1000));
        assert!(book.networks.len() <= MAX_NETWORKS);
    }

    #[test]
    fn a_network_of_which_nothing_is_known_is_not_recorded() {
        let mut book = PathBook::default();
        book.move_to(NetworkId(9));
        book.current();
        assert!(book.records(at(0)).is_empty());
    }
}
