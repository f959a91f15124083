//! What start rules do to connections, as events of qlog in a folder: a file a peer, JSON text sequences (RFC 7464) as
//! draft-ietf-quic-qlog-main-schema has them. Written by a thread of its own; no connection waits for it.

use anyhow::Context as _;
use headstart_core::time::Instant;
use headstart_io::clock::wall;
use headstart_quic::{Listener, StartEvent, qlog_line};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::SystemTime;

/// Events that wait to be written; more are dropped.
const QUEUE: usize = 4096;
/// Files that are open at once; beyond, all are closed and opened again when there is more to write.
const OPEN: usize = 256;

/// Writes events into `folder`, which is made if need be.
pub fn listener(folder: &Path) -> anyhow::Result<Listener> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("making the folder {}", folder.display()))?;
    let (tell, told) = sync_channel(QUEUE);
    let folder = folder.to_owned();
    let begun = Instant::ZERO + wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let thread = std::thread::Builder::new().name("qlog".into());
    thread.spawn(move || write(&folder, begun, &told)).context("starting the thread of qlog")?;
    Ok(Arc::new(move |event: &StartEvent| _ = tell.try_send(*event)))
}

fn write(folder: &Path, begun: Instant, told: &Receiver<StartEvent>) {
    let mut files: HashMap<SocketAddr, File> = HashMap::new();
    while let Ok(event) = told.recv() {
        if files.len() >= OPEN {
            files.clear();
        }
        let file = match files.entry(event.remote) {
            std::collections::hash_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::hash_map::Entry::Vacant(free) => match open(folder, event.remote) {
                Ok(file) => free.insert(file),
                Err(why) => {
                    crate::complain!("headstart: no qlog of {}: {why}", event.remote);
                    continue;
                }
            },
        };
        // A full disk costs the log, and nothing else.
        let _ = writeln!(file, "\u{1e}{}", qlog_line(begun, &event));
    }
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
}
