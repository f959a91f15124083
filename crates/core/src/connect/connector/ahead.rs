//! What is done before a program asks: names looked up, connections opened and kept, both within the bounds of
//! `prefetch` and `pool`. A spare connection is a job like any other, but for nobody yet; a program that asks for its name
//! or connects to its address takes it over.

use super::Connector;
use crate::connect::job::{Job, Translation};
use crate::connect::lookups::Question;
use crate::connect::pool::{self, End, Host, MAX_AGE, Spoilt};
use crate::connect::prefetch::{self, Ahead, REFRESH_IN_LAST};
use crate::connect::race::{Attempt, Lookup, State};
use crate::connect::timeline::Event;
use crate::connect::{AppId, AttemptId, Output, RequestId, Resolve, service};
use crate::path::Family;
use crate::time::Instant;
use crate::wire::record::RecordType;
use std::net::SocketAddr;
use std::sync::Arc;

impl Connector {
    /// A program shows itself in this account. What it is `asking` for already needs no help.
    pub(super) fn launched(&mut self, now: Instant, account: u32, app: &AppId, asking: Option<&str>) {
        if self.settings.ahead == Ahead::OFF || !self.habits.launched(now, account, app) {
            return;
        }
        self.make_room_for(app);
        if self.settings.ahead.prefetch {
            for name in prefetch::at_launch(&self.habits, app, self.settings.lifetime) {
                if asking != Some(&*name) {
                    self.look_up_ahead(now, account, app, &name);
                }
            }
        }
        for expected in self.habits.expected_at_launch(app) {
            if expected.after < MAX_AGE && asking != Some(&*expected.name) {
                self.open_ahead(now, account, app, &expected.name, None, usize::MAX);
            }
        }
    }

    /// A program asks for these records of `name`; what follows it is looked up and opened.
    pub(super) fn asked(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, records: &[RecordType]) {
        if self.settings.ahead == Ahead::OFF {
            return;
        }
        self.launched(now, account, app, Some(name));
        let names = prefetch::after(&self.habits, app, name);
        let expected = self.habits.expected_after(app, name);
        self.habits.asked(now, account, app, name, records);
        if self.settings.ahead.prefetch {
            names.iter().for_each(|name| self.look_up_ahead(now, account, app, name));
        }
        for follower in expected {
            if !self.habits.is_recent(now, account, app, &follower.name) {
                self.open_ahead(now, account, app, &follower.name, Some(follower.chance), usize::MAX);
            }
        }
    }

    /// A program goes to `port` of `name`; more may be about to follow side by side.
    pub(super) fn connected(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, port: u16) {
        if self.settings.ahead == Ahead::OFF {
            return;
        }
        self.launched(now, account, app, Some(name));
        self.habits.connected(now, account, app, name, port);
        let begun = self.habits.in_burst(now, account, app, name, port) as f32;
        let usual = self.habits.name(app, name).and_then(|n| n.ports.get(&port)).map_or(0.0, |p| p.parallel);
        // As many as are still to come, those that are open already among them.
        let to_come = (usual - begun + 0.3).max(0.0) as usize;
        if to_come > 0 {
            self.open_ahead(now, account, app, name, Some(1.0), to_come);
        }
    }

    /// Asks for the records of `name` that this program usually asks for, where no answer holds.
    fn look_up_ahead(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>) {
        let Some(records) = self.habits.name(app, name).map(|known| known.records) else { return };
        for record in records.iter() {
            let held = self.caches.get(app).and_then(|c| c.peek(now, name, record));
            if held.is_none_or(|(_, left)| left.is_zero()) {
                self.query_ahead(now, account, &Question { app: Arc::clone(app), name: Arc::clone(name), record });
            }
        }
        self.habits.looked_up_ahead(account, app, name);
    }

    /// Sends a query that nobody waits for yet.
    fn query_ahead(&mut self, now: Instant, account: u32, question: &Question) {
        let (query, new) = self.lookups.ask(now, account, question);
        if new {
            let tally = self.tally.of(account);
            tally.queries += 1;
            tally.queries_ahead += 1;
            let (name, record) = (Arc::clone(&question.name), question.record);
            self.outputs.push_back(Output::Query { id: query, name, record, server: 0 });
        }
    }

    /// An answer has been used: it is looked up again if it ends soon.
    pub(super) fn refresh(&mut self, now: Instant, account: u32, question: &Question) {
        let cache = self.caches.get(&question.app);
        let soon = cache.is_some_and(|c| c.ends_soon(now, &question.name, question.record, REFRESH_IN_LAST));
        if self.settings.ahead.refresh && soon {
            self.query_ahead(now, account, question);
        }
    }

    /// Opens spare connections to where a program goes with `name`, if it may and is worth it. `chance` that it will ask for
    /// the name now; without one, as at a launch. No more than `at_most` to a port.
    fn open_ahead(
        &mut self,
        now: Instant,
        account: u32,
        app: &AppId,
        name: &Arc<str>,
        chance: Option<f32>,
        at_most: usize,
    ) {
        if self.settings.ahead.spares == 0 || name.parse::<std::net::IpAddr>().is_ok() {
            return;
        }
        let Some(known) = self.habits.name(app, name) else { return };
        let want = known.records.want();
        let mut wanted = Vec::new();
        for (port, of_port) in &known.ports {
            let host = Host { app: Arc::clone(app), name: Arc::clone(name), port: *port };
            // Of the launches in which the name was asked for, some had a connection.
            let goes = if known.share > 0.0 { (of_port.share / known.share).min(1.0) } else { 0.0 };
            let chance = chance.map_or(of_port.share, |asked| asked * goes);
            match self.pool.wanted(now, &host, of_port, chance) {
                0 => {}
                most => wanted.push((host, most.min(at_most), pool::terms(*port, of_port))),
            }
        }
        for (host, most, terms) in wanted {
            let is_under_way = |j: &Job| {
                j.app == *app
                    && j.account == account
                    && j.name == *name
                    && j.spare.is_none()
                    && !j.done
                    && j.claim.is_none()
                    && j.port.is_none_or(|p| p == host.port)
            };
            if self.jobs.values().any(is_under_way) {
                continue;
            }
            while self.pool.has_room(now, &host, most) {
                let mut job = Job::new(now, Arc::clone(app), Arc::clone(name), want, Some(host.port));
                job.account = account;
                job.spare = Some(terms);
                job.remembered = self.caches.get(app).map_or_else(Vec::new, |c| c.remembered(name));
                job.translation = self.translation(now, app, want);
                if self.settings.race.asks_https && host.port == service::PORT {
                    job.https = Lookup::Unasked;
                }
                self.tally.of(account).spares += 1;
                self.pool.opened(self.next_job, host.clone(), terms);
                self.start(now, job);
            }
        }
    }

    /// Lets a program that asks for a name have the job of a spare connection, if there is one that fits.
    pub(super) fn take_over(&mut self, now: Instant, request: RequestId, ask: &Resolve, name: &Arc<str>) -> bool {
        let cache = self.caches.get(&ask.app);
        let holds = |record| cache.and_then(|c| c.peek(now, name, record)).is_some_and(|(_, left)| !left.is_zero());
        let fits = |j: &Job| {
            j.spare.is_some()
                && j.app == ask.app
                && j.account == request.account()
                && j.name == *name
                && j.want == ask.want
                && j.port == ask.port
                && !j.done
                && j.resolver.is_none()
                && j.claim.is_none()
                && j.told.is_empty()
                && j.is_fresh(now)
                && Family::BOTH.iter().all(|f| !j.want.includes(*f) || !j.lookup(*f).is_settled() || holds((*f).into()))
        };
        let Some((id, job)) = self.jobs.iter_mut().find(|(_, j)| fits(j)) else { return false };
        let id = *id;
        job.resolver = Some((request, now));
        job.answered = None;
        let known = Family::BOTH.iter().filter(|f| job.want.includes(**f) && job.lookup(**f).is_settled()).count();
        let all = Family::BOTH.iter().filter(|f| job.want.includes(**f)).count();
        let tally = self.tally.of(request.account());
        tally.cache_hits += known as u64;
        tally.cache_misses += (all - known) as u64;
        self.timelines.note(now, id, name, Event::Asked { port: ask.port });
        self.drive(now, id);
        true
    }

    /// Something happened to a connection that nobody has yet.
    pub(super) fn spoilt(&mut self, now: Instant, attempt: AttemptId, how: Spoilt) {
        let has_it = |j: &Job| j.attempts.iter().any(|a| a.id == attempt && a.ready_at().is_some());
        let Some(id) = self.jobs.iter().find(|(_, j)| has_it(j)).map(|(id, _)| *id) else { return };
        let Some(mut job) = self.jobs.remove(&id) else { return };
        let end = match how {
            Spoilt::Closed => End::Closed,
            Spoilt::Spoke => End::Spoke,
        };
        self.spare_ended(now, &job, end);
        self.close_where(now, &mut job, |a| a.id == attempt);
        job.spare = None;
        if job.told.is_empty() && job.resolver.is_none() && job.claim.is_none() {
            return self.close_all(now, &mut job);
        }
        // A program that has been told of it gets what else there is.
        self.jobs.insert(id, job);
        self.drive(now, id);
    }

    /// A spare connection has ended, or been given to a program.
    pub(super) fn spare_ended(&mut self, now: Instant, job: &Job, end: End) {
        if job.spare.is_some()
            && let Some((host, age)) = self.pool.ended(job.number, now, end)
            && let Some(known) = self.habits.port_mut(&host.app, &host.name, host.port)
        {
            pool::learn(known, end, age);
        }
    }

    /// Closes jobs that nobody waits for, of those that `which` says. Spare connections come to this `end`.
    pub(super) fn flush(&mut self, now: Instant, end: End, which: impl Fn(&Job) -> bool) {
        let idle = |j: &Job| j.resolver.is_none() && j.claim.is_none() && j.own.is_empty() && which(j);
        let ids: Vec<_> = self.jobs.iter().filter(|(_, j)| idle(j)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(mut job) = self.jobs.remove(&id) {
                let end = if job.open_since().is_some() { end } else { End::Dropped };
                self.spare_ended(now, &job, end);
                self.close_all(now, &mut job);
            }
        }
    }

    /// Begins to connect to what the name had last time, while nothing else is known.
    pub(super) fn try_stale(&mut self, now: Instant, job: &mut Job) {
        let Some(port) = job.port.filter(|_| !job.stale.is_empty()) else { return };
        let untouched = job.attempts.is_empty() && job.unconfirmed.is_empty() && job.addresses().is_empty();
        if !untouched || job.done || job.races_itself || job.translation != Translation::None {
            return;
        }
        let mut list = std::mem::take(&mut job.stale);
        let network = self.path.current();
        list.retain(|a| {
            let family = Family::of(*a);
            network.family(family).has_route && !network.is_suspended(family, now) && !network.is_failing(*a, now)
        });
        let race = &self.race;
        job.with_view(now, self.path.current(), None, |view| race.order(view, &mut list));
        let Some(addr) = list.first().copied() else { return };
        let id = AttemptId(self.next_attempt);
        self.next_attempt += 1;
        let domain = job.domain_for(addr, None);
        let tally = self.tally.of(job.account);
        tally.attempts += 1;
        tally.optimistic += 1;
        self.timelines.note(now, job.number, &job.name, Event::Attempt { to: addr, exploring: false });
        let attempt =
            Attempt { id, addr, domain, started: now, state: State::InFlight, exploring: false, given: false };
        job.unconfirmed.push(attempt);
        self.outputs.push_back(Output::Connect { id, to: SocketAddr::new(addr, port), domain });
    }

    /// Lets the race have the attempts whose addresses have been confirmed, and closes those that were denied.
    pub(super) fn confirm(&mut self, now: Instant, job: &mut Job) {
        if job.unconfirmed.is_empty() {
            return;
        }
        let known = job.addresses();
        for attempt in std::mem::take(&mut job.unconfirmed) {
            let (id, confirmed) = (attempt.id, known.contains(&attempt.addr));
            if !confirmed && !job.lookup(Family::of(attempt.addr)).is_settled() {
                job.unconfirmed.push(attempt);
                continue;
            }
            job.attempts.push(attempt);
            if !confirmed {
                self.close_where(now, job, |a| a.id == id);
            }
        }
    }
}
