//! The supervisor: the connector's hands. It receives requests of programs through its front ends, sends what the connector wants sent,
//! opens what it wants opened, and gives away what is ready. One thread, one epoll set; no decision is made here.
//!
//! One for a user (and set of namespaces, see [`crate::home`]) serves all runs and stays for a while after the last, so
//! that the next finds what is known; a private one serves a single run and ends with it. Either way it is a process of
//! its own: the runs go on if it dies, and it goes on if one of them does.

mod control;
mod descriptors;
mod engine;
mod keeper;
mod preload;
mod refusals;
mod returned;
mod run;
mod seccomp;
pub(crate) mod spare;
mod stub;
mod token;
mod whereabouts;

use crate::driver::{self, Ears, Host};
use crate::names::Names;
use crate::poll::Interest;
use engine::{Engine, Notice};
use headstart_core::connect::{RequestId, Settings};
use headstart_core::machine::{Deadline, Wakeups};
use headstart_core::time::{Duration, Instant};
use keeper::Keeper;
use refusals::Refusals;
use run::Run;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use stub::Stub;
use token::{
    ATTEMPT, CALLER, CONTROL, DOOR, EXCHANGE, FORWARD, HEARD, HELD, LISTENER, PLACE, POST, PROGRAM, QUESTION, STOP,
    STRAY, run_of, split,
};

/// A way in which requests of programs arrive and are answered. The ids of its requests carry its kind and its run (see `token`).
trait Front {
    /// Something happened on a descriptor that it listens to. Programs that turn to DNS servers are the stub's.
    fn event(&mut self, engine: &mut Engine, stub: &mut Stub, token: u64);
    /// The connector answers its request `n`, whose kind is one of its own.
    fn tell(&mut self, engine: &mut Engine, n: u64, told: Notice);
    /// The run is over: releases every program that waits.
    fn close(&mut self, engine: &mut Engine);
}

/// The supervisor.
#[derive(Debug)]
pub struct Supervisor {
    engine: Engine,
    stub: Stub,
    keeper: Option<Keeper>,
    /// Where runs connect; a private supervisor has none.
    door: Option<OwnedFd>,
    /// Given up to turn runs away when there are no more descriptors.
    spare: Option<OwnedFd>,
    links: BTreeMap<u64, control::Link>,
    next_link: u64,
    runs: BTreeMap<u32, Run>,
    last_run: u32,
    refusals: Refusals,
    /// Until when the door is not looked at, because of too many refusals.
    shut_until: Option<Instant>,
    /// Since when there has been no client.
    idle_since: Instant,
    /// How often it has woken up, by cause.
    wakeups: Wakeups,
}

/// Why a supervisor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There was no client left to serve.
    Idle,
    /// It was stopped.
    Stopped,
}

/// Why a supervisor could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("the supervisor could not be set up: {0}")]
pub struct SupervisorError(#[from] io::Error);

impl Supervisor {
    /// A supervisor without clients.
    pub fn new(settings: Settings, names: Names) -> Result<Self, SupervisorError> {
        let engine = Engine::new(settings, names)?;
        let idle_since = engine.clock.now();
        let (links, runs) = (BTreeMap::new(), BTreeMap::new());
        let stub = Stub::new();
        Ok(Self {
            engine,
            stub,
            keeper: None,
            door: None,
            spare: None,
            links,
            next_link: 0,
            runs,
            last_run: 0,
            refusals: Refusals::new(idle_since),
            shut_until: None,
            idle_since,
            wakeups: Wakeups::default(),
        })
    }

    /// Begins with what earlier supervisors of this user have learned and keeps what this one learns, in `folder`.
    pub fn keep(&mut self, folder: PathBuf) -> Result<(), SupervisorError> {
        self.keeper = Some(Keeper::begin(&self.engine.poll, folder)?);
        Ok(())
    }

    /// Writes what was learned and not written yet. To be called at the end.
    pub fn put_away(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.put_away(&mut self.engine);
        }
    }

    /// Lets runs in that connect to `door`.
    pub fn open(&mut self, door: OwnedFd) -> Result<(), SupervisorError> {
        rustix::io::ioctl_fionbio(&door, true).map_err(io::Error::from)?;
        self.engine.poll.add(&door, DOOR, Interest::Read)?;
        self.spare = door.try_clone().ok();
        self.door = Some(door);
        Ok(())
    }

    /// Lets one run in, whose control connection this is.
    pub fn admit(&mut self, connection: OwnedFd) -> Result<(), SupervisorError> {
        self.engine.poll.add(&connection, CONTROL | self.next_link, Interest::Read)?;
        self.links.insert(self.next_link, control::Link::new(connection));
        self.next_link += 1;
        Ok(())
    }

    /// Admits no new client, except those that wait already.
    pub fn close_the_door(&mut self) {
        // No more than the kernel lets wait.
        const MAX_WAITING: usize = 128;
        for _ in 0..MAX_WAITING {
            self.answer_the_door();
        }
        if let Some(door) = self.door.take() {
            self.engine.poll.remove(&door);
        }
        self.spare = None;
    }

    /// Serves until `stop` becomes readable, or for `linger` after the last run has ended.
    pub fn serve(&mut self, stop: impl AsFd, linger: Duration) -> io::Result<Ended> {
        self.engine.poll.add(&stop, STOP, Interest::Read)?;
        let ended = self.serve_until_stopped(linger);
        self.engine.poll.remove(&stop);
        ended
    }

    fn serve_until_stopped(&mut self, linger: Duration) -> io::Result<Ended> {
        self.idle_since = self.engine.clock.now();
        if let Some(keeper) = &mut self.keeper {
            keeper.wait_a_moment(&mut self.engine);
        }
        driver::serve(&mut Serving { supervisor: self, linger, work: None, end: None })
    }

    /// Deals with what is ready; how it has ended, if it has.
    fn ready(&mut self, token: u64) -> Option<Ended> {
        match split(token) {
            (0, STOP) => return Some(Ended::Stopped),
            (0, DOOR) => self.answer_the_door(),
            (0, PLACE) => self.engine.look_around(),
            (CONTROL, n) => self.on_control(n),
            (PROGRAM, n) => self.program_ended(run_of(n)),
            (LISTENER | CALLER, n) => {
                if let Some(front) = self.runs.get_mut(&run_of(n)).and_then(|r| r.preload.as_mut()) {
                    front.event(&mut self.engine, &mut self.stub, token);
                }
            }
            (HEARD, n) => {
                if let Some(front) = self.runs.get_mut(&run_of(n)).and_then(|r| r.seccomp.as_mut()) {
                    front.event(&mut self.engine, &mut self.stub, token);
                }
                self.end_if_over(run_of(n));
            }
            (POST | FORWARD | STRAY, _) => self.stub.event(&mut self.engine, token),
            (EXCHANGE, n) => self.engine.exchange_event(n),
            (ATTEMPT, n) => self.engine.attempt_event(n),
            _ => {}
        }
        self.tell();
        None
    }

    /// Lets no run in while there are too many refusals.
    fn mind_the_door(&mut self) -> io::Result<()> {
        let Some(door) = &self.door else { return Ok(()) };
        let until = self.refusals.shut_until(self.engine.clock.now());
        match (self.shut_until, until) {
            (None, Some(_)) => self.engine.poll.remove(door),
            (Some(_), None) => self.engine.poll.add(door, DOOR, Interest::Read)?,
            _ => {}
        }
        self.shut_until = until;
        Ok(())
    }

    /// Whether there is no client to serve.
    fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.links.is_empty()
    }

    fn program_ended(&mut self, number: u32) {
        if let Some(run) = self.runs.get_mut(&number) {
            run.program_ended(&self.engine);
            self.end_if_over(number);
        }
    }

    /// Where programs have started others, these may soon ask what only the stub can answer.
    fn look_at_programs(&mut self, now: Instant) {
        // A private supervisor is there for one program, which may never need it.
        let lasting = self.door.is_some();
        // Not only the first of them: each look is to be counted.
        let starting = self.runs.values_mut().filter(|run| run.next_look().is_some());
        let starts_others = starting.map(|run| run.starts_others(now, lasting));
        if starts_others.filter(|starts| *starts).count() > 0 {
            self.stub.furnish(&self.engine);
        }
    }

    /// Ends run `number` if none of its processes is left.
    fn end_if_over(&mut self, number: u32) {
        if self.runs.get(&number).is_some_and(Run::is_over)
            && let Some(run) = self.runs.remove(&number)
        {
            run.close(&mut self.engine);
        }
        self.idle_since = self.engine.clock.now();
    }

    /// Tells the front ends what the connector has for them.
    fn tell(&mut self) {
        while let Some((RequestId(id), told)) = self.engine.next_notice() {
            let (kind, n) = split(id);
            if kind == QUESTION {
                self.stub.tell(&mut self.engine, n, told);
                continue;
            }
            let Some(run) = self.runs.get_mut(&run_of(n)) else { continue };
            let front: Option<&mut dyn Front> = match kind {
                CALLER => run.preload.as_mut().map(|front| front as _),
                HELD => run.seccomp.as_mut().map(|front| front as _),
                _ => None,
            };
            if let Some(front) = front {
                front.tell(&mut self.engine, n, told);
            }
        }
    }
}

/// A supervisor while it serves.
struct Serving<'a> {
    supervisor: &'a mut Supervisor,
    linger: Duration,
    /// When there is something to do for programs, as of the last wait.
    work: Option<Instant>,
    /// When it ends, as of the last wait, if no program comes.
    end: Option<Instant>,
}

impl Host for Serving<'_> {
    type Ended = Ended;
    type Error = io::Error;

    fn ears(&mut self) -> Ears<'_> {
        let Supervisor { engine, wakeups, .. } = &mut *self.supervisor;
        Ears { clock: engine.clock, poll: &mut engine.poll, lookout: None, wakeups }
    }

    fn cause(token: u64) -> &'static str {
        match split(token) {
            (0, PLACE) => "host",
            (0, DOOR) | (CONTROL, _) => "control",
            (EXCHANGE | ATTEMPT | FORWARD, _) => "network",
            _ => "program",
        }
    }

    fn deadline(&mut self, _: Instant) -> Option<Deadline> {
        let Supervisor { engine, stub, keeper, runs, idle_since, shut_until, .. } = &*self.supervisor;
        let waiting = runs.values().filter_map(|run| run.seccomp.as_ref()?.deadline());
        let looks = runs.values().filter_map(Run::next_look);
        let due = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        let work = Deadline::earliest([
            engine.deadline(),
            due(waiting.min(), "a call waits"),
            due(looks.min(), "a program may start others"),
        ]);
        self.work = work.map(|deadline| deadline.at);
        self.end = self.supervisor.is_idle().then(|| *idle_since + self.linger);
        let writing = due(keeper.as_ref().and_then(Keeper::deadline), "the history is written");
        let sockets = due(stub.deadline(), "sockets are made ahead");
        Deadline::earliest([work, due(self.end, "idle"), writing, sockets, due(*shut_until, "runs are let in again")])
    }

    fn woken(&mut self, tokens: &[u64]) -> io::Result<Option<Ended>> {
        let it = &mut *self.supervisor;
        it.engine.wake_up();
        for run in it.runs.values_mut() {
            run.seccomp.iter_mut().for_each(|calls| calls.catch_up(&mut it.engine));
        }
        for token in tokens.iter().copied() {
            if let Some(ended) = it.ready(token) {
                return Ok(Some(ended));
            }
        }
        if tokens.iter().any(|token| split(*token).0 == HEARD) {
            // A program that was answered has been woken on this processor (see `hand_over_in_place`), and may be about to ask what
            // takes a round trip: before the next call, which takes us a while.
            std::thread::yield_now();
        }
        if let Some(keeper) = &mut it.keeper {
            keeper.attend(&mut it.engine);
        }
        let now = it.engine.clock.now();
        if self.work.is_some_and(|at| at <= now) {
            it.engine.timeout();
            for front in it.runs.values_mut().filter_map(|run| run.seccomp.as_mut()) {
                front.timeout(&mut it.engine);
            }
            it.tell();
            it.look_at_programs(now);
        }
        it.stub.attend(&it.engine, tokens.is_empty());
        it.mind_the_door()?;
        let is_over = tokens.is_empty() && it.is_idle() && self.end.is_some_and(|at| at <= now);
        Ok(is_over.then_some(Ended::Idle))
    }
}
