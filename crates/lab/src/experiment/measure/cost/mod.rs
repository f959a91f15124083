//! `measure-cost`: what a forwarder takes of the machine, and what it keeps of programs' data. An instrument.
//!
//! Wake-ups and memory with many connections that are open and silent, the share of a processor at a moderate rate, bytes that a
//! program gets rid of before it is held up, and what a capture of headers costs of the throughput.

mod workload;

use super::arm::{self, BARE, EBPF, OURS, Stage, Testbed, number};
use super::least::LEAST;
use super::throughput;
use super::wire::{WIRED, Wire};
use crate::experiment::target::Target;
use crate::experiment::{Context, Entry, Outcome, Row, Series, Speeds};
use crate::program::Folder;
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use serde_json::Value;
use std::net::SocketAddr;
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
const PERCENT_IN_KERNEL: Target = Target::AtMost(0.3);
const PARKED_MB: Target = Target::AtMost(1.0);
const KEPT: Target = Target::AtLeast(0.8);

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    workload::raise_limit();
    let wire = Wire::lay()?;
    let stage = Stage::new(Testbed::Wire(&wire), cx.program.clone())?;
    let peer = WIRED.to_string();
    let to = stage.listen(&peer, workload::serve)?;
    open_flows(cx, &mut outcome, &stage, to)?;
    rate(cx, &mut outcome, &stage, to)?;
    parked_bytes(cx, &mut outcome, &stage, to)?;
    captured(cx, &mut outcome, &stage, stage.listen(&peer, throughput::serve)?)?;
    cx.goes_on(&mut outcome);
    outcome.how(
        "Two namespaces and a veth pair. The program watches its parent process, the forwarder: how often its threads have gone \
         to sleep (voluntary_ctxt_switches), how long they have run (schedstat), its resident memory (VmRSS). A paced side writes \
         128 KiB at a time, as iperf3 does. Programs in the kernel run in the time of the sending and receiving processes: their \
         run time (run_ns, counted by the kernel as bpf_stats_enabled has it, from attaching to the end) is added to the share of \
         the process that reads what they report. It leaves out what calling them costs; measure-throughput and measure-latency \
         include that.",
    );
    Ok(outcome)
}

/// Begins a condition, if it is wanted and the run is not to stop.
fn begin(cx: &Context, outcome: &mut Outcome, name: &str, about: &str) -> bool {
    if !cx.wants(name) || cx.progress.stop() {
        return false;
    }
    outcome.condition(name, about);
    true
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
                let words = [PACED, &to.to_string(), direction, &millis.to_string()].map(str::to_owned);
                let (said, in_kernel) =
                    if *arm == EBPF { with_kernel(stage, &words)? } else { (stage.say(arm, &words)?, 0.0) };
                percent.push(number(&said, "percent")? + in_kernel);
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
            let target = [(OURS, PERCENT), (EBPF, PERCENT_IN_KERNEL)].into_iter().find(|(of, _)| of == arm);
            outcome
                .notes
                .extend(target.map(|(_, target)| target.note(&format!("{name}, {arm}, {metric}"), value, "%")));
            outcome.samples.push(shares);
        }
    }
    Ok(())
}

/// What a paced workload says when programs in the kernel measure it, and the share of a processor, in per cent, that these had
/// meanwhile. They run in the time of other processes, so that no process shows it.
fn with_kernel(stage: &Stage<'_>, words: &[String]) -> anyhow::Result<(Value, f64)> {
    let folder = Folder::new().context("making a folder for a summary")?;
    let file = folder.path().join("summary.json");
    let said = stage.say_with(EBPF, &["--summary".as_ref(), file.as_os_str()], words)?;
    let summary = std::fs::read(&file).context("reading what was measured")?;
    let percent = in_kernel(&serde_json::from_slice(&summary)?, number(&said, "took_s")?)?;
    Ok((said, percent))
}

/// The share of a processor, in per cent of `took` seconds, that a summary says programs in the kernel had. Programs that have not
/// run have measured nothing, and what was not counted is not zero: both are errors.
fn in_kernel(summary: &Value, took: f64) -> anyhow::Result<f64> {
    let ns = summary["ran"]["ns"].as_f64().filter(|ns| *ns > 0.0);
    ns.map(|ns| ns / 1e9 / took * 100.0).with_context(|| format!("the kernel has counted no run time: {summary}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_in_the_kernel_are_judged_by_their_own_time_and_one_that_was_not_counted_is_no_zero() {
        let share = |ns: u64| in_kernel(&json!({ "ran": { "times": 7, "ns": ns } }), 2.0).unwrap();
        assert_eq!(share(6_000_000), 0.3);
        assert!(PERCENT_IN_KERNEL.is_met(share(6_000_000)) && !PERCENT_IN_KERNEL.is_met(share(7_000_000)));
        for summary in [json!({ "ran": null }), json!({ "ran": { "times": 0, "ns": 0 } }), json!({})] {
            assert!(in_kernel(&summary, 2.0).is_err(), "{summary}");
        }
    }
}
