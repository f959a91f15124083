//! Recorded delivery opportunities as text: mahimahi's packet-delivery format.
//!
//! Each line is one whole millisecond since the start, at which up to 1500 bytes may be delivered; equal lines are
//! several opportunities. Bytes are those of the IP packet (mahimahi's own unit is 1504: the packet and the 4 bytes of its
//! TUN header). What never happens here: no file is opened, and no bad line is passed over.

use std::fmt::Write as _;

use headstart_core::time::Instant;

/// Bytes of one delivery opportunity: an Ethernet MTU, mahimahi's unit.
pub(super) const OPPORTUNITY: usize = 1500;
/// Nanoseconds in the unit of the file.
pub(super) const MILLISECOND: u64 = 1_000_000;

/// A recorded trace that was found valid: at least one opportunity, sorted, lasting more than nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub(super) name: String,
    /// Milliseconds since the start, not decreasing; the last is above zero.
    millis: Vec<u64>,
}

/// Why a text is not a trace. `line` counts from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTrace {
    /// There is no line at all.
    #[error("{name}: the trace is empty: write one whole millisecond a line")]
    Empty {
        /// The file, as the caller names it.
        name: String,
    },
    /// All opportunities are at zero, so that the trace could not repeat.
    #[error("{name}:{line}: the trace lasts 0 ms: its last timestamp must be above zero")]
    ZeroLength {
        /// The file.
        name: String,
        /// The last line.
        line: usize,
    },
    /// A timestamp below zero.
    #[error("{name}:{line}: `{text}` is negative: timestamps are milliseconds since the start")]
    Negative {
        /// The file.
        name: String,
        /// The line.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A line that is no whole number, or one too large to be a time.
    #[error("{name}:{line}: `{text}` is not a whole number of milliseconds (at most {MAX_MILLIS})")]
    NotANumber {
        /// The file.
        name: String,
        /// The line.
        line: usize,
        /// What stands there, shortened.
        text: String,
    },
    /// A timestamp that is below the one before.
    #[error("{name}:{line}: {millis} comes after {before}: sort the timestamps")]
    Unsorted {
        /// The file.
        name: String,
        /// The line.
        line: usize,
        /// The timestamp of the line, in milliseconds.
        millis: u64,
        /// The timestamp of the line before, in milliseconds.
        before: u64,
    },
}

/// The longest trace: the clock's 584 years, in milliseconds.
const MAX_MILLIS: u64 = u64::MAX / MILLISECOND;

impl Trace {
    /// Reads the text of a trace; `name` is how messages call it.
    pub fn parse(name: &str, text: &str) -> Result<Self, BadTrace> {
        let mut millis: Vec<u64> = Vec::new();
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            let digits = raw.trim_end();
            let value = whole_millis(name, line, digits)?;
            match millis.last() {
                Some(&before) if value < before => {
                    return Err(BadTrace::Unsorted { name: name.to_owned(), line, millis: value, before });
                }
                _ => millis.push(value),
            }
        }
        Self::checked(name, millis)
    }

    /// `millis` are sorted.
    fn checked(name: &str, millis: Vec<u64>) -> Result<Self, BadTrace> {
        match millis.last() {
            None => Err(BadTrace::Empty { name: name.to_owned() }),
            Some(0) => Err(BadTrace::ZeroLength { name: name.to_owned(), line: millis.len() }),
            Some(_) => Ok(Self { name: name.to_owned(), millis }),
        }
    }

    /// The trace of these opportunities, milliseconds since the start of a recording; they are sorted first. It is an error
    /// if there is none above zero.
    pub fn of_millis(name: &str, millis: impl IntoIterator<Item = u64>) -> Result<Self, BadTrace> {
        let mut millis: Vec<u64> = millis.into_iter().map(|value| value.min(MAX_MILLIS)).collect();
        millis.sort_unstable();
        Self::checked(name, millis)
    }

    /// The trace of what a saturated link delivered: moments and bytes of its packets, in the order of time. Each
    /// 1500 bytes make a line at the millisecond, rounded up, at which the last of them came; a rest makes none.
    /// It is an error if that leaves no line above zero.
    pub fn of_deliveries(name: &str, deliveries: impl IntoIterator<Item = (Instant, usize)>) -> Result<Self, BadTrace> {
        let (mut millis, mut bytes) = (Vec::new(), 0);
        for (at, delivered) in deliveries {
            bytes += delivered;
            let line = at.as_nanos().div_ceil(MILLISECOND).min(MAX_MILLIS);
            millis.extend(std::iter::repeat_n(line, bytes / OPPORTUNITY));
            bytes %= OPPORTUNITY;
        }
        Self::of_millis(name, millis)
    }

    /// The trace of a constant rate, as long as it must be to repeat exactly, at most a second (then rounded to a whole
    /// number of opportunities, at least one). A rate in bit/s.
    pub fn of_constant_rate(name: &str, bits_per_second: u64) -> Self {
        let bits = OPPORTUNITY as u64 * 8;
        let count = (bits_per_second + bits / 2) / bits;
        let count = count.max(1);
        let millis = (1..=count).map(|k| (u128::from(k) * 1000).div_ceil(u128::from(count)) as u64).collect();
        Self { name: name.to_owned(), millis }
    }

    /// The text of the trace, one line an opportunity; [`Trace::parse`] reads it back.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.millis.len() * 6);
        for millis in &self.millis {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{millis}");
        }
        text
    }

    /// The timestamps, in milliseconds since the start.
    pub fn millis(&self) -> &[u64] {
        &self.millis
    }

    /// The mean rate over one run of the trace, in bit/s.
    pub fn bits_per_second(&self) -> f64 {
        let bits = (self.millis.len() * OPPORTUNITY * 8) as f64;
        self.millis.last().map_or(0.0, |&last| bits * 1000.0 / last as f64)
    }

    /// Nanoseconds after which the trace repeats.
    pub(super) fn period(&self) -> u64 {
        self.millis.last().map_or(MILLISECOND, |last| last * MILLISECOND)
    }
}

fn whole_millis(name: &str, line: usize, digits: &str) -> Result<u64, BadTrace> {
    let shown = || digits.chars().take(40).collect::<String>();
    if digits.len() > 1 && digits.starts_with('-') && digits[1..].bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadTrace::Negative { name: name.to_owned(), line, text: shown() });
    }
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let value = if plain { digits.parse().ok() } else { None };
    value.filter(|&value: &u64| value <= MAX_MILLIS).ok_or_else(|| BadTrace::NotANumber {
        name: name.to_owned(),
        line,
        text: shown(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn malformed_traces_are_refused_with_file_line_and_reason() {
        let told = |text: &str| Trace::parse("up.trace", text).unwrap_err().to_string();
        assert_eq!(told(""), "up.trace: the trace is empty: write one whole millisecond a line");
        assert_eq!(told("0\n0\n"), "up.trace:2: the trace lasts 0 ms: its last timestamp must be above zero");
        assert_eq!(told("1\n-2\n"), "up.trace:2: `-2` is negative: timestamps are milliseconds since the start");
        assert_eq!(told("1\n5\n4\n"), "up.trace:3: 4 comes after 5: sort the timestamps");
        assert!(told("1\n\n2\n").starts_with("up.trace:2: `` is not a whole number of milliseconds"));
        assert!(told("1\n1.5\n").starts_with("up.trace:2: `1.5` is not a whole number"));
        assert!(told("99999999999999999999999\n").starts_with("up.trace:1: `99999999999999999999999` is not"));
    }

    #[test]
    fn a_constant_rate_written_as_a_trace_has_that_rate() {
        let trace = Trace::of_constant_rate("12mbit", 12_000_000);
        assert_eq!(trace.millis().len(), 1000);
        assert_eq!(trace.bits_per_second(), 12_000_000.0);
        assert_eq!(trace.millis()[0], 1);
    }

    #[test]
    fn opportunities_are_sorted_when_they_are_made_into_a_trace_and_refused_if_they_last_nothing() {
        assert_eq!(Trace::of_millis("up", [5, 0, 3]).unwrap().to_text(), "0\n3\n5\n");
        assert!(matches!(Trace::of_millis("up", [0, 0]), Err(BadTrace::ZeroLength { line: 2, .. })));
    }

    #[test]
    fn a_constant_rate_is_spread_evenly_over_a_second_and_rounded_to_whole_opportunities() {
        let of = |bits: u64| Trace::of_constant_rate("r", bits).millis().to_vec();
        assert_eq!(of(36_000), [334, 667, 1000]);
        assert_eq!(of(18_000), [500, 1000], "one and a half are two");
        assert_eq!([of(17_999), of(0)], [[1000], [1000]], "never less than one");
        let trace = Trace::parse("t", "1\n1\n4\n8\n").unwrap();
        assert_eq!((trace.bits_per_second(), trace.period()), (6_000_000.0, 8_000_000));
    }

    #[test]
    fn a_message_shows_forty_characters_of_what_it_does_not_understand() {
        let told = |text: &str| Trace::parse("t", text).unwrap_err();
        let text = |shown: &str| shown.to_owned();
        assert_eq!(told(&"9".repeat(50)), BadTrace::NotANumber { name: text("t"), line: 1, text: "9".repeat(40) });
        for not_negative in ["-", "-x", "5-", "+5"] {
            assert!(matches!(told(not_negative), BadTrace::NotANumber { .. }), "{not_negative}");
        }
        let longest = MAX_MILLIS.to_string();
        assert_eq!(Trace::parse("t", &longest).unwrap().millis(), [MAX_MILLIS]);
        assert!(matches!(told(&(MAX_MILLIS + 1).to_string()), BadTrace::NotANumber { .. }));
        assert_eq!(Trace::of_millis("t", [u64::MAX]).unwrap().millis(), [MAX_MILLIS]);
        assert_eq!(Trace::of_deliveries("t", [(Instant::FAR_FUTURE, 1500)]).unwrap().millis(), [MAX_MILLIS]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[-0-9 .a\r\n]{0,80}") {
            let _ = Trace::parse("any", &text);
        }

        #[test]
        fn what_is_written_reads_back(mut millis in proptest::collection::vec(0u64..100_000, 1..50)) {
            millis.push(100_000);
            millis.sort_unstable();
            let trace = Trace { name: "t".into(), millis };
            prop_assert_eq!(Trace::parse("t", &trace.to_text()), Ok(trace));
        }
    }
}
