//! getaddrinfo and connect as a plain C program calls them: headstart's own unmodified client. Both go through the
//! dynamic symbol table, so a preloaded library stands before them as before any other program's.

use std::ffi::{CString, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::clock::Clock;
use headstart_core::path::Family;

/// What a lookup and a connection took.
#[derive(Debug)]
pub struct Reached {
    /// Time in getaddrinfo.
    pub lookup: Duration,
    /// Time in connect, failed attempts included.
    pub connect: Duration,
    /// The peer that answered, as getpeername tells.
    pub peer: SocketAddr,
    /// The connection.
    pub socket: OwnedFd,
}

/// Why no peer was reached.
#[derive(Debug, thiserror::Error)]
pub enum NotReached {
    /// getaddrinfo failed.
    #[error("{name}: {reason}")]
    Lookup {
        /// What was asked.
        name: String,
        /// gai_strerror's words.
        reason: String,
    },
    /// Every address failed; the last error.
    #[error("{name}: no address of {addresses} could be connected to: {source}")]
    Connect {
        /// What was asked.
        name: String,
        /// How many addresses getaddrinfo gave.
        addresses: usize,
        /// The last error.
        source: io::Error,
    },
}

/// Looks `name` up in `family` (both if `None`), then connects to its addresses one after the other with blocking
/// sockets, as wget and Python do; each attempt for at most `patience` (SO_SNDTIMEO), if one is given.
pub fn reach(name: &str, port: u16, family: Option<Family>, patience: Option<Duration>) -> Result<Reached, NotReached> {
    let clock = Clock::new();
    let list = lookup(name, port, family).map_err(|reason| NotReached::Lookup { name: name.into(), reason })?;
    let looked_up = clock.now();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for addr in &list {
        match connect(*addr, patience) {
            Ok(socket) => {
                let connect = clock.now() - looked_up;
                let lookup = looked_up.since(Default::default());
                return Ok(Reached { lookup, connect, peer: peer(&socket).unwrap_or(*addr), socket });
            }
            Err(e) => last = e,
        }
    }
    Err(NotReached::Connect { name: name.into(), addresses: list.len(), source: last })
}

/// Addresses of `name` for stream sockets, in getaddrinfo's order; gai_strerror's words if it fails.
pub(super) fn lookup(name: &str, port: u16, family: Option<Family>) -> Result<Vec<SocketAddr>, String> {
    let node = CString::new(name).map_err(|e| e.to_string())?;
    let service = CString::new(port.to_string()).map_err(|e| e.to_string())?;
    // SAFETY: `addrinfo` is plain data; all zeroes is what no hints mean.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_family = match family {
        None => libc::AF_UNSPEC,
        Some(Family::V4) => libc::AF_INET,
        Some(Family::V6) => libc::AF_INET6,
    };
    let mut list = std::ptr::null_mut();
    // SAFETY: C strings, valid hints, a valid place for the result.
    let code = unsafe { libc::getaddrinfo(node.as_ptr(), service.as_ptr(), &hints, &mut list) };
    if code != 0 {
        // SAFETY: gai_strerror returns a C string for every code.
        let words = unsafe { std::ffi::CStr::from_ptr(libc::gai_strerror(code)) };
        return Err(words.to_string_lossy().into_owned());
    }
    let mut addresses = Vec::new();
    let mut node = list;
    // SAFETY: a list of getaddrinfo's making, whose last node has a null `ai_next`.
    while let Some(entry) = unsafe { node.as_ref() } {
        // SAFETY: `ai_addr` is valid for `ai_addrlen` bytes.
        addresses.extend(unsafe { decode(entry.ai_addr, entry.ai_addrlen) });
        node = entry.ai_next;
    }
    // SAFETY: the list is freed once and not used again.
    unsafe { libc::freeaddrinfo(list) };
    Ok(addresses)
}

/// # Safety
/// `addr` valid for `len` bytes.
unsafe fn decode(addr: *const libc::sockaddr, len: libc::socklen_t) -> Option<SocketAddr> {
    // SAFETY: a sockaddr begins with its family.
    let family = c_int::from(unsafe { (*addr).sa_family });
    match family {
        libc::AF_INET if len as usize >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: long enough (guard).
            let sin = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(SocketAddr::new(IpAddr::from(sin.sin_addr.s_addr.to_ne_bytes()), u16::from_be(sin.sin_port)))
        }
        libc::AF_INET6 if len as usize >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: long enough (guard).
            let sin6 = unsafe { addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(SocketAddr::new(IpAddr::from(sin6.sin6_addr.s6_addr), u16::from_be(sin6.sin6_port)))
        }
        _ => None,
    }
}

/// A blocking connect to `to`, for at most `patience`.
pub fn connect(to: SocketAddr, patience: Option<Duration>) -> io::Result<OwnedFd> {
    let domain = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and is ours alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    if let Some(patience) = patience {
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(patience))?;
    }
    // SAFETY: both are plain data; all zeroes is a valid value.
    let (mut sin, mut sin6): (libc::sockaddr_in, libc::sockaddr_in6) = unsafe { std::mem::zeroed() };
    let (addr, len): (*const libc::sockaddr, usize) = match to.ip() {
        IpAddr::V4(ip) => {
            sin.sin_family = libc::AF_INET as libc::sa_family_t;
            sin.sin_port = to.port().to_be();
            sin.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
            ((&raw const sin).cast(), size_of_val(&sin))
        }
        IpAddr::V6(ip) => {
            sin6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            sin6.sin6_port = to.port().to_be();
            sin6.sin6_addr.s6_addr = ip.octets();
            ((&raw const sin6).cast(), size_of_val(&sin6))
        }
    };
    loop {
        // SAFETY: `addr` points to a whole address of `len` bytes.
        if unsafe { libc::connect(socket.as_raw_fd(), addr, len as libc::socklen_t) } == 0 {
            return Ok(socket);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn peer(socket: &OwnedFd) -> Option<SocketAddr> {
    let mut addr = MaybeUninit::<libc::sockaddr_in6>::zeroed();
    let mut len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    // SAFETY: `addr` is valid for `len` bytes.
    let rc = unsafe { libc::getpeername(socket.as_raw_fd(), addr.as_mut_ptr().cast(), &mut len) };
    if rc != 0 {
        return None;
    }
    // SAFETY: getpeername has written `len` bytes.
    unsafe { decode(addr.as_ptr().cast(), len) }.map(|a| SocketAddr::new(a.ip().to_canonical(), a.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_on_loopback_is_reached_by_number() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let reached = reach("127.0.0.1", port, None, None).unwrap();
        assert_eq!(reached.peer, listener.local_addr().unwrap());
    }

    #[test]
    fn a_closed_port_and_a_bad_name_are_told_apart() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!(matches!(reach("127.0.0.1", port, None, None), Err(NotReached::Connect { addresses: 1, .. })));
        assert!(matches!(reach("a\0b", 1, None, None), Err(NotReached::Lookup { .. })));
    }
}
