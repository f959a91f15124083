//! A second process of this very program, without exec: the supervisor of one run, which shares nothing with the run
//! but one socket, so that either may be killed without the other.

use rustix::process::Pid;
use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a forked process ends with if its work panicked, as a Rust program does.
const PANICKED: i32 = 101;

/// Runs `work` in a process of its own, a child of this one, which ends with what `work` returns. No descriptor reaches
/// it but standard input, output and error and those of `with`; nothing of its parent is dropped in it.
///
/// Fails where this process has further threads: they would be missing in the child, with whatever they had locked.
pub fn apart<const N: usize>(with: [OwnedFd; N], work: impl FnOnce([OwnedFd; N]) -> u8) -> io::Result<Pid> {
    must_have_one_thread()?;
    // SAFETY: this process has one thread (above), so the child is whole and may do whatever its parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            close_all_but(std::array::from_fn::<_, N, _>(|i| with[i].as_raw_fd()));
            let ended = catch_unwind(AssertUnwindSafe(|| work(with))).map_or(PANICKED, i32::from);
            // SAFETY: ends the process; its parent's destructors are the parent's business.
            unsafe { libc::_exit(ended) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork gave no process id")),
    }
}

/// Goes on twice: in this process, which gets the other's id, and in a new one, its child, which has all that this one has. The same
/// conditions as for [`apart`].
pub fn split() -> io::Result<Option<Pid>> {
    must_have_one_thread()?;
    // SAFETY: this process has one thread (above), so the child is whole and may do whatever its parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Pid::from_raw(pid).map(Some).ok_or_else(|| io::Error::other("fork gave no process id")),
    }
}

/// Waits for the end of a child, and how it ended.
pub fn end_of(child: Pid) -> io::Result<std::process::ExitStatus> {
    loop {
        match rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(std::os::unix::process::ExitStatusExt::from_raw(status.as_raw())),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
}

/// Goes on in a new process without a waiting parent; the present one ends with success. The same conditions as for [`apart`].
pub fn detach() -> io::Result<()> {
    detach_after(|_| ())
}

/// The same, after the present one has said something of the new one, by its process id.
pub fn detach_after(say: impl FnOnce(u32)) -> io::Result<()> {
    must_have_one_thread()?;
    // SAFETY: this process has one thread (above), so the child is whole and may do whatever its parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(()),
        pid => {
            let _ = catch_unwind(AssertUnwindSafe(|| say(pid.unsigned_abs())));
            // SAFETY: ends the process; what its destructors would do is the child's business.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Leaves the session of this process' parent: no terminal, no working folder, no standard input or output. `name` is for ps(1).
pub fn cut_loose(name: &CStr) -> io::Result<()> {
    // Fails in a process that leads a session already, which is as good.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(name);
    rustix::process::chdir("/")?;
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(rustix::stdio::dup2_stderr(&nowhere)?)
}

/// Closes every descriptor but standard input, output and error: for a process that outlives its parent, before it
/// has opened anything of its own.
pub fn close_inherited() {
    // SAFETY: no pointers. No value of this process owns any of these yet (the caller's part).
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

fn must_have_one_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        n => Err(io::Error::other(format!("a process of {n} threads cannot be forked"))),
    }
}

/// Closes every descriptor from 3 on but those of `kept`.
fn close_all_but<const N: usize>(mut kept: [RawFd; N]) {
    kept.sort_unstable();
    let mut first: libc::c_uint = 3;
    for kept in kept.into_iter().map(RawFd::cast_unsigned).chain([libc::c_uint::MAX]) {
        let last = if kept == libc::c_uint::MAX { kept } else { kept.saturating_sub(1) };
        if first <= last {
            // SAFETY: no pointers. What is closed belongs to values of the parent that the child never touches.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
        first = first.max(kept.saturating_add(1));
    }
}
