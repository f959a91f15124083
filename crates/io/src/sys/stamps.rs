//! When a byte of a TCP connection left this host, and when its peer acknowledged it: the kernel's own timestamps of what a socket
//! sends (SO_TIMESTAMPING, networking/timestamping.rst), which wait in the socket's queue of errors.
//!
//! A send that is to be stamped says so by itself, by a control message: other sends of the socket cost nothing.

use super::datagram::{CONTROL, Control, receive_with};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What a socket is to tell of stamps: those of software, with the number of the byte, and without the packet itself.
const TELL: libc::c_uint =
    libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
/// What a send may be stamped with: when its last byte is given to the interface's queue, and when it is acknowledged.
const LEFT: libc::c_uint = libc::SOF_TIMESTAMPING_TX_SCHED;
const ACKNOWLEDGED: libc::c_uint = libc::SOF_TIMESTAMPING_TX_ACK;
/// SO_EE_ORIGIN_TIMESTAMPING, and SCM_TSTAMP_SCHED and SCM_TSTAMP_ACK, of linux/errqueue.h.
const ORIGIN: u8 = 4;
const SCHED: u32 = 1;
const ACK: u32 = 2;

/// What has happened to a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It was given to the interface's queue.
    Left,
    /// The peer's kernel has it.
    Acknowledged,
}

/// A timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Of what.
    pub moment: Moment,
    /// Which byte: the last one of a send, counted from the one that was next when [`tell`] was called.
    pub byte: u32,
    /// When, since 1970 (CLOCK_REALTIME).
    pub at: Duration,
}

/// Has a connected socket tell the stamps of what it sends. To be called while nothing is on the way.
pub fn tell(socket: impl AsFd) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let (tell, len) = (TELL, size_of::<libc::c_uint>() as libc::socklen_t);
    // SAFETY: the kernel reads an int.
    let rc = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, (&raw const tell).cast(), len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends without waiting, and has the last byte that is taken stamped when it is acknowledged, and when it has `left`; how many were.
pub fn send(socket: impl AsFd, parts: &[IoSlice<'_>], left: bool) -> Result<usize, Errno> {
    let stamp = ACKNOWLEDGED | if left { LEFT } else { 0 };
    let mut control = Control([0; CONTROL]);
    // SAFETY: `msghdr` is plain data; all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // An `IoSlice` is an iovec (std's own promise), and the call only reads.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: no pointers.
    let (len, space) = unsafe { (libc::CMSG_LEN(4), libc::CMSG_SPACE(4)) };
    message.msg_controllen = space as _;
    // SAFETY: the control buffer is there and long enough for a header.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: the message fits into the control buffer, to which `header` points.
    unsafe {
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SO_TIMESTAMPING;
        (*header).cmsg_len = len as _;
        libc::CMSG_DATA(header).cast::<libc::c_uint>().write_unaligned(stamp);
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: everything that `message` points to outlives the call, which only reads.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags) };
    usize::try_from(sent).map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// The next stamp that waits; `WouldBlock` where none does. What else is in the queue of errors is left out.
pub fn next(socket: impl AsFd) -> io::Result<Stamp> {
    loop {
        let (mut at, mut of) = (None, None);
        receive_with(&socket, &mut Vec::new(), libc::MSG_ERRQUEUE, |level, kind, data| match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => at = read_time(data),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => of = read_moment(data),
            _ => {}
        })?;
        if let (Some(at), Some((moment, byte))) = (at, of) {
            return Ok(Stamp { moment, byte, at });
        }
    }
}

/// The first of three `struct timespec`, which is the software's.
fn read_time(data: &[u8]) -> Option<Duration> {
    const WORD: usize = size_of::<libc::c_long>();
    let (seconds, nanos) = (data.get(..WORD)?, data.get(WORD..2 * WORD)?);
    let number = |bytes: &[u8]| bytes.try_into().ok().map(libc::c_long::from_ne_bytes);
    Some(Duration::new(number(seconds)?.try_into().ok()?, number(nanos)?.try_into().ok()?))
}

/// `struct sock_extended_err`: errno, origin, type, code, padding, info, data.
fn read_moment(data: &[u8]) -> Option<(Moment, u32)> {
    let head = data.first_chunk::<16>()?;
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    match (head[4], word(8)) {
        (ORIGIN, SCHED) => Some((Moment::Left, word(12))),
        (ORIGIN, ACK) => Some((Moment::Acknowledged, word(12))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn wait(socket: &TcpStream) -> Stamp {
        loop {
            match next(socket) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => return other.unwrap(),
            }
        }
    }

    #[test]
    fn a_byte_leaves_and_is_acknowledged_and_only_what_is_to_be_is_stamped() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            tell(&socket).unwrap();
            socket.write_all(b"not this").unwrap();
            for (data, last) in [(&b"this"[..], 11), (b"and this one", 23)] {
                assert_eq!(send(&socket, &[IoSlice::new(data)], true), Ok(data.len()));
                let (left, had) = (wait(&socket), wait(&socket));
                assert_eq!((left.moment, left.byte), (Moment::Left, last), "{any}");
                assert_eq!((had.moment, had.byte), (Moment::Acknowledged, last), "{any}");
                assert!(had.at >= left.at, "{left:?} {had:?}");
            }
            assert_eq!(next(&socket).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            assert_eq!(send(&socket, &[IoSlice::new(b"in"), IoSlice::new(b"two")], false), Ok(5));
            let had = wait(&socket);
            assert_eq!((had.moment, had.byte), (Moment::Acknowledged, 28), "{any}");
            let after = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            assert!((before..=after).contains(&had.at), "{had:?} is not between {before:?} and {after:?}");
        }
    }

    #[test]
    fn what_is_no_stamp_is_none() {
        assert_eq!((read_time(&[1; 9]), read_moment(&[0; 15]), read_moment(&[0; 16])), (None, None, None));
    }
}
