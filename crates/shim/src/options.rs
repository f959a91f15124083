//! Socket options: what the program has set on its socket, carried over to the one that takes its place.
//!
//! What was set is found by comparing with a fresh socket. Options that work after the handshake too are set again on
//! the new socket and read back; options that shape the handshake, or the way to the peer, cannot be carried over, and
//! with one of them set the program keeps its own socket.

use crate::{marks, original};
use headstart_core::path::Family;
use headstart_core::wire::options::{ATTACHED_FILTER, BINDING, BINDING_V6, CARRIED, CARRIED_V6, NETWORK_NAMESPACE};
use std::ffi::c_int;
use std::sync::OnceLock;

/// Protocol levels under short names.
mod level {
    use std::ffi::c_int;
    pub(super) const SOCKET: c_int = libc::SOL_SOCKET;
    pub(super) const TCP: c_int = libc::IPPROTO_TCP;
    pub(super) const IPV6: c_int = libc::IPPROTO_IPV6;
}
use level::{IPV6, SOCKET, TCP};

/// Looked at even if libc's setsockopt was never called: what a program that makes system calls itself is likely to set.
const LIKELY: &[(c_int, c_int)] = &[
    (SOCKET, libc::SO_SNDTIMEO),
    (SOCKET, libc::SO_RCVTIMEO),
    (SOCKET, libc::SO_RCVBUF),
    (SOCKET, libc::SO_MARK),
    (SOCKET, libc::SO_KEEPALIVE),
    (TCP, libc::TCP_NODELAY),
];

/// The longest value of any option above (TCP_CONGESTION and SO_BINDTODEVICE take 16 bytes).
type Value = ([u8; 64], libc::socklen_t);

fn get(fd: c_int, option: (c_int, c_int)) -> Option<Value> {
    let (level, name) = option;
    let len = match option {
        // Asked with length 0 it tells how many instructions are attached.
        ATTACHED_FILTER => 0,
        // It wants to be asked with its very length.
        NETWORK_NAMESPACE => 8,
        _ => 64,
    };
    let mut value: Value = ([0; 64], len);
    // SAFETY: `value.0` is valid for `value.1` bytes.
    let rc = unsafe { original::getsockopt(fd, level, name, value.0.as_mut_ptr().cast(), &mut value.1) };
    (rc == 0).then_some(value)
}

fn set(fd: c_int, (level, name): (c_int, c_int), value: &Value) -> bool {
    // SAFETY: `value.0` is valid for `value.1` bytes.
    unsafe { original::setsockopt(fd, level, name, value.0.as_ptr().cast(), value.1) == 0 }
}

/// What tells `fd`'s socket from every other since boot (SO_COOKIE, Linux 4.12).
pub(crate) fn cookie(fd: c_int) -> Option<u64> {
    let (bytes, len) = get(fd, (SOCKET, libc::SO_COOKIE))?;
    (len == 8).then(|| u64::from_ne_bytes(std::array::from_fn(|i| bytes[i])))
}

/// The value of an option that is an int.
fn int(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let (bytes, len) = get(fd, (level, name))?;
    (len == 4).then(|| c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// What matters of a program's socket.
pub(crate) struct Socket {
    /// AF_INET or AF_INET6.
    pub domain: Family,
    /// O_NONBLOCK.
    pub nonblocking: bool,
    /// All of its status flags (F_GETFL).
    pub flags: c_int,
    /// An IPv4 peer may be installed v4-mapped.
    pub accepts_mapped: bool,
    /// SO_SNDTIMEO, if it is set.
    pub send_timeout: Option<libc::timeval>,
    /// The program has set no option.
    pub untouched: bool,
    /// What tells it from every other ([`cookie`]).
    cookie: Option<u64>,
}

impl Socket {
    /// Looks at `fd`: `None` unless it is a TCP socket that has not been connected, bound, or shaped beforehand.
    pub fn examine(fd: c_int) -> Option<Self> {
        // Whatever is connected, on the way or listening has a local port.
        let domain = unbound(fd)?;
        // Only TCP sockets are marked.
        let cookie = cookie(fd);
        let marked = cookie.is_some_and(|cookie| marks::is_untouched(fd, cookie));
        let fresh = baseline(domain)?;
        let untouched = marked && LIKELY.iter().zip(&fresh.likely).all(|(option, value)| get(fd, *option) == *value);
        let tcp = marked
            || int(fd, SOCKET, libc::SO_PROTOCOL)? == libc::IPPROTO_TCP
                && int(fd, SOCKET, libc::SO_TYPE)? == libc::SOCK_STREAM;
        if !tcp {
            return None;
        }
        // SAFETY: no pointers.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        // Signals go to the owner: by O_ASYNC, and SIGURG without it.
        // SAFETY: no pointers.
        if flags < 0 || flags & libc::O_ASYNC != 0 || unsafe { libc::fcntl(fd, libc::F_GETOWN) } != 0 {
            return None;
        }
        let as_fresh = |o: &(c_int, c_int)| get(fd, *o) == fresh.binding(*o);
        if !untouched && !BINDING.iter().chain(v6(domain, BINDING_V6)).all(as_fresh) {
            return None;
        }
        let send_timeout = if untouched { None } else { get(fd, (SOCKET, libc::SO_SNDTIMEO)) };
        let send_timeout = send_timeout.and_then(|(bytes, len)| {
            let word = |at: usize| i64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
            let timeout = libc::timeval { tv_sec: word(0), tv_usec: word(8) };
            (len == 16 && (timeout.tv_sec, timeout.tv_usec) != (0, 0)).then_some(timeout)
        });
        Some(Self {
            domain,
            nonblocking: flags & libc::O_NONBLOCK != 0,
            flags,
            accepts_mapped: if untouched { fresh.accepts_mapped } else { accepts_mapped(fd, domain) },
            send_timeout,
            untouched,
            cookie,
        })
    }

    /// Whether it still is what is under `fd`: another thread may have closed that, and something else be there.
    pub fn is_at(&self, fd: c_int) -> bool {
        cookie(fd) == self.cookie
    }
}

fn v6(domain: Family, list: &'static [(c_int, c_int)]) -> &'static [(c_int, c_int)] {
    if domain == Family::V6 { list } else { &[] }
}

/// The domain of an internet socket without a local address and port, as each is that has done nothing yet.
fn unbound(fd: c_int) -> Option<Family> {
    // SAFETY: `sockaddr_in6` is plain data; all zeroes is a valid value.
    let mut addr: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    // SAFETY: `addr` is valid for `len` bytes.
    if unsafe { libc::getsockname(fd, (&raw mut addr).cast(), &mut len) } != 0 {
        return None;
    }
    // SAFETY: a sockaddr_in is shorter than a sockaddr_in6, and both begin with family and port.
    let v4 = unsafe { (&raw const addr).cast::<libc::sockaddr_in>().read() };
    match c_int::from(v4.sin_family) {
        libc::AF_INET => (v4.sin_port == 0 && v4.sin_addr.s_addr == 0).then_some(Family::V4),
        libc::AF_INET6 => (addr.sin6_port == 0 && addr.sin6_addr.s6_addr == [0; 16]).then_some(Family::V6),
        _ => None,
    }
}

/// Whether the socket at `fd` has a peer.
pub(crate) fn is_connected(fd: c_int) -> bool {
    // SAFETY: `sockaddr_storage` is plain data; all zeroes is a valid value.
    let mut addr: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: `addr` is valid for `len` bytes.
    unsafe { original::getpeername(fd, (&raw mut addr).cast(), &mut len) == 0 }
}

/// Whether IPV6_V6ONLY is off, so that an AF_INET6 socket may have a v4-mapped peer.
fn accepts_mapped(fd: c_int, domain: Family) -> bool {
    domain == Family::V6 && int(fd, IPV6, libc::IPV6_V6ONLY) == Some(0)
}

/// The options of a socket that the program has not touched.
struct Baseline {
    accepts_mapped: bool,
    likely: Vec<Option<Value>>,
    binding: Vec<((c_int, c_int), Option<Value>)>,
    carried: Vec<((c_int, c_int), Option<Value>)>,
}

impl Baseline {
    fn binding(&self, option: (c_int, c_int)) -> Option<Value> {
        self.binding.iter().find(|(o, _)| *o == option).and_then(|(_, v)| *v)
    }
}

fn baseline(domain: Family) -> Option<&'static Baseline> {
    static V4: OnceLock<Option<Baseline>> = OnceLock::new();
    static V6: OnceLock<Option<Baseline>> = OnceLock::new();
    let (place, af) = match domain {
        Family::V4 => (&V4, libc::AF_INET),
        Family::V6 => (&V6, libc::AF_INET6),
    };
    let read = || {
        let fd = original::socket(af, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::IPPROTO_TCP);
        if fd < 0 {
            return None;
        }
        let values = |list: &[(c_int, c_int)], more: &[(c_int, c_int)]| {
            list.iter().chain(more).map(|o| (*o, get(fd, *o))).collect::<Vec<_>>()
        };
        let fresh = Baseline {
            accepts_mapped: accepts_mapped(fd, domain),
            likely: LIKELY.iter().map(|o| get(fd, *o)).collect(),
            binding: values(BINDING, v6(domain, BINDING_V6)),
            carried: values(CARRIED, v6(domain, CARRIED_V6)),
        };
        // SAFETY: `fd` is ours.
        unsafe { libc::close(fd) };
        Some(fresh)
    };
    place.get_or_init(read).as_ref()
}

/// An option and its value.
pub(crate) type Setting = ((c_int, c_int), Value);

/// What the program has set on `fd`, of what works after the handshake too; `None` if something cannot be read.
pub(crate) fn set_by_the_program(fd: c_int, socket: &Socket) -> Option<Vec<Setting>> {
    let mut settings = Vec::new();
    if socket.untouched {
        return Some(settings);
    }
    for (option, fresh) in &baseline(socket.domain)?.carried {
        let wanted = get(fd, *option);
        if wanted != *fresh {
            settings.push((*option, wanted?));
        }
    }
    Some(settings)
}

/// Sets them on `new`; `None` if something could not be.
pub(crate) fn carry_over(settings: &[Setting], new: c_int) -> Option<()> {
    settings
        .iter()
        .all(|(option, wanted)| set(new, *option, wanted) && get(new, *option) == Some(*wanted))
        .then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    fn tcp(af: c_int) -> OwnedFd {
        // SAFETY: a descriptor that was just opened.
        unsafe { OwnedFd::from_raw_fd(original::socket(af, libc::SOCK_STREAM, 0)) }
    }
    fn put(fd: &OwnedFd, option: (c_int, c_int), value: c_int) {
        let mut v: Value = ([0; 64], 4);
        v.0[..4].copy_from_slice(&value.to_ne_bytes());
        assert!(set(fd.as_raw_fd(), option, &v), "{option:?}");
    }

    #[test]
    fn a_fresh_tcp_socket_may_be_exchanged_and_says_what_it_is() {
        let socket = Socket::examine(tcp(libc::AF_INET6).as_raw_fd()).unwrap();
        assert_eq!((socket.domain, socket.nonblocking), (Family::V6, false));
        assert!(socket.send_timeout.is_none());
        assert_eq!(Socket::examine(tcp(libc::AF_INET).as_raw_fd()).unwrap().domain, Family::V4);
    }

    #[test]
    fn sockets_that_are_not_tcp_or_not_new_are_left_alone() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(Socket::examine(udp.as_raw_fd()).is_none());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Socket::examine(listener.as_raw_fd()).is_none());
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(Socket::examine(stream.as_raw_fd()).is_none());
    }

    #[test]
    fn options_that_shape_the_handshake_keep_the_programs_socket() {
        for (option, value) in [
            ((SOCKET, libc::SO_RCVBUF), 100_000),
            ((TCP, libc::TCP_MAXSEG), 1000),
            ((TCP, libc::TCP_FASTOPEN_CONNECT), 1),
            ((TCP, libc::TCP_SYNCNT), 2),
            ((TCP, libc::TCP_USER_TIMEOUT), 3000),
        ] {
            let socket = tcp(libc::AF_INET);
            put(&socket, option, value);
            assert!(Socket::examine(socket.as_raw_fd()).is_none(), "{option:?}");
        }
    }

    #[test]
    fn a_socket_that_has_an_owner_keeps_its_place() {
        let socket = tcp(libc::AF_INET);
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETOWN, libc::getpid()) }, 0);
        assert!(Socket::examine(socket.as_raw_fd()).is_none());
    }

    #[test]
    fn only_the_very_socket_that_was_marked_is_taken_for_untouched() {
        let marked = tcp(libc::AF_INET);
        let fd = marked.as_raw_fd();
        marks::untouched(fd, cookie(fd).unwrap());
        assert!(Socket::examine(fd).unwrap().untouched);
        put(&marked, (TCP, libc::TCP_NODELAY), 1);
        assert!(!Socket::examine(fd).unwrap().untouched, "set by a system call that is not ours");
        put(&marked, (TCP, libc::TCP_NODELAY), 0);
        put(&marked, (TCP, libc::TCP_MAXSEG), 1000);
        marks::touched(fd);
        assert!(Socket::examine(fd).is_none());
        marks::untouched(fd, cookie(fd).unwrap());
        // Another socket under the same number, as after close(2) and a system call that is not ours.
        let other = tcp(libc::AF_INET);
        put(&other, (SOCKET, libc::SO_RCVBUF), 100_000);
        assert_eq!(original::dup3(other.as_raw_fd(), fd, 0), fd);
        assert!(Socket::examine(fd).is_none());
    }

    #[test]
    fn options_that_work_later_are_carried_over_and_no_others_are_touched() {
        let (old, new) = (tcp(libc::AF_INET), tcp(libc::AF_INET));
        let ours = [
            ((TCP, libc::TCP_NODELAY), 1),
            ((SOCKET, libc::SO_KEEPALIVE), 1),
            ((TCP, libc::TCP_KEEPIDLE), 77),
            ((libc::IPPROTO_IP, libc::IP_TOS), 0x10),
        ];
        for (option, value) in ours {
            put(&old, option, value);
        }
        let settings = set_by_the_program(old.as_raw_fd(), &Socket::examine(old.as_raw_fd()).unwrap()).unwrap();
        let mut found: Vec<_> = settings.iter().map(|(option, _)| *option).collect();
        // ip(7): IP_TOS changes the priority, too.
        found.retain(|option| *option != (SOCKET, libc::SO_PRIORITY));
        found.sort_unstable();
        let mut wanted = ours.map(|(option, _)| option);
        wanted.sort_unstable();
        assert_eq!(found, wanted, "and nothing that is as it was");
        assert_eq!(carry_over(&settings, new.as_raw_fd()), Some(()));
        for (level, name) in ours.map(|o| o.0).into_iter().chain(CARRIED.iter().copied()) {
            assert_eq!(get(new.as_raw_fd(), (level, name)), get(old.as_raw_fd(), (level, name)), "{level} {name}");
        }
    }
}
