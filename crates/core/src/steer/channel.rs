//! What is known of a channel in one direction: its rate, its delay, what we have given it and it has not sent yet.
//!
//! The rate is configured (or set by the lab); the delay and the loss are configured or measured by probes; the queue is computed
//! here. What never happens here: the far end of a channel is trusted with anything but an echo and a count.

use super::cap::Use;
use super::loss::Loss;
use crate::path::RttEstimate;
use crate::time::{Duration, Instant};
use std::fmt;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// High bandwidth: eMBB in the paper, the primary link of a host.
    Fat,
    /// Low latency: URLLC in the paper, the secondary link.
    Fast,
}

impl Channel {
    /// Both, fat first.
    pub const ALL: [Self; 2] = [Self::Fat, Self::Fast];

    /// Its name in tables and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fat => "fat",
            Self::Fast => "fast",
        }
    }

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Fat => Self::Fast,
            Self::Fast => Self::Fat,
        }
    }

    /// Its place in an array of two.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The configuration of a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelSettings {
    /// Bits a second in this direction, everything below IP left out.
    pub rate: u64,
    /// One way, unloaded: the first estimate, until a probe knows better.
    pub delay: Duration,
    /// The share of packets that it loses, if that is known: the first estimate, until probes know better.
    pub loss: Option<f64>,
    /// Bytes that a packet carries more on this channel than by itself: headers of a tunnel.
    pub overhead: usize,
    /// Whether headers of TCP are compressed on it.
    pub compresses: bool,
    /// What it may be used for.
    pub uses: Use,
}

/// How a packet would fare on a channel, if it were given to it now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outlook {
    /// Until everything before it has left.
    pub wait: Duration,
    /// Until it has left, then.
    pub transmit: Duration,
    /// From then until it is there.
    pub delay: Duration,
    /// How likely it is that it never comes, 0 to 1.
    pub loss: f64,
}

impl Outlook {
    /// From now until it is there.
    #[inline]
    pub fn takes(&self) -> Duration {
        self.wait + self.transmit + self.delay
    }
}

/// Share of the fast channel's rate that it is given: what is measured as a rate is never quite there. Ours.
pub(super) const PACED: f64 = 0.97;

/// A round trip that varies less than this is not late before it has passed: schedulers and radios take as long. Ours.
const UNLIKELY: Duration = Duration::from_millis(20);

/// Round trips of which the shortest stands for the unloaded channel.
const SAMPLES: u32 = 32;

/// A channel in one direction, as its sender sees it.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub settings: ChannelSettings,
    /// Nanoseconds of sending that a byte takes.
    nanos_a_byte: f64,
    /// What was given to it has left by then.
    busy_until: Instant,
    /// Packets given to it.
    pub counter: u64,
    pub rtt: Option<RttEstimate>,
    /// The shortest of the last samples, and of those before, with their number.
    shortest: (Duration, Duration, u32),
    /// What [`Model::delay`] says.
    delay: Duration,
    pub alive: bool,
    pub loss: Loss,
    /// What it may be used for at most by now: a cap may be reached.
    pub allowed: Use,
}

impl Model {
    pub fn new(settings: ChannelSettings) -> Self {
        Self {
            settings,
            nanos_a_byte: 8e9 / settings.rate.max(1) as f64,
            busy_until: Instant::ZERO,
            counter: 0,
            rtt: None,
            shortest: (Duration::MAX, Duration::MAX, 0),
            delay: settings.delay,
            alive: true,
            loss: Loss::new(settings.loss),
            allowed: Use::Primary,
        }
    }

    /// How long it takes to send `bytes`.
    pub fn transmit(&self, bytes: usize) -> Duration {
        Duration::from_nanos((bytes as f64 * self.nanos_a_byte) as u64)
    }

    /// How long it takes to send `bytes` at the pace of the fast channel.
    pub fn transmit_paced(&self, bytes: usize) -> Duration {
        Duration::from_nanos((bytes as f64 * self.nanos_a_byte / PACED) as u64)
    }

    /// How a packet of `bytes` would fare behind `before` others' bytes that wait for this channel.
    #[inline]
    pub fn outlook(&self, now: Instant, before: usize, bytes: usize) -> Outlook {
        let queue = if before == 0 { Duration::ZERO } else { self.transmit_paced(before) };
        Outlook {
            wait: self.wait(now) + queue,
            transmit: self.transmit(bytes),
            delay: self.delay(),
            loss: self.loss.share(),
        }
    }

    /// The delay of a packet that finds an empty queue: half of the shortest recent round trip, if there was one.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// How far apart round trips are of late.
    pub fn jitter(&self) -> Duration {
        self.rtt.map_or(Duration::ZERO, |rtt| rtt.variation)
    }

    pub fn wait(&self, now: Instant) -> Duration {
        self.busy_until.since(now)
    }

    /// It is given `bytes`: how many it was given before.
    #[inline]
    pub fn take(&mut self, now: Instant, bytes: usize, share: f64) -> u64 {
        self.occupy(now, bytes, share);
        self.counter += 1;
        self.counter
    }

    /// Something else of `bytes` is sent over it.
    #[inline]
    pub fn occupy(&mut self, now: Instant, bytes: usize, share: f64) {
        let takes = Duration::from_nanos((bytes as f64 * self.nanos_a_byte / share) as u64);
        self.busy_until = self.busy_until.max(now) + takes;
    }

    /// The smoothed round trip, or the configured one without a queue; a longer one does not make the channel dead.
    pub fn expected_round_trip(&self) -> Duration {
        self.rtt.map_or(self.settings.delay.saturating_mul(2), |rtt| rtt.smoothed)
    }

    /// What round trips take at most, as far as is known: a retransmission timeout (RFC 6298) without its least second.
    pub fn longest_round_trip(&self) -> Duration {
        self.expected_round_trip() + (self.jitter() * 4).max(UNLIKELY)
    }

    /// What it takes until a probe that does not come back says that it is lost, if that is longer than probes are waited for anyway:
    /// three round trips.
    pub fn probe_timeout(&self) -> Duration {
        self.expected_round_trip() * 3
    }

    /// When it may be given more.
    pub fn free_at(&self) -> Instant {
        self.busy_until
    }

    /// What it may be used for.
    pub fn uses(&self) -> Use {
        self.settings.uses.max(self.allowed)
    }

    /// A round trip.
    pub fn sample(&mut self, rtt: Duration) {
        self.rtt = Some(self.rtt.map_or_else(|| RttEstimate::first(rtt), |known| known.update(rtt)));
        let (now, before, samples) = self.shortest;
        self.shortest = match samples {
            SAMPLES.. => (rtt, now, 1),
            _ => (now.min(rtt), before, samples + 1),
        };
        self.delay = self.shortest.0.min(self.shortest.1) / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn model() -> Model {
        Model::new(ChannelSettings {
            rate: 2_000_000,
            delay: ms(3),
            loss: None,
            overhead: 0,
            compresses: false,
            uses: Use::Primary,
        })
    }

    #[test]
    fn what_was_given_to_a_channel_keeps_it_busy_for_as_long_as_its_rate_says() {
        let mut m = model();
        assert_eq!((m.transmit(250), m.wait(Instant::ZERO)), (ms(1), ms(0)));
        assert_eq!((m.take(Instant::ZERO, 250, 1.0), m.take(Instant::ZERO, 500, 1.0)), (1, 2));
        assert_eq!(
            (m.wait(Instant::ZERO), m.wait(Instant::from_millis(2)), m.free_at()),
            (ms(3), ms(1), Instant::from_millis(3))
        );
        m.take(Instant::from_millis(10), 250, 0.5);
        assert_eq!(m.free_at(), Instant::from_millis(12));
    }

    #[test]
    fn the_delay_is_what_was_told_until_a_round_trip_is_known_and_the_shortest_of_late_then() {
        let mut m = model();
        assert_eq!(m.delay(), ms(3));
        m.sample(ms(20));
        m.sample(ms(10));
        assert_eq!(m.delay(), ms(5));
        // The channel has become longer: old samples are forgotten in the end.
        for _ in 0..2 * SAMPLES + 2 {
            m.sample(ms(40));
        }
        assert_eq!(m.delay(), ms(20));
    }

    #[test]
    fn a_probe_is_missed_after_three_round_trips() {
        let mut m = model();
        assert_eq!(m.probe_timeout(), ms(18), "three times there and back, by what was told");
        m.sample(ms(20));
        assert_eq!(m.probe_timeout(), ms(60));
    }

    #[test]
    fn a_round_trip_is_late_when_it_takes_longer_than_it_varies_and_than_is_usual() {
        let mut m = model();
        assert_eq!(m.longest_round_trip(), ms(6 + 20));
        // The first one varies by half of itself (RFC 6298).
        m.sample(ms(20));
        assert_eq!(m.longest_round_trip(), ms(20 + 4 * 10));
    }

    #[test]
    fn channels_have_names_for_tables() {
        assert_eq!(Channel::ALL.map(|channel| format!("{channel:>5}")), ["  fat", " fast"]);
    }
}
