//! What the worker waits for: packets of programs, sockets of peers, what its forwarder and its races have planned, and its end.

use super::accelerator::Accelerator;
use super::attribution::Attribution;
use super::{
    ATTEMPTS, BATCH, BOARD, CALLED, ECHO_V4, ECHO_V6, FOUND, FRONT, LAST_WORDS, LISTENS, MAPPINGS, NEIGHBOURS, QUERIES,
    ROUTES, STOP, TUN, Teller, Worker, WorkerError,
};
use crate::driver::{Ears, Hands, Host};
use crate::forward::Routes;
use crate::forward::finder::Finder;
use crate::forward::inbound::Inbound;
use crate::poll::Readiness;
use headstart_core::forward::pace::Sleeper;
use headstart_core::forward::{FlowId, Forwarder, MappingId, Output};
use headstart_core::machine::{Deadline, Machine};
use headstart_core::time::{Duration, Instant};
use std::os::fd::BorrowedFd;

/// A worker that forwards until it is stopped.
pub(crate) struct Running<'a> {
    pub worker: &'a mut Worker,
    /// Readable when it is to end.
    stop: Option<BorrowedFd<'a>>,
    /// How long nothing may have moved when it is to end.
    patience: Duration,
    /// Since when nothing has moved, once it is to end.
    stopping: Option<Instant>,
}

impl<'a> Running<'a> {
    /// Forwards until [`Self::end_now`], or until `stop` can be read.
    pub fn new(worker: &'a mut Worker, stop: Option<BorrowedFd<'a>>, patience: Duration) -> Self {
        Self { worker, stop, patience, stopping: None }
    }

    /// It is to end.
    pub fn end_now(&mut self, now: Instant) {
        self.stopping = Some(now);
        // All that the program said last is here by now, a queue at most.
        let _ = (0..BATCH).any(|_| self.worker.programs(now) == 0);
    }

    /// When it ends at the latest, once it is to.
    fn end(&self) -> Option<Instant> {
        let wait = if self.worker.forwarder.is_needed() { self.patience } else { LAST_WORDS.min(self.patience) };
        self.stopping.map(|since| since + wait)
    }
}

impl Hands for Worker {
    type Machine = Forwarder;

    fn machine(&mut self) -> &mut Forwarder {
        &mut self.forwarder
    }

    fn act(&mut self, now: Instant, output: Output) {
        // What no program waits for is done when no packet does.
        let can_wait =
            matches!(output, Output::Shutdown { .. } | Output::Close { .. } | Output::Record(_) | Output::Unmap { .. });
        if self.batch && can_wait {
            self.later.push_back(output);
        } else {
            self.carry_out(now, output);
        }
    }
}

impl Host for Running<'_> {
    type Ended = ();
    type Error = WorkerError;

    fn ears(&mut self) -> Ears<'_> {
        let Worker { clock, poll, lookout, looks_out, wakeups, .. } = &mut *self.worker;
        Ears { clock: *clock, poll, lookout: looks_out.then_some(lookout), wakeups }
    }

    fn cause(token: u64) -> &'static str {
        match token {
            TUN => "packets of programs",
            STOP | BOARD | FRONT | LISTENS | ROUTES => "control",
            FOUND => "an owner was found",
            ECHO_V4 | ECHO_V6 | MAPPINGS.. => "datagrams of peers",
            ATTEMPTS.. => "a race",
            CALLED.. => "calls of peers",
            NEIGHBOURS.. => "datagrams of peers",
            QUERIES.. => "a lookup ahead",
            _ => "connections of peers",
        }
    }

    fn deadline(&mut self, now: Instant) -> Option<Deadline> {
        let end = self.end().map(|at| Deadline { at, why: "the end" });
        let worker = &self.worker;
        let told = match &worker.teller {
            Teller::Kernel { .. } => None,
            Teller::Program(told) => Some(told),
        };
        let sleep = |at| Deadline { at, why: "a sleep between reads" };
        let peers = match worker.peers.until() {
            None if !worker.queue.is_empty() => Some(Deadline { at: now, why: "more to read" }),
            // While it sleeps it sleeps, whatever waits.
            Some(at) if !worker.upstreams.is_empty() => Some(sleep(at)),
            _ => None,
        };
        Deadline::earliest([
            worker.forwarder.poll_timeout(),
            worker.silence.deadline(),
            worker.programs.until().map(sleep),
            worker.accelerator.as_ref().and_then(Accelerator::deadline),
            told.and_then(Attribution::deadline),
            worker.inbound.as_ref().and_then(Inbound::deadline),
            worker.routes.as_ref().and_then(Routes::deadline),
            peers,
            end,
        ])
    }

    fn passed(&mut self) -> Option<usize> {
        // No connection waits for anything here.
        self.worker.stock.refill(&self.worker.exit);
        Some(std::mem::take(&mut self.worker.passed))
    }

    fn woken(&mut self, _: &[u64]) -> Result<Option<()>, WorkerError> {
        let worker = &mut *self.worker;
        if let Some(why) = worker.lost.take() {
            worker.record_open();
            return Err(why);
        }
        let now = worker.clock.now();
        let changes: Vec<Readiness> = worker.poll.changes().collect();
        // Programs before all else: one of them may wait for a connection, and none for the end of another one.
        let is_due = is_due(now, &worker.programs) || changes.iter().any(|change| change.token == TUN);
        let mut moved = if is_due { worker.programs(now) } else { 0 };
        for change in changes {
            if let (STOP, Some(stop)) = (change.token, self.stop) {
                self.worker.poll.remove(stop);
                self.end_now(now);
            } else {
                self.worker.ready(now, change);
            }
        }
        let worker = &mut *self.worker;
        if worker.peers.until().is_none_or(|until| now >= until) {
            moved += worker.read_peers(now);
        }
        worker.race_timeout(now);
        worker.open_unowned(now);
        worker.look_who_listens(now);
        worker.routes.iter_mut().for_each(|routes| routes.look(now));
        worker.look_at_silence(now);
        worker.wake(now);
        if moved > 0 && self.stopping.is_some() {
            self.stopping = Some(now);
        }
        let end = self.end().is_some_and(|end| self.worker.upstreams.is_empty() || self.worker.clock.now() >= end);
        Ok(end.then(|| self.worker.record_open()))
    }
}

impl Worker {
    /// Deals with a descriptor that is ready, programs and the end aside.
    fn ready(&mut self, now: Instant, change: Readiness) {
        match change.token {
            TUN | STOP | FRONT => {}
            FOUND => {
                let found = self.teller.finder().map(Finder::answers).unwrap_or_default();
                found.into_iter().for_each(|answer| self.found(answer));
                self.tap_waiting(now, true);
            }
            BOARD => self.asked(now),
            LISTENS => self.listens(now),
            ROUTES => self.routes.iter_mut().for_each(|routes| routes.changed(now)),
            ECHO_V4 | ECHO_V6 => self.echoes(now, change.token == ECHO_V4),
            token if token >= MAPPINGS => self.datagrams(now, MappingId(token - MAPPINGS)),
            token if token >= ATTEMPTS => self.attempt(now, token - ATTEMPTS),
            token if token >= CALLED => self.accept_calls(now, token - CALLED),
            token if token >= NEIGHBOURS => self.answer_neighbour(now, token - NEIGHBOURS),
            token if token >= QUERIES => self.looked_up(now, token - QUERIES),
            token => self.change(now, FlowId(token), change),
        }
    }
}

fn is_due(now: Instant, sleeper: &Sleeper) -> bool {
    sleeper.until().is_some_and(|until| now >= until)
}
