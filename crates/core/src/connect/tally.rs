//! What was gained and what it cost, counted, for each account apart.

use crate::time::Duration;
use crate::wire::shim::Pass;
use std::collections::BTreeMap;

/// Counters of a [`Connector`](super::Connector) since it began. The price of every race is read from here.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tally {
    /// getaddrinfo calls answered with addresses.
    pub resolved: u64,
    /// getaddrinfo calls answered with an error.
    pub unresolved: u64,
    /// Questions that programs asked over DNS themselves and that were answered here.
    pub asked: u64,
    /// Of these, answered as empty because the other family had addresses.
    pub not_waited_for: u64,
    /// Lookups of one family that the cache answered.
    pub cache_hits: u64,
    /// Lookups of one family that went to a server.
    pub cache_misses: u64,
    /// Queries sent, retries included.
    pub queries: u64,
    /// Connection attempts begun (SYNs, without the kernel's retransmissions).
    pub attempts: u64,
    /// Attempts begun only to learn (see `race::adaptive`); contained in `attempts`.
    pub explorations: u64,
    /// Connections handed over complete.
    pub handed_over: u64,
    /// Connections handed over under way.
    pub handed_over_in_progress: u64,
    /// Races in which every attempt failed.
    pub failed: u64,
    /// Connections that were opened and that nobody used.
    pub unused: u64,
    /// Calls left alone, by reason.
    pub passed: BTreeMap<Pass, u64>,
    /// Time that programs waited for answers to getaddrinfo.
    pub lookup_wait: Duration,
    /// Time that programs waited for connections that were handed over complete.
    pub connect_wait: Duration,
    /// Time that the handshakes of those connections took; more than `connect_wait` where they began ahead of time.
    pub handshakes: Duration,
}

impl Tally {
    /// Connections handed over.
    pub fn connections(&self) -> u64 {
        self.handed_over + self.handed_over_in_progress
    }

    /// Attempts begun for each connection handed over; `None` before the first.
    pub fn attempts_per_connection(&self) -> Option<f64> {
        (self.connections() > 0).then(|| self.attempts as f64 / self.connections() as f64)
    }

    fn add(&mut self, other: &Self) {
        // Taken apart, so that no counter can be forgotten.
        let Self {
            resolved,
            unresolved,
            asked,
            not_waited_for,
            cache_hits,
            cache_misses,
            queries,
            attempts,
            explorations,
            handed_over,
            handed_over_in_progress,
            failed,
            unused,
            passed,
            lookup_wait,
            connect_wait,
            handshakes,
        } = other;
        self.resolved += resolved;
        self.unresolved += unresolved;
        self.asked += asked;
        self.not_waited_for += not_waited_for;
        self.cache_hits += cache_hits;
        self.cache_misses += cache_misses;
        self.queries += queries;
        self.attempts += attempts;
        self.explorations += explorations;
        self.handed_over += handed_over;
        self.handed_over_in_progress += handed_over_in_progress;
        self.failed += failed;
        self.unused += unused;
        for (reason, n) in passed {
            *self.passed.entry(*reason).or_default() += n;
        }
        self.lookup_wait += *lookup_wait;
        self.connect_wait += *connect_wait;
        self.handshakes += *handshakes;
    }
}

/// The tallies of all accounts. What is done for nobody in particular is on account 0.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    open: BTreeMap<u32, Tally>,
    closed: Tally,
}

impl Tallies {
    /// The tally of `account`, to be counted on.
    pub fn of(&mut self, account: u32) -> &mut Tally {
        self.open.entry(account).or_default()
    }

    /// The tally of `account` so far.
    pub fn read(&self, account: u32) -> Tally {
        self.open.get(&account).cloned().unwrap_or_default()
    }

    /// All that was ever counted.
    pub fn total(&self) -> Tally {
        let mut total = self.closed.clone();
        self.open.values().for_each(|tally| total.add(tally));
        total
    }

    /// `account` is not asked about any more; what it counted stays in the total.
    pub fn close(&mut self, account: u32) {
        if let Some(tally) = self.open.remove(&account) {
            self.closed.add(&tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_counted_apart_and_all_are_in_the_total_after_their_end_too() {
        let mut tallies = Tallies::default();
        tallies.of(1).queries += 2;
        tallies.of(2).queries += 3;
        *tallies.of(2).passed.entry(Pass::LocalName).or_default() += 1;
        assert_eq!((tallies.read(1).queries, tallies.read(2).queries, tallies.read(3).queries), (2, 3, 0));
        tallies.close(2);
        assert_eq!((tallies.read(2), tallies.total().queries), (Tally::default(), 5));
        assert_eq!(tallies.total().passed[&Pass::LocalName], 1);
    }
}
