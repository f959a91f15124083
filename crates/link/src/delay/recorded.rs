//! Recorded delays as text: one or two columns of milliseconds, e.g. `35.5`, read to the nanosecond.
//!
//! What never happens here: no file is opened, and no bad line is passed over.

use headstart_core::time::Duration;

use crate::quantity;

/// Why a text is not a list of delays. `line` counts from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDelays {
    /// There is no line at all.
    #[error("{name}: the file is empty: write `{form}` in milliseconds a line")]
    Empty {
        /// The file, as the caller names it.
        name: String,
        /// The form of a line.
        form: &'static str,
    },
    /// A line with more or fewer columns than the form.
    #[error("{name}:{line}: {got} columns: write `{form}` in milliseconds a line")]
    Columns {
        /// The file.
        name: String,
        /// The line.
        line: usize,
        /// The form of a line.
        form: &'static str,
        /// How many columns there are.
        got: usize,
    },
    /// A column that is no number of milliseconds: negative, finer than a nanosecond, or no number at all.
    #[error("{name}:{line}: `{text}` is not a number of milliseconds: write e.g. `35` or `35.5`, zero or above")]
    NotMilliseconds {
        /// The file.
        name: String,
        /// The line.
        line: usize,
        /// What stands there, shortened.
        text: String,
    },
    /// A time that is not above the one before.
    #[error("{name}:{line}: {time} comes after {before}: times must rise from line to line")]
    Unsorted {
        /// The file.
        name: String,
        /// The line.
        line: usize,
        /// The time of the line.
        time: String,
        /// The time of the line before.
        before: String,
    },
}

/// Reads lines of `N` columns; `name` is how messages call the file, `form` how a line is written.
pub(super) fn columns<const N: usize>(
    name: &str,
    form: &'static str,
    text: &str,
) -> Result<Vec<[Duration; N]>, BadDelays> {
    let mut rows = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let found: Vec<&str> = raw.split_whitespace().collect();
        if found.len() != N {
            return Err(BadDelays::Columns { name: name.to_owned(), line, form, got: found.len() });
        }
        let mut row = [Duration::ZERO; N];
        for (cell, text) in row.iter_mut().zip(found) {
            *cell = millis(text).ok_or_else(|| BadDelays::NotMilliseconds {
                name: name.to_owned(),
                line,
                text: text.chars().take(40).collect(),
            })?;
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(BadDelays::Empty { name: name.to_owned(), form });
    }
    Ok(rows)
}

fn millis(text: &str) -> Option<Duration> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { quantity::duration(&format!("{text}ms")).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[-0-9 .e\r\n]{0,60}|\\PC{0,40}") {
            let _ = columns::<1>("any", "DELAY", &text);
            let _ = columns::<2>("any", "TIME DELAY", &text);
        }

        #[test]
        fn what_is_written_with_a_fraction_reads_to_the_nanosecond(nanos in 0u64..1 << 50) {
            let text = format!("{}.{:06}\n", nanos / 1_000_000, nanos % 1_000_000);
            prop_assert_eq!(columns::<1>("any", "DELAY", &text), Ok(vec![[Duration::from_nanos(nanos)]]));
        }
    }
}
