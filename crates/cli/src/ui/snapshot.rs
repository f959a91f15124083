//! What a page shows, as one JSON object whose members change as rarely as they can: moments on the supervisor's clock rather
//! than ages, and objects by name rather than lists, so that a change is small. Unknown values are left out, never null.

use crate::observe::{Race, Sources};
use crate::realtime::Board as Messages;
use headstart_core::timing::BOUNDS;
use headstart_io::control::{History, Observation};
use headstart_io::forward::board::Board;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Peers of a network that are shown.
const PEERS: usize = 50;

/// The snapshot of what is going on.
pub fn of(sources: &Sources) -> Value {
    let mut all = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "bounds": BOUNDS,
        "problems": sources.problems,
        "measurements": sources.boards.iter().map(|board| (board.pid.to_string(), measurement(board))).collect::<Map<_, _>>(),
        "messages": sources.messages.iter().map(|board| (board.pid.to_string(), sessions(board))).collect::<Map<_, _>>(),
        "measured": timings(sources.measured.snapshot().iter().map(|timed| (&timed.key, &timed.histogram))),
    });
    if let Some(observation) = &sources.supervisor {
        all["supervisor"] = supervisor(observation, &sources.races);
    }
    if let Some(daemon) = &sources.daemon {
        all["daemon"] = json!(daemon);
        // They change with each look and are counted in the metrics.
        if let Some(daemon) = all["daemon"].as_object_mut() {
            daemon.remove("wakeups");
            daemon.remove("causes");
        }
    }
    without_null(all)
}

fn supervisor(o: &Observation, races: &BTreeMap<u64, Arc<Race>>) -> Value {
    let races = races.iter().map(|(number, race)| (number.to_string(), race_of(race)));
    let runs = o.runs.iter().map(|run| (run.pid.to_string(), json!({ "command": run.command, "via": run.via })));
    let families = o.families.iter().map(|family| {
        let mut told = json!(family);
        // A moment that it ends at, not how long that is from now.
        told["suspended_until_ms"] =
            if family.suspended_ms > 0.0 { json!((o.up_ms + family.suspended_ms).round()) } else { Value::Null };
        told["suspended_ms"] = Value::Null;
        (family.family.to_string(), told)
    });
    let mut all = json!({
        "pid": o.pid,
        "up_ms": o.up_ms.round(),
        "runs": runs.collect::<Map<_, _>>(),
        "runs_omitted": o.runs_omitted,
        "tally": o.tally,
        "timings": timings(o.timings.iter().map(|timed| (&timed.key, &timed.histogram))),
        "wakeups": o.wakeups,
        "families": families.collect::<Map<_, _>>(),
        "resolvers": o.resolvers,
        "races": races.collect::<Map<_, _>>(),
    });
    if let Some(history) = &o.history {
        all["networks"] = networks(history);
        all["programs"] = history
            .programs
            .iter()
            .map(|program| {
                let names: Vec<_> = program.names.iter().map(|name| name.name.as_str()).collect();
                (program.app.clone(), json!({ "launches": program.launches, "names": names }))
            })
            .collect::<Map<_, _>>()
            .into();
    }
    all
}

fn race_of(Race { began_ms, report }: &Race) -> Value {
    json!({
        "name": report.name,
        "app": report.app,
        "race": report.race,
        "began_ms": began_ms,
        "events": report.events,
        "omitted": report.omitted,
    })
}

/// Networks by their names; numbers of 64 bits are no numbers to a page.
fn networks(history: &History) -> Value {
    let all = history.networks.iter().map(|network| {
        let peers = network.peers.iter().take(PEERS).map(|peer| {
            let us = peer.rtt.map(|rtt| rtt.smoothed_us);
            let told =
                json!({ "rtt_us": us, "has_answered": peer.has_answered, "failing": peer.failed_ago_s.is_some() });
            (peer.address.to_string(), told)
        });
        let told = json!({
            "here": history.here == Some(network.id),
            "v4": network.v4,
            "v6": network.v6,
            "peers": peers.collect::<Map<_, _>>(),
            "peers_omitted": network.peers.len().saturating_sub(PEERS),
        });
        (format!("{:016x}", network.id.0), told)
    });
    Value::Object(all.collect())
}

fn measurement(board: &Board) -> Value {
    let apps = board.apps.iter().map(|app| {
        let mut told = json!(app);
        told["name"] = Value::Null;
        (app.name.clone(), told)
    });
    let connections = board.connections.iter().map(|line| {
        let mut told = json!(line);
        told["began_ms"] = json!((board.at_ms - line.age_ms).round());
        told["age_ms"] = Value::Null;
        (format!("{} {} {}", line.transport, line.local, line.peer), told)
    });
    json!({
        "at_ms": board.at_ms.round(),
        "packets": board.packets,
        "left_out": board.left_out,
        "lost": board.lost,
        "via": board.via,
        "omitted": board.omitted,
        "apps": apps.collect::<Map<_, _>>(),
        "connections": connections.collect::<Map<_, _>>(),
    })
}

fn sessions(board: &Messages) -> Value {
    let all = board.sessions.iter().map(|line| {
        let mut told = json!(line);
        told["number"] = Value::Null;
        told["age_ms"] = json!(line.age_ms.round());
        (line.number.to_string(), told)
    });
    json!({ "program": board.program, "omitted": board.omitted, "sessions": all.collect::<Map<_, _>>() })
}

/// By what was timed, program, family and outcome: `lookup`, `curl`, `IPv6`, `ok`.
fn timings<'a>(
    all: impl Iterator<Item = (&'a headstart_core::timing::Key, &'a headstart_core::timing::Histogram)>,
) -> Value {
    let mut out = json!({});
    for (key, histogram) in all {
        let what = json!(key.what);
        let family = key.family.as_deref().unwrap_or("none");
        out[what.as_str().unwrap_or_default()][&key.program][family][&*key.outcome] =
            json!({ "buckets": histogram.buckets, "sum_s": histogram.sum.as_secs_f64() });
    }
    out
}

fn without_null(value: Value) -> Value {
    match value {
        Value::Object(all) => all
            .into_iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(key, v)| (key, without_null(v)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(all) => all.into_iter().map(without_null).collect::<Vec<_>>().into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::connect::explain::RaceReport;
    use headstart_core::path::NetworkId;
    use headstart_core::path::record::NetworkRecord;

    fn has_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(all) => all.iter().any(has_null),
            Value::Object(all) => all.values().any(has_null),
            _ => false,
        }
    }

    #[test]
    fn nothing_is_null_and_a_look_later_only_the_clock_has_changed() {
        let look = |up_ms: f64| {
            let report = RaceReport {
                number: 7,
                name: "www.example".into(),
                app: "curl".into(),
                race: "adaptive".into(),
                began_ago_ms: up_ms - 1000.0,
                events: vec![],
                omitted: 0,
            };
            let id = NetworkId(u64::MAX);
            let network = NetworkRecord { id, ..NetworkRecord::default() };
            let history = History { networks: vec![network], here: Some(id), ..History::default() };
            let race = |number| (number, Arc::new(Race { began_ms: 1000.0, report: report.clone() }));
            let supervisor = Observation { up_ms, history: Some(history), ..Observation::default() };
            let races = [race(7), race(8)].into();
            of(&Sources { supervisor: Some(supervisor), races, ..Sources::default() })
        };
        let (mut first, second) = (look(2000.2), look(2500.7));
        assert!(!has_null(&first), "{first}");
        assert_eq!(first["supervisor"]["networks"]["ffffffffffffffff"]["here"], true);
        let races = first["supervisor"]["races"].as_object().unwrap();
        assert_eq!(races.len(), 2, "two connections to one name are two: {races:?}");
        assert_eq!((&races["7"]["name"], &races["8"]["began_ms"]), (&json!("www.example"), &json!(1000.0)));
        first["supervisor"]["up_ms"] = second["supervisor"]["up_ms"].clone();
        assert_eq!(first, second);
    }
}
