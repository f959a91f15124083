//! `sequential`: what Android did when paper 1 was written (section II; equations 1 and 4). AAAA is queried, then A; the addresses
//! are returned when both are known; then IPv6 addresses are tried one by one, then IPv4 ones.

use super::{Next, Race, View, staggered};
use crate::time::Duration;

#[derive(Debug)]
pub(super) struct Sequential;

impl Race for Sequential {
    fn next(&self, view: &View<'_>) -> Next {
        if let Some(record) = view.unasked() {
            let one_is_open = [view.v6, view.v4].iter().any(|l| matches!(l, super::Lookup::Asked(_)));
            return if one_is_open { Next::Wait(None) } else { Next::Query(record) };
        }
        if !view.all_complete() {
            return Next::Wait(None);
        }
        if !view.answered {
            return Next::Answer;
        }
        // The next address only when the one before has failed.
        staggered::next(view, &view.untried(), Duration::MAX)
    }
}
