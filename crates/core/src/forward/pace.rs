//! When a source is read: at once, or after the sleeps of the tools that paper 3 measures (section 4).

use crate::time::{Duration, Instant};

/// How a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As soon as there is something.
    AtOnce,
    /// A reader that finds nothing sleeps for this long.
    Fixed(Duration),
    /// Likewise, for twice as long each time, from the first to the second; what is found begins anew.
    Growing(Duration, Duration),
}

/// The sleeps of one source.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    pace: Pace,
    next: Duration,
    until: Instant,
}

impl Sleeper {
    /// A source that has not been read yet.
    pub fn new(pace: Pace) -> Self {
        let next = match pace {
            Pace::AtOnce => Duration::ZERO,
            Pace::Fixed(sleep) | Pace::Growing(sleep, _) => sleep,
        };
        Self { pace, next, until: Instant::ZERO }
    }

    /// When the source may be read again; none for a source that is never slept on.
    pub fn until(&self) -> Option<Instant> {
        (self.pace != Pace::AtOnce).then_some(self.until)
    }

    /// The source was read at `now`, and there was something, or nothing.
    pub fn read(&mut self, now: Instant, found: bool) {
        let first = Self::new(self.pace).next;
        if found {
            self.next = first;
            return;
        }
        self.until = now + self.next;
        if let Pace::Growing(_, longest) = self.pace {
            self.next = (self.next * 2).min(longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn at_once_never_sleeps() {
        let mut sleeper = Sleeper::new(Pace::AtOnce);
        sleeper.read(Instant::from_millis(5), false);
        assert_eq!(sleeper.until(), None);
    }

    #[test]
    fn sleeps_grow_while_there_is_nothing_and_begin_anew_with_what_is_found() {
        let mut sleeper = Sleeper::new(Pace::Growing(MS, 3 * MS));
        let mut now = Instant::ZERO;
        let mut slept = Vec::new();
        for found in [false, false, false, true, false] {
            sleeper.read(now, found);
            slept.push(sleeper.until().unwrap().since(now).as_millis());
            now = now.max(sleeper.until().unwrap());
        }
        assert_eq!(slept, [1, 2, 3, 0, 1]);
        let mut fixed = Sleeper::new(Pace::Fixed(100 * MS));
        fixed.read(now, false);
        assert_eq!(fixed.until(), Some(now + 100 * MS));
    }
}
