//! The checks: what the program does, and what of the wire counts.

use super::peers::{self, BULK, MANY, Peer, Seen, described, read_all, text, wait};
use super::{SILENT, UNROUTED, V4, V6};
use headstart_core::wire::ip::tcp::{self, Flags};
use headstart_core::wire::ip::{TCP, UDP};
use headstart_io::clock::Clock;
use headstart_io::sys::{datagram, train};
use rustix::net::sockopt;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// How long a program waits for what does not come.
const SHORT: Duration = Duration::from_millis(1500);
/// How long it waits for what should.
const LONG: Duration = Duration::from_secs(20);
/// DSCP EF, and the same with ECN's ECT(1).
const EF: u8 = 0xb8;
const EF_ECT1: u8 = 0xb9;

/// Where a program finds its peer.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// For connections.
    pub tcp: SocketAddr,
    /// For datagrams.
    pub udp: SocketAddr,
    /// Waits are short.
    pub quick: bool,
}

/// A check.
pub struct Check {
    /// Its name, a condition.
    pub name: &'static str,
    /// What it is, in a sentence without a full stop.
    pub what: &'static str,
    /// Whether it is over IPv6.
    v6: bool,
    /// The program; what it saw.
    pub program: fn(&Target) -> io::Result<String>,
    /// The peer; what it saw.
    pub peer: fn(&mut Peer, bool) -> io::Result<String>,
    /// What counts of the packets that came to the peer.
    pub wire: fn(&[Seen]) -> String,
}

impl Check {
    /// The address of its peer.
    pub fn peer_address(&self) -> &'static str {
        if self.v6 { V6 } else { V4 }
    }
}

/// The check called `name`.
pub fn find(name: &str) -> Option<&'static Check> {
    ALL.iter().find(|check| check.name == name)
}

const fn over_v4(
    name: &'static str,
    what: &'static str,
    program: fn(&Target) -> io::Result<String>,
    peer: fn(&mut Peer, bool) -> io::Result<String>,
) -> Check {
    Check { name, what, v6: false, program, peer, wire: nothing }
}

const fn over_v6(check: Check) -> Check {
    Check { v6: true, ..check }
}

const fn seen(check: Check, wire: fn(&[Seen]) -> String) -> Check {
    Check { wire, ..check }
}

/// Every check.
pub const ALL: &[Check] = &[
    over_v4("refused", "A closed port refuses", refused, peers::nobody),
    over_v6(over_v4("refused-v6", "A closed port refuses, over IPv6", refused, peers::nobody)),
    over_v4(
        "black-hole",
        "No answer comes, and the attempt is still in progress after 1.5 s",
        black_hole,
        peers::nobody,
    ),
    over_v4("no-route", "The host has no route", no_route, peers::nobody),
    over_v4("a-round-trip", "connect() takes at least a round trip", a_round_trip, peers::listens),
    over_v4("mss", "TCP_MAXSEG of a connection", mss, peers::listens),
    over_v6(over_v4("mss-v6", "TCP_MAXSEG of a connection, over IPv6", mss, peers::listens)),
    over_v4("own-address", "The local address of a connection", own_address, peers::listens),
    over_v4(
        "half-close",
        "The program sends 1 MB and shuts down its side; the peer answers 0.3 s later",
        half_close,
        peers::answers,
    ),
    over_v6(over_v4("half-close-v6", "The same over IPv6", half_close, peers::answers)),
    over_v4("late-answer", "The same, answered after 7 s", half_close, peers::answers_later),
    over_v4(
        "peer-closes-first",
        "The peer shuts down its side at once; the program sends 1 MB",
        peer_closes_first,
        peers::closes_first,
    ),
    over_v4("reset-by-peer", "The peer resets the connection", reset_by_peer, peers::resets),
    over_v4("reset-by-program", "The program resets the connection", reset_by_program, peers::is_reset),
    over_v4("data-on-fin", "150 bytes in the same segment as the program's FIN", data_on_fin, peers::listens),
    over_v4(
        "back-pressure",
        "The peer reads nothing for 2.5 s while the program sends what it can; all of it arrives",
        back_pressure,
        peers::dawdles,
    ),
    over_v4("urgent-up", "An urgent byte of the program", urgent_up, peers::hears_urgent),
    over_v4("urgent-down", "An urgent byte of the peer", urgent_down, peers::says_urgent),
    over_v4("idle", "A connection is idle for 68 s (3 s if quick) and stays open", idle, peers::echoes),
    over_v4("many-flows", "200 connections at a time", many_flows, peers::takes_many),
    seen(over_v4("dscp-tcp", "DSCP EF of a connection is on the wire", dscp_tcp, peers::listens), classes_tcp),
    seen(
        over_v4(
            "dscp-ecn-udp",
            "DSCP EF and ECT(1) of a datagram are on the wire",
            dscp_ecn_udp,
            peers::takes_datagram,
        ),
        classes_udp,
    ),
    seen(over_v6(over_v4("dscp-ecn-udp-v6", "The same over IPv6", dscp_ecn_udp, peers::takes_datagram)), classes_udp),
    seen(over_v4("ttl-udp", "The TTL of a datagram, as for traceroute", ttl_udp, peers::takes_datagram), limits_udp),
    seen(
        over_v4("nodelay", "TCP_NODELAY: 20 small writes in 40 ms become 20 segments", nodelay, peers::listens),
        small_segments,
    ),
    seen(
        over_v4("nagle", "Nagle's algorithm: 20 small writes in 40 ms become a few segments", nagle, peers::listens),
        small_segments,
    ),
    seen(over_v4("keep-alive", "SO_KEEPALIVE probes the peer", keep_alive, peers::listens), keep_alives),
    over_v4("udp-refused", "A datagram to a closed port is refused", udp_refused, peers::nobody),
    over_v4("udp", "A datagram and its answer", udp, peers::echoes_datagram),
    over_v6(over_v4("udp-v6", "A datagram and its answer, over IPv6", udp, peers::echoes_datagram)),
    over_v4(
        "udp-fragments",
        "A datagram of 8000 bytes and its answer, in fragments",
        udp_large,
        peers::echoes_datagram,
    ),
    over_v6(over_v4("udp-fragments-v6", "The same over IPv6", udp_large, peers::echoes_datagram)),
    over_v4(
        "udp-trains",
        "Eleven datagrams sent at once (UDP_SEGMENT), and two answers of that kind, one of them taken at once (UDP_GRO)",
        udp_trains,
        peers::echoes_trains,
    ),
    over_v6(over_v4("udp-trains-v6", "The same over IPv6", udp_trains, peers::echoes_trains)),
    over_v4("udp-own-port", "A datagram's source port is the program's own", udp_own_port, peers::names_port),
    over_v4("udp-one-port", "Datagrams of one socket come from one port", udp_one_port, peers::answers_from_two_ports),
    over_v4("ping", "An ICMP echo and its reply", ping, peers::nobody),
];

/// Their names.
pub const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = ALL[n].name;
        n += 1;
    }
    names
};

fn kind(e: &io::Error) -> String {
    format!("{:?}", e.kind())
}

fn connect(target: &Target) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&target.tcp, LONG)?;
    stream.set_read_timeout(Some(LONG))?;
    stream.set_write_timeout(Some(LONG))?;
    Ok(stream)
}

fn attempt(to: SocketAddr, patience: Duration) -> io::Result<String> {
    Ok(TcpStream::connect_timeout(&to, patience).map_or_else(|e| kind(&e), |_| "connected".into()))
}

fn refused(target: &Target) -> io::Result<String> {
    // The peer's datagrams have a port of their own, at which no connection is taken.
    attempt(SocketAddr::new(target.tcp.ip(), 9), LONG)
}

fn black_hole(target: &Target) -> io::Result<String> {
    attempt(SocketAddr::new(SILENT.parse().map_err(io::Error::other)?, target.tcp.port()), SHORT)
}

fn no_route(target: &Target) -> io::Result<String> {
    attempt(SocketAddr::new(UNROUTED.parse().map_err(io::Error::other)?, target.tcp.port()), LONG)
}

fn a_round_trip(target: &Target) -> io::Result<String> {
    let clock = Clock::new();
    let stream = connect(target)?;
    let took = clock.now().since(headstart_core::time::Instant::ZERO);
    drop(stream);
    Ok(if took >= Duration::from_millis(20) { "a round trip at least" } else { "less than a round trip" }.into())
}

fn mss(target: &Target) -> io::Result<String> {
    let stream = connect(target)?;
    let option = headstart_io::sys::socket_option::get(&stream, (6, 2));
    Ok(format!("{:?}", option.and_then(|value| value.int())))
}

fn own_address(target: &Target) -> io::Result<String> {
    Ok(connect(target)?.local_addr()?.ip().to_string())
}

fn half_close(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    stream.write_all(&text(BULK))?;
    stream.shutdown(Shutdown::Write)?;
    Ok(read_all(&mut stream))
}

fn peer_closes_first(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    let heard = read_all(&mut stream);
    stream.write_all(&text(BULK))?;
    Ok(format!("{heard}, and went on"))
}

fn reset_by_peer(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    stream.write_all(b"x")?;
    Ok(read_all(&mut stream))
}

fn reset_by_program(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    stream.read_exact(&mut [0])?;
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok("reset it".into())
}

fn data_on_fin(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    sockopt::set_tcp_cork(&stream, true)?;
    stream.write_all(&text(150))?;
    stream.shutdown(Shutdown::Write)?;
    Ok(read_all(&mut stream))
}

fn back_pressure(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    stream.set_nonblocking(true)?;
    let all = text(64 << 20);
    let (clock, mut sent) = (Clock::new(), 0);
    let mut last = clock.now();
    while sent < all.len() && clock.now().since(last) < Duration::from_millis(700) {
        match stream.write(&all[sent..(sent + 65_536).min(all.len())]) {
            Ok(len) => {
                sent += len;
                last = clock.now();
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => wait(Duration::from_millis(5)),
            Err(e) => return Ok(kind(&e)),
        }
    }
    stream.set_nonblocking(false)?;
    stream.write_all(&(sent as u64).to_be_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let end = read_all(&mut stream);
    Ok(format!("{}, {end}", if sent < all.len() { "was held up" } else { "was never held up" }))
}

fn urgent_up(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    peers::send_urgent(&mut stream)?;
    Ok(read_all(&mut stream))
}

fn urgent_down(target: &Target) -> io::Result<String> {
    Ok(peers::urgent(&mut connect(target)?))
}

fn idle(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    let mut say = |word: &[u8; 5]| {
        let mut heard = [0; 5];
        stream.write_all(word).and_then(|()| stream.read_exact(&mut heard)).map(|()| heard == *word)
    };
    let first = say(b"hello")?;
    wait(Duration::from_secs(if target.quick { 3 } else { 68 }));
    let second = say(b"again").map_or_else(|e| kind(&e), |same| same.to_string());
    Ok(format!("{first}, and after a while {second}"))
}

fn many_flows(target: &Target) -> io::Result<String> {
    let mut streams = (0..MANY).map(|_| connect(target)).collect::<io::Result<Vec<_>>>()?;
    streams.iter_mut().try_for_each(|stream| stream.write_all(&text(100)))?;
    let mut right = 0;
    for stream in &mut streams {
        let mut heard = [0; 100];
        right += usize::from(stream.read_exact(&mut heard).is_ok() && heard[..] == text(100)[..]);
    }
    Ok(format!("{right} were answered"))
}

fn dscp_tcp(target: &Target) -> io::Result<String> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_ip_tos(&socket, EF)?;
    rustix::net::connect(&socket, &target.tcp)?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&text(100))?;
    stream.shutdown(Shutdown::Write)?;
    Ok(read_all(&mut stream))
}

fn port(target: &Target, port: u16) -> io::Result<UdpSocket> {
    let any = if target.udp.is_ipv4() { "0.0.0.0" } else { "::" };
    let socket = UdpSocket::bind((any.parse::<IpAddr>().map_err(io::Error::other)?, port))?;
    socket.set_read_timeout(Some(LONG))?;
    Ok(socket)
}

fn dscp_ecn_udp(target: &Target) -> io::Result<String> {
    datagram::send(port(target, 0)?, target.udp, &text(100), EF_ECT1, 64)?;
    Ok("sent".into())
}

fn ttl_udp(target: &Target) -> io::Result<String> {
    datagram::send(port(target, 0)?, target.udp, &text(100), 0, 23)?;
    Ok("sent".into())
}

fn small_writes(target: &Target, no_delay: bool) -> io::Result<String> {
    let mut stream = connect(target)?;
    stream.set_nodelay(no_delay)?;
    for _ in 0..20 {
        stream.write_all(&[7; 50])?;
        wait(Duration::from_millis(2));
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(read_all(&mut stream))
}

fn nodelay(target: &Target) -> io::Result<String> {
    small_writes(target, true)
}

fn nagle(target: &Target) -> io::Result<String> {
    small_writes(target, false)
}

fn keep_alive(target: &Target) -> io::Result<String> {
    let mut stream = connect(target)?;
    stream.write_all(&text(100))?;
    sockopt::set_tcp_keepidle(&stream, Duration::from_secs(1))?;
    sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(1))?;
    sockopt::set_socket_keepalive(&stream, true)?;
    wait(Duration::from_millis(4500));
    stream.shutdown(Shutdown::Write)?;
    Ok(read_all(&mut stream))
}

fn udp_refused(target: &Target) -> io::Result<String> {
    let socket = port(target, 0)?;
    socket.connect(SocketAddr::new(target.udp.ip(), 9))?;
    socket.send(b"hello")?;
    Ok(socket.recv(&mut [0; 10]).map_or_else(|e| kind(&e), |_| "answered".into()))
}

fn ask(target: &Target, len: usize) -> io::Result<String> {
    let socket = port(target, 0)?;
    socket.connect(target.udp)?;
    socket.send(&text(len))?;
    let mut heard = vec![0; 65_536];
    let len = socket.recv(&mut heard)?;
    Ok(described(&heard[..len]))
}

fn udp(target: &Target) -> io::Result<String> {
    ask(target, 500)
}

fn udp_large(target: &Target) -> io::Result<String> {
    ask(target, 8000)
}

fn udp_trains(target: &Target) -> io::Result<String> {
    let socket = port(target, 0)?;
    let all = text(peers::TRAIN);
    train::send(&socket, target.udp, &all, peers::CARRIAGE)?;
    let hear = || -> io::Result<(Vec<usize>, Vec<u8>)> {
        let (mut lengths, mut heard, mut data) = (Vec::new(), Vec::new(), vec![0; 65_536]);
        while heard.len() < all.len() {
            let len = socket.recv(&mut data)?;
            lengths.push(len);
            heard.extend_from_slice(&data[..len]);
        }
        Ok((lengths, heard))
    };
    let (lengths, heard) = hear()?;
    train::take(&socket)?;
    socket.send_to(b"again", target.udp)?;
    // How many come at once is the kernel's business.
    let (_, again) = hear()?;
    Ok(format!("{lengths:?}, {}, and again {}", described(&heard), described(&again)))
}

fn udp_own_port(target: &Target) -> io::Result<String> {
    port(target, 23_456)?.send_to(b"hello", target.udp)?;
    Ok("sent".into())
}

fn udp_one_port(target: &Target) -> io::Result<String> {
    let socket = port(target, 0)?;
    let mut heard = [0; 100];
    let mut said = Vec::new();
    socket.send_to(&text(20), target.udp)?;
    let (len, from) = socket.recv_from(&mut heard)?;
    said.push(format!("{} from the peer: {}", described(&heard[..len]), from == target.udp));
    socket.send_to(&text(30), target.udp)?;
    Ok(said.join(", "))
}

fn ping(target: &Target) -> io::Result<String> {
    let socket = datagram::echo(true)?;
    let request = [8, 0, 0, 0, 0x68, 0x73, 0, 1, 1, 2, 3, 4];
    let sum = headstart_core::wire::ip::checksum::add(0, &request);
    let sum = (!headstart_core::wire::ip::checksum::fold(sum)).to_be_bytes();
    let mut message = request;
    message[2..4].copy_from_slice(&sum);
    datagram::send(&socket, SocketAddr::new(target.tcp.ip(), 0), &message, 0, 64)?;
    let clock = Clock::new();
    while clock.now().as_millis_f64() < LONG.as_secs_f64() * 1e3 {
        let mut heard = Vec::with_capacity(2000);
        match datagram::receive(&socket, &mut heard) {
            Ok(arrived) if arrived.from.ip() == target.tcp.ip() => {
                let same = heard.ends_with(&request[4..]);
                return Ok(format!("an answer, {}", if same { "the same" } else { "another" }));
            }
            _ => wait(Duration::from_millis(5)),
        }
    }
    Ok("no answer".into())
}

fn nothing(_: &[Seen]) -> String {
    String::new()
}

fn of_protocol(seen: &[Seen], protocol: u8) -> impl Iterator<Item = &Seen> {
    seen.iter().filter(move |packet| packet.header.protocol == protocol)
}

fn set_of(values: impl Iterator<Item = u8>) -> String {
    format!("{:x?}", values.collect::<BTreeSet<_>>())
}

/// Traffic classes of segments with data: what others there are the kernel may send as it likes.
fn classes_tcp(seen: &[Seen]) -> String {
    let data =
        of_protocol(seen, TCP).filter(|packet| tcp::parse(&packet.payload).is_some_and(|(_, data)| !data.is_empty()));
    format!("class {}", set_of(data.map(|packet| packet.header.traffic_class)))
}

fn classes_udp(seen: &[Seen]) -> String {
    format!("class {}", set_of(of_protocol(seen, UDP).map(|packet| packet.header.traffic_class)))
}

fn limits_udp(seen: &[Seen]) -> String {
    format!("TTL {}", set_of(of_protocol(seen, UDP).map(|packet| packet.header.hop_limit)))
}

/// Whether writes of 50 bytes went by themselves or together: half of them is far from both.
fn small_segments(seen: &[Seen]) -> String {
    let data = of_protocol(seen, TCP).filter_map(|packet| tcp::parse(&packet.payload).map(|(_, data)| data.len()));
    let count = data.filter(|len| *len > 0).count();
    if count > 10 { "each write by itself" } else { "several writes together" }.into()
}

/// Whether there was a segment without data, before what was sent last.
fn keep_alives(seen: &[Seen]) -> String {
    let mut end = None;
    let mut asked = false;
    for (segment, data) in of_protocol(seen, TCP).filter_map(|packet| tcp::parse(&packet.payload)) {
        let plain = data.is_empty() && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN);
        asked |= plain && end == Some(segment.sequence.wrapping_add(1));
        if !data.is_empty() {
            end = Some(segment.sequence.wrapping_add(data.len() as u32));
        }
    }
    if asked { "asked" } else { "not asked" }.into()
}
