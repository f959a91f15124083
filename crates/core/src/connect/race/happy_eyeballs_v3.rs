//! `happy-eyeballs-v3`: draft-ietf-happy-happyeyeballs-v3 (HEAD of July 2026), as far as a program's TCP connections go.
//!
//! - **Lookups** (section 4): HTTPS, AAAA and A back to back. It goes when it has addresses, the preferred family has
//!   answered and HTTPS has; or the Resolution Delay after the first addresses. Hints are addresses.
//! - **Preferred family**: IPv6 where both families have a route, else the one that has.
//! - **Sorting** (sections 5 and 8), anew with every answer, of all addresses, tried or not: families in turn from the preferred one; within a family, addresses
//!   used before by their round-trip time (the rule that the draft puts between rules 8 and 9 of RFC 6724), then the
//!   rest. That rule comes after the precedence of families, so history never turns IPv6 and IPv4 around.
//! - **Connection Attempt Delay** (section 6): when the SYN would be repeated, by the history of the last address.
//! - **History** is that of this network alone. So that it converges, the races drawn for it ignore it.
//!
//! Not here: priorities, ALPN, ECH and QUIC, which a program below which this runs knows nothing of (see
//! `connect::service`); rules of RFC 6724 that need source addresses.

use super::staggered::{self, RESOLUTION_DELAY};
use super::{Next, Race, View};
use crate::path::Family;
use crate::time::Duration;
use std::net::IpAddr;

/// Connection Attempt Delay where nothing is known: section 9.
const DEFAULT_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Minimum Connection Attempt Delay: section 9, which forbids less than 10 ms.
const MIN_ATTEMPT_DELAY: Duration = Duration::from_millis(100);
/// Maximum Connection Attempt Delay: section 9.
const MAX_ATTEMPT_DELAY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct HappyEyeballsV3;

impl Race for HappyEyeballsV3 {
    fn next(&self, view: &View<'_>) -> Next {
        if let Some(record) = view.unasked() {
            return Next::Query(record);
        }
        let tell_at = staggered::tell_at(view).filter(|_| !view.answered);
        if tell_at.is_some_and(|at| view.now >= at) {
            return Next::Answer;
        }
        let preferred = preferred(view);
        let complete = !view.want.includes(preferred) || view.lookup(preferred).is_complete();
        if !(complete && view.https.is_complete()) {
            let Some(go_at) = view.positive.map(|at| at + RESOLUTION_DELAY) else { return Next::Wait(None) };
            if view.now < go_at {
                return staggered::sooner(Next::Wait(Some((go_at, "resolution delay"))), tell_at, "resolution delay");
            }
        }
        // Section 8: a new address has its place in the complete list, with all that was tried, hints that are gone too.
        let (known, untried) = (view.addresses(), view.untried());
        let gone = view.attempts.iter().map(|a| a.addr).filter(|addr| !known.contains(addr));
        let mut candidates: Vec<_> = gone.chain(known.iter().copied()).collect();
        self.order(view, &mut candidates);
        candidates.retain(|addr| untried.contains(addr));
        staggered::sooner(staggered::next(view, &candidates, attempt_delay(view)), tell_at, "resolution delay")
    }

    fn order(&self, view: &View<'_>, addresses: &mut Vec<IpAddr>) {
        sort(view, addresses);
        staggered::interleave(view, addresses);
    }
}

/// IPv6, unless IPv4 alone has a route.
fn preferred(view: &View<'_>) -> Family {
    let routed = |f| view.path.family(f).has_route;
    if routed(Family::V4) && !routed(Family::V6) { Family::V4 } else { Family::V6 }
}

fn sort(view: &View<'_>, addresses: &mut [IpAddr]) {
    let preferred = preferred(view);
    addresses.sort_by_key(|addr| {
        // RFC 6724, rule 1: unusable destinations last.
        let unusable = !view.path.family(Family::of(*addr)).has_route;
        (unusable, view.family(*addr) != preferred, history(view, *addr))
    });
}

/// Failing after everything else, used before unused, then by round-trip time; all alike where history is ignored.
fn history(view: &View<'_>, addr: IpAddr) -> (bool, bool, Duration) {
    let peer = view.path.peer(addr).filter(|_| !view.explore);
    let rtt = peer.filter(|p| p.has_answered).and_then(|p| p.rtt);
    // What has failed in this very race keeps its place: it is not tried again, and its family has had its turn.
    let tried = view.attempts.iter().any(|a| a.addr == addr);
    let failing = !tried && peer.is_some_and(|p| p.is_failing(view.now));
    (failing, rtt.is_none(), rtt.map_or(Duration::ZERO, |r| r.smoothed))
}

/// When the last attempt's SYN would be repeated: RFC 6298 by the history of this address, else of its family.
fn attempt_delay(view: &View<'_>) -> Duration {
    let last = view.attempts.last().filter(|_| !view.explore);
    let known = last.and_then(|a| view.path.expected_rtt(a.addr));
    known.map_or(DEFAULT_ATTEMPT_DELAY, |rtt| rtt.timeout().clamp(MIN_ATTEMPT_DELAY, MAX_ATTEMPT_DELAY))
}
