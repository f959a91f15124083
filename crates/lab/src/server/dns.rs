//! The lab's DNS server: UDP and TCP on port 53, one thread, with the delays that the world asks for.
//!
//! What it says is decided in `zone`; this file moves bytes and keeps the log. A slow or silent answer never holds up
//! another.

use super::zone::{self, Answer, Over, Zone};
use headstart_core::time::Instant;
use headstart_io::clock::Clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::lock;
use crate::world::Site;

const PORT: u16 = 53;
/// Largest DNS message.
const MESSAGE: usize = 65535;

/// One question that reached the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// When it was read, by the clock given to [`DnsServer::start`].
    pub at: Instant,
    /// Name asked for: lower case, without the trailing dot.
    pub name: String,
    /// Type asked for: "A", "AAAA", "HTTPS", ...
    pub rtype: String,
    /// Whether it came over TCP.
    pub over_tcp: bool,
}

/// How a server goes about questions, whatever it says in the end. Virtual time knows of no such thing: its messages have no bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// As servers do.
    #[default]
    Plain,
    /// Bytes that do not parse arrive at once, under the question's own identifier, and the answer after them.
    GarbageFirst,
    /// The first question for a name and a type is answered by RCODE 2, each later one as it is due.
    ServFailFirst,
    /// Questions with an OPT record are answered by RCODE 1, without one (RFC 6891, section 7).
    WithoutEdns,
}

/// Is told of questions.
type Follower = Box<dyn Fn(&Query) + Send>;

struct Shared {
    zone: Mutex<Zone>,
    manner: Mutex<Manner>,
    log: Mutex<Vec<Query>>,
    followers: Mutex<Vec<Follower>>,
    stop: AtomicBool,
    wake: OwnedFd,
}

/// A running server; stops when dropped.
pub struct DnsServer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl DnsServer {
    /// Listens on port 53 of `addresses`, in the network namespace of the calling thread.
    pub fn start(addresses: &[IpAddr], sites: &[Site], clock: Clock) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            zone: Mutex::new(Zone::new(sites)),
            manner: Mutex::default(),
            log: Mutex::default(),
            followers: Mutex::default(),
            stop: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        });
        let mut sockets = Sockets::default();
        for ip in addresses {
            let udp = UdpSocket::bind((*ip, PORT))?;
            udp.set_nonblocking(true)?;
            sockets.udp.push(udp);
            let tcp = TcpListener::bind((*ip, PORT))?;
            tcp.set_nonblocking(true)?;
            sockets.tcp.push(tcp);
        }
        let worker = Worker {
            sockets,
            clock,
            shared: shared.clone(),
            pending: BinaryHeap::new(),
            order: 0,
            failed: BTreeSet::new(),
        };
        let thread = std::thread::Builder::new().name("dns".into()).spawn(|| worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Replaces all names; answers that are on their way stay as they are.
    pub fn set_sites(&self, sites: &[Site]) {
        *lock(&self.shared.zone) = Zone::new(sites);
    }

    /// How it goes about questions from now on.
    pub fn set_manner(&self, manner: Manner) {
        *lock(&self.shared.manner) = manner;
    }

    /// Tells `follower` of every question from now on, as soon as it has been read. It must not take long.
    pub fn follow(&self, follower: impl Fn(&Query) + Send + 'static) {
        lock(&self.shared.followers).push(Box::new(follower));
    }

    /// Every question so far, oldest first.
    pub fn log(&self) -> Vec<Query> {
        lock(&self.shared.log).clone()
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let woken = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct Sockets {
    udp: Vec<UdpSocket>,
    tcp: Vec<TcpListener>,
    streams: BTreeMap<u64, Stream>,
    accepted: u64,
}

/// A TCP connection: messages behind their length (RFC 1035, 4.2.2).
struct Stream {
    socket: TcpStream,
    read: Vec<u8>,
    unsent: Vec<u8>,
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asker {
    Udp(usize, SocketAddr),
    Tcp(u64),
}

/// When an answer is due, its number, where it goes, and its bytes.
type Planned = (Instant, u64, Asker, Vec<u8>);

struct Worker {
    sockets: Sockets,
    clock: Clock,
    shared: Arc<Shared>,
    /// Answers by the moment at which they are due, then by order of arrival.
    pending: BinaryHeap<Reverse<Planned>>,
    order: u64,
    /// Names and types that [`Manner::ServFailFirst`] has refused once.
    failed: BTreeSet<(String, String)>,
}

impl Worker {
    fn run(mut self) -> io::Result<()> {
        while !self.shared.stop.load(Ordering::Acquire) {
            self.read_udp();
            self.accept();
            self.read_tcp();
            let now = self.clock.now();
            while self.pending.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
                if let Some(Reverse((_, _, asker, bytes))) = self.pending.pop() {
                    self.send(asker, &bytes);
                }
            }
            self.flush_tcp();
            self.wait()?;
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let next = self.pending.peek().map(|Reverse((due, ..))| due.since(self.clock.now()));
        let timeout = next.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: i64::from(d.subsec_nanos()) });
        let mut fds = vec![PollFd::new(&self.shared.wake, PollFlags::IN)];
        fds.extend(self.sockets.udp.iter().map(|udp| PollFd::new(udp, PollFlags::IN)));
        fds.extend(self.sockets.tcp.iter().map(|tcp| PollFd::new(tcp, PollFlags::IN)));
        fds.extend(self.sockets.streams.values().map(|stream| {
            let out = if stream.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            PollFd::new(&stream.socket, PollFlags::IN | out)
        }));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Logs the question and plans the answer.
    fn take(&mut self, message: &[u8], asker: Asker) {
        let over = if matches!(asker, Asker::Udp(..)) { Over::Udp } else { Over::Tcp };
        let answer = lock(&self.shared.zone).answer(message, over);
        let Some(Answer { name, rtype, delay, bytes }) = answer else { return };
        let at = self.clock.now();
        let (first, bytes) = match *lock(&self.shared.manner) {
            Manner::GarbageFirst if over == Over::Udp => (zone::garbage(message), bytes),
            Manner::ServFailFirst if self.failed.insert((name.clone(), rtype.clone())) => {
                (None, zone::refusal(message, zone::SERVFAIL))
            }
            Manner::WithoutEdns if zone::has_edns(message) => (None, zone::refusal(message, zone::FORMERR)),
            _ => (None, bytes),
        };
        let query = Query { at, name, rtype, over_tcp: over == Over::Tcp };
        lock(&self.shared.followers).iter().for_each(|follower| follower(&query));
        lock(&self.shared.log).push(query);
        let planned = first.map(|bytes| (at, bytes)).into_iter().chain(bytes.map(|bytes| (at + delay, bytes)));
        for (due, bytes) in planned {
            self.order += 1;
            self.pending.push(Reverse((due, self.order, asker, bytes)));
        }
    }

    fn read_udp(&mut self) {
        let mut buffer = [0; MESSAGE];
        for n in 0..self.sockets.udp.len() {
            // Errors are those of earlier answers (ICMP), and of no socket of ours.
            while let Ok((len, from)) = self.sockets.udp[n].recv_from(&mut buffer) {
                self.take(&buffer[..len], Asker::Udp(n, from));
            }
        }
    }

    fn accept(&mut self) {
        let Sockets { tcp, streams, accepted, .. } = &mut self.sockets;
        for listener in tcp {
            while let Ok((socket, _)) = listener.accept() {
                if socket.set_nonblocking(true).is_ok() {
                    *accepted += 1;
                    streams.insert(*accepted, Stream { socket, read: Vec::new(), unsent: Vec::new() });
                }
            }
        }
    }

    fn read_tcp(&mut self) {
        let mut asked = Vec::new();
        self.sockets.streams.retain(|id, stream| {
            let mut buffer = [0; 4096];
            let open = loop {
                match stream.socket.read(&mut buffer) {
                    Ok(0) => break false,
                    Ok(len) => stream.read.extend(&buffer[..len]),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => break e.kind() == io::ErrorKind::WouldBlock,
                }
            };
            while let Some((message, rest)) = message(&stream.read) {
                asked.push((*id, message.to_vec()));
                stream.read = rest.to_vec();
            }
            open
        });
        for (id, message) in asked {
            self.take(&message, Asker::Tcp(id));
        }
    }

    fn send(&mut self, asker: Asker, bytes: &[u8]) {
        match asker {
            // Lost like any datagram if there is no room for it.
            Asker::Udp(n, to) => drop(self.sockets.udp[n].send_to(bytes, to)),
            Asker::Tcp(id) => {
                if let (Some(stream), Ok(len)) = (self.sockets.streams.get_mut(&id), u16::try_from(bytes.len())) {
                    stream.unsent.extend(len.to_be_bytes());
                    stream.unsent.extend(bytes);
                }
            }
        }
    }

    fn flush_tcp(&mut self) {
        self.sockets.streams.retain(|_, stream| {
            while !stream.unsent.is_empty() {
                match stream.socket.write(&stream.unsent) {
                    Ok(len) => drop(stream.unsent.drain(..len)),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
                }
            }
            true
        });
    }
}

/// The first whole message of a stream, and what follows it.
fn message(stream: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = stream.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}
