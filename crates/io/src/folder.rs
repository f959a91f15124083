//! The folder of one run: the supervisor's socket, the filter of known addresses, and a file that every program of the run
//! has mapped, by which the kernel knows whether any is left. It is 0700, belongs to one user, and is gone after the run;
//! what a killed run left is swept by the next one. Beside it, in the folder of all runs of the user, lies the preloaded
//! library, once for all of them: the last run to leave removes it, unless a program still has it mapped.

use crate::sys::lease::is_used_elsewhere;
use headstart_core::wire::shim::{MAPPED_BYTES, MOUNTS_AT};
use rustix::fs::{FlockOperation, Mode, StatVfsMountFlags, flock, mkdir, statvfs};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What names of supervisors' folders begin with (see [`crate::home`]).
pub(crate) const HOME: &str = "user-";
/// What names of runs' folders begin with.
const RUN: &str = "run-";
/// What names of libraries begin with; the rest says which one it is.
const LIBRARY: &str = "libheadstart-";
const SOCKET: &str = "socket";
const FILTER: &str = "filter";
const USED: &str = "used";
pub(crate) const LOCK: &str = "lock";
/// Runs of the same process number at once; each is in a PID namespace of its own.
const MAX_NAMESAKES: u32 = 1000;
/// Connections of libraries that may wait to be accepted.
const BACKLOG: i32 = 512;

/// A library to be preloaded.
#[derive(Clone, Copy, Debug)]
pub struct Library<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What no other bytes have: it becomes part of a file name.
    pub id: &'a str,
}

/// The folder of a run, removed when dropped unless a program of it goes on.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    library: PathBuf,
    lock: File,
}

/// Why there is no folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// No place was found that is the user's own and allows libraries to be loaded.
    #[error(
        "no folder for the preloaded library: tried {tried}; set XDG_RUNTIME_DIR to a folder of your own that is not \
         mounted noexec and has neither spaces nor colons in its path"
    )]
    NoPlace {
        /// What was tried, and what was wrong with it.
        tried: String,
    },
    /// A supervisor lives there with which nothing can be done.
    #[error("the supervisor in {path} {why}")]
    Occupied {
        /// Its folder.
        path: PathBuf,
        /// What it is or does.
        why: &'static str,
    },
    /// A file in it could not be written.
    #[error("{path} could not be written: {source}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Folder {
    /// Makes a folder, with `library` beside it, after sweeping what dead runs left.
    pub fn create(library: Library<'_>) -> Result<Self, FolderError> {
        let mut tried = Vec::new();
        let mut places = places();
        if for_others() != 0 {
            places.sort_by_key(|place| !is_open_to_others(place));
        }
        for place in places {
            match Self::create_in(&place, library) {
                Ok(folder) => return Ok(folder),
                Err(e) => tried.push(format!("{} ({e})", place.display())),
            }
        }
        Err(FolderError::NoPlace { tried: tried.join(", ") })
    }

    fn create_in(place: &Path, library: Library<'_>) -> io::Result<Self> {
        suitable(place)?;
        let parent = common(place);
        let _gate = enter(&parent)?;
        sweep(&parent);
        let path = fresh(&parent)?;
        let lock = private(&path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        private(&path.join(USED))?;
        let filter = private(&path.join(FILTER))?;
        filter.set_len(MAPPED_BYTES as u64)?;
        // Where this cannot be told, the libraries leave names to the C library.
        let mounts = fs::metadata("/proc/self/ns/mnt").map_or(0, |namespace| namespace.ino());
        filter.write_all_at(&mounts.to_ne_bytes(), MOUNTS_AT as u64)?;
        Ok(Self { path, library: put(library, &parent)?, lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the library, for LD_PRELOAD.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Path of the supervisor's socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// Listens on the socket, for the libraries of the run's programs.
    pub fn listen(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new(self.socket())?)?;
        // The folder is private already; so is the socket, in case it is moved.
        rustix::fs::chmod(self.socket(), Mode::RUSR | Mode::WUSR)?;
        listen(&listener, BACKLOG)?;
        Ok(listener)
    }

    /// Opens the filter for writing.
    pub fn filter(&self) -> Result<File, FolderError> {
        let path = self.path.join(FILTER);
        OpenOptions::new().write(true).open(&path).map_err(|source| FolderError::Write { path, source })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What outlives the run is still served.
        if !is_mapped_anywhere(&self.path.join(USED)) {
            leave(&self.path, &self.lock);
        }
    }
}

/// The folder of all runs and supervisors of this user in `place`.
pub(crate) fn common(place: &Path) -> PathBuf {
    common_of(place, rustix::process::getuid().as_raw())
}

fn common_of(place: &Path, user: u32) -> PathBuf {
    place.join(format!("headstart-{user}"))
}

/// The file of `library` in `parent`, whose gate is held: the first to need it writes it.
fn put(library: Library<'_>, parent: &Path) -> io::Result<PathBuf> {
    let path = parent.join(format!("{LIBRARY}{}.so", library.id));
    let whole =
        fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() == library.bytes.len() as u64);
    if !whole {
        // A process that is killed meanwhile leaves nothing that could be taken for the library.
        let half = parent.join(format!("{LIBRARY}half"));
        let _ = fs::remove_file(&half);
        private(&half)?.write_all(library.bytes)?;
        fs::rename(half, &path)?;
    }
    if for_others() != 0 {
        fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    }
    Ok(path)
}

/// Removes the folder at `path` whose lock this is. Does nothing if it was already removed (as the end of a session does with
/// XDG_RUNTIME_DIR): another process owns what is there now.
pub(crate) fn leave(path: &Path, lock: &File) {
    let Some(parent) = path.parent() else { return };
    let gate = enter(parent);
    let there = fs::metadata(path.join(LOCK));
    if there.and_then(|there| Ok((there.dev(), there.ino()) == number(lock)?)).unwrap_or(false) {
        remove(path);
    }
    if gate.is_ok() {
        vacate(parent);
    }
}

/// Which file it is.
fn number(file: &File) -> io::Result<(u64, u64)> {
    let about = file.metadata()?;
    Ok((about.dev(), about.ino()))
}

/// Removes what runs and supervisors left that could not do so themselves: killed ones, as all are whose PID namespace ends.
/// For a caller that had them in namespaces of its own, where they may have been user 0.
pub fn sweep_after() {
    places().iter().for_each(|place| sweep_after_in(place));
}

fn sweep_after_in(place: &Path) {
    let users = [rustix::process::getuid().as_raw(), 0];
    for parent in users.map(|user| common_of(place, user)) {
        // A missing folder is not created; another user's folder has no gate for us.
        if parent.is_dir()
            && let Ok(_gate) = enter(&parent)
        {
            sweep(&parent);
            vacate(&parent);
        }
    }
}

/// Removes the common folder `parent`, whose gate is held, if no run needs it.
fn vacate(parent: &Path) {
    // The last run to leave does so, if all that is left are libraries that no program has mapped, and the gate. A
    // program that outlives its run may start others, whose loader would complain about a library that is gone.
    let left = || fs::read_dir(parent).into_iter().flatten().flatten();
    let is_library = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(LIBRARY.as_bytes());
    if left().any(|entry| !is_library(&entry.file_name()) && entry.file_name() != LOCK) {
        return;
    }
    let libraries = left().filter(|entry| is_library(&entry.file_name())).map(|entry| entry.path());
    libraries.filter(|library| !is_mapped_anywhere(library)).for_each(|library| _ = fs::remove_file(library));
    if left().count() == 1 {
        remove(parent);
    }
}

/// Makes the folder of this run in `parent`. Its name is not always that of the process: another PID namespace may have
/// one of that number, and so may a program that outlived an earlier run.
fn fresh(parent: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    for n in 0..MAX_NAMESAKES {
        let name = if n == 0 { format!("{RUN}{pid}") } else { format!("{RUN}{pid}-{n}") };
        let path = parent.join(name);
        // The address of a socket has room for 108 bytes (unix(7)).
        SocketAddrUnix::new(path.join(SOCKET)).map_err(|_| io::Error::other("path too long for a socket"))?;
        match mkdir(&path, Mode::RWXU) {
            Ok(()) => return Ok(path),
            Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(io::Error::other(format!("{} is full of folders of processes {pid}", parent.display())))
}

/// What others than the user may do with the common folder: nothing, or pass through it to the library. What root starts may become
/// another user and start programs, whose loader would complain about a library that it cannot read.
fn for_others() -> u32 {
    if rustix::process::geteuid().is_root() { 0o011 } else { 0 }
}

/// Whether others than its owner may pass through a folder and those that it is in.
fn is_open_to_others(place: &Path) -> bool {
    place.ancestors().all(|folder| fs::metadata(folder).is_ok_and(|meta| meta.mode() & 0o001 != 0))
}

/// Makes `parent` if need be and takes its gate. While it is held no other process sweeps, makes or removes folders in there,
/// so none is ever seen half made.
pub(crate) fn enter(parent: &Path) -> io::Result<File> {
    loop {
        match mkdir(parent, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
        let meta = match fs::symlink_metadata(parent) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        if !meta.is_dir()
            || meta.uid() != rustix::process::getuid().as_raw()
            || meta.mode() & 0o077 & !for_others() != 0
        {
            return Err(io::Error::other(format!("{} is not a private folder of this user", parent.display())));
        }
        let gate = match private(&parent.join(LOCK)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        flock(&gate, FlockOperation::LockExclusive)?;
        // The previous holder may have removed it, and the folder with it.
        if gate.metadata()?.nlink() > 0 {
            if meta.mode() & 0o077 != for_others() {
                fs::set_permissions(parent, Permissions::from_mode(0o700 | for_others()))?;
            }
            return Ok(gate);
        }
    }
}

/// Where the folder may be, best first.
pub(crate) fn places() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = variable("HOME").map(|h| h.join(".cache"));
    let places =
        [variable("XDG_RUNTIME_DIR"), Some("/dev/shm".into()), Some("/tmp".into()), variable("XDG_CACHE_HOME"), home];
    places.into_iter().flatten().collect()
}

/// Whether a supervisor may live in `place`.
pub(crate) fn usable(place: &Path) -> io::Result<()> {
    if place.is_absolute() { Ok(()) } else { Err(io::Error::other("path is not absolute")) }
}

/// Whether the folder of a run may be in `place`.
fn suitable(place: &Path) -> io::Result<()> {
    usable(place)?;
    let text = place.to_str().ok_or_else(|| io::Error::other("path is not UTF-8"))?;
    if text.contains([' ', ':', ';', '$', '%']) {
        // ld.so(8) splits LD_PRELOAD at spaces and colons and expands $ and %.
        return Err(io::Error::other("path cannot be used in LD_PRELOAD"));
    }
    if statvfs(place)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::other("mounted noexec"));
    }
    Ok(())
}

pub(crate) fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Removes the folders of runs and supervisors whose process is gone, and of whose programs none is left. The gate is held.
pub(crate) fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let lock = match File::open(path.join(LOCK)) {
            Ok(lock) => lock,
            Err(why) => {
                // Killed before it had made its lock, or after it had removed it: while the gate is held none is being made.
                let is_half = why.kind() == io::ErrorKind::NotFound && is_ours(&entry);
                if is_half && !is_mapped_anywhere(&path.join(USED)) {
                    remove(&path);
                }
                continue;
            }
        };
        if path.is_dir()
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            && !is_mapped_anywhere(&path.join(USED))
        {
            remove(&path);
        }
    }
}

/// Whether this is the folder of a run or of a supervisor, by its name.
fn is_ours(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    [RUN, HOME].iter().any(|kind| name.as_encoded_bytes().starts_with(kind.as_bytes()))
        && entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Removes the folder of a run or a supervisor, the lock last: what is removed by half can be swept.
pub(crate) fn remove(path: &Path) {
    // What is not there need not be removed; what cannot be, is left for the next sweep.
    for file in [SOCKET, FILTER, USED] {
        let _ = fs::remove_file(path.join(file));
    }
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(HOME.as_bytes())) {
        // The name of a supervisor's socket tells its version.
        for entry in fs::read_dir(path).into_iter().flatten().flatten().filter(|entry| entry.file_name() != LOCK) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_file(path.join(LOCK));
    let _ = fs::remove_dir(path);
}

/// Whether a process has `file` mapped: the kernel knows; where it will not say, /proc is searched for processes of
/// this user (all, for root).
fn is_mapped_anywhere(path: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return false };
    if let Ok(used) = is_used_elsewhere(&file) {
        return used;
    }
    let Some(path) = path.to_str() else { return false };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes.filter(|p| p.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
    numbered.map(|p| p.path().join("maps")).any(|maps| fs::read_to_string(maps).is_ok_and(|m| m.contains(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Library<'_> = Library { bytes: b"library", id: "1" };

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("headstart-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_folder_is_private_complete_and_gone_afterwards() {
        let place = scratch("folder");
        let folder = Folder::create_in(&place, OURS).unwrap();
        let mode = |p: &Path| fs::metadata(p).unwrap().mode() & 0o777;
        // Others may read the library of root, which starts programs of theirs, and nothing else.
        let library = if for_others() == 0 { 0o600 } else { 0o644 };
        assert_eq!((mode(folder.path()), mode(folder.library())), (0o700, library));
        assert_eq!(mode(folder.path().parent().unwrap()), 0o700 | for_others());
        assert_eq!(fs::read(folder.library()).unwrap(), b"library");
        assert_eq!(fs::metadata(folder.path().join(FILTER)).unwrap().len(), MAPPED_BYTES as u64);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists() && !path.parent().unwrap().exists(), "not even the common folder is left");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn runs_of_the_same_process_number_have_folders_of_their_own() {
        let place = scratch("namesakes");
        let (one, other) = (Folder::create_in(&place, OURS).unwrap(), Folder::create_in(&place, OURS).unwrap());
        assert!(one.path() != other.path() && one.library() == other.library());
        drop(one);
        assert_eq!(fs::read(other.library()).unwrap(), b"library");
        drop(other);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_library_stays_while_a_program_has_it_mapped_and_another_one_never_takes_its_place() {
        let place = scratch("mapped");
        let folder = Folder::create_in(&place, OURS).unwrap();
        let library = folder.library().to_owned();
        let parent = library.parent().unwrap().to_owned();
        // What a killed run had begun to write.
        fs::write(parent.join(format!("{LIBRARY}half")), b"li").unwrap();
        let newer = Folder::create_in(&place, Library { bytes: b"newer", id: "2" }).unwrap();
        assert_eq!(
            (fs::read(&library).unwrap(), fs::read(newer.library()).unwrap()),
            (b"library".into(), b"newer".into())
        );
        let in_use = File::open(&library).unwrap();
        drop((folder, newer));
        if is_used_elsewhere(&OpenOptions::new().read(true).write(true).open(&library).unwrap()).is_ok() {
            assert_eq!(fs::read_dir(&parent).unwrap().count(), 2, "the gate and the library that is in use");
        }
        drop(in_use);
        // A torn one is written anew.
        fs::write(&library, b"lib").unwrap();
        let next = Folder::create_in(&place, OURS).unwrap();
        assert_eq!(fs::read(next.library()).unwrap(), b"library");
        drop(next);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        let place = scratch("long").join("x".repeat(100));
        fs::create_dir_all(&place).unwrap();
        assert!(Folder::create_in(&place, OURS).unwrap_err().to_string().contains("too long"));
        fs::remove_dir_all(place.parent().unwrap()).unwrap();
    }

    #[test]
    fn the_next_run_sweeps_what_a_killed_one_left_and_nothing_that_lives() {
        let place = scratch("sweep");
        let alive = Folder::create_in(&place, OURS).unwrap();
        let parent = alive.path().parent().unwrap().to_owned();
        let dead = parent.join("run-dead");
        fs::create_dir(&dead).unwrap();
        for file in [SOCKET, FILTER, USED, LOCK] {
            fs::write(dead.join(file), b"left over").unwrap();
        }
        // Killed before they had a lock, or after they had removed it.
        let halves = ["run-8", "run-8-1", "user-8-0"].map(|name| parent.join(name));
        halves.iter().for_each(|half| fs::create_dir(half).unwrap());
        fs::write(halves[1].join(USED), b"").unwrap();
        fs::create_dir(parent.join("others")).unwrap();
        sweep(&parent);
        assert!(!dead.exists() && alive.path().exists());
        assert!(halves.iter().all(|half| !half.exists()) && parent.join("others").exists());
        fs::remove_dir(parent.join("others")).unwrap();
        drop(alive);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn whoever_had_them_in_namespaces_sweeps_what_died_there_with_the_library_and_the_common_folder() {
        let place = scratch("after");
        sweep_after_in(&place);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "nothing is made where nothing was");
        let mut left = Vec::new();
        for name in ["run-7", "user-7"] {
            let folder = Folder::create_in(&place, OURS).unwrap();
            let parent = folder.path().parent().unwrap().to_owned();
            fs::create_dir(parent.join(name)).unwrap();
            fs::write(parent.join(name).join(LOCK), b"").unwrap();
            fs::write(parent.join(name).join(USED), b"").unwrap();
            left.push((folder, parent));
        }
        let (alive, parent) = left.pop().unwrap();
        sweep_after_in(&place);
        assert!(alive.path().exists() && alive.library().exists(), "who lives is left alone");
        assert!(!parent.join("run-7").exists() && !parent.join("user-7").exists());
        // As kill -9 leaves them: no lock is held, and everything is there.
        for (folder, _) in left.into_iter().chain([(alive, parent)]) {
            let path = folder.path().to_owned();
            drop(folder);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(LOCK), b"").unwrap();
            fs::write(path.parent().unwrap().join(format!("{LIBRARY}1.so")), b"library").unwrap();
        }
        sweep_after_in(&place);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "neither library nor common folder is left");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn places_that_the_loader_cannot_be_told_are_refused() {
        for bad in ["relative", "/tmp/with space", "/tmp/with:colon", "/nonexistent/folder"] {
            assert!(suitable(Path::new(bad)).is_err(), "{bad}");
        }
        assert!(suitable(Path::new("/proc")).is_err() || suitable(&std::env::temp_dir()).is_ok());
    }
}
