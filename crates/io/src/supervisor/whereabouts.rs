//! The network monitor: on which network the host is, and what the connector is to hear of it when it changes. Woken by the kernel
//! alone, never by a timer; and the engine has it look before every question of a program, so that no answer is of another network.

use super::token::PLACE;
use crate::clock;
use crate::names::Names;
use crate::poll::{Interest, Poll};
use crate::surroundings::look;
use crate::sys::netlink::Watch;
use headstart_core::connect::Input;
use headstart_core::path::Family;
use headstart_core::path::identity::{Surroundings, WayOut};
use headstart_core::time::Duration;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getsockname, socket_with};
use std::net::{IpAddr, SocketAddr};

/// How often a router without a known hardware address is looked for again: the first query to a server behind it is enough for
/// the kernel to learn it, and some never answer.
const LOOKS: u32 = 16;
/// A difference between two readings of the clocks that no sleep has caused: they are read one after the other, and the
/// thread may be stopped in between.
const NO_SLEEP: Duration = Duration::from_millis(500);

/// What is known of where the host is.
#[derive(Debug)]
pub(super) struct Whereabouts {
    /// `None` where the kernel does not tell: then every look is a full one.
    watch: Option<Watch>,
    seen: Option<Surroundings>,
    /// The servers that the connector knows of.
    servers: Vec<SocketAddr>,
    /// Looks left for a router without a known hardware address.
    looks: u32,
    /// Time that the host has slept, up to the last look.
    slept: Duration,
}

impl Whereabouts {
    /// Listens from now on; nothing has been seen yet.
    pub fn new(poll: &Poll) -> Self {
        let watch = Watch::open().ok().filter(|watch| poll.add(watch, PLACE, Interest::Read).is_ok());
        Self { watch, seen: None, servers: Vec::new(), looks: 0, slept: clock::slept() }
    }

    /// Whether the host is configured for IPv4 and IPv6, as of the last look ([`Surroundings::is_configured`]).
    pub fn configured(&self) -> Option<(bool, bool)> {
        self.seen.as_ref().map(|seen| (seen.is_configured(Family::V4), seen.is_configured(Family::V6)))
    }

    /// Whether what was seen last may not be what is.
    pub fn is_stale(&mut self) -> bool {
        let changed = self.watch.as_ref().is_none_or(Watch::changed);
        if changed {
            self.looks = LOOKS;
        }
        let unheard = |way: &WayOut| way.gateway.is_some() && way.hardware.is_none();
        let Some(seen) = &self.seen else { return true };
        let ways = [&seen.v4, &seen.v6].into_iter().flatten().chain(&seen.below);
        let unheard = ways.into_iter().any(unheard) && self.looks > 0;
        self.looks = self.looks.saturating_sub(u32::from(unheard));
        changed || unheard
    }

    /// For how long the host has slept since this was asked last, if it has. Our clock stands still while it does (CLOCK_MONOTONIC,
    /// clock_gettime(2)).
    pub fn has_slept(&mut self) -> Option<Duration> {
        let slept = clock::slept();
        let meanwhile = slept.saturating_sub(self.slept);
        self.slept = slept;
        if meanwhile <= NO_SLEEP {
            return None;
        }
        self.looks = LOOKS;
        Some(meanwhile)
    }

    /// Looks on which network the host is, and which DNS servers it has (`names`). Returns what the connector is to hear of it.
    pub fn look(&mut self, names: &Names) -> impl Iterator<Item = Input> + use<> {
        let servers = names.servers();
        let now = look(servers).unwrap_or_else(|_| guess(servers));
        let before = self.seen.replace(now.clone());
        let others = (servers != self.servers).then(|| {
            self.servers = servers.to_vec();
            Input::Servers(u32::try_from(servers.len()).unwrap_or(1))
        });
        let (id, v4, v6) = (now.network(), now.reaches(Family::V4), now.reaches(Family::V6));
        let v4_first = now.v4_first() || names.prefers_v4();
        let network = match before {
            Some(before) if before == now => None,
            Some(before) if now.refines(&before) => Some(Input::Recognised(id)),
            _ => Some(Input::Network { id, v4, v6, v4_first }),
        };
        [others, Some(Input::Patience(names.patience())), network].into_iter().flatten()
    }
}

/// What can be seen without netlink: the addresses that this host would send from.
fn guess(servers: &[SocketAddr]) -> Surroundings {
    let way = |to: SocketAddr| {
        let own = own_address(to)?;
        let length = if own.is_ipv4() { 32 } else { 128 };
        Some(WayOut { gateway: None, hardware: None, prefix: Some((own, length)), source: Some(own) })
    };
    Surroundings {
        // RFC 5737 and RFC 3849: documentation addresses, to which nothing is sent; a UDP connect only looks for a route.
        v4: way(SocketAddr::from(([192, 0, 2, 1], 9))),
        v6: way(SocketAddr::new(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]), 9)),
        servers: servers.iter().map(SocketAddr::ip).collect(),
        ..Surroundings::default()
    }
}

/// The address that this host would send from to reach `to`; `None` without a route.
pub(super) fn own_address(to: SocketAddr) -> Option<IpAddr> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    connect(&socket, &to).ok()?;
    SocketAddr::try_from(getsockname(&socket).ok()?).ok().map(|addr| addr.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::engine::Engine;
    use crate::sys::netlink::{LOOPBACK, Netlink, VethEnd, Via};
    use crate::sys::netns::NetNs;
    use headstart_core::connect::{Settings, race};

    fn engine() -> Engine {
        let settings = Settings::of(race::find(race::DEFAULT).unwrap());
        Engine::new(settings, Names::from_folder(std::path::Path::new("/nonexistent"))).unwrap()
    }

    /// The tokens that are ready, after all that happens has happened.
    fn tokens(engine: &mut Engine) -> Vec<u64> {
        let mut tokens = Vec::new();
        let now = engine.clock.now();
        engine.poll.wait(&engine.clock, Some(now), &mut tokens).unwrap();
        tokens
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn the_kernel_wakes_us_when_the_network_changes_and_nothing_else_does() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let there = NetNs::create().unwrap();
        here.run(|| {
            let mut engine = engine();
            assert_eq!(engine.whereabouts.configured(), Some((false, false)));
            assert!(tokens(&mut engine).is_empty() && engine.deadline().is_none());
            let mut netlink = Netlink::open().unwrap();
            let one = VethEnd { name: "one", mac: [2, 0, 0, 0, 0, 1], ns: &here };
            netlink.veth(one, VethEnd { name: "two", mac: [2, 0, 0, 0, 0, 9], ns: &there }).unwrap();
            netlink.up(LOOPBACK).unwrap();
            let index = netlink.index("one").unwrap();
            netlink.up(index).unwrap();
            netlink.address(index, [192, 0, 2, 200].into(), 25).unwrap();
            netlink.route([0, 0, 0, 0].into(), 0, Via::Gateway([192, 0, 2, 129].into(), index)).unwrap();
            assert_eq!(tokens(&mut engine), [PLACE]);
            engine.look_around();
            assert_eq!(engine.whereabouts.configured(), Some((true, false)));
            assert!(tokens(&mut engine).is_empty() && engine.deadline().is_none());
        })
        .unwrap();
    }

    #[test]
    fn without_netlink_there_is_at_least_a_guess_that_does_not_change_by_itself() {
        let servers = [SocketAddr::from(([192, 0, 2, 53], 53))];
        assert_eq!(guess(&servers), guess(&servers));
    }
}
