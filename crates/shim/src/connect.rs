//! connect(2): whether it is one that the supervisor may serve, and the exchange of the socket if it does.

use crate::ask::{Asked, Line, Patience};
use crate::options::{Setting, Socket};
use crate::{marks, options, original, start};
use headstart_core::wire::shim::{Reply, Request};
use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Longest wait of a caller that must not be blocked; the supervisor answers such a one in microseconds. A non-blocking
/// connect does not report signals.
const NONBLOCKING_PATIENCE: Patience = Patience::Seconds(1);

/// Serves a connect: `None` to leave it to the kernel.
///
/// # Safety
/// `addr` valid for `len` bytes.
pub(crate) unsafe fn accelerate(
    fd: c_int,
    addr: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Option<Result<(), c_int>> {
    let session = start::session()?;
    // SAFETY: the caller's contract.
    let to = unsafe { destination(addr, len) }?;
    if !session.may_know(to.ip()) || !marks::may_exchange(fd) {
        return None;
    }
    let socket = Socket::examine(fd)?;
    let request = Request::Connect {
        app: session.app.clone(),
        to,
        domain: socket.domain,
        nonblocking: socket.nonblocking,
        accepts_mapped: socket.accepts_mapped,
    };
    let patience = match (socket.nonblocking, socket.send_timeout) {
        (true, _) => NONBLOCKING_PATIENCE,
        // SO_SNDTIMEO bounds a blocking connect.
        (false, Some(timeout)) => Patience::Timeout(timeout),
        (false, None) => Patience::AsBlocking,
    };
    let line = Line::open(session)?;
    line.send(&request)?;
    // The supervisor wakes up and looks for a connection meanwhile.
    let carried = options::set_by_the_program(fd, &socket);
    match line.receive(patience)? {
        Asked::Reply(Reply::HandOver { connected }, Some(new)) => exchange(fd, &socket, &carried?, new, connected),
        Asked::Reply(Reply::Failed(errno), _) => Some(Err(errno)),
        Asked::Reply(..) => None,
        Asked::Interrupted if socket.nonblocking => None,
        // connect(2): interrupted, "the connection shall be established asynchronously".
        // SAFETY: the caller's contract.
        Asked::Interrupted => Some(Err(unsafe { begin_in_kernel(fd, addr, len) }.unwrap_or(libc::EINTR))),
        // socket(7): SO_SNDTIMEO has run out; the connection goes on and EINPROGRESS says so.
        Asked::TimedOut if !socket.nonblocking && socket.send_timeout.is_some() => {
            // SAFETY: the caller's contract.
            Some(Err(unsafe { begin_in_kernel(fd, addr, len) }.unwrap_or(libc::EINPROGRESS)))
        }
        Asked::TimedOut => None,
    }
}

/// Where a connect goes, if it goes where TCP goes. v4-mapped addresses are unwrapped.
///
/// # Safety
/// `addr` valid for `len` bytes.
unsafe fn destination(addr: *const libc::sockaddr, len: libc::socklen_t) -> Option<SocketAddr> {
    let len = usize::try_from(len).ok()?;
    if addr.is_null() || len < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: long enough for a family (above); programs may pass unaligned buffers.
    let family = unsafe { addr.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: long enough (guard).
            let sin = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(SocketAddr::new(IpAddr::from(sin.sin_addr.s_addr.to_ne_bytes()), u16::from_be(sin.sin_port)))
        }
        libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: long enough (guard).
            let sin6 = unsafe { addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            if sin6.sin6_scope_id != 0 || sin6.sin6_flowinfo != 0 {
                return None;
            }
            let ip = IpAddr::from(sin6.sin6_addr.s6_addr).to_canonical();
            Some(SocketAddr::new(ip, u16::from_be(sin6.sin6_port)))
        }
        _ => None,
    }
}

/// Puts `new` in the place of the program's socket, with the program's options.
fn exchange(fd: c_int, old: &Socket, carried: &[Setting], new: OwnedFd, connected: bool) -> Option<Result<(), c_int>> {
    options::carry_over(carried, new.as_raw_fd())?;
    // SAFETY: no pointers; both descriptors are open.
    if unsafe { libc::fcntl(new.as_raw_fd(), libc::F_SETFL, old.flags) } < 0 {
        return None;
    }
    // SAFETY: no pointers.
    let cloexec = unsafe { libc::fcntl(fd, libc::F_GETFD) } & libc::FD_CLOEXEC != 0;
    if original::dup3(new.as_raw_fd(), fd, if cloexec { libc::O_CLOEXEC } else { 0 }) != fd {
        return None;
    }
    Some(if connected { Ok(()) } else { Err(libc::EINPROGRESS) })
}

/// Begins the program's own connect in the kernel without waiting for it; the errno if even that failed.
///
/// # Safety
/// As connect(2).
unsafe fn begin_in_kernel(fd: c_int, addr: *const libc::sockaddr, len: libc::socklen_t) -> Option<c_int> {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: no pointers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) };
    // SAFETY: the caller's contract.
    let rc = unsafe { original::connect(fd, addr, len) };
    let errno = if rc == 0 { 0 } else { original::errno() };
    // SAFETY: no pointers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
    Some(errno).filter(|e| ![0, libc::EINPROGRESS].contains(e))
}
