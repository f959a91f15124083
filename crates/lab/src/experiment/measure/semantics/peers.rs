//! The far ends of the checks: what they do, and what they saw, in words.

use anyhow::Context as _;
use headstart_core::wire::ip::{self, Header};
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::Netlink;
use headstart_io::sys::packet::PacketSocket;
use headstart_io::sys::{stream, train};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// What has not come by then does not come: long for any machine, and no check waits for it where all is well.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes before an Ethernet frame's packet.
const ETHERNET: usize = 14;
/// How much is said in bulk.
pub const BULK: usize = 1_000_000;
/// Connections at a time.
pub const MANY: usize = 200;

/// A packet of the program, as it came out of the link.
pub struct Seen {
    /// Its IP header.
    pub header: Header,
    /// What is behind it.
    pub payload: Vec<u8>,
}

/// A far end: a listener, a port for datagrams, and a capture of what comes in.
pub struct Peer {
    tcp: TcpListener,
    /// The port for datagrams.
    pub udp: UdpSocket,
    wire: PacketSocket,
}

/// Bytes that are different from place to place.
pub fn text(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// What came, in words: how much, and whether it is the beginning of [`text`].
pub fn described(data: &[u8]) -> String {
    format!("{} bytes{}", data.len(), if data == text(data.len()) { "" } else { ", not those that were sent" })
}

/// Waits; for what is to be late.
pub fn wait(time: Duration) {
    Clock::new().sleep(time);
}

/// Reads to the end, or to what ends it otherwise, in words.
pub fn read_all(stream: &mut TcpStream) -> String {
    let mut data = Vec::new();
    match stream.read_to_end(&mut data) {
        Ok(_) => described(&data),
        Err(e) => format!("{}, then {:?}", described(&data), e.kind()),
    }
}

impl Peer {
    /// Opens what it needs, in the namespace of the calling thread.
    pub fn open(ip: IpAddr) -> anyhow::Result<Self> {
        let any = SocketAddr::new(ip, 0);
        let tcp = TcpListener::bind(any).context("listening")?;
        let udp = UdpSocket::bind(any).context("opening a port for datagrams")?;
        let wire = PacketSocket::bind(Netlink::open()?.index("eth0")?, false).context("opening a capture")?;
        Ok(Self { tcp, udp, wire })
    }

    /// Where it listens.
    pub fn tcp_address(&self) -> SocketAddr {
        self.tcp.local_addr().expect("it is bound")
    }

    /// Where datagrams come to.
    pub fn udp_address(&self) -> SocketAddr {
        self.udp.local_addr().expect("it is bound")
    }

    /// The next connection.
    pub fn accept(&self) -> io::Result<TcpStream> {
        ready(&self.tcp)?;
        let (stream, _) = self.tcp.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// The next datagram, and its sender.
    pub fn datagram(&self) -> io::Result<(Vec<u8>, SocketAddr)> {
        ready(&self.udp)?;
        let mut data = vec![0; 65_536];
        let (len, from) = self.udp.recv_from(&mut data)?;
        data.truncate(len);
        Ok((data, from))
    }

    /// What was captured, from the first packet on.
    pub fn captured(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        loop {
            let took = self.wire.receive(|arrived| {
                let packet = arrived.room.get(ETHERNET..arrived.len).and_then(ip::parse);
                seen.extend(packet.map(|(header, payload)| Seen { header, payload: payload.to_vec() }));
            });
            if took.map_or(0, |received| received.frames) == 0 {
                return seen;
            }
        }
    }
}

fn ready(socket: impl AsFd) -> io::Result<()> {
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut fds, Some(&patience))? {
        0 => Err(ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// No peer needs to come.
pub fn nobody(_: &mut Peer, _: bool) -> io::Result<String> {
    Ok(String::new())
}

/// Accepts, and waits for the end.
pub fn listens(peer: &mut Peer, _: bool) -> io::Result<String> {
    Ok(read_all(&mut peer.accept()?))
}

/// Sends back what it gets, for as many connections as say so in their first byte; then reports.
pub fn echoes(peer: &mut Peer, _: bool) -> io::Result<String> {
    let mut stream = peer.accept()?;
    let mut buffer = vec![0; 65_536];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(format!("{total} bytes came")),
            Ok(len) => {
                total += len;
                stream.write_all(&buffer[..len])?;
            }
            Err(e) => return Ok(format!("{total} bytes came, then {:?}", e.kind())),
        }
    }
}

/// Reads all, waits, and answers: the program's half is closed meanwhile.
pub fn answers_later(peer: &mut Peer, quick: bool) -> io::Result<String> {
    answers_after(peer, Duration::from_millis(if quick { 1500 } else { 7000 }))
}

/// Reads all, waits a little, and answers.
pub fn answers(peer: &mut Peer, _: bool) -> io::Result<String> {
    answers_after(peer, Duration::from_millis(300))
}

fn answers_after(peer: &mut Peer, time: Duration) -> io::Result<String> {
    let mut stream = peer.accept()?;
    let heard = read_all(&mut stream);
    wait(time);
    let said = stream.write_all(&text(BULK)).map_or_else(|e| format!("{:?}", e.kind()), |()| "answered".into());
    Ok(format!("{heard}, {said}"))
}

/// Says at once that it says nothing, and listens.
pub fn closes_first(peer: &mut Peer, _: bool) -> io::Result<String> {
    let mut stream = peer.accept()?;
    stream.shutdown(Shutdown::Write)?;
    Ok(read_all(&mut stream))
}

/// Resets the connection after a byte.
pub fn resets(peer: &mut Peer, _: bool) -> io::Result<String> {
    let mut stream = peer.accept()?;
    stream.read_exact(&mut [0])?;
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok("reset it".into())
}

/// Sends a byte and hears what becomes of the connection.
pub fn is_reset(peer: &mut Peer, _: bool) -> io::Result<String> {
    let mut stream = peer.accept()?;
    stream.write_all(b"x")?;
    Ok(read_all(&mut stream))
}

/// Does not read for a while; then everything.
pub fn dawdles(peer: &mut Peer, _: bool) -> io::Result<String> {
    let mut stream = peer.accept()?;
    wait(Duration::from_millis(2500));
    let mut data = Vec::new();
    stream.read_to_end(&mut data)?;
    // The last eight bytes say how many there are before them.
    let (data, count) = data.split_last_chunk::<8>().ok_or(ErrorKind::UnexpectedEof)?;
    let all = u64::from_be_bytes(*count) == data.len() as u64 && data == text(data.len());
    Ok(if all { "everything came" } else { "some data is missing" }.into())
}

/// Looks for the urgent byte.
pub fn hears_urgent(peer: &mut Peer, _: bool) -> io::Result<String> {
    let mut stream = peer.accept()?;
    Ok(urgent(&mut stream))
}

/// Where the urgent byte of a stream is, in words.
pub fn urgent(stream: &mut TcpStream) -> String {
    let inline = sockopt::set_socket_oobinline(&*stream, true);
    let mut data = Vec::new();
    let mut urgent = Vec::new();
    // So that the urgent byte is there before the first read stops at it, or not.
    wait(Duration::from_millis(200));
    loop {
        let at_mark = stream::is_next(&*stream);
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => {
                if at_mark {
                    urgent.push(data.len());
                }
                data.push(byte[0]);
            }
            _ => {
                return format!(
                    "{:?}, urgent at {urgent:?}{}",
                    data.escape_ascii().to_string(),
                    if inline.is_ok() { "" } else { "?" }
                );
            }
        }
    }
}

/// Sends an urgent byte.
pub fn says_urgent(peer: &mut Peer, _: bool) -> io::Result<String> {
    let mut stream = peer.accept()?;
    send_urgent(&mut stream)?;
    Ok("said it".into())
}

/// Two bytes, an urgent one, and two more.
pub fn send_urgent(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"ab")?;
    rustix::net::send(&*stream, b"!", rustix::net::SendFlags::OOB)?;
    stream.write_all(b"cd")?;
    stream.shutdown(Shutdown::Write)
}

/// Sends back a datagram.
pub fn echoes_datagram(peer: &mut Peer, _: bool) -> io::Result<String> {
    let (data, from) = peer.datagram()?;
    peer.udp.send_to(&data, from)?;
    Ok(described(&data))
}

/// Bytes that go in datagrams of [`CARRIAGE`] bytes at once.
pub const TRAIN: usize = 10 * CARRIAGE as usize + 100;
/// See [`TRAIN`].
pub const CARRIAGE: u16 = 700;

/// Takes datagrams that were sent at once, and sends back as many, now and when it is asked again.
pub fn echoes_trains(peer: &mut Peer, _: bool) -> io::Result<String> {
    let (mut lengths, mut heard, mut asker) = (Vec::new(), Vec::new(), None);
    while heard.len() < TRAIN {
        let (data, from) = peer.datagram()?;
        lengths.push(data.len());
        heard.extend(data);
        asker = Some(from);
    }
    let Some(asker) = asker else { return Ok(String::new()) };
    train::send(&peer.udp, asker, &heard, CARRIAGE)?;
    let (_, again) = peer.datagram()?;
    train::send(&peer.udp, asker, &heard, CARRIAGE)?;
    Ok(format!("{lengths:?}, {}, from one port: {}", described(&heard), again == asker))
}

/// Takes a datagram.
pub fn takes_datagram(peer: &mut Peer, _: bool) -> io::Result<String> {
    Ok(described(&peer.datagram()?.0))
}

/// Sends back a datagram from its own port and from another one: both see the sender under one port.
pub fn answers_from_two_ports(peer: &mut Peer, _: bool) -> io::Result<String> {
    let (data, from) = peer.datagram()?;
    let other = peer.udp.try_clone()?;
    other.send_to(&data, from)?;
    let (again, from_again) = peer.datagram()?;
    Ok(format!("{}, {}, from one port: {}", described(&data), described(&again), from == from_again))
}

/// From which port a datagram came.
pub fn names_port(peer: &mut Peer, _: bool) -> io::Result<String> {
    let (_, from) = peer.datagram()?;
    Ok(format!("from port {}", from.port()))
}

/// Takes many connections at once, and sends back what each says.
pub fn takes_many(peer: &mut Peer, _: bool) -> io::Result<String> {
    let mut streams = Vec::new();
    for _ in 0..MANY {
        streams.push(peer.accept()?);
    }
    let mut right = 0;
    for stream in &mut streams {
        let mut data = vec![0; 100];
        stream.read_exact(&mut data)?;
        stream.write_all(&data)?;
        right += usize::from(data == text(100));
    }
    Ok(format!("{right} sent the right bytes"))
}
