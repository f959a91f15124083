//! Calls that the supervisor has received and not answered, written where the watchdog can read them when the supervisor
//! is no more.
//!
//! The kernel does not tell which calls a dead listener had received. But ids of one filter count up by one, so the oldest that is
//! not answered and the last that was received are enough, and both fit one small write to a shared file.

use crate::sys::seccomp::{Listener, Notification};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Calls that a supervisor may have received before it wrote so. It receives one at a time.
const UNWRITTEN: u64 = 16;
/// No call waits while so many others come and go: some 15 minutes of 10 000 a second.
const MAX_WINDOW: u64 = 1 << 23;
/// Where the exchange that is being made is noted: behind the oldest call and the last.
const EXCHANGE_AT: u64 = 16;

/// The file.
#[derive(Debug)]
pub struct Outstanding {
    file: File,
}

impl From<OwnedFd> for Outstanding {
    fn from(fd: OwnedFd) -> Self {
        Self { file: fd.into() }
    }
}

impl From<Outstanding> for OwnedFd {
    fn from(outstanding: Outstanding) -> Self {
        outstanding.file.into()
    }
}

impl AsFd for Outstanding {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Outstanding {
    /// Makes the file; it has no name, and lives as long as a process has it open.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: memfd_create(c"headstart-outstanding", MemfdFlags::CLOEXEC)?.into() })
    }

    /// The same file under another descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }

    /// Notes that `last` was received while `oldest` is not answered yet.
    pub(crate) fn note(&self, oldest: u64, last: u64) {
        let [a, b] = [oldest, last].map(u64::to_ne_bytes);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&a);
        bytes[8..].copy_from_slice(&b);
        // Should it fail, calls of this moment hang if the supervisor is killed at this moment.
        let _ = self.file.write_all_at(&bytes, 0);
    }

    /// Notes that the socket of inode `new` is being put under the number of `call`, a connect, whose answer is `errno` from then on:
    /// were the kernel to make it after all, it would say that this socket is connected already.
    pub(crate) fn note_exchange(&self, call: &Notification, new: u64, errno: i32) {
        let words = [call.id, call.thread as u64, call.number as u64, new, errno as u64];
        let _ = self.file.write_all_at(&words.map(u64::to_ne_bytes).concat(), EXCHANGE_AT);
    }

    /// The last call for which there was an exchange, if the program has the new socket: its id and its answer.
    fn exchanged(&self) -> Option<(u64, i32)> {
        let mut bytes = [0; 40];
        self.file.read_exact_at(&mut bytes, EXCHANGE_AT).ok()?;
        let word = |n: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 * n + i]));
        let there = std::fs::read_link(format!("/proc/{}/fd/{}", word(1) as i32, word(2) as i32)).ok()?;
        (there.as_os_str() == &*format!("socket:[{}]", word(3))).then_some((word(0), word(4) as i32))
    }

    /// Lets the kernel make every call that may have been received and not answered. Those that were not received yet stay.
    pub fn resume_all(&self, listener: &Listener) {
        let mut bytes = [0; 16];
        if self.file.read_exact_at(&mut bytes, 0).is_err() {
            // Nothing was received that was noted, and what was not noted cannot be guessed: ids begin at random.
            return;
        }
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        let (oldest, last) = (word(0), word(8));
        let window = last.wrapping_sub(oldest).saturating_add(UNWRITTEN).min(MAX_WINDOW);
        if let Some((id, errno)) = self.exchanged() {
            let _ = listener.answer(id, if errno == 0 { Ok(()) } else { Err(errno) });
        }
        // Ids that were answered, or not given yet, are refused.
        (0..=window).for_each(|n| drop(listener.resume(last.wrapping_add(UNWRITTEN).wrapping_sub(n))));
    }
}
