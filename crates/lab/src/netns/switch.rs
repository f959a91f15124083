//! What happens to packets between the client and the servers, in logical time: the access link both ways, each peer's
//! own distance beyond it, and black holes.
//!
//! Pure: frames and moments come in, frames and the moments at which they are due come out. The access link is next to
//! the client, so packets to a peer pass it first, and packets from a peer last.

use super::frame::{self, ETHERNET};
use headstart_core::time::{Duration, Instant};
use headstart_link::{Dropped, Link, LinkSpec, Packet};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    /// From the client.
    Up,
    /// To the client.
    Down,
}

/// One peer beyond the access link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peer {
    /// Time that a packet spends beyond the access link, each way.
    pub one_way: Duration,
    /// Packets to and from it vanish.
    pub black_hole: bool,
}

/// The peers by their address.
pub(super) type Peers = HashMap<IpAddr, Peer>;

/// What becomes of an arriving frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not emulated: forward at once.
    Passed(Vec<u8>),
    /// Taken in; it comes out of [`Switch::release`].
    Held,
    /// The link model dropped it.
    Dropped(Dropped),
    /// It went into a black hole.
    Vanished,
}

/// A frame on its way out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Release {
    /// Which way.
    pub direction: Direction,
    /// When it is due.
    pub due: Instant,
    /// When it came in.
    pub arrived: Instant,
    /// The frame.
    pub bytes: Vec<u8>,
}

struct Held {
    bytes: Vec<u8>,
    arrived: Instant,
    beyond: Duration,
}

impl Packet for Held {
    fn wire_len(&self) -> usize {
        self.bytes.len().saturating_sub(ETHERNET)
    }
}

/// A frame beyond the access link, ordered by moment, then by arrival.
struct Beyond {
    at: Instant,
    order: u64,
    held: Held,
}

impl PartialEq for Beyond {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Beyond {}
impl PartialOrd for Beyond {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Beyond {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// See the module.
pub(super) struct Switch {
    up: Link<Held>,
    down: Link<Held>,
    /// Past the access link, on the way to a distant peer.
    outbound: BinaryHeap<Reverse<Beyond>>,
    /// From a distant peer, not yet at the access link.
    inbound: BinaryHeap<Reverse<Beyond>>,
    order: u64,
    peers: Peers,
}

impl Switch {
    /// A switch for an access link of two directions.
    pub fn new(up: &LinkSpec, down: &LinkSpec, seed: u64) -> Self {
        let mut seeds = fastrand::Rng::with_seed(seed);
        Self {
            up: Link::new(up, seeds.u64(..)),
            down: Link::new(down, seeds.u64(..)),
            outbound: BinaryHeap::new(),
            inbound: BinaryHeap::new(),
            order: 0,
            peers: Peers::new(),
        }
    }

    /// Replaces the peers; packets that are on their way stay on it.
    pub fn set_peers(&mut self, peers: Peers) {
        self.peers = peers;
    }

    /// A frame came in at the moment `at`. Packets that the access link drops later, on their way from a distant peer,
    /// are told to `dropped` by [`Self::release`].
    pub fn arrive(&mut self, direction: Direction, at: Instant, bytes: Vec<u8>) -> Verdict {
        let Some((from, to)) = frame::endpoints(&bytes) else { return Verdict::Passed(bytes) };
        let address = if direction == Direction::Up { to } else { from };
        let peer = self.peers.get(&address).copied().unwrap_or_default();
        if peer.black_hole {
            return Verdict::Vanished;
        }
        let held = Held { bytes, arrived: at, beyond: peer.one_way };
        let pushed = match direction {
            Direction::Up => self.up.push(at, held),
            Direction::Down if peer.one_way.is_zero() => self.down.push(at, held),
            Direction::Down => {
                let beyond = self.beyond(at + peer.one_way, held);
                self.inbound.push(beyond);
                Ok(())
            }
        };
        pushed.map_or_else(Verdict::Dropped, |()| Verdict::Held)
    }

    /// Puts all that is due at `now` into `out`, earliest first.
    pub fn release(&mut self, now: Instant, out: &mut Vec<Release>, mut dropped: impl FnMut(Dropped)) {
        while let Some((due, held)) = self.up.poll(now) {
            if held.beyond.is_zero() {
                out.push(Release { direction: Direction::Up, due, arrived: held.arrived, bytes: held.bytes });
            } else {
                let beyond = self.beyond(due + held.beyond, held);
                self.outbound.push(beyond);
            }
        }
        while let Some(Beyond { at, held, .. }) = pop_due(&mut self.outbound, now) {
            out.push(Release { direction: Direction::Up, due: at, arrived: held.arrived, bytes: held.bytes });
        }
        while let Some(Beyond { at, held, .. }) = pop_due(&mut self.inbound, now) {
            let _ = self.down.push(at, held).map_err(&mut dropped);
        }
        while let Some((due, held)) = self.down.poll(now) {
            out.push(Release { direction: Direction::Down, due, arrived: held.arrived, bytes: held.bytes });
        }
        out.sort_by_key(|release| release.due);
    }

    /// When to call [`Self::release`] next; `None` while nothing is held.
    pub fn next(&self) -> Option<Instant> {
        let links = [self.up.poll_timeout(), self.down.poll_timeout()].into_iter().flatten().map(|d| d.at);
        let beyond = [self.outbound.peek(), self.inbound.peek()].into_iter().flatten().map(|Reverse(b)| b.at);
        links.chain(beyond).min()
    }

    fn beyond(&mut self, at: Instant, held: Held) -> Reverse<Beyond> {
        self.order += 1;
        Reverse(Beyond { at, order: self.order, held })
    }
}

fn pop_due(heap: &mut BinaryHeap<Reverse<Beyond>>, now: Instant) -> Option<Beyond> {
    if heap.peek()?.0.at > now {
        return None;
    }
    heap.pop().map(|Reverse(beyond)| beyond)
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::frame;
    use super::*;

    const CLIENT: &str = "198.18.0.2";
    const NEAR: &str = "198.19.0.1";
    const FAR: &str = "198.19.0.2";
    const HOLE: &str = "198.19.0.3";

    fn packet(from: &str, to: &str) -> Vec<u8> {
        // 1000 bytes of IP: 1 ms at 8 Mbit/s.
        frame(from.parse().unwrap(), to.parse().unwrap(), &[0; 980])
    }

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    /// 8 Mbit/s, 10 ms each way; FAR is 20 ms further each way.
    fn switch() -> Switch {
        let spec = LinkSpec::constant(8_000_000, Duration::from_millis(10));
        let mut switch = Switch::new(&spec, &spec, 1);
        let far = Peer { one_way: Duration::from_millis(20), black_hole: false };
        let hole = Peer { one_way: Duration::ZERO, black_hole: true };
        switch.set_peers([(FAR.parse().unwrap(), far), (HOLE.parse().unwrap(), hole)].into());
        switch
    }

    /// Drives the switch from deadline to deadline until it is empty.
    fn play(switch: &mut Switch) -> Vec<(Direction, Instant)> {
        let mut all = Vec::new();
        while let Some(at) = switch.next() {
            let mut out = Vec::new();
            switch.release(at, &mut out, |dropped| panic!("{dropped}"));
            assert!(out.iter().all(|release| release.due <= at), "nothing leaves early");
            all.extend(out.into_iter().map(|release| (release.direction, release.due)));
        }
        all
    }

    #[test]
    fn a_packet_to_a_near_peer_takes_the_link_and_no_more() {
        let mut switch = switch();
        assert_eq!(switch.arrive(Direction::Up, ms(5), packet(CLIENT, NEAR)), Verdict::Held);
        assert_eq!(play(&mut switch), [(Direction::Up, ms(5 + 1 + 10))]);
    }

    #[test]
    fn a_distant_peer_is_as_far_on_the_way_back_as_on_the_way_out() {
        let mut switch = switch();
        switch.arrive(Direction::Up, ms(0), packet(CLIENT, FAR));
        assert_eq!(play(&mut switch), [(Direction::Up, ms(1 + 10 + 20))]);
        switch.arrive(Direction::Down, ms(31), packet(FAR, CLIENT));
        assert_eq!(play(&mut switch), [(Direction::Down, ms(31 + 20 + 1 + 10))]);
    }

    #[test]
    fn packets_from_a_distant_peer_share_the_access_link_only_when_they_get_there() {
        let mut switch = switch();
        switch.arrive(Direction::Down, ms(0), packet(FAR, CLIENT));
        switch.arrive(Direction::Down, ms(0), packet(NEAR, CLIENT));
        assert_eq!(play(&mut switch), [(Direction::Down, ms(11)), (Direction::Down, ms(31))]);
    }

    #[test]
    fn a_late_caller_changes_no_due_time() {
        let mut switch = switch();
        switch.arrive(Direction::Down, ms(0), packet(FAR, CLIENT));
        let mut out = Vec::new();
        switch.release(ms(500), &mut out, |dropped| panic!("{dropped}"));
        assert_eq!(out.iter().map(|release| release.due).collect::<Vec<_>>(), [ms(31)]);
    }

    #[test]
    fn a_black_hole_swallows_both_directions_and_can_be_closed() {
        let mut switch = switch();
        assert_eq!(switch.arrive(Direction::Up, ms(0), packet(CLIENT, HOLE)), Verdict::Vanished);
        assert_eq!(switch.arrive(Direction::Down, ms(0), packet(HOLE, CLIENT)), Verdict::Vanished);
        switch.set_peers(Peers::new());
        assert_eq!(switch.arrive(Direction::Up, ms(0), packet(CLIENT, HOLE)), Verdict::Held);
    }

    #[test]
    fn arp_passes_at_once() {
        let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
        assert_eq!(switch().arrive(Direction::Up, ms(0), arp.clone()), Verdict::Passed(arp));
    }
}
