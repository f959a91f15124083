//! Whether a waiting thread polls for a moment before it sleeps (docs/decisions/0034). What never happens here: a clock is read.

use crate::time::{Duration, Instant};

/// For how long is looked out. 100 us: a neighbour's answer, and the time that a processor that sleeps takes to wake.
const LOOK: Duration = Duration::from_micros(100);
/// What comes within this time of falling asleep would have been seen: sleeping makes it later, by a processor's waking.
const SOON: Duration = Duration::from_micros(200);
/// Of all time, so much may be spent on polling without result: one in a hundred, saved up for at most so long.
const SHARE: u32 = 100;
const SAVED: Duration = Duration::from_millis(2);
/// Bytes that are passed on between two waits at most where programs and peers ask and answer, those before counting half, a quarter
/// and so on. 4 KiB: a question of a few segments; a stream of data comes in larger pieces, and its acknowledgements alone behind
/// them are no questions.
const LIGHT: usize = 4096;

/// Whether to poll for what comes next, or to sleep at once.
///
/// Waking up takes longer than all that a packet needs here. So a thread that has just passed on a request on a short path polls
/// for its answer (as hypervisors do for their guests: halt polling). It never polls where nothing is to be expected: the last
/// input must have come soon, and polling without result is limited to a hundredth of the time. While nothing happens, it sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Lookout {
    /// What came last came soon.
    soon: bool,
    /// Bytes that were passed on lately.
    lately: usize,
    /// What may be spent without result.
    saved: Duration,
    began: Instant,
    looks: bool,
    seen: u64,
}

impl Default for Lookout {
    fn default() -> Self {
        Self { soon: false, lately: 0, saved: SAVED, began: Instant::ZERO, looks: false, seen: 0 }
    }
}

impl Lookout {
    /// A wait begins, after so many bytes were passed on since the last one; returns how long to poll. Not at all in a stream of
    /// data, nor where nothing was done that a peer could answer (`None`).
    pub fn begin(&mut self, now: Instant, passed: Option<usize>) -> Duration {
        self.lately = (self.lately / 2).saturating_add(passed.unwrap_or(0));
        self.saved = (self.saved + now.since(self.began) / SHARE).min(SAVED);
        self.began = now;
        self.looks = passed.is_some() && self.lately <= LIGHT && self.soon && self.saved >= LOOK;
        if self.looks { LOOK } else { Duration::ZERO }
    }

    /// How often something came while it looked out, and so without the time that waking takes.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// It has ended.
    pub fn end(&mut self, now: Instant) {
        let waited = now.since(self.began);
        if self.looks && waited > LOOK {
            self.saved = self.saved.saturating_sub(LOOK);
        }
        self.seen += u64::from(self.looks && waited <= LOOK);
        self.soon = waited <= SOON;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const MS: Duration = Duration::from_millis(1);

    /// Waits of these lengths, each after a packet that took 10 us; how often was looked out.
    fn looks(
        lookout: &mut Lookout,
        from: &mut Instant,
        passed: usize,
        waits: impl IntoIterator<Item = Duration>,
    ) -> usize {
        let one = |wait| {
            *from += 10 * US;
            let looks = !lookout.begin(*from, Some(passed)).is_zero();
            *from += wait;
            lookout.end(*from);
            looks
        };
        waits.into_iter().map(one).filter(|looks| *looks).count()
    }

    #[test]
    fn an_answer_is_looked_out_for_where_the_last_one_came_soon() {
        let (mut lookout, mut now) = (Lookout::default(), Instant::from_millis(1));
        // The first is not expected.
        assert_eq!(looks(&mut lookout, &mut now, 64, [90 * US; 1000]), 999);
        assert_eq!(lookout.seen(), 999);
        // One that takes long ends it, until another comes soon.
        assert_eq!(looks(&mut lookout, &mut now, 64, [17 * MS, 17 * MS, 17 * MS, 90 * US, 90 * US]), 2);
        // Of these two the first saw nothing.
        assert_eq!(lookout.seen(), 1000);
    }

    #[test]
    fn streams_are_not_looked_out_for() {
        let (mut lookout, mut now) = (Lookout::default(), Instant::ZERO);
        assert_eq!(looks(&mut lookout, &mut now, 64 * 1024, [20 * US; 1000]), 0);
        // Nor is what comes right behind them: acknowledgements are no questions. Five waits later they may be.
        assert_eq!(looks(&mut lookout, &mut now, 52, [20 * US; 5]), 0);
        assert_eq!(looks(&mut lookout, &mut now, 52, [20 * US; 100]), 100);
    }

    #[test]
    fn what_comes_at_its_very_end_has_been_looked_out_for() {
        let (mut lookout, mut now) = (Lookout::default(), Instant::ZERO);
        assert_eq!(looks(&mut lookout, &mut now, 64, [LOOK; 10_000]), 9_999);
    }

    #[test]
    fn looking_in_vain_takes_a_hundredth_of_the_time_at_most() {
        let (mut lookout, mut now) = (Lookout::default(), Instant::ZERO);
        // Two at a time, and then nothing for 300 us: each second look has no result.
        let waits = std::iter::repeat_n([20 * US, 300 * US], 10_000).flatten();
        let looks = looks(&mut lookout, &mut now, 64, waits) as u32;
        let most = SAVED + now.since(Instant::ZERO) / SHARE;
        assert!(looks > 100 && LOOK * looks <= most, "{looks} looks in {now:?}");
    }
}
