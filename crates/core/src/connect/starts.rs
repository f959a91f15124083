//! When an app starts that only its traffic tells of: with the first that it asks or connects after a pause. Each start is an account of the
//! connector, which learns from it when it is over; that is seen by the next one, so that no timer waits for it.

use crate::time::{Duration, Instant};
use std::collections::BTreeMap;

/// What comes after so long a silence is a new start. 60 s: ours; apps in the foreground poll and refresh more often.
const PAUSE: Duration = Duration::from_secs(60);
/// Users of which that is known; the one that has been silent for longest makes room. 256: as launches that go on at once.
const MOST: usize = 256;
/// Accounts have 24 bits ([`RequestId`](super::RequestId)); 0 is that of no start.
const LAST: u32 = 0x00ff_ffff;

/// The starts of the users' apps. See the module.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    users: BTreeMap<u32, (Instant, u32)>,
    last: u32,
}

impl Starts {
    /// The app of `user` does something: the account of its start, and the one that is over with it, if one is.
    pub fn seen(&mut self, now: Instant, user: u32) -> (u32, Option<u32>) {
        if let Some((at, account)) = self.users.get_mut(&user) {
            let silent = now.since(std::mem::replace(at, now));
            if silent < PAUSE {
                return (*account, None);
            }
        }
        let mut over = self.users.remove(&user).map(|(_, account)| account);
        if self.users.len() >= MOST
            && let Some(oldest) = self.users.iter().min_by_key(|(user, (at, _))| (*at, **user)).map(|(user, _)| *user)
        {
            over = self.users.remove(&oldest).map(|(_, account)| account);
        }
        self.last = if self.last >= LAST { 1 } else { self.last + 1 };
        self.users.insert(user, (now, self.last));
        (self.last, over)
    }

    /// The account of the latest start, for what is no sign of life; 0 without one.
    pub fn account(&self, user: u32) -> u32 {
        self.users.get(&user).map_or(0, |(_, account)| *account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }

    #[test]
    fn a_start_is_what_comes_first_after_a_pause_and_ends_the_one_before() {
        let mut starts = Starts::default();
        assert_eq!((starts.account(7), starts.seen(at(0), 7), starts.seen(at(1), 8)), (0, (1, None), (2, None)));
        assert_eq!(starts.seen(at(59), 7), (1, None), "it goes on");
        assert_eq!(starts.seen(at(118), 7), (1, None), "counted from its last sign of life");
        assert_eq!((starts.seen(at(178), 7), starts.account(7)), ((3, Some(1)), 3));
    }

    #[test]
    fn the_user_that_has_been_silent_for_longest_makes_room() {
        let mut starts = Starts::default();
        (0..MOST as u32).for_each(|user| _ = starts.seen(at(0), user));
        starts.seen(at(1), 0);
        assert_eq!(starts.seen(at(2), 9999).1, Some(2), "user 1 had the second account");
        assert_eq!((starts.account(0), starts.account(1)), (1, 0));
    }

    #[test]
    fn accounts_stay_within_their_bits() {
        let mut starts = Starts { last: LAST, ..Starts::default() };
        assert_eq!(starts.seen(at(0), 1), (1, None));
    }
}
