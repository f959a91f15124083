//! What others see of a server and of a fetch: metrics, and the story of a connection as qlog.

use crate::scene::{Scratch, Server, until};
use crate::schema::must_hold;
use serde_json::Value;
use std::path::Path;

/// The number of a series, of all servers of this user; 0 without it.
fn metric(server: &Server, series: &str) -> f64 {
    let told = server.scratch.headstart(&["metrics"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let of = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
    told.out.lines().find_map(of).unwrap_or_default()
}

#[test]
fn answers_are_counted_by_version_of_http_and_status() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 70_000);
    let server = Server::start(scratch, &[]);
    let answers = |protocol: &str, status: &str| {
        metric(&server, &format!("headstart_serve_answer_seconds_count{{protocol=\"{protocol}\",status=\"{status}\"}}"))
    };
    let bytes = || metric(&server, "headstart_serve_data_bytes_total{protocol=\"HTTP/3\"}");
    // Other tests have servers beside it.
    let before = [answers("HTTP/3", "2xx"), answers("HTTP/1.1", "4xx"), bytes()];
    let get = |path: &str, flags: &[&str]| server.get(&server.url(path), Path::new("/dev/null"), flags);
    for _ in 0..2 {
        assert_eq!(get("file.bin", &["--http", "3"]).code, Some(0));
    }
    assert_ne!(get("nothing", &["--http", "1.1"]).code, Some(0));
    until("the answers are counted", || {
        answers("HTTP/3", "2xx") >= before[0] + 2.0 && answers("HTTP/1.1", "4xx") >= before[1] + 1.0
    });
    assert!(bytes() >= before[2] + 140_000.0, "{} {}", before[2], bytes());
    assert!(metric(&server, "headstart_up{part=\"serve\"}") >= 1.0);
}

#[test]
fn the_connection_of_a_fetch_is_written_as_qlog() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 1_000_000);
    let server = Server::start(scratch, &[]);
    let folder = server.scratch.path("stories");
    let (to, flags) = (Path::new("/dev/null"), ["--http", "3", "--qlog", folder.to_str().unwrap()]);
    let told = &server.get(&server.url("file.bin"), to, &flags).objects()[0];
    let name = format!("{}_{}.sqlog", server.address.ip(), server.address.port());
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|line| {
            let line = line.strip_prefix('\u{1e}').unwrap();
            must_hold("qlog", line);
            serde_json::from_str(line).unwrap()
        })
        .collect();
    assert_eq!(records[0]["trace"]["vantage_point"]["type"], "client");
    let of = |name: &str| records.iter().filter(|one| one["name"] == format!("quic:{name}")).collect::<Vec<_>>();
    let (started, ready) = (of("connection_started"), of("connection_state_updated"));
    let (metrics, closed) = (of("recovery_metrics_updated"), of("connection_closed"));
    assert_eq!((started.len(), ready.len(), closed.len()), (1, 1, 1), "{text}");
    assert_eq!(started[0]["data"]["remote"]["port_v4"], server.address.port());
    let at = |one: &Value| one["time"].as_f64().unwrap();
    let took = told["handshake_ms"].as_f64().unwrap() - told["name_ms"].as_f64().unwrap();
    // To the microsecond; the beginning is read again after the name was resolved.
    let told_took = at(ready[0]) - at(started[0]);
    assert!(told_took > 0.0 && told_took <= took + 0.01, "{told_took} {told}");
    assert!(metrics.len() >= 2 && metrics.windows(2).all(|two| at(two[0]) <= at(two[1])), "{text}");
    assert_eq!(at(metrics.last().unwrap()), at(closed[0]));
}
