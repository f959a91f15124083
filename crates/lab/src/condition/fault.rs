//! Faults: networks in which one thing is broken and all else is as in `healthy`. One line each in [`ALL`].
//!
//! Each draws worlds from a seed and a number of sites, like every condition; its sites are all alike. Sizes are chosen
//! so that the fault decides and nothing else: every host is 30 ms away, every record comes in 20 ms.

use super::dual_stack::{HOST, healthy_site};
use super::{A_LOST, AAAA_LOST, Condition, HEALTHY, IPV6_BLACK_HOLE};
use crate::world::{Change, Event, Fate, Host, Resolver, Site, When, World};
use headstart_core::path::Family;
use headstart_core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Every fault, in the order of tables; first none.
pub const ALL: &[Condition] = &[
    HEALTHY,
    AAAA_LOST,
    A_LOST,
    AAAA_SLOW,
    IPV6_BLACK_HOLE,
    IPV6_REFUSED,
    FIRST_DEAD,
    DNS_SLOW,
    DNS_FIRST_DEAD,
    DNS_DEAD,
    IPV6_LEAVES,
    IPV6_COMES,
];

/// A record that takes this long is late, and not yet lost: below the 5 s after which glibc asks again, far above the
/// 50 ms that RFC 8305 waits for it.
const LATE: Duration = Duration::from_secs(1);
/// A resolver that has to ask others first, over a bad path: half a second for either record.
const SLOW: Duration = Duration::from_millis(500);
/// Addresses a family where a name has many, as names of large sites do.
const MANY: u32 = 4;
/// What hosts are further by where an address leaves, so that a handshake is certainly under way then: 78 ms in all.
const FURTHER: Duration = Duration::from_millis(48);
/// After the question has reached the server (9 ms before its answer is back). The handshake begins 9 ms after that and
/// ends 78 ms later still: this is in its middle, with 36 ms for a program to begin it.
const MEANWHILE: Duration = Duration::from_millis(45);

const AAAA_SLOW: Condition = Condition {
    name: "aaaa-slow",
    what: "as healthy, but AAAA records take a second",
    why: "As `healthy`; a second is above every delay that a race knows and below the 5 s after which glibc asks again: \
          glibc waits for it although the A records are there.",
    world: |seed, sites| changed(seed, sites, |site| site.aaaa.delay = LATE),
};

const IPV6_REFUSED: Condition = Condition {
    name: "ipv6-refused",
    what: "as healthy, but IPv6 hosts refuse connections",
    why: "As `healthy`; a service that listens on its IPv4 address only, under a name that has both: refusals come after one \
          round trip, so a program that continues with the next address loses 30 ms.",
    world: |seed, sites| changed(seed, sites, |site| site.v6.iter_mut().for_each(|host| host.fate = Fate::Refuses)),
};

const FIRST_DEAD: Condition = Condition {
    name: "first-dead",
    what: "as healthy, but names have four addresses a family, and packets to the first of each vanish",
    why: "As `healthy`; one machine of four is down behind a name that still lists it, the case that RFC 8305 (section 5) sorts \
          and interleaves addresses for. Linux gives up on it after 131 s.",
    world: |seed, sites| changed(seed, sites, many),
};

const DNS_SLOW: Condition = Condition {
    name: "dns-slow",
    what: "as healthy, but every record takes half a second",
    why: "As `healthy`; half a second is far above every other delay here, and below the first repetition of a query; \
          no race can be faster on a first visit; one with a history is, on the second.",
    world: |seed, sites| changed(seed, sites, |site| (site.a.delay, site.aaaa.delay) = (SLOW, SLOW)),
};

const DNS_FIRST_DEAD: Condition = Condition {
    name: "dns-first-dead",
    what: "as healthy, but the first of two DNS servers is silent",
    why: "As `healthy`; resolv.conf lists two servers, and packets to the first vanish. glibc waits 5 s for it before it \
          asks the second, for every name anew.",
    world: |seed, sites| resolved_by(seed, sites, &[Fate::BlackHole, Fate::Answers]),
};

const DNS_DEAD: Condition = Condition {
    name: "dns-dead",
    what: "as healthy, but the only DNS server is silent",
    why: "As `healthy`; no host can be reached by name. What counts is that the program gets an error, and not later than \
          from glibc, which gives up after 10 s (measured).",
    world: |seed, sites| resolved_by(seed, sites, &[Fate::BlackHole]),
};

const IPV6_LEAVES: Condition = Condition {
    name: "ipv6-leaves",
    what: "the host's IPv6 address and route go away while the program connects; hosts are 78 ms away",
    why: "As `healthy`, hosts 48 ms further. 45 ms after the first question has reached the DNS server the client loses its IPv6 \
          address and default route, as by leaving a Wi-Fi network: the handshake is under way then, receives nothing more, and \
          Linux keeps retransmitting its SYN for 131 s.",
    world: |seed, sites| changing(seed, sites, &[], MEANWHILE, Event::Leaves(Family::V6)),
};

const IPV6_COMES: Condition = Condition {
    name: "ipv6-comes",
    what: "the host has IPv4 alone until the program connects, and then IPv6 too; hosts are 78 ms away",
    why: "As `ipv6-leaves`, the other way round: no IPv6 address or route until 45 ms after the first question has reached \
          the DNS server. Nothing is broken; a race that follows routes must cope.",
    world: |seed, sites| changing(seed, sites, &[Event::Leaves(Family::V6)], MEANWHILE, Event::Comes(Family::V6)),
};

fn changed(seed: u64, sites: usize, change: impl Fn(&mut Site)) -> World {
    let mut world = World::new("lte", seed, (0..sites).map(healthy_site).collect());
    world.sites.iter_mut().for_each(change);
    world
}

/// [`MANY`] addresses a family, next to each other: no rule of RFC 6724 tells them apart, so they stay in this order.
fn many(site: &mut Site) {
    let host = |addr, n| Host { addr, extra_rtt: HOST, fate: if n == 0 { Fate::BlackHole } else { Fate::Answers } };
    let number = match site.v4[0].addr {
        IpAddr::V4(addr) => u32::from(addr) & 0xffff,
        IpAddr::V6(_) => unreachable!("the first list is that of IPv4"),
    };
    let v4 = |n| Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 19, 0, 0)) + number * MANY + n);
    let v6 = |n: u32| {
        Ipv6Addr::from(u128::from(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0)) + u128::from(number * MANY + n))
    };
    site.v4 = (0..MANY).map(|n| host(v4(n).into(), n)).collect();
    site.v6 = (0..MANY).map(|n| host(v6(n).into(), n)).collect();
}

fn resolved_by(seed: u64, sites: usize, fates: &[Fate]) -> World {
    let resolvers = fates.iter().map(|fate| Resolver { fate: *fate, ..Resolver::ORDINARY }).collect();
    World { resolvers, ..changed(seed, sites, |_| ()) }
}

/// A network that is changed once, about the first name that is asked for.
fn changing(seed: u64, sites: usize, at_first: &[Event], later: Duration, event: Event) -> World {
    let further = |site: &mut Site| site.v4.iter_mut().chain(&mut site.v6).for_each(|host| host.extra_rtt += FURTHER);
    let mut world = changed(seed, sites, further);
    let at_first = at_first.iter().map(|event| Change { when: When::AtFirst, event: *event });
    let asked = world.sites.iter().take(1).map(|site| When::Asked { name: site.name.clone(), later });
    world.timeline = at_first.chain(asked.map(|when| Change { when, event })).collect();
    world
}

#[cfg(test)]
mod tests;
