//! Runs this program again inside fresh namespaces, under a tiny init, so that nothing survives the caller.
//!
//! Re-execution, not a plain fork: the caller may have threads (the test harness does), after which only
//! async-signal-safe calls are allowed until exec; and a user namespace can only be entered by a single thread.
//! Three generations: the caller; process 1 of a new PID namespace, which dies with the calling thread
//! (PR_SET_PDEATHSIG) and takes its namespace along, SIGKILL included; and process 2, this program again. The kernel
//! ends every process of a PID namespace when its process 1 ends, and unnamed namespaces end with their last process.

use super::signal;
use rustix::process::{Pid, WaitOptions};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

/// Which namespaces, beside those of PIDs and mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// A user namespace in which the caller's user and group are 0.
    pub user: bool,
    /// An empty network namespace; otherwise the caller's is kept.
    pub network: bool,
}

/// What failed on the way in.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct ReexecError {
    /// The step, as words.
    pub step: &'static str,
    /// What the kernel said.
    pub source: io::Error,
}

/// The process that runs inside. Must be waited for by the thread that started it: it dies with that thread.
#[derive(Debug)]
pub struct Offspring {
    init: Pid,
}

const STEPS: [&str; 7] = [
    "making namespaces (clone)",
    "ending the child with its parent (prctl)",
    "writing /proc/self/setgroups",
    "writing /proc/self/uid_map",
    "writing /proc/self/gid_map",
    "starting process 2 (clone)",
    "executing /proc/self/exe",
];

/// Everything that the child needs, made before the fork: after it nothing may allocate.
struct Prepared {
    flags: libc::c_int,
    user: bool,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    report: RawFd,
    alive: RawFd,
    alive_parent: RawFd,
}

/// Starts this program again with arguments `args` (the first is the program's name) and environment `env`.
pub fn reexec(isolation: Isolation, args: &[OsString], env: &[(OsString, OsString)]) -> Result<Offspring, ReexecError> {
    let fail = |step| move |source: io::Error| ReexecError { step, source };
    let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|e| fail("reading the arguments")(e.into()));
    let args = args.iter().map(|a| text(a.as_bytes().to_vec())).collect::<Result<Vec<_>, _>>()?;
    let env =
        env.iter().map(|(k, v)| text([k.as_bytes(), b"=", v.as_bytes()].concat())).collect::<Result<Vec<_>, _>>()?;
    let pointers =
        |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let pipe =
        || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| fail("making a pipe")(e.into()));
    let (report_in, report_out) = pipe()?;
    let (alive_in, alive_out) = pipe()?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::SIGCHLD;
    flags |= if isolation.user { libc::CLONE_NEWUSER } else { 0 };
    flags |= if isolation.network { libc::CLONE_NEWNET } else { 0 };
    let prepared = Prepared {
        flags,
        user: isolation.user,
        uid_map: format!("0 {uid} 1\n").into_bytes(),
        gid_map: format!("0 {gid} 1\n").into_bytes(),
        argv: pointers(&args),
        envp: pointers(&env),
        report: report_out.as_raw_fd(),
        alive: alive_in.as_raw_fd(),
        alive_parent: alive_out.as_raw_fd(),
    };
    // SAFETY: a plain fork (no stack, no shared memory); the child makes only system calls until it execs or exits.
    let pid = unsafe { libc::syscall(libc::SYS_clone, prepared.flags as libc::c_long, 0, 0, 0, 0) };
    match pid {
        -1 => return Err(fail(STEPS[0])(io::Error::last_os_error())),
        // SAFETY: this is the forked child; `first` keeps to async-signal-safe calls and never returns.
        0 => unsafe { first(&prepared) },
        _ => drop((report_out, alive_in)),
    }
    let init =
        i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| fail(STEPS[0])(io::Error::other("no PID")))?;
    let mut told = Vec::new();
    let read = File::from(report_in).read_to_end(&mut told);
    // From here on the child knows of the parent's death through PR_SET_PDEATHSIG.
    drop(alive_out);
    let offspring = Offspring { init };
    match (read, told.as_slice()) {
        (Ok(_), []) => Ok(offspring),
        (Ok(_), [step, errno @ ..]) if errno.len() == 4 => {
            let errno = i32::from_ne_bytes([errno[0], errno[1], errno[2], errno[3]]);
            let _ = offspring.wait();
            let step = STEPS.get(usize::from(*step)).copied().unwrap_or("starting inside");
            Err(fail(step)(io::Error::from_raw_os_error(errno)))
        }
        (read, _) => {
            Err(fail("reading from the child")(read.err().unwrap_or_else(|| io::Error::other("an incomplete report"))))
        }
    }
}

impl Offspring {
    /// PID of process 1 of the new PID namespace, as the caller sees it. Signals sent there reach process 2.
    pub fn pid(&self) -> i32 {
        self.init.as_raw_nonzero().get()
    }

    /// Waits for the end; the exit status of process 2, or 128 and the number of the signal that ended it.
    pub fn wait(self) -> io::Result<i32> {
        loop {
            match rustix::process::waitpid(Some(self.init), WaitOptions::empty()) {
                Ok(Some((_, status))) => {
                    let signal = status.terminating_signal().map(|s| 128 + s);
                    return Ok(status.exit_status().or(signal).unwrap_or(1));
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Tells the parent which step failed, and ends the child.
unsafe fn give_up(report: RawFd, step: u8) -> ! {
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0).to_ne_bytes();
    let message = [step, errno[0], errno[1], errno[2], errno[3]];
    // SAFETY: writes five bytes of a local array to a pipe, then ends the process without running any destructor.
    unsafe {
        libc::write(report, message.as_ptr().cast(), message.len());
        libc::_exit(127)
    }
}

/// Writes `bytes` to the file `path` in one write; false (and errno) if that fails.
unsafe fn write_file(path: &std::ffi::CStr, bytes: &[u8]) -> bool {
    // SAFETY: `path` ends in a zero byte.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return false;
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the length is that of the slice.
    unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) == bytes.len() as isize }
}

/// Process 1: settles in, starts process 2, and buries the dead until process 2 is among them.
unsafe fn first(p: &Prepared) -> ! {
    // SAFETY: all of these are system calls on local data; nothing allocates or locks.
    unsafe {
        libc::close(p.alive_parent);
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) != 0 {
            give_up(p.report, 1);
        }
        // The parent may have died before the line above: then the other end of the pipe is closed.
        let mut alive = libc::pollfd { fd: p.alive, events: libc::POLLIN, revents: 0 };
        if libc::poll(&mut alive, 1, 0) != 0 {
            libc::_exit(127);
        }
        if p.user {
            // Absent before Linux 3.19, and then not needed.
            if !write_file(c"/proc/self/setgroups", b"deny") && *libc::__errno_location() != libc::ENOENT {
                give_up(p.report, 2);
            }
            if !write_file(c"/proc/self/uid_map", &p.uid_map) {
                give_up(p.report, 3);
            }
            if !write_file(c"/proc/self/gid_map", &p.gid_map) {
                give_up(p.report, 4);
            }
        }
        let second = libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), 0, 0, 0, 0);
        if second == -1 {
            give_up(p.report, 5);
        }
        if second == 0 {
            libc::execve(c"/proc/self/exe".as_ptr(), p.argv.as_ptr(), p.envp.as_ptr());
            give_up(p.report, 6);
        }
        let second = second as libc::pid_t;
        libc::prctl(libc::PR_SET_NAME, c"headstart-init".as_ptr(), 0, 0, 0);
        let _ = signal::pass_on_to(second);
        if libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) != 0 {
            (0..1024).for_each(|fd| {
                libc::close(fd);
            });
        }
        loop {
            let mut status = 0;
            let pid = libc::waitpid(-1, &mut status, libc::__WALL);
            if pid == second {
                let signal = libc::WTERMSIG(status);
                libc::_exit(if libc::WIFSIGNALED(status) { 128 + signal } else { libc::WEXITSTATUS(status) });
            }
            if pid < 0 && *libc::__errno_location() != libc::EINTR {
                libc::_exit(1);
            }
        }
    }
}
