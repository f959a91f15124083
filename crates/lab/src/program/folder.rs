//! The folder in which programs' files are made: private, and gone when it is dropped. A lab that was ended too early leaves an
//! unlocked folder, which is swept by the lab's caller if that had it in namespaces, or else by the next lab.

use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "headstart-lab-";
/// Folders at once, those of other users and those left behind included.
const MOST: u32 = 1000;
/// No name is used twice in a process: a supervisor may outlive the folder that it was at home in.
static NEXT: AtomicU32 = AtomicU32::new(0);

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
        for _ in 0..MOST {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("{PREFIX}{n}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    // Another sweep may have taken it for one that was left, until it is locked.
                    let Some(lock) = locked(&path)? else { continue };
                    sweep(place)?;
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

/// The folder at `path`, locked; nothing if it is gone or is being removed.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let folder = match open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let is_ours = flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok();
    let (about, there) = (folder.metadata()?, fs::symlink_metadata(path));
    let is_there = there.is_ok_and(|there| (there.dev(), there.ino()) == (about.dev(), about.ino()));
    Ok((is_ours && is_there).then_some(folder))
}

/// Removes what labs of this user left among the host's temporary files: for a caller that had one in namespaces, after its end.
pub fn sweep_after() {
    // What cannot be looked at or removed is for the next lab.
    let _ = sweep(&std::env::temp_dir());
}

/// Removes what dead labs of this user left.
fn sweep(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)?.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Whatever cannot be looked at, is in use, or is gone meanwhile, is not ours to remove.
        let path = entry.path();
        let is_own = fs::symlink_metadata(&path).is_ok_and(|about| about.uid() == rustix::process::geteuid().as_raw());
        if is_own && let Ok(Some(_lock)) = locked(&path) {
            let _ = fs::remove_dir_all(&path);
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
        let was = a.path().to_owned();
        drop(a);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        assert_ne!(Folder::new_in(place.path()).unwrap().path(), was);
        drop(b);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_left_is_swept_and_what_is_in_use_is_not() {
        let place = tempfile::tempdir().unwrap();
        let used = Folder::new_in(place.path()).unwrap();
        let left = place.path().join(format!("{PREFIX}7"));
        fs::create_dir_all(left.join("curl")).unwrap();
        sweep(place.path()).unwrap();
        assert!(!left.exists() && used.path().exists());
        fs::create_dir_all(left.join("curl")).unwrap();
        drop(Folder::new_in(place.path()).unwrap());
        assert!(!left.exists() && used.path().exists(), "the next lab sweeps too");
    }

    #[test]
    fn one_that_was_swept_before_it_was_locked_is_not_taken_for_ones_own() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(format!("{PREFIX}0"));
        assert!(locked(&path).unwrap().is_none(), "it is gone");
        fs::create_dir(&path).unwrap();
        let sweeper = locked(&path).unwrap();
        assert!(sweeper.is_some() && locked(&path).unwrap().is_none(), "it is being removed");
    }

    #[test]
    fn labs_that_begin_and_sweep_at_once_each_have_a_folder() {
        let place = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let folder = Folder::new_in(place.path()).unwrap();
                        fs::write(folder.of("curl").unwrap().join("script"), "x").unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
