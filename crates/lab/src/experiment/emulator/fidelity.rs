//! Whether the emulator does what its models say: every packet of a recorded run, played again through the same models in
//! virtual time; and links in series in both times.

use super::judge;
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row};
use crate::netns::Settings;
use crate::program::Folder;
use crate::scenario::{Scenario, real_time, virtual_time};
use crate::stats::Statistic;
use anyhow::Context as _;
use headstart_core::time::Instant;
use headstart_link::medium::Way;
use headstart_link::{Duplex, Packet};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// The condition in which recorded packets are played again.
pub const REPLAY: &str = "models-replayed";
/// The condition with links in series.
pub const SERIES: &str = "links-in-series";

/// A rate that comes in bursts and pauses: 12, 36 and 0 Mbit/s by turns, 12 on average.
const TRACE: &str = "1\n2\n3\n4\n4\n4\n5\n5\n5\n10\n";
const TRACE_BYTES_A_MS: f64 = 10.0 * 1500.0 / 10.0;
/// Share of packets that the loss model takes, in percent.
const LOSS: f64 = 5.0;
/// Of each link in series, each way.
const HOP_MS: u64 = 5;
const NONE: Target = Target::AtMost(0.0);
/// 10 %: agreement of namespaces with virtual time at the median.
const DISAGREEMENT: Target = Target::AtMost(10.0);

/// Runs the conditions that `cx` wants.
pub fn run(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    if cx.wants(REPLAY) {
        cx.progress.step(0, 1, "datagrams through a trace with losses, recorded");
        replay(cx, outcome)?;
    }
    if cx.wants(SERIES) {
        for links in [1, 2, 4] {
            cx.progress.step(0, 1, &format!("pings over {links} links in series"));
            series(cx, links, outcome)?;
        }
    }
    cx.goes_on(outcome);
    Ok(())
}

/// A line of the emulator's records (see `netns::record`).
#[derive(Deserialize)]
struct Line {
    way: String,
    bytes: usize,
    arrived_ns: u64,
    decided_ns: u64,
    fate: String,
}

#[derive(Clone)]
struct Sized(usize, usize);

impl Packet for Sized {
    fn wire_len(&self) -> usize {
        self.1
    }
}

fn replay(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    let seconds = if cx.quick { 3 } else { 20 };
    let text = format!(
        "name = 'replay'\nwhat = 'datagrams, faster than the trace'\nhosts = ['a', 'b']\nseed = {}\n\
         [[link]]\nname = 'link'\nbetween = ['a', 'b']\nlink = 'rate=trace:burst,delay=10ms,loss={LOSS}%,queue=50p'\n\
         [[flow]]\nname = 'flow'\nkind = 'datagrams'\nfrom = 'a'\nto = 'b'\nrate = '24mbit'\nsize = 1400\n\
         duration = '{seconds}s'\n",
        cx.seed
    );
    let scenario = Scenario::read("replay", &text, &mut |_| Ok(TRACE.into()))?;
    let folder = Folder::new().context("making a folder for the records")?;
    let file = folder.path().join("replay.jsonl");
    let settings = Settings { events: Some(file.clone()), ..Settings::default() };
    let played = real_time::play_with(&scenario, &settings)?;
    anyhow::ensure!(
        played.certificate.unrecorded == 0,
        "the records of the emulator are incomplete: is the disk full?"
    );
    let lines = read(&file)?;
    anyhow::ensure!(!lines.is_empty(), "the emulator recorded nothing");
    let seed = *scenario.seeds().first().context("a scenario with a link has a seed for it")?;
    let wrong = differences(&lines, &mut Duplex::new(&scenario.wires[0].link, seed));
    let lost = 100.0 * lines.iter().filter(|line| line.fate == "lost").count() as f64 / lines.len() as f64;
    let through: Vec<&Line> = lines.iter().filter(|line| line.fate == "released").collect();
    let span = through.iter().map(|line| line.decided_ns).max().unwrap_or(0)
        - through.iter().map(|line| line.decided_ns).min().unwrap_or(0);
    let offered = TRACE_BYTES_A_MS * span as f64 / 1e6;
    let used = through.iter().map(|line| line.bytes).sum::<usize>() as f64;

    outcome.condition(REPLAY, format!(
            "rate by a trace of {:.1} Mbit/s in bursts and pauses, 10 ms, {LOSS} % loss, a queue of 50 packets; datagrams \
             of 1400 bytes at 24 Mbit/s for {seconds} s",
            TRACE_BYTES_A_MS * 8.0 / 1e3
        ));
    let metric = "packets whose fate or release is not that of the model";
    outcome.rows.push(Row::measured(REPLAY, metric, "packets", "namespaces", wrong as f64));
    outcome.notes.push(NONE.note(&format!("{metric}, of {}", lines.len()), wrong as f64, "packets"));
    let row = |metric: &str, unit: &str, ours| Row::measured(REPLAY, metric, unit, "namespaces", ours);
    outcome.rows.push(row("packets lost by the loss model", "%", lost).beside("as-told", LOSS));
    outcome.rows.push(row("bytes through a backlogged trace", "bytes", used).beside("as-told", offered));
    judge(outcome, &played.certificate, REPLAY);
    if wrong > 0 {
        outcome.invalidate(format!(
            "{REPLAY}: {wrong} of {} packets were lost or released differently from the models: a bug in the emulator, however \
             busy the machine; report it with the seed",
            lines.len()
        ));
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<Vec<Line>> {
    let text = std::fs::read_to_string(file).context("reading what the emulator recorded")?;
    let lines = text.lines().skip(1).map(serde_json::from_str::<Line>);
    let mut lines = lines.collect::<Result<Vec<_>, _>>().context("reading what the emulator recorded")?;
    lines.retain(|line| line.way == "up");
    // In the order in which the link saw them; at one moment, in the order of their ends.
    lines.sort_by_key(|line| line.arrived_ns);
    Ok(lines)
}

/// Plays the packets through the model; how many of them it treats in another way.
fn differences(lines: &[Line], model: &mut Duplex<Sized>) -> usize {
    let mut releases = HashMap::new();
    let mut drops = 0;
    let mut wrong = 0;
    for (n, line) in lines.iter().enumerate() {
        let taken = model.push(Instant::from_nanos(line.arrived_ns), Way::Up, Sized(n, line.bytes)).is_ok();
        drops += usize::from(!taken);
        wrong += usize::from(taken != (line.fate == "released"));
    }
    while let Some((at, _, Sized(n, _))) = model.poll(Instant::FAR_FUTURE) {
        releases.insert(n, at.as_nanos());
    }
    let moved = |(n, line): &(usize, &Line)| releases.get(n).is_some_and(|at| *at != line.decided_ns);
    debug_assert_eq!(drops + releases.len(), lines.len());
    wrong + lines.iter().enumerate().filter(|(_, line)| line.fate == "released").filter(moved).count()
}

/// Pings over so many links, in both times.
fn series(cx: &Context, links: u64, outcome: &mut Outcome) -> anyhow::Result<()> {
    let count = if cx.quick { 50 } else { 500 };
    let routers: Vec<String> = (1..links).map(|n| format!("'r{n}'")).collect();
    let node = |n: u64| match n {
        0 => "a".to_owned(),
        n if n == links => "b".to_owned(),
        n => format!("r{n}"),
    };
    let mut text = format!("name = 'series'\nwhat = 'links in series'\nhosts = ['a', 'b']\nseed = {}\n", cx.seed);
    text.push_str(&format!("routers = [{}]\n", routers.join(", ")));
    for n in 0..links {
        let (from, to) = (node(n), node(n + 1));
        text.push_str(&format!("[[link]]\nname = 'l{n}'\nbetween = ['{from}', '{to}']\n"));
        text.push_str(&format!("link = 'rate=100mbit,delay={HOP_MS}ms'\n"));
    }
    text.push_str("[[flow]]\nname = 'pings'\nkind = 'ping'\nfrom = 'a'\nto = 'b'\n");
    text.push_str(&format!("interval = '7ms'\ncount = {count}\n"));
    let scenario = Scenario::read("series", &text, &mut |name| Err(format!("no file {name}")))?;
    let really = real_time::play_with(&scenario, &Settings::default())?;
    let virtually = virtual_time::play(&scenario).map_err(anyhow::Error::msg)?;
    let median = |flows: &[crate::scenario::Measured]| {
        let flow = flows.first().context("a scenario of one flow has one result")?;
        let ms: Vec<f64> = flow.delays.iter().map(|delay| delay.as_secs_f64() * 1e3).collect();
        anyhow::Ok(Statistic::Median.of(&ms)?)
    };
    let (ours, model) = (median(&really.flows)?, median(&virtually.flows)?);
    if links == 1 {
        let about = format!(
            "1, 2 and 4 links of 100 Mbit/s and {HOP_MS} ms each way, with routers between; {count} pings, 7 ms apart"
        );
        outcome.condition(SERIES, about);
    }
    let metric = format!("round trip of a ping over {links} links, median");
    outcome.rows.push(Row::measured(SERIES, &metric, "ms", "namespaces", ours).beside("virtual-time", model));
    let error = 1e3 * (ours - model) / (2 * links) as f64;
    let metric = format!("error of a link, one way, of {links} in series, median");
    outcome.rows.push(Row::measured(SERIES, &metric, "us", "namespaces", error));
    let apart = 100.0 * (ours / model - 1.0).abs();
    outcome.notes.push(DISAGREEMENT.note(&format!("both times apart over {links} links"), apart, "%"));
    judge(outcome, &really.certificate, SERIES);
    Ok(())
}
