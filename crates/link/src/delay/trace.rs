//! A delay that follows a recording: so much from this time on, so much from that.
//!
//! Each line is a time since the start and a delay, both in milliseconds; the delay holds for packets that set out from
//! that time until the next line's. Before the first line the first delay holds, after the last line the last. The trace
//! starts at the origin of time. What never happens here: values between two lines are not made up, and no file is opened.

use std::sync::Arc;

use headstart_core::time::{Duration, Instant};

use super::{BadDelays, Delay, DelaySpec, recorded};
use crate::spec::{digest, file};
use crate::{BadModel, Entry, Files, quantity};

const NAME: &str = "trace";
const FORM: &str = "FILE";
const LINE: &str = "TIME DELAY";

pub(super) const ENTRY: Entry<dyn Delay> = Entry {
    name: NAME,
    what: "delays recorded over time: lines of TIME DELAY in milliseconds, each delay until the next line's time",
    source: "the delay traces of CellReplay (Sentosa et al., NSDI 2025) and of the crate netem-trace, as columns",
    parameters: FORM,
    example: "delays.trace",
    parse,
};

/// A delay that follows `steps`, moments since the start with the delay from then on; they are sorted first. No step is no
/// delay. `name` is how the specification calls the recording.
pub fn trace(name: &str, steps: &[(Duration, Duration)]) -> DelaySpec {
    let mut steps = steps.to_vec();
    steps.sort_by_key(|(time, _)| *time);
    let digest = digest(steps.iter().flat_map(|(time, delay)| [*time, *delay]).map(|d| d.as_nanos() as u64));
    let steps: Arc<[(Duration, Duration)]> = steps.into();
    DelaySpec::new(NAME, name.to_owned(), move || Box::new(Steps { steps: Arc::clone(&steps), next: 0 }))
        .with_digest(digest)
}

fn parse(text: &str, files: &mut Files<'_>) -> Result<DelaySpec, BadModel> {
    let contents = file(text, NAME, FORM, files)?;
    let rows = recorded::columns::<2>(text, LINE, &contents)?;
    if let Some(index) = rows.windows(2).position(|pair| pair[1][0] <= pair[0][0]) {
        let shown = |row: usize| quantity::show_duration(rows[row][0]);
        return Err(BadDelays::Unsorted {
            name: text.to_owned(),
            line: index + 2,
            time: shown(index + 1),
            before: shown(index),
        }
        .into());
    }
    Ok(trace(text, &rows.iter().map(|[time, delay]| (*time, *delay)).collect::<Vec<_>>()))
}

struct Steps {
    /// Sorted by time.
    steps: Arc<[(Duration, Duration)]>,
    /// The first step that has not begun.
    next: usize,
}

impl Delay for Steps {
    fn draw(&mut self, at: Instant, _: &mut fastrand::Rng) -> Duration {
        let since_start = at.since(Instant::ZERO);
        while self.steps.get(self.next).is_some_and(|(time, _)| *time <= since_start) {
            self.next += 1;
        }
        self.steps.get(self.next.saturating_sub(1)).map_or(Duration::ZERO, |(_, delay)| *delay)
    }

    fn least(&self) -> Duration {
        self.steps.iter().map(|(_, delay)| *delay).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<DelaySpec, BadModel> {
        parse("d.trace", &mut |_| Ok(text.to_owned()))
    }

    #[test]
    fn each_delay_holds_from_its_line_to_the_next_and_the_last_for_good() {
        let mut model = read("10 20\n30 5.25\r\n100 40\n").unwrap().build();
        let mut rng = fastrand::Rng::with_seed(1);
        let drawn = [0, 10, 29, 30, 99, 100, 5000].map(|ms| model.draw(Instant::from_millis(ms), &mut rng).as_micros());
        assert_eq!(drawn, [20_000, 20_000, 20_000, 5250, 5250, 40_000, 40_000]);
        assert_eq!(model.least(), Duration::from_micros(5250));
    }

    #[test]
    fn malformed_recordings_are_refused_with_file_line_and_reason() {
        let told = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(told(""), "d.trace: the file is empty: write `TIME DELAY` in milliseconds a line");
        assert_eq!(told("0 1\n5\n"), "d.trace:2: 1 columns: write `TIME DELAY` in milliseconds a line");
        assert_eq!(
            told("0 1\n5 -2\n"),
            "d.trace:2: `-2` is not a number of milliseconds: write e.g. `35` or `35.5`, zero or above"
        );
        assert!(told("0 1e3\n").starts_with("d.trace:1: `1e3` is not a number"));
        assert!(told("0 1\n5 1\n5 2\n").contains("5ms comes after 5ms"));
        assert_eq!(told("0 1\n7 1\n5 2\n"), "d.trace:3: 5ms comes after 7ms: times must rise from line to line");
    }

    #[test]
    fn recordings_of_one_name_are_told_apart_by_their_content() {
        assert_eq!(read("0 1\n"), read("0 1\n"));
        assert_ne!(read("0 1\n"), read("0 2\n"));
    }
}
