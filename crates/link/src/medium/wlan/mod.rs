//! One 802.11n channel for both directions: they contend, collide with each other and with neighbours, are retransmitted up
//! to seven times, and come out in order.
//!
//! IEEE 802.11-2012 with one access category. A transmission carries up to sixteen packets (an A-MPDU), each received or
//! not by itself; the receiver keeps what came after a missing packet until that is there or given up. Neighbours are
//! stations that always have something to send while they are on, and are on and off by turns. Fades are spells in which
//! most frames fail. What is not here: hidden stations, capture, rate control, power save, EDCA's categories.

mod contention;
mod spell;
pub mod timing;

use headstart_core::time::Duration;

use super::{Medium, MediumSpec};
use crate::quantity::{self, show_duration, show_fraction, show_rate};
use crate::spec::split;
use crate::{BadModel, Entry, Files};
use contention::Channel;

const NAME: &str = "wlan";
const FORM: &str = "RATE|strong|weak[:CONTENDERS[:ON:OFF[:ERRORS[:FADE:CLEAR:ERRORS-IN-FADE]]]]";
/// 6.5 Mbit/s: the slowest rate of 802.11n, MCS 0 at 20 MHz (IEEE 802.11-2012, table 20-30).
pub const SLOWEST: u64 = 6_500_000;
/// 600 Mbit/s: the fastest, MCS 31 at 40 MHz with the short guard interval (table 20-37).
pub const FASTEST: u64 = 600_000_000;
/// A hundred stations on one channel are more than any access point holds at work.
const MOST_CONTENDERS: u32 = 100;

pub(super) const ENTRY: Entry<Medium> = Entry {
    name: NAME,
    what: "an 802.11n channel for both directions: contention with each other and with CONTENDERS that are on and off, \
           collisions, seven retries, aggregates of 16 frames, release in order, bursts of fading",
    source: "IEEE 802.11-2012, sections 9.3 and 20; checked against Bianchi (IEEE JSAC, 2000)",
    parameters: FORM,
    example: "65mbit:2:400ms:400ms:1%:60ms:2s:90%",
    parse,
};

/// The state of a channel and of what is on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wlan {
    /// The rate of the physical layer, in bit/s; what IP packets see is less. It does not adapt.
    pub bits_per_second: u64,
    /// Neighbours, each of which sends full aggregates whenever it is on.
    pub contenders: u32,
    /// How long a neighbour is on, on average; zero is never.
    pub on: Duration,
    /// How long it is off, on average; zero is never.
    pub off: Duration,
    /// The share of frames that fail for other reasons than collisions.
    pub errors: f64,
    /// How long a fade lasts, on average; zero is never.
    pub fade: Duration,
    /// How long it is clear between two fades, on average.
    pub clear: Duration,
    /// The share of frames that fail in a fade.
    pub errors_in_fade: f64,
}

impl Wlan {
    /// A strong signal with one neighbour. 65 Mbit/s: MCS 7, the fastest of one antenna at 20 MHz with the long guard
    /// interval (IEEE 802.11-2012, table 20-30), which wants -64 dBm (table 20-23) where paper 4's strong receiver has
    /// -40. The neighbour's spells are of 400 ms, ours; no frame is lost but by collision.
    pub const STRONG: Self = Self {
        bits_per_second: 65_000_000,
        contenders: 1,
        on: Duration::from_millis(400),
        off: Duration::from_millis(400),
        errors: 0.0,
        fade: Duration::ZERO,
        clear: Duration::ZERO,
        errors_in_fade: 0.0,
    };

    /// A weak signal with one neighbour. 26 Mbit/s: MCS 3, which wants -74 dBm where paper 4's weak receiver has -58: a rate
    /// control leaves such a margin when delays move as much as the paper reports (section 7). Frames fail by 5 %, and
    /// fades of 60 ms each 2 s take 90 % of them: ours, for the paper gives no such number.
    pub const WEAK: Self = Self {
        bits_per_second: 26_000_000,
        errors: 0.05,
        fade: Duration::from_millis(60),
        clear: Duration::from_secs(2),
        errors_in_fade: 0.9,
        ..Self::STRONG
    };
}

/// A channel; the rate is held within [`SLOWEST`] and [`FASTEST`], shares within 0 and 1, and contenders to a hundred.
pub fn wlan(wlan: Wlan) -> MediumSpec {
    let share = |value: f64| if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
    let wlan = Wlan {
        bits_per_second: wlan.bits_per_second.clamp(SLOWEST, FASTEST),
        contenders: wlan.contenders.min(MOST_CONTENDERS),
        errors: share(wlan.errors),
        errors_in_fade: share(wlan.errors_in_fade),
        ..wlan
    };
    let text = [
        show_rate(wlan.bits_per_second),
        wlan.contenders.to_string(),
        show_duration(wlan.on),
        show_duration(wlan.off),
        show_fraction(wlan.errors),
        show_duration(wlan.fade),
        show_duration(wlan.clear),
        show_fraction(wlan.errors_in_fade),
    ];
    MediumSpec::new(NAME, text.join(":"), move || Box::new(Medium::Shared(Box::new(Channel::new(wlan)))))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<MediumSpec, BadModel> {
    let parts = split(text, NAME, FORM, 1..=8)?;
    if matches!(parts.len(), 3 | 6 | 7) {
        return Err(BadModel::Arity { model: NAME, form: FORM, got: parts.len() });
    }
    let senseless = |reason| BadModel::Senseless { model: NAME, reason };
    let given = match parts[0].as_str() {
        "strong" => Wlan::STRONG,
        "weak" => Wlan::WEAK,
        rate => {
            let bits_per_second = quantity::rate(rate)?;
            if !(SLOWEST..=FASTEST).contains(&bits_per_second) {
                return Err(senseless("the rate must be from 6.5mbit to 600mbit, those of 802.11n"));
            }
            Wlan { bits_per_second, contenders: 0, ..Wlan::STRONG }
        }
    };
    let duration = |index: usize, given: Duration| parts.get(index).map_or(Ok(given), |part| quantity::duration(part));
    let share = |index: usize, given: f64| parts.get(index).map_or(Ok(given), |part| quantity::fraction(part));
    let contenders = match parts.get(1) {
        None => given.contenders,
        Some(part) => part
            .parse()
            .ok()
            .filter(|&count| count <= MOST_CONTENDERS)
            .ok_or_else(|| senseless("CONTENDERS must be a whole number from 0 to 100"))?,
    };
    let read = Wlan {
        contenders,
        on: duration(2, given.on)?,
        off: duration(3, given.off)?,
        errors: share(4, given.errors)?,
        fade: duration(5, given.fade)?,
        clear: duration(6, given.clear)?,
        errors_in_fade: share(7, given.errors_in_fade)?,
        ..given
    };
    Ok(wlan(read))
}

#[cfg(test)]
mod tests;
