//! What was seen, as JSON: one object for each connection and lookup that has ended, with all meters by their names.

use super::Seen;
use super::board::UNKNOWN;
use headstart_core::forward::{Flow, Record, meter};
use serde_json::{Value, json};

/// Version of the lines' format.
pub const VERSION: u32 = 1;

/// The object.
pub fn line_of(seen: &Seen) -> Value {
    let name = seen.process.as_ref().map_or(UNKNOWN, |process| process.name.as_str());
    match &seen.record {
        Record::Flow(flow) => connection(flow, name, seen),
        Record::Dns(lookup) => json!({
            "version": VERSION, "event": "lookup", "app": name, "name": lookup.name, "server": lookup.server.to_string(),
            "local": lookup.app.to_string(), "at_ms": lookup.asked.as_millis_f64(),
            "took_ms": round(lookup.took.as_secs_f64() * 1e3),
        }),
    }
}

fn connection(flow: &Flow, name: &str, seen: &Seen) -> Value {
    let lasted = flow.ended.map(|at| round(at.since(flow.asked).as_secs_f64() * 1e3));
    let mut line = json!({
        "version": VERSION, "event": "connection", "app": name, "pid": seen.process.as_ref().map(|p| p.pid),
        "user": seen.owner.map(|owner| owner.user), "local": flow.app.to_string(), "peer": flow.peer.to_string(),
        "at_ms": flow.asked.as_millis_f64(), "end": flow.end.name(), "lasted_ms": lasted, "up_bytes": flow.up.bytes,
        "down_bytes": flow.down.bytes, "accelerated": flow.accelerated.map(|to| to.to_string()),
        "up_packets": flow.up.packets, "down_packets": flow.down.packets,
    });
    for meter in meter::ALL {
        line[meter.name] = (meter.read)(flow).map(round).into();
    }
    line
}

/// To a thousandth.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
