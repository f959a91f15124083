//! When initial windows are looked at again: every so often, and soon after the host's routes have changed. Ours.

use crate::machine::{Deadline, Machine};
use crate::time::{Duration, Instant};

/// Routes often change several at a time: this long is waited for the rest. Ours.
const SETTLE: Duration = Duration::from_millis(200);
/// However often routes change, they are looked at no more often than this. Ours.
const REST: Duration = Duration::from_secs(1);

/// The host's routes have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

/// It is time to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look;

/// See the module.
#[derive(Debug)]
pub struct Rounds {
    every: Option<Duration>,
    last: Instant,
    due: Option<Deadline>,
    look: Option<Look>,
}

impl Rounds {
    /// Rounds that begin `now`, one having just been made; without `every` there are none.
    pub fn new(now: Instant, every: Option<Duration>) -> Self {
        let mut rounds = Self { every, last: now, due: None, look: None };
        rounds.begin(now);
        rounds
    }

    fn begin(&mut self, now: Instant) {
        self.last = now;
        self.due = self.every.map(|every| Deadline { at: now + every, why: "initial windows are read again" });
    }
}

impl Machine for Rounds {
    type Input = Changed;
    type Output = Look;

    fn handle_input(&mut self, now: Instant, Changed: Changed) {
        if self.every.is_some() {
            let soon = Deadline { at: (now + SETTLE).max(self.last + REST), why: "routes have changed" };
            self.due = Deadline::earliest([self.due, Some(soon)]);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due.at <= now) {
            self.begin(now);
            self.look = Some(Look);
        }
    }

    fn poll_output(&mut self) -> Option<Look> {
        self.look.take()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(60);

    /// Lets it be woken as it wants to be, until `until`; when it looked.
    fn looks(rounds: &mut Rounds, until: Instant) -> Vec<u64> {
        let mut seen = Vec::new();
        while let Some(due) = rounds.poll_timeout().filter(|due| due.at <= until) {
            rounds.handle_timeout(due.at);
            seen.extend(rounds.poll_output().map(|Look| due.at.as_nanos() / 1_000_000));
            assert!(seen.len() < 100, "it looks for ever");
        }
        seen
    }

    #[test]
    fn it_looks_every_so_often_and_counts_anew_from_a_look_that_routes_have_brought() {
        let mut rounds = Rounds::new(Instant::ZERO, Some(EVERY));
        assert_eq!(looks(&mut rounds, Instant::from_millis(130_000)), [60_000, 120_000]);
        rounds.handle_input(Instant::from_millis(150_000), Changed);
        assert_eq!(looks(&mut rounds, Instant::from_millis(211_000)), [150_200, 210_200]);
    }

    #[test]
    fn a_burst_of_changes_brings_one_look_and_a_storm_one_a_second() {
        let mut rounds = Rounds::new(Instant::ZERO, Some(EVERY));
        let mut seen = Vec::new();
        for at in (5_000..8_000).step_by(50).map(Instant::from_millis) {
            seen.extend(looks(&mut rounds, at));
            rounds.handle_input(at, Changed);
        }
        assert_eq!(seen, [5_200, 6_200, 7_200]);
    }

    #[test]
    fn without_windows_nothing_is_looked_at() {
        let mut rounds = Rounds::new(Instant::ZERO, None);
        rounds.handle_input(Instant::from_millis(5), Changed);
        assert_eq!(rounds.poll_timeout(), None);
    }
}
