//! The front end of system calls: connects that wait for an answer by seccomp user notification, of any program, static or
//! not, and of all that it starts. It serves until the last of them has ended. Should it end before that, the
//! [watchdog](crate::watchdog) lets the kernel make their calls.
//!
//! A call is looked at from outside: the address in the program's memory, the socket behind its descriptor. Most are let go
//! within microseconds, as the kernel's own business. One that the connector may have something for is claimed as those of
//! the preloaded library are; a connection that comes of it is put in the place of the program's socket ([`exchange()`]).
//! A non-blocking caller is answered at once, whatever there is. A blocking one may wait, as it would in the kernel; the
//! kernel holds back its signals meanwhile (see [`sys::seccomp`](crate::sys::seccomp)), so they are looked for, and one that
//! waits sends the call to the kernel, which begins the connection and ends the call as connect(2) says.

mod app_socket;
mod event_sets;
mod exchange;
mod looks;
mod outstanding;
mod rescue;

use super::Front;
use super::engine::{Engine, Notice};
use super::stub::{Call, Redirected, Stub};
use super::token::{HEARD, HELD, of_run};
use crate::sys::memory::Memory;
use crate::sys::process;
use crate::sys::seccomp::{Kind, Listener, Notification};
use app_socket::{AppSocket, Fresh, Look, is_of_our_user, is_shut_down, look};
use exchange::{exchange, install};
use headstart_core::connect::{AppId, AttemptResult, Claim, Input, RequestId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::shim::{MAX_APP, Pass};
use headstart_core::wire::sockaddr::{self, MAX_BYTES};
use looks::Knowledge;
pub use outstanding::Outstanding;
use rescue::Rescues;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd, RawFd};

/// How often a program that waits is looked at for signals, and for whether it still waits. A tenth of what people notice,
/// and nothing beside a handshake; without a waiting program no look is taken.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Numbers of descriptors remembered: what most programs may have open.
const MAX_REDIRECTED: usize = 1024;

/// A call that waits.
#[derive(Debug)]
struct Held {
    call: Notification,
    socket: AppSocket,
    to: SocketAddr,
    /// When SO_SNDTIMEO has run out.
    until: Option<Instant>,
}

impl Held {
    /// Whether the program still has its socket under the number that it called with. A blocking call lasts long enough for
    /// another thread to close the number and open something else under it, and that must not be touched.
    fn is_in_place(&self) -> bool {
        let inode = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| stat.st_ino).ok();
        self.socket.nonblocking()
            || process::descriptor(self.call.thread, self.call.number)
                .is_ok_and(|now| inode(&now).is_some() && inode(&now) == inode(&self.socket.file))
    }

    /// Lets the kernel make the call, if that is still the call that the program made. A caller that has gone needs no answer.
    fn resume(&self, listener: &Listener) {
        let _ = if self.is_in_place() {
            listener.resume(self.call.id)
        } else {
            listener.answer(self.call.id, Err(Errno::BADF.raw_os_error()))
        };
    }
}

/// The programs of one run, covered through their system calls.
#[derive(Debug)]
pub(super) struct Seccomp {
    listener: Listener,
    /// What programs of this run keep waiting for is no other run's affair.
    memory: Memory,
    outstanding: Outstanding,
    /// Tells the watchdog, by its end, that calls are answered here no more.
    _duty: OwnedFd,
    run: u32,
    held: BTreeMap<u64, Held>,
    next_held: u32,
    look_at: Option<Instant>,
    fresh: Fresh,
    connects: u64,
    over: bool,
    /// Numbers of descriptors under which a program has been given a socket that leads to the stub. Any of them may be
    /// turned elsewhere.
    redirected: BTreeSet<RawFd>,
    rescues: Rescues,
    knowledge: Knowledge,
    looks: event_sets::Looks,
}

impl Seccomp {
    /// Hears the calls of run `run` that arrive at `listener`, until the last process under its filter has ended.
    pub fn new(
        engine: &mut Engine,
        run: u32,
        listener: OwnedFd,
        outstanding: OwnedFd,
        duty: OwnedFd,
    ) -> io::Result<Self> {
        // Where poll(2) waits, the kernel wakes us on the program's own processor (see `hand_over_in_place`).
        engine.poll.add_beside(&listener, HEARD | of_run(run))?;
        let listener = Listener::from(listener);
        listener.hand_over_in_place();
        Ok(Self {
            listener,
            memory: Memory::default(),
            outstanding: outstanding.into(),
            _duty: duty,
            run,
            held: BTreeMap::new(),
            next_held: 0,
            look_at: None,
            fresh: Fresh::read(),
            connects: 0,
            over: false,
            redirected: BTreeSet::new(),
            rescues: Rescues::default(),
            knowledge: Knowledge::default(),
            looks: event_sets::Looks::new(engine.clock.now()),
        })
    }

    /// The number of connects that were trapped so far.
    pub fn connects(&self) -> u64 {
        self.connects
    }

    /// Whether the last process under the filter has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// When the programs that wait are to be looked at.
    pub fn deadline(&self) -> Option<Instant> {
        self.look_at.into_iter().chain(self.rescues.deadline()).min()
    }

    /// Looks at the programs that wait: some have gone, some have a signal to handle, some have waited long enough.
    pub fn timeout(&mut self, engine: &mut Engine) {
        let now = engine.clock.now();
        self.rescues.expire(engine, now);
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        let mut ended = Vec::new();
        for (n, held) in &self.held {
            let id = held.call.id;
            if !self.listener.waits(id) {
                ended.push((*n, None));
            } else if process::signal_waits(held.call.thread) {
                held.resume(&self.listener);
                ended.push((*n, Some(Pass::Signal)));
            } else if is_shut_down(&held.socket.file) {
                // What the kernel says where another thread shuts down a socket that connects.
                let _ = self.listener.answer(id, Err(Errno::CONNRESET.raw_os_error()));
                ended.push((*n, None));
            } else if held.until.is_some_and(|until| until <= now) {
                // socket(7): SO_SNDTIMEO has run out; the connection goes on and EINPROGRESS says so.
                let errno = held.socket.begin(held.to);
                let _ = self.listener.answer(id, if errno == 0 { Ok(()) } else { Err(errno) });
                ended.push((*n, None));
            }
        }
        for (n, reason) in ended {
            self.held.remove(&n);
            let request = RequestId(HELD | n);
            reason.into_iter().for_each(|reason| engine.feed(Input::Passed(request, None, reason)));
            engine.feed(Input::Abandon(request));
        }
        // From the end of this look, which takes its time if many wait.
        self.look_at = (!self.held.is_empty()).then(|| engine.clock.now() + LOOK_EVERY);
    }

    /// Something arrived, or the end.
    fn receive(&mut self, engine: &mut Engine, stub: &mut Stub) {
        // To receive what is not there would wait for it.
        match state(&self.listener) {
            flags if flags.contains(PollFlags::IN) => {}
            flags if flags.intersects(PollFlags::HUP | PollFlags::ERR) => {
                engine.poll.remove_beside(HEARD | of_run(self.run));
                self.over = true;
                return;
            }
            _ => return,
        }
        let Ok(Some(call)) = self.listener.receive() else { return };
        // Ids count up and may wrap around.
        let oldest = self.held.values().map(|held| held.call.id).max_by_key(|id| call.id.wrapping_sub(*id));
        self.outstanding.note(oldest.unwrap_or(call.id), call.id);
        if self.rescues.concern(&call) {
            self.rescues.complete(engine, &self.listener, &call, &self.fresh);
        }
        if call.kind == Kind::Look {
            self.knowledge.looks(call.thread);
        }
        if matches!(call.kind, Kind::Look | Kind::Peer) {
            // A caller that has gone needs no answer.
            let _ = self.listener.resume(call.id);
            return;
        }
        self.connects += 1;
        let n = of_run(self.run) | u64::from(self.next_held);
        self.next_held = self.next_held.wrapping_add(1);
        let mut host = None;
        if let Err(reason) = self.serve(engine, stub, n, call, &mut host) {
            // A caller that has gone needs no answer.
            let _ = self.listener.resume(call.id);
            if let Some(reason) = reason {
                let host = host.map(|addr: IpAddr| addr.to_string());
                engine.feed(Input::Passed(RequestId(HELD | n), host, reason));
            }
        }
    }

    /// Claims a connection for a call. An error, with the reason if it is worth counting, is a call that is the kernel's.
    /// `host` is where the call goes, as soon as that is known.
    fn serve(
        &mut self,
        engine: &mut Engine,
        stub: &mut Stub,
        n: u64,
        call: Notification,
        host: &mut Option<IpAddr>,
    ) -> Result<(), Option<Pass>> {
        let (number, (address, len)) = (call.number, call.address);
        let mut bytes = [0u8; MAX_BYTES];
        let bytes = bytes.get_mut(..len).ok_or(None)?;
        let read = self.memory.read(call.thread, address, bytes).map_err(|e| reason_of(&e))?;
        if is_undoing(&bytes[..read]) && self.redirected.contains(&number) {
            return self.let_out(stub, &call);
        }
        let to = sockaddr::destination(&bytes[..read]).ok_or(None)?;
        *host = Some(to.ip());
        let is_server = engine.is_dns_server(to);
        let had_one_of_ours = self.redirected.contains(&number);
        if call.kind == Kind::Connect && !is_server && !had_one_of_ours && !engine.may_know(to.ip()) {
            return Err(Some(Pass::UnknownAddress));
        }
        let mut file = process::descriptor(call.thread, number).map_err(|e| reason_of(&e))?;
        if !is_of_our_user(&file) && !stub.has_given(&file) {
            return Err(Some(Pass::OutOfReach));
        }
        // Go and the C library connect datagram sockets to every address that they are about to connect to, and send nothing:
        // often under a number that was one of ours.
        if call.kind == Kind::Send || is_server || had_one_of_ours && stub.has_given(&file) {
            match self.redirect(engine, stub, &call, (to, file))? {
                Some(none_of_that) => file = none_of_that,
                None => return Ok(()),
            }
        }
        if call.kind == Kind::Send {
            return Err(None);
        }
        if !engine.may_know(to.ip()) {
            return Err(Some(Pass::UnknownAddress));
        }
        let Look::Tcp(socket) = look(file, &self.fresh).map_err(Some)? else { return Err(None) };
        // Refused by the kernel.
        if !sockaddr::is_for(&bytes[..read], socket.domain) {
            return Err(None);
        }
        self.claim(engine, n, call, to, socket)
    }

    /// Claims a connection to `to` for a call that is about `socket`; an error as above.
    fn claim(
        &mut self,
        engine: &mut Engine,
        n: u64,
        call: Notification,
        to: SocketAddr,
        socket: AppSocket,
    ) -> Result<(), Option<Pass>> {
        if is_switched_off(call.thread) {
            return Err(Some(Pass::SwitchedOff));
        }
        // Before a connection is opened that could not be handed over.
        if !self.looks.may_look(engine.clock.now(), call.thread, call.number) {
            return Err(Some(Pass::ManyDescriptors));
        }
        let app = app_of(call.thread).ok_or(Some(Pass::OutOfReach))?;
        // All of this was read from the thread that has this number now: it is the caller, if the call still waits.
        if !self.listener.waits(call.id) {
            return Err(None);
        }
        let now = engine.clock.now();
        let nonblocking = socket.nonblocking();
        let (domain, accepts_mapped) = (socket.domain, socket.accepts_mapped);
        let rescuable = nonblocking.then(|| self.knowledge.of(call.thread, &app));
        let claim = Claim { app, to, domain, nonblocking, accepts_mapped, rescuable };
        let until = socket.patience.map(|patience| now + patience);
        self.held.insert(n, Held { call, socket, to, until });
        let look_at = now + LOOK_EVERY;
        self.look_at = Some(self.look_at.map_or(look_at, |at| at.min(look_at)));
        engine.feed(Input::Claim(RequestId(HELD | n), claim));
        Ok(())
    }
}

impl Seccomp {
    /// Gives a program that undoes the connect of its socket one that leads elsewhere than to the stub; the kernel then makes the call.
    fn let_out(&self, stub: &Stub, call: &Notification) -> Result<(), Option<Pass>> {
        let file = process::descriptor(call.thread, call.number).map_err(|e| reason_of(&e))?;
        if let Some(new) = stub.let_out(&file) {
            install(&self.listener, call, file, &new).map_err(Some)?;
        }
        Err(None)
    }

    /// Notes that `new` is about to be put in the place of the socket of `call`. A caller whose exchange is not noted is answered by the
    /// kernel, should we be killed now.
    fn note_exchange(&self, call: &Notification, new: &OwnedFd, errno: i32) {
        let inode = rustix::fs::fstat(new).map_or(0, |stat| stat.st_ino);
        self.outstanding.note_exchange(call, inode, errno);
    }

    /// Lets the stub see to a call that turns the socket `file` to a DNS server, or away from one; the file if it is none of that.
    fn redirect(
        &mut self,
        engine: &mut Engine,
        stub: &mut Stub,
        call: &Notification,
        (to, file): (SocketAddr, OwnedFd),
    ) -> Result<Option<OwnedFd>, Option<Pass>> {
        if is_switched_off(call.thread) {
            return Err(Some(Pass::SwitchedOff));
        }
        // What leads to the stub already has to be seen to.
        let is_new = engine.is_dns_server(to) && !stub.has_given(&file);
        if is_new && !self.looks.may_look(engine.clock.now(), call.thread, call.number) {
            return Err(Some(Pass::ManyDescriptors));
        }
        let app = app_of(call.thread).ok_or(Some(Pass::OutOfReach))?;
        if !self.listener.waits(call.id) {
            return Err(None);
        }
        let how = if call.kind == Kind::Send { Call::Send } else { Call::Connect };
        let redirected = stub.redirect(engine, (&app, self.run), to, file.as_fd(), how);
        let Some(redirected) = redirected else { return Ok(Some(file)) };
        if let Redirected::Exchange(new) = &redirected {
            install(&self.listener, call, file, new).map_err(Some)?;
            if self.redirected.len() < MAX_REDIRECTED {
                self.redirected.insert(call.number);
            }
        }
        let _ = match how {
            // With the new socket under its descriptor.
            Call::Send => self.listener.resume(call.id),
            Call::Connect => self.listener.answer(call.id, Ok(())),
        };
        Ok(None)
    }
}

impl Front for Seccomp {
    fn event(&mut self, engine: &mut Engine, stub: &mut Stub, _: u64) {
        self.receive(engine, stub);
    }

    fn tell(&mut self, engine: &mut Engine, n: u64, told: Notice) {
        if let Notice::Rescue { to, stalled, by } = told {
            return self.rescues.begin(engine, RequestId(HELD | n), to, (stalled, by));
        }
        let Some(held) = self.held.remove(&n) else {
            if let Notice::HandOver { attempt, connected } = told {
                drop(engine.hand_over(attempt, connected));
            }
            return;
        };
        if self.held.is_empty() {
            self.look_at = None;
        }
        let id = held.call.id;
        let answer = match told {
            Notice::HandOver { attempt, connected } if !held.is_in_place() => {
                drop(engine.hand_over(attempt, connected));
                let request = RequestId(HELD | n);
                engine.feed(Input::NotTaken { request, to: held.to.ip(), connected, reason: Pass::NotNew });
                Err(Errno::BADF.raw_os_error())
            }
            Notice::HandOver { attempt, connected } => {
                let Held { call, socket, to, .. } = held;
                let errno = if connected { 0 } else { Errno::INPROGRESS.raw_os_error() };
                let new = engine.hand_over(attempt, connected).ok_or(Pass::NothingReady);
                let noted = new.inspect(|new| self.note_exchange(&call, new, errno));
                match noted.and_then(|new| exchange(&self.listener, &call, socket, &self.fresh, &new)) {
                    Ok(()) if connected => Ok(()),
                    Ok(()) => Err(errno),
                    Err(reason) => {
                        let _ = self.listener.resume(call.id);
                        return engine.feed(Input::NotTaken {
                            request: RequestId(HELD | n),
                            to: to.ip(),
                            connected,
                            reason,
                        });
                    }
                }
            }
            Notice::Fail(errno) => Err(errno),
            Notice::Begin(attempt) => {
                let errno = held.socket.begin(held.to);
                if [0, Errno::INPROGRESS.raw_os_error()].contains(&errno) {
                    engine.watch(attempt, held.socket.file);
                } else {
                    engine.feed(Input::Attempt(attempt, AttemptResult::Failed(errno)));
                }
                if errno == 0 { Ok(()) } else { Err(errno) }
            }
            // The connector has counted it.
            Notice::Pass(_) | Notice::Answer(_) | Notice::Answered(_) | Notice::Rescue { .. } => {
                return held.resume(&self.listener);
            }
        };
        // A caller that has gone needs no answer.
        let _ = self.listener.answer(id, answer);
    }

    fn close(&mut self, engine: &mut Engine) {
        if !self.over {
            engine.poll.remove_beside(HEARD | of_run(self.run));
        }
        for (n, held) in std::mem::take(&mut self.held) {
            held.resume(&self.listener);
            engine.feed(Input::Abandon(RequestId(HELD | n)));
        }
    }
}

/// Whether this is the address by which a connect is undone (connect(2)): AF_UNSPEC.
fn is_undoing(address: &[u8]) -> bool {
    address.first_chunk().is_some_and(|family| i32::from(u16::from_ne_bytes(*family)) == libc::AF_UNSPEC)
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

/// Whether the environment that the process of `thread` was started with says so, as it does to the preloaded library.
fn is_switched_off(thread: i32) -> bool {
    let environment = process::read_proc(thread, "environ").unwrap_or_default();
    environment.split(|b| *b == 0).any(|variable| variable == b"HEADSTART=off")
}

/// The name of the file that the process of `thread` runs, as the preloaded library tells it.
pub(super) fn app_of(thread: i32) -> Option<AppId> {
    let file = std::fs::read_link(format!("/proc/{thread}/exe")).ok()?;
    let mut name = file.file_name()?.to_string_lossy().into_owned();
    while name.len() > MAX_APP {
        name.pop();
    }
    Some(name.into())
}

#[cfg(test)]
mod tests;
