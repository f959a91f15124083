//! The front end of system calls: connects that wait for an answer by seccomp user notification, of any program, static or
//! not, and of all that it starts.
//!
//! A call is looked at from outside: the address in the program's memory, the socket behind its descriptor. Most are let go
//! within microseconds, as the kernel's own business. One that the connector may have something for is claimed as those of
//! the preloaded library are; a connection that comes of it is put in the place of the program's socket ([`exchange`]).
//! A non-blocking caller is answered at once, whatever there is. A blocking one may wait, as it would in the kernel; the
//! kernel holds back its signals meanwhile (see [`sys::seccomp`](crate::sys::seccomp)), so they are looked for, and one that
//! waits sends the call to the kernel, which begins the connection and ends the call as connect(2) says.

mod app_socket;
mod event_sets;
mod exchange;
mod outstanding;

use super::Front;
use super::engine::{Engine, Told};
use super::token::{HEARD, HELD, split};
use crate::poll::Interest;
use crate::sys::process;
use crate::sys::seccomp::{Listener, Notification};
use app_socket::{AppSocket, Fresh, Look, look};
use headstart_core::connect::{AppId, Claim, Input, RequestId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::shim::{MAX_APP, Pass};
use headstart_core::wire::sockaddr::{self, MAX_BYTES};
pub use outstanding::Outstanding;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// How often a program that waits is looked at for signals, and for whether it still waits. A tenth of what people notice,
/// and nothing beside a handshake; nobody is looked at while nobody waits.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A filter whose calls are heard.
#[derive(Debug)]
struct Heard {
    listener: Listener,
    outstanding: Outstanding,
}

/// A call that waits.
#[derive(Debug)]
struct Held {
    heard: Arc<Heard>,
    call: Notification,
    socket: AppSocket,
    to: SocketAddr,
    /// When SO_SNDTIMEO has run out.
    until: Option<Instant>,
}

/// Every program that is heard by its system calls.
#[derive(Debug)]
pub(super) struct Seccomp {
    filters: BTreeMap<u64, Arc<Heard>>,
    next_filter: u64,
    held: BTreeMap<u64, Held>,
    next_held: u64,
    look_at: Option<Instant>,
    fresh: Fresh,
    passed: BTreeMap<Pass, u64>,
}

impl Seccomp {
    /// Hears nobody yet.
    pub fn new() -> Self {
        Self {
            filters: BTreeMap::new(),
            next_filter: 0,
            held: BTreeMap::new(),
            next_held: 0,
            look_at: None,
            fresh: Fresh::read(),
            passed: BTreeMap::new(),
        }
    }

    /// Hears the calls that arrive at `listener` until the last process under its filter has ended.
    pub fn hear(&mut self, engine: &Engine, listener: Listener, outstanding: Outstanding) -> io::Result<()> {
        let n = self.next_filter;
        engine.poll.add(&listener, HEARD | n, Interest::Read)?;
        self.next_filter += 1;
        self.filters.insert(n, Arc::new(Heard { listener, outstanding }));
        Ok(())
    }

    /// Calls that were left to the kernel before the connector was asked, by reason.
    pub fn passed(&self) -> &BTreeMap<Pass, u64> {
        &self.passed
    }

    /// Filters under which programs still run.
    pub fn filters(&self) -> usize {
        self.filters.len()
    }

    /// When those who wait are to be looked at.
    pub fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    /// Looks at those who wait: some have gone, some have a signal to handle, some have waited long enough.
    pub fn timeout(&mut self, engine: &mut Engine) {
        let now = engine.clock.now();
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        let mut ended = Vec::new();
        for (n, held) in &self.held {
            let id = held.call.id;
            if !held.heard.listener.waits(id) {
                ended.push((*n, None));
            } else if process::signal_waits(held.call.thread) {
                let _ = held.heard.listener.resume(id);
                ended.push((*n, Some(Pass::Signal)));
            } else if held.until.is_some_and(|until| until <= now) {
                // socket(7): SO_SNDTIMEO has run out; the connection goes on and EINPROGRESS says so.
                let errno = held.socket.begin(held.to);
                let _ = held.heard.listener.answer(id, if errno == 0 { Ok(()) } else { Err(errno) });
                ended.push((*n, None));
            }
        }
        for (n, reason) in ended {
            self.held.remove(&n);
            reason.into_iter().for_each(|reason| self.count(reason));
            engine.feed(Input::Abandon(RequestId(HELD | n)));
        }
        self.look_at = (!self.held.is_empty()).then(|| now + LOOK_EVERY);
    }

    /// Something arrived at a listener.
    fn receive(&mut self, engine: &mut Engine, n: u64) {
        let Some(heard) = self.filters.get(&n).map(Arc::clone) else { return };
        // To receive what is not there would wait for it.
        match state(&heard.listener) {
            flags if flags.contains(PollFlags::IN) => {}
            flags if flags.intersects(PollFlags::HUP | PollFlags::ERR) => {
                engine.poll.remove(&heard.listener);
                self.filters.remove(&n);
                return;
            }
            _ => return,
        }
        let Ok(Some(call)) = heard.listener.receive() else { return };
        let oldest = self.held.values().filter(|h| Arc::ptr_eq(&h.heard, &heard)).map(|h| h.call.id);
        // Ids count up and may wrap around.
        let oldest = oldest.max_by_key(|id| call.id.wrapping_sub(*id)).unwrap_or(call.id);
        heard.outstanding.note(oldest, call.id);
        if let Err(reason) = self.serve(engine, &heard, call) {
            // Whoever has gone needs no answer.
            let _ = heard.listener.resume(call.id);
            reason.into_iter().for_each(|reason| self.count(reason));
        }
    }

    /// Claims a connection for a call. An error, with the reason if it is worth counting, is a call that is the kernel's.
    fn serve(&mut self, engine: &mut Engine, heard: &Arc<Heard>, call: Notification) -> Result<(), Option<Pass>> {
        let (number, address, len) = call.connect;
        let mut bytes = [0u8; MAX_BYTES];
        let bytes = bytes.get_mut(..len).ok_or(None)?;
        let read = process::read_memory(call.thread, address, bytes).map_err(|e| reason_of(&e))?;
        let to = sockaddr::destination(&bytes[..read]).ok_or(None)?;
        if !engine.may_know(to.ip()) {
            return Err(Some(Pass::UnknownAddress));
        }
        let file = process::descriptor(call.thread, number).map_err(|e| reason_of(&e))?;
        let Look::Tcp(socket) = look(file, &self.fresh).map_err(Some)? else { return Err(None) };
        let app = app_of(call.thread).ok_or(Some(Pass::OutOfReach))?;
        // All of this was read of whoever has the number of this thread now: of the caller, if it still waits.
        if !heard.listener.waits(call.id) {
            return Err(None);
        }
        let n = self.next_held;
        self.next_held += 1;
        let now = engine.clock.now();
        let nonblocking = socket.nonblocking();
        let claim = Claim { app, to, domain: socket.domain, nonblocking, accepts_mapped: socket.accepts_mapped };
        let until = socket.patience.map(|patience| now + patience);
        self.held.insert(n, Held { heard: Arc::clone(heard), call, socket, to, until });
        let look_at = now + LOOK_EVERY;
        self.look_at = Some(self.look_at.map_or(look_at, |at| at.min(look_at)));
        engine.feed(Input::Claim(RequestId(HELD | n), claim));
        Ok(())
    }

    fn count(&mut self, reason: Pass) {
        *self.passed.entry(reason).or_default() += 1;
    }
}

impl Front for Seccomp {
    fn event(&mut self, engine: &mut Engine, token: u64) {
        let (_, n) = split(token);
        self.receive(engine, n);
    }

    fn tell(&mut self, engine: &mut Engine, n: u64, told: Told) {
        let Some(Held { heard, call, socket, .. }) = self.held.remove(&n) else { return };
        if self.held.is_empty() {
            self.look_at = None;
        }
        let listener = &heard.listener;
        let exchanged = match told {
            Told::HandOver { attempt, connected } => match engine.hand_over(attempt, connected) {
                Some(new) => exchange::exchange(listener, &call, socket, &self.fresh, &new).map(|()| match connected {
                    true => Ok(()),
                    false => Err(Errno::INPROGRESS.raw_os_error()),
                }),
                None => Err(Pass::NothingReady),
            },
            Told::Fail(errno) => Ok(Err(errno)),
            // The connector has counted it.
            Told::Pass(_) | Told::Answer(_) => {
                let _ = listener.resume(call.id);
                return;
            }
        };
        // Whoever has gone needs no answer.
        let _ = match exchanged {
            Ok(result) => listener.answer(call.id, result),
            Err(reason) => {
                let resumed = listener.resume(call.id);
                self.count(reason);
                resumed
            }
        };
    }
}

/// What there is to be had of a listener.
fn state(listener: &Listener) -> PollFlags {
    let mut ready = [PollFd::new(listener, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut ready, Some(&now)) {
        Ok(1) => ready[0].revents(),
        _ => PollFlags::empty(),
    }
}

/// Why a process could not be looked into; nothing to be counted if it only passed what is not there.
fn reason_of(e: &io::Error) -> Option<Pass> {
    match Errno::from_io_error(e) {
        Some(Errno::MFILE | Errno::NFILE) => Some(Pass::OutOfDescriptors),
        Some(Errno::BADF | Errno::FAULT | Errno::SRCH) => None,
        _ => Some(Pass::OutOfReach),
    }
}

/// The name of the file that the process of `thread` runs, as the preloaded library tells it.
fn app_of(thread: i32) -> Option<AppId> {
    let file = std::fs::read_link(format!("/proc/{thread}/exe")).ok()?;
    let mut name = file.file_name()?.to_string_lossy().into_owned();
    while name.len() > MAX_APP {
        name.pop();
    }
    Some(name.into())
}

#[cfg(test)]
mod tests;
