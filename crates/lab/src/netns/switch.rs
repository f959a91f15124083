//! What happens to packets between the ports, in logical time: links both ways, and beyond them each peer's own distance
//! and black holes.
//!
//! A [`Cable`] joins two ports: what comes in at one leaves by the other. Routes are the business of the kernels at the far
//! ends of the ports, so a network of many nodes is many cables here. The default network has a single one, the access
//! link; it is next to the client, so packets to a distant peer pass it first, and packets from a distant peer last.
//!
//! Super-packets are taken apart here: the models decide about each of their segments. Pure: frames and moments come in,
//! packets and the moments at which they are due come out.

use super::frame;
use super::parcel::{Frame, Parcel};
use headstart_core::time::{Duration, Instant};
use headstart_link::medium::Way;
use headstart_link::{Dropped, Duplex, DuplexSpec, Outcome, Packet};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

/// A port: its place in the emulator's list of ports.
pub(super) type Port = usize;

/// A link between two ports.
#[derive(Clone, Debug)]
pub(super) struct Cable {
    /// What records call it.
    pub name: String,
    /// The ports that it joins; no two cables share one.
    pub ends: [Port; 2],
    /// What it does to packets: up is from the first end to the second, in the default network from the client.
    pub link: DuplexSpec,
    /// How far ahead of its release a packet is handed out, so that it can be told which packets leave together.
    pub ahead: Duration,
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
pub(super) enum Verdict {
    /// Not emulated: forward at once by this port.
    Passed(Port, Frame),
    /// Taken in; its packets come out of [`Switch::release`], or have gone.
    Taken,
}

/// A packet on its way out.
pub(super) struct Release {
    /// By which port.
    pub port: Port,
    /// Over which cable: its place in the switch's list.
    pub cable: usize,
    /// Which way.
    pub way: Way,
    /// When it is due.
    pub due: Instant,
    /// When it came in.
    pub arrived: Instant,
    /// When the link took it out of its queue.
    pub dequeued: Option<Instant>,
    /// The packet.
    pub parcel: Parcel,
}

/// Why a packet does not come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The link model dropped it.
    Dropped(Dropped),
    /// Its peer is a black hole.
    BlackHole,
    /// No cable is plugged in where it came in.
    Unplugged,
}

/// A packet that does not come out.
pub(super) struct Gone {
    /// Over which cable it should have gone, and which way.
    pub course: Option<(usize, Way)>,
    /// When it came in.
    pub arrived: Instant,
    /// When the link took it out of its queue, if it did.
    pub dequeued: Option<Instant>,
    /// When its fate was decided.
    pub at: Instant,
    /// The packet.
    pub parcel: Parcel,
    /// Why.
    pub why: Why,
}

#[derive(Clone)]
struct Held {
    parcel: Parcel,
    arrived: Instant,
    dequeued: Option<Instant>,
    beyond: Duration,
}

impl Packet for Held {
    fn wire_len(&self) -> usize {
        self.parcel.wire_len()
    }

    fn damaged(&self, random: u64) -> Option<Self> {
        Some(Self { parcel: self.parcel.damaged(random)?, ..*self })
    }

    fn dequeued(&mut self, at: Instant) {
        self.dequeued = Some(at);
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
    sockets: Vec<Option<(usize, Way)>>,
    /// Past its cable, on the way to a distant peer.
    outbound: BinaryHeap<Reverse<Beyond>>,
    /// From a distant peer, not yet at its cable.
    inbound: BinaryHeap<Reverse<Beyond>>,
    order: u64,
    peers: Peers,
}

struct Plugged {
    ends: [Port; 2],
    link: Duplex<Held>,
    ahead: Duration,
}

impl Switch {
    /// A switch for these cables. Each draws a seed of its own from `seed`, in their order.
    ///
    /// A port that no cable joins swallows what comes in. Of two cables at one port the later has it.
    pub fn new(cables: &[Cable], seed: u64) -> Self {
        let mut seeds = fastrand::Rng::with_seed(seed);
        let mut sockets = Vec::new();
        let plug = |(n, cable): (usize, &Cable)| {
            for (port, way) in cable.ends.into_iter().zip(Way::BOTH) {
                if sockets.len() <= port {
                    sockets.resize(port + 1, None);
                }
                sockets[port] = Some((n, way));
            }
            Plugged { ends: cable.ends, link: Duplex::new(&cable.link, seeds.u64(..)), ahead: cable.ahead }
        };
        let cables = cables.iter().enumerate().map(plug).collect();
        Self { cables, sockets, outbound: BinaryHeap::new(), inbound: BinaryHeap::new(), order: 0, peers: Peers::new() }
    }

    /// Replaces the peers; packets that are on their way stay on it.
    pub fn set_peers(&mut self, peers: Peers) {
        self.peers = peers;
    }

    /// Makes another link of a cable at `at`; its medium stays. A cable that there is not is none.
    pub fn change(&mut self, cable: usize, at: Instant, link: &DuplexSpec) {
        if let Some(cable) = self.cables.get_mut(cable) {
            cable.link.change(at, link);
        }
    }

    /// A frame came in at `port` at the moment `at`. Packets of it that do not come out are put into `gone`; some may go
    /// later, in [`Self::release`].
    ///
    /// `seen` is shown each packet that is taken in over a cable, before anything is decided.
    pub fn arrive(
        &mut self,
        port: Port,
        at: Instant,
        frame: Frame,
        gone: &mut Vec<Gone>,
        mut seen: impl FnMut(usize, Way, &Parcel),
    ) -> Verdict {
        let all_go = |why, course| move |parcel| Gone { course, arrived: at, dequeued: None, at, parcel, why };
        let Some((n, way)) = self.sockets.get(port).copied().flatten() else {
            gone.extend(frame.parcels().into_iter().map(all_go(Why::Unplugged, None)));
            return Verdict::Taken;
        };
        let Some((from, to)) = frame::endpoints(frame.bytes()) else {
            return Verdict::Passed(self.cables[n].exit(way), frame);
        };
        let address = if way == Way::Up { to } else { from };
        let peer = self.peers.get(&address).copied().unwrap_or_default();
        let parcels = frame.parcels();
        parcels.iter().for_each(|parcel| seen(n, way, parcel));
        if peer.black_hole {
            gone.extend(parcels.into_iter().map(all_go(Why::BlackHole, Some((n, way)))));
            return Verdict::Taken;
        }
        for parcel in parcels {
            let held = Held { parcel, arrived: at, dequeued: None, beyond: peer.one_way };
            if way == Way::Down && !peer.one_way.is_zero() {
                let beyond = self.beyond(at + peer.one_way, n, held);
                self.inbound.push(beyond);
            } else {
                self.cables[n].push(n, way, at, held, gone);
            }
        }
        Verdict::Taken
    }

    /// Puts all that is due at `now` into `out`, earliest first, and over cables that look ahead also what is due soon;
    /// packets that are dropped only now into `gone`.
    pub fn release(&mut self, now: Instant, out: &mut Vec<Release>, gone: &mut Vec<Gone>) {
        let before = out.len();
        self.drain(now, out, gone);
        let ahead = |beyond: &Beyond| now + self.cables[beyond.cable].ahead;
        while let Some(Beyond { at, cable, held, .. }) = pop_due(&mut self.outbound, ahead) {
            out.push(self.cables[cable].release(cable, Way::Up, at, held));
        }
        let mut arrived = false;
        while let Some(Beyond { at, cable, held, .. }) = pop_due(&mut self.inbound, |_| now) {
            self.cables[cable].push(cable, Way::Down, at, held, gone);
            arrived = true;
        }
        if arrived {
            self.drain(now, out, gone);
        }
        out[before..].sort_by_key(|release| release.due);
    }

    /// Takes all that the links let go.
    fn drain(&mut self, now: Instant, out: &mut Vec<Release>, gone: &mut Vec<Gone>) {
        for n in 0..self.cables.len() {
            let until = now + self.cables[n].ahead;
            while let Some((way, outcome)) = self.cables[n].link.poll_outcome(until) {
                match outcome {
                    Outcome::Released(due, held) if way == Way::Up && !held.beyond.is_zero() => {
                        let beyond = self.beyond(due + held.beyond, n, held);
                        self.outbound.push(beyond);
                    }
                    Outcome::Released(due, held) => out.push(self.cables[n].release(n, way, due, held)),
                    Outcome::Dropped(at, why, Held { parcel, arrived, dequeued, .. }) => {
                        let why = Why::Dropped(why);
                        gone.push(Gone { course: Some((n, way)), arrived, dequeued, at, parcel, why });
                    }
                }
            }
        }
    }

    /// When to call [`Self::release`] next; `None` while nothing is held. Not earlier for cables that look ahead.
    pub fn next(&self) -> Option<Instant> {
        let links = self.cables.iter().map(|cable| cable.link.poll_timeout());
        let beyond = [self.outbound.peek(), self.inbound.peek()].into_iter().flatten().map(|Reverse(b)| b.at);
        links.flatten().map(|deadline| deadline.at).chain(beyond).min()
    }

    fn beyond(&mut self, at: Instant, cable: usize, held: Held) -> Reverse<Beyond> {
        self.order += 1;
        Reverse(Beyond { at, order: self.order, cable, held })
    }
}

impl Plugged {
    fn push(&mut self, n: usize, way: Way, at: Instant, held: Held, gone: &mut Vec<Gone>) {
        // Handles, not bytes: the link keeps what it takes, and gives back nothing that it drops.
        let Held { parcel, arrived, .. } = held.clone();
        if let Err(why) = self.link.push(at, way, held) {
            let course = Some((n, way));
            gone.push(Gone { course, arrived, dequeued: None, at, parcel, why: Why::Dropped(why) });
        }
    }

    fn release(&self, cable: usize, way: Way, due: Instant, held: Held) -> Release {
        let Held { parcel, arrived, dequeued, .. } = held;
        Release { port: self.exit(way), cable, way, due, arrived, dequeued, parcel }
    }

    /// The port by which packets leave that go this way.
    fn exit(&self, way: Way) -> Port {
        match way {
            Way::Up => self.ends[1],
            Way::Down => self.ends[0],
        }
    }
}

fn pop_due(heap: &mut BinaryHeap<Reverse<Beyond>>, until: impl Fn(&Beyond) -> Instant) -> Option<Beyond> {
    let first = &heap.peek()?.0;
    if first.at > until(first) {
        return None;
    }
    heap.pop().map(|Reverse(beyond)| beyond)
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::frame;
    use super::super::super_packet::tests::super_packet;
    use super::*;
    use headstart_io::sys::offload::{Offload, Transport};

    const CLIENT: &str = "198.18.0.2";
    const NEAR: &str = "198.19.0.1";
    const FAR: &str = "198.19.0.2";
    const HOLE: &str = "198.19.0.3";

    fn packet(from: &str, to: &str) -> Frame {
        // 1000 bytes of IP: 1 ms at 8 Mbit/s.
        Frame::new(frame(from.parse().unwrap(), to.parse().unwrap(), &[0; 980]), Offload::default()).unwrap()
    }

    /// Nothing goes missing that should not.
    fn arrive(switch: &mut Switch, port: Port, at: Instant, frame: Frame) {
        let mut gone = Vec::new();
        assert!(matches!(switch.arrive(port, at, frame, &mut gone, |_, _, _| {}), Verdict::Taken));
        assert_eq!(gone.len(), 0);
    }

    /// Why the packets of a frame went.
    fn why(switch: &mut Switch, port: Port, at: Instant, frame: Frame) -> Vec<Why> {
        let mut gone = Vec::new();
        assert!(matches!(switch.arrive(port, at, frame, &mut gone, |_, _, _| {}), Verdict::Taken));
        gone.into_iter().map(|gone| gone.why).collect()
    }

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    /// Ports of the access link, the client's first.
    const HOME: Port = 0;
    const SERVERS: Port = 1;

    /// 8 Mbit/s, 10 ms each way; FAR is 20 ms further each way.
    fn switch() -> Switch {
        let link = headstart_link::parse_duplex("rate=8mbit,delay=10ms").unwrap();
        let cable = Cable { name: String::new(), ends: [HOME, SERVERS], link, ahead: Duration::ZERO };
        let mut switch = Switch::new(&[cable], 1);
        let far = Peer { one_way: Duration::from_millis(20), black_hole: false };
        let hole = Peer { one_way: Duration::ZERO, black_hole: true };
        switch.set_peers([(FAR.parse().unwrap(), far), (HOLE.parse().unwrap(), hole)].into());
        switch
    }

    /// Drives the switch from deadline to deadline until it is empty.
    fn play(switch: &mut Switch) -> Vec<(Port, Instant)> {
        let mut all = Vec::new();
        while let Some(at) = switch.next() {
            let (mut out, mut gone) = (Vec::new(), Vec::new());
            switch.release(at, &mut out, &mut gone);
            assert_eq!(gone.len(), 0);
            assert!(out.iter().all(|release| release.due <= at), "nothing leaves early");
            all.extend(out.into_iter().map(|release| (release.port, release.due)));
        }
        all
    }

    #[test]
    fn a_packet_to_a_near_peer_takes_the_link_and_no_more() {
        let mut switch = switch();
        arrive(&mut switch, HOME, ms(5), packet(CLIENT, NEAR));
        assert_eq!(play(&mut switch), [(SERVERS, ms(5 + 1 + 10))]);
    }

    #[test]
    fn a_distant_peer_is_as_far_on_the_way_back_as_on_the_way_out() {
        let mut switch = switch();
        arrive(&mut switch, HOME, ms(0), packet(CLIENT, FAR));
        assert_eq!(play(&mut switch), [(SERVERS, ms(1 + 10 + 20))]);
        arrive(&mut switch, SERVERS, ms(31), packet(FAR, CLIENT));
        assert_eq!(play(&mut switch), [(HOME, ms(31 + 20 + 1 + 10))]);
    }

    #[test]
    fn packets_from_a_distant_peer_share_the_access_link_only_when_they_get_there() {
        let mut switch = switch();
        arrive(&mut switch, SERVERS, ms(0), packet(FAR, CLIENT));
        arrive(&mut switch, SERVERS, ms(0), packet(NEAR, CLIENT));
        assert_eq!(play(&mut switch), [(HOME, ms(11)), (HOME, ms(31))]);
    }

    #[test]
    fn a_late_caller_changes_no_due_time() {
        let mut switch = switch();
        arrive(&mut switch, SERVERS, ms(0), packet(FAR, CLIENT));
        let mut out = Vec::new();
        switch.release(ms(500), &mut out, &mut Vec::new());
        assert_eq!(out.iter().map(|release| release.due).collect::<Vec<_>>(), [ms(31)]);
    }

    #[test]
    fn a_black_hole_swallows_both_directions_and_can_be_closed() {
        let mut switch = switch();
        assert_eq!(why(&mut switch, HOME, ms(0), packet(CLIENT, HOLE)), [Why::BlackHole]);
        assert_eq!(why(&mut switch, SERVERS, ms(0), packet(HOLE, CLIENT)), [Why::BlackHole]);
        switch.set_peers(Peers::new());
        arrive(&mut switch, HOME, ms(0), packet(CLIENT, HOLE));
    }

    #[test]
    fn arp_passes_at_once() {
        let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
        let frame = Frame::new(arp.clone(), Offload::default()).unwrap();
        let Verdict::Passed(port, frame) = switch().arrive(HOME, ms(0), frame, &mut Vec::new(), |_, _, _| {}) else {
            panic!("taken")
        };
        assert_eq!((port, frame.bytes()), (SERVERS, &arp[..]));
    }

    #[test]
    fn cables_side_by_side_do_not_hear_each_other() {
        let cable = |ends, delay_ms: u64| {
            let link = headstart_link::parse_duplex(&format!("rate=8mbit,delay={delay_ms}ms")).unwrap();
            Cable { name: String::new(), ends, link, ahead: Duration::ZERO }
        };
        // Ports 3 and 0, then 1 and 4; nothing is plugged into 2.
        let mut switch = Switch::new(&[cable([3, 0], 10), cable([1, 4], 30)], 1);
        for port in [0, 1, 3, 4] {
            arrive(&mut switch, port, ms(0), packet(CLIENT, NEAR));
        }
        assert_eq!(why(&mut switch, 2, ms(0), packet(CLIENT, NEAR)), [Why::Unplugged]);
        assert_eq!(why(&mut switch, 9, ms(0), packet(CLIENT, NEAR)), [Why::Unplugged]);
        assert_eq!(play(&mut switch), [(0, ms(11)), (3, ms(11)), (4, ms(31)), (1, ms(31))]);
    }

    #[test]
    fn the_models_decide_about_each_segment_of_a_super_packet() {
        let link = headstart_link::parse_duplex("rate=12mbit,delay=10ms,queue=2p").unwrap();
        let cable = Cable { name: String::new(), ends: [HOME, SERVERS], link, ahead: Duration::from_millis(1) };
        let mut switch = Switch::new(&[cable], 1);
        let (bytes, segments) = super_packet(Transport::TcpV4, 5 * 1448, 1448);
        let frame = Frame::new(bytes, Offload { checksum: None, segments: Some(segments) }).unwrap();
        // One is on the wire, two wait, two find no room.
        assert_eq!(why(&mut switch, HOME, ms(0), frame), [Why::Dropped(Dropped::QueueFull); 2]);
        let mut out = Vec::new();
        switch.release(ms(10), &mut out, &mut Vec::new());
        let seen: Vec<_> = out.iter().map(|release| (release.parcel.segment(), release.due)).collect();
        assert_eq!(seen, [(0, ms(11))], "a millisecond ahead, and with its own time");
        switch.release(ms(13), &mut out, &mut Vec::new());
        let seen: Vec<_> = out.iter().map(|release| (release.parcel.segment(), release.due)).collect();
        assert_eq!(seen, [(0, ms(11)), (1, ms(12)), (2, ms(13))]);
    }
}
