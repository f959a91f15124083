//! What is done before a program asks: names looked up, connections opened and kept, both within the bounds of
//! `prefetch` and `pool`. A spare connection is a job like any other, but for no program yet; one that asks for its name
//! or connects to its address takes it over.

use super::Connector;
use crate::connect::agenda::Due;
use crate::connect::job::{Job, Translation};
use crate::connect::lookups::Question;
use crate::connect::pool::{self, LIKELY, SpareEnd, SpareKey, Spoilt, Terms};
use crate::connect::pool_miss::PoolMiss;
use crate::connect::prefetch::{self, Ahead, REFRESH_IN_LAST};
use crate::connect::prefetch_model::Expected;
use crate::connect::race::{Attempt, Lookup, State};
use crate::connect::timeline::Event;
use crate::connect::{AppId, AttemptId, Output, RequestId, Resolve, service};
use crate::path::Family;
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use std::net::SocketAddr;
use std::sync::Arc;

/// Why a connection is opened ahead.
#[derive(Clone, Copy, Debug)]
enum Because {
    /// The launch has come so far that it usually goes there.
    ItIsTime,
    /// The program has asked for another name, after which it goes there this often.
    ItFollows(f32),
    /// It goes there now, and to as many more side by side.
    Beside(usize),
}

impl Connector {
    /// A program shows itself in this account. What it is `asking` for already needs no help.
    pub(super) fn launched(&mut self, now: Instant, account: u32, app: &AppId, asking: Option<&str>) {
        if self.settings.ahead == Ahead::OFF || !self.prefetch_model.launched(now, account, app) {
            return;
        }
        self.make_room_for(app);
        if self.settings.ahead.prefetch {
            for name in prefetch::at_launch(&self.prefetch_model, app, self.settings.lifetime) {
                if asking != Some(&*name) {
                    self.look_up_ahead(now, account, app, &name, true);
                }
            }
        }
        for expected in self.prefetch_model.expected_at_launch(app) {
            if asking != Some(&*expected.name) {
                self.expect(now, account, app, expected);
            }
        }
        self.open_expected(now);
    }

    /// Sees to it that a connection is opened shortly before it is wanted.
    fn expect(&mut self, now: Instant, account: u32, app: &AppId, expected: Expected) {
        let Some(known) = self.prefetch_model.name(app, &expected.name) else { return };
        // Where there are several ports the likeliest says when; most names have one.
        let port = known.ports.iter().max_by(|(a, x), (b, y)| x.share.total_cmp(&y.share).then_with(|| b.cmp(a)));
        let Some((port, of_port)) = port.filter(|_| self.settings.ahead.spares > 0) else { return };
        if expected.chance < LIKELY {
            let host = SpareKey { app: Arc::clone(app), name: expected.name, port: *port };
            return self.fates.note(account, &host, PoolMiss::Unlikely);
        }
        let (after, _) = pool::when(expected.after, expected.spread, pool::terms(*port, of_port).of_use());
        self.agenda.add(Due { at: now + after, account, app: Arc::clone(app), name: expected.name });
    }

    /// Opens what is expected about now.
    pub(super) fn open_expected(&mut self, now: Instant) {
        while let Some(Due { account, app, name, .. }) = self.agenda.pop(now) {
            // It has come sooner.
            if !self.prefetch_model.was_asked(account, &app, &name) {
                self.open_ahead(now, account, &app, &name, Because::ItIsTime);
            }
        }
    }

    /// A program asks for these records of `name`; what follows it is looked up and opened.
    pub(super) fn asked(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, records: &[RecordType]) {
        self.hints.asked(account, app, name, records);
        self.visits.asked(account, app, name);
        if self.settings.ahead == Ahead::OFF {
            return;
        }
        self.launched(now, account, app, Some(name));
        let again = self.prefetch_model.was_asked(account, app, name);
        let names = prefetch::after(&self.prefetch_model, app, name, again);
        let expected = self.prefetch_model.expected_after(app, name, again);
        self.prefetch_model.asked(now, account, app, name, records);
        if self.settings.ahead.prefetch {
            names.iter().for_each(|name| self.look_up_ahead(now, account, app, name, false));
        }
        for follower in expected {
            if !self.prefetch_model.is_recent(now, account, app, &follower.name) {
                self.open_ahead(now, account, app, &follower.name, Because::ItFollows(follower.chance));
            }
        }
    }

    /// A program goes to an address of `name`; more may be about to follow side by side.
    pub(super) fn connected(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, to: SocketAddr) {
        if self.settings.ahead == Ahead::OFF {
            return;
        }
        self.launched(now, account, app, Some(name));
        self.prefetch_model.connected(now, account, app, name, to);
        let port = to.port();
        let begun = self.prefetch_model.in_burst(now, account, app, name, port) as f32;
        let usual = self.prefetch_model.name(app, name).and_then(|n| n.ports.get(&port)).map_or(0.0, |p| p.parallel);
        // As many as are still to come, those that are open already among them.
        let to_come = (usual - begun + 0.3).max(0.0) as usize;
        if to_come > 0 {
            self.open_ahead(now, account, app, name, Because::Beside(to_come));
        }
    }

    /// A program wants a connection to `host` and there is none; why not is counted. `under_way`: one had been begun ahead.
    pub(super) fn count_miss(&mut self, now: Instant, account: u32, host: &SpareKey, under_way: bool) {
        if self.settings.ahead.spares == 0 {
            return;
        }
        let SpareKey { app, name, port } = host;
        let known = self.prefetch_model.name(app, name).and_then(|n| n.ports.get(port));
        let fate = self.fates.take(account, host);
        let why = match fate {
            _ if under_way => PoolMiss::Late,
            _ if self.prefetch_model.in_burst(now, account, app, name, *port) > 0 => PoolMiss::Beside,
            Some(fate) => fate,
            None if known.is_none_or(pool::is_unknown) => PoolMiss::Unknown,
            None => PoolMiss::Unexpected,
        };
        *self.tally.of(account).missed.entry(why).or_default() += 1;
    }

    /// Asks for the records of `name` that this program usually asks for, where no answer holds; or, if it is to be so
    /// `for_long`, none that holds for more than a tenth of its life: a launch would not get far with it.
    fn look_up_ahead(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, for_long: bool) {
        let Some(records) = self.prefetch_model.name(app, name).map(|known| known.records) else { return };
        for record in records.iter() {
            let cache = self.caches.get(app);
            let held = cache.and_then(|c| c.peek(now, name, record)).is_some_and(|(_, left)| !left.is_zero());
            let soon = for_long && cache.is_some_and(|c| c.ends_soon(now, name, record, REFRESH_IN_LAST));
            if !held || soon && self.settings.ahead.refresh {
                self.query_ahead(now, account, &Question { app: Arc::clone(app), name: Arc::clone(name), record });
            }
        }
        self.prefetch_model.looked_up_ahead(account, app, name);
    }

    /// Sends a query that no program waits for yet.
    fn query_ahead(&mut self, now: Instant, account: u32, question: &Question) {
        let (_, new) = self.ask_anew(now, account, question);
        self.tally.of(account).queries_ahead += u64::from(new);
    }

    /// An answer has been used: it is looked up again if it ends soon.
    pub(super) fn refresh(&mut self, now: Instant, account: u32, question: &Question) {
        let cache = self.caches.get(&question.app);
        let soon = cache.is_some_and(|c| c.ends_soon(now, &question.name, question.record, REFRESH_IN_LAST));
        if self.settings.ahead.refresh && soon {
            self.query_ahead(now, account, question);
        }
    }

    /// Opens spare connections to where a program goes with `name`, if it may and is worth it.
    fn open_ahead(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, because: Because) {
        if self.settings.ahead.spares == 0 || name.parse::<std::net::IpAddr>().is_ok() {
            return;
        }
        let Some(want) = self.prefetch_model.name(app, name).map(|known| known.records.want()) else { return };
        for (host, most, terms) in self.wanted_ahead(now, account, app, name, because) {
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
            // Some end as soon as they are begun: never more than are wanted, however few are left of them.
            for _ in 0..most {
                if !self.pool.has_room(now, &host, most, terms) {
                    if !self.pool.has_any(now, &host) {
                        self.fates.note(account, &host, PoolMiss::NoRoom);
                    }
                    break;
                }
                let mut job = Job::new(now, Arc::clone(app), Arc::clone(name), want, Some(host.port));
                job.account = account;
                job.spare = Some(terms);
                job.remembered = self.caches.get(app).map_or_else(Vec::new, |c| c.remembered(name));
                job.translation = self.translation(now, app, want);
                if self.settings.race.asks_https && host.port == service::PORT {
                    job.https = Lookup::Unasked;
                }
                self.tally.of(account).spares += 1;
                let _ = self.fates.take(account, &host);
                if terms.learning {
                    // What this is opened for is to be known the next time.
                    self.fates.note(account, &host, PoolMiss::Untried);
                }
                self.pool.opened(now, self.next_job, host.clone(), terms);
                self.start(now, job);
            }
        }
    }

    /// Where the program goes with `name` that is worth opening ahead: how many at most, and on which terms.
    fn wanted_ahead(
        &mut self,
        now: Instant,
        account: u32,
        app: &AppId,
        name: &Arc<str>,
        because: Because,
    ) -> Vec<(SpareKey, usize, Terms)> {
        let mut wanted = Vec::new();
        let Some(known) = self.prefetch_model.name(app, name) else { return wanted };
        for (port, of_port) in &known.ports {
            let host = SpareKey { app: Arc::clone(app), name: Arc::clone(name), port: *port };
            let of_port = pool::borne(of_port, self.pool.borne(now, &host));
            let terms = pool::terms(*port, &of_port);
            // Of the launches in which the name was asked for, some had a connection.
            let goes = if known.share > 0.0 { (of_port.share / known.share).min(1.0) } else { 0.0 };
            let (chance, at_most) = match because {
                Because::ItIsTime => {
                    (of_port.share * pool::when(known.after, known.spread, terms.of_use()).1, usize::MAX)
                }
                Because::ItFollows(_) if self.prefetch_model.still_uses(now, account, app, name, *port) => continue,
                Because::ItFollows(asked) => (asked * goes, usize::MAX),
                Because::Beside(to_come) => (1.0, to_come),
            };
            match self.pool.wanted(now, &host, &of_port, chance) {
                Ok(most) => wanted.push((host, most.min(at_most), terms)),
                Err(why) => self.fates.note(account, &host, why),
            }
        }
        wanted
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
                && j.returned.is_empty()
                && j.is_fresh(now)
                && Family::BOTH
                    .iter()
                    .all(|f| !j.want.includes(*f) || !j.lookup(*f).is_complete() || holds((*f).into()))
        };
        let Some((id, job)) = self.jobs.iter_mut().find(|(_, j)| fits(j)) else { return false };
        let id = *id;
        if job.open_since().is_none() {
            // The program would have begun it now.
            job.spare = job.spare.map(Terms::as_its_own);
        }
        job.resolver = Some((request, now));
        job.answered = None;
        let known = Family::BOTH.iter().filter(|f| job.want.includes(**f) && job.lookup(**f).is_complete()).count();
        let all = Family::BOTH.iter().filter(|f| job.want.includes(**f)).count();
        let tally = self.tally.of(request.account());
        tally.cache_hits += known as u64;
        tally.cache_misses += (all - known) as u64;
        self.timelines.note(now, id, name, Event::Asked { port: ask.port });
        self.drive(now, id);
        true
    }

    /// Something happened to a connection that no program has yet, so long `ago`: a busy host notices late, which makes its server
    /// no more patient.
    pub(super) fn spoilt(&mut self, now: Instant, attempt: AttemptId, how: Spoilt, ago: Duration) {
        let has_it = |j: &Job| j.attempts.iter().any(|a| a.id == attempt && a.ready_at().is_some());
        let Some(id) = self.jobs.iter().find(|(_, j)| has_it(j)).map(|(id, _)| *id) else { return };
        let Some(mut job) = self.jobs.remove(&id) else { return };
        let end = match how {
            Spoilt::Closed => SpareEnd::Closed,
            Spoilt::Spoke => SpareEnd::Spoke,
        };
        let at = Instant::ZERO + (now - Instant::ZERO).saturating_sub(ago);
        self.spare_ended(at, &job, end);
        self.close_where(now, &mut job, |a| a.id == attempt);
        job.spare = None;
        if job.returned.is_empty() && job.resolver.is_none() && job.claim.is_none() {
            return self.close_all(now, &mut job);
        }
        // A program that has been told of it gets what else there is.
        self.jobs.insert(id, job);
        self.drive(now, id);
    }

    /// A spare connection has ended, or been given to a program.
    pub(super) fn spare_ended(&mut self, now: Instant, job: &Job, end: SpareEnd) {
        if job.spare.is_some()
            && let Some((host, age)) = self.pool.ended(job.number, now, end)
        {
            match end {
                SpareEnd::Expired if !job.spare.is_some_and(|terms| terms.learning) => {
                    self.fates.note(job.account, &host, PoolMiss::Expired);
                }
                SpareEnd::Closed => self.fates.note(job.account, &host, PoolMiss::Closed),
                SpareEnd::Barred | SpareEnd::Spoke => self.fates.note(job.account, &host, PoolMiss::Barred),
                _ => {}
            }
            if let Some(known) = self.prefetch_model.port_mut(&host.app, &host.name, host.port) {
                pool::learn(known, end, age);
            }
        }
    }

    /// Closes jobs that no program waits for, of those that `which` says. Spare connections come to this `end`.
    pub(super) fn flush(&mut self, now: Instant, end: SpareEnd, which: impl Fn(&Job) -> bool) {
        let idle = |j: &Job| j.resolver.is_none() && j.claim.is_none() && j.own.is_empty() && which(j);
        let ids: Vec<_> = self.jobs.iter().filter(|(_, j)| idle(j)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(mut job) = self.jobs.remove(&id) {
                let end = if job.open_since().is_some() { end } else { SpareEnd::Dropped };
                self.spare_ended(now, &job, end);
                self.close_all(now, &mut job);
            }
        }
    }

    /// Begins to connect to what the name had last time, while nothing else is known.
    pub(super) fn try_stale(&mut self, now: Instant, job: &mut Job) {
        let Some(port) = job.port.filter(|_| !job.stale.is_empty()) else { return };
        let untouched = job.attempts.is_empty() && job.unconfirmed.is_empty() && job.addresses().is_empty();
        if !untouched || job.done || job.races_itself || job.comes_first || job.translation != Translation::None {
            return;
        }
        let mut list = std::mem::take(&mut job.stale);
        let (network, for_nobody) = (self.path.current(), job.is_for_nobody());
        list.retain(|a| {
            let family = Family::of(*a);
            // What was asked for to be translated is not where a program of IPv6 alone goes.
            (family == Family::V6 || !job.ipv6_alone)
                && (!for_nobody || pool::may_lead_to(*a, port))
                && !network.is_suspended(family, now)
                && !network.is_failing(*a, now)
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
            if !confirmed && !job.lookup(Family::of(attempt.addr)).is_complete() {
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
