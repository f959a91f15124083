//! Signals of a process that stands between a terminal and a child: it neither dies of the keyboard's signals nor
//! swallows those that were sent to it.
//!
//! The keyboard signals the whole foreground group, so the child has those already; what was sent to this process alone
//! (`kill`) is sent on. What comes before there is a child is kept for it, from any sender. Signals that the process was
//! started with as ignored stay ignored.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Process to send signals on to; 0 while there is none.
static TARGET: AtomicI32 = AtomicI32::new(0);
/// Signals that came while there was none: a bit each.
static PENDING: AtomicU64 = AtomicU64::new(0);

/// What is passed on: what keyboards and session managers send, and the two free for use.
pub(super) const PASSED: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

extern "C" fn pass(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let target = TARGET.load(Ordering::Relaxed);
    // SAFETY: the kernel hands a valid `siginfo_t` to a handler that was installed with SA_SIGINFO.
    let sent_by_a_process = unsafe { (*info).si_code } <= 0;
    if target == 0 {
        PENDING.fetch_or(1 << signal, Ordering::Relaxed);
    } else if sent_by_a_process {
        // SAFETY: thread-local storage of the C library, always valid.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: `errno` is valid (above); kill is async-signal-safe; errno must survive a handler.
        unsafe {
            let kept = *errno;
            libc::kill(target, signal);
            *errno = kept;
        }
    }
}

/// From now on signals sent to this process go to `pid`, with those that were kept for it; with 0 they are kept for the
/// next. Programs started later by exec have the default dispositions again.
pub fn pass_on_to(pid: i32) -> io::Result<()> {
    TARGET.store(pid, Ordering::SeqCst);
    for signal in PASSED {
        // SAFETY: `sigaction` is plain data; all zeroes is a valid value.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a null new action only reads the current one into `old`.
        if unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if old.sa_sigaction == libc::SIG_DFL {
            let mut new = old;
            new.sa_sigaction = pass as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: `pass` has the type that SA_SIGINFO asks for and does only async-signal-safe things.
            if unsafe { libc::sigaction(signal, &new, std::ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    if pid > 0 {
        let kept = PENDING.swap(0, Ordering::SeqCst);
        for signal in PASSED.into_iter().filter(|signal| kept & (1 << signal) != 0) {
            // SAFETY: no pointers. A child that has ended is not waited for yet, so its number is still its own.
            unsafe { libc::kill(pid, signal) };
        }
    }
    Ok(())
}

/// From now on each of those signals ends this process, and so do those that were kept.
pub fn end_by_default() -> io::Result<()> {
    for signal in PASSED {
        // SAFETY: no pointers; the default disposition needs no handler.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// From now on a write beyond the limit on the size of files (RLIMIT_FSIZE) fails, as one on a full disk does, instead of ending
/// this process. Programs started later by exec have the default disposition again.
pub fn outlive_file_limit() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: `sigaction` is plain data; all zeroes is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only reads the current one into `action`.
    if unsafe { libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if action.sa_sigaction == libc::SIG_DFL {
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `nothing` has the type of a handler and does nothing.
        if unsafe { libc::sigaction(libc::SIGXFSZ, &action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A descriptor that becomes readable on a signal that asks this process to end (SIGTERM, SIGINT, SIGHUP, SIGQUIT), which
/// from now on interrupts nothing. For a process of one thread: others have masks of their own.
pub fn ending() -> io::Result<OwnedFd> {
    // SAFETY: `sigset_t` is plain data; sigemptyset makes it a valid empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid place for a set.
    unsafe { libc::sigemptyset(&mut set) };
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: `set` is an initialised set.
        unsafe { libc::sigaddset(&mut set, signal) };
    }
    // SAFETY: `set` is an initialised set; the old mask is not asked for.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `set` is an initialised set; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
