//! Network namespaces held by a file descriptor, and nothing else: no name in the file system, so none is left behind
//! when its holder dies, whatever kills it.
//!
//! A namespace belongs to a thread, not to a process: [`NetNs::enter`] moves the calling thread only.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A network namespace, kept alive by this handle, by the threads in it and by the interfaces that lead into it.
#[derive(Debug)]
pub struct NetNs {
    file: File,
}

impl NetNs {
    /// Makes an empty namespace (a loopback interface, down). Needs CAP_SYS_ADMIN in the current user namespace.
    pub fn create() -> io::Result<Self> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, || {
                // SAFETY: only CLONE_NEWNET, never CLONE_FILES: no descriptor changes its meaning.
                unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
                Self::current()
            })?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that makes a network namespace died")))
        })
    }

    /// The namespace of the calling thread.
    pub fn current() -> io::Result<Self> {
        Ok(Self { file: File::open("/proc/thread-self/ns/net")? })
    }

    /// The namespace of a process. Needs the right to trace it.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        Ok(Self { file: File::open(format!("/proc/{pid}/ns/net"))? })
    }

    /// Another handle on the same namespace.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }

    /// Moves the calling thread into this namespace, for good.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `f` in this namespace, in a thread of its own, and hands back its result.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("in-netns".into()).spawn_scoped(scope, || {
                self.enter()?;
                Ok(f())
            })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Makes `command` start in this namespace.
    pub fn adopt(&self, command: &mut Command) -> io::Result<()> {
        let file = self.file.try_clone()?;
        let enter = move || Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?);
        // SAFETY: between fork and exec the closure makes one system call and touches no memory of other threads.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }

    /// Number of the namespace (its inode), the same for all handles on it and for `/proc/PID/ns/net`.
    pub fn id(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.file)?.st_ino)
    }
}

/// Number of the network namespace that `socket` belongs to (SO_NETNS_COOKIE, Linux 5.14). Never used twice by a kernel.
pub fn cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: `cookie` is valid for `len` bytes.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &mut len,
        )
    };
    if rc == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// The same for the network namespace of the calling thread.
pub fn own_cookie() -> io::Result<u64> {
    cookie(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for NetNs {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
