//! The same streams over the kernel's own TCP: namespaces, emulated links, the sessions of `headstart_realtime`.
//!
//! All ways of sending are on the same link at the same time, on several links side by side. What happens before the first
//! message of a session (handshakes, which may lose packets too) does not count. What never happens here: a time is taken
//! anywhere but where a program has the message, or a way of sending is spared what the others meet.

mod bundling;
mod busy;
mod cell;
mod ends;
mod record;
mod socket;

use super::condition::{Condition, Part};
use super::{BUNDLE, DATAGRAMS, ORACLE};
use crate::netns::{Error, Nodes};
use crate::scenario::routes::End;
use crate::scenario::{Invalid, Scenario};
use crate::sim::messages::StreamResult;
use crate::sim::tcp::Stack;
use anyhow::Context as _;
use bundling::Bundling;
use busy::Busy;
use headstart_core::path::Family;
use headstart_core::time::Duration;
use record::MessageLogs;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

/// Ways of sending that there are over the kernel's TCP.
pub const ARMS: &[&str] = &[
    super::PLAIN,
    super::CONTROL,
    "reduction-50",
    "trigger",
    "echo",
    "reduction-50+trigger+echo",
    "hedge",
    "auto",
    BUNDLE,
    DATAGRAMS,
    ORACLE,
];

/// Port of the first way of sending; each has its own.
const PORT: u16 = 7000;
/// Turns of the processor that the experiment's threads ask for: to be woken soon is what they need.
const TURN: Duration = Duration::from_micros(100);
/// Where the bulk flow comes from.
const BULK_PORT: u16 = 6999;

/// How much: links side by side, streams of a session, and sessions one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    cells: usize,
    streams: u32,
    rounds: u64,
}

/// Quick: eight streams. Full: 512 of a message condition, 320 of the paper's, whose links are slower and carry a bulk flow.
pub fn size(condition: &Condition, quick: bool) -> Size {
    match (condition.part, quick) {
        (_, true) => Size { cells: 4, streams: 2, rounds: 1 },
        (Part::Message, false) => Size { cells: 8, streams: 8, rounds: 8 },
        (Part::Paper, false) => Size { cells: 8, streams: 5, rounds: 8 },
    }
}

/// Conditions of a quick run, which is to take less than a minute; the other ages of TCP in the first alone.
const QUICK: &[&str] = &["iid3-r10", "iid3-r40", "burst", "clean", "strong"];

/// Whether a run is to have this condition with this age of TCP.
pub fn wants(condition: &Condition, stack: Stack, quick: bool, asked: bool) -> bool {
    let is_modern = stack == crate::sim::tcp::MODERN;
    if condition.busy {
        // Of one age: what is asked is what processors do, and not what TCP does.
        return is_modern && (asked || !quick);
    }
    let modern = is_modern && (asked || QUICK.contains(&condition.name));
    !quick || modern || condition.name == QUICK[0]
}

/// The results of a condition.
#[derive(Debug)]
pub struct Played {
    /// The streams of each of [`ARMS`].
    pub arms: Vec<Vec<StreamResult>>,
    /// Why the times may not be believed.
    pub doubts: Vec<String>,
    /// Congestion control that the sockets used.
    pub congestion_control: String,
    /// Why nothing was bundled, where that is so.
    pub unbundled: Option<String>,
}

/// Plays a condition. Call it inside (see `netns::InnerCommand::enter`).
pub fn play(condition: &Condition, stack: Stack, size: Size, seed: u64) -> anyhow::Result<Played> {
    let mut played = Played {
        arms: vec![Vec::new(); ARMS.len()],
        doubts: Vec::new(),
        congestion_control: String::new(),
        unbundled: None,
    };
    for round in 0..size.rounds {
        let seed = fastrand::Rng::with_seed(seed ^ (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
        let scenario = scenario(condition, size.cells, seed)?;
        let nodes = Nodes::build(&scenario).context("building the network")?;
        for node in 0..scenario.nodes.len() {
            nodes.on(node, || configure_tcp(stack))??;
        }
        let bulk = condition.legs.iter().any(|leg| leg.bulk);
        let records = Arc::new(MessageLogs::new(size.cells, nodes.clock()));
        let plan =
            Plan { size, stack, bulk, hops: condition.legs.len(), records: Arc::clone(&records), over: Arc::default() };
        let senders = 0..condition.legs.len();
        let bundling = senders.map(|node| Bundling::on(&nodes, node, plan.port(BUNDLE))).collect::<Result<Vec<_>, _>>();
        let bundling = bundling.unwrap_or_else(|why| {
            played.unbundled = Some(format!("{why:#}"));
            Vec::new()
        });
        let busy = condition.busy.then(Busy::begin);
        once(&nodes, &plan, bundling)?;
        drop(busy);
        played.doubts.extend(nodes.certificate().doubt());
        played.doubts.extend(records.failures());
        played.congestion_control = nodes.on(0, congestion_control)?;
        drop(plan);
        let records = Arc::into_inner(records).context("a way of sending is still at work")?;
        for (arm, streams) in records.results(size.streams).into_iter().enumerate() {
            played.arms[arm].extend(streams);
        }
    }
    Ok(played)
}

/// What both ends know of a round.
#[derive(Clone)]
struct Plan {
    size: Size,
    stack: Stack,
    bulk: bool,
    hops: usize,
    records: Arc<MessageLogs>,
    /// The sender has nothing more to send or to wait for.
    over: Arc<AtomicBool>,
}

impl Plan {
    /// Where way of sending `arm` listens at the far end of hop `hop` of a cell.
    fn address(&self, cell: usize, hop: usize, arm: usize) -> SocketAddr {
        SocketAddr::new(End { wire: cell * self.hops + hop, side: 1 }.address(Family::V4), PORT + arm as u16)
    }

    /// The port of a way of sending.
    fn port(&self, arm: &str) -> u16 {
        PORT + ARMS.iter().position(|name| *name == arm).unwrap_or_default() as u16
    }

    fn bulk_address(&self, cell: usize) -> SocketAddr {
        SocketAddr::new(End { wire: cell * self.hops, side: 1 }.address(Family::V4), BULK_PORT)
    }
}

/// Sender, relays and receiver, each a thread in its namespace, which ends when all has arrived or will not.
fn once(nodes: &Nodes, plan: &Plan, bundling: Vec<Bundling>) -> anyhow::Result<()> {
    // All nodes listen before any connects.
    let listening = Barrier::new(plan.hops + 1);
    std::thread::scope(|scope| {
        let bundled: Vec<_> = bundling.into_iter().map(|bundling| scope.spawn(|| bundling.serve(&plan.over))).collect();
        let mut threads = Vec::new();
        for hop in 1..=plan.hops {
            let listening = &listening;
            threads.push(scope.spawn(move || nodes.on(hop, || cell::receive(plan, hop, listening))));
        }
        let sent = nodes.on(0, || cell::send(plan, &listening));
        // Also where the sender was never begun.
        plan.over.store(true, Ordering::Release);
        for thread in threads {
            thread.join().unwrap_or_else(|_| Err(Error::World("an end of the streams died".into())))??;
        }
        for bundling in bundled {
            let seen = bundling.join().map_err(|_| anyhow::anyhow!("what bundles segments died"))??;
            anyhow::ensure!(seen > 0, "no segment came by, though the kernel took the rule");
        }
        sent?
    })
}

/// Cells side by side: for each hop a link of its own.
fn scenario(condition: &Condition, cells: usize, seed: u64) -> anyhow::Result<Scenario> {
    const NODES: [&str; 3] = ["sender", "relay", "receiver"];
    let hops = condition.legs.len();
    let names: Vec<&str> = NODES.into_iter().filter(|name| hops == 2 || *name != "relay").collect();
    // Numbers of TOML are of 63 bits.
    let mut text = format!("name = \"realtime-tail\"\nwhat = \"streams\"\nseed = {}\nhosts = {names:?}\n", seed >> 1);
    for cell in 0..cells {
        for (n, leg) in condition.legs.iter().enumerate() {
            let link = leg.text(u64::from(fastrand::Rng::with_seed(seed ^ (cell as u64 + 1)).u32(..)));
            let between = [names[n], names[n + 1]];
            write!(text, "[[link]]\nname = \"cell{cell}-{n}\"\nbetween = {between:?}\nlink = \"{link}\"\n")?;
        }
    }
    let read = Scenario::read(condition.name, &text, &mut |path| Err(format!("{path}: links of the lab need no file")));
    read.map_err(|invalid: Invalid| anyhow::anyhow!("{invalid}"))
}

/// Configures the TCP of the namespace as a kernel of that age has it.
fn configure_tcp(stack: Stack) -> anyhow::Result<()> {
    let set = |name: &str, value: &str| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        std::fs::write(&path, value).with_context(|| format!("writing {value} to {path}"))
    };
    set("tcp_sack", if stack.sack { "1" } else { "0" })?;
    // RACK needs SACK; without it 0 leaves three duplicates.
    set("tcp_recovery", if stack.sack { "1" } else { "0" })?;
    set("tcp_early_retrans", if stack.probes { "3" } else { "0" })
}

fn congestion_control() -> String {
    let read = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    read.map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

/// Waits for what should take moments, for as long as a machine under load may take.
const PATIENCE: Duration = Duration::from_secs(60);
