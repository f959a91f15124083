//! What is expected of launches that go on, and when the connection for it is to be opened: shortly before, and not all of
//! it when a program begins. Ours.
//!
//! What never happens here: waking for what is not expected any more; a launch that has ended expects nothing.

use super::AppId;
use crate::time::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One thing to open: for which launch, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub at: Instant,
    pub account: u32,
    pub app: AppId,
    pub name: Arc<str>,
}

/// All of it, soonest first.
#[derive(Debug, Default)]
pub(super) struct Agenda(BTreeSet<Due>);

impl Agenda {
    pub fn add(&mut self, due: Due) {
        self.0.insert(due);
    }

    /// When there is something to open next.
    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|due| due.at)
    }

    /// The next thing whose time has come.
    pub fn pop(&mut self, now: Instant) -> Option<Due> {
        if self.next()? > now { None } else { self.0.pop_first() }
    }

    /// Takes off what is not expected any more.
    pub fn cancel(&mut self, of_no_use: impl Fn(&Due) -> bool) {
        self.0.retain(|due| !of_no_use(due));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(ms: u64, account: u32, name: &str) -> Due {
        Due { at: Instant::from_millis(ms), account, app: "mail".into(), name: name.into() }
    }

    #[test]
    fn what_is_due_first_comes_first_and_nothing_before_its_time() {
        let mut agenda = Agenda::default();
        [due(300, 1, "c"), due(100, 1, "a"), due(200, 2, "b")].into_iter().for_each(|d| agenda.add(d));
        assert_eq!(agenda.next(), Some(Instant::from_millis(100)));
        assert_eq!(agenda.pop(Instant::from_millis(99)), None);
        assert_eq!(agenda.pop(Instant::from_millis(250)), Some(due(100, 1, "a")));
        assert_eq!(agenda.pop(Instant::from_millis(250)), Some(due(200, 2, "b")));
        assert_eq!(agenda.pop(Instant::from_millis(250)), None);
    }

    #[test]
    fn a_launch_that_has_ended_expects_nothing() {
        let mut agenda = Agenda::default();
        [due(300, 1, "c"), due(200, 2, "b")].into_iter().for_each(|d| agenda.add(d));
        agenda.cancel(|d| d.account == 2);
        assert_eq!(agenda.next(), Some(Instant::from_millis(300)));
        agenda.cancel(|d| d.account == 1);
        assert_eq!(agenda.next(), None);
    }
}
