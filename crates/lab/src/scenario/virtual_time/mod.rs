//! A scenario in virtual time: its links are the models themselves, its hosts the simulator's TCP and plain datagrams.
//!
//! Same file, same figures, bit for bit. Nodes take no time. What TCP is and what it lacks: [`crate::sim::tcp`].

mod datagrams;
mod tcp;

use super::routes::{End, Routes, owner};
use super::{Measured, Scenario, Traffic};
use crate::sim::Driven;
use crate::sim::tcp::{BBR, MODERN, Segment, Stack};
use headstart_core::path::Family;
use headstart_core::time::Instant;
use headstart_link::medium::Way;
use headstart_link::{Counters, Duplex, Packet};

/// A packet on its way to one end of a flow.
#[derive(Clone)]
struct Parcel {
    flow: usize,
    /// Whether it goes to the flow's `to`, or back to its `from`.
    forth: bool,
    load: Load,
}

/// What is in a packet.
#[derive(Clone)]
enum Load {
    /// Half of a handshake of TCP, in bytes of IP.
    Syn(usize),
    /// A segment, and the bytes that its headers have beyond those of IPv4.
    Segment(Segment, usize),
    /// A datagram.
    Datagram { number: u64, sent: Instant, wire_len: usize },
}

impl Packet for Parcel {
    fn wire_len(&self) -> usize {
        match &self.load {
            Load::Syn(len) => *len,
            Load::Segment(segment, extra) => segment.wire_len() + extra,
            Load::Datagram { wire_len, .. } => *wire_len,
        }
    }
}

/// Both ends of a flow.
trait Actor {
    /// A packet has arrived at one end: `forth` at `to`. What it sends goes into `out`.
    fn receive(&mut self, at: Instant, forth: bool, load: Load, out: &mut Vec<(bool, Load)>);
    /// Does what is due at `now`.
    fn poll(&mut self, now: Instant, out: &mut Vec<(bool, Load)>);
    /// When to poll next.
    fn poll_timeout(&self) -> Option<Instant>;
    /// What has come of it so far.
    fn measured(&self) -> Measured;
    /// Whether nothing more will come of it.
    fn done(&self) -> bool;
}

/// What a scenario came to.
#[derive(Clone, Debug)]
pub struct Played {
    /// By flow, in the order of the file.
    pub flows: Vec<Measured>,
    /// By link, up and down.
    pub links: Vec<[Counters; 2]>,
}

struct Engine<'a> {
    scenario: &'a Scenario,
    routes: Routes,
    links: Vec<Duplex<Parcel>>,
    /// By flow: the ends of `from` and `to`.
    ends: Vec<[End; 2]>,
    actors: Vec<Box<dyn Actor>>,
}

/// Plays it to the end of its last flow, or to its limit.
pub fn play(scenario: &Scenario) -> Result<Played, String> {
    let routes = Routes::of(scenario).map_err(|(_, reason)| reason)?;
    let ends = scenario.flows.iter().map(|flow| routes.ends(scenario, flow)).collect::<Result<Vec<_>, _>>()?;
    let links = scenario.wires.iter().zip(scenario.seeds()).map(|(wire, seed)| Duplex::new(&wire.link, seed)).collect();
    let actor = |flow: &super::Flow| -> Result<Box<dyn Actor>, String> {
        let start = Instant::ZERO + flow.start;
        Ok(match &flow.traffic {
            Traffic::Tcp { bytes, congestion } => {
                let stack = stack(congestion.as_deref()).map_err(|why| format!("flow {:?}: {why}", flow.name))?;
                Box::new(tcp::Transfer::new(start, *bytes, stack, flow.family))
            }
            Traffic::Datagrams { .. } | Traffic::Ping { .. } => Box::new(datagrams::Datagrams::new(start, flow)),
        })
    };
    let actors = scenario.flows.iter().map(actor).collect::<Result<_, _>>()?;
    let mut engine = Engine { scenario, routes, links, ends, actors };
    engine.run(Instant::ZERO + scenario.limit, |engine| engine.actors.iter().all(|actor| actor.done()));
    Ok(Played {
        flows: engine.actors.iter().map(|actor| actor.measured()).collect(),
        links: engine.links.iter().map(|link| Way::BOTH.map(|way| link.counters(way))).collect(),
    })
}

/// The sender with this congestion control.
fn stack(congestion: Option<&str>) -> Result<Stack, String> {
    match congestion.unwrap_or("cubic") {
        "cubic" => Ok(MODERN),
        "bbr" => Ok(BBR),
        other => {
            Err(format!("virtual time has no congestion control `{other}`: write cubic or bbr, or use --time real"))
        }
    }
}

impl Driven for Engine<'_> {
    fn deadline(&mut self) -> Option<Instant> {
        let links = self.links.iter().filter_map(|link| Some(link.poll_timeout()?.at));
        links.chain(self.actors.iter().filter_map(|actor| actor.poll_timeout())).min()
    }

    fn woken(&mut self, now: Instant) {
        for wire in 0..self.links.len() {
            while let Some((at, way, parcel)) = self.links[wire].poll(now) {
                let node = self.scenario.wires[wire].ends[1 - way.index()];
                self.arrive(at, node, parcel);
            }
        }
        for flow in 0..self.actors.len() {
            if self.actors[flow].poll_timeout().is_some_and(|at| at <= now) {
                let mut out = Vec::new();
                self.actors[flow].poll(now, &mut out);
                self.send(now, flow, out);
            }
        }
    }
}

impl Engine<'_> {
    fn family(&self, flow: usize) -> Family {
        self.scenario.flows[flow].family
    }

    fn arrive(&mut self, at: Instant, node: usize, parcel: Parcel) {
        let to = self.ends[parcel.flow][usize::from(parcel.forth)];
        if owner(self.scenario, to) != node {
            return self.forward(at, node, parcel);
        }
        let mut out = Vec::new();
        self.actors[parcel.flow].receive(at, parcel.forth, parcel.load, &mut out);
        self.send(at, parcel.flow, out);
    }

    fn send(&mut self, at: Instant, flow: usize, loads: Vec<(bool, Load)>) {
        for (forth, load) in loads {
            let node = owner(self.scenario, self.ends[flow][usize::from(!forth)]);
            self.forward(at, node, Parcel { flow, forth, load });
        }
    }

    /// Onto the next link of its way; a drop is counted by the link.
    fn forward(&mut self, at: Instant, node: usize, parcel: Parcel) {
        let to = self.ends[parcel.flow][usize::from(parcel.forth)];
        let Some(wire) = self.routes.next(self.family(parcel.flow), node, to) else { return };
        let Some(side) = self.scenario.wires[wire].side(node) else { return };
        let _ = self.links[wire].push(at, Way::BOTH[side], parcel);
    }
}
