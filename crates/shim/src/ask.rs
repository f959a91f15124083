//! One question to the supervisor, one answer, perhaps with a descriptor. The socket lives as long as the question, so
//! nothing is left in the program's descriptor table, and nothing has to be put right after fork or closefrom.

use crate::original;
use crate::session::Session;
use headstart_core::wire::shim::{MAX_MESSAGE, Reply, Request};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// What came of a question.
pub(crate) enum Received {
    /// The supervisor's answer.
    Reply(Reply, Option<OwnedFd>),
    /// A signal handler ran (without SA_RESTART) while we waited.
    Interrupted,
    /// No answer within the time given.
    TimedOut,
}

/// How the wait for an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// There is an answer, or there will be none.
    Answer,
    /// A signal handler ran (without SA_RESTART).
    Interrupted,
    /// Nothing came within the time given.
    TimedOut,
}

/// How long to wait for an answer, and what a signal does meanwhile.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// At most this long; signal handlers run, and the wait goes on.
    Seconds(i64),
    /// At most this long, as a socket with a timeout waits: any signal handler ends it (signal(7)).
    Timeout(libc::timeval),
    /// As a blocking system call waits: until the end, or until a signal handler without SA_RESTART has run. The
    /// supervisor's answer has bounds of its own, and its end ends the wait.
    AsBlocking,
}

/// Longest wait for the supervisor to take a connection or a question; it takes microseconds unless it is gone.
const REACHING: libc::timeval = libc::timeval { tv_sec: 1, tv_usec: 0 };

/// A way to the supervisor, for one question.
///
/// The supervisor takes some 20 us from [`Self::send`] on: time for the caller to find out what it needs to know anyway.
/// Sending follows at once upon opening, which wakes the supervisor: it would go back to sleep in between.
pub(crate) struct Line {
    socket: OwnedFd,
    /// Of which supervisor.
    session: &'static Session,
}

impl Line {
    /// Connects to the supervisor.
    pub(crate) fn open(session: &'static Session) -> Option<Self> {
        let fd = original::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return None;
        }
        // SAFETY: `fd` was just opened and is ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: `sockaddr_un` is plain data; all zeroes is a valid value.
        let mut addr: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        addr.sun_family = libc::AF_UNIX as libc::sa_family_t;
        if session.socket.len() > addr.sun_path.len() {
            return None;
        }
        for (to, from) in addr.sun_path.iter_mut().zip(&session.socket) {
            *to = *from as libc::c_char;
        }
        // It bounds connect, too.
        limit(fd, libc::SO_SNDTIMEO, REACHING);
        // SAFETY: `addr` is a whole sockaddr_un.
        let rc = unsafe {
            original::connect(fd, (&raw const addr).cast(), size_of::<libc::sockaddr_un>() as libc::socklen_t)
        };
        (rc == 0).then_some(Self { socket, session })
    }

    /// Asks; the answer is for [`Self::receive`].
    pub(crate) fn send(&self, request: &Request) -> Option<()> {
        let message = request.encode();
        let bytes = message.as_ref();
        // SAFETY: `bytes` is valid for its length.
        let sent = unsafe { libc::send(self.descriptor(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        (usize::try_from(sent).ok()? == bytes.len()).then_some(())
    }

    /// Bounds the wait for the answer ([`crate::waits`]).
    pub(crate) fn limit(&self, patience: Patience) {
        match patience {
            Patience::Seconds(seconds) => {
                limit(self.descriptor(), libc::SO_RCVTIMEO, libc::timeval { tv_sec: seconds, tv_usec: 0 });
            }
            Patience::Timeout(timeout) => limit(self.descriptor(), libc::SO_RCVTIMEO, timeout),
            // Calls on a socket with a timeout are never restarted, whatever SA_RESTART says (signal(7)).
            Patience::AsBlocking => {}
        }
    }

    /// Its descriptor.
    pub(crate) fn descriptor(&self) -> c_int {
        self.socket.as_raw_fd()
    }

    /// The answer, after the wait for it.
    pub(crate) fn receive(&self, came: Came) -> Option<Received> {
        match came {
            Came::Answer => receive(&self.socket),
            Came::Interrupted => Some(Received::Interrupted),
            Came::TimedOut => Some(Received::TimedOut),
        }
    }

    /// Closes it, if the descriptor still leads to the supervisor: the program may have closed it, and opened another by its number.
    pub(crate) fn close_if_ours(self) {
        // SAFETY: `sockaddr_un` is plain data; all zeroes is a valid value.
        let mut addr: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        // SAFETY: `addr` is valid for `len` bytes.
        let rc = unsafe { original::getpeername(self.descriptor(), (&raw mut addr).cast(), &mut len) };
        let path = addr.sun_path.iter().take(self.session.socket.len()).map(|c| *c as u8);
        let is_unix = rc == 0 && addr.sun_family == libc::AF_UNIX as libc::sa_family_t;
        if !(is_unix && path.eq(self.session.socket.iter().copied())) {
            let _ = self.socket.into_raw_fd();
        }
    }
}

/// Bounds the waiting of calls on `fd`.
fn limit(fd: c_int, option: c_int, time: libc::timeval) {
    let size = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: `time` is valid for `size` bytes.
    unsafe { original::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const time).cast(), size) };
}

fn receive(socket: &OwnedFd) -> Option<Received> {
    let mut bytes = [0u8; MAX_MESSAGE];
    // Room for one descriptor, aligned for its header.
    let mut control = [0u64; 4];
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: `msghdr` is plain data; all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: `message` points to buffers of the lengths that it gives.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) };
    if got < 0 {
        return match original::errno() {
            libc::EINTR => Some(Received::Interrupted),
            libc::EAGAIN => Some(Received::TimedOut),
            _ => None,
        };
    }
    let descriptor = passed(&message);
    let reply = Reply::decode(bytes.get(..usize::try_from(got).ok()?)?)?;
    Some(Received::Reply(reply, descriptor))
}

/// The descriptor that came with a message.
fn passed(message: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: `message` was filled in by recvmsg.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return None;
    }
    // SAFETY: CMSG_FIRSTHDR returns null or a whole header.
    let header = unsafe { &*header };
    if header.cmsg_level != libc::SOL_SOCKET || header.cmsg_type != libc::SCM_RIGHTS {
        return None;
    }
    // SAFETY: SCM_RIGHTS carries at least one int.
    let fd = unsafe { libc::CMSG_DATA(header).cast::<c_int>().read_unaligned() };
    // SAFETY: the kernel has just opened `fd` for us.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}
