//! How many places peers take that call programs, by network: an address of IPv4, or 64 bits of one of IPv6, which one host has for itself
//! (RFC 4291, section 2.5.1).
//!
//! Strangers call: half of the places stay the program's own. While less than half of theirs are taken, a network may have as many as it
//! likes, as without a forwarder; beyond, a sixteenth of them, so that one that takes all it can get leaves room for others (the shares
//! of docs/decisions/0069).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// The part of the callers' places that a network has when half of them are taken.
const SHARE: usize = 16;
/// The bits of a host's network of IPv6.
const HOST_BITS: u32 = 64;

/// Callers that have a place.
#[derive(Debug, Default)]
pub(super) struct Callers {
    by_network: HashMap<IpAddr, usize>,
    all: usize,
}

impl Callers {
    /// Whether there is a place for a caller, where `taken` of `most` places are, by callers and by programs.
    pub fn has_place(&self, peer: IpAddr, taken: usize, most: usize) -> bool {
        let theirs = most.div_ceil(2);
        let own = self.by_network.get(&network(peer)).copied().unwrap_or(0);
        taken < theirs && (self.all * 2 < theirs || own < share(theirs))
    }

    /// Whether a caller's network has all the places that it has for sure.
    pub fn has_share(&self, peer: IpAddr, most: usize) -> bool {
        self.by_network.get(&network(peer)).is_some_and(|own| *own >= share(most.div_ceil(2)))
    }

    /// Those that have a place.
    pub fn all(&self) -> usize {
        self.all
    }

    /// A caller has a place from now on.
    pub fn add(&mut self, peer: IpAddr) {
        *self.by_network.entry(network(peer)).or_default() += 1;
        self.all += 1;
    }

    /// A caller has none any more.
    pub fn remove(&mut self, peer: IpAddr) {
        let network = network(peer);
        if let Some(count) = self.by_network.get_mut(&network) {
            *count -= 1;
            self.all -= 1;
            if *count == 0 {
                self.by_network.remove(&network);
            }
        }
    }
}

/// What one network has for sure of `theirs`.
fn share(theirs: usize) -> usize {
    (theirs / SHARE).max(1)
}

/// The first address of a host's network.
pub(super) fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> HOST_BITS << HOST_BITS).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_may_have_half_of_the_places_and_then_others_have_theirs() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (one, same, other) in
            [("203.0.113.1", "203.0.113.1", "203.0.113.2"), ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1")]
        {
            let (mut callers, mut taken, most) = (Callers::default(), 0, 6400);
            let mut comes = |callers: &mut Callers, from: &str| {
                let has_place = callers.has_place(ip(from), taken, most);
                if has_place {
                    callers.add(ip(from));
                    taken += 1;
                }
                has_place
            };
            assert_eq!((0..5000).filter(|_| comes(&mut callers, one)).count(), 1600);
            assert!(!comes(&mut callers, same));
            assert_eq!((0..5000).filter(|_| comes(&mut callers, other)).count(), 200);
            for n in 0..5000 {
                let from = if ip(one).is_ipv4() {
                    format!("198.51.{}.{}", n / 250, n % 250)
                } else {
                    format!("2001:db8:7:{n:x}::1")
                };
                comes(&mut callers, &from);
            }
            assert_eq!(taken, 3200, "the other half is the program's");
            // Who leaves makes room for others, and so is one that has called many times.
            (0..1600).for_each(|_| callers.remove(ip(same)));
            assert!(callers.has_place(ip(one), 1600, most));
        }
    }

    #[test]
    fn nothing_is_kept_of_who_has_left() {
        let mut callers = Callers::default();
        for n in 0..1000u32 {
            callers.add(IpAddr::from(n.to_be_bytes()));
        }
        (0..1000u32).for_each(|n| callers.remove(IpAddr::from(n.to_be_bytes())));
        callers.remove(IpAddr::from([9, 9, 9, 9]));
        assert!(callers.by_network.is_empty() && callers.all == 0);
    }
}
