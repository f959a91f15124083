//! The machine: packets to their connections, ports and askers, and one list of timers for all of them.

use super::callers::Callers;
use super::datagrams::Datagrams;
use super::echoes::Echoes;
use super::fragments::Fragments;
use super::observed::{Facts, Flow};
use super::tcp::{Arrived, Connection, reset_for};
use super::{Agreed, EchoFlow, FlowId, Input, MappingId, Output, Record, Settings, UdpFlow};
use crate::machine::{Deadline, Machine};
use crate::time::Instant;
use crate::wire::ip::tcp::{self, Flags};
use crate::wire::ip::{self, Header, ICMP, ICMP_V6, TCP, UDP, icmp, udp};
use siphasher::sip::SipHasher13;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// Of connections that their peer has not answered, one of so many makes room when there is no place left: counting them takes as long as that
/// many newcomers.
const MAKE_ROOM: usize = 16;

/// What was forwarded so far, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets of programs.
    pub packets: u64,
    /// Packets of programs that are none, or of a kind that is not forwarded.
    pub left_out: u64,
    /// Those of them that a program may miss.
    pub not_carried: NotCarried,
    /// Connections that were asked for.
    pub flows: u64,
    /// Connections for which there was no place, or no longer one.
    pub refused: u64,
    /// Times that a timer has gone off.
    pub wake_ups: u64,
}

/// What programs sent and the forwarder does not carry. What kernels say by themselves of groups and neighbours (IGMP, ICMPv6) is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotCarried {
    /// Datagrams to groups of hosts.
    pub multicast: u64,
    /// Datagrams to all hosts of a network.
    pub broadcast: u64,
    /// Packets of TCP and UDP to link-local addresses of IPv6.
    pub link_local: u64,
    /// Packets of other protocols.
    pub other_protocols: u64,
}

impl NotCarried {
    fn count(&mut self, header: &Header) {
        let is_known = matches!(header.protocol, TCP | UDP);
        match header.destination {
            IpAddr::V4(ip) if ip.is_multicast() => self.multicast += u64::from(is_known),
            IpAddr::V4(ip) if ip.is_broadcast() => self.broadcast += u64::from(is_known),
            IpAddr::V6(ip) if ip.is_multicast() => self.multicast += u64::from(is_known),
            IpAddr::V6(ip) if ip.is_unicast_link_local() => self.link_local += u64::from(is_known),
            to if is_for_one(to) => self.other_protocols += u64::from(!is_known),
            _ => {}
        }
    }
}

/// A device's traffic, forwarded. See the module.
#[derive(Debug)]
pub struct Forwarder {
    settings: Settings,
    ids: HashMap<(SocketAddr, SocketAddr), FlowId>,
    flows: HashMap<FlowId, Connection>,
    /// Those of them that are over, and wait for their sockets.
    over: usize,
    callers: Callers,
    next: u64,
    datagrams: Datagrams,
    echoes: Echoes,
    fragments: Fragments,
    timers: BTreeSet<(Instant, FlowId)>,
    /// Packets of programs come in a batch.
    batch: bool,
    /// Connections that have put off an acknowledgement since it has begun.
    owing: Vec<FlowId>,
    /// Packets of programs come in a row.
    row: bool,
    /// Connections to whose sockets it has brought something.
    deferring: Vec<FlowId>,
    outputs: VecDeque<Output>,
    tally: Tally,
}

impl Forwarder {
    /// One that forwards nothing yet.
    pub fn new(settings: Settings) -> Self {
        let datagrams = Datagrams::new(settings.most_mappings.max(1));
        Self {
            settings,
            ids: HashMap::new(),
            flows: HashMap::new(),
            over: 0,
            callers: Callers::default(),
            next: 0,
            datagrams,
            echoes: Echoes::default(),
            fragments: Fragments::default(),
            timers: BTreeSet::new(),
            batch: false,
            owing: Vec::new(),
            row: false,
            deferring: Vec::new(),
            outputs: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// How many of a peer's bytes may be read for a program now: after none, [`Output::Resume`] follows when there is room.
    pub fn room(&mut self, now: Instant, flow: FlowId) -> usize {
        let room = self.flows.get_mut(&flow).map_or(0, |connection| connection.room(now));
        self.arm(flow);
        room
    }

    /// What was seen so far of the connections that are open, in the order in which they were asked for.
    pub fn open(&self) -> Vec<&Flow> {
        let mut open: Vec<_> = self.flows.iter().collect();
        open.sort_unstable_by_key(|(id, _)| **id);
        open.into_iter().map(|(_, connection)| &connection.flow).collect()
    }

    /// What was seen so far of datagrams, other than lookups.
    pub fn udp_flows(&self) -> impl Iterator<Item = &UdpFlow> {
        self.datagrams.flows()
    }

    /// What was seen so far of echoes.
    pub fn echo_flows(&self) -> impl Iterator<Item = &EchoFlow> {
        self.echoes.flows()
    }

    /// Whether programs have data on the way, or may yet say more: while they do, nothing may be stopped.
    pub fn is_needed(&self) -> bool {
        self.flows.values().any(|connection| !connection.program_is_done())
    }

    /// Bytes of programs that wait for sockets.
    pub fn waiting(&self) -> usize {
        self.flows.values().map(Connection::waiting).sum()
    }

    /// A packet of a program was damaged, or made so: it is counted, and that is all.
    pub fn leave_out(&mut self) {
        self.tally.packets += 1;
        self.tally.left_out += 1;
    }

    /// Ports that send datagrams.
    pub fn mappings(&self) -> usize {
        self.datagrams.len()
    }

    /// What was forwarded.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    fn packet(&mut self, now: Instant, bytes: Vec<u8>, segment: Option<u16>) {
        self.packet_of(now, bytes, segment, true);
    }

    /// The same, of one that was `whole` when it came, or put together here.
    fn packet_of(&mut self, now: Instant, bytes: Vec<u8>, segment: Option<u16>, whole: bool) {
        self.tally.packets += 1;
        let Some((mut header, payload)) = ip::parse(&bytes) else {
            self.tally.left_out += 1;
            return;
        };
        // What came in pieces may leave in pieces.
        header.whole &= whole;
        if let Some(fragment) = header.fragment {
            let whole = self.fragments.add(now, &header, fragment, payload);
            // Once put together, it is no fragment.
            return whole.map_or((), |packet| self.packet_of(now, packet, None, false));
        }
        let (from, len) = (payload.as_ptr() as usize - bytes.as_ptr() as usize, payload.len());
        if !is_for_one(header.destination) || !is_for_one(header.source) {
            self.tally.left_out += 1;
            self.tally.not_carried.count(&header);
            return;
        }
        match header.protocol {
            TCP => self.segment(now, &header, bytes, (from, from + len), segment),
            UDP => match udp::parse(payload) {
                Some((source, destination, data)) if destination != 0 => {
                    let to = from + udp::HEADER + data.len();
                    let part = (bytes, from + udp::HEADER, to);
                    self.datagrams.packet(now, &header, (source, destination), (part, segment), &mut self.outputs);
                }
                _ => self.tally.left_out += 1,
            },
            ICMP | ICMP_V6 => {
                if !self.echoes.packet(now, &header, payload, &mut self.outputs) {
                    self.tally.left_out += 1;
                    let is_refusal = icmp::is_port_unreachable(header.destination.is_ipv4(), payload);
                    self.outputs.extend(is_refusal.then_some(Output::Unbound));
                }
            }
            _ => {
                self.tally.left_out += 1;
                self.tally.not_carried.count(&header);
            }
        }
    }

    fn segment(
        &mut self,
        now: Instant,
        header: &Header,
        bytes: Vec<u8>,
        (from, to): (usize, usize),
        size: Option<u16>,
    ) {
        let Some((segment, data)) = tcp::parse(&bytes[from..to]) else {
            self.tally.left_out += 1;
            return;
        };
        let app = SocketAddr::new(header.source, segment.source);
        let peer = SocketAddr::new(header.destination, segment.destination);
        let (from, len) = (to - data.len(), data.len());
        let segments = size.map_or(1, |size| len.div_ceil(usize::from(size).max(1)));
        let arrived = Arrived { header, segment, bytes, from, to, segments, batch: self.batch, row: self.row };
        match self.ids.get(&(app, peer)) {
            Some(id) => {
                let id = *id;
                self.with_debts(id, |connection, out| connection.packet(now, arrived, out));
            }
            None if segment.flags.has(Flags::SYN)
                && !segment.flags.has(Flags::ACK)
                && !segment.flags.has(Flags::RST) =>
            {
                self.open_flow(now, (app, peer), &arrived);
            }
            None => {
                self.outputs.extend(reset_for(app, peer, &segment, len).map(Output::Packet));
            }
        }
    }

    fn open_flow(&mut self, now: Instant, ends: (SocketAddr, SocketAddr), syn: &Arrived<'_>) {
        if self.is_full() && !self.make_room(now) {
            self.tally.refused += 1;
            return;
        }
        let (id, first) = self.number(now, ends);
        let connection = Connection::new(now, (id, ends), (syn, first), &self.settings, &mut self.outputs);
        self.keep(ends, connection);
    }

    /// A peer has opened a connection to a program that listens at `app`, by segments of at most `mss`, and the host has `agreed` on so much with it:
    /// the program is called. Its name from now on, as of one that is [connected](Input::Connected); none where there is no place for it.
    pub fn call(
        &mut self,
        now: Instant,
        app: SocketAddr,
        peer: SocketAddr,
        (mss, agreed): (Option<u16>, Agreed),
    ) -> Option<FlowId> {
        let ends = (app, peer);
        let is_one = app.is_ipv4() == peer.is_ipv4() && is_for_one(app.ip()) && is_for_one(peer.ip());
        // None of the program's attempts ends for a call.
        let has_place = self.callers.has_place(peer.ip(), self.flows.len() - self.over, self.settings.most_flows);
        if !is_one || !has_place || self.ids.contains_key(&ends) {
            self.tally.refused += 1;
            return None;
        }
        let (id, first) = self.number(now, ends);
        let connection = Connection::called(now, (id, ends), (first, mss, agreed), &self.settings, &mut self.outputs);
        self.callers.add(peer.ip());
        self.keep(ends, connection);
        Some(id)
    }

    /// A program has bound a port for datagrams, which are to reach it from whomever: the port keeps its socket until [`Self::unbound`]. Its name,
    /// and whether it has no socket yet, which the caller then opens for it, or says that there is [none](Input::NotMapped). None where
    /// there is no place for it.
    pub fn bound(&mut self, now: Instant, app: SocketAddr) -> Option<(MappingId, bool)> {
        self.datagrams.hold(now, app, &mut self.outputs)
    }

    /// No program has bound a port any more.
    pub fn unbound(&mut self, mapping: MappingId) {
        self.datagrams.let_go(mapping, &mut self.outputs);
    }

    /// The name of a new connection, and our first sequence number on it.
    fn number(&mut self, now: Instant, ends: (SocketAddr, SocketAddr)) -> (FlowId, u32) {
        self.tally.flows += 1;
        let id = FlowId(self.next);
        self.next += 1;
        // Not to be guessed, and another for each connection (RFC 6528).
        let mut hasher = SipHasher13::new_with_keys(self.settings.seed, self.next);
        (ends, now.as_nanos()).hash(&mut hasher);
        (id, hasher.finish() as u32)
    }

    fn keep(&mut self, ends: (SocketAddr, SocketAddr), connection: Connection) {
        let id = connection.flow.id;
        self.ids.insert(ends, id);
        self.flows.insert(id, connection);
        self.arm(id);
    }

    fn is_full(&self) -> bool {
        self.flows.len() - self.over >= self.settings.most_flows
    }

    /// Ends connections that wait for an answer, first those to the peer that leaves most of them without one, and of each peer the oldest:
    /// what asks many that are silent takes no place from what asks one. Whether there were any.
    fn make_room(&mut self, now: Instant) -> bool {
        let asked = self.flows.values().filter(|connection| connection.is_asked());
        let mut asked: Vec<_> = asked.map(|connection| (connection.flow.peer.ip(), connection.flow.id)).collect();
        let mut by_peer: HashMap<IpAddr, usize> = HashMap::new();
        asked.iter().for_each(|(peer, _)| *by_peer.entry(*peer).or_default() += 1);
        asked.sort_unstable_by_key(|(peer, id)| (usize::MAX - by_peer[peer], *id));
        let most = asked.len().div_ceil(MAKE_ROOM);
        for (_, id) in asked.into_iter().take(most) {
            self.tally.refused += 1;
            self.with(id, |connection, out| connection.make_room(now, out));
        }
        !self.is_full()
    }

    fn with(&mut self, id: FlowId, f: impl FnOnce(&mut Connection, &mut VecDeque<Output>)) {
        let Some(connection) = self.flows.get_mut(&id) else { return };
        let was_over = connection.is_over();
        f(connection, &mut self.outputs);
        self.over += usize::from(connection.is_over() && !was_over);
        if connection.is_over() && !was_over && connection.flow.accepted {
            self.callers.remove(connection.flow.peer.ip());
        }
        if connection.is_over() {
            // Its ends may be another's from now on; the rest waits for the socket.
            let ends = (connection.flow.app, connection.flow.peer);
            if self.ids.get(&ends) == Some(&id) {
                self.ids.remove(&ends);
            }
            if let Some(at) = connection.armed.take() {
                self.timers.remove(&(at, id));
            }
        }
        self.arm(id);
    }

    /// The socket of a connection is closed: nothing of it is left.
    fn closed(&mut self, flow: FlowId, facts: Option<Facts>) {
        let Some(mut connection) = self.flows.remove(&flow) else { return };
        self.over -= usize::from(connection.is_over());
        if connection.flow.accepted && !connection.is_over() {
            self.callers.remove(connection.flow.peer.ip());
        }
        if let Some(at) = connection.armed {
            self.timers.remove(&(at, flow));
        }
        let ends = (connection.flow.app, connection.flow.peer);
        if self.ids.get(&ends) == Some(&flow) {
            self.ids.remove(&ends);
        }
        connection.flow.facts = facts;
        self.outputs.push_back(Output::Record(Record::Flow(Box::new(connection.flow))));
    }

    /// The same, and remembers a connection that has put off an acknowledgement, or has data for its socket.
    fn with_debts(&mut self, id: FlowId, f: impl FnOnce(&mut Connection, &mut VecDeque<Output>)) {
        let (mut owes, mut defers) = (false, false);
        self.with(id, |connection, out| {
            let (owed, deferred) = (connection.owes(), connection.defers());
            f(connection, out);
            (owes, defers) = (connection.owes() && !owed, connection.defers() && !deferred);
        });
        self.owing.extend(owes.then_some(id));
        self.deferring.extend(defers.then_some(id));
    }

    /// A row of packets is over: sockets are given what it has brought, one after the other.
    fn end_row(&mut self, now: Instant) {
        self.row = false;
        let (batch, mut deferring) = (self.batch, std::mem::take(&mut self.deferring));
        for flow in deferring.drain(..) {
            self.with_debts(flow, |c, out| c.push_deferred(now, batch, out));
        }
        self.deferring = deferring;
    }

    /// Puts the connection's timer into the list, unless one that goes off earlier is there: that one will look again.
    fn arm(&mut self, id: FlowId) {
        let Some(connection) = self.flows.get_mut(&id) else { return };
        let Some((at, _)) = connection.deadline() else { return };
        if connection.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        if let Some(old) = connection.armed.replace(at) {
            self.timers.remove(&(old, id));
        }
        self.timers.insert((at, id));
    }
}

/// Whether an address is one host's: what is for many hosts, or none, is not forwarded.
fn is_for_one(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !(ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified() || ip.is_loopback()),
        IpAddr::V6(ip) => !(ip.is_multicast() || ip.is_unspecified() || ip.is_loopback() || ip.is_unicast_link_local()),
    }
}

impl Machine for Forwarder {
    type Input = Input;
    type Output = Output;

    fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Packet { bytes, segment } => self.packet(now, bytes, segment),
            Input::Connected { flow, mss } => self.with(flow, |c, out| c.connected(now, mss, out)),
            Input::Agreed { flow, agreed } => self.with(flow, |c, _| c.agree(agreed)),
            Input::GivenUp { flow } => self.with(flow, |c, out| c.given_up(now, out)),
            Input::PathMtu { flow, mtu } => self.with(flow, |c, out| c.path_mtu(mtu, out)),
            Input::Handshake { flow, took } => self.with(flow, |c, _| c.flow.handshake = Some(took)),
            Input::Accelerated { flow, to, ahead } => {
                self.with(flow, |c, _| (c.flow.accelerated, c.flow.ahead) = (Some(to), ahead));
            }
            Input::Failed { flow, why } => self.with(flow, |c, out| c.failed(now, why, out)),
            Input::Received { flow, bytes, urgent } => {
                self.with(flow, |c, out| c.received(now, bytes, urgent, out));
            }
            Input::Ended { flow } => self.with(flow, |c, out| c.ended(now, out)),
            Input::Sent { flow, pieces } => {
                let batch = self.batch;
                self.with_debts(flow, |c, out| c.sent(now, pieces, batch, out));
            }
            Input::Row => self.row = true,
            Input::RowEnd => self.end_row(now),
            Input::Batch => self.batch = true,
            Input::BatchEnd => {
                self.end_row(now);
                self.batch = false;
                let mut owing = std::mem::take(&mut self.owing);
                owing.drain(..).for_each(|flow| self.with(flow, |c, out| c.catch_up(out)));
                self.owing = owing;
            }
            Input::Acknowledged { flow, took } => self.with(flow, |c, _| c.flow.requests.trip(took)),
            Input::Delivered { flow, bytes, took } => self.with(flow, |c, _| c.flow.delivered.more(bytes, took)),
            Input::Alive { flow } => self.with(flow, |c, out| c.alive(now, out)),
            Input::Writable { flow } => self.with(flow, |c, out| c.writable(now, out)),
            Input::Closed { flow, facts } => self.closed(flow, facts),
            Input::Datagram { mapping, from, bytes, marks, train } => {
                self.datagrams.received(now, mapping, from, (bytes, train), marks, &mut self.outputs);
            }
            Input::Answered { mapping, server, bytes } => {
                self.datagrams.answered(now, mapping, server, bytes, &mut self.outputs);
            }
            Input::NotMapped { mapping } => self.datagrams.close(mapping, &mut self.outputs),
            Input::DatagramFailed { mapping, to, reporter, trouble, data, hop_limit } => {
                self.datagrams.failed(mapping, to, (reporter, trouble, hop_limit), &data, &mut self.outputs);
            }
            Input::Echoed { from, message, hop_limit } => {
                self.echoes.received(now, from, (message, hop_limit), &mut self.outputs);
            }
            Input::EchoFailed { to, reporter, message, trouble, hop_limit } => {
                self.echoes.failed(to, (reporter, trouble, hop_limit), &message, &mut self.outputs);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.datagrams.timeout(now, &mut self.outputs);
        while let Some((at, id)) = self.timers.first().copied() {
            if now < at {
                return;
            }
            self.timers.pop_first();
            self.tally.wake_ups += 1;
            if let Some(connection) = self.flows.get_mut(&id) {
                connection.armed = None;
                self.with(id, |connection, out| connection.timeout(now, out));
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let flow = self.timers.first().map(|(at, id)| {
            let why = self.flows.get(id).and_then(Connection::deadline).map_or("nothing", |(_, why)| why);
            Deadline { at: *at, why }
        });
        Deadline::earliest([flow, self.datagrams.deadline()])
    }
}
