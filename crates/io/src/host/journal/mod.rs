//! The journal of changes, written ahead: a change is described in two files, and both are on the disk, before the change is
//! made. Either file is enough to undo everything, however its writer ended.
//!
//! The files are copies of each other ([`format`]), in two folders if there are two: what one has lost, the other says. Undoing
//! twice does no harm, so only what will be done must reach the disk before anything happens. Where nothing can be written any
//! more, what is written can still be undone.

pub mod format;

use super::change::Change;
pub use format::{Contents, Here};
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Beyond this size, in bytes, the files are written anew without what is undone.
const LARGE: u64 = 64 * 1024;
/// No journal is larger: 4096 routes of 1 KiB and what is undone.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

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
    /// It is of a later version.
    #[error("{path} was written by a later version of headstart; recover with that version")]
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

/// Counts what is done to a journal and its changes, and ends the process before one of these steps on request: a test
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

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    here: Here,
    paths: [PathBuf; 2],
    /// Those that can be written.
    files: [Option<File>; 2],
    contents: Contents,
    /// The files differ: before another change is written down, both are to say all again.
    uneven: bool,
    steps: Steps,
}

/// What the end of a journal came to.
#[derive(Debug, Default)]
pub struct Closed {
    /// Where the files have been put, if both were damaged.
    pub put_aside: Option<PathBuf>,
    /// Why a file is still there.
    pub unclosed: Vec<String>,
}

impl Journal {
    /// Begins one at `paths`, where none is.
    pub fn begin(paths: [PathBuf; 2], here: Here, steps: Steps) -> Result<Self, JournalError> {
        steps.step();
        let mut journal = Self { here, paths, files: [None, None], contents: Contents::none(), uneven: false, steps };
        journal.write_anew().inspect_err(|_| {
            for path in &journal.paths {
                let _ = fs::remove_file(path);
            }
        })?;
        Ok(journal)
    }

    /// Opens the one at `paths`, of which one may be missing; none if both are.
    pub fn open(paths: [PathBuf; 2], here: Here, steps: Steps) -> Result<Option<Self>, JournalError> {
        let found = match paths.each_ref().map(|path| open(path)) {
            // What a disk does not give any more is damaged, as long as the other file can be read.
            [Ok(one @ Some(_)), Err(why)] if !why.is_not_permitted() => [one, Some((None, Vec::new()))],
            [Err(why), Ok(other @ Some(_))] if !why.is_not_permitted() => [Some((None, Vec::new())), other],
            [one, other] => [one?, other?],
        };
        if found.iter().all(Option::is_none) {
            return Ok(None);
        }
        let copies = found.each_ref().map(|found| found.as_ref().map(|(_, bytes)| bytes.as_slice()));
        let foreign = || JournalError::Foreign { path: paths[usize::from(copies[0].is_none())].clone() };
        let contents = Contents::read(copies, &here).ok_or_else(foreign)?;
        let uneven = copies[0] != copies[1];
        let files = found.map(|found| found.and_then(|(file, _)| file));
        Ok(Some(Self { here, paths, files, contents, uneven, steps }))
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
        let is_large = |file: &File| file.metadata().is_ok_and(|meta| meta.len() > LARGE);
        if self.uneven || self.files.iter().any(|file| file.as_ref().is_none_or(is_large)) {
            self.steps.step();
            self.write_anew()?;
        }
        let n = self.contents.next;
        let line = format::intended(&self.here, n, change).map_err(io::Error::other);
        let line = line.map_err(|source| self.failed(0, "written", source))?;
        self.steps.step();
        self.append(&line)?;
        self.contents.next += 1;
        self.contents.live.insert(n, change.clone());
        Ok(n)
    }

    /// Notes that a change is undone. If that cannot be written, recovery undoes it once more.
    pub fn undone(&mut self, n: u64) {
        self.steps.step();
        let line = format::undone(&self.here, n).unwrap_or_default();
        for file in self.files.iter_mut().flatten() {
            let _ = append(file, &line, || ());
        }
        self.contents.live.remove(&n);
    }

    /// Ends it: everything that it names is undone or gone. If both files were damaged they are put aside, for people to look
    /// at; else they are removed.
    pub fn close(self) -> Closed {
        let mut closed = Closed::default();
        for path in self.paths.iter().filter(|path| path.symlink_metadata().is_ok()) {
            self.steps.step();
            let aside = self.contents.lost.then(|| beside(path, ".damaged"));
            let ended = match &aside {
                Some(aside) => fs::rename(path, aside),
                None => fs::remove_file(path).and_then(|()| sync_folder(path)),
            };
            match ended {
                Ok(()) => closed.put_aside = closed.put_aside.or(aside),
                Err(why) => closed.unclosed.push(format!("{}: {why}", path.display())),
            }
        }
        self.steps.step();
        closed
    }

    /// Appends a line to both files and syncs them, whole or not at all.
    fn append(&mut self, line: &str) -> Result<(), JournalError> {
        let mut before = [None, None];
        for n in 0..2 {
            let Some(file) = &mut self.files[n] else { continue };
            let written = file.seek(SeekFrom::End(0)).and_then(|end| {
                before[n] = Some(end);
                append(file, line, || self.steps.step())?;
                file.sync_data()
            });
            if let Err(source) = written {
                for (file, before) in self.files.iter().zip(before) {
                    // A full disk still takes this.
                    let _ = file.as_ref().zip(before).map(|(file, before)| file.set_len(before));
                }
                return Err(self.failed(n, "written", source));
            }
            self.steps.step();
        }
        Ok(())
    }

    /// Writes the files anew without what is undone, one after the other: at any moment there is an old one or a new one, whole.
    fn write_anew(&mut self) -> Result<(), JournalError> {
        let lines = self.contents.written(&self.here).map_err(io::Error::other);
        let lines = lines.map_err(|source| self.failed(0, "written", source))?;
        for n in 0..2 {
            let file = write_anew(&self.paths[n], &lines, &self.steps);
            self.files[n] = Some(file.map_err(|source| self.failed(n, "written", source))?);
        }
        self.uneven = false;
        Ok(())
    }

    fn failed(&self, n: usize, what: &'static str, source: io::Error) -> JournalError {
        JournalError::File { path: self.paths[n].clone(), what, source }
    }
}

/// What is in a file, and the file if it can be written to.
type Opened = (Option<File>, Vec<u8>);

/// What is at `path`.
fn open(path: &Path) -> Result<Option<Opened>, JournalError> {
    let failed = |source| JournalError::File { path: path.to_owned(), what: "read", source };
    let options = |writes| {
        let mut options = OpenOptions::new();
        options.read(true).write(writes).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
        options
    };
    // Where nothing can be written any more, changes can still be undone.
    let writable = options(true).open(path).ok();
    let mut file = match &writable {
        Some(file) => file.try_clone().map_err(failed)?,
        None => match options(false).open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        },
    };
    let mut bytes = Vec::new();
    (&mut file).take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    // What is written now must not join a line that was cut, nor be in a form of another version.
    let whole = bytes.ends_with(b"\n") && !format::is_plain(&bytes);
    Ok(Some((writable.filter(|_| whole), bytes)))
}

/// Appends a line, whole or not at all; `written` is called when it is written and not yet synced.
fn append(file: &mut File, line: &str, written: impl FnOnce()) -> io::Result<()> {
    let before = file.seek(SeekFrom::End(0))?;
    let done = file.write_all(line.as_bytes());
    written();
    if done.is_err() {
        // A full disk still takes this.
        let _ = file.set_len(before);
    }
    done
}

/// Writes a file beside `path` and moves it there.
fn write_anew(path: &Path, lines: &str, steps: &Steps) -> io::Result<File> {
    let fresh = beside(path, ".new");
    let write = || {
        // A killed writer may have left this file; no process uses it.
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
    write().inspect_err(|_| _ = fs::remove_file(&fresh))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Numbers;
    use crate::host::change::{rule::Rule, table::Table};

    fn here() -> Here {
        Here { boot: "b".into(), netns: 7 }
    }

    fn change(family: u8) -> Change {
        Change::Rule(Rule::new(family, Numbers { table: 18515, priority: 32765 }))
    }

    /// Two folders, and the paths of a journal in them.
    fn scratch(name: &str) -> (PathBuf, [PathBuf; 2]) {
        let folder = std::env::temp_dir().join(format!("headstart-journal-{name}-{}", std::process::id()));
        let paths = ["state", "run"].map(|name| folder.join(name).join("changes"));
        for path in &paths {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        (folder, paths)
    }

    fn begun(paths: &[PathBuf; 2]) -> Journal {
        Journal::begin(paths.clone(), here(), Steps::default()).unwrap()
    }

    fn reopened(paths: &[PathBuf; 2]) -> Option<Journal> {
        Journal::open(paths.clone(), here(), Steps::default()).unwrap()
    }

    fn files(paths: &[PathBuf; 2]) -> usize {
        paths.iter().map(|path| fs::read_dir(path.parent().unwrap()).unwrap().count()).sum()
    }

    #[test]
    fn what_was_intended_and_not_undone_is_found_again() {
        let (folder, paths) = scratch("again");
        assert!(reopened(&paths).is_none());
        let mut journal = begun(&paths);
        let (one, two) = (journal.intend(&change(2)).unwrap(), journal.intend(&change(10)).unwrap());
        journal.undone(one);
        assert_eq!(fs::read(&paths[0]).unwrap(), fs::read(&paths[1]).unwrap());
        let mut again = reopened(&paths).unwrap();
        assert_eq!(again.contents().live, [(two, change(10))].into());
        assert!(again.intend(&change(2)).unwrap() > two, "a number is never used twice");
        assert!(again.close().unclosed.is_empty());
        assert_eq!(files(&paths), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn whatever_becomes_of_one_file_it_is_written_on_in_the_other() {
        let (folder, paths) = scratch("one");
        for harmed in 0..2 {
            for harm in [None, Some(&b"{\"n\":"[..]), Some(&[0; 300])] {
                let harm = |path: &Path| harm.map_or_else(|| fs::remove_file(path), |bytes| fs::write(path, bytes));
                let mut journal = begun(&paths);
                journal.intend(&change(2)).unwrap();
                harm(&paths[harmed]).unwrap();
                let mut again = reopened(&paths).unwrap();
                assert_eq!((again.contents().live.len(), again.contents().lost), (1, false));
                again.intend(&change(10)).unwrap();
                harm(&paths[1 - harmed]).unwrap();
                let last = reopened(&paths).unwrap();
                assert_eq!(last.contents().live.len(), 2, "what was harmed is whole again");
                last.close();
                assert_eq!(files(&paths), 0);
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn when_both_are_harmed_both_are_kept_for_people() {
        let (folder, paths) = scratch("both");
        let mut journal = begun(&paths);
        journal.intend(&change(2)).unwrap();
        for path in &paths {
            fs::write(path, []).unwrap();
        }
        let again = reopened(&paths).unwrap();
        assert!(again.contents().lost && again.contents().live.is_empty());
        assert_eq!(again.close().put_aside, Some(beside(&paths[0], ".damaged")));
        assert!(reopened(&paths).is_none());
        assert_eq!(files(&paths), 2);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_read_is_made_good_by_the_other() {
        let (folder, paths) = scratch("unread");
        for harmed in 0..2 {
            begun(&paths).intend(&change(2)).unwrap();
            fs::remove_file(&paths[harmed]).unwrap();
            std::os::unix::fs::symlink("/nonexistent", &paths[harmed]).unwrap();
            let again = reopened(&paths).unwrap();
            assert_eq!((again.contents().live.len(), again.contents().lost), (1, false));
            assert!(again.close().unclosed.is_empty());
            assert_eq!(files(&paths), 0);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn where_a_file_cannot_be_made_nothing_is_begun() {
        let (folder, paths) = scratch("nowhere");
        fs::remove_dir_all(paths[1].parent().unwrap()).unwrap();
        let refused = Journal::begin(paths.clone(), here(), Steps::default()).unwrap_err().to_string();
        assert!(refused.contains("run/changes"), "{refused}");
        assert!(!paths[0].exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_long_journal_is_written_anew_without_what_is_undone() {
        let (folder, paths) = scratch("long");
        let mut journal = begun(&paths);
        let kept = journal.intend(&change(2)).unwrap();
        let large = Change::Table(Table::new(&"x".repeat(10_000)));
        for _ in 0..30 {
            let n = journal.intend(&large).unwrap();
            journal.undone(n);
        }
        assert!(paths.iter().all(|path| fs::metadata(path).unwrap().len() < 2 * LARGE));
        assert_eq!(reopened(&paths).unwrap().contents().live, [(kept, change(2))].into());
        fs::remove_dir_all(folder).unwrap();
    }
}
