//! One run: a program and its descendants, the front ends that reach them, and the control connection of the
//! `headstart run` that started them.

use super::Front;
use super::engine::Engine;
use super::preload::Preload;
use super::seccomp::{Seccomp, app_of};
use super::token::{PROGRAM, of_run};
use crate::control::{Descriptor, Registered, Summary};
use crate::poll::Interest;
use crate::sys::{netns, process};
use headstart_core::connect::AppId;
use headstart_core::time::{Duration, Instant};
use std::fs::File;
use std::os::fd::OwnedFd;

/// After how long a program is looked at for others that it has started; then after twice as long, and so on.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// When looking is given up.
const LAST_LOOK: Duration = Duration::from_millis(64);

/// A run that is being served.
#[derive(Debug)]
pub(super) struct Run {
    number: u32,
    pub registered: Registered,
    pub preload: Option<Preload>,
    pub seccomp: Option<Seccomp>,
    /// Readable when the program has ended; until it has been named, the run is its control connection's.
    program: Option<OwnedFd>,
    /// The program has begun, and what it is: to be reported to the connector.
    pub launched: Option<AppId>,
    /// The process of the program, while it is to be seen whether it starts others: when, and how long after the look before.
    looks: Option<(i32, Instant, Duration)>,
    /// Its `headstart run` is still there.
    pub attended: bool,
    /// Messages that had been ignored before it began.
    ignored_before: u64,
}

impl Run {
    pub fn new(engine: &Engine, number: u32, registered: Registered) -> Self {
        let ignored_before = engine.transport.ignored;
        Self {
            number,
            registered,
            preload: None,
            seccomp: None,
            program: None,
            launched: None,
            looks: None,
            attended: true,
            ignored_before,
        }
    }

    /// Takes in descriptors that came from the run, each with what it is; why not, if they cannot be used.
    pub fn add(&mut self, engine: &mut Engine, descriptors: Vec<(Descriptor, OwnedFd)>) -> Result<(), String> {
        let (mut listener, mut filter) = (None, None);
        let (mut calls, mut outstanding, mut duty) = (None, None, None);
        for (what, descriptor) in descriptors {
            match what {
                Descriptor::PreloadListener => listener = Some(descriptor),
                Descriptor::PreloadFilter => filter = Some(File::from(descriptor)),
                Descriptor::SeccompListener => calls = Some(descriptor),
                Descriptor::Outstanding => outstanding = Some(descriptor),
                Descriptor::Duty => duty = Some(descriptor),
                Descriptor::Report => return Err("a run without a socket for its report".to_owned()),
                Descriptor::Program => {
                    let token = PROGRAM | of_run(self.number);
                    let added = engine.poll.add(&descriptor, token, Interest::Read);
                    added.map_err(|e| format!("cannot watch the program: {e}"))?;
                    // It has been replaced by its program when it is watched: `headstart run` waits for that.
                    let pid = process::of_pidfd(&descriptor);
                    self.launched = pid.and_then(app_of);
                    self.looks = pid.map(|pid| (pid, engine.clock.now() + FIRST_LOOK, FIRST_LOOK));
                    self.program = Some(descriptor);
                }
            }
        }
        match (calls, outstanding, duty) {
            (Some(calls), Some(outstanding), Some(duty)) => {
                let seccomp = Seccomp::new(engine, self.number, calls, outstanding, duty);
                self.seccomp = Some(seccomp.map_err(|e| format!("cannot intercept system calls: {e}"))?);
            }
            (None, None, None) => {}
            _ => return Err("the listener of system calls must come together with what its watchdog needs".into()),
        }
        match (listener, filter) {
            (Some(listener), Some(filter)) => {
                // What is reached from here is not what is reached from another network namespace.
                if netns::cookie(&listener).ok() != engine.network_namespace {
                    return Err("the run is in another network namespace".into());
                }
                let preload = Preload::new(engine, self.number, listener, filter);
                self.preload = Some(preload.map_err(|e| format!("cannot listen for preloaded libraries: {e}"))?);
            }
            (None, None) => {}
            _ => return Err("the socket of preloaded libraries must come together with their filter".into()),
        }
        if let (Some(preload), Some(_)) = (&self.preload, &self.seccomp) {
            preload.calls_are_trapped();
        }
        Ok(())
    }

    /// Whether its questions can only come by its own sockets.
    pub fn is_reached_by_calls_alone(&self) -> bool {
        self.seccomp.is_some() && self.preload.is_none()
    }

    /// When the program is to be looked at next.
    pub fn next_look(&self) -> Option<Instant> {
        self.looks.map(|(_, at, _)| at).filter(|_| self.seccomp.is_some())
    }

    /// Whether the program is one that starts others, a shell or a script, seen within its first milliseconds: whatever reaches it,
    /// those may be reached by their calls alone. Said once, and also of a program that lasts, if `lasting` programs are meant.
    pub fn starts_others(&mut self, now: Instant, lasting: bool) -> bool {
        let Some((pid, at, waited)) = self.looks.filter(|(_, at, _)| *at <= now) else { return false };
        let (starts, last) = (self.program.is_some() && process::has_children(pid), waited >= LAST_LOOK);
        self.looks = (!starts && !last && self.program.is_some()).then(|| (pid, at + waited * 2, waited * 2));
        starts || (last && lasting && self.program.is_some())
    }

    /// The front ends, each of which a request may be for.
    pub fn fronts(&mut self) -> impl Iterator<Item = &mut dyn Front> {
        let preload = self.preload.iter_mut().map(|front| front as &mut dyn Front);
        preload.chain(self.seccomp.iter_mut().map(|front| front as &mut dyn Front))
    }

    /// The program has ended.
    pub fn program_ended(&mut self, engine: &Engine) {
        if let Some(program) = self.program.take() {
            engine.poll.remove(&program);
        }
    }

    /// Whether no process is left to serve: `headstart run` has ended and the program too. What the program left behind goes on
    /// alone, but for those whose system calls wait for us.
    pub fn is_over(&self) -> bool {
        !self.attended && self.program.is_none() && self.seccomp.as_ref().is_none_or(Seccomp::is_over)
    }

    pub fn summary(&self, engine: &Engine) -> Summary {
        Summary {
            tally: engine.connector.tally_of(self.number),
            processes: self.preload.as_ref().map_or(0, Preload::processes),
            connects_heard: self.seccomp.as_ref().map_or(0, Seccomp::connects),
            ignored_messages: engine.transport.ignored - self.ignored_before,
            notes: Vec::new(),
        }
    }

    /// Releases every program that waits.
    pub fn close(mut self, engine: &mut Engine) {
        self.program_ended(engine);
        for front in self.fronts() {
            front.close(engine);
        }
        engine.close_account(self.number);
    }
}
