//! Routes by which the host refuses (`unreachable`, `prohibit`, `blackhole` of ip-route(8)), copied into an [`Enclosure`](super::Enclosure): its
//! programs get the same error at the same call, from their own kernel.
//!
//! Those of the main table, and the routes in them that lead somewhere. Followed as they change; not where there are so many routes that
//! reading them takes longer than measuring may. Not copied: refusing default routes, other tables, and rules: what these refuse is refused when
//! the forwarder connects, as an unreachable host.

use crate::sys::netlink::{Netlink, NetlinkError, Refusal, TableRoute, Via, Watch};
use headstart_core::machine::Deadline;
use headstart_core::time::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// Routes that are copied.
const MOST: usize = 4096;
/// Routes of a host whose changes are followed.
const MOST_FOLLOWED: usize = 8192;
/// How long after a change the routes are read, since one seldom comes alone, and how long after the last time.
const SOON: Duration = Duration::from_millis(5);
const APART: Duration = Duration::from_secs(1);

/// Where a prefix leads: out of the interface, or nowhere.
type Copies = BTreeMap<(IpAddr, u8), Option<Refusal>>;

/// See the module.
#[derive(Debug)]
pub struct Refusals {
    outside: Netlink,
    inside: Netlink,
    /// The interface inside.
    interface: u32,
    /// Families of which there is an address inside.
    families: [bool; 2],
    copied: Copies,
    watch: Option<Watch>,
    /// When the routes are read again, if they have changed, and not before when.
    again: Option<Instant>,
    rests: Instant,
}

impl AsFd for Refusals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_ref().map_or(self.outside.as_fd(), AsFd::as_fd)
    }
}

impl Refusals {
    /// Copies the routes of the namespace that `outside` speaks for into that of `inside`, which has these addresses on an interface.
    pub(super) fn copy(
        outside: Netlink,
        (inside, interface): (Netlink, u32),
        addresses: &[IpAddr],
    ) -> Result<Self, NetlinkError> {
        let families = [true, false].map(|v4| addresses.iter().any(|ip| ip.is_ipv4() == v4));
        // Before they are read: what changes meanwhile is read again.
        let watch = Watch::open().ok();
        let (copied, again, rests) = (Copies::new(), None, Instant::ZERO);
        let mut all = Self { outside, inside, interface, families, copied, watch, again, rests };
        all.read()?;
        Ok(all)
    }

    /// Whether changes are followed, so that it is to be listened to.
    pub(super) fn follows(&self) -> bool {
        self.watch.is_some()
    }

    /// Something has changed, perhaps these routes.
    pub(super) fn changed(&mut self, now: Instant) {
        if self.watch.as_ref().is_some_and(Watch::changed) {
            self.again.get_or_insert((now + SOON).max(self.rests));
        }
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.again.map(|at| Deadline { at, why: "routes of the host" })
    }

    /// Reads them again, if it is time to.
    pub(super) fn look(&mut self, now: Instant) {
        if self.again.is_some_and(|at| now >= at) {
            (self.again, self.rests) = (None, now + APART);
            // What cannot be read now stays as it was.
            let _ = self.read();
        }
    }

    fn read(&mut self) -> Result<(), NetlinkError> {
        let routes = self.outside.main_table()?;
        if routes.len() > MOST_FOLLOWED {
            self.watch = None;
        }
        let has_family = |ip: IpAddr| self.families[usize::from(ip.is_ipv6())];
        let mut wanted = plan(&routes);
        wanted.retain(|(to, _), _| has_family(*to));
        let via = |refusal: Option<Refusal>| refusal.map_or(Via::Interface(self.interface), Via::Refused);
        let old = std::mem::take(&mut self.copied);
        for ((to, prefix), leads) in &old {
            if wanted.get(&(*to, *prefix)) != Some(leads) {
                let _ = self.inside.delete_route(*to, *prefix, via(*leads));
            }
        }
        for ((to, prefix), leads) in wanted {
            let is_there = old.get(&(to, prefix)) == Some(&leads);
            if is_there || self.inside.route(to, prefix, via(leads)).is_ok() {
                self.copied.insert((to, prefix), leads);
            }
        }
        Ok(())
    }
}

/// What is to be copied of a table: of each prefix the route that is used, if it refuses, or if one that contains it does.
fn plan(routes: &[TableRoute]) -> Copies {
    let mut used: BTreeMap<(IpAddr, u8), &TableRoute> = BTreeMap::new();
    for route in routes.iter().filter(|route| route.prefix > 0) {
        let best = used.entry((route.to, route.prefix)).or_insert(route);
        if route.metric < best.metric {
            *best = route;
        }
    }
    let refusing = |one: &(&(IpAddr, u8), &&TableRoute)| one.1.refusal.is_some();
    let refused: BTreeSet<(IpAddr, u8)> = used.iter().filter(refusing).map(|(prefix, _)| *prefix).take(MOST).collect();
    let shortest = refused.iter().map(|(_, prefix)| *prefix).min().unwrap_or(u8::MAX);
    let is_within = |(to, prefix): (IpAddr, u8)| (shortest..prefix).any(|len| refused.contains(&(cut(to, len), len)));
    let wanted = used.into_iter().filter(|(prefix, _)| refused.contains(prefix) || is_within(*prefix));
    wanted.map(|(prefix, route)| (prefix, route.refusal)).take(MOST).collect()
}

/// The first bits of an address.
fn cut(ip: IpAddr, len: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            Ipv4Addr::from_bits(ip.to_bits() & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)).into()
        }
        IpAddr::V6(ip) => {
            Ipv6Addr::from_bits(ip.to_bits() & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::LOOPBACK;
    use crate::sys::netns::NetNs;
    use crate::sys::tun::Tun;
    use std::net::UdpSocket;

    fn route(text: &str, metric: u32, refusal: Option<Refusal>) -> TableRoute {
        let (to, prefix) = text.split_once('/').unwrap();
        TableRoute { to: to.parse().unwrap(), prefix: prefix.parse().unwrap(), metric, refusal }
    }

    #[test]
    fn what_refuses_is_copied_with_what_leads_out_of_it_and_nothing_else() {
        let refuses = Some(Refusal::Unreachable);
        let all = [
            route("0.0.0.0/0", 9, None),
            route("10.0.0.0/8", 0, refuses),
            route("10.1.0.0/16", 0, None),
            route("10.1.2.0/24", 0, Some(Refusal::BlackHole)),
            route("10.1.2.3/32", 0, None),
            route("192.0.2.0/24", 0, None),
            // Of two for one prefix the kernel uses that of the lower metric.
            route("198.51.100.0/24", 5, Some(Refusal::Prohibit)),
            route("198.51.100.0/24", 4, None),
            route("203.0.113.0/24", 4, Some(Refusal::Prohibit)),
            route("203.0.113.0/24", 5, None),
            route("0.0.0.0/0", 99, refuses),
            route("2001:db8::/32", 1024, Some(Refusal::Prohibit)),
            route("2001:db8:5::/48", 1024, None),
            route("2001:db9::/32", 1024, None),
        ];
        let planned: Vec<String> = plan(&all)
            .iter()
            .map(|((to, prefix), leads)| format!("{to}/{prefix} {}", leads.map_or("out".into(), |r| format!("{r:?}"))))
            .collect();
        let expected = [
            "10.0.0.0/8 Unreachable",
            "10.1.0.0/16 out",
            "10.1.2.0/24 BlackHole",
            "10.1.2.3/32 out",
            "203.0.113.0/24 Prohibit",
            "2001:db8::/32 Prohibit",
            "2001:db8:5::/48 out",
        ];
        assert_eq!(planned, expected);
        assert_eq!(plan(&all[..1]), Copies::new());
    }

    /// What a program gets that sends there.
    fn sends(to: &str) -> Option<i32> {
        let socket = UdpSocket::bind(if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
        let to: IpAddr = to.parse().unwrap();
        socket.send_to(b"x", (to, 9)).err().and_then(|why| why.raw_os_error())
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn programs_inside_are_refused_as_outside_and_changes_are_followed() {
        let Ok(outside) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let inside = NetNs::create().unwrap();
        let addresses: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8:ffff::7".parse().unwrap()];
        let furnish = || {
            let mut netlink = Netlink::open().unwrap();
            netlink.up(LOOPBACK).unwrap();
            let tun = Tun::create("eth0", 64).unwrap();
            let index = netlink.index("eth0").unwrap();
            netlink.up(index).unwrap();
            for ip in addresses {
                netlink.address(index, ip, if ip.is_ipv4() { 32 } else { 128 }).unwrap();
                let any: IpAddr = if ip.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
                netlink.route(any, 0, Via::Interface(index)).unwrap();
            }
            (tun, netlink, index)
        };
        let (_out, mut host, out) = outside.run(furnish).unwrap();
        let (_tun, netlink, index) = inside.run(furnish).unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let refusals = [Refusal::Unreachable, Refusal::Prohibit, Refusal::BlackHole];
        for (n, refusal) in refusals.into_iter().enumerate() {
            host.route(ip(&format!("198.51.{n}.0")), 24, Via::Refused(refusal)).unwrap();
            host.route(ip(&format!("2001:db8:{n}::")), 48, Via::Refused(refusal)).unwrap();
        }
        host.route(ip("198.51.0.128"), 25, Via::Interface(out)).unwrap();
        let copy = || Refusals::copy(Netlink::open().unwrap(), (netlink, index), &addresses).unwrap();
        let mut all = outside.run(copy).unwrap();
        let places = ["198.51.0.1", "198.51.0.129", "198.51.1.1", "198.51.2.1", "198.51.9.1"];
        let places = [&places[..], &["2001:db8::1", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:9::1"]].concat();
        let both =
            || [&outside, &inside].map(|ns| ns.run(|| places.iter().map(|to| sends(to)).collect::<Vec<_>>()).unwrap());
        let [here, there] = both();
        assert_eq!(here, there);
        let errors = [libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL].map(Some);
        assert_eq!([here[0], here[2], here[3]], errors);
        assert_eq!((here[1], here[4]), (None, None));
        // One goes, one comes, and one refuses otherwise.
        let mut now = Instant::from_millis(50);
        host.delete_route(ip("198.51.1.0"), 24, Via::Refused(Refusal::Prohibit)).unwrap();
        host.route(ip("198.51.9.0"), 24, Via::Refused(Refusal::BlackHole)).unwrap();
        host.delete_route(ip("2001:db8:2::"), 48, Via::Refused(Refusal::BlackHole)).unwrap();
        host.route(ip("2001:db8:2::"), 48, Via::Refused(Refusal::Prohibit)).unwrap();
        all.changed(now);
        now = all.deadline().unwrap().at;
        all.look(now);
        let [here, there] = both();
        assert_eq!(here, there);
        assert_eq!((here[2], here[4], here[7]), (None, Some(libc::EINVAL), Some(libc::EACCES)));
        // Another change is not read at once again.
        host.delete_route(ip("198.51.9.0"), 24, Via::Refused(Refusal::BlackHole)).unwrap();
        all.changed(now);
        assert_eq!(all.deadline().unwrap().at, now + APART);
    }
}
