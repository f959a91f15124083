//! What was seen of datagrams between a port of a program and a peer, and of QUIC among them (RFC 9312).

use super::observed::{Direction, Trips};
use crate::time::{Duration, Instant};
use crate::wire::quic::{self, Header};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::SocketAddr;

/// Datagrams between a port of a program and a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpFlow {
    /// The program's end.
    pub app: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// When the first came by.
    pub began: Instant,
    /// Those of the program.
    pub up: Direction,
    /// Those of the peer.
    pub down: Direction,
    /// Messages of ICMP about those of the program, this host's own among them; none if they are not seen.
    pub icmp_errors: Option<u32>,
    /// The connection of QUIC that it is, if it is one.
    pub quic: Option<Quic>,
}

/// A connection of QUIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quic {
    /// The version of the client's first datagram.
    pub version: u32,
    /// A hash of the client's connection id.
    pub connection: u64,
    /// From the client's first datagram to the first one of the server (RFC 9312, section 4.1): a round trip, and what the server took.
    pub handshake: Option<Duration>,
    /// Round trips between edges of the spin bit, in the direction to the program (RFC 9312, section 3.8.2); none where it does not spin.
    pub spins: Trips,
    began: Instant,
    spin: Option<bool>,
    edge: Option<Instant>,
}

impl UdpFlow {
    pub(super) fn new(now: Instant, app: SocketAddr, peer: SocketAddr) -> Self {
        let (up, down) = (Direction::default(), Direction::default());
        Self { app, peer, began: now, up, down, icmp_errors: Some(0), quic: None }
    }

    /// When something came by last.
    pub fn last(&self) -> Instant {
        self.up.last.max(self.down.last).unwrap_or(self.began)
    }

    /// The program has sent datagrams.
    pub(super) fn sent<'a>(&mut self, now: Instant, datagrams: impl Iterator<Item = &'a [u8]>) {
        let (mut bytes, mut count) = (0, 0);
        for datagram in datagrams {
            (bytes, count) = (bytes + datagram.len(), count + 1);
            if self.quic.is_none() && self.up.packets == 0 && self.down.packets == 0 {
                self.quic = quic::initial(datagram).map(|(version, id)| Quic::new(now, version, id));
            }
        }
        self.up.data(now, bytes, count, None);
    }

    /// The peer has.
    pub(super) fn received<'a>(&mut self, now: Instant, datagrams: impl Iterator<Item = &'a [u8]>) {
        let (mut bytes, mut count) = (0, 0);
        for datagram in datagrams {
            (bytes, count) = (bytes + datagram.len(), count + 1);
            self.quic.iter_mut().for_each(|quic| quic.received(now, datagram));
        }
        self.down.data(now, bytes, count, None);
    }
}

impl Quic {
    pub(super) fn new(now: Instant, version: u32, id: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(id);
        let connection = hasher.finish();
        Self { version, connection, handshake: None, spins: Trips::default(), began: now, spin: None, edge: None }
    }

    fn received(&mut self, now: Instant, datagram: &[u8]) {
        let handshake = *self.handshake.get_or_insert_with(|| now.since(self.began));
        let Some(Header::Short { spin }) = quic::parse(datagram) else { return };
        if self.spin.replace(spin).is_none_or(|before| before == spin) {
            return;
        }
        if let Some(edge) = self.edge.replace(now) {
            let took = now.since(edge);
            // An end that does not spin may set it at random: edges are then closer than the path is long.
            if took >= handshake / 2 {
                self.spins.trip(took);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn flow() -> UdpFlow {
        UdpFlow::new(at(0), "192.0.2.7:4000".parse().unwrap(), "198.51.100.1:443".parse().unwrap())
    }

    fn initial() -> Vec<u8> {
        let mut datagram = vec![0xc0, 0, 0, 0, 1, 0, 4, 9, 9, 9, 9];
        datagram.resize(1200, 0);
        datagram
    }

    #[test]
    fn datagrams_are_counted_both_ways_with_their_gaps() {
        let mut flow = flow();
        for ms in [0, 20, 40] {
            flow.sent(at(ms), [&[0; 100][..], &[0; 50]].into_iter());
        }
        flow.received(at(45), [&[0; 10][..]].into_iter());
        assert_eq!((flow.up.bytes, flow.up.packets, flow.up.gaps.longest), (450, 6, Duration::from_millis(20)));
        assert_eq!((flow.down.bytes, flow.down.packets, flow.last(), &flow.quic), (10, 1, at(45), &None));
    }

    #[test]
    fn quic_is_timed_by_its_handshake_and_by_its_spin_bit() {
        let mut flow = flow();
        flow.sent(at(5), [&initial()[..]].into_iter());
        flow.received(at(35), [&initial()[..]].into_iter());
        let spins = [(40, false), (50, true), (60, true), (80, false), (110, true), (111, false), (141, true)];
        for (ms, spin) in spins {
            flow.received(at(ms), [&[0x40 | if spin { 0x20 } else { 0 }, 7][..]].into_iter());
        }
        let quic = flow.quic.unwrap();
        assert_eq!((quic.version, quic.handshake), (1, Some(Duration::from_millis(30))));
        // 50 to 80, to 110, not to 111, and from there to 141.
        assert_eq!((quic.spins.count, quic.spins.total), (3, Duration::from_millis(90)));
    }

    #[test]
    fn what_does_not_begin_as_quic_is_none_and_ids_are_told_apart() {
        let mut other = flow();
        other.sent(at(0), [&[0x40; 1200][..]].into_iter());
        other.sent(at(1), [&initial()[..]].into_iter());
        assert_eq!(other.quic, None);
        let id = |last| {
            let (mut flow, mut datagram) = (flow(), initial());
            datagram[10] = last;
            flow.sent(at(0), [&datagram[..]].into_iter());
            flow.quic.unwrap().connection
        };
        assert!(id(9) == id(9) && id(9) != id(8));
    }
}
