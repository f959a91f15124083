//! Any socket option as bytes, to be compared and carried over without knowing what it means.

use headstart_core::wire::options::{ATTACHED_FILTER, NETWORK_NAMESPACE, SocketOption};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The longest value that is read; TCP_CONGESTION and SO_BINDTODEVICE take 16 bytes.
const MAX: usize = 64;

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    bytes: [u8; MAX],
    len: libc::socklen_t,
}

impl Value {
    /// A value that is an int.
    pub fn of_int(value: i32) -> Self {
        let mut bytes = [0; MAX];
        bytes[..4].copy_from_slice(&value.to_ne_bytes());
        Self { bytes, len: 4 }
    }

    /// The int that it is, if it is one.
    pub fn int(&self) -> Option<i32> {
        (self.len == 4).then(|| i32::from_ne_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]]))
    }

    /// The time that it is, if it is a `struct timeval` other than zero (which means: without end).
    pub fn timeout(&self) -> Option<Duration> {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| self.bytes[at + i]));
        let time = Duration::from_secs(word(0)).saturating_add(Duration::from_micros(word(8)));
        (self.len == 16 && !time.is_zero()).then_some(time)
    }
}

/// Reads an option; `None` if the kernel does not tell.
pub fn get(socket: impl AsFd, option: SocketOption) -> Option<Value> {
    let len = match option {
        // Asked with length 0 it tells how many instructions are attached.
        ATTACHED_FILTER => 0,
        // It wants to be asked with its very length.
        NETWORK_NAMESPACE => 8,
        _ => MAX,
    };
    let mut value = Value { bytes: [0; MAX], len: len as libc::socklen_t };
    let (level, name) = option;
    // SAFETY: the kernel writes at most `len` bytes into `bytes`, and the number written into `len`.
    let rc = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, value.bytes.as_mut_ptr().cast(), &raw mut value.len)
    };
    (rc == 0).then_some(value)
}

/// Groups that a process can be in (NGROUPS_MAX of linux/limits.h).
const MOST_GROUPS: usize = 65536;

/// The groups of the process at the other end of a Unix socket beside its first one, as they were when it connected (SO_PEERGROUPS).
pub fn peer_groups(socket: impl AsFd) -> std::io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 32];
    loop {
        let mut len = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, which are there, and into `len` how many it has.
        let rc = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let count = len as usize / size_of::<u32>();
        if rc == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let why = std::io::Error::last_os_error();
        if why.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() || count > MOST_GROUPS {
            return Err(why);
        }
        groups.resize(count, 0);
    }
}

/// Has a socket send and receive by the interface `name` alone (SO_BINDTODEVICE, socket(7)).
pub fn bind_to_device(socket: impl AsFd, name: &str) -> std::io::Result<()> {
    let mut value = Value { bytes: [0; MAX], len: name.len() as libc::socklen_t };
    let Some(room) = value.bytes.get_mut(..name.len()) else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    room.copy_from_slice(name.as_bytes());
    if set(socket, (libc::SOL_SOCKET, libc::SO_BINDTODEVICE), &value) {
        return Ok(());
    }
    Err(std::io::Error::last_os_error())
}

/// Sets an option; whether it is set now.
pub fn set(socket: impl AsFd, (level, name): SocketOption, value: &Value) -> bool {
    // SAFETY: the kernel reads `len` bytes, which are there.
    unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, value.bytes.as_ptr().cast(), value.len) == 0 }
}

/// Whether a process is to be signalled about `file` (F_SETOWN of fcntl(2)).
pub fn has_owner(file: impl AsFd) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_GETOWN) != 0 }
}

/// Has a socket drop all that comes (SO_ATTACH_FILTER, socket(7)), as a network that loses everything; whether it does.
#[cfg(test)]
pub fn deafen(socket: impl AsFd) -> bool {
    // "return 0": no byte of it.
    filter(socket, &mut [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 }])
}

/// Has a socket take what a program says of each packet (SO_ATTACH_FILTER, socket(7)); whether it does.
pub fn filter(socket: impl AsFd, program: &mut [libc::sock_filter]) -> bool {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (option, len) = (libc::SO_ATTACH_FILTER, size_of_val(&program) as libc::socklen_t);
    // SAFETY: the kernel reads the program and its `len` instructions, which are there.
    unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, option, (&raw const program).cast(), len) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::wire::options::{BINDING, BINDING_V6, CARRIED, CARRIED_V6};

    #[test]
    fn what_is_set_reads_back_and_what_is_unknown_is_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let keepalive = (libc::SOL_SOCKET, libc::SO_KEEPALIVE);
        assert_eq!(get(&listener, keepalive), Some(Value::of_int(0)));
        assert!(set(&listener, keepalive, &Value::of_int(1)));
        assert_eq!(get(&listener, keepalive).unwrap().int(), Some(1));
        assert_eq!(get(&listener, (libc::SOL_SOCKET, 12345)), None);
        let namespace = get(&listener, NETWORK_NAMESPACE).map(|value| value.bytes[..8].to_vec());
        let told = crate::sys::netns::cookie(&listener).ok().map(|cookie| cookie.to_ne_bytes().to_vec());
        assert_eq!(namespace, told);
    }

    #[test]
    fn the_numbers_that_are_written_down_are_those_of_the_c_library() {
        for option in [
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
            (libc::IPPROTO_IP, libc::IP_TOS),
        ] {
            assert!(CARRIED.contains(&option), "{option:?}");
        }
        for option in [
            (libc::SOL_SOCKET, libc::SO_RCVBUF),
            (libc::SOL_SOCKET, libc::SO_MARK),
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
            (libc::SOL_SOCKET, libc::SO_REUSEPORT),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
            (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        ] {
            assert!(BINDING.contains(&option), "{option:?}");
        }
        assert!(CARRIED_V6.contains(&(libc::IPPROTO_IPV6, libc::IPV6_TCLASS)));
        assert!(BINDING_V6.contains(&(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)));
    }
}
