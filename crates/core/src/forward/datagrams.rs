//! Datagrams: a socket for each port of a program, whomever it speaks to (endpoint-independent mapping, RFC 4787), and what
//! the network says of them. DNS lookups are timed as they pass; nothing is changed.

use super::callers::{Callers, network};
use super::lookups::Lookups;
use super::spread::Spread;
use super::udp_flow::UdpFlow;
use super::{HEADROOM, MappingId, Output, Packet, Record};
use crate::machine::Deadline;
use crate::time::{Duration, Instant};
use crate::wire::ip::icmp::{self, Trouble};
use crate::wire::ip::{HOP_LIMIT, Header, UDP, checksum, header_len, udp, write};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// How long a port that is silent keeps its socket. 300 s: RFC 4787, REQ-5, recommends 5 minutes.
const LIFETIME: Duration = Duration::from_secs(300);
/// Peers of a port of which something is kept; the one that has been silent for longest makes room. 256: as lookups of four ports.
const MOST_PEERS: usize = 256;
/// The port of DNS.
const DNS: u16 = 53;
/// Why a port loses its socket.
const SILENT_PORT: &str = "a port that has been silent";
/// Why a datagram is passed on.
const SPREAD: &str = "datagrams of a bunch";

#[derive(Debug)]
struct Mapping {
    app: SocketAddr,
    last: Instant,
    /// A program has bound the port, so that strangers may send to it.
    is_held: bool,
    lookups: Lookups,
    flows: BTreeMap<SocketAddr, UdpFlow>,
    /// Those of them that have spoken before the program did, and how many of each network.
    strangers: BTreeSet<SocketAddr>,
    callers: Callers,
    /// What goes out of the port, and what to it.
    spread: [Spread<Output>; 2],
}

/// Of [`Mapping::spread`].
const UP: usize = 0;
const DOWN: usize = 1;

/// The ports of programs that send datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    most: usize,
    ids: HashMap<SocketAddr, MappingId>,
    mappings: BTreeMap<MappingId, Mapping>,
    /// But for those that are held.
    by_age: BTreeSet<(Instant, MappingId)>,
    /// Ports of which something is kept, by when the first of it is to be passed on.
    due: BTreeSet<(Instant, MappingId, usize)>,
    held: usize,
    next: u64,
}

impl Datagrams {
    pub fn new(most: usize) -> Self {
        let (ids, mappings, by_age) = (HashMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { most, ids, mappings, by_age, due: BTreeSet::new(), held: 0, next: 0 }
    }

    /// How many ports there are.
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// A program's datagram, whose payload is `bytes[from..to]`; or a train of them, of this size.
    pub fn packet(
        &mut self,
        now: Instant,
        header: &Header,
        (source, destination): (u16, u16),
        ((mut bytes, from, to), size): ((Vec<u8>, usize, usize), Option<u16>),
        out: &mut VecDeque<Output>,
    ) {
        let train = train_of(to - from, size);
        let (app, peer) = (SocketAddr::new(header.source, source), SocketAddr::new(header.destination, destination));
        let mapping = match self.ids.get(&app) {
            Some(id) => *id,
            None => self.open(now, app, out),
        };
        self.touch(now, mapping);
        if let Some(mapping) = self.mappings.get_mut(&mapping) {
            let datagrams = pieces(&bytes[from..to], train);
            if destination == DNS {
                datagrams.for_each(|query| mapping.lookups.asked(now, peer, query));
            } else {
                mapping.flow(now, peer, out).sent(now, datagrams);
            }
        }
        bytes.truncate(to);
        let (traffic_class, hop_limit, whole) = (header.traffic_class, header.hop_limit, header.whole);
        let datagram = Output::Datagram { mapping, to: peer, bytes, from, traffic_class, hop_limit, whole, train };
        self.pass(now, (mapping, UP), count(to - from, train), datagram, out);
    }

    /// Passes datagrams on, now or soon.
    fn pass(
        &mut self,
        now: Instant,
        (id, way): (MappingId, usize),
        datagrams: u32,
        what: Output,
        out: &mut VecDeque<Output>,
    ) {
        let Some(mapping) = self.mappings.get_mut(&id) else { return };
        let spread = &mut mapping.spread[way];
        let before = spread.due();
        out.extend(spread.pass(now, datagrams, what));
        self.due.extend(spread.due().filter(|_| before.is_none()).map(|due| (due, id, way)));
    }

    fn open(&mut self, now: Instant, app: SocketAddr, out: &mut VecDeque<Output>) -> MappingId {
        if self.mappings.len() >= self.most
            && let Some((_, oldest)) = self.by_age.first().copied()
        {
            self.close(oldest, out);
        }
        let id = self.keep(now, app);
        out.push_back(Output::Map { mapping: id, app });
        id
    }

    fn keep(&mut self, now: Instant, app: SocketAddr) -> MappingId {
        let id = MappingId(self.next);
        self.next += 1;
        self.ids.insert(app, id);
        self.mappings.insert(id, Mapping::new(now, app));
        self.by_age.insert((now, id));
        id
    }

    fn touch(&mut self, now: Instant, id: MappingId) {
        if let Some(mapping) = self.mappings.get_mut(&id) {
            if !mapping.is_held {
                self.by_age.remove(&(mapping.last, id));
                self.by_age.insert((now, id));
            }
            mapping.last = now;
        }
    }

    /// A program has bound a port: it keeps its socket, however long it is silent, until it is [let go](Self::let_go). Its name, and whether it
    /// has no socket yet; none where half of all ports are held.
    pub fn hold(&mut self, now: Instant, app: SocketAddr, out: &mut VecDeque<Output>) -> Option<(MappingId, bool)> {
        let known = self.ids.get(&app).copied();
        if known.is_none_or(|id| !self.mappings[&id].is_held) && self.held * 2 >= self.most {
            return None;
        }
        if known.is_none() && self.mappings.len() >= self.most {
            let oldest = self.by_age.first().map(|(_, id)| *id);
            oldest.into_iter().for_each(|oldest| self.close(oldest, out));
        }
        let id = known.unwrap_or_else(|| self.keep(now, app));
        if let Some(mapping) = self.mappings.get_mut(&id).filter(|mapping| !mapping.is_held) {
            self.by_age.remove(&(mapping.last, id));
            mapping.is_held = true;
            self.held += 1;
        }
        Some((id, known.is_none()))
    }

    /// No program has bound a port any more: it loses its socket.
    pub fn let_go(&mut self, id: MappingId, out: &mut VecDeque<Output>) {
        if self.mappings.get(&id).is_some_and(|mapping| mapping.is_held) {
            self.close(id, out);
        }
    }

    /// A port loses its socket.
    pub fn close(&mut self, id: MappingId, out: &mut VecDeque<Output>) {
        if let Some(mut mapping) = self.mappings.remove(&id) {
            self.by_age.remove(&(mapping.last, id));
            self.held -= usize::from(mapping.is_held);
            self.ids.remove(&mapping.app);
            for (way, spread) in mapping.spread.iter_mut().enumerate() {
                if let Some(due) = spread.due() {
                    self.due.remove(&(due, id, way));
                }
                out.extend(spread.rest());
            }
            out.extend(mapping.flows.into_values().map(|flow| Output::Record(Record::Udp(Box::new(flow)))));
            out.push_back(Output::Unmap { mapping: id });
        }
    }

    /// A datagram for a program, or a train of them.
    pub fn received(
        &mut self,
        now: Instant,
        id: MappingId,
        from: SocketAddr,
        (bytes, size): (Vec<u8>, Option<u16>),
        marks: (u8, u8),
        out: &mut VecDeque<Output>,
    ) {
        self.touch(now, id);
        let Some(mapping) = self.mappings.get_mut(&id) else { return };
        let app = mapping.app;
        if from.is_ipv4() != app.is_ipv4() || bytes.len() < HEADROOM {
            return;
        }
        let train = train_of(bytes.len() - HEADROOM, size);
        if from.port() == DNS {
            let lookups = &mut mapping.lookups;
            let answers = pieces(&bytes[HEADROOM..], train);
            let exchanges = answers.filter_map(|answer| lookups.answered(now, app, from, answer, false));
            out.extend(exchanges.map(|exchange| Output::Record(Record::Dns(exchange))));
        } else {
            mapping.flow_from(now, from, out).received(now, pieces(&bytes[HEADROOM..], train));
        }
        let datagrams = count(bytes.len() - HEADROOM, train);
        let packet = Output::Packet(dress(from, app, (bytes, train), marks));
        self.pass(now, (id, DOWN), datagrams, packet, out);
    }

    /// What a server has said before answers a question to it that was not sent.
    pub fn answered(
        &mut self,
        now: Instant,
        id: MappingId,
        server: SocketAddr,
        bytes: Vec<u8>,
        out: &mut VecDeque<Output>,
    ) {
        self.touch(now, id);
        let Some(mapping) = self.mappings.get_mut(&id) else { return };
        let app = mapping.app;
        if server.is_ipv4() != app.is_ipv4() || bytes.len() < HEADROOM {
            return;
        }
        let exchange = mapping.lookups.answered(now, app, server, &bytes[HEADROOM..], true);
        out.extend(exchange.map(|exchange| Output::Record(Record::Dns(exchange))));
        out.push_back(Output::Packet(dress(server, app, (bytes, None), (0, HOP_LIMIT))));
    }

    /// The network reports the outcome of a datagram.
    pub fn failed(
        &mut self,
        id: MappingId,
        to: SocketAddr,
        (reporter, trouble, hop_limit): (Option<IpAddr>, Trouble, u8),
        data: &[u8],
        out: &mut VecDeque<Output>,
    ) {
        let Some(mapping) = self.mappings.get_mut(&id) else { return };
        let app = mapping.app;
        let place = mapping.place(to);
        let flow = mapping.flows.get_mut(&place);
        flow.into_iter().filter_map(|flow| flow.icmp_errors.as_mut()).for_each(|errors| *errors += 1);
        if to.is_ipv4() != app.is_ipv4() {
            return;
        }
        // The datagram as the program's kernel knows it: its headers, and how it begins.
        let ip = header_len(to.ip());
        let data = &data[..data.len().min(icmp::most_quoted(to.is_ipv4()) - ip - udp::HEADER)];
        let mut quoted = vec![0; ip + udp::HEADER];
        write(&header(app, to, (0, HOP_LIMIT)), udp::HEADER + data.len(), &mut quoted);
        udp::write(app.port(), to.port(), data.len(), &mut quoted[ip..]);
        quoted.extend(data);
        let reporter = reporter.filter(|ip| ip.is_ipv4() == to.is_ipv4()).unwrap_or(to.ip());
        let error = icmp::error(reporter, app.ip(), trouble, &quoted, hop_limit);
        out.extend(error.map(|packet| Output::Packet(Packet::finished(packet))));
    }

    /// What was seen so far of ports that have their sockets.
    pub fn flows(&self) -> impl Iterator<Item = &UdpFlow> {
        self.mappings.values().flat_map(|mapping| mapping.flows.values())
    }

    /// When the next datagram is to be passed on, or the next port has been silent for long enough.
    pub fn deadline(&self) -> Option<Deadline> {
        let due = self.due.first().map(|(at, ..)| Deadline { at: *at, why: SPREAD });
        let silent = self.by_age.first().map(|(last, _)| Deadline { at: *last + LIFETIME, why: SILENT_PORT });
        Deadline::earliest([due, silent])
    }

    /// Passes on what is due. Ports that have been silent for long enough lose their sockets.
    pub fn timeout(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        while let Some((_, id, way)) = self.due.first().copied().filter(|(at, ..)| *at <= now) {
            self.due.pop_first();
            let Some(mapping) = self.mappings.get_mut(&id) else { continue };
            let spread = &mut mapping.spread[way];
            spread.release(now, out);
            self.due.extend(spread.due().map(|due| (due, id, way)));
        }
        while let Some((last, id)) = self.by_age.first().copied() {
            if now < last + LIFETIME {
                return;
            }
            self.close(id, out);
        }
    }
}

impl Mapping {
    fn new(now: Instant, app: SocketAddr) -> Self {
        let (lookups, flows, strangers, callers, spread) = Default::default();
        Self { app, last: now, is_held: false, lookups, flows, strangers, callers, spread }
    }

    /// Where what is kept of a peer is: by itself, or with its network.
    fn place(&self, peer: SocketAddr) -> SocketAddr {
        let rest = rest(peer);
        if !self.flows.contains_key(&peer) && self.strangers.contains(&rest) { rest } else { peer }
    }

    /// What is kept of a peer that the program speaks to.
    fn flow(&mut self, now: Instant, peer: SocketAddr, out: &mut VecDeque<Output>) -> &mut UdpFlow {
        let place = self.place(peer);
        self.flow_at(now, place, out)
    }

    /// What is kept of a peer that speaks to the program. Strangers have half of the places, and a network its part of them; of what is beyond
    /// that, its datagrams are counted together.
    fn flow_from(&mut self, now: Instant, peer: SocketAddr, out: &mut VecDeque<Output>) -> &mut UdpFlow {
        let mut place = self.place(peer);
        if !self.flows.contains_key(&place) {
            if !self.callers.has_place(peer.ip(), self.callers.all(), MOST_PEERS) {
                if self.callers.has_share(peer.ip(), MOST_PEERS) {
                    place = rest(peer);
                }
                if self.callers.all() * 2 >= MOST_PEERS {
                    let strangers = self.flows.iter().filter(|(peer, _)| self.strangers.contains(peer));
                    let oldest = strangers.min_by_key(|(_, flow)| flow.last()).map(|(peer, _)| *peer);
                    oldest.into_iter().for_each(|oldest| self.forget(oldest, out));
                }
            }
            self.strangers.insert(place);
            self.callers.add(place.ip());
        }
        self.flow_at(now, place, out)
    }

    fn flow_at(&mut self, now: Instant, peer: SocketAddr, out: &mut VecDeque<Output>) -> &mut UdpFlow {
        if self.flows.len() >= MOST_PEERS && !self.flows.contains_key(&peer) {
            let oldest = self.flows.iter().min_by_key(|(_, flow)| flow.last()).map(|(peer, _)| *peer);
            oldest.into_iter().for_each(|oldest| self.forget(oldest, out));
        }
        let app = self.app;
        self.flows.entry(peer).or_insert_with(|| UdpFlow::new(now, app, peer))
    }

    /// A peer makes room for another.
    fn forget(&mut self, peer: SocketAddr, out: &mut VecDeque<Output>) {
        if self.strangers.remove(&peer) {
            self.callers.remove(peer.ip());
        }
        let flow = self.flows.remove(&peer);
        out.extend(flow.map(|flow| Output::Record(Record::Udp(Box::new(flow)))));
    }
}

/// Stands for all of a peer's network that has no place by itself: no datagram is from port 0.
fn rest(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(network(peer.ip()), 0)
}

fn header(from: SocketAddr, to: SocketAddr, (traffic_class, hop_limit): (u8, u8)) -> Header {
    let (source, destination) = (from.ip(), to.ip());
    Header { source, destination, protocol: UDP, traffic_class, hop_limit, whole: false, fragment: None }
}

/// The size of a train's datagrams, if `len` bytes in pieces of `size` are more than one.
fn train_of(len: usize, size: Option<u16>) -> Option<u16> {
    size.filter(|size| (1..len).contains(&usize::from(*size)))
}

/// How many datagrams `len` bytes are.
fn count(len: usize, train: Option<u16>) -> u32 {
    train.map_or(1, |size| len.div_ceil(usize::from(size)) as u32)
}

/// The datagrams of a train, or the one that is none.
fn pieces(data: &[u8], train: Option<u16>) -> impl Iterator<Item = &[u8]> {
    data.chunks(train.map_or(usize::MAX, usize::from))
}

/// Writes headers before a datagram that begins behind the headroom, or before a train of them.
fn dress(from: SocketAddr, to: SocketAddr, (mut bytes, train): (Vec<u8>, Option<u16>), marks: (u8, u8)) -> Packet {
    let (ip, data) = (header_len(to.ip()), bytes.len() - HEADROOM);
    let (start, transport) = (HEADROOM - udp::HEADER - ip, HEADROOM - udp::HEADER);
    write(&header(from, to, marks), udp::HEADER + data, &mut bytes[start..]);
    udp::write(from.port(), to.port(), data, &mut bytes[transport..]);
    let sum = checksum::fold(checksum::pseudo_header(from.ip(), to.ip(), UDP, udp::HEADER + data));
    let at = transport + usize::from(udp::CHECKSUM_AT);
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let segments = train.map(|size| (size, (ip + udp::HEADER) as u16));
    Packet { bytes: Arc::new(bytes), start, checksum: Some((ip as u16, udp::CHECKSUM_AT)), segments }
}
