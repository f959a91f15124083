//! The socket of a program that waits in connect(2): whether another may take its place, and what that one must carry.
//!
//! The same rules as the preloaded library's, on the same table ([`options`]), asked of a duplicate of the program's
//! descriptor. Looks only, but for [`AppSocket::begin`].

use crate::sys::socket_option::{self, Value};
use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_core::wire::options::{BINDING, BINDING_V6, CARRIED, CARRIED_V6, SocketOption};
use headstart_core::wire::shim::Pass;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, Stat, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getsockname, ipproto, socket_with, sockopt};
use rustix::process::{getegid, geteuid};
use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

const SEND_TIMEOUT: SocketOption = (libc::SOL_SOCKET, libc::SO_SNDTIMEO);

/// An option and its value.
pub(super) type Setting = (SocketOption, Value);

/// A TCP socket that nothing has happened to yet.
#[derive(Debug)]
pub(super) struct AppSocket {
    /// The same file as the program's.
    pub file: OwnedFd,
    /// AF_INET or AF_INET6.
    pub domain: Family,
    /// Status flags of the file.
    pub flags: OFlags,
    /// An AF_INET6 socket without IPV6_V6ONLY.
    pub accepts_mapped: bool,
    /// SO_SNDTIMEO, which bounds a blocking connect, if it is set.
    pub patience: Option<Duration>,
}

/// What a file turned out to be.
#[derive(Debug)]
pub(super) enum Look {
    /// A new TCP socket.
    Tcp(AppSocket),
    /// Nothing of ours.
    Other,
}

/// The options of fresh sockets, with which those that a program has set are found.
#[derive(Debug)]
pub(super) struct Fresh {
    v4: Options,
    v6: Options,
}

#[derive(Debug, Default)]
struct Options {
    binding: Vec<(SocketOption, Option<Value>)>,
    carried: Vec<(SocketOption, Option<Value>)>,
}

impl Fresh {
    /// Reads them off sockets of this network namespace. Where a family is missing, no program has sockets of it either.
    pub fn read() -> Self {
        let of = |family, more: [&[SocketOption]; 2]| {
            let flags = SocketFlags::CLOEXEC;
            let Ok(socket) = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP)) else {
                return Options::default();
            };
            let values = |list: &[SocketOption], more: &[SocketOption]| {
                list.iter().chain(more).map(|o| (*o, socket_option::get(&socket, *o))).collect()
            };
            Options { binding: values(BINDING, more[0]), carried: values(CARRIED, more[1]) }
        };
        Self { v4: of(AddressFamily::INET, [&[], &[]]), v6: of(AddressFamily::INET6, [BINDING_V6, CARRIED_V6]) }
    }

    fn of(&self, domain: Family) -> &Options {
        match domain {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }
}

/// Whether a socket was made with the user and group of this process. What is opened here in the place of another would be ours to
/// firewalls that look at them.
pub(super) fn is_of_our_user(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|stat| is_owned_by(&stat, geteuid().as_raw(), getegid().as_raw()))
}

fn is_owned_by(stat: &Stat, user: u32, group: u32) -> bool {
    (stat.st_uid, stat.st_gid) == (user, group)
}

/// Whether the program has shut its socket down to reading, connected or not.
pub(super) fn is_shut_down(file: &OwnedFd) -> bool {
    let mut seen = [PollFd::new(file, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut seen, Some(&now)).is_ok() && seen[0].revents().contains(PollFlags::RDHUP)
}

/// Looks at a file of a program. An error is the reason why its socket keeps its place.
pub(super) fn look(file: OwnedFd, fresh: &Fresh) -> Result<Look, Pass> {
    look_at(file, fresh, true)
}

/// The same of a socket whose attempt we have ended: it still tells the port that it had, and the segment size that it found.
/// What it must be was seen when it was new.
pub(super) fn look_again(file: OwnedFd, fresh: &Fresh) -> Result<Look, Pass> {
    look_at(file, fresh, false)
}

fn look_at(file: OwnedFd, fresh: &Fresh, new: bool) -> Result<Look, Pass> {
    let domain = match sockopt::socket_domain(&file) {
        Ok(AddressFamily::INET) => Family::V4,
        Ok(AddressFamily::INET6) => Family::V6,
        _ => return Ok(Look::Other),
    };
    match sockopt::socket_protocol(&file) {
        Ok(Some(ipproto::TCP)) => {}
        _ => return Ok(Look::Other),
    }
    // Whatever is connected, on its way or listening has a local port.
    let local = getsockname(&file).ok().and_then(|name| SocketAddr::try_from(name).ok());
    if local.is_none_or(|local| (new && local.port() != 0) || !local.ip().is_unspecified()) {
        return Err(Pass::NotNew);
    }
    let flags = fcntl_getfl(&file).map_err(|_| Pass::OutOfReach)?;
    let options = fresh.of(domain);
    let as_fresh = |(option, value): &(SocketOption, Option<Value>)| socket_option::get(&file, *option) == *value;
    // Signals to an owner are rare before there is a connection, and numbers of processes are not the same everywhere.
    let owned = flags.contains(OFlags::from_bits_retain(libc::O_ASYNC as u32)) || socket_option::has_owner(&file);
    if owned || options.binding.is_empty() || new && !options.binding.iter().all(as_fresh) {
        return Err(Pass::SocketOption);
    }
    let accepts_mapped = domain == Family::V6 && sockopt::ipv6_v6only(&file) == Ok(false);
    let patience = socket_option::get(&file, SEND_TIMEOUT).and_then(|value| value.timeout());
    Ok(Look::Tcp(AppSocket { file, domain, flags, accepts_mapped, patience }))
}

impl AppSocket {
    /// Whether its connect must not wait.
    pub fn nonblocking(&self) -> bool {
        self.flags.contains(OFlags::NONBLOCK)
    }

    /// What the program has set, of what works after the handshake too; `None` if something cannot be read.
    pub fn settings(&self, fresh: &Fresh) -> Option<Vec<Setting>> {
        let mut settings = Vec::new();
        for (option, value) in &fresh.of(self.domain).carried {
            let wanted = socket_option::get(&self.file, *option);
            if wanted != *value {
                settings.push((*option, wanted?));
            }
        }
        Some(settings)
    }

    /// Begins the program's own connect without waiting for it: the errno that it gets now, 0 if it is connected.
    pub fn begin(&self, to: SocketAddr) -> i32 {
        let to = match (self.domain, to) {
            (Family::V6, SocketAddr::V4(to)) => SocketAddrV6::new(to.ip().to_ipv6_mapped(), to.port(), 0, 0).into(),
            _ => to,
        };
        let nonblocking = fcntl_setfl(&self.file, self.flags | OFlags::NONBLOCK);
        let begun = nonblocking.and_then(|()| connect(&self.file, &to));
        // The file is the program's too. Should it fail, so will everything else that it does with it.
        let _ = fcntl_setfl(&self.file, self.flags);
        begun.map_or_else(Errno::raw_os_error, |()| 0)
    }
}

/// Sets them on `new`; whether all are as they should be.
pub(super) fn carry_over(settings: &[Setting], new: impl AsFd) -> bool {
    let new = new.as_fd();
    settings.iter().all(|(option, wanted)| {
        socket_option::set(new, *option, wanted) && socket_option::get(new, *option) == Some(*wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn tcp(family: AddressFamily) -> OwnedFd {
        socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn app_socket(file: OwnedFd) -> Result<AppSocket, Pass> {
        match look(file, &Fresh::read())? {
            Look::Tcp(socket) => Ok(socket),
            other => panic!("{other:?} is not a TCP socket"),
        }
    }

    #[test]
    fn a_new_tcp_socket_says_what_it_is() {
        let v4 = app_socket(tcp(AddressFamily::INET)).unwrap();
        assert_eq!((v4.domain, v4.nonblocking(), v4.accepts_mapped, v4.patience), (Family::V4, false, false, None));
        let v6 = tcp(AddressFamily::INET6);
        let timeout = Some(std::time::Duration::from_millis(1500));
        sockopt::set_socket_timeout(&v6, sockopt::Timeout::Send, timeout).unwrap();
        let v6 = app_socket(v6).unwrap();
        assert_eq!((v6.domain, v6.patience), (Family::V6, Some(Duration::from_millis(1500))));
    }

    #[test]
    fn what_is_no_tcp_socket_or_no_new_one_keeps_its_place() {
        let fresh = Fresh::read();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(matches!(look(udp.into(), &fresh), Ok(Look::Other)));
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(matches!(look(unix.into(), &fresh), Ok(Look::Other)));
        let bound = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(look(bound.into(), &fresh).unwrap_err(), Pass::NotNew);
    }

    #[test]
    fn a_socket_of_another_user_or_group_is_not_of_ours() {
        let socket = tcp(AddressFamily::INET);
        assert!(is_of_our_user(&socket));
        let (stat, user, group) = (fstat(&socket).unwrap(), geteuid().as_raw(), getegid().as_raw());
        assert!(!is_owned_by(&stat, user + 1, group) && !is_owned_by(&stat, user, group + 1));
    }

    #[test]
    fn a_socket_that_was_shut_down_before_it_was_connected_says_so() {
        let socket = tcp(AddressFamily::INET);
        assert!(!is_shut_down(&socket));
        assert!(rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).is_err(), "not connected");
        assert!(is_shut_down(&socket));
    }

    #[test]
    fn options_that_shape_the_handshake_keep_the_programs_socket() {
        for (option, value) in [
            ((libc::SOL_SOCKET, libc::SO_RCVBUF), 100_000),
            ((libc::SOL_SOCKET, libc::SO_REUSEPORT), 1),
            ((libc::IPPROTO_TCP, libc::TCP_MAXSEG), 1000),
            ((libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), 3000),
            ((libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT), 1),
            ((libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT), 1),
        ] {
            let socket = tcp(AddressFamily::INET);
            assert!(socket_option::set(&socket, option, &Value::of_int(value)), "{option:?}");
            assert_eq!(app_socket(socket).unwrap_err(), Pass::SocketOption, "{option:?}");
        }
        let socket = tcp(AddressFamily::INET);
        fcntl_setfl(&socket, OFlags::from_bits_retain(libc::O_ASYNC as u32)).unwrap();
        assert_eq!(app_socket(socket).unwrap_err(), Pass::SocketOption);
    }

    #[test]
    fn options_that_work_later_are_carried_over() {
        let ours = [
            ((libc::IPPROTO_TCP, libc::TCP_NODELAY), 1),
            ((libc::IPPROTO_TCP, libc::TCP_QUICKACK), 0),
            ((libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1),
            ((libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 77),
            ((libc::IPPROTO_IPV6, libc::IPV6_TCLASS), 0x10),
        ];
        let fresh = Fresh::read();
        let (old, new) = (tcp(AddressFamily::INET6), tcp(AddressFamily::INET6));
        assert_eq!(app_socket(old.try_clone().unwrap()).unwrap().settings(&fresh), Some(vec![]));
        for (option, value) in ours {
            assert!(socket_option::set(&old, option, &Value::of_int(value)), "{option:?}");
        }
        let settings = app_socket(old).unwrap().settings(&fresh).unwrap();
        assert!(carry_over(&settings, &new));
        for (option, value) in ours {
            assert_eq!(socket_option::get(&new, option).unwrap().int(), Some(value), "{option:?}");
        }
    }

    #[test]
    fn a_connect_that_is_begun_for_the_program_leaves_its_file_blocking() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            let socket = app_socket(tcp(family)).unwrap();
            let errno = socket.begin(listener.local_addr().unwrap());
            assert!([0, Errno::INPROGRESS.raw_os_error()].contains(&errno), "{errno}");
            assert!(!fcntl_getfl(&socket.file).unwrap().contains(OFlags::NONBLOCK));
            drop(listener.accept().unwrap());
        }
    }
}
