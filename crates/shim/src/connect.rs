//! connect(2): whether it is one that the supervisor may serve, and the exchange of the socket if it does.

use crate::ask::{Came, Line, Patience, Received};
use crate::options::{Setting, Socket};
use crate::waits::{self, Connecting};
use crate::{marks, options, original, session};
use headstart_core::wire::shim::{Reply, Request};
use headstart_core::wire::sockaddr::{self, MAX_BYTES};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};

/// Longest wait of a caller that must not be blocked; the supervisor answers such a one in microseconds. A non-blocking
/// connect does not report signals.
const NONBLOCKING_PATIENCE: Patience = Patience::Seconds(1);

/// The supervisor's answer about a connect.
pub(crate) enum Served {
    /// The program's descriptor is connected.
    Connected,
    /// It failed with this errno.
    Failed(c_int),
    /// It is the kernel's; the supervisor is not to be asked a second time.
    Declined,
}

/// Whether a connect of `fd` does not wait. One that is trapped is looked at from outside: signals, cancellation, timeouts and other
/// holders of the socket are the kernel's, as without us, and one that does not wait can be helped later, should it come to nothing.
fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::fcntl(fd, libc::F_GETFL) & libc::O_NONBLOCK != 0 }
}

/// What is done with a connect.
pub(crate) enum Begun {
    /// It is to be made as the program made it: the seccomp filter traps it for the supervisor.
    Trapped,
    /// The supervisor is asked.
    Asked(waits::Handle),
}

/// Begins to serve a connect: `None` to leave it to the kernel. `frame`: where the caller's stack is.
///
/// # Safety
/// `addr` valid for `len` bytes.
pub(crate) unsafe fn begin(
    fd: c_int,
    addr: *const libc::sockaddr,
    len: libc::socklen_t,
    frame: usize,
) -> Option<Begun> {
    let session = session::current()?;
    // SAFETY: the caller's contract.
    let address = unsafe { bytes_of(addr, len) }?;
    let to = sockaddr::destination(address)?;
    if !session.may_know(to.ip()) {
        return None;
    }
    if session.calls_are_trapped() {
        return is_nonblocking(fd).then_some(Begun::Trapped);
    }
    if !marks::may_exchange(fd) {
        return None;
    }
    // One that it is not for is refused by the kernel.
    let socket = Socket::examine(fd).filter(|socket| sockaddr::is_for(address, socket.domain))?;
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
    let connecting = Connecting { fd, socket, carried };
    waits::begin(line, patience, Some(connecting), frame).map(Begun::Asked)
}

/// What the supervisor's answer means, after the wait for it: `None` to leave the connect to the kernel.
///
/// # Safety
/// `addr` valid for `len` bytes.
pub(crate) unsafe fn finish(
    question: waits::Handle,
    came: Came,
    addr: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Option<Served> {
    let (wait, is_cut) = waits::end(question)?;
    let Connecting { fd, socket, carried } = wait.connecting?;
    if is_cut {
        // As the kernel tells a thread that waits (tcp_disconnect).
        return Some(Served::Failed(libc::ECONNRESET));
    }
    let asked = wait.line.receive(came)?;
    if !socket.is_at(fd) {
        // As the system call tells a thread that waits.
        return Some(Served::Failed(libc::EBADF));
    }
    Some(match asked {
        // Something else has come to hold the socket meanwhile, and would go on holding this one.
        Received::Reply(Reply::HandOver { .. }, _) if !marks::may_exchange(fd) => Served::Declined,
        Received::Reply(Reply::HandOver { connected }, Some(new)) => {
            exchange(fd, &socket, &carried?, new, connected).unwrap_or(Served::Declined)
        }
        Received::Reply(Reply::Failed(errno), _) => Served::Failed(errno),
        Received::Reply(..) => Served::Declined,
        Received::Interrupted if socket.nonblocking => Served::Declined,
        // connect(2): interrupted, "the connection shall be established asynchronously".
        // SAFETY: the caller's contract.
        Received::Interrupted => Served::Failed(unsafe { begin_in_kernel(fd, addr, len) }.unwrap_or(libc::EINTR)),
        // socket(7): SO_SNDTIMEO has run out; the connection goes on and EINPROGRESS says so.
        Received::TimedOut if !socket.nonblocking && socket.send_timeout.is_some() => {
            // SAFETY: the caller's contract.
            Served::Failed(unsafe { begin_in_kernel(fd, addr, len) }.unwrap_or(libc::EINPROGRESS))
        }
        Received::TimedOut => Served::Declined,
    })
}

/// A copy of the address for a connect that was declined, and a length that tells it from the program's own: the supervisor
/// may listen to the system call too (by seccomp), where lengths that no program uses pass unheard. The kernel wants
/// addresses to be long enough and takes longer ones (ip(7)).
///
/// # Safety
/// `addr` valid for `len` bytes.
pub(crate) unsafe fn declined(addr: *const libc::sockaddr, len: libc::socklen_t) -> ([u64; 4], libc::socklen_t) {
    let mut copy = [0u64; 4];
    let len = (len as usize).min(size_of::<libc::sockaddr_in6>());
    // SAFETY: both are valid for `len` bytes, which is less than 32.
    unsafe { std::ptr::copy_nonoverlapping(addr.cast::<u8>(), copy.as_mut_ptr().cast(), len) };
    (copy, len as libc::socklen_t + 1)
}

/// The bytes of a socket address.
///
/// # Safety
/// `addr` valid for `len` bytes, for as long as these are looked at.
unsafe fn bytes_of<'a>(addr: *const libc::sockaddr, len: libc::socklen_t) -> Option<&'a [u8]> {
    let len = usize::try_from(len).ok()?;
    if addr.is_null() || len > MAX_BYTES {
        return None;
    }
    // SAFETY: valid for `len` bytes (the caller's contract); bytes need no alignment.
    Some(unsafe { std::slice::from_raw_parts(addr.cast::<u8>(), len) })
}

/// Puts `new` in the place of the program's socket, with the program's options.
fn exchange(fd: c_int, old: &Socket, carried: &[Setting], new: OwnedFd, connected: bool) -> Option<Served> {
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
    Some(if connected { Served::Connected } else { Served::Failed(libc::EINPROGRESS) })
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
    let (copy, len) = unsafe { declined(addr, len) };
    // SAFETY: the copy is longer than `len`.
    let rc = unsafe { original::connect(fd, copy.as_ptr().cast(), len) };
    let errno = if rc == 0 { 0 } else { original::errno() };
    // SAFETY: no pointers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
    Some(errno).filter(|e| ![0, libc::EINPROGRESS].contains(e))
}
