//! Which network a host is on, computed from what its kernel and its files tell. Nothing here sends a query.
//!
//! What makes a network: the routers behind which it lies, by their hardware addresses; where these are not known (yet)
//! or do not exist (tunnels), the routers' own addresses and the prefix that the host has been given there; the name of
//! the wireless network; the DNS servers that it is to ask, since another server may give other answers. What does not
//! make a network: the host's own address (leases and temporary addresses change), or a family that comes later than
//! the other from the same router. A tunnel is another network over each set of routers below it: it carries what these
//! carry.

use super::{Family, NetworkId};
use siphasher::sip::SipHasher24;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// An Ethernet address.
pub type Hardware = [u8; 6];

/// How one address family leaves the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WayOut {
    /// The next router; `None` on links that need none (tunnels, dial-up).
    pub gateway: Option<IpAddr>,
    /// The router's hardware address, if the kernel knows it.
    pub hardware: Option<Hardware>,
    /// The prefix of the address that the host would send from.
    pub prefix: Option<(IpAddr, u8)>,
    /// That address. It does not make a network, but connections over another end with it.
    pub source: Option<IpAddr>,
}

/// What tells a network from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Surroundings {
    /// The way out for IPv4; `None` without a route.
    pub v4: Option<WayOut>,
    /// The way out for IPv6; `None` without a route.
    pub v6: Option<WayOut>,
    /// Name of the wireless network (SSID), if it is one and the name is known.
    pub ssid: Option<Vec<u8>>,
    /// The DNS servers, in the order in which they are asked.
    pub servers: Vec<IpAddr>,
    /// Where a way out without a router is a tunnel: the ways out that its own packets may take, its channels among them.
    pub below: Vec<WayOut>,
    /// The addresses that interfaces have, of IPv4 and of IPv6. They do not tell networks apart: those of containers and virtual
    /// machines are among them.
    pub own: [Own; 2],
}

/// What addresses of a family the interfaces of a host have; those of loopback do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Own {
    /// None.
    #[default]
    None,
    /// Link-local ones alone.
    OfLink,
    /// Others, so that neighbours can be reached even without a way out.
    Beyond,
}

impl Surroundings {
    /// Whether the C library would ask for addresses of `family` where a program wants those alone that the host is configured for
    /// (AI_ADDRCONFIG of getaddrinfo(3)).
    pub fn is_configured(&self, family: Family) -> bool {
        self.way(family).is_some() || self.own[family as usize] != Own::None
    }

    /// Whether some addresses of `family` can be reached.
    pub fn reaches(&self, family: Family) -> bool {
        self.way(family).is_some() || self.own[family as usize] == Own::Beyond
    }

    /// Whether IPv4 addresses come before global IPv6 ones (RFC 6724, section 6): there is no source address for these, or only one
    /// of another scope or label (section 2.1), such as a unique local one.
    pub fn v4_first(&self) -> bool {
        let global = |ip: IpAddr| match ip {
            IpAddr::V6(v6) => {
                let is_tunnelled = v6.segments()[0] == 0x2002 || v6.segments()[..2] == [0x2001, 0];
                !v6.is_unique_local() && !v6.is_unicast_link_local() && !is_tunnelled
            }
            IpAddr::V4(_) => false,
        };
        !self.v6.as_ref().is_some_and(|way| way.source.is_none_or(global))
    }

    fn way(&self, family: Family) -> Option<&WayOut> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }

    /// The network, by a name that is the same after a restart and in later versions.
    pub fn network(&self) -> NetworkId {
        let mut bytes = Vec::new();
        for mark in self.marks() {
            part(&mut bytes, &mark);
        }
        part(&mut bytes, b"ssid");
        part(&mut bytes, self.ssid.as_deref().unwrap_or_default());
        for server in &self.servers {
            part(&mut bytes, &octets(*server));
        }
        // The key is public: an identity is no secret, and a network that wants to be taken for another can be.
        NetworkId(SipHasher24::new_with_key(b"headstart path 1").hash(&bytes))
    }

    /// Whether this is what `earlier` was, only known better: the hardware address of a router or the name of the
    /// wireless network was learned. Everything that was known still holds.
    pub fn refines(&self, earlier: &Self) -> bool {
        let same = |now: &WayOut, then: &WayOut| {
            (now.gateway, now.prefix, now.source) == (then.gateway, then.prefix, then.source)
                && (then.hardware.is_none() || now.hardware == then.hardware)
        };
        let way = |now: &Option<WayOut>, then: &Option<WayOut>| match (now, then) {
            (Some(now), Some(then)) => same(now, then),
            (now, then) => now.is_none() && then.is_none(),
        };
        let below = self.below.len() == earlier.below.len()
            && self.below.iter().zip(&earlier.below).all(|(now, then)| same(now, then));
        way(&self.v4, &earlier.v4)
            && way(&self.v6, &earlier.v6)
            && below
            && self.servers == earlier.servers
            && self.own == earlier.own
            && (earlier.ssid.is_none() || self.ssid == earlier.ssid)
    }

    /// What is known of the routers, without order and without repetition: one router often serves both families.
    fn marks(&self) -> BTreeSet<Vec<u8>> {
        let ways = || [&self.v4, &self.v6].into_iter().flatten().chain(&self.below);
        let heard = ways().any(|way| way.hardware.is_some());
        let mark = |way: &WayOut| match (way.hardware, way.gateway) {
            (Some(hardware), _) => Some([b"hardware".as_slice(), &hardware].concat()),
            // Most likely the router that has been heard already, over the other family.
            (None, Some(_)) if heard => None,
            (None, gateway) => {
                let mut mark = b"prefix".to_vec();
                part(&mut mark, &gateway.map(octets).unwrap_or_default());
                if let Some((prefix, length)) = way.prefix {
                    part(&mut mark, &octets(prefix));
                    mark.push(length);
                }
                Some(mark)
            }
        };
        ways().filter_map(mark).collect()
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Adds `value` with its length, so that its end is unambiguous.
fn part(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend((value.len() as u64).to_be_bytes());
    bytes.extend(value);
}

/// `address` without the bits beyond the first `length`.
pub fn prefix(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Hardware = [2, 0, 0, 0, 0, 1];

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn way(gateway: &str, hardware: Option<Hardware>, within: &str, length: u8) -> Option<WayOut> {
        let source = ip(within);
        let prefix = Some((prefix(source, length), length));
        Some(WayOut { gateway: Some(ip(gateway)), hardware, prefix, source: Some(source) })
    }

    fn home() -> Surroundings {
        Surroundings {
            v4: way("192.168.1.1", Some(ROUTER), "192.168.1.23", 24),
            servers: vec![ip("192.168.1.1")],
            ..Surroundings::default()
        }
    }

    #[test]
    fn a_family_without_a_way_out_reaches_its_neighbours_and_its_source_decides_the_order() {
        use Family::{V4, V6};
        let plain = Surroundings { v6: None, ..home() };
        assert!(plain.reaches(V4) && !plain.reaches(V6) && !plain.is_configured(V6) && plain.v4_first());
        let of_link = Surroundings { own: [Own::Beyond, Own::OfLink], ..plain.clone() };
        assert!(of_link.is_configured(V6) && !of_link.reaches(V6));
        let of_site = Surroundings { own: [Own::Beyond, Own::Beyond], ..plain.clone() };
        assert!(
            of_site.is_configured(V6)
                && of_site.reaches(V6)
                && of_site.v4_first()
                && of_site.network() == plain.network()
        );
        assert!(!of_site.refines(&plain), "the routes are others");
        let from = |source| Surroundings { v6: way("fe80::1", Some(ROUTER), source, 64), ..home() }.v4_first();
        assert_eq!(["2001:db8:1::23", "fd00::23", "2002:c000:201::1", "fe80::23"].map(from), [false, true, true, true]);
    }

    #[test]
    fn a_second_family_from_the_same_router_and_another_lease_are_the_same_network() {
        let both = Surroundings { v6: way("fe80::1", Some(ROUTER), "2001:db8:1::23", 64), ..home() };
        assert_eq!(both.network(), home().network());
        let unheard = Surroundings { v6: way("fe80::1", None, "2001:db8:1::23", 64), ..home() };
        assert_eq!(unheard.network(), home().network());
        let leased = Surroundings { v4: way("192.168.1.1", Some(ROUTER), "192.168.1.77", 24), ..home() };
        assert_eq!(leased.network(), home().network());
        assert!(leased != home() && !leased.refines(&home()), "but connections do not survive it");
        let renumbered = Surroundings { v6: way("fe80::1", Some(ROUTER), "2001:db8:9::23", 64), ..home() };
        assert_eq!(renumbered.network(), home().network());
    }

    #[test]
    fn another_router_with_the_same_addresses_is_another_network() {
        let other = Surroundings { v4: way("192.168.1.1", Some([2, 0, 0, 0, 0, 9]), "192.168.1.23", 24), ..home() };
        assert_ne!(other.network(), home().network());
    }

    #[test]
    fn another_dns_server_or_wireless_name_is_another_network() {
        assert_ne!(Surroundings { servers: vec![ip("10.8.0.1")], ..home() }.network(), home().network());
        assert_ne!(Surroundings { ssid: Some(b"cafe".to_vec()), ..home() }.network(), home().network());
    }

    #[test]
    fn a_tunnel_without_routers_is_told_even_beside_a_router_that_was_heard() {
        let tunnel = Some(WayOut { gateway: None, hardware: None, prefix: Some((ip("10.8.0.2"), 32)), source: None });
        let v6 = way("fe80::1", Some(ROUTER), "2001:db8:1::23", 64);
        let on = Surroundings { v4: tunnel, v6: v6.clone(), ..home() };
        assert_ne!(on.network(), Surroundings { v6, ..home() }.network());
    }

    #[test]
    fn the_same_tunnel_over_another_router_is_another_network_and_is_known_again_over_the_first() {
        let inside =
            || Some(WayOut { gateway: None, hardware: None, prefix: Some((ip("10.77.0.0"), 24)), source: None });
        let over = |routers: &[(&str, u8)]| {
            let below = routers.iter().map(|(gateway, last)| way(gateway, Some([2, 0, 0, 0, 0, *last]), gateway, 24));
            Surroundings { v4: inside(), below: below.map(Option::unwrap).collect(), ..Surroundings::default() }
        };
        let [wlan, lte, both] =
            [over(&[("192.168.1.1", 1)]), over(&[("100.64.0.1", 2)]), over(&[("192.168.1.1", 1), ("100.64.0.1", 2)])];
        assert!(wlan.network() != lte.network() && both.network() != wlan.network() && both.network() != lte.network());
        assert_eq!(both.network(), over(&[("100.64.0.1", 2), ("192.168.1.1", 1)]).network(), "in whatever order");
        assert!(!lte.refines(&wlan) && !both.refines(&wlan) && both.refines(&both));
        let direct = Surroundings {
            v4: way("192.168.1.1", Some([2, 0, 0, 0, 0, 1]), "192.168.1.23", 24),
            ..Surroundings::default()
        };
        assert_ne!(direct.network(), wlan.network(), "and none is the way without a tunnel");
    }

    #[test]
    fn a_router_that_is_heard_at_last_makes_it_known_better_and_another_router_does_not() {
        let unheard = Surroundings { v4: way("192.168.1.1", None, "192.168.1.23", 24), ..home() };
        assert!(home().refines(&unheard) && !unheard.refines(&home()));
        let other = Surroundings { v4: way("192.168.2.1", Some(ROUTER), "192.168.2.23", 24), ..home() };
        assert!(!other.refines(&unheard));
        assert!(home().refines(&home()));
    }

    #[test]
    fn nothing_at_all_is_a_network_too_and_always_the_same() {
        assert_eq!(Surroundings::default().network(), Surroundings::default().network());
        assert_ne!(Surroundings::default().network(), home().network());
    }

    #[test]
    fn the_names_of_networks_do_not_change_between_versions() {
        assert_eq!(home().network(), NetworkId(4_106_479_394_086_205_419));
    }

    #[test]
    fn a_prefix_has_no_bits_beyond_its_length() {
        assert_eq!(prefix(ip("192.168.1.23"), 24), ip("192.168.1.0"));
        assert_eq!(prefix(ip("192.168.1.23"), 0), ip("0.0.0.0"));
        assert_eq!(prefix(ip("192.168.1.23"), 200), ip("192.168.1.23"));
        assert_eq!(prefix(ip("2001:db8::1"), 32), ip("2001:db8::"));
    }
}
