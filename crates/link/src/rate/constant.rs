//! A constant rate in bits per second of IP packets, as a token-less server: the next packet starts when the last is
//! through.
//!
//! The moment at which the server is free is kept as whole nanoseconds and a remainder, so that a billion packets drift
//! by nothing. What is never done: a packet is never through before its last bit.

use headstart_core::time::Instant;

use super::{Rate, RateSpec};
use crate::quantity;
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "constant";
const FORM: &str = "RATE";
/// A byte's bits times the nanoseconds of a second: work in units of which a rate does so many a nanosecond.
const BYTE: u64 = 8 * 1_000_000_000;

pub(super) const ENTRY: Entry<dyn Rate> = Entry {
    name: NAME,
    what: "a fixed number of bits of IP packets per second",
    source: "the serialisation of a synchronous line; the rate of mahimahi's and netem's fixed links",
    parameters: FORM,
    example: "10mbit",
    parse,
};

/// A constant rate; zero is taken as 1 bit/s.
pub fn constant(bits_per_second: u64) -> RateSpec {
    let bits_per_second = bits_per_second.max(1);
    RateSpec::new(NAME, quantity::show_rate(bits_per_second), move || {
        Box::new(Constant { bits_per_second, free: 0, remainder: 0 })
    })
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<RateSpec, BadModel> {
    let parts = split(text, NAME, FORM, 1..=1)?;
    Ok(constant(quantity::rate(&parts[0])?))
}

struct Constant {
    bits_per_second: u64,
    /// The server is free `free + remainder / bits_per_second` nanoseconds after the origin.
    free: u64,
    remainder: u64,
}

impl Constant {
    fn free_at(&self) -> Instant {
        Instant::from_nanos(self.free.saturating_add(u64::from(self.remainder > 0)))
    }
}

impl Rate for Constant {
    fn start(&self, ready: Instant) -> Instant {
        ready.max(self.free_at())
    }

    fn serve(&mut self, start: Instant, bytes: usize) -> Instant {
        if start > self.free_at() {
            (self.free, self.remainder) = (start.as_nanos(), 0);
        }
        let rate = self.bits_per_second;
        let small = (bytes as u64).checked_mul(BYTE).and_then(|work| work.checked_add(self.remainder));
        let (nanos, remainder) = match small {
            // A division of half the width takes a fraction of the time, and every real packet gets it.
            Some(work) => (work / rate, work % rate),
            None => {
                // At most 2^64 * 8 * 10^9 + 2^64, which is below 2^128.
                let work = bytes as u128 * u128::from(BYTE) + u128::from(self.remainder);
                (u64::try_from(work / u128::from(rate)).unwrap_or(u64::MAX), (work % u128::from(rate)) as u64)
            }
        };
        self.free = self.free.saturating_add(nanos);
        self.remainder = remainder;
        self.free_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_packets_at_an_awkward_rate_end_where_the_division_says() {
        let rate = 129_000_001;
        let mut server = constant(rate).build();
        let mut end = Instant::ZERO;
        for _ in 0..1_000_000 {
            let start = server.start(Instant::ZERO);
            end = server.serve(start, 1500);
        }
        let exact = (1_000_000u128 * 12_000 * 1_000_000_000).div_ceil(u128::from(rate));
        assert_eq!(u128::from(end.as_nanos()), exact);
    }

    #[test]
    fn a_packet_beyond_all_measure_takes_as_long_as_the_wide_division_says() {
        let mut server = constant(1_000_000_007).build();
        let bytes = 1usize << 40;
        for count in 1..=3 {
            let start = server.start(Instant::ZERO);
            let exact = (count * bytes as u128 * 8 * 1_000_000_000).div_ceil(1_000_000_007);
            assert_eq!(u128::from(server.serve(start, bytes).as_nanos()), exact);
        }
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut server = constant(8_000_000).build();
        assert_eq!(server.serve(Instant::ZERO, 1000), Instant::from_millis(1));
        let late = Instant::from_millis(50);
        assert_eq!(server.start(late), late);
        assert_eq!(server.serve(late, 1000), Instant::from_millis(51));
        assert_eq!(server.start(late), Instant::from_millis(51));
    }
}
