//! Addresses of a scenario's links, and the ways between them: the same in virtual time and in the kernel's tables.
//!
//! Link number n is the subnet 198.18.n.0/30 and 2001:db8:ff00:n::/64, its first end .1 and its second .2. A packet for an
//! address goes to the far end of that address's link and over it, by the fewest hops; if no router leads there, to the
//! owner over any other link of its. Of several ways the one over the link that is written first is taken. Ways chosen by
//! hand come before all that. A packet never passes through a host, nor through the owner of its address.

use super::{Flow, Scenario};
use headstart_core::path::Family;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One end of a link: where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// The link, by its place in [`Scenario::wires`].
    pub wire: usize,
    /// Which of its ends.
    pub side: usize,
}

impl End {
    /// Its address.
    pub fn address(self, family: Family) -> IpAddr {
        let (wire, host) = (self.wire as u8, self.side as u8 + 1);
        match family {
            Family::V4 => Ipv4Addr::new(198, 18, wire, host).into(),
            Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0xff00, wire.into(), 0, 0, 0, host.into()).into(),
        }
    }

    /// Length of its subnet's prefix.
    pub fn prefix(family: Family) -> u8 {
        match family {
            Family::V4 => 30,
            Family::V6 => 64,
        }
    }

    /// The other end of its link.
    pub fn far(self) -> Self {
        Self { wire: self.wire, side: 1 - self.side }
    }
}

/// Which link a packet takes next, for each node, family and destination.
#[derive(Clone, Debug)]
pub struct Routes {
    /// `ways[family][end][node]`, ends as 2 * wire + side.
    ways: [Vec<Vec<Option<usize>>>; 2],
}

impl Routes {
    /// Works out all ways. The error has the line of the route by hand that leads in a circle, and why.
    pub fn of(scenario: &Scenario) -> Result<Self, (usize, String)> {
        let ends = || (0..scenario.wires.len()).flat_map(|wire| [End { wire, side: 0 }, End { wire, side: 1 }]);
        let mut routes = Self {
            ways: [Family::V4, Family::V6].map(|family| ends().map(|end| ways_to(scenario, family, end)).collect()),
        };
        for route in &scenario.by_hand {
            for family in
                [Family::V4, Family::V6].into_iter().filter(|family| scenario.wires[route.over].carries(*family))
            {
                for end in
                    ends().filter(|end| owner(scenario, *end) == route.to && scenario.wires[end.wire].carries(family))
                {
                    routes.ways[place(family)][2 * end.wire + end.side][route.at] = Some(route.over);
                }
            }
        }
        // A way by hand may cut off one address of a node; a circle is one that cuts off all of them.
        for route in &scenario.by_hand {
            for family in [Family::V4, Family::V6] {
                let ends = ends().filter(|end| owner(scenario, *end) == route.to);
                let ways: Vec<_> = ends.map(|end| routes.way(scenario, family, route.at, end)).collect();
                if !ways.iter().any(|way| matches!(way, Ok(Some(_)))) {
                    ways.into_iter().collect::<Result<Vec<_>, _>>().map_err(|reason| (route.line, reason))?;
                }
            }
        }
        Ok(routes)
    }

    /// The link that a packet at `node` for the address at `end` takes; none if there is no way or it has arrived.
    pub fn next(&self, family: Family, node: usize, end: End) -> Option<usize> {
        *self.ways[place(family)].get(2 * end.wire + end.side)?.get(node)?
    }

    /// The two ends of a flow: the address that `from` sends from, and that of `to`. Says why there is no way, there or back.
    pub fn ends(&self, scenario: &Scenario, flow: &Flow) -> Result<[End; 2], String> {
        let name = |node: usize| scenario.nodes[node].name.as_str();
        let carrying = |end: &End| scenario.wires[end.wire].carries(flow.family);
        let candidates = (0..scenario.wires.len())
            .filter(|wire| flow.over.is_none_or(|over| over == *wire))
            .filter_map(|wire| Some(End { wire, side: scenario.wires[wire].side(flow.to)? }))
            .filter(carrying);
        let ways = candidates.filter_map(|end| {
            let way = self.way(scenario, flow.family, flow.from, end).ok().flatten()?;
            Some((way.len(), *way.first()?, end))
        });
        let (_, first, to) = ways.min_by_key(|(hops, ..)| *hops).ok_or_else(|| {
            let family = if flow.family == Family::V4 { "IPv4" } else { "IPv6" };
            format!(
                "no path from {} to {} over {family}: connect them by links that carry it and routers (hosts do not forward)",
                name(flow.from),
                name(flow.to)
            )
        })?;
        let side = scenario.wires[first].side(flow.from).ok_or("a way that begins elsewhere")?;
        let from = End { wire: first, side };
        match self.way(scenario, flow.family, flow.to, from)? {
            Some(_) => Ok([from, to]),
            None => Err(format!("no path back from {} to {}", name(flow.to), name(flow.from))),
        }
    }

    /// The links from `node` to the address at `end`; none if there is no way. Says so if it goes in a circle.
    fn way(&self, scenario: &Scenario, family: Family, node: usize, end: End) -> Result<Option<Vec<usize>>, String> {
        let (mut at, mut way, mut passed) = (node, Vec::new(), vec![node]);
        while at != owner(scenario, end) {
            let Some(wire) = self.next(family, at, end) else { return Ok(None) };
            let Some(side) = scenario.wires[wire].side(at) else { return Ok(None) };
            at = scenario.wires[wire].ends[1 - side];
            way.push(wire);
            let again = passed.contains(&at);
            passed.push(at);
            if again {
                let names: Vec<_> = passed.iter().map(|node| scenario.nodes[*node].name.as_str()).collect();
                let to = &scenario.nodes[owner(scenario, end)].name;
                return Err(format!("the routes to {to} form a loop: {}", names.join(" - ")));
            }
            if at != owner(scenario, end) && !scenario.nodes[at].routes {
                return Ok(None);
            }
        }
        Ok(Some(way))
    }
}

/// The node whose address is at that end.
pub fn owner(scenario: &Scenario, end: End) -> usize {
    scenario.wires[end.wire].ends[end.side]
}

fn place(family: Family) -> usize {
    usize::from(family == Family::V6)
}

/// The first link of the way to `end`, for every node.
fn ways_to(scenario: &Scenario, family: Family, end: End) -> Vec<Option<usize>> {
    let mut ways = vec![None; scenario.nodes.len()];
    if !scenario.wires[end.wire].carries(family) {
        return ways;
    }
    let to = owner(scenario, end);
    let across = owner(scenario, end.far());
    ways[across] = Some(end.wire);
    spread(scenario, family, to, &mut ways, VecDeque::from([across]));
    // A node that cannot get to that link takes another of the owner's.
    let mut beside = VecDeque::new();
    for (n, wire) in scenario.wires.iter().enumerate().filter(|(_, wire)| wire.carries(family)) {
        if let Some(side) = wire.side(to) {
            let neighbour = wire.ends[1 - side];
            if ways[neighbour].is_none() {
                ways[neighbour] = Some(n);
                beside.push_back(neighbour);
            }
        }
    }
    spread(scenario, family, to, &mut ways, beside);
    ways
}

/// Breadth first, away from `to`: a node next to a router that has a way goes through it.
fn spread(scenario: &Scenario, family: Family, to: usize, ways: &mut [Option<usize>], mut frontier: VecDeque<usize>) {
    while let Some(node) = frontier.pop_front() {
        if !scenario.nodes[node].routes {
            continue;
        }
        for (n, wire) in scenario.wires.iter().enumerate().filter(|(_, wire)| wire.carries(family)) {
            let Some(side) = wire.side(node) else { continue };
            let next = wire.ends[1 - side];
            if next != to && ways[next].is_none() {
                ways[next] = Some(n);
                frontier.push_back(next);
            }
        }
    }
}
