//! Questions whose answer a thread waits for, and what becomes of those that it never comes back to.
//!
//! A signal handler may leave a wait by siglongjmp(3), and pthread_cancel(3) unwinds it. So nothing of ours is on the stack while a
//! thread waits, and it may be cancelled if the program allows it: what belongs to the question is kept here, by thread. The next question
//! of the thread, or its end, frees what was left. shutdown(2) by another thread ends the wait of a connect ([`cut`]).
//!
//! What never happens here: a descriptor is closed that is the program's by now.

use crate::ask::{Came, Line, Patience};
use crate::options::{Setting, Socket};
use crate::original;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Signals that a wait survives that is not to be interrupted: one every 100 us throughout the longest.
const MAX_INTERRUPTIONS: u32 = 200_000;
/// A signal handler on the stack of a wait is further away from it than this: what the kernel saves of the registers is in between, 512
/// bytes of it for those of floating-point numbers alone (FXSAVE; `fpsimd_context` is longer).
const HANDLER_AWAY: usize = 512;

/// A connect about which the supervisor is asked.
pub(crate) struct Connecting {
    /// The program's descriptor.
    pub fd: c_int,
    pub socket: Socket,
    /// What the program has set on it; `None` if that cannot be carried over.
    pub carried: Option<Vec<Setting>>,
}

/// A question under way.
pub(crate) struct Wait {
    /// Where the answer comes.
    pub line: Line,
    /// What is being connected, if it is that.
    pub connecting: Option<Connecting>,
    /// Its place among the connects that shutdown(2) may end.
    slot: Option<&'static AtomicU64>,
    /// Where the stack was.
    frame: usize,
    /// The one that this thread has been waiting for meanwhile, if this was asked by a signal handler.
    below: *mut Wait,
}

/// The question that its thread waits for: plain data, as it is on the stack while the thread waits.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    wait: *mut Wait,
    line: c_int,
    /// Signal handlers that may run meanwhile.
    interruptions: u32,
}

/// The latest question of each thread.
static LATEST: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// Makes a place for the questions of each thread.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: `key` is valid for a write; the function is there as long as the process.
    if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } == 0 {
        let _ = LATEST.set(key);
    }
}

/// A thread has ended in the midst of questions, or after it had left them.
unsafe extern "C" fn ended(latest: *mut c_void) {
    let mut wait = latest.cast::<Wait>();
    while !wait.is_null() {
        // SAFETY: made by `begin`, and no longer in the list of a thread.
        wait = leave(*unsafe { Box::from_raw(wait) });
    }
}

/// Frees a question that its thread will not come back to, and returns the one below.
fn leave(mut wait: Wait) -> *mut Wait {
    wait.release();
    // The program may have closed all descriptors since, and opened others.
    wait.line.close_if_ours();
    wait.below
}

/// `line` is waited for from now on, by a thread whose stack is at `frame`.
pub(crate) fn begin(line: Line, patience: Patience, connecting: Option<Connecting>, frame: usize) -> Option<Handle> {
    let key = *LATEST.get()?;
    free_what_was_left(key, frame);
    line.limit(patience);
    let descriptor = line.descriptor();
    let slot = connecting.as_ref().and_then(|c| claim(c.fd, descriptor));
    let below = latest(key);
    let wait = Box::into_raw(Box::new(Wait { line, connecting, slot, frame, below }));
    set_latest(key, wait);
    let interruptions = if matches!(patience, Patience::Seconds(_)) { MAX_INTERRUPTIONS } else { 0 };
    Some(Handle { wait, line: descriptor, interruptions })
}

/// Waits for the answer; a signal handler or a cancellation may end that for good.
pub(crate) fn until_answered(question: Handle) -> Came {
    let mut left = question.interruptions;
    loop {
        if original::peek(question.line) >= 0 {
            return Came::Answer;
        }
        match original::errno() {
            libc::EINTR if left > 0 => left -= 1,
            libc::EINTR => return Came::Interrupted,
            libc::EAGAIN => return Came::TimedOut,
            _ => return Came::Answer,
        }
    }
}

/// The wait is over: the question, and whether another thread has shut down what it is about.
pub(crate) fn end(question: Handle) -> Option<(Box<Wait>, bool)> {
    let key = *LATEST.get()?;
    loop {
        let wait = latest(key);
        if wait.is_null() {
            return None;
        }
        // SAFETY: made by `begin`, in the list of this thread, and now taken out of it.
        let mut taken = unsafe { Box::from_raw(wait) };
        set_latest(key, taken.below);
        if wait == question.wait {
            let is_cut = taken.release();
            return Some((taken, is_cut));
        }
        // Asked by a signal handler meanwhile, which has left it.
        leave(*taken);
    }
}

/// Frees what a jump has left: the stack is where it was, or above it.
fn free_what_was_left(key: libc::pthread_key_t, frame: usize) {
    while let Some(at) = address_of_latest(key) {
        // A handler on a stack of its own may be anywhere.
        if at > frame + HANDLER_AWAY || original::is_on_signal_stack() {
            return;
        }
        let wait = latest(key);
        // SAFETY: made by `begin`, in the list of this thread, and taken out of it here.
        let left = unsafe { Box::from_raw(wait) };
        set_latest(key, left.below);
        leave(*left);
    }
}

fn address_of_latest(key: libc::pthread_key_t) -> Option<usize> {
    // SAFETY: null, or made by `begin` and in the list of this thread.
    unsafe { latest(key).as_ref() }.map(|wait| wait.frame)
}

fn latest(key: libc::pthread_key_t) -> *mut Wait {
    // SAFETY: a key that was made and is never deleted.
    unsafe { libc::pthread_getspecific(key) }.cast()
}

fn set_latest(key: libc::pthread_key_t, wait: *mut Wait) {
    // SAFETY: as above. Without memory for it the question is not found again, and leaks.
    unsafe { libc::pthread_setspecific(key, wait.cast_const().cast()) };
}

/// Connects that wait, each as its descriptor (one more, so that none is 0), that of its line, and what shutdown(2) makes of it.
static SLOTS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// Another thread is about to end the wait: the line is open until it has.
const CUTTING: u64 = 1 << 63;
/// It has.
const CUT: u64 = 1 << 62;
/// How often is looked whether it has; it takes one system call.
const MOST_LOOKS: u32 = 10_000;

fn claim(fd: c_int, line: c_int) -> Option<&'static AtomicU64> {
    let (fd, line) = (u64::try_from(fd).ok()? + 1, u64::try_from(line).ok()?);
    let free =
        |slot: &&AtomicU64| slot.compare_exchange(0, fd << 31 | line, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    SLOTS.iter().find(free)
}

impl Wait {
    /// Nobody ends this any more: whether it was ended.
    fn release(&mut self) -> bool {
        let Some(slot) = self.slot.take() else { return false };
        for _ in 0..MOST_LOOKS {
            let value = slot.load(Ordering::Acquire);
            if value & CUTTING == 0 && slot.compare_exchange(value, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return value & CUT != 0;
            }
            std::thread::yield_now();
        }
        true
    }
}

/// After a fork: connects that wait in threads of the parent are none of ours.
pub(crate) fn forget_other_threads() {
    SLOTS.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0).for_each(|slot| slot.store(0, Ordering::Relaxed));
}

/// shutdown(2) of a socket that another thread is connecting: ends its wait, as in the kernel. Whether there was such a thread.
pub(crate) fn cut(fd: c_int) -> bool {
    let Some(wanted) = u64::try_from(fd).ok().map(|fd| fd + 1) else { return false };
    let mut found = false;
    for slot in &SLOTS {
        let value = slot.load(Ordering::Acquire);
        let is_it = value >> 31 == wanted;
        if is_it && slot.compare_exchange(value, value | CUTTING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            original::shutdown((value & 0x7fff_ffff) as c_int, libc::SHUT_RDWR);
            slot.store(value | CUT, Ordering::Release);
            found = true;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connect_that_waits_is_cut_once_by_its_own_descriptor() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let line = std::os::fd::AsRawFd::as_raw_fd(&ours);
        let slot = claim(70_001, line).unwrap();
        assert!(!cut(70_002) && slot.load(Ordering::Relaxed) & CUT == 0);
        assert!(cut(70_001) && slot.load(Ordering::Relaxed) & (CUT | CUTTING) == CUT);
        assert!(!cut(70_001), "it is over");
        let mut byte = [0u8];
        assert_eq!(std::io::Read::read(&mut &theirs, &mut byte).unwrap(), 0, "the line is at its end");
        slot.store(0, Ordering::Relaxed);
        assert!(!cut(-1));
    }
}
