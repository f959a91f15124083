//! Spare connections, as the supervisor sees them: what the other side has done to one, and whether it may still pass for
//! new. Looks only; nothing is read off and nothing is sent.

use super::whereabouts::own_address;
use headstart_core::connect::Spoilt;
use rustix::io::Errno;
use rustix::net::{RecvFlags, getpeername, getsockname, recv};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// What has happened to a connection on which nothing was said; `None` if nothing.
pub(crate) fn spoilt(socket: &OwnedFd) -> Option<Spoilt> {
    let mut byte = [0u8; 1];
    match recv(socket, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN | Errno::INTR) => None,
        Ok((_, 1..)) => Some(Spoilt::Spoke),
        Ok(_) | Err(_) => Some(Spoilt::Closed),
    }
}

/// Whether a program cannot tell it from one that was opened this moment: open on both sides, silent, and still on the way
/// that this host would take now.
pub(super) fn is_as_new(socket: &OwnedFd) -> bool {
    let address = |name: rustix::net::SocketAddrAny| SocketAddr::try_from(name).ok();
    let here = getsockname(socket).ok().and_then(address);
    let there = getpeername(socket).ok().flatten().and_then(address);
    let (Some(here), Some(there)) = (here, there) else { return false };
    let there = SocketAddr::new(there.ip().to_canonical(), there.port());
    spoilt(socket).is_none() && own_address(there) == Some(IpAddr::to_canonical(&here.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};

    /// A connection of ours, and the server's end of it.
    fn pair() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ours.into(), listener.accept().unwrap().0)
    }

    fn wait(socket: &OwnedFd) {
        let mut fds = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).unwrap();
    }

    #[test]
    fn a_silent_connection_is_as_new_and_one_that_was_spoken_on_or_closed_is_not() {
        let (ours, mut server) = pair();
        assert_eq!((spoilt(&ours), is_as_new(&ours)), (None, true));
        server.write_all(b"220 ready\r\n").unwrap();
        wait(&ours);
        assert_eq!((spoilt(&ours), is_as_new(&ours)), (Some(Spoilt::Spoke), false));
        let (ours, server) = pair();
        server.shutdown(Shutdown::Write).unwrap();
        wait(&ours);
        assert_eq!((spoilt(&ours), is_as_new(&ours)), (Some(Spoilt::Closed), false));
    }

    #[test]
    fn a_connection_that_was_reset_is_not_as_new() {
        let (ours, server) = pair();
        rustix::net::sockopt::set_socket_linger(&server, Some(std::time::Duration::ZERO)).unwrap();
        drop(server);
        wait(&ours);
        assert_eq!((spoilt(&ours), is_as_new(&ours)), (Some(Spoilt::Closed), false));
    }
}
