//! Programs that do not say a port when they ask for a name, while the answer of one family is missing: whether the other one will
//! do is shown by a connection to the port that they will most likely go to. Ours.
//!
//! Without us the program would wait for both answers, and with the answer of one family alone it would fail if that fails. With a connection
//! open it gets the answer at once, and that connection if it connects there.
//!
//! What never happens here: a failure at a port that was only guessed counting against an address.

use super::Connector;
use crate::connect::job::Job;
use crate::connect::lookups::Question;
use crate::connect::race::Attempt;
use crate::connect::{Claim, RequestId, Want, service};
use crate::path::Family;
use crate::time::Instant;
use std::sync::Arc;

/// HTTP.
const PLAIN: u16 = 80;

impl Connector {
    /// Begins with the likeliest port, or goes on to the next where all hosts refuse one. Whether the race is to be asked again.
    pub(super) fn guess(&mut self, now: Instant, job: &mut Job) -> bool {
        if job.claim.is_some() || job.answered.is_some() || job.done {
            return false;
        }
        if job.guesses_at().is_some_and(|at| now >= at) {
            let pending = Family::BOTH.into_iter().find(|f| !job.lookup(*f).is_complete());
            if !pending.is_some_and(|f| self.path.current().family(f).has_route) {
                // Nothing of use is missing.
                job.guesses = Some(Vec::new());
                return false;
            }
            let known = self.prefetch_model.name(&job.app, &job.name).map(|name| &name.ports);
            let usual = known.and_then(|p| p.iter().max_by(|(_, x), (_, y)| x.share.total_cmp(&y.share)));
            // The last is tried first.
            let mut guesses = vec![PLAIN, service::PORT];
            guesses.extend(usual.map(|(port, _)| *port));
            job.guesses = Some(guesses);
        } else if job.guesses.is_none() || job.attempts.is_empty() || !job.attempts.iter().all(Attempt::was_refused) {
            return false;
        }
        let tried = job.port;
        job.refused.extend(job.attempts.drain(..).filter_map(|attempt| Some((tried?, attempt))));
        job.port =
            job.guesses.as_mut().and_then(|left| std::iter::from_fn(|| left.pop()).find(|port| Some(*port) != tried));
        job.port.is_some()
    }

    /// The program says where it goes. What was opened to another port is of no use to it; what has just refused the port need not be
    /// asked again.
    pub(super) fn know_port(&mut self, now: Instant, request: RequestId, claim: &Claim) {
        let (port, account) = (claim.to.port(), request.account());
        let is_wrong = |j: &Job| {
            // Where none is tried any more, what has refused is taken in once: it stays for the program's next attempt.
            let guessed = j.guesses.is_some() && j.port.map_or(!j.refused.is_empty(), |tried| tried != port);
            // What was asked over DNS is returned by each question of its own.
            let returned = if j.returned.is_empty() { j.addresses() } else { j.returned.clone() };
            guessed && j.app == claim.app && j.account == account && returned.contains(&claim.to.ip())
        };
        let ids: Vec<_> = self.jobs.iter().filter(|(_, j)| is_wrong(j)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(mut job) = self.jobs.remove(&id) {
                self.close_where(now, &mut job, |_| true);
                job.attempts.clear();
                let refused = std::mem::take(&mut job.refused).into_iter();
                let just_now = refused.filter(|(of, attempt)| *of == port && attempt.has_just_failed(now));
                job.attempts.extend(just_now.map(|(_, attempt)| attempt));
                job.port = None;
                self.jobs.insert(id, job);
            }
        }
    }

    /// The same for a program that asks over DNS, and waits for the family that `question` is not about.
    pub(super) fn guess_for_asker(&mut self, now: Instant, question: &Question) {
        let Some(family) = question.record.family() else { return };
        let other = Question { record: family.other().into(), ..question.clone() };
        let is_same = |j: &Job| j.app == question.app && j.name == question.name && !j.done;
        if self.jobs.values().any(is_same) {
            return;
        }
        // What was asked for ahead, or by another run that has ended, says nothing of what the program wants.
        let wants_both = |account: &u32| self.hints.want(*account, &question.app, &question.name) == Want::Both;
        let Some(account) = self.asks.awaiting(&other).map(RequestId::account).find(wants_both) else { return };
        let mut job = Job::new(now, Arc::clone(&question.app), Arc::clone(&question.name), Want::Both, None);
        job.account = account;
        job.remembered = self.caches.get(&question.app).map_or_else(Vec::new, |c| c.remembered(&question.name));
        self.start(now, job);
    }

    /// The same where no answer is to come that would begin it: one of the two questions was answered before the other was asked. A program
    /// that is kept from its processor between them must not wait for what one that asks both at once does not wait for.
    pub(super) fn guess_for_half(&mut self, now: Instant, question: &Question) {
        let Some(family) = question.record.family() else { return };
        let other = Question { record: family.other().into(), ..question.clone() };
        for known in [question, &other] {
            if self.asks.may_do_alone(now, known, &self.lookups) {
                self.guess_for_asker(now, known);
            }
        }
    }
}
