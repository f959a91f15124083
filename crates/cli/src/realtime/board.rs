//! What a verb with sessions of small messages tells a client that asks: `headstart ui`.

use headstart_io::board::{self, Report};
use headstart_realtime::observe;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use tokio::net::UnixListener;

/// The most sessions that are reported: the latest.
const MOST: usize = 100;

/// Between two tries to let somebody in.
const PAUSE: Duration = Duration::from_millis(50);

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
    pub sessions: Vec<Line>,
    /// Sessions for which there was no room.
    pub omitted: usize,
}

/// A session. Counts are of what this side sent, but for `received`; as `headstart_realtime::Stats` has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
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

/// From now on, reports the sessions that `program` starts. A second process of the same number, in another namespace of
/// processes, is the one that is not shown.
pub fn show(program: &'static str) {
    observe::start();
    tokio::spawn(async move {
        let Ok(listener) = board::listener::<Board>().and_then(|socket| UnixListener::from_std(socket.into())) else {
            return;
        };
        loop {
            match listener.accept().await {
                Ok((client, _)) => board::tell(&client, || now(program)),
                // Out of descriptors, most likely: some will come back.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
}

fn now(program: &str) -> Board {
    let all = observe::sessions();
    let omitted = all.len().saturating_sub(MOST);
    let sessions = all[omitted..].iter().map(line).collect();
    Board { version: Board::VERSION, pid: std::process::id(), program: program.to_owned(), sessions, omitted }
}

fn line(seen: &observe::Observed) -> Line {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let stats = &seen.stats;
    Line {
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

/// The boards of all processes of this user that have sessions.
pub fn all(problems: &mut Vec<String>) -> Vec<Board> {
    let asked = board::running::<Board>().into_iter().map(|pid| (pid, board::ask::<Board>(pid)));
    let told = asked.filter_map(|(pid, told)| match told {
        Ok(board) => Some(board),
        // It has ended meanwhile.
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => None,
        Err(why) => {
            problems.push(format!("sessions of {pid}: {why}"));
            None
        }
    });
    told.collect()
}
