//! How a program's socket comes to lead to one of headstart's sockets. Two ways, tried and described in docs/decisions/0005.
//!
//! **By a room** (`sys::room`): the program's socket is exchanged for one of a network namespace in which the post has the
//! server's own address. Whatever the program looks at (the sender of an answer, its peer's name, its own address) is
//! as it was; so every resolver takes the answers, those that only send to an address included.
//!
//! **In place**, where no room can be had: the program's own socket is connected to a post on loopback. Answers then come
//! from there, which resolvers that check the sender drop; only those are redirected that are known not to: the C
//! library's, recognised by IP_RECVERR, and Go's, recognised by SO_BROADCAST.

use super::Post;
use super::strays::Strays;
use crate::poll::{Interest, is_readable};
use crate::supervisor::engine::Engine;
use crate::supervisor::token::{POST, ROOM};
use crate::sys::netns;
use crate::sys::room::{Beginning, Room, bind_anywhere};
use crate::sys::socket_option::{self, Value};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::options::{ATTACHED_FILTER, SocketOption};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, connect_unspec, getpeername, getsockname, ipproto,
    socket_with, sockopt,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Servers that posts stand for; resolv.conf has three at a time.
const MAX_POSTS: usize = 64;
/// Sockets of a family that wait in the room: a resolver asks for both families at once.
const SPARES: usize = 2;

/// For how long spare ones may be missing: a program that was just given the last one goes on to ask, and waits for the answer.
const SHORT_FOR: Duration = Duration::from_millis(2);
/// When it is tried again where there were none to be had.
const NO_MORE_FOR: Duration = Duration::from_secs(1);

/// Options that are set again on the socket that stands in, with the numbers of Linux (see `core::wire::options`).
const CARRIED: &[SocketOption] = &[
    (1, 2),   // SO_REUSEADDR
    (1, 6),   // SO_BROADCAST
    (1, 12),  // SO_PRIORITY
    (1, 20),  // SO_RCVTIMEO
    (1, 21),  // SO_SNDTIMEO
    (1, 29),  // SO_TIMESTAMP
    (1, 35),  // SO_TIMESTAMPNS
    (1, 40),  // SO_RXQ_OVFL
    (1, 45),  // SO_SELECT_ERR_QUEUE
    (0, 1),   // IP_TOS
    (0, 2),   // IP_TTL
    (0, 8),   // IP_PKTINFO
    (0, 10),  // IP_MTU_DISCOVER
    (0, 11),  // IP_RECVERR
    (0, 12),  // IP_RECVTTL
    (0, 13),  // IP_RECVTOS
    (41, 16), // IPV6_UNICAST_HOPS
    (41, 23), // IPV6_MTU_DISCOVER
    (41, 25), // IPV6_RECVERR
    (41, 26), // IPV6_V6ONLY
    (41, 49), // IPV6_RECVPKTINFO
    (41, 51), // IPV6_RECVHOPLIMIT
    (41, 62), // IPV6_DONTFRAG
    (41, 66), // IPV6_RECVTCLASS
    (41, 67), // IPV6_TCLASS
];
/// Sizes, of which the kernel tells the double.
const SIZES: &[SocketOption] = &[(1, 7), (1, 8)]; // SO_SNDBUF, SO_RCVBUF
/// Options that cannot stand for the same in a room, or that choose the way to the server: the program keeps its socket.
const BINDING: &[SocketOption] = &[
    (1, 5),  // SO_DONTROUTE
    (1, 15), // SO_REUSEPORT
    (1, 25), // SO_BINDTODEVICE
    ATTACHED_FILTER,
    (1, 36),  // SO_MARK
    (1, 37),  // SO_TIMESTAMPING
    (0, 4),   // IP_OPTIONS
    (0, 15),  // IP_FREEBIND
    (0, 19),  // IP_TRANSPARENT
    (0, 50),  // IP_UNICAST_IF
    (41, 76), // IPV6_UNICAST_IF
    (41, 78), // IPV6_FREEBIND
];
/// IP_RECVERR and IPV6_RECVERR, which the C library sets on its resolver's sockets (since glibc 2.32) and few others do.
const OF_LIBC: [SocketOption; 2] = [(0, 11), (41, 25)];
/// SO_BROADCAST, which Go sets on every UDP socket.
const OF_GO: SocketOption = (1, 6);

/// A system call that turns a socket to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::supervisor) enum Call {
    /// connect(2).
    Connect,
    /// sendto(2) with a destination.
    Send,
}

/// What is to become of the call.
#[derive(Debug)]
pub(in crate::supervisor) enum Redirected {
    /// The program's socket is to be exchanged for this one. A connect has then succeeded, for it is connected; a sendto is
    /// to be continued, with the new socket under the program's descriptor. O_NONBLOCK is set as it was, FD_CLOEXEC is
    /// up to the caller that installs it.
    Exchange(OwnedFd),
    /// The program's own socket leads to us: its connect has succeeded; a sendto is to be continued.
    InPlace,
}

/// By which way sockets are redirected here.
#[derive(Debug, Default)]
pub(super) struct Ways {
    state: State,
    /// Unused sockets of the room, with their families: while a program waits, its child need not be waited for.
    spares: Vec<(AddressFamily, OwnedFd)>,
    /// Families of sockets that programs have been given, of which there are to be spares, and what sockets of the room are like.
    used: Vec<(AddressFamily, Blank)>,
    /// Since a spare one was taken: when there are to be enough of them again.
    refill_at: Option<Instant>,
    pub strays: Strays,
}

/// How far the room is.
#[derive(Debug, Default)]
enum State {
    /// Not needed yet.
    #[default]
    Unmade,
    /// It is being made.
    Begun(Beginning),
    /// It is there.
    Made(Room),
    /// There is none to be had.
    None,
}

/// What came of it: the post and the port that the socket asks from, if it is to be remembered; any post if none is named.
type Outcome = (Redirected, Option<usize>, Option<u16>);

impl Ways {
    /// As on a host where no room can be made.
    #[cfg(test)]
    pub fn without_room() -> Self {
        Self { state: State::None, ..Self::default() }
    }

    /// Whether only programs that were given a socket can reach the posts.
    pub fn is_private(&self) -> bool {
        matches!(self.state, State::Made(_))
    }

    pub fn redirect(
        &mut self,
        engine: &mut Engine,
        posts: &mut Vec<Post>,
        to: SocketAddr,
        socket: BorrowedFd<'_>,
        call: Call,
    ) -> Option<Outcome> {
        let is_udp = sockopt::socket_type(socket) == Ok(SocketType::DGRAM)
            && sockopt::socket_protocol(socket) == Ok(Some(ipproto::UDP));
        if !is_udp {
            return None;
        }
        let server = SocketAddr::new(to.ip().to_canonical(), to.port());
        let to = as_seen_by(socket, server)?;
        let is_server = engine.is_dns_server(server);
        let ours = self.has_given(socket);
        match (ours, is_server, call) {
            // It leads here already.
            (true, true, Call::Connect) => {
                let post = self.post(engine, posts, server)?;
                connect(socket, &to).ok()?;
                Some((Redirected::InPlace, Some(post), Some(local(socket)?.port())))
            }
            // To another server from the same socket, as musl asks all of them at once.
            (true, true, Call::Send) => {
                self.post(engine, posts, server)?;
                Some((Redirected::InPlace, None, Some(local(socket)?.port())))
            }
            // Out of the room again.
            (true, false, _) => {
                let stand_in = datagrams(sockopt::socket_domain(socket).ok()?).ok()?;
                carry(socket, &stand_in, &Blank::of(&stand_in)).then_some(())?;
                match (call, getpeername(socket).ok().flatten(), local(socket)) {
                    (Call::Connect, ..) => connect(&stand_in, &to).ok()?,
                    // What it sends without a destination goes to its server as before.
                    (Call::Send, Some(server), _) => connect(&stand_in, &server).ok()?,
                    // The port that the program has chosen, or any if another socket has it by now.
                    (Call::Send, None, from) => drop(from.map(|from| bind(&stand_in, &from))),
                }
                Some((Redirected::Exchange(stand_in), None, None))
            }
            // It asks one after the other of servers of which only some can be had here: were it brought in for these and
            // let out for those, it would have the answer of the last alone.
            (false, true, Call::Send) if !engine.names.knows_all_servers() => None,
            (false, true, _) => self.bring_in(engine, posts, (server, to), socket, call),
            _ => None,
        }
    }

    fn bring_in(
        &mut self,
        engine: &mut Engine,
        posts: &mut Vec<Post>,
        (server, to): (SocketAddr, SocketAddr),
        socket: BorrowedFd<'_>,
        call: Call,
    ) -> Option<Outcome> {
        if engine.network_namespace.is_none() || netns::cookie(socket).ok() != engine.network_namespace {
            return None;
        }
        let post = self.post(engine, posts, server)?;
        if self.room(engine).is_some() {
            let stand_in = self.stand_in(to, socket, call).ok()??;
            let port = local(&stand_in)?.port();
            return Some((Redirected::Exchange(stand_in), (call == Call::Connect).then_some(post), Some(port)));
        }
        if call == Call::Connect && checks_no_sender(socket) {
            connect(socket, &as_seen_by(socket, local(&posts[post].socket)?)?).ok()?;
            return Some((Redirected::InPlace, Some(post), Some(local(socket)?.port())));
        }
        None
    }

    /// Begins to make the room before it is needed; once it is made, [`attend`](Self::attend) goes on.
    pub fn furnish(&mut self, engine: &Engine) {
        if matches!(self.state, State::Unmade) {
            self.state = match Room::begin() {
                // Should it fail, the room is finished when it is needed.
                Ok(begun) => {
                    let _ = engine.poll.add(&begun, ROOM, Interest::Read);
                    State::Begun(begun)
                }
                Err(_) => State::None,
            };
        }
    }

    /// When there are to be enough spare sockets again.
    pub fn deadline(&self) -> Option<Instant> {
        self.refill_at
    }

    /// Whether `socket` leads to a post of the room.
    pub fn has_given(&self, socket: impl AsFd) -> bool {
        matches!(&self.state, State::Made(room) if room.holds(socket))
    }

    /// The program that waited has its answer: makes what the next will need, as far as it can be foreseen; spare sockets only in a
    /// `pause`, when no program waits for anything else.
    pub fn attend(&mut self, engine: &Engine, posts: &mut Vec<Post>, pause: bool) {
        if let State::Begun(begun) = &self.state {
            let is_ready = is_readable(begun);
            if !is_ready || self.finish(engine).is_none() {
                return;
            }
            for server in engine.names.servers() {
                // Should there be no place for it, the kernel's answer is the program's.
                let _ = self.post(engine, posts, *server);
                self.expect(if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 });
            }
            self.refill();
        }
        if self.is_short() {
            let now = engine.clock.now();
            if now >= *self.refill_at.get_or_insert(now + SHORT_FOR) && !pause {
                self.refill_at = Some(now + SHORT_FOR);
            } else if self.refill_at.is_some_and(|at| at <= now) {
                self.refill();
                // There are none to be had, for want of descriptors.
                self.refill_at = self.is_short().then(|| now + NO_MORE_FOR);
            }
        }
    }

    fn is_short(&self) -> bool {
        let enough = |family| self.spares.iter().filter(|(of, _)| of == family).count() >= SPARES;
        matches!(self.state, State::Made(_)) && !self.used.iter().all(|(family, _)| enough(family))
    }

    fn refill(&mut self) {
        self.refill_at = None;
        let State::Made(room) = &self.state else { return };
        for (family, _) in &self.used {
            while self.spares.iter().filter(|(of, _)| of == family).count() < SPARES {
                let Ok(socket) = room.datagrams(*family) else { return };
                self.spares.push((*family, socket));
            }
        }
    }

    /// Programs have sockets of this family. Without a room, nothing happens.
    fn expect(&mut self, family: AddressFamily) {
        if let State::Made(room) = &self.state
            && self.used.iter().all(|(of, _)| *of != family)
            && let Ok(socket) = room.datagrams(family)
        {
            self.used.push((family, Blank::of(&socket)));
            self.spares.push((family, socket));
        }
    }

    /// The room, made when it is first needed.
    fn room(&mut self, engine: &Engine) -> Option<&Room> {
        self.furnish(engine);
        self.finish(engine)
    }

    /// The room that has been begun, finished.
    fn finish(&mut self, engine: &Engine) -> Option<&Room> {
        if let State::Begun(begun) = &self.state {
            engine.poll.remove(begun);
            if let State::Begun(begun) = std::mem::replace(&mut self.state, State::None)
                && let Ok(room) = begun.finish()
            {
                self.strays = Strays::of(&room, &engine.poll);
                self.state = State::Made(room);
            }
        }
        match &self.state {
            State::Made(room) => Some(room),
            _ => None,
        }
    }

    /// A socket of the room.
    fn datagrams(&mut self, family: AddressFamily) -> io::Result<OwnedFd> {
        self.expect(family);
        if let Some(n) = self.spares.iter().position(|(of, _)| *of == family) {
            return Ok(self.spares.swap_remove(n).1);
        }
        match &self.state {
            State::Made(room) => room.datagrams(family),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// A socket of the room that stands in for the program's: the same options, and as far as the program can see the same
    /// address. `None` if there is none that could.
    fn stand_in(&mut self, to: SocketAddr, socket: BorrowedFd<'_>, call: Call) -> io::Result<Option<OwnedFd>> {
        let domain = sockopt::socket_domain(socket)?;
        let stand_in = self.datagrams(domain)?;
        let Some((_, blank)) = self.used.iter().find(|(family, _)| *family == domain) else { return Ok(None) };
        if !carry(socket, &stand_in, blank) {
            return Ok(None);
        }
        let Some(mut from) = local(socket) else { return Ok(None) };
        if call == Call::Connect && from.ip().is_unspecified() {
            // The address that the kernel would choose. Without a route it would say so: let it.
            let probe = datagrams(domain)?;
            connect(&probe, &to)?;
            let Some(chosen) = local(&probe) else { return Ok(None) };
            from.set_ip(chosen.ip());
        }
        bind_anywhere(&stand_in, from)?;
        if call == Call::Connect {
            connect(&stand_in, &to)?;
        }
        Ok(Some(stand_in))
    }

    /// The post that stands for `server`.
    fn post(&mut self, engine: &Engine, posts: &mut Vec<Post>, server: SocketAddr) -> Option<usize> {
        if let Some(n) = posts.iter().position(|p| p.server == server) {
            return Some(n);
        }
        if posts.len() >= MAX_POSTS {
            return None;
        }
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = if let Some(room) = self.room(engine) {
            let socket = room.datagrams(family).ok()?;
            bind_anywhere(&socket, server).ok()?;
            socket
        } else {
            let loopback: IpAddr =
                if server.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            let socket = datagrams(family).ok()?;
            bind(&socket, &SocketAddr::new(loopback, 0)).ok()?;
            socket
        };
        engine.poll.add(&socket, POST | posts.len() as u64, Interest::Read).ok()?;
        posts.push(Post { server, socket });
        Some(posts.len() - 1)
    }
}

/// A socket of the host that can take the place of `file`, one of the room whose connect its program undoes: bound as it was before, as
/// far as the kernel tells.
pub(super) fn let_out(file: &OwnedFd) -> Option<OwnedFd> {
    let peer = getpeername(file).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
    connect_unspec(file).ok()?;
    let domain = sockopt::socket_domain(file).ok()?;
    let stand_in = datagrams(domain).ok()?;
    carry(file.as_fd(), &stand_in, &Blank::of(&stand_in)).then_some(())?;
    // A port that is left is one that the program has chosen; an address may be the one that we chose, as the kernel would have.
    if let Some(mut from) = local(file).filter(|from| from.port() != 0) {
        let probe = datagrams(domain).ok()?;
        let chosen = peer.and_then(|peer| connect(&probe, &peer).ok()).and_then(|()| local(&probe));
        if chosen.is_some_and(|chosen| chosen.ip() == from.ip()) {
            from.set_ip(if from.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() });
        }
        bind(&stand_in, &from).ok()?;
    }
    Some(stand_in)
}

/// The options of a fresh socket, with which those that a program has set are found. What the kernel does not report
/// for its family is not among them.
#[derive(Debug)]
struct Blank {
    binding: Vec<(SocketOption, Value)>,
    carried: Vec<(SocketOption, Value)>,
    sizes: Vec<(SocketOption, Value)>,
}

impl Blank {
    fn of(socket: &OwnedFd) -> Self {
        let values = |list: &[SocketOption]| {
            list.iter().filter_map(|option| Some((*option, socket_option::get(socket, *option)?))).collect()
        };
        Self { binding: values(BINDING), carried: values(CARRIED), sizes: values(SIZES) }
    }
}

/// Sets the program's options on its stand-in, which is as `blank`; false if one of them cannot be.
fn carry(socket: BorrowedFd<'_>, stand_in: &OwnedFd, blank: &Blank) -> bool {
    let value = |option: &SocketOption| socket_option::get(socket, *option);
    if blank.binding.iter().any(|(option, untouched)| value(option).as_ref() != Some(untouched)) {
        return false;
    }
    for (option, untouched) in &blank.carried {
        let Some(value) = value(option) else { return false };
        if value != *untouched && !socket_option::set(stand_in, *option, &value) {
            return false;
        }
    }
    for (option, untouched) in &blank.sizes {
        if let Some(size) = value(option).filter(|value| value != untouched).and_then(|value| value.int()) {
            // One that is too large for an ordinary user is cut, and does for questions and answers all the same.
            socket_option::set(stand_in, *option, &Value::of_int(size / 2));
        }
    }
    let nonblocking = fcntl_getfl(socket).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    rustix::io::ioctl_fionbio(stand_in, nonblocking).is_ok()
}

/// Whether this is the socket of a resolver that does not look where an answer comes from once it has connected.
fn checks_no_sender(socket: BorrowedFd<'_>) -> bool {
    let is_set = |option| socket_option::get(socket, option).and_then(|v| v.int()) == Some(1);
    OF_LIBC.into_iter().any(is_set) || is_set(OF_GO)
}

/// `to` as a socket of this domain has to name it.
fn as_seen_by(socket: BorrowedFd<'_>, to: SocketAddr) -> Option<SocketAddr> {
    match (sockopt::socket_domain(socket).ok()?, to.ip()) {
        (AddressFamily::INET6, IpAddr::V4(ip)) => Some(SocketAddr::new(ip.to_ipv6_mapped().into(), to.port())),
        (AddressFamily::INET, IpAddr::V6(_)) => None,
        _ => Some(to),
    }
}

fn local(socket: impl AsFd) -> Option<SocketAddr> {
    SocketAddr::try_from(getsockname(socket).ok()?).ok()
}

fn datagrams(domain: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket_with(domain, SocketType::DGRAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?)
}
