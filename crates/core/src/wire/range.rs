//! Byte ranges of HTTP: what a `Range` header asks for and what a `Content-Range` header says (RFC 9110, section 14).
//!
//! One range only. A request for several is answered with the whole, which RFC 9110, section 14.2, allows. What cannot be
//! read as a range is as if it were not there, as that section demands; nothing here panics.

use std::fmt;

/// What a `Range` header selects of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of it: there is no header, or none that can be honoured.
    Whole,
    /// The bytes from `first` to `last`, both included.
    Part {
        /// The first byte, counted from zero.
        first: u64,
        /// The last byte.
        last: u64,
    },
    /// Nothing that exists (416 Range Not Satisfiable).
    Nothing,
}

/// What `header`, the value of a `Range` header, selects of `length` bytes.
pub fn select(header: &[u8], length: u64) -> Selection {
    let Some(spec) = std::str::from_utf8(header).ok().and_then(only_range) else { return Selection::Whole };
    match spec {
        Spec::From(first, _) if first >= length => Selection::Nothing,
        Spec::From(first, last) => Selection::Part { first, last: last.unwrap_or(u64::MAX).min(length - 1) },
        // A suffix of nothing is nothing, and so is any suffix of an empty representation.
        Spec::Suffix(0) => Selection::Nothing,
        Spec::Suffix(_) if length == 0 => Selection::Nothing,
        Spec::Suffix(bytes) => Selection::Part { first: length.saturating_sub(bytes), last: length - 1 },
    }
}

enum Spec {
    From(u64, Option<u64>),
    Suffix(u64),
}

fn only_range(header: &str) -> Option<Spec> {
    let (unit, set) = header.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    match (first.trim_end(), last.trim_start()) {
        ("", last) => Some(Spec::Suffix(number(last)?)),
        (first, "") => Some(Spec::From(number(first)?, None)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Spec::From(first, Some(last)))
        }
    }
}

/// Digits alone: no sign, which `u64::from_str` would take. What is beyond any length counts as the greatest number.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// A `Content-Range` header of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The first and the last byte of the part; `None` in an answer that the range cannot be satisfied.
    pub part: Option<(u64, u64)>,
    /// The length of the whole, if it is known.
    pub whole: Option<u64>,
}

impl ContentRange {
    /// Reads the value of a header; `None` if it is no range of bytes or contradicts itself.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(header).ok()?.trim();
        let (unit, rest) = text.split_once(' ')?;
        let (part, whole) = rest.trim().split_once('/')?;
        let whole = if whole == "*" { None } else { Some(number(whole)?) };
        let part = match part {
            "*" => None,
            part => {
                let (first, last) = part.split_once('-')?;
                Some((number(first)?, number(last)?))
            }
        };
        let in_order = part.is_none_or(|(first, last)| first <= last && whole.is_none_or(|whole| last < whole));
        // A range that cannot be satisfied names the length (RFC 9110, section 14.4).
        let says_something = part.is_some() || whole.is_some();
        (unit.eq_ignore_ascii_case("bytes") && in_order && says_something).then_some(Self { part, whole })
    }
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some((first, last)) => write!(f, "bytes {first}-{last}/")?,
            None => f.write_str("bytes */")?,
        }
        match self.whole {
            Some(whole) => write!(f, "{whole}"),
            None => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(first: u64, last: u64) -> Selection {
        Selection::Part { first, last }
    }

    #[test]
    fn the_examples_of_rfc_9110_select_what_it_says() {
        for (header, selected) in [
            ("bytes=0-499", part(0, 499)),
            ("bytes=500-999", part(500, 999)),
            ("bytes=-500", part(9500, 9999)),
            ("bytes=9500-", part(9500, 9999)),
            ("bytes=9500-20000", part(9500, 9999)),
            ("BYTES = 1 - 2", part(1, 2)),
            ("bytes=10000-", Selection::Nothing),
            ("bytes=-0", Selection::Nothing),
            ("bytes=-99999999999999999999999", part(0, 9999)),
            ("bytes=0-0,-1", Selection::Whole),
            ("bytes=5-4", Selection::Whole),
            ("bytes=+5-9", Selection::Whole),
            ("lines=1-2", Selection::Whole),
            ("bytes", Selection::Whole),
            ("", Selection::Whole),
        ] {
            assert_eq!(select(header.as_bytes(), 10_000), selected, "{header}");
        }
        assert_eq!(select(b"bytes=0-", 0), Selection::Nothing);
        assert_eq!(select(b"bytes=-5", 0), Selection::Nothing);
    }

    #[test]
    fn what_an_answer_says_of_its_part_is_read_back() {
        for (text, part, whole) in [
            ("bytes 0-4/10", Some((0, 4)), Some(10)),
            ("bytes 0-4/*", Some((0, 4)), None),
            ("bytes */10", None, Some(10)),
        ] {
            let range = ContentRange { part, whole };
            assert_eq!(ContentRange::parse(text.as_bytes()), Some(range));
            assert_eq!(range.to_string(), text);
        }
        for text in ["bytes 4-0/10", "bytes 0-10/10", "bytes */*", "lines 0-4/10", "bytes 0-4", "bytes -1-4/10", ""] {
            assert_eq!(ContentRange::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_selected_exists_whatever_was_asked(
            header in proptest::collection::vec(any::<u8>(), 0..40), length in any::<u64>(),
        ) {
            if let Selection::Part { first, last } = select(&header, length) {
                prop_assert!(first <= last && last < length);
            }
            ContentRange::parse(&header);
        }

        #[test]
        fn a_range_of_bytes_that_are_there_selects_them(length in 1..u64::MAX, a in any::<u64>(), b in any::<u64>()) {
            let (a, b) = (a % length, b % length);
            let (first, last) = (a.min(b), a.max(b));
            prop_assert_eq!(select(format!("bytes={first}-{last}").as_bytes(), length), part(first, last));
        }
    }
}
