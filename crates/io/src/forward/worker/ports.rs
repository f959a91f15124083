//! Datagrams: sockets that are no connections, and what the network says of what they sent.

use super::asked::Strangers;
use super::{BATCH, MAPPINGS, Port, Teller, Whose, Worker, sockets};
use crate::driver::Hands;
use crate::forward::sockets::Origin;
use crate::poll::Interest;
use crate::sys::datagram::{self, Around, Cutting, Lost};
use crate::sys::train;
use crate::sys::tun::ROOM;
use headstart_core::forward::{FlowId, HEADROOM, Input, MappingId};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use headstart_core::wire::ip::HOP_LIMIT;
use headstart_core::wire::ip::icmp::most_quoted;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// The port of DNS.
const DNS: u16 = 53;
/// Own ports that a datagram passes before it counts as one that is led back without end. A program of another namespace with an address
/// of this host may have the number of one of our ports by chance; of one after the other it has not.
const TURNS: u8 = 3;

impl Port {
    /// Sends datagrams; the errno if that fails.
    fn send(
        &mut self,
        to: SocketAddr,
        data: &[u8],
        (traffic_class, hop_limit, cutting): (u8, u8, Cutting),
        train: Option<u16>,
    ) -> Option<i32> {
        if self.cutting != Some(cutting) && datagram::cut(&self.socket, to.is_ipv4(), cutting).is_ok() {
            self.cutting = Some(cutting);
        }
        let around = Around { traffic_class, hop_limit, from: self.asked.at(to) };
        let sent = match train {
            Some(size) => train::send_around(&self.socket, to, data, around, size),
            None => datagram::past_refusals(|| datagram::send_around(&self.socket, to, data, around)),
        };
        sent.err()?.raw_os_error()
    }
}

impl Worker {
    /// A program's port sends its first datagram: it gets one of ours.
    pub(super) fn map(&mut self, now: Instant, mapping: MappingId, app: SocketAddr) {
        let may_return = self.own.is_some() && UdpSocket::bind((app.ip(), 0)).is_ok();
        let turns = if may_return { self.turns(app) } else { 0 };
        if turns >= TURNS {
            self.came_back("a datagram of the forwarder");
        }
        // A program of this host that has just ended leaves its number free: with it, what comes back would look like the program's.
        let port = if may_return { 0 } else { app.port() };
        let address = self.addresses.chosen(now, app.ip(), None, &self.exit);
        let origin = (app.is_ipv4(), Origin { port, address, ..Origin::default() });
        if turns < TURNS {
            self.insert_port(now, mapping, app, (origin, turns));
        } else {
            self.forwarder.handle_input(now, Input::NotMapped { mapping });
        }
    }

    /// Opens a port's socket, from there if it can be had.
    pub(super) fn insert_port(
        &mut self,
        now: Instant,
        mapping: MappingId,
        app: SocketAddr,
        (origin, turns): ((bool, Origin<'_>), u8),
    ) {
        let beside = self.of_the_same_number(app, origin.1.address);
        let whole = (origin.0, Origin { beside: beside.map(|port| port.socket.as_fd()), ..origin.1 });
        if let Ok(socket) = sockets::datagrams(whole, self.tun.takes_trains(), &self.exit)
            && self.poll.add(&socket, MAPPINGS + mapping.0, Interest::Read).is_ok()
        {
            if self.inbound.is_some() && origin.1.address.is_none() {
                // Where that cannot be told, the kernel chooses where answers come from.
                let _ = datagram::tell_destination(&socket, origin.0);
            }
            let asked = Strangers::default();
            self.ports.insert(mapping, Port { socket, cutting: None, app, whose: None, turns, is_bound: false, asked });
            self.by_port.insert(app, mapping);
        } else {
            self.forwarder.handle_input(now, Input::NotMapped { mapping });
        }
    }

    /// The socket of a program's port at another of the addresses that programs have, which began there, at all of them if `address` is one, or the
    /// other way round: a program that has bound a port at any address sends from it at each (IP_PKTINFO).
    fn of_the_same_number(&self, app: SocketAddr, address: Option<IpAddr>) -> Option<&Port> {
        let others = self.inbound.as_ref()?.addresses().iter().filter(|ip| **ip != app.ip());
        let mut ports = others.filter_map(|ip| self.by_port.get(&SocketAddr::new(*ip, app.port())));
        ports.find_map(|mapping| {
            let port = self.ports.get(mapping)?;
            let local = sockets::local(&port.socket).filter(|local| local.is_ipv4() == app.is_ipv4())?;
            let is_beside = local.port() == app.port() && local.ip().is_unspecified() == address.is_some();
            is_beside.then_some(port)
        })
    }

    /// How many of our ports what comes from `app` has passed: one more than the port of ours that this is, if it is one.
    fn turns(&self, app: SocketAddr) -> u8 {
        let is_it = |port: &&Port| {
            port.app.is_ipv4() == app.is_ipv4()
                && sockets::local(&port.socket).is_some_and(|local| local.port() == app.port())
        };
        self.ports.values().find(is_it).map_or(0, |port| port.turns + 1)
    }

    pub(super) fn send_datagram(
        &mut self,
        now: Instant,
        mapping: MappingId,
        to: SocketAddr,
        data: &[u8],
        (traffic_class, hop_limit, whole): (u8, u8, bool),
        train: Option<u16>,
    ) {
        let mut said = Vec::new();
        let mut cutting = self.cutting(whole);
        let trouble = loop {
            let Some(port) = self.ports.get_mut(&mapping) else { return };
            let errno = port.send(to, data, (traffic_class, hop_limit, cutting), train);
            let Some(errno) = errno else { break None };
            if errno != libc::EMSGSIZE {
                break datagram::trouble_of(errno);
            }
            let mut bytes = Vec::with_capacity(ROOM);
            let known = datagram::too_long(&port.socket, &mut bytes, |lost, data| said.push((lost, data.to_vec())));
            // Of a train, some may have been sent.
            match self.cutting_past(cutting, to.ip()).filter(|_| train.is_none()) {
                Some(next) => cutting = next,
                None => break known,
            }
        };
        let most = most_quoted(to.is_ipv4());
        let own = data[..data.len().min(train.map_or(most, usize::from)).min(most)].to_vec();
        said.extend(
            trouble.map(|trouble| (Lost { to, reporter: None, trouble: Some(trouble), hop_limit: HOP_LIMIT }, own)),
        );
        said.into_iter().for_each(|(lost, data)| self.lost_datagram(now, mapping, &lost, data));
    }

    /// Who may cut a program's packet. Where its kernel knows this host's routes, it heeds what they say of lengths, if the program wants that.
    pub(super) fn cutting(&self, whole: bool) -> Cutting {
        match (whole, self.mtu) {
            (false, _) => Cutting::Anyone,
            (true, Some(_)) => Cutting::NobodyKnows,
            (true, None) => Cutting::Nobody,
        }
    }

    /// How to send what this host has refused because it knows the path to be too narrow, if it knows that from a router: it is this router that
    /// the program is to hear. No router says what the host's own routes do.
    pub(super) fn cutting_past(&mut self, refused: Cutting, to: IpAddr) -> Option<Cutting> {
        let is_learned = refused == Cutting::Nobody && self.addresses.is_unbounded(to, &self.exit);
        is_learned.then_some(Cutting::NobodyKnows)
    }

    /// The network says of a datagram, which began so, that it did not arrive.
    fn lost_datagram(&mut self, now: Instant, mapping: MappingId, lost: &Lost, data: Vec<u8>) {
        // One without a port is this host's word about a datagram that was not sent, and was told when it was not.
        if let Some(trouble) = lost.trouble.filter(|_| lost.to.port() != 0) {
            let Lost { to, reporter, hop_limit, .. } = *lost;
            let failed = Input::DatagramFailed { mapping, to, reporter, trouble, data, hop_limit };
            self.forwarder.handle_input(now, failed);
        }
    }

    /// The owner of a port; for ports that query names it is looked up each time, because they are short-lived and reused.
    pub(super) fn identify_port(&mut self, now: Instant, mapping: MappingId, to: SocketAddr) {
        let Some(port) = self.ports.get_mut(&mapping) else { return };
        if port.whose.is_some() && to.port() != DNS {
            return;
        }
        let owner = match &mut self.teller {
            Teller::Kernel { owners, .. } => owners.of_udp(port.app, to).ok().flatten(),
            Teller::Program(told) => {
                let sought = told.ask(now, MAPPINGS + mapping.0, false, port.app, to);
                port.whose = Some(Whose { sought, ..Whose::default() });
                return;
            }
        };
        if let Some(whose) = &port.whose
            && (owner.is_none() || whose.owner == owner)
        {
            return;
        }
        let flow = FlowId(MAPPINGS + mapping.0);
        let (process, sought) = self.look_for(flow, owner, None);
        if let Some(port) = self.ports.get_mut(&mapping) {
            port.whose = Some(Whose { owner, process, sought });
        }
    }

    /// A port is no longer used.
    pub(super) fn unmap(&mut self, mapping: MappingId) {
        if let Some(port) = self.ports.remove(&mapping)
            && self.by_port.get(&port.app) == Some(&mapping)
        {
            self.by_port.remove(&port.app);
        }
        self.neighbours.iter_mut().for_each(|all| all.forget(mapping));
    }

    /// A port that sends datagrams has some, or errors.
    pub(super) fn datagrams(&mut self, now: Instant, mapping: MappingId) {
        for _ in 0..BATCH {
            let Some(port) = self.ports.get(&mapping) else { return };
            self.room.clear();
            self.room.reserve(HEADROOM + ROOM);
            self.room.resize(HEADROOM, 0);
            match datagram::receive(&port.socket, &mut self.room) {
                Ok(arrived) => {
                    self.passed += self.room.len() - HEADROOM;
                    let bytes = self.room.clone();
                    let datagram::Arrived { from, traffic_class, hop_limit, train, at } = arrived;
                    let marks = (traffic_class, hop_limit);
                    if self.is_neighbour(now, mapping, from.ip()) {
                        self.carry_inside(now, (mapping, from, at), &bytes[HEADROOM..], train);
                        continue;
                    }
                    if let (Some(at), Some(port)) = (at, self.ports.get_mut(&mapping)) {
                        port.asked.came(from, at, port.app.ip());
                    }
                    // A stranger may speak first.
                    if self.ports.get(&mapping).is_some_and(|port| port.whose.is_none()) {
                        self.identify_port(now, mapping, from);
                    }
                    self.feed(now, Input::Datagram { mapping, from, bytes, marks, train });
                }
                // An error of an earlier one; the queue has it.
                Err(e) if e.kind() != io::ErrorKind::WouldBlock && e.kind() != io::ErrorKind::OutOfMemory => {}
                Err(_) => break,
            }
        }
        for _ in 0..BATCH {
            let Some(port) = self.ports.get(&mapping) else { return };
            self.room.clear();
            self.room.reserve(ROOM);
            let Ok(lost) = datagram::receive_error(&port.socket, &mut self.room) else { return };
            let data = self.room[..self.room.len().min(most_quoted(lost.to.is_ipv4()))].to_vec();
            self.lost_datagram(now, mapping, &lost, data);
            self.drain(now);
        }
    }
}
