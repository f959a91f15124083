//! The journal of changes, written ahead: a change is described in a file, and the file is on the disk, before the change is
//! made. Whoever finds the file knows everything that has to be undone, however its writer ended.
//!
//! JSON, one line a record: a head that names the boot and the network namespace (what the kernel held is gone with either), then
//! `{"n":1,"will":CHANGE}` and `{"n":1,"undone":true}`. Only the first must reach the disk before anything happens, since
//! undoing twice does no harm. A last line that was cut belongs to a change that was never made.

use super::change::Change;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Version of the format.
const VERSION: u32 = 1;
/// Beyond this size, in bytes, the file is written anew without what is undone.
const LARGE: u64 = 64 * 1024;
/// No journal is larger: 4096 routes of 1 KiB and what is undone.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Whose changes: those of a boot and a network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Here {
    /// The kernel's name for this boot (/proc/sys/kernel/random/boot_id).
    pub boot: String,
    /// The kernel's number of the network namespace; never used twice in a boot.
    pub netns: u64,
}

#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    #[serde(flatten)]
    here: Here,
}

#[derive(Serialize, Deserialize)]
struct Record {
    n: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    will: Option<Change>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    undone: bool,
}

/// Why there is no journal, or none that can be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It could not be read or written.
    #[error("{path}: the journal of changes cannot be {what}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Read, written or removed.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Its first line is not that of a journal of this version.
    #[error(
        "{path} is no journal of this version of headstart; recover with the version that wrote it, or look inside and remove it"
    )]
    Foreign {
        /// Its path.
        path: PathBuf,
    },
}

impl JournalError {
    /// Whether a right is missing, or the file system takes no writes.
    pub fn is_not_permitted(&self) -> bool {
        matches!(self, Self::File { source, .. } if matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem))
    }
}

/// Counts what is done to a journal and its changes, and ends the process before one of these steps if it was told to: a test
/// that kills a daemon everywhere must be able to say where.
#[derive(Debug, Default)]
pub struct Steps {
    taken: Cell<u32>,
    last: Option<u32>,
}

impl Steps {
    /// Steps of which `last` is never taken: the process is killed (SIGKILL) instead. With none, all are.
    pub fn until(last: Option<u32>) -> Self {
        Self { taken: Cell::new(0), last }
    }

    /// Takes a step.
    pub fn step(&self) {
        self.taken.set(self.taken.get() + 1);
        if self.last == Some(self.taken.get()) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

/// What a journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Whose it is.
    pub here: Here,
    /// The changes that are not undone, by number.
    pub live: BTreeMap<u64, Change>,
    /// Lines in the middle that could not be read.
    pub damaged: usize,
    next: u64,
}

impl Contents {
    /// Reads the text of a journal; none if it is of another version or no journal at all. Never panics on any text.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        // What follows the last end of a line was cut.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let head: Head = serde_json::from_slice(lines.next()?).ok()?;
        if head.version != VERSION {
            return None;
        }
        let mut contents = Self { here: head.here, live: BTreeMap::new(), damaged: 0, next: 1 };
        for line in lines {
            match serde_json::from_slice::<Record>(line) {
                Ok(Record { n, will: Some(change), undone: false }) => {
                    contents.next = contents.next.max(n.saturating_add(1));
                    contents.live.insert(n, change);
                }
                Ok(Record { n, will: None, undone: true }) => _ = contents.live.remove(&n),
                _ => contents.damaged += 1,
            }
        }
        Some(contents)
    }
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    contents: Contents,
    steps: Steps,
}

impl Journal {
    /// Begins one at `path`, where none is.
    pub fn begin(path: &Path, here: Here, steps: Steps) -> Result<Self, JournalError> {
        let contents = Contents { here, live: BTreeMap::new(), damaged: 0, next: 1 };
        steps.step();
        let file = write_anew(path, &contents, &steps)?;
        Ok(Self { path: path.to_owned(), file, contents, steps })
    }

    /// Opens the one at `path`; none if there is none.
    pub fn open(path: &Path, steps: Steps) -> Result<Option<Self>, JournalError> {
        let failed = |source| JournalError::File { path: path.to_owned(), what: "read", source };
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(path);
        let mut file = match options {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut bytes = Vec::new();
        (&mut file).take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        // Killed before its first line was whole, so before any change: there is nothing in it.
        if !bytes.contains(&b'\n') {
            let contents =
                Contents { here: Here { boot: String::new(), netns: 0 }, live: BTreeMap::new(), damaged: 0, next: 1 };
            return Ok(Some(Self { path: path.to_owned(), file, contents, steps }));
        }
        let contents = Contents::read(&bytes).ok_or_else(|| JournalError::Foreign { path: path.to_owned() })?;
        // What is written now must not join a line that was cut.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            let cut = file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0)));
            // Where nothing can be written any more, changes can still be undone.
            let _ = cut;
        }
        Ok(Some(Self { path: path.to_owned(), file, contents, steps }))
    }

    /// What it says.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Takes a step of [`Steps`].
    pub fn step(&self) {
        self.steps.step();
    }

    /// Writes down that `change` will be made, and returns when the disk has it. Afterwards it may be made.
    pub fn intend(&mut self, change: &Change) -> Result<u64, JournalError> {
        let failed = |source| JournalError::File { path: self.path.clone(), what: "written", source };
        if self.file.metadata().map_err(failed)?.len() > LARGE {
            self.compact()?;
        }
        let n = self.contents.next;
        let record = Record { n, will: Some(change.clone()), undone: false };
        self.steps.step();
        self.append(&record, true)?;
        self.steps.step();
        self.contents.next += 1;
        self.contents.live.insert(n, change.clone());
        Ok(n)
    }

    /// Notes that a change is undone. If that cannot be written, it is undone once more by whoever recovers.
    pub fn undone(&mut self, n: u64) {
        self.steps.step();
        let _ = self.append(&Record { n, will: None, undone: true }, false);
        self.contents.live.remove(&n);
    }

    /// Removes the file: everything is undone.
    pub fn remove(self) -> Result<(), JournalError> {
        self.steps.step();
        let removed = fs::remove_file(&self.path).and_then(|()| sync_folder(&self.path));
        self.steps.step();
        removed.map_err(|source| JournalError::File { path: self.path, what: "removed", source })
    }

    /// Puts the file aside, for people to look at.
    pub fn put_aside(self) -> Result<PathBuf, JournalError> {
        let aside = self.path.with_extension("damaged");
        let moved = fs::rename(&self.path, &aside);
        moved.map(|()| aside).map_err(|source| JournalError::File { path: self.path, what: "moved", source })
    }

    /// Appends a record, whole or not at all.
    fn append(&mut self, record: &Record, sync: bool) -> Result<(), JournalError> {
        let mut write = || {
            let before = self.file.seek(SeekFrom::End(0))?;
            let line = serde_json::to_string(record).map_err(io::Error::other)? + "\n";
            let written = self.file.write_all(line.as_bytes()).and_then(|()| {
                self.steps.step();
                if sync { self.file.sync_data() } else { Ok(()) }
            });
            if written.is_err() {
                // A full disk still takes this.
                let _ = self.file.set_len(before);
            }
            written
        };
        write().map_err(|source| JournalError::File { path: self.path.clone(), what: "written", source })
    }

    /// Writes the file anew without what is undone.
    fn compact(&mut self) -> Result<(), JournalError> {
        self.steps.step();
        self.file = write_anew(&self.path, &self.contents, &self.steps)?;
        Ok(())
    }
}

/// Writes a journal beside `path` and moves it there: at any moment there is the old one or the new one, whole.
fn write_anew(path: &Path, contents: &Contents, steps: &Steps) -> Result<File, JournalError> {
    let fresh = path.with_extension("new");
    let write = || {
        let mut lines = serde_json::to_string(&Head { version: VERSION, here: contents.here.clone() })? + "\n";
        for (n, change) in &contents.live {
            let record = Record { n: *n, will: Some(change.clone()), undone: false };
            lines += &(serde_json::to_string(&record)? + "\n");
        }
        // What a killed writer left is nobody's.
        let _ = fs::remove_file(&fresh);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(lines.as_bytes())?;
        steps.step();
        file.sync_all()?;
        steps.step();
        fs::rename(&fresh, path)?;
        steps.step();
        sync_folder(path)?;
        Ok(file)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&fresh);
        JournalError::File { path: path.to_owned(), what: "written", source }
    })
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Numbers;
    use crate::host::change::{rule::Rule, table::Table};
    use proptest::prelude::*;

    fn here() -> Here {
        Here { boot: "b".into(), netns: 7 }
    }

    fn change(family: u8) -> Change {
        Change::Rule(Rule::new(family, Numbers { table: 18515, priority: 32765 }))
    }

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("headstart-journal-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn reopened(path: &Path) -> Journal {
        Journal::open(path, Steps::default()).unwrap().unwrap()
    }

    #[test]
    fn what_was_intended_and_not_undone_is_found_again() {
        let folder = scratch("again");
        let path = folder.join("changes");
        assert!(Journal::open(&path, Steps::default()).unwrap().is_none());
        let mut journal = Journal::begin(&path, here(), Steps::default()).unwrap();
        let (one, two) = (journal.intend(&change(2)).unwrap(), journal.intend(&change(10)).unwrap());
        journal.undone(one);
        let mut again = reopened(&path);
        assert_eq!(again.contents().live, [(two, change(10))].into());
        assert_eq!(again.contents().here, here());
        assert!(again.intend(&change(2)).unwrap() > two, "a number is never used twice");
        again.remove().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_journal_that_was_cut_anywhere_never_loses_a_change_that_was_made() {
        let folder = scratch("cut");
        let path = folder.join("changes");
        let mut journal = Journal::begin(&path, here(), Steps::default()).unwrap();
        let head = fs::metadata(&path).unwrap().len();
        journal.intend(&change(2)).unwrap();
        let one = fs::metadata(&path).unwrap().len();
        journal.intend(&change(10)).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let expected = usize::from(length as u64 >= one);
            let mut cut = reopened(&path);
            assert_eq!((cut.contents().live.len(), cut.contents().damaged), (expected, 0), "cut at {length}");
            if length as u64 >= head {
                cut.intend(&change(10)).unwrap();
                assert_eq!(reopened(&path).contents().live.len(), expected + 1, "cut at {length}, then written");
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_long_journal_is_written_anew_without_what_is_undone() {
        let folder = scratch("long");
        let path = folder.join("changes");
        let mut journal = Journal::begin(&path, here(), Steps::default()).unwrap();
        let kept = journal.intend(&change(2)).unwrap();
        let large = Change::Table(Table::new(&"x".repeat(10_000)));
        for _ in 0..30 {
            let n = journal.intend(&large).unwrap();
            journal.undone(n);
        }
        assert!(fs::metadata(&path).unwrap().len() < 2 * LARGE);
        assert_eq!(reopened(&path).contents().live, [(kept, change(2))].into());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_that_is_damaged_is_counted_and_the_others_hold() {
        let text = format!(
            "{{\"version\":1,\"boot\":\"b\",\"netns\":7}}\n{}\nnonsense\n{{\"n\":9,\"will\":{{\"kind\":\"moon\"}}}}\n",
            serde_json::to_string(&Record { n: 1, will: Some(change(2)), undone: false }).unwrap()
        );
        let contents = Contents::read(text.as_bytes()).unwrap();
        assert_eq!((contents.live.len(), contents.damaged), (1, 2));
        assert_eq!(Contents::read(b"{\"version\":2,\"boot\":\"b\",\"netns\":7}\n"), None);
        assert_eq!(Contents::read(b"hello\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_journal_or_none(text in ".{0,300}", cut in 0usize..400) {
            let good = format!("{{\"version\":1,\"boot\":\"b\",\"netns\":7}}\n{text}\n");
            let _ = (Contents::read(text.as_bytes()), Contents::read(good.as_bytes()));
            let _ = Contents::read(&good.as_bytes()[..cut.min(good.len())]);
        }
    }
}
