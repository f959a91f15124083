//! What the supervisor remembers beyond its life: reads the store once, when it begins, and writes what was learned, in
//! threads of their own. The event loop never waits for a disk, but for the first twenty milliseconds of its life and
//! when a client wants something forgotten.
//!
//! Nothing is written while nothing is learned, and no timer runs: a supervisor with nothing to do is not woken.

use super::engine::Engine;
use super::token::KEEPER;
use crate::poll::{Interest, Poll};
use crate::store::{Kept, Store};
use headstart_core::time::{Duration, Instant};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};

/// How long what was learned may wait to be written: as long as Chromium's network predictor waits.
const WRITE_AFTER: Duration = Duration::from_secs(30);
/// How long the first questions of the first program may be held up for what is known: a fifth of what one query to a
/// distant server takes, and many times what reading takes.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// Lines that are kept until a run gets them.
const MAX_NOTES: usize = 8;

struct Done {
    store: Store,
    kept: Option<Kept>,
}

/// The supervisor's store. See the module.
#[derive(Debug)]
pub(super) struct Keeper {
    /// The store, while no thread works on it.
    store: Option<Store>,
    work: Option<JoinHandle<Done>>,
    /// Readable when the work is done.
    done: OwnedFd,
    /// What has been written, or read.
    written: (u64, u64),
    due: Option<Instant>,
    notes: Vec<String>,
    /// How many of these were reported to a run.
    reported: usize,
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Done")
    }
}

impl Keeper {
    /// Begins to read the store in `folder`.
    pub fn begin(poll: &Poll, folder: PathBuf) -> io::Result<Self> {
        let done = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        poll.add(&done, KEEPER, Interest::Read)?;
        let store = Some(Store::in_folder(folder));
        let mut keeper = Self { store, work: None, done, written: (0, 0), due: None, notes: Vec::new(), reported: 0 };
        keeper.start(|store| Some(store.load()));
        Ok(keeper)
    }

    /// Waits a moment for what is being read, so that the first program is known when it begins.
    pub fn wait_a_moment(&mut self, engine: &mut Engine) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: FIRST_WAIT.subsec_nanos().into() };
        if self.work.is_some() {
            // Should it take longer, what is known comes a little later.
            let ready = poll(&mut [PollFd::new(&self.done, PollFlags::IN)], Some(&timeout));
            if ready.is_ok_and(|ready| ready > 0) {
                self.finish_work(engine);
            }
        }
    }

    /// When to look here at the latest, if there is something to be written.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.filter(|_| self.work.is_none())
    }

    /// Takes in what was read, if it is there; notices what was learned; writes it when it is time.
    pub fn attend(&mut self, engine: &mut Engine) {
        if self.work.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish_work(engine);
        }
        let now = engine.clock.now();
        if learned(engine) != self.written {
            self.due.get_or_insert(now + WRITE_AFTER);
        }
        if self.due.is_some_and(|at| at <= now) && self.work.is_none() {
            self.write(engine);
        }
    }

    /// Writes what is left to be written, and waits for it.
    pub fn put_away(&mut self, engine: &mut Engine) {
        self.finish_work(engine);
        if learned(engine) != self.written {
            self.write(engine);
            self.finish_work(engine);
        }
    }

    /// Forgets what was learned of a program, of a host, or everything: in memory and on disk. How many records there were
    /// of it on disk.
    pub fn forget(&mut self, engine: &mut Engine, app: Option<&str>, host: Option<&str>) -> Result<usize, String> {
        self.finish_work(engine);
        forget(engine, app, host);
        self.written = learned(engine);
        self.due = None;
        let Some(store) = &mut self.store else { return Err("the store has been lost".to_owned()) };
        store.forget(app, host).map_err(|e| e.to_string())
    }

    /// What went wrong with the store.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// What went wrong and was not reported to any run yet.
    pub fn news(&mut self) -> Vec<String> {
        let news = self.notes.get(self.reported..).unwrap_or_default().to_vec();
        self.reported = self.notes.len();
        news
    }

    fn write(&mut self, engine: &mut Engine) {
        self.due = None;
        self.written = learned(engine);
        let (memory, networks) = (engine.connector.remembered(), engine.connector.networks(engine.clock.now()));
        self.start(move |store| {
            store.save(&memory, &networks);
            None
        });
    }

    /// Does `work` to the store, elsewhere.
    fn start(&mut self, work: impl FnOnce(&mut Store) -> Option<Kept> + Send + 'static) {
        let (Some(mut store), Ok(done)) = (self.store.take(), self.done.try_clone()) else { return };
        let started = Builder::new().name("history".into()).spawn(move || {
            let kept = work(&mut store);
            let _ = rustix::io::write(&done, &1u64.to_ne_bytes());
            Done { store, kept }
        });
        match started {
            Ok(work) => self.work = Some(work),
            // With the thread went the store: this supervisor keeps nothing from now on.
            Err(why) => self.note(format!("history: the history is not saved: {why}")),
        }
    }

    /// Waits for what is being done, and takes in what came of it.
    fn finish_work(&mut self, engine: &mut Engine) {
        let Some(work) = self.work.take() else { return };
        let joined = work.join();
        let _ = rustix::io::read(&self.done, &mut [0u8; 8]);
        let Ok(Done { mut store, kept }) = joined else {
            return self.note("history: the history is not saved: its thread has failed".to_owned());
        };
        store.notes().into_iter().for_each(|note| self.note(note));
        self.store = Some(store);
        if let Some(kept) = kept {
            let now = engine.clock.now();
            let nothing_new = learned(engine) == self.written;
            engine.connector.recall(&kept.memory);
            engine.connector.recall_networks(now, kept.networks);
            if nothing_new {
                self.written = learned(engine);
            }
        }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Counts up with what is learned, of programs and of networks.
fn learned(engine: &Engine) -> (u64, u64) {
    (engine.connector.memory_version(), engine.connector.networks_version())
}

/// Forgets in memory alone.
pub(super) fn forget(engine: &mut Engine, app: Option<&str>, host: Option<&str>) {
    match host {
        Some(host) => engine.connector.forget_host(app, host),
        None => engine.connector.forget(app),
    }
    if app.is_none() && host.is_none() {
        engine.connector.forget_networks();
    }
}
