//! The event loop's ear: epoll with tokens, level-triggered, waiting until a moment of the clock.

use crate::clock::Clock;
use headstart_core::lookout::Lookout;
use headstart_core::time::Instant;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What to listen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes, a connection to accept, or the end.
    Read,
    /// Room to write, or the end of a connection attempt.
    Write,
    /// Only the other side's going away.
    HangUp,
    /// Everything, reported once each time that something changes (edge-triggered): see [`Poll::changes`].
    Changes,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN | EventFlags::RDHUP,
            Self::Write => EventFlags::OUT,
            Self::HangUp => EventFlags::RDHUP,
            Self::Changes => EventFlags::IN | EventFlags::OUT | EventFlags::PRI | EventFlags::RDHUP | EventFlags::ET,
        }
    }
}

/// What is known of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The token under which it is listened to.
    pub token: u64,
    /// It can be read, if only its end.
    pub readable: bool,
    /// It takes more, or its attempt to connect has ended.
    pub writable: bool,
    /// There is urgent data.
    pub urgent: bool,
    /// The other side has said all, or there is an error: reading goes on until it says so.
    pub ending: bool,
    /// There is an error, or something else in the queue of errors.
    pub failed: bool,
    /// It is over in both directions, or there is an error.
    pub over: bool,
    flags: EventFlags,
}

impl Readiness {
    fn of(token: u64, flags: EventFlags) -> Self {
        let has = |wanted| flags.intersects(wanted);
        Self {
            token,
            readable: has(EventFlags::IN | EventFlags::PRI | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
            writable: has(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
            urgent: has(EventFlags::PRI),
            ending: has(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
            failed: has(EventFlags::ERR),
            over: has(EventFlags::HUP | EventFlags::ERR),
            flags,
        }
    }

    /// What is left of it where the queue of errors held none. Of a connection that has failed there is more to see: it has ended.
    pub fn but_for_errors(self) -> Self {
        Self::of(self.token, self.flags - EventFlags::ERR)
    }
}

/// A set of descriptors to listen to, each under a token.
pub struct Poll {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
}

impl std::fmt::Debug for Poll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poll").finish_non_exhaustive()
    }
}

impl Poll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, ready: Vec::with_capacity(64) })
    }

    /// Listens to `source` under `token` until it is closed or removed.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), interest.flags())?)
    }

    /// Listens to `source` for something else.
    pub fn change(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(token), interest.flags())?)
    }

    /// Stops listening to `source`. A descriptor whose file another process holds too must be removed before it is
    /// closed, or epoll goes on reporting it.
    pub fn remove(&self, source: impl AsFd) {
        // Not being there is what was wanted.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Waits for events until `until` (for ever if `None`) and writes their tokens into `tokens`.
    pub fn wait(&mut self, clock: &Clock, until: Option<Instant>, tokens: &mut Vec<u64>) -> io::Result<()> {
        tokens.clear();
        self.ready.clear();
        let timeout = until.map(|at| {
            let left = at.since(clock.now());
            Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() }
        });
        self.wait_for_set(timeout.as_ref())?;
        tokens.extend(self.ready.iter().map(|e| e.data.u64()));
        Ok(())
    }

    fn wait_for_set(&mut self, timeout: Option<&Timespec>) -> io::Result<()> {
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.ready), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The same, with open eyes for a moment where an answer is due: so many bytes were passed on before, as [`Lookout::begin`] says.
    pub fn look_out(
        &mut self,
        clock: &Clock,
        lookout: &mut Lookout,
        passed: Option<usize>,
        until: Option<Instant>,
        tokens: &mut Vec<u64>,
    ) -> io::Result<()> {
        let now = clock.now();
        let look = now + lookout.begin(now, passed);
        let look = until.map_or(look, |until| look.min(until));
        let mut at = now;
        while at < look {
            self.wait(clock, Some(now), tokens)?;
            at = clock.now();
            if !tokens.is_empty() {
                lookout.end(at);
                return Ok(());
            }
            // Another thread that has work here does it.
            std::thread::yield_now();
        }
        self.wait(clock, until, tokens)?;
        lookout.end(clock.now());
        Ok(())
    }

    /// What the last [`wait`](Self::wait) found, with more than the tokens.
    pub fn changes(&self) -> impl Iterator<Item = Readiness> {
        self.ready.iter().map(|event| Readiness::of(event.data.u64(), event.flags))
    }
}

/// Whether there is something to be read from `source`, or it has hung up.
pub fn is_readable(source: impl AsFd) -> bool {
    let mut ready = [PollFd::new(&source, PollFlags::IN)];
    matches!(poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
}

impl AsFd for Poll {
    /// The epoll instance itself, which can be listened to like any descriptor.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::time::Duration;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wait_ends_with_the_token_that_is_ready_or_with_its_moment() {
        let clock = Clock::new();
        let mut poll = Poll::new().unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        poll.add(&there, 42, Interest::Read).unwrap();
        let mut tokens = vec![7];
        let until = clock.now() + Duration::from_millis(2);
        poll.wait(&clock, Some(until), &mut tokens).unwrap();
        assert!(tokens.is_empty() && clock.now() >= until);
        here.write_all(b"x").unwrap();
        poll.wait(&clock, None, &mut tokens).unwrap();
        assert_eq!(tokens, [42]);
        poll.remove(&there);
        poll.wait(&clock, Some(clock.now()), &mut tokens).unwrap();
        assert!(tokens.is_empty());
    }
}
