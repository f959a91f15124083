//! What is remembered of one path, how a connection changes it, and its bytes in a store.

use super::{Remembered, Trust};
use crate::time::{Duration, Instant};

/// Whether a path changes in minutes or in hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Medium {
    /// Cables, and everything that a server sees.
    #[default]
    Wired,
    /// Radio.
    Wireless,
}

/// How the last connection fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Without loss.
    #[default]
    Clean,
    /// Packets were lost or marked.
    Congested,
}

/// What a connection showed of its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The window in bytes when it was looked at: what paper 2 averages.
    pub window: u64,
    /// Bytes that the path carried in its shortest round trip: what RFC 9959 saves.
    pub carried: u64,
    /// The shortest round-trip time.
    pub rtt: Duration,
    /// The best rate over a round trip, in bytes per second.
    pub rate: u64,
    /// The share of bytes that were lost, 0 to 1.
    pub loss: f32,
    /// The connection was too small to find out what the path carries: it carries at least this.
    pub limited: bool,
    /// Packets of others waited: `carried` is a share of what the path carries.
    pub shared: bool,
    /// How it fared.
    pub outcome: Outcome,
    /// Over what.
    pub medium: Medium,
}

/// What is remembered of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Bytes that the path carried in its shortest round trip.
    pub window: u64,
    /// That is what the path carries, and neither a share of it nor only what was asked of it.
    pub found: bool,
    /// The arithmetic mean of the windows of all samples, in bytes (paper 2).
    pub mean: u64,
    /// Their moving average, the newest an eighth, in bytes (paper 2 names both).
    pub moving: u64,
    /// The shortest round-trip time of the last connection.
    pub rtt: Duration,
    /// The shortest of all: without what others keep waiting. What is longer takes it along by an eighth a connection, so that a
    /// path that has become longer is known before long.
    pub least: Duration,
    /// The best rate of the last connection, in bytes per second.
    pub rate: u64,
    /// The share of bytes that it lost.
    pub loss: f32,
    /// Connections that were sampled.
    pub samples: u32,
    /// How the last one fared.
    pub outcome: Outcome,
    /// Over what.
    pub medium: Medium,
    /// When `window` was last seen.
    pub at: Instant,
    /// Another host's: the first connection of this host replaces it.
    pub prior: bool,
}

/// No path carries more in a round trip; a bound against nonsense from a store or a peer.
const MOST: u64 = super::super::controller::MOST;

impl Record {
    /// What the first connection teaches.
    pub fn first(now: Instant, sample: &Sample) -> Self {
        let window = sample.window.min(MOST);
        Self {
            window: sample.carried.min(MOST),
            found: !sample.limited && !sample.shared,
            mean: window,
            moving: window,
            rtt: sample.rtt,
            least: sample.rtt,
            rate: sample.rate,
            loss: share(sample.loss),
            samples: 1,
            outcome: sample.outcome,
            medium: sample.medium,
            at: now,
            prior: false,
        }
    }

    /// The same after another connection. A record that is older than `lifetime`, or another host's, teaches nothing any more.
    #[must_use]
    pub fn learned(&self, now: Instant, sample: &Sample, lifetime: Duration) -> Self {
        let new = Self::first(now, sample);
        if self.prior || now.since(self.at) > lifetime {
            return new;
        }
        let samples = self.samples.saturating_add(1);
        let toward = |old: u64, share: f64| (old as f64 + (new.mean as f64 - old as f64) * share) as u64;
        let least = new.least.min(self.least.saturating_add(new.least.saturating_sub(self.least) / 8));
        let averaged = Self {
            least,
            mean: toward(self.mean, 1.0 / f64::from(samples)),
            moving: toward(self.moving, 0.125),
            samples,
            ..new
        };
        // RFC 9959, section 4.1: a sender with little to send says little. What was seen before holds, and is no younger for it.
        if sample.limited && new.window < self.window {
            return Self { window: self.window, found: self.found, at: self.at, ..averaged };
        }
        averaged
    }

    /// The input of a start rule.
    pub fn remembered(&self, now: Instant, trust: Trust) -> Remembered {
        let average = trust.of(self.mean);
        let (window, found, rtt, least, rate) = (self.window, self.found, self.rtt, self.least, self.rate);
        Remembered { window, found, average, rtt, least, rate, age: now.since(self.at), trust }
    }
}

fn share(loss: f32) -> f32 {
    if loss.is_finite() { loss.clamp(0.0, 1.0) } else { 0.0 }
}

/// Bytes of a record in a store.
pub const LENGTH: usize = 56;
/// In a store, what the shortest round trip of the last connection is longer than that of all is counted in these.
const WAITED: Duration = Duration::from_micros(100);
/// The first of them.
const VERSION: u8 = 1;

/// Bytes of a store that are no record, or one that may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// Not so many bytes.
    #[error("a record of a path has {found} bytes instead of {LENGTH}: delete it")]
    Length {
        /// The bytes.
        found: usize,
    },
    /// Of a version that this program does not know.
    #[error(
        "a record of a path has version {0}, this program reads version {VERSION}: use a newer program, or delete it"
    )]
    Version(u8),
    /// A number that no path has.
    #[error("a record of a path has an impossible {0}: delete it")]
    Number(&'static str),
    /// Written later than it is now: the clock was set back, and its age is not known.
    #[error("a record of a path was written {0} s in the future: the clock was set back; delete it")]
    Future(u64),
}

impl Record {
    /// The record as a store keeps it. Its moment is one of the wall clock, as all of a history that is stored
    /// ([`super::History`]).
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = VERSION;
        let flags = [self.outcome == Outcome::Congested, self.medium == Medium::Wireless, self.found];
        bytes[1] = flags.into_iter().enumerate().map(|(bit, flag)| u8::from(flag) << bit).sum();
        let rtt = u64::try_from(self.rtt.as_nanos()).unwrap_or(u64::MAX);
        let waited = self.rtt.saturating_sub(self.least).as_nanos() / WAITED.as_nanos();
        bytes[2..4].copy_from_slice(&u16::try_from(waited).unwrap_or(u16::MAX).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.samples.to_le_bytes());
        for (k, number) in [self.window, self.mean, self.moving, rtt, self.at.as_nanos()].into_iter().enumerate() {
            bytes[8 + 8 * k..16 + 8 * k].copy_from_slice(&number.to_le_bytes());
        }
        bytes[48..52].copy_from_slice(&self.loss.to_le_bytes());
        // Kilobytes per second are exact enough, and 4 TB/s are enough.
        let rate = u32::try_from(self.rate / 1000).unwrap_or(u32::MAX);
        bytes[52..56].copy_from_slice(&rate.to_le_bytes());
        bytes
    }

    /// The record that a store kept, or why it may not be used at `now`.
    pub fn decode(bytes: &[u8], now: Instant) -> Result<Self, Damaged> {
        // The version comes first, whatever the length: another version may be of another length.
        match bytes.first() {
            Some(&VERSION) if bytes.len() == LENGTH => {}
            None | Some(&VERSION) => return Err(Damaged::Length { found: bytes.len() }),
            Some(&other) => return Err(Damaged::Version(other)),
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[at + k]));
        let number = |k: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + 8 * k + i]));
        let window = |k: usize, name| if number(k) <= MOST { Ok(number(k)) } else { Err(Damaged::Number(name)) };
        let loss = f32::from_le_bytes(word(48).to_le_bytes());
        if !(0.0..=1.0).contains(&loss) {
            return Err(Damaged::Number("loss"));
        }
        if bytes[1] > 7 {
            return Err(Damaged::Number("flag"));
        }
        let rtt = Duration::from_nanos(number(3));
        let least = rtt.saturating_sub(WAITED * u32::from(u16::from_le_bytes([bytes[2], bytes[3]])));
        if least.is_zero() || rtt > Duration::from_secs(60) {
            return Err(Damaged::Number("round-trip time"));
        }
        let at = Instant::from_nanos(number(4));
        if at > now {
            return Err(Damaged::Future(at.since(now).as_secs()));
        }
        Ok(Self {
            window: window(0, "window")?,
            found: bytes[1] & 4 != 0,
            mean: window(1, "mean window")?,
            moving: window(2, "moving window")?,
            rtt,
            least,
            rate: u64::from(word(52)) * 1000,
            loss,
            samples: word(4).max(1),
            outcome: if bytes[1] & 1 == 0 { Outcome::Clean } else { Outcome::Congested },
            medium: if bytes[1] & 2 == 0 { Medium::Wired } else { Medium::Wireless },
            at,
            prior: false,
        })
    }
}
