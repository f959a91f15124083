//! Memory of other processes that may never answer: a page that a program has to fetch (userfaultfd(2)), or one of a file whose
//! server is gone (FUSE, NFS), blocks any thread that touches it, also where it was there a moment ago.
//!
//! So it is read by threads that may wait without harm, and each reading is waited for only so long: longer where the page is there, since
//! then a busy machine has not let the thread run. A few such threads at a time; while they wait, what is there is still read, by one more.

use super::process::read_memory;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How long a page may take: one that was swapped out, or is read from a disk. Ours.
const PATIENCE: Duration = Duration::from_millis(100);
/// How many times as long a thread may take for a page that is there. Ours.
const MOST_ROUNDS: usize = 20;
/// Threads that may wait. Ours.
const MOST_WAITING: usize = 2;
/// Bytes of an entry of /proc/PID/pagemap, and the bit that says that the page is in memory (Documentation/admin-guide/mm/pagemap.rst).
const ENTRY: usize = 8;
const PRESENT: u64 = 1 << 63;
/// Pages that a look asks for at most: what is read is shorter than one.
const MOST_PAGES: usize = 2;

/// Bytes of a page.
fn page_size() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// What is to be read: of which thread's process, from which address on, and how many bytes.
struct Wanted {
    thread: i32,
    address: u64,
    length: usize,
}

/// A thread that reads, one request after the other, and ends when this is dropped and it waits for no page.
#[derive(Debug)]
struct Reader {
    requests: SyncSender<Wanted>,
    results: Receiver<io::Result<Vec<u8>>>,
}

impl Reader {
    fn start() -> io::Result<Self> {
        let (requests, wanted) = sync_channel::<Wanted>(1);
        let (done, results) = sync_channel(1);
        let work = move || {
            for Wanted { thread, address, length } in wanted {
                let mut bytes = vec![0; length];
                let got = read_memory(thread, address, &mut bytes).map(|got| {
                    bytes.truncate(got);
                    bytes
                });
                // Its owner may be gone.
                if done.send(got).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("page reader".into()).spawn(work)?;
        Ok(Self { requests, results })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Memory {
    free: Option<Reader>,
    /// Those whose page has not come.
    waiting: Vec<Reader>,
}

impl Memory {
    /// Reads as [`read_memory`] does. [`io::ErrorKind::TimedOut`]: it does not answer, or others have not answered yet.
    pub fn read(&mut self, thread: i32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let length = bytes.len();
        let is_there = || is_present(thread, address, length).unwrap_or(false);
        let reader = self.reader(is_there)?;
        // That its thread has ended is seen below.
        let _ = reader.requests.send(Wanted { thread, address, length });
        let mut result = reader.results.recv_timeout(PATIENCE);
        for _ in 1..MOST_ROUNDS {
            if !matches!(result, Err(RecvTimeoutError::Timeout)) || !is_there() {
                break;
            }
            result = reader.results.recv_timeout(PATIENCE);
        }
        match result {
            Ok(read) => {
                self.free = Some(reader);
                let read = read?;
                bytes[..read.len()].copy_from_slice(&read);
                Ok(read.len())
            }
            Err(RecvTimeoutError::Timeout) => {
                self.waiting.push(reader);
                Err(io::ErrorKind::TimedOut.into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the thread that reads memory has ended")),
        }
    }

    /// One that waits for nothing. The last is for what is there: the page may be taken away all the same before it reads, and then nothing is
    /// read until it comes.
    fn reader(&mut self, is_there: impl FnOnce() -> bool) -> io::Result<Reader> {
        if let Some(back) = self.waiting.iter().position(|reader| reader.results.try_recv().is_ok()) {
            self.free = Some(self.waiting.swap_remove(back));
        }
        let may_read = match self.waiting.len() {
            0..MOST_WAITING => true,
            MOST_WAITING => is_there(),
            _ => false,
        };
        match self.free.take() {
            Some(reader) if may_read => Ok(reader),
            None if may_read => Reader::start(),
            free => {
                self.free = free;
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}

/// Whether all pages from `address` on are in memory.
fn is_present(thread: i32, address: u64, length: usize) -> io::Result<bool> {
    let page = page_size() as u64;
    let (first, last) = (address / page, address.saturating_add(length.max(1) as u64 - 1) / page);
    let mut entries = [0; ENTRY * MOST_PAGES];
    let pages = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
    let Some(entries) = pages.checked_mul(ENTRY).and_then(|bytes| entries.get_mut(..bytes)) else { return Ok(false) };
    File::open(format!("/proc/{thread}/pagemap"))?.read_exact_at(entries, first * ENTRY as u64)?;
    let present = |entry: &[u8]| entry.first_chunk().is_some_and(|entry| u64::from_ne_bytes(*entry) & PRESENT != 0);
    Ok(entries.chunks(ENTRY).all(present))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    use std::ptr;

    /// `struct uffdio_api` and `struct uffdio_register` of linux/userfaultfd.h.
    #[repr(C)]
    struct Api([u64; 3]);
    #[repr(C)]
    struct Register([u64; 4]);
    /// UFFDIO_API and UFFDIO_REGISTER; UFFD_API; UFFDIO_REGISTER_MODE_MISSING.
    const API: libc::c_ulong = 0xc018_aa3f;
    const REGISTER: libc::c_ulong = 0xc020_aa00;
    const VERSION: u64 = 0xaa;
    const MISSING: u64 = 1;

    /// A page that is never supplied, until the descriptor is closed; none where that is not allowed.
    fn unanswered() -> Option<(u64, OwnedFd)> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: just made, and not shared.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let (kind, length) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, page_size());
        // SAFETY: new memory at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let (mut api, mut register) = (Api([VERSION, 0, 0]), Register([at as u64, length as u64, MISSING, 0]));
        // SAFETY: the structure that this request takes.
        assert_eq!(unsafe { libc::ioctl(fd.as_raw_fd(), API, &mut api) }, 0);
        // SAFETY: as above; the range is ours and is not touched here.
        assert_eq!(unsafe { libc::ioctl(fd.as_raw_fd(), REGISTER, &mut register) }, 0);
        Some((at as u64, fd))
    }

    fn own() -> i32 {
        rustix::thread::gettid().as_raw_nonzero().get()
    }

    #[test]
    fn what_is_there_is_read_and_what_is_not_memory_is_an_error() {
        let (there, mut here) = (*b"as it is written", [0; 16]);
        let mut memory = Memory::default();
        assert_eq!(memory.read(own(), there.as_ptr() as u64, &mut here).unwrap(), 16);
        assert_eq!(here, there);
        assert_eq!(memory.read(own(), 8, &mut here).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        // A page that has never been touched.
        let untouched = vec![0u8; 64 * page_size()];
        let address = untouched.as_ptr() as u64 + 32 * page_size() as u64;
        assert_eq!(memory.read(own(), address, &mut here).unwrap(), 16);
        assert!(memory.waiting.is_empty());
        // Also what is there: it may be taken away before it is read.
        assert!(memory.free.is_some(), "the caller has read by itself");
    }

    #[test]
    fn a_thread_that_the_machine_lets_wait_is_waited_for_where_the_page_is_there() {
        let (requests, wanted) = sync_channel::<Wanted>(1);
        let (done, results) = sync_channel(1);
        let late = std::thread::spawn(move || {
            let Wanted { length, .. } = wanted.recv().unwrap();
            Clock::new().sleep(headstart_core::time::Duration::from_millis(300));
            done.send(Ok(vec![7; length])).unwrap();
        });
        let (there, mut here) = ([1u8; 16], [0; 16]);
        let mut memory = Memory { free: Some(Reader { requests, results }), waiting: Vec::new() };
        assert_eq!(memory.read(own(), there.as_ptr() as u64, &mut here).unwrap(), 16);
        assert_eq!((here, memory.waiting.len()), ([7; 16], 0));
        late.join().unwrap();
    }

    #[test]
    fn a_page_that_never_comes_keeps_nobody_and_harms_no_other_reading() {
        let Some((address, pages)) = unanswered() else { return eprintln!("skipped: no userfaultfd for this user") };
        let (there, mut here) = (*b"as it is written", [0; 16]);
        let mut memory = Memory::default();
        let kind = |read: io::Result<usize>| read.unwrap_err().kind();
        for _ in 0..20 {
            assert_eq!(kind(memory.read(own(), address, &mut here)), io::ErrorKind::TimedOut);
            assert_eq!(memory.read(own(), there.as_ptr() as u64, &mut here).unwrap(), 16);
        }
        assert_eq!(memory.waiting.len(), MOST_WAITING);
        // The program fetches it, or ends: what has waited comes back, and all is read again.
        drop(pages);
        while memory.read(own(), address, &mut here).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(here, [0; 16]);
    }
}
