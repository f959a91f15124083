//! The file to which a line is added for each connection and lookup. A full disk stops no connection; how many lines are missing, and
//! why, is a problem that the daemon's status tells.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What is missing: shared with the code that reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing(Arc<Mutex<Option<(u64, String)>>>);

impl Missing {
    /// A line that could not be written.
    fn one_more(&self, why: &io::Error) {
        let mut missing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = missing.as_ref().map_or(0, |(lines, _)| *lines);
        *missing = Some((before + 1, why.to_string()));
    }

    /// In words, if something is missing.
    pub fn problem(&self, file: &Path) -> Option<String> {
        let missing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (lines, why) = missing.as_ref()?;
        let lines = if *lines == 1 { "1 line is".to_owned() } else { format!("{lines} lines are") };
        Some(format!("{}: {lines} missing: {why}", file.display()))
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Lines {
    file: File,
    /// The last line may have been written in part.
    is_torn: bool,
    missing: Missing,
}

impl Lines {
    /// Opens it to add to what is there.
    pub fn open(path: &Path, missing: Missing) -> io::Result<Self> {
        // A pipe that nothing reads from, or no longer, is an error and not waited for: the daemon has more to do.
        let nonblocking = libc::O_NONBLOCK;
        let file = OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(nonblocking).open(path)?;
        Ok(Self { file, is_torn: false, missing })
    }

    /// Adds a line, by one call. Behind a part of one a new one is started, so that it can be read.
    pub fn add(&mut self, line: &str) {
        let before = if self.is_torn { "\n" } else { "" };
        let written = self.file.write_all(format!("{before}{line}\n").as_bytes());
        self.is_torn = written.is_err();
        if let Err(why) = written {
            self.missing.one_more(&why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_not_waited_for_and_what_it_does_not_take_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, missing) = (folder.path().join("pipe"), Missing::default());
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        let alone = Lines::open(&pipe, missing.clone()).unwrap_err();
        assert_eq!(alone.raw_os_error(), Some(libc::ENXIO));
        let _reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
        let mut lines = Lines::open(&pipe, missing.clone()).unwrap();
        // More than a pipe holds.
        (0..100_000).for_each(|_| lines.add("a line"));
        assert!(missing.problem(&pipe).unwrap().contains("lines are missing"));
    }

    #[test]
    fn lines_that_a_full_disk_did_not_take_are_counted_and_those_behind_them_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let (path, missing) = (folder.path().join("lines"), Missing::default());
        let mut lines = Lines::open(Path::new("/dev/full"), missing.clone()).unwrap();
        assert_eq!(missing.problem(&path), None);
        lines.add("one");
        assert!(missing.problem(&path).unwrap().contains("lines: 1 line is missing: No space left on device"));
        lines.add("two");
        assert!(missing.problem(&path).unwrap().contains("lines: 2 lines are missing"));
        // There is room again, and part of a line was written.
        std::fs::write(&path, "tw").unwrap();
        lines.file = OpenOptions::new().append(true).open(&path).unwrap();
        lines.add("three");
        lines.add("four");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "tw\nthree\nfour\n");
    }
}
