//! Timestamps between the forwarder and a program's kernel (RFC 7323), and whether ranges are acknowledged (RFC 2018): where both the
//! program and its peer have them, as without a forwarder.

use super::super::Agreed;
use crate::time::{Duration, Instant};
use crate::wire::ip::tcp::{STAMPS, Segment, before};

/// After so long, what the program's clock said is no measure of it any more (RFC 7323, section 5.5).
const FORGOTTEN: Duration = Duration::from_secs(24 * 24 * 3600);

/// See the module.
#[derive(Debug)]
pub(super) struct Stamps {
    /// What the program has offered.
    offered: Agreed,
    /// What is used.
    pub used: Agreed,
    /// Our clock, in milliseconds.
    clock: u32,
    /// Where it began, so that it tells nobody since when this runs (RFC 7323, section 5.4).
    began: u32,
    /// The program's clock, and when it said so.
    recent: (u32, Instant),
}

impl Stamps {
    /// Those of a program that says so; `began` is not to be guessed.
    pub fn new(now: Instant, said: &Segment, began: u32) -> Self {
        let offered = Agreed { timestamps: said.stamps.is_some(), ranges: said.takes_ranges };
        let recent = (said.stamps.map_or(0, |(clock, _)| clock), now);
        Self { offered, used: Agreed::default(), clock: began.wrapping_add(millis(now)), began, recent }
    }

    /// Those that a call offers: what its caller has.
    pub fn calling(now: Instant, caller: Agreed, began: u32) -> Self {
        Self { used: caller, ..Self::new(now, &Segment::default(), began) }
    }

    /// The peer has these: what the program has offered of them is used.
    pub fn agree(&mut self, peer: Agreed) {
        let Agreed { timestamps, ranges } = self.offered;
        self.used = Agreed { timestamps: timestamps && peer.timestamps, ranges: ranges && peer.ranges };
    }

    /// The program has answered a call by this.
    pub fn answered(&mut self, now: Instant, said: &Segment) {
        *self = Self { used: self.used, ..Self::new(now, said, self.began) };
        self.agree(self.used);
    }

    /// Time has passed. What is told of a moment that is over does not turn the clock back.
    pub fn tick(&mut self, now: Instant) {
        let clock = self.began.wrapping_add(millis(now));
        self.clock = if before(clock, self.clock) { self.clock } else { clock };
    }

    /// What the next segment has.
    pub fn next(&self) -> Option<(u32, u32)> {
        self.used.timestamps.then_some((self.clock, self.recent.0))
    }

    /// Bytes that they take in each segment.
    pub fn len(&self) -> u16 {
        if self.used.timestamps { STAMPS as u16 } else { 0 }
    }

    /// Whether a segment is of the past, and so is not taken (PAWS).
    pub fn is_old(&self, now: Instant, segment: &Segment) -> bool {
        let (recent, at) = self.recent;
        let said = segment.stamps.filter(|_| self.used.timestamps);
        said.is_some_and(|(clock, _)| before(clock, recent)) && now.since(at) < FORGOTTEN
    }

    /// A segment was taken: what it says is echoed from now on, if it begins where the last acknowledgement did, or before.
    pub fn took(&mut self, now: Instant, segment: &Segment, acknowledged: u32) {
        if let Some((clock, _)) = segment.stamps
            && !before(acknowledged, segment.sequence)
        {
            self.recent = (clock, now);
        }
    }
}

/// A moment in milliseconds, in a circle.
fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}
