//! What calls of the C library take, called one after the other as a plain C program calls them: the measuring end of
//! the lab's experiment `shim-cost`.
//!
//! Calls go through the dynamic symbol table, so a preloaded library stands before them as before any other program's.
//! Each call has a clock reading before and after it and nothing else in between. Packets go where the caller says;
//! without an address, to loopback only.

use super::libc_client::{NotReached, connect, lookup};
use crate::clock::Clock;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

/// Most calls of one request: a million durations are 8 MB.
const MAX_TIMES: usize = 1_000_000;

/// What is to be called, how often, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How often.
    pub times: usize,
    /// What.
    pub call: Call,
}

/// A call, or calls that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// socket(2), of TCP.
    Socket,
    /// connect(2) of a UDP socket: no packet is sent.
    ConnectUdp(SocketAddrV4),
    /// connect(2) of a Unix datagram socket to one of the caller's own.
    ConnectUnix,
    /// connect(2) of a TCP socket to a listener of the caller's own on loopback, blocking.
    ConnectTcp,
    /// getaddrinfo(3) of an address in digits.
    LookupNumeric,
    /// getaddrinfo(3) of a name and a port, a pause, connect(2) to the first address of the list, blocking.
    Reach {
        /// The name.
        name: String,
        /// The TCP port.
        port: u16,
        /// Between getaddrinfo's return and connect: time to connect ahead.
        pause: Duration,
    },
    /// The start of a program without arguments and with empty input, until its end.
    Start(PathBuf),
}

/// What the calls took, in the order of the calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// getaddrinfo.
    pub lookup: Vec<Duration>,
    /// Everything else.
    pub call: Vec<Duration>,
}

/// Why there is nothing to tell.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A lookup or a connection by name.
    #[error(transparent)]
    NotReached(#[from] NotReached),
    /// Any other call.
    #[error("{what}: {source}")]
    Call {
        /// The call.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A text that is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a measurement: give TIMES (1 to {MAX_TIMES}) and one of: socket, udp ADDRESS:PORT, unix, tcp, numeric, reach \
     NAME PORT PAUSE_US, start PROGRAM"
)]
pub struct NoRequest(pub String);

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.times;
        match &self.call {
            Call::Socket => write!(f, "{times} socket"),
            Call::ConnectUdp(to) => write!(f, "{times} udp {to}"),
            Call::ConnectUnix => write!(f, "{times} unix"),
            Call::ConnectTcp => write!(f, "{times} tcp"),
            Call::LookupNumeric => write!(f, "{times} numeric"),
            Call::Reach { name, port, pause } => write!(f, "{times} reach {name} {port} {}", pause.as_micros()),
            Call::Start(program) => write!(f, "{times} start {}", program.display()),
        }
    }
}

impl FromStr for Request {
    type Err = NoRequest;

    fn from_str(text: &str) -> Result<Self, NoRequest> {
        parse(text).ok_or_else(|| NoRequest(text.into()))
    }
}

fn parse(text: &str) -> Option<Request> {
    let (times, rest) = text.trim().split_once(' ')?;
    let times = times.parse().ok().filter(|n| (1..=MAX_TIMES).contains(n))?;
    let (kind, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
    let call = match (kind, arguments) {
        ("socket", "") => Call::Socket,
        ("udp", to) => Call::ConnectUdp(to.parse().ok()?),
        ("unix", "") => Call::ConnectUnix,
        ("tcp", "") => Call::ConnectTcp,
        ("numeric", "") => Call::LookupNumeric,
        ("reach", arguments) => {
            let [name, port, pause] = arguments.split(' ').collect::<Vec<_>>()[..] else { return None };
            let pause = Duration::from_micros(pause.parse().ok()?);
            Call::Reach { name: name.into(), port: port.parse().ok()?, pause }
        }
        ("start", program) if !program.is_empty() => Call::Start(program.into()),
        _ => return None,
    };
    Some(Request { times, call })
}

impl Request {
    /// Makes the calls.
    pub fn measure(&self) -> Result<Taken, Failure> {
        let clock = Clock::new();
        let fail = |what: &str| {
            let what = what.to_owned();
            move |source| Failure::Call { what, source }
        };
        let repeated = |one: &mut dyn FnMut() -> io::Result<Duration>| {
            let call = (0..self.times).map(|_| one()).collect::<io::Result<Vec<_>>>();
            call.map(|call| Taken { lookup: Vec::new(), call })
        };
        match &self.call {
            Call::Socket => repeated(&mut || {
                let before = clock.now();
                let socket = socket(libc::AF_INET, libc::SOCK_STREAM)?;
                let taken = clock.now() - before;
                drop(socket);
                Ok(taken)
            })
            .map_err(fail("socket")),
            Call::ConnectUdp(to) => {
                let to = inet(*to);
                repeated(&mut || timed(&clock, &socket(libc::AF_INET, libc::SOCK_DGRAM)?, &to))
                    .map_err(fail("connecting a UDP socket"))
            }
            Call::ConnectUnix => own_unix()
                .and_then(|(_own, to)| repeated(&mut || timed(&clock, &socket(libc::AF_UNIX, libc::SOCK_DGRAM)?, &to)))
                .map_err(fail("connecting a Unix socket")),
            Call::ConnectTcp => own_tcp()
                .and_then(|(listener, to)| {
                    repeated(&mut || {
                        let socket = socket(libc::AF_INET, libc::SOCK_STREAM)?;
                        let taken = timed(&clock, &socket, &to)?;
                        let (accepted, _) = listener.accept()?;
                        // Ends with a reset, so that no thousands of sockets wait out TIME_WAIT.
                        reset_at_close(&accepted)?;
                        drop(accepted);
                        Ok(taken)
                    })
                })
                .map_err(fail("connecting a TCP socket on loopback")),
            Call::LookupNumeric => {
                let one = || look_up(&clock, "192.0.2.1", 80).map(|(taken, _)| taken);
                let lookup = (0..self.times).map(|_| one()).collect::<Result<_, _>>()?;
                Ok(Taken { lookup, call: Vec::new() })
            }
            Call::Reach { name, port, pause } => self.reach(clock, (name, *port), *pause),
            Call::Start(program) => repeated(&mut || {
                let mut command = Command::new(program);
                command.stdin(Stdio::null()).stdout(Stdio::null());
                let before = clock.now();
                let status = command.status()?;
                let taken = clock.now() - before;
                status.success().then_some(taken).ok_or_else(|| io::Error::other(format!("ended with {status}")))
            })
            .map_err(fail(&format!("starting {}", program.display()))),
        }
    }
}

impl Request {
    /// Looks a name up and connects to what it says.
    fn reach(&self, clock: Clock, (name, port): (&str, u16), pause: Duration) -> Result<Taken, Failure> {
        let mut taken = Taken::default();
        for _ in 0..self.times {
            let (lookup, first) = look_up(&clock, name, port)?;
            clock.sleep(pause);
            let before = clock.now();
            let failed = |source| NotReached::Connect { name: name.to_owned(), addresses: 1, source };
            let socket = connect(first, None).map_err(failed)?;
            taken.call.push(clock.now() - before);
            taken.lookup.push(lookup);
            let what = "setting SO_LINGER".to_owned();
            reset_at_close(&socket).map_err(|source| Failure::Call { what, source })?;
        }
        Ok(taken)
    }
}

/// A lookup, what it took and the first address of the list.
fn look_up(clock: &Clock, name: &str, port: u16) -> Result<(Duration, SocketAddr), NotReached> {
    let fail = |reason: String| NotReached::Lookup { name: name.into(), reason };
    let before = clock.now();
    let list = lookup(name, port, None).map_err(fail)?;
    let taken = clock.now() - before;
    let first = list.first().copied().ok_or_else(|| fail("an empty list".into()))?;
    Ok((taken, first))
}

/// An address as the kernel takes it.
struct Address {
    bytes: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl Address {
    fn none() -> Self {
        // SAFETY: `sockaddr_storage` is plain data; all zeroes is a valid value.
        let bytes = unsafe { MaybeUninit::zeroed().assume_init() };
        Self { bytes, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }
}

fn inet(to: SocketAddrV4) -> Address {
    // SAFETY: `sockaddr_in` is plain data; all zeroes is a valid value.
    let mut sin: libc::sockaddr_in = unsafe { MaybeUninit::zeroed().assume_init() };
    sin.sin_family = libc::AF_INET as libc::sa_family_t;
    sin.sin_port = to.port().to_be();
    sin.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
    let mut address = Address::none();
    // SAFETY: a sockaddr_storage has room and alignment for every address.
    unsafe { (&raw mut address.bytes).cast::<libc::sockaddr_in>().write(sin) };
    address.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    address
}

fn socket(domain: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What connect takes.
fn timed(clock: &Clock, socket: &OwnedFd, to: &Address) -> io::Result<Duration> {
    let before = clock.now();
    // SAFETY: `to` holds a whole address of its length.
    let rc = unsafe { libc::connect(socket.as_raw_fd(), (&raw const to.bytes).cast(), to.len) };
    let taken = clock.now() - before;
    if rc == 0 { Ok(taken) } else { Err(io::Error::last_os_error()) }
}

/// A Unix datagram socket of our own, under a name that the kernel has chosen, and that name.
fn own_unix() -> io::Result<(OwnedFd, Address)> {
    let own = socket(libc::AF_UNIX, libc::SOCK_DGRAM)?;
    // unix(7), autobind: an address that is a family and nothing else.
    let family = libc::AF_UNIX as libc::sa_family_t;
    // SAFETY: `family` is valid for its length.
    let rc = unsafe {
        libc::bind(own.as_raw_fd(), (&raw const family).cast(), size_of::<libc::sa_family_t>() as libc::socklen_t)
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut address = Address::none();
    // SAFETY: `bytes` is valid for `len` bytes.
    let rc = unsafe { libc::getsockname(own.as_raw_fd(), (&raw mut address.bytes).cast(), &mut address.len) };
    if rc == 0 { Ok((own, address)) } else { Err(io::Error::last_os_error()) }
}

fn own_tcp() -> io::Result<(std::net::TcpListener, Address)> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    match listener.local_addr()? {
        SocketAddr::V4(to) => Ok((listener, inet(to))),
        SocketAddr::V6(_) => Err(io::Error::other("an IPv4 listener with an IPv6 address")),
    }
}

/// A connection that is closed with a reset (SO_LINGER of 0 s).
fn reset_at_close(socket: &impl AsRawFd) -> io::Result<()> {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: `at_once` is valid for its size.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const at_once).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(times: usize, call: Call) -> Request {
        Request { times, call }
    }

    #[test]
    fn requests_read_as_they_are_written_and_anything_else_is_explained() {
        for call in [
            Call::Socket,
            Call::ConnectUdp("192.0.2.1:53".parse().unwrap()),
            Call::ConnectUnix,
            Call::ConnectTcp,
            Call::LookupNumeric,
            Call::Reach { name: "a.example".into(), port: 80, pause: Duration::from_millis(3) },
            Call::Start("/bin/a program".into()),
        ] {
            let request = request(7, call);
            assert_eq!(request.to_string().parse(), Ok(request));
        }
        for bad in ["", "7", "0 tcp", "7 tcp now", "7 reach a.example", "7 udp a.example:53", "7 start ", "many tcp"] {
            assert!(bad.parse::<Request>().unwrap_err().to_string().contains("PAUSE_US"), "{bad}");
        }
        assert!(format!("{} socket", MAX_TIMES + 1).parse::<Request>().is_err());
    }

    #[test]
    fn every_call_of_its_own_is_made_as_often_as_asked() {
        let udp = Call::ConnectUdp(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9));
        for (call, lookups, calls) in [
            (Call::Socket, 0, 3),
            (udp, 0, 3),
            (Call::ConnectUnix, 0, 3),
            (Call::ConnectTcp, 0, 3),
            (Call::LookupNumeric, 3, 0),
        ] {
            let taken = request(3, call.clone()).measure().unwrap();
            assert_eq!((taken.lookup.len(), taken.call.len()), (lookups, calls), "{call:?}");
        }
    }

    #[test]
    fn a_name_is_reached_after_the_pause_and_a_program_that_fails_is_no_measurement() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let reach = |port| Call::Reach { name: "127.0.0.1".into(), port, pause: Duration::from_millis(1) };
        let taken = request(2, reach(port)).measure().unwrap();
        assert_eq!((taken.lookup.len(), taken.call.len()), (2, 2));
        drop(listener);
        assert!(matches!(request(1, reach(port)).measure(), Err(Failure::NotReached(_))));
        let missing = request(1, Call::Start("/nonexistent/program".into())).measure().unwrap_err();
        assert!(missing.to_string().contains("starting /nonexistent/program"), "{missing}");
    }
}
