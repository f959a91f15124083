//! The folder of batches. One file grows (`HOST.jsonl`); at [`BATCH`] bytes it gets a name of its own (`HOST-SECONDS-RANDOM.jsonl`), is whole
//! from then on, and a collector may take it away.
//!
//! Any number of processes of a host add lines; a lock on `.HOST.lock` orders them. A line is one call, so that a killed process leaves whole
//! lines behind it, or one that has no end: the next begins a new line. Bounded: where there is no room, events are counted and not kept,
//! and the first that has room again comes after one that says how many. What never happens here: a line is written twice or changed.

use super::{Names, TelemetryError};
use crate::clock::wall;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes after which a batch is whole.
const BATCH: u64 = 256 * 1024;

/// See the module.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    host: String,
    most: u64,
    lock: File,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the folder.
    Kept,
    /// There was no room; it is counted.
    Missing,
}

impl Spool {
    /// The batches of `host` in `folder`, which take `most` bytes at most.
    pub fn open(folder: &Path, host: &str, most: u64) -> Result<Self, TelemetryError> {
        let failed = |path: &Path, source| TelemetryError::Folder { path: path.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|why| failed(folder, why))?;
        let path = folder.join(format!(".{host}.lock"));
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(|why| failed(&path, why))?;
        Ok(Self { folder: folder.to_owned(), host: host.to_owned(), most, lock })
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn current(&self) -> PathBuf {
        self.folder.join(format!("{}.jsonl", self.host))
    }

    /// Where the latest batch lies of which a collector refused a part. It is no batch, and not counted as one: there is one at most.
    pub fn refused(&self) -> PathBuf {
        self.folder.join(format!("{}.refused", self.host))
    }

    fn counter(&self) -> PathBuf {
        self.folder.join(format!(".{}.missing", self.host))
    }

    /// The batches of this host, the whole ones first.
    pub fn batches(&self) -> io::Result<Vec<PathBuf>> {
        let mut whole = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let of_ours = name.to_str().is_some_and(|name| {
                name.strip_prefix(&self.host).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".jsonl"))
            });
            if of_ours {
                whole.push(self.folder.join(name));
            }
        }
        whole.sort();
        let current = self.current();
        whole.extend(current.exists().then_some(current));
        Ok(whole)
    }

    /// Ends the growing batch, so that it is whole and may be taken away; the whole ones.
    pub fn close(&self) -> io::Result<Vec<PathBuf>> {
        flock(&self.lock, FlockOperation::LockExclusive)?;
        let closed = match File::open(self.current()) {
            Ok(file) => {
                file.sync_data().and_then(|()| fs::rename(self.current(), self.folder.join(self.whole_name()?)))
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(why) => Err(why),
        };
        let whole = closed.and_then(|()| self.batches());
        flock(&self.lock, FlockOperation::Unlock)?;
        whole
    }

    /// Events that found no room since the last that did.
    pub fn missing(&self) -> u64 {
        fs::read_to_string(self.counter()).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Adds `line`, which has no end of its own.
    pub fn add(&self, line: &str) -> io::Result<Written> {
        flock(&self.lock, FlockOperation::LockExclusive)?;
        let added = self.add_locked(line);
        let unlocked = flock(&self.lock, FlockOperation::Unlock);
        let added = added?;
        unlocked?;
        Ok(added)
    }

    fn add_locked(&self, line: &str) -> io::Result<Written> {
        let missing = self.missing();
        let mut text = String::new();
        if missing > 0 {
            text = format!("{}\n", Names::missing(&self.host, missing));
        }
        text.push_str(line);
        text.push('\n');
        let sizes = self.batches()?.iter().map(|path| fs::metadata(path).map_or(0, |about| about.len())).sum::<u64>();
        let has_room = sizes + text.len() as u64 <= self.most;
        match has_room.then(|| self.write(&text)) {
            Some(Ok(())) => {
                if missing > 0 {
                    fs::remove_file(self.counter())?;
                }
                Ok(Written::Kept)
            }
            Some(Err(why)) if !matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                Err(why)
            }
            // Overwritten in place: on a full disk there is room for no other file.
            Some(Err(_)) | None => {
                let counter =
                    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.counter());
                counter?.write_all(format!("{:020}\n", missing + 1).as_bytes())?;
                Ok(Written::Missing)
            }
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let current = self.current();
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(&current)?;
        let length = file.metadata()?.len();
        if length > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                // Its writer was killed within the line.
                file.write_all(b"\n")?;
            }
        }
        if let Err(why) = file.write_all(text.as_bytes()) {
            // Half a line is no line.
            let _ = file.set_len(length);
            return Err(why);
        }
        if length + text.len() as u64 >= BATCH {
            file.sync_data()?;
            fs::rename(&current, self.folder.join(self.whole_name()?))?;
        }
        Ok(())
    }

    /// A name that no batch has had, wherever the earlier ones are now.
    fn whole_name(&self) -> io::Result<String> {
        let at = wall().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        Ok(format!("{}-{at:012}-{:016x}.jsonl", self.host, u64::from_ne_bytes(random)))
    }

    /// What was added outlives a power cut from now on.
    pub fn sync(&self) -> io::Result<()> {
        match File::open(self.current()) {
            Ok(file) => file.sync_data(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(why) => Err(why),
        }
    }
}
