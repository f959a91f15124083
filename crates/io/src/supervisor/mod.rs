//! The supervisor: the connector's hands. It hears programs through its front ends, sends what the connector wants sent,
//! opens what it wants opened, and gives away what is ready. One thread, one epoll set; no decision is made here.

mod engine;
mod preload;
#[cfg_attr(not(test), allow(dead_code, reason = "it is called by the front end that hears system calls"))]
mod stub;
mod token;

use crate::folder::{Folder, FolderError};
use crate::names::Names;
use crate::poll::Interest;
use engine::{Engine, Told};
use headstart_core::connect::{RequestId, Settings, Tally};
use preload::Preload;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use stub::Stub;
use token::{ATTEMPT, CALLER, EXCHANGE, FORWARD, LISTENER, POST, QUESTION, STOP, split};

/// A way in which programs are heard and answered. The ids of its requests carry its kind (see `token`).
trait Front {
    /// Something happened on a descriptor that it listens to.
    fn event(&mut self, engine: &mut Engine, token: u64);
    /// The connector answers its request `n`.
    fn tell(&mut self, engine: &mut Engine, n: u64, told: Told);
}

/// The supervisor of one run.
#[derive(Debug)]
pub struct Supervisor {
    engine: Engine,
    preload: Preload,
    stub: Stub,
}

/// Why a supervisor could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Its folder is not usable.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A system call failed.
    #[error("the supervisor could not be set up: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for SupervisorError {
    fn from(e: Errno) -> Self {
        Self::Io(e.into())
    }
}

impl Supervisor {
    /// A supervisor that is heard of in `folder`.
    pub fn new(folder: &Folder, settings: Settings, names: Names) -> Result<Self, SupervisorError> {
        let engine = Engine::new(settings, names)?;
        let preload = Preload::new(&engine, folder)?;
        Ok(Self { engine, preload, stub: Stub::new() })
    }

    /// What was gained and what it cost so far.
    pub fn tally(&self) -> Tally {
        self.engine.connector.tally()
    }

    /// Processes that have asked anything.
    pub fn processes(&self) -> usize {
        self.preload.processes()
    }

    /// DNS messages that were ignored: malformed, forged or late.
    pub fn ignored_messages(&self) -> u64 {
        self.engine.transport.ignored + self.stub.ignored_messages()
    }

    /// Serves until `stop` becomes readable.
    pub fn run_until(&mut self, stop: impl AsFd) -> io::Result<()> {
        self.engine.poll.add(&stop, STOP, Interest::Read)?;
        let mut tokens = Vec::new();
        loop {
            let deadline = self.engine.deadline();
            self.engine.poll.wait(&self.engine.clock, deadline, &mut tokens)?;
            let now = self.engine.clock.now();
            for token in tokens.iter().copied() {
                match split(token) {
                    (0, STOP) => {
                        self.engine.poll.remove(&stop);
                        return Ok(());
                    }
                    (0, LISTENER) | (CALLER, _) => self.preload.event(&mut self.engine, token),
                    (POST | FORWARD, _) => self.stub.event(&mut self.engine, token),
                    (EXCHANGE, n) => self.engine.exchange_event(n),
                    (ATTEMPT, n) => self.engine.attempt_event(n),
                    _ => {}
                }
                self.tell();
            }
            if deadline.is_some_and(|at| at <= now) {
                self.engine.timeout();
                self.tell();
            }
        }
    }

    /// Tells the front ends what the connector has for them.
    fn tell(&mut self) {
        while let Some((RequestId(id), told)) = self.engine.told() {
            match split(id) {
                (CALLER, n) => self.preload.tell(&mut self.engine, n, told),
                (QUESTION, n) => self.stub.tell(&mut self.engine, n, told),
                _ => {}
            }
        }
    }
}
