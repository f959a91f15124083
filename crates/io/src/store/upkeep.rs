//! What every store does beside reading and writing: it says what went wrong, begins anew where its file is no good, and
//! leaves a full disk alone for a while.

use super::file::{FileError, StoreFile};
use super::seal::Digest;
use crate::clock::Clock;
use headstart_core::time::{Duration, Instant};
use std::collections::HashMap;

/// How long a disk that takes nothing is left alone.
const PAUSE: Duration = Duration::from_secs(600);

/// The file of a store, and what is known of it.
#[derive(Debug)]
pub struct Upkeep<K = (), V = ()> {
    /// The file.
    pub file: StoreFile,
    /// What the file holds, as it was last read or written.
    pub known: HashMap<K, V>,
    /// Records that are not worth keeping.
    pub obsolete: Vec<Digest>,
    /// What went wrong since the last question, each thing once and in one line.
    pub notes: Vec<String>,
    /// What notes call the store.
    title: &'static str,
    clock: Clock,
    paused_until: Option<Instant>,
}

impl<K, V> Upkeep<K, V> {
    /// Nothing is opened or made yet.
    pub fn new(file: StoreFile, title: &'static str) -> Self {
        Self {
            file,
            known: HashMap::new(),
            obsolete: Vec::new(),
            notes: Vec::new(),
            title,
            clock: Clock::new(),
            paused_until: None,
        }
    }

    /// Whether the last writing failed a short while ago.
    pub fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| self.clock.now() < until)
    }

    /// Lets `write` write, and again where the file was no good and there is a new one; `None` if it could not.
    pub fn save<T>(&mut self, mut write: impl FnMut(&mut Self) -> Result<T, FileError>) -> Option<T> {
        let mut saved = write(self);
        if let Err(why) = &saved
            && why.is_of_the_file()
        {
            self.note(why);
            if self.replace_if_bad(why) {
                saved = write(self);
            }
        }
        match saved {
            Ok(done) => {
                self.paused_until = None;
                Some(done)
            }
            Err(why) => {
                if self.paused_until.is_none() {
                    self.note(&why);
                }
                self.paused_until = Some(self.clock.now() + PAUSE);
                None
            }
        }
    }

    /// What could not be read is as if it had never been.
    pub fn give_up(&mut self, why: &FileError) {
        self.note(why);
        self.replace_if_bad(why);
    }

    /// Says what is wrong, once.
    pub fn note(&mut self, why: &FileError) {
        let what = if why.is_of_the_file() { "a new one is started" } else { "new history is kept only in memory" };
        let note = format!("{}: {why}; {what}", self.title);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Says that so many records are worth nothing.
    pub fn note_unusable(&mut self, records: usize) {
        if records > 0 {
            let path = self.file.path();
            self.notes.push(format!("{records} records of {} cannot be used and are dropped", path.display()));
        }
    }

    /// Makes room for a new file where the old one is no good. Whether there is room now.
    fn replace_if_bad(&mut self, why: &FileError) -> bool {
        if !why.is_of_the_file() {
            return false;
        }
        self.known.clear();
        self.obsolete.clear();
        let old = self.file.make_room();
        if let Ok(Some(to)) = &old {
            self.notes.push(format!("{}: the old one is now {}", self.title, to.display()));
        }
        old.is_ok()
    }
}
