//! `simultaneous`: the race of paper 1 (section III; equations 2 and 5). Both families are asked at once; each begins to
//! connect as soon as its own answer is there; the addresses are returned when both answers are there (equation 2).

use super::{Next, Race, State, View};
use crate::path::Family;

#[derive(Debug)]
pub(super) struct Simultaneous;

impl Race for Simultaneous {
    fn next(&self, view: &View<'_>) -> Next {
        if let Some(record) = view.unasked() {
            return Next::Query(record);
        }
        if view.may_connect && !view.done && !view.has_ready() {
            // One operation thread a family: its next address when the one before has failed.
            let busy =
                |family| view.attempts.iter().any(|a| Family::of(a.addr) == family && a.state == State::InFlight);
            let idle = view.untried().into_iter().find(|a| {
                let family = Family::of(*a);
                !busy(family) && !view.path.is_suspended(family, view.now)
            });
            // A suspended family is used when there is no other (section III-B suspends it to save, not to fail).
            let only = || view.untried().into_iter().next().filter(|_| view.in_flight().next().is_none());
            if let Some(addr) = idle.or_else(only) {
                return Next::Attempt(addr);
            }
        }
        if !view.answered && view.all_complete() {
            return Next::Answer;
        }
        Next::Wait(None)
    }

    fn waits_for_both(&self) -> bool {
        true
    }
}
