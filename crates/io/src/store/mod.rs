//! What was learned, kept on disk for the next supervisor of this user: habits of programs and history of networks, never
//! answers or connections. Names and addresses are sealed (see `seal` and docs/decisions/0008).
//!
//! Nothing here is needed to go on: errors are reported in one line and leave an empty history. Every call may
//! take as long as a disk takes; the supervisor makes them in a thread of their own.

mod file;
pub mod objects;
pub mod paths;
mod place;
pub mod prior;
mod record;
mod seal;
mod series;
pub mod shared;
mod upkeep;

pub use file::FileError;
pub use place::{folder, usable};
pub use record::{Record, RecordError, What};
pub use series::Series;

use crate::clock;
use file::{HISTORY, RecordChange, SealedRecords, StoreFile};
use headstart_core::connect::memory::{Memory, Program};
use headstart_core::path::record::NetworkRecord;
use record::age;
use seal::{Digest, Seal};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use upkeep::Upkeep;

/// Records unused for so long are forgotten: a season.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(90 * 86_400);
/// Programs and networks that are read; those saved last. More than a supervisor holds of each, so that another's survive.
const MAX_OF_EACH: usize = 128;

/// What was kept, as old as it is now.
#[derive(Debug, Default, PartialEq)]
pub struct Kept {
    /// Programs, the one saved last first.
    pub memory: Memory,
    /// Networks, the one saved last first.
    pub networks: Vec<NetworkRecord>,
}

/// A store. See the module.
#[derive(Debug)]
pub struct Store {
    /// With the content of each record.
    upkeep: Upkeep<Digest, Vec<u8>>,
    /// The wall clock, in seconds since 1970.
    wall: fn() -> u64,
}

fn wall() -> u64 {
    clock::wall().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Store {
    /// The store in `folder`; nothing is opened or made yet.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { upkeep: Upkeep::new(StoreFile::new(folder, HISTORY), "history"), wall }
    }

    /// What went wrong since the last question, each thing once and in one line.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.upkeep.notes)
    }

    /// Reads everything. What cannot be read is as if it had never been.
    pub fn load(&mut self) -> Kept {
        match self.upkeep.file.opened() {
            Ok(Some((seal, found))) => {
                let records = self.unseal(&seal, found);
                self.select(records)
            }
            Ok(None) => Kept::default(),
            Err(why) => {
                self.upkeep.give_up(&why);
                Kept::default()
            }
        }
    }

    /// Writes what is new since the last time. Whether anything had to be written and was.
    pub fn save(&mut self, memory: &Memory, networks: &[NetworkRecord]) -> bool {
        if self.upkeep.is_paused() {
            return false;
        }
        let programs = memory.programs.iter().cloned().map(What::Program);
        let all: Vec<What> = programs.chain(networks.iter().cloned().map(What::Network)).collect();
        let now = (self.wall)();
        self.upkeep.save(|upkeep| try_to_save(upkeep, now, &all)).unwrap_or(false)
    }

    /// Forgets what is kept of `app` and of the host `host`; everything, if neither is given. How much there was of it:
    /// programs that were changed or removed, or all records.
    pub fn forget(&mut self, app: Option<&str>, host: Option<&str>) -> Result<usize, FileError> {
        self.upkeep.known.clear();
        if app.is_none() && host.is_none() {
            let before = self.upkeep.file.opened();
            self.upkeep.file.remove()?;
            return Ok(before.ok().flatten().map_or(0, |(_, all)| all.len()));
        }
        let Some((seal, found)) = self.upkeep.file.opened()? else { return Ok(0) };
        let mut changes = Vec::new();
        for (digest, record) in self.unseal(&seal, found) {
            let What::Program(program) = record.what else { continue };
            if app.is_some_and(|app| app != program.app) {
                continue;
            }
            let left = host.map(|host| without(program.clone(), host));
            if left.as_ref() == Some(&program) {
                continue;
            }
            let left =
                left.map(|left| sealed(&self.upkeep.file, &seal, &digest, record.saved_at, &What::Program(left)));
            changes.push((digest, left.transpose()?));
        }
        self.upkeep.known.clear();
        self.upkeep.file.write(&changes)?;
        Ok(changes.len())
    }

    /// What is in the records; those that cannot be opened or read are as good as gone.
    fn unseal(&mut self, seal: &Seal, found: SealedRecords) -> Vec<(Digest, Record)> {
        let mut records = Vec::new();
        let mut unreadable = 0;
        for (digest, sealed) in found {
            match seal.open(&digest, &sealed).and_then(|plain| Record::decode(&plain).ok()) {
                Some(record) => records.push((digest, record)),
                None => {
                    unreadable += 1;
                    self.upkeep.obsolete.push(digest);
                }
            }
        }
        self.upkeep.note_unusable(unreadable);
        records
    }

    /// Sorts out what is too old or too much.
    fn select(&mut self, mut records: Vec<(Digest, Record)>) -> Kept {
        let now = (self.wall)();
        records.sort_by_key(|(_, record)| std::cmp::Reverse(record.saved_at));
        let mut kept = Kept::default();
        for (digest, Record { saved_at, what }) in records {
            let age = age(saved_at, now);
            let room = match &what {
                What::Program(_) => kept.memory.programs.len() < MAX_OF_EACH,
                What::Network(_) => kept.networks.len() < MAX_OF_EACH,
            };
            if !room || age > FORGOTTEN_AFTER {
                self.upkeep.obsolete.push(digest);
                continue;
            }
            if let Ok(content) = unaged(&what).encode() {
                self.upkeep.known.insert(digest, content);
            }
            match what {
                What::Program(program) => kept.memory.programs.push(program),
                What::Network(network) => kept.networks.push(network.aged(age)),
            }
        }
        kept
    }
}

fn try_to_save(upkeep: &mut Upkeep<Digest, Vec<u8>>, now: u64, all: &[What]) -> Result<bool, FileError> {
    if all.is_empty() && upkeep.obsolete.is_empty() {
        return Ok(false);
    }
    let Some(seal) = upkeep.file.key(true)? else { return Ok(false) };
    let mut changes: Vec<RecordChange> = upkeep.obsolete.iter().map(|digest| (*digest, None)).collect();
    let mut contents = Vec::new();
    for what in all {
        let digest = seal.digest(&what.name());
        let Ok(content) = unaged(what).encode() else { continue };
        if upkeep.known.get(&digest) == Some(&content) {
            continue;
        }
        changes.push((digest, Some(sealed(&upkeep.file, &seal, &digest, now, what)?)));
        contents.push((digest, content));
    }
    if changes.is_empty() {
        return Ok(false);
    }
    upkeep.file.write(&changes)?;
    upkeep.known.extend(contents);
    upkeep.obsolete.clear();
    Ok(true)
}

fn sealed(file: &StoreFile, seal: &Seal, digest: &Digest, saved_at: u64, what: &What) -> Result<Vec<u8>, FileError> {
    let failed = |e| file.failed(e);
    let content = what.encode().and_then(|content| Record::wrap(saved_at, &content));
    seal.close(digest, &content.map_err(|e| failed(std::io::Error::other(e)))?).map_err(failed)
}

/// The same without what changes by the passing of time alone, to be compared.
fn unaged(what: &What) -> What {
    let mut what = what.clone();
    if let What::Network(network) = &mut what {
        for peer in &mut network.peers {
            peer.used_ago_s = 0;
            peer.failed_ago_s = peer.failed_ago_s.map(|_| 0);
        }
        network.peers.sort_by_key(|peer| peer.address);
    }
    what
}

/// What is left of `program` when `host` is forgotten.
fn without(mut program: Program, host: &str) -> Program {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    program.names.retain(|name| name.name != host);
    for name in &mut program.names {
        name.followers.retain(|follower| follower.name != host);
    }
    program
}

#[cfg(test)]
mod tests;
