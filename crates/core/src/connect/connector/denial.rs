//! Denials of a name by another server than the first: ours is asked sooner than the C library would ask it. Ours.

use super::Connector;
use crate::connect::job::Job;
use crate::connect::{LookupResult, QueryId};
use crate::path::Family;
use crate::time::Instant;

impl Connector {
    /// Whether another server may still say otherwise: the first was silent, its time is not over, and no address of the
    /// name is known to do. A second server may be of another network (split horizon), and ours is asked sooner than
    /// the C library would ask it.
    pub(super) fn is_doubtful_denial(&mut self, now: Instant, query: QueryId, denial: &LookupResult) -> bool {
        if !is_denial(denial) {
            return false;
        }
        let servers = self.lookups.servers.count();
        let Some(open) = self.lookups.get_mut(query).filter(|open| servers > 1 && open.was_unanswered()) else {
            return false;
        };
        let question = open.question.clone();
        let v6 = self.path.current().family(Family::V6).has_route;
        let v4 = self.path.current().family(Family::V4).has_route;
        let has_route = |f: Family| if f == Family::V4 { v4 } else { v6 };
        let other = question.record.family().map(Family::other).filter(|f| has_route(*f));
        let has_other = other.is_some_and(|f| {
            let concerns = |j: &Job| j.app == question.app && j.name == question.name;
            let mut list: Vec<_> = Vec::new();
            self.jobs.values().filter(|j| concerns(j)).for_each(|j| list.extend(j.lookup(f).addresses()));
            let network = self.path.current();
            list.iter().any(|a| network.peer(*a).is_some_and(|p| p.has_answered && !p.is_failing(now)))
        });
        let Some(open) = self.lookups.get_mut(query).filter(|_| !has_other) else { return false };
        open.denied += 1;
        open.denial = Some(denial.clone());
        open.denied < servers
    }
}

/// Whether a server says that there is nothing of this kind.
fn is_denial(result: &LookupResult) -> bool {
    match result {
        LookupResult::NoData(_) | LookupResult::NxDomain(_) => true,
        LookupResult::Addresses(list, _) => list.is_empty(),
        _ => false,
    }
}
