//! The sockets of one address: TCP and UDP on the same number.

use crate::accept::cannot_listen;
use crate::exit::{Coded, Usage};
use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// How often a free number is looked for that is free for both.
const TRIES: u32 = 32;
/// What a burst of packets may take up in a socket; the kernel gives less if `net.core.rmem_max` is less.
const BUFFER: usize = 4 * 1024 * 1024;

/// Both sockets of an address.
#[derive(Debug)]
pub struct Sockets {
    /// For HTTP/2 and HTTP/1.1.
    pub tcp: TcpListener,
    /// For HTTP/3.
    pub udp: UdpSocket,
    /// Where they are.
    pub address: SocketAddr,
}

impl Sockets {
    /// Binds both to `address`; to a number that is free for both, if its port is 0.
    pub fn bind(address: SocketAddr) -> Result<Self, Coded> {
        let mut tries = 0;
        loop {
            tries += 1;
            let tcp = TcpListener::bind(address).map_err(|why| cannot_listen(address, "--listen", &why))?;
            let bound = tcp.local_addr().map_err(|why| cannot_listen(address, "--listen", &why))?;
            match UdpSocket::bind(bound) {
                Ok(udp) => {
                    prepare(&tcp, &udp).map_err(|why| cannot_listen(bound, "--listen", &why))?;
                    return Ok(Self { tcp, udp, address: bound });
                }
                Err(why) if why.kind() == io::ErrorKind::AddrInUse && address.port() == 0 && tries < TRIES => {}
                Err(why) => return Err(cannot_listen(bound, "--listen", &why)),
            }
        }
    }
}

/// Those that a service manager has bound for this process (`sd_listen_fds(3)`): it keeps them while the server is replaced, so that
/// clients wait for the next one and none is refused.
pub fn handed_over() -> Result<Vec<Sockets>, Usage> {
    let mut handed = ListenFd::from_env();
    let (mut listeners, mut datagrams, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let wrong = |n: usize, what: &str| Usage(format!("LISTEN_FDS: socket {n}: {what}"));
    for n in 0..handed.len() {
        if let Ok(Some(tcp)) = handed.take_tcp_listener(n) {
            listeners.push((n, tcp));
        } else if let Ok(Some(udp)) = handed.take_udp_socket(n) {
            datagrams.push((n, udp));
        } else {
            return Err(wrong(n, "must be a TCP or UDP socket"));
        }
    }
    for (n, tcp) in listeners {
        let address = tcp.local_addr().map_err(|why| wrong(n, &why.to_string()))?;
        let beside = datagrams.iter().position(|(_, udp)| udp.local_addr().is_ok_and(|there| there == address));
        let beside = beside.ok_or_else(|| wrong(n, &format!("add a UDP socket on {address} (ListenDatagram=)")))?;
        let (_, udp) = datagrams.swap_remove(beside);
        let own = fcntl_setfd(&tcp, FdFlags::CLOEXEC).and_then(|()| fcntl_setfd(&udp, FdFlags::CLOEXEC));
        own.map_err(io::Error::from).and_then(|()| prepare(&tcp, &udp)).map_err(|why| wrong(n, &why.to_string()))?;
        all.push(Sockets { tcp, udp, address });
    }
    match datagrams.first() {
        Some((n, _)) => Err(wrong(*n, "add a TCP socket on the same address (ListenStream=)")),
        None => Ok(all),
    }
}

fn prepare(tcp: &TcpListener, udp: &UdpSocket) -> io::Result<()> {
    widen(udp);
    tcp.set_nonblocking(true)?;
    udp.set_nonblocking(true)
}

/// Asks for room for bursts; whatever the kernel gives will do.
pub fn widen(udp: &UdpSocket) {
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(udp, BUFFER);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(udp, BUFFER);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sockets_have_the_same_number() {
        let sockets = Sockets::bind(([127, 0, 0, 1], 0).into()).unwrap();
        assert_eq!(sockets.tcp.local_addr().unwrap(), sockets.udp.local_addr().unwrap());
        assert_ne!(sockets.address.port(), 0);
    }

    #[test]
    fn a_number_that_is_taken_and_an_address_of_others_are_named() {
        let first = Sockets::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let Coded(code, why) = Sockets::bind(first.address).unwrap_err();
        assert!(code == crate::exit::FAILURE && why.contains("is in use") && why.contains("ss -lnp"), "{why}");
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let Coded(_, why) = Sockets::bind(udp.local_addr().unwrap()).unwrap_err();
        assert!(why.contains("is in use"), "{why}");
        // TEST-NET-1 (RFC 5737) is no host's.
        let Coded(_, why) = Sockets::bind(([192, 0, 2, 1], 0).into()).unwrap_err();
        assert!(why.contains("not an address of this host"), "{why}");
    }
}
