//! What was seen, as JSON: one object for each connection, lookup, UDP flow and asker for echoes that has ended.

use super::board::UNKNOWN;
use super::{Attributed, Process};
use headstart_core::forward::{EchoFlow, Flow, Quic, Record, Side, Trips, UdpFlow, meter};
use headstart_core::time::Duration;
use serde_json::{Value, json};

/// Version of the lines' format.
pub const VERSION: u32 = 2;

/// The object.
pub fn line_of(seen: &Attributed) -> Value {
    let name = seen.process.as_ref().map_or(UNKNOWN, |process| process.name.as_str());
    match &seen.record {
        Record::Flow(flow) => connection(flow, name, seen),
        Record::Dns(lookup) => json!({
            "version": VERSION, "event": "lookup", "app": name, "group": group(seen), "user": user(seen), "name": lookup.name, "server": lookup.server.to_string(),
            "local": lookup.app.to_string(), "at_ms": lookup.asked.as_millis_f64(),
            "took_ms": ms(lookup.took), "cached": lookup.cached,
        }),
        Record::Udp(flow) => udp(flow, name, seen),
        Record::Echo(flow) => echo(flow, name, seen),
    }
}

/// The user id, on a phone the app's.
fn user(seen: &Attributed) -> Option<u32> {
    seen.owner.map(|owner| owner.user)
}

/// The container or the unit of the process.
fn group(seen: &Attributed) -> Option<&str> {
    seen.process.as_ref()?.group.as_deref()
}

fn udp(flow: &UdpFlow, name: &str, seen: &Attributed) -> Value {
    let mut line = json!({
        "version": VERSION, "event": "udp", "app": name, "pid": seen.process.as_ref().and_then(Process::number), "group": group(seen),
        "user": user(seen), "local": flow.app.to_string(), "peer": flow.peer.to_string(),
        "at_ms": flow.began.as_millis_f64(), "lasted_ms": ms(flow.last().since(flow.began)), "up_bytes": flow.up.bytes,
        "down_bytes": flow.down.bytes, "up_packets": flow.up.packets, "down_packets": flow.down.packets,
        "icmp_errors": flow.icmp_errors, "quic": flow.quic.as_ref().map(quic),
    });
    for meter in meter::OF_UDP {
        line[meter.name] = (meter.read)(flow).map(round).into();
    }
    line
}

fn quic(quic: &Quic) -> Value {
    json!({
        "version": format!("{:#010x}", quic.version), "connection": format!("{:016x}", quic.connection),
        "handshake_ms": quic.handshake.map(ms), "spin_rtt_ms": mean(&quic.spins), "spin_samples": quic.spins.count,
    })
}

fn echo(flow: &EchoFlow, name: &str, seen: &Attributed) -> Value {
    json!({
        "version": VERSION, "event": "echo", "app": name, "pid": seen.process.as_ref().and_then(Process::number), "group": group(seen),
        "local": flow.app.to_string(), "peer": flow.peer.to_string(), "id": flow.id, "at_ms": flow.began.as_millis_f64(),
        "lasted_ms": ms(flow.last.since(flow.began)), "requests": flow.requests, "replies": flow.replies,
        "icmp_errors": flow.icmp_errors, "rtt_ms": mean(&flow.trips),
        "longest_rtt_ms": (flow.trips.count > 0).then(|| ms(flow.trips.longest)),
    })
}

fn mean(trips: &Trips) -> Option<f64> {
    (trips.count > 0).then(|| round(trips.total.as_secs_f64() * 1e3 / trips.count as f64))
}

fn ms(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3)
}

fn connection(flow: &Flow, name: &str, seen: &Attributed) -> Value {
    let lasted = flow.ended.map(|at| ms(at.since(flow.asked)));
    let mut line = json!({
        "version": VERSION, "event": "connection", "app": name, "pid": seen.process.as_ref().and_then(Process::number), "group": group(seen),
        "user": user(seen), "local": flow.app.to_string(), "peer": flow.peer.to_string(),
        "at_ms": flow.asked.as_millis_f64(), "end": flow.end.name(), "lasted_ms": lasted, "up_bytes": flow.up.bytes,
        "down_bytes": flow.down.bytes, "accelerated": flow.accelerated.map(|to| to.to_string()), "ahead": flow.ahead,
        "up_packets": flow.up.packets, "down_packets": flow.down.packets,
        "accepted": flow.is_accepted(),
        "closed_by": flow.kernel_stats.as_ref().and_then(|stats| stats.closed_by).map(Side::name),
        "before": flow.kernel_stats.as_ref().is_some_and(|stats| stats.before),
        "mptcp": flow.kernel_stats.as_ref().and_then(|stats| stats.mptcp).map(|token| format!("{token:08x}")),
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
