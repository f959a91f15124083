//! The one loop of virtual time, as `headstart_io::driver` has that of real time.
//!
//! What is [`Driven`] says when something of it is due, and does it then: hosts with their machines, and the links between them. Time
//! passes from one such moment to the next. What never happens here: a decision.

use headstart_core::time::Instant;

/// What plays in virtual time.
pub(crate) trait Driven {
    /// When something is due.
    fn deadline(&mut self) -> Option<Instant>;

    /// It is `now`, or later: does what is due, or the first of it; there may be nothing.
    fn woken(&mut self, now: Instant);

    /// Lets time pass until `until`, or until it is `over`; as long as something is to come, where `until` never comes.
    fn run(&mut self, until: Instant, over: impl Fn(&Self) -> bool) {
        let mut now = Instant::ZERO;
        while !over(self) {
            match self.deadline().filter(|at| *at <= until) {
                Some(at) => now = at.max(now),
                None if until == Instant::FAR_FUTURE => return,
                None => return self.woken(until),
            }
            self.woken(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Notes when it is woken, and whether for something.
    #[derive(Default)]
    struct Bells {
        due: VecDeque<u64>,
        woken: Vec<(u64, bool)>,
    }

    impl Driven for Bells {
        fn deadline(&mut self) -> Option<Instant> {
            self.due.front().copied().map(Instant::from_millis)
        }

        fn woken(&mut self, now: Instant) {
            let due = self.deadline().filter(|at| *at <= now).and_then(|_| self.due.pop_front());
            self.woken.push((now.as_nanos() / 1_000_000, due.is_some()));
        }
    }

    /// When it was woken until the end, which is in ms, and what is still due.
    fn run(due: &[u64], until: Instant, most: usize) -> (Vec<(u64, bool)>, usize) {
        let mut bells = Bells { due: due.iter().copied().collect(), ..Bells::default() };
        bells.run(until, |bells| bells.woken.len() == most);
        (bells.woken, bells.due.len())
    }

    #[test]
    fn each_thing_is_done_at_its_moment_and_then_time_passes_to_the_end() {
        let (woken, left) = run(&[3, 3, 5, 9], Instant::from_millis(7), usize::MAX);
        assert_eq!((woken, left), (vec![(3, true), (3, true), (5, true), (7, false)], 1));
    }

    #[test]
    fn what_is_overdue_is_done_now_because_time_never_goes_back() {
        assert_eq!(run(&[3, 2, 4], Instant::FAR_FUTURE, usize::MAX).0, [(3, true), (3, true), (4, true)]);
    }

    #[test]
    fn it_stops_as_soon_as_it_is_over_and_where_nothing_is_to_come() {
        assert_eq!(run(&[1, 2, 8], Instant::FAR_FUTURE, 2), (vec![(1, true), (2, true)], 1));
        assert_eq!(run(&[1], Instant::FAR_FUTURE, usize::MAX), (vec![(1, true)], 0));
    }
}
