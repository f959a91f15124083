//! Socket options of TCP that help small messages, set where the kernel has them.
//!
//! TCP_NODELAY everywhere; TCP_NOTSENT_LOWAT, so that what cannot leave yet waits where it can still be replaced; linear
//! timeouts for thin streams. A kernel that refuses one is as before. None is needed, and none is privileged.

use headstart_io::sys::socket_option::{Value, set};
use std::os::fd::AsFd;

/// IPPROTO_TCP, and numbers of linux/tcp.h.
const TCP: i32 = 6;
const TCP_NODELAY: i32 = 1;
const TCP_THIN_LINEAR_TIMEOUTS: i32 = 16;
const TCP_NOTSENT_LOWAT: i32 = 25;
/// Bytes that may wait in the kernel unsent: about as many small messages as leave in a burst. Ours.
const UNSENT: i32 = 512;

/// Which options a kernel took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub no_delay: bool,
    pub unsent_low_water: bool,
    pub linear_timeouts: bool,
}

/// SOL_SOCKET and SO_KEEPALIVE; the rest are of TCP.
const SOCKET: i32 = 1;
const SO_KEEPALIVE: i32 = 9;
const TCP_KEEPIDLE: i32 = 4;
const TCP_KEEPINTVL: i32 = 5;
const TCP_KEEPCNT: i32 = 6;
const TCP_USER_TIMEOUT: i32 = 18;
/// A peer that is silent for so many seconds is asked whether it is there, then so often … Ours.
const ASK_AFTER: i32 = 15;
const ASK_EVERY: i32 = 5;
/// … and given up after this many milliseconds, as is one that acknowledges nothing: sooner than it gives up this side
/// (`driver`'s 30 s), so that a session goes on over a new connection. Ours.
const GIVE_UP: i32 = 20_000;

/// Has the kernel find out when the peer of a session's connection is gone without a word: a cut wire, a forgotten mapping.
pub(crate) fn watch(socket: impl AsFd) {
    let set = |option, value| set(socket.as_fd(), option, &Value::of_int(value));
    set((SOCKET, SO_KEEPALIVE), 1);
    set((TCP, TCP_KEEPIDLE), ASK_AFTER);
    set((TCP, TCP_KEEPINTVL), ASK_EVERY);
    set((TCP, TCP_KEEPCNT), 1);
    set((TCP, TCP_USER_TIMEOUT), GIVE_UP);
}

/// Sets them on a socket of TCP.
pub(crate) fn turn(socket: impl AsFd) -> Taken {
    let set = |option, value| set(socket.as_fd(), (TCP, option), &Value::of_int(value));
    Taken {
        no_delay: set(TCP_NODELAY, 1),
        unsent_low_water: set(TCP_NOTSENT_LOWAT, UNSENT),
        linear_timeouts: set(TCP_THIN_LINEAR_TIMEOUTS, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_tcp_takes_the_one_that_every_kernel_has_and_another_socket_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(turn(&stream).no_delay && stream.nodelay().unwrap());
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!turn(&datagrams).no_delay);
    }
}
