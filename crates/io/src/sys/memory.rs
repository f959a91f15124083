//! Memory of other processes that may never answer: a page that a program has to fetch (userfaultfd(2)), or one of a file whose
//! server is gone (FUSE, NFS), blocks any thread that touches it.
//!
//! What is there is read at once. What is not is read by a thread of its own, which may wait without harm, and is waited for only
//! so long; a few such threads at a time, and beyond them nothing is read that is not there.

use super::process::read_memory;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

/// How long a page may take: one that was swapped out, or is read from a disk. Ours.
const PATIENCE: Duration = Duration::from_millis(100);
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

/// See the module.
#[derive(Debug, Default)]
pub struct Memory {
    /// Readings that have not come back.
    waiting: Vec<Receiver<io::Result<Vec<u8>>>>,
}

impl Memory {
    /// Reads as [`read_memory`] does. [`io::ErrorKind::TimedOut`]: it does not answer, or others have not answered yet.
    pub fn read(&mut self, thread: i32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
        if is_present(thread, address, bytes.len()).unwrap_or(false) {
            return read_memory(thread, address, bytes);
        }
        self.waiting.retain(|reading| matches!(reading.try_recv(), Err(TryRecvError::Empty)));
        if self.waiting.len() >= MOST_WAITING {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (tell, told) = sync_channel(1);
        let length = bytes.len();
        let read = move || {
            let mut room = vec![0; length];
            let got = read_memory(thread, address, &mut room);
            // The receiver may be gone.
            let _ = tell.send(got.map(|got| {
                room.truncate(got);
                room
            }));
        };
        std::thread::Builder::new().name("memory".into()).spawn(read)?;
        let Ok(read) = told.recv_timeout(PATIENCE) else {
            self.waiting.push(told);
            return Err(io::ErrorKind::TimedOut.into());
        };
        let read = read?;
        bytes[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }
}

/// Whether all pages from `address` on are in memory, so that reading them does not block.
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
        assert!(is_present(own(), there.as_ptr() as u64, there.len()).unwrap());
        assert_eq!(memory.read(own(), there.as_ptr() as u64, &mut here).unwrap(), 16);
        assert_eq!(here, there);
        assert_eq!(memory.read(own(), 8, &mut here).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        // The thread fetches a page that has never been touched.
        let untouched = vec![0u8; 64 * page_size()];
        let address = untouched.as_ptr() as u64 + 32 * page_size() as u64;
        assert_eq!(memory.read(own(), address, &mut here).unwrap(), 16);
        assert!(memory.waiting.is_empty());
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
