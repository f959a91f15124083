//! `shim-cost`: what the preloaded library costs a program. An instrument: it serves no claim.
//!
//! Two clients of headstart's own, one bare and one under `headstart run`, make the same calls in turns, block by block,
//! on the lab's client; each call is timed inside the process that makes it. Runs inside namespaces that the caller has
//! entered; the state of the machine is the caller's to record and to doubt.

pub(in crate::experiment) mod client;
mod measures;

use super::{Condition, Context, Entry, Outcome, Row, Series, Speeds};
use crate::netns::{DNS_V4, Network, default_world};
use crate::stats::{Pairing, Statistic, estimate};
use crate::world::World;
use anyhow::Context as _;
use client::{Arm, Client};
use headstart_io::program;
use headstart_io::sys::call_cost::Request;
use measures::{About, HANDED, Measure, Metric, PASSING, Part, Places, START};
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddrV4};
use std::path::PathBuf;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "shim-cost",
    shows: "Preloading costs microseconds for calls that pass through, and less than a round trip for others",
    claims: &[],
    conditions: &[PASSING, HANDED, START],
    speeds: Speeds::Namespaces,
    run,
};

const LINK: &str = "lan";
const UNIT: &str = "us";
/// Blocks of each arm.
const BLOCKS: (usize, usize) = (24, 8);
/// Calls of each kind that warm caches and are not counted.
const WARM_UP: usize = 3;

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let world = World { seed: cx.seed, ..default_world(LINK) };
    let network = Network::build(&world)?;
    let program = cx.measured_program()?;
    let measures: Vec<Measure> = measures::all(places(&world)?).into_iter().filter(|m| cx.wants(m.condition)).collect();
    let blocks = if cx.quick { BLOCKS.1 } else { BLOCKS.0 };
    let start = |arm| Ok((arm, Client::start(&network, &program, arm, &["--via", "preload"])?));
    let mut arms = [Arm::Headstart, Arm::Bare].into_iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
    let mut taken: Vec<Vec<Medians>> = measures.iter().map(|m| vec![Medians::default(); m.metrics.len()]).collect();
    let mut reached = 0;
    for block in 0..=blocks {
        cx.progress.step(block as u64, blocks as u64 + 1, "calls in turns");
        if !cx.goes_on(&mut outcome) {
            break;
        }
        // The order of the arms changes from block to block.
        arms.reverse();
        for (measure, medians) in measures.iter().zip(&mut taken) {
            let counted = if cx.quick { measure.times.1 } else { measure.times.0 };
            let times = if block == 0 { WARM_UP } else { counted };
            let request = Request { times, call: measure.call.clone() };
            for (arm, client) in &mut arms {
                let told = client.measure(&request)?;
                if block > 0 {
                    measure.metrics.iter().zip(medians.iter_mut()).try_for_each(|(m, all)| all.add(*arm, m, &told))?;
                }
            }
            reached += if measure.condition == HANDED { times as u64 } else { 0 };
        }
    }
    for (_, client) in arms {
        if let Some(summary) = client.finish()? {
            vouch(&mut outcome, summary, reached);
        }
    }
    for (measure, medians) in measures.iter().zip(&taken) {
        for (metric, medians) in measure.metrics.iter().zip(medians).filter(|(_, m)| !m.bare.is_empty()) {
            report(&mut outcome, measure.condition, metric, medians, cx.seed)?;
        }
    }
    outcome.doubts(network.certificate().doubt());
    outcome.method.push(format!(
        "Two clients that call libc's functions, one bare and one under `headstart run --explore 0 --cache-lifetime 3600s`, take \
         turns: {blocks} blocks each of up to {} calls of a kind, timed inside the client with two readings of the monotonic \
         clock. A value is the median of a block; rows compare medians of blocks, paired by turn, with 95 % bootstrap intervals. \
         The first {WARM_UP} calls of each kind are not counted. A connection that is handed over costs two wake-ups, and how \
         long a processor takes to wake depends on how long it has slept: the target is for the shorter pause; the longer one is \
         shown too.",
        measures.iter().map(|m| if cx.quick { m.times.1 } else { m.times.0 }).max().unwrap_or_default()
    ));
    outcome.conditions = CONDITIONS.iter().filter(|(n, _)| cx.wants(n)).map(|(n, a)| about(n, a)).collect();
    Ok(outcome)
}

const CONDITIONS: [(&str, &str); 3] = [
    (HANDED, "A dual-stack name behind the link lan (0.2 ms each way): getaddrinfo, 3 or 20 ms of nothing, connect."),
    (PASSING, "Calls that headstart does not handle: other sockets, addresses that it did not look up, on loopback."),
    (START, "A dynamically linked program that does nothing, from its start until its end is noticed."),
];

fn about(name: &str, about: &str) -> Condition {
    Condition { name: name.into(), about: about.into() }
}

fn places(world: &World) -> anyhow::Result<Places> {
    let site = world.sites.first().context("the lab's default world has no sites")?;
    let Some(IpAddr::V4(known)) = site.v4.first().map(|h| h.addr) else {
        anyhow::bail!("the first site of the lab's default world is not dual-stack");
    };
    let path = std::env::var_os("PATH");
    let program: PathBuf = program::find(OsStr::new("true"), path.as_deref())
        .context("the program `true` is not in PATH: add the folder of your system's programs")?;
    Ok(Places {
        name: site.name.clone(),
        port: 80,
        known: SocketAddrV4::new(known, 443),
        unknown: SocketAddrV4::new(DNS_V4, 53),
        program,
    })
}

/// Medians of blocks, in microseconds, in the order of the turns.
#[derive(Clone, Debug, Default)]
struct Medians {
    headstart: Vec<f64>,
    bare: Vec<f64>,
}

impl Medians {
    fn add(&mut self, arm: Arm, metric: &Metric, told: &client::Taken) -> anyhow::Result<()> {
        let all = match metric.part {
            Part::Lookup => &told.lookup,
            Part::Call => &told.call,
        };
        let medians = if arm == Arm::Bare { &mut self.bare } else { &mut self.headstart };
        medians.push(Statistic::Median.of(all)?);
        Ok(())
    }
}

/// Whether the client was served as the figures suppose.
fn vouch(outcome: &mut Outcome, summary: client::Summary, reached: u64) {
    if summary.processes == 0 {
        outcome.invalidate("the preloaded client never asked its supervisor: it was not preloaded");
    }
    if summary.handed_over != reached || summary.handed_over_in_progress != 0 {
        outcome.invalidate(format!(
            "{} of {reached} connections were handed over ready, {} under way: the machine was too busy for a handshake \
             within the pause",
            summary.handed_over, summary.handed_over_in_progress
        ));
    }
}

fn report(outcome: &mut Outcome, condition: &str, metric: &Metric, medians: &Medians, seed: u64) -> anyhow::Result<()> {
    let series =
        |name: &str, arm: Arm, values: &[f64]| Series::new(condition, name, UNIT, arm.name(), values.iter().copied());
    let ours = series(metric.name, Arm::Headstart, &medians.headstart);
    let bare = series(metric.name, Arm::Bare, &medians.bare);
    outcome.rows.push(Row::compare(&ours, &bare, Statistic::Median, Pairing::Paired, seed)?);
    let extra: Vec<f64> = medians.headstart.iter().zip(&medians.bare).map(|(a, b)| a - b).collect();
    let difference = estimate(&extra, Statistic::Median, seed)?;
    let name = format!("extra time of {}", metric.name);
    let row_name = format!("{name}, {}", Statistic::Median);
    // What is served sooner than the kernel could has no extra time.
    if condition != HANDED {
        outcome.rows.push(Row::measured(condition, &row_name, UNIT, Arm::Headstart.name(), difference.value));
        outcome.samples.push(series(&name, Arm::Headstart, &extra));
    }
    if let Some((about, target)) = metric.target {
        let whole = estimate(&medians.headstart, Statistic::Median, seed)?;
        let (what, estimate) = match about {
            About::Extra => (row_name, difference),
            About::Whole => (format!("{}, {}", metric.name, Statistic::Median), whole),
        };
        let interval = estimate.interval.map(|i| format!(" (95 % interval {:.2} to {:.2})", i.lo, i.hi));
        let note = target.note(&what, estimate.value, UNIT);
        outcome.notes.push(format!("{note}{}", interval.unwrap_or_default()));
    }
    outcome.samples.extend([ours, bare]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::target::Target;

    const METRIC: Metric =
        Metric { name: "connect", part: Part::Call, target: Some((About::Extra, Target::AtMost(5.0))) };

    #[test]
    fn a_difference_is_taken_pair_by_pair_and_judged_by_its_median() {
        let mut outcome = Outcome::new("shim-cost", 1);
        let bare = vec![1.0, 2.0, 1.0, 50.0, 1.0, 2.0];
        // 1 us more, whatever the machine did meanwhile, but for one block.
        let headstart = bare.iter().enumerate().map(|(i, b)| if i == 1 { b + 90.0 } else { b + 1.0 }).collect();
        report(&mut outcome, PASSING, &METRIC, &Medians { headstart, bare }, 1).unwrap();
        outcome.check().unwrap();
        let metrics: Vec<_> = outcome.rows.iter().map(|r| (r.metric.as_str(), r.ours)).collect();
        assert_eq!(metrics[1], ("extra time of connect, median", 1.0));
        assert_eq!((outcome.rows[0].metric.as_str(), outcome.rows[0].baseline), ("connect, median", Some(1.5)));
        assert!(outcome.notes[0].contains("target at most 5 us: met (95 % interval"), "{:?}", outcome.notes);
    }

    #[test]
    fn a_connection_that_was_not_ready_spoils_the_run() {
        let summary = client::Summary { processes: 1, handed_over: 9, handed_over_in_progress: 1 };
        let mut outcome = Outcome::new("shim-cost", 1);
        vouch(&mut outcome, client::Summary { handed_over: 10, handed_over_in_progress: 0, ..summary }, 10);
        assert!(outcome.valid);
        vouch(&mut outcome, summary, 10);
        assert!(!outcome.valid && outcome.why_invalid[0].contains("9 of 10"), "{:?}", outcome.why_invalid);
    }
}
