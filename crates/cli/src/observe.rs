//! What is going on on this host, asked of everything of headstart that runs: the user's supervisor, the daemon, measurements.
//!
//! It asks only on request; nothing here runs on its own. What was counted by a measurement that has ended stays in the
//! sums, so that none of them ever goes down.

use crate::counted::Counted;
use crate::realtime::Board as Messages;
use crate::serve::board::Board as Serving;
use headstart_core::connect::explain::RaceReport;
use headstart_core::time::{Duration, Instant};
use headstart_core::timing::Timings;
use headstart_io::board::{self, Report};
use headstart_io::clock::Clock;
use headstart_io::control::{ControlError, Observation};
use headstart_io::daemon::client::ask;
use headstart_io::daemon::message::{Answer, Status, Wish};
use headstart_io::forward::board::Board;
use headstart_io::host::folders::Folders;
use headstart_io::link::Link;
use std::collections::BTreeMap;
use std::io;
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
    pub messages: Vec<Messages>,
    /// Servers of folders.
    pub serving: Vec<Serving>,
    /// What both have counted since they began, if they still ran when this process began: the ended ones too.
    pub counted: Counted,
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
    measurements: Kept<Board>,
    messages: Kept<Messages>,
    serving: Kept<Serving>,
}

/// How long a process that cannot be asked is shown as it was before that is said.
const STALE: Duration = Duration::from_secs(5);

/// What processes report that count on their own.
trait Counts: Report + Clone {
    /// What a problem calls such a process.
    const KIND: &'static str;
    /// What several have counted together.
    type Sum: Default + Clone;

    /// For how long it has run, in milliseconds.
    fn ran_ms(&self) -> f64;
    /// Adds what it has counted.
    fn add_to(&self, sum: &mut Self::Sum);
}

impl Counts for Board {
    const KIND: &'static str = "measurement";
    type Sum = Timings;

    fn ran_ms(&self) -> f64 {
        self.at_ms
    }

    fn add_to(&self, sum: &mut Timings) {
        self.timings.iter().for_each(|timed| sum.add(timed));
        self.counts.iter().for_each(|(program, what, n)| sum.count(program, what, *n));
    }
}

impl Counts for Messages {
    const KIND: &'static str = "sessions of";
    type Sum = Counted;

    fn ran_ms(&self) -> f64 {
        self.up_ms
    }

    fn add_to(&self, sum: &mut Counted) {
        sum.add(&self.counted);
    }
}

impl Counts for Serving {
    const KIND: &'static str = "server";
    type Sum = Counted;

    fn ran_ms(&self) -> f64 {
        self.up_ms
    }

    fn add_to(&self, sum: &mut Counted) {
        sum.add(&self.counted);
    }
}

/// Processes of a kind as they were when last asked and when that was, and what those have counted that have ended.
#[derive(Debug)]
struct Kept<T: Counts> {
    running: BTreeMap<u32, (T, Instant)>,
    ended: T::Sum,
}

impl<T: Counts> Default for Kept<T> {
    fn default() -> Self {
        Self { running: BTreeMap::new(), ended: T::Sum::default() }
    }
}

impl<T: Counts> Kept<T> {
    /// Asks all processes of the kind that may be asked. The sum never goes down.
    fn ask(&mut self, now: Instant, problems: &mut Vec<String>) -> (Vec<T>, T::Sum) {
        let told = board::running::<T>().into_iter().map(|pid| (pid, board::ask::<T>(pid)));
        self.take(told.collect(), now, problems)
    }

    /// Takes in what processes have told, each by its number. One that has ended is distinguished from one that answers nothing this time,
    /// as others ask too often, and goes on as it was: otherwise it would be counted twice when it answers again.
    fn take(&mut self, told: Vec<(u32, io::Result<T>)>, now: Instant, problems: &mut Vec<String>) -> (Vec<T>, T::Sum) {
        let mut before = std::mem::take(&mut self.running);
        for (pid, told) in told {
            let known = before.remove(&pid);
            match (told, known) {
                (Ok(board), known) => {
                    // One with the same number that is younger is another.
                    if let Some((old, _)) = known.filter(|(old, _)| board.ran_ms() < old.ran_ms()) {
                        old.add_to(&mut self.ended);
                    }
                    self.running.insert(pid, (board, now));
                }
                (Err(why), Some((old, _))) if why.kind() == io::ErrorKind::ConnectionRefused => {
                    old.add_to(&mut self.ended);
                }
                // It has ended before it was asked.
                (Err(why), None) if why.kind() == io::ErrorKind::ConnectionRefused => {}
                (Err(why), known) => {
                    if known.as_ref().is_none_or(|(_, at)| now.since(*at) >= STALE) {
                        problems.push(format!("{} {pid}: {why}", T::KIND));
                    }
                    self.running.extend(known.map(|known| (pid, known)));
                }
            }
        }
        before.into_values().for_each(|(old, _)| old.add_to(&mut self.ended));
        let mut sum = self.ended.clone();
        self.running.values().for_each(|(board, _)| board.add_to(&mut sum));
        (self.running.values().map(|(board, _)| board.clone()).collect(), sum)
    }
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
        let daemon = Folders::of_host().ok().and_then(|folders| match ask(&folders, Wish::Status) {
            Ok(Answer::Status(status)) => Some(*status),
            _ => None,
        });
        let now = self.clock.now();
        let (boards, measured) = state.measurements.ask(now, &mut problems);
        let (messages, mut counted) = state.messages.ask(now, &mut problems);
        let (serving, served) = state.serving.ask(now, &mut problems);
        counted.add(&served);
        let at = self.clock.now();
        let sources = Sources { supervisor, races, daemon, boards, measured, messages, serving, counted, at, problems };
        let sources = Arc::new(sources);
        state.latest = Some(Arc::clone(&sources));
        sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a measurement tells after so many milliseconds, with so many bytes.
    fn board(at_ms: f64, bytes: u64) -> Board {
        Board { at_ms, counts: vec![("curl".into(), "down_bytes".into(), bytes)], ..Board::default() }
    }

    fn bytes(sum: &Timings) -> u64 {
        sum.counts().map(|(_, _, n)| n).sum()
    }

    #[test]
    fn a_process_that_answers_nothing_for_a_while_is_shown_as_it_was_and_counted_once() {
        let (mut kept, mut problems) = (Kept::<Board>::default(), vec![]);
        let refused = || Err(io::Error::new(io::ErrorKind::PermissionDenied, "asked too often"));
        let mut take = |second: u64, told: Vec<(u32, io::Result<Board>)>| {
            problems.clear();
            let (boards, sum) = kept.take(told, Instant::from_millis(1000 * second), &mut problems);
            (boards.len(), bytes(&sum), problems.len())
        };
        assert_eq!(take(0, vec![(7, refused())]), (0, 0, 1), "it has never told anything");
        assert_eq!(take(1, vec![(7, Ok(board(1e3, 10)))]), (1, 10, 0));
        assert_eq!(take(2, vec![(7, refused())]), (1, 10, 0));
        assert_eq!(take(3, vec![(7, Ok(board(3e3, 12)))]), (1, 12, 0), "not 22");
        assert_eq!(take(9, vec![(7, refused())]), (1, 12, 1), "it is said that this is old");
        // Another process of the same number, one that has ended, and one that cannot be reached any more.
        assert_eq!(take(10, vec![(7, Ok(board(5.0, 1))), (8, Ok(board(1.0, 100)))]), (2, 113, 0));
        assert_eq!(take(11, vec![(7, Ok(board(9.0, 2)))]), (1, 114, 0));
        let gone = Err(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(take(12, vec![(7, gone)]), (0, 114, 0));
        assert_eq!(take(13, vec![]), (0, 114, 0), "never less");
    }
}
