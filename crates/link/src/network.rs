//! A network of links in virtual time: nodes, static routes, packets that hop.
//!
//! Each node stores and forwards: a packet that a link releases enters the next link of its route at that very moment.
//! Routes are those with the fewest hops; of several, the one over the link that was connected first, so that they never
//! depend on anything but the order of the calls. Events happen in the order of their logical time, ties by the number of
//! the link. What never happens here: nodes take no time and lose nothing, routes do not change with load or failure, and
//! nothing reads a clock.

use std::collections::{BTreeSet, VecDeque};

use headstart_core::machine::Deadline;
use headstart_core::time::Instant;

use crate::medium::Way;
use crate::{Counters, Dropped, Duplex, DuplexSpec, LinkSpec, Packet};

/// A node of one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

/// One direction of a link of one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(usize);

/// Why a packet did not leave its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The first link did not take it.
    #[error(transparent)]
    Dropped(#[from] Dropped),
    /// No links lead there.
    #[error("no route from {from:?} to {to:?}: connect them, directly or by nodes between")]
    NoRoute {
        /// Where the packet is.
        from: NodeId,
        /// Where it should go.
        to: NodeId,
    },
}

/// A packet and where it goes.
#[derive(Clone)]
struct Routed<P> {
    to: NodeId,
    packet: P,
}

impl<P: Packet> Packet for Routed<P> {
    fn wire_len(&self) -> usize {
        self.packet.wire_len()
    }

    fn damaged(&self, random: u64) -> Option<Self> {
        Some(Self { to: self.to, packet: self.packet.damaged(random)? })
    }
}

/// Two nodes joined: up leads from the first to the second.
struct Cable<P> {
    ends: [NodeId; 2],
    duplex: Duplex<Routed<P>>,
    /// Its entry in the agenda.
    due: Option<Instant>,
}

impl LinkId {
    fn new(cable: usize, way: Way) -> Self {
        Self(2 * cable + way.index())
    }

    fn cable(self) -> usize {
        self.0 / 2
    }

    fn way(self) -> Way {
        Way::BOTH[self.0 % 2]
    }
}

/// A network. See the module.
pub struct Network<P> {
    names: Vec<String>,
    cables: Vec<Cable<P>>,
    /// Cables by the time of their next event.
    agenda: BTreeSet<(Instant, usize)>,
    /// `routes[to][from]`: the first link of the way; rows are made when first asked for.
    routes: Vec<Option<Vec<Option<LinkId>>>>,
    /// Packets that were sent to their own node.
    local: VecDeque<(Instant, NodeId, P)>,
}

impl<P> Default for Network<P> {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            cables: Vec::new(),
            agenda: BTreeSet::new(),
            routes: Vec::new(),
            local: VecDeque::new(),
        }
    }
}

impl<P: Packet> Network<P> {
    /// No nodes, no links.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new node; the name is for people, and need not be unique.
    pub fn add_node(&mut self, name: impl Into<String>) -> NodeId {
        self.names.push(name.into());
        self.forget_routes();
        NodeId(self.names.len() - 1)
    }

    /// The name of a node of this network; empty for a node of another.
    pub fn name(&self, node: NodeId) -> &str {
        self.names.get(node.0).map_or("", String::as_str)
    }

    /// Joins two nodes by one link a direction, which share nothing, and names the two. Packets that are under way take the
    /// new routes from their next node on.
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        a_to_b: &LinkSpec,
        b_to_a: &LinkSpec,
        seed: u64,
    ) -> (LinkId, LinkId) {
        self.join(a, b, &DuplexSpec::wire(a_to_b.clone(), b_to_a.clone()), seed)
    }

    /// As [`Network::connect`], by two directions and what joins them; up leads from `a` to `b`.
    pub fn join(&mut self, a: NodeId, b: NodeId, spec: &DuplexSpec, seed: u64) -> (LinkId, LinkId) {
        let cable = self.cables.len();
        self.cables.push(Cable { ends: [a, b], duplex: Duplex::new(spec, seed), due: None });
        self.forget_routes();
        (LinkId::new(cable, Way::Up), LinkId::new(cable, Way::Down))
    }

    /// A packet leaves `from` for `to` at `now`. An error is what the first link says; what happens later shows in the
    /// counters.
    pub fn send(&mut self, now: Instant, from: NodeId, to: NodeId, packet: P) -> Result<(), Unsent> {
        if from == to {
            let place = self.local.partition_point(|(at, ..)| *at <= now);
            self.local.insert(place, (now, to, packet));
            return Ok(());
        }
        let link = self.first_link(from, to).ok_or(Unsent::NoRoute { from, to })?;
        self.enter(now, link, Routed { to, packet }).map_err(Unsent::Dropped)
    }

    /// The next packet that has arrived at its destination until `now`: when, where, what. In the order of time.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, NodeId, P)> {
        loop {
            let next = self.agenda.first().copied();
            let local = self.local.front().map(|(at, ..)| *at);
            if let Some(at) = local.filter(|at| *at <= now && next.is_none_or(|(due, _)| *at <= due)) {
                let (_, node, packet) = self.local.pop_front()?;
                return Some((at, node, packet));
            }
            let (due, id) = next.filter(|(due, _)| *due <= now)?;
            let cable = self.cables.get_mut(id)?;
            let (ends, released) = (cable.ends, cable.duplex.poll(due));
            self.reschedule(id);
            let Some((at, way, routed)) = released else { continue };
            let node = ends[1 - way.index()];
            if routed.to == node {
                return Some((at, node, routed.packet));
            }
            // A node that has a way to `from` had one when the packet set out; links are never taken away.
            if let Some(onward) = self.first_link(node, routed.to) {
                // A drop is counted by the link.
                let _ = self.enter(at, onward, routed);
            }
        }
    }

    /// When to poll next; `None` while nothing is under way.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let link = self.agenda.first().map(|(at, _)| Deadline { at: *at, why: "network link" });
        let local = self.local.front().map(|(at, ..)| Deadline { at: *at, why: "network local" });
        [local, link].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    /// What one direction has carried so far; zeros for a link of another network.
    pub fn counters(&self, link: LinkId) -> Counters {
        self.cables.get(link.cable()).map(|cable| cable.duplex.counters(link.way())).unwrap_or_default()
    }

    /// Every direction: its id, where it leads from and to, and what it has carried.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, NodeId, NodeId, Counters)> + '_ {
        self.edges().map(|(link, from, to)| (link, from, to, self.counters(link)))
    }

    /// The links of the way from `from` to `to`, in order; `None` if there is no way, empty if they are one node.
    pub fn route(&mut self, from: NodeId, to: NodeId) -> Option<Vec<LinkId>> {
        let (mut node, mut way) = (from, Vec::new());
        while node != to {
            let link = self.first_link(node, to)?;
            way.push(link);
            node = self.cables.get(link.cable())?.ends[1 - link.way().index()];
        }
        Some(way)
    }

    fn enter(&mut self, at: Instant, link: LinkId, routed: Routed<P>) -> Result<(), Dropped> {
        let Some(cable) = self.cables.get_mut(link.cable()) else { return Ok(()) };
        let taken = cable.duplex.push(at, link.way(), routed);
        self.reschedule(link.cable());
        taken
    }

    /// Every direction: its id, where it leads from and to.
    fn edges(&self) -> impl Iterator<Item = (LinkId, NodeId, NodeId)> + '_ {
        self.cables.iter().enumerate().flat_map(|(k, cable)| {
            let [a, b] = cable.ends;
            [(LinkId::new(k, Way::Up), a, b), (LinkId::new(k, Way::Down), b, a)]
        })
    }

    fn reschedule(&mut self, id: usize) {
        let Some(cable) = self.cables.get_mut(id) else { return };
        let due = cable.duplex.poll_timeout().map(|deadline| deadline.at);
        if due != cable.due {
            if let Some(at) = cable.due {
                self.agenda.remove(&(at, id));
            }
            if let Some(at) = due {
                self.agenda.insert((at, id));
            }
            cable.due = due;
        }
    }

    fn forget_routes(&mut self) {
        self.routes.clear();
    }

    fn first_link(&mut self, from: NodeId, to: NodeId) -> Option<LinkId> {
        if to.0 >= self.names.len() {
            return None;
        }
        self.routes.resize(self.names.len(), None);
        if self.routes[to.0].is_none() {
            self.routes[to.0] = Some(self.ways_to(to));
        }
        self.routes[to.0].as_ref()?.get(from.0).copied().flatten()
    }

    /// The first link of the way to `to`, for every node: a breadth-first search backwards from `to`.
    fn ways_to(&self, to: NodeId) -> Vec<Option<LinkId>> {
        let mut hops = vec![usize::MAX; self.names.len()];
        hops[to.0] = 0;
        let mut into: Vec<Vec<NodeId>> = vec![Vec::new(); self.names.len()];
        for (_, from, to) in self.edges() {
            into[to.0].push(from);
        }
        let mut frontier = VecDeque::from([to]);
        while let Some(node) = frontier.pop_front() {
            for &neighbour in &into[node.0] {
                if hops[neighbour.0] == usize::MAX {
                    hops[neighbour.0] = hops[node.0] + 1;
                    frontier.push_back(neighbour);
                }
            }
        }
        let mut first = vec![None; self.names.len()];
        for (link, from, to) in self.edges() {
            let nearer = hops[to.0] != usize::MAX && hops[to.0] + 1 == hops[from.0];
            if nearer && first[from.0].is_none() {
                first[from.0] = Some(link);
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn spec(text: &str) -> LinkSpec {
        parse(text).unwrap().0
    }

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn drain(network: &mut Network<Vec<u8>>) -> Vec<(Instant, NodeId, usize)> {
        std::iter::from_fn(|| network.poll(ms(100_000))).map(|(at, node, packet)| (at, node, packet.len())).collect()
    }

    /// host – router – server, 12 Mbit/s and 10 ms, then 6 Mbit/s and 20 ms.
    fn two_hops() -> (Network<Vec<u8>>, [NodeId; 3]) {
        let mut network = Network::new();
        let nodes = ["host", "router", "server"].map(|name| network.add_node(name));
        let (near, far) = (spec("rate=12mbit,delay=10ms"), spec("rate=6mbit,delay=20ms"));
        network.connect(nodes[0], nodes[1], &near, &near, 1);
        network.connect(nodes[1], nodes[2], &far, &far, 2);
        (network, nodes)
    }

    #[test]
    fn store_and_forward_over_two_hops_adds_up() {
        let (mut network, [host, _, server]) = two_hops();
        network.send(ms(0), host, server, vec![0; 1500]).unwrap();
        network.send(ms(0), host, server, vec![0; 1500]).unwrap();
        // 1 + 10 + 2 + 20; the second waits 1 ms at the router for the slower link.
        assert_eq!(network.poll_timeout().map(|d| (d.at, d.why)), Some((ms(11), "network link")));
        assert_eq!(network.poll(ms(32)), None);
        assert_eq!(drain(&mut network), [(ms(33), server, 1500), (ms(35), server, 1500)]);
        assert_eq!(network.poll_timeout(), None);
        assert_eq!(network.name(server), "server");
    }

    #[test]
    fn a_shared_bottleneck_queues_and_drops_the_flows_of_both_senders() {
        let mut network = Network::new();
        let [a, b, router, sink] = ["a", "b", "router", "sink"].map(|name| network.add_node(name));
        let (lan, narrow) = (spec("lan"), spec("rate=12mbit,delay=5ms,queue=4p"));
        network.connect(a, router, &lan, &lan, 1);
        network.connect(b, router, &lan, &lan, 2);
        let (bottleneck, _) = network.connect(router, sink, &narrow, &narrow, 3);
        for _ in 0..4 {
            network.send(ms(0), a, sink, vec![0; 1500]).unwrap();
            network.send(ms(0), b, sink, vec![0; 1400]).unwrap();
        }
        let arrived = drain(&mut network);
        // The links of `a` have the lower numbers: its four come first, one on the wire and three waiting; one of `b`
        // finds room.
        assert_eq!(arrived.iter().map(|(.., size)| *size).collect::<Vec<_>>(), [1500, 1500, 1500, 1500, 1400]);
        let gaps: Vec<_> = arrived.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_nanos()).collect();
        assert_eq!(gaps, [1_000_000, 1_000_000, 1_000_000, 933_334]);
        let counters = network.counters(bottleneck);
        assert_eq!((counters.packets_in, counters.packets_out, counters.packets_dropped), (8, 5, 3));
    }

    #[test]
    fn ties_are_broken_by_the_order_of_connection_whatever_the_order_of_sending() {
        for swapped in [false, true] {
            let mut network = Network::new();
            let [a, b, c] = ["a", "b", "c"].map(|name| network.add_node(name));
            let wire = spec("delay=10ms");
            network.connect(a, c, &wire, &wire, 1);
            network.connect(b, c, &wire, &wire, 2);
            let mut sends = [(a, 1), (b, 2)];
            if swapped {
                sends.reverse();
            }
            for (from, size) in sends {
                network.send(ms(0), from, c, vec![0; size]).unwrap();
            }
            assert_eq!(drain(&mut network), [(ms(10), c, 1), (ms(10), c, 2)]);
        }
    }

    #[test]
    fn the_way_with_the_fewest_hops_is_taken_and_the_first_connected_of_equals() {
        let mut network: Network<Vec<u8>> = Network::new();
        let [a, b, c, d, alone] = ["a", "b", "c", "d", "alone"].map(|name| network.add_node(name));
        let wire = spec("delay=1ms");
        let (ac, _) = network.connect(a, c, &wire, &wire, 1);
        let (ab, _) = network.connect(a, b, &wire, &wire, 2);
        let (bd, _) = network.connect(b, d, &wire, &wire, 3);
        let (cd, _) = network.connect(c, d, &wire, &wire, 4);
        assert_eq!(network.route(a, d), Some(vec![ac, cd]));
        assert_eq!(network.route(b, d), Some(vec![bd]));
        assert_eq!(network.route(d, a).map(|way| way.len()), Some(2), "and back");
        // A second wire between the same nodes is not used, a shorter way is.
        network.connect(a, b, &wire, &wire, 5);
        assert_eq!(network.route(a, b), Some(vec![ab]));
        let (ad, _) = network.connect(a, d, &wire, &wire, 6);
        assert_eq!(network.route(a, d), Some(vec![ad]));
        assert_eq!(network.route(a, a), Some(vec![]));
        let refused = network.send(ms(0), a, alone, vec![0]).unwrap_err();
        assert_eq!(refused, Unsent::NoRoute { from: a, to: alone });
    }

    #[test]
    fn a_hop_on_a_shared_medium_slows_one_way_by_what_goes_the_other() {
        let last = |answers: usize| {
            let mut network = Network::new();
            let [station, point, server] = ["station", "point", "server"].map(|name| network.add_node(name));
            let air = crate::parse_duplex("medium=wlan:65mbit").unwrap();
            let (up, down) = network.join(station, point, &air, 1);
            network.connect(point, server, &spec("delay=1ms"), &spec("delay=1ms"), 2);
            for _ in 0..100 {
                network.send(ms(0), station, server, vec![0; 1500]).unwrap();
            }
            for _ in 0..answers {
                network.send(ms(0), server, station, vec![0; 1500]).unwrap();
            }
            let arrived = drain(&mut network);
            assert_eq!(arrived.len(), 100 + answers);
            assert_eq!(network.counters(up).packets_out, 100);
            assert_eq!(network.counters(down).packets_out, answers as u64);
            arrived.iter().filter(|(_, node, _)| *node == server).map(|(at, ..)| *at).max().unwrap()
        };
        let (alone, shared) = (last(0), last(100));
        assert!(shared - ms(0) > (alone - ms(0)).mul_f64(1.5), "{alone:?} alone, {shared:?} shared");
    }

    #[test]
    fn a_packet_to_its_own_node_arrives_at_once_in_the_order_of_time() {
        let (mut network, [host, router, _]) = two_hops();
        network.send(ms(0), host, router, vec![0; 1500]).unwrap();
        network.send(ms(20), host, host, vec![0; 2]).unwrap();
        network.send(ms(5), host, host, vec![0; 1]).unwrap();
        assert_eq!(network.poll_timeout().map(|d| d.at), Some(ms(5)));
        assert_eq!(drain(&mut network), [(ms(5), host, 1), (ms(11), router, 1500), (ms(20), host, 2)]);
    }

    #[test]
    fn a_conversation_that_answers_each_arrival_is_the_same_however_time_is_stepped() {
        let talk = |step_ns: Option<u64>| {
            let mut network = Network::new();
            let [host, router, server] = ["host", "router", "server"].map(|name| network.add_node(name));
            let (up, down) = parse("lte,loss=2%").unwrap();
            network.connect(host, router, &up, &down, 77);
            network.connect(router, server, &spec("rate=1gbit,delay=normal:4ms:1ms"), &spec("delay=4ms"), 78);
            for k in 0..200 {
                let _ = network.send(Instant::from_nanos(k * 40_000), host, server, vec![0; 1200]);
            }
            let (mut log, mut now) = (Vec::new(), ms(0));
            while let Some(deadline) = network.poll_timeout() {
                now = step_ns.map_or(deadline.at, |step| Instant::from_nanos(now.as_nanos() + step));
                while let Some((at, node, packet)) = network.poll(now) {
                    log.push((at, node, packet.len()));
                    if node == server {
                        let _ = network.send(at, server, host, vec![0; 60]);
                    }
                }
            }
            log
        };
        let exact = talk(None);
        assert!(exact.len() > 300, "{}", exact.len());
        assert_eq!(exact, talk(None));
        assert_eq!(exact, talk(Some(1_000_003)));
        assert_eq!(exact, talk(Some(50_000_000)));
    }

    #[test]
    fn a_packet_that_is_damaged_on_its_way_arrives_so() {
        let mut network = Network::new();
        let [a, b] = ["a", "b"].map(|name| network.add_node(name));
        network.connect(a, b, &spec("delay=1ms,corrupt=100%"), &spec("delay=1ms"), 1);
        network.send(ms(0), a, b, vec![0; 100]).unwrap();
        let (at, node, packet) = network.poll(ms(9)).unwrap();
        let ones: u32 = packet.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!((at, node, packet.len(), ones), (ms(1), b, 100, 1));
    }
}
