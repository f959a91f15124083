//! Programs that do not wait for their connections: their call is left to them, and if it stalls where another address
//! answers, they are given that connection in its place.
//!
//! Nothing is raced beside a program before it has had its chance to race itself
//! ([`RESCUE_AFTER`](crate::connect::job::RESCUE_AFTER)), and nothing is taken from it before there is something better.

use super::Connector;
use crate::connect::crowd::AGAIN_AFTER;
use crate::connect::job::Job;
use crate::connect::race::{Attempt, State};
use crate::connect::timeline::Event;
use crate::connect::{AttemptId, Output, RequestId, rank};
use crate::path::{Family, Outcome};
use crate::time::Instant;
use crate::wire::shim::Pass;
use std::borrow::Cow;

impl Connector {
    /// A caller that must not be blocked has had its answer by now, or makes its own connect; which is watched if there is
    /// another address that could stand in for it.
    pub(super) fn leave(&mut self, now: Instant, id: u64, request: RequestId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(waiting) = job.claim.take_if(|w| w.request == request && w.claim.nonblocking) else { return };
        let reason = Cow::Borrowed(Pass::NothingReady.describe());
        self.timelines.note(now, id, &job.name, Event::LeftAlone { reason });
        let claim = waiting.claim;
        // What it begins beside an attempt that is watched is its own race.
        if !(claim.rescuable.is_some() && (job.has_alternative(&claim) || !job.own.is_empty())) {
            return self.pass(request, Pass::NothingReady);
        }
        let attempt = AttemptId(self.next_attempt);
        self.next_attempt += 1;
        job.attempts.push(Attempt {
            id: attempt,
            addr: claim.to.ip(),
            domain: claim.domain,
            started: now,
            state: State::InFlight,
            exploring: false,
            given: true,
        });
        self.crowds.begun(now, claim.to);
        job.holds(now, request, claim, attempt);
        self.count_pass(request, Pass::NothingReady);
        self.outputs.push_back(Output::Begin { request, attempt });
    }

    /// Puts the best connection in the place of an attempt that has stalled, once the program has had its chance.
    pub(super) fn rescue(&mut self, now: Instant, job: &mut Job) {
        if job.rescue_at().is_some_and(|at| now >= at) {
            job.rescuing = job.own.iter().all(|own| self.crowds.may_rescue(job.own_since, own.claim.to));
            job.put_off_until = now + AGAIN_AFTER;
        }
        if !job.rescuing || job.done {
            return;
        }
        let path = self.path.current();
        let found = job.own.iter().find_map(|own| {
            let fits = |a: &Attempt| matches!(a.state, State::Ready { .. }) && job.can_serve(a, &own.claim);
            let best = rank::best(&job.attempts, Family::of(own.claim.to.ip()), path, now, fits)?;
            Some((own.request, own.claim.to, own.attempt, best.id))
        });
        let Some((request, to, stalled, by)) = found else { return };
        for a in &mut job.attempts {
            if a.id == stalled {
                self.learn(now, a.id, a.addr, Outcome::Abandoned(now - a.started));
            } else if a.id == by {
                self.timelines.note(now, job.number, &job.name, Event::HandedOver { to: a.addr, connected: true });
            } else {
                continue;
            }
            a.state = State::Gone;
        }
        job.done = true;
        self.crowds.rescued(now, to);
        self.visits.arrived(request.account(), &job.app, &job.name, to);
        let waits = |j: &&mut Job| j.own.iter().any(|own| own.claim.to == to);
        self.jobs.values_mut().filter(waits).for_each(|j| j.put_off_until = Instant::ZERO);
        let to = to.ip();
        self.tally.of(request.account()).handed_over += 1;
        self.outputs.push_back(Output::Rescue { request, to, stalled, by });
    }
}
