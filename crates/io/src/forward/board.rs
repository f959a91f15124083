//! What a running measurement tells a client that asks: programs, their connections and lookups, with every meter of each.
//!
//! How it is asked is in [`crate::board`]. What is kept between two requests is bounded.

use super::ebpf::Ran;
use super::{Attributed, Process};
use crate::board::Report;
use headstart_core::forward::meter::{self, Entry};
use headstart_core::forward::{Flow, Record, UdpFlow};
use headstart_core::path::Family;
use headstart_core::timing::{Timed, Timings, What};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Version of the object.
pub const VERSION: u32 = 1;
/// The most connections and programs that are reported; those with the most data come first.
const MOST_LINES: usize = 1000;
const MOST_APPS: usize = 100;
/// Connections that have ended and are reported: the latest.
const MOST_ENDED: usize = 100;
/// Programs of which something is kept. Those behind share one line.
const MOST_NAMES: usize = 1000;
/// The same for one user; there may be many of them.
const MOST_OWN_NAMES: usize = 32;
const OTHERS: &str = "(others)";
/// What a program is called that is not known.
pub const UNKNOWN: &str = "?";
/// Values for the median: the latest.
const LATEST: usize = 256;

/// Numbers by the names of their meters (`headstart_core::forward::meter`); a meter without a number is left out.
pub type Meters = BTreeMap<String, f64>;

/// How a measurement stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// [`VERSION`].
    pub version: u32,
    /// The process that measures.
    pub pid: u32,
    /// The user whose programs alone are in it, where who asks may not see those of others; none if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_user: Option<u32>,
    /// For how long it has, in milliseconds.
    pub at_ms: f64,
    /// Packets of programs so far, and those that were not forwarded; zero where programs in the kernel measure, which carry none.
    pub packets: u64,
    /// See `packets`.
    pub left_out: u64,
    /// Records of programs in the kernel that were lost.
    #[serde(default)]
    pub lost: u64,
    /// What programs in the kernel have cost so far.
    #[serde(default)]
    pub ran: Option<Ran>,
    /// The way of measuring: `tun`, the forwarder, or `ebpf`, programs in the kernel.
    #[serde(default)]
    pub via: String,
    /// How often the forwarder has woken up, by cause.
    #[serde(default)]
    pub wakeups: BTreeMap<String, u64>,
    /// Programs, those with the most data first.
    pub apps: Vec<App>,
    /// Connections that are open, likewise.
    pub connections: Vec<FlowLine>,
    /// The latest connections and UDP flows that have ended, the last one last. A client that asks again finds by their numbers
    /// those that are new.
    #[serde(default)]
    pub ended: Vec<Ended>,
    /// Programs and connections for which there was no room.
    pub omitted: usize,
    /// How long connections and lookups took, and requests of connections that have ended.
    #[serde(default)]
    pub timings: Vec<Timed>,
    /// What was counted of programs: `up_bytes`, `down_bytes`, `retransmissions`.
    #[serde(default)]
    pub counts: Vec<(String, String, u64)>,
}

impl Report for Board {
    const NAME: &'static str = "headstart-measure-";
    const VERSION: u32 = VERSION;

    fn version(&self) -> u32 {
        self.version
    }
}

impl Board {
    /// What a user gets of it whose programs alone are in it: nothing that was counted of others.
    pub(super) fn for_user(self, user: u32) -> Self {
        Self { of_user: Some(user), packets: 0, left_out: 0, ran: None, wakeups: BTreeMap::new(), ..self }
    }
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct App {
    /// Its name.
    pub name: String,
    /// Connections that are open now.
    pub open: usize,
    /// Connections that were asked for.
    pub connections: u64,
    /// Of these, how many never came to be.
    pub failed: u64,
    /// Of these, how many a race has led (`--accelerate`).
    #[serde(default)]
    pub accelerated: u64,
    /// Of these, how many connections were begun before they were asked for (`--ahead`).
    #[serde(default)]
    pub ahead: u64,
    /// Ports and peers with datagrams between them, lookups aside.
    #[serde(default)]
    pub udp_flows: u64,
    /// DNS lookups.
    pub lookups: u64,
    /// Of these, how many were answered by what a server had said before (`--ahead`).
    #[serde(default)]
    pub cached: u64,
    /// The median of the latest others, in milliseconds.
    pub lookup_ms: Option<f64>,
    /// Bytes that it sent.
    pub up_bytes: u64,
    /// Bytes that it was sent.
    pub down_bytes: u64,
    /// Medians over its latest connections; sums of what is counted.
    pub meters: Meters,
}

/// A connection, or a UDP flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowLine {
    /// The program.
    pub app: String,
    /// `tcp`, `udp` or `quic`.
    #[serde(default)]
    pub transport: String,
    /// Its process.
    pub pid: Option<i32>,
    /// The container or the unit of the process, where that is known.
    #[serde(default)]
    pub group: Option<String>,
    /// Its end.
    pub local: String,
    /// The peer's.
    pub peer: String,
    /// Where a race has led it, if one has (`--accelerate`).
    #[serde(default)]
    pub accelerated: Option<String>,
    /// Whether that connection was begun before this one was asked for (`--ahead`).
    #[serde(default)]
    pub ahead: bool,
    /// For how long it has been there, in milliseconds.
    pub age_ms: f64,
    /// Bytes that the program sent.
    pub up_bytes: u64,
    /// Bytes that it was sent.
    pub down_bytes: u64,
    /// Every meter.
    pub meters: Meters,
}

/// A connection, or a UDP flow, that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// How many had ended with it.
    pub number: u64,
    /// What it was; its age is that at its end.
    #[serde(flatten)]
    pub line: FlowLine,
}

/// What is kept of programs between two questions.
#[derive(Debug)]
pub(super) struct Tallies {
    most_names: usize,
    programs: BTreeMap<String, Tally>,
    timings: Timings,
    ended: VecDeque<Ended>,
}

impl FlowLine {
    fn of(flow: &Flow, process: Option<&Process>, age_ms: f64) -> Self {
        let meters = meter::ALL.iter().filter_map(|meter| Some((meter.name.to_owned(), (meter.read)(flow)?)));
        Self {
            app: name_of(process).to_owned(),
            transport: "tcp".to_owned(),
            pid: process.and_then(Process::number),
            group: process.and_then(|process| process.group.clone()),
            local: flow.app.to_string(),
            peer: flow.peer.to_string(),
            accelerated: flow.accelerated.map(|to| to.to_string()),
            ahead: flow.ahead,
            age_ms,
            up_bytes: flow.up.bytes,
            down_bytes: flow.down.bytes,
            meters: meters.collect(),
        }
    }

    fn of_udp(flow: &UdpFlow, process: Option<&Process>, age_ms: f64) -> Self {
        let meters = meter::OF_UDP.iter().filter_map(|meter| Some((meter.name.to_owned(), (meter.read)(flow)?)));
        Self {
            app: name_of(process).to_owned(),
            transport: if flow.quic.is_some() { "quic" } else { "udp" }.to_owned(),
            pid: process.and_then(Process::number),
            group: process.and_then(|process| process.group.clone()),
            local: flow.app.to_string(),
            peer: flow.peer.to_string(),
            accelerated: None,
            ahead: false,
            age_ms,
            up_bytes: flow.up.bytes,
            down_bytes: flow.down.bytes,
            meters: meters.collect(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Tally {
    open: usize,
    connections: u64,
    failed: u64,
    accelerated: u64,
    ahead: u64,
    udp_flows: u64,
    lookups: u64,
    cached: u64,
    up: u64,
    down: u64,
    lookup_ms: VecDeque<f64>,
    values: BTreeMap<&'static str, VecDeque<f64>>,
    sums: BTreeMap<&'static str, f64>,
}

fn name_of(process: Option<&Process>) -> &str {
    process.map_or(UNKNOWN, |process| process.name.as_str())
}

fn keep(values: &mut VecDeque<f64>, value: f64) {
    if values.len() >= LATEST {
        values.pop_front();
    }
    values.push_back(value);
}

fn median(values: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    Some((sorted.get(sorted.len() / 2)? + sorted.get((sorted.len() - 1) / 2)?) / 2.0)
}

/// Whether the numbers of a meter are added up rather than compared.
fn is_count(meter: &Entry) -> bool {
    meter.unit.is_empty()
}

/// Counts what a connection took, open or ended: the same connection has the same numbers later, or higher ones.
fn time(timings: &mut Timings, program: &str, flow: &Flow) {
    let family = Some(Family::of(flow.peer.ip()));
    if flow.accelerated.is_none() {
        // A race's time is not the network's.
        match (flow.connected, flow.ended) {
            (Some(at), _) => timings.note(What::MeasuredConnect, program, family, "ok", at.since(flow.asked)),
            (None, Some(at)) => timings.note(What::MeasuredConnect, program, family, "failed", at.since(flow.asked)),
            (None, None) => {}
        }
    }
    if flow.ended.is_some() && flow.requests.count > 0 {
        let mean = flow.requests.total / u32::try_from(flow.requests.count).unwrap_or(u32::MAX);
        timings.note(What::MeasuredRequest, program, family, "ok", mean);
    }
    timings.count(program, "up_bytes", flow.up.bytes);
    timings.count(program, "down_bytes", flow.down.bytes);
    timings.count(program, "retransmissions", flow.facts.map_or(0, |facts| u64::from(facts.retransmissions)));
}

impl Tally {
    fn flow(&mut self, flow: &Flow) {
        self.connections += 1;
        self.accelerated += u64::from(flow.accelerated.is_some());
        self.ahead += u64::from(flow.ahead);
        self.up += flow.up.bytes;
        self.down += flow.down.bytes;
        for meter in meter::ALL {
            let Some(value) = (meter.read)(flow) else { continue };
            if is_count(meter) {
                *self.sums.entry(meter.name).or_default() += value;
            } else {
                keep(self.values.entry(meter.name).or_default(), value);
            }
        }
    }

    fn udp(&mut self, flow: &UdpFlow) {
        self.udp_flows += 1;
        self.up += flow.up.bytes;
        self.down += flow.down.bytes;
        for meter in meter::OF_UDP {
            let Some(value) = (meter.read)(flow) else { continue };
            keep(self.values.entry(meter.name).or_default(), value);
        }
    }

    fn app(self, name: String) -> App {
        let medians = self.values.iter().filter_map(|(name, values)| Some(((*name).to_owned(), median(values)?)));
        let meters = medians.chain(self.sums.iter().map(|(name, sum)| ((*name).to_owned(), *sum))).collect();
        App {
            name,
            open: self.open,
            connections: self.connections,
            failed: self.failed,
            accelerated: self.accelerated,
            ahead: self.ahead,
            udp_flows: self.udp_flows,
            lookups: self.lookups,
            cached: self.cached,
            lookup_ms: median(&self.lookup_ms),
            up_bytes: self.up,
            down_bytes: self.down,
            meters,
        }
    }
}

impl Default for Tallies {
    fn default() -> Self {
        let (programs, timings, ended) = <(_, _, _)>::default();
        Self { most_names: MOST_NAMES, programs, timings, ended }
    }
}

impl Tallies {
    /// For the programs of one user.
    pub fn of_one_user() -> Self {
        Self { most_names: MOST_OWN_NAMES, ..Self::default() }
    }

    /// Something has ended.
    pub fn take(&mut self, seen: &Attributed) {
        let name = name_of(seen.process.as_ref());
        let name =
            if self.programs.len() < self.most_names || self.programs.contains_key(name) { name } else { OTHERS };
        let tally = self.programs.entry(name.to_owned()).or_default();
        let timings = &mut self.timings;
        match &seen.record {
            Record::Flow(flow) => {
                time(timings, name, flow);
                tally.flow(flow);
                tally.failed += u64::from(flow.connected.is_none());
                let age = flow.ended.unwrap_or(flow.asked).since(flow.asked);
                self.keep(FlowLine::of(flow, seen.process.as_ref(), age.as_secs_f64() * 1e3));
            }
            Record::Dns(lookup) => {
                tally.lookups += 1;
                if lookup.cached {
                    // No server was asked, and no time is a network's.
                    tally.cached += 1;
                    return;
                }
                let outcome = if lookup.answer.is_some() { "ok" } else { "other" };
                timings.note(What::MeasuredLookup, name, None, outcome, lookup.took);
                keep(&mut tally.lookup_ms, lookup.took.as_secs_f64() * 1e3);
            }
            Record::Udp(flow) => {
                tally.udp(flow);
                let last = [flow.up.last, flow.down.last].into_iter().flatten().max();
                let age = last.unwrap_or(flow.began).since(flow.began);
                self.keep(FlowLine::of_udp(flow, seen.process.as_ref(), age.as_secs_f64() * 1e3));
            }
            Record::Echo(_) => {}
        }
    }

    fn keep(&mut self, line: FlowLine) {
        let number = self.ended.back().map_or(1, |last| last.number + 1);
        self.ended.push_back(Ended { number, line });
        self.ended.drain(..self.ended.len().saturating_sub(MOST_ENDED));
    }

    /// The board: what has ended, and these connections and UDP flows that are `open`, with for how long in milliseconds.
    pub fn board<'a>(
        &self,
        open: impl Iterator<Item = (&'a Flow, Option<&'a Process>, f64)>,
        udp: impl Iterator<Item = (&'a UdpFlow, Option<Process>, f64)>,
    ) -> Board {
        let mut all = self.programs.clone();
        let mut timings = self.timings.clone();
        let mut lines = Vec::new();
        for (flow, process, age_ms) in udp {
            all.entry(name_of(process.as_ref()).to_owned()).or_default().udp(flow);
            lines.push(FlowLine::of_udp(flow, process.as_ref(), age_ms));
        }
        for (flow, process, age_ms) in open {
            let app = name_of(process);
            time(&mut timings, app, flow);
            let tally = all.entry(app.to_owned()).or_default();
            tally.flow(flow);
            tally.open += 1;
            lines.push(FlowLine::of(flow, process, age_ms));
        }
        let mut apps: Vec<_> = all.into_iter().map(|(name, tally)| tally.app(name)).collect();
        // Sorting is stable: equals stay in the order of their names, and of when they were asked for.
        apps.sort_by_key(|app| std::cmp::Reverse(app.up_bytes + app.down_bytes));
        lines.sort_by_key(|line| std::cmp::Reverse(line.up_bytes + line.down_bytes));
        let omitted = apps.len().saturating_sub(MOST_APPS) + lines.len().saturating_sub(MOST_LINES);
        apps.truncate(MOST_APPS);
        lines.truncate(MOST_LINES);
        let counts = timings.counts().map(|(program, what, n)| (program.to_owned(), what.to_owned(), n)).collect();
        let (version, pid) = (VERSION, std::process::id());
        let timings = timings.snapshot();
        let ended = self.ended.iter().cloned().collect();
        Board { version, pid, apps, connections: lines, ended, omitted, timings, counts, ..Board::default() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use headstart_core::forward::{DnsExchange, FlowId, Forwarder, Input, Output, Settings};
    use headstart_core::machine::Machine;
    use headstart_core::time::{Duration, Instant};

    /// A flow as the forwarder makes them: a SYN, and an answer after 25 ms.
    pub(in crate::forward) fn flow() -> Flow {
        let syn = [
            0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1, 0x10, 0, 0, 80, 0, 0, 0, 1, 0,
            0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0,
        ];
        let mut forwarder = Forwarder::new(Settings::default());
        forwarder.handle_input(Instant::from_millis(5), Input::Packet { bytes: syn.to_vec(), segment: None });
        while let Some(output) = forwarder.poll_output() {
            if let Output::Connect { flow, .. } = output {
                forwarder.handle_input(Instant::from_millis(30), Input::Connected { flow, mss: None });
                assert_eq!(flow, FlowId(0));
            }
        }
        let flow = forwarder.open()[0].clone();
        assert_eq!(flow.connected, Some(Instant::from_millis(30)), "a connection that was answered");
        flow
    }

    fn seen(record: Record, name: &str) -> Attributed {
        let process = Process { pid: 7, name: name.into(), group: None, fd: 3 };
        Attributed { record, owner: None, process: Some(process).filter(|p| !p.name.is_empty()) }
    }

    #[test]
    fn programs_have_what_ended_and_what_is_open_and_those_with_more_data_come_first() {
        let mut tallies = Tallies::default();
        let mut ended = flow();
        ended.down.bytes = 1000;
        tallies.take(&seen(Record::Flow(Box::new(ended)), "curl"));
        let refused = Flow { connected: None, ..flow() };
        tallies.take(&seen(Record::Flow(Box::new(refused)), ""));
        let (app, server) = ("192.0.2.1:53".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
        let took = Duration::from_millis(8);
        let (name, asked, reply) = ("a.lab.example".into(), Instant::ZERO, Vec::new());
        let lookup = DnsExchange { app, server, name, asked, took, answer: None, reply, cached: false };
        let again = DnsExchange { took: Duration::from_micros(9), cached: true, ..lookup.clone() };
        tallies.take(&seen(Record::Dns(lookup), "curl"));
        tallies.take(&seen(Record::Dns(again), "curl"));
        let mut open = flow();
        open.down.bytes = 500;
        (open.accelerated, open.ahead) = (Some("198.51.100.2:80".parse().unwrap()), true);
        let process = Process { pid: 8, name: "curl".into(), group: Some("docker:0123456789ab".into()), fd: 3 };
        let board = tallies.board([(&open, Some(&process), 40.0)].into_iter(), std::iter::empty());
        let [curl, unknown] = &board.apps[..] else { panic!("{board:?}") };
        assert_eq!((curl.name.as_str(), curl.open, curl.connections, curl.down_bytes), ("curl", 1, 2, 1500));
        assert_eq!(
            (curl.accelerated, curl.ahead, board.connections[0].ahead),
            (1, 1, true),
            "and its time is not among those of connecting"
        );
        assert_eq!(board.connections[0].accelerated.as_deref(), Some("198.51.100.2:80"));
        assert!(!board.connections[0].meters.contains_key("connect_ms"), "{board:?}");
        assert_eq!((curl.lookups, curl.cached, curl.lookup_ms), (2, 1, Some(8.0)), "a cache's time is no server's");
        assert_eq!(curl.meters["connect_ms"], 25.0);
        assert_eq!((unknown.name.as_str(), unknown.failed), (UNKNOWN, 1));
        let timed =
            board.timings.iter().map(|timed| (timed.key.what, timed.key.program.as_str(), timed.histogram.count()));
        assert_eq!(timed.collect::<Vec<_>>(), [(What::MeasuredLookup, "curl", 1), (What::MeasuredConnect, "curl", 1)]);
        assert!(board.counts.contains(&("curl".into(), "down_bytes".into(), 1500)), "{:?}", board.counts);
        assert_eq!((board.connections.len(), board.connections[0].pid, board.omitted), (1, Some(8), 0));
        let ended: Vec<_> = board.ended.iter().map(|ended| (ended.number, ended.line.down_bytes)).collect();
        assert_eq!((ended, board.ended[0].line.app.as_str()), (vec![(1, 1000), (2, 0)], "curl"));
        let text = serde_json::to_string(&board).unwrap();
        assert_eq!(serde_json::from_str::<Board>(&text).unwrap(), board);
    }

    #[test]
    fn what_is_kept_and_told_is_bounded() {
        let mut tallies = Tallies::default();
        let one = flow();
        for n in 0..MOST_NAMES + 50 {
            tallies.take(&seen(Record::Flow(Box::new(one.clone())), &format!("app{n}")));
        }
        for _ in 0..2 * LATEST {
            tallies.take(&seen(Record::Flow(Box::new(one.clone())), "app0"));
        }
        assert_eq!(tallies.programs.len(), MOST_NAMES + 1);
        assert_eq!(
            (tallies.programs[OTHERS].connections, tallies.programs["app0"].values["connect_ms"].len()),
            (50, LATEST)
        );
        let board = tallies.board(std::iter::repeat_n((&one, None, 1.0), MOST_LINES + 300), std::iter::empty());
        assert_eq!((board.apps.len(), board.connections.len()), (MOST_APPS, MOST_LINES));
        let numbers: Vec<u64> = board.ended.iter().map(|ended| ended.number).collect();
        let last = (MOST_NAMES + 50 + 2 * LATEST) as u64;
        assert_eq!(numbers, (last - MOST_ENDED as u64 + 1..=last).collect::<Vec<_>>(), "the latest, in order");
        assert!(serde_json::to_vec(&board).unwrap().len() < crate::board::LONGEST);
    }
}
