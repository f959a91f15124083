//! The supervisor: the connector's hands. It hears the preloaded libraries of one run, sends what the connector wants
//! sent, opens what it wants opened, and gives away what is ready. One thread, one epoll set; no decision is made here.

use crate::clock::Clock;
use crate::dns::Transport;
use crate::folder::{Folder, FolderError};
use crate::names::Names;
use crate::poll::{Interest, Poll};
use crate::sys::netns;
use crate::tcp;
use headstart_core::connect::{
    AttemptId, AttemptResult, Claim, Connector, Input, LookupResult, Output, RequestId, Resolve, Resolved, Settings,
    Tally, Want,
};
use headstart_core::machine::Machine;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::Instant;
use headstart_core::wire::shim::{FILTER_BYTES, MAX_MESSAGE, Pass, Reply, Request, filter_bit};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, connect, listen, recv, sendmsg, socket_with, sockopt,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Connections of libraries that may wait to be accepted.
const BACKLOG: i32 = 512;
/// Nobody can be counted without end.
const MAX_COUNTED: usize = 65_536;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
/// The kind of a token is in its upper byte; the lower seven number the thing.
const KIND: u32 = 56;
const CALLER: u64 = 1 << KIND;
const EXCHANGE: u64 = 2 << KIND;
const ATTEMPT: u64 = 3 << KIND;

/// A program that waits for a reply.
#[derive(Debug)]
struct Caller {
    socket: OwnedFd,
    /// The name it asked for, if it did.
    name: Option<String>,
    /// Its question has been read.
    asked: bool,
}

#[derive(Debug)]
struct Attempt {
    socket: OwnedFd,
    began: Instant,
    /// A program holds the same socket.
    given: bool,
}

/// The supervisor of one run.
#[derive(Debug)]
pub struct Supervisor {
    clock: Clock,
    poll: Poll,
    listener: OwnedFd,
    /// Given up to turn callers away when there are no more descriptors.
    spare: Option<OwnedFd>,
    filter: File,
    known: Box<[u8; FILTER_BYTES]>,
    connector: Connector,
    names: Names,
    transport: Transport,
    callers: BTreeMap<u64, Caller>,
    attempts: BTreeMap<u64, Attempt>,
    next_caller: u64,
    routes: Option<(bool, bool)>,
    processes: BTreeSet<i32>,
    user: rustix::process::Uid,
    /// Ours; `None` on kernels that do not tell (before 5.14).
    network_namespace: Option<u64>,
}

/// Why a supervisor could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Its folder is not usable.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A system call failed.
    #[error("the supervisor could not be set up: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for SupervisorError {
    fn from(e: Errno) -> Self {
        Self::Io(e.into())
    }
}

impl Supervisor {
    /// A supervisor that is heard of in `folder`.
    pub fn new(folder: &Folder, mut settings: Settings, names: Names) -> Result<Self, SupervisorError> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new(folder.socket())?)?;
        // The folder is private already; so is the socket, should anybody move it.
        rustix::fs::chmod(folder.socket(), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        listen(&listener, BACKLOG)?;
        let network_namespace = netns::cookie(&listener).ok();
        let poll = Poll::new()?;
        poll.add(&listener, LISTENER, Interest::Read)?;
        settings.servers = u32::try_from(names.servers().len()).unwrap_or(1);
        Ok(Self {
            clock: Clock::new(),
            poll,
            spare: listener.try_clone().ok(),
            listener,
            filter: folder.filter()?,
            known: Box::new([0; FILTER_BYTES]),
            connector: Connector::new(settings),
            names,
            transport: Transport::default(),
            callers: BTreeMap::new(),
            attempts: BTreeMap::new(),
            next_caller: 0,
            routes: None,
            processes: BTreeSet::new(),
            user: rustix::process::getuid(),
            network_namespace,
        })
    }

    /// What was gained and what it cost so far.
    pub fn tally(&self) -> &Tally {
        self.connector.tally()
    }

    /// Processes that have asked anything.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// DNS messages that were ignored: malformed, forged or late.
    pub fn ignored_messages(&self) -> u64 {
        self.transport.ignored
    }

    /// Serves until `stop` becomes readable.
    pub fn run_until(&mut self, stop: impl AsFd) -> io::Result<()> {
        self.poll.add(&stop, STOP, Interest::Read)?;
        let mut tokens = Vec::new();
        loop {
            let deadline = self.connector.poll_timeout().map(|d| d.at);
            self.poll.wait(&self.clock, deadline, &mut tokens)?;
            let now = self.clock.now();
            for token in tokens.iter().copied() {
                match (token & (0xff << KIND), token & !(0xff << KIND)) {
                    (_, STOP) if token == STOP => {
                        self.poll.remove(&stop);
                        return Ok(());
                    }
                    (0, _) => self.accept(),
                    (CALLER, n) => self.hear(n, true),
                    (EXCHANGE, n) => {
                        if let Some((query, result)) = self.transport.event(&self.poll, |n| EXCHANGE | n, n) {
                            self.feed(Input::Lookup(query, result));
                        }
                    }
                    (ATTEMPT, n) => self.attempt_ended(n),
                    _ => {}
                }
            }
            if deadline.is_some_and(|at| at <= now) {
                self.connector.handle_timeout(self.clock.now());
                self.drain();
            }
        }
    }

    fn feed(&mut self, input: Input) {
        self.connector.handle_input(self.clock.now(), input);
        self.drain();
    }

    fn accept(&mut self) {
        // One at a time: whoever else waits is told of again, and most often nobody does.
        let socket = match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE) => return self.turn_away(),
            Err(_) => return,
        };
        let n = self.next_caller;
        self.next_caller += 1;
        match sockopt::socket_peercred(&socket) {
            // The folder is private already; root may look in, others may not.
            Ok(peer) if peer.uid == self.user || peer.uid.is_root() => {
                if self.processes.len() < MAX_COUNTED {
                    self.processes.insert(peer.pid.as_raw_pid());
                }
            }
            _ => return,
        }
        // What is reached from here is not what is reached from another network namespace. The accepted end belongs to
        // the namespace of the one that connected.
        if netns::cookie(&socket).ok() != self.network_namespace {
            return;
        }
        self.callers.insert(n, Caller { socket, name: None, asked: false });
        // A library sends right after it has connected, so the question is most often here already.
        self.hear(n, false);
        if let Some(caller) = self.callers.get(&n) {
            let interest = if caller.asked { Interest::HangUp } else { Interest::Read };
            if self.poll.add(&caller.socket, CALLER | n, interest).is_err() {
                self.callers.remove(&n);
            }
        }
    }

    /// Out of descriptors: the caller is let go, so that it helps itself, by means of one that was kept for this.
    fn turn_away(&mut self) {
        drop(self.spare.take());
        drop(accept_with(&self.listener, SocketFlags::CLOEXEC));
        self.spare = self.listener.try_clone().ok();
    }

    /// Hears a caller, which is `watched` already or has just been accepted.
    fn hear(&mut self, n: u64, watched: bool) {
        let Some(caller) = self.callers.get_mut(&n) else { return };
        if caller.asked {
            // Nothing is to be heard of a caller that waits but its going away.
            self.callers.remove(&n);
            return self.feed(Input::Abandon(RequestId(n)));
        }
        let mut bytes = [0u8; MAX_MESSAGE];
        let request = match recv(&caller.socket, &mut bytes[..], RecvFlags::empty()) {
            Ok((_, 0)) => None,
            Ok((_, len)) => Request::decode(&bytes[..len.min(MAX_MESSAGE)]),
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => None,
        };
        let Some(request) = request else {
            self.callers.remove(&n);
            return;
        };
        caller.asked = true;
        if watched {
            // Should it fail, the caller's going away is noticed when it is replied to.
            let _ = self.poll.change(&caller.socket, CALLER | n, Interest::HangUp);
        }
        match request {
            Request::Resolve { app, name, family, port, configured_only } => {
                caller.name = Some(name.clone());
                self.look_around();
                if let Err(reason) = self.names.check(&name) {
                    return self.reply(n, &Reply::Pass(reason), None);
                }
                let want = match (family, self.routes) {
                    (Some(family), _) => Want::Only(family),
                    (None, Some((true, false))) if configured_only => Want::Only(Family::V4),
                    (None, Some((false, true))) if configured_only => Want::Only(Family::V6),
                    (None, _) => Want::Both,
                };
                let ask = Resolve { app: app.into(), name, want, port };
                self.feed(Input::Resolve(RequestId(n), ask));
            }
            Request::Connect { app, to, domain, nonblocking, accepts_mapped } => {
                let claim = Claim { app: app.into(), to, domain, nonblocking, accepts_mapped };
                self.feed(Input::Claim(RequestId(n), claim));
            }
        }
    }

    /// Sees whether the host's rules or routes have changed since the last question.
    fn look_around(&mut self) {
        self.names.refresh();
        // RFC 5737 and RFC 3849: documentation addresses, to which nothing is sent; a UDP connect only looks for a route.
        let v4 = has_route(SocketAddr::from(([192, 0, 2, 1], 9)));
        let v6 = has_route(SocketAddr::new(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]), 9));
        if self.routes != Some((v4, v6)) {
            self.routes = Some((v4, v6));
            self.feed(Input::Network { id: NetworkId::default(), v4, v6 });
        }
    }

    fn attempt_ended(&mut self, n: u64) {
        let Some(attempt) = self.attempts.get(&n) else { return };
        let elapsed = self.clock.now() - attempt.began;
        let outcome = match attempt.given {
            true => tcp::outcome_for_bystanders(&attempt.socket, elapsed),
            false => tcp::outcome(&attempt.socket, elapsed),
        };
        let result = match outcome {
            Ok(rtt) => AttemptResult::Connected(rtt),
            Err(errno) => AttemptResult::Failed(errno.raw_os_error()),
        };
        self.poll.remove(&attempt.socket);
        if attempt.given || matches!(result, AttemptResult::Failed(_)) {
            self.attempts.remove(&n);
        }
        self.feed(Input::Attempt(AttemptId(n), result));
    }

    fn drain(&mut self) {
        while let Some(output) = self.connector.poll_output() {
            match output {
                Output::Query { id, name, family, server } => {
                    let servers = self.names.servers();
                    let to = servers[server as usize % servers.len()];
                    if self.transport.send(&self.poll, |n| EXCHANGE | n, id, (name, family), to).is_err() {
                        let now = self.clock.now();
                        self.connector.handle_input(now, Input::Lookup(id, LookupResult::Refused));
                    }
                }
                Output::Forget(query) => self.transport.forget(query),
                Output::Connect { id, to, domain } => self.begin(id, to, domain),
                Output::Close(AttemptId(n)) => {
                    if let Some(attempt) = self.attempts.remove(&n) {
                        self.poll.remove(&attempt.socket);
                    }
                }
                Output::Answer(RequestId(n), resolved) => self.answer(n, resolved),
                Output::HandOver { request: RequestId(n), attempt: AttemptId(a), connected } => {
                    self.hand_over(n, a, connected);
                }
                Output::Fail(RequestId(n), errno) => self.reply(n, &Reply::Failed(errno), None),
                Output::Pass(RequestId(n), reason) => self.reply(n, &Reply::Pass(reason), None),
            }
        }
    }

    fn begin(&mut self, AttemptId(n): AttemptId, to: SocketAddr, domain: Family) {
        let began = self.clock.now();
        let begun = tcp::begin(to, domain).and_then(|socket| {
            let added = self.poll.add(&socket, ATTEMPT | n, Interest::Write);
            added.map(|()| socket).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
        });
        match begun {
            Ok(socket) => {
                self.attempts.insert(n, Attempt { socket, began, given: false });
            }
            Err(errno) => {
                let result = AttemptResult::Failed(errno.raw_os_error());
                self.connector.handle_input(began, Input::Attempt(AttemptId(n), result));
            }
        }
    }

    fn answer(&mut self, n: u64, resolved: Resolved) {
        let searches = self.callers.get(&n).and_then(|c| c.name.as_ref()).is_some_and(|s| self.names.would_search(s));
        let reply = match resolved {
            Resolved::Addresses(list) => {
                list.iter().for_each(|a| self.make_known(*a));
                Reply::Addresses(list)
            }
            Resolved::NxDomain | Resolved::NoData if searches => Reply::Pass(Pass::SearchDomain),
            Resolved::NxDomain => Reply::NoName,
            Resolved::NoData => Reply::NoData,
            Resolved::Unanswered => Reply::TryAgain,
        };
        self.reply(n, &reply, None);
    }

    /// Sets the bit of `addr` in the filter that the libraries have mapped.
    fn make_known(&mut self, addr: IpAddr) {
        let bit = filter_bit(addr);
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        if self.known[at] & mask == 0 {
            self.known[at] |= mask;
            // Should it fail, programs connect to this address themselves.
            let _ = self.filter.write_all_at(&self.known[at..=at], at as u64);
        }
    }

    fn hand_over(&mut self, n: u64, a: u64, connected: bool) {
        if !connected {
            let Some(attempt) = self.attempts.get_mut(&a) else { return };
            attempt.given = true;
            // The library's file and ours are one; ours goes on telling how it ends.
            let socket = attempt.socket.try_clone();
            return match socket {
                Ok(socket) => self.reply(n, &Reply::HandOver { connected }, Some(socket.as_fd())),
                Err(_) => self.reply(n, &Reply::Pass(Pass::NothingReady), None),
            };
        }
        match self.attempts.remove(&a) {
            Some(attempt) if tcp::is_good(&attempt.socket) => {
                self.reply(n, &Reply::HandOver { connected }, Some(attempt.socket.as_fd()));
            }
            // Closed by the peer since: the program's own connect will see how things stand.
            _ => self.reply(n, &Reply::Pass(Pass::NothingReady), None),
        }
    }

    /// Replies to a caller, which thereby has its answer and is let go.
    fn reply(&mut self, n: u64, reply: &Reply, descriptor: Option<BorrowedFd<'_>>) {
        let Some(caller) = self.callers.remove(&n) else { return };
        let encoded = reply.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: &[BorrowedFd<'_>] = descriptor.as_slice();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let bytes = [IoSlice::new(encoded.as_ref())];
        // A caller that has gone needs no reply; one that cannot be replied to makes its own connect.
        let _ = sendmsg(&caller.socket, &bytes, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

fn has_route(to: SocketAddr) -> bool {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).is_ok_and(|s| connect(s, &to).is_ok())
}
