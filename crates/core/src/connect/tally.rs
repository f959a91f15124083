//! What was gained and what it cost, counted.

use crate::time::Duration;
use crate::wire::shim::Pass;
use std::collections::BTreeMap;

/// Counters of a [`Connector`](super::Connector) since it began. The price of every race is read from here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// getaddrinfo calls answered with addresses.
    pub resolved: u64,
    /// getaddrinfo calls answered with an error.
    pub unresolved: u64,
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
}
