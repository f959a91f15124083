//! The supervisor: the connector's hands. It hears programs through its front ends, sends what the connector wants sent,
//! opens what it wants opened, and gives away what is ready. One thread, one epoll set; no decision is made here.

mod engine;
mod preload;
mod seccomp;
mod token;

use crate::folder::{Folder, FolderError};
use crate::names::Names;
use crate::poll::Interest;
use crate::sys::seccomp::Listener;
use engine::{Engine, Told};
use headstart_core::connect::{RequestId, Settings, Tally};
use headstart_core::wire::shim::Pass;
use preload::Preload;
use rustix::io::Errno;
pub use seccomp::Outstanding;
use seccomp::Seccomp;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use token::{ATTEMPT, CALLER, EXCHANGE, HEARD, HELD, LISTENER, STOP, split};

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
    seccomp: Seccomp,
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
        Ok(Self { engine, preload, seccomp: Seccomp::new() })
    }

    /// Hears the connects of programs under a seccomp filter as well. `outstanding` is shared with their watchdog.
    pub fn hear(&mut self, listener: Listener, outstanding: Outstanding) -> io::Result<()> {
        self.seccomp.hear(&self.engine, listener, outstanding)
    }

    /// System calls that were left to the kernel without asking the connector, by reason.
    pub fn passed(&self) -> &BTreeMap<Pass, u64> {
        self.seccomp.passed()
    }

    /// Filters under which programs still run.
    pub fn filters(&self) -> usize {
        self.seccomp.filters()
    }

    /// What was gained and what it cost so far.
    pub fn tally(&self) -> &Tally {
        self.engine.connector.tally()
    }

    /// Processes that have asked anything.
    pub fn processes(&self) -> usize {
        self.preload.processes()
    }

    /// DNS messages that were ignored: malformed, forged or late.
    pub fn ignored_messages(&self) -> u64 {
        self.engine.transport.ignored
    }

    /// Serves until `stop` becomes readable.
    pub fn run_until(&mut self, stop: impl AsFd) -> io::Result<()> {
        self.engine.poll.add(&stop, STOP, Interest::Read)?;
        let mut tokens = Vec::new();
        loop {
            let deadline = [self.engine.deadline(), self.seccomp.deadline()].into_iter().flatten().min();
            self.engine.poll.wait(&self.engine.clock, deadline, &mut tokens)?;
            let now = self.engine.clock.now();
            for token in tokens.iter().copied() {
                match split(token) {
                    (0, STOP) => {
                        self.engine.poll.remove(&stop);
                        return Ok(());
                    }
                    (0, LISTENER) | (CALLER, _) => self.preload.event(&mut self.engine, token),
                    (HEARD, _) => self.seccomp.event(&mut self.engine, token),
                    (EXCHANGE, n) => self.engine.exchange_event(n),
                    (ATTEMPT, n) => self.engine.attempt_event(n),
                    _ => {}
                }
                self.tell();
            }
            if deadline.is_some_and(|at| at <= now) {
                self.engine.timeout();
                self.seccomp.timeout(&mut self.engine);
                self.tell();
            }
        }
    }

    /// Tells the front ends what the connector has for them.
    fn tell(&mut self) {
        while let Some((RequestId(id), told)) = self.engine.told() {
            match split(id) {
                (CALLER, n) => self.preload.tell(&mut self.engine, n, told),
                (HELD, n) => self.seccomp.tell(&mut self.engine, n, told),
                _ => {}
            }
        }
    }
}
