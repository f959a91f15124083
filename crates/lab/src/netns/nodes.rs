//! A network of any shape out of namespaces: one for each node of a scenario, a veth to the emulator for each link end.
//!
//! Routers forward, hosts do not; the kernel's tables hold the same ways as virtual time takes. Whatever runs on a node is
//! an ordinary program with an ordinary network.

use super::emulator::Emulator;
use super::settings::{PortKind, Settings};
use super::switch::{Cable, Peers};
use super::topology::{
    self, EMULATOR, ENDPOINT, FAST, PREFERRED_CONGESTION_CONTROL, ROUTER, in_ns, plug, port, sysctls,
};
use super::worker::Ports;
use super::{Certificate, Error, shell};
use crate::scenario::routes::{End, Routes, owner};
use crate::scenario::{Invalid, Scenario, Wire};
use headstart_core::path::Family;
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::{LOOPBACK, Mac, Netlink, VethEnd, Via};
use headstart_io::sys::netns::NetNs;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

/// The lab's own, inside.
const HOSTS: &str = "/etc/hosts";

/// The nodes and the links between them; all of it ends when this is dropped.
pub struct Nodes {
    emulator: Emulator,
    /// By place in the scenario.
    nodes: Vec<NetNs>,
    /// Kept so that the ports stay.
    _emulator_ns: NetNs,
    clock: Clock,
}

/// Every end of every link.
fn ends(scenario: &Scenario) -> impl Iterator<Item = End> {
    (0..scenario.wires.len()).flat_map(|wire| [End { wire, side: 0 }, End { wire, side: 1 }])
}

/// Families that a link carries.
fn families(scenario: &Scenario, wire: usize) -> impl Iterator<Item = Family> {
    Family::BOTH.into_iter().filter(move |family| scenario.wires[wire].carries(*family))
}

/// Place of an end's port among the emulator's.
fn place(end: End) -> usize {
    2 * end.wire + end.side
}

/// Locally administered Ethernet addresses: "hs", node (0) or port (1), and the number of the end.
fn mac(end: End, of_port: bool) -> Mac {
    let [high, low] = (place(end) as u16).to_be_bytes();
    [0x02, 0x68, 0x73, u8::from(of_port), high, low]
}

/// Name of an end's interface on its node.
fn interface(end: End) -> String {
    format!("link{}", end.wire)
}

impl Nodes {
    /// Builds the network of `scenario`. Call it inside (see [`super::InnerCommand::enter`]).
    pub fn build(scenario: &Scenario) -> Result<Self, Error> {
        Self::build_with(scenario, &Settings::default())
    }

    /// As [`Self::build`], with the emulator set up by `settings`.
    pub fn build_with(scenario: &Scenario, settings: &Settings) -> Result<Self, Error> {
        let routes = Routes::of(scenario).map_err(|(line, reason)| {
            Error::World(Invalid { origin: scenario.name.clone(), line, reason }.to_string())
        })?;
        let emulator_ns = NetNs::create().map_err(topology::creating)?;
        let nodes = scenario
            .nodes
            .iter()
            .map(|_| NetNs::create().map_err(topology::creating))
            .collect::<Result<Vec<_>, _>>()?;
        let kinds: Vec<_> = scenario.wires.iter().map(|wire| settings.ports_for(&wire.link)).collect();
        let tuned = if kinds.contains(&PortKind::SuperPackets) { FAST } else { &[] };
        in_ns(&emulator_ns, || sysctls(EMULATOR))?;
        for (node, ns) in scenario.nodes.iter().zip(&nodes) {
            in_ns(ns, || {
                sysctls(ENDPOINT)?;
                sysctls(tuned)?;
                Ok(Netlink::open()?.up(LOOPBACK)?)
            })?;
            if node.routes {
                in_ns(ns, || sysctls(ROUTER))?;
            }
        }
        for end in ends(scenario) {
            let (inner, outer) = (interface(end), format!("port{}", place(end)));
            let at_node = VethEnd { name: &inner, mac: mac(end, false), ns: &nodes[owner(scenario, end)] };
            let at_port = VethEnd { name: &outer, mac: mac(end, true), ns: &emulator_ns };
            in_ns(&emulator_ns, || Ok(Netlink::open()?.veth(at_port, at_node)?))?;
        }
        for (n, ns) in nodes.iter().enumerate() {
            in_ns(ns, || join(scenario, &routes, &kinds, n))?;
        }
        let clock = Clock::new();
        let ports = in_ns(&emulator_ns, || {
            let socket = |end: End| port(&format!("port{}", place(end)), kinds[end.wire]);
            let sockets = ends(scenario).map(socket).collect::<Result<_, _>>()?;
            let gather = ends(scenario).map(|end| kinds[end.wire].quantum()).collect();
            Ok(Ports { sockets, gather, probe: (0, mac(End { wire: 0, side: 0 }, false)) })
        })?;
        let cable = |(n, wire): (usize, &Wire)| Cable {
            name: wire.name.clone(),
            ends: [2 * n, 2 * n + 1],
            link: wire.link.clone(),
            ahead: kinds[n].quantum(),
        };
        let cables: Vec<_> = scenario.wires.iter().enumerate().map(cable).collect();
        let emulator = Emulator::start(&cables, scenario.seed, ports, Peers::new(), clock, settings)
            .map_err(Error::io("starting the emulator"))?;
        Ok(Self { emulator, nodes, _emulator_ns: emulator_ns, clock })
    }

    fn node(&self, node: usize) -> Result<&NetNs, Error> {
        self.nodes.get(node).ok_or_else(|| Error::World(format!("unknown node number {node}")))
    }

    /// Runs `f` on a node, in a thread of its own; its sockets stay the node's wherever they are used later.
    pub fn on<T: Send>(&self, node: usize, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_ns(self.node(node)?, || Ok(f()))
    }

    /// Makes `command` run on a node.
    pub fn adopt(&self, node: usize, command: &mut Command) -> Result<(), Error> {
        self.node(node)?.adopt(command).map_err(Error::io("preparing a command"))?;
        command.env_remove(super::enter::INSIDE).env_remove(shell::BLOCK);
        Ok(())
    }

    /// The namespace of a node, for what outlives a call of [`Self::on`].
    pub fn namespace(&self, node: usize) -> Result<NetNs, Error> {
        self.node(node)?.try_clone().map_err(Error::io("keeping a namespace"))
    }

    /// The clock of the emulator.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The emulator's account of itself so far.
    pub fn certificate(&self) -> Certificate {
        self.emulator.certificate()
    }

    /// The emulator's account since the last call of this, which begins a new one.
    pub fn take_certificate(&self) -> Certificate {
        self.emulator.take_certificate()
    }
}

/// Runs `command` (the user's `$SHELL` if empty) on a node, where the names of nodes resolve to their addresses, and
/// `NODE.LINK` to the one on that link. Its exit status as [`super::shell`] has it. Call it inside.
pub fn on_node(scenario: &Scenario, node: usize, command: &[OsString]) -> Result<i32, Error> {
    let nodes = Nodes::build(scenario)?;
    let hosts =
        OpenOptions::new().append(true).open(HOSTS).and_then(|mut file| file.write_all(names(scenario).as_bytes()));
    hosts.map_err(Error::io(format!("adding the names of nodes to {HOSTS}")))?;
    let status = shell::run_command(command, |command| nodes.adopt(node, command))?;
    shell::vouch(&nodes.certificate());
    Ok(status)
}

/// The lines of a hosts file that name every address.
fn names(scenario: &Scenario) -> String {
    let line = |end: End, family| {
        let (node, link) = (&scenario.nodes[owner(scenario, end)].name, &scenario.wires[end.wire].name);
        format!("{} {node} {node}.{link}\n", end.address(family))
    };
    ends(scenario).flat_map(|end| families(scenario, end.wire).map(move |family| line(end, family))).collect()
}

/// Addresses, neighbours and routes of one node.
fn join(scenario: &Scenario, routes: &Routes, kinds: &[PortKind], node: usize) -> Result<(), Error> {
    let mut netlink = Netlink::open()?;
    let own: Vec<End> = ends(scenario).filter(|end| owner(scenario, *end) == node).collect();
    let mut indices = Vec::new();
    for end in &own {
        let index = plug(&mut netlink, &interface(*end), kinds[end.wire])?;
        indices.push((end.wire, index));
        for family in families(scenario, end.wire) {
            netlink.address(index, end.address(family), End::prefix(family))?;
            netlink.neighbour(index, end.far().address(family), mac(end.far(), false))?;
        }
    }
    let index = |wire| indices.iter().find(|(of, _)| *of == wire).map(|(_, index)| *index);
    for to in ends(scenario).filter(|end| owner(scenario, *end) != node) {
        for family in families(scenario, to.wire) {
            let Some(wire) = routes.next(family, node, to) else { continue };
            let (Some(index), Some(side)) = (index(wire), scenario.wires[wire].side(node)) else { continue };
            if wire == to.wire {
                // The subnet's own route leads there.
                continue;
            }
            let gateway = End { wire, side }.far().address(family);
            let length = if family == Family::V4 { 32 } else { 128 };
            netlink.route(to.address(family), length, Via::Gateway(gateway, index))?;
        }
    }
    // Where the host does not allow it, the programs' own choice stays.
    let _ = std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", PREFERRED_CONGESTION_CONTROL);
    Ok(())
}
