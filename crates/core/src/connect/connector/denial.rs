//! Servers that refuse to answer, or say that there is nothing: when that holds, and which server is asked instead. Ours.
//!
//! The C library takes both families' answers from one server. Ours asks the second server sooner, so one family may be answered
//! by the first and the other by the second: the other server may have what one denies.
//!
//! What never happens here: a family is given up because of a server whose answer a program without us would not have accepted yet.

use super::Connector;
use crate::connect::job::{Job, Lack};
use crate::connect::lookups::{Decider, Open, Question};
use crate::connect::race::Lookup;
use crate::connect::{LookupResult, QueryId};
use crate::path::Family;
use crate::time::Instant;
use crate::wire::record::RecordType;

/// Whether it brings nothing.
pub(super) fn is_no(result: &LookupResult) -> bool {
    match result {
        LookupResult::NoData(_) | LookupResult::NxDomain(_) | LookupResult::Refused => true,
        LookupResult::Addresses(list, _) => list.is_empty(),
        LookupResult::Services(list, _) => list.is_empty(),
        LookupResult::NotSent => false,
    }
}

impl Connector {
    /// A server says `no` to `query`: whether another may still say otherwise, and is waited for or asked.
    pub(super) fn may_be_otherwise(&mut self, now: Instant, query: QueryId, no: &LookupResult) -> bool {
        if self.lookups.get_mut(query).is_none() {
            return false;
        }
        self.lookups.note_denial(query, no);
        self.tell_askers_no(now, query, no);
        let again = *no == LookupResult::Refused && self.asks_again(now, query);
        self.tell_askers_that_all_refuse(query);
        if self.no_holds(now, query) {
            return false;
        }
        self.ask_decider(now, query);
        again || *no != LookupResult::Refused || self.lookups.get_mut(query).is_some_and(|open| !open.exhausted)
    }

    pub(super) fn no_holds(&mut self, now: Instant, query: QueryId) -> bool {
        let Some(question) = self.lookups.get_mut(query).map(|open| open.question.clone()) else { return true };
        let is_known = self.is_other_known(now, &question);
        self.lookups.no_holds(now, query, is_known)
    }

    /// A program does not wait for `server` any more: what another has denied may hold now, if not for the next lookup.
    pub(super) fn no_longer_asked(&mut self, now: Instant, question: &Question, server: u32) {
        let count = self.lookups.servers.count();
        let Some((query, open)) = self.lookups.of(question) else { return };
        open.was_passed_on(server, count);
        if open.no().is_some() && self.no_holds(now, query) {
            self.lookup_ended(now, query, None);
        }
    }

    /// Whether the other family of a name has an address that is known to answer, and soon.
    fn is_other_known(&mut self, now: Instant, question: &Question) -> bool {
        let network = self.path.current();
        let Some(other) = question.record.family().map(Family::other).filter(|f| network.family(*f).has_route) else {
            return false;
        };
        let concerns = |j: &&Job| j.app == question.app && j.name == question.name;
        let mut list = self.jobs.values().filter(concerns).flat_map(|j| j.lookup(other).addresses());
        list.any(|a| network.peer(*a).is_some_and(|peer| peer.will_do(now)))
    }

    /// The server that gave the other family's addresses is asked, unless it was.
    fn ask_decider(&mut self, now: Instant, query: QueryId) {
        let Some(server) = self.lookups.decider_to_ask(query) else { return };
        let Some(open) = self.lookups.get_mut(query) else { return };
        open.sent += 1;
        open.besides += 1;
        let (account, before, question) = (open.account, open.sent - 1, open.question.clone());
        self.note_repeated(now, &question, before);
        self.send(now, account, query, &question, server);
    }

    /// A server has refused: whether the next is asked, or others may still answer. Each is asked as often as the C library
    /// would.
    fn asks_again(&mut self, now: Instant, query: QueryId) -> bool {
        let most = self.lookups.servers.count() * self.patience.attempts;
        let Some(open) = self.lookups.get_mut(query) else { return false };
        open.refused += 1;
        let question = open.question.clone();
        if open.sent - open.besides >= most {
            let awaited = open.refused < open.sent;
            open.exhausted = !awaited;
            // As long as the other family is asked for, the C library asks for both again.
            return awaited || self.lookups.other_of(&question).is_some_and(|(_, other)| !other.exhausted);
        }
        let (before, server, account) = (open.sent, open.next_server(), open.account);
        self.note_repeated(now, &question, before);
        self.send(now, account, query, &question, server);
        true
    }

    /// `open` has ended with addresses or without: what that means for the other family's question. The query for that, if it
    /// ends too.
    pub(super) fn decides(&mut self, now: Instant, open: &Open, addresses: bool, answered: bool) -> Option<QueryId> {
        let Question { app, name, record } = &open.question;
        let mut of_name = self.jobs.values().filter(|j| !j.done && j.app == *app && j.name == *name).peekable();
        if *record == RecordType::A && of_name.peek().is_some() && of_name.all(|j| j.ipv6_alone) {
            // It was asked for to be translated. The C library, asked for IPv6 alone, would hear nothing of it: what it has heard of IPv6
            // holds by itself.
            let (id, other) = self.lookups.other_of(&open.question)?;
            let over = other.exhausted && !addresses || other.no().is_some() && self.no_holds(now, id);
            return over.then_some(id);
        }
        let decider = addresses.then(|| open.replied()).flatten();
        let at_once = decider.is_some_and(|server| open.was_answered_at_once(server));
        // Addresses that lead nowhere here do not speak for the other family.
        let has_route = open.question.record.family().is_some_and(|f| self.path.current().family(f).has_route);
        if let Some(server) = decider.filter(|_| at_once && has_route) {
            self.leave_out_what_was_refused(now, &open.question, server);
        }
        let is_a = open.question.record == RecordType::A;
        let denier =
            open.replied().filter(|server| is_a && answered && !addresses && open.was_answered_at_once(*server));
        let Some((id, other)) = self.lookups.other_of(&open.question) else {
            // Two servers that deny a family each: without us the later would be believed of both. One that was asked for that
            // reason settles it.
            let denies = open.replied().filter(|_| answered && open.decider.is_none());
            if let Some(server) = decider.or(denies) {
                self.reopen(now, &open.question, server);
            }
            return None;
        };
        other.lasting |= answered;
        other.others_heard = Some(open.heard());
        other.decided_at_once |= has_route && at_once && other.decider.is_none();
        // Having answered A is enough for that, be it that there is none.
        if let Some(server) = denier.filter(|_| other.decider.is_none()) {
            (other.decider, other.decided_at_once) = (Some(Decider::Server(server)), true);
        }
        other.decider = other.decider.or(addresses.then(|| decider.map_or(Decider::Any, Decider::Server)));
        let exhausted = other.exhausted && !addresses;
        if exhausted || other.no().is_some() && self.no_holds(now, id) {
            return Some(id);
        }
        if self.lookups.get_mut(id).is_some_and(|other| other.no().is_some()) {
            self.ask_decider(now, id);
        }
        None
    }

    /// `server` has addresses of the family of `question` at once. If it refused the other family's at first, the C library returns these
    /// alone, and programs that give each address but the last a while only would be later, or fail, by what was found out since.
    fn leave_out_what_was_refused(&mut self, now: Instant, question: &Question, server: u32) {
        let Some(family) = question.record.family() else { return };
        let record = RecordType::from(family.other());
        let refused = Question { record, ..question.clone() };
        if !self.lookups.was_refused_by(now, &refused, server) {
            return;
        }
        if let Some(cache) = self.caches.get_mut(&refused.app) {
            cache.drop(&refused.name, record);
        }
        let asks = |j: &&mut Job| j.resolver.is_some() && j.app == refused.app && j.name == refused.name;
        for job in self.jobs.values_mut().filter(asks).filter(|j| !j.lookup(record).addresses().is_empty()) {
            job.complete(now, record, Lookup::Without(now), Some(Lack::Unanswered));
        }
    }

    /// `server` has addresses of one family, or denies it; another has denied the other family just now. Without us both answers would have
    /// come from one server: it is asked for the other too, and waited for.
    fn reopen(&mut self, now: Instant, question: &Question, server: u32) {
        let Some(family) = question.record.family().map(Family::other) else { return };
        let record = RecordType::from(family);
        let denied = Question { record, ..question.clone() };
        if !self.lookups.was_denied_by_another(now, &denied, server) {
            return;
        }
        let concerns = |j: &Job| {
            let told = j.resolver.is_none() && j.claim.is_none();
            // A third server may have said what the family has.
            let lacks = j.lookup(record).addresses().is_empty();
            lacks && !told && !j.done && j.app == denied.app && j.name == denied.name && j.want.includes(family)
        };
        let ids: Vec<_> = self.jobs.iter().filter(|(_, j)| concerns(j)).map(|(id, _)| *id).collect();
        let Some(account) = ids.first().and_then(|id| self.jobs.get(id)).map(|j| j.account) else { return };
        let (query, first) = self.lookups.ask(now, account, &denied, server);
        if let Some(open) = self.lookups.get_mut(query).filter(|_| first.is_some()) {
            open.decider = Some(Decider::Server(server));
            self.send(now, account, query, &denied, server);
        }
        for id in ids {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.ask(now, record);
                job.lacks[usize::from(family == Family::V6)] = None;
            }
        }
    }
}
