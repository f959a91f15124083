//! One step of a job after the other: asks the race, does what it says, serves the requests that can be served.

use super::Connector;
use crate::connect::cache::Kept;
use crate::connect::failures::Failed;
use crate::connect::job::{EXPLORING_FOR, Job, Lack, Waiting};
use crate::connect::lookups::Question;
use crate::connect::pool::{self, SpareEnd};
use crate::connect::prefetch::STALE_FOR;
use crate::connect::race::reliance::RESOLUTION_DELAY;
use crate::connect::race::{Attempt, Lookup, Next, State};
use crate::connect::timeline::{Event, some};
use crate::connect::{AttemptId, Output, Resolved, rank, timeline};
use crate::path::{Family, Outcome};
use crate::time::{Duration, Instant};
use crate::timing::What;
use crate::wire::record::RecordType;
use crate::wire::shim::Pass;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Steps that a race may take after one event; none needs a tenth of it. A race that would never wait is stopped.
const MAX_STEPS: usize = 256;
/// How soon after its addresses a program connects, if nothing keeps it: time to be woken on a busy host.
const COMES_WITHIN: Duration = Duration::from_millis(10);
/// The error that a program gets for an address that is silent while another of its list has answered.
const ETIMEDOUT: i32 = 110;

impl Connector {
    /// Asks the race what to do until it waits, and serves the requests that can be served.
    pub(super) fn drive(&mut self, now: Instant, id: u64) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        if !job.done && job.is_over(now) {
            return self.close_all(now, &mut job);
        }
        job.just_failed.retain(|(_, until)| now < *until);
        for _ in 0..MAX_STEPS {
            self.confirm(now, &mut job);
            self.serve(now, &mut job);
            self.rescue(now, &mut job);
            job.may_spend = self.settings.explore > 0.0 && self.extras.is_there();
            let faster = self.settings.faster.get(&*job.name).copied();
            let race = &self.race;
            let next = job.with_view(now, self.path.current(), faster, |view| race.next(view));
            match next {
                Next::Query(record) => self.query(now, &mut job, record),
                Next::Answer => self.answer(now, &mut job, faster),
                Next::Attempt(addr) => {
                    let addr = self.as_wanted(now, &job, addr);
                    if let Some(until) = self.is_held(now, &mut job, addr) {
                        job.wake = Some((until, "what sockets the program has"));
                        break;
                    }
                    job.held = None;
                    self.attempt(now, &mut job, addr, false);
                }
                Next::Explore(addr) => {
                    if !job.explore {
                        self.extras.take();
                    }
                    self.attempt(now, &mut job, addr, true);
                }
                Next::GiveUp(attempt) => self.close_where(now, &mut job, |a| a.id == attempt),
                Next::Wait(wake) => {
                    job.wake = wake;
                    self.try_stale(now, &mut job);
                    if !self.guess(now, &mut job) {
                        break;
                    }
                }
            }
        }
        self.give_up(now, &mut job);
        if job.done {
            self.close_losers(now, &mut job);
        }
        if let (Some(at), true) = (job.open_since(), job.spare.is_some()) {
            self.pool.ready(job.number, at);
            if job.claim.is_none() {
                // One is enough.
                self.close_where(now, &mut job, |a| a.state == State::InFlight);
            }
        }
        if job.is_over(now) {
            self.close_all(now, &mut job);
        } else {
            self.jobs.insert(id, job);
        }
    }

    fn query(&mut self, now: Instant, job: &mut Job, record: RecordType) {
        let cache = self.caches.entry(Arc::clone(&job.app)).or_default();
        if let Some(kept) = cache.get(now, &job.name, record) {
            self.tally.of(job.account).cache_hits += u64::from(job.spare.is_none());
            let question = Question { app: Arc::clone(&job.app), name: Arc::clone(&job.name), record };
            self.refresh(now, job.account, &question);
            let event = Event::FromCache { record: timeline::record(record), addresses: some(&kept.addresses()) };
            self.timelines.note(now, job.number, &job.name, event);
            let (lookup, lack) = match kept {
                Kept::Addresses(list) => (Lookup::Addresses(now, list), None),
                Kept::Services(services) => return job.complete_services(now, services),
                Kept::NoData => (Lookup::Without(now), Some(Lack::NoData)),
                Kept::NxDomain => (Lookup::Without(now), Some(Lack::NxDomain)),
            };
            return job.complete(now, record, lookup, lack);
        }
        if self.settings.ahead.optimistic {
            job.stale.extend(cache.stale(now, &job.name, record, STALE_FOR));
        }
        self.tally.of(job.account).cache_misses += u64::from(job.spare.is_none());
        let question = Question { app: Arc::clone(&job.app), name: Arc::clone(&job.name), record };
        let (_, new) = self.ask_anew(now, job.account, &question);
        job.ask(now, record);
        let name = timeline::record(record);
        let event = if new { Event::Query { record: name, before: 0 } } else { Event::QueryUnderWay { record: name } };
        self.timelines.note(now, job.number, &job.name, event);
    }

    fn answer(&mut self, now: Instant, job: &mut Job, faster: Option<Family>) {
        job.answered = Some(now);
        let Some((request, since)) = job.resolver.take() else { return };
        let mut list = self.in_order(now, job, faster);
        let network = self.path.current();
        // Of what was given up before it answered it is known that it takes longer, not how long.
        let is_bound = |addr| network.peer(addr).is_some_and(|peer| peer.rtt.is_some() && !peer.has_answered);
        let expected = |addr| network.expected_rtt(addr).filter(|_| !is_bound(addr)).map(|rtt| rtt.smoothed);
        job.lead_with_what_is_under_way(now, &mut list, expected);
        self.tally.of(job.account).lookup_wait += now - since;
        let outcome = match list.is_empty() {
            false => "ok",
            true if job.in_want => "not-handled",
            true if job.lacks.contains(&Some(Lack::NxDomain)) => "no-such-name",
            true if job.lacks.contains(&Some(Lack::NoData)) => "no-data",
            true => "unanswered",
        };
        self.timings.note(What::Lookup, &job.app, list.first().copied().map(Family::of), outcome, now - since);
        if list.is_empty() && job.in_want {
            job.done = true;
            let reason = Cow::Borrowed(Pass::OutOfDescriptors.describe());
            self.timelines.note(now, job.number, &job.name, Event::LeftAlone { reason });
            return self.pass(request, Pass::OutOfDescriptors);
        }
        let resolved = if list.is_empty() {
            self.tally.of(job.account).unresolved += 1;
            let lacks = |l| job.lacks.contains(&Some(l));
            if lacks(Lack::NxDomain) {
                Resolved::NxDomain
            } else if lacks(Lack::NoData) {
                Resolved::NoData
            } else {
                Resolved::Unanswered
            }
        } else {
            self.tally.of(job.account).resolved += 1;
            job.returned.clone_from(&list);
            Resolved::Addresses(list)
        };
        job.done |= !matches!(resolved, Resolved::Addresses(_));
        self.timelines.note(now, job.number, &job.name, Event::Returned { addresses: some(&job.returned) });
        self.outputs.push_back(Output::Answer(request, resolved));
    }

    /// The addresses of `job` in the order in which programs get them: as the race has it, what has no route last, and where this host
    /// has no source address for global IPv6 addresses that suits them, these behind IPv4 (RFC 6724, section 6, rules 1, 2 and 5).
    fn in_order(&mut self, now: Instant, job: &Job, faster: Option<Family>) -> Vec<IpAddr> {
        let mut list = job.addresses();
        let race = &self.race;
        job.with_view(now, self.path.current(), faster, |view| race.order(view, &mut list));
        let network = self.path.current();
        list.sort_by_key(|addr| (!network.family(Family::of(*addr)).has_route, network.v4_first && is_global(*addr)));
        list
    }

    /// Where the first attempt for a program that waits goes: where it wants to go, unless the race knows anything of where it would
    /// go itself. Programs have orders of their own (Java: IPv4 first), and bare they would begin there.
    fn as_wanted(&mut self, now: Instant, job: &Job, addr: IpAddr) -> IpAddr {
        let Some(wanted) = job.claim.as_ref().map(|waiting| waiting.claim.to.ip()) else { return addr };
        let known = self.path.current().peer(addr).is_some_and(|peer| peer.rtt.is_some());
        let claim = job.claim.as_ref().filter(|waiting| waiting.claim.nonblocking).map(|waiting| &waiting.claim);
        let none_fits = |claim| !job.attempts.iter().any(|a| a.state == State::InFlight && job.can_serve(a, claim));
        // A program that gives it a while only is not given one that has just been begun in its place.
        let nothing = job.attempts.is_empty() || claim.is_some_and(none_fits);
        let is_unfit = |a| claim.is_some_and(|claim| job.is_unfit(a, claim));
        let is_new = job.attempts.iter().all(|a| a.addr != wanted || is_unfit(a));
        let first = nothing && is_new && job.addresses().contains(&wanted);
        if first && !known && !self.is_doubtful(now, wanted) { wanted } else { addr }
    }

    /// Until when an attempt to the IPv4 address `addr` is held back: a program that waits will be given a socket of AF_INET6 for it in
    /// the place of the one that it begins with, and one that does not wait will bring one of AF_INET, which nothing can take the place
    /// of that is still on its way. Which it is shows as soon as it connects.
    fn is_held(&self, now: Instant, job: &mut Job, addr: IpAddr) -> Option<Instant> {
        let is_known = self.racing.contains(&job.app) || self.mapping.contains(&job.app);
        let has_come = job.claim.is_some() || !job.own.is_empty();
        let begins_with_ipv6 = job.returned.first().is_some_and(IpAddr::is_ipv6);
        // Nothing else waits for that: another attempt was made before.
        let may_wait = begins_with_ipv6 && addr.is_ipv4() && !is_known && !has_come && !job.attempts.is_empty();
        let until = job.answered.filter(|_| may_wait).map(|at| at + COMES_WITHIN).filter(|at| now < *at)?;
        job.held = Some(addr);
        Some(until)
    }

    pub(super) fn attempt(&mut self, now: Instant, job: &mut Job, addr: IpAddr, exploring: bool) {
        let Some(port) = job.port else { return };
        if job.is_for_nobody() && !pool::may_lead_to(addr, port) {
            self.spare_ended(now, job, SpareEnd::Barred);
            job.done = true;
            return;
        }
        let faster = self.settings.faster.get(&*job.name).copied();
        let list = self.in_order(now, job, faster);
        let pending = job.want.includes(Family::V6) && !job.v6.is_complete() && self.race.waits_for_both();
        // The addresses that it got stay valid, even where another address would be the first by now.
        // One that does not wait is told at once that an address has just failed, and goes on to the next.
        let comes_to = |list: &[IpAddr]| list.iter().copied().find(|a| !job.has_just_failed(now, *a)).map(Family::of);
        let expected = if pending { Some(Family::V6) } else { comes_to(&list) };
        let expected = if self.brings_ipv6(now, job) { Some(Family::V6) } else { expected };
        // A program whose sockets are all of AF_INET6 brings one of these whichever address it got first.
        let told = comes_to(&job.returned).filter(|_| !self.mapping.contains(&job.app));
        let head = told.or(expected);
        // A program that races by itself goes to each family with a socket of that family.
        let head = head.filter(|_| !self.racing.contains(&job.app));
        // What is begun to learn stands in for nothing.
        let domain = job.domain_for(addr, head.filter(|_| !exploring || self.mapping.contains(&job.app)));
        let id = AttemptId(self.next_attempt);
        self.next_attempt += 1;
        self.tally.of(job.account).attempts += 1;
        self.tally.of(job.account).explorations += u64::from(exploring);
        self.timelines.note(now, job.number, &job.name, Event::Attempt { to: addr, exploring });
        job.attempts.push(Attempt { id, addr, domain, started: now, state: State::InFlight, exploring, given: false });
        self.outputs.push_back(Output::Connect { id, to: SocketAddr::new(addr, port), domain });
    }

    /// Whether the first socket of the program will be of AF_INET6, whatever order is best: all of its sockets are, or it asks
    /// over DNS itself and sorts the addresses itself (RFC 6724).
    fn brings_ipv6(&mut self, now: Instant, job: &Job) -> bool {
        // What is not there within the Resolution Delay will most likely be answered without IPv6.
        let soon = |at: Instant| now - at < RESOLUTION_DELAY;
        let is_answered = self.path.current().family(Family::V6).lookup.is_some();
        let is_pending = is_answered && !job.v6.is_complete() && job.v4.completed_at().is_none_or(soon);
        let hears = job.want.includes(Family::V6) && (is_pending || !job.v6.addresses().is_empty());
        let sorts = job.resolver.is_none() && job.returned.is_empty() && self.asks.knows(&job.app);
        self.mapping.contains(&job.app) || sorts && hears && self.path.current().family(Family::V6).has_route
    }

    /// Hands the best connection to a program that waits for one.
    fn serve(&mut self, now: Instant, job: &mut Job) {
        let Some(waiting) = &job.claim else { return };
        let claim = &waiting.claim;
        let asked = Family::of(claim.to.ip());
        let network = self.path.current();
        // Some programs give an address so long and no longer: in place of another they get what is open, or will soon be.
        let is_as_good = |a: &Attempt| {
            a.state != State::InFlight
                || a.addr == claim.to.ip()
                || network.peer(a.addr).is_some_and(|p| p.will_do(now))
        };
        let best = rank::best(&job.attempts, asked, network, now, |a| {
            job.can_serve(a, claim) && is_as_good(a) || job.can_cross(now, a)
        });
        let best = best.map(|a| (a.id, a.state)).filter(|(_, state)| claim.nonblocking || *state != State::InFlight);
        let Some((attempt, state)) = best else {
            return self.move_on(now, job);
        };
        let (request, since) = (waiting.request, waiting.since);
        let outcome = if state == State::InFlight { "under-way" } else { "ok" };
        if let Some(to) = job.attempts.iter().find(|a| a.id == attempt).map(|a| a.addr) {
            let event = Event::HandedOver { to, connected: state != State::InFlight };
            self.timelines.note(now, job.number, &job.name, event);
            self.timings.note(What::Connect, &job.app, Some(Family::of(to)), outcome, now - since);
        }
        match state {
            State::Ready { rtt, .. } => {
                self.tally.of(request.account()).handed_over += 1;
                self.tally.of(request.account()).at_once += u64::from(now == since);
                self.tally.of(request.account()).handshakes += rtt;
                self.tally.of(request.account()).connect_wait += now - since;
                job.done = true;
                self.visits.arrived(request.account(), &job.app, &job.name, waiting.claim.to);
                if let Some(n) = job.attempts.iter().position(|a| a.id == attempt) {
                    job.attempts[n].state = State::Gone;
                    if job.attempts[n].exploring {
                        self.beside_has_won(now, job);
                    }
                }
                self.outputs.push_back(Output::HandOver { request, attempt, connected: true });
            }
            _ => {
                self.tally.of(request.account()).handed_over_in_progress += 1;
                if let Some(a) = job.attempts.iter_mut().find(|a| a.id == attempt) {
                    a.given = true;
                }
                self.outputs.push_back(Output::HandOver { request, attempt, connected: false });
                if let Some(Waiting { claim, .. }) = job.claim.take_if(|w| w.claim.rescuable.is_some()) {
                    self.crowds.begun(now, claim.to);
                    job.holds(now, request, claim, attempt);
                }
            }
        }
        self.tally.of(request.account()).spares_taken += u64::from(job.spare.is_some());
        self.spare_ended(now, job, SpareEnd::Taken);
        job.spare = None;
        job.claim = None;
    }

    /// What was begun beside the first attempt has won: the first is now the one to learn from. It takes longer than it has so far, which
    /// the next visit is to know.
    fn beside_has_won(&mut self, now: Instant, job: &mut Job) {
        for a in job.attempts.iter_mut().filter(|a| a.state == State::InFlight) {
            a.exploring = true;
            self.learn(now, a.id, a.addr, Outcome::Abandoned(now - a.started + Duration::from_nanos(1)));
        }
    }

    /// Ends the wait of a program that goes on to its next address by now.
    fn move_on(&mut self, now: Instant, job: &mut Job) {
        if job.moves_on_at().is_none_or(|at| now < at) {
            return;
        }
        let Some(Waiting { request, claim, since }) = job.claim.take() else { return };
        let of_wanted = job.attempts.iter().filter(|a| a.addr == claim.to.ip());
        let errno = of_wanted.filter_map(Attempt::errno).next().unwrap_or(ETIMEDOUT);
        self.tally.of(request.account()).failed += 1;
        self.timings.note(What::Connect, &job.app, Some(Family::of(claim.to.ip())), "failed", now - since);
        self.outputs.push_back(Output::Fail(request, errno));
        self.timelines.note(now, job.number, &job.name, Event::GivenUp { errno });
        self.prefetch_model.failed(request.account(), &job.app, &job.name, claim.to);
    }

    /// Ends the wait of a program that gets no connection.
    fn give_up(&mut self, now: Instant, job: &mut Job) {
        let Some(waiting) = &job.claim else { return };
        let claim = &waiting.claim;
        let hopeful = job.attempts.iter().any(|a| match a.state {
            State::InFlight => job.can_serve(a, claim) || job.crosses(claim),
            _ => false,
        });
        let crosses = job.crosses(claim);
        let pending = job.may_learn_more(|f| claim.domain == f || (f == Family::V4 && claim.accepts_mapped) || crosses);
        if hopeful || pending || claim.nonblocking || job.wake.is_some() {
            return;
        }
        let request = waiting.request;
        let (asked_family, waited) = (Some(Family::of(claim.to.ip())), now - waiting.since);
        let errno_of = Attempt::errno;
        let asked = job.attempts.iter().filter(|a| a.addr == claim.to.ip()).find_map(errno_of);
        let errno = asked.or_else(|| job.attempts.iter().rev().find_map(errno_of)).filter(|_| !job.in_want);
        let reason = if job.in_want { Pass::OutOfDescriptors } else { Pass::Unsuitable };
        if errno.is_some() {
            self.prefetch_model.failed(request.account(), &job.app, &job.name, claim.to);
        }
        if let (Some(_), Some(port)) = (errno, job.port) {
            for (a, errno) in job.attempts.iter().filter_map(|a| Some((a, errno_of(a)?))) {
                let (account, to) = (request.account(), SocketAddr::new(a.addr, port));
                let failed = Failed { errno, began: a.started, reported: a.addr == claim.to.ip() };
                self.failures.note(now, (account, &job.app), to, failed);
            }
        }
        job.claim = None;
        // What the program will try next may be under way already.
        job.done = !job.attempts.iter().any(|a| matches!(a.state, State::InFlight | State::Ready { .. }));
        let event = match errno {
            Some(errno) => Event::GivenUp { errno },
            None => Event::LeftAlone { reason: Cow::Borrowed(reason.describe()) },
        };
        self.timelines.note(now, job.number, &job.name, event);
        match errno {
            Some(errno) => {
                self.tally.of(request.account()).failed += 1;
                self.timings.note(What::Connect, &job.app, asked_family, "failed", waited);
                self.outputs.push_back(Output::Fail(request, errno));
            }
            None => self.pass(request, reason),
        }
    }

    /// Closes what lost. An exploring attempt goes on until it has taught what it was begun for, within bounds.
    fn close_losers(&mut self, now: Instant, job: &mut Job) {
        self.close_where(now, job, |a| !a.is_exploring() || now >= a.started + EXPLORING_FOR);
    }

    pub(super) fn close_all(&mut self, now: Instant, job: &mut Job) {
        let end = if job.open_since().is_some() { SpareEnd::Expired } else { SpareEnd::Dropped };
        self.spare_ended(now, job, end);
        job.attempts.append(&mut job.unconfirmed);
        self.close_where(now, job, |_| true);
    }

    pub(super) fn close_where(&mut self, now: Instant, job: &mut Job, which: impl Fn(&Attempt) -> bool) {
        for a in job.attempts.iter_mut().filter(|a| which(a)) {
            match a.state {
                State::Ready { .. } => self.tally.of(job.account).unused += 1,
                State::InFlight if job.guesses.is_some() && job.claim.is_none() => {}
                State::InFlight => self.learn(now, a.id, a.addr, Outcome::Abandoned(now - a.started)),
                State::Failed(_) | State::Gone => continue,
            }
            let connected = matches!(a.state, State::Ready { .. });
            self.timelines.note(now, job.number, &job.name, Event::Closed { to: a.addr, connected });
            a.state = State::Gone;
            self.outputs.push_back(Output::Close(a.id));
        }
    }
}

/// Whether this is a global IPv6 address, for which one of the site or the link is no source (RFC 4291, section 2.4; RFC 4193).
fn is_global(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(v6) if !v6.is_unique_local() && !v6.is_unicast_link_local() && !v6.is_loopback())
}
