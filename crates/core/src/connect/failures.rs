//! Addresses that have just failed in a race. What was not reported to the program is when it goes on to that address of its list, at
//! once; and no race of another address tries it again before a second is over. Otherwise each of its connects would begin a race over
//! all of them. Ours.
//!
//! What never happens here: one failure reported twice. A program that tries again has it tried again.

use super::AppId;
use crate::time::{Duration, Instant};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// How long it holds: a program goes on at once, and an address may be asked once a second.
const HOLDS: Duration = Duration::from_secs(1);
/// The same of what has failed the program itself, which may have a long list to go through: whois with thirty addresses a family takes
/// two seconds. Alone it would not try any of them again.
const HOLDS_FOR_ITSELF: Duration = Duration::from_secs(60);
/// More than all lists of the programs of a busy host.
const MAX: usize = 4096;

/// How an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub errno: i32,
    /// When it was begun.
    pub began: Instant,
    /// The program knows.
    pub reported: bool,
}

#[derive(Debug)]
struct Failure {
    account: u32,
    app: AppId,
    to: SocketAddr,
    how: Failed,
    at: Instant,
}

impl Failure {
    /// For how long no other race of the program tries the address.
    fn holds(&self) -> Duration {
        if self.how.reported { HOLDS_FOR_ITSELF } else { HOLDS }
    }
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub(super) struct Failures(VecDeque<Failure>);

impl Failures {
    /// An attempt for `app` has failed.
    pub fn note(&mut self, now: Instant, (account, app): (u32, &AppId), to: SocketAddr, how: Failed) {
        self.0.retain(|f| now < f.at + f.holds());
        if self.0.len() >= MAX {
            self.0.pop_front();
        }
        self.0.push_back(Failure { account, app: AppId::clone(app), to, how, at: now });
    }

    /// How the attempt to `to` has just failed; returned once.
    pub fn take(&mut self, now: Instant, account: u32, app: &AppId, to: SocketAddr) -> Option<i32> {
        let is_it = |f: &&mut Failure| f.account == account && f.app == *app && f.to == to && now < f.at + HOLDS;
        let failure = self.0.iter_mut().filter(|f| !f.how.reported).find(is_it)?;
        failure.how.reported = true;
        Some(failure.how.errno)
    }

    /// What has just failed at `port`, and until when no other race is to try it.
    pub fn of(&self, now: Instant, account: u32, app: &AppId, port: u16) -> Vec<(IpAddr, Instant)> {
        let is_one = |f: &&Failure| f.account == account && f.app == *app && f.to.port() == port;
        let all = self.0.iter().filter(is_one).map(|f| (f.to.ip(), f.how.began + f.holds()));
        all.filter(|(_, until)| now < *until).collect()
    }

    /// On another network it may be otherwise.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Failed = Failed { errno: 111, began: Instant::ZERO, reported: false };

    #[test]
    fn a_failure_is_told_once_to_its_own_program_and_not_long_after() {
        let (mut failures, app, other): (_, AppId, AppId) = (Failures::default(), "wget".into(), "curl".into());
        let (to, at) = (SocketAddr::from(([192, 0, 2, 1], 443)), Instant::from_millis);
        failures.note(at(0), (1, &app), to, REFUSED);
        assert_eq!(failures.take(at(1), 1, &other, to), None);
        assert_eq!(failures.take(at(1), 2, &app, to), None);
        assert_eq!(failures.take(at(1), 1, &app, SocketAddr::new(to.ip(), 80)), None);
        assert_eq!(failures.take(at(1), 1, &app, to), Some(111));
        assert_eq!(failures.take(at(1), 1, &app, to), None);
        failures.note(at(0), (1, &app), to, REFUSED);
        assert_eq!(failures.take(at(1000), 1, &app, to), None);
        failures.note(at(1000), (1, &app), to, Failed { reported: true, ..REFUSED });
        assert_eq!(failures.take(at(1001), 1, &app, to), None, "it knows");
    }

    #[test]
    fn what_has_failed_is_left_out_of_the_programs_other_races_for_a_time_after_it_was_begun() {
        for (reported, holds) in [(false, 1000), (true, 60_000)] {
            let (mut failures, app): (_, AppId) = (Failures::default(), "wget".into());
            let (to, at) = (SocketAddr::from(([192, 0, 2, 1], 443)), Instant::from_millis);
            failures.note(at(300), (1, &app), to, Failed { reported, ..REFUSED });
            assert_eq!(failures.of(at(holds - 1), 1, &app, 443), [(to.ip(), at(holds))]);
            let none = [(holds, 1, 443), (holds - 1, 2, 443), (holds - 1, 1, 80)];
            assert!(none.into_iter().all(|(now, account, port)| failures.of(at(now), account, &app, port).is_empty()));
        }
    }

    #[test]
    fn there_is_an_end_to_them() {
        let (mut failures, app): (_, AppId) = (Failures::default(), "wget".into());
        let to = |port| SocketAddr::from(([192, 0, 2, 1], port));
        (0..=MAX as u16).for_each(|n| failures.note(Instant::ZERO, (1, &app), to(n), REFUSED));
        assert_eq!(failures.0.len(), MAX);
        assert_eq!(failures.take(Instant::ZERO, 1, &app, to(0)), None, "the oldest");
    }
}
