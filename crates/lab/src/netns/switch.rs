//! What happens to packets between the ports, in logical time: links both ways, and beyond them each peer's own distance
//! and black holes.
//!
//! A [`Cable`] joins two ports: what comes in at one leaves by the other. Routes are the business of the kernels at the far
//! ends of the ports, so a network of many nodes is many cables here. The default network has a single one, the access
//! link; it is next to the client, so packets to a distant peer pass it first, and packets from a distant peer last.
//!
//! Pure: frames and moments come in, frames and the moments at which they are due come out.

use super::frame::{self, ETHERNET};
use headstart_core::time::{Duration, Instant};
use headstart_link::{Dropped, Link, LinkSpec, Packet};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

/// Which way a packet goes over its cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    /// From the first end to the second: in the default network from the client.
    Up,
    /// From the second end to the first: in the default network to the client.
    Down,
}

/// A port: its place in the emulator's list of ports.
pub(super) type Port = usize;

/// A link between two ports.
#[derive(Clone, Debug)]
pub(super) struct Cable {
    /// The ports that it joins; no two cables share one.
    pub ends: [Port; 2],
    /// From the first end to the second.
    pub up: LinkSpec,
    /// From the second end to the first.
    pub down: LinkSpec,
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
    /// Not emulated: forward at once by this port.
    Passed(Port, Vec<u8>),
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
    /// By which port.
    pub port: Port,
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
    cable: usize,
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
    cables: Vec<Plugged>,
    /// By port: the cable that is plugged in, and the way that a packet takes which comes in here.
    sockets: Vec<Option<(usize, Direction)>>,
    /// Past its cable, on the way to a distant peer.
    outbound: BinaryHeap<Reverse<Beyond>>,
    /// From a distant peer, not yet at its cable.
    inbound: BinaryHeap<Reverse<Beyond>>,
    order: u64,
    peers: Peers,
}

struct Plugged {
    ends: [Port; 2],
    up: Link<Held>,
    down: Link<Held>,
}

impl Switch {
    /// A switch for these cables. Each direction of each draws a seed of its own from `seed`, in their order.
    ///
    /// A port that no cable joins swallows what comes in. Of two cables at one port the later has it.
    pub fn new(cables: &[Cable], seed: u64) -> Self {
        let mut seeds = fastrand::Rng::with_seed(seed);
        let mut sockets = Vec::new();
        let plug = |(n, cable): (usize, &Cable)| {
            for (port, direction) in cable.ends.into_iter().zip([Direction::Up, Direction::Down]) {
                if sockets.len() <= port {
                    sockets.resize(port + 1, None);
                }
                sockets[port] = Some((n, direction));
            }
            Plugged {
                ends: cable.ends,
                up: Link::new(&cable.up, seeds.u64(..)),
                down: Link::new(&cable.down, seeds.u64(..)),
            }
        };
        let cables = cables.iter().enumerate().map(plug).collect();
        Self { cables, sockets, outbound: BinaryHeap::new(), inbound: BinaryHeap::new(), order: 0, peers: Peers::new() }
    }

    /// Replaces the peers; packets that are on their way stay on it.
    pub fn set_peers(&mut self, peers: Peers) {
        self.peers = peers;
    }

    /// A frame came in at `port` at the moment `at`. Packets that a cable drops later, on their way from a distant peer,
    /// are told to `dropped` by [`Self::release`].
    pub fn arrive(&mut self, port: Port, at: Instant, bytes: Vec<u8>) -> Verdict {
        let Some((n, direction)) = self.sockets.get(port).copied().flatten() else { return Verdict::Vanished };
        let cable = &mut self.cables[n];
        let Some((from, to)) = frame::endpoints(&bytes) else {
            return Verdict::Passed(cable.exit(direction), bytes);
        };
        let address = if direction == Direction::Up { to } else { from };
        let peer = self.peers.get(&address).copied().unwrap_or_default();
        if peer.black_hole {
            return Verdict::Vanished;
        }
        let held = Held { bytes, arrived: at, beyond: peer.one_way };
        let pushed = match direction {
            Direction::Up => cable.up.push(at, held),
            Direction::Down if peer.one_way.is_zero() => cable.down.push(at, held),
            Direction::Down => {
                let beyond = self.beyond(at + peer.one_way, n, held);
                self.inbound.push(beyond);
                Ok(())
            }
        };
        pushed.map_or_else(Verdict::Dropped, |()| Verdict::Held)
    }

    /// Puts all that is due at `now` into `out`, earliest first.
    pub fn release(&mut self, now: Instant, out: &mut Vec<Release>, mut dropped: impl FnMut(Dropped)) {
        for n in 0..self.cables.len() {
            while let Some((due, held)) = self.cables[n].up.poll(now) {
                if held.beyond.is_zero() {
                    let port = self.cables[n].exit(Direction::Up);
                    out.push(Release { port, due, arrived: held.arrived, bytes: held.bytes });
                } else {
                    let beyond = self.beyond(due + held.beyond, n, held);
                    self.outbound.push(beyond);
                }
            }
        }
        while let Some(Beyond { at, cable, held, .. }) = pop_due(&mut self.outbound, now) {
            let port = self.cables[cable].exit(Direction::Up);
            out.push(Release { port, due: at, arrived: held.arrived, bytes: held.bytes });
        }
        while let Some(Beyond { at, cable, held, .. }) = pop_due(&mut self.inbound, now) {
            let _ = self.cables[cable].down.push(at, held).map_err(&mut dropped);
        }
        for cable in &mut self.cables {
            while let Some((due, held)) = cable.down.poll(now) {
                let port = cable.exit(Direction::Down);
                out.push(Release { port, due, arrived: held.arrived, bytes: held.bytes });
            }
        }
        out.sort_by_key(|release| release.due);
    }

    /// When to call [`Self::release`] next; `None` while nothing is held.
    pub fn next(&self) -> Option<Instant> {
        let links = self.cables.iter().flat_map(|cable| [cable.up.poll_timeout(), cable.down.poll_timeout()]);
        let beyond = [self.outbound.peek(), self.inbound.peek()].into_iter().flatten().map(|Reverse(b)| b.at);
        links.flatten().map(|deadline| deadline.at).chain(beyond).min()
    }

    fn beyond(&mut self, at: Instant, cable: usize, held: Held) -> Reverse<Beyond> {
        self.order += 1;
        Reverse(Beyond { at, order: self.order, cable, held })
    }
}

impl Plugged {
    /// The port by which packets leave that go this way.
    fn exit(&self, direction: Direction) -> Port {
        match direction {
            Direction::Up => self.ends[1],
            Direction::Down => self.ends[0],
        }
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

    /// Ports of the access link, the client's first.
    const HOME: Port = 0;
    const SERVERS: Port = 1;

    /// 8 Mbit/s, 10 ms each way; FAR is 20 ms further each way.
    fn switch() -> Switch {
        let spec = LinkSpec::constant(8_000_000, Duration::from_millis(10));
        let mut switch = Switch::new(&[Cable { ends: [HOME, SERVERS], up: spec.clone(), down: spec }], 1);
        let far = Peer { one_way: Duration::from_millis(20), black_hole: false };
        let hole = Peer { one_way: Duration::ZERO, black_hole: true };
        switch.set_peers([(FAR.parse().unwrap(), far), (HOLE.parse().unwrap(), hole)].into());
        switch
    }

    /// Drives the switch from deadline to deadline until it is empty.
    fn play(switch: &mut Switch) -> Vec<(Port, Instant)> {
        let mut all = Vec::new();
        while let Some(at) = switch.next() {
            let mut out = Vec::new();
            switch.release(at, &mut out, |dropped| panic!("{dropped}"));
            assert!(out.iter().all(|release| release.due <= at), "nothing leaves early");
            all.extend(out.into_iter().map(|release| (release.port, release.due)));
        }
        all
    }

    #[test]
    fn a_packet_to_a_near_peer_takes_the_link_and_no_more() {
        let mut switch = switch();
        assert_eq!(switch.arrive(HOME, ms(5), packet(CLIENT, NEAR)), Verdict::Held);
        assert_eq!(play(&mut switch), [(SERVERS, ms(5 + 1 + 10))]);
    }

    #[test]
    fn a_distant_peer_is_as_far_on_the_way_back_as_on_the_way_out() {
        let mut switch = switch();
        switch.arrive(HOME, ms(0), packet(CLIENT, FAR));
        assert_eq!(play(&mut switch), [(SERVERS, ms(1 + 10 + 20))]);
        switch.arrive(SERVERS, ms(31), packet(FAR, CLIENT));
        assert_eq!(play(&mut switch), [(HOME, ms(31 + 20 + 1 + 10))]);
    }

    #[test]
    fn packets_from_a_distant_peer_share_the_access_link_only_when_they_get_there() {
        let mut switch = switch();
        switch.arrive(SERVERS, ms(0), packet(FAR, CLIENT));
        switch.arrive(SERVERS, ms(0), packet(NEAR, CLIENT));
        assert_eq!(play(&mut switch), [(HOME, ms(11)), (HOME, ms(31))]);
    }

    #[test]
    fn a_late_caller_changes_no_due_time() {
        let mut switch = switch();
        switch.arrive(SERVERS, ms(0), packet(FAR, CLIENT));
        let mut out = Vec::new();
        switch.release(ms(500), &mut out, |dropped| panic!("{dropped}"));
        assert_eq!(out.iter().map(|release| release.due).collect::<Vec<_>>(), [ms(31)]);
    }

    #[test]
    fn a_black_hole_swallows_both_directions_and_can_be_closed() {
        let mut switch = switch();
        assert_eq!(switch.arrive(HOME, ms(0), packet(CLIENT, HOLE)), Verdict::Vanished);
        assert_eq!(switch.arrive(SERVERS, ms(0), packet(HOLE, CLIENT)), Verdict::Vanished);
        switch.set_peers(Peers::new());
        assert_eq!(switch.arrive(HOME, ms(0), packet(CLIENT, HOLE)), Verdict::Held);
    }

    #[test]
    fn arp_passes_at_once() {
        let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
        assert_eq!(switch().arrive(HOME, ms(0), arp.clone()), Verdict::Passed(SERVERS, arp));
    }

    #[test]
    fn cables_side_by_side_do_not_hear_each_other() {
        let cable = |ends, delay_ms| {
            let spec = LinkSpec::constant(8_000_000, Duration::from_millis(delay_ms));
            Cable { ends, up: spec.clone(), down: spec }
        };
        // Ports 3 and 0, then 1 and 4; nothing is plugged into 2.
        let mut switch = Switch::new(&[cable([3, 0], 10), cable([1, 4], 30)], 1);
        for port in [0, 1, 3, 4] {
            assert_eq!(switch.arrive(port, ms(0), packet(CLIENT, NEAR)), Verdict::Held);
        }
        assert_eq!(switch.arrive(2, ms(0), packet(CLIENT, NEAR)), Verdict::Vanished);
        assert_eq!(switch.arrive(9, ms(0), packet(CLIENT, NEAR)), Verdict::Vanished);
        assert_eq!(play(&mut switch), [(0, ms(11)), (3, ms(11)), (4, ms(31)), (1, ms(31))]);
    }
}
