//! What tells the network that this host is on from others, read from the kernel; what it means is
//! [`headstart_core::path::identity`]'s business. Nothing is sent.

use crate::sys::netlink::{Netlink, NetlinkError, Route};
use headstart_core::path::identity::{Own, Surroundings, WayOut, prefix};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where to, to see how packets for the Internet leave: documentation addresses (RFC 5737, RFC 3849), to which nothing is
/// sent. Two a family: one may be the host's own or have a route of its own, as in a laboratory.
const FAR: [[IpAddr; 2]; 2] = [
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(203, 0, 113, 254))],
    [
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 0xfe)),
    ],
];

/// Looks around in the network namespace of the calling thread; `servers` are its DNS servers.
pub fn look(servers: &[SocketAddr]) -> Result<Surroundings, NetlinkError> {
    let mut netlink = Netlink::open()?;
    let mut way_to = |[one, other]: [IpAddr; 2]| match netlink.route_to(one)? {
        Some(way) => Ok(Some(way)),
        None => netlink.route_to(other),
    };
    let ways = FAR.map(&mut way_to);
    let mut below = Vec::new();
    // A route without a router is a tunnel, or a point-to-point link: what lies below it makes the difference.
    if ways.iter().any(|way| matches!(way, Ok(Some(route)) if route.gateway.is_none())) {
        for [far, _] in FAR {
            for router in netlink.routers(far)? {
                below.push(described(&mut netlink, router)?);
            }
        }
    }
    let mut way_out =
        |way: Result<Option<Route>, NetlinkError>| way?.map(|route| described(&mut netlink, route)).transpose();
    let [v4, v6] = ways;
    let (v4, v6) = (way_out(v4)?, way_out(v6)?);
    let own = own(&netlink.addresses()?);
    Ok(Surroundings { v4, v6, below, ssid: None, servers: servers.iter().map(SocketAddr::ip).collect(), own })
}

/// What `addresses` of interfaces are for each family.
fn own(addresses: &[IpAddr]) -> [Own; 2] {
    let of = |is_family: fn(&IpAddr) -> bool| {
        let kind = |ip: &IpAddr| match ip {
            _ if ip.is_loopback() => Own::None,
            IpAddr::V4(v4) if v4.is_link_local() => Own::OfLink,
            IpAddr::V6(v6) if v6.is_unicast_link_local() => Own::OfLink,
            _ => Own::Beyond,
        };
        addresses.iter().filter(|ip| is_family(ip)).map(kind).max().unwrap_or_default()
    };
    [of(IpAddr::is_ipv4), of(IpAddr::is_ipv6)]
}

fn described(netlink: &mut Netlink, route: Route) -> Result<WayOut, NetlinkError> {
    let hardware = match route.gateway {
        Some(gateway) => netlink.hardware_of(route.interface, gateway)?,
        None => None,
    };
    let length = match route.source {
        Some(source) => netlink.prefix_length(source)?,
        None => None,
    };
    let prefix = route.source.zip(length).map(|(source, length)| (prefix(source, length), length));
    Ok(WayOut { gateway: route.gateway, hardware, prefix, source: route.source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::{LOOPBACK, Mac, VethEnd, Via};
    use crate::sys::netns::NetNs;

    const ROUTER: Mac = [2, 0, 0, 0, 0, 9];

    #[test]
    fn looking_around_on_this_host_fails_for_no_reason_of_its_own() {
        let servers = [SocketAddr::from(([192, 0, 2, 53], 53))];
        let seen = look(&servers).unwrap();
        assert_eq!(seen.servers, [servers[0].ip()]);
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn a_host_with_an_address_of_the_documentation_has_its_routes_all_the_same() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let there = NetNs::create().unwrap();
        here.run(|| {
            let mut netlink = Netlink::open().unwrap();
            let end = |name, last, ns| VethEnd { name, mac: [2, 0, 0, 0, 0, last], ns };
            netlink.veth(end("one", 1, &here), end("two", 2, &there)).unwrap();
            let index = netlink.index("one").unwrap();
            netlink.up(index).unwrap();
            netlink.address(index, [192, 0, 2, 1].into(), 24).unwrap();
            netlink.route([0, 0, 0, 0].into(), 0, Via::Gateway([192, 0, 2, 9].into(), index)).unwrap();
            let seen = look(&[]).unwrap();
            assert_eq!(seen.v4.and_then(|way| way.gateway), Some([192, 0, 2, 9].into()));
            assert_eq!(seen.v6, None);
        })
        .unwrap();
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn a_family_without_a_way_out_reaches_the_neighbours_that_it_has_addresses_for() {
        use headstart_core::path::Family::{V4, V6};
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let there = NetNs::create().unwrap();
        here.run(|| {
            let mut netlink = Netlink::open().unwrap();
            let end = |name, last, ns| VethEnd { name, mac: [2, 0, 0, 0, 0, last], ns };
            netlink.veth(end("one", 1, &here), end("two", 2, &there)).unwrap();
            netlink.up(LOOPBACK).unwrap();
            assert_eq!(look(&[]).unwrap().own, [Own::None; 2], "loopback does not count");
            let index = netlink.index("one").unwrap();
            netlink.up(index).unwrap();
            netlink.address(index, IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]), 64).unwrap();
            let seen = look(&[]).unwrap();
            assert!(seen.v6.is_none() && seen.reaches(V6) && !seen.reaches(V4) && seen.v4_first());
        })
        .unwrap();
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn a_tunnel_over_another_router_is_another_network() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let there = NetNs::create().unwrap();
        here.run(|| {
            let mut netlink = Netlink::open().unwrap();
            for (n, [one, two]) in [["one", "two"], ["three", "four"]].into_iter().enumerate() {
                let end = |name, last, ns| VethEnd { name, mac: [2, 0, 0, 0, n as u8, last], ns };
                netlink.veth(end(one, 1, &here), end(two, 2, &there)).unwrap();
                let index = netlink.index(one).unwrap();
                netlink.up(index).unwrap();
                netlink.address(index, [198, 51, 100 + n as u8, 1].into(), 24).unwrap();
            }
            netlink.up(LOOPBACK).unwrap();
            let index = |netlink: &mut Netlink, name: &str| netlink.index(name).unwrap();
            let (first, second) = (index(&mut netlink, "one"), index(&mut netlink, "three"));
            let all = IpAddr::from([0, 0, 0, 0]);
            let routers = [IpAddr::from([198, 51, 100, 9]), IpAddr::from([198, 51, 101, 9])];
            netlink.route(all, 0, Via::Gateway(routers[0], first)).unwrap();
            let direct = look(&[]).unwrap();
            assert_eq!(direct.below, []);
            // A tunnel takes everything by two halves, as ours does; its interface may as well be a wire here.
            for half in [IpAddr::from([0, 0, 0, 0]), IpAddr::from([128, 0, 0, 0])] {
                netlink.route(half, 1, Via::Interface(second)).unwrap();
            }
            let over_one = look(&[]).unwrap();
            assert_eq!(over_one.below.len(), 1, "{over_one:?}");
            netlink.route(all, 0, Via::Gateway(routers[1], second)).unwrap();
            let over_other = look(&[]).unwrap();
            assert_eq!(over_other.v4, over_one.v4, "the tunnel is the same");
            let names = [direct.network(), over_one.network(), over_other.network()];
            assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
        })
        .unwrap();
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn a_host_that_comes_back_is_on_the_same_network_and_behind_another_router_on_another() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let there = NetNs::create().unwrap();
        here.run(|| {
            let nowhere = look(&[]).unwrap();
            assert_eq!((&nowhere.v4, &nowhere.v6), (&None, &None));
            let mut netlink = Netlink::open().unwrap();
            let one = VethEnd { name: "one", mac: [2, 0, 0, 0, 0, 1], ns: &here };
            netlink.veth(one, VethEnd { name: "two", mac: ROUTER, ns: &there }).unwrap();
            let index = netlink.index("one").unwrap();
            netlink.up(LOOPBACK).unwrap();
            netlink.up(index).unwrap();
            let (router, far) = (IpAddr::from([192, 0, 2, 129]), IpAddr::from([0, 0, 0, 0]));
            netlink.address(index, [192, 0, 2, 135].into(), 25).unwrap();
            netlink.route(far, 0, Via::Gateway(router, index)).unwrap();
            let unheard = look(&[]).unwrap();
            netlink.neighbour(index, router, ROUTER).unwrap();
            let heard = look(&[]).unwrap();
            assert!(heard.refines(&unheard) && heard.network() != unheard.network());
            let way = heard.v4.clone().unwrap();
            assert_eq!((way.hardware, way.prefix), (Some(ROUTER), Some(([192, 0, 2, 128].into(), 25))));
            // Another lease.
            netlink.delete_address(index, [192, 0, 2, 135].into(), 25).unwrap();
            assert_eq!(look(&[]).unwrap().v4, None);
            netlink.address(index, [192, 0, 2, 200].into(), 25).unwrap();
            netlink.route(far, 0, Via::Gateway(router, index)).unwrap();
            netlink.neighbour(index, router, ROUTER).unwrap();
            assert_eq!(look(&[]).unwrap().network(), heard.network());
            netlink.neighbour(index, router, [2, 0, 0, 0, 0, 8]).unwrap();
            assert_ne!(look(&[]).unwrap().network(), heard.network());
        })
        .unwrap();
    }
}
