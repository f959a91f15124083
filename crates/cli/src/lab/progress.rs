//! How far a run is, on standard error: a line that rewrites itself on a terminal, a line now and then elsewhere.

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_lab::experiment::Progress;
use std::io::{IsTerminal, Write, stderr};
use std::sync::Mutex;

/// Between two lines where standard error is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// Progress for people.
#[derive(Debug)]
pub struct Line {
    clock: Clock,
    terminal: bool,
    last: Mutex<Instant>,
}

impl Line {
    /// Progress of a run that begins now.
    pub fn begin() -> Self {
        Self { clock: Clock::new(), terminal: stderr().is_terminal(), last: Mutex::new(Instant::ZERO) }
    }

    /// Takes the line away, so that results begin on a clean one.
    pub fn end(&self) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Progress for Line {
    fn step(&self, done: u64, total: u64, doing: &str) {
        let now = self.clock.now();
        let spent = now.since(Instant::ZERO);
        // A failed write to standard error is not worth a failed run.
        let left = if done > 0 && total > done {
            let left = spent.as_secs_f64() / done as f64 * (total - done) as f64;
            format!(", about {left:.0} s left")
        } else {
            String::new()
        };
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[K{done}/{total} {doing}{left}");
            let _ = stderr().flush();
        } else if let Ok(mut last) = self.last.lock()
            && now - *last >= EVERY
        {
            *last = now;
            let _ = writeln!(stderr(), "{done}/{total} {doing}{left}");
        }
    }
}
