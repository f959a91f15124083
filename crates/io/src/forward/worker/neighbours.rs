//! Datagrams of callers on this host to ports that programs have bound: no packet from an address that the namespace has too would come back out
//! of it, so each caller has a socket inside.

use super::{BATCH, NEIGHBOURS, Worker};
use crate::forward::inbound::is_here;
use crate::poll::Interest;
use crate::sys::datagram::{self, Around};
use crate::sys::netns::NetNs;
use headstart_core::forward::MappingId;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::HOP_LIMIT;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, ipproto, recv, send, socket_with,
};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// Callers at a time; the one that has been silent for longest makes room.
const MOST: usize = 256;
/// How long a caller is remembered that says nothing. 120 s: RFC 4787, REQ-5.
const LIFETIME: Duration = Duration::from_secs(120);
/// How long it is taken to hold whether an address is this host's, and how many are kept.
const HOLDS: Duration = Duration::from_secs(10);
const MOST_KNOWN: usize = 1024;
/// The longest datagram.
const LONGEST: usize = 65_536;

/// A caller on this host.
struct Caller {
    /// The port that it calls.
    mapping: MappingId,
    at: SocketAddr,
    /// Where it has called, if the kernel tells: its answers come from there.
    called: Option<IpAddr>,
    /// Its socket inside, which is connected to the program's.
    socket: OwnedFd,
    last: Instant,
}

/// See the module.
pub(super) struct Neighbours {
    inside: NetNs,
    callers: BTreeMap<u32, Caller>,
    next: u32,
    known: HashMap<IpAddr, (Instant, bool)>,
}

impl Neighbours {
    pub fn new(inside: NetNs) -> Self {
        Self { inside, callers: BTreeMap::new(), next: 0, known: HashMap::new() }
    }

    /// Whether an address is this host's.
    pub fn is_one(&mut self, now: Instant, ip: IpAddr) -> bool {
        if let Some((_, is_one)) = self.known.get(&ip).filter(|(until, _)| now < *until) {
            return *is_one;
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let is_one = is_here(ip);
        self.known.insert(ip, (now + HOLDS, is_one));
        is_one
    }

    /// Forgets the callers of a port that is closed.
    pub fn forget(&mut self, mapping: MappingId) {
        self.callers.retain(|_, caller| caller.mapping != mapping);
    }

    /// The socket of a caller; whether it is new.
    fn of(&mut self, now: Instant, mapping: MappingId, at: SocketAddr, app: SocketAddr) -> io::Result<(u32, bool)> {
        self.callers.retain(|_, caller| now.since(caller.last) < LIFETIME);
        let known = self.callers.iter().find(|(_, caller)| (caller.mapping, caller.at) == (mapping, at));
        if let Some((number, _)) = known {
            return Ok((*number, false));
        }
        let to = SocketAddr::new(called(at.ip(), app.ip()), app.port());
        let socket = self.inside.run(|| reach(to))??;
        if self.callers.len() >= MOST {
            let oldest = self.callers.iter().min_by_key(|(_, caller)| caller.last).map(|(number, _)| *number);
            oldest.and_then(|number| self.callers.remove(&number));
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.callers.insert(number, Caller { mapping, at, called: None, socket, last: now });
        Ok((number, true))
    }
}

/// Where inside a caller's datagram is for: one from loopback has called loopback.
fn called(caller: IpAddr, app: IpAddr) -> IpAddr {
    match caller {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        _ => app,
    }
}

/// A socket in the namespace of the calling thread that is connected to a port.
fn reach(to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    connect(&socket, &to)?;
    Ok(socket)
}

impl Worker {
    /// Whether a datagram that has come to a port is one of a caller on this host, to a program that has bound it.
    pub(super) fn is_neighbour(&mut self, now: Instant, mapping: MappingId, from: IpAddr) -> bool {
        let is_bound = self.ports.get(&mapping).is_some_and(|port| port.is_bound);
        is_bound && self.neighbours.as_mut().is_some_and(|all| all.is_one(now, from))
    }

    /// Carries it inside, in pieces of `size` if it is a train. What cannot be carried is lost.
    pub(super) fn carry_inside(
        &mut self,
        now: Instant,
        (mapping, from, at): (MappingId, SocketAddr, Option<IpAddr>),
        data: &[u8],
        size: Option<u16>,
    ) {
        let Some(app) = self.ports.get(&mapping).map(|port| port.app) else { return };
        let Some(all) = &mut self.neighbours else { return };
        let Ok((number, is_new)) = all.of(now, mapping, from, app) else { return };
        let Some(caller) = all.callers.get_mut(&number) else { return };
        if is_new && self.poll.add(&caller.socket, NEIGHBOURS + u64::from(number), Interest::Read).is_err() {
            all.callers.remove(&number);
            return;
        }
        (caller.last, caller.called) = (now, at);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut is_refused = false;
        let mut say = |piece: &[u8]| {
            let refused = |sent: Result<usize, Errno>| sent == Err(Errno::CONNREFUSED);
            // An error is of an earlier one.
            if refused(send(&caller.socket, piece, flags)) {
                is_refused = true;
                let _ = send(&caller.socket, piece, flags);
            }
        };
        match size {
            Some(size) => data.chunks(usize::from(size.max(1))).for_each(say),
            // An empty one is one too.
            None => say(data),
        }
        if is_refused {
            self.look_for_the_unbound(now);
        }
    }

    /// A program answers a caller on this host.
    pub(super) fn answer_neighbour(&mut self, now: Instant, number: u64) {
        let Ok(number) = u32::try_from(number) else { return };
        for _ in 0..BATCH {
            let Some(caller) = self.neighbours.as_mut().and_then(|all| all.callers.get_mut(&number)) else { return };
            self.room.clear();
            self.room.resize(LONGEST, 0);
            match recv(&caller.socket, &mut self.room[..], RecvFlags::DONTWAIT) {
                Ok((_, len)) => {
                    caller.last = now;
                    if let Some(port) = self.ports.get(&caller.mapping) {
                        // A caller that has gone hears nothing.
                        let around = Around { traffic_class: 0, hop_limit: HOP_LIMIT, from: caller.called };
                        let _ = datagram::send_around(&port.socket, caller.at, &self.room[..len], around);
                    }
                }
                Err(Errno::CONNREFUSED) => return self.look_for_the_unbound(now),
                Err(_) => return,
            }
        }
    }
}
