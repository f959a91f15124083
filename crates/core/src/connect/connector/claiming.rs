//! Connects of programs: which job they are for, and the calls that are left to the programs.

use super::Connector;
use crate::connect::job::{Job, Waiting, is_alternative};
use crate::connect::pool::{self, Host};
use crate::connect::timeline::Event;
use crate::connect::{Claim, Output, RequestId, Want};
use crate::time::{Duration, Instant};
use crate::wire::shim::Pass;
use std::sync::Arc;

impl Connector {
    pub(super) fn claim(&mut self, now: Instant, request: RequestId, claim: Claim) {
        self.note_where_it_goes(&claim);
        let addr = claim.to.ip();
        let habits = &self.habits;
        let may_wait = |j: &Job| {
            let known = habits.name(&j.app, &j.name).and_then(|n| n.ports.get(&claim.to.port()));
            pool::may_wait(known, j.open_since().map_or(Duration::ZERO, |at| now - at))
        };
        let fits = |j: &Job| {
            j.app == claim.app
                && j.account == request.account()
                && !j.done
                && j.claim.is_none()
                && j.port.is_none_or(|p| p == claim.to.port())
                && j.is_fresh(now)
                && may_wait(j)
                && (j.addresses().contains(&addr) || j.told.contains(&addr))
                // What the program holds already is its own race; another connection to the same place is another matter.
                && (j.own.is_empty() || claim.nonblocking && j.own.iter().all(|own| own.claim.to != claim.to))
        };
        // Where the port is known, connections may be under way, or complete.
        let is_ready = |j: &Job| j.attempts.iter().any(|a| a.ready_at().is_some() && j.can_serve(a, &claim));
        let rank = |j: &Job| (j.port.is_none(), !is_ready(j));
        let open = self.jobs.iter().filter(|(_, j)| fits(j)).min_by_key(|(_, j)| rank(j)).map(|(id, _)| *id);
        let (account, app, port) = (request.account(), Arc::clone(&claim.app), claim.to.port());
        let host = |name: &Arc<str>| Host { app: Arc::clone(&claim.app), name: Arc::clone(name), port };
        if let Some(job) = open.and_then(|id| self.jobs.get(&id)).filter(|job| !is_ready(job)) {
            let (host, under_way) = (host(&job.name), job.spare.is_some());
            self.missed(now, account, &host, under_way);
        }
        let nonblocking = claim.nonblocking;
        let id = match open {
            Some(id) => id,
            None => {
                let Some((name, addresses)) = self.whose(now, account, &claim) else {
                    return self.pass(request, Pass::UnknownAddress);
                };
                self.missed(now, account, &host(&name), false);
                if nonblocking && !(claim.rescuable && is_alternative(&claim, &addresses)) {
                    self.pass(request, Pass::NothingReady);
                    return self.connected(now, account, &app, &name, port);
                }
                // A connection beyond the first of a lookup: a race of its own over what the lookup gave.
                let mut job = Job::new(now, Arc::clone(&claim.app), Arc::clone(&name), Want::Both, Some(port));
                job.account = request.account();
                job.translation = self.translation(now, &claim.app, Want::Both);
                job.settle_own(now, &addresses);
                job.answered = Some(now);
                job.told = job.addresses();
                job.remembered = addresses;
                job.races_itself = nonblocking;
                job.claim = Some(Waiting { request, claim, since: now });
                let id = self.start(now, job);
                self.leave(now, id, request);
                return self.connected(now, account, &app, &name, port);
            }
        };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let name = Arc::clone(&job.name);
        if nonblocking && job.port.is_none() && !(claim.rescuable && job.has_alternative(&claim)) {
            self.pass(request, Pass::NothingReady);
            return self.connected(now, account, &app, &name, port);
        }
        job.port = Some(claim.to.port());
        job.races_itself |= nonblocking;
        self.timelines.note(now, id, &job.name, wanted(&claim));
        job.claim = Some(Waiting { request, claim, since: now });
        self.drive(now, id);
        self.leave(now, id, request);
        self.connected(now, account, &app, &name, port);
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
