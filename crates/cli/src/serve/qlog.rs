//! What start rules do to connections, as events of qlog in a folder: a file a peer, JSON text sequences (RFC 7464) as
//! draft-ietf-quic-qlog-main-schema has them. Written by a thread of its own; no connection waits for it.

use super::written::Written;
use crate::exit::Usage;
use headstart_core::time::Instant;
use headstart_io::clock::wall;
use headstart_quic::{Listener, StartEvent, qlog_line};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::SystemTime;

/// Files that are open at once; beyond, all are closed and opened again when there is more to write.
const OPEN: usize = 256;

/// Writes events into `folder`, which is made if need be; folders above it are not, since a wrong path would make them too.
pub fn begin(folder: &Path) -> anyhow::Result<Written<StartEvent>> {
    if !folder.is_dir() {
        let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
        made.map_err(|why| Usage::unwritable(folder, why))?;
    }
    let begun = Instant::ZERO + wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let of = folder.to_owned();
    Written::begin("qlog", format!("the qlog in {}", folder.display()), move |events| write(&of, begun, events))
}

/// What connections tell.
pub fn listener(log: &Written<StartEvent>) -> Listener {
    let inlet = log.inlet();
    Arc::new(move |event: &StartEvent| inlet.put(*event))
}

/// Writes until the end, or until something cannot be written: why. Behind a gap nothing more is written.
fn write(folder: &Path, begun: Instant, events: &Receiver<Option<StartEvent>>) -> Option<String> {
    let mut files: HashMap<SocketAddr, File> = HashMap::new();
    while let Ok(Some(event)) = events.recv() {
        if files.len() >= OPEN {
            files.clear();
        }
        let file = match files.entry(event.remote) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(free) => open(folder, event.remote).map(|file| free.insert(file)),
        };
        let written = file.and_then(|file| writeln!(file, "\u{1e}{}", qlog_line(begun, &event)));
        if let Err(why) = written {
            return Some(format!("{}: {why}", path(folder, event.remote).display()));
        }
    }
    None
}

fn open(folder: &Path, remote: SocketAddr) -> std::io::Result<File> {
    let path = path(folder, remote);
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if file.metadata()?.len() == 0 {
        let head = concat!(
            r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq","#,
            r#""title":"headstart serve","trace":{"event_schemas":["urn:ietf:params:qlog:events:quic"],"#,
            r#""vantage_point":{"type":"server"}}}"#
        );
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
    use headstart_core::cwnd::start::{Event, Phase, Trigger};

    #[test]
    fn a_file_is_named_by_its_peer_and_has_a_head() {
        let folder = std::env::temp_dir().join(format!("headstart-qlog-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let remote: SocketAddr = "[2001:db8::1]:4433".parse().unwrap();
        drop(open(&folder, remote).unwrap());
        drop(open(&folder, remote).unwrap());
        let text = std::fs::read_to_string(folder.join("2001-db8--1_4433.sqlog")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text.lines().count(), 1, "one head");
        let head: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{1e}')).unwrap();
        assert_eq!(head["trace"]["vantage_point"]["type"], "server");
    }

    fn event(port: u16) -> StartEvent {
        let event = Event {
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
        let log = begin(folder.path()).unwrap();
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
        let log = begin(folder.path()).unwrap();
        listener(&log)(&event(7));
        assert!(!log.end());
    }
}
