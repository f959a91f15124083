//! What a channel may be used for, in words that people know for links, and how much of it in a period.
//!
//! The owner of the link sets a [`Use`]; a [`Cap`] counts what the link has carried, and makes less of the use as it fills.
//! What never happens here: a policy is asked, or a clock is read. The caller that counts says what time it is.

use crate::time::{Duration, Instant};
use std::fmt;

/// What a channel may be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// For whatever the policy sends over it.
    #[default]
    Primary,
    /// For what is worth most of that: names and handshakes. For all of it while the other channel is dead.
    Secondary,
    /// For nothing, unless the other channel is dead.
    Backup,
    /// For nothing, whatever becomes of the other one.
    Never,
}

impl Use {
    /// All of them, the most first.
    pub const ALL: [Self; 4] = [Self::Primary, Self::Secondary, Self::Backup, Self::Never];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Backup => "backup",
            Self::Never => "never",
        }
    }

    /// The one of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|of| of.name() == name)
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// From this share of a cap on a channel is at most [`Use::Secondary`]. Ours: the last tenth of a plan is for what is worth most.
const NEAR: f64 = 0.9;

/// Bytes that a channel may carry in a period, both directions together; a period begins when the one before it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    limit: u64,
    period: Duration,
    used: u64,
    ends: Instant,
}

impl Cap {
    /// At most `limit` bytes in each `period`, of which the first begins now.
    pub fn new(now: Instant, limit: u64, period: Duration) -> Self {
        Self::resume(now, limit, period, 0, Duration::ZERO)
    }

    /// The same in the midst of a period: it began so long ago, and so much was used.
    pub fn resume(now: Instant, limit: u64, period: Duration, used: u64, since: Duration) -> Self {
        let period = period.max(Duration::from_secs(1));
        let (used, since) = if since < period { (used, since) } else { (0, Duration::ZERO) };
        Self { limit, period, used, ends: now + (period - since) }
    }

    /// The channel has carried `bytes`.
    pub fn add(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
    }

    /// Time has passed: whether a new period has begun.
    pub fn pass(&mut self, now: Instant) -> bool {
        if now < self.ends {
            return false;
        }
        let late = now.since(self.ends).as_nanos() % self.period.as_nanos();
        self.ends = now + (self.period - Duration::from_nanos(u64::try_from(late).unwrap_or(0)));
        self.used = 0;
        true
    }

    /// What the channel may be used for at most by now.
    pub fn allows(&self) -> Use {
        match self.used {
            used if used >= self.limit => Use::Never,
            used if used as f64 >= NEAR * self.limit as f64 => Use::Secondary,
            _ => Use::Primary,
        }
    }

    /// Bytes that it has carried in this period.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that it may carry in a period.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long it is to the end of this period.
    pub fn left(&self, now: Instant) -> Duration {
        self.ends.since(now)
    }

    /// How long a period is.
    pub fn period(&self) -> Duration {
        self.period
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Facts, FlowKey, Kind};
    use super::*;
    use proptest::prelude::*;

    fn s(secs: u64) -> Instant {
        Instant::from_millis(secs * 1_000)
    }

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_cap_leaves_its_last_tenth_to_what_is_worth_most_and_nothing_beyond_it() {
        let mut cap = Cap::new(s(5), 1_000, DAY);
        let mut allows = |bytes| {
            cap.add(bytes);
            cap.allows()
        };
        assert_eq!(
            [allows(899), allows(1), allows(99), allows(1)],
            [Use::Primary, Use::Secondary, Use::Secondary, Use::Never]
        );
        assert!(!cap.pass(s(5 + 86_399)) && cap.allows() == Use::Never);
        assert!(cap.pass(s(5 + 86_400)) && cap.allows() == Use::Primary && cap.used() == 0);
    }

    #[test]
    fn periods_follow_each_other_however_long_nobody_looked() {
        let mut cap = Cap::new(s(0), 10, DAY);
        assert!(cap.pass(s(3 * 86_400 + 7)));
        assert_eq!(cap.left(s(3 * 86_400 + 7)).as_secs(), 86_393);
        cap.add(7);
        assert!(!cap.pass(s(4 * 86_400 - 1)) && cap.used() == 7 && cap.pass(s(4 * 86_400)));
    }

    #[test]
    fn a_period_goes_on_where_it_was_and_an_old_one_is_over() {
        let cap = Cap::resume(s(100), 1_000, DAY, 950, Duration::from_secs(80_000));
        assert_eq!((cap.allows(), cap.left(s(100)).as_secs()), (Use::Secondary, 6_400));
        assert_eq!((cap.used(), cap.limit(), cap.period()), (950, 1_000, DAY));
        let cap = Cap::resume(s(100), 1_000, DAY, 950, Duration::from_secs(90_000));
        assert_eq!((cap.allows(), cap.used(), cap.left(s(100))), (Use::Primary, 0, DAY));
    }

    #[test]
    fn words_are_found_and_say_what_may_be_sent() {
        for of in Use::ALL {
            assert_eq!(Use::find(of.name()), Some(of));
            assert_eq!(format!("{of:<12}|"), format!("{:<12}|", of.name()), "in tables");
        }
        assert_eq!(Use::find("always"), None);
        let name = Facts::of(FlowKey(1), Kind::Dns);
        let data = Facts::of(FlowKey(1), Kind::Data);
        assert_eq!(Use::ALL.map(|of| name.may_take(of)), [true, true, false, false]);
        assert_eq!(Use::ALL.map(|of| data.may_take(of)), [true, false, false, false]);
    }

    proptest! {
        #[test]
        fn no_numbers_break_it(limit: u64, used: u64, period in 0u64..1 << 32, since: u64, at in 0u64..1 << 32) {
            let mut cap = Cap::resume(s(at), limit, Duration::from_secs(period), used, Duration::from_secs(since >> 24));
            cap.add(u64::MAX);
            cap.pass(s(at + period));
            prop_assert!(cap.left(s(at)) <= cap.period() * 2);
        }
    }
}
