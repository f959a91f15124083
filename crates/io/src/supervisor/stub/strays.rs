//! Datagrams that programs send elsewhere from a socket that leads to the stub, by calls that are not trapped: sendto(2) without
//! flags, sendmsg(2). Nothing listens at their destination in the room, so they are captured on its loopback and sent on from the host,
//! from the address and port that the program sees as its own while nothing else of the host has them.
//!
//! Only in this direction: a connected socket takes datagrams of its peer alone, with or without us.

use super::Post;
use crate::poll::{Interest, Poll};
use crate::supervisor::token::STRAY;
use crate::sys::room::Room;
use headstart_core::wire::ip::{UDP, parse, udp};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with, sockopt,
};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Datagrams that are looked at in a row.
const AT_A_TIME: usize = 32;
/// The largest packet.
const MAX_PACKET: usize = 65_575;

/// Where they are seen: a socket for IPv4, one for IPv6.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct Strays(Vec<OwnedFd>);

impl Strays {
    /// Those of `room`; none where packets may not be looked at (CAP_NET_RAW), and what goes astray is lost.
    pub fn of(room: &Room, poll: &Poll) -> Self {
        let watched = room.packets().into_iter().enumerate();
        let is_watched = |(n, socket): &(usize, OwnedFd)| poll.add(socket, STRAY | *n as u64, Interest::Read).is_ok();
        Self(watched.filter(is_watched).map(|(_, socket)| socket).collect())
    }

    /// Sends on what has been seen by socket `n`.
    pub fn carry_out(&self, n: u64, posts: &[Post], buf: &mut Vec<u8>) {
        let Some(seen) = usize::try_from(n).ok().and_then(|n| self.0.get(n)) else { return };
        buf.resize(buf.len().max(MAX_PACKET), 0);
        for _ in 0..AT_A_TIME {
            let Ok((_, len)) = recv(seen, &mut buf[..], RecvFlags::empty()) else { return };
            let Some((from, to, payload)) = datagram(&buf[..len.min(MAX_PACKET)]) else { continue };
            if !posts.iter().any(|post| [from, to].contains(&post.server)) {
                // Lost, as any datagram may be, where the host does not send it.
                let _ = send_on(from, to, payload);
            }
        }
    }
}

/// Sender, destination and payload of a UDP packet.
fn datagram(packet: &[u8]) -> Option<(SocketAddr, SocketAddr, &[u8])> {
    let (header, rest) = parse(packet).filter(|(header, _)| header.protocol == UDP && header.fragment.is_none())?;
    let (from, to, payload) = udp::parse(rest)?;
    Some((SocketAddr::new(header.source, from), SocketAddr::new(header.destination, to), payload))
}

fn send_on(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> rustix::io::Result<usize> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_broadcast(&socket, true)?;
    if bind(&socket, &from).is_err() {
        let _ = bind(&socket, &SocketAddr::new(from.ip(), 0));
    }
    sendto(&socket, payload, SendFlags::NOSIGNAL, &to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_datagrams_of_udp_are_read() {
        let mut packet = [0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2].to_vec();
        packet.extend([0x30, 0x39, 0, 53, 0, 11, 0, 0, 1, 2, 3]);
        let (from, to) = ("192.0.2.1:12345".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
        assert_eq!(datagram(&packet), Some((from, to, &[1, 2, 3][..])));
        packet[9] = 6;
        assert_eq!(datagram(&packet), None, "TCP");
        packet[9] = 17;
        packet[6] = 0x20;
        assert_eq!(datagram(&packet), None, "a fragment");
    }
}
