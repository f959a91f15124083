//! Telemetry of a fleet: what this host has measured, as JSON Lines in a folder of the operator's choice. Off unless a folder is named.
//!
//! A run of a program is an event (what races and the pool came to), and so is each connection and lookup that a forwarder measured.
//! Names of programs, hosts and addresses are keyed hashes under a key of the site, unless the operator wants names. Nothing here opens a
//! connection: a collector takes complete files (docs/decisions/0101).

mod event;
mod spool;

pub use event::{Connection, Names, Stamp, VERSION};
pub use spool::{Spool, Written};

use crate::forward::Attributed;
use headstart_core::connect::Tally;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a key.
const KEY: usize = 16;

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where batches are written.
    pub folder: PathBuf,
    /// The file with the key of names; made if it is not there.
    pub key: PathBuf,
    /// Names in place of their hashes.
    pub names: bool,
    /// What the operator calls this host's place, or nothing.
    pub label: String,
    /// Bytes in the folder, of this host, at most.
    pub most: u64,
}

/// Why there is no telemetry.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The key of names.
    #[error("telemetry: {path}: {why}")]
    Key {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The folder.
    #[error("telemetry: {path}: {source}")]
    Folder {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Telemetry that is on.
#[derive(Debug)]
pub struct Telemetry {
    names: Names,
    spool: Spool,
    /// What went wrong first.
    failed: Option<String>,
}

impl Telemetry {
    /// By these settings. The key and the folder are made if they are not there.
    pub fn open(settings: &Settings) -> Result<Self, TelemetryError> {
        let key = read_key(&settings.key)?;
        let names = Names::new(key, settings.names, settings.label.clone(), &machine());
        let spool = Spool::open(&settings.folder, names.host(), settings.most)?;
        Ok(Self { names, spool, failed: None })
    }

    /// A run of `app` has ended.
    pub fn run(&mut self, app: &str, tally: &Tally) {
        let event = self.names.run(Stamp::now(), app, tally);
        self.add(event);
    }

    /// A forwarder has seen something to its end.
    pub fn seen(&mut self, seen: &Attributed) {
        if let Some(event) = self.names.seen(Stamp::now(), seen) {
            self.add(event);
        }
    }

    fn add(&mut self, event: serde_json::Value) {
        if let Err(why) = self.spool.add(&event.to_string()) {
            self.failed.get_or_insert(format!("telemetry: {}: {why}", self.spool.folder().display()));
        }
    }

    /// Sees to it that what was added outlives a power cut; what went wrong, once and in one line.
    pub fn end(&mut self) -> Option<String> {
        let synced = self.spool.sync();
        self.failed.take().or_else(|| synced.err().map(|why| format!("telemetry: {why}")))
    }

    /// The batches, as they are: what would be sent.
    pub fn batches(&self) -> io::Result<Vec<PathBuf>> {
        self.spool.batches()
    }

    /// Where the latest batch lies of which a collector refused a part.
    pub fn refused(&self) -> PathBuf {
        self.spool.refused()
    }

    /// The batches, all of them whole: the growing one is ended. Each may be taken away.
    pub fn close(&self) -> io::Result<Vec<PathBuf>> {
        self.spool.close()
    }

    /// Events that found no room since the last that did.
    pub fn missing(&self) -> u64 {
        self.spool.missing()
    }
}

/// What tells this host from others of its site, before it is hashed.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{} {name}", id.trim())
}

/// The key in the file at `path`, 32 hexadecimal digits that only its owner may read.
fn read_key(path: &Path) -> Result<[u8; KEY], TelemetryError> {
    let failed = |why: String| TelemetryError::Key { path: path.to_owned(), why };
    for _ in 0..2 {
        match fs::read_to_string(path) {
            Ok(text) => {
                let mode = fs::metadata(path).map_err(|why| failed(why.to_string()))?.permissions().mode();
                if mode & 0o077 != 0 {
                    return Err(failed("other users can read it, and it contains the key for names: chmod 600".into()));
                }
                let digits = text.trim();
                let number = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2 * KEY);
                let none = || failed(format!("it does not contain a key ({} hexadecimal digits)", 2 * KEY));
                return number.map(u128::to_be_bytes).ok_or_else(none);
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => match make_key(path) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(|why| failed(why.to_string()))?,
            },
            Err(why) => return Err(failed(why.to_string())),
        }
    }
    Err(failed("it keeps appearing and disappearing".into()))
}

fn make_key(path: &Path) -> io::Result<()> {
    let random = || -> io::Result<[u8; KEY]> {
        let mut bytes = [0; KEY];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(bytes)
    };
    let bytes = random()?;
    if let Some(folder) = path.parent() {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Whole before it has its name: others that start at the same time never read half of it.
    let unnamed = path.with_extension(format!("new-{:032x}", u128::from_be_bytes(random()?)));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed)?;
    let written = file.write_all(format!("{:032x}\n", u128::from_be_bytes(bytes)).as_bytes());
    let named = written.and_then(|()| fs::hard_link(&unnamed, path));
    fs::remove_file(&unnamed)?;
    named
}

#[cfg(test)]
mod tests;
