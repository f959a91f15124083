//! The end of a query: what it says is noted, kept for the next lookup, and told to the jobs that wait for it.

use super::{Connector, denial};
use crate::connect::cache::{Kept, Source};
use crate::connect::job::{Job, Lack};
use crate::connect::lookups::{Open, Question};
use crate::connect::race::Lookup;
use crate::connect::timeline::{Event, record, some};
use crate::connect::{LookupResult, Output, QueryId};
use crate::time::Instant;
use crate::wire::record::{RecordType, Service};
use std::borrow::Cow;
use std::sync::Arc;

impl Connector {
    /// `result`: none if its time is over.
    pub(super) fn lookup_ended(&mut self, now: Instant, query: QueryId, result: Option<LookupResult>) {
        let is_given_up = result.is_none();
        self.end_lookup(now, query, result, is_given_up);
    }

    fn end_lookup(&mut self, now: Instant, query: QueryId, result: Option<LookupResult>, is_given_up: bool) {
        if result == Some(LookupResult::NotSent) && self.lookups.get_mut(query).is_some_and(|open| open.sent > 1) {
            // What was sent before it may still be answered.
            return;
        }
        let no = result.as_ref().filter(|said| denial::is_no(said));
        if no.is_some_and(|no| self.may_be_otherwise(now, query, no)) {
            return;
        }
        let has_no = no.is_some();
        let Some(open) = self.lookups.close(now, query) else { return };
        let result = if has_no || result.is_none() { open.no() } else { result };
        let is_late = self.lookups.servers.is_probed_by(query);
        self.outputs.push_back(if is_late { Output::Late(query) } else { Output::Forget(query) });
        // Said of the network before: better than nothing for a program that waits, and not to be remembered on this one.
        let of_here = self.lookups.is_of_here(query);
        if !of_here && self.lookups.is_open(&open.question) {
            return;
        }
        let outcome = (
            matches!(&result, Some(LookupResult::Addresses(list, _)) if !list.is_empty()),
            match result {
                None | Some(LookupResult::Refused | LookupResult::NotSent) => false,
                Some(_) => of_here,
            },
        );
        let other = self.decides(now, &open, outcome.0, outcome.1);
        let unsent = result == Some(LookupResult::NotSent);
        self.tell_askers(now, query, &open.question, result.is_some() && !unsent, outcome);
        if let Some(family) = open.question.record.family().filter(|_| of_here) {
            let history = self.path.current().family_mut(family);
            match result {
                Some(LookupResult::NotSent) => {}
                // Karn's rule: an answer after a retry cannot be assigned to one of the queries.
                Some(_) => history.looked_up((open.sent == 1).then(|| now - open.asked)),
                None if open.was_silent() => {}
                None => history.lookup_unanswered(),
            }
        }
        if self.discovery == Some(query) {
            self.discovered(now, result.as_ref());
        }
        let told = Told::of(now, open.question.record, result.as_ref());
        // What holds only because nothing better came is not what the next lookup is to be told.
        if of_here && !is_given_up && !open.is_settled() {
            self.keep(now, &open, result);
        }
        self.tell_jobs(now, &open.question, &told);
        if outcome.0 && of_here {
            self.guess_for_asker(now, &open.question);
        }
        if let Some(other) = other {
            self.end_lookup(now, other, None, false);
        }
    }

    /// Keeps what a query has said for as long as it says.
    fn keep(&mut self, now: Instant, open: &Open, result: Option<LookupResult>) {
        let Question { app, name, record } = &open.question;
        let (kept, ttl) = match result {
            Some(LookupResult::Addresses(list, ttl)) if !list.is_empty() => (Kept::Addresses(list), ttl),
            Some(LookupResult::Services(list, ttl)) if !list.is_empty() => (Kept::Services(list), ttl),
            Some(LookupResult::Addresses(_, ttl) | LookupResult::Services(_, ttl) | LookupResult::NoData(ttl)) => {
                (Kept::NoData, ttl)
            }
            Some(LookupResult::NxDomain(ttl)) => (Kept::NxDomain, ttl),
            Some(LookupResult::Refused | LookupResult::NotSent) | None => return,
        };
        if record.family().is_some() {
            self.prefetch_model.held_for(app, name, ttl);
        }
        let cache = self.caches.entry(Arc::clone(app)).or_default();
        cache.put(now, name, *record, kept, ttl, self.settings.lifetime);
        if let Some(server) = open.replied() {
            cache.came_from(name, *record, Source { server, at_once: open.was_answered_at_once(server) });
        }
        self.rely(now, app, name);
    }

    fn tell_jobs(&mut self, now: Instant, question: &Question, told: &Told) {
        let Question { app, name, record } = question;
        let waiting = |j: &Job| j.app == *app && j.name == *name && matches!(j.lookup(*record), Lookup::Asked(_));
        let ids: Vec<_> = self.jobs.iter().filter(|(_, j)| waiting(j)).map(|(id, _)| *id).collect();
        for id in ids {
            self.timelines.note(now, id, name, told.event.clone());
            if let Some(job) = self.jobs.get_mut(&id) {
                job.in_want |= told.unsent;
                if told.services.is_empty() {
                    job.complete(now, *record, told.lookup.clone(), told.lack)
                } else {
                    job.complete_services(now, told.services.clone())
                }
            }
            self.drive(now, id);
        }
    }
}

/// What jobs are told of a query that has ended.
struct Told {
    event: Event,
    lookup: Lookup,
    lack: Option<Lack>,
    services: Vec<Service>,
    /// It was not sent, for want of descriptors.
    unsent: bool,
}

impl Told {
    fn of(now: Instant, record: RecordType, result: Option<&LookupResult>) -> Self {
        let (lookup, lack, services) = match result {
            Some(LookupResult::Addresses(list, _)) if !list.is_empty() => {
                (Lookup::Addresses(now, list.clone()), None, Vec::new())
            }
            Some(LookupResult::Services(list, _)) if !list.is_empty() => (Lookup::Without(now), None, list.clone()),
            Some(LookupResult::Addresses(..) | LookupResult::Services(..) | LookupResult::NoData(_)) => {
                (Lookup::Without(now), Some(Lack::NoData), Vec::new())
            }
            Some(LookupResult::NxDomain(_)) => (Lookup::Without(now), Some(Lack::NxDomain), Vec::new()),
            Some(LookupResult::Refused | LookupResult::NotSent) | None => {
                (Lookup::Without(now), Some(Lack::Unanswered), Vec::new())
            }
        };
        let unsent = result == Some(&LookupResult::NotSent);
        Self { event: answer(record, result), lookup, lack, services, unsent }
    }
}

/// What an answer said, to be written down.
fn answer(of: RecordType, result: Option<&LookupResult>) -> Event {
    let (says, addresses) = match result {
        Some(LookupResult::Addresses(list, _)) if !list.is_empty() => ("addresses", some(list)),
        Some(LookupResult::Services(list, _)) if !list.is_empty() => {
            ("services", some(&Kept::Services(list.clone()).addresses()))
        }
        Some(LookupResult::Addresses(..) | LookupResult::Services(..) | LookupResult::NoData(_)) => {
            ("none", Vec::new())
        }
        Some(LookupResult::NxDomain(_)) => ("no such name", Vec::new()),
        Some(LookupResult::Refused) => ("refused", Vec::new()),
        Some(LookupResult::NotSent) => ("not asked", Vec::new()),
        None => ("no answer", Vec::new()),
    };
    Event::Answer { record: record(of), says: Cow::Borrowed(says), addresses }
}
