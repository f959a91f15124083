//! How long connecting takes, connection by connection: what programs in the kernel say, beside the SYN and its answer in tshark's
//! capture; whether one of many connections is missing, and whose they are.

use super::super::arm::{Stage, Testbed};
use super::super::latency;
use super::capture::Capture;
use super::{measured, owners, rtt};
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row};
use crate::netns::Network;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

/// The condition.
pub const CONDITION: &str = "handshakes";
const ABOUT: &str = "20 ms there and back; one program with eight threads connects 10 000 times (400 in the quick form), and closes at once.";
const LINK: &str = "rate=100mbit,delay=10ms";
const PEER: &str = "198.19.0.52";
const THREADS: usize = 8;
/// What the issue asks for: connections that are not told.
const MISSING: Target = Target::AtMost(0.0);

/// Rows for what is missing, for owners, and for connect times. Ports join what is told with what was captured: a forwarder's sockets
/// have others than the program's, so that this is for programs in the kernel alone.
pub fn run(cx: &Context, outcome: &mut Outcome, arm: &str, folder: &Path) -> anyhow::Result<()> {
    let network = Network::build(&latency::world(LINK, PEER, cx.seed))?;
    let stage = Stage::new(Testbed::Network(&network), cx.program.clone())?;
    let to = stage.listen(PEER, owners::serve)?;
    let file = folder.join(format!("{arm}-{CONDITION}.pcapng"));
    let Some(capture) = Capture::begin(outcome, CONDITION, &network, to, &file)? else { return Ok(()) };
    outcome.condition(CONDITION, ABOUT);
    cx.progress.step(0, 1, CONDITION);
    let each = if cx.quick { 50 } else { 1250 };
    let (all, numbers) = (THREADS * each, [1, 1, THREADS, each].map(|n| n.to_string()));
    let words: Vec<String> = [owners::WORKLOAD.to_owned(), to.to_string()].into_iter().chain(numbers).collect();
    let (said, lines) = measured(&stage, arm, &folder.join(CONDITION), &words)?;
    let filter = format!("tcp.flags.syn == 1 && tcp.flags.ack == 1 && tcp.srcport == {}", to.port());
    let fields = ["tcp.dstport", "tcp.analysis.ack_rtt"];
    let seen = capture.end(&filter, &fields, answers, |seen| seen.len() == all)?;
    anyhow::ensure!(seen.len() == all, "{} handshakes were captured, of {all}", seen.len());

    let pairs = joined(&lines, &seen);
    let missing = (all - pairs.len()) as f64;
    outcome.rows.push(Row::measured(CONDITION, "connections that are missing", "", arm, missing));
    outcome.notes.push(MISSING.note(&format!("{CONDITION}, {arm}, missing of {all} connections"), missing, ""));
    let (_, right) = owners::judge(&said, &lines);
    let share = 100.0 * right as f64 / all as f64;
    outcome.rows.push(Row::measured(CONDITION, "connections with their owner", "%", arm, share));
    outcome.notes.push(owners::target(arm).note(&format!("{CONDITION}, {arm}, owners right"), share, "%"));
    rtt::median_off(outcome, (CONDITION, arm), "connect time", &pairs)?;
    outcome.how(
        "Handshakes: the time between a SYN and its answer in tshark's capture on the client's interface (tcp.analysis.ack_rtt) \
         is compared with connect_ms of the connection that has the same port.",
    );
    Ok(())
}

/// Reads tshark's lines of a port and a round trip in seconds each; in milliseconds. A port that is answered twice counts as first
/// answered: an answer that was sent again is not the one that connected.
fn answers(text: &str) -> BTreeMap<u16, f64> {
    let mut all = BTreeMap::new();
    for (port, trip) in text.lines().filter_map(|line| line.split_once('\t')) {
        if let (Ok(port), Ok(seconds)) = (port.parse(), trip.trim().parse::<f64>()) {
            all.entry(port).or_insert(seconds * 1e3);
        }
    }
    all
}

/// What is told, and what was captured, of each connection of which both are known.
fn joined(lines: &[Value], seen: &BTreeMap<u16, f64>) -> Vec<(f64, f64)> {
    let told = |line: &Value| {
        let port = line["local"].as_str()?.parse::<SocketAddr>().ok()?.port();
        Some((port, line["connect_ms"].as_f64()?))
    };
    let told: BTreeMap<u16, f64> = lines.iter().filter_map(told).collect();
    seen.iter().filter_map(|(port, captured)| Some((*told.get(port)?, *captured))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_told_is_joined_by_its_port_and_what_is_not_told_is_missing() {
        let seen = answers("4001\t0.020\n4002\t0.021\n4001\t1.5\n4003\t\n4004\t0.022\n");
        assert_eq!(seen, BTreeMap::from([(4001, 20.0), (4002, 21.0), (4004, 22.0)]));
        let line = |port: u16, ms: Value| json!({ "local": format!("192.0.2.1:{port}"), "connect_ms": ms });
        let lines = [line(4004, json!(22.5)), line(4001, json!(20.01)), line(4002, Value::Null), line(9, json!(1.0))];
        assert_eq!(joined(&lines, &seen), [(20.01, 20.0), (22.5, 22.0)]);
    }
}
