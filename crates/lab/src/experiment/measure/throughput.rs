//! `measure-throughput`: one connection and eight, up and down, without a TUN and through forwarders (claim P3.3).

pub(super) mod phone;

use super::arm::{self, EBPF, OURS, Stage, Testbed};
use super::beside::is_beside;
use super::latency::world;
use super::least::LEAST;
use super::process::Counts;
use super::wire::{WIRED, Wire};
use crate::experiment::target::Target;
use crate::experiment::{Claims, Context, Entry, Outcome, Row, Series, Speeds, Steps};
use crate::netns::Network;
use crate::stats::{Pairing, Statistic};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "measure-throughput",
    shows: "Throughput through headstart's forwarder equals that of the path; reproduces the flaws of the paper's tools",
    claims: &["P3.3"],
    conditions: &[
        "one-flow-up",
        "one-flow-down",
        "eight-flows-up",
        "eight-flows-down",
        "link-up",
        "link-down",
        phone::CONDITION,
    ],
    speeds: Speeds::Namespaces,
    run,
};

/// What a probe is asked for.
pub const WORKLOAD: &str = "throughput";
/// Bytes of a read or a write.
const CHUNK: usize = 128 * 1024;
/// Where the peer is behind a link.
const PEER: &str = "198.19.0.42";
/// The paper's network: LTE of an operator, whose server is near.
const LINK: &str = "rate=30mbit,delay=8500us";
/// What the issue asks for where programs in the kernel measure: of the throughput without measuring, and the lower end of its interval.
const KEPT: Target = Target::AtLeast(0.98);
const KEPT_SURELY: Target = Target::AtLeast(0.95);
/// Turns of these two arms alone, over the veth pair: their difference of a few per cent is less than that between turns.
const MORE_TURNS: usize = 16;
/// What a connection's first byte asks the peer for.
const UP: u8 = b'u';
/// And a connection that is to be sent as much as goes.
pub const DOWN: u8 = b'd';

/// Sends or takes as much as goes in `millis` over so many connections; Mbit/s of what has arrived, its bytes, and for how long this
/// process's parent, which may be the forwarder, had a processor meanwhile.
pub fn probe(to: SocketAddr, up: bool, flows: u64, millis: u64) -> io::Result<serde_json::Value> {
    let clock = Clock::new();
    let until = clock.now() + Duration::from_millis(millis);
    let streams = (0..flows).map(|_| TcpStream::connect(to)).collect::<io::Result<Vec<_>>>()?;
    let (start, first) = (clock.now(), Counts::of_parent()?);
    let bytes = std::thread::scope(|scope| {
        let threads: Vec<_> =
            streams.into_iter().map(|s| scope.spawn(move || move_data(s, up, clock, until))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(io::Error::other("died")))).sum::<io::Result<u64>>()
    })?;
    let took = clock.now().since(start).as_secs_f64();
    let ran_s = Counts::of_parent()?.ran_since(first);
    Ok(serde_json::json!({ "mbit_s": bytes as f64 * 8.0 / 1e6 / took, "bytes": bytes, "ran_s": ran_s }))
}

fn move_data(mut stream: TcpStream, up: bool, clock: Clock, until: Instant) -> io::Result<u64> {
    let mut buffer = vec![7; CHUNK];
    let mut bytes = 0;
    stream.write_all(&[if up { UP } else { DOWN }])?;
    if !up {
        while clock.now() < until {
            match stream.read(&mut buffer)? {
                0 => break,
                len => bytes += len as u64,
            }
        }
        return Ok(bytes);
    }
    while clock.now() < until {
        bytes += stream.write(&buffer)? as u64;
    }
    // Until the peer has it all, and says so.
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut buffer)?;
    Ok(bytes)
}

/// Takes or sends as much as goes, as the first byte asks, for as long as it is listened to.
pub fn serve(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || {
            let mut stream = stream;
            let mut buffer = vec![7; CHUNK];
            let mut wish = [0];
            if stream.read_exact(&mut wish).is_ok() {
                if wish == [UP] {
                    while stream.read(&mut buffer).is_ok_and(|len| len > 0) {}
                } else {
                    while stream.write_all(&buffer).is_ok() {}
                }
            }
        });
    }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let wire = Wire::lay()?;
    let network = Network::build(&world(LINK, PEER, cx.seed))?;
    for (name, flows, up, on_wire, about) in [
        ("one-flow-up", 1, true, true, "One connection of the program's data, over a veth pair."),
        ("one-flow-down", 1, false, true, "One connection of the peer's data, likewise."),
        ("eight-flows-up", 8, true, true, "Eight connections, likewise."),
        ("eight-flows-down", 8, false, true, "Eight connections, likewise."),
        ("link-up", 1, true, false, "One connection over an emulated link of 30 Mbit/s and 17 ms there and back."),
        ("link-down", 1, false, false, "The other direction, likewise."),
    ] {
        if !cx.wants(name) {
            continue;
        }
        outcome.condition(name, about);
        let (testbed, peer) = if on_wire {
            (Testbed::Wire(&wire), WIRED.to_string())
        } else {
            (Testbed::Network(&network), PEER.to_owned())
        };
        let stage = Stage::new(testbed, cx.program.clone())?;
        let load = Load { condition: name, metric: "throughput", flows, up };
        one(cx, &mut outcome, &load, &stage, stage.listen(&peer, serve)?)?;
    }
    if cx.wants(phone::CONDITION) && !cx.progress.stop() {
        let stage = Stage::new(Testbed::Wire(&wire), cx.program.clone())?;
        phone::run(cx, &mut outcome, &stage, stage.listen(&WIRED.to_string(), serve)?)?;
    }
    outcome.how(
        "Arms take turns, without a TUN at the start of each; over the veth pair the arm of the kernel and that without a TUN have \
         16 further turns, in changing order. A program writes, or reads, for a set time; the time of its data \
         runs from the first byte until the peer has confirmed the last one. Ratios are of medians over the turns. Over the veth \
         pair the arm `least` only passes on and acknowledges what the program writes, sixteen packets at a time. The processor time \
         of a forwarder is that of its process's threads, in user space and in the kernel, for each GB of the program's data.",
    );
    Ok(outcome)
}

/// What a program does, and what its rows are called.
struct Load<'a> {
    /// The condition.
    condition: &'a str,
    /// The metric, without a statistic.
    metric: &'a str,
    /// Connections at once.
    flows: u64,
    /// Whether the program sends.
    up: bool,
}

/// What an arm has reached, a value a turn.
#[derive(Default)]
struct Reached {
    /// Mbit/s.
    rate: Vec<f64>,
    /// Processor time of its forwarder, in seconds for each GB, if it has one that was seen.
    cost: Vec<f64>,
}

/// Has each of the arms do it, in this order; what they have reached, or none if the run is to stop.
fn reach(
    cx: &Context,
    outcome: &mut Outcome,
    stage: &Stage<'_>,
    to: SocketAddr,
    load: &Load<'_>,
    (arms, order): (&[&str], &[usize]),
) -> anyhow::Result<Option<Vec<Reached>>> {
    let millis = if cx.quick { 1000 } else { 3000 };
    let mut all: Vec<Reached> = arms.iter().map(|_| Reached::default()).collect();
    let mut steps = Steps::new(cx, order.len());
    for &n in order {
        if !steps.next(outcome, &format!("{}, {}", load.condition, arms[n])) {
            return Ok(None);
        }
        let direction = if load.up { "up" } else { "down" };
        let words = [WORKLOAD, &to.to_string(), direction, &load.flows.to_string(), &millis.to_string()];
        let said = stage.say(arms[n], &words.map(str::to_owned))?;
        all[n].rate.extend(said["mbit_s"].as_f64());
        if arms[n] == OURS || is_beside(arms[n]) {
            all[n]
                .cost
                .extend(said["ran_s"].as_f64().zip(said["bytes"].as_f64()).map(|(ran, bytes)| ran / bytes * 1e9));
        }
    }
    Ok(Some(all))
}

/// Rows of what forwarders took of the processors: the first, which is ours, and others beside it.
fn costs(outcome: &mut Outcome, load: &Load<'_>, arms: &[&str], reached: &[Reached], seed: u64) -> anyhow::Result<()> {
    let metric = load.metric.replace("throughput", "processor time of the forwarder");
    let seen = arms.iter().zip(reached).filter(|(_, reached)| !reached.cost.is_empty());
    let all =
        seen.map(|(arm, reached)| Series::new(load.condition, &metric, "s/GB", arm, reached.cost.iter().copied()));
    let all: Vec<Series> = all.collect();
    for (n, series) in all.iter().enumerate() {
        outcome.rows.push(if n == 0 {
            let value = Statistic::Median.of(&series.present())?;
            Row::measured(load.condition, &format!("{metric}, {}", Statistic::Median), "s/GB", &series.arm, value)
        } else {
            Row::compare(series, &all[0], Statistic::Median, Pairing::Unpaired, seed)?
        });
    }
    outcome.samples.extend(all);
    Ok(())
}

fn one(cx: &Context, outcome: &mut Outcome, load: &Load<'_>, stage: &Stage<'_>, to: SocketAddr) -> anyhow::Result<()> {
    let claims = Claims::built_in()?;
    let name = load.condition;
    let on_link = name.starts_with("link");
    let mut arms = if on_link { arm::and_kernel(arm::all(), outcome) } else { arm::on_wire(outcome) };
    // Where only the machine limits them, the least that any forwarder costs stands beside them.
    arms.extend((load.up && !on_link).then_some(LEAST));
    let order = order(&arms, if cx.quick { 3 } else { 7 }, if cx.quick || on_link { 0 } else { MORE_TURNS });
    let Some(reached) = reach(cx, outcome, stage, to, load, (&arms, &order))? else { return Ok(()) };
    let series = |n: usize| Series::new(name, load.metric, "Mbit/s", arms[n], reached[n].rate.iter().copied());
    for (n, arm) in arms.iter().enumerate().skip(1) {
        let row = Row::compare(&series(n), &series(0), Statistic::Median, Pairing::Unpaired, cx.seed)?;
        if *arm == EBPF {
            outcome.notes.extend(kept(&row));
        }
        // The paper's own figures are of its tools on its network.
        outcome.rows.push(if name == "link-up" && *arm != EBPF { row.serving(&claims, "P3.3", arm)? } else { row });
    }
    let bare = Statistic::Median.of(&series(0).present())?;
    outcome.price(name, arms[0], "throughput", "Mbit/s", bare);
    outcome.samples.extend((0..arms.len()).map(series));
    costs(outcome, load, &arms, &reached, cx.seed)
}

/// Which arm runs when: `turns` of all in their order, the first without a TUN, then `more` of that one and the kernel's, which change
/// places from turn to turn.
fn order(arms: &[&str], turns: usize, more: usize) -> Vec<usize> {
    let all = (0..turns).flat_map(|_| 0..arms.len());
    let Some(kernel) = arms.iter().position(|arm| *arm == EBPF) else { return all.collect() };
    all.chain((0..more).flat_map(|turn| if turn % 2 == 0 { [kernel, 0] } else { [0, kernel] })).collect()
}

/// What programs in the kernel left of the throughput, beside the targets. What is not known meets nothing.
fn kept(row: &Row) -> [String; 2] {
    let lower = row.interval.map(|interval| interval.lo);
    let both =
        [(KEPT, "throughput of that without measuring", row.ratio), (KEPT_SURELY, "lower end of its interval", lower)];
    both.map(|(target, what, value)| {
        let about = format!("{}, {}, {what}", row.condition, row.arm);
        value.map_or_else(
            || format!("{about}: unknown (too few turns), target {target} x: MISSED"),
            |value| target.note(&about, value, "x"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_turns_are_of_two_arms_in_changing_order_if_the_kernel_measures() {
        assert_eq!(order(&[arm::BARE, "ours", EBPF, LEAST], 2, 3), [0, 1, 2, 3, 0, 1, 2, 3, 2, 0, 0, 2, 2, 0]);
        assert_eq!(order(&[arm::BARE, "ours"], 1, 3), [0, 1]);
    }

    #[test]
    fn both_the_ratio_and_its_lower_end_are_judged_and_what_is_not_there_is_missed() {
        let mut row = Row::measured("one-flow-up", "throughput", "Mbit/s", EBPF, 990.0);
        let verdicts = |row: &Row| kept(row).map(|note| note.ends_with(": met"));
        assert_eq!(verdicts(&row), [false, false]);
        row.ratio = Some(0.99);
        row.interval = Some([0.94, 1.04].into());
        assert_eq!(verdicts(&row), [true, false], "{:?}", kept(&row));
        row.ratio = Some(0.97);
        row.interval = Some([0.96, 0.98].into());
        assert_eq!(verdicts(&row), [false, true], "{:?}", kept(&row));
    }
}
