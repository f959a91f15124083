//! What `headstart serve` tells a client that asks: `headstart metrics`. Answers are counted as they end, by version of HTTP and by class of
//! status, which are few; nothing of clients or of what they ask for is kept.

use super::places::Places;
use crate::counted::{self, Counted};
use headstart_core::time::{Duration, Instant};
use headstart_core::timing::Histogram;
use headstart_io::board::Report;
use headstart_io::clock::Clock;
use hyper::Version;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

const PROTOCOLS: [&str; 4] = ["HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/3"];
const STATUSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// How a server is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// [`Report::VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// For how long it has served, in milliseconds.
    pub up_ms: f64,
    /// Connections that are open, over TCP and QUIC.
    pub connections: usize,
    /// Answers that are under way.
    pub answers: usize,
    /// What it has done so far.
    pub counted: Counted,
}

impl Report for Board {
    const NAME: &'static str = "headstart-serve-";
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }
}

/// Answers of one kind.
#[derive(Clone, Debug, Default)]
struct Kind {
    took: Histogram,
    bytes: u64,
}

/// Answers so far.
#[derive(Debug, Default)]
pub struct Counts(Mutex<[[Kind; STATUSES.len()]; PROTOCOLS.len()]>);

impl Counts {
    /// An answer has ended; status 0: there was none.
    pub fn answered(&self, version: Version, status: u16, bytes: u64, took: Duration) {
        let protocol = match version {
            Version::HTTP_3 => 3,
            Version::HTTP_2 => 2,
            Version::HTTP_11 => 1,
            _ => 0,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = &mut all[protocol][usize::from(status / 100).min(STATUSES.len() - 1)];
        kind.took.note(took);
        kind.bytes += bytes;
    }

    fn counted(&self) -> Counted {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut counted = Counted::default();
        for (protocol, statuses) in PROTOCOLS.iter().zip(&all) {
            for (status, kind) in STATUSES.iter().zip(statuses).filter(|(_, kind)| kind.took.count() > 0) {
                counted.time("serve-answers", &[protocol, status], &kind.took);
                counted.count("serve-bytes", &[protocol], kind.bytes);
            }
        }
        counted
    }
}

/// From now on tells it to clients that ask. Inside a runtime only.
pub fn show(places: Arc<Places>, counts: Arc<Counts>) {
    let clock = Clock::new();
    counted::tell(move || {
        let (connections, answers) = places.held();
        let mut counted = counts.counted();
        counted.count("serve-refused", &[], places.refused());
        let up_ms = clock.now().since(Instant::ZERO).as_secs_f64() * 1e3;
        Board { version: Board::VERSION, pid: std::process::id(), up_ms, connections, answers, counted }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_version_of_http_and_class_of_status() {
        let counts = Counts::default();
        for (version, status, bytes) in
            [(Version::HTTP_3, 200, 5), (Version::HTTP_3, 206, 6), (Version::HTTP_2, 404, 9), (Version::HTTP_11, 0, 0)]
        {
            counts.answered(version, status, bytes, Duration::from_millis(20));
        }
        let counted = counts.counted();
        let answers: Vec<_> =
            counted.durations("serve-answers").map(|(labels, took)| (labels.join(" "), took.count())).collect();
        let expected = [("HTTP/1.1 none", 1), ("HTTP/2 4xx", 1), ("HTTP/3 2xx", 2)];
        assert_eq!(answers, expected.map(|(labels, n)| (labels.to_owned(), n)));
        let bytes: Vec<_> = counted.counts("serve-bytes").map(|(labels, n)| (labels.join(" "), n)).collect();
        assert_eq!(bytes, [("HTTP/1.1", 0), ("HTTP/2", 9), ("HTTP/3", 11)].map(|(of, n)| (of.to_owned(), n)));
    }
}
