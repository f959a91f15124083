//! Conditions: the worlds in which connecting is measured, each number with its reason. One function each, one line in
//! [`ALL`].
//!
//! A condition draws a world from a seed and a number of sites; the same two give the same world bit for bit, in virtual
//! time and in namespaces. No condition was chosen by looking at how one of our races does in it. [`fault`] has those in
//! which one thing is broken, with a list of its own.

mod dual_stack;
pub mod fault;
pub mod law;
mod normal;
pub mod page;
mod paper1_lte;

use crate::world::{Fate, Host, Record, Reply, Site, World};
use dual_stack::{A_LOST, AAAA_LOST, HEALTHY, IPV6_BLACK_HOLE, IPV6_SLOWER};
use headstart_core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A condition as the registry knows it.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Its name, as in `--condition` and in tables.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub what: &'static str,
    /// Each number with its source.
    pub why: &'static str,
    /// Draws a world from a seed, with this many sites.
    pub world: fn(u64, usize) -> World,
}

/// Every condition, in the order of tables.
pub const ALL: &[Condition] = &[paper1_lte::CONDITION, HEALTHY, IPV6_SLOWER, AAAA_LOST, A_LOST, IPV6_BLACK_HOLE];

/// No condition of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", headstart_core::choice::unknown("condition", .0, &ALL.iter().map(|c| c.name).collect::<Vec<_>>()))]
pub struct UnknownCondition(pub String);

/// The condition called `name`.
pub fn find(name: &str) -> Result<&'static Condition, UnknownCondition> {
    ALL.iter().find(|c| c.name == name).ok_or_else(|| UnknownCondition(name.into()))
}

/// Sites that a world can have at most: 198.19.0.1 to 198.19.254.255. The lab's DNS server is in 198.19.255.0/24.
pub const MAX_SITES: usize = 255 * 256 - 1;

/// Lifetime of every record, in seconds: five minutes, as content networks like it. Longer than any session here.
const TTL: u32 = 300;

/// A record that is answered after `delay` beyond the link.
fn record(delay: Duration) -> Record {
    Record { delay, reply: Reply::Records, ttl: TTL }
}

/// Site number `n`, with one address a family from the ranges that `netns` leaves to hosts.
///
/// # Panics
///
/// If `n` is not below [`MAX_SITES`].
fn site(n: usize, a: Record, aaaa: Record, v4: (Duration, Fate), v6: (Duration, Fate)) -> Site {
    assert!(n < MAX_SITES, "a world has at most {MAX_SITES} sites");
    let number = n as u32 + 1;
    let v4_addr = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 19, 0, 0)) + number);
    let v6_addr = Ipv6Addr::from(u128::from(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0)) + u128::from(number));
    let host = |addr: IpAddr, (extra_rtt, fate)| vec![Host { addr, extra_rtt, fate }];
    let (v4, v6) = (host(v4_addr.into(), v4), host(v6_addr.into(), v6));
    Site { a, aaaa, ..Site::new(format!("n{number}.lab.example"), v4, v6) }
}

/// All sites of these worlds behind each other in one, under other names and addresses, over the link of the first.
///
/// # Panics
///
/// If there are more than [`MAX_SITES`].
pub fn join(seed: u64, worlds: Vec<World>) -> World {
    let link = worlds.first().map(|world| world.link.clone()).unwrap_or_default();
    let sites = worlds.iter().flat_map(|world| &world.sites).enumerate().map(|(n, s)| {
        let at = |host: &Host| (host.extra_rtt, host.fate);
        site(n, s.a, s.aaaa, at(&s.v4[0]), at(&s.v6[0]))
    });
    World::new(link, seed, sites.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_condition_has_a_name_reasons_and_worlds_that_repeat() {
        for c in ALL {
            assert_eq!(find(c.name).unwrap().what, c.what);
            assert!(c.why.len() > 80, "{} gives no reasons", c.name);
            assert_eq!((c.world)(3, 50), (c.world)(3, 50), "{}", c.name);
            assert_ne!((c.world)(3, 50), (c.world)(4, 50), "{}", c.name);
        }
        let text = find("sunny").unwrap_err().to_string();
        assert!(text.contains("`sunny`") && ALL.iter().all(|c| text.contains(c.name)), "{text}");
    }

    #[test]
    fn addresses_are_unique_and_from_the_ranges_that_namespaces_leave_to_hosts() {
        for c in ALL {
            let world = (c.world)(1, 700);
            assert_eq!(world.sites.len(), 700);
            assert!(headstart_link::parse(&world.link).is_ok(), "{}", c.name);
            let mut seen = HashSet::new();
            for host in world.sites.iter().flat_map(|s| s.v4.iter().chain(&s.v6)) {
                assert!(seen.insert(host.addr), "{} twice", host.addr);
                match host.addr {
                    IpAddr::V4(a) => assert_eq!(a.octets()[..2], [198, 19]),
                    IpAddr::V6(a) => assert!(a.segments()[..2] == [0x2001, 0xdb8] && a.segments()[2] < 0x8000),
                }
            }
            assert!(world.sites.iter().all(|s| s.name.ends_with(".lab.example")));
        }
        let last = site(MAX_SITES - 1, record(Duration::ZERO), record(Duration::ZERO), NEAR, NEAR);
        assert_eq!(last.v4[0].addr.to_string(), "198.19.254.255", "below the DNS server's 198.19.255.53");
    }

    const NEAR: (Duration, Fate) = (Duration::ZERO, Fate::Answers);
}
