//! What start rules do to connections, as events of qlog in a folder: a file a peer, JSON text sequences (RFC 7464) as
//! draft-ietf-quic-qlog-main-schema has them. Written by a thread of its own; no connection waits for it.

use crate::exit::Usage;
use anyhow::Context as _;
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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, SystemTime};

/// Events that wait to be written; more are dropped, and counted.
const QUEUE: usize = 4096;
/// Files that are open at once; beyond, all are closed and opened again when there is more to write.
const OPEN: usize = 256;

/// How long events that wait are written for at the end: a disk that hangs is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Events on their way into files.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    /// `None` is the end.
    tell: SyncSender<Option<StartEvent>>,
    /// Says why, if not all could be written.
    ended: Receiver<Option<String>>,
    /// Events for which there was no room in the line.
    dropped: Arc<AtomicU64>,
}

/// Writes events into `folder`, which is made if need be; folders above it are not, since a wrong path would make them too.
pub fn begin(folder: &Path) -> anyhow::Result<Log> {
    if !folder.is_dir() {
        let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
        made.map_err(|why| Usage::unwritable(folder, why))?;
    }
    let ((tell, told), (over, ended)) = (sync_channel(QUEUE), sync_channel(1));
    let begun = Instant::ZERO + wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (thread, of) = (std::thread::Builder::new().name("qlog".into()), folder.to_owned());
    let work = move || {
        let lost = write(&of, begun, &told);
        if let Some(why) = &lost {
            crate::complain!("headstart: the qlog in {} is cut off: {why}", of.display());
        }
        // What comes now waits for nothing.
        drop(told);
        let _ = over.send(lost);
    };
    thread.spawn(work).context("starting the thread of qlog")?;
    Ok(Log { folder: folder.to_owned(), tell, ended, dropped: Arc::default() })
}

impl Log {
    /// What connections tell.
    pub fn listener(&self) -> Listener {
        let (tell, dropped) = (self.tell.clone(), self.dropped.clone());
        Arc::new(move |event: &StartEvent| {
            if let Err(TrySendError::Full(_)) = tell.try_send(Some(*event)) {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Writes what waits; whether everything is written. Reports what is missing.
    pub fn end(self) -> bool {
        // A line that is full is full of what is written first.
        let tell = self.tell.clone();
        std::thread::spawn(move || _ = tell.send(None));
        let lost = match self.ended.recv_timeout(PATIENCE) {
            Ok(lost) => lost,
            Err(_) => {
                crate::complain!(
                    "headstart: the qlog in {} is cut off: the disk does not respond",
                    self.folder.display()
                );
                Some(String::new())
            }
        };
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            let events = crate::output::plural(dropped, "event");
            crate::complain!(
                "headstart: the qlog in {} lacks {events}: there were too many at once",
                self.folder.display()
            );
        }
        lost.is_none() && dropped == 0
    }
}

/// Writes until the end, or until something cannot be written: why. Behind a gap nothing more is written.
fn write(folder: &Path, begun: Instant, told: &Receiver<Option<StartEvent>>) -> Option<String> {
    let mut files: HashMap<SocketAddr, File> = HashMap::new();
    while let Ok(Some(event)) = told.recv() {
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
            saved_rtt: Duration::from_millis(50),
        };
        StartEvent { remote: ([192, 0, 2, 1], port).into(), event, first: None, last: None }
    }

    #[test]
    fn all_that_was_told_is_written_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let log = begin(folder.path()).unwrap();
        let listener = log.listener();
        (0..100).for_each(|n| listener(&event(1000 + n % 2)));
        assert!(log.end());
        for port in [1000, 1001] {
            let text = std::fs::read_to_string(folder.path().join(format!("192.0.2.1_{port}.sqlog"))).unwrap();
            assert_eq!(text.lines().count(), 51);
        }
        // Connections may outlive it.
        listener(&event(1));
    }

    #[test]
    fn a_full_disk_is_no_success() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join("192.0.2.1_7.sqlog")).unwrap();
        let log = begin(folder.path()).unwrap();
        log.listener()(&event(7));
        assert!(!log.end());
    }
}
