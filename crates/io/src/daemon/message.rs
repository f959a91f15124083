//! What the daemon is asked and what it answers: one JSON object each, one datagram each, with a version.
//!
//! The client may be any local user that can open the socket: what cannot be read is refused, never guessed.

use headstart_core::machine::Wakeups;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of both.
pub const VERSION: u32 = 1;
/// No request is longer, in bytes.
pub const MOST_REQUEST: usize = 1024;
/// No answer is longer, in bytes.
pub const MOST_ANSWER: usize = 64 * 1024;

/// The cause of wake-ups for packets: they are no reason to wake that could have been avoided.
pub(super) const PACKETS: &str = "packets";

/// Wake-ups that packets were not the cause of.
pub(super) fn but_for_packets(wakeups: &Wakeups) -> u64 {
    wakeups.iter().filter(|(why, _)| *why != PACKETS).map(|(_, count)| count).sum()
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wish {
    /// How it is.
    Status,
    /// Undo everything and end.
    Down,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// What is wanted.
    pub verb: Wish,
}

impl Request {
    /// A request of this version.
    pub fn new(verb: Wish) -> Self {
        Self { version: VERSION, verb }
    }

    /// Reads one; else why it is none. Never panics on any bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MOST_REQUEST {
            return Err("the request is too long".into());
        }
        let request: Self = serde_json::from_slice(bytes).map_err(|e| format!("not a request: {e}"))?;
        match request.version {
            VERSION => Ok(request),
            other => Err(format!("the request has version {other}, this daemon speaks {VERSION}")),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answer {
    /// How it is.
    Status(Box<Status>),
    /// Everything is undone, and it ends.
    Down(Undoing),
    /// The asker may not.
    Refused {
        /// Why.
        why: String,
    },
    /// The request made no sense.
    Misunderstood {
        /// Why.
        why: String,
    },
}

/// How a daemon is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// How long it has been up, in milliseconds.
    pub up_ms: u64,
    /// How often it has woken up, packets aside.
    pub wakeups: u64,
    /// How often it has woken up, by cause.
    #[serde(default)]
    pub causes: BTreeMap<String, u64>,
    /// What it has changed, as commands that would do the same.
    pub changes: Vec<String>,
    /// Changes that are not listed, for want of room.
    pub omitted: usize,
    /// Peers that are given an initial window; none if that is off.
    pub initial_windows: Option<usize>,
    /// What a program in the kernel has given; none if initial windows are off or by routes.
    #[serde(default)]
    pub starts: Option<Starts>,
    /// What was done to small segments; none if that is off.
    #[serde(default)]
    pub bundling: Option<BundlingTally>,
    /// How the tunnel over two channels is; none if there is none.
    #[serde(default)]
    pub steering: Option<crate::steer::Status>,
    /// What is measured; none if nothing is.
    #[serde(default)]
    pub measuring: Option<super::measuring::Status>,
    /// What is not as it should be.
    pub problems: Vec<String>,
}

/// What a program in the kernel has given to connections over known paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starts {
    /// Connections that began with a larger window.
    pub given: u64,
    /// Of these, how many lost something of their first flight.
    pub lost: u64,
    /// SYNs to be retransmitted sooner than after a second.
    pub syns: u64,
}

/// What was done to small segments of thin streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundlingTally {
    /// Packets that the kernel handed over.
    pub packets: u64,
    /// Of these, TCP segments that left.
    pub outgoing: u64,
    /// Of these, how many carry something again.
    pub bundled: u64,
    /// Bytes that were repeated.
    pub bytes: u64,
}

/// What an undoing came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undoing {
    /// Changes that were there and are gone.
    pub removed: usize,
    /// Changes that were gone already.
    pub were_gone: usize,
    /// What another program has changed since, left as it is.
    pub left_alone: Vec<String>,
    /// What could not be undone.
    pub failed: Vec<String>,
    /// Why the journal is still there although everything that it names is undone.
    #[serde(default)]
    pub unclosed: Vec<String>,
    /// Objects marked as headstart's that are in no journal.
    #[serde(default)]
    pub found: Vec<String>,
    /// Where could not be looked for it, and why.
    #[serde(default)]
    pub not_looked_at: Option<String>,
}

impl From<&crate::host::ledger::Report> for Undoing {
    fn from(report: &crate::host::ledger::Report) -> Self {
        let crate::host::ledger::Report {
            removed,
            were_gone,
            left_alone,
            mut failed,
            put_aside,
            unclosed,
            found,
            not_looked_at,
            had_record: _,
        } = report.clone();
        failed.extend(put_aside.map(|path| {
            format!("parts of both copies of the journal could not be read; it is now {}", path.display())
        }));
        Self { removed, were_gone, left_alone, failed, unclosed, found, not_looked_at }
    }
}

impl Answer {
    /// Writes it, in no more than [`MOST_ANSWER`] bytes: changes and problems are left out from the end, and counted.
    pub fn encode(mut self) -> Vec<u8> {
        loop {
            let bytes = serde_json::to_vec(&self).unwrap_or_default();
            if bytes.len() <= MOST_ANSWER {
                return bytes;
            }
            match &mut self {
                Self::Status(status) if !status.changes.is_empty() => {
                    let kept = status.changes.len() / 2;
                    status.omitted += status.changes.len() - kept;
                    status.changes.truncate(kept);
                }
                Self::Status(status) => status.problems.clear(),
                Self::Down(undoing) => {
                    undoing.left_alone.truncate(undoing.left_alone.len() / 2);
                    undoing.found.truncate(undoing.found.len() / 2);
                    undoing.failed.truncate(undoing.failed.len().div_ceil(2).min(8));
                }
                Self::Refused { why } | Self::Misunderstood { why } => why.clear(),
            }
        }
    }

    /// Reads one.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| format!("malformed answer from the daemon: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_read_as_they_were_written_and_all_else_is_refused() {
        for verb in [Wish::Status, Wish::Down] {
            let bytes = serde_json::to_vec(&Request::new(verb)).unwrap();
            assert_eq!(Request::decode(&bytes), Ok(Request::new(verb)));
        }
        for bad in [
            "",
            "{}",
            "{\"version\":1}",
            "{\"version\":1,\"verb\":\"up\"}",
            "[1,\"down\",3]",
            "{\"version\":1,\"verb\":\"down\",\"x\":1}",
        ] {
            assert!(Request::decode(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Request::decode(b"{\"version\":2,\"verb\":\"down\"}").unwrap_err().contains("version 2"));
        assert!(Request::decode(&[b' '; MOST_REQUEST + 1]).unwrap_err().contains("too long"));
    }

    #[test]
    fn an_answer_fits_into_a_datagram_and_says_what_it_leaves_out() {
        let changes = vec!["x".repeat(100); 4096];
        let status = Status {
            pid: 1,
            up_ms: 2,
            wakeups: 3,
            causes: BTreeMap::new(),
            changes,
            omitted: 0,
            initial_windows: Some(4),
            starts: None,
            bundling: None,
            steering: None,
            measuring: None,
            problems: vec![],
        };
        let bytes = Answer::Status(Box::new(status)).encode();
        assert!(bytes.len() <= MOST_ANSWER);
        let Ok(Answer::Status(status)) = Answer::decode(&bytes) else { panic!("no status") };
        assert!(status.changes.len() + status.omitted == 4096 && status.changes.len() > 200);
        let undoing = Undoing { failed: vec!["y".repeat(30_000); 20], ..Undoing::default() };
        assert!(Answer::Down(undoing).encode().len() <= MOST_ANSWER);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Request::decode(&bytes), Answer::decode(&bytes));
        }
    }
}
