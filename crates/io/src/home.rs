//! Where a user's supervisor is found: a private folder with its socket, one for each set of namespaces and each folder that
//! `HEADSTART_HISTORY` names. Two processes that see another network, other files or other process numbers never meet in one, nor do
//! two whose histories are to be apart.
//!
//! The lock in it is held as long as the supervisor lives, by the process that holds the descriptor, so that what a killed one
//! left is swept by the next run (see [`crate::folder`]).

use crate::folder::{FolderError, HOME, LOCK, common, enter, leave, places, private, remove, sweep, usable};
use rustix::fs::{FlockOperation, Mode, flock, mkdir};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of the socket, with the protocol's version: a supervisor of another version is not even connected to.
const SOCKET: &str = concat!("socket-", env!("CARGO_PKG_VERSION"), "-4");
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;
/// How long a supervisor may take to answer before it counts as stuck. It does nothing that takes a thousandth of it,
/// but the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// The folder of a supervisor; gone when dropped.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    lock: File,
}

/// Connects to the supervisor of this user in these namespaces with this history, if there is one.
pub fn find() -> Option<OwnedFd> {
    let name = name().ok()?;
    places().into_iter().find_map(|place| knock(&common(&place).join(&name)))
}

impl Home {
    /// Makes a home, with a socket on which the caller must listen; `Err(Ok(_))` if another process was faster.
    pub fn make() -> Result<(Self, OwnedFd), Result<OwnedFd, FolderError>> {
        let failed = |tried: String| Err(FolderError::NoPlace { tried });
        let name = name().map_err(|e| failed(format!("/proc/thread-self/ns ({e})")))?;
        let mut tried = Vec::new();
        for place in places() {
            match Self::make_in(&place, &name) {
                Ok(Made::Here(home, listener)) => return Ok((home, listener)),
                Ok(Made::Taken(connection)) => return Err(Ok(connection)),
                Ok(Made::Occupied(why)) => {
                    return Err(Err(FolderError::Occupied { path: common(&place).join(name), why }));
                }
                Err(e) => tried.push(format!("{} ({e})", place.display())),
            }
        }
        Err(failed(tried.join(", ")))
    }

    fn make_in(place: &Path, name: &str) -> io::Result<Made> {
        usable(place)?;
        let parent = common(place);
        let _gate = enter(&parent)?;
        let path = parent.join(name);
        // No other process makes one while the gate is held.
        if let Some(connection) = knock(&path) {
            return Ok(Made::Taken(connection));
        }
        sweep(&parent);
        // The address of a socket has room for 108 bytes (unix(7)).
        let address =
            SocketAddrUnix::new(path.join(SOCKET)).map_err(|_| io::Error::other("path too long for a socket"))?;
        match mkdir(&path, Mode::RWXU) {
            Err(Errno::EXIST) => return Ok(Made::Occupied(occupied(&path))),
            made => made?,
        }
        let furnished = furnish(&path, &address);
        if furnished.is_err() {
            remove(&path);
        }
        furnished.map(|(lock, listener)| Made::Here(Self { path, lock }, listener))
    }

    /// The home at `path` whose lock was inherited.
    pub fn inherited(path: PathBuf, lock: OwnedFd) -> Self {
        Self { path, lock: lock.into() }
    }

    /// Its path, and the lock that its supervisor must hold.
    pub fn parts(&self) -> (&Path, BorrowedFd<'_>) {
        (&self.path, self.lock.as_fd())
    }

    /// Removes it, and the common folder with the last one in it.
    pub fn remove(self) {
        leave(&self.path, &self.lock);
    }
}

enum Made {
    Here(Home, OwnedFd),
    Taken(OwnedFd),
    /// A supervisor that cannot be used lives there, and why it cannot.
    Occupied(&'static str),
}

/// Why the folder at `path`, whose lock is held, cannot be used.
fn occupied(path: &Path) -> &'static str {
    let is_other = |name: &std::ffi::OsStr| name != SOCKET && name.as_encoded_bytes().starts_with(b"socket");
    let other = std::fs::read_dir(path).is_ok_and(|list| list.flatten().any(|entry| is_other(&entry.file_name())));
    if other { "is of another version" } else { "does not answer" }
}

/// Takes the lock in the folder at `path` and listens there.
fn furnish(path: &Path, address: &SocketAddrUnix) -> io::Result<(File, OwnedFd)> {
    let lock = private(&path.join(LOCK))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    bind(&listener, address)?;
    rustix::fs::chmod(path.join(SOCKET), Mode::RUSR | Mode::WUSR)?;
    listen(&listener, BACKLOG)?;
    Ok((lock, listener))
}

/// The connection to the process that listens in the folder at `path`, if this user or root owns the folder.
fn knock(path: &Path) -> Option<OwnedFd> {
    // The owner of this folder could keep us waiting: by a full backlog, say.
    let ours = |owner: u32| owner == rustix::process::getuid().as_raw() || owner == 0;
    if !std::fs::symlink_metadata(path).is_ok_and(|folder| folder.is_dir() && ours(folder.uid())) {
        return None;
    }
    let address = SocketAddrUnix::new(path.join(SOCKET)).ok()?;
    let socket = crate::local::connect(SocketType::SEQPACKET, &address, PATIENCE).ok()?;
    let peer = socket_peercred(&socket).ok()?;
    (peer.uid == rustix::process::getuid() || peer.uid.is_root()).then_some(socket)
}

/// The name of the folder: the namespaces that a supervisor must share with those it serves (namespaces(7)), and its history, if
/// that is not the usual one. The inode numbers of namespaces are unique as long as they live, and the supervisor keeps its own alive.
fn name() -> io::Result<String> {
    let number = |kind: &str| {
        let link = std::fs::read_link(format!("/proc/thread-self/ns/{kind}"))?;
        let number = link.to_str().and_then(|l| l.split_once(":[")?.1.strip_suffix(']')?.parse::<u64>().ok());
        number.ok_or_else(|| io::Error::other(format!("{} is not a namespace", link.display())))
    };
    let [net, mnt, pid, user] = [number("net")?, number("mnt")?, number("pid")?, number("user")?];
    let history = std::env::var_os("HEADSTART_HISTORY").map(PathBuf::from);
    Ok(format!("{HOME}{net:x}-{mnt:x}-{pid:x}-{user:x}{}", of_history(history.as_deref())))
}

/// What the folder `history` adds to the name: a short hash, because the address of a socket has little room.
fn of_history(history: Option<&Path>) -> String {
    let Some(folder) = history.filter(|folder| folder.is_absolute()) else { return String::new() };
    // Components: a slash at the end makes no other folder.
    let bytes = folder.components().flat_map(|part| [part.as_os_str().as_encoded_bytes(), b"/"]).flatten();
    // FNV-1a, 32 bits.
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("-{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netns::NetNs;
    use rustix::net::accept;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("hs-home-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn made(made: io::Result<Made>) -> (Home, OwnedFd) {
        match made.unwrap() {
            Made::Here(home, listener) => (home, listener),
            Made::Taken(_) | Made::Occupied(_) => panic!("somebody was quicker"),
        }
    }

    #[test]
    fn the_second_meets_the_first_and_nothing_is_left_of_it() {
        let place = scratch("second");
        let name = name().unwrap();
        let (home, listener) = made(Home::make_in(&place, &name));
        assert!(matches!(Home::make_in(&place, &name), Ok(Made::Taken(_))));
        accept(&listener).unwrap();
        home.remove();
        assert!(knock(&common(&place).join(&name)).is_none() && !common(&place).exists());
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn one_whose_folder_others_have_removed_leaves_the_next_in_its_place_alone() {
        let place = scratch("removed");
        let name = name().unwrap();
        let (first, _listener) = made(Home::make_in(&place, &name));
        std::fs::remove_dir_all(common(&place)).unwrap();
        let (second, _other) = made(Home::make_in(&place, &name));
        first.remove();
        assert!(knock(&common(&place).join(&name)).is_some(), "the second is found as before");
        second.remove();
        assert!(!common(&place).exists());
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_a_killed_one_left_is_swept_and_what_is_locked_is_not() {
        let place = scratch("killed");
        let (killed, listener) = made(Home::make_in(&place, "user-1"));
        drop(listener);
        let stuck = Home::make_in(&place, "user-1");
        assert!(matches!(stuck, Ok(Made::Occupied(why)) if why.contains("does not answer")));
        drop(killed);
        let (home, _listener) = made(Home::make_in(&place, "user-1"));
        home.remove();
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn the_sockets_name_tells_the_version_of_the_messages() {
        let mut words = crate::control::VERSION.split(' ');
        let (number, control) = (words.nth(1).unwrap(), words.nth(1).unwrap());
        assert_eq!(SOCKET, format!("socket-{number}-{control}"));
    }

    #[test]
    fn each_folder_of_a_history_has_a_home_of_its_own() {
        let of = |folder: &str| of_history(Some(Path::new(folder)));
        assert_eq!([of_history(None), of(""), of("off")], ["", "", ""]);
        assert_eq!(of("/a/b"), of("/a//b/"));
        assert!(of("/a/b") != of("/a/c") && of("/a/b") != of("/ab") && of("/a").len() == 9);
    }

    #[test]
    fn one_of_another_version_is_left_alone_while_it_lives() {
        let place = scratch("version");
        let (other, listener) = made(Home::make_in(&place, "user-1"));
        let (path, _) = other.parts();
        std::fs::rename(path.join(SOCKET), path.join("socket-0.0.0-9")).unwrap();
        assert!(matches!(Home::make_in(&place, "user-1"), Ok(Made::Occupied(why)) if why.contains("another version")));
        drop((other, listener));
        let (home, _listener) = made(Home::make_in(&place, "user-1"));
        home.remove();
        assert!(!common(&place).exists());
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn another_network_namespace_has_another_home() {
        let Ok(other) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        assert_eq!(name().unwrap(), name().unwrap());
        assert_ne!(other.run(name).unwrap().unwrap(), name().unwrap());
    }
}
