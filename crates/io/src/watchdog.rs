//! The watchdog: answers the calls of a program when its supervisor is gone.
//!
//! A call that waits for a listener whose last holder has died fails (ENOSYS), and so would every connect of a program
//! whose supervisor was killed. The process that started the program therefore keeps the listener too, and once the
//! supervisor is gone it answers each call with "make it yourself". It decides nothing and reads nothing of the program.
//! Only if both processes are killed do connects of the program fail.

use crate::supervisor::Outstanding;
use crate::sys::fork;
use crate::sys::seccomp::Listener;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What a watchdog keeps while the supervisor lives.
#[derive(Debug)]
pub struct Watchdog {
    listener: Listener,
    outstanding: Outstanding,
}

/// Why a watchdog stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The descriptor to stop at became readable.
    Told,
    /// The last process under the filter has ended.
    Over,
}

impl Watchdog {
    /// Keeps these until they are needed.
    pub fn new(listener: Listener, outstanding: Outstanding) -> Self {
        Self { listener, outstanding }
    }

    /// Whether no process is left that could make a call.
    pub fn is_over(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
        matches!(poll(&mut ready, Some(&now)), Ok(1)) && ended(ready[0].revents())
    }

    /// The supervisor is gone: lets the kernel make the calls that it had received, and every one that comes, until `stop`
    /// is readable or no process is left that could make any.
    pub fn take_over(&self, stop: Option<BorrowedFd<'_>>) -> io::Result<Stopped> {
        self.outstanding.resume_all(&self.listener);
        answer(&self.listener, stop)
    }

    /// Goes on in a process of its own that nobody waits for, until the last process under the filter has ended: for a run
    /// whose program has ended and left others behind, and whose supervisor is gone. Only for a process without further
    /// threads.
    pub fn stay(&self) -> io::Result<()> {
        let listener = self.listener.as_fd().try_clone_to_owned()?;
        fork::apart(listener, |listener| {
            let stayed = cut_loose().and_then(|()| answer(&listener.into(), None));
            u8::from(stayed.is_err())
        })?;
        Ok(())
    }
}

/// Lets the kernel make every call that comes, until `stop` is readable or no process is left that could make any.
fn answer(listener: &Listener, stop: Option<BorrowedFd<'_>>) -> io::Result<Stopped> {
    loop {
        let mut ready = vec![PollFd::new(listener, PollFlags::IN)];
        ready.extend(stop.map(|stop| PollFd::from_borrowed_fd(stop, PollFlags::IN)));
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        let heard = ready[0].revents();
        if ready.get(1).is_some_and(|stop| !stop.revents().is_empty()) {
            return Ok(Stopped::Told);
        }
        if heard.contains(PollFlags::IN) {
            if let Some(call) = listener.receive()? {
                // Whoever has gone needs no answer.
                let _ = listener.resume(call.id);
            }
        } else if ended(heard) {
            return Ok(Stopped::Over);
        }
    }
}

/// Keeps nobody's terminal and nobody's pipes open.
fn cut_loose() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(rustix::stdio::dup2_stderr(&nowhere)?)
}

fn ended(heard: PollFlags) -> bool {
    !heard.contains(PollFlags::IN) && heard.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Waits until one of two descriptors is readable or has hung up; whether the first is.
pub fn first_of(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<bool> {
    loop {
        let mut ready =
            [PollFd::from_borrowed_fd(one, PollFlags::IN), PollFd::from_borrowed_fd(other, PollFlags::RDHUP)];
        match poll(&mut ready, None) {
            Ok(_) => return Ok(!ready[0].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
