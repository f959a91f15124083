//! `steer-throughput`: what the tunnel itself costs, beside a plain one over one channel and beside none. An instrument.
//!
//! Both ends on this host, in namespaces joined by pairs of veth without an emulator, so that nothing bounds the rate but the
//! processor. TCP of the kernel through both ends; a small datagram there and back; what the kernel says of unnecessary
//! retransmissions.

mod lost;
mod plain;
mod rig;

use super::OURS;
use crate::experiment::measure::{arm, latency, throughput};
use crate::experiment::target::Target;
use crate::experiment::{Context, Entry, Outcome, Row, Series, Speeds, Steps};
use crate::stats::{Pairing, Statistic};
use headstart_core::steer::Channel;
use rig::{Rig, TunnelMode};
use std::net::{SocketAddr, TcpListener};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "steer-throughput",
    shows: "The throughput of the tunnel over two channels, and the delay it adds to small messages",
    claims: &[],
    conditions: &["one-flow", "eight-flows", "message", "fat-lost", "fast-lost"],
    speeds: Speeds::Namespaces,
    run,
};

/// The arms; a tunnel of the policy of that name but for the first two.
const ARMS: [&str; 4] = [NONE, PLAIN, "single-fat", OURS];
const NONE: &str = "no-tunnel";
const PLAIN: &str = "plain-tunnel";

/// Numbers that the kernel counts retransmissions by that were none: what it undid, and what the other end had twice.
const SPURIOUS: [&str; 4] = ["TCPSpuriousRTOs", "TCPFullUndo", "TCPPartialUndo", "TCPDSACKRecv"];

/// A namespace pair of an arm, and where its servers are.
struct Arm {
    name: &'static str,
    rig: Rig,
    bulk: SocketAddr,
    asked: SocketAddr,
    beats: SocketAddr,
}

impl Arm {
    fn new(name: &'static str) -> anyhow::Result<Self> {
        let rig = Rig::build(match name {
            NONE => TunnelMode::Bare,
            PLAIN => TunnelMode::Plain,
            policy => TunnelMode::Steered(policy),
        })?;
        let listen = |serve: fn(&TcpListener)| -> anyhow::Result<SocketAddr> {
            let listener = rig.gateway.run(|| TcpListener::bind((rig.server, 0)))??;
            let to = listener.local_addr()?;
            std::thread::spawn(move || serve(&listener));
            Ok(to)
        };
        let (bulk, asked, beats) = (listen(throughput::serve)?, listen(latency::serve)?, listen(lost::serve)?);
        Ok(Self { name, rig, bulk, asked, beats })
    }

    /// Mbit/s of what has arrived from the host.
    fn throughput(&self, flows: u64, millis: u64) -> anyhow::Result<f64> {
        let said = self.rig.host.run(|| throughput::probe(self.bulk, true, flows, millis))??;
        arm::number(&said, "mbit_s")
    }

    /// Microseconds of small messages there and back over one connection.
    fn messages(&self, times: u64) -> anyhow::Result<Vec<f64>> {
        let said = self.rig.host.run(|| latency::probe(self.asked, times))??;
        Ok(arm::numbers(&said, "ask").into_iter().map(|ms| ms * 1e3).collect())
    }

    /// Retransmissions that were none, so far.
    fn spurious(&self) -> anyhow::Result<u64> {
        let text = self.rig.host.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat"))??;
        Ok(SPURIOUS.iter().filter_map(|name| counter(&text, name)).sum())
    }
}

/// A number of TcpExt in `/proc/net/netstat`: a line of names, and one of their numbers.
fn counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let (_, number) = names.split(' ').zip(numbers.split(' ')).find(|(known, _)| *known == name)?;
    number.parse().ok()
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    outcome.how(
        "Both ends of a tunnel, the sender and the receiver share this host's processors. Arms take turns. `plain-tunnel` is one \
         WireGuard session (boringtun) over one channel with the same trains and super-packets, and no steering; its inner MTU is \
         1420, as WireGuard's. A fast channel of 10 Mbit/s stands beside the fat one. Throughput is measured at the receiver; a \
         message is 64 bytes there and back over an open connection. A stall is the longest time without an arrival at the host's \
         program; a lost connection is an error of the run.",
    );
    let arms = ARMS.map(Arm::new).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let (turns, millis, times) = if cx.quick { (3, 700, 300) } else { (9, 3_000, 2_000) };
    let (lost, wanted): (Vec<&str>, Vec<&str>) =
        ENTRY.conditions.iter().copied().filter(|c| cx.wants(c)).partition(|c| c.ends_with("-lost"));
    let mut steps = Steps::new(cx, wanted.len() * turns * arms.len());
    for condition in wanted {
        let mut all = vec![Vec::new(); arms.len()];
        for turn in 0..turns {
            for (n, arm) in arms.iter().enumerate() {
                if !steps.next(&mut outcome, &format!("{condition}, {}, turn {turn}", arm.name)) {
                    return Ok(outcome);
                }
                match condition {
                    "message" => all[n].push(Statistic::Median.of(&arm.messages(times)?)?),
                    flows => all[n].push(arm.throughput(if flows == "one-flow" { 1 } else { 8 }, millis)?),
                }
            }
        }
        add(&mut outcome, condition, &all)?;
    }
    for arm in arms.iter().skip(1) {
        let spurious = arm.spurious()? as f64;
        outcome.rows.push(Row::measured("all", "unnecessary retransmissions", "", arm.name, spurious));
        if arm.name == OURS {
            outcome.notes.push(Target::AtMost(0.0).note("unnecessary retransmissions", spurious, ""));
        }
    }
    for condition in lost {
        if !without(cx, &mut outcome, condition, &arms, turns)? {
            return Ok(outcome);
        }
    }
    Ok(outcome)
}

/// A channel is lost in mid-transfer; whether to go on.
fn without(cx: &Context, outcome: &mut Outcome, condition: &str, arms: &[Arm], turns: usize) -> anyhow::Result<bool> {
    let channel = if condition == "fat-lost" { Channel::Fat } else { Channel::Fast };
    let Some(arm) = arms.iter().find(|arm| arm.name == OURS) else { return Ok(true) };
    for (what, download, from) in [("download", true, arm.bulk), ("stream of 0.8 Mbit/s", false, arm.beats)] {
        let (mut values, mut steps) = (Vec::new(), Steps::new(cx, turns));
        for turn in 0..turns {
            if !steps.next(outcome, &format!("{condition}, {what}, turn {turn}")) {
                return Ok(false);
            }
            values.push(lost::stall(&arm.rig, from, channel, download)?);
        }
        let metric = format!("longest stall of a {what}");
        let longest = values.iter().copied().fold(0.0, f64::max);
        for (statistic, value) in [("median", Statistic::Median.of(&values)?), ("maximum", longest)] {
            outcome.rows.push(Row::measured(condition, &format!("{metric}, {statistic}"), "ms", OURS, value));
        }
        outcome.notes.push(Target::AtMost(300.0).note(&format!("{condition}, {metric}"), longest, "ms"));
        outcome.samples.push(Series::new(condition, &metric, "ms", OURS, values));
    }
    let about = format!(
        "The {channel} channel loses everything for 1.5 s in mid-transfer, without a signal; data of the gateway."
    );
    outcome.condition(condition, about);
    Ok(true)
}

/// The rows of a condition, and what was to be reached.
fn add(outcome: &mut Outcome, condition: &str, all: &[Vec<f64>]) -> anyhow::Result<()> {
    let message = condition == "message";
    let (metric, unit) = if message { ("message there and back", "us") } else { ("throughput", "Mbit/s") };
    let series: Vec<Series> =
        ARMS.iter().zip(all).map(|(arm, values)| Series::new(condition, metric, unit, arm, values.clone())).collect();
    for (n, ours) in series.iter().enumerate().skip(1) {
        for baseline in &series[..n.min(2)] {
            let row = Row::compare(ours, baseline, Statistic::Median, Pairing::Paired, outcome.seed)?;
            outcome.rows.push(row);
        }
    }
    let median = |n: usize| Statistic::Median.of(&all[n]);
    let (bare, plain, ours) = (median(0)?, median(1)?, median(3)?);
    let mut note = |target: Target, what: &str, value: f64, unit: &str| {
        outcome.notes.push(target.note(&format!("{condition}, {OURS}, {what}"), value, unit));
    };
    if message {
        note(Target::AtMost(60.0), "later than without a tunnel", ours - bare, "us");
    } else {
        note(Target::AtLeast(0.9), "beside a plain tunnel", ours / plain, "x");
        if condition == "one-flow" {
            note(Target::AtLeast(1_400.0), "throughput", ours, "Mbit/s");
        }
    }
    outcome.samples.extend(series);
    let about = match condition {
        "one-flow" => "One connection of the host's data, over veth pairs.",
        "eight-flows" => "Eight connections at once, likewise.",
        _ => "Messages of 64 bytes, one after the other, likewise.",
    };
    outcome.condition(condition, about);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent TCPFullUndo TCPDSACKRecv\nTcpExt: 1 22 3\nIpExt: InOctets\nIpExt: 7\n";
        assert_eq!(["TCPFullUndo", "TCPDSACKRecv", "InOctets"].map(|n| counter(text, n)), [Some(22), Some(3), None]);
        assert_eq!(counter("", "TCPFullUndo"), None);
    }

    #[test]
    fn a_download_over_the_kernels_tcp_goes_on_while_the_fat_channel_is_lost() {
        let arm = Arm::new(OURS).unwrap();
        let stalls: Vec<f64> = (0..5).map(|_| lost::stall(&arm.rig, arm.bulk, Channel::Fat, true).unwrap()).collect();
        println!("{stalls:.0?} ms");
        // The channel is gone for 1.5 s; how busy this machine is decides about the rest.
        assert!(stalls.iter().filter(|stall| **stall < 1_200.0).count() >= 3, "{stalls:.0?} ms");
    }

    #[test]
    fn each_number_stands_beside_that_of_no_tunnel_and_of_a_plain_one() {
        let mut outcome = Outcome::new("x", 1);
        let all = [vec![9_000.0; 5], vec![1_000.0; 5], vec![990.0; 5], vec![850.0; 5]];
        add(&mut outcome, "one-flow", &all).unwrap();
        let of = |arm: &str, baseline: &str| {
            let is = |r: &&Row| r.arm == arm && r.baseline_arm.as_deref() == Some(baseline);
            outcome.rows.iter().find(is).and_then(|r| r.ratio)
        };
        assert_eq!((of(PLAIN, NONE), of(OURS, PLAIN)), (Some(1_000.0 / 9_000.0), Some(0.85)));
        assert_eq!(outcome.notes.iter().filter(|n| n.ends_with("MISSED")).count(), 2, "{:?}", outcome.notes);
    }
}
