//! A scenario in namespaces: its links under the emulator, its hosts the kernel, its flows real sockets.
//!
//! Delays of datagrams are taken by the receiving program when it has them, so they hold what the machine adds: the
//! certificate of the emulator says whether its part of that may be believed.

use super::flow::{Flow, LEAST_BYTES, Measured, PATIENCE, Traffic, due};
use super::routes::{End, Routes};
use super::{Scenario, flow};
use crate::netns::{Certificate, Error, Nodes, Settings};
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Port of the first flow; each has its own.
const PORT: u16 = 5001;
/// How long a waiting thread takes to see that it is no longer needed.
const GLANCE: Duration = Duration::from_millis(50);
/// The flows begin this long after the network is built: every thread is waiting by then.
const LEAD: Duration = Duration::from_millis(200);

/// What a scenario came to.
#[derive(Clone, Debug)]
pub struct Played {
    /// By flow, in the order of the file.
    pub flows: Vec<Measured>,
    /// The emulator's account of itself.
    pub certificate: Certificate,
}

/// Plays it to the end of its last flow, or to its limit. Call it inside (see `netns::InnerCommand::enter`).
pub fn play(scenario: &Scenario) -> Result<Played, Error> {
    play_with(scenario, &Settings::default())
}

/// As [`play`], with the emulator set up by `settings`.
pub fn play_with(scenario: &Scenario, settings: &Settings) -> Result<Played, Error> {
    let nodes = Nodes::build_with(scenario, settings)?;
    let routes = Routes::of(scenario).map_err(|(_, reason)| Error::World(reason))?;
    let clock = nodes.clock();
    let begin = clock.now() + LEAD;
    let limit = begin + scenario.limit;
    let flows = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (n, flow) in scenario.flows.iter().enumerate() {
            let ends = routes.ends(scenario, flow).map_err(Error::World)?;
            let timing = Timing { clock, start: begin + flow.start, limit };
            let run = Run { flow, nodes: &nodes, addresses: ends.map(|end| address(end, flow.family, n)), timing };
            threads.push(scope.spawn(move || run.play()));
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Error::World("a flow's thread died".into()))))
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(Played { flows, certificate: nodes.certificate() })
}

fn address(end: End, family: Family, n: usize) -> SocketAddr {
    SocketAddr::new(end.address(family), PORT + n as u16)
}

#[derive(Clone, Copy)]
struct Timing {
    clock: Clock,
    start: Instant,
    limit: Instant,
}

struct Run<'a> {
    flow: &'a Flow,
    nodes: &'a Nodes,
    /// Of `from`, of `to`.
    addresses: [SocketAddr; 2],
    timing: Timing,
}

impl Run<'_> {
    fn play(&self) -> Result<Measured, Error> {
        let what = |source| Error::Io { what: format!("flow {:?}", self.flow.name), source };
        match &self.flow.traffic {
            Traffic::Tcp { bytes, congestion } => self.transfer(*bytes, congestion.as_deref()).map_err(what),
            _ => self.datagrams().map_err(what),
        }
    }

    fn on<T: Send>(&self, node: usize, f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.nodes.on(node, f).map_err(io::Error::other)?
    }

    fn transfer(&self, bytes: u64, congestion: Option<&str>) -> io::Result<Measured> {
        let [from, to] = self.addresses;
        let timing = self.timing;
        let listener = self.on(self.flow.to, || listening(to))?;
        let socket = self.on(self.flow.from, || bound(from, SocketType::STREAM))?;
        controlled_by(&socket, congestion)?;
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || receive(&listener, bytes, timing));
            // Whatever happens to the sender shows at the receiver.
            let _ = send(socket, to, bytes, timing);
            reader.join().unwrap_or_else(|_| Err(io::Error::other("the receiver died")))
        })
    }

    fn datagrams(&self) -> io::Result<Measured> {
        let [from, to] = self.addresses;
        let near = UdpSocket::from(self.on(self.flow.from, || bound(from, SocketType::DGRAM))?);
        let far = UdpSocket::from(self.on(self.flow.to, || bound(to, SocketType::DGRAM))?);
        for (socket, peer) in [(&near, to), (&far, from)] {
            socket.set_read_timeout(Some(GLANCE))?;
            socket.connect(peer)?;
        }
        let echo = matches!(self.flow.traffic, Traffic::Ping { .. });
        let (sent, over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let counting = if echo {
                scope.spawn(|| send_back(&far, &over));
                scope.spawn(|| self.count(&near, &sent))
            } else {
                scope.spawn(|| self.count(&far, &sent))
            };
            self.pace(&near, &sent);
            let measured = counting.join().unwrap_or_else(|_| Err(io::Error::other("the receiver died")));
            over.store(true, Ordering::Release);
            measured
        })
    }

    /// Sends each datagram when it is due.
    fn pace(&self, socket: &UdpSocket, sent: &AtomicU64) {
        let Some((size, gap, count)) = self.flow.traffic.datagrams() else { return };
        let Timing { clock, start, limit } = self.timing;
        let mut bytes = vec![0; size.max(LEAST_BYTES)];
        for n in 0..count {
            let at = due(start, gap, n);
            if at > limit {
                return;
            }
            clock.sleep_until(at);
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            bytes[8..16].copy_from_slice(&clock.now().as_nanos().to_be_bytes());
            // A full socket is a loss like any other.
            let _ = socket.send(&bytes);
            sent.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Receives until all have come, or nothing comes any more.
    fn count(&self, socket: &UdpSocket, sent: &AtomicU64) -> io::Result<Measured> {
        let (_, gap, count) = self.flow.traffic.datagrams().unwrap_or((0, Duration::ZERO, 0));
        let Timing { clock, start, limit } = self.timing;
        let end = limit.min(due(start, gap, count.saturating_sub(1)) + PATIENCE);
        let mut measured = Measured::nothing();
        let mut bytes = [0; flow::MOST_BYTES];
        while measured.datagrams.1 < count && clock.now() < end {
            match socket.recv(&mut bytes) {
                Ok(size) if size >= LEAST_BYTES => {
                    let stamp = bytes[8..16].try_into().map_or(0, u64::from_be_bytes);
                    measured.delays.push(clock.now() - Instant::from_nanos(stamp));
                    measured.bytes += size as u64;
                    measured.datagrams.1 += 1;
                }
                Ok(_) => {}
                Err(e) if is_patience(&e) || e.kind() == ErrorKind::ConnectionRefused => {}
                Err(e) => return Err(e),
            }
        }
        measured.datagrams.0 = sent.load(Ordering::Acquire);
        Ok(measured)
    }
}

/// The far end of pings.
fn send_back(socket: &UdpSocket, over: &AtomicBool) {
    let mut bytes = [0; flow::MOST_BYTES];
    while !over.load(Ordering::Acquire) {
        if let Ok(size) = socket.recv(&mut bytes) {
            let _ = socket.send(&bytes[..size]);
        }
    }
}

fn is_patience(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn bound(at: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &at)?;
    Ok(socket)
}

fn listening(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(at, SocketType::STREAM)?;
    listen(&socket, 1)?;
    Ok(socket.into())
}

/// Waits until the socket is ready or the limit is reached, which is an error.
fn wait(socket: impl AsFd, flags: PollFlags, timing: Timing) -> io::Result<()> {
    loop {
        let left = timing.limit.since(timing.clock.now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&socket, flags)], Some(&timeout)) {
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Sets the congestion control. The default, CUBIC, is not available everywhere: without it the host's own stays.
fn controlled_by(socket: &OwnedFd, congestion: Option<&str>) -> io::Result<()> {
    match (congestion, sockopt::set_tcp_congestion(socket, congestion.unwrap_or("cubic"))) {
        (Some(name), Err(why)) => Err(io::Error::other(format!("congestion control `{name}`: {why}"))),
        _ => Ok(()),
    }
}

/// The sender: connects at the start, writes everything and closes.
fn send(socket: OwnedFd, to: SocketAddr, bytes: u64, timing: Timing) -> io::Result<()> {
    static ZEROS: [u8; 65_536] = [0; 65_536];
    timing.clock.wait_until(timing.start);
    rustix::io::ioctl_fionbio(&socket, true)?;
    match connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(e) => return Err(e.into()),
    }
    let mut stream = TcpStream::from(socket);
    let mut left = bytes;
    while left > 0 {
        wait(&stream, PollFlags::OUT, timing)?;
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
        match stream.write(&ZEROS[..size]) {
            Ok(wrote) => left -= wrote as u64,
            Err(e) if is_patience(&e) => {}
            Err(e) => return Err(e),
        }
    }
    stream.shutdown(std::net::Shutdown::Write)
}

/// The receiver: reads until it has everything. What is missing at the limit stays missing.
fn receive(listener: &TcpListener, bytes: u64, timing: Timing) -> io::Result<Measured> {
    let mut measured = Measured::nothing();
    let mut buffer = vec![0; 1 << 20];
    if wait(listener, PollFlags::IN, timing).is_err() {
        return Ok(measured);
    }
    let (mut stream, _) = listener.accept()?;
    while measured.bytes < bytes && wait(&stream, PollFlags::IN, timing).is_ok() {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(size) => measured.bytes += size as u64,
            Err(e) if is_patience(&e) => {}
            Err(e) => return Err(e),
        }
    }
    if measured.bytes == bytes {
        measured.completion = Some(timing.clock.now() - timing.start);
    }
    Ok(measured)
}
