//! One trial: a history, then the transfer that counts.

use crate::sim::quic::{Path, Stage, Times, transport};
use crate::sim::tcp;
use headstart_core::cwnd::start;
use headstart_core::path::NetworkId;
use headstart_core::time::{Duration, Instant};
use headstart_quic::{CarefulResume, Clock, Options, Store};
use std::sync::Arc;

/// A transfer that takes longer has failed.
pub const LIMIT: Duration = Duration::from_secs(900);
/// Background flows have found their share by then.
const SETTLED: Duration = Duration::from_secs(2);

/// A network and a workload.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The condition that it belongs to.
    pub condition: &'static str,
    /// The path of the history.
    pub path: Path,
    /// The path of the transfer that counts, if it is another.
    pub then: Option<Path>,
    /// Whether the host is on another network then.
    pub moved: bool,
    /// Bytes of each transfer.
    pub bytes: u64,
    /// Transfers before the one that counts.
    pub before: u32,
    /// Bytes of each of those.
    pub history: u64,
    /// Background flows.
    pub flows: usize,
    /// They are BBR's in place of CUBIC's.
    pub bbr: bool,
    /// Harm is measured for so long from the beginning of the transfer that counts: as much for each arm.
    pub horizon: Duration,
    /// Whether it is played over the kernel.
    pub real: bool,
}

impl Cell {
    /// Four transfers of so many bytes and the one that counts, over a path that stays as it is and that nothing else uses.
    pub fn new(condition: &'static str, path: Path, bytes: u64) -> Self {
        Self {
            condition,
            path,
            then: None,
            moved: false,
            bytes,
            before: 4,
            history: bytes,
            flows: 0,
            bbr: false,
            horizon: Duration::ZERO,
            real: false,
        }
    }

    /// What its rows call it: the condition, and whether over the kernel.
    pub fn name(&self) -> String {
        if self.real { format!("{}-netns", self.condition) } else { self.condition.to_owned() }
    }

    /// 1 or 10 MB, in words.
    pub fn what(&self) -> String {
        format!("{} MB", self.bytes / 1_000_000)
    }

    /// The condition in words.
    pub fn about(&self) -> String {
        let path = |p: &Path| {
            format!(
                "{} Mbit/s, {} ms, queue of {} bandwidth-delay products, {} % loss of data{}, {} % of acknowledgements",
                p.rate / 1_000_000,
                p.rtt.as_millis(),
                p.queue,
                p.data_loss * 100.0,
                if p.bursts().is_some() { format!(", {} in a row on average", p.burst) } else { String::new() },
                p.ack_loss * 100.0,
            )
        };
        let mut about = path(&self.path);
        if let Some(then) = &self.then {
            about = format!("remembered: {about}; now: {}", path(then));
        }
        if self.moved {
            about += "; the host has moved to another network";
        }
        about += &format!("; remembered from {} transfers of {} MB", self.before, self.history / 1_000_000);
        if self.flows > 0 {
            let whose = if self.real { "of the kernel's TCP" } else { "of TCP" };
            about += &format!("; {} bulk flows {whose} ({})", self.flows, if self.bbr { "BBR" } else { "CUBIC" });
        }
        about + "."
    }
}

/// What a trial showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Milliseconds; `None` if the transfer failed.
    pub ms: Option<f64>,
    /// Packets that the bottleneck's queue dropped within the horizon.
    pub drops: f64,
    /// Share of the server's packets that it took for lost, in percent.
    pub lost: f64,
    /// Mbit/s of the background flows within the horizon.
    pub background: f64,
}

/// The memory of a server that starts by `rule`.
pub fn memory(rule: &str, origin: std::time::Instant) -> anyhow::Result<CarefulResume> {
    let rule = start::find(rule).ok_or_else(|| anyhow::anyhow!("unknown start rule `{rule}`"))?;
    let options = Options { rule, network: NetworkId(1), transport: Arc::new(transport), ..Options::default() };
    Ok(CarefulResume::with_options(Store::new(Clock::new(origin, Duration::ZERO), [0x68; 16]), options))
}

/// Plays one.
pub fn play(cell: &Cell, rule: &str, seed: u64) -> anyhow::Result<Seen> {
    let origin = headstart_io::clock::Clock::new().origin();
    let times = Times::new(origin);
    let began = Instant::from_millis(1000);
    let memory_of = memory(rule, origin)?;
    let mut stage = Stage::new(&cell.path, &memory_of, times, began, cell.flows, seed)?;
    if cell.bbr {
        stage.flows_by(tcp::BBR, cell.path.rtt);
    }
    if cell.flows > 0 {
        stage.run_until(began + SETTLED);
    }
    // A rule without memory needs no past, but for the queues that others fill.
    let before = if rule == super::DEFAULT && cell.flows == 0 { 0 } else { cell.before };
    for _ in 0..before {
        stage.fetch(cell.history, LIMIT)?;
        stage.run_until(stage.now() + Duration::from_millis(500));
    }
    // The transfer that counts meets the same losses, whatever came before it.
    if cell.flows == 0 {
        stage.change_path(cell.then.as_ref().unwrap_or(&cell.path), seed ^ 0x5eed);
    }
    if cell.moved {
        memory_of.move_to(NetworkId(2));
    }
    let start = stage.now();
    let (dropped, received) = stage.counted();
    if cell.flows > 0 {
        stage.count_until(start + cell.horizon);
    }
    let fetched = stage.fetch(cell.bytes, LIMIT)?;
    // What takes longer is counted no longer.
    stage.run_until(start + cell.horizon);
    let counted = stage.counted();
    Ok(Seen {
        ms: fetched.took.map(|took| took.as_secs_f64() * 1e3),
        drops: (counted.0 - dropped) as f64,
        lost: 100.0 * fetched.server.lost as f64 / fetched.server.sent.max(1) as f64,
        background: if cell.flows > 0 {
            (counted.1 - received) as f64 * 8e-6 / cell.horizon.as_secs_f64()
        } else {
            0.0
        },
    })
}
