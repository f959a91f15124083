//! How far a fetch is, on standard error: a bar that rewrites itself, on a terminal only.

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use std::io::{IsTerminal as _, Write as _, stderr};

/// Between two changes: what an eye follows.
const EVERY: Duration = Duration::from_millis(100);
/// Columns of the bar itself.
const WIDTH: usize = 24;

/// The bar of one fetch.
#[derive(Debug)]
pub struct Bar {
    clock: Clock,
    shown: bool,
    last: Option<Instant>,
    /// Bytes that were there before.
    before: u64,
    whole: Option<u64>,
}

impl Bar {
    /// The bar of a fetch that begins now, with `before` bytes of `whole` there already.
    pub fn begin(quiet: bool, before: u64, whole: Option<u64>) -> Self {
        let shown = !quiet && stderr().is_terminal();
        Self { clock: Clock::new(), shown, last: None, before, whole }
    }

    /// `done` bytes are there, those before included.
    pub fn show(&mut self, done: u64) {
        let now = self.clock.now();
        if !self.shown || self.last.is_some_and(|last| now.since(last) < EVERY) {
            return;
        }
        self.last = Some(now);
        let line = line(done, self.before, self.whole, now.since(Instant::ZERO));
        // A failed write to standard error is not worth a failed fetch.
        let _ = write!(stderr(), "\r\x1b[K{line}");
        let _ = stderr().flush();
    }

    /// Takes the line away.
    pub fn end(&self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(done: u64, before: u64, whole: Option<u64>, spent: Duration) -> String {
    let rate = (done - before.min(done)) as f64 / spent.as_secs_f64().max(1e-3);
    let Some(whole) = whole.filter(|whole| *whole > 0) else {
        return format!("{}, {}/s", size(done as f64), size(rate));
    };
    let share = (done as f64 / whole as f64).min(1.0);
    let full = (share * WIDTH as f64) as usize;
    let left =
        if rate > 0.0 { format!(", {:.0} s left", whole.saturating_sub(done) as f64 / rate) } else { String::new() };
    format!(
        "[{}{}] {:3.0} % of {}, {}/s{left}",
        "#".repeat(full),
        " ".repeat(WIDTH - full),
        100.0 * share,
        size(whole as f64),
        size(rate)
    )
}

/// A number of bytes for people.
pub fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.2} GB", b / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_counts_what_is_there_and_the_rate_only_what_has_come() {
        let second = Duration::from_secs(1);
        assert_eq!(
            line(750_000, 500_000, Some(1_000_000), second),
            "[##################      ]  75 % of 1.0 MB, 250.0 kB/s, 1 s left"
        );
        assert_eq!(line(999, 0, None, second), "999 B, 999 B/s");
        assert_eq!(line(0, 0, Some(0), second), "0 B, 0 B/s");
        assert!(line(2_000, 0, Some(1_000), second).starts_with("[########################] 100 %"));
    }
}
