//! How far a run is, on standard error: a line that rewrites itself on a terminal, a line now and then elsewhere.

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_lab::experiment::Progress;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::sync::Mutex;

/// Between two lines where standard error is no terminal.
const EVERY: Duration = Duration::from_secs(10);
/// On a terminal.
const TEMPLATE: &str = "{pos}/{len} {wide_msg} about {eta} left";

/// Progress for people.
#[derive(Debug)]
pub struct Line {
    clock: Clock,
    bar: ProgressBar,
    last: Mutex<Instant>,
}

impl Line {
    /// Progress of a run that begins now.
    pub fn begin() -> Self {
        let bar = ProgressBar::new(0);
        let bar = ProgressStyle::with_template(TEMPLATE).map_or(bar.clone(), |style| bar.with_style(style));
        Self { clock: Clock::new(), bar, last: Mutex::new(Instant::ZERO) }
    }

    /// Takes the line away, so that results begin on a clean one.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Line {
    fn step(&self, done: u64, total: u64, doing: &str) {
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(doing.to_owned());
        let now = self.clock.now();
        if self.bar.is_hidden()
            && let Ok(mut last) = self.last.lock()
            && now - *last >= EVERY
        {
            *last = now;
            let left = HumanDuration(self.bar.eta());
            crate::complain!("{done}/{total} {doing}, about {left:#} left");
        }
    }
}
