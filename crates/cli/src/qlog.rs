//! What connections of `serve` and `get` do, as events of qlog in a folder: a file a peer, JSON text sequences (RFC 7464) as
//! draft-ietf-quic-qlog-main-schema-12 has them, events as draft-ietf-quic-qlog-quic-events-11 and
//! draft-ietf-tsvwg-careful-resume-qlog-02 do. Times are milliseconds since 1970. Written by a thread of its own; no connection waits for it.

use crate::exit::Usage;
use crate::written::{self, Written};
use headstart_core::time::Instant;
use headstart_quic::{Listener, StartEvent, qlog_line};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Files that are open at once; beyond, all are closed and opened again when there is more to write.
const OPEN: usize = 256;

/// Where events are handed over.
pub type Inlet = written::Inlet<Event>;

/// Which end of the connections this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `serve`.
    Server,
    /// `get`.
    Client,
}

/// Something that happened to a connection.
#[derive(Debug)]
pub struct Event {
    /// The peer.
    pub remote: SocketAddr,
    /// What.
    pub told: Told,
}

/// What happened.
#[derive(Debug)]
pub enum Told {
    /// The start rule has changed its phase.
    Start(StartEvent),
    /// One of the events of QUIC itself.
    Own {
        /// When, since 1970.
        at: Instant,
        /// Its name within `quic:`.
        name: &'static str,
        /// What the draft has of it.
        data: Value,
    },
}

impl Event {
    fn line(&self) -> String {
        match &self.told {
            Told::Start(event) => qlog_line(Instant::ZERO, event),
            Told::Own { at, name, data } => {
                let time = (at.since(Instant::ZERO).as_secs_f64() * 1e6).round() / 1e3;
                json!({ "time": time, "name": format!("quic:{name}"), "data": data }).to_string()
            }
        }
    }
}

/// Writes events into `folder`, which is made if need be; folders above it are not, since a wrong path would make them too.
pub fn begin(folder: &Path, side: Side) -> anyhow::Result<Written<Event>> {
    if !folder.is_dir() {
        let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
        made.map_err(|why| Usage::unwritable(folder, why))?;
    }
    let of = folder.to_owned();
    Written::begin("qlog", format!("the qlog in {}", folder.display()), move |events| write(&of, side, events))
}

/// What connections tell.
pub fn listener(log: &Written<Event>) -> Listener {
    let inlet = log.inlet();
    Arc::new(move |event: &StartEvent| inlet.put(Event { remote: event.remote, told: Told::Start(*event) }))
}

/// Writes until the end, or until something cannot be written: why. Behind a gap nothing more is written.
fn write(folder: &Path, side: Side, events: &Receiver<Option<Event>>) -> Option<String> {
    let mut files: HashMap<SocketAddr, File> = HashMap::new();
    while let Ok(Some(event)) = events.recv() {
        if files.len() >= OPEN {
            files.clear();
        }
        let file = match files.entry(event.remote) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(free) => open(folder, side, event.remote).map(|file| free.insert(file)),
        };
        let written = file.and_then(|file| writeln!(file, "\u{1e}{}", event.line()));
        if let Err(why) = written {
            return Some(format!("{}: {why}", path(folder, event.remote).display()));
        }
    }
    None
}

fn open(folder: &Path, side: Side, remote: SocketAddr) -> std::io::Result<File> {
    let path = path(folder, remote);
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if file.metadata()?.len() == 0 {
        let (title, vantage_point) = match side {
            Side::Server => ("headstart serve", "server"),
            Side::Client => ("headstart get", "client"),
        };
        let reference = json!({ "clock_type": "system", "epoch": "1970-01-01T00:00:00.000Z" });
        let head = json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": title,
            "trace": {
                "event_schemas": ["urn:ietf:params:qlog:events:quic"],
                "vantage_point": { "type": vantage_point },
                "common_fields": { "time_format": "relative_to_epoch", "reference_time": reference },
            },
        });
        writeln!(file, "\u{1e}{head}")?;
    }
    Ok(file)
}

fn path(folder: &Path, remote: SocketAddr) -> PathBuf {
    let ip = remote.ip().to_string().replace(':', "-");
    folder.join(format!("{ip}_{}.sqlog", remote.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::cwnd::start::{Event as Change, Phase, Trigger};

    #[test]
    fn a_file_is_named_by_its_peer_and_has_a_head() {
        let folder = std::env::temp_dir().join(format!("headstart-qlog-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let remote: SocketAddr = "[2001:db8::1]:4433".parse().unwrap();
        drop(open(&folder, Side::Server, remote).unwrap());
        drop(open(&folder, Side::Server, remote).unwrap());
        let text = std::fs::read_to_string(folder.join("2001-db8--1_4433.sqlog")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text.lines().count(), 1, "one head");
        let head: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{1e}')).unwrap();
        assert_eq!(head["trace"]["vantage_point"]["type"], "server");
    }

    fn event(port: u16) -> StartEvent {
        let event = Change {
            at: Instant::ZERO,
            old: Phase::Reconnaissance,
            new: Phase::Unvalidated,
            trigger: Trigger::CwndLimited,
            pipe: 0,
            first_unvalidated: None,
            last_unvalidated: None,
            window: 12_000,
            threshold: None,
            saved_window: 60_000,
            saved_rtt: std::time::Duration::from_millis(50),
        };
        StartEvent { remote: ([192, 0, 2, 1], port).into(), event, first: None, last: None }
    }

    #[test]
    fn all_that_was_told_is_written_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let log = begin(folder.path(), Side::Server).unwrap();
        let tell = listener(&log);
        (0..100).for_each(|n| tell(&event(1000 + n % 2)));
        assert!(log.end());
        for port in [1000, 1001] {
            let text = std::fs::read_to_string(folder.path().join(format!("192.0.2.1_{port}.sqlog"))).unwrap();
            assert_eq!(text.lines().count(), 51);
        }
        // Connections may outlive it.
        tell(&event(1));
    }

    #[test]
    fn a_full_disk_is_no_success() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join("192.0.2.1_7.sqlog")).unwrap();
        let log = begin(folder.path(), Side::Server).unwrap();
        listener(&log)(&event(7));
        assert!(!log.end());
    }
}
