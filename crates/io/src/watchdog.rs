//! The watchdog: answers the calls of a program when its supervisor is gone.
//!
//! A call that waits for a listener whose last holder has died fails (ENOSYS), and so would every connect of a program
//! whose supervisor was killed. The process that started the program therefore keeps the listener too, and once the
//! supervisor is gone it answers each call with "make it yourself". It decides nothing and reads nothing of the program.
//! Only if both processes are killed do connects of the program fail.

use crate::supervisor::Outstanding;
use crate::sys::seccomp::Listener;
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::BorrowedFd;

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

    /// The supervisor is gone: lets the kernel make the calls that it had received, and every one that comes, until `stop`
    /// is readable or no process is left that could make any.
    pub fn take_over(&self, stop: Option<BorrowedFd<'_>>) -> io::Result<Stopped> {
        self.outstanding.resume_all(&self.listener);
        loop {
            let mut ready = vec![PollFd::new(&self.listener, PollFlags::IN)];
            ready.extend(stop.map(|stop| PollFd::from_borrowed_fd(stop, PollFlags::IN)));
            match poll(&mut ready, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let heard = ready[0].revents();
            if ready.get(1).is_some_and(|stop| !stop.revents().is_empty()) {
                return Ok(Stopped::Told);
            }
            if heard.contains(PollFlags::IN) {
                if let Some(call) = self.listener.receive()? {
                    // Whoever has gone needs no answer.
                    let _ = self.listener.resume(call.id);
                }
            } else if heard.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                return Ok(Stopped::Over);
            }
        }
    }
}
