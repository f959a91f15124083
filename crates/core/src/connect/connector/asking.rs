//! Programs that speak DNS themselves: their questions use the same cache and the same queries as all others.

use super::Connector;
use crate::connect::asks::Answered;
use crate::connect::cache::{Kept, Source};
use crate::connect::job::Job;
use crate::connect::lookups::{Decider, Question};
use crate::connect::race::reliance::reliance;
use crate::connect::{AppId, Ask, Claim, LookupResult, Output, QueryId, RequestId, Want};
use crate::path::Family;
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use std::net::IpAddr;
use std::sync::Arc;

impl Connector {
    /// See [`crate::connect::asks`].
    pub(super) fn ask(&mut self, now: Instant, request: RequestId, ask: Ask) {
        let name: Arc<str> = ask.name.trim_end_matches('.').to_ascii_lowercase().into();
        let question = Question { app: ask.app, name, record: ask.record };
        self.make_room_for(&question.app);
        self.asked(now, request.account(), &question.app, &question.name, &[ask.record]);
        let last_reply = self.asks.ask(now, &question);
        self.rely(now, &question.app, &question.name);
        self.answer_or_look_up(now, request, &question, last_reply, ask.server);
        self.guess_for_half(now, &question);
        if let Some(next) = self.asks.next(&question) {
            let kept = self.caches.get(&next.app).and_then(|cache| cache.peek(now, &next.name, next.record));
            if kept.is_none_or(|(_, left)| left.is_zero()) {
                self.look_up(now, request.account(), &next, ask.server);
            }
        }
        if let Some((port, want)) = self.asks.goes_to(&question) {
            self.run_ahead(now, request, question, want, port);
        }
    }

    /// Opens a connection to where the program will most likely go, as for a getaddrinfo that says its port.
    pub(super) fn run_ahead(&mut self, now: Instant, request: RequestId, question: Question, want: Want, port: u16) {
        let Question { app, name, .. } = question;
        let is_same = |j: &Job| j.app == app && j.name == name && j.port == Some(port) && !j.done && j.is_fresh(now);
        if self.jobs.values().any(is_same) {
            return;
        }
        let mut job = Job::new(now, Arc::clone(&app), Arc::clone(&name), want, Some(port));
        job.account = request.account();
        job.remembered = self.caches.get(&app).map_or_else(Vec::new, |c| c.remembered(&name));
        self.start(now, job);
    }

    /// A program goes to an address: if it asks over DNS, this is remembered of the name that led there.
    pub(super) fn note_where_it_goes(&mut self, claim: &Claim) {
        if self.asks.knows(&claim.app)
            && let Some(name) = self.caches.get(&claim.app).and_then(|c| c.name_of(claim.to.ip()))
        {
            self.asks.went_to(self.now, &claim.app, name, claim.to.port());
        }
    }

    /// The query for `question`, and to which server it must be sent if it is new. The server whose answer for the other family is in
    /// the cache decides on this one as if both had been asked together; any, if that is not known.
    pub(super) fn look_up_beside(
        &mut self,
        now: Instant,
        account: u32,
        question: &Question,
        server: u32,
    ) -> (QueryId, Option<u32>) {
        let (query, first) = self.lookups.ask(now, account, question, server);
        let other = question.record.family().map(|f| f.other().into());
        let cached = other.zip(self.caches.get(&question.app));
        let kept = cached.and_then(|(other, cache)| cache.peek(now, &question.name, other));
        let Some((kept, _)) = kept.filter(|(_, left)| first.is_some() && !left.is_zero()) else {
            return (query, first);
        };
        let has_addresses = !kept.addresses().is_empty();
        // The host's servers may be others since.
        let is_there = |source: &Source| source.server < self.lookups.servers.count();
        let source = cached.and_then(|(other, cache)| cache.source(&question.name, other)).filter(is_there);
        if let Some(open) = self.lookups.get_mut(query) {
            open.decider =
                source.map(|source| Decider::Server(source.server)).or(has_addresses.then_some(Decider::Any));
            open.decided_before = true;
            open.decided_at_once = has_addresses && source.is_some_and(|source| source.at_once);
        }
        (query, first)
    }

    /// Sends a query for `question`, unless there is one under way.
    fn look_up(&mut self, now: Instant, account: u32, question: &Question, server: u32) {
        let (query, first) = self.look_up_beside(now, account, question, server);
        let number = self.lookups.servers.number(server);
        let Some(open) = self.lookups.get_mut(query) else { return };
        if first.is_some() && open.decided_at_once {
            // It chooses the server itself, and need not come back to that of before.
            open.decider = Some(Decider::Any);
        }
        if open.is_asked_of(now, server) || open.exhausted {
            open.is_anew(number);
            open.sent += u32::from(first.is_none());
            self.send(now, account, query, question, first.unwrap_or(server));
        }
    }

    fn answer_or_look_up(
        &mut self,
        now: Instant,
        request: RequestId,
        question: &Question,
        last_reply: Option<Answered>,
        server: u32,
    ) {
        let cache = self.caches.entry(Arc::clone(&question.app)).or_default();
        let holds = cache.get(now, &question.name, question.record).is_some();
        if let Some(reply) = last_reply.filter(|_| holds) {
            self.tally.of(request.account()).cache_hits += 1;
            self.refresh(now, request.account(), question);
            return self.answer_asker(request, reply);
        }
        self.tally.of(request.account()).cache_misses += 1;
        self.look_up(now, request.account(), question, server);
        let server = self.lookups.servers.number(self.lookups.servers.instead_of(server));
        if let Some(oldest) = self.asks.wait(now, request, question.clone(), server) {
            self.answer_asker(oldest, Answered::Unanswered);
        }
    }

    /// Another server answered a program. An answer that says nothing of the name is not kept.
    pub(super) fn overheard(
        &mut self,
        now: Instant,
        app: &AppId,
        name: &str,
        record: RecordType,
        result: LookupResult,
    ) {
        let (kept, ttl) = match result {
            LookupResult::Addresses(list, ttl) if !list.is_empty() => (Kept::Addresses(list), ttl),
            LookupResult::Services(list, ttl) if !list.is_empty() => (Kept::Services(list), ttl),
            LookupResult::Addresses(_, ttl) | LookupResult::Services(_, ttl) | LookupResult::NoData(ttl) => {
                (Kept::NoData, ttl)
            }
            LookupResult::NxDomain(ttl) => (Kept::NxDomain, ttl),
            LookupResult::Refused | LookupResult::NotSent => return,
        };
        self.make_room_for(app);
        let name: Arc<str> = name.trim_end_matches('.').to_ascii_lowercase().into();
        if record.family().is_some() {
            self.prefetch_model.held_for(app, &name, ttl);
        }
        let cache = self.caches.entry(Arc::clone(app)).or_default();
        cache.put(now, &name, record, kept, ttl, self.settings.lifetime);
    }

    /// Whether a program knows another address of the host that it reaches at `addr`: if not, there is nothing to race.
    pub fn knows_another(&self, app: &AppId, addr: IpAddr) -> bool {
        let Some(cache) = self.caches.get(app) else { return false };
        cache.name_of(addr).is_some_and(|name| cache.remembered(&name).iter().any(|known| *known != addr))
    }

    /// A query has ended: the requests for the same are answered. `replied` is whether a server replied at all; `addresses`
    /// and `kept` as of `Asks::on_reply`.
    pub(super) fn tell_askers(
        &mut self,
        now: Instant,
        query: QueryId,
        question: &Question,
        replied: bool,
        (addresses, kept): (bool, bool),
    ) {
        self.asks.on_reply(now, query, question, addresses, kept);
        let answer = if replied { Answered::Reply { query, age: Duration::ZERO } } else { Answered::Unanswered };
        for request in self.asks.take(question) {
            self.answer_asker(request, answer);
        }
    }

    /// The server that has just answered says `no`: a program that has asked that server gets this answer, as without headstart,
    /// and may ask another, or again: each resolver makes something else of a refusal.
    pub(super) fn tell_askers_no(&mut self, now: Instant, query: QueryId, no: &LookupResult) {
        let Some(open) = self.lookups.get_mut(query) else { return };
        let asks_several = open.is_asked_of_several();
        let asked = open.asked;
        let (Some(server), question) = (open.replied(), open.question.clone()) else { return };
        let other = question.record.family().map(|f| Question { record: f.other().into(), ..question.clone() });
        let waits_for_both = other.is_some_and(|other| self.asks.is_asked_with(&question, &other));
        // It can do nothing with half an answer, and the next server may have to be asked for both. One that asks several servers itself
        // takes the first answer to each question. Not for longer than without us: two programs of one name may want a family each.
        let is_refusal = *no == LookupResult::Refused;
        let may_wait = !asks_several && waits_for_both && now < asked + self.lookups.one_server();
        if may_wait && self.lookups.is_half(query, server, is_refusal) {
            return;
        }
        let told = self.asks.take_of(&question, server);
        if is_refusal || !told.is_empty() {
            self.asks.was_refused(&question);
        }
        if !told.is_empty() {
            let count = self.lookups.servers.count();
            if let Some(open) = self.lookups.get_mut(query) {
                open.was_passed_on(server, count);
                if asks_several && !is_refusal {
                    open.was_denied();
                }
            }
        }
        for request in told {
            self.answer_asker(request, Answered::Reply { query, age: Duration::ZERO });
        }
    }

    /// Every server has refused each query: programs that have asked over DNS get the refusal, as without headstart. Those
    /// that wait in getaddrinfo for both families may still be helped.
    pub(super) fn tell_askers_that_all_refuse(&mut self, query: QueryId) {
        let Some(question) =
            self.lookups.get_mut(query).filter(|open| open.exhausted).map(|open| open.question.clone())
        else {
            return;
        };
        self.asks.was_refused(&question);
        for request in self.asks.take(&question) {
            self.answer_asker(request, Answered::Reply { query, age: Duration::ZERO });
        }
    }

    /// What the addresses of `name` are worth may be another matter now.
    pub(super) fn rely(&mut self, now: Instant, app: &AppId, name: &Arc<str>) {
        if !self.asks.knows(app) {
            return;
        }
        let known = self.caches.get(app).map_or_else(Vec::new, |cache| cache.remembered(name));
        for family in Family::BOTH {
            let list: Vec<_> = known.iter().filter(|a| Family::of(**a) == family).copied().collect();
            let question = Question { app: AppId::clone(app), name: Arc::clone(name), record: family.into() };
            self.asks.rely(&question, reliance(self.path.current(), now, &list, family.other()));
        }
    }

    /// Answers the requests that have waited long enough for one family with the other alone.
    pub(super) fn release_askers(&mut self, now: Instant) {
        for request in self.asks.release(now, &self.lookups) {
            self.answer_asker(request, Answered::NotWaitedFor);
        }
    }

    fn answer_asker(&mut self, request: RequestId, answered: Answered) {
        let tally = self.tally.of(request.account());
        tally.asked += u64::from(answered != Answered::Unanswered);
        tally.not_waited_for += u64::from(answered == Answered::NotWaitedFor);
        self.outputs.push_back(Output::Answered(request, answered));
    }
}
