//! Congestion controllers: how a window grows and shrinks once a connection is under way. One file each, one line in [`ALL`].
//!
//! Bytes and moments only. A controller receives growth (acknowledged bytes that were limited by the window, outside of
//! recovery), of round-trip times and of congestion; that a loss of the same flight counts once is [`super::sender`]'s
//! business. Nothing here panics, and no window falls below two packets.

mod cubic;
mod hystart;
mod new_reno;

pub use cubic::Cubic;
pub use new_reno::NewReno;

use crate::time::{Duration, Instant};
use std::fmt;

/// Windows never grow beyond this many bytes: a bound against arithmetic, far above any path.
pub const MOST: u64 = 1 << 32;

/// How a window grows and shrinks.
pub trait Controller: fmt::Debug + Send + Sync {
    /// Bytes that may be in flight.
    fn window(&self) -> u64;

    /// The slow-start threshold in bytes; `None` until there was a reason for one.
    fn threshold(&self) -> Option<u64>;

    /// `bytes` were acknowledged while the window was what limited the sender. `rtt` is the smoothed round-trip time.
    fn grow(&mut self, now: Instant, bytes: u64, rtt: Duration);

    /// A sample of the round-trip time; `ends_round` if a packet that was sent after the last round ended is acknowledged.
    fn sample(&mut self, _rtt: Duration, _ends_round: bool) {}

    /// Whether it grows more slowly than slow start by what the samples say.
    fn is_slow(&self) -> bool {
        false
    }

    /// For so long the application, not the window, was the limit.
    fn idle(&mut self, _time: Duration) {}

    /// Congestion: once for each flight.
    fn reduce(&mut self, now: Instant);

    /// Persistent congestion (RFC 9002, section 7.6).
    fn collapse(&mut self, now: Instant);

    /// A start rule says what the window is to be, and the threshold if it has an opinion.
    fn set(&mut self, window: u64, threshold: Option<u64>);

    /// Packets have so many bytes now.
    fn set_packet(&mut self, bytes: u64);

    /// A copy.
    fn boxed(&self) -> Box<dyn Controller>;
}

/// A registered controller.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name in settings and tables.
    pub name: &'static str,
    /// What it is, in a line.
    pub what: &'static str,
    /// Makes one with this window and packets of this size, both in bytes.
    pub new: fn(u64, u64) -> Box<dyn Controller>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The controller that is used when none is named.
pub const DEFAULT: &str = "cubic";

/// Every controller.
pub const ALL: &[Entry] = &[
    Entry {
        name: "cubic",
        what: "CUBIC (RFC 9438), slow start ended by HyStart++ (RFC 9406)",
        new: |window, packet| Box::new(Cubic::new(window, packet)),
    },
    Entry {
        name: "new-reno",
        what: "NewReno (RFC 9002, section 7)",
        new: |window, packet| Box::new(NewReno::new(window, packet)),
    },
];

/// The controller called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// A window between two packets and [`MOST`].
fn bounded(window: f64, packet: f64) -> f64 {
    window.max(2.0 * packet).min(MOST as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: u64 = 1200;
    const RTT: Duration = Duration::from_millis(50);

    /// Acknowledges full windows for `rounds`, a packet at a time.
    fn rounds(controller: &mut dyn Controller, from: Instant, rounds: u64) -> Instant {
        let mut now = from;
        for _ in 0..rounds {
            now += RTT;
            let packets = controller.window() / PACKET;
            for packet in 0..packets {
                controller.grow(now, PACKET, RTT);
                controller.sample(RTT, packet == 0);
            }
        }
        now
    }

    #[test]
    fn every_controller_doubles_a_round_in_slow_start_and_leaves_it_on_congestion() {
        for entry in ALL {
            let mut controller = (entry.new)(12_000, PACKET);
            let now = rounds(&mut *controller, Instant::ZERO, 3);
            assert_eq!((controller.window(), controller.threshold()), (96_000, None), "{entry:?}");
            controller.reduce(now);
            let left = controller.window();
            assert!((48_000..=67_200).contains(&left), "{entry:?}: half of it (RFC 9002), or 0.7 (RFC 9438): {left}");
            assert_eq!(controller.threshold(), Some(left), "{entry:?}");
            rounds(&mut *controller, now, 1);
            let grown = controller.window();
            assert!(grown > left && grown < left + 6 * PACKET, "{entry:?}: {left} to {grown}");
            controller.collapse(now);
            assert_eq!(controller.window(), 2 * PACKET, "{entry:?}");
        }
    }

    #[test]
    fn every_controller_takes_the_window_that_a_start_rule_gives_it() {
        for entry in ALL {
            let mut controller = (entry.new)(12_000, PACKET);
            controller.set(500_000, None);
            assert_eq!((controller.window(), controller.threshold()), (500_000, None));
            controller.set(100_000, Some(50_000));
            rounds(&mut *controller, Instant::ZERO, 1);
            assert!(controller.window() < 110_000, "{entry:?} is in congestion avoidance");
        }
    }

    proptest! {
        #[test]
        fn no_window_leaves_its_bounds_whatever_happens(
            which in 0..ALL.len(),
            steps in proptest::collection::vec((0u8..7, any::<u64>(), any::<u32>()), 0..200),
        ) {
            let mut controller = (ALL[which].new)(12_000, PACKET);
            for (what, number, time) in steps {
                // Also backwards: nothing may rely on a clock that only goes on.
                let (now, rtt) = (Instant::from_nanos(number), Duration::from_micros(time.into()));
                match what {
                    0 => controller.grow(now, number, rtt),
                    1 => controller.sample(rtt, number % 2 == 0),
                    2 => controller.reduce(now),
                    3 => controller.collapse(now),
                    4 => controller.set(number, (time % 2 == 0).then_some(number / 3)),
                    5 => controller.set_packet(1200 + number % 300),
                    _ => controller.idle(rtt),
                }
                prop_assert!((2 * PACKET..=MOST).contains(&controller.window()));
            }
        }
    }
}
