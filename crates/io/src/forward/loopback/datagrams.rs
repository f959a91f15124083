//! Datagrams inside, carried to a service outside: each client inside has a socket outside, so that answers find it.

use crate::poll::{Interest, Poll};
use headstart_core::time::{Duration, Instant};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, ipproto, recv, recvfrom, send, sendto,
    socket_with,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Clients of a service at a time; the one that has been silent for longest makes room.
const MOST: usize = 256;
/// How long a client is remembered that says nothing. 120 s: RFC 4787, REQ-5.
const LIFETIME: Duration = Duration::from_secs(120);
/// Datagrams between two looks at everything else.
const BATCH: usize = 64;

/// A client inside.
struct Client {
    at: SocketAddr,
    socket: OwnedFd,
    last: Instant,
}

/// A service for datagrams.
pub(super) struct Port {
    socket: OwnedFd,
    service: SocketAddr,
    token: u64,
    /// By their numbers, which are the second part of their tokens.
    clients: BTreeMap<u32, Client>,
    next: u32,
    room: Vec<u8>,
}

impl Port {
    /// A socket that is bound inside as the service is outside.
    pub fn new(socket: OwnedFd, service: SocketAddr) -> Self {
        Self { socket, service, token: 0, clients: BTreeMap::new(), next: 0, room: vec![0; 65_536] }
    }

    /// Begins to listen under tokens from `token` on.
    pub fn listen(&mut self, poll: &Poll, token: u64) -> std::io::Result<()> {
        self.token = token;
        poll.add(&self.socket, token, Interest::Read)
    }

    /// Something has come: from clients, if the number is 0, or for the client of this number.
    pub fn event(&mut self, now: Instant, poll: &Poll, number: u32) {
        self.clients.retain(|_, client| now.since(client.last) < LIFETIME);
        for _ in 0..BATCH {
            if number != 0 {
                let Some(client) = self.clients.get_mut(&number) else { return };
                // An error is of an earlier one, and is read with this.
                let Ok((_, len)) = recv(&client.socket, &mut self.room[..], RecvFlags::DONTWAIT) else { return };
                client.last = now;
                let _ = sendto(&self.socket, &self.room[..len], SendFlags::DONTWAIT, &client.at);
                continue;
            }
            let Ok((_, len, Some(from))) = recvfrom(&self.socket, &mut self.room[..], RecvFlags::DONTWAIT) else {
                return;
            };
            let Ok(from) = SocketAddr::try_from(from) else { return };
            let known = self.clients.iter().find(|(_, client)| client.at == from).map(|(number, _)| *number);
            let Some(number) = known.or_else(|| self.add(now, poll, from)) else { return };
            if let Some(client) = self.clients.get_mut(&number) {
                client.last = now;
                let _ = send(&client.socket, &self.room[..len], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
        }
    }

    fn add(&mut self, now: Instant, poll: &Poll, at: SocketAddr) -> Option<u32> {
        let family = if self.service.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP)).ok()?;
        connect(&socket, &self.service).ok()?;
        if self.clients.len() >= MOST {
            let oldest = self.clients.iter().min_by_key(|(_, client)| client.last).map(|(number, _)| *number);
            oldest.and_then(|number| self.clients.remove(&number));
        }
        self.next = self.next.checked_add(1)?;
        poll.add(&socket, self.token | u64::from(self.next), Interest::Read).ok()?;
        self.clients.insert(self.next, Client { at, socket, last: now });
        Some(self.next)
    }
}
