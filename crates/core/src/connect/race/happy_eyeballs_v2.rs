//! `happy-eyeballs-v2`: RFC 8305 as it is written, with its recommended values and without its optional history.

use super::staggered::{self, RESOLUTION_DELAY};
use super::{Lookup, Next, Race, View};
use crate::path::Family;
use crate::time::Duration;
use std::net::IpAddr;

/// Time between the beginnings of two attempts: RFC 8305, section 8.
const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct HappyEyeballsV2;

impl Race for HappyEyeballsV2 {
    fn next(&self, view: &View<'_>) -> Next {
        if let Some(record) = view.unasked() {
            return Next::Query(record);
        }
        let tell_at = staggered::tell_at(view).filter(|_| !view.answered);
        if tell_at.is_some_and(|at| view.now >= at) {
            return Next::Answer;
        }
        // Section 3: AAAA first, go at once; A first, wait for AAAA no longer than the Resolution Delay.
        let go_at = match (view.v6, view.v4) {
            (Lookup::Asked(_), Lookup::Addresses(at, _)) if view.want.includes(Family::V6) => *at + RESOLUTION_DELAY,
            _ => view.now,
        };
        if view.now < go_at {
            return staggered::sooner(Next::Wait(Some((go_at, "resolution delay"))), tell_at, "resolution delay");
        }
        let candidates = staggered::alternate(view, view.untried());
        staggered::sooner(staggered::next(view, &candidates, CONNECTION_ATTEMPT_DELAY), tell_at, "resolution delay")
    }

    fn order(&self, view: &View<'_>, addresses: &mut Vec<IpAddr>) {
        staggered::interleave(view, addresses);
    }
}
