//! Routes by which the host refuses (`unreachable`, `prohibit`, `blackhole` of ip-route(8)) or that have an MTU of their own, copied into an
//! [`Enclosure`](super::Enclosure): its programs get the same error at the same call, from their own kernel, which cuts packets as the host's
//! would.
//!
//! Those of the main table, and the routes in them that lead elsewhere. Followed as they change; not where there are so many routes that
//! reading them takes longer than measuring may. Not copied: refusing default routes, other tables, and rules: what these refuse is refused when
//! the forwarder connects, as an unreachable host.

use crate::sys::netlink::{Netlink, NetlinkError, Refusal, RouteMtu, TableRoute, Via, Watch};
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

/// The default routes, which an enclosure has by itself.
const DEFAULTS: [(IpAddr, u8); 2] = [(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)];

/// Where a prefix leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    /// Out of the interface.
    Out,
    /// Out of it, by packets of this length.
    Narrow(RouteMtu),
    /// Nowhere.
    Refused(Refusal),
}

impl Leads {
    /// How a route of the host leads, where programs have an interface with this MTU.
    fn of(route: &TableRoute, mtu: u32) -> Self {
        match (route.refusal, route.mtu) {
            (Some(refusal), _) => Self::Refused(refusal),
            (None, Some(own)) if own.bytes < mtu || own.locked => {
                Self::Narrow(RouteMtu { bytes: own.bytes.min(mtu), ..own })
            }
            _ => Self::Out,
        }
    }

    fn refuses(self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// What is there for each prefix.
type Copies = BTreeMap<(IpAddr, u8), Leads>;

/// See the module.
#[derive(Debug)]
pub struct Routes {
    outside: Netlink,
    inside: Netlink,
    /// The interface inside, and its MTU.
    interface: u32,
    mtu: u32,
    /// Families of which there is an address inside.
    families: [bool; 2],
    copied: Copies,
    watch: Option<Watch>,
    /// When the routes are read again, if they have changed, and not before when.
    again: Option<Instant>,
    rests: Instant,
}

impl AsFd for Routes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_ref().map_or(self.outside.as_fd(), AsFd::as_fd)
    }
}

impl Routes {
    /// Copies the routes of the namespace that `outside` speaks for into that of `inside`, which has these addresses on an interface with this
    /// MTU, and default routes out of it.
    pub(super) fn copy(
        outside: Netlink,
        (inside, interface): (Netlink, u32),
        addresses: &[IpAddr],
        mtu: u32,
    ) -> Result<Self, NetlinkError> {
        let families = [true, false].map(|v4| addresses.iter().any(|ip| ip.is_ipv4() == v4));
        // Before they are read: what changes meanwhile is read again.
        let watch = Watch::open().ok();
        let (copied, again, rests) = (Copies::from(DEFAULTS.map(|to| (to, Leads::Out))), None, Instant::ZERO);
        let mut all = Self { outside, inside, interface, mtu, families, copied, watch, again, rests };
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
        let mut wanted = plan(&routes, self.mtu);
        // There is a way out at any time, also where the host has none now.
        DEFAULTS.into_iter().for_each(|to| _ = wanted.entry(to).or_insert(Leads::Out));
        wanted.retain(|(to, _), _| has_family(*to));
        let old = std::mem::take(&mut self.copied);
        for (to, leads) in &old {
            // One that leads out takes the place of another.
            if wanted.get(to).is_none_or(|new| new != leads && (new.refuses() || leads.refuses())) {
                let _ = self.inside.delete_route(to.0, to.1, self.via(*leads));
            }
        }
        for (to, leads) in wanted {
            if old.get(&to) == Some(&leads) || self.lead(to, leads).is_ok() {
                self.copied.insert(to, leads);
            }
        }
        Ok(())
    }

    fn lead(&mut self, (to, prefix): (IpAddr, u8), leads: Leads) -> Result<(), NetlinkError> {
        let via = self.via(leads);
        match leads {
            Leads::Narrow(mtu) => self.inside.route_with_mtu(to, prefix, via, mtu),
            Leads::Out | Leads::Refused(_) => self.inside.route(to, prefix, via),
        }
    }

    fn via(&self, leads: Leads) -> Via {
        match leads {
            Leads::Refused(refusal) => Via::Refused(refusal),
            Leads::Out | Leads::Narrow(_) => Via::Interface(self.interface),
        }
    }
}

/// What is to be copied of a table: of each prefix the route that is used, if it does not only lead out, or if one that contains it does not.
fn plan(routes: &[TableRoute], mtu: u32) -> Copies {
    let mut used: BTreeMap<(IpAddr, u8), &TableRoute> = BTreeMap::new();
    for route in routes.iter().filter(|route| route.prefix > 0 || route.refusal.is_none()) {
        let best = used.entry((route.to, route.prefix)).or_insert(route);
        if route.metric < best.metric {
            *best = route;
        }
    }
    let all: Copies = used.into_iter().map(|(to, route)| (to, Leads::of(route, mtu))).collect();
    let differ = all.iter().filter(|(_, leads)| **leads != Leads::Out).map(|(to, _)| *to);
    let differ: BTreeSet<(IpAddr, u8)> = differ.take(MOST).collect();
    let lengths: BTreeSet<u8> = differ.iter().map(|(_, prefix)| *prefix).collect();
    let is_within =
        |(to, prefix): (IpAddr, u8)| lengths.range(..prefix).any(|len| differ.contains(&(cut(to, *len), *len)));
    all.into_iter().filter(|(to, _)| differ.contains(to) || is_within(*to)).take(MOST).collect()
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
        TableRoute { to: to.parse().unwrap(), prefix: prefix.parse().unwrap(), metric, refusal, mtu: None }
    }

    fn narrow(text: &str, bytes: u32, locked: bool) -> TableRoute {
        TableRoute { mtu: Some(RouteMtu { bytes, locked }), ..route(text, 0, None) }
    }

    /// The plan for an interface with an MTU of 1500, in words.
    fn planned(routes: &[TableRoute]) -> Vec<String> {
        let words = |leads| match leads {
            Leads::Out => "out".to_owned(),
            Leads::Narrow(mtu) => format!("{}{}", mtu.bytes, if mtu.locked { " locked" } else { "" }),
            Leads::Refused(refusal) => format!("{refusal:?}"),
        };
        plan(routes, 1500).iter().map(|((to, prefix), leads)| format!("{to}/{prefix} {}", words(*leads))).collect()
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
        let expected = [
            "10.0.0.0/8 Unreachable",
            "10.1.0.0/16 out",
            "10.1.2.0/24 BlackHole",
            "10.1.2.3/32 out",
            "203.0.113.0/24 Prohibit",
            "2001:db8::/32 Prohibit",
            "2001:db8:5::/48 out",
        ];
        assert_eq!(planned(&all), expected);
        assert_eq!(plan(&all[..1], 1500), Copies::new());
    }

    #[test]
    fn what_has_an_mtu_of_its_own_is_copied_with_what_is_wider_in_it() {
        let all = [
            route("0.0.0.0/0", 0, None),
            narrow("10.0.0.0/8", 1300, false),
            route("10.1.0.0/16", 0, None),
            narrow("10.2.0.0/16", 1280, true),
            route("192.0.2.0/24", 0, None),
            // As long as the interface inside, or longer: that one's holds.
            narrow("198.51.100.0/24", 1500, false),
            narrow("198.51.101.0/24", 9000, true),
            narrow("::/0", 1492, false),
            route("2001:db8::/64", 0, None),
        ];
        let expected = [
            "10.0.0.0/8 1300",
            "10.1.0.0/16 out",
            "10.2.0.0/16 1280 locked",
            "198.51.101.0/24 1500 locked",
            "::/0 1492",
            "2001:db8::/64 out",
        ];
        assert_eq!(planned(&all), expected);
    }

    /// What a program gets that sends there.
    fn sends(to: &str) -> Option<i32> {
        let socket = UdpSocket::bind(if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
        let to: IpAddr = to.parse().unwrap();
        socket.send_to(b"x", (to, 9)).err().and_then(|why| why.raw_os_error())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn addresses() -> [IpAddr; 2] {
        ["192.0.2.7", "2001:db8:ffff::7"].map(ip)
    }

    /// Furnishes the calling thread's namespace as an enclosure is.
    fn furnish() -> (Tun, Netlink, u32) {
        let mut netlink = Netlink::open().unwrap();
        netlink.up(LOOPBACK).unwrap();
        let tun = Tun::create("eth0", 64).unwrap();
        let index = netlink.index("eth0").unwrap();
        netlink.up(index).unwrap();
        for (ip, (any, _)) in addresses().into_iter().zip(DEFAULTS) {
            netlink.address(index, ip, if ip.is_ipv4() { 32 } else { 128 }).unwrap();
            netlink.route(any, 0, Via::Interface(index)).unwrap();
        }
        (tun, netlink, index)
    }

    /// The longest datagram that a program may send there.
    fn takes(to: &str) -> u32 {
        let socket = UdpSocket::bind(if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
        socket.connect((ip(to), 9)).unwrap();
        crate::forward::sockets::path_mtu(&socket, ip(to).is_ipv4()).unwrap()
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn packets_of_programs_are_as_long_as_the_routes_of_the_host_take_and_changes_are_followed() {
        let Ok(outside) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let inside = NetNs::create().unwrap();
        let (_out, mut host, out) = outside.run(furnish).unwrap();
        let (_tun, netlink, index) = inside.run(furnish).unwrap();
        let mut narrow = |to: (IpAddr, u8), bytes| {
            host.route_with_mtu(to.0, to.1, Via::Interface(out), RouteMtu { bytes, locked: false }).unwrap();
        };
        narrow((ip("198.51.0.0"), 24), 1300);
        narrow((ip("2001:db8::"), 48), 1300);
        let copy = || Routes::copy(Netlink::open().unwrap(), (netlink, index), &addresses(), 1500).unwrap();
        let mut all = outside.run(copy).unwrap();
        let places = ["198.51.0.1", "198.51.1.1", "2001:db8::1", "2001:db8:1::1"];
        let both = || [&outside, &inside].map(|ns| ns.run(|| places.map(takes)).unwrap());
        assert_eq!(both(), [[1300, 1500, 1300, 1500]; 2]);
        // The default routes too, which are never without one inside.
        let mut now = Instant::from_millis(50);
        DEFAULTS.into_iter().for_each(|to| narrow(to, 1400));
        narrow((ip("198.51.0.0"), 24), 1280);
        let mut look = |all: &mut Routes| {
            all.changed(now);
            now = all.deadline().unwrap().at;
            all.look(now);
        };
        look(&mut all);
        assert_eq!(both(), [[1280, 1400, 1300, 1400]; 2]);
        host.delete_route(ip("198.51.0.0"), 24, Via::Interface(out)).unwrap();
        host.delete_route(DEFAULTS[1].0, 0, Via::Interface(out)).unwrap();
        host.route(DEFAULTS[0].0, 0, Via::Interface(out)).unwrap();
        look(&mut all);
        assert_eq!(inside.run(|| places.map(takes)).unwrap(), [1500, 1500, 1300, 1500]);
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn programs_inside_are_refused_as_outside_and_changes_are_followed() {
        let Ok(outside) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let inside = NetNs::create().unwrap();
        let (_out, mut host, out) = outside.run(furnish).unwrap();
        let (_tun, netlink, index) = inside.run(furnish).unwrap();
        let refusals = [Refusal::Unreachable, Refusal::Prohibit, Refusal::BlackHole];
        for (n, refusal) in refusals.into_iter().enumerate() {
            host.route(ip(&format!("198.51.{n}.0")), 24, Via::Refused(refusal)).unwrap();
            host.route(ip(&format!("2001:db8:{n}::")), 48, Via::Refused(refusal)).unwrap();
        }
        host.route(ip("198.51.0.128"), 25, Via::Interface(out)).unwrap();
        let copy = || Routes::copy(Netlink::open().unwrap(), (netlink, index), &addresses(), 1500).unwrap();
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
