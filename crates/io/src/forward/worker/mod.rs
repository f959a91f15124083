//! One thread, one event loop, one forwarder: sleeps until a packet, a socket or a timer wants something.

mod accelerator;
mod ahead;
mod asked;
mod attribution;
mod calls;
mod delivery;
mod echoes;
mod ends;
mod neighbours;
mod opening;
mod origin;
mod peers;
mod ports;
mod programs;
mod records;
mod requests;
mod silence;
mod tapping;
mod waiting;
mod window;

use super::exit::{Exit, Protect};
use super::finder::Finder;
use super::inbound::Inbound;
use super::owner::{Owner, Owners, Process};
use super::seen::{Attributed, Sink};
use super::window::Window;
use super::{Enclosure, Routes, sockets};
use crate::clock::Clock;
use crate::driver::{self, Hands};
use crate::forward::sockets::Stock;
use crate::host::change::capture::OWN_MARK;
use crate::poll::{Interest, Poll};
use crate::sys::datagram::Cutting;
use crate::sys::offload::{Checksum, Offload, Segments, Transport};
use crate::sys::tun::{ROOM, Tun};
use accelerator::Accelerator;
pub(crate) use accelerator::Here;
use ahead::Outgoing;
use attribution::Attribution;
use delivery::Delivery;
use echoes::Echoers;
use ends::Ends;
use headstart_core::connect;
use headstart_core::forward::pace::Sleeper;
use headstart_core::forward::{FlowId, Forwarder, HEADROOM, MappingId, Output, Packet, Settings};
use headstart_core::lookout::Lookout;
use headstart_core::machine::Wakeups;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::udp;
use neighbours::Neighbours;
use origin::Addresses;
use programs::Read;
use requests::Request;
use rustix::io::Errno;
use silence::Silence;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use tapping::Shown;
pub(crate) use waiting::Running;

/// Packets, and reads of sockets, between two looks at everything else.
const BATCH: usize = 64;
/// Data up to this length is copied into a buffer of its own size, so that a large one need not be kept for it.
const SMALL: usize = 16 * 1024;
/// How long a peer that got our FIN may take to send its own, when nothing else is waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Large buffers of either kind that are kept: 4 MiB in all.
const MOST_SPARE: usize = 32;
/// Tokens of what is no connection.
const TUN: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
const ECHO_V4: u64 = u64::MAX - 2;
const ECHO_V6: u64 = u64::MAX - 3;
const FOUND: u64 = u64::MAX - 4;
const BOARD: u64 = u64::MAX - 5;
/// What another program says; the session that has it deals with it.
pub(crate) const FRONT: u64 = u64::MAX - 6;
/// Programs that are about to listen.
const LISTENS: u64 = u64::MAX - 7;
/// Routes of the host have changed.
const ROUTES: u64 = u64::MAX - 8;
/// Tokens from here on are ports that send datagrams.
const MAPPINGS: u64 = 1 << 62;
/// Tokens from here on, below those, are attempts of races.
const ATTEMPTS: u64 = 1 << 61;
/// Tokens from here on, below those, are ports on which programs are called.
const CALLED: u64 = 1 << 60;
/// Tokens from here on, below those, are callers on this host.
const NEIGHBOURS: u64 = 1 << 59;
/// Tokens from here on, below those, are lookups that no program waits for.
const QUERIES: u64 = 1 << 58;

/// What has happened when what it sends comes back to it.
const LOOP: &str = "its own connections come back to it";

/// What has happened when there is nothing to forward any more.
const LOST: &str = "the TUN interface was removed";

/// The event loop could not be set up, or is no more.
#[derive(Debug, thiserror::Error)]
#[error("forwarding: {what}: {source}")]
pub struct WorkerError {
    what: &'static str,
    source: io::Error,
}

impl WorkerError {
    /// Whether the interface was taken away, with which all that was to be forwarded is.
    pub fn is_lost(&self) -> bool {
        self.what == LOST
    }
}

impl From<io::Error> for WorkerError {
    fn from(source: io::Error) -> Self {
        Self { what: "waiting for events", source }
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> WorkerError {
    move |source| WorkerError { what, source }
}

/// A packet between programs and the forwarder, as it passes.
#[derive(Clone, Copy, Debug)]
pub struct Tapped<'a> {
    /// When.
    pub at: Instant,
    /// Whether it goes to a program, or comes from one.
    pub to_program: bool,
    /// The packet; its checksum may be left to be filled in, and it may be a super-packet.
    pub bytes: &'a [u8],
    /// Whose it is, if that is known yet.
    pub process: Option<&'a Process>,
    /// The address to which a race has led its connection, if one has.
    pub accelerated: Option<SocketAddr>,
}

/// Is shown every packet.
pub type Tap = Box<dyn FnMut(Tapped<'_>)>;

/// A connection to a peer.
struct Upstream {
    socket: OwnedFd,
    app: SocketAddr,
    peer: SocketAddr,
    /// The address that the socket leads to: the peer, but where a race has led it elsewhere.
    reached: SocketAddr,
    accelerated: bool,
    connecting: bool,
    /// There may be something to read.
    readable: bool,
    /// Reading goes on until it says that there is nothing, or no more.
    ending: bool,
    ended: bool,
    /// It was told that no more comes.
    shut: bool,
    /// What it was given came back with this; what its peer has said before is read first.
    broken: Option<Errno>,
    /// There is an urgent byte that has not been read.
    urgent: bool,
    /// It waits for its turn to be read.
    queued: bool,
    owner: Option<Owner>,
    process: Option<Process>,
    /// The process is being looked for.
    sought: bool,
    /// The peer has called, and the program has said nothing yet: its owner is that of the socket that listens.
    called: bool,
    /// How its requests are timed; none where they are not.
    request: Option<Request>,
    /// What is known of the program's data on it.
    delivery: Delivery,
    /// The longest packet that its path takes, as the program's kernel was told.
    path_mtu: u32,
}

/// Whose a connection is, and whether its process is still looked for.
#[derive(Clone, Debug, Default)]
struct Whose {
    owner: Option<Owner>,
    process: Option<Process>,
    sought: bool,
}

/// What tells whose a flow is.
enum Teller {
    /// The kernel, and /proc.
    Kernel { owners: Owners, finder: Finder },
    /// The program that has made the interface.
    Program(Attribution),
}

impl Teller {
    fn finder(&mut self) -> Option<&mut Finder> {
        match self {
            Self::Kernel { finder, .. } => Some(finder),
            Self::Program(_) => None,
        }
    }

    fn attribution(&mut self) -> Option<&mut Attribution> {
        match self {
            Self::Kernel { .. } => None,
            Self::Program(told) => Some(told),
        }
    }
}

/// A port that sends datagrams.
struct Port {
    socket: OwnedFd,
    /// Who may cut what it sends, once that is set.
    cutting: Option<Cutting>,
    app: SocketAddr,
    /// Whose it is, from the first datagram on.
    whose: Option<Whose>,
    /// How many of our own ports a datagram has passed before this one.
    turns: u8,
    /// A program has bound it, for callers.
    is_bound: bool,
    /// Where callers have asked.
    asked: asked::Strangers,
}

/// See the module.
pub struct Worker {
    tun: Tun,
    /// Of the interface, as programs see it, if that is known.
    mtu: Option<u32>,
    poll: Poll,
    clock: Clock,
    forwarder: Forwarder,
    upstreams: HashMap<FlowId, Upstream>,
    /// Where connections of programs begin.
    ends: Ends,
    ports: HashMap<MappingId, Port>,
    by_port: HashMap<SocketAddr, MappingId>,
    echoers: Echoers,
    teller: Teller,
    /// Connections that may have something to read.
    queue: VecDeque<FlowId>,
    /// Whose connections were that are recorded next.
    closed: HashMap<FlowId, Whose>,
    /// What was seen of connections whose process is still looked for.
    held: HashMap<FlowId, Attributed>,
    programs: Sleeper,
    peers: Sleeper,
    lookout: Lookout,
    /// Whether to look out at all.
    looks_out: bool,
    /// Peers that may be gone.
    silence: Silence,
    /// Bytes that were passed on since the last wait.
    passed: usize,
    /// Packets of programs are being read.
    batch: bool,
    /// Those that were read and not handed over yet; empty between two batches.
    together: Vec<Read>,
    /// What is done behind them.
    later: VecDeque<Output>,
    /// How often it has woken up, by cause.
    wakeups: Wakeups,
    room: Vec<u8>,
    /// Large buffers that were used, to be used again: fresh ones cost more than all else, a page fault for each 4 KiB.
    spare: Vec<Vec<u8>>,
    /// Large buffers that the forwarder may still keep for what is not acknowledged.
    lent: VecDeque<Arc<Vec<u8>>>,
    default_ttl: u8,
    /// Requests are timed one by one.
    times_requests: bool,
    /// How its own packets leave the host.
    exit: Rc<Exit>,
    /// Which of the host's addresses programs have chosen.
    addresses: Addresses,
    /// Sockets that wait for a program that wants one.
    stock: Stock,
    /// The TUN interface is no more.
    lost: Option<WorkerError>,
    /// Where its own connections begin, if it is to notice those that come back to it.
    own: Option<HashMap<SocketAddr, FlowId>>,
    /// The connect engine behind programs' SYNs, where that is wanted.
    accelerator: Option<Accelerator>,
    /// What programs listen on, where they can be called.
    inbound: Option<Inbound>,
    /// Those on this host that send to them.
    neighbours: Option<Neighbours>,
    /// What programs have of the host's routes, where they have routes of their own.
    routes: Option<Routes>,
    sink: Sink,
    /// Where packets are shown.
    shown: Option<Shown>,
    window: Option<Window>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("forwarder", &self.forwarder.tally()).finish_non_exhaustive()
    }
}

impl Worker {
    /// A forwarder for the programs of `enclosure`. Its sockets are in the namespace of the thread that calls [`Self::run`].
    pub fn new(enclosure: Enclosure, settings: Settings, clock: Clock, sink: Sink) -> Result<Self, WorkerError> {
        let Enclosure { namespace, tun, mtu, routes, .. } = enclosure;
        let owners = Owners::of(&namespace).map_err(failed("opening a socket for questions about owners"))?;
        let finder = Finder::new(&namespace).map_err(failed("looking for owners"))?;
        let worker = Self::with(tun, Teller::Kernel { owners, finder }, settings, clock, sink)?;
        if let Some(routes) = routes.as_ref().filter(|routes| routes.follows()) {
            worker.poll.add(routes, ROUTES, Interest::Read).map_err(failed("listening for routes"))?;
        }
        Ok(Self { mtu, routes, ..worker })
    }

    /// A forwarder for what comes out of `tun`, which another program has made, and which knows whose flows are: neither the kernel nor
    /// /proc is asked. A connection that could be raced waits so long until it is known whose it is. Its session drives it by [`Running`].
    pub(crate) fn with_attribution(
        tun: Tun,
        patience: Duration,
        settings: Settings,
        clock: Clock,
        sink: Sink,
    ) -> Result<Self, WorkerError> {
        let mut worker = Self::with(tun, Teller::Program(Attribution::new(patience)), settings, clock, sink)?;
        worker.window = Some(Window::closed());
        Ok(worker)
    }

    fn with(tun: Tun, teller: Teller, settings: Settings, clock: Clock, sink: Sink) -> Result<Self, WorkerError> {
        let settings = Settings { long_segments: !tun.is_framed(), ..settings };
        let poll = Poll::new().map_err(failed("making an event loop"))?;
        if let Teller::Kernel { finder, .. } = &teller {
            poll.add(finder, FOUND, Interest::Read).map_err(failed("listening for owners"))?;
        }
        let profile = settings.profile;
        let (programs, peers) = (Sleeper::new(profile.programs), Sleeper::new(profile.peers));
        if programs.until().is_none() {
            poll.add(&tun, TUN, Interest::Read).map_err(failed("listening to the TUN interface"))?;
        }
        let ttl = std::fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").ok();
        Ok(Self {
            tun,
            mtu: None,
            poll,
            clock,
            forwarder: Forwarder::new(settings),
            upstreams: HashMap::new(),
            ends: Ends::default(),
            ports: HashMap::new(),
            by_port: HashMap::new(),
            echoers: Echoers::default(),
            teller,
            queue: VecDeque::new(),
            closed: HashMap::new(),
            held: HashMap::new(),
            programs,
            peers,
            lookout: Lookout::default(),
            looks_out: true,
            silence: Silence::default(),
            passed: 0,
            batch: false,
            together: Vec::new(),
            later: VecDeque::new(),
            wakeups: Wakeups::default(),
            room: Vec::new(),
            spare: Vec::new(),
            lent: VecDeque::new(),
            default_ttl: ttl.and_then(|text| text.trim().parse().ok()).unwrap_or(64),
            times_requests: false,
            exit: Rc::default(),
            addresses: Addresses::default(),
            stock: Stock::default(),
            lost: None,
            own: None,
            accelerator: None,
            inbound: None,
            neighbours: None,
            routes: None,
            sink,
            shown: None,
            window: None,
        })
    }

    /// Shows every packet to `tap` from now on.
    pub fn show(&mut self, tap: Tap) {
        self.shown = Some(Shown::to(tap));
    }

    /// Shows packets no longer.
    pub fn show_no_more(&mut self) {
        self.tap_all(self.clock.now());
        self.shown = None;
    }

    /// Marks its own packets from now on (SO_MARK), so that they are not led back here. Needs CAP_NET_ADMIN.
    pub fn mark(&mut self, mark: u32) {
        self.leave(Exit { mark: Some(mark), ..(*self.exit).clone() });
    }

    /// Its own packets may be led back to it: they are marked if that is allowed, for a rule that leads them elsewhere, and connections
    /// and datagrams that come back all the same end [`Self::run`].
    pub fn watch_for_loops(&mut self) {
        if Exit::may_mark() {
            self.mark(OWN_MARK);
        }
        self.own = Some(HashMap::new());
    }

    /// Has each of its own sockets protected from now on, by the program that has made the TUN interface.
    pub fn protect(&mut self, protector: impl Protect + 'static) {
        self.leave(Exit { protector: Some(Rc::new(protector)), ..(*self.exit).clone() });
    }

    /// Forwards from this interface from now on. Connections stay: packets of programs now come over it.
    pub(crate) fn forward_from(&mut self, tun: Tun) -> Result<(), WorkerError> {
        // One that sleeps on purpose between its reads listens to none.
        if self.programs.until().is_none() {
            self.poll.add(&tun, TUN, Interest::Read).map_err(failed("listening to the TUN interface"))?;
            self.poll.remove(&self.tun);
        }
        self.tun = tun;
        Ok(())
    }

    /// Has something else listened to, as [`FRONT`].
    pub(crate) fn listen(&self, source: impl AsFd) -> io::Result<()> {
        self.poll.add(source, FRONT, Interest::Read)
    }

    /// The same, and for room to write while something waits for that.
    pub(crate) fn listen_anew(&self, source: impl AsFd, waits: bool) -> io::Result<()> {
        self.poll.change(source, FRONT, if waits { Interest::Changes } else { Interest::Read })
    }

    fn leave(&mut self, exit: Exit) {
        self.exit = Rc::new(exit);
        self.stock.clear();
        self.accelerator.iter_mut().for_each(|accelerator| accelerator.exit = Rc::clone(&self.exit));
    }

    /// From now on a connection is raced over all addresses that programs of its user got for its peer's name. To be called
    /// in the namespace of the thread that calls [`Self::run`].
    pub fn accelerate(&mut self, settings: connect::Settings) {
        let mut accelerator = match self.teller {
            Teller::Kernel { .. } => Accelerator::new(settings),
            Teller::Program(_) => Accelerator::of_program(settings),
        };
        accelerator.exit = Rc::clone(&self.exit);
        self.accelerator = Some(accelerator);
    }

    /// A process whose connections are likely to be the first.
    pub fn expect(&mut self, pid: i32) {
        self.teller.finder().into_iter().for_each(|finder| finder.expect(pid));
    }

    /// Sleeps at once from now on where nothing is to be done, and does not look out for a moment for an answer that is due. What looks
    /// out keeps a processor awake, which makes short round trips of programs shorter than they are without a forwarder.
    pub fn sleep_at_once(&mut self) {
        self.looks_out = false;
    }

    /// How often an answer came while it looked out.
    pub fn looked_out(&self) -> u64 {
        self.lookout.seen()
    }

    /// The forwarder, to be looked at.
    pub fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// Forwards until `stop` can be read; and then for as long as programs that have ended still have data on the way, but no
    /// longer than until nothing has moved for `patience`. Peers that got our FIN get a moment to send theirs. What is
    /// still open then is recorded as it is.
    pub fn run(&mut self, stop: impl AsFd, patience: Duration) -> Result<(), WorkerError> {
        self.poll.add(&stop, STOP, Interest::Read).map_err(failed("listening for the end"))?;
        driver::serve(&mut Running::new(self, Some(stop.as_fd()), patience))
    }

    /// Does what was left for later.
    fn catch_up(&mut self, now: Instant) {
        while let Some(output) = self.later.pop_front() {
            self.carry_out(now, output);
            self.drain(now);
        }
    }

    /// Empties the room for what is read next, in a large buffer that was used before if there is one.
    fn make_room(&mut self) {
        if self.room.capacity() < HEADROOM + ROOM {
            while self.spare.is_empty()
                && let Some(lent) = self.lent.pop_front()
            {
                match Arc::try_unwrap(lent) {
                    Ok(bytes) => self.spare.push(bytes),
                    Err(lent) => {
                        self.lent.push_front(lent);
                        break;
                    }
                }
            }
            self.room = self.spare.pop().unwrap_or_default();
        }
        self.room.clear();
        self.room.reserve(HEADROOM + ROOM);
    }

    /// Remembers a large buffer until the forwarder has no more need of it.
    fn lend(&mut self, packet: Packet) {
        if packet.bytes.capacity() >= ROOM {
            if self.lent.len() >= MOST_SPARE {
                self.lent.pop_front();
            }
            self.lent.push_back(packet.bytes);
        }
    }

    fn carry_out(&mut self, now: Instant, output: Output) {
        match output {
            Output::Packet(packet) => {
                self.tapped(now, true, packet.as_slice());
                self.deliver(&packet);
                self.lend(packet);
            }
            Output::Send { flow, pieces, urgent } => self.send(now, flow, pieces, urgent),
            Output::Resume { flow } => self.enqueue(flow),
            Output::Connect { flow, app, peer, traffic_class, hop_limit, no_delay, mss } => {
                self.open(now, (flow, app, peer), (traffic_class, hop_limit, no_delay, mss));
            }
            Output::MirrorOptions { flow } => self.mirror_options(flow),
            Output::Mark { flow, traffic_class } => {
                if let Some(upstream) = self.upstreams.get(&flow) {
                    let _ = sockets::mark(&upstream.socket, upstream.reached.is_ipv4(), traffic_class);
                }
            }
            Output::KeepAlive { flow } => self.ask_peer(now, flow),
            Output::LookAtProgram { flow } => self.look_at_program(now, flow),
            Output::TimeOut { flow } => self.time_out(now, flow),
            Output::Shutdown { flow } => {
                if let Some(upstream) = self.upstreams.get_mut(&flow) {
                    upstream.shut = true;
                    sockets::end(&upstream.socket, upstream.ended);
                }
            }
            Output::Close { flow, abrupt } => self.close(now, flow, abrupt),
            Output::Map { mapping, app } => self.map(now, mapping, app),
            Output::Datagram { mapping, to, bytes, from, traffic_class, hop_limit, whole, train } => {
                let marks = (traffic_class, hop_limit, whole);
                self.send_or_answer(now, Outgoing { mapping, to, bytes, from, marks, train });
            }
            Output::Unbound => self.look_for_the_unbound(now),
            Output::Unmap { mapping } => self.unmap(mapping),
            Output::Echo { to, message, traffic_class, hop_limit, whole } => {
                self.send_echo(now, to, message, (traffic_class, hop_limit, whole));
            }
            Output::Record(record) => self.record(now, record),
        }
    }

    fn deliver(&mut self, packet: &Packet) {
        let v4 = packet.as_slice().first().is_some_and(|byte| byte >> 4 == 4);
        let transport = match packet.checksum {
            Some((_, udp::CHECKSUM_AT)) => Transport::Udp,
            _ if v4 => Transport::TcpV4,
            _ => Transport::TcpV6,
        };
        let offload = Offload {
            checksum: packet.checksum.map(|(start, offset)| Checksum { start, offset }),
            segments: packet.segments.map(|(size, headers)| Segments { transport, ecn: false, headers, size }),
        };
        // What the namespace does not take is retransmitted by the forwarder's timer.
        self.tun.write(&offload, packet.as_slice());
    }
}
