//! Addresses that have just failed in a race, which was not reported to the program: it goes on to the next address of its list,
//! and gets that error at once. Otherwise each of its connects would begin a race over all of them. Ours.
//!
//! What never happens here: one failure reported twice. A program that tries again has it tried again.

use super::AppId;
use crate::time::{Duration, Instant};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// How long it holds: a program goes on at once, and an address may be asked once a second.
const HOLDS: Duration = Duration::from_secs(1);
/// More than all lists of the programs of a busy host.
const MAX: usize = 4096;

#[derive(Debug)]
struct Failure {
    account: u32,
    app: AppId,
    to: SocketAddr,
    errno: i32,
    until: Instant,
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub(super) struct Failures(VecDeque<Failure>);

impl Failures {
    /// An attempt for `app` has failed, and another error was reported to it.
    pub fn note(&mut self, now: Instant, account: u32, app: &AppId, to: SocketAddr, errno: i32) {
        self.0.retain(|f| now < f.until);
        if self.0.len() >= MAX {
            self.0.pop_front();
        }
        self.0.push_back(Failure { account, app: AppId::clone(app), to, errno, until: now + HOLDS });
    }

    /// How the attempt to `to` has just failed; returned once.
    pub fn take(&mut self, now: Instant, account: u32, app: &AppId, to: SocketAddr) -> Option<i32> {
        let is_it = |f: &Failure| f.account == account && f.app == *app && f.to == to && now < f.until;
        let n = self.0.iter().position(is_it)?;
        self.0.remove(n).map(|f| f.errno)
    }

    /// On another network it may be otherwise.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_to_its_own_program_and_not_long_after() {
        let (mut failures, app, other): (_, AppId, AppId) = (Failures::default(), "wget".into(), "curl".into());
        let (to, at) = (SocketAddr::from(([192, 0, 2, 1], 443)), Instant::from_millis);
        failures.note(at(0), 1, &app, to, 111);
        assert_eq!(failures.take(at(1), 1, &other, to), None);
        assert_eq!(failures.take(at(1), 2, &app, to), None);
        assert_eq!(failures.take(at(1), 1, &app, SocketAddr::new(to.ip(), 80)), None);
        assert_eq!(failures.take(at(1), 1, &app, to), Some(111));
        assert_eq!(failures.take(at(1), 1, &app, to), None);
        failures.note(at(0), 1, &app, to, 111);
        assert_eq!(failures.take(at(1000), 1, &app, to), None);
    }

    #[test]
    fn there_is_an_end_to_them() {
        let (mut failures, app): (_, AppId) = (Failures::default(), "wget".into());
        let to = |port| SocketAddr::from(([192, 0, 2, 1], port));
        (0..=MAX as u16).for_each(|n| failures.note(Instant::ZERO, 1, &app, to(n), 111));
        assert_eq!(failures.0.len(), MAX);
        assert_eq!(failures.take(Instant::ZERO, 1, &app, to(0)), None, "the oldest");
    }
}
