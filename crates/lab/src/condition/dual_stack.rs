//! `healthy` and its faults: dual-stack sites that are all alike, so that what differs between two conditions is the
//! fault and nothing else. Only the jitter of the link is random.

use super::{Condition, record, site};
use crate::world::{Fate, Record, Reply, Site, World};
use headstart_core::time::Duration;

/// Round trip to a host beyond the LTE link (18 ms): 30 ms in all, the RTT of the lab's yardstick.
pub(super) const HOST: Duration = Duration::from_millis(12);
/// What a resolver takes over an answer that it has cached, in the operator's network: a few milliseconds.
const RESOLVER: Duration = Duration::from_millis(2);
/// What IPv6 is slower by in `ipv6-slower`: a detour over another continent's tunnel end, below the 250 ms after which
/// RFC 8305 looks elsewhere, so that only a race that knows or compares can avoid it.
const DETOUR: Duration = Duration::from_millis(60);

pub(super) const HEALTHY: Condition = Condition {
    name: "healthy",
    what: "every site is 30 ms away over either family, and its records come in 20 ms",
    why: "Link `lte` (18 ms and jitter, see its preset); hosts 12 ms further, so that the RTT is that of the lab's \
          yardstick, 30 ms; records after 2 ms, as from a resolver in the operator's network that has them cached. \
          Nothing fails: here a race can only cost.",
    world: |seed, sites| world(seed, sites, Duration::ZERO, Fate::Answers, Reply::Records, Reply::Records),
};

pub(super) const IPV6_SLOWER: Condition = Condition {
    name: "ipv6-slower",
    what: "as healthy, but IPv6 takes 60 ms longer",
    why: "As `healthy`; 60 ms more over IPv6: a long detour, but below the 250 ms after which RFC 8305 tries the next \
          address, so a fixed delay never finds the faster family.",
    world: |seed, sites| world(seed, sites, DETOUR, Fate::Answers, Reply::Records, Reply::Records),
};

pub(super) const AAAA_LOST: Condition = Condition {
    name: "aaaa-lost",
    what: "as healthy, but AAAA queries are never answered",
    why: "As `healthy`; a resolver or middlebox that swallows AAAA queries is the oldest complaint about dual stack \
          (RFC 4074, section 4.1); glibc was measured to take 15 s.",
    world: |seed, sites| world(seed, sites, Duration::ZERO, Fate::Answers, Reply::Records, Reply::Lost),
};

pub(super) const A_LOST: Condition = Condition {
    name: "a-lost",
    what: "as healthy, but A queries are never answered",
    why: "As `healthy`; the mirror image of `aaaa-lost`, in which glibc was measured to fail after 15 s although it has \
          IPv6 addresses.",
    world: |seed, sites| world(seed, sites, Duration::ZERO, Fate::Answers, Reply::Lost, Reply::Records),
};

pub(super) const IPV6_BLACK_HOLE: Condition = Condition {
    name: "ipv6-black-hole",
    what: "as healthy, but packets to IPv6 hosts vanish",
    why: "As `healthy`; addresses and a route for IPv6, and nothing behind them: the case for which Happy Eyeballs was \
          made (RFC 6555, section 3). Linux gives up after 131 s.",
    world: |seed, sites| world(seed, sites, Duration::ZERO, Fate::BlackHole, Reply::Records, Reply::Records),
};

/// Site number `n` of `healthy`.
pub(super) fn healthy_site(n: usize) -> Site {
    let record = record(RESOLVER);
    site(n, record, record, (HOST, Fate::Answers), (HOST, Fate::Answers))
}

fn world(seed: u64, sites: usize, detour: Duration, v6: Fate, a: Reply, aaaa: Reply) -> World {
    let with = |reply| Record { reply, ..record(RESOLVER) };
    let one = |n| site(n, with(a), with(aaaa), (HOST, Fate::Answers), (HOST + detour, v6));
    World::new("lte", seed, (0..sites).map(one).collect())
}
