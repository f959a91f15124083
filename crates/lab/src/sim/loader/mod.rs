//! A browser in virtual time: it loads pages over the link models and counts bytes instead of making them.
//!
//! A [`Browser`] is one host for a while, as a session is: below it the connector with some race, the kernel's handshakes
//! and the access link. It asks for objects when what they wait for is there, holds six connections an origin over HTTP/1.1
//! and one over HTTP/2 and HTTP/3, and everything that it moves shares the link. A later visit is the same browser loading the page
//! again with an empty cache of objects and no open connection: what it has kept is what the connector keeps.
//!
//! Over QUIC a connection is there when its name is known, and its first flight is TLS's: a round trip less than over TCP. A
//! browser is taken to know who speaks HTTP/3; [`Page::over_tcp`] is the page of one that does not.
//!
//! Not modelled: the time that computers compute (it is in the page's gaps), resumption of TLS, coalescing of origins; of QUIC,
//! its headers (those of TCP are about as long), streams that overtake a lost packet of another, and the round trip after which a
//! host that does not listen is left for the next address.

mod chromium;
mod connection;
mod critical;
mod dial;
#[cfg(test)]
mod tests;

use super::channels::{Channels, Steering};
use super::packet::Segment;
use super::stack::{Event, Stack, Traffic};
use super::transfer::SEGMENT;
use crate::page::{Dependency, Object, Page, Protocol, Start};
use crate::world::World;
use connection::{Arrived, Connection, Got};
pub use critical::Parts;
use dial::{Dialled, Dialler};
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, race};
use headstart_core::steer::Tally;
use headstart_core::time::{Duration, Instant};
use headstart_link::ParseError;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Connections an origin over HTTP/1.1: Chromium, Firefox and Safari alike.
const CONNECTIONS: usize = 6;

/// From a browser's launch to its first request: less than Chromium takes. On two idle cores a load by a new process took 1.4 s
/// longer than one by a process that was there. Nothing of it counts as load time; for whoever knows what browsers ask for it is
/// the time to get it ready.
const STARTS: Duration = Duration::from_millis(250);

/// How a browser gets connected.
#[derive(Clone, Copy, Debug)]
pub struct Arm {
    /// Its name in tables.
    pub name: &'static str,
    /// By which race.
    pub race: &'static race::Entry,
    /// How long answers are kept from one visit to the next.
    pub lifetime: Lifetime,
    /// What is done before the browser asks.
    pub ahead: Ahead,
    /// Names and connections cost nothing: every one is there when it is asked for, the nearest address of a host. Nobody can do
    /// that; it says what there is to gain below a browser. TLS is the browser's, and takes as long as it takes.
    pub ready: bool,
}

impl Arm {
    /// A modern browser by itself.
    pub const BARE: Self =
        Self { name: "bare", race: &chromium::ENTRY, lifetime: Lifetime::Ttl, ahead: Ahead::OFF, ready: false };
    /// What nobody can do: see [`Arm::ready`].
    pub const READY: Self = Self { name: "ready", ready: true, ..Self::BARE };
}

/// A page load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// From the start until the load event: until the last object has arrived that holds it up.
    pub time: Duration,
    /// Until the last object of all has arrived.
    pub whole: Duration,
    /// The objects, in the order of the page.
    pub objects: Vec<Timing>,
    /// Connections that were used.
    pub connections: usize,
    /// The host and the address of each of them, host by host.
    pub reached: Vec<(usize, IpAddr)>,
}

/// When what happened to an object, from the start of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// It was wanted.
    pub wanted: Duration,
    /// Its request was sent, after waiting for a connection.
    pub sent: Duration,
    /// Of that wait, what went into the connection that carries it: looking up the name, connecting, TLS.
    pub opening: [Duration; 3],
    /// Its first byte was there.
    pub first_byte: Duration,
    /// All of it was there, or it was given up.
    pub end: Duration,
    /// Nobody could be reached for it.
    pub failed: bool,
}

/// A browser. See the module.
pub struct Browser {
    stack: Stack,
    dialler: Dialler,
    segment: u64,
}

impl Browser {
    /// A browser that has never loaded anything. The hosts of its pages are the sites of `world`, in that order.
    pub fn new(world: &World, arm: Arm, seed: u64) -> Result<Self, ParseError> {
        Ok(Self { stack: Stack::new(world)?, dialler: Dialler::new(world, arm, seed)?, segment: SEGMENT })
    }

    /// The same behind two channels in the place of the world's link.
    pub fn steered(world: &World, arm: Arm, seed: u64, steering: &Steering) -> Result<Self, ParseError> {
        let stack = Stack::steered(world, steering)?;
        Ok(Self { stack, dialler: Dialler::new(world, arm, seed)?, segment: steering.segment() })
    }

    /// Bytes on the fat and on the fast channel so far, both directions together; nothing of a browser with one link.
    pub fn channel_bytes(&self) -> [u64; 2] {
        self.stack.channels().map_or([0; 2], Channels::bytes)
    }

    /// What was decided, up and down; nothing of a browser with one link.
    pub fn decided(&self) -> Option<[Tally; 2]> {
        self.stack.channels().map(Channels::tallies)
    }

    /// What was sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.stack.traffic()
    }

    /// Connections that were opened and that nobody used.
    pub fn unused(&self) -> u64 {
        self.dialler.unused()
    }

    /// Nobody loads anything for this long.
    pub fn idle(&mut self, time: Duration) {
        let until = self.stack.now() + time;
        while self.stack.now() < until {
            let wake = self.dialler.deadline().map_or(until, |at| at.min(until).max(self.stack.now()));
            match self.stack.step(wake) {
                Some(event) => {
                    self.dialler.notice(&mut self.stack, &event);
                }
                None => self.dialler.handle_timeout(&mut self.stack),
            }
        }
        self.dialler.forget_calls();
    }

    /// Starts, and loads `page` with an empty cache; the times are those since its first request.
    ///
    /// # Panics
    ///
    /// If the world has fewer sites than the page hosts, or the page does not pass [`Page::check`].
    pub fn load(&mut self, page: &Page, by: Dependency) -> Load {
        self.dialler.begin(&mut self.stack);
        self.idle(STARTS);
        let mut visit = Visit::new(page, by, self.stack.now(), self.segment);
        visit.want_roots();
        while visit.open > 0 {
            self.turn(&mut visit);
        }
        self.dialler.end(&mut self.stack);
        visit.finish()
    }

    /// One event of the network, or one deadline.
    fn turn(&mut self, visit: &mut Visit<'_>) {
        let now = self.stack.now();
        let due = visit.agenda.first_key_value().map(|(key, _)| key.0);
        let timer = visit.timers.first().map(|key| key.0);
        let wake = [due, timer, self.dialler.deadline()].into_iter().flatten().min();
        let event = self.stack.step(wake.map_or(Instant::FAR_FUTURE, |at| at.max(now)));
        let now = self.stack.now();
        match event {
            Some(Event::Segment(segment)) => visit.receive(now, &segment),
            Some(event) => {
                self.dialler.notice(&mut self.stack, &event);
            }
            None if wake.is_none() => visit.give_up(now),
            None => {
                while let Some(entry) = visit.agenda.first_entry().filter(|e| e.key().0 <= now) {
                    let due = entry.remove();
                    visit.carry_out(now, due);
                }
                while visit.timers.first().is_some_and(|(at, _)| *at <= now) {
                    if let Some((_, socket)) = visit.timers.pop_first() {
                        visit.timed_out(now, socket);
                    }
                }
                self.dialler.handle_timeout(&mut self.stack);
            }
        }
        while let Some(host) = visit.dials.pop() {
            let state = &visit.hosts[host];
            self.dialler.dial(&mut self.stack, host, &state.addresses, state.over_quic());
        }
        while let Some(dialled) = self.dialler.done() {
            visit.dialled(now, dialled);
        }
        for segment in visit.out.drain(..) {
            self.stack.send_segment(segment);
        }
    }
}

/// Something that is due at a moment.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// An object is wanted.
    Want(usize),
    /// A server has thought about an object.
    Respond { socket: u64, object: usize },
}

#[derive(Debug, Default)]
struct HostState {
    addresses: Vec<IpAddr>,
    /// Objects that wait for a connection.
    queue: Vec<usize>,
    /// Connections that are open or under way.
    connections: usize,
    sockets: Vec<u64>,
    /// The highest version that an object of it comes over: all objects of a host come over one in a page, or nearly so.
    protocol: Option<Protocol>,
}

impl HostState {
    fn multiplexed(&self) -> bool {
        self.protocol > Some(Protocol::Http1)
    }

    fn over_quic(&self) -> bool {
        self.protocol == Some(Protocol::Http3)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    timing: Timing,
    got: u64,
    wanted: bool,
    ended: bool,
}

/// One load of a page.
struct Visit<'p> {
    page: &'p Page,
    by: Dependency,
    began: Instant,
    segment: u64,
    objects: Vec<Progress>,
    children: Vec<Vec<usize>>,
    /// Objects that have not ended.
    open: usize,
    hosts: Vec<HostState>,
    connections: BTreeMap<u64, Connection>,
    agenda: BTreeMap<(Instant, u64), Due>,
    timers: BTreeSet<(Instant, u64)>,
    order: u64,
    /// Hosts to which connections are to be opened.
    dials: Vec<usize>,
    out: Vec<Segment>,
}

impl<'p> Visit<'p> {
    fn new(page: &'p Page, by: Dependency, began: Instant, segment: u64) -> Self {
        let mut children = vec![Vec::new(); page.objects.len()];
        for (i, object) in page.objects.iter().enumerate() {
            if let Some(parent) = by.start(object).parent() {
                children[parent].push(i);
            }
        }
        let mut hosts: Vec<HostState> = page.hosts.iter().map(|_| HostState::default()).collect();
        for object in &page.objects {
            let known = &mut hosts[object.host].protocol;
            *known = (*known).max(Some(object.protocol));
        }
        Self {
            page,
            by,
            began,
            segment,
            objects: vec![Progress::default(); page.objects.len()],
            children,
            open: page.objects.len(),
            hosts,
            connections: BTreeMap::new(),
            agenda: BTreeMap::new(),
            timers: BTreeSet::new(),
            order: 0,
            dials: Vec::new(),
            out: Vec::new(),
        }
    }

    fn object(&self, i: usize) -> &'p Object {
        &self.page.objects[i]
    }

    fn at(&mut self, at: Instant, due: Due) {
        self.order += 1;
        self.agenda.insert((at, self.order), due);
    }

    fn want_roots(&mut self) {
        for i in 0..self.page.objects.len() {
            if self.by.start(self.object(i)) == Start::AtOnce {
                self.at(self.began, Due::Want(i));
            }
        }
    }

    fn carry_out(&mut self, now: Instant, due: Due) {
        match due {
            Due::Want(object) => self.want(now, object),
            Due::Respond { socket, object } => {
                let Object { response_bytes, urgency, kind, .. } = *self.object(object);
                if let Some(connection) = self.connections.get_mut(&socket) {
                    connection.respond(object, response_bytes, urgency, kind.is_incremental());
                }
                self.flush(now, socket);
            }
        }
    }

    fn want(&mut self, now: Instant, object: usize) {
        self.objects[object].timing.wanted = now - self.began;
        let host = self.object(object).host;
        self.hosts[host].queue.push(object);
        self.serve(now, host);
        let state = &self.hosts[host];
        let most = if state.multiplexed() { 1 } else { CONNECTIONS };
        let opening = state.connections - state.sockets.iter().filter(|s| self.connections[*s].secured).count();
        if state.connections < most && state.queue.len() > opening {
            self.hosts[host].connections += 1;
            self.dials.push(host);
        }
    }

    /// Sends what waits for `host` over connections that are free, the most urgent first.
    fn serve(&mut self, now: Instant, host: usize) {
        for n in 0..self.hosts[host].sockets.len() {
            let socket = self.hosts[host].sockets[n];
            let mut sent = false;
            while self.connections[&socket].is_free() {
                let queue = &self.hosts[host].queue;
                let first = (0..queue.len()).min_by_key(|i| (self.object(queue[*i]).urgency, *i));
                let Some(first) = first else { break };
                let object = self.hosts[host].queue.remove(first);
                let timing = &mut self.objects[object].timing;
                timing.sent = now - self.began;
                timing.opening = self.connections[&socket].opening_after(self.began + timing.wanted);
                let bytes = self.object(object).request_bytes;
                if let Some(connection) = self.connections.get_mut(&socket) {
                    connection.request(object, bytes);
                }
                sent = true;
            }
            if sent {
                self.flush(now, socket);
            }
        }
    }

    fn dialled(&mut self, now: Instant, dialled: Dialled) {
        let Dialled { host, addresses, connected, began, resolved } = dialled;
        if !addresses.is_empty() {
            self.hosts[host].addresses = addresses;
        }
        match connected {
            Some((socket, peer)) => {
                let (multiplexed, over_quic) = (self.hosts[host].multiplexed(), self.hosts[host].over_quic());
                let opened = [began, resolved, now];
                let connection = Connection::new(socket, host, peer, (multiplexed, over_quic), self.segment, opened);
                self.connections.insert(socket, connection);
                self.hosts[host].sockets.push(socket);
                self.flush(now, socket);
            }
            None => {
                self.hosts[host].connections -= 1;
                if self.hosts[host].connections == 0 {
                    for object in std::mem::take(&mut self.hosts[host].queue) {
                        self.objects[object].timing.failed = true;
                        self.end(now, object);
                    }
                }
            }
        }
    }

    fn receive(&mut self, now: Instant, segment: &Segment) {
        let Some(connection) = self.connections.get_mut(&segment.socket) else { return };
        connection.receive(now, segment);
        let mut free = false;
        if segment.up {
            while let Some(arrived) = self.connections.get_mut(&segment.socket).and_then(Connection::heard) {
                if let Arrived::Request(object) = arrived {
                    let ready = now + self.object(object).think;
                    self.at(ready, Due::Respond { socket: segment.socket, object });
                }
            }
        } else {
            while let Some(got) = self.connections.get_mut(&segment.socket).and_then(|c| c.got(now)) {
                match got {
                    Got::Hello => free = true,
                    Got::Bytes(object, bytes) => free |= self.progress(now, segment.socket, object, bytes),
                }
            }
        }
        self.flush(now, segment.socket);
        if free && let Some(host) = self.connections.get(&segment.socket).map(|c| c.host) {
            self.serve(now, host);
        }
    }

    /// Bytes of an object have arrived; whether they were its last.
    fn progress(&mut self, now: Instant, socket: u64, object: usize, bytes: u64) -> bool {
        let total = self.object(object).response_bytes.max(1);
        let progress = &mut self.objects[object];
        if progress.got == 0 {
            progress.timing.first_byte = now - self.began;
        }
        progress.got += bytes;
        let share = progress.got as f64 / total as f64;
        for n in 0..self.children[object].len() {
            let child = self.children[object][n];
            if let Start::During { share: needed, .. } = self.by.start(self.object(child))
                && share >= needed
                && !self.objects[child].wanted
            {
                self.objects[child].wanted = true;
                self.at(now, Due::Want(child));
            }
        }
        if self.objects[object].got < total {
            return false;
        }
        if let Some(connection) = self.connections.get_mut(&socket) {
            connection.under_way -= 1;
        }
        self.end(now, object);
        true
    }

    fn end(&mut self, now: Instant, object: usize) {
        let progress = &mut self.objects[object];
        if std::mem::replace(&mut progress.ended, true) {
            return;
        }
        progress.timing.end = now - self.began;
        self.open -= 1;
        for n in 0..self.children[object].len() {
            let child = self.children[object][n];
            if std::mem::replace(&mut self.objects[child].wanted, true) {
                continue;
            }
            let gap = match self.by.start(self.object(child)) {
                Start::After { gap, .. } => gap,
                _ => Duration::ZERO,
            };
            self.at(now + gap, Due::Want(child));
        }
    }

    /// Nothing will ever happen again.
    fn give_up(&mut self, now: Instant) {
        for object in 0..self.objects.len() {
            if !self.objects[object].ended {
                self.objects[object].timing.failed = true;
                self.end(now, object);
            }
        }
    }

    fn timed_out(&mut self, now: Instant, socket: u64) {
        if let Some(connection) = self.connections.get_mut(&socket) {
            connection.armed = None;
            connection.handle_timeout(now);
        }
        self.flush(now, socket);
    }

    fn flush(&mut self, now: Instant, socket: u64) {
        let Some(connection) = self.connections.get_mut(&socket) else { return };
        connection.flush(now, &mut self.out);
        let due = connection.deadline();
        if due != connection.armed {
            if let Some(at) = connection.armed {
                self.timers.remove(&(at, socket));
            }
            if let Some(at) = due {
                self.timers.insert((at, socket));
            }
            connection.armed = due;
        }
    }

    fn finish(self) -> Load {
        let objects: Vec<Timing> = self.objects.iter().map(|p| p.timing).collect();
        let latest = |blocking: bool| {
            let counted = |o: &Object| !blocking || o.kind.blocks_load();
            let ends = objects.iter().zip(&self.page.objects).filter(|(_, o)| counted(o)).map(|(t, _)| t.end);
            ends.max().unwrap_or_default()
        };
        let sockets = self.hosts.iter().enumerate().flat_map(|(n, host)| host.sockets.iter().map(move |s| (n, s)));
        let reached = sockets.map(|(host, socket)| (host, self.connections[socket].peer)).collect();
        let connections = self.connections.len();
        Load { time: latest(true), whole: latest(false), connections, reached, objects }
    }
}
