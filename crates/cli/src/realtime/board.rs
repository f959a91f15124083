//! What a verb with sessions of small messages tells a client that asks: `headstart ui` and `headstart metrics`.

use crate::counted::{self, Counted};
use headstart_core::time::Instant;
use headstart_io::board::Report;
use headstart_io::clock::Clock;
use headstart_realtime::observe;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most sessions that are reported: the latest.
const MOST: usize = 100;

/// The sessions of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// [`Report::VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// The verb.
    pub program: String,
    /// Its sessions.
    pub sessions: Vec<SessionLine>,
    /// Sessions for which there was no room.
    pub omitted: usize,
    /// For how long it has reported, in milliseconds.
    #[serde(default)]
    pub up_ms: f64,
    /// What all its sessions have done, those that have ended too.
    #[serde(default)]
    pub counted: Counted,
}

/// A session. Counts are of what this side sent, but for `received`; as `headstart_realtime::Stats` has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionLine {
    /// Its number among those of the process.
    pub number: u64,
    /// Where it leads, or comes from.
    pub peer: Option<String>,
    /// The technique that keeps messages from waiting.
    pub technique: String,
    /// For how long it has been there, in milliseconds.
    pub age_ms: f64,
    /// Connections that are open.
    pub connections: usize,
    /// Messages that the peer is not known to have.
    pub unconfirmed: usize,
    /// How the path is doing.
    pub state: String,
    /// Smoothed round-trip time of messages, and the shortest of late.
    pub rtt_ms: Option<f64>,
    /// See `rtt_ms`.
    pub shortest_ms: Option<f64>,
    /// Messages handed in.
    pub sent: u64,
    /// Messages handed to the program.
    pub received: u64,
    /// Copies that were sent, their bytes, and the bytes of all messages with their copies.
    pub copies: u64,
    /// See `copies`.
    pub copied_bytes: u64,
    /// See `copies`.
    pub bytes: u64,
    /// Connections that were left because a message on it was overdue.
    pub stalls: u64,
    /// Messages that a copy brought first, and by how much, added up.
    pub ahead: u64,
    /// See `ahead`.
    pub saved_ms: f64,
    /// Values that were dropped for newer ones.
    pub conflated: u64,
}

impl Report for Board {
    const NAME: &'static str = "headstart-messages-";
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }
}

/// From now on, reports the sessions that `program` starts.
pub fn show(program: &'static str) {
    show_with(program, |_| {});
}

/// The same, with what `more` adds to the counts.
pub fn show_with(program: &'static str, more: impl Fn(&mut Counted) + Send + Sync + 'static) {
    observe::start();
    let clock = Clock::new();
    counted::tell(move || {
        let mut board = now(program);
        board.up_ms = clock.now().since(Instant::ZERO).as_secs_f64() * 1e3;
        more(&mut board.counted);
        board
    });
}

fn now(program: &str) -> Board {
    let all = observe::sessions();
    let omitted = all.len().saturating_sub(MOST);
    let sessions = all[omitted..].iter().map(line).collect();
    let counted = counts(program, &observe::totals());
    let (version, pid) = (Board::VERSION, std::process::id());
    Board { version, pid, program: program.to_owned(), sessions, omitted, up_ms: 0.0, counted }
}

fn counts(program: &str, all: &observe::Totals) -> Counted {
    let mut counted = Counted::default();
    counted.count("message-sessions", &[program], all.begun);
    counted.count("messages", &[program, "sent"], all.sent);
    counted.count("messages", &[program, "received"], all.received);
    counted.count("message-copies", &[program], all.copies);
    counted.count("message-bytes", &[program, "first"], all.bytes.saturating_sub(all.copied_bytes));
    counted.count("message-bytes", &[program, "copy"], all.copied_bytes);
    counted.count("message-copies-first", &[program], all.ahead);
    counted.count("message-saved-us", &[program], u64::try_from(all.saved.as_micros()).unwrap_or(u64::MAX));
    counted.count("message-stalls", &[program], all.stalls);
    counted.count("message-conflated", &[program], all.conflated);
    counted
}

fn line(seen: &observe::Observed) -> SessionLine {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let stats = &seen.stats;
    SessionLine {
        number: seen.number,
        peer: seen.peer.clone(),
        technique: seen.technique.clone(),
        age_ms: ms(seen.age),
        connections: seen.connections,
        unconfirmed: seen.unconfirmed,
        state: stats.state.name().to_owned(),
        rtt_ms: stats.smoothed.map(ms),
        shortest_ms: stats.shortest.map(ms),
        sent: stats.sent,
        received: stats.received,
        copies: stats.copies,
        copied_bytes: stats.bytes_again,
        bytes: stats.bytes,
        stalls: stats.stalls,
        ahead: stats.ahead,
        saved_ms: ms(stats.saved),
        conflated: stats.conflated,
    }
}
