//! What a run tells of what was measured when its program has ended.

use super::app::{median, round};
use super::{Measured, VERSION, Wanted};
use crate::output::plural;
use headstart_core::forward::NotCarried;
use headstart_core::time::Instant;
use headstart_io::forward::Offered;
use serde_json::{Value, json};

/// Tells what was measured; whether all that was to be written is. The code of the program is not touched by a summary that
/// cannot be.
pub(super) fn report(args: &Wanted<'_>, measured: &mut Measured, took: Instant) -> bool {
    crate::telemetry::end(measured.telemetry.as_mut(), args.quiet);
    let lost = measured.capture.take().and_then(|capture| capture.borrow_mut().end());
    if let Some(e) = &lost {
        crate::complain!("headstart: writing the capture to {}: {e}; it is cut off there", args.capture_name());
    }
    if let (Some(file), Some(e)) = (&args.flows, &measured.lost) {
        crate::complain!("headstart: writing to {}: {e}; not every line is there", file.display());
    }
    let is_whole = lost.is_none() && measured.lost.is_none();
    if let Some(to) = measured.summary.take() {
        to.write(&summary(measured, took));
    }
    if args.json {
        return is_whole;
    }
    say(args, measured);
    is_whole
}

/// The summary as JSON (docs/reference/schemas/measure-summary.json).
fn summary(measured: &Measured, took: Instant) -> Value {
    let connections: u64 = measured.apps.values().map(|app| app.connections).sum();
    let udp_flows: u64 = measured.apps.values().map(|app| app.udp_flows).sum();
    let (requests, replies) = measured.echoes;
    let dropped = &measured.not_carried;
    let apps: serde_json::Map<_, _> = measured.apps.iter().map(|(name, app)| (name.clone(), app.json())).collect();
    json!({
        "version": VERSION, "connections": connections, "udp_flows": udp_flows, "echo_requests": requests,
        "echo_replies": replies, "lookups": measured.lookups.len(), "via": measured.by.name(), "lost": measured.by.lost(),
        "lookup_ms": median(&measured.lookups), "took_ms": round(took.as_millis_f64()),
        "looked_out": measured.looked_out, "ran": measured.by.ran(), "apps": apps,
        "not_carried": {
            "multicast": dropped.multicast, "broadcast": dropped.broadcast, "link_local": dropped.link_local,
            "other_protocols": dropped.other_protocols,
        },
        "moved": measured.moved.iter().map(|one| json!({
            "inside": one.inside.to_string(), "outside": one.outside.map(|outside| outside.to_string()),
            "protocol": if one.is_udp { "udp" } else { "tcp" },
        })).collect::<Vec<_>>(),
    })
}

/// The summary in words.
fn say(args: &Wanted<'_>, measured: &Measured) {
    let connections: u64 = measured.apps.values().map(|app| app.connections).sum();
    let udp_flows: u64 = measured.apps.values().map(|app| app.udp_flows).sum();
    let (requests, replies) = measured.echoes;
    let lookups = match median(&measured.lookups) {
        Some(median) => format!("{} (median {median} ms)", plural(measured.lookups.len() as u64, "lookup")),
        None => "no lookups".to_owned(),
    };
    let mut what = plural(connections, "connection");
    if udp_flows > 0 {
        what += &format!(", {}", plural(udp_flows, "UDP flow"));
    }
    if requests > 0 {
        what += &format!(", {} ({replies} answered)", plural(requests, "echo request"));
    }
    args.complain(format_args!("measured {what} and {lookups}"));
    for (name, app) in &measured.apps {
        args.complain(format_args!("  {name}: {app}"));
    }
    if measured.looked_out > 0 {
        args.complain(format_args!(
            "  {} awaited awake, which may make short round trips shorter than without measuring (--no-lookout)",
            plural(measured.looked_out, "answer")
        ));
    }
    if let Some(line) = not_carried(&measured.not_carried) {
        args.complain(format_args!("  {line}"));
    }
    if let Some(line) = measured.by.line() {
        args.complain(format_args!("  {line}"));
    }
    if let Some(line) = moved(&measured.moved) {
        args.complain(format_args!("  {line}"));
    }
}

/// A line about ports of programs that were others on the host.
fn moved(all: &[Offered]) -> Option<String> {
    let of = |one: &Offered| {
        let kind = if one.is_udp { " (UDP)" } else { "" };
        match one.outside {
            Some(outside) => format!("{}{kind} by port {}", one.inside, outside.port()),
            None => format!("{}{kind} not at all", one.inside),
        }
    };
    let all: Vec<String> = all.iter().map(of).collect();
    (!all.is_empty()).then(|| format!("other hosts reached what listened on {}", all.join(", on ")))
}

/// A line about what was not carried, if anything was not.
fn not_carried(dropped: &NotCarried) -> Option<String> {
    let counts = [
        (dropped.multicast, "multicast datagram"),
        (dropped.broadcast, "broadcast datagram"),
        (dropped.link_local, "link-local IPv6 packet"),
        (dropped.other_protocols, "packet of protocols other than TCP, UDP and ICMP"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| match what.split_once(" of ") {
        Some((what, of)) => format!("{} of {of}", plural(*count, what)),
        None => plural(*count, what),
    });
    let counts: Vec<String> = counts.collect();
    (!counts.is_empty()).then(|| format!("dropped, for --via tun does not carry it: {}", counts.join(", ")))
}
