//! `measure-cost`: what a forwarder takes of the machine, and what it keeps of programs' data. An instrument.
//!
//! Wake-ups and memory with many connections that are open and silent, the share of a processor at a moderate rate, bytes that a
//! program gets rid of before it is held up, and what a capture of headers costs of the throughput.

mod workload;

use super::arm::{self, BARE, EBPF, OURS, Place, Stage, Wire};
use super::least::LEAST;
use super::throughput;
use crate::experiment::target::Target;
use crate::experiment::{Condition, Context, Entry, Outcome, Row, Series, Speeds};
use crate::program::Folder;
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
pub use workload::{CROWD, PACED, PARKED, crowd, paced, parked};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "measure-cost",
    shows: "Headstart's forwarder sleeps when idle, uses little processor time and memory, and buffers little data",
    claims: &[],
    conditions: &[
        "open-flows",
        "many-flows",
        "paced-up",
        "paced-down",
        "parked",
        "parked-later",
        "captured-one-up",
        "captured-one-down",
        "captured-eight-up",
        "captured-eight-down",
    ],
    speeds: Speeds::Namespaces,
    run,
};

/// A capture of headers, in an arm's name.
const CAPTURED: &str = "ours, captured";
/// Memory that is a file system, where the host has it.
const IN_MEMORY: &str = "/dev/shm";

/// What the issue of this column asks for.
const WAKE_UPS: Target = Target::AtMost(0.0);
const RESIDENT_MB: Target = Target::AtMost(400.0);
const PERCENT: Target = Target::AtMost(3.0);
const PARKED_MB: Target = Target::AtMost(1.0);
const KEPT: Target = Target::AtLeast(0.8);

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    workload::raise_limit();
    let wire = Wire::lay()?;
    let stage = Stage::new(Place::Wire(&wire), cx.program.clone())?;
    let on = |listener: TcpListener, serve: fn(&TcpListener)| {
        let to = listener.local_addr();
        std::thread::spawn(move || serve(&listener));
        to
    };
    let bind = || TcpListener::bind((arm::WIRED, 0));
    let to = on(stage.on_servers(bind)??, workload::serve)?;
    open_flows(cx, &mut outcome, &stage, to)?;
    rate(cx, &mut outcome, &stage, to)?;
    parked_bytes(cx, &mut outcome, &stage, to)?;
    let to = on(stage.on_servers(bind)??, throughput::serve)?;
    captured(cx, &mut outcome, &stage, to)?;
    if cx.progress.stop() {
        outcome.invalidate("it was stopped early");
    }
    outcome.method.push(
        "Two namespaces and a veth pair. The program watches its parent process, the forwarder: how often its threads have gone \
         to sleep (voluntary_ctxt_switches), how long they have run (schedstat), its resident memory (VmRSS). A paced side writes \
         128 KiB at a time, as iperf3 does. The time of programs in the kernel is charged to the sending and receiving processes, \
         not to the share of the process; measure-throughput and measure-latency show it."
            .into(),
    );
    Ok(outcome)
}

/// Begins a condition, if it is wanted and the run is not to stop.
fn begin(cx: &Context, outcome: &mut Outcome, name: &str, about: &str) -> bool {
    if !cx.wants(name) || cx.progress.stop() {
        return false;
    }
    outcome.conditions.push(Condition { name: name.into(), about: about.into() });
    true
}

/// What a workload has said under a key.
fn number(said: &Value, key: &str) -> anyhow::Result<f64> {
    said[key].as_f64().with_context(|| format!("no {key} in {said}"))
}

fn open_flows(cx: &Context, outcome: &mut Outcome, stage: &Stage<'_>, to: SocketAddr) -> anyhow::Result<()> {
    let millis = if cx.quick { 2000 } else { 10_000 };
    for (name, connections, about) in [
        ("open-flows", 1000, "1000 connections, open and silent."),
        ("many-flows", 10_000, "10 000 connections, open and silent."),
    ] {
        if !begin(cx, outcome, name, about) {
            continue;
        }
        for arm in arm::and_kernel(vec![OURS], outcome) {
            crowd_of(
                cx,
                outcome,
                stage,
                (name, arm),
                [CROWD.into(), to.to_string(), connections.to_string(), millis.to_string()],
            )?;
        }
    }
    Ok(())
}

fn crowd_of(
    cx: &Context,
    outcome: &mut Outcome,
    stage: &Stage<'_>,
    (name, arm): (&str, &str),
    words: [String; 4],
) -> anyhow::Result<()> {
    cx.progress.step(0, 1, &format!("{name}, {arm}"));
    let said = stage.say(arm, &words)?;
    for (metric, unit, key, target) in [
        ("wake-ups a second", "", "wake_ups_s", Some(WAKE_UPS)),
        ("resident memory", "MB", "resident_mb", Some(RESIDENT_MB)),
        ("resident memory of the connections", "MB", "more_mb", None),
    ] {
        let value = number(&said, key)?;
        outcome.rows.push(Row::measured(name, metric, unit, arm, value));
        outcome.notes.extend(target.map(|target| target.note(&format!("{name}, {arm}, {metric}"), value, unit)));
    }
    Ok(())
}

fn rate(cx: &Context, outcome: &mut Outcome, stage: &Stage<'_>, to: SocketAddr) -> anyhow::Result<()> {
    let (turns, millis) = if cx.quick { (3, 2000) } else { (7, 5000) };
    for (name, direction) in [("paced-up", "up"), ("paced-down", "down")] {
        if !begin(cx, outcome, name, "One connection at 200 Mbit/s, in pieces of 128 KiB.") {
            continue;
        }
        // What nobody can save stands beside ours.
        let mut arms = arm::and_kernel(vec![OURS], outcome);
        arms.extend((direction == "up").then_some(LEAST));
        let mut said = vec![(Vec::new(), Vec::new()); arms.len()];
        for turn in 0..turns {
            for (arm, (percent, rate)) in arms.iter().zip(&mut said) {
                cx.progress.step(turn, turns, &format!("{name}, {arm}"));
                let said =
                    stage.say(arm, &[PACED, &to.to_string(), direction, &millis.to_string()].map(str::to_owned))?;
                percent.push(number(&said, "percent")?);
                rate.push(number(&said, "mbit_s")?);
            }
        }
        let metric = "share of a processor";
        for (arm, (percent, rate)) in arms.iter().zip(said) {
            let shares = Series::new(name, metric, "%", arm, percent);
            let value = Statistic::Median.of(&shares.present())?;
            outcome.rows.push(Row::measured(name, &format!("{metric}, median"), "%", arm, value));
            let carried = Statistic::Median.of(&rate)?;
            outcome.rows.push(Row::measured(name, "rate, median", "Mbit/s", arm, carried));
            outcome.notes.extend(
                [OURS, EBPF].contains(arm).then(|| PERCENT.note(&format!("{name}, {arm}, {metric}"), value, "%")),
            );
            outcome.samples.push(shares);
        }
    }
    Ok(())
}

fn parked_bytes(cx: &Context, outcome: &mut Outcome, stage: &Stage<'_>, to: SocketAddr) -> anyhow::Result<()> {
    for (name, when, about) in [
        ("parked", "at-once", "A peer that reads nothing: how much a program can write."),
        ("parked-later", "later", "A peer that reads 8 MiB and then nothing: how much a program can write after that."),
    ] {
        if !begin(cx, outcome, name, about) {
            continue;
        }
        let turns = if cx.quick { 3 } else { 7 };
        let (mut all, mut own) = ([Vec::new(), Vec::new()], Vec::new());
        for turn in 0..turns {
            for (arm, all) in [BARE, OURS].into_iter().zip(&mut all) {
                cx.progress.step(turn, turns, &format!("{name}, {arm}"));
                let said = stage.say(arm, &[PARKED.into(), to.to_string(), when.into()])?;
                all.push(number(&said, "bytes")? / 1e6);
                // Kernels before 4.1 do not say.
                own.extend((arm == OURS).then(|| said["own"].as_f64()).flatten().map(|bytes| bytes / 1e6));
            }
        }
        let [bare, ours] = all;
        let (bare, ours) = (Series::new(name, "bytes", "MB", BARE, bare), Series::new(name, "bytes", "MB", OURS, ours));
        let row = Row::compare(&ours, &bare, Statistic::Median, Pairing::Unpaired, cx.seed)?;
        let more = row.ours - row.baseline.unwrap_or_default();
        outcome.notes.push(PARKED_MB.note(&format!("{name}, more than without a TUN"), more, "MB"));
        outcome.rows.push(row);
        if let Ok(own) = Statistic::Median.of(&own) {
            let metric = "bytes in the program's own socket, median";
            outcome.rows.push(Row::measured(name, metric, "MB", OURS, own));
        }
        outcome.samples.extend([bare, ours]);
    }
    Ok(())
}

fn captured(cx: &Context, outcome: &mut Outcome, stage: &Stage<'_>, to: SocketAddr) -> anyhow::Result<()> {
    let in_memory = Path::new(IN_MEMORY).is_dir();
    let folder = if in_memory { Folder::new_in(Path::new(IN_MEMORY)) } else { Folder::new() };
    let folder = folder.context("making a folder for captures")?;
    let file = folder.path().join("capture.pcapng");
    let flags = ["--pcapng".as_ref(), file.as_os_str(), "--snap".as_ref(), "128".as_ref()];
    let (turns, millis) = if cx.quick { (3, 1000) } else { (7, 3000) };
    for (name, flows, direction) in [
        ("captured-one-up", "1", "up"),
        ("captured-one-down", "1", "down"),
        ("captured-eight-up", "8", "up"),
        ("captured-eight-down", "8", "down"),
    ] {
        if !begin(
            cx,
            outcome,
            name,
            "Maximum throughput, with and without a capture of 128 bytes of each packet in memory.",
        ) {
            continue;
        }
        let words = [throughput::WORKLOAD, &to.to_string(), direction, flows, &millis.to_string()].map(str::to_owned);
        let mut all = [Vec::new(), Vec::new()];
        for turn in 0..turns {
            for (flags, all) in [&[][..], &flags].into_iter().zip(&mut all) {
                cx.progress.step(turn, turns, name);
                all.push(number(&stage.say_with(OURS, flags, &words)?, "mbit_s")?);
            }
        }
        let [plain, captured] = all;
        let plain = Series::new(name, "throughput", "Mbit/s", OURS, plain);
        let captured = Series::new(name, "throughput", "Mbit/s", CAPTURED, captured);
        let row = Row::compare(&captured, &plain, Statistic::Median, Pairing::Unpaired, cx.seed)?;
        outcome.notes.extend(row.ratio.map(|ratio| KEPT.note(&format!("{name}, headstart's without"), ratio, "x")));
        outcome.rows.push(row);
        outcome.samples.extend([plain, captured]);
    }
    if !in_memory {
        outcome.notes.push(format!("{IN_MEMORY} is not there: captures went to the host's temporary files."));
    }
    Ok(())
}
