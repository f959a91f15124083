//! How long round trips take: what is said of each connection, beside what tshark finds in a capture of its own on the other side of
//! the forwarder.

use super::super::arm::{EBPF, Stage, Testbed, number};
use super::super::latency;
use super::capture::Capture;
use super::measured;
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row, Series};
use crate::netns::Network;
use crate::stats::Statistic;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// What a probe is asked for.
pub const WORKLOAD: &str = "round-trips";
/// The condition.
pub const CONDITION: &str = "round-trips";
const ABOUT: &str = "20 ms there and back; each connection carries ten requests of 64 bytes and their answers.";
const LINK: &str = "rate=100mbit,delay=10ms";
const PEER: &str = "198.19.0.51";
/// Requests of a connection.
const REQUESTS: usize = 10;
/// Weight of a new round trip in a smoothed one: RFC 6298, section 2.
const ALPHA: f64 = 0.125;
/// What the issue asks for, in microseconds.
const TARGET: Target = Target::AtMost(100.0);
/// And of programs in the kernel: the median, in microseconds and in per cent of what was captured.
const MEDIAN_US: Target = Target::AtMost(20.0);
const MEDIAN_PERCENT: Target = Target::AtMost(1.0);

/// Opens connections one after the other, and asks over each.
pub fn probe(to: SocketAddr, connections: u64) -> io::Result<Value> {
    let mut buffer = [7; 64];
    for _ in 0..connections {
        let mut stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        for _ in 0..REQUESTS {
            stream.write_all(&buffer)?;
            stream.read_exact(&mut buffer)?;
        }
    }
    Ok(serde_json::json!({ "connections": connections }))
}

/// A row for the least round trip of each connection, and one for the smoothed one.
pub fn run(cx: &Context, outcome: &mut Outcome, arm: &str, folder: &Path) -> anyhow::Result<()> {
    outcome.condition(CONDITION, ABOUT);
    let network = Network::build(&latency::world(LINK, PEER, cx.seed))?;
    let stage = Stage::new(Testbed::Network(&network), cx.program.clone())?;
    let to = stage.listen(PEER, latency::serve)?;
    let file = folder.join(format!("{arm}.pcapng"));
    let Some(capture) = Capture::begin(outcome, CONDITION, &network, to, &file)? else { return Ok(()) };
    let connections = if cx.quick { 10 } else { 100 };
    cx.progress.step(0, 1, CONDITION);
    let words = [WORKLOAD.to_owned(), to.to_string(), connections.to_string()];
    let (_, lines) = measured(&stage, arm, &folder.join("round-trips"), &words)?;
    let filter = format!("tcp.analysis.ack_rtt && tcp.srcport == {}", to.port());
    let whole = |seen: &BTreeMap<u32, Vec<f64>>| {
        seen.len() == connections as usize && seen.values().all(|trips| trips.len() > REQUESTS)
    };
    let seen = capture.end(&filter, &["tcp.stream", "tcp.analysis.ack_rtt"], round_trips, whole)?;
    anyhow::ensure!(
        lines.len() == connections as usize && seen.len() == lines.len(),
        "{} connections were reported and {} captured, of {connections}",
        lines.len(),
        seen.len()
    );
    let pairs = pairs(&lines, &seen)?;
    for (pairs, what) in pairs.iter().zip(["least round trip", "smoothed round trip"]) {
        if arm == EBPF {
            median_off(outcome, (CONDITION, arm), what, pairs)?;
        }
        let metric = &format!("{what}, off by (p95)");
        let off: Vec<f64> = pairs.iter().map(|(told, captured)| (told - captured).abs() * 1e3).collect();
        let series = Series::new(CONDITION, metric, "us", arm, off);
        let value = Statistic::Quantile(0.95).of(&series.present())?;
        outcome.rows.push(Row::measured(CONDITION, metric, "us", arm, value));
        outcome.notes.push(TARGET.note(&format!("{arm}, {metric}"), value, "us"));
        outcome.samples.push(series);
    }
    let certificate = network.certificate();
    match certificate.doubt() {
        Some(doubt) if !certificate.is_whole() => outcome.invalidate(doubt),
        // A packet that was late is as late in the capture: both tell of the same packets.
        Some(_) => outcome.notes.push(format!(
            "{CONDITION}: packets left the link up to {:.0} us late (p99). This lengthens reported and captured times alike.",
            certificate.lateness.p99_us
        )),
        None => {}
    }
    outcome.how(
        "tshark captures on the client's interface as a separate process (behind the forwarder, where one measures); its \
         tcp.analysis.ack_rtt of packets of the peer, connection by connection, are compared with what is reported of the same \
         connection: minimum with minimum, the smoothed one with theirs smoothed by RFC 6298.",
    );
    Ok(())
}

/// What is told and what was captured of each connection: its least round trips, and its smoothed ones.
fn pairs(lines: &[Value], seen: &BTreeMap<u32, Vec<f64>>) -> anyhow::Result<[Vec<(f64, f64)>; 2]> {
    let mut pairs = [Vec::new(), Vec::new()];
    // One after the other: in the order in which they were begun they are the same.
    for (line, trips) in lines.iter().zip(seen.values()) {
        let least = trips.iter().copied().fold(f64::INFINITY, f64::min);
        let both = [("least_rtt_ms", least), ("rtt_ms", smoothed(trips))];
        for ((meter, captured), pairs) in both.into_iter().zip(&mut pairs) {
            pairs.push((number(line, meter)?, captured));
        }
    }
    Ok(pairs)
}

/// How far what is told is from what was captured, in milliseconds both: the medians of the differences, in microseconds and in per cent,
/// beside their targets.
pub(super) fn median_off(
    outcome: &mut Outcome,
    (condition, arm): (&str, &str),
    what: &str,
    pairs: &[(f64, f64)],
) -> anyhow::Result<()> {
    let us = pairs.iter().map(|(told, captured)| (told - captured).abs() * 1e3);
    let percent = pairs.iter().map(|(told, captured)| (told / captured - 1.0).abs() * 100.0);
    let metric = format!("{what}, off by (median)");
    for (off, unit, target) in [(us.collect::<Vec<_>>(), "us", MEDIAN_US), (percent.collect(), "%", MEDIAN_PERCENT)] {
        let value = Statistic::Median.of(&off)?;
        outcome.rows.push(Row::measured(condition, &metric, unit, arm, value));
        outcome.notes.push(target.note(&format!("{condition}, {arm}, {metric}"), value, unit));
    }
    Ok(())
}

/// Round trips one after the other, smoothed.
fn smoothed(trips: &[f64]) -> f64 {
    trips.iter().copied().reduce(|smoothed, trip| smoothed + ALPHA * (trip - smoothed)).unwrap_or(f64::NAN)
}

/// Reads tshark's lines of a stream and a round trip in seconds each.
fn round_trips(text: &str) -> BTreeMap<u32, Vec<f64>> {
    let mut all: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (stream, trip) in text.lines().filter_map(|line| line.split_once('\t')) {
        if let (Ok(stream), Ok(seconds)) = (stream.parse(), trip.trim().parse::<f64>()) {
            all.entry(stream).or_default().push(seconds * 1e3);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_what_is_off_is_judged_both_in_time_and_in_share() {
        let mut outcome = Outcome::new("measure-truth", 1);
        // Ten microseconds off, of which one case is far off: the middle is not.
        let pairs = [(0.51, 0.5), (0.49, 0.5), (9.0, 0.5)];
        median_off(&mut outcome, (CONDITION, EBPF), "round trip", &pairs).unwrap();
        let verdicts: Vec<_> = outcome.notes.iter().map(|note| note.rsplit(' ').next().unwrap()).collect();
        assert_eq!(verdicts, ["met", "MISSED"], "{:?}", outcome.notes);
        let values: Vec<_> = outcome.rows.iter().map(|row| (row.ours * 1e3).round() / 1e3).collect();
        assert_eq!(values, [10.0, 2.0]);
    }

    #[test]
    fn a_captures_round_trips_are_read_by_connection_and_smoothed() {
        let all = round_trips("0\t0.020000000\n1\t0.030\n0\t0.028\nnonsense\n");
        assert_eq!(all, BTreeMap::from([(0, vec![20.0, 28.0]), (1, vec![30.0])]));
        assert_eq!((smoothed(&all[&0]), smoothed(&all[&1])), (21.0, 30.0));
        assert!(smoothed(&[]).is_nan());
    }
}
