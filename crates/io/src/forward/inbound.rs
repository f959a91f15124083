//! What programs of an [`Enclosure`](super::Enclosure) listen on, listened on outside as well, so that they can be called (docs/decisions/0108),
//! and ports of UDP that they bind (docs/decisions/0113).
//!
//! listen(2) of a program waits (seccomp user notification) until the same port is open outside, with the same scope: any address, or one,
//! or loopback. It is then made in the program's place, on its own socket, so that nothing can have changed in between. A port that
//! is taken outside, or that this process may not have, is replaced by another one, which is told of. What no program listens on any
//! more is closed: it is looked for after a call that was refused, and from time to time, as long as there is any. Callers on this host are
//! carried by sockets inside, since no packet of theirs would leave it; others are handed on.
//! Not covered: calls by io_uring, programs of another word size, and kernels before 5.19.

mod bound;

use super::loopback::{Theirs, listening, streams};
use crate::calls::{Calls, Closed, Next, Outstanding, Received};
use crate::sys::netns::{self, NetNs};
use crate::sys::process;
use crate::sys::seccomp::{Kind, Listener, Notification};
use bound::Bound;
pub(super) use bound::Wanted;
use headstart_core::forward::MappingId;
use headstart_core::machine::Deadline;
use headstart_core::time::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// When it is looked up whether programs still listen: first so long after one has begun to, then each time twice as long after, as the
/// services of the host are; and how long after a call that was refused.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_LOOK: Duration = Duration::from_secs(64);
const SOON: Duration = Duration::from_millis(100);
/// Ports that are open at a time.
const MOST: usize = 1024;
/// The port of a question that sends nothing: discard, RFC 863.
const DISCARD: u16 = 9;

/// What a program listens on, and where it can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Where it listens.
    pub inside: SocketAddr,
    /// Where the host does for it, if it does.
    pub outside: Option<SocketAddr>,
    /// For datagrams, not for connections.
    pub is_udp: bool,
}

/// A port that is open outside.
#[derive(Debug)]
struct Open {
    inside: SocketAddr,
    listener: TcpListener,
    /// What is said of it to those who look for services of the host.
    known_as: Vec<listening::Service>,
    /// It cannot accept for now: this process has no descriptor left.
    rests: bool,
}

/// A call that has come in.
#[derive(Debug)]
pub(super) enum Call {
    /// From another host, to the program at `app`.
    Outside {
        /// The caller's connection.
        socket: OwnedFd,
        /// Where the program listens.
        app: SocketAddr,
        /// The caller.
        peer: SocketAddr,
    },
    /// It is dealt with.
    Done,
}

/// What a program has called.
#[derive(Debug)]
pub(super) enum Heard {
    /// No program is left that could.
    Over,
    /// Nothing that is to be dealt with.
    Nothing,
    /// It listens: these ports are open because of it.
    Listens(Vec<u32>),
    /// It has bound ports, and waits until they are [open](Inbound::has_opened), and it may [go on](Inbound::go_on).
    Binds(u64, Vec<Wanted>),
}

/// What no program listens on any more, and what is to be listened to again.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Ports that could not accept.
    pub rested: Vec<u32>,
    /// Ports of datagrams that no program has bound any more.
    pub unbound: Vec<MappingId>,
}

/// See the module.
#[derive(Debug)]
pub struct Inbound {
    calls: Calls,
    inside: NetNs,
    cookie: u64,
    addresses: Vec<IpAddr>,
    theirs: Theirs,
    open: BTreeMap<u32, Open>,
    next: u32,
    bound: Vec<Bound>,
    look: (Instant, Duration),
    /// What is reachable by another port than it says, or not at all.
    moved: Vec<Offered>,
}

impl AsFd for Inbound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.calls.as_fd()
    }
}

impl Inbound {
    /// For the programs in `inside` whose calls of listen(2) and bind(2) arrive at `calls`, and are noted for their watchdog. Ports are opened
    /// in the namespace of the calling thread; `addresses` are those of `inside`, and what is opened is entered in `theirs`.
    pub fn new(
        (calls, outstanding): (Listener, Outstanding),
        inside: &NetNs,
        addresses: Vec<IpAddr>,
        theirs: Theirs,
    ) -> io::Result<Self> {
        let (inside, cookie) = (inside.try_clone()?, inside.run(netns::own_cookie)??);
        let look = (Instant::ZERO, FIRST_LOOK);
        let (open, bound, moved) = (BTreeMap::new(), Vec::new(), Vec::new());
        let calls = Calls::new(calls, outstanding, Arc::new(Closed))?;
        Ok(Self { calls, inside, cookie, addresses, theirs, open, next: 0, bound, look, moved })
    }

    /// The addresses that the programs have.
    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// What is reachable by another port than it says, or not at all.
    pub fn moved(&self) -> &[Offered] {
        &self.moved
    }

    /// Where its programs are.
    pub(super) fn inside(&self) -> io::Result<NetNs> {
        self.inside.try_clone()
    }

    /// A program is about to listen or to bind a port, or none is left that could.
    pub(super) fn heard(&mut self, now: Instant) -> Heard {
        let Received { call, address } = match self.calls.next() {
            Next::Call(received) => received,
            Next::Nothing => return Heard::Nothing,
            Next::Over => return Heard::Over,
        };
        let before = self.next;
        let made = match call.kind {
            Kind::Listen { backlog } => self.listen_for(now, call, backlog),
            Kind::Bind => match address.ok().and_then(|address| self.bind_for(call, &address)) {
                Some(Ok(wanted)) if !wanted.is_empty() => return Heard::Binds(call.id, wanted),
                made => made.map(|made| made.map(drop)),
            },
            _ => None,
        };
        match made {
            Some(result) => self.calls.answer(call.id, result.map_err(Errno::raw_os_error)),
            None => self.calls.resume(call.id),
        }
        Heard::Listens((before..self.next).filter(|number| self.open.contains_key(number)).collect())
    }

    /// Makes the call, if it is one of these programs' and of TCP.
    fn listen_for(&mut self, now: Instant, call: Notification, backlog: i32) -> Option<Result<(), Errno>> {
        let socket = process::descriptor(call.thread, call.number).ok()?;
        // What was read of a thread is its own if it still waits.
        if !self.calls.listener().waits(call.id) || !self.is_of_tcp(&socket) {
            return None;
        }
        if let Err(errno) = rustix::net::listen(&socket, backlog) {
            return Some(Err(errno));
        }
        let at = rustix::net::getsockname(&socket).ok().and_then(|at| SocketAddr::try_from(at).ok());
        if let Some(at) = at {
            let takes_mapped = at.is_ipv6() && !sockopt::ipv6_v6only(&socket).unwrap_or(true);
            self.offer(now, canonical(at), takes_mapped && at.ip().is_unspecified());
        }
        Some(Ok(()))
    }

    fn is_of_tcp(&self, socket: &OwnedFd) -> bool {
        matches!(sockopt::socket_domain(socket), Ok(AddressFamily::INET | AddressFamily::INET6))
            && sockopt::socket_type(socket) == Ok(SocketType::STREAM)
            && sockopt::socket_acceptconn(socket) == Ok(false)
            && self.is_theirs(socket)
    }

    fn is_theirs(&self, socket: &OwnedFd) -> bool {
        netns::cookie(socket).is_ok_and(|cookie| cookie == self.cookie)
    }

    /// A port is about to be open. What is to be looked at sooner is not put off: a program may bind one port after the other.
    fn look_from(&mut self, now: Instant) {
        let at = now + FIRST_LOOK;
        self.look = (if self.is_empty() { at } else { at.min(self.look.0) }, FIRST_LOOK);
    }

    fn tell_moved(&mut self, inside: SocketAddr, outside: Option<SocketAddr>, is_udp: bool) {
        self.moved.push(Offered { inside, outside, is_udp });
    }

    /// Opens outside what a program listens on inside.
    fn offer(&mut self, now: Instant, inside: SocketAddr, takes_mapped: bool) {
        self.look_from(now);
        if self.open.len() >= MOST || self.open.values().any(|open| open.inside == inside) {
            // Where several processes listen on one port, it is open already.
            return;
        }
        // Nobody looks for services of the host while this one is not entered.
        let theirs = self.theirs.clone();
        let mut theirs = theirs.lock();
        let listener = open_outside(inside, takes_mapped);
        let outside = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        if outside.is_none_or(|outside| outside.port() != inside.port()) {
            self.tell_moved(inside, outside, false);
        }
        let (Some(listener), Some(outside)) = (listener, outside) else { return };
        let known_as = listening::seen_as(outside, listening::ServiceKind::Streams);
        theirs.extend(&known_as);
        self.open.insert(self.next, Open { inside, listener, known_as, rests: false });
        self.next += 1;
    }

    /// The socket that listens outside.
    pub(super) fn listener(&self, number: u32) -> Option<&TcpListener> {
        self.open.get(&number).map(|open| &open.listener)
    }

    /// The next call on a port; none if there is none for now.
    pub(super) fn accept(&mut self, now: Instant, number: u32) -> Option<Call> {
        let open = self.open.get_mut(&number)?;
        let (stream, peer) = match open.listener.accept() {
            Ok(accepted) => accepted,
            // They were gone before they were there.
            Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {
                return Some(Call::Done);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
            Err(_) => {
                open.rests = true;
                self.look_soon(now);
                return None;
            }
        };
        let port = open.inside.port();
        let Some(app) = self.app_of(&stream, port) else {
            streams::reset(&stream);
            return Some(Call::Done);
        };
        let peer = canonical(peer);
        if !is_here(peer.ip()) {
            return Some(Call::Outside { socket: stream.into(), app, peer });
        }
        match self.inside.try_clone() {
            Ok(inside) => streams::carry_inside(stream, inside, app),
            Err(_) => streams::reset(&stream),
        }
        Some(Call::Done)
    }

    /// Where inside a call is for: the address that was called where the programs have it, and otherwise one that they have.
    fn app_of(&self, stream: &TcpStream, port: u16) -> Option<SocketAddr> {
        let called = canonical(stream.local_addr().ok()?).ip();
        let has = called.is_loopback() || self.addresses.contains(&called);
        let mut own = self.addresses.iter().filter(|ip| ip.is_ipv4() == called.is_ipv4());
        let ip = if has { called } else { *own.next()? };
        Some(SocketAddr::new(ip, port))
    }

    /// Whether a port cannot accept for now, and is to be listened to again later.
    pub(super) fn rests(&self, number: u32) -> bool {
        self.open.get(&number).is_some_and(|open| open.rests)
    }

    /// A program was called and did not answer: perhaps it does not listen any more.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.look.0 = self.look.0.min(now + SOON);
    }

    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.bound.is_empty()
    }

    /// When it is to be looked up whether programs still listen.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        (!self.is_empty()).then_some(Deadline { at: self.look.0, why: "what programs listen on" })
    }

    /// Closes what no program listens on any more, if it is time to look.
    pub(super) fn look(&mut self, now: Instant) -> Looked {
        let (at, wait) = self.look;
        if self.is_empty() || now < at {
            return Looked::default();
        }
        let wait = (wait * 2).min(LONGEST_LOOK);
        self.look = (now + wait, wait);
        let mut unbound = Vec::new();
        // What cannot be seen now is seen later.
        if let Ok(Ok((services, ports))) = self.inside.run(there) {
            let streams = |one: &listening::Service| one.kind == listening::ServiceKind::Streams;
            let there: BTreeSet<SocketAddr> = services.into_iter().filter(streams).map(|one| one.at).collect();
            let mut theirs = self.theirs.lock();
            self.open.retain(|_, open| {
                let stays = there.contains(&open.inside);
                if !stays {
                    open.known_as.iter().for_each(|service| _ = theirs.remove(service));
                }
                stays
            });
            drop(theirs);
            unbound = self.forget_unbound(&ports);
        }
        let rested = |(number, open): (&u32, &mut Open)| std::mem::take(&mut open.rests).then_some(*number);
        Looked { rested: self.open.iter_mut().filter_map(rested).collect(), unbound }
    }
}

/// What listens in the namespace of the calling thread, and its ports of datagrams.
fn there() -> io::Result<(Vec<listening::Service>, BTreeSet<SocketAddr>)> {
    Ok((listening::services()?, listening::ports_of_datagrams()?))
}

/// A socket of the calling thread's namespace that listens as a program does inside; on another port where that one is not to be had.
fn open_outside(inside: SocketAddr, takes_mapped: bool) -> Option<TcpListener> {
    let open = |port| listening::listen(SocketAddr::new(inside.ip(), port), takes_mapped).map(TcpListener::from);
    match open(inside.port()) {
        Ok(listener) => Some(listener),
        // The address is no address of the host's.
        Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => None,
        Err(_) => open(0).ok(),
    }
}

/// What is mapped is IPv4.
fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

/// Whether an address is this host's: what is sent to such a one begins at it, or, if it is the second of a network of IPv4, may begin there.
pub(super) fn is_here(ip: IpAddr) -> bool {
    let begins_at = |from: IpAddr| {
        let asked = UdpSocket::bind((from, 0)).and_then(|socket| {
            socket.connect((ip, DISCARD))?;
            socket.local_addr()
        });
        asked.is_ok_and(|own| own.ip() == ip)
    };
    let any: IpAddr = if ip.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    ip.is_loopback() || begins_at(any) || (ip.is_ipv4() && begins_at(ip))
}
