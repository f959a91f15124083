//! Connection attempts: non-blocking TCP sockets, of the domain that the program's socket has.

use crate::sys::socket_option::{self, Value};
use crate::sys::tcp_info::tcp_info;
use headstart_core::path::Family;
use headstart_core::time::Duration;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, connect, getpeername, ipproto, recv, socket_with, sockopt,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// Opens a socket of `domain` and begins to connect it to `to`; an IPv4 destination of an IPv6 socket goes v4-mapped.
pub fn begin(to: SocketAddr, domain: Family) -> Result<OwnedFd, Errno> {
    let family = match domain {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    let to = match (domain, to.ip()) {
        (Family::V6, IpAddr::V4(v4)) => {
            sockopt::set_ipv6_v6only(&socket, false)?;
            SocketAddr::new(v4.to_ipv6_mapped().into(), to.port())
        }
        _ => to,
    };
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(e) => Err(e),
    }
}

/// How an attempt whose socket has become writable ended: the handshake's round-trip time as the kernel measured it
/// (`elapsed` if it cannot tell, or if the SYN had to be retransmitted), or the errno.
pub fn outcome(socket: impl AsFd, elapsed: Duration) -> Result<Duration, Errno> {
    sockopt::socket_error(&socket)??;
    conclude(&socket);
    match tcp_info(&socket) {
        Ok(info) if info.total_retrans == 0 && !info.rtt.is_zero() => Ok(info.rtt),
        _ => Ok(elapsed),
    }
}

/// The same for an attempt that a program holds too. SO_ERROR tells an error once only, and that telling is the program's,
/// so the errno is a guess.
pub fn outcome_for_bystanders(socket: impl AsFd, elapsed: Duration) -> Result<Duration, Errno> {
    /// TCP_CLOSE of net/tcp_states.h: it has failed.
    const CLOSE: u8 = 7;
    match tcp_info(&socket) {
        Ok(info) if info.state == CLOSE => Err(Errno::CONNREFUSED),
        Ok(info) if info.total_retrans == 0 && !info.rtt.is_zero() => Ok(info.rtt),
        _ => Ok(elapsed),
    }
}

/// Gives a program whose socket is of `domain` a connection of that kind: one of AF_INET6 to an IPv4 address becomes one of AF_INET in all
/// respects (IPV6_ADDRFORM, ipv6(7)). False if it had to and the kernel does not do that. What is on its way stays as it is.
pub fn take_on(domain: Family, socket: impl AsFd) -> bool {
    let peer = getpeername(&socket).ok().flatten().and_then(|name| SocketAddr::try_from(name).ok());
    let mapped = peer.is_some_and(|to| matches!(to.ip(), IpAddr::V6(to) if to.to_ipv4_mapped().is_some()));
    let become_v4 = || {
        let option = (libc::IPPROTO_IPV6, libc::IPV6_ADDRFORM);
        socket_option::set(&socket, option, &Value::of_int(libc::AF_INET))
    };
    domain == Family::V6 || !mapped || become_v4()
}

/// How long ago the peer closed a connection on which it sent no data; zero if the kernel does not report it, as after a reset.
pub fn closed_ago(socket: impl AsFd) -> Duration {
    /// TCP_CLOSE_WAIT of net/tcp_states.h: the last that came was the other side's FIN.
    const CLOSE_WAIT: u8 = 8;
    tcp_info(&socket).ok().filter(|info| info.state == CLOSE_WAIT).map_or(Duration::ZERO, |info| info.last_ack_recv)
}

/// Whether the handshake has begun and not ended.
pub fn is_on_its_way(socket: impl AsFd) -> bool {
    /// TCP_SYN_SENT of net/tcp_states.h.
    const SYN_SENT: u8 = 2;
    tcp_info(&socket).is_ok_and(|info| info.state == SYN_SENT)
}

/// Makes the socket of a complete attempt say what that of a blocking connect says. Until connect(2) is called again, the
/// kernel takes a non-blocking attempt for unfinished, and answers a further connect with 0 instead of EISCONN.
fn conclude(socket: impl AsFd) {
    if let Ok(Some(peer)) = rustix::net::getpeername(&socket) {
        // Connected it is; what the call says does not matter.
        let _ = connect(&socket, &peer);
    }
}

/// Whether a connection that has been waiting can be handed to a program: no error, and the peer has not closed it. Data
/// that the peer has sent already does no harm to a connection that was opened for this very program.
pub fn is_good(socket: impl AsFd) -> bool {
    let mut byte = [0u8; 1];
    match recv(&socket, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        // Where there is no data, an error of the connection would have been reported.
        Err(Errno::AGAIN) => true,
        Ok((_, 1..)) => matches!(sockopt::socket_error(&socket), Ok(Ok(()))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::poll::{Interest, Poll};
    use std::io::Write;
    use std::net::TcpListener;

    fn finish(socket: &OwnedFd) -> Result<Duration, Errno> {
        let mut poll = Poll::new().unwrap();
        poll.add(socket, 0, Interest::Write).unwrap();
        poll.wait(&Clock::new(), None, &mut Vec::new()).unwrap();
        outcome(socket, Duration::from_secs(1))
    }

    #[test]
    fn an_ipv4_destination_is_reached_from_sockets_of_both_domains() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        for domain in Family::BOTH {
            let socket = begin(to, domain).unwrap();
            assert!(finish(&socket).unwrap() < Duration::from_secs(1), "the kernel's measure, not ours");
            assert_eq!(sockopt::socket_domain(&socket).unwrap() == AddressFamily::INET6, domain == Family::V6);
            assert!(is_good(&socket));
            let again = connect(&socket, &rustix::net::getpeername(&socket).unwrap().unwrap());
            assert_eq!(again, Err(Errno::ISCONN), "as after a blocking connect");
        }
    }

    #[test]
    fn a_connection_takes_on_the_kind_of_the_socket_that_it_is_put_in_the_place_of() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let family = |socket: &OwnedFd| sockopt::socket_domain(socket).unwrap();
        let mapped = begin(to, Family::V6).unwrap();
        finish(&mapped).unwrap();
        assert!(take_on(Family::V6, &mapped) && family(&mapped) == AddressFamily::INET6, "as it was");
        assert!(take_on(Family::V4, &mapped) && family(&mapped) == AddressFamily::INET);
        let peer = getpeername(&mapped).unwrap().unwrap();
        assert_eq!(SocketAddr::try_from(peer).unwrap(), to, "not as an address of IPv6");
        let (mut theirs, _) = listener.accept().unwrap();
        theirs.write_all(b"x").unwrap();
        let mut poll = Poll::new().unwrap();
        poll.add(&mapped, 0, Interest::Read).unwrap();
        poll.wait(&Clock::new(), None, &mut Vec::new()).unwrap();
        assert!(is_good(&mapped));
        assert_eq!(recv(&mapped, &mut [0; 2][..], RecvFlags::empty()).unwrap().1, 1);
    }

    #[test]
    fn that_the_other_side_has_closed_can_be_dated_afterwards() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = begin(listener.local_addr().unwrap(), Family::V4).unwrap();
        finish(&socket).unwrap();
        assert_eq!(closed_ago(&socket), Duration::ZERO, "it has not");
        drop(listener.accept().unwrap());
        let mut poll = Poll::new().unwrap();
        poll.add(&socket, 0, Interest::Read).unwrap();
        let clock = Clock::new();
        poll.wait(&clock, None, &mut Vec::new()).unwrap();
        clock.sleep(Duration::from_millis(60));
        // The kernel counts in steps of up to 10 ms.
        assert!(closed_ago(&socket) >= Duration::from_millis(40), "{:?}", closed_ago(&socket));
    }

    #[test]
    fn a_closed_port_refuses() {
        let to = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(finish(&begin(to, Family::V4).unwrap()), Err(Errno::CONNREFUSED));
    }

    #[test]
    fn a_bystander_learns_of_a_refusal_and_leaves_the_error_to_the_program() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let watch = |socket: &OwnedFd| {
            let mut poll = Poll::new().unwrap();
            poll.add(socket, 0, Interest::Write).unwrap();
            poll.wait(&Clock::new(), None, &mut Vec::new()).unwrap();
            outcome_for_bystanders(socket, Duration::from_secs(1))
        };
        assert!(watch(&begin(to, Family::V4).unwrap()).unwrap() < Duration::from_secs(1));
        drop(listener);
        let socket = begin(to, Family::V4).unwrap();
        assert!(watch(&socket).is_err());
        assert_eq!(sockopt::socket_error(&socket), Ok(Err(Errno::CONNREFUSED)));
    }

    #[test]
    fn a_connection_that_the_peer_has_closed_is_not_handed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = begin(listener.local_addr().unwrap(), Family::V4).unwrap();
        finish(&socket).unwrap();
        drop(listener.accept().unwrap());
        let mut poll = Poll::new().unwrap();
        poll.add(&socket, 0, Interest::Read).unwrap();
        poll.wait(&Clock::new(), None, &mut Vec::new()).unwrap();
        assert!(!is_good(&socket));
    }
}
