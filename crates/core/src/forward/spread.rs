//! Datagrams that the forwarder has got in a bunch, because it came late to read them, are passed on spread: a receiver's buffer holds a hundred of
//! them (docs/decisions/0132). What never happens here: one is dropped, or overtakes another of its port.

use crate::time::{Duration, Instant};
use std::collections::VecDeque;

/// Datagrams that are passed on at once: a third of what a socket's buffer holds as Linux has it by default (212,992 bytes, of which each takes 2304).
const AT_ONCE: u32 = 32;
/// How far apart the others are at most: half of how far apart the port's datagrams were lately, but no more than this. 32 us: a whole buffer in
/// 3 ms.
const APART: Duration = Duration::from_micros(32);
/// What is due within this time is passed on together. 250 us: eight datagrams, for one wake-up.
const TOGETHER: Duration = Duration::from_micros(250);
/// The longest that one is to be kept. 5 ms: 160 datagrams.
const LONGEST: Duration = Duration::from_millis(5);
/// How often it is looked how far apart datagrams are. 4 ms: longer than a thread usually waits for its processor.
const LOOK: Duration = Duration::from_millis(4);

/// One direction of a port.
#[derive(Debug)]
pub(super) struct Spread<T> {
    /// When the next would be due if all were equally far apart.
    even: Instant,
    apart: Duration,
    /// Since when datagrams are counted, and how many there were.
    counted: (Instant, u32),
    /// Before this nothing that is kept is passed on.
    rests: Instant,
    kept: VecDeque<(Instant, T)>,
}

impl<T> Default for Spread<T> {
    fn default() -> Self {
        Self {
            even: Instant::ZERO,
            apart: APART,
            counted: (Instant::ZERO, 0),
            rests: Instant::ZERO,
            kept: VecDeque::new(),
        }
    }
}

impl<T> Spread<T> {
    /// So many datagrams at once are to be passed on: given back if that may be now, and else [kept](Self::due).
    pub fn pass(&mut self, now: Instant, datagrams: u32, what: T) -> Option<T> {
        self.count(now, datagrams);
        let due = self.even.max(now);
        self.even = due + self.apart * datagrams;
        let ahead = due.since(now);
        let free = self.apart * AT_ONCE;
        if ahead < free && self.kept.is_empty() {
            return Some(what);
        }
        let at = now + ahead.saturating_sub(free);
        let at = next_step(at).min(now + LONGEST);
        // One that waits for less than the one before it waits as long.
        let at = self.kept.back().map_or(at, |(last, _)| at.max(*last));
        // Nothing is owed for what has waited the longest time.
        self.even = self.even.min(at + free);
        self.kept.push_back((at, what));
        None
    }

    /// When the next is to be passed on that is kept.
    pub fn due(&self) -> Option<Instant> {
        self.kept.front().map(|(at, _)| self.rests.max(*at))
    }

    /// Passes on what is due by now. Where that is more than was to be together, because this comes late too, no more than twice as much.
    pub fn release(&mut self, now: Instant, out: &mut VecDeque<T>) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        let most = 2 * TOGETHER.as_nanos() / self.apart.as_nanos().max(1);
        for _ in 0..most {
            match self.kept.pop_front() {
                Some((at, what)) if at <= now => out.push_back(what),
                later => {
                    later.into_iter().for_each(|later| self.kept.push_front(later));
                    break;
                }
            }
        }
        self.rests = next_step(now);
    }

    /// All that is kept: its port is to be closed.
    pub fn rest(&mut self) -> impl Iterator<Item = T> {
        self.kept.drain(..).map(|(_, what)| what)
    }

    fn count(&mut self, now: Instant, datagrams: u32) {
        let (since, before) = self.counted;
        let took = now.since(since);
        if took < LOOK {
            self.counted.1 = before.saturating_add(datagrams);
            return;
        }
        self.apart = (took / (2 * before.max(1))).min(APART);
        self.counted = (now, datagrams);
        // What has gone at another rate is not counted by this one.
        self.even = self.even.min(now + self.apart * (AT_ONCE + self.kept.len() as u32));
    }
}

/// The end of the step of [`TOGETHER`] that a moment is in.
fn next_step(at: Instant) -> Instant {
    let step = TOGETHER.as_nanos() as u64;
    Instant::from_nanos((at.as_nanos() / step + 1).saturating_mul(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const MS: Duration = Duration::from_millis(1);

    /// Passes on what is due, each when it is.
    fn released(spread: &mut Spread<usize>, until: Instant, passed: &mut Vec<(Instant, usize)>) {
        while let Some(due) = spread.due().filter(|due| *due <= until) {
            let mut out = VecDeque::new();
            spread.release(due, &mut out);
            assert!(!out.is_empty(), "it was woken for nothing");
            passed.extend(out.into_iter().map(|n| (due, n)));
        }
    }

    /// A reader of datagrams that were sent at these times, which is away so long from then on: when each was passed on, in order.
    fn passed(sent: &[Duration], away: (Duration, Duration)) -> Vec<(Instant, usize)> {
        let (mut spread, mut passed, start) = (Spread::default(), Vec::new(), Instant::from_millis(1000));
        for (n, at) in sent.iter().enumerate() {
            let is_late = (away.0..away.0 + away.1).contains(at);
            let now = start + if is_late { away.0 + away.1 } else { *at };
            released(&mut spread, now, &mut passed);
            passed.extend(spread.pass(now, 1, n).map(|n| (now, n)));
        }
        released(&mut spread, start + 1000 * MS, &mut passed);
        assert!(
            passed.is_sorted() && passed.iter().map(|(_, n)| *n).eq(0..sent.len()),
            "one was lost, or overtook another"
        );
        passed
    }

    fn every(apart: Duration, how_long: Duration) -> Vec<Duration> {
        (0..how_long.as_nanos() / apart.as_nanos()).map(|n| apart * n as u32).collect()
    }

    /// What a buffer of so many datagrams loses, from which one is taken each 25 us.
    fn lost(passed: &[(Instant, usize)], buffer: u64) -> usize {
        let (mut waiting, mut last, mut lost) = (0u64, Instant::ZERO, 0);
        for (at, _) in passed {
            waiting = waiting.saturating_sub((at.since(last).as_micros() / 25) as u64);
            (waiting, last) = (waiting + 1, *at);
            if waiting > buffer {
                (waiting, lost) = (buffer, lost + 1);
            }
        }
        lost
    }

    #[test]
    fn what_is_read_late_does_not_overflow_a_buffer() {
        // 100 Mbit/s of 1024 bytes, of which 12 ms are read at once.
        let sent = every(82 * US, 200 * MS);
        let passed = passed(&sent, (100 * MS, 12 * MS));
        assert_eq!(lost(&passed, 92), 0);
        let most = passed.iter().map(|(at, _)| passed.iter().filter(|(other, _)| other == at).count()).max();
        assert!(most <= Some(AT_ONCE as usize + 8), "{most:?}");
        // Without this it would have.
        let bunch: Vec<_> =
            sent.iter().filter(|at| (100 * MS..112 * MS).contains(at)).map(|_| (Instant::ZERO, 0)).collect();
        assert!(lost(&bunch, 92) > 50);
    }

    #[test]
    fn none_is_kept_where_none_came_late_at_any_rate() {
        let start = Instant::from_millis(1000);
        // Until it is known how fast a program sends, some may wait.
        for apart in [5 * US, 11 * US, 82 * US, 10 * MS] {
            let sent = every(apart, 400 * MS);
            let passed = passed(&sent, (MS * 1000, MS));
            let late = sent.iter().zip(&passed).filter(|(sent, (at, _))| start + **sent != *at && **sent > 20 * MS);
            assert_eq!(late.count(), 0, "{apart:?}");
        }
    }

    #[test]
    fn after_a_long_time_away_what_is_kept_goes_in_5_ms_and_more_than_that_in_steps() {
        let (mut spread, mut out, mut all) = (Spread::default(), VecDeque::new(), 0);
        let now = Instant::from_millis(7);
        let kept = (0..300).filter_map(|n| spread.pass(now, 1, n)).count();
        assert_eq!(kept, AT_ONCE as usize);
        // It comes late for these as well.
        let mut at = now + LONGEST;
        for most in [15, 15, 15] {
            spread.release(at, &mut out);
            assert_eq!((out.len(), spread.due()), (most, Some(at + TOGETHER)));
            all += out.drain(..).count();
            spread.release(at, &mut out);
            assert!(out.is_empty(), "twice at once");
            at += TOGETHER;
        }
        while let Some(due) = spread.due() {
            spread.release(due, &mut out);
            all += out.drain(..).count();
            at = due;
        }
        assert!(all == 300 - kept && at < now + LONGEST * 2, "{all} {at:?}");
        assert_eq!(spread.pass(at + MS, 1, 7), Some(7), "what comes then does not pay for it");
    }

    #[test]
    fn a_train_that_a_program_has_made_stays_one_and_what_follows_it_closely_waits() {
        let (mut spread, mut out) = (Spread::default(), VecDeque::new());
        let now = Instant::from_millis(7);
        assert_eq!(spread.pass(now, 45, "train"), Some("train"));
        assert_eq!(spread.pass(now, 45, "another"), None);
        assert_eq!(spread.pass(now + 10 * MS, 45, "third"), None, "the order counts");
        spread.release(now + 10 * MS, &mut out);
        spread.release(now + 20 * MS, &mut out);
        assert_eq!(out, ["another", "third"]);
        let _ = spread.pass(now + 20 * MS, 45, "fourth");
        assert_eq!(spread.pass(now + 20 * MS, 45, "fifth"), None);
        assert!(spread.rest().eq(["fifth"]) && spread.due().is_none());
    }

    #[test]
    fn what_has_just_gone_counts_when_it_is_looked_how_fast_a_program_sends() {
        let (mut spread, start) = (Spread::default(), Instant::from_millis(1000));
        let mut pass = |at, times| (0..times).filter(|_| spread.pass(start + at, 1, ()).is_some()).count();
        assert_eq!((pass(Duration::ZERO, 1), pass(39 * MS / 10, 31)), (1, 31));
        // 100 us later three of them have had their time.
        assert!((1..=5).contains(&pass(LOOK, 32)));
    }
}
