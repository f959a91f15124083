//! Connects of programs: which job they are for, and the calls that are left to the programs.

use super::{Connector, MAX_APPS};
use crate::connect::job::{Job, Waiting, is_alternative};
use crate::connect::lookups::Question;
use crate::connect::pool::{self, SpareKey};
use crate::connect::race::{Attempt, State};
use crate::connect::timeline::Event;
use crate::connect::{AppId, Claim, Output, RequestId, Want};
use crate::path::Family;
use crate::time::{Duration, Instant};
use crate::wire::shim::Pass;
use std::net::IpAddr;
use std::sync::Arc;

impl Connector {
    pub(super) fn claim(&mut self, now: Instant, request: RequestId, claim: Claim) {
        self.note_where_it_goes(&claim);
        self.note_its_sockets(&claim);
        self.know_port(now, request, &claim);
        let open = self.open_for(now, request, &claim);
        let (account, app, to) = (request.account(), Arc::clone(&claim.app), claim.to);
        if let Some(job) = open.and_then(|id| self.jobs.get(&id)).filter(|job| !is_ready(job, &claim)) {
            let (host, under_way) = (host(&claim, &job.name), job.spare.is_some());
            self.count_miss(now, account, &host, under_way);
        }
        let nonblocking = claim.nonblocking;
        if let Some(errno) = self.has_just_failed(now, request, &claim, open) {
            self.tally.of(account).failed += 1;
            return self.outputs.push_back(Output::Fail(request, errno));
        }
        if self.is_chosen(account, &claim) {
            return self.pass(request, Pass::Chosen);
        }
        let Some(id) = open else { return self.claim_anew(now, request, claim) };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let name = Arc::clone(&job.name);
        if nonblocking && job.port.is_none() && !(claim.rescuable.is_some() && job.has_alternative(&claim)) {
            // It is on its way: there is nothing to guess any more.
            job.guesses.get_or_insert_default();
            self.pass(request, Pass::NothingReady);
            return self.connected(now, account, &app, &name, to);
        }
        job.port = Some(claim.to.port());
        let held = job.held.take().filter(|_| nonblocking);
        if let Some((addr, mut job)) = held.and_then(|addr| Some((addr, self.jobs.remove(&id)?))) {
            self.attempt(now, &mut job, addr, false);
            self.jobs.insert(id, job);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.races_itself |= nonblocking;
        self.timelines.note(now, id, &job.name, wanted(&claim));
        job.claim = Some(Waiting { request, claim, since: now });
        if let Some(mut job) = self.jobs.remove(&id) {
            self.begin_for(now, &mut job);
            self.jobs.insert(id, job);
        }
        self.drive(now, id);
        self.leave(now, id, request);
        self.connected(now, account, &app, &name, to);
    }

    /// The job that a claim is for: of those where the port is known, connections may be under way, or complete.
    pub(super) fn open_for(&self, now: Instant, request: RequestId, claim: &Claim) -> Option<u64> {
        let addr = claim.to.ip();
        let may_wait = |j: &Job| {
            let known = self.prefetch_model.name(&j.app, &j.name).and_then(|n| n.ports.get(&claim.to.port()));
            pool::may_wait(known, j.open_since().map_or(Duration::ZERO, |at| now - at))
        };
        // A call that waits has to be a race of its own: where one of these is won by what the program holds, the rest ends.
        let is_held = |a: &Attempt| a.given && (!claim.nonblocking || a.addr == addr);
        let fits = |j: &Job| {
            j.app == claim.app
                && j.account == request.account()
                && !j.done
                && j.claim.is_none()
                && j.port.is_none_or(|p| p == claim.to.port())
                && j.is_fresh(now)
                && may_wait(j)
                && !j.attempts.iter().any(is_held)
                && (j.addresses().contains(&addr) || j.returned.contains(&addr))
                // What the program holds already is its own race; another connection to the same place is another matter.
                && (j.own.is_empty() || claim.nonblocking && j.own.iter().all(|own| own.claim.to != claim.to))
        };
        let rank = |j: &Job| (j.port.is_none(), !is_ready(j, claim));
        self.jobs.iter().filter(|(_, j)| fits(j)).min_by_key(|(_, j)| rank(j)).map(|(id, _)| *id)
    }

    /// A connection beyond the first of a lookup: a race of its own over what the lookup gave.
    fn claim_anew(&mut self, now: Instant, request: RequestId, claim: Claim) {
        let (account, app, to) = (request.account(), Arc::clone(&claim.app), claim.to);
        let Some((name, addresses)) = self.whose(now, account, &claim) else {
            return self.pass(request, Pass::UnknownAddress);
        };
        self.count_miss(now, account, &host(&claim, &name), false);
        if claim.nonblocking && !(claim.rescuable.is_some() && is_alternative(&claim, &addresses)) {
            self.pass(request, Pass::NothingReady);
            return self.connected(now, account, &app, &name, to);
        }
        let mut job = Job::new(now, Arc::clone(&app), Arc::clone(&name), Want::Both, Some(to.port()));
        job.account = account;
        job.translation = self.translation(now, &app, Want::Both);
        // Addresses of IPv4 are of use to it only as a translator makes them reachable, if there is one.
        job.ipv6_alone = to.is_ipv6() && self.hints.want(account, &app, &name) == Want::Only(Family::V6);
        job.complete_locally(now, &addresses);
        job.answered = Some(now);
        job.returned = job.addresses();
        self.await_answers(now, &mut job);
        job.remembered = addresses;
        job.just_failed = self.failures.of(now, account, &app, to.port());
        // A program that tries again has it tried again.
        job.just_failed.retain(|(addr, _)| *addr != to.ip());
        job.races_itself = claim.nonblocking;
        job.claim = Some(Waiting { request, claim, since: now });
        self.begin_for(now, &mut job);
        let id = self.start(now, job);
        self.leave(now, id, request);
        self.connected(now, account, &app, &name, to);
    }

    /// How the address of `claim` has just failed, if that was not reported to the program and nothing else is to be had for it.
    fn has_just_failed(&mut self, now: Instant, request: RequestId, claim: &Claim, open: Option<u64>) -> Option<i32> {
        let Some(job) = open.and_then(|id| self.jobs.get_mut(&id)) else {
            return self.failures.take(now, request.account(), &claim.app, claim.to);
        };
        // A program that waits may still be given another, and one that does not what is open or known to be soon.
        let network = self.path.current();
        let is_soon = |a: &Attempt| network.peer(a.addr).is_some_and(|p| p.will_do(now));
        let of_use = |a: &Attempt| a.ready_at().is_some() || a.state == State::InFlight && is_soon(a);
        if !claim.nonblocking || job.attempts.iter().any(|a| job.can_serve(a, claim) && of_use(a)) {
            return None;
        }
        let ended = job.attempts.iter_mut().find(|a| a.addr == claim.to.ip() && a.has_just_failed(now))?;
        let State::Failed(errno) = std::mem::replace(&mut ended.state, State::Gone) else { return None };
        Some(errno)
    }

    /// Whether the program wants this address and no other. Where the family has no route, only another one will do.
    fn is_chosen(&mut self, account: u32, claim: &Claim) -> bool {
        let Some(name) = self.caches.get(&claim.app).and_then(|cache| cache.name_of(claim.to.ip())) else {
            return false;
        };
        let has_route = self.path.current().family(Family::of(claim.to.ip())).has_route;
        has_route && self.visits.is_chosen(account, &claim.app, &name, claim.to)
    }

    /// Begins where a program that waits wants to go, if nothing is under way that can take the place of its socket: without us
    /// it would begin now. What is under way to the same address by a socket of another kind is of no use to it.
    fn begin_for(&mut self, now: Instant, job: &mut Job) {
        self.confirm(now, job);
        let Some(claim) = job.claim.as_ref().map(|w| w.claim.clone()).filter(|claim| !claim.nonblocking) else {
            return;
        };
        let to = claim.to.ip();
        if let Some(n) = job.attempts.iter().position(|a| a.addr == to && job.is_unfit(a, &claim)) {
            let (id, started) = (job.attempts[n].id, job.attempts[n].started);
            self.close_where(now, job, |a| a.id == id);
            job.attempts.remove(n);
            self.attempt(now, job, to, false);
            // The race goes on as if it had been begun like that.
            job.attempts.iter_mut().filter(|a| a.addr == to).for_each(|a| a.started = started);
            job.attempts.sort_by_key(|a| a.started);
            return;
        }
        let alive = |a: &Attempt| matches!(a.state, State::InFlight | State::Ready { .. });
        let network = self.path.current();
        let is_known = |a: &Attempt| network.peer(a.addr).is_some_and(|peer| peer.rtt.is_some());
        let served = job.attempts.iter().any(|a| alive(a) && job.can_serve(a, &claim) && is_known(a));
        // The race may wait for what is under way, or for another answer.
        let waits = job.attempts.iter().any(alive) || job.may_learn_more(|_| true);
        let fits = job.attempts.iter().any(|a| alive(a) && job.can_serve(a, &claim));
        let tried = job.attempts.iter().any(|a| a.addr == to);
        let is_its_own = job.addresses().contains(&to);
        if waits && !served && !tried && is_its_own && !(fits && self.is_doubtful(now, to)) {
            self.attempt(now, job, to, false);
        }
    }

    /// Whether what is known speaks against trying `addr`.
    pub(super) fn is_doubtful(&mut self, now: Instant, addr: IpAddr) -> bool {
        let network = self.path.current();
        network.is_failing(addr, now) || network.is_suspended(Family::of(addr), now)
    }

    /// The other family's answer, if it is still awaited, may help a program that goes where it knows.
    fn await_answers(&self, now: Instant, job: &mut Job) {
        let want = self.hints.want(job.account, &job.app, &job.name);
        for family in Family::BOTH.into_iter().filter(|f| want.includes(*f)) {
            let question = Question { app: AppId::clone(&job.app), name: Arc::clone(&job.name), record: family.into() };
            if job.lookup(family).addresses().is_empty() && self.lookups.is_open(&question) {
                job.ask(now, family.into());
            }
        }
    }

    /// Some programs (Java) have sockets of AF_INET6 for everything: what is opened for them must be able to take their place.
    pub(super) fn note_its_sockets(&mut self, claim: &Claim) {
        if !claim.nonblocking || claim.domain == Family::V6 && claim.to.is_ipv4() {
            self.racing.remove(&claim.app);
        } else if self.racing.len() < MAX_APPS {
            self.racing.insert(AppId::clone(&claim.app));
        }
        let maps = claim.to.is_ipv4() && claim.domain == Family::V6 && claim.accepts_mapped;
        if maps && self.mapping.len() < MAX_APPS {
            self.mapping.insert(AppId::clone(&claim.app));
        } else if claim.domain == Family::V4 {
            self.mapping.remove(&claim.app);
        }
    }

    pub(super) fn passed(&mut self, now: Instant, request: RequestId, host: Option<String>, reason: Pass) {
        self.count_pass(request, reason);
        let called = self.timelines.forget(request);
        if let Some(host) = host.or_else(|| called.map(|addr| addr.to_string())) {
            self.timelines.left(now, &host.trim_end_matches('.').to_ascii_lowercase(), reason);
        }
    }

    pub(super) fn count_pass(&mut self, request: RequestId, reason: Pass) {
        *self.tally.of(request.account()).passed.entry(reason).or_default() += 1;
    }

    pub(super) fn not_taken(&mut self, request: RequestId, connected: bool) {
        let tally = self.tally.of(request.account());
        let handed_over = if connected { &mut tally.handed_over } else { &mut tally.handed_over_in_progress };
        *handed_over = handed_over.saturating_sub(1);
        tally.unused += 1;
    }

    pub(super) fn pass(&mut self, request: RequestId, reason: Pass) {
        self.count_pass(request, reason);
        self.outputs.push_back(Output::Pass(request, reason));
    }
}

pub(super) fn wanted(claim: &Claim) -> Event {
    Event::Wanted { to: claim.to.ip(), nonblocking: claim.nonblocking }
}

/// Where `claim` goes, by this name.
pub(super) fn host(claim: &Claim, name: &Arc<str>) -> SpareKey {
    SpareKey { app: Arc::clone(&claim.app), name: Arc::clone(name), port: claim.to.port() }
}

/// Whether a connection of this job can be handed over at once.
fn is_ready(job: &Job, claim: &Claim) -> bool {
    job.attempts.iter().any(|a| a.ready_at().is_some() && job.can_serve(a, claim))
}
