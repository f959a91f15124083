//! Where the daemon of a network namespace keeps its journal, its locks and its socket: folders that systemd names in the
//! environment, else the system's for root and the user's own for others. One daemon a namespace, whatever its name.
//!
//! Journal and lock are in both folders, a copy each: whatever happens to one folder (full, read-only, damaged, removed), the other
//! still says what was changed and whether a daemon lives.

use super::journal::Here;
use crate::clock::Clock;
use crate::sys::netns;
use headstart_core::time::Duration;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The folders of root's daemon.
const SYSTEM: [&str; 2] = ["/var/lib/headstart", "/run/headstart"];

/// How often the lock is looked at before it counts as taken, and how long between two looks. Ours.
const LOOKS: u32 = 10;
/// See [`LOOKS`].
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The folders of a daemon.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Whose changes are kept here.
    pub here: Here,
    /// For the journal.
    pub state: PathBuf,
    /// For the socket.
    pub runtime: PathBuf,
}

/// Why folders are of no use.
#[derive(Debug, thiserror::Error)]
pub enum FoldersError {
    /// A folder or a file could not be made.
    #[error("{path}: {source}; {advice}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// Another user may write there.
    #[error(
        "{path} is writable by other users, or belongs to one: chmod and chown it, or set STATE_DIRECTORY to another folder"
    )]
    Shared {
        /// Which.
        path: PathBuf,
    },
    /// The kernel tells neither its boot nor its namespaces.
    #[error("cannot identify the boot and network namespace: {0}")]
    Unknown(io::Error),
}

impl FoldersError {
    /// Whether a right is missing.
    pub fn is_not_permitted(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::File { source, .. } => matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem),
            Self::Shared { .. } => true,
            Self::Unknown(_) => false,
        }
    }
}

const ADVICE: &str = "set STATE_DIRECTORY (and RUNTIME_DIRECTORY) to a writable folder";

impl Folders {
    /// Those of the calling thread's network namespace.
    pub fn of_host() -> Result<Self, FoldersError> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(FoldersError::Unknown)?;
        let here = Here { boot: boot.trim().to_owned(), netns: netns::own_cookie().map_err(FoldersError::Unknown)? };
        let [state, runtime] = SYSTEM.map(PathBuf::from);
        let root = rustix::process::geteuid().is_root();
        let home = || variable("HOME").unwrap_or_else(|| "/".into());
        let own_state = || variable("XDG_STATE_HOME").unwrap_or_else(|| home().join(".local/state")).join("headstart");
        let state = variable("STATE_DIRECTORY").unwrap_or_else(|| if root { state } else { own_state() });
        let own_runtime = || variable("XDG_RUNTIME_DIR").map_or_else(|| state.clone(), |dir| dir.join("headstart"));
        let runtime = variable("RUNTIME_DIRECTORY").unwrap_or_else(|| if root { runtime } else { own_runtime() });
        Ok(Self { here, state, runtime })
    }

    /// Makes the folders.
    pub fn prepare(&self) -> Result<(), FoldersError> {
        self.folders(true)
    }

    /// Prepares the folders for undoing changes: folders that cannot be made are left out, but one that others can write to is
    /// never read.
    pub fn prepare_to_undo(&self) -> Result<(), FoldersError> {
        self.folders(false)
    }

    fn folders(&self, both: bool) -> Result<(), FoldersError> {
        for (path, mode) in [(&self.state, 0o700), (&self.runtime, 0o755)] {
            let failed = |source| FoldersError::File { path: path.clone(), source, advice: ADVICE };
            match DirBuilder::new().recursive(true).mode(mode).create(path) {
                Err(_) if !both && !path.exists() => continue,
                made => made.map_err(failed)?,
            }
            if both {
                // Said here, where there is advice, and before anything is opened.
                use rustix::fs::{Access, AtFlags, CWD, accessat};
                accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).map_err(|e| failed(e.into()))?;
            }
            let meta = fs::metadata(path).map_err(failed)?;
            let user = rustix::process::geteuid();
            // Root may look after the folder of a daemon that runs as another user (systemd's DynamicUser).
            if meta.mode() & 0o022 != 0 || (meta.uid() != user.as_raw() && !user.is_root()) {
                return Err(FoldersError::Shared { path: path.clone() });
            }
        }
        Ok(())
    }

    /// The two copies of the journal.
    pub fn journal(&self) -> [PathBuf; 2] {
        let name = format!("changes-{}", self.here.netns);
        // The folders may be one.
        [self.state.join(&name), self.runtime.join(name + ".copy")]
    }

    /// The socket of the daemon.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join(format!("control-{}", self.here.netns))
    }

    /// Where a client may find the daemon's socket, the likeliest first.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let system = Path::new(SYSTEM[1]).join(format!("control-{}", self.here.netns));
        let mut all = vec![self.socket(), system];
        all.dedup();
        all
    }

    /// Removes the sockets that daemons of other network namespaces have left behind when they were killed. One in whose place another may be
    /// starting stays: it has the lock by then.
    pub fn sweep(&self) {
        let entries = fs::read_dir(&self.runtime).into_iter().flatten().flatten();
        let is_socket = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
        let numbers = entries.filter(is_socket).filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix("control-")?.parse().ok()
        });
        for netns in numbers.filter(|netns| *netns != self.here.netns) {
            let other = Self { here: Here { netns, ..self.here.clone() }, ..self.clone() };
            if is_dead(&other.socket())
                && let Ok(Ok(_lock)) = other.lock()
                && is_dead(&other.socket())
            {
                let _ = fs::remove_file(other.socket());
            }
        }
    }

    fn lock_paths(&self) -> Vec<PathBuf> {
        let mut all: Vec<_> =
            [&self.state, &self.runtime].map(|folder| folder.join(format!("lock-{}", self.here.netns))).into();
        all.dedup();
        all
    }

    /// Takes the locks that a daemon holds as long as it lives, and notes the holder; the holder's process if one is taken. A
    /// folder that takes no lock does not matter as long as the other does.
    pub fn lock(&self) -> Result<Result<Lock, Option<u32>>, FoldersError> {
        let (mut files, mut refused) = (Vec::new(), None);
        for path in self.lock_paths() {
            let failed = |source| FoldersError::File { path: path.clone(), source, advice: ADVICE };
            let mut file = match lock_file(&path) {
                Ok(file) => file,
                Err(why) => {
                    refused.get_or_insert(failed(why));
                    continue;
                }
            };
            if !taken(&file).map_err(failed)? {
                return Ok(Err(holder(&mut file)));
            }
            files.push(file);
        }
        let mut files = files.into_iter();
        let Some(first) = files.next() else {
            return Err(refused.unwrap_or(FoldersError::Unknown(io::Error::other("no folder for a lock"))));
        };
        let lock = Lock { first, second: files.next() };
        lock.note_holder();
        Ok(Ok(lock))
    }

    /// Whether a daemon holds a lock; none if that cannot be seen.
    pub fn is_locked(&self) -> Option<bool> {
        let files = self.lock_paths().into_iter().filter_map(|path| File::open(path).ok());
        let held = files.map(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err());
        held.reduce(|one, other| one || other)
    }

    /// Whether a copy of the journal is there; none if that cannot be seen.
    pub fn has_journal(&self) -> Option<bool> {
        let [one, other] = self.journal().map(|path| path.try_exists().ok());
        if one == Some(true) || other == Some(true) { Some(true) } else { one.and(other) }
    }
}

/// The right to be the daemon of a namespace, or to undo what a dead one has left: held until this is dropped, and by whatever
/// inherits its files.
#[derive(Debug)]
pub struct Lock {
    first: File,
    second: Option<File>,
}

impl Lock {
    /// One of its files: a child that has it keeps the lock.
    pub fn file(&self) -> &File {
        &self.first
    }

    /// Notes that this process holds it.
    pub fn note_holder(&self) {
        for file in [Some(&self.first), self.second.as_ref()].into_iter().flatten() {
            // For messages alone; a full disk is no reason to have no lock.
            let _ = note_holder(file, std::process::id());
        }
    }
}

/// Whether no process listens on a socket.
fn is_dead(socket: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let client = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (Ok(client), Ok(address)) = (client, SocketAddrUnix::new(socket)) else { return false };
    connect(client, &address) == Err(Errno::CONNREFUSED)
}

/// Opens a file to be locked, made if it is not there. Where nothing can be written, it is enough to read it.
fn lock_file(path: &Path) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let made = options.custom_flags(no_follow).open(path);
    made.or_else(|why| OpenOptions::new().read(true).custom_flags(no_follow).open(path).map_err(|_| why))
}

/// Whether the lock was free, and is ours now.
fn taken(file: &File) -> io::Result<bool> {
    let clock = Clock::new();
    for _ in 0..LOOKS {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            // Another process may only be checking whether it is taken, or finishing what a killed daemon began.
            Err(rustix::io::Errno::WOULDBLOCK) => clock.sleep(BETWEEN_LOOKS),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(false)
}

fn note_holder(mut file: &File, pid: u32) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{pid}\n").as_bytes())
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::door::Door;

    #[test]
    fn sockets_of_dead_daemons_of_other_namespaces_are_removed_and_nothing_else_is() {
        let folder = std::env::temp_dir().join(format!("hs-sweep-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let of =
            |netns| Folders { here: Here { boot: "x".into(), netns }, state: folder.clone(), runtime: folder.clone() };
        let [own, dead, alive, starting] = [1, 2, 3, 4].map(of);
        // A door that is dropped is that of a daemon that was killed: the socket stays.
        let doors = [&own, &dead, &alive, &starting].map(|folders| Door::open(&folders.socket(), None).unwrap());
        let living = doors.into_iter().nth(2);
        let _lock = starting.lock().unwrap().expect("it is free");
        fs::write(folder.join("control-5"), "precious").unwrap();
        fs::write(folder.join("control-x"), "precious").unwrap();
        own.sweep();
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.retain(|name| name.to_string_lossy().starts_with("control-"));
        left.sort_unstable();
        assert_eq!(left, ["control-1", "control-3", "control-4", "control-5", "control-x"]);
        drop(living);
        fs::remove_dir_all(folder).unwrap();
    }
}
