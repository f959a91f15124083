//! What is known of networks, families and peers: the ground that the columns share.
//!
//! A [`PathBook`] remembers, for every network that the host has been on, the round-trip times and failures of each
//! address family and each peer, and how long lookups take. It is history, not truth: every entry ages, every
//! suspension ends, and exploration (see `connect::race::adaptive`) keeps it from hardening into prejudice.

mod family;
pub mod identity;
mod peer;
pub mod record;
mod rtt;

pub use family::{Family, FamilyHistory};
pub use peer::{PeerHistory, SOON};
pub use rtt::RttEstimate;

use crate::time::{Duration, Instant};
use crate::wire::nat64::Prefix;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

/// Peers remembered per network; the one that was used longest ago is dropped for a new one.
pub const MAX_PEERS: usize = 4096;

/// Networks remembered; the one that was left longest ago is dropped for a new one.
pub const MAX_NETWORKS: usize = 16;

/// An attempt that waited this long without an answer before it was given up counts as a failure: the Connection
/// Attempt Delay of RFC 8305, section 8, beyond which that standard itself looks elsewhere.
pub const UNANSWERED_AFTER: Duration = Duration::from_millis(250);

/// Identity of an attached network, as the network monitor tells them apart; opaque here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NetworkId(pub u64);

/// History of one network.
#[derive(Clone, Debug, Default)]
pub struct Network {
    v4: FamilyHistory,
    v6: FamilyHistory,
    peers: HashMap<IpAddr, PeerHistory>,
    /// Whether programs that know of nothing else go to IPv4 addresses before global IPv6 ones.
    pub v4_first: bool,
    /// Prefixes of its translators, and until when they need not be asked for again.
    translators: Option<(Vec<Prefix>, Instant)>,
    /// Outcomes that were recorded.
    learned: u64,
}

/// What an attempt to connect came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handshake took this long.
    Connected(Duration),
    /// Refused, unreachable, or timed out.
    Failed,
    /// Given up, after this long without an answer, because another attempt won.
    Abandoned(Duration),
}

impl Network {
    /// History of `family` on this network.
    pub fn family(&self, family: Family) -> &FamilyHistory {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// History of `family` on this network, to be changed.
    pub fn family_mut(&mut self, family: Family) -> &mut FamilyHistory {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// History of one peer, if there is any.
    pub fn peer(&self, addr: IpAddr) -> Option<&PeerHistory> {
        self.peers.get(&addr)
    }

    /// The round-trip time to expect of `addr`: its own, else its family's, else nothing is known.
    pub fn expected_rtt(&self, addr: IpAddr) -> Option<RttEstimate> {
        self.peer(addr).and_then(|p| p.rtt).or_else(|| self.family(Family::of(addr)).rtt)
    }

    /// Whether attempts to `addr` have lately failed.
    pub fn is_failing(&self, addr: IpAddr, now: Instant) -> bool {
        self.peer(addr).is_some_and(|p| p.is_failing(now))
    }

    /// Whether `family` is suspended at `now`.
    pub fn is_suspended(&self, family: Family, now: Instant) -> bool {
        self.family(family).is_suspended(now)
    }

    /// The prefixes of this network's translators (NAT64); `None` if they were not asked for lately.
    pub fn translators(&self, now: Instant) -> Option<&[Prefix]> {
        self.translators.as_ref().filter(|(_, until)| now < *until).map(|(prefixes, _)| prefixes.as_slice())
    }

    /// Takes in which translators there are, to be asked for again after `until`.
    pub fn learn_translators(&mut self, prefixes: Vec<Prefix>, until: Instant) {
        self.translators = Some((prefixes, until));
    }

    /// The IPv4 address that `addr` is reached for, if it is one behind a translator of this network.
    pub fn translated(&self, addr: IpAddr) -> Option<Ipv4Addr> {
        let IpAddr::V6(v6) = addr else { return None };
        self.translators.as_ref()?.0.iter().find_map(|p| p.extract(v6))
    }

    /// The family of the destination `addr`: IPv4 for one behind a translator.
    pub fn family_of(&self, addr: IpAddr) -> Family {
        if self.translated(addr).is_some() { Family::V4 } else { Family::of(addr) }
    }

    /// Takes in what an attempt to `addr` came to.
    pub fn record(&mut self, now: Instant, addr: IpAddr, outcome: Outcome) {
        let family = Family::of(addr);
        self.learned += 1;
        match outcome {
            Outcome::Connected(rtt) => {
                self.family_mut(family).connected(rtt);
                self.peer_mut(addr, now).connected(now, rtt);
            }
            Outcome::Abandoned(waited) if waited < UNANSWERED_AFTER => {
                // What was given up early takes at least that long. Where less was expected, that is news; else it says
                // nothing: an attempt that was given up after 2 ms shows no host that is 2 ms away.
                let expected = self.expected_rtt(addr).or(self.family(family.other()).rtt);
                let news = expected.is_some_and(|expected| expected.smoothed < waited);
                self.peer_mut(addr, now).outlasted(now, news.then_some(waited));
            }
            Outcome::Abandoned(_) | Outcome::Failed => {
                self.peer_mut(addr, now).failed(now);
                self.family_mut(family).failed(now, addr);
            }
        }
    }

    /// Adds what was learned since, which is nearer to the truth than what was known.
    fn absorb(&mut self, newer: Self) {
        for family in Family::BOTH {
            let mut learned = newer.family(family).clone();
            let known = self.family_mut(family);
            learned.rtt = learned.rtt.or(known.rtt);
            learned.lookup = learned.lookup.or(known.lookup);
            *known = learned;
        }
        self.peers.extend(newer.peers);
        while self.peers.len() > MAX_PEERS {
            self.drop_oldest_peer();
        }
        self.translators = newer.translators.or_else(|| self.translators.take());
    }

    fn drop_oldest_peer(&mut self) {
        let oldest = self.peers.iter().min_by_key(|(a, p)| (p.last_used, **a)).map(|(a, _)| *a);
        if let Some(oldest) = oldest {
            self.peers.remove(&oldest);
        }
    }

    fn peer_mut(&mut self, addr: IpAddr, now: Instant) -> &mut PeerHistory {
        if !self.peers.contains_key(&addr) && self.peers.len() >= MAX_PEERS {
            self.drop_oldest_peer();
        }
        self.peers.entry(addr).or_insert_with(|| PeerHistory::new(now))
    }
}

/// The history of every network that the host has been on, in memory.
#[derive(Clone, Debug, Default)]
pub struct PathBook {
    networks: HashMap<NetworkId, Network>,
    current: NetworkId,
    /// Those that it was on before, the latest last.
    former: VecDeque<NetworkId>,
    /// Changes that are not of a network alone.
    moves: u64,
}

impl PathBook {
    /// The network that the host is on.
    pub fn current(&mut self) -> &mut Network {
        self.networks.entry(self.current).or_default()
    }

    /// Counts up whenever something was learned on the current network, or on another since it was left.
    pub fn version(&self) -> u64 {
        self.networks.values().map(|network| network.learned).fold(self.moves, u64::wrapping_add)
    }

    /// Forgets peers, on every network.
    pub fn forget(&mut self, peers: &[IpAddr]) {
        for network in self.networks.values_mut() {
            peers.iter().for_each(|peer| _ = network.peers.remove(peer));
        }
        self.moves += 1;
    }

    /// The network that the host is on turns out to be `network`: what was learned of it under its first name is added to
    /// what was known of it.
    pub fn recognise(&mut self, network: NetworkId) {
        if network == self.current {
            return;
        }
        let here = self.networks.remove(&self.current).unwrap_or_default();
        self.former.retain(|id| *id != network);
        self.current = network;
        self.moves += 1;
        match self.networks.entry(network) {
            Entry::Occupied(known) => known.into_mut().absorb(here),
            Entry::Vacant(place) => {
                place.insert(here);
            }
        }
    }

    /// The host has moved to `network`. What was learned on others stays with them.
    pub fn move_to(&mut self, network: NetworkId) {
        self.former.retain(|id| *id != network);
        if self.current != network {
            self.former.push_back(self.current);
        }
        self.current = network;
        if self.former.len() >= MAX_NETWORKS
            && let Some(oldest) = self.former.pop_front()
        {
            self.networks.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(n: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n])
    }
    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn an_unknown_peer_is_expected_to_be_like_its_family() {
        let mut net = Network::default();
        assert_eq!(net.expected_rtt(v6(1)), None);
        net.record(at(0), v6(1), Outcome::Connected(Duration::from_millis(40)));
        assert_eq!(net.expected_rtt(v6(2)).unwrap().smoothed, Duration::from_millis(40));
    }

    #[test]
    fn what_was_learned_on_one_network_says_nothing_of_another() {
        let mut book = PathBook::default();
        book.current().record(at(0), v6(1), Outcome::Failed);
        assert!(book.current().is_failing(v6(1), at(1)));
        book.move_to(NetworkId(7));
        assert!(!book.current().is_failing(v6(1), at(1)));
        book.move_to(NetworkId(0));
        assert!(book.current().is_failing(v6(1), at(1)));
    }

    #[test]
    fn a_network_that_is_recognised_is_known_of_old_and_keeps_what_it_has_just_taught() {
        let mut book = PathBook::default();
        book.move_to(NetworkId(7));
        book.current().record(at(0), v6(1), Outcome::Connected(Duration::from_millis(40)));
        book.current().record(at(0), v6(2), Outcome::Connected(Duration::from_millis(60)));
        book.move_to(NetworkId(8));
        book.current().record(at(5), v6(1), Outcome::Failed);
        book.current().family_mut(Family::V4).has_route = false;
        book.recognise(NetworkId(7));
        assert!(book.current().is_failing(v6(1), at(6)), "the newer");
        assert!(book.current().peer(v6(2)).is_some(), "the older");
        assert!(book.current().family(Family::V6).rtt.is_some() && !book.current().family(Family::V4).has_route);
        book.move_to(NetworkId(8));
        assert!(book.current().peer(v6(1)).is_none(), "there is no such network");
    }

    #[test]
    fn the_version_counts_whatever_changes_the_book() {
        let mut book = PathBook::default();
        let mut versions = vec![book.version()];
        let mut after = |book: &PathBook| versions.push(book.version());
        book.current().record(at(0), v6(1), Outcome::Failed);
        after(&book);
        book.current().record(at(0), v6(2), Outcome::Failed);
        after(&book);
        book.forget(&[v6(1)]);
        assert!(book.current().peer(v6(1)).is_none() && book.current().peer(v6(2)).is_some());
        after(&book);
        book.forget(&[v6(3)]);
        after(&book);
        book.recognise(NetworkId(9));
        after(&book);
        book.recognise(NetworkId(9));
        assert_eq!(versions, [0, 1, 2, 3, 4, 5]);
        assert_eq!(book.version(), 5, "it was there already");
    }

    #[test]
    fn a_network_that_is_recognised_is_no_former_one_and_others_still_are() {
        let mut book = PathBook::default();
        [1, 2, 3].iter().for_each(|n| book.move_to(NetworkId(*n)));
        book.recognise(NetworkId(2));
        assert_eq!(book.former, [0, 1].map(NetworkId));
    }

    #[test]
    fn two_books_of_peers_that_become_one_keep_to_its_bound() {
        let full = |first: u32| {
            let mut net = Network::default();
            let of = |n: u32| IpAddr::from((first + n).to_be_bytes());
            (0..MAX_PEERS as u32).for_each(|n| net.record(at(u64::from(first + n)), of(n), Outcome::Failed));
            net
        };
        let (mut older, newer) = (full(0), full(3));
        older.absorb(newer);
        assert_eq!(older.peers.len(), MAX_PEERS);
        assert!(older.peer(IpAddr::from(2u32.to_be_bytes())).is_none(), "the oldest went first");
    }

    #[test]
    fn translators_are_asked_for_again_when_their_time_has_come() {
        let prefix = Prefix::new("64:ff9b::".parse().unwrap(), 96).unwrap();
        let mut net = Network::default();
        net.learn_translators(vec![prefix], at(10));
        assert_eq!(net.translators(at(9)), Some(&[prefix][..]));
        assert_eq!(net.translators(at(10)), None);
    }

    #[test]
    fn only_so_many_networks_are_remembered() {
        let mut book = PathBook::default();
        for n in 0..MAX_NETWORKS as u64 + 5 {
            book.move_to(NetworkId(n));
            book.current().record(at(0), v6(1), Outcome::Failed);
            assert!(book.networks.len() <= MAX_NETWORKS);
        }
        book.move_to(NetworkId(0));
        assert!(!book.current().is_failing(v6(1), at(1)), "the first has been forgotten");
        book.move_to(NetworkId(MAX_NETWORKS as u64));
        assert!(book.current().is_failing(v6(1), at(1)));
    }

    #[test]
    fn an_attempt_abandoned_early_is_no_failure_and_one_abandoned_late_is() {
        let mut net = Network::default();
        net.record(at(0), v6(1), Outcome::Abandoned(Duration::from_millis(40)));
        assert!(!net.is_failing(v6(1), at(1)));
        net.record(at(0), v6(1), Outcome::Abandoned(UNANSWERED_AFTER - Duration::from_millis(1)));
        assert!(!net.is_failing(v6(1), at(1)));
        net.record(at(0), v6(1), Outcome::Abandoned(UNANSWERED_AFTER));
        assert!(net.is_failing(v6(1), at(1)));
    }

    #[test]
    fn an_attempt_abandoned_early_has_taken_at_least_that_long() {
        let mut net = Network::default();
        let rtt = |net: &Network| net.peer(v6(1)).unwrap().rtt.unwrap().smoothed;
        net.record(at(0), v6(1), Outcome::Connected(Duration::from_millis(20)));
        net.record(at(0), v6(1), Outcome::Abandoned(Duration::from_millis(10)));
        assert_eq!(rtt(&net), Duration::from_millis(20), "that says nothing new");
        net.record(at(0), v6(1), Outcome::Abandoned(Duration::from_millis(70)));
        assert_eq!(rtt(&net), Duration::from_millis(70));
    }

    #[test]
    fn an_attempt_that_was_given_up_at_once_shows_no_host_that_is_near() {
        let mut net = Network::default();
        net.record(at(0), v6(1), Outcome::Abandoned(Duration::from_millis(2)));
        assert_eq!(net.peer(v6(1)).unwrap().rtt, None);
        net.record(at(0), v6(2), Outcome::Connected(Duration::from_millis(40)));
        net.record(at(0), v6(1), Outcome::Abandoned(Duration::from_millis(30)));
        assert_eq!(net.peer(v6(1)).unwrap().rtt, None, "it may well be as far as its family");
        let v4 = IpAddr::from([192, 0, 2, 1]);
        net.record(at(0), v4, Outcome::Abandoned(Duration::from_millis(41)));
        assert_eq!(net.peer(v4).unwrap().rtt.map(|r| r.smoothed), Some(Duration::from_millis(41)));
    }

    #[test]
    fn the_book_of_peers_never_grows_past_its_bound() {
        let mut net = Network::default();
        for n in 0..MAX_PEERS as u32 + 100 {
            net.record(at(u64::from(n)), IpAddr::from(n.to_be_bytes()), Outcome::Failed);
        }
        assert_eq!(net.peers.len(), MAX_PEERS);
        assert!(net.peer(IpAddr::from(0u32.to_be_bytes())).is_none(), "the oldest went first");
    }
}
