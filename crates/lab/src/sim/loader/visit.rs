//! One load of a page: which object is wanted when, over which connection, and what has come of it.

use super::super::dial::Call;
use super::super::packet::Segment;
use super::super::servers::Servers;
use super::connection::{Arrived, Connection, Got};
use super::{CONNECTIONS, Load, Timing};
use crate::page::{Dependency, Object, Page, Protocol, Start};
use headstart_core::time::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Something that is due at a moment.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// An object is wanted.
    Want(usize),
    /// A server has thought about an object.
    Respond { socket: u64, object: usize },
}

#[derive(Debug, Default)]
pub(super) struct HostState {
    pub addresses: Vec<IpAddr>,
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

    pub fn over_quic(&self) -> bool {
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
pub(super) struct Visit<'p> {
    page: &'p Page,
    by: Dependency,
    began: Instant,
    segment: u64,
    objects: Vec<Progress>,
    children: Vec<Vec<usize>>,
    /// Objects that have not ended.
    pub open: usize,
    pub hosts: Vec<HostState>,
    connections: BTreeMap<u64, Connection>,
    agenda: BTreeMap<(Instant, u64), Due>,
    timers: BTreeSet<(Instant, u64)>,
    order: u64,
    /// Hosts to which connections are to be opened.
    pub dials: Vec<usize>,
    pub out: Vec<Segment>,
    /// Where servers remember, if they do.
    pub servers: Option<Servers>,
}

impl<'p> Visit<'p> {
    pub fn new(page: &'p Page, by: Dependency, began: Instant, segment: u64) -> Self {
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
            servers: None,
        }
    }

    fn object(&self, i: usize) -> &'p Object {
        &self.page.objects[i]
    }

    fn at(&mut self, at: Instant, due: Due) {
        self.order += 1;
        self.agenda.insert((at, self.order), due);
    }

    pub fn want_roots(&mut self) {
        for i in 0..self.page.objects.len() {
            if self.by.start(self.object(i)) == Start::AtOnce {
                self.at(self.began, Due::Want(i));
            }
        }
    }

    /// When it wants to be woken.
    pub fn deadline(&self) -> Option<Instant> {
        let due = self.agenda.first_key_value().map(|(key, _)| key.0);
        due.into_iter().chain(self.timers.first().map(|key| key.0)).min()
    }

    /// Wakes it.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(entry) = self.agenda.first_entry().filter(|e| e.key().0 <= now) {
            let due = entry.remove();
            self.carry_out(now, due);
        }
        while let Some((at, socket)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, socket));
            self.timed_out(now, socket);
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

    pub fn dialled(&mut self, now: Instant, call: Call) {
        let Call { site: host, addresses, connected, began, resolved, .. } = call;
        if !addresses.is_empty() {
            self.hosts[host].addresses = addresses;
        }
        match connected {
            Some((socket, peer)) => {
                let (multiplexed, over_quic) = (self.hosts[host].multiplexed(), self.hosts[host].over_quic());
                let opened = [began, resolved, now];
                let mut connection =
                    Connection::new(socket, host, peer, (multiplexed, over_quic), self.segment, opened);
                if let Some(servers) = &self.servers {
                    connection = connection.governed(servers.window(now, host, peer, self.segment));
                }
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

    pub fn receive(&mut self, now: Instant, segment: &Segment) {
        let Some(connection) = self.connections.get_mut(&segment.socket) else { return };
        connection.receive(now, segment);
        if let Some(servers) = self.servers.as_mut().filter(|_| segment.up) {
            let (socket, host, peer) = (connection.socket, connection.host, connection.peer);
            if let Some(window) = connection.governor() {
                servers.attend(now, socket, host, peer, window);
            }
        }
        let mut free = false;
        if segment.up {
            while let Some(arrived) = self.connections.get_mut(&segment.socket).and_then(Connection::received) {
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
    pub fn give_up(&mut self, now: Instant) {
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

    /// The browser closes its connections.
    pub fn close(&mut self, now: Instant) {
        let Some(servers) = &mut self.servers else { return };
        for connection in self.connections.values_mut() {
            let (socket, host, peer) = (connection.socket, connection.host, connection.peer);
            if let Some(window) = connection.governor() {
                servers.ended(now, socket, host, peer, window);
            }
        }
    }

    pub fn finish(self) -> Load {
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
