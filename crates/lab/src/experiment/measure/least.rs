//! The least that any forwarder in user space does, as an arm: it reads a SYN, opens a connection, answers; reads data, sends it on, and
//! back. It keeps no windows, sends nothing again, measures nothing and knows no owner, so it is no forwarder; but it waits as ours
//! does, and adds what no forwarder behind a TUN interface can avoid: being woken, the interface and a second connection.
//! Of a stream to the peer it acknowledges at once what a row of packets has brought.

use headstart_core::lookout::Lookout;
use headstart_core::wire::ip::tcp::{self, Flags, Segment};
use headstart_core::wire::ip::{self, Header, TCP};
use headstart_io::clock::Clock;
use headstart_io::forward::Enclosure;
use headstart_io::poll::{Interest, Poll};
use headstart_io::sys::offload::Offload;
use headstart_io::sys::tun::ROOM;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::net::{connect, ipproto, send, shutdown, socket_with};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// The arm, and what a probe is asked for under it.
pub const LEAST: &str = "least";
/// Tokens of what is no connection.
const TUN: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;
/// The first number of each connection of ours.
const FIRST: u32 = 1000;
/// Packets that are read before what they brought is acknowledged.
const ROW: usize = 16;
/// Data of this length is a stream's; the answer acknowledges what is shorter.
const STREAM: usize = 1400;
/// The window that is told is so many times doubled: 8 MiB.
const SCALE: u8 = 7;

/// A connection of the program.
struct Flow {
    stream: TcpStream,
    app: SocketAddr,
    peer: SocketAddr,
    /// The next number of ours, and of the program's.
    next: u32,
    expected: u32,
    /// It has sent what is to be acknowledged.
    owed: bool,
}

/// See the module.
struct Least {
    enclosure: Enclosure,
    poll: Poll,
    flows: HashMap<u16, Flow>,
    /// A socket that waits for the next SYN, as ours has one.
    ready: OwnedFd,
    bytes: Vec<u8>,
    passed: usize,
}

/// Runs another workload behind it; what that one has said. To be called where sockets are to be.
pub fn probe(words: &[String]) -> io::Result<Value> {
    let enclosure = Enclosure::create(None).map_err(io::Error::other)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("probe").args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    enclosure.namespace.adopt(&mut command)?;
    let mut child = command.spawn()?;
    let ended = headstart_io::process_end(i32::try_from(child.id()).map_err(io::Error::other)?)?;
    let poll = Poll::new()?;
    poll.add(&enclosure.tun, TUN, Interest::Read)?;
    poll.add(&ended, END, Interest::Read)?;
    let ready = socket()?;
    let mut least = Least { enclosure, poll, flows: HashMap::new(), ready, bytes: Vec::new(), passed: 0 };
    let run = least.run();
    let mut said = String::new();
    if let (Ok(()), Some(mut output)) = (&run, child.stdout.take()) {
        output.read_to_string(&mut said)?;
    } else {
        child.kill()?;
    }
    child.wait()?;
    run.and_then(|()| serde_json::from_str(said.trim()).map_err(io::Error::other))
}

fn socket() -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

impl Least {
    /// Until the program ends.
    fn run(&mut self) -> io::Result<()> {
        let (clock, mut lookout, mut tokens) = (Clock::new(), Lookout::default(), Vec::new());
        loop {
            let passed = Some(std::mem::take(&mut self.passed));
            self.poll.look_out(&clock, &mut lookout, passed, None, &mut tokens)?;
            for token in &tokens {
                match *token {
                    TUN => while self.row()? {},
                    END => return Ok(()),
                    port => self.answer(port as u16)?,
                }
            }
        }
    }

    /// Packets of the program, if there are any, and their acknowledgements; whether there may be more.
    fn row(&mut self) -> io::Result<bool> {
        let mut read = 0;
        while read < ROW && self.packet()? {
            read += 1;
        }
        for flow in self.flows.values_mut().filter(|flow| flow.owed) {
            flow.owed = false;
            self.enclosure.tun.write(&Offload::default(), &flow.packet(&flow.segment(Flags::ACK), b""));
        }
        Ok(read == ROW)
    }

    /// A packet of the program, if there is one.
    fn packet(&mut self) -> io::Result<bool> {
        self.bytes.clear();
        self.bytes.reserve(ROOM);
        if self.enclosure.tun.read(&mut self.bytes)?.is_none() {
            return Ok(false);
        }
        self.passed += self.bytes.len();
        let Some((header, payload)) = ip::parse(&self.bytes).filter(|(header, _)| header.protocol == TCP) else {
            return Ok(true);
        };
        let Some((segment, data)) = tcp::parse(payload) else { return Ok(true) };
        let port = segment.source;
        if segment.flags.has(Flags::SYN) {
            let app = SocketAddr::new(header.source, segment.source);
            let peer = SocketAddr::new(header.destination, segment.destination);
            let socket = std::mem::replace(&mut self.ready, socket()?);
            connect(&socket, &peer)?;
            let expected = segment.sequence.wrapping_add(1);
            let flow = Flow { stream: socket.into(), app, peer, next: FIRST + 1, expected, owed: false };
            let scale = segment.scale.map(|_| SCALE);
            let answer = Segment { sequence: FIRST, mss: segment.mss, scale, ..flow.segment(Flags::SYN | Flags::ACK) };
            self.enclosure.tun.write(&Offload::default(), &flow.packet(&answer, b""));
            self.poll.add(&flow.stream, port.into(), Interest::Read)?;
            self.flows.insert(port, flow);
            return Ok(true);
        }
        let Some(flow) = self.flows.get_mut(&port) else { return Ok(true) };
        if segment.sequence == flow.expected && !data.is_empty() {
            flow.expected = flow.expected.wrapping_add(data.len() as u32);
            flow.owed |= data.len() >= STREAM;
            send(&flow.stream, data, SendFlags::NOSIGNAL)?;
        }
        if segment.flags.has(Flags::RST) {
            self.poll.remove(&flow.stream);
            self.flows.remove(&port);
        } else if segment.flags.has(Flags::FIN) {
            // The peer's end, which answers it, acknowledges it.
            flow.expected = flow.expected.wrapping_add(1);
            shutdown(&flow.stream, Shutdown::Write)?;
        }
        Ok(true)
    }

    /// A peer's data.
    fn answer(&mut self, port: u16) -> io::Result<()> {
        let Some(flow) = self.flows.get_mut(&port) else { return Ok(()) };
        let mut data = [0; 1400];
        let len = flow.stream.read(&mut data)?;
        if len == 0 {
            let end = flow.segment(Flags::FIN | Flags::ACK);
            self.enclosure.tun.write(&Offload::default(), &flow.packet(&end, b""));
            self.poll.remove(&flow.stream);
            self.flows.remove(&port);
            return Ok(());
        }
        self.passed += len;
        let packet = flow.packet(&flow.segment(Flags::ACK | Flags::PSH), &data[..len]);
        flow.next = flow.next.wrapping_add(len as u32);
        self.enclosure.tun.write(&Offload::default(), &packet);
        Ok(())
    }
}

impl Flow {
    fn segment(&self, flags: Flags) -> Segment {
        Segment {
            source: self.peer.port(),
            destination: self.app.port(),
            sequence: self.next,
            acknowledged: self.expected,
            flags,
            window: u16::MAX,
            ..Segment::default()
        }
    }

    fn packet(&self, segment: &Segment, data: &[u8]) -> Vec<u8> {
        let header = Header {
            source: self.peer.ip(),
            destination: self.app.ip(),
            protocol: TCP,
            traffic_class: 0,
            hop_limit: 64,
            whole: true,
            fragment: None,
        };
        tcp::packet(&header, segment, data)
    }
}
