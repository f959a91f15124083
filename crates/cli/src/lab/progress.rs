//! How far a run is, on standard error: a line that rewrites itself, on a terminal only.

use headstart_lab::experiment::Progress;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::time::Duration;

const TEMPLATE: &str = "{pos}/{len} {wide_msg}{pace}";

/// Progress for people.
#[derive(Debug)]
pub struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Progress of a run that begins now.
    pub fn begin() -> Self {
        Self(with_style(ProgressBar::new(0)))
    }

    /// Takes the line away, so that results begin on a clean one.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for ProgressLine {
    fn step(&self, done: u64, total: u64, doing: &str) {
        self.0.set_length(total);
        self.0.set_position(done);
        self.0.set_message(doing.to_owned());
    }
}

fn with_style(bar: ProgressBar) -> ProgressBar {
    match ProgressStyle::with_template(TEMPLATE) {
        Ok(style) => bar.with_style(style.with_key("pace", pace)),
        Err(_) => bar,
    }
}

fn pace(state: &ProgressState, out: &mut dyn Write) {
    // A line that cannot be written is not worth a failed run.
    let _ = out.write_str(&words(state.pos(), state.len().unwrap_or(0), state.per_sec(), state.eta()));
}

/// Rate and time left; nothing before something is done, and nothing once all is.
fn words(done: u64, all: u64, per_second: f64, left: Duration) -> String {
    if done == 0 || done >= all {
        return String::new();
    }
    let rate = match per_second {
        n if n >= 1.0 => format!("{n:.0}/s"),
        n => format!("{:.1}/min", 60.0 * n),
    };
    format!(" {rate}, about {:#} left", HumanDuration(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left_are_shown_once_something_is_done() {
        let seconds = Duration::from_secs;
        assert_eq!(words(0, 5, 0.0, seconds(0)), "");
        assert_eq!(words(2, 5, 0.25, seconds(12)), " 15.0/min, about 12s left");
        assert_eq!(words(200, 500, 12.4, seconds(24)), " 12/s, about 24s left");
        assert_eq!(words(5, 5, 0.25, seconds(0)), "");
    }
}
