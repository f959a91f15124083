//! `oracle`: knows which family is faster for this name, lookup included, and uses it alone. No race can choose better,
//! so the lab measures how much of the way from a standard to this bound a race covers. Never offered outside the lab.

use super::{Lookup, Next, Race, View, staggered};
use crate::path::Family;
use crate::time::Duration;
use std::net::IpAddr;

#[derive(Debug)]
pub(super) struct Oracle;

impl Race for Oracle {
    fn next(&self, view: &View<'_>) -> Next {
        if let Some(record) = view.unasked() {
            return Next::Query(record);
        }
        let favourite = view.faster.unwrap_or(Family::V6);
        if !view.answered {
            let go = matches!(view.lookup(favourite), Lookup::Addresses(..)) || view.all_complete();
            return if go { Next::Answer } else { Next::Wait(None) };
        }
        let mut candidates = view.untried();
        self.order(view, &mut candidates);
        staggered::next(view, &candidates, Duration::MAX)
    }

    fn order(&self, view: &View<'_>, addresses: &mut Vec<IpAddr>) {
        let favourite = view.faster.unwrap_or(Family::V6);
        addresses.sort_by_key(|a| Family::of(*a) != favourite);
    }
}
