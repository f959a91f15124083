//! The file of the store: a redb database with sealed records by digest, beside a file with their key. Held open only as
//! long as something is read or written, so that the supervisors of one user in other namespaces take turns.
//!
//! A file that is no good (damaged, of a later version, not to be written to) is set aside under another name, never
//! deleted and never written to. It comes into being in one step, and each change is made whole or not at all, so that
//! a supervisor may be killed at any moment. No error of the file ever leaves as a panic.

use super::seal::{Digest, KEY, Seal};
use crate::clock::Clock;
use headstart_core::time::Duration;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags, flock, open, renameat_with};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The version of what is in the tables.
const FORMAT: u64 = 1;
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
/// Everything that one key seals: habits and networks, paths (see `super::paths`), objects (see `super::objects`), what the page
/// draws (see `super::series`), and what other hosts have learned (see `super::prior`).
const STORES: [&str; 5] = [HISTORY, PATHS, OBJECTS, SERIES, PRIOR];
/// The store of habits and networks.
pub const HISTORY: &str = "history";
/// The store of paths.
pub const PATHS: &str = "paths";
/// The store of objects.
pub const OBJECTS: &str = "objects";
/// The store of what the page draws.
pub const SERIES: &str = "series";
/// The store of what other hosts have learned.
pub const PRIOR: &str = "prior";
const KEY_FILE: &str = "history.key";
/// Memory that redb may use for pages; what is stored is a few hundred kilobytes.
const CACHE: usize = 1024 * 1024;
/// A file larger than this is none of ours: the records of all programs and networks are a tenth of it.
const MAX_FILE: u64 = 256 * 1024 * 1024;
/// How often another process is waited for, and how long: together longer than any of them takes for a change.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// What stands in the way.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Another supervisor of this user is reading or writing.
    #[error("{0} is in use by another supervisor")]
    Busy(PathBuf),
    /// It was written by a later version.
    #[error("{path} has format {format}, this version reads {FORMAT}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u64,
    },
    /// It is no store, or not whole any more.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// In what way.
        why: String,
    },
    /// It may not be written to.
    #[error("{path} cannot be written to: {source}")]
    ReadOnly {
        /// The file or its folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no room.
    #[error("no space left for {path}: {source}")]
    Full {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// Whether another file in its place would do better.
    pub fn is_of_the_file(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::Damaged { .. } | Self::ReadOnly { .. })
    }

    fn of_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Self::Damaged { path, why: source.to_string() }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, source }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            _ => Self::Io { path, source },
        }
    }

    fn of_redb(path: &Path, error: redb::Error) -> Self {
        match error {
            redb::Error::Io(source) => Self::of_io(path, source),
            redb::Error::DatabaseAlreadyOpen => Self::Busy(path.to_owned()),
            other => Self::Damaged { path: path.to_owned(), why: other.to_string() },
        }
    }
}

/// Records as they are in the file.
pub type SealedRecords = Vec<(Digest, Vec<u8>)>;

/// A change of one record: what it is from now on, or that it is gone.
pub type RecordChange = (Digest, Option<Vec<u8>>);

/// A store and the key of all stores, in their folder.
#[derive(Debug)]
pub struct StoreFile {
    folder: PathBuf,
    name: &'static str,
    clock: Clock,
}

impl StoreFile {
    /// The store `name`, one of the [`STORES`], in `folder`; nothing is opened yet.
    pub fn new(folder: PathBuf, name: &'static str) -> Self {
        Self { folder, name, clock: Clock::new() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What one process at a time has, for as long as it holds it; `None` if another has it.
    pub fn lock(&self) -> Result<Option<File>, FileError> {
        let path = self.folder.join(format!("{}.lock", self.name));
        self.make_folder()?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::CREATE;
        let file = open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(|e| FileError::of_io(&path, e.into()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file.into())),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(FileError::of_io(&path, e.into())),
        }
    }

    /// The path of the store.
    pub fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.redb", self.name))
    }

    /// The key, which is made if there is none and `make` says so.
    pub fn key(&self, make: bool) -> Result<Option<Seal>, FileError> {
        let path = self.folder.join(KEY_FILE);
        let failed = |e| FileError::of_io(&path, e);
        for _ in 0..2 {
            match read(&path) {
                Ok(bytes) => {
                    let why = || format!("a key has {KEY} bytes, this one {}", bytes.len());
                    let seal = Seal::new(&bytes);
                    return seal.map(Some).ok_or_else(|| FileError::Damaged { path: path.clone(), why: why() });
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    self.make_folder()?;
                    let key = Seal::fresh_key().map_err(failed)?;
                    let new = self.new_path(KEY_FILE);
                    let written = private(&new, true)
                        .and_then(|mut file| file.write_all(&key).and_then(|()| file.sync_all()))
                        .and_then(|()| replace(&new, &path));
                    if written.is_err() {
                        let _ = std::fs::remove_file(&new);
                    }
                    match written {
                        // Another process was faster: then it is there now.
                        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                        written => written.map_err(failed)?,
                    }
                }
                Err(e) => return Err(failed(e)),
            }
        }
        Err(failed(io::Error::other("it keeps appearing and disappearing")))
    }

    /// The key and all records, in no order; `None` if there is no key, which they would need.
    pub fn opened(&self) -> Result<Option<(Seal, SealedRecords)>, FileError> {
        let Some(seal) = self.key(false)? else { return Ok(None) };
        Ok(Some((seal, self.patiently(|| self.read())?)))
    }

    fn read(&self) -> Result<SealedRecords, FileError> {
        let path = self.path();
        match private(&path, false) {
            Ok(file) => guarded(&path, || {
                let db = database(&path, file)?;
                let txn = db.begin_read().map_err(redb::Error::from)?;
                let mut found = Vec::new();
                for entry in txn.open_table(RECORDS)?.iter()? {
                    let (key, value) = entry?;
                    if let Ok(digest) = Digest::try_from(key.value()) {
                        found.push((digest, value.value().to_vec()));
                    }
                }
                Ok(found)
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(FileError::of_io(&path, e)),
        }
    }

    /// Makes all of `changes`, or none of them; makes the file if there is none.
    pub fn write(&self, changes: &[RecordChange]) -> Result<(), FileError> {
        self.patiently(|| self.try_to_write(changes))
    }

    fn try_to_write(&self, changes: &[RecordChange]) -> Result<(), FileError> {
        let path = self.path();
        loop {
            match private(&path, false) {
                Ok(file) => return guarded(&path, || apply(&database(&path, file)?, changes)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(FileError::of_io(&path, e)),
            }
            self.make_folder()?;
            let new = self.new_path(self.name);
            let made = private(&new, true).map_err(|e| FileError::of_io(&new, e)).and_then(|file| {
                guarded(&new, || {
                    let db = Database::builder().set_cache_size(CACHE).create_file(file).map_err(redb::Error::from)?;
                    let txn = db.begin_write().map_err(redb::Error::from)?;
                    txn.open_table(ABOUT)?.insert("format", FORMAT)?;
                    txn.open_table(RECORDS)?;
                    txn.commit()?;
                    apply(&db, changes)
                })
            });
            let settled = made.and_then(|()| match replace(&new, &path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                other => other.map(|()| true).map_err(|e| FileError::of_io(&path, e)),
            });
            if !matches!(settled, Ok(true)) {
                let _ = std::fs::remove_file(&new);
            }
            if settled? {
                return Ok(());
            }
        }
    }

    /// Does `what`, and again while another process of this user is at it.
    fn patiently<T>(&self, mut what: impl FnMut() -> Result<T, FileError>) -> Result<T, FileError> {
        for _ in 0..TRIES {
            match what() {
                Err(FileError::Busy(_)) => self.clock.sleep(BETWEEN_TRIES),
                other => return other,
            }
        }
        what()
    }

    /// What is wrong where its records cannot be made.
    pub fn failed(&self, source: io::Error) -> FileError {
        FileError::Io { path: self.path(), source }
    }

    /// Makes room for a new store where this one is no good, and for a new key where it has none; where the old store is now,
    /// if there was one.
    pub fn make_room(&self) -> Result<Option<PathBuf>, FileError> {
        if self.key(false).is_err() {
            self.remove_key();
        }
        match self.set_aside() {
            Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            aside => aside.map(Some),
        }
    }

    /// Sets the store aside, in place of whatever was set aside before; its new path.
    fn set_aside(&self) -> Result<PathBuf, FileError> {
        let (from, to) = (self.path(), self.folder.join(aside(self.name)));
        std::fs::rename(&from, &to).map_err(|e| FileError::of_io(&from, e))?;
        Ok(to)
    }

    /// Removes everything that the key seals, first of all the key.
    pub fn remove(&self) -> Result<(), FileError> {
        let stores = STORES.iter().flat_map(|name| [format!("{name}.redb"), aside(name)]);
        for name in std::iter::once(KEY_FILE.to_owned()).chain(stores) {
            let path = self.folder.join(name);
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(FileError::of_io(&path, e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes a key that is none.
    pub fn remove_key(&self) {
        let _ = std::fs::remove_file(self.folder.join(KEY_FILE));
    }

    /// Where `of` is first written, a path of this thread alone. What a killed process of the same number left there is removed.
    fn new_path(&self, of: &str) -> PathBuf {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let path = self.folder.join(format!(".{of}.{thread}"));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn make_folder(&self) -> Result<(), FileError> {
        super::place::make(&self.folder).map_err(|e| FileError::of_io(&self.folder, e))
    }
}

/// Where a store that is no good is set aside.
fn aside(name: &str) -> String {
    format!("{name}.set-aside.redb")
}

/// Opens the file at `path` for this user alone, or makes it.
fn private(path: &Path, make: bool) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let flags = if make { flags | OFlags::CREATE | OFlags::EXCL } else { flags };
    Ok(open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::from(open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(2 * KEY as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Gives the whole file at `new` its name, unless that is taken.
fn replace(new: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, new, CWD, path, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => return Err(io::ErrorKind::AlreadyExists.into()),
        // File systems that cannot (some on the network) have no two supervisors at once either.
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(new, path)?,
        other => other?,
    }
    // The name, too, is to outlive a power cut.
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn database(path: &Path, file: File) -> Result<Database, Trouble> {
    let length = file.metadata().map_err(redb::Error::Io)?.len();
    if length == 0 || length > MAX_FILE {
        return Err(Trouble::Damaged(format!("{length} bytes long")));
    }
    let db = Database::builder().set_cache_size(CACHE).create_file(file).map_err(redb::Error::from)?;
    let txn = db.begin_read().map_err(redb::Error::from)?;
    let format = txn.open_table(ABOUT)?.get("format")?.map(|f| f.value());
    match format {
        Some(FORMAT) => Ok(db),
        Some(format) if format > FORMAT => Err(Trouble::Newer(path.to_owned(), format)),
        _ => Err(Trouble::Damaged("it has no format number".into())),
    }
}

fn apply(db: &Database, changes: &[RecordChange]) -> Result<(), Trouble> {
    let txn = db.begin_write().map_err(redb::Error::from)?;
    {
        let mut table = txn.open_table(RECORDS)?;
        for (digest, record) in changes {
            match record {
                Some(record) => drop(table.insert(&digest[..], &record[..])?),
                None => drop(table.remove(&digest[..])?),
            }
        }
    }
    txn.commit()?;
    Ok(())
}

/// What goes wrong inside, before it is known of which file.
enum Trouble {
    Redb(redb::Error),
    Damaged(String),
    Newer(PathBuf, u64),
}

impl<E: Into<redb::Error>> From<E> for Trouble {
    fn from(e: E) -> Self {
        Self::Redb(e.into())
    }
}

/// Does `work` on the file at `path`. A panic of redb means that the file is not what redb wrote.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, FileError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Trouble::Redb(e))) => Err(FileError::of_redb(path, e)),
        Ok(Err(Trouble::Damaged(why))) => Err(FileError::Damaged { path: path.to_owned(), why }),
        Ok(Err(Trouble::Newer(path, format))) => Err(FileError::Newer { path, format }),
        Err(_) => Err(FileError::Damaged { path: path.to_owned(), why: "reading it failed".into() }),
    }
}

/// For tests: a store that a later version wrote.
#[cfg(test)]
pub(super) fn write_format(path: &Path, format: u64) {
    let db = Database::create(path).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(ABOUT).unwrap().insert("format", format).unwrap();
    txn.open_table(RECORDS).unwrap();
    txn.commit().unwrap();
}
