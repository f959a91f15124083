//! Datagrams and echoes: sockets that are no connections, and what the network says of what they sent.

use super::{BATCH, ECHO_V4, ECHO_V6, MAPPINGS, Whose, Worker};
use crate::poll::Interest;
use crate::sys::datagram;
use crate::sys::tun::ROOM;
use headstart_core::forward::{FlowId, HEADROOM, Input, MappingId};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use headstart_core::wire::ip;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// The port of DNS.
const DNS: u16 = 53;

impl Worker {
    pub(super) fn send_datagram(
        &mut self,
        now: Instant,
        mapping: MappingId,
        to: SocketAddr,
        data: &[u8],
        (traffic_class, hop_limit, whole): (u8, u8, bool),
        train: Option<u16>,
    ) {
        self.identify_port(mapping, to);
        let Some(port) = self.ports.get_mut(&mapping) else { return };
        if to.is_ipv4() && port.whole != Some(whole) && datagram::keep_whole(&port.socket, whole).is_ok() {
            port.whole = Some(whole);
        }
        let sent = match train {
            Some(size) => datagram::send_train(&port.socket, to, data, (traffic_class, hop_limit), size),
            None => datagram::past_refusals(|| datagram::send(&port.socket, to, data, traffic_class, hop_limit)),
        };
        let trouble = sent.err().and_then(|e| datagram::trouble_of(e.raw_os_error()?));
        if let Some(trouble) = trouble {
            self.forwarder.handle_input(now, Input::DatagramFailed { mapping, to, reporter: None, trouble });
        }
    }

    /// Whose a port is; who asks names is asked for each time, for such ports are short-lived and used again.
    fn identify_port(&mut self, mapping: MappingId, to: SocketAddr) {
        let Some(port) = self.ports.get_mut(&mapping) else { return };
        if port.whose.is_some() && to.port() != DNS {
            return;
        }
        let owner = self.owners.of_udp(port.app, to).ok().flatten();
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
                    let datagram::Arrived { from, traffic_class, train } = arrived;
                    self.input(now, Input::Datagram { mapping, from, bytes, traffic_class, train });
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
            if let Some(trouble) = lost.trouble {
                let (to, reporter) = (lost.to, lost.reporter);
                self.input(now, Input::DatagramFailed { mapping, to, reporter, trouble });
            }
        }
    }

    pub(super) fn echo_socket(&mut self, v4: bool) -> Option<&OwnedFd> {
        let place = usize::from(!v4);
        if self.echoes[place].is_none() {
            let socket = datagram::echo(v4).ok()?;
            self.exit.ready(&socket).ok()?;
            self.poll.add(&socket, if v4 { ECHO_V4 } else { ECHO_V6 }, Interest::Read).ok()?;
            self.echoes[place] = Some(socket);
        }
        self.echoes[place].as_ref()
    }

    /// Replies to echoes, and errors about requests.
    pub(super) fn echoes(&mut self, now: Instant, v4: bool) {
        for _ in 0..BATCH {
            let Some(socket) = &self.echoes[usize::from(!v4)] else { return };
            self.room.clear();
            self.room.reserve(ROOM);
            if let Ok(arrived) = datagram::receive(socket, &mut self.room) {
                // IPv4 hands the IP header over too.
                let message = if v4 { ip::parse(&self.room).map(|(_, message)| message) } else { Some(&self.room[..]) };
                if let Some(message) = message.map(<[u8]>::to_vec) {
                    self.input(now, Input::Echoed { from: arrived.from.ip(), message });
                }
                continue;
            }
            self.room.clear();
            let Ok(lost) = datagram::receive_error(socket, &mut self.room) else { return };
            if let Some(trouble) = lost.trouble {
                let message = self.room.clone();
                let (to, reporter) = (lost.to.ip(), lost.reporter);
                self.input(now, Input::EchoFailed { to, reporter, message, trouble });
            }
        }
    }
}
