//! Networks in which a program must never be less able for headstart: each is a fault that a judge from outside, or a user, has
//! met. Beside [`super::fault`], whose networks are measured; here it is only asked whether, not how much.
//!
//! Every host is 30 ms away, every record comes in 20 ms unless said otherwise, and nothing is random.

use super::dual_stack::{HOST, healthy_site};
use crate::server::dns::Manner;
use crate::world::{Fate, Host, Reply, Resolver, Site, World};
use headstart_core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of the table.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Its name, as in `--condition`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub what: &'static str,
    /// How it differs from a network in which all is well.
    change: fn(&mut World),
    /// How its DNS servers go about questions.
    pub manner: Manner,
    /// Whether programs are told the host's IPv4 address instead of its name.
    pub literal: bool,
}

/// 18 ms and no jitter: as `lte` without what is random in it.
const LINK: &str = "rate=100mbit,delay=9ms";
/// Above every delay that a race knows, below the 5 s after which the C library asks again.
const LATE: Duration = Duration::from_secs(1);

const fn network(name: &'static str, what: &'static str, change: fn(&mut World)) -> Network {
    Network { name, what, change, manner: Manner::Plain, literal: false }
}

/// Every network, in the order of tables.
pub const ALL: &[Network] = &[
    network("healthy", "nothing is broken", |_| ()),
    network("late-aaaa-v4-dead", "packets to IPv4 hosts vanish, and AAAA records take a second", |world| {
        each(world, |site| (site.aaaa.delay, site.v4[0].fate) = (LATE, Fate::BlackHole));
    }),
    network("late-aaaa-v4-stale", "IPv4 hosts refuse, and AAAA records take a second", |world| {
        each(world, |site| (site.aaaa.delay, site.v4[0].fate) = (LATE, Fate::Refuses));
    }),
    network("aaaa-lost", "AAAA queries are never answered", |world| each(world, |site| site.aaaa.reply = Reply::Lost)),
    network("v6-black-hole", "packets to IPv6 hosts vanish", |world| {
        each(world, |site| site.v6[0].fate = Fate::BlackHole);
    }),
    Network {
        literal: true,
        ..network("v6-lame-literal", "packets to IPv6 hosts vanish; programs receive an IPv4 address", |world| {
            each(world, |site| site.v6[0].fate = Fate::BlackHole);
        })
    },
    network("dns-first-dead", "the first of two DNS servers is silent", |world| {
        let dead = Resolver { fate: Fate::BlackHole, ..Resolver::ORDINARY };
        world.resolvers = vec![dead, Resolver::ORDINARY];
    }),
    Network {
        manner: Manner::ServFailFirst,
        ..network("dns-servfail-first", "the DNS server fails at the first question for each record", |_| ())
    },
    Network {
        manner: Manner::GarbageFirst,
        ..network("dns-garbage-first", "bytes that do not parse arrive before each answer", |_| ())
    },
    Network {
        manner: Manner::WithoutEdns,
        ..network("dns-without-edns", "the DNS server refuses questions with EDNS", |_| ())
    },
    network("dns-truncated", "all answers are truncated over UDP and whole over TCP", |world| {
        each(world, |site| (site.a.reply, site.aaaa.reply) = (Reply::Truncated, Reply::Truncated));
    }),
    network("dns-5s", "every record takes 5 s", |world| slow(world, 5)),
    network("dns-8s", "every record takes 8 s", |world| slow(world, 8)),
    network("refused-1", "all hosts refuse, one address a family", |world| refused(world, 1)),
    network("refused-4", "all hosts refuse, four addresses a family", |world| refused(world, 4)),
    network("refused-8", "all hosts refuse, eight addresses a family", |world| refused(world, 8)),
    network("refused-30", "all hosts refuse, thirty addresses a family", |world| refused(world, 30)),
];

impl Network {
    /// The network, with one site.
    pub fn world(&self, seed: u64) -> World {
        let mut world = World::new(LINK, seed, vec![healthy_site(0)]);
        (self.change)(&mut world);
        world
    }
}

fn each(world: &mut World, change: impl Fn(&mut Site)) {
    world.sites.iter_mut().for_each(change);
}

fn slow(world: &mut World, seconds: u64) {
    let delay = Duration::from_secs(seconds);
    each(world, |site| (site.a.delay, site.aaaa.delay) = (delay, delay));
}

/// `count` addresses a family, next to each other, which all refuse.
fn refused(world: &mut World, count: u8) {
    let host = |addr: IpAddr| Host { addr, extra_rtt: HOST, fate: Fate::Refuses };
    each(world, |site| {
        site.v4 = (1..=count).map(|n| host(Ipv4Addr::new(198, 19, 0, n).into())).collect();
        let v6 = |n: u8| Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, n.into());
        site.v6 = (1..=count).map(|n| host(v6(n).into())).collect();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_unique_repeat_and_differ_from_the_healthy_one() {
        let healthy = ALL[0].world(1);
        for (i, network) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name != network.name), "{} twice", network.name);
            assert_eq!(network.world(3), network.world(3), "{}", network.name);
            let plain = network.world(1) == healthy && network.manner == Manner::Plain && !network.literal;
            assert_eq!(plain, network.name == "healthy", "{}", network.name);
        }
    }
}
