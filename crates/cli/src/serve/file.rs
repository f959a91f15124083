//! A file that is served, as it was when it was opened, and the tag that tells it from what it was before.

use rustix::fs::Stat;
use std::borrow::Cow;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The last second that a date of HTTP can say: the end of the year 9999.
const LAST_DATE: u64 = 253_402_300_799;

/// A file to be read.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The file.
    pub file: Arc<File>,
    /// Its length in bytes when it was opened.
    pub length: u64,
    /// When it was changed last.
    pub modified: SystemTime,
    /// A strong entity tag (RFC 9110, section 8.8.3), with its quotes.
    pub tag: String,
    /// Its content type.
    pub kind: Cow<'static, str>,
}

impl Opened {
    /// The file that was opened, with its state and its content type.
    pub fn of(opened: OwnedFd, stat: &Stat, kind: Cow<'static, str>) -> Self {
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        let seconds = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0).min(LAST_DATE));
        // The last change of all that is known of it, too: copies are given old times, and inodes are used again. What is changed
        // twice within a tick of the file system's clock keeps its tag; its length mostly differs.
        let changed = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
        let tag =
            format!("\"{:x}-{length:x}-{:x}.{:x}-{:x}.{:x}\"", stat.st_ino, changed.0, changed.1, changed.2, changed.3);
        Self { file: Arc::new(File::from(opened)), length, modified: SystemTime::UNIX_EPOCH + seconds, tag, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_changes_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let tag = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let opened = OwnedFd::from(File::open(&path).unwrap());
            let stat = rustix::fs::fstat(&opened).unwrap();
            Opened::of(opened, &stat, "text/plain".into()).tag
        };
        assert_ne!(tag("one"), tag("three"));
    }
}
