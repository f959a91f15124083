//! Other processes: their memory, their descriptors, the signals that wait for them.
//!
//! Reads only. All of it needs the right to trace the process (ptrace(2)): the same user, no more privileges than ours, and
//! where the Yama module restricts tracing, one of our own descendants.

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Reads memory of the process that `thread` belongs to, from `address` on; the number of bytes that were there.
pub fn read_memory(thread: i32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` is a live buffer of its length; the kernel checks `remote` against the other process.
    let got = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Bytes of an entry of /proc/PID/pagemap, and the bit that says that the page is in memory (Documentation/admin-guide/mm/pagemap.rst).
const ENTRY: usize = 8;
const PRESENT: u64 = 1 << 63;
/// Pages that a look asks for at most: what is read is shorter than one.
const MOST_PAGES: usize = 2;

/// Bytes of a page.
pub(crate) fn page_size() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Whether all pages from `address` on are in memory, of the process that `thread` belongs to.
pub fn is_present(thread: i32, address: u64, length: usize) -> io::Result<bool> {
    let page = page_size() as u64;
    let (first, last) = (address / page, address.saturating_add(length.max(1) as u64 - 1) / page);
    let mut entries = [0; ENTRY * MOST_PAGES];
    let pages = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
    let Some(entries) = pages.checked_mul(ENTRY).and_then(|bytes| entries.get_mut(..bytes)) else { return Ok(false) };
    File::open(format!("/proc/{thread}/pagemap"))?.read_exact_at(entries, first * ENTRY as u64)?;
    let present = |entry: &[u8]| entry.first_chunk().is_some_and(|entry| u64::from_ne_bytes(*entry) & PRESENT != 0);
    Ok(entries.chunks(ENTRY).all(present))
}

/// Whether nothing but other work of the machine keeps `thread`, one of this process, from running (proc(5): state R).
pub fn may_run(thread: i32) -> bool {
    let stat = std::fs::read(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // Behind the name, which is in brackets and may have some of its own.
    let name_ends = stat.iter().rposition(|byte| *byte == b')');
    name_ends.is_some_and(|end| stat[end..].starts_with(b") R"))
}

/// Makes `command` write "0" to a file before it is executed: with that a process joins the control group whose `cgroup.procs` it is.
pub fn join_before_exec(command: &mut Command, processes: File) {
    let join = move || rustix::io::write(&processes, b"0").map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec the closure makes one system call and touches no memory of other threads.
    unsafe { command.pre_exec(join) };
}

/// A descriptor of the process that `thread` belongs to, as one of ours.
pub fn descriptor(thread: i32, fd: RawFd) -> io::Result<OwnedFd> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let pid = Pid::from_raw(thread).ok_or_else(none)?;
    // PIDFD_THREAD is O_EXCL, since Linux 6.9.
    let of_thread = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
    let process = match pidfd_open(pid, of_thread) {
        Err(rustix::io::Errno::INVAL) => {
            let leader = status(thread, "Tgid:").and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
            pidfd_open(leader.ok_or_else(none)?, PidfdFlags::empty())?
        }
        other => other?,
    };
    Ok(pidfd_getfd(process, fd, PidfdGetfdFlags::empty())?)
}

/// Most of what files of [`read_proc`] say fits into it.
const AT_ONCE: usize = 16 * 1024;

/// What the file `name` of /proc/`thread` says, read at once: its kernel side gives as much as there is room for.
pub fn read_proc(thread: i32, name: &str) -> io::Result<Vec<u8>> {
    let file = File::open(format!("/proc/{thread}/{name}"))?;
    let mut text = Vec::with_capacity(AT_ONCE);
    loop {
        // Does not write to what it does not fill: an untouched page costs a fault.
        rustix::io::read(&file, rustix::buffer::spare_capacity(&mut text))?;
        if text.len() < text.capacity() {
            return Ok(text);
        }
        text.reserve(text.len());
    }
}

/// The number of the process that `pidfd` refers to, as long as it runs.
pub fn of_pidfd(pidfd: &OwnedFd) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    field_of(&text, "Pid:")?.parse().ok().filter(|pid| *pid > 0)
}

/// Whether `descriptor` refers to a process, running or not.
pub fn is_pidfd(descriptor: impl AsFd) -> bool {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_fd().as_raw_fd()));
    text.is_ok_and(|text| field_of(&text, "Pid:").is_some())
}

/// Whether the process `pid` has started others that have not been waited for (proc(5): of its first thread).
pub fn has_children(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/task/{pid}/children")).is_ok_and(|list| !list.is_empty())
}

/// Whether a signal waits for `thread` that it has not blocked.
pub fn signal_waits(thread: i32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{thread}/status")) else { return false };
    let set = |field: &str| field_of(&text, field).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0
}

/// Whether `thread` may bind any port in a network namespace of this process's user namespace (CAP_NET_BIND_SERVICE of capabilities(7)).
pub fn may_bind_any_port(thread: i32) -> bool {
    const NET_BIND_SERVICE: u32 = 10;
    let user = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
    let effective = status(thread, "CapEff:").and_then(|hex| u64::from_str_radix(&hex, 16).ok()).unwrap_or(0);
    (effective >> NET_BIND_SERVICE) & 1 == 1 && user(&thread.to_string()).is_some_and(|of| Some(of) == user("self"))
}

fn status(thread: i32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    field_of(&text, field).map(str::to_owned)
}

fn field_of<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(field)).map(str::trim)
}

/// Gives the calling thread a table of descriptors of its own: what it opens and closes from now on, no other thread sees.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::unshare(libc::CLONE_FILES) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pidfd_says_whose_it_is() {
        let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
        assert_eq!(of_pidfd(&own), Some(std::process::id() as i32));
        let (no_process, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(of_pidfd(&no_process.into()), None);
    }
    use std::io::Read as _;
    use std::os::fd::AsRawFd;

    fn us() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn a_process_is_told_of_whole() {
        let environment = "x".repeat(100_000);
        let mut cat = std::process::Command::new("/bin/cat");
        cat.env_clear().env("LONG", &environment).stdin(std::process::Stdio::piped());
        let mut cat = cat.stdout(std::process::Stdio::piped()).spawn().unwrap();
        // What it says back, it says as another program whose environment is in place.
        let mut echo = [0; 2];
        std::io::Write::write_all(cat.stdin.as_mut().unwrap(), b"go").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut echo).unwrap();
        assert_eq!(read_proc(cat.id() as i32, "environ").unwrap(), format!("LONG={environment}\0").as_bytes());
        assert_eq!(read_proc(us(), "comm").unwrap(), std::fs::read("/proc/self/comm").unwrap());
        assert!(read_proc(us(), "no-such-file").is_err());
        drop(cat.stdin.take());
        cat.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_started_another_is_known_by_it() {
        let script = "read go; sleep 600 & read on; kill $!";
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut shell = shell.spawn().unwrap();
        let pid = shell.id() as i32;
        assert!(!has_children(pid) && !has_children(0));
        let mut words = shell.stdin.take().unwrap();
        std::io::Write::write_all(&mut words, b"go\n").unwrap();
        while !has_children(pid) {
            std::thread::yield_now();
        }
        drop(words);
        shell.wait().unwrap();
    }

    #[test]
    fn memory_is_read_where_it_is_and_is_an_error_where_it_is_not() {
        let there = *b"sixteen bytes ok";
        let mut here = [0u8; 16];
        assert_eq!(read_memory(us(), there.as_ptr() as u64, &mut here).unwrap(), 16);
        assert_eq!(here, there);
        assert!(read_memory(us(), 8, &mut here).is_err());
    }

    #[test]
    fn a_descriptor_of_a_thread_is_the_same_file() {
        let (mut reads, writes) = std::io::pipe().unwrap();
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let ours = descriptor(thread, writes.as_raw_fd()).unwrap();
        rustix::io::write(ours, b"x").unwrap();
        let mut byte = [0];
        reads.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert!(descriptor(thread, 1_000_000).is_err());
        assert!(!signal_waits(thread));
    }
}
