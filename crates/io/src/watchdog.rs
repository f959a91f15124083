//! The watchdog: answers the calls of a program when its supervisor is gone.
//!
//! A call that waits for a listener whose last holder has died fails (ENOSYS), and so would every connect of a program
//! whose supervisor was killed. So there is no filter without a watchdog: a process of its own, in a session of its own, that
//! also keeps the listener, and is there before the program. It sleeps until the [`Duty`] to answer has no holder any more,
//! neither `headstart run` nor the supervisor, and from then on answers each call with "make it yourself". It decides
//! nothing, reads of the program only whether it has been given a socket already, and ends with the last process under the filter.

use crate::calls::Outstanding;
use crate::sys::fork;
use crate::sys::seccomp::{Listener, Trap};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What ps(1) calls it. Not by the name of headstart: what ends all of that by name leaves the program able to connect.
const NAME: &std::ffi::CStr = c"seccomp-watch";

/// The duty to answer the calls of a program: held by `headstart run`, then by the supervisor.
#[derive(Debug)]
pub struct Duty(OwnedFd);

impl AsFd for Duty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Starts the watchdog of the program that will be started in `trap`. Only for a process without further threads.
pub fn begin(trap: &Trap, outstanding: &Outstanding) -> io::Result<Duty> {
    let (given_up, duty) = pipe_with(PipeFlags::CLOEXEC)?;
    let outstanding = outstanding.try_clone()?;
    fork::apart([trap.notify_fd()?, outstanding.into(), given_up], |[told, outstanding, given_up]| {
        let _ = fork::cut_loose(NAME);
        u8::from(keep(told, outstanding.into(), given_up).is_err())
    })?;
    Ok(Duty(duty))
}

fn keep(told: OwnedFd, outstanding: Outstanding, given_up: OwnedFd) -> io::Result<()> {
    wait(&[(told.as_fd(), PollFlags::IN)])?;
    let Ok(listener) = Listener::take_over(told.as_fd()) else { return Ok(()) };
    drop(told);
    wait(&[(listener.as_fd(), PollFlags::empty()), (given_up.as_fd(), PollFlags::empty())])?;
    take_over(&listener, &outstanding)
}

/// Lets the kernel make the calls that the supervisor had received, and every one that comes, until no process is left that
/// could make any.
pub(crate) fn take_over(listener: &Listener, outstanding: &Outstanding) -> io::Result<()> {
    outstanding.resume_all(listener);
    while !listener.is_over() {
        // To receive what is not there would wait for it, beyond the end.
        if wait(&[(listener.as_fd(), PollFlags::IN)])?.contains(PollFlags::IN)
            && let Some(call) = listener.receive()?
        {
            // Its caller may have gone.
            let _ = listener.resume(call.id);
        }
    }
    Ok(())
}

/// Waits until one of some descriptors is ready or has hung up; what there is of the first.
fn wait(descriptors: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<PollFlags> {
    let mut ready: Vec<_> = descriptors.iter().map(|(fd, what)| PollFd::from_borrowed_fd(*fd, *what)).collect();
    loop {
        match poll(&mut ready, None) {
            Ok(_) => return Ok(ready[0].revents()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
