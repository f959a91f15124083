//! Numbers with units, as they are written in a link specification, read and written in whole arithmetic.
//!
//! Rates are decimal (`kbit` = 1000 bit/s), durations down to the nanosecond, fractions as `1%` or `0.01`, room in
//! packets (`100p`) or bytes (`150kb`, `64kib`). A rate is never written `bps`: the tools disagree whether that is bits.

use headstart_core::time::Duration;

/// A number with a unit that does not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}: write {form}")]
pub struct BadQuantity {
    /// What was written.
    pub text: String,
    /// What was expected.
    pub kind: &'static str,
    /// How to write one.
    pub form: &'static str,
}

const RATE_UNITS: &[(&str, u64)] = &[("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];
const TIME_UNITS: &[(&str, u64)] = &[("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const BYTE_UNITS: &[(&str, u64)] = &[("kib", 1024), ("mib", 1_048_576), ("kb", 1000), ("mb", 1_000_000), ("b", 1)];

/// Bits per second, at least 1: `100mbit`, `1.5gbit`, `64kbit`, `9600bit`.
pub fn rate(text: &str) -> Result<u64, BadQuantity> {
    with_unit(text, RATE_UNITS).filter(|&bits| bits > 0).ok_or_else(|| {
        bad(text, "rate", "a number above zero and one of bit, kbit, mbit, gbit (per second), e.g. `100mbit`")
    })
}

/// A duration: `15ms`, `0.2ms`, `200us`, `1s`, `500ns` or a bare `0`.
pub fn duration(text: &str) -> Result<Duration, BadQuantity> {
    let nanos = if text == "0" { Some(0) } else { with_unit(text, TIME_UNITS) };
    nanos
        .map(Duration::from_nanos)
        .ok_or_else(|| bad(text, "duration", "a number and one of ns, us, ms, s, e.g. `15ms`"))
}

/// A share between 0 and 1: `1%`, `0.5%` or `0.01`.
pub fn fraction(text: &str) -> Result<f64, BadQuantity> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text, 1.0),
    };
    // Only plain decimals: `inf`, `1e3` and signs are what `parse::<f64>` would also take.
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = if plain { number.parse::<f64>().ok() } else { None };
    value
        .map(|v| v / scale)
        .filter(|v| (0.0..=1.0).contains(v))
        .ok_or_else(|| bad(text, "share", "a percentage from 0% to 100% or a number from 0 to 1, e.g. `1%`"))
}

/// Room in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// So many packets, whatever their size.
    Packets(usize),
    /// So many bytes of IP packets.
    Bytes(usize),
}

/// Room in a queue, above zero: `100p`, `150kb`, `64kib`, `1500b`.
pub fn room(text: &str) -> Result<Room, BadQuantity> {
    let read = match text.strip_suffix('p') {
        Some(number) => whole(number).map(Room::Packets),
        None => with_unit(text, BYTE_UNITS).and_then(|bytes| usize::try_from(bytes).ok()).map(Room::Bytes),
    };
    read.filter(|room| !matches!(room, Room::Packets(0) | Room::Bytes(0))).ok_or_else(|| {
        bad(text, "queue size", "a number above zero and one of p (packets), b, kb, mb, kib, mib, e.g. `100p`")
    })
}

/// The form of a rate that reads back to the same number.
pub fn show_rate(bits_per_second: u64) -> String {
    let (unit, scale) =
        RATE_UNITS.iter().find(|(_, scale)| bits_per_second.is_multiple_of(*scale)).unwrap_or(&("bit", 1));
    format!("{}{unit}", bits_per_second / scale)
}

/// The form of a duration that reads back to the same number (up to 584 years, the limit of the clock).
pub fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0ms".to_owned();
    }
    let unit = TIME_UNITS.iter().rev().find(|(_, scale)| nanos.is_multiple_of(u128::from(*scale)));
    let (unit, scale) = unit.unwrap_or(&("ns", 1));
    format!("{}{unit}", nanos / u128::from(*scale))
}

/// The form of a share that reads back to the same number.
pub fn show_fraction(share: f64) -> String {
    format!("{share}")
}

fn bad(text: &str, kind: &'static str, form: &'static str) -> BadQuantity {
    BadQuantity { text: text.to_owned(), kind, form }
}

fn whole(digits: &str) -> Option<usize> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// `12.5ms` in the smallest unit, exactly; `None` if it does not read, overflows, or has a finer part than the unit.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let unit = unit.trim_start();
    let scale = units.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?.1;
    let (before, after) = number.split_once('.').unwrap_or((number, "0"));
    let whole = u128::try_from(whole(before)?).ok()?.checked_mul(u128::from(scale))?;
    if after.is_empty() || after.len() > 12 || !after.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = after.parse::<u128>().ok()? * u128::from(scale);
    let divisor = 10u128.pow(u32::try_from(after.len()).ok()?);
    if part % divisor != 0 {
        return None;
    }
    u64::try_from(whole + part / divisor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_exactly() {
        assert_eq!(rate("1.5gbit"), Ok(1_500_000_000));
        assert_eq!(rate("9600bit"), Ok(9600));
        assert_eq!(duration("0.2ms"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("1.000000001s"), Ok(Duration::from_nanos(1_000_000_001)));
        assert_eq!(fraction("1%"), Ok(0.01));
        assert_eq!(fraction("0.01"), Ok(0.01));
        assert_eq!(room("64kib"), Ok(Room::Bytes(65_536)));
        assert_eq!(room("100p"), Ok(Room::Packets(100)));
        assert_eq!(duration("1.500000000000s"), Ok(Duration::from_millis(1500)), "twelve digits");
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!((fraction("100 %"), fraction("1")), (Ok(1.0), Ok(1.0)));
        assert_eq!((rate("1bit"), room("1p"), room("1b")), (Ok(1), Ok(Room::Packets(1)), Ok(Room::Bytes(1))));
    }

    #[test]
    fn what_is_ambiguous_or_impossible_is_refused() {
        for text in ["100", "100mbps", "0mbit", "-1mbit", "1e3mbit", "0.5bit", "mbit", "1..2mbit", "1.mbit", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
        for text in ["15", "0.5ns", "1.5000000000000s", "99999999999999999999s", "ms", ".5ms"] {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["101%", "1.1", "-1%", "nan", "inf", "1e-3", "%", "."] {
            assert!(fraction(text).is_err(), "{text}");
        }
        for text in ["0p", "0b", "100", "p", "1.5p"] {
            assert!(room(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_message_says_what_to_write() {
        assert_eq!(
            duration("15").unwrap_err().to_string(),
            "`15` is not a duration: write a number and one of ns, us, ms, s, e.g. `15ms`"
        );
    }
}
