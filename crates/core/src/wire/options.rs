//! Socket options that matter when one TCP socket takes the place of another: what is set again on the new one, and
//! what keeps the program on its own.
//!
//! Numbers of Linux (asm-generic/socket.h, linux/tcp.h, linux/in.h, linux/in6.h), the same on every machine that headstart
//! is made for; as the kernel fixes them for ever, they are written down here, where library and supervisor both read
//! them. Out of sight are TCP_MD5SIG and the keys of TCP-AO, which getsockopt does not tell: programs that set them (routing
//! daemons) bind first, and a bound socket is never exchanged.

/// Protocol level and number of an option.
pub type SocketOption = (i32, i32);

const SOCKET: i32 = 1;
const IP: i32 = 0;
const TCP: i32 = 6;
const IPV6: i32 = 41;

/// TCP_NODELAY and its kin work after the handshake too: set again on the new socket.
pub const CARRIED: &[SocketOption] = &[
    (SOCKET, 2),  // SO_REUSEADDR
    (SOCKET, 9),  // SO_KEEPALIVE
    (SOCKET, 10), // SO_OOBINLINE
    (SOCKET, 12), // SO_PRIORITY
    (SOCKET, 18), // SO_RCVLOWAT
    (SOCKET, 13), // SO_LINGER
    (SOCKET, 20), // SO_RCVTIMEO
    (SOCKET, 21), // SO_SNDTIMEO
    (SOCKET, 29), // SO_TIMESTAMP
    (SOCKET, 35), // SO_TIMESTAMPNS
    (SOCKET, 40), // SO_RXQ_OVFL
    (SOCKET, 45), // SO_SELECT_ERR_QUEUE
    (SOCKET, 47), // SO_MAX_PACING_RATE
    (SOCKET, 60), // SO_ZEROCOPY
    (TCP, 1),     // TCP_NODELAY
    (TCP, 3),     // TCP_CORK
    (TCP, 4),     // TCP_KEEPIDLE
    (TCP, 5),     // TCP_KEEPINTVL
    (TCP, 6),     // TCP_KEEPCNT
    (TCP, 8),     // TCP_LINGER2
    (TCP, 12),    // TCP_QUICKACK
    (TCP, 13),    // TCP_CONGESTION
    (TCP, 16),    // TCP_THIN_LINEAR_TIMEOUTS
    (TCP, 25),    // TCP_NOTSENT_LOWAT
    (TCP, 36),    // TCP_INQ
    (IP, 1),      // IP_TOS
    (IP, 2),      // IP_TTL
    (IP, 11),     // IP_RECVERR
    (IP, 21),     // IP_MINTTL
];

/// The same of AF_INET6 sockets.
pub const CARRIED_V6: &[SocketOption] = &[
    (IPV6, 16), // IPV6_UNICAST_HOPS
    (IPV6, 25), // IPV6_RECVERR
    (IPV6, 67), // IPV6_TCLASS
    (IPV6, 73), // IPV6_MINHOPCOUNT
];

/// Shape the handshake or the way to the peer: with one of these set the program keeps its socket.
pub const BINDING: &[SocketOption] = &[
    (SOCKET, 1),       // SO_DEBUG
    (SOCKET, 5),       // SO_DONTROUTE
    (SOCKET, 7),       // SO_SNDBUF
    (SOCKET, 8),       // SO_RCVBUF
    (SOCKET, 15),      // SO_REUSEPORT
    (SOCKET, 25),      // SO_BINDTODEVICE
    ATTACHED_FILTER,   // SO_GET_FILTER
    (SOCKET, 36),      // SO_MARK
    (SOCKET, 37),      // SO_TIMESTAMPING
    (SOCKET, 46),      // SO_BUSY_POLL
    (SOCKET, 69),      // SO_PREFER_BUSY_POLL
    NETWORK_NAMESPACE, // SO_NETNS_COOKIE
    (SOCKET, 72),      // SO_BUF_LOCK
    (SOCKET, 73),      // SO_RESERVE_MEM
    (SOCKET, 74),      // SO_TXREHASH
    (TCP, 2),          // TCP_MAXSEG
    (TCP, 7),          // TCP_SYNCNT
    (TCP, 10),         // TCP_WINDOW_CLAMP
    (TCP, 18),         // TCP_USER_TIMEOUT, which bounds the handshake too
    (TCP, 30),         // TCP_FASTOPEN_CONNECT
    (TCP, 31),         // TCP_ULP
    (TCP, 37),         // TCP_TX_DELAY
    (IP, 4),           // IP_OPTIONS
    (IP, 10),          // IP_MTU_DISCOVER
    (IP, 15),          // IP_FREEBIND
    (IP, 19),          // IP_TRANSPARENT
    (IP, 24),          // IP_BIND_ADDRESS_NO_PORT
    (IP, 50),          // IP_UNICAST_IF
    (IP, 51),          // IP_LOCAL_PORT_RANGE
];

/// The same of AF_INET6 sockets.
pub const BINDING_V6: &[SocketOption] = &[
    (IPV6, 23), // IPV6_MTU_DISCOVER
    (IPV6, 54), // IPV6_HOPOPTS
    (IPV6, 57), // IPV6_RTHDR
    (IPV6, 59), // IPV6_DSTOPTS
    (IPV6, 72), // IPV6_ADDR_PREFERENCES
    (IPV6, 76), // IPV6_UNICAST_IF
    (IPV6, 78), // IPV6_FREEBIND
];

/// SO_GET_FILTER: how many instructions of a socket filter are attached, when asked with length 0.
pub const ATTACHED_FILTER: SocketOption = (SOCKET, 26);
/// SO_NETNS_COOKIE (Linux 5.14). It cannot be set, but tells a socket that was made in another network namespace.
pub const NETWORK_NAMESPACE: SocketOption = (SOCKET, 71);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_option_is_in_two_lists_or_twice_in_one() {
        let all: Vec<_> = [CARRIED, CARRIED_V6, BINDING, BINDING_V6].concat();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
