//! Attempts one after the other with a delay between their beginnings: the frame that RFC 8305, section 5, gives to
//! every race that does not begin all attempts at once.

pub(super) use super::reliance::RESOLUTION_DELAY;
use super::reliance::reliance;
use super::{Next, State, View};
use crate::path::Family;
use crate::time::{Duration, Instant};
use std::net::IpAddr;

/// Attempts under way at once at most: 6 s of silent addresses at 250 ms each. A name with more is no host worth waiting for.
pub(super) const MAX_IN_FLIGHT: usize = 24;

/// The next attempt to `candidates` (best first): at once if none is under way, else `delay` after the last beginning.
/// Where [`MAX_IN_FLIGHT`] are under way, the oldest makes room: it has been silent for all the delays since.
pub(super) fn next(view: &View<'_>, candidates: &[IpAddr], delay: Duration) -> Next {
    if !view.may_connect || view.done || view.has_ready() {
        return Next::Wait(None);
    }
    let Some(first) = candidates.first().copied() else { return Next::Wait(None) };
    let racing = || view.attempts.iter().filter(|a| !a.exploring && a.state == State::InFlight && (view.serves)(a));
    let Some(last) = racing().map(|a| a.started).max() else { return Next::Attempt(first) };
    let due = last + delay;
    if view.now < due {
        return Next::Wait(Some((due, "connection attempt delay")));
    }
    let oldest = racing().min_by_key(|a| a.started).filter(|_| racing().count() >= MAX_IN_FLIGHT);
    oldest.map_or(Next::Attempt(first), |a| Next::GiveUp(a.id))
}

/// When the addresses are returned to the program, once known: `None` for now.
///
/// RFC 8305 is written for programs that take addresses as they come. getaddrinfo returns once, and a program that got one family
/// cannot fall back to the other; without headstart it would have got both. So it gets them when both are known; or
/// when a connection is ready and the other family has had the Resolution Delay, for what a server makes of a connection is not
/// known yet; or when the one family has been waited for as long as
/// what is known of the other is worth (see [`reliance`]). The race goes on meanwhile: attempts begin before the program is
/// answered, and the wait is hidden behind their handshakes.
pub(super) fn tell_at(view: &View<'_>) -> Option<Instant> {
    if view.all_complete() {
        return Some(view.now);
    }
    let pending = Family::BOTH.into_iter().find(|f| view.want.includes(*f) && !view.lookup(*f).is_complete());
    let addresses = view.addresses();
    // A hint that was denied since is no address, and the other family may have some.
    let known = view.positive.filter(|_| !addresses.is_empty());
    if view.has_ready() {
        let of_use = |f: &Family| view.path.family(*f).has_route && !view.path.family(*f).is_unanswered();
        return Some(pending.filter(of_use).and(known).map_or(view.now, |at| at + RESOLUTION_DELAY));
    }
    match pending {
        // Where a connection is being opened, that shows what the addresses are worth.
        Some(pending) if view.path.family(pending).has_route && view.may_connect => None,
        Some(pending) => Some(known? + reliance(view.path, view.now, &addresses, pending)?),
        None => Some(known? + RESOLUTION_DELAY),
    }
}

/// The sooner of two waits.
pub(super) fn sooner(next: Next, due: Option<Instant>, why: &'static str) -> Next {
    match (next, due) {
        (Next::Wait(Some((at, _))), Some(due)) if due < at => Next::Wait(Some((due, why))),
        (Next::Wait(None), Some(due)) => Next::Wait(Some((due, why))),
        (next, _) => next,
    }
}

/// Families in turn, beginning with that of the first address; within a family the order stays (RFC 8305, section 4,
/// with a First Address Family Count of 1). An address behind a translator counts as IPv4 (section 7).
pub(super) fn interleave(view: &View<'_>, addresses: &mut Vec<IpAddr>) {
    let Some(first) = addresses.first().map(|a| view.family(*a)) else { return };
    let (one, other): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|a| view.family(**a) == first);
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    addresses.clear();
    loop {
        let pair = [one.next(), other.next()];
        if pair == [None, None] {
            break;
        }
        addresses.extend(pair.into_iter().flatten());
    }
}

/// What is left of an interleaved list: `untried`, best first, in turn from where the last attempt left off.
pub(super) fn alternate(view: &View<'_>, mut untried: Vec<IpAddr>) -> Vec<IpAddr> {
    let last = view.attempts.iter().rfind(|a| !a.exploring).map(|a| view.family(a.addr));
    untried.sort_by_key(|a| Some(view.family(*a)) == last);
    interleave(view, &mut untried);
    untried
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::Want;
    use crate::connect::race::Lookup;
    use crate::path::Network;

    #[test]
    fn families_take_turns_and_keep_their_order() {
        let v6 = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]);
        let v4 = |n: u8| IpAddr::from([192, 0, 2, n]);
        let none = Lookup::Without(Instant::ZERO);
        let view = View {
            now: Instant::ZERO,
            want: Want::Both,
            v4: &none,
            v6: &none,
            https: &none,
            positive: None,
            answered: false,
            may_connect: true,
            done: false,
            attempts: &[],
            usable: &|_| true,
            fits: &|_| true,
            serves: &|_| true,
            path: &Network::default(),
            just_failed: &[],
            remembered: &[],
            explore: false,
            comes_again: false,
            waits: false,
            may_spend: false,
            faster: None,
        };
        let mut list = vec![v6(1), v6(2), v6(3), v4(1)];
        interleave(&view, &mut list);
        assert_eq!(list, [v6(1), v4(1), v6(2), v6(3)]);
    }
}
