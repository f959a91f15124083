//! Where the host is: on which network, with which routes, awake again after a sleep; and what was known of networks
//! before this supervisor.

use super::Connector;
use crate::connect::cache::Cache;
use crate::connect::pool::SpareEnd;
use crate::path::record::NetworkRecord;
use crate::path::{Family, NetworkId};
use crate::time::{Duration, Instant};

/// A sleep shorter than this is none: answers hold for whole seconds, and the clocks that tell of it are read one after the
/// other.
const SHORTEST_SLEEP: Duration = Duration::from_secs(1);

impl Connector {
    /// The network that the host is on, as far as reported.
    pub fn network(&self) -> NetworkId {
        self.network
    }

    /// What is known of networks, to be kept after a restart; see [`crate::path::record`].
    pub fn networks(&self, now: Instant) -> Vec<NetworkRecord> {
        self.path.records(now)
    }

    /// Takes in what was known of networks before a restart, the one used last first.
    pub fn recall_networks(&mut self, now: Instant, records: Vec<NetworkRecord>) {
        self.path.recall(now, records);
    }

    /// Takes in what other hosts learned of networks; see [`crate::path::PathBook::take_prior`].
    pub fn take_prior(&mut self, now: Instant, records: &[NetworkRecord]) {
        self.path.take_prior(now, records);
    }

    /// Counts up whenever [`Self::networks`] may have something new.
    pub fn networks_version(&self) -> u64 {
        self.path.version()
    }

    /// Forgets what was learned of a host: of one program's use of it, or of all.
    pub fn forget_host(&mut self, app: Option<&str>, host: &str) {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.prefetch_model.forget_host(app, &host);
        let of_app = |known: &str| app.is_none_or(|app| app == known);
        self.agenda.cancel(|due| of_app(&due.app) && *due.name == *host);
        let caches = self.caches.iter_mut().filter(|(known, _)| of_app(known));
        let addresses: Vec<_> = caches.flat_map(|(_, cache)| cache.forget(&host)).collect();
        if app.is_none() {
            self.path.forget(&addresses);
        }
    }

    /// Forgets what is known of every network.
    pub fn forget_networks(&mut self) {
        let (current, v4, v6) = (self.network, self.has_route(Family::V4), self.has_route(Family::V6));
        let v4_first = self.path.current().v4_first;
        self.path = crate::path::PathBook::default();
        self.path.move_to(current);
        self.path.current().family_mut(Family::V4).has_route = v4;
        self.path.current().family_mut(Family::V6).has_route = v6;
        self.path.current().v4_first = v4_first;
    }

    fn has_route(&mut self, family: Family) -> bool {
        self.path.current().family(family).has_route
    }

    pub(super) fn moved(&mut self, now: Instant, id: NetworkId, v4: bool, v6: bool) {
        // A connection over an address that is no more looks as good as ever, and leads nowhere.
        let elsewhere = id != self.network;
        self.flush(now, SpareEnd::Dropped, |j| j.spare.is_some() || elsewhere);
        if elsewhere {
            self.discovery = None;
            self.network = id;
            self.path.move_to(id);
            self.lookups.move_on();
            self.servers_are(self.lookups.servers.count());
            self.first_attempt_here = self.next_attempt;
            self.caches.values_mut().for_each(Cache::clear);
            self.asks.forget();
            self.failures.clear();
            self.visits.clear();
        }
        self.path.current().family_mut(Family::V4).has_route = v4;
        self.path.current().family_mut(Family::V6).has_route = v6;
        self.asks.routed(v4, v6);
        let waiting = if elsewhere { self.leave_behind(now) } else { Vec::new() };
        self.translate(now);
        waiting.into_iter().for_each(|id| self.drive(now, id));
    }

    /// What is under way on the network before gets no answer any more, and nothing of it is handed over. What waits for a connection
    /// is to have it tried on this one: the jobs that do. Addresses that were only returned to a program are left to it.
    fn leave_behind(&mut self, now: Instant) -> Vec<u64> {
        let mut waiting = Vec::new();
        let ids: Vec<_> = self.jobs.iter().filter(|(_, j)| !j.done).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(mut job) = self.jobs.remove(&id) else { continue };
            let waits = job.resolver.is_some() || job.claim.is_some();
            self.close_where(now, &mut job, |a| !a.given);
            job.attempts.retain(|a| a.given);
            if waits || !job.own.is_empty() {
                self.jobs.insert(id, job);
            }
            if waits {
                waiting.push(id);
            }
        }
        waiting
    }

    /// Nothing has changed but the name of the network: answers and connections still hold.
    pub(super) fn recognised(&mut self, id: NetworkId) {
        self.network = id;
        self.path.recognise(id);
    }

    pub(super) fn woken(&mut self, slept: Duration) {
        if slept >= SHORTEST_SLEEP {
            // What has become of them meanwhile is unknown.
            self.flush(self.now, SpareEnd::Dropped, |j| j.spare.is_some());
            self.caches.values_mut().for_each(Cache::expire);
            self.asks.forget();
        }
    }
}
