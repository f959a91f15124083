//! One thread, one event loop, one forwarder: sleeps until a packet, a socket or a timer wants something.

mod ports;
mod records;

use super::owner::{Owner, Owners, Process};
use super::{Enclosure, sockets};
use crate::clock::Clock;
use crate::poll::{Change, Interest, Poll};
use crate::sys::offload::{Checksum, Offload, Segments, Transport};
use crate::sys::tun::{ROOM, Tun};
use crate::sys::{datagram, stream};
use headstart_core::forward::pace::Sleeper;
use headstart_core::forward::{
    Failure, FlowId, Forwarder, HEADROOM, Input, MappingId, Output, Packet, Record, Settings,
};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use headstart_core::wire::ip;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, sockopt};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Packets, and reads of sockets, between two looks at everything else.
const BATCH: usize = 64;
/// Data up to this length is copied into a buffer of its own size, so that a large one need not be kept for it.
const SMALL: usize = 16 * 1024;
/// How long a peer that has heard the end may take to say its own, when nothing else is waited for.
const LAST_WORDS: headstart_core::time::Duration = headstart_core::time::Duration::from_millis(200);
/// Large buffers of either kind that are kept: 4 MiB in all.
const MOST_SPARE: usize = 32;
/// Tokens of what is no connection.
const TUN: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
const ECHO_V4: u64 = u64::MAX - 2;
const ECHO_V6: u64 = u64::MAX - 3;
/// Tokens from here on are ports that send datagrams.
const MAPPINGS: u64 = 1 << 62;

/// The event loop could not be set up, or is no more.
#[derive(Debug, thiserror::Error)]
#[error("forwarding: {what}: {source}")]
pub struct WorkerError {
    what: &'static str,
    source: io::Error,
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> WorkerError {
    move |source| WorkerError { what, source }
}

/// Something that was recorded, and whose it was, if that is known.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What was seen.
    pub record: Record,
    /// What the kernel knew of the program's socket.
    pub owner: Option<Owner>,
    /// The process.
    pub process: Option<Process>,
}

/// Who is told what was seen.
pub type Sink = Box<dyn FnMut(Seen)>;

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
}

/// Who is shown every packet.
pub type Tap = Box<dyn FnMut(Tapped<'_>)>;

/// A connection to a peer.
struct Upstream {
    socket: OwnedFd,
    app: SocketAddr,
    peer: SocketAddr,
    connecting: bool,
    /// There may be something to read.
    readable: bool,
    /// Reading goes on until it says that there is nothing, or no more.
    ending: bool,
    ended: bool,
    /// There is an urgent byte that has not been read.
    urgent: bool,
    /// It waits for its turn to be read.
    queued: bool,
    owner: Option<Owner>,
    process: Option<Process>,
}

/// A port that sends datagrams.
struct Port {
    socket: OwnedFd,
    whole: Option<bool>,
}

/// See the module.
pub struct Worker {
    tun: Tun,
    poll: Poll,
    clock: Clock,
    forwarder: Forwarder,
    upstreams: HashMap<FlowId, Upstream>,
    ports: HashMap<MappingId, Port>,
    echoes: [Option<OwnedFd>; 2],
    owners: Owners,
    /// Connections that may have something to read.
    queue: VecDeque<FlowId>,
    /// Connections whose process is not known yet.
    unknown: VecDeque<FlowId>,
    /// Whose connections were that are recorded next.
    closed: HashMap<FlowId, (Option<Owner>, Option<Process>)>,
    programs: Sleeper,
    peers: Sleeper,
    room: Vec<u8>,
    /// Large buffers that were used, to be used again: fresh ones cost more than all else, a page fault for each 4 KiB.
    spare: Vec<Vec<u8>>,
    /// Large buffers that the forwarder may still keep for what is not acknowledged.
    lent: VecDeque<Arc<Vec<u8>>>,
    default_ttl: u8,
    sink: Sink,
    tap: Option<Tap>,
    /// Connections by their ends; kept where packets are shown.
    by_ends: HashMap<(SocketAddr, SocketAddr), FlowId>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("forwarder", &self.forwarder.tally()).finish_non_exhaustive()
    }
}

impl Worker {
    /// A forwarder for the programs of `enclosure`. Its sockets are in the namespace of whoever calls [`Self::run`].
    pub fn new(enclosure: Enclosure, settings: Settings, clock: Clock, sink: Sink) -> Result<Self, WorkerError> {
        let Enclosure { namespace, tun } = enclosure;
        let owners = Owners::of(&namespace).map_err(failed("opening a socket for questions about owners"))?;
        let poll = Poll::new().map_err(failed("making an event loop"))?;
        let profile = settings.profile;
        let (programs, peers) = (Sleeper::new(profile.programs), Sleeper::new(profile.peers));
        if programs.until().is_none() {
            poll.add(&tun, TUN, Interest::Read).map_err(failed("listening to the TUN interface"))?;
        }
        let ttl = std::fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").ok();
        Ok(Self {
            tun,
            poll,
            clock,
            forwarder: Forwarder::new(settings),
            upstreams: HashMap::new(),
            ports: HashMap::new(),
            echoes: [None, None],
            owners,
            queue: VecDeque::new(),
            unknown: VecDeque::new(),
            closed: HashMap::new(),
            programs,
            peers,
            room: Vec::new(),
            spare: Vec::new(),
            lent: VecDeque::new(),
            default_ttl: ttl.and_then(|text| text.trim().parse().ok()).unwrap_or(64),
            sink,
            tap: None,
            by_ends: HashMap::new(),
        })
    }

    /// Shows every packet to `tap` from now on.
    pub fn show(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// The forwarder, to be looked at.
    pub fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// Forwards until `stop` can be read; and then for as long as programs that have ended still have data on the way, but no
    /// longer than until nothing has moved for `patience`. Peers that have heard the end get a moment to say theirs. What is
    /// still open then is recorded as it is.
    pub fn run(&mut self, stop: impl AsFd, patience: headstart_core::time::Duration) -> Result<(), WorkerError> {
        self.poll.add(&stop, STOP, Interest::Read).map_err(failed("listening for the end"))?;
        let mut stopping = None;
        loop {
            let now = self.clock.now();
            if let Some(since) = stopping {
                let wait = if self.forwarder.is_needed() { patience } else { LAST_WORDS.min(patience) };
                if self.upstreams.is_empty() || now >= since + wait {
                    self.record_open();
                    return Ok(());
                }
            }
            let mut tokens = Vec::new();
            let wait = if self.forwarder.is_needed() { patience } else { LAST_WORDS.min(patience) };
            let until = self.until(now, stopping.map(|since| since + wait));
            self.poll.wait(&self.clock, until, &mut tokens).map_err(failed("waiting for events"))?;
            let now = self.clock.now();
            let changes: Vec<Change> = self.poll.changes().collect();
            let mut moved = if self.is_due(now, &self.programs) { self.programs(now) } else { 0 };
            for change in changes {
                match change.token {
                    TUN => moved += self.programs(now),
                    STOP => {
                        self.poll.remove(&stop);
                        stopping = Some(now);
                        // All that the program said last is here by now, a queue at most.
                        let _ = (0..BATCH).any(|_| self.programs(now) == 0);
                    }
                    ECHO_V4 | ECHO_V6 => self.echoes(now, change.token == ECHO_V4),
                    token if token >= MAPPINGS => self.datagrams(now, MappingId(token - MAPPINGS)),
                    token => self.change(now, FlowId(token), change),
                }
            }
            if self.peers.until().is_none_or(|until| now >= until) {
                moved += self.read_peers(now);
            }
            if self.forwarder.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
                self.forwarder.handle_timeout(now);
                self.drain(now);
            }
            if let Some(flow) = self.unknown.pop_front() {
                self.identify(flow);
            }
            if moved > 0 && stopping.is_some() {
                stopping = Some(now);
            }
        }
    }

    fn is_due(&self, now: Instant, sleeper: &Sleeper) -> bool {
        sleeper.until().is_some_and(|until| now >= until)
    }

    /// When to wake at the latest.
    fn until(&self, now: Instant, patience: Option<Instant>) -> Option<Instant> {
        let mut until = self.forwarder.poll_timeout().map(|deadline| deadline.at);
        let mut earlier = |at: Instant| until = Some(until.map_or(at, |until| until.min(at)));
        self.programs.until().into_iter().for_each(&mut earlier);
        match self.peers.until() {
            None if !self.queue.is_empty() => earlier(now),
            // Who sleeps sleeps, whatever waits.
            Some(at) if !self.upstreams.is_empty() => earlier(at),
            _ => {}
        }
        if !self.unknown.is_empty() {
            earlier(now);
        }
        patience.into_iter().for_each(earlier);
        until
    }

    /// Packets of programs; how many.
    fn programs(&mut self, now: Instant) -> usize {
        let mut count = 0;
        while count < BATCH {
            self.make_room();
            let offload = match self.tun.read(&mut self.room) {
                Ok(Some(offload)) => offload,
                Ok(None) => {
                    self.programs.read(now, count > 0);
                    if count > 0 {
                        self.programs.read(now, false);
                    }
                    break;
                }
                Err(_) => break,
            };
            count += 1;
            let bytes = if self.room.len() <= SMALL { self.room.clone() } else { std::mem::take(&mut self.room) };
            self.tapped(now, false, &bytes);
            let segment = offload.segments.map(|segments| segments.size);
            self.forwarder.handle_input(now, Input::Packet { bytes, segment });
            self.drain(now);
        }
        count
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

    fn input(&mut self, now: Instant, input: Input) {
        self.forwarder.handle_input(now, input);
        self.drain(now);
    }

    fn drain(&mut self, now: Instant) {
        while let Some(output) = self.forwarder.poll_output() {
            match output {
                Output::Packet(packet) => {
                    self.tapped(now, true, packet.as_slice());
                    self.deliver(&packet);
                    self.lend(packet);
                }
                Output::Send { flow, bytes, from, to, urgent } => self.send(now, flow, (bytes, from, to, urgent)),
                Output::Resume { flow } => self.enqueue(flow),
                Output::Connect { flow, app, peer, traffic_class, hop_limit, no_delay } => {
                    let limit = Some(hop_limit).filter(|limit| *limit != self.default_ttl);
                    let began = sockets::begin(peer, traffic_class, limit, no_delay);
                    self.began(now, flow, (app, peer), began);
                }
                Output::MirrorDelay { flow, .. } => self.mirror_delay(flow),
                Output::Mark { flow, traffic_class } => {
                    if let Some(upstream) = self.upstreams.get(&flow) {
                        let _ = sockets::mark(&upstream.socket, upstream.peer.is_ipv4(), traffic_class);
                    }
                }
                Output::KeepAlive { flow, idle } => {
                    if let Some(upstream) = self.upstreams.get(&flow) {
                        let _ = sockets::keep_alive(&upstream.socket, idle);
                    }
                }
                Output::Shutdown { flow } => {
                    if let Some(upstream) = self.upstreams.get(&flow) {
                        // Where it fails the connection is no more, which reading tells.
                        let _ = rustix::net::shutdown(&upstream.socket, Shutdown::Write);
                    }
                }
                Output::Close { flow, abrupt } => self.close(now, flow, abrupt),
                Output::Map { mapping, app } => {
                    if let Ok(socket) = sockets::datagrams(app)
                        && self.poll.add(&socket, MAPPINGS + mapping.0, Interest::Read).is_ok()
                    {
                        self.ports.insert(mapping, Port { socket, whole: None });
                    }
                }
                Output::Datagram { mapping, to, bytes, from, traffic_class, hop_limit, whole } => {
                    self.send_datagram(now, mapping, to, &bytes[from..], (traffic_class, hop_limit, whole));
                }
                Output::Unmap { mapping } => {
                    self.ports.remove(&mapping);
                }
                Output::Echo { to, message, traffic_class, hop_limit } => {
                    let v4 = to.is_ipv4();
                    if let Some(socket) = self.echo_socket(v4) {
                        let to = SocketAddr::new(to, 0);
                        let _ = datagram::send(socket, to, &message, traffic_class, hop_limit);
                    }
                }
                Output::Record(record) => self.record(record),
            }
        }
    }

    fn tapped(&mut self, at: Instant, to_program: bool, bytes: &[u8]) {
        let Some(tap) = &mut self.tap else { return };
        let ends = ip::parse(bytes).filter(|(header, _)| header.protocol == ip::TCP).and_then(|(header, payload)| {
            let (segment, _) = ip::tcp::parse(payload)?;
            let from = SocketAddr::new(header.source, segment.source);
            let to = SocketAddr::new(header.destination, segment.destination);
            Some(if to_program { (to, from) } else { (from, to) })
        });
        let flow = ends.and_then(|ends| self.by_ends.get(&ends));
        let process = flow.and_then(|flow| self.upstreams.get(flow)?.process.as_ref());
        tap(Tapped { at, to_program, bytes, process });
    }

    fn deliver(&mut self, packet: &Packet) {
        let v4 = packet.as_slice().first().is_some_and(|byte| byte >> 4 == 4);
        let transport = if v4 { Transport::TcpV4 } else { Transport::TcpV6 };
        let offload = Offload {
            checksum: packet.checksum.map(|(start, offset)| Checksum { start, offset }),
            segments: packet.segments.map(|(size, headers)| Segments { transport, ecn: false, headers, size }),
        };
        // What the namespace does not take is sent again by the forwarder's timer.
        self.tun.write(&offload, packet.as_slice());
    }

    fn began(
        &mut self,
        now: Instant,
        flow: FlowId,
        (app, peer): (SocketAddr, SocketAddr),
        began: Result<OwnedFd, Errno>,
    ) {
        let socket = match began {
            Ok(socket) => socket,
            Err(errno) => {
                let why = sockets::failure(errno);
                return self.forwarder.handle_input(now, Input::Failed { flow, why });
            }
        };
        if self.poll.add(&socket, flow.0, Interest::Changes).is_err() {
            return self.forwarder.handle_input(now, Input::Failed { flow, why: Failure::Here });
        }
        // Asked while the SYN is on its way, which takes longer.
        let owner = self.owners.of_tcp(app, peer).ok().flatten();
        let upstream = Upstream {
            socket,
            app,
            peer,
            connecting: true,
            readable: false,
            ending: false,
            ended: false,
            urgent: false,
            queued: false,
            owner,
            process: None,
        };
        self.upstreams.insert(flow, upstream);
        if self.tap.is_some() {
            self.by_ends.insert((app, peer), flow);
        }
    }

    /// Something has changed about a connection.
    fn change(&mut self, now: Instant, flow: FlowId, change: Change) {
        let Some(upstream) = self.upstreams.get_mut(&flow) else { return };
        if upstream.connecting {
            if !change.writable {
                return;
            }
            let outcome = match sockopt::socket_error(&upstream.socket) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(errno)) | Err(errno) => Err(errno),
            };
            let input = match outcome {
                Ok(()) => {
                    upstream.connecting = false;
                    self.unknown.push_back(flow);
                    Input::Connected { flow, mss: sockets::mss(&upstream.socket) }
                }
                Err(errno) => Input::Failed { flow, why: sockets::failure(errno) },
            };
            self.input(now, input);
        } else if change.writable {
            self.input(now, Input::Writable { flow });
        }
        if let Some(upstream) = self.upstreams.get_mut(&flow).filter(|_| change.readable) {
            upstream.readable = true;
            upstream.ending |= change.ending;
            upstream.urgent |= change.urgent;
            self.enqueue(flow);
        }
    }

    /// Puts a connection among those that are read, if there may be something to read.
    fn enqueue(&mut self, flow: FlowId) {
        if let Some(upstream) = self.upstreams.get_mut(&flow).filter(|u| u.readable && !u.queued && !u.ended) {
            upstream.queued = true;
            self.queue.push_back(flow);
        }
    }

    /// Reads connections in turn; how many reads brought something.
    fn read_peers(&mut self, now: Instant) -> usize {
        let mut count = 0;
        let mut turns = self.queue.len().min(BATCH);
        while turns > 0 {
            turns -= 1;
            let Some(flow) = self.queue.pop_front() else { break };
            if let Some(upstream) = self.upstreams.get_mut(&flow) {
                upstream.queued = false;
                count += usize::from(self.read_peer(now, flow));
            }
        }
        self.peers.read(now, count > 0);
        if count > 0 {
            self.peers.read(now, false);
        }
        count
    }

    /// Reads once; whether there was something.
    fn read_peer(&mut self, now: Instant, flow: FlowId) -> bool {
        let room = self.forwarder.room(now, flow);
        if room == 0 {
            // Resume comes when there is room.
            return false;
        }
        self.make_room();
        let Some(upstream) = self.upstreams.get_mut(&flow).filter(|upstream| !upstream.ended) else { return false };
        let urgent = upstream.urgent && stream::is_next(&upstream.socket);
        let most = if urgent { 1 } else { room };
        self.room.resize(HEADROOM, 0);
        let got = match stream::receive(&upstream.socket, &mut self.room, most) {
            Ok(Some(got)) => got,
            Ok(None) => {
                upstream.ended = true;
                self.input(now, Input::Ended { flow });
                return true;
            }
            Err(Errno::AGAIN) => {
                upstream.readable = false;
                return false;
            }
            Err(Errno::INTR) => {
                self.enqueue(flow);
                return false;
            }
            Err(errno) => {
                self.input(now, Input::Failed { flow, why: sockets::failure(errno) });
                return true;
            }
        };
        upstream.urgent &= !urgent;
        // Less than asked for is all that there was: what comes later is told anew. Not before an end or an urgent byte.
        upstream.readable = got == most || upstream.ending || upstream.urgent || urgent;
        let bytes = if got <= SMALL { self.room.clone() } else { std::mem::take(&mut self.room) };
        self.input(now, Input::Received { flow, bytes, urgent });
        self.enqueue(flow);
        true
    }

    fn send(&mut self, now: Instant, flow: FlowId, (bytes, from, to, urgent): (Vec<u8>, usize, usize, bool)) {
        let Some(upstream) = self.upstreams.get(&flow) else { return };
        let out_of_band = if urgent { SendFlags::OOB } else { SendFlags::empty() };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | out_of_band;
        let input = match send(&upstream.socket, &bytes[from..to], flags) {
            Ok(taken) if from + taken == to && bytes.capacity() >= ROOM && self.spare.len() < MOST_SPARE => {
                self.spare.push(bytes);
                Input::Sent { flow, bytes: Vec::new(), from: 0, to: 0, urgent }
            }
            Ok(taken) => Input::Sent { flow, bytes, from: from + taken, to, urgent },
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Input::Sent { flow, bytes, from, to, urgent },
            Err(errno) => Input::Failed { flow, why: sockets::failure(errno) },
        };
        self.forwarder.handle_input(now, input);
    }

    fn close(&mut self, now: Instant, flow: FlowId, abrupt: bool) {
        let mut facts = None;
        let (mut owner, mut process) = (None, None);
        // Who was not asked yet is asked now: the program may be gone in a moment.
        self.identify(flow);
        if let Some(upstream) = self.upstreams.remove(&flow) {
            self.by_ends.remove(&(upstream.app, upstream.peer));
            facts = (!upstream.connecting).then(|| sockets::facts(&upstream.socket)).flatten();
            if abrupt {
                let _ = sockopt::set_socket_linger(&upstream.socket, Some(std::time::Duration::ZERO));
            }
            (owner, process) = (upstream.owner, upstream.process);
        }
        self.closed.insert(flow, (owner, process));
        self.forwarder.handle_input(now, Input::Closed { flow, facts });
    }
}
