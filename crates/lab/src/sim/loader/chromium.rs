//! How a modern browser gets connected by itself: the arm `bare` of page loads.
//!
//! Both families are asked at once and both answers waited for (Chromium's resolver gives a list when its A and AAAA
//! transactions are done); then addresses are tried in the order of RFC 6724, IPv6 first, the next one when one has failed;
//! if none of IPv6 has connected after 300 ms, IPv4 is tried beside it (`TransportConnectJob`, its IPv6 fallback timer).
//! Written as a race, so that page loads differ in nothing else. What it does not have: any memory.

use headstart_core::connect::race::{Entry, Next, Race, View};
use headstart_core::path::Family;
use headstart_core::time::Duration;

/// Chromium's `kIPv6FallbackTime`.
const FALLBACK: Duration = Duration::from_millis(300);

/// The race. It is not in the registry of the core: a host has a browser for it.
pub(super) const ENTRY: Entry = Entry {
    name: "chromium",
    what: "a modern browser by itself: both answers awaited, IPv6 first, IPv4 beside it after 300 ms",
    lab_only: true,
    asks_https: false,
    new: || Box::new(Chromium),
};

#[derive(Debug)]
struct Chromium;

impl Race for Chromium {
    fn next(&self, view: &View<'_>) -> Next {
        if let Some(record) = view.unasked() {
            return Next::Query(record);
        }
        if !view.all_complete() {
            return Next::Wait(None);
        }
        if !view.answered {
            return Next::Answer;
        }
        if !view.may_connect || view.done || view.has_ready() {
            return Next::Wait(None);
        }
        let untried = view.untried();
        let Some(first) = untried.first().copied() else { return Next::Wait(None) };
        let Some(latest) = view.in_flight().map(|a| a.started).max() else { return Next::Attempt(first) };
        let both = view.in_flight().any(|a| Family::of(a.addr) == Family::V4);
        let other = untried.into_iter().find(|a| Family::of(*a) == Family::V4);
        match other.filter(|_| !both) {
            Some(v4) if view.now >= latest + FALLBACK => Next::Attempt(v4),
            Some(_) => Next::Wait(Some((latest + FALLBACK, "fallback to IPv4"))),
            None => Next::Wait(None),
        }
    }
}
