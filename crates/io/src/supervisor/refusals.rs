//! How many refusals there may be, over all clients: a client that causes only refusals is served at this rate and no faster.
//!
//! Clients are programs of one user, and may be many; so what is bounded is their number, at the door. It is open again when the next
//! refusal may be: one that has come for something else waits so long at most, and those that wait before it. What never happens here:
//! a run that is served has to wait.

use headstart_core::time::{Duration, Instant};

/// Refusals at once: a screen full of mistakes.
const MOST: i32 = 64;
/// And after these, one in so long: 200 a second cost a hundredth of a processor.
const EACH: Duration = Duration::from_millis(5);
/// A client that was refused so often in a row asks for nothing else.
pub(super) const IN_A_ROW: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(super) struct Refusals {
    /// Below zero, those of clients that had been let in before the door was shut.
    left: i32,
    /// Until when what may be has been counted.
    counted: Instant,
}

impl Refusals {
    pub fn new(now: Instant) -> Self {
        Self { left: MOST, counted: now }
    }

    /// One more.
    pub fn note(&mut self, now: Instant) {
        self.count(now);
        self.left = self.left.saturating_sub(1).max(-MOST);
    }

    /// Until when no client is admitted.
    pub fn shut_until(&mut self, now: Instant) -> Option<Instant> {
        self.count(now);
        (self.left <= 0).then(|| self.counted + EACH * self.left.abs_diff(1))
    }

    fn count(&mut self, now: Instant) {
        if now - self.counted >= EACH * MOST.unsigned_abs() * 2 {
            (self.left, self.counted) = (MOST, now);
        }
        while now - self.counted >= EACH {
            (self.left, self.counted) = ((self.left + 1).min(MOST), self.counted + EACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_come_at_a_bounded_rate_and_a_pause_forgives_them() {
        let (mut now, mut refused) = (Instant::from_millis(1_000), 0);
        let mut refusals = Refusals::new(now);
        let end = now + Duration::from_secs(10);
        while now < end {
            match refusals.shut_until(now) {
                Some(until) => {
                    assert!(until > now && until - now <= EACH * 3);
                    now = until;
                }
                // Two more were let in before the door was shut.
                None => {
                    (0..3).for_each(|_| refusals.note(now));
                    refused += 3;
                }
            }
        }
        assert!((2_000..2_000 + MOST + 4).contains(&refused), "{refused} in ten seconds");
        now += Duration::from_secs(1);
        for _ in 0..MOST - 1 {
            refusals.note(now);
            assert_eq!(refusals.shut_until(now), None);
        }
    }
}
