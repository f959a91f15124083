//! Where the daemon of a network namespace keeps its journal, its lock and its socket: folders that systemd names in the
//! environment, else the system's for root and the user's own for others. One daemon a namespace, whatever its name.

use super::journal::Here;
use crate::clock::Clock;
use crate::sys::netns;
use headstart_core::time::Duration;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The folders of root's daemon.
const SYSTEM: [&str; 2] = ["/var/lib/headstart", "/run/headstart"];

/// How often the lock is looked at before it counts as taken, and how long between two looks. Ours.
const LOOKS: u32 = 10;
/// See [`LOOKS`].
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The folders of a daemon.
#[derive(Clone, Debug)]
pub struct Place {
    /// Whose changes are kept here.
    pub here: Here,
    /// For the journal.
    pub state: PathBuf,
    /// For the socket.
    pub runtime: PathBuf,
}

/// Why a place is of no use.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
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
    /// Somebody else may write there.
    #[error(
        "{path} can be written by others than its owner, or is another user's: chmod and chown it, or name another folder in STATE_DIRECTORY"
    )]
    Shared {
        /// Which.
        path: PathBuf,
    },
    /// The kernel tells neither its boot nor its namespaces.
    #[error("what boot and network namespace this is cannot be told: {0}")]
    Unknown(io::Error),
}

impl PlaceError {
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

const ADVICE: &str = "name a folder that can be written in STATE_DIRECTORY (and RUNTIME_DIRECTORY)";

impl Place {
    /// The place of the calling thread's network namespace.
    pub fn of_host() -> Result<Self, PlaceError> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(PlaceError::Unknown)?;
        let here = Here { boot: boot.trim().to_owned(), netns: netns::own_cookie().map_err(PlaceError::Unknown)? };
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
    pub fn prepare(&self) -> Result<(), PlaceError> {
        for (path, mode) in [(&self.state, 0o700), (&self.runtime, 0o755)] {
            let failed = |source| PlaceError::File { path: path.clone(), source, advice: ADVICE };
            DirBuilder::new().recursive(true).mode(mode).create(path).map_err(failed)?;
            let meta = fs::metadata(path).map_err(failed)?;
            let user = rustix::process::geteuid();
            // Root may look after the folder of a daemon that runs as somebody else (systemd's DynamicUser).
            if meta.mode() & 0o022 != 0 || (meta.uid() != user.as_raw() && !user.is_root()) {
                return Err(PlaceError::Shared { path: path.clone() });
            }
        }
        Ok(())
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.state.join(format!("changes-{}", self.here.netns))
    }

    /// The socket of the daemon.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join(format!("control-{}", self.here.netns))
    }

    /// Where the daemon's socket may be for whoever asks, the likeliest first.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let system = Path::new(SYSTEM[1]).join(format!("control-{}", self.here.netns));
        let mut all = vec![self.socket(), system];
        all.dedup();
        all
    }

    fn lock_path(&self) -> PathBuf {
        self.state.join(format!("lock-{}", self.here.netns))
    }

    /// Takes the lock that a daemon holds as long as it lives, and notes who has it; the holder's process if it is taken.
    pub fn lock(&self) -> Result<Result<File, Option<u32>>, PlaceError> {
        let path = self.lock_path();
        let failed = |source| PlaceError::File { path: path.clone(), source, advice: ADVICE };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32).open(&path).map_err(failed)?;
        let clock = Clock::new();
        for round in 0.. {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                // Somebody may only have looked whether it is taken, or is finishing what a killed daemon began.
                Err(rustix::io::Errno::WOULDBLOCK) if round < LOOKS => clock.sleep(BETWEEN_LOOKS),
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Err(holder(&mut file))),
                Err(e) => return Err(failed(e.into())),
            }
        }
        // For messages alone; a full disk is no reason to have no lock.
        let _ = note_holder(&mut file, std::process::id());
        Ok(Ok(file))
    }

    /// Notes that another process holds the lock now.
    pub fn handed_on(lock: &mut File) {
        let _ = note_holder(lock, std::process::id());
    }

    /// Whether somebody holds the lock; none if that cannot be seen.
    pub fn is_locked(&self) -> Option<bool> {
        let file = File::open(self.lock_path()).ok()?;
        Some(flock(&file, FlockOperation::NonBlockingLockShared).is_err())
    }

    /// Whether a journal is there; none if that cannot be seen.
    pub fn has_journal(&self) -> Option<bool> {
        self.journal().try_exists().ok()
    }
}

fn note_holder(file: &mut File, pid: u32) -> io::Result<()> {
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
