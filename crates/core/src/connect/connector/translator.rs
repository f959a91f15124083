//! Networks without IPv4: whether there is a translator (NAT64), asked as RFC 7050 says, and which jobs wait for the answer.
//!
//! Asked only where there is a route for IPv6 and none for IPv4; once for each network, kept as long as the answer says, and
//! never before a program looks something up there. The answer is trusted as much as any other answer of that server:
//! its prefix is not validated (RFC 7050, section 3.1), which would take DNSSEC.

use super::Connector;
use crate::connect::job::Translation;
use crate::connect::lookups::Question;
use crate::connect::{AppId, Claim, LookupResult, Want};
use crate::path::Family;
use crate::time::{Duration, Instant};
use crate::wire::nat64::{self, Prefix, WELL_KNOWN_NAME};
use crate::wire::record::RecordType;
use std::net::IpAddr;
use std::sync::Arc;

/// Shortest time that an answer, or none, is kept: ours. No translator moves by the minute, and a server that
/// swallows the question should not be asked it with every lookup.
const KEPT_AT_LEAST: Duration = Duration::from_secs(60);

impl Connector {
    /// How a job of `app` reaches IPv4 addresses on this network; asks if no job has yet.
    pub(super) fn translation(&mut self, now: Instant, app: &AppId, want: Want) -> Translation {
        let network = self.path.current();
        let ipv6_alone = network.family(Family::V6).has_route && !network.family(Family::V4).has_route;
        // A program that wants IPv4 addresses alone would not know what to do with others.
        if !ipv6_alone || !want.includes(Family::V6) {
            return Translation::None;
        }
        if let Some(prefixes) = network.translators(now) {
            return prefixes.first().map_or(Translation::None, |p| Translation::By(*p));
        }
        if self.discovery.is_none() {
            let question =
                Question { app: Arc::clone(app), name: Arc::from(WELL_KNOWN_NAME), record: RecordType::Aaaa };
            self.discovery = Some(self.ask_anew(now, 0, &question).0);
        }
        Translation::Awaited
    }

    /// The question for a translator has come to `result`; `None` if no server answered.
    pub(super) fn discovered(&mut self, now: Instant, result: Option<&LookupResult>) {
        self.discovery = None;
        let (prefixes, ttl): (Vec<Prefix>, _) = match result {
            Some(LookupResult::Addresses(list, ttl)) => {
                let of_v6 = |addr: &IpAddr| match addr {
                    IpAddr::V6(v6) => Some(*v6),
                    IpAddr::V4(_) => None,
                };
                (nat64::discover(&list.iter().filter_map(of_v6).collect::<Vec<_>>()), *ttl)
            }
            Some(LookupResult::NoData(ttl) | LookupResult::NxDomain(ttl)) => (Vec::new(), *ttl),
            Some(LookupResult::Services(..) | LookupResult::Refused | LookupResult::NotSent) | None => {
                (Vec::new(), Duration::ZERO)
            }
        };
        self.path.current().learn_translators(prefixes, now + ttl.max(KEPT_AT_LEAST));
        self.translate(now);
    }

    /// Tells the jobs that wait for it how IPv4 addresses are reached, as far as that is known now.
    pub(super) fn translate(&mut self, now: Instant) {
        let waiting = self.jobs.iter().filter(|(_, j)| j.translation == Translation::Awaited);
        let waiting: Vec<_> = waiting.map(|(id, j)| (*id, Arc::clone(&j.app), j.want)).collect();
        for (id, app, want) in waiting {
            let translation = self.translation(now, &app, want);
            if let Some(job) = self.jobs.get_mut(&id) {
                job.translate(now, translation);
            }
            self.drive(now, id);
        }
    }

    /// The name through which the program came by the address that it connects to, and all addresses of it that the program has
    /// asked for.
    ///
    /// On a network without IPv4 an IPv4 address needs no name if the program's socket can go to a translator instead.
    pub(super) fn whose(&mut self, now: Instant, account: u32, claim: &Claim) -> Option<(Arc<str>, Vec<IpAddr>)> {
        let addr = claim.to.ip();
        let translated = self.path.current().translated(addr).map(IpAddr::V4);
        let cache = self.caches.get(&claim.app);
        let known = [Some(addr), translated].into_iter().flatten().find_map(|a| {
            let name = cache?.name_of(a)?;
            Some((Arc::clone(&name), cache?.remembered(&name)))
        });
        let has_ipv4 = self.path.current().family(Family::V4).has_route;
        let known = known.map(|(name, mut addresses)| {
            // Without IPv4 a program that wants IPv6 is served by what a translator makes of the other.
            if has_ipv4 {
                let want = self.hints.want(account, &claim.app, &name);
                addresses.retain(|a| *a == addr || want.includes(Family::of(*a)));
            }
            (name, addresses)
        });
        let literal = || {
            let reachable = addr.is_ipv4() && claim.domain == Family::V6 && !claim.nonblocking;
            let through = reachable && self.translation(now, &claim.app, Want::Both) != Translation::None;
            through.then(|| (Arc::from(addr.to_string()), vec![addr]))
        };
        known.or_else(literal)
    }
}
