//! The folder in which programs' files are made: private, and gone when it is dropped. What a killed lab left is swept by
//! the next one: a folder that nobody has locked and that is older than any that is just being made.

use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "headstart-lab-";
/// Folders at once, those of other users and those left behind included.
const MOST: u32 = 1000;
/// Seconds after which a folder without a lock is no longer one that is just being made.
const ABANDONED: i64 = 60;

/// A private folder; removed with all that is in it when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Held as long as the folder is in use.
    _lock: File,
}

impl Folder {
    /// Makes one among the host's temporary files (TMPDIR).
    pub fn new() -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    /// Makes one there.
    pub fn new_in(place: &Path) -> io::Result<Self> {
        for n in 0..MOST {
            let path = place.join(format!("{PREFIX}{n}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let lock = open(&path)?;
                    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
                    sweep(place, &lock)?;
                    return Ok(Self { path, _lock: lock });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
            }
        }
        let what = format!("{} has {MOST} folders {PREFIX}*: remove those of no running lab", place.display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
    }

    /// A folder of its own within this one, for the program called `name`.
    pub fn of(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next lab.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A folder itself, not one that a link points to.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Removes what dead labs of this user left.
fn sweep(place: &Path, own: &File) -> io::Result<()> {
    let own = own.metadata()?;
    for entry in fs::read_dir(place)?.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Whatever cannot be looked at, or is gone meanwhile, is not ours to remove.
        let Ok(folder) = open(&entry.path()) else { continue };
        let Ok(about) = folder.metadata() else { continue };
        let abandoned = about.uid() == own.uid() && about.ctime() + ABANDONED < own.ctime();
        if abandoned && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_at_once_are_apart_private_and_gone_when_dropped() {
        let place = tempfile::tempdir().unwrap();
        let (a, b) = (Folder::new_in(place.path()).unwrap(), Folder::new_in(place.path()).unwrap());
        assert_ne!(a.path(), b.path());
        assert_eq!(fs::metadata(a.path()).unwrap().mode() & 0o777, 0o700);
        fs::write(a.of("curl").unwrap().join("script"), "x").unwrap();
        drop(a);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        drop(b);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_just_being_made_is_not_swept() {
        let place = tempfile::tempdir().unwrap();
        let fresh = place.path().join(format!("{PREFIX}7"));
        fs::create_dir(&fresh).unwrap();
        drop(Folder::new_in(place.path()).unwrap());
        assert!(fresh.exists());
    }
}
