//! Every metric, in one table: what is exposed, the reference and the dashboard are made from it.

use crate::observe::Sources;
use headstart_core::timing::{Histogram, Timings, What};
use headstart_io::control::Observation;
use headstart_io::forward::ebpf::Ran;
use headstart_io::steer::ChannelStatus;
use std::collections::BTreeMap;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only goes up, until its process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations by bucket.
    Histogram,
}

impl MetricKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a metric is read as.
#[derive(Clone, Debug)]
pub enum Value {
    /// A number of a counter.
    Count(u64),
    /// An amount that a counter adds up, such as seconds.
    Sum(f64),
    /// A number of a gauge.
    Number(f64),
    /// Durations.
    Histogram(Box<Histogram>),
}

/// The values of a metric, each with those of its labels.
pub type Samples = Vec<(Vec<String>, Value)>;

/// A metric.
pub struct Metric {
    /// Its name, without suffixes.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// `seconds`, `bytes`, `ratio`, or nothing.
    pub unit: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// One sentence with its full stop.
    pub help: &'static str,
    /// Where its values come from.
    pub read: fn(&Sources) -> Samples,
}

impl Metric {
    /// The name of its series, as Prometheus has it; of a histogram, without `_bucket`.
    pub fn series(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!("_{}", self.unit) };
        let total = if self.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{}{unit}{total}", self.name)
    }
}

const TIMED: &[&str] = &["program", "family", "outcome"];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Sources) -> Samples,
) -> Metric {
    Metric { name, kind: MetricKind::Counter, unit: "", labels, help, read }
}

const fn gauge(
    name: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Sources) -> Samples,
) -> Metric {
    Metric { name, kind: MetricKind::Gauge, unit, labels, help, read }
}

const fn bytes(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Sources) -> Samples,
) -> Metric {
    Metric { name, kind: MetricKind::Counter, unit: "bytes", labels, help, read }
}

const fn timed(name: &'static str, help: &'static str, read: fn(&Sources) -> Samples) -> Metric {
    Metric { name, kind: MetricKind::Histogram, unit: "seconds", labels: TIMED, help, read }
}

/// All of them.
pub const ALL: &[Metric] = &[
    gauge("headstart_up", "", &["part"], "Processes of headstart that respond.", |s| {
        let parts = [
            ("supervisor", usize::from(s.supervisor.is_some())),
            ("daemon", usize::from(s.daemon.is_some())),
            ("measurement", s.boards.len()),
            ("messages", s.messages.len()),
            ("serve", s.serving.len()),
        ];
        parts.map(|(part, n)| (vec![part.to_owned()], Value::Number(n as f64))).into()
    }),
    timed("headstart_lookup_wait", "How long programs waited for addresses (getaddrinfo).", |s| ours(s, What::Lookup)),
    timed(
        "headstart_connect_wait",
        "How long programs waited for a connection; outcome under-way: handed over before it was connected.",
        |s| ours(s, What::Connect),
    ),
    timed("headstart_handshake", "How long TCP handshakes took, whether a program waited or not.", |s| {
        ours(s, What::Handshake)
    }),
    counter("headstart_lookups", &["outcome"], "Calls of getaddrinfo that were answered.", |s| {
        tally(s, |o| vec![("ok", o.tally.resolved), ("failed", o.tally.unresolved)])
    }),
    counter("headstart_dns_queries", &["when"], "DNS queries sent, retries included.", |s| {
        let ahead = |o: &Observation| o.tally.queries_ahead;
        tally(s, |o| vec![("asked", o.tally.queries.saturating_sub(ahead(o))), ("ahead", ahead(o))])
    }),
    counter("headstart_cache_lookups", &["result"], "Lookups of one record type, by whether the cache had it.", |s| {
        tally(s, |o| vec![("hit", o.tally.cache_hits), ("miss", o.tally.cache_misses)])
    }),
    counter("headstart_connection_attempts", &["purpose"], "Connection attempts (SYNs).", |s| {
        tally(s, |o| {
            let (learn, stale) = (o.tally.explorations, o.tally.optimistic);
            let race = o.tally.attempts.saturating_sub(learn + stale);
            vec![("race", race), ("explore", learn), ("optimistic", stale)]
        })
    }),
    counter("headstart_connections", &["outcome"], "Connections that programs asked for.", |s| {
        tally(s, |o| {
            let under_way = o.tally.handed_over_in_progress;
            vec![("ok", o.tally.handed_over), ("under-way", under_way), ("failed", o.tally.failed)]
        })
    }),
    counter("headstart_connections_at_once", &[], "Connections that were complete when the program asked.", |s| {
        number(s.supervisor.as_ref().map(|o| o.tally.at_once))
    }),
    counter("headstart_connections_unused", &[], "Connections that were opened and not used.", |s| {
        number(s.supervisor.as_ref().map(|o| o.tally.unused))
    }),
    counter("headstart_pool_connections", &["event"], "Connections opened ahead, and those taken.", |s| {
        tally(s, |o| vec![("opened", o.tally.spares), ("taken", o.tally.spares_taken)])
    }),
    counter(
        "headstart_pool_misses",
        &["reason"],
        "Connections that were not ready when a program asked, by reason.",
        |s| {
            let missed = s.supervisor.iter().flat_map(|o| o.tally.missed.iter());
            missed.map(|(why, n)| (vec![why.describe().to_owned()], Value::Count(*n))).collect()
        },
    ),
    counter("headstart_calls_not_handled", &["reason"], "Calls of programs that were not handled, by reason.", |s| {
        let passed = s.supervisor.iter().flat_map(|o| o.tally.passed.iter());
        passed.map(|(why, n)| (vec![why.describe().to_owned()], Value::Count(*n))).collect()
    }),
    counter("headstart_dns_messages_ignored", &[], "DNS messages that were malformed, forged or late.", |s| {
        number(s.supervisor.as_ref().map(|o| o.ignored_messages))
    }),
    gauge("headstart_runs", "", &[], "Runs that the supervisor serves.", |s| {
        gauged(s.supervisor.as_ref().map(|o| (o.runs.len() + o.runs_omitted) as f64))
    }),
    gauge("headstart_family_suspended", "", &["family"], "1 while an address family is avoided after failures.", |s| {
        families(s, |family| Some(f64::from(u8::from(family.suspended_ms > 0.0))))
    }),
    gauge("headstart_family_silent", "", &["family"], "1 while DNS queries of a family get no answer.", |s| {
        families(s, |family| Some(f64::from(u8::from(family.unanswered))))
    }),
    gauge("headstart_family_rtt", "seconds", &["family"], "Smoothed round-trip time of handshakes.", |s| {
        families(s, |family| family.rtt_ms.map(|ms| ms / 1e3))
    }),
    gauge("headstart_family_lookup", "seconds", &["family"], "Smoothed time from query to answer.", |s| {
        families(s, |family| family.lookup_ms.map(|ms| ms / 1e3))
    }),
    gauge("headstart_supervisor_uptime", "seconds", &[], "How long the supervisor has been running.", |s| {
        gauged(s.supervisor.as_ref().map(|o| o.up_ms / 1e3))
    }),
    counter("headstart_supervisor_wakeups", &["cause"], "How often the supervisor woke up.", |s| {
        causes(s.supervisor.iter().map(|supervisor| &supervisor.wakeups))
    }),
    timed("headstart_measured_connect", "How long connections of measured programs took to open.", |s| {
        histograms(&s.measured, What::MeasuredConnect)
    }),
    timed("headstart_measured_lookup", "How long DNS lookups of measured programs took.", |s| {
        histograms(&s.measured, What::MeasuredLookup)
    }),
    timed(
        "headstart_measured_request",
        "Time from a request's last byte to its acknowledgement: the mean of each connection, when it ends.",
        |s| histograms(&s.measured, What::MeasuredRequest),
    ),
    bytes("headstart_measured_data", &["program", "direction"], "Data of measured TCP connections.", |s| {
        let counts = s.measured.counts().filter_map(|(program, what, n)| {
            Some((vec![program.to_owned(), what.strip_suffix("_bytes")?.to_owned()], Value::Count(n)))
        });
        counts.collect()
    }),
    counter("headstart_measured_retransmissions", &["program"], "Segments that were retransmitted.", |s| {
        let counts = s.measured.counts().filter(|(_, what, _)| *what == "retransmissions");
        counts.map(|(program, _, n)| (vec![program.to_owned()], Value::Count(n))).collect()
    }),
    counter("headstart_measured_wakeups", &["cause"], "How often forwarders that measure woke up.", |s| {
        causes(s.boards.iter().map(|board| &board.wakeups))
    }),
    gauge(
        "headstart_measured_kernel_cpu",
        "seconds",
        &[],
        "Processor time of the programs in the kernel that measure, since they were attached.",
        |s| gauged(ran(s).map(|ran| ran.map(|ran| ran.ns as f64 / 1e9).sum())),
    ),
    counter("headstart_measured_kernel_runs", &[], "How often programs in the kernel that measure have run.", |s| {
        number(ran(s).map(|ran| ran.map(|ran| ran.times).sum()))
    }),
    gauge("headstart_measured_open", "", &[], "Connections of measured programs that are open.", |s| {
        gauged((!s.boards.is_empty()).then(|| s.boards.iter().flat_map(|b| &b.apps).map(|app| app.open as f64).sum()))
    }),
    gauge("headstart_daemon_uptime", "seconds", &[], "How long the daemon has been running.", |s| {
        gauged(s.daemon.as_ref().map(|d| d.up_ms as f64 / 1e3))
    }),
    counter("headstart_daemon_wakeups", &["cause"], "How often the daemon woke up.", |s| {
        causes(s.daemon.iter().map(|daemon| &daemon.causes))
    }),
    gauge("headstart_host_changes", "", &[], "Changes of this host that `headstart down` would undo.", |s| {
        gauged(s.daemon.as_ref().map(|d| (d.changes.len() + d.omitted) as f64))
    }),
    gauge("headstart_host_problems", "", &[], "Problems that `headstart status` lists.", |s| {
        gauged(s.daemon.as_ref().map(|d| d.problems.len() as f64))
    }),
    gauge("headstart_channel_up", "", &["channel"], "1 while probes over a channel of the tunnel are answered.", |s| {
        channels(s, |c| Some(Value::Number(f64::from(u8::from(c.alive)))))
    }),
    counter("headstart_channel_packets", &["channel"], "Packets that the tunnel sent over a channel.", |s| {
        channels(s, |c| Some(Value::Count(c.packets)))
    }),
    bytes("headstart_channel_data", &["channel"], "Bytes that the tunnel sent over a channel.", |s| {
        channels(s, |c| Some(Value::Count(c.bytes)))
    }),
    gauge("headstart_channel_share", "ratio", &["channel"], "Share of all bytes that went over a channel.", |s| {
        channels(s, |c| Some(Value::Number(c.share / 100.0)))
    }),
    gauge("headstart_channel_loss", "ratio", &["channel"], "Share of packets that a channel loses.", |s| {
        channels(s, |c| Some(Value::Number(c.loss / 100.0)))
    }),
    gauge("headstart_channel_rtt", "seconds", &["channel"], "Smoothed round-trip time of a channel.", |s| {
        channels(s, |c| c.rtt_ms.map(|ms| Value::Number(ms / 1e3)))
    }),
    counter(
        "headstart_steered_packets",
        &["channel", "reason"],
        "Packets of the tunnel by the reason for the choice of channel.",
        |s| {
            let reasons = s.daemon.iter().filter_map(|d| d.steering.as_ref()).flat_map(|t| &t.reasons);
            reasons.map(|r| (vec![r.channel.clone(), r.why.clone()], Value::Count(r.packets))).collect()
        },
    ),
    gauge("headstart_steer_queue", "", &[], "Packets that wait for the fast channel of the tunnel.", |s| {
        gauged(tunnel(s).map(|t| t.queued as f64))
    }),
    counter("headstart_steer_failovers", &[], "Times that a channel of the tunnel was given up.", |s| {
        number(tunnel(s).map(|t| t.failovers))
    }),
    counter(
        "headstart_steer_changes",
        &["change"],
        "Packets of the tunnel that were resent over the other channel, sent over both, moved to the fat one, or dropped.",
        |s| {
            let all =
                tunnel(s).map(|t| [("resent", t.again), ("both", t.twice), ("moved", t.moved), ("dropped", t.dropped)]);
            all.into_iter().flatten().map(|(change, n)| (vec![change.to_owned()], Value::Count(n))).collect()
        },
    ),
    counter("headstart_bundled_segments", &[], "TCP segments that repeat the data before them.", |s| {
        number(s.daemon.as_ref().and_then(|d| d.bundling).map(|b| b.bundled))
    }),
    gauge("headstart_message_sessions", "", &["program"], "Sessions of small messages that are open.", |s| {
        let mut all: BTreeMap<&str, usize> = BTreeMap::new();
        s.messages.iter().for_each(|b| *all.entry(&b.program).or_default() += b.sessions.len() + b.omitted);
        all.into_iter().map(|(program, n)| (vec![program.to_owned()], Value::Number(n as f64))).collect()
    }),
    counter("headstart_message_sessions_begun", &["program"], "Sessions of small messages that began.", |s| {
        counted(s, "message-sessions")
    }),
    counter(
        "headstart_messages",
        &["program", "direction"],
        "Messages that programs handed to their sessions, and got from them.",
        |s| counted(s, "messages"),
    ),
    counter("headstart_message_copies", &["program"], "Copies of messages that were sent.", |s| {
        counted(s, "message-copies")
    }),
    bytes(
        "headstart_message_data",
        &["program", "kind"],
        "Bytes of messages that were sent: as they were sent first, and copies.",
        |s| counted(s, "message-bytes"),
    ),
    counter("headstart_message_copies_first", &["program"], "Messages of which a copy arrived first.", |s| {
        counted(s, "message-copies-first")
    }),
    Metric {
        name: "headstart_message_saved",
        kind: MetricKind::Counter,
        unit: "seconds",
        labels: &["program"],
        help: "By how much copies arrived before what was sent first, added up.",
        read: |s| {
            let all = s.counted.counts("message-saved-us");
            all.map(|(labels, us)| (labels, Value::Sum(us as f64 / 1e6))).collect()
        },
    },
    counter(
        "headstart_message_stalls",
        &["program"],
        "Connections of sessions that were left because a message on them was overdue.",
        |s| counted(s, "message-stalls"),
    ),
    counter("headstart_message_conflated", &["program"], "Messages that were dropped for newer values.", |s| {
        counted(s, "message-conflated")
    }),
    counter("headstart_relay_connections", &[], "Connections that came in at relays.", |s| {
        counted(s, "relay-connections")
    }),
    counter(
        "headstart_relay_strangers",
        &[],
        "Of these, those of peers that were no clients, or said nothing sensible in time.",
        |s| counted(s, "relay-strangers"),
    ),
    counter("headstart_relay_answers", &["answer"], "What relays have answered to requests of clients.", |s| {
        counted(s, "relay-answers")
    }),
    gauge("headstart_serve_connections", "", &[], "Connections of headstart serve that are open.", |s| {
        gauged((!s.serving.is_empty()).then(|| s.serving.iter().map(|b| b.connections as f64).sum()))
    }),
    gauge("headstart_serve_answers_open", "", &[], "Answers of headstart serve that are under way.", |s| {
        gauged((!s.serving.is_empty()).then(|| s.serving.iter().map(|b| b.answers as f64).sum()))
    }),
    Metric {
        name: "headstart_serve_answer",
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["protocol", "status"],
        help: "From the head of a request to headstart serve to the end of its answer.",
        read: |s| {
            let all = s.counted.durations("serve-answers");
            all.map(|(labels, took)| (labels, Value::Histogram(Box::new(took.clone())))).collect()
        },
    },
    bytes("headstart_serve_data", &["protocol"], "Bytes of bodies that headstart serve has sent.", |s| {
        counted(s, "serve-bytes")
    }),
    counter("headstart_serve_refused", &[], "Connections for which headstart serve had no place.", |s| {
        counted(s, "serve-refused")
    }),
];

/// What processes have counted, by its name there.
fn counted(s: &Sources, what: &str) -> Samples {
    s.counted.counts(what).map(|(labels, n)| (labels, Value::Count(n))).collect()
}

fn tunnel(s: &Sources) -> Option<&headstart_io::steer::Status> {
    s.daemon.as_ref()?.steering.as_ref()
}

/// What programs in the kernel have cost, where there are any.
fn ran(s: &Sources) -> Option<impl Iterator<Item = Ran>> {
    let all = s.boards.iter().filter_map(|board| board.ran);
    all.clone().next().map(|_| all)
}

fn number(n: Option<u64>) -> Samples {
    n.map(|n| (vec![], Value::Count(n))).into_iter().collect()
}

/// Wake-ups of several loops together, a sample a cause.
fn causes<'a>(loops: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> Samples {
    let mut all = BTreeMap::new();
    loops.flatten().for_each(|(cause, n)| *all.entry(cause).or_default() += n);
    all.into_iter().map(|(cause, n)| (vec![cause.clone()], Value::Count(n))).collect()
}

fn gauged(n: Option<f64>) -> Samples {
    n.map(|n| (vec![], Value::Number(n))).into_iter().collect()
}

fn tally(s: &Sources, read: impl Fn(&Observation) -> Vec<(&'static str, u64)>) -> Samples {
    let all = s.supervisor.iter().flat_map(read);
    all.map(|(label, n)| (vec![label.to_owned()], Value::Count(n))).collect()
}

fn families(s: &Sources, read: impl Fn(&headstart_core::connect::explain::FamilyReport) -> Option<f64>) -> Samples {
    let all = s.supervisor.iter().flat_map(|o| &o.families);
    all.filter_map(|family| Some((vec![family.family.to_string()], Value::Number(read(family)?)))).collect()
}

fn channels(s: &Sources, read: impl Fn(&ChannelStatus) -> Option<Value>) -> Samples {
    let all = s.daemon.iter().filter_map(|d| d.steering.as_ref()).flat_map(|t| &t.channels);
    all.filter_map(|channel| Some((vec![channel.channel.clone()], read(channel)?))).collect()
}

fn ours(s: &Sources, what: What) -> Samples {
    let mut all = Timings::default();
    s.supervisor.iter().flat_map(|o| &o.timings).for_each(|timed| all.add(timed));
    histograms(&all, what)
}

fn histograms(timings: &Timings, what: What) -> Samples {
    let mut all: BTreeMap<Vec<String>, Histogram> = BTreeMap::new();
    for timed in timings.snapshot().into_iter().filter(|timed| timed.key.what == what) {
        let family = timed.key.family.as_deref().unwrap_or("none").to_owned();
        let labels = vec![timed.key.program, family, timed.key.outcome.into_owned()];
        all.entry(labels).or_default().add(&timed.histogram);
    }
    all.into_iter().map(|(labels, histogram)| (labels, Value::Histogram(Box::new(histogram)))).collect()
}

/// Something of everything: one program over each family and one that failed, and all parts up. What tests and the
/// documentation are shown.
#[cfg(test)]
pub fn sample() -> Sources {
    use headstart_core::connect::explain::FamilyReport;
    use headstart_core::path::Family;
    use headstart_core::time::Duration;
    let mut timings = Timings::default();
    for what in [What::Lookup, What::Connect, What::Handshake] {
        timings.note(what, "curl", Some(Family::V6), "ok", Duration::from_millis(30));
        timings.note(what, "a \"quoted\\ name\n", Some(Family::V4), "failed", Duration::from_secs(40));
    }
    let mut measured = Timings::default();
    measured.note(What::MeasuredLookup, "curl", None, "ok", Duration::from_millis(8));
    measured.count("curl", "down_bytes", 1500);
    measured.count("curl", "retransmissions", 2);
    let family = FamilyReport {
        family: "IPv6".into(),
        has_route: true,
        suspended_ms: 100.0,
        rtt_ms: Some(43.0),
        lookup_ms: None,
        unanswered: false,
    };
    let tally = headstart_core::connect::Tally { queries: 5, attempts: 7, spares: 2, ..Default::default() };
    let supervisor = Observation {
        pid: 7,
        up_ms: 9000.0,
        tally,
        timings: timings.snapshot(),
        families: vec![family],
        wakeups: [("network".to_owned(), 12)].into(),
        ..Observation::default()
    };
    let mut counted = crate::counted::Counted::default();
    for what in ["message-sessions", "message-copies", "message-copies-first", "message-stalls", "message-conflated"] {
        counted.count(what, &["relay serve"], 2);
    }
    counted.count("messages", &["relay serve", "sent"], 3);
    counted.count("message-bytes", &["relay serve", "first"], 150);
    counted.count("message-saved-us", &["relay serve"], 1_500_000);
    counted.count("relay-answers", &["granted"], 4);
    let mut took = Histogram::default();
    took.note(Duration::from_millis(12));
    counted.time("serve-answers", &["HTTP/3", "2xx"], &took);
    counted.count("serve-bytes", &["HTTP/3"], 900);
    let serving = vec![crate::serve::board::Board { connections: 2, ..Default::default() }];
    Sources { supervisor: Some(supervisor), measured, counted, serving, ..Sources::default() }
}
