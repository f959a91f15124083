//! What is going on on this host, asked of everything of headstart that runs: the user's supervisor, the daemon, measurements.
//!
//! It asks only on request; nothing here runs on its own. What was counted by a measurement that has ended stays in the
//! sums, so that none of them ever goes down.

use headstart_core::connect::explain::RaceReport;
use headstart_core::time::{Duration, Instant};
use headstart_core::timing::Timings;
use headstart_io::board;
use headstart_io::clock::Clock;
use headstart_io::control::{ControlError, Observation};
use headstart_io::daemon::client::ask;
use headstart_io::daemon::message::{Answer, Status, Wish};
use headstart_io::forward::board::Board;
use headstart_io::host::place::Place;
use headstart_io::link::Link;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most races of a page that shows them.
pub const RACES: usize = 1000;

/// A race, and when it began on the supervisor's clock.
#[derive(Debug)]
pub struct Race {
    /// In milliseconds.
    pub began_ms: f64,
    /// What happened in it.
    pub report: RaceReport,
}

/// What is going on.
#[derive(Debug, Default)]
pub struct Sources {
    /// The user's supervisor; its races are in `races`.
    pub supervisor: Option<Observation>,
    /// The supervisor's latest races by number, if the observer wants them.
    pub races: BTreeMap<u64, Arc<Race>>,
    /// The daemon.
    pub daemon: Option<Status>,
    /// Running measurements.
    pub boards: Vec<Board>,
    /// All measurements since this process began, the ended ones too.
    pub measured: Timings,
    /// Processes with sessions of small messages.
    pub messages: Vec<crate::realtime::Board>,
    /// When they were asked.
    pub at: Instant,
    /// What did not answer, and why.
    pub problems: Vec<String>,
}

/// The races of a supervisor: it tells only what has changed since it was asked last.
#[derive(Debug, Default)]
struct Races {
    /// The supervisor.
    pid: u32,
    changes: u64,
    all: BTreeMap<u64, Arc<Race>>,
}

impl Races {
    /// Asks `link`, and keeps the latest `most`.
    fn ask(&mut self, link: &Link, most: usize) -> Result<Observation, ControlError> {
        let mut seen = link.observe(most, self.changes, true)?;
        if seen.pid != self.pid {
            // Another one, which counts on its own.
            *self = Self { pid: seen.pid, ..Self::default() };
            seen = link.observe(most, 0, true)?;
        }
        self.changes = seen.changes;
        let up_ms = seen.up_ms;
        // Rounded, as it is a difference of two clocks that were read one after the other.
        let race = |report: RaceReport| Race { began_ms: (up_ms - report.began_ago_ms).round(), report };
        self.all.extend(seen.races.drain(..).map(|report| (report.number, Arc::new(race(report)))));
        while self.all.len() > most {
            self.all.pop_first();
        }
        Ok(seen)
    }
}

/// Asks, at most as often as its askers allow.
#[derive(Debug)]
pub struct Observer {
    clock: Clock,
    /// How many races are wanted.
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    latest: Option<Arc<Sources>>,
    races: Races,
    /// Measurements as they were when last asked, and what those have counted that have ended.
    running: BTreeMap<u32, Board>,
    ended: Timings,
}

impl Observer {
    /// One that has asked nothing yet, and is going to ask for so many of the latest races.
    pub fn new(races: usize) -> Self {
        Self { clock: Clock::new(), most: races, state: Mutex::default() }
    }

    /// What is going on, not older than `age`. Others that look at the same time wait and get the same.
    pub fn look(&self, age: Duration) -> Arc<Sources> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(latest) = &state.latest
            && self.clock.now().since(latest.at) < age
        {
            return Arc::clone(latest);
        }
        let mut problems = Vec::new();
        let supervisor = Link::find().and_then(|link| match state.races.ask(&link, self.most) {
            Ok(observation) => Some(observation),
            Err(why) => {
                problems.push(format!("supervisor: {why}"));
                None
            }
        });
        if supervisor.is_none() {
            state.races = Races::default();
        }
        let races = state.races.all.clone();
        let daemon = Place::of_host().ok().and_then(|place| match ask(&place, Wish::Status) {
            Ok(Answer::Status(status)) => Some(*status),
            _ => None,
        });
        let messages = crate::realtime::boards(&mut problems);
        let boards = state.measurements(&mut problems);
        let mut measured = state.ended.clone();
        boards.iter().for_each(|board| add(&mut measured, board));
        let at = self.clock.now();
        let sources = Arc::new(Sources { supervisor, races, daemon, boards, measured, messages, at, problems });
        state.latest = Some(Arc::clone(&sources));
        sources
    }
}

impl State {
    /// The boards of all measurements that may be asked; what ended ones had counted is kept.
    fn measurements(&mut self, problems: &mut Vec<String>) -> Vec<Board> {
        let mut now = BTreeMap::new();
        for pid in board::running::<Board>() {
            match board::ask::<Board>(pid) {
                Ok(board) => _ = now.insert(pid, board),
                Err(why) => problems.push(format!("measurement {pid}: {why}")),
            }
        }
        let before = std::mem::take(&mut self.running);
        for (pid, old) in before {
            // One with the same number that is younger is another.
            if now.get(&pid).is_none_or(|new| new.at_ms < old.at_ms) {
                add(&mut self.ended, &old);
            }
        }
        self.running = now.clone();
        now.into_values().collect()
    }
}

fn add(sum: &mut Timings, board: &Board) {
    board.timings.iter().for_each(|timed| sum.add(timed));
    board.counts.iter().for_each(|(program, what, n)| sum.count(program, what, *n));
}
