//! `steer-calls`: a UDP call and a game beside a download, by every policy that looks at packets.
//!
//! The paper steers pages alone. What is neither opened nor acknowledged, and of which a lost packet is not sent again, is
//! ours to show: how late it comes, how much of it never does, and what that costs the download.

use super::network::{BASE, Network};
use super::{FAST, FAT, OURS, STATE, rows};
use crate::experiment::target::Target;
use crate::experiment::{Context, Entry, Outcome, Row, Series, Speeds, Steps};
use crate::sim::Steering;
use crate::sim::calls::{Calls, Talked, play};
use crate::stats::Statistic;
use headstart_core::steer::policy;
use headstart_core::time::Duration;
use std::collections::BTreeSet;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "steer-calls",
    shows: "Packets of a call and a game meet their deadlines over a fast channel beside a download, without slowing the download",
    claims: &[],
    conditions: NAMES,
    speeds: Speeds::Virtual,
    run,
};

const NAMES: &[&str] = &[
    "ideal-base",
    "ideal-fat-60mbit",
    "ideal-fast-500kbit",
    "ideal-fast-loss",
    "ideal-alone",
    "tunnel-base",
    "tunnel-fat-60mbit",
    "tunnel-fast-500kbit",
    "tunnel-fast-loss",
    "tunnel-alone",
];

/// Queues end here, other than in the paper's emulator: a download would fill an endless one without end.
const NETWORKS: [Network; 5] = [
    Network {
        fat: "rate=1500mbit,delay=15ms,queue=4000p",
        about: "1500 Mbit/s, 30 ms, a queue of 32 ms, beside 2 Mbit/s, 5 ms: the channels of section 4.1",
        ..BASE
    },
    Network {
        name: "fat-60mbit",
        fat: LTE,
        about: "60 Mbit/s, 50 ms, a queue of 200 ms, as LTE has it, beside 2 Mbit/s, 5 ms; ours",
        ..BASE
    },
    Network {
        name: "fast-500kbit",
        fat: LTE,
        fast: "rate=500kbit,delay=2500us,queue=infinite",
        about: "as fat-60mbit, the fast channel 0.5 Mbit/s; ours",
    },
    Network {
        name: "fast-loss",
        fat: LTE,
        fast: "rate=2mbit,delay=2500us,queue=infinite,loss=1%",
        about: "as fat-60mbit, one packet in a hundred is lost on the fast channel; ours",
    },
    Network { name: "alone", fat: LTE, about: "as fat-60mbit, without the download; ours", ..BASE },
];
const LTE: &str = "rate=60mbit,delay=25ms,queue=1000p";

/// Policies by objects see no packets of a call: for them it is the fat channel alone.
const ARMS: [&str; 7] = [FAT, FAST, STATE, "pkt-control", "pkt-uplink", "asap", OURS];
/// Later than this a packet of a call is of no use: ITU-T G.114, the delay that most users do not notice.
const LATE_MS: f64 = 150.0;
/// By so much of a delay policies are alike: a packet on the fast channel before this one.
const ALIKE_MS: f64 = 1.0;
/// The download keeps this share of its goodput.
const KEPT: f64 = 0.99;

/// One figure of each talk.
struct Measure {
    metric: &'static str,
    unit: &'static str,
    of: fn(&Talked) -> Option<f64>,
}

/// A quantile of what came.
fn quantile(delays: &[Option<f64>], at: f64) -> Option<f64> {
    let came: Vec<f64> = delays.iter().copied().flatten().collect();
    Statistic::Quantile(at).of(&came).ok()
}

fn share(delays: &[Option<f64>], is: impl Fn(&Option<f64>) -> bool) -> Option<f64> {
    Some(100.0 * delays.iter().filter(|d| is(d)).count() as f64 / delays.len().max(1) as f64)
}

const MEASURES: [Measure; 8] = [
    Measure { metric: "call, one-way delay p50", unit: "ms", of: |t| quantile(&t.call, 0.5) },
    Measure { metric: CALL_P95, unit: "ms", of: |t| quantile(&t.call, 0.95) },
    Measure { metric: CALL_P99, unit: "ms", of: |t| quantile(&t.call, 0.99) },
    Measure { metric: "call, lost", unit: "%", of: |t| share(&t.call, Option::is_none) },
    Measure { metric: CALL_LATE, unit: "%", of: |t| share(&t.call, |d| d.is_none_or(|ms| ms > LATE_MS)) },
    Measure { metric: GAME_P95, unit: "ms", of: |t| quantile(&t.game, 0.95) },
    Measure { metric: "game, lost", unit: "%", of: |t| share(&t.game, Option::is_none) },
    Measure { metric: GOODPUT, unit: "Mbit/s", of: |t| (t.goodput > 0.0).then_some(t.goodput / 1e6) },
];
const CALL_P95: &str = "call, one-way delay p95";
const CALL_P99: &str = "call, one-way delay p99";
const CALL_LATE: &str = "call, lost or later than 150 ms";
const GAME_P95: &str = "game, one-way delay p95";
const GOODPUT: &str = "download, goodput";

const METHOD: [&str; 3] = [
    "A call (50 packets a second of 200 bytes, each way) and a game (60 a second of 88 bytes from the host and 178 to it) over \
     two channels in virtual time, beside a download over CUBIC that started earlier. Policies, `ideal` and `tunnel` as in the \
     other experiments of this column; `single-fat` and all others meet the same phases and the same losses.",
    "A value is that of one conversation; rows compare means over conversations. Delays are of packets that arrived; those not \
     here within a second are lost. A packet that is lost or arrives after more than 150 ms is useless to a call (ITU-T G.114).",
    "Targets are of `value` beside the best other policy of the same condition: equal means within a millisecond, or a packet in \
     a thousand. The download must keep 99 % of its throughput over the fat channel alone. It begins with a handshake of TLS and \
     a request, and leaves slow start as Linux does (HyStart); the cost or gain of its first moments is not part of its goodput.",
];

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let (talks, before, measured) = if cx.quick { (2, 600, 1_000) } else { (8, 2_000, 5_000) };
    let wanted: Vec<(&str, Network)> = NAMES
        .iter()
        .copied()
        .filter(|name| cx.wants(name))
        .filter_map(|name| {
            Some((name, NETWORKS.into_iter().find(|n| name.split_once('-').is_some_and(|(_, of)| of == n.name))?))
        })
        .collect();
    let mut steps = Steps::new(cx, wanted.len() * ARMS.len());
    for (condition, network) in wanted {
        let calls = Calls {
            download: network.name != "alone",
            before: Duration::from_millis(before),
            measured: Duration::from_millis(measured),
            gone: None,
        };
        let mut talked: Vec<Vec<Talked>> = Vec::new();
        for arm in ARMS {
            if !steps.next(&mut outcome, &format!("{condition}, {arm}")) {
                return Ok(outcome);
            }
            let steering = Steering {
                fat: network.fat.into(),
                fast: network.fast.into(),
                policy: policy::find(arm)?,
                tunnel: condition.starts_with("tunnel"),
                bound: BTreeSet::new(),
            };
            let seed = |n: u64| cx.seed.wrapping_mul(7919).wrapping_add(n);
            talked.push((0..talks).map(|n| play(&steering, calls, seed(n))).collect::<Result<_, _>>()?);
        }
        outcome.condition(
            condition,
            format!("{}; {talks} talks of {:.1} s.", network.about, calls.measured.as_secs_f64()),
        );
        add(&mut outcome, condition, calls, &talked)?;
    }
    Ok(outcome)
}

/// A figure of every talk under each policy.
fn series(condition: &str, measure: &Measure, talked: &[Vec<Talked>]) -> Vec<Series> {
    let of = |(arm, talks): (&&str, &Vec<Talked>)| {
        Series::with_failures(condition, measure.metric, measure.unit, arm, talks.iter().map(measure.of))
    };
    ARMS.iter().zip(talked).map(of).collect()
}

/// The mean of a figure, if there is one of every talk.
fn mean(series: &Series) -> Option<f64> {
    let values = series.present();
    (values.len() == series.values.len()).then(|| Statistic::Mean.of(&values).ok()).flatten()
}

/// Adds the rows of a condition, what it cost, and the targets.
fn add(outcome: &mut Outcome, condition: &str, calls: Calls, talked: &[Vec<Talked>]) -> anyhow::Result<()> {
    for measure in MEASURES.iter().filter(|m| calls.download || m.metric != GOODPUT) {
        let all = series(condition, measure, talked);
        if measure.unit == "%" {
            // Often none at all: a ratio to nothing says nothing.
            let shares = all.iter().filter_map(|arm| Some((arm, mean(arm)?)));
            let row = |(arm, share): (&Series, f64)| {
                Row::measured(condition, &format!("{}, mean", measure.metric), "%", &arm.arm, share)
            };
            outcome.rows.extend(shares.map(row));
        } else {
            for arm in &all[1..] {
                rows::compare(outcome, arm, &all[0], Ok)?;
            }
        }
        let ours = all.iter().find(|s| s.arm == OURS).and_then(mean);
        let others = all.iter().filter(|s| s.arm != OURS).filter_map(|s| Some((s.arm.as_str(), mean(s)?)));
        let alike = if measure.unit == "ms" { ALIKE_MS } else { 0.1 };
        let judged = [CALL_P95, CALL_P99, CALL_LATE, GAME_P95].contains(&measure.metric);
        if let (true, Some(ours), Some(best)) = (judged, ours, others.min_by(|a, b| a.1.total_cmp(&b.1))) {
            let what = format!("{condition}, {}, {OURS} beside the best other one ({})", measure.metric, best.0);
            outcome.notes.push(Target::AtMost(alike).note(&what, ours - best.1, measure.unit));
        }
        if let (GOODPUT, Some(ours), Some(fat)) = (measure.metric, ours, mean(&all[0])) {
            let what = format!("{condition}, {}, {OURS} beside {FAT}", measure.metric);
            outcome.notes.push(Target::AtLeast(KEPT).note(&what, ours / fat, "x"));
        }
        outcome.samples.extend(all);
    }
    for (arm, talks) in ARMS.iter().zip(talked) {
        let fast = talks.iter().map(|t| t.bytes[1] as f64).sum::<f64>() / talks.len().max(1) as f64;
        outcome.price(condition, arm, "over the fast channel, a talk", "kB", fast / 1e3);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_the_networks_inside_the_emulator_and_through_a_tunnel() {
        let all = ["ideal", "tunnel"].into_iter().flat_map(|way| NETWORKS.map(|n| format!("{way}-{}", n.name)));
        assert!(all.eq(NAMES.iter().map(|name| (*name).to_owned())));
    }
}
