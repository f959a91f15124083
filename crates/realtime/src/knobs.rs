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
