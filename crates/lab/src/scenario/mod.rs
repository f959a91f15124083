//! Scenarios: whole networks with their traffic, in TOML files, which run in virtual time and in namespaces.
//!
//! A [`Scenario`] names hosts, routers, links and flows; [`Scenario::read`] reads one and says file, line and reason where
//! it cannot. [`routes`] works out addresses and ways; [`virtual_time`] and [`real_time`] play the same flows over the same
//! links with the same seeds, and both tell what became of each ([`Measured`]). [`ALL`] are the ones that the project
//! ships, each with a picture in its comments.
//!
//! What never happens here: a route that depends on load, or a packet that a host forwards; only routers do.

mod flow;
pub mod real_time;
pub mod routes;
mod text;
pub mod virtual_time;

pub use flow::{Figure, Flow, Measured, Traffic};
pub use text::Invalid;

use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_link::DuplexSpec;

/// A scenario of the project.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it shows, as its text says.
    pub what: &'static str,
    /// Its text, with the picture.
    pub text: &'static str,
}

/// Every scenario of the project.
pub const ALL: &[Entry] = &[
    Entry {
        name: "one-link",
        what: "a client behind one LTE link: a download, a stream up, and pings beside them",
        text: include_str!("../../scenarios/one-link.toml"),
    },
    Entry {
        name: "dumbbell",
        what: "two senders, two receivers, one bottleneck of 20 Mbit/s with a queue of one bandwidth-delay product",
        text: include_str!("../../scenarios/dumbbell.toml"),
    },
    Entry {
        name: "dual-stack",
        what: "IPv4 on a short link, IPv6 on a longer one that loses packets, to the same server",
        text: include_str!("../../scenarios/dual-stack.toml"),
    },
    Entry {
        name: "two-channels",
        what: "bulk on the fat channel while small messages take the fast one",
        text: include_str!("../../scenarios/two-channels.toml"),
    },
    Entry {
        name: "wlan-relay",
        what: "small messages every 30 ms from one WLAN over a relay to another, beside a bulk flow in the sender's",
        text: include_str!("../../scenarios/wlan-relay.toml"),
    },
    Entry {
        name: "cdn",
        what: "the same object from an edge, from its parent at 10 ms and from the origin at 40 ms more",
        text: include_str!("../../scenarios/cdn.toml"),
    },
];

/// The scenario of the project that is called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether it passes packets on that are not for it.
    pub routes: bool,
}

/// A link between two nodes.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Its name.
    pub name: String,
    /// The nodes at its ends, by their places in [`Scenario::nodes`].
    pub ends: [usize; 2],
    /// What it does to packets: up is from the first end to the second.
    pub link: DuplexSpec,
    /// The one family that it carries; both if none.
    pub family: Option<Family>,
}

impl Wire {
    /// Whether packets of this family may take it.
    pub fn carries(&self, family: Family) -> bool {
        self.family.is_none_or(|only| only == family)
    }

    /// Which end a node is at, if it is.
    pub fn side(&self, node: usize) -> Option<usize> {
        self.ends.iter().position(|end| *end == node)
    }
}

/// A way that was chosen by hand: packets at `at` for any address of `to` take `over`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where the packets are, by its place in [`Scenario::nodes`].
    pub at: usize,
    /// Where they go.
    pub to: usize,
    /// Which link they take, by its place in [`Scenario::wires`].
    pub over: usize,
    /// Line of the file.
    line: usize,
}

/// A network and what happens in it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, in a sentence.
    pub what: String,
    /// Seed of everything random in its links.
    pub seed: u64,
    /// When flows that are not at their end are given up.
    pub limit: Duration,
    /// Hosts, then routers.
    pub nodes: Vec<Node>,
    /// Links, in the order of the file.
    pub wires: Vec<Wire>,
    /// Ways chosen by hand; all others are those with the fewest hops.
    pub by_hand: Vec<Route>,
    /// What is sent.
    pub flows: Vec<Flow>,
}

impl Scenario {
    /// Reads a scenario. `origin` is where the text comes from, for messages; `files` reads what a link names, such as a
    /// trace.
    pub fn read(origin: &str, text: &str, files: &mut headstart_link::Files<'_>) -> Result<Self, Invalid> {
        text::read(origin, text, files)
    }

    /// The place of the node called `name`; else a message that names them all.
    pub fn node(&self, name: &str) -> Result<usize, String> {
        let known = || self.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
        let place = self.nodes.iter().position(|node| node.name == name);
        place.ok_or_else(|| format!("unknown node `{name}`; choose one of {}", known()))
    }

    /// The seed of each link: the same in both times.
    pub fn seeds(&self) -> Vec<u64> {
        let mut seeds = fastrand::Rng::with_seed(self.seed);
        self.wires.iter().map(|_| seeds.u64(..)).collect()
    }
}

#[cfg(test)]
mod tests;
