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
mod rescue;
mod sieve;

use super::Front;
use super::engine::{Engine, Notice};
use super::stub::{Call, Redirected, Stub};
use super::token::{HEARD, HELD, of_run};
use crate::calls::{Calls, Next, Received};
use crate::poll::Interest;
use crate::sys::process;
use crate::sys::seccomp::{Kind, Notification};
use app_socket::{AppSocket, Fresh, Look, is_of_our_user, is_shut_down, look};
use exchange::Exchange;
use headstart_core::connect::{AppId, AttemptId, AttemptResult, Claim, Input, RequestId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::shim::{MAX_APP, Pass};
use headstart_core::wire::sockaddr;
use rescue::Rescues;
use rustix::io::Errno;
use sieve::Known;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// How often a program that waits is looked at for signals, and for whether it still waits. A tenth of what people notice,
/// and nothing beside a handshake; without a waiting program no look is taken.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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

    /// Lets the kernel make the call, if that is still the call that the program made.
    fn resume(&self, calls: &Calls) {
        if self.is_in_place() {
            calls.resume(self.call.id);
        } else {
            calls.answer(self.call.id, Err(Errno::BADF.raw_os_error()));
        }
    }
}

/// The programs of one run, covered through their system calls.
#[derive(Debug)]
pub(super) struct Seccomp {
    calls: Calls,
    /// What the thread that receives them knows.
    known: Arc<Known>,
    /// Tells the watchdog, by its end, that calls are answered here no more.
    duty: Option<OwnedFd>,
    run: u32,
    held: BTreeMap<u64, Held>,
    next_held: u32,
    look_at: Option<Instant>,
    fresh: Fresh,
    over: bool,
    rescues: Rescues,
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
        let known = Arc::new(Known::new(Arc::clone(&engine.returned_addresses), engine.clock));
        let calls = Calls::new(listener.into(), outstanding.into(), known.clone())?;
        engine.poll.add(&calls, HEARD | of_run(run), Interest::Read)?;
        Ok(Self {
            calls,
            known,
            duty: Some(duty),
            run,
            held: BTreeMap::new(),
            next_held: 0,
            look_at: None,
            fresh: Fresh::read(),
            over: false,
            rescues: Rescues::default(),
            looks: event_sets::Looks::new(engine.clock.now()),
        })
    }

    /// The number of connects that were trapped so far.
    pub fn connects(&self) -> u64 {
        self.known.connects()
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
        self.known.set_rescuing(!self.rescues.is_empty());
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        let mut ended = Vec::new();
        for (n, held) in &self.held {
            let id = held.call.id;
            if !self.calls.listener().waits(id) {
                // Its caller has gone.
                self.calls.resume(id);
                ended.push((*n, None));
            } else if process::signal_waits(held.call.thread) {
                held.resume(&self.calls);
                ended.push((*n, Some(Pass::Signal)));
            } else if is_shut_down(&held.socket.file) {
                // What the kernel says where another thread shuts down a socket that connects.
                self.calls.answer(id, Err(Errno::CONNRESET.raw_os_error()));
                ended.push((*n, None));
            } else if held.until.is_some_and(|until| until <= now) {
                // socket(7): SO_SNDTIMEO has run out; the connection goes on and EINPROGRESS says so.
                let errno = held.socket.begin(held.to);
                self.calls.answer(id, if errno == 0 { Ok(()) } else { Err(errno) });
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

    /// Tells the connector of the connects that were let go since the last time: none of them has woken this thread.
    pub fn catch_up(&mut self, engine: &mut Engine) {
        for (at, host) in self.known.passed() {
            let request = RequestId(HELD | self.next_number());
            engine.feed_at(at, Input::Passed(request, Some(host.to_string()), Pass::UnknownAddress));
        }
    }

    /// A number for a connect that no other of this run has.
    fn next_number(&mut self) -> u64 {
        let n = of_run(self.run) | u64::from(self.next_held);
        self.next_held = self.next_held.wrapping_add(1);
        n
    }

    /// Something arrived, or the end.
    fn receive(&mut self, engine: &mut Engine, stub: &mut Stub) {
        let Received { call, address } = match self.calls.next() {
            Next::Call(received) => received,
            Next::Nothing => return,
            Next::Over => {
                engine.poll.remove(&self.calls);
                self.over = true;
                // If calls can only not be received any more, they are the watchdog's now.
                self.duty = None;
                return;
            }
        };
        if self.rescues.concern(&call) {
            let hand = hand(engine, &self.calls, &self.known, &mut self.looks);
            self.rescues.complete(engine, hand, &call, &self.fresh);
            self.known.set_rescuing(!self.rescues.is_empty());
        }
        if call.kind == Kind::Look {
            self.known.looks(call.thread);
        }
        if matches!(call.kind, Kind::Look | Kind::Peer) {
            return self.calls.resume(call.id);
        }
        self.known.count_connect();
        let n = self.next_number();
        let mut host = None;
        let served = address.map_err(|e| reason_of(&e));
        let served = served.and_then(|address| self.serve(engine, stub, n, (call, &address), &mut host));
        if let Err(reason) = served {
            self.calls.resume(call.id);
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
        (call, address): (Notification, &[u8]),
        host: &mut Option<IpAddr>,
    ) -> Result<(), Option<Pass>> {
        let number = call.number;
        let had_one_of_ours = self.known.is_redirected(number);
        if sieve::is_undoing(address) && had_one_of_ours {
            return self.let_out(engine, stub, &call);
        }
        let to = sockaddr::destination(address).ok_or(None)?;
        *host = Some(to.ip());
        let is_server = engine.is_dns_server(to);
        if call.kind == Kind::Connect && !is_server && !had_one_of_ours && !engine.returned_addresses.may_have(to.ip())
        {
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
        if !engine.returned_addresses.may_have(to.ip()) {
            return Err(Some(Pass::UnknownAddress));
        }
        let Look::Tcp(socket) = look(file, &self.fresh).map_err(Some)? else { return Err(None) };
        // Refused by the kernel.
        if !sockaddr::is_for(address, socket.domain) {
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
        if !self.may_exchange(engine, &call) {
            return Err(Some(Pass::ManyDescriptors));
        }
        let app = app_of(call.thread).ok_or(Some(Pass::OutOfReach))?;
        // All of this was read from the thread that has this number now: it is the caller, if the call still waits.
        if !self.calls.listener().waits(call.id) {
            return Err(None);
        }
        let now = engine.clock.now();
        let nonblocking = socket.nonblocking();
        let (domain, accepts_mapped) = (socket.domain, socket.accepts_mapped);
        let rescuable = nonblocking.then(|| self.known.of(call.thread, &app));
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
    /// Whether there is time to look for the epoll sets of the program that has made this call, if it may have any.
    fn may_exchange(&mut self, engine: &Engine, call: &Notification) -> bool {
        let now = engine.clock.now();
        self.looks.has_none(now, call.thread, self.known.event_sets_made())
            || self.looks.may_look(now, call.thread, call.number)
    }

    /// Gives a program that undoes the connect of its socket one that leads elsewhere than to the stub; the kernel then makes the call.
    fn let_out(&mut self, engine: &Engine, stub: &Stub, call: &Notification) -> Result<(), Option<Pass>> {
        let file = process::descriptor(call.thread, call.number).map_err(|e| reason_of(&e))?;
        if let Some(new) = stub.let_out(&file) {
            hand(engine, &self.calls, &self.known, &mut self.looks).install(call, file, &new).map_err(Some)?;
        }
        Err(None)
    }

    /// Notes that `new` is about to be put in the place of the socket of `call`. A caller whose exchange is not noted is answered by the
    /// kernel, should we be killed now.
    fn note_exchange(&self, call: &Notification, new: &OwnedFd, errno: i32) {
        let inode = rustix::fs::fstat(new).map_or(0, |stat| stat.st_ino);
        self.calls.outstanding().note_exchange(call, inode, errno);
    }

    /// Gives a program that waits the socket of `attempt` in the place of its own; the kernel makes the call where that cannot be done.
    fn hand_over(&mut self, engine: &mut Engine, n: u64, held: Held, attempt: AttemptId, connected: bool) {
        let Held { call, socket, to, .. } = held;
        let errno = if connected { 0 } else { Errno::INPROGRESS.raw_os_error() };
        let new = engine.hand_over(attempt, connected).ok_or(Pass::NothingReady);
        let noted = new.inspect(|new| self.note_exchange(&call, new, errno));
        let exchanged = noted.and_then(|new| {
            hand(engine, &self.calls, &self.known, &mut self.looks).exchange(&call, socket, &self.fresh, &new)
        });
        match exchanged {
            Ok(()) => self.calls.answer(call.id, if connected { Ok(()) } else { Err(errno) }),
            Err(reason) => {
                self.calls.resume(call.id);
                engine.feed(Input::NotTaken { request: RequestId(HELD | n), to: to.ip(), connected, reason });
            }
        }
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
        if is_new && !self.may_exchange(engine, call) {
            return Err(Some(Pass::ManyDescriptors));
        }
        let app = app_of(call.thread).ok_or(Some(Pass::OutOfReach))?;
        if !self.calls.listener().waits(call.id) {
            return Err(None);
        }
        let how = if call.kind == Kind::Send { Call::Send } else { Call::Connect };
        let redirected = stub.redirect(engine, (&app, self.run), to, file.as_fd(), how);
        let Some(redirected) = redirected else { return Ok(Some(file)) };
        if let Redirected::Exchange(new) = &redirected {
            hand(engine, &self.calls, &self.known, &mut self.looks).install(call, file, new).map_err(Some)?;
            self.known.add_redirected(call.number);
        }
        match how {
            // With the new socket under its descriptor.
            Call::Send => self.calls.resume(call.id),
            Call::Connect => self.calls.answer(call.id, Ok(())),
        }
        Ok(None)
    }
}

impl Front for Seccomp {
    fn event(&mut self, engine: &mut Engine, stub: &mut Stub, _: u64) {
        self.receive(engine, stub);
    }

    fn tell(&mut self, engine: &mut Engine, n: u64, told: Notice) {
        if let Notice::Rescue { to, stalled, by } = told {
            // The program may look as soon as it has been woken.
            self.known.set_rescuing(true);
            self.rescues.begin(engine, RequestId(HELD | n), to, (stalled, by));
            return self.known.set_rescuing(!self.rescues.is_empty());
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
                return self.hand_over(engine, n, held, attempt, connected);
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
                return held.resume(&self.calls);
            }
        };
        self.calls.answer(id, answer);
    }

    fn close(&mut self, engine: &mut Engine) {
        if !self.over {
            engine.poll.remove(&self.calls);
        }
        for (n, held) in std::mem::take(&mut self.held) {
            held.resume(&self.calls);
            engine.feed(Input::Abandon(RequestId(HELD | n)));
        }
    }
}

/// What it takes to exchange a socket now.
fn hand<'a>(engine: &Engine, calls: &'a Calls, known: &Known, looks: &'a mut event_sets::Looks) -> Exchange<'a> {
    Exchange { listener: calls.listener(), looks, made: known.event_sets_made(), now: engine.clock.now() }
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
