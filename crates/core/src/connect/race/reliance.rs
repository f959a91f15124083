//! How long getaddrinfo waits for a second family, by the history of the first. Ours.
//!
//! Without headstart it would wait for both answers: 15 s in the C library if one of them is lost. It may return one alone after
//! the Resolution Delay if that one will do, but if it does not, the program fails where it would have connected.
//!
//! What never happens here: one family is returned for both while all of its addresses are known to fail.

use crate::path::{Family, Network};
use crate::time::{Duration, Instant};
use std::net::IpAddr;

/// Longest wait of one family for the other: the Resolution Delay of RFC 8305, section 8.
pub(crate) const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// How long after `addresses` became known they are returned without those of `pending`; `None` for never.
pub(crate) fn reliance(network: &Network, now: Instant, addresses: &[IpAddr], pending: Family) -> Option<Duration> {
    let good = |a: &&IpAddr| !network.is_failing(**a, now) && !network.is_suspended(Family::of(**a), now);
    let answered = |a: &IpAddr| network.peer(*a).is_some_and(|p| p.will_do(now));
    let mut good = addresses.iter().filter(good);
    let of_use = network.family(pending).has_route;
    let mut will_do = || good.any(|a| network.family(pending).is_unanswered() || answered(a));
    // Else a connection, opened meanwhile to see whether they will do, ends the wait.
    (!of_use || will_do()).then_some(RESOLUTION_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Outcome;

    #[test]
    fn a_family_is_told_alone_as_soon_as_it_is_known_to_do() {
        let (now, addr) = (Instant::ZERO, IpAddr::from([192, 0, 2, 1]));
        let mut network = Network::default();
        let ask = |network: &Network| reliance(network, now, &[addr], Family::V6);
        assert_eq!(ask(&network), None);
        network.record(now, addr, Outcome::Connected(Duration::from_millis(20)));
        assert_eq!(ask(&network), Some(RESOLUTION_DELAY));
        network.record(now, addr, Outcome::Failed);
        assert_eq!(ask(&network), None, "it has failed since");
        network.family_mut(Family::V6).has_route = false;
        assert_eq!(ask(&network), Some(RESOLUTION_DELAY), "nothing of use is to come");
    }

    #[test]
    fn an_answer_that_never_comes_on_this_network_is_waited_for_no_longer() {
        let (now, addr) = (Instant::ZERO, IpAddr::from([192, 0, 2, 1]));
        let mut network = Network::default();
        (0..2).for_each(|_| network.family_mut(Family::V6).lookup_unanswered());
        assert_eq!(reliance(&network, now, &[addr], Family::V6), Some(RESOLUTION_DELAY));
    }

    #[test]
    fn a_family_without_a_way_and_one_that_fails_are_never_told_alone() {
        let (now, addr) = (Instant::ZERO, IpAddr::from([192, 0, 2, 1]));
        let mut network = Network::default();
        (0..2).for_each(|_| network.family_mut(Family::V6).lookup_unanswered());
        network.record(now, addr, Outcome::Connected(Duration::from_millis(20)));
        network.family_mut(Family::V4).has_route = false;
        assert_eq!(reliance(&network, now, &[addr], Family::V6), None);
        network.family_mut(Family::V4).has_route = true;
        assert_eq!(reliance(&network, now, &[addr], Family::V6), Some(RESOLUTION_DELAY));
        network.record(now, addr, Outcome::Failed);
        assert_eq!(reliance(&network, now, &[addr], Family::V6), None);
    }
}
