//! An HTTP archive, version 1.2: an entry a connection of TCP or QUIC, since what is said over it is not looked into. Its method is CONNECT,
//! its address the peer's, its status 0 where it failed; the comment says so. Other datagrams carry no HTTP, and are counted in the comment.

use super::text;
use crate::output::plural;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// The archive of what was measured.
pub fn archive(lines: &[Value], began: SystemTime) -> Value {
    let is_connection = |line: &&Value| text(line, "event") == "connection" || line["quic"].is_object();
    let entries: Vec<_> = lines.iter().filter(is_connection).map(|line| entry(line, began)).collect();
    let others = lines.iter().filter(|line| ["udp", "echo"].contains(&text(line, "event")) && !is_connection(line));
    let others = plural(others.count() as u64, "UDP or ICMP flow");
    json!({ "log": {
        "version": "1.2",
        "creator": { "name": "headstart", "version": env!("CARGO_PKG_VERSION") },
        "pages": [],
        "entries": entries,
        "comment": format!("an entry is a connection: headstart does not read its contents; {others} left out"),
    } })
}

fn entry(line: &Value, began: SystemTime) -> Value {
    // -1 is what an archive has for what does not apply.
    let ms = |name: &str| line[name].as_f64();
    let (connect, hello) = (ms("connect_ms"), ms("tls_hello_ms"));
    let lasted = ms("lasted_ms").unwrap_or_default();
    let is_quic = line["quic"].is_object();
    // The time of TLS is part of that of connecting; the handshake of QUIC is both.
    let open = connect.map(|connect| connect + hello.unwrap_or_default());
    let hello = if is_quic { connect } else { hello };
    let rest = (lasted - open.unwrap_or_default()).max(0.0);
    let (status, words) = match connect.is_some() || line["accelerated"].is_string() {
        true => (200, "connected"),
        false if is_quic => (0, "no handshake"),
        false => (0, text(line, "end")),
    };
    let peer = text(line, "peer");
    // What is inside is not looked into: TLS is what began with its hello, or failed on its port.
    let scheme =
        if hello.is_some() || is_quic || (connect.is_none() && peer.ends_with(":443")) { "https" } else { "http" };
    let at = began + Duration::try_from_secs_f64(ms("at_ms").unwrap_or_default() / 1e3).unwrap_or_default();
    json!({
        "startedDateTime": date(at),
        "time": open.unwrap_or_default() + rest,
        "request": {
            "method": "CONNECT", "url": format!("{scheme}://{peer}/"), "httpVersion": "unknown", "cookies": [], "headers": [],
            "queryString": [], "headersSize": -1, "bodySize": line["up_bytes"],
        },
        "response": {
            "status": status, "statusText": words, "httpVersion": "unknown", "cookies": [], "headers": [], "redirectURL": "",
            "headersSize": -1, "bodySize": line["down_bytes"],
            "content": { "size": line["down_bytes"], "mimeType": "" },
        },
        "cache": {},
        "timings": {
            "blocked": -1, "dns": -1, "connect": open.unwrap_or(-1.0), "ssl": hello.unwrap_or(-1.0), "send": 0, "wait": 0,
            "receive": rest,
        },
        "serverIPAddress": peer.rsplit_once(':').map_or(peer, |(host, _)| host.trim_matches(['[', ']'])),
        "connection": text(line, "local"),
        "comment": format!("{} (process {})", text(line, "app"), line["pid"]),
    })
}

/// A moment as ISO 8601 has it, in UTC.
fn date(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // The civil calendar from days, in eras of 400 years that begin in March.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (of_month, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_lab::page::har::parse;
    use std::path::Path;

    #[test]
    fn an_entry_a_connection_whose_phases_add_up() {
        let archive = archive(&super::super::sample(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        let entries = archive["log"]["entries"].as_array().unwrap();
        let [made, failed, quic] = &entries[..] else { panic!("{archive}") };
        assert_eq!(made["startedDateTime"], "2001-09-09T01:46:40.026Z");
        assert_eq!((&made["timings"]["connect"], &made["timings"]["ssl"]), (&85.0.into(), &45.0.into()));
        assert_eq!((&made["time"], &made["timings"]["receive"]), (&300.0.into(), &215.0.into()));
        assert_eq!((&failed["response"]["status"], &failed["response"]["statusText"]), (&0.into(), &"refused".into()));
        assert_eq!(failed["serverIPAddress"], "2001:db8::1");
        assert_eq!((&quic["timings"]["connect"], &quic["timings"]["ssl"]), (&30.0.into(), &30.0.into()));
        assert_eq!(
            (&quic["request"]["url"], &quic["response"]["status"]),
            (&"https://198.51.100.1:443/".into(), &200.into())
        );
        let comment = archive["log"]["comment"].as_str().unwrap();
        assert!(comment.ends_with("; 2 UDP or ICMP flows left out"), "{comment}");
        assert_eq!(
            (&made["request"]["url"], &failed["request"]["url"]),
            (&"https://198.51.100.1:443/".into(), &"https://[2001:db8::1]:443/".into())
        );
        let mut plain = super::super::sample();
        plain[1]["tls_hello_ms"] = Value::Null;
        let plain = super::archive(&plain, SystemTime::UNIX_EPOCH);
        assert_eq!(plain["log"]["entries"][0]["request"]["url"], "http://198.51.100.1:443/");
        // Read by the lab's reader of archives, which knows those of Chromium.
        parse(archive.to_string().as_bytes(), Path::new("x.har")).unwrap();
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, words) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), words);
        }
    }
}
