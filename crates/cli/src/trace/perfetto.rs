//! The trace event format (JSON) that Perfetto's page and Chromium's about:tracing open: a process a program, a thread a
//! connection, and its phases as slices within it.

use super::text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The trace of what was measured; moments are microseconds since it began.
pub fn trace(lines: &[Value], _: SystemTime) -> Value {
    let mut programs: BTreeMap<&str, usize> = BTreeMap::new();
    let mut events = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let app = text(line, "app");
        let next = programs.len() + 1;
        let pid = *programs.entry(app).or_insert_with(|| {
            events.push(json!({ "ph": "M", "name": "process_name", "pid": next, "args": { "name": app } }));
            next
        });
        // Thread 0 would be the program itself.
        let tid = n + 1;
        let us = |name: &str| line[name].as_f64().map(|ms| ms * 1e3);
        let at = us("at_ms").unwrap_or_default();
        let slice = |name: &str, category: &str, from: f64, lasted: f64, args: Value| json!({ "ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": from, "dur": lasted, "args": args });
        let (row, slices) = match text(line, "event") {
            "lookup" => {
                let name = text(line, "name");
                let took = us("took_ms").unwrap_or_default();
                (format!("lookup {name}"), vec![slice(&format!("lookup {name}"), "dns", at, took, line.clone())])
            }
            event => {
                let (peer, is_quic) = (text(line, "peer"), line["quic"].is_object());
                let (row, category) = match event {
                    "udp" if is_quic => (format!("QUIC {peer}"), "quic"),
                    "udp" => (format!("UDP {peer}"), "udp"),
                    "echo" => (format!("ping {peer}"), "icmp"),
                    _ => (peer.to_owned(), "tcp"),
                };
                let lasted = us("lasted_ms").unwrap_or_default();
                let mut slices = vec![slice(&row, category, at, lasted, line.clone())];
                let connect = us("connect_ms");
                let phase = if is_quic { "handshake" } else { "connect" };
                slices.extend(connect.map(|took| slice(phase, category, at, took, json!({}))));
                // From the program's first record of TLS, which follows the connection at once, as far as this is known.
                let hello = connect.zip(us("tls_hello_ms"));
                slices.extend(hello.map(|(took, tls)| slice("TLS hello", "tls", at + took, tls, json!({}))));
                (row, slices)
            }
        };
        events.push(json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": row } }));
        events.extend(slices);
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_processes_and_phases_lie_within_their_connection() {
        let trace = trace(&super::super::sample(), SystemTime::UNIX_EPOCH);
        let events = trace["traceEvents"].as_array().unwrap();
        let named = |kind: &str| {
            let all = events.iter().filter(|e| e["name"] == kind).map(|e| e["args"]["name"].as_str().unwrap());
            all.collect::<Vec<_>>()
        };
        assert_eq!(named("process_name"), ["curl", "wget", "ntp", "ping"]);
        let rows = [
            "lookup www.example",
            "198.51.100.1:443",
            "[2001:db8::1]:443",
            "QUIC 198.51.100.1:443",
            "UDP 198.51.100.2:123",
            "ping 198.51.100.3",
        ];
        assert_eq!(named("thread_name"), rows);
        let slices: Vec<_> = events.iter().filter(|e| e["ph"] == "X").collect();
        let times = slices.iter().map(|e| (e["name"].as_str().unwrap(), e["ts"].as_f64(), e["dur"].as_f64()));
        assert_eq!(
            times.collect::<Vec<_>>(),
            [
                ("lookup www.example", Some(5e3), Some(20e3)),
                ("198.51.100.1:443", Some(26e3), Some(300e3)),
                ("connect", Some(26e3), Some(40e3)),
                ("TLS hello", Some(66e3), Some(45e3)),
                ("[2001:db8::1]:443", Some(30e3), Some(10e3)),
                ("QUIC 198.51.100.1:443", Some(50e3), Some(200e3)),
                ("handshake", Some(50e3), Some(30e3)),
                ("UDP 198.51.100.2:123", Some(60e3), Some(0.0)),
                ("ping 198.51.100.3", Some(70e3), Some(1000e3)),
            ]
        );
        let categories: Vec<_> = slices.iter().map(|e| e["cat"].as_str().unwrap()).collect();
        assert_eq!(categories, ["dns", "tcp", "tcp", "tls", "tcp", "quic", "quic", "udp", "icmp"]);
        assert!(slices.iter().all(|e| e["pid"].is_u64() && e["tid"].is_u64()), "{slices:?}");
    }
}
