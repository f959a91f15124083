//! The demo on a terminal: the programs' bars grow while they run. A thread draws ten times a second over what it drew before; it
//! takes all of that away at the end, so that the measured figures stand there instead.

use super::screen::{Elapsed, SideBySide, lines};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_lab::experiment::Progress;
use headstart_lab::experiment::connect_programs::BARE;
use headstart_lab::experiment::connect_programs::reading::views;
use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Between two pictures.
const FRAME: Duration = Duration::from_millis(100);

/// Runs of an arm in a condition.
#[derive(Debug, Default)]
struct Runs {
    began: Option<Instant>,
    took: Vec<f64>,
}

/// Runs of every arm in every condition.
type State = BTreeMap<(String, String), Runs>;

/// The moving picture.
#[derive(Debug)]
pub struct Live {
    clock: Clock,
    state: Arc<Mutex<State>>,
    drawing: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl Live {
    /// Begins to draw.
    pub fn begin() -> Self {
        let (clock, state) = (Clock::new(), Arc::new(Mutex::new(State::new())));
        let (stop, stopped) = channel();
        let seen = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let mut drawn = 0;
            while stopped.recv_timeout(FRAME) == Err(RecvTimeoutError::Timeout) {
                drawn = draw(drawn, &frame(&seen.lock().unwrap_or_else(PoisonError::into_inner), clock.now()));
            }
            draw(drawn, &[]);
        });
        Self { clock, state, drawing: Mutex::new(Some((stop, thread))) }
    }

    /// Takes the picture away. Afterwards nothing is drawn any more.
    pub fn end(&self) {
        let drawing = self.drawing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = drawing {
            drop(stop);
            // A picture that could not be drawn is not worth a failed demo.
            let _ = thread.join();
        }
    }

    fn change(&self, condition: &str, arm: &str, change: impl FnOnce(&mut Runs, Instant)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(state.entry((condition.to_owned(), arm.to_owned())).or_default(), self.clock.now());
    }
}

impl Progress for Live {
    fn step(&self, _done: u64, _total: u64, _doing: &str) {}

    fn run_begins(&self, condition: &str, arm: &str) {
        self.change(condition, arm, |runs, now| runs.began = Some(now));
    }

    fn run_ended(&self, condition: &str, arm: &str, ms: Option<f64>) {
        self.change(condition, arm, |runs, _| {
            runs.began = None;
            runs.took.extend(ms);
        });
    }
}

/// What there is to see.
fn frame(state: &State, now: Instant) -> Vec<String> {
    let cell = |condition: &str, arm: &str| {
        let runs = state.get(&(condition.to_owned(), arm.to_owned()))?;
        let mut took = runs.took.clone();
        took.sort_by(f64::total_cmp);
        let done = took.get(took.len() / 2).map(|ms| Elapsed { ms: *ms, running: false });
        done.or_else(|| Some(Elapsed { ms: (now - runs.began?).as_secs_f64() * 1e3, running: true }))
    };
    let mut comparisons = Vec::new();
    for view in views() {
        // In the order of the figures that stand here at the end, so that no row moves.
        for (condition, program) in view.programs() {
            let cells = [cell(condition, BARE), cell(condition, view.arm)];
            // Later visits have a place of their own only once there are any.
            if cells[1].is_some() || cells[0].is_some() && !view.is_later() {
                comparisons.push(SideBySide {
                    network: view.title(),
                    program: program.to_owned(),
                    cells,
                    verdict: String::new(),
                });
            }
        }
    }
    lines(&comparisons)
}

/// Draws over the `drawn` lines above; returns how many there are now. What a low terminal has no room for is left out: it could not be
/// drawn over.
fn draw(drawn: usize, lines: &[String]) -> usize {
    let room = headstart_io::terminal_height().map_or(lines.len(), |height| height.saturating_sub(1));
    let lines = &lines[..lines.len().min(room)];
    let mut text = if drawn > 0 { format!("\x1b[{drawn}A\r\x1b[J") } else { String::new() };
    for line in lines {
        text += line;
        text += "\n";
    }
    // A failed write to the terminal is not worth a failed demo.
    let _ = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_grows_and_what_has_ended_has_its_median() {
        let live = Live { clock: Clock::new(), state: Arc::default(), drawing: Mutex::new(None) };
        live.run_begins("aaaa-lost-wget", "bare");
        live.run_begins("aaaa-lost-wget", "headstart");
        for ms in [130.0, 110.0, 120.0] {
            live.run_ended("aaaa-lost-wget", "headstart", Some(ms));
        }
        let later = live.clock.now() + Duration::from_secs(10);
        let words = frame(&live.state.lock().unwrap(), later).join(" ");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("IPv6 answers lost wget ███████ 10.0 s ▏ 120 ms"), "{words}");
        live.end();
    }

    #[test]
    fn rows_stand_where_they_stand_at_the_end() {
        let live = Live { clock: Clock::new(), state: Arc::default(), drawing: Mutex::new(None) };
        for condition in ["healthy-curl", "aaaa-lost-python", "aaaa-lost-wget", "healthy-client", "aaaa-lost-curl"] {
            live.run_begins(condition, "bare");
        }
        let shown = frame(&live.state.lock().unwrap(), live.clock.now());
        let names: Vec<_> =
            shown[1..].iter().map(|line| line.split("  ").find(|word| !word.is_empty()).unwrap()).collect();
        let expected = ["IPv6 answers lost", "curl", "wget", "python", "healthy network", "test client", "curl"];
        assert_eq!(names, expected, "{shown:?}");
    }
}
