//! The sockets that lead to peers, with the options that programs' packets and sockets show.

use super::exit::Exit;
use crate::sys::socket_option::{Value, get, set};
use crate::sys::{datagram, tcp_info, train};
use headstart_core::forward::{Agreed, Facts, Failure, UNSENT_AT_FIRST};
use headstart_core::wire::ip::icmp::Trouble;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, bind, connect, ipproto, shutdown, socket_with, sockopt,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// TCP_NOTSENT_LOWAT of linux/tcp.h.
const NOTSENT_LOWAT: (i32, i32) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
/// TCP_MAXSEG of linux/tcp.h.
const MAXSEG: (i32, i32) = (libc::IPPROTO_TCP, libc::TCP_MAXSEG);
/// IP_BIND_ADDRESS_NO_PORT of ip(7), for both families.
const LATE_PORT: (i32, i32) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
/// IP_RECVERR of ip(7), and IPV6_RECVERR of ipv6(7).
const ERRORS: [(i32, i32); 2] = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
/// IP_MTU of ip(7), and IPV6_MTU of ipv6(7).
const PATH_MTU: [(i32, i32); 2] = [(libc::IPPROTO_IP, libc::IP_MTU), (libc::IPPROTO_IPV6, libc::IPV6_MTU)];
/// SO_PRIORITY of socket(7).
const PRIORITY: (i32, i32) = (libc::SOL_SOCKET, libc::SO_PRIORITY);
/// Below it, a port needs CAP_NET_BIND_SERVICE (ip(7)).
const FIRST_UNPRIVILEGED: u16 = 1024;
/// Room for datagrams that have come, until they are read; Linux takes twice that, for what it adds to each. 512 KiB: 450 of them, 37 ms at 100 Mbit/s.
const RECEIVED: usize = 512 * 1024;

/// Room for what an error quotes of a SYN.
const QUOTED: usize = 128;

/// The most probes of TCP_KEEPCNT (net/tcp.h).
const MOST_PROBES: u32 = 127;

/// Sockets that are ready before a program wants them, one of each family: making one takes as long as a neighbour's answer.
#[derive(Debug, Default)]
pub struct Stock {
    ready: [Option<OwnedFd>; 2],
    /// Families that programs use.
    used: [bool; 2],
}

impl Stock {
    /// A socket of a family, without Nagle's algorithm.
    pub fn take(&mut self, v4: bool, exit: &Exit) -> Result<OwnedFd, Errno> {
        let place = usize::from(!v4);
        self.used[place] = true;
        self.ready[place].take().map_or_else(|| make(v4, exit), Ok)
    }

    /// Makes what was taken anew. To be called when no connection waits.
    pub fn refill(&mut self, exit: &Exit) {
        for (place, v4) in [true, false].into_iter().enumerate() {
            if self.used[place] && self.ready[place].is_none() {
                self.ready[place] = make(v4, exit).ok();
                // Where it fails, it fails again for a program that wants it, which is told, and is not tried before.
                self.used[place] = self.ready[place].is_some();
            }
        }
    }

    /// Throws away what was made for another way out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// A socket that sends nothing yet, without Nagle's algorithm.
fn make(v4: bool, exit: &Exit) -> Result<OwnedFd, Errno> {
    let family = if v4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    ready(&socket, exit)?;
    // Who says what of a connection that is not opened; without it there is an errno.
    set(&socket, ERRORS[usize::from(!v4)], &Value::of_int(1));
    Ok(socket)
}

/// A connection that [`begin`] has begun is open: what the network says from now on is no error until it is given up (RFC 5461).
pub fn opened(socket: impl AsFd, v4: bool) {
    set(socket, ERRORS[usize::from(!v4)], &Value::of_int(0));
}

/// Readies a socket that has not sent anything yet, or that a peer has just connected.
pub fn ready(socket: impl AsFd, exit: &Exit) -> Result<(), Errno> {
    exit.ready(&socket)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_oobinline(&socket, true)?;
    hold_unsent(&socket, UNSENT_AT_FIRST);
    Ok(())
}

/// From now on a socket takes more as long as it holds less than so many bytes that have not been sent.
pub fn hold_unsent(socket: impl AsFd, bytes: usize) {
    let value = Value::of_int(i32::try_from(bytes).unwrap_or(i32::MAX));
    // Kernels of today have it; without it more waits in the socket.
    set(socket, NOTSENT_LOWAT, &value);
}

/// Where a connection is to begin, as far as this host lets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The program's own port.
    pub port: u16,
    /// The address of this host that the program has chosen, if it has.
    pub address: Option<IpAddr>,
    /// The socket of another connection that begins at the same end of the program.
    pub beside: Option<BorrowedFd<'a>>,
    /// A connection that began at this end of the program is over since a moment ago.
    pub was_left: bool,
}

impl Origin<'_> {
    /// Has a socket begin there; whether it has the port. Not a privileged one: in a namespace, that shows no right of this host.
    fn bind(&self, socket: &OwnedFd, v4: bool) -> bool {
        let here = SocketAddr::new(self.address.unwrap_or(any(v4)), self.port);
        if self.port >= FIRST_UNPRIVILEGED && self.take(socket, here) {
            return true;
        }
        if let Some(ip) = self.address {
            // The port is chosen when the peer is known, as for others: so there are enough.
            set(socket, LATE_PORT, &Value::of_int(1));
            let _ = bind(socket, &SocketAddr::new(ip, 0));
        }
        false
    }

    fn take(&self, socket: &OwnedFd, here: SocketAddr) -> bool {
        if bind(socket, &here).is_ok() {
            return true;
        }
        // Two connections of the program share it, as its kernel lets them, and so may ours; or it is in TIME_WAIT (see `end`), and the program's
        // is too, which its kernel has let it take again. Where something else has it too, it stays that one's.
        let may_share = self.beside.map_or(self.was_left, shares);
        may_share && shares(socket.as_fd()) && bind(socket, &here).is_ok()
    }
}

/// Has a socket share its port with others that do.
fn shares(socket: BorrowedFd<'_>) -> bool {
    sockopt::set_socket_reuseaddr(socket, true).is_ok()
}

/// Ends what a connection sends. If its peer has not ended first, its port may be in TIME_WAIT later, from when no option can be set any more: what
/// begins at the same end of the program shares it.
pub fn end(socket: impl AsFd, peer_has_ended: bool) {
    if !peer_has_ended {
        shares(socket.as_fd());
    }
    // Where it fails the connection is no more, which reading tells.
    let _ = shutdown(socket, Shutdown::Write);
}

/// No address of a host.
fn any(v4: bool) -> IpAddr {
    if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// What a program's first packet shows, and its connection is to have: traffic class and hop limit, Nagle's algorithm off or on, and segments
/// of this length.
pub type Wanted = (u8, Option<u8>, bool, Option<u16>);

/// Begins to connect a socket to `peer`, from the program's own port if that is free here, or else from another.
pub fn begin(
    peer: SocketAddr,
    origin: Origin<'_>,
    wanted: Wanted,
    (stock, exit): (&mut Stock, &Exit),
) -> Result<OwnedFd, Errno> {
    let start = |socket: OwnedFd| match connect(&socket, &peer) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(e) => Err(e),
    };
    let socket = furnished(peer, wanted, (&mut *stock, exit))?;
    let is_bound = origin.bind(&socket, peer.is_ipv4());
    match start(socket) {
        // Another connection has these very ends, or had them a moment ago and its peer may not have forgotten (TIME_WAIT).
        Err(Errno::ADDRNOTAVAIL) if is_bound => {
            let socket = furnished(peer, wanted, (stock, exit))?;
            Origin { port: 0, ..origin }.bind(&socket, peer.is_ipv4());
            start(socket)
        }
        started => started,
    }
}

/// A socket for a connection to `peer` that is as wanted.
fn furnished(
    peer: SocketAddr,
    (traffic_class, hop_limit, no_delay, mss): Wanted,
    (stock, exit): (&mut Stock, &Exit),
) -> Result<OwnedFd, Errno> {
    let socket = stock.take(peer.is_ipv4(), exit)?;
    if traffic_class != 0 {
        mark(&socket, peer.is_ipv4(), traffic_class)?;
    }
    if let Some(limit) = hop_limit {
        match peer {
            SocketAddr::V4(_) => sockopt::set_ip_ttl(&socket, limit.into())?,
            SocketAddr::V6(_) => sockopt::set_ipv6_unicast_hops(&socket, Some(limit))?,
        }
    }
    if !no_delay {
        sockopt::set_tcp_nodelay(&socket, false)?;
    }
    if let Some(mss) = mss {
        // One that this host does not take is not the program's either.
        set(&socket, MAXSEG, &Value::of_int(mss.into()));
    }
    Ok(socket)
}

/// The largest segment that a kernel takes on an interface with this MTU, if a program does not want less (RFC 9293, section 3.7.1).
pub fn usual_mss(mtu: u32, v4: bool) -> u32 {
    mtu.saturating_sub(if v4 { 40 } else { 60 })
}

/// What a program has set on its socket and no packet shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Nagle's algorithm is off (TCP_NODELAY).
    pub no_delay: bool,
    /// How long data may be without an acknowledgement, in milliseconds; as long as the host tries if 0 (TCP_USER_TIMEOUT).
    pub user_timeout: u32,
    /// The congestion control (TCP_CONGESTION), if it is another than that of its namespace.
    pub congestion: Option<String>,
    /// Its priority on this host (SO_PRIORITY).
    pub priority: Option<i32>,
}

/// Gives a connection what a program has set on its own socket. The priority comes last, for the traffic class sets one too (ip(7)).
pub fn mirror(socket: impl AsFd, options: &Options) {
    let socket = socket.as_fd();
    let _ = sockopt::set_tcp_nodelay(socket, options.no_delay);
    let _ = sockopt::set_tcp_user_timeout(socket, options.user_timeout);
    if let Some(congestion) = &options.congestion {
        let _ = sockopt::set_tcp_congestion(socket, congestion);
    }
    if let Some(priority) = options.priority.filter(|wanted| priority(socket) != Some(*wanted)) {
        set(socket, PRIORITY, &Value::of_int(priority));
    }
}

/// The priority of what a socket sends (SO_PRIORITY).
pub fn priority(socket: impl AsFd) -> Option<i32> {
    get(socket, PRIORITY)?.int()
}

/// Sets the traffic class of a connection.
pub fn mark(socket: impl AsFd, v4: bool, traffic_class: u8) -> Result<(), Errno> {
    if v4 { sockopt::set_ip_tos(socket, traffic_class) } else { sockopt::set_ipv6_tclass(socket, traffic_class.into()) }
}

/// Where a connection begins.
pub fn local(socket: impl AsFd) -> Option<SocketAddr> {
    rustix::net::getsockname(socket).ok()?.try_into().ok()
}

/// The largest segment of a connection, and what else both ends have agreed on.
pub fn agreed(socket: impl AsFd) -> (Option<u16>, Agreed) {
    /// TCPI_OPT_TIMESTAMPS and TCPI_OPT_SACK of linux/tcp.h.
    const TIMESTAMPS: u8 = 1;
    const SACK: u8 = 2;
    let Ok(info) = tcp_info::tcp_info(socket) else { return Default::default() };
    let agreed = Agreed { timestamps: info.options & TIMESTAMPS != 0, ranges: info.options & SACK != 0 };
    (u16::try_from(info.snd_mss).ok(), agreed)
}

/// The longest packet that a connection's path takes, as far as the kernel knows.
pub fn path_mtu(socket: impl AsFd, v4: bool) -> Option<u32> {
    get(socket, PATH_MTU[usize::from(!v4)])?.int()?.try_into().ok()
}

/// Has the kernel ask now whether the peer is still there: at once after a second of silence, or when it is over (`tcp_keepalive_timer`
/// of the kernel's tcp_timer.c, which a new TCP_KEEPIDLE sets anew). It does not give up by itself.
pub fn probe(socket: impl AsFd) -> Result<(), Errno> {
    sockopt::set_tcp_keepcnt(&socket, MOST_PROBES)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, Duration::from_secs(1))
}

/// Has the kernel of a program's socket give up on its peer, with the error that it would have had by its own clock: its timeout is
/// set to the minimum and it probes the peer; the second unanswered probe ends it. To be called until
/// [`is_closed`], and while nothing is answered.
pub fn give_up(socket: impl AsFd) -> Result<(), Errno> {
    sockopt::set_tcp_user_timeout(&socket, 1)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, Duration::from_secs(1))
}

/// Whether a connection is over.
pub fn is_closed(socket: impl AsFd) -> bool {
    /// TCP_CLOSE of net/tcp_states.h.
    const CLOSE: u8 = 7;
    tcp_info::tcp_info(socket).is_ok_and(|info| info.state == CLOSE)
}

/// Segments that have come in, if the kernel tells.
pub fn came_in(socket: impl AsFd) -> Option<u32> {
    tcp_info::tcp_info(socket).ok()?.segs_in
}

/// How long the handshake of a connection that has just been opened took. None after a lost SYN: which one was answered is not known
/// (RFC 6298, section 3).
pub fn handshake(socket: impl AsFd) -> Option<Duration> {
    let info = tcp_info::tcp_info(socket).ok()?;
    (info.total_retrans == 0 && !info.rtt.is_zero()).then_some(info.rtt)
}

/// What the kernel knows of a connection.
pub fn facts(socket: impl AsFd) -> Option<Facts> {
    let info = tcp_info::tcp_info(socket).ok()?;
    Some(Facts { rtt: info.rtt, min_rtt: info.min_rtt, retransmissions: info.total_retrans })
}

/// What an errno of a connection says.
pub fn failure(errno: Errno) -> Failure {
    match errno {
        Errno::CONNREFUSED => Failure::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Failure::Reset,
        Errno::TIMEDOUT => Failure::Silence,
        other => match datagram::trouble_of(other.raw_os_error()) {
            Some(Trouble::PortUnreachable) | None => Failure::Here,
            Some(trouble) => Failure::Trouble(trouble),
        },
    }
}

/// What an errno of a connection that was not opened says, and who has said so, if that is known.
pub fn refusal(socket: impl AsFd, errno: Errno) -> Failure {
    let (mut bytes, mut told) = (Vec::with_capacity(QUOTED), None);
    while let Ok(lost) = datagram::receive_error(&socket, &mut bytes) {
        bytes.clear();
        let is_end = |trouble: &Trouble| !matches!(trouble, Trouble::TooBig(_));
        let trouble = lost.trouble.filter(is_end);
        told = lost.reporter.zip(trouble).or(told);
    }
    told.map_or_else(|| failure(errno), |(reporter, trouble)| Failure::Told { reporter, trouble })
}

/// A socket for a program's datagrams, from the program's own port if it is free here, and from the address that the program has chosen, if it
/// has. Where `trains` are wanted, many that come in a row come at once.
pub fn datagrams((v4, origin): (bool, Origin<'_>), trains: bool, exit: &Exit) -> std::io::Result<OwnedFd> {
    let socket = datagram::udp(v4)?;
    // What a program has made its own buffer for must fit in here too. Without the right, as much as the host lets everyone have.
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVED).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVED);
    }
    if trains {
        // Where the kernel cannot, each comes by itself.
        let _ = train::take(&socket);
    }
    exit.ready(&socket)?;
    let address = origin.address.unwrap_or(any(v4));
    let wanted = [(address, origin.port), (address, 0), (any(v4), 0)].map(|(ip, port)| SocketAddr::new(ip, port));
    let is_beside = || origin.beside.is_some_and(|other| bind_beside(&socket, other, wanted[0]));
    if bind(&socket, &wanted[0]).is_err() && !is_beside() && bind(&socket, &wanted[1]).is_err() {
        bind(&socket, &wanted[2])?;
    }
    Ok(socket)
}

/// Binds a socket for datagrams to an address at whose port another of ours has all addresses, or the other way round. Nothing else may share it
/// afterwards: it would get what is sent to them.
fn bind_beside(socket: &OwnedFd, other: BorrowedFd<'_>, at: SocketAddr) -> bool {
    let is_bound = shares(other) && shares(socket.as_fd()) && bind(socket, &at).is_ok();
    for one in [socket.as_fd(), other] {
        let _ = sockopt::set_socket_reuseaddr(one, false);
    }
    is_bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::{LOOPBACK, Netlink};
    use crate::sys::netns::NetNs;
    use std::net::TcpListener;

    /// Begins to connect to a service of this host.
    fn begun(to: &TcpListener, origin: Origin<'_>) -> OwnedFd {
        let parts = (&mut Stock::default(), &Exit::default());
        begin(to.local_addr().unwrap(), origin, (0, None, true, None), parts).unwrap()
    }

    fn port(socket: impl AsFd) -> u16 {
        local(socket).unwrap().port()
    }

    /// In a namespace where no other test has a port: the kernel gives one that is in use to what connects elsewhere.
    fn alone(test: impl FnOnce() + Send) {
        let namespace = NetNs::create().unwrap();
        namespace.run(|| Netlink::open().unwrap().up(LOOPBACK).map(|()| test()).unwrap()).unwrap();
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn connections_that_share_a_port_inside_share_one_outside_and_no_other_does() {
        alone(|| {
            for any in ["127.0.0.1:0", "[::1]:0"] {
                let [one, other, third] = [(); 3].map(|()| TcpListener::bind(any).unwrap());
                let first = begun(&one, Origin::default());
                let own = Origin { port: port(&first), ..Origin::default() };
                assert_ne!(port(begun(&other, own)), own.port, "somebody else's");
                let shared = Origin { beside: Some(first.as_fd()), ..own };
                let second = begun(&other, shared);
                assert_eq!(port(&second), own.port);
                let after = Origin { beside: Some(second.as_fd()), ..own };
                assert_eq!(port(begun(&third, after)), own.port, "as many as there are");
            }
        });
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn whoever_may_not_begin_where_it_wants_begins_elsewhere() {
        alone(|| {
            let [one, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
            let first = begun(&one, Origin::default());
            let shared = Origin { port: port(&first), beside: Some(first.as_fd()), ..Origin::default() };
            // The very same ends.
            assert_ne!(port(begun(&one, shared)), shared.port);
            // What listens has its port for itself.
            let service = Origin { port: port(&other), ..shared };
            assert_ne!(port(begun(&one, service)), service.port);
            for privileged in [0, 22, 1023] {
                let origin = Origin { port: privileged, ..shared };
                assert_ne!(port(begun(&one, origin)), privileged);
            }
        });
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn ends_that_a_peer_may_remember_keep_no_connection_from_beginning() {
        alone(|| {
            let [one, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
            let kept = begun(&one, Origin::default());
            let shared = Origin { port: port(&kept), beside: Some(kept.as_fd()), ..Origin::default() };
            let ended = begun(&other, shared);
            assert_eq!(port(&ended), shared.port);
            let (peer, _) = other.accept().unwrap();
            // This side ends it first, and so is the one that remembers.
            drop(ended);
            drop(peer);
            let again = begun(&other, shared);
            assert_eq!(rustix::net::getpeername(&again).unwrap().unwrap(), other.local_addr().unwrap().into());
        });
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn a_port_in_time_wait_is_taken_again_at_an_end_that_was_left_and_at_no_other() {
        alone(|| {
            for any in ["127.0.0.1:0", "[::1]:0"] {
                let [one, other] = [(); 2].map(|()| TcpListener::bind(any).unwrap());
                let ended = begun(&one, Origin::default());
                let own = Origin { port: port(&ended), ..Origin::default() };
                let (peer, _) = one.accept().unwrap();
                end(&ended, false);
                drop(peer);
                let mut heard = [rustix::event::PollFd::new(&ended, rustix::event::PollFlags::RDHUP)];
                rustix::event::poll(&mut heard, None).unwrap();
                drop(ended);
                assert_ne!(port(begun(&other, own)), own.port, "somebody else's");
                let again = Origin { was_left: true, ..own };
                // To another peer, and to the same one.
                let second = begun(&other, again);
                assert_eq!(port(&second), own.port);
                let third = begun(&one, Origin { beside: Some(second.as_fd()), ..again });
                assert_eq!(port(&third), own.port);
                // What is open is no TIME_WAIT.
                assert_ne!(
                    port(begun(&TcpListener::bind(any).unwrap(), Origin { port: port(&other), ..again })),
                    port(&other)
                );
            }
        });
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn an_address_has_its_port_beside_a_socket_of_ours_that_has_all_and_nothing_else_gets_in_between() {
        alone(|| {
            let (exit, own) = (Exit::default(), IpAddr::from([127, 0, 0, 9]));
            let everywhere = datagrams((true, Origin::default()), false, &exit).unwrap();
            let at = SocketAddr::new(own, port(&everywhere));
            let origin = Origin { port: at.port(), address: Some(own), ..Origin::default() };
            assert_ne!(port(datagrams((true, origin), false, &exit).unwrap()), at.port(), "somebody else's");
            let beside = Origin { beside: Some(everywhere.as_fd()), ..origin };
            let socket = datagrams((true, beside), false, &exit).unwrap();
            assert_eq!(local(&socket), Some(at));
            let stranger = datagram::udp(true).unwrap();
            sockopt::set_socket_reuseaddr(&stranger, true).unwrap();
            assert_eq!(bind(&stranger, &at), Err(Errno::ADDRINUSE));
            // And the other way round.
            drop(everywhere);
            let all = Origin { port: at.port(), beside: Some(socket.as_fd()), ..Origin::default() };
            assert_eq!(
                local(datagrams((true, all), false, &exit).unwrap()),
                Some(SocketAddr::new(any(true), at.port()))
            );
        });
    }

    #[test]
    fn the_chosen_address_is_kept_whatever_becomes_of_the_port() {
        let service = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = IpAddr::from([127, 0, 0, 9]);
        let address = Some(own);
        let at = |socket: &OwnedFd| local(socket).map(|local| local.ip());
        let first = begun(&service, Origin { address, ..Origin::default() });
        assert_eq!(at(&first), address);
        // The very same ends, for which another port is taken.
        let same = Origin { port: port(&first), address, beside: Some(first.as_fd()), was_left: false };
        let second = begun(&service, same);
        assert_eq!((at(&second), port(&second) == same.port), (address, false));
        // One that is not this host's.
        let foreign = begun(&service, Origin { address: Some([192, 0, 2, 1].into()), ..Origin::default() });
        assert_eq!(at(&foreign), Some([127, 0, 0, 1].into()));
        for (address, expected) in [(address, own), (Some([192, 0, 2, 1].into()), any(true))] {
            let origin = Origin { address, ..Origin::default() };
            let socket = datagrams((true, origin), false, &Exit::default()).unwrap();
            assert_eq!(at(&socket), Some(expected));
        }
    }
}
