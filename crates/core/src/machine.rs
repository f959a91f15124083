//! The contract that every mechanism of the pure floors keeps: four verbs, and a deadline that says why.
//!
//! Feed one input, drain all outputs, then sleep until the deadline. The reason for waking is part of the deadline, so
//! that wake-ups can be counted by cause (a phone's battery is spent on wake-ups). A timeout that comes early or late must do no
//! harm. Failures of the network are inputs; an `Err` is for a caller's mistake.

use crate::time::Instant;
use std::collections::BTreeMap;

/// When a machine wants to be woken, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The moment to call [`Machine::handle_timeout`].
    pub at: Instant,
    /// The reason, one of a small fixed set per machine, e.g. `"connection attempt delay"`.
    pub why: &'static str,
}

impl Deadline {
    /// The first of them to come; of several at one moment, the one that is named first.
    pub fn earliest(deadlines: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        deadlines.into_iter().flatten().min_by_key(|deadline| deadline.at)
    }
}

/// A pure state machine. See the module for the contract.
pub trait Machine {
    /// What the world tells it.
    type Input;
    /// What it asks of the world.
    type Output;

    /// Takes in one event.
    fn handle_input(&mut self, now: Instant, input: Self::Input);
    /// Time has passed; `now` may be earlier or later than the deadline that was asked for.
    fn handle_timeout(&mut self, now: Instant);
    /// The next thing to do, in order; `None` once everything is drained.
    fn poll_output(&mut self) -> Option<Self::Output>;
    /// When to wake next, or `None` to sleep until an input comes.
    fn poll_timeout(&self) -> Option<Deadline>;

    /// Handles the deadline if it has come: the reason for it, or `None` if there was nothing to wake for.
    fn wake(&mut self, now: Instant) -> Option<&'static str> {
        let due = self.poll_timeout().filter(|deadline| deadline.at <= now)?;
        self.handle_timeout(now);
        Some(due.why)
    }
}

/// How often a loop has woken up, by cause: the [`Deadline::why`] of what was due, or the kind of source that was ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wakeups(BTreeMap<&'static str, u64>);

impl Wakeups {
    /// Once more, for this cause.
    pub fn count(&mut self, why: &'static str) {
        *self.0.entry(why).or_default() += 1;
    }

    /// Each cause with its number, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(why, count)| (*why, *count))
    }

    /// As a report to others.
    pub fn named(&self) -> BTreeMap<String, u64> {
        self.iter().map(|(why, count)| (why.to_owned(), count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rings once, at its time.
    struct Alarm(Option<Instant>);

    impl Machine for Alarm {
        type Input = Instant;
        type Output = ();

        fn handle_input(&mut self, _: Instant, at: Instant) {
            self.0 = Some(at);
        }
        fn handle_timeout(&mut self, now: Instant) {
            self.0 = self.0.filter(|at| *at > now);
        }
        fn poll_output(&mut self) -> Option<()> {
            None
        }
        fn poll_timeout(&self) -> Option<Deadline> {
            self.0.map(|at| Deadline { at, why: "alarm" })
        }
    }

    #[test]
    fn a_machine_is_woken_when_its_deadline_has_come_and_not_before() {
        let at = Instant::from_millis;
        let mut alarm = Alarm(None);
        assert_eq!(alarm.wake(at(1)), None);
        alarm.handle_input(at(1), at(5));
        assert_eq!([4, 5, 6].map(|ms| alarm.wake(at(ms))), [None, Some("alarm"), None]);
    }

    #[test]
    fn wake_ups_are_counted_by_cause() {
        let mut wakeups = Wakeups::default();
        ["alarm", "socket", "alarm"].iter().for_each(|why| wakeups.count(why));
        let expected = [("alarm", 2), ("socket", 1)];
        assert_eq!(wakeups.iter().collect::<Vec<_>>(), expected);
        assert_eq!(wakeups.named(), expected.map(|(why, n)| (why.to_owned(), n)).into());
    }
}
