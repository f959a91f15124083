//! Echoes: requests of programs go out of raw sockets, or, where a host allows none (Android's apps), of a socket of icmp(7) for each asker,
//! which needs no right and has a number of its own: programs see theirs.

use super::{BATCH, ECHO_V4, ECHO_V6, Worker};
use crate::driver::Hands;
use crate::poll::Interest;
use crate::sys::datagram;
use crate::sys::tun::ROOM;
use headstart_core::forward::Input;
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use headstart_core::wire::ip::{self, HOP_LIMIT};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// Askers that have a socket of their own; the one that is oldest makes room. 64: more than ping at a time.
const MOST: usize = 64;

/// Sockets for echoes.
#[derive(Debug, Default)]
pub(super) struct Echoers {
    /// For all askers of a family, IPv4 first.
    raw: [Option<OwnedFd>; 2],
    /// For one asker each: whether of IPv4, and its number.
    own: VecDeque<((bool, u16), OwnedFd)>,
}

impl Echoers {
    /// The sockets of a family, by place, and the number of its asker where a socket has but one.
    fn of(&self, v4: bool) -> impl Iterator<Item = (&OwnedFd, Option<u16>)> {
        let own = self.own.iter().filter(move |((of, _), _)| *of == v4);
        self.raw[usize::from(!v4)].iter().map(|raw| (raw, None)).chain(own.map(|((_, id), own)| (own, Some(*id))))
    }
}

/// A message with the number of its asker, where a socket has put its own in that place. Its sum is made anew with the packet.
fn numbered(message: &[u8], asker: Option<u16>) -> Vec<u8> {
    let mut message = message.to_vec();
    if let (Some(id), Some(field)) = (asker, message.get_mut(4..6)) {
        field.copy_from_slice(&id.to_be_bytes());
    }
    message
}

impl Worker {
    /// Sends a request for an echo, which routers may cut or not.
    pub(super) fn send_echo(
        &mut self,
        now: Instant,
        to: IpAddr,
        message: Vec<u8>,
        (traffic_class, hop_limit, whole): (u8, u8, bool),
    ) {
        let mut cutting = self.cutting(whole);
        let trouble = loop {
            let Some(socket) = self.echo_socket(to.is_ipv4(), &message) else { return };
            let _ = datagram::cut(socket, to.is_ipv4(), cutting);
            let send = || datagram::send(socket, SocketAddr::new(to, 0), &message, traffic_class, hop_limit);
            let sent = datagram::past_refusals(send);
            if sent.err().and_then(|e| e.raw_os_error()) != Some(libc::EMSGSIZE) {
                return;
            }
            let mut bytes = Vec::with_capacity(ROOM);
            let known = datagram::too_long(socket, &mut bytes, |_, _| {});
            match self.cutting_past(cutting, to) {
                Some(next) => cutting = next,
                None => break known,
            }
        };
        if let Some(trouble) = trouble {
            self.forwarder
                .handle_input(now, Input::EchoFailed { to, reporter: None, message, trouble, hop_limit: HOP_LIMIT });
        }
    }

    fn echo_socket(&mut self, v4: bool, message: &[u8]) -> Option<&OwnedFd> {
        let (place, token) = (usize::from(!v4), if v4 { ECHO_V4 } else { ECHO_V6 });
        if self.echoers.raw[place].is_none()
            && let Ok(socket) = datagram::echo(v4)
        {
            self.exit.ready(&socket).ok()?;
            self.poll.add(&socket, token, Interest::Read).ok()?;
            self.echoers.raw[place] = Some(socket);
        }
        if self.echoers.raw[place].is_some() {
            return self.echoers.raw[place].as_ref();
        }
        let asker = (v4, u16::from_be_bytes([*message.get(4)?, *message.get(5)?]));
        if !self.echoers.own.iter().any(|(of, _)| *of == asker) {
            let socket = datagram::ping(v4).ok()?;
            self.exit.ready(&socket).ok()?;
            self.poll.add(&socket, token, Interest::Read).ok()?;
            if self.echoers.own.len() >= MOST {
                self.echoers.own.pop_front();
            }
            self.echoers.own.push_back((asker, socket));
        }
        self.echoers.own.iter().find(|(of, _)| *of == asker).map(|(_, socket)| socket)
    }

    /// Replies to echoes, and errors about requests.
    pub(super) fn echoes(&mut self, now: Instant, v4: bool) {
        for place in 0..self.echoers.of(v4).count() {
            self.echoes_of(now, v4, place);
        }
    }

    fn echoes_of(&mut self, now: Instant, v4: bool, place: usize) {
        for _ in 0..BATCH {
            let Some((socket, asker)) = self.echoers.of(v4).nth(place) else { return };
            self.room.clear();
            self.room.reserve(ROOM);
            if let Ok(arrived) = datagram::receive(socket, &mut self.room) {
                // A raw socket of IPv4 hands the IP header over too.
                let is_bare = !v4 || asker.is_some();
                let message =
                    if is_bare { Some(&self.room[..]) } else { ip::parse(&self.room).map(|(_, message)| message) };
                if let Some(message) = message.map(|message| numbered(message, asker)) {
                    self.feed(now, Input::Echoed { from: arrived.from.ip(), message, hop_limit: arrived.hop_limit });
                }
                continue;
            }
            self.room.clear();
            let Ok(lost) = datagram::receive_error(socket, &mut self.room) else { return };
            if let Some(trouble) = lost.trouble {
                let message = numbered(&self.room, asker);
                let (to, reporter, hop_limit) = (lost.to.ip(), lost.reporter, lost.hop_limit);
                self.feed(now, Input::EchoFailed { to, reporter, message, trouble, hop_limit });
            }
        }
    }
}
