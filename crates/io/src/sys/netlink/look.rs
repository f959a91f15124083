//! What the kernel would do: where it would send a packet, which router is next, which prefix an address belongs to.
//! Asks; changes nothing and sends nothing to the network.

use super::{LOCKED_MTU, Mac, Netlink, NetlinkError, Refusal, RouteMtu, family};
use netlink_packet_core::{NLM_F_DUMP, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;

/// The way that a packet would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The interface that it would leave by.
    pub interface: u32,
    /// The next router, if it would not be delivered on the link itself.
    pub gateway: Option<IpAddr>,
    /// The address that it would be sent from.
    pub source: Option<IpAddr>,
}

/// A route of the main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRoute {
    /// The first address of its prefix.
    pub to: IpAddr,
    /// Bits of the prefix.
    pub prefix: u8,
    /// Of several for one prefix, the one of the lowest is used.
    pub metric: u32,
    /// How it refuses; none where it leads somewhere.
    pub refusal: Option<Refusal>,
    /// The MTU that an administrator or a router has given it, if one has.
    pub mtu: Option<RouteMtu>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The longest packet that it sends.
    pub mtu: u32,
    /// Whether its packets have Ethernet headers; loopback's have, and are no Ethernet's.
    pub is_ethernet: bool,
    /// Whether it is switched on.
    pub is_up: bool,
}

impl Netlink {
    /// The routes of the main table, those for one host or many.
    pub fn main_table(&mut self) -> Result<Vec<TableRoute>, NetlinkError> {
        let found = self.answers(NLM_F_DUMP, RouteNetlinkMessage::GetRoute(RouteMessage::default()));
        let found = found.map_err(|source| NetlinkError { what: "asking for the routes".to_owned(), source })?;
        let routes = found.iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) => table_route(route),
            _ => None,
        });
        Ok(routes.collect())
    }

    /// The way of a packet to `to`, all tables and rules of the host considered; `None` if there is none.
    pub fn route_to(&mut self, to: IpAddr) -> Result<Option<Route>, NetlinkError> {
        self.route_by(to, Vec::new())
    }

    /// The same of a packet with this mark (SO_MARK), from this address of the host.
    pub fn route_with(
        &mut self,
        to: IpAddr,
        mark: Option<u32>,
        from: Option<IpAddr>,
    ) -> Result<Option<Route>, NetlinkError> {
        let from = from.map(|ip| RouteAttribute::Source(RouteAddress::from(ip)));
        self.route_by(to, from.into_iter().chain(mark.map(RouteAttribute::Mark)).collect())
    }

    /// The MTU that the route of such a packet has of its own, whatever routers have said of the path since; none if there is no route, too.
    pub fn mtu_of_route(&mut self, to: IpAddr, mark: Option<u32>) -> Result<Option<RouteMtu>, NetlinkError> {
        let route =
            self.ask_for_route(to, RouteFlags::FibMatch, mark.map(RouteAttribute::Mark).into_iter().collect())?;
        Ok(route.and_then(|route| own_mtu(&route)))
    }

    fn route_by(&mut self, to: IpAddr, by: Vec<RouteAttribute>) -> Result<Option<Route>, NetlinkError> {
        Ok(self.ask_for_route(to, RouteFlags::empty(), by)?.as_ref().map(way))
    }

    fn ask_for_route(
        &mut self,
        to: IpAddr,
        flags: RouteFlags,
        by: Vec<RouteAttribute>,
    ) -> Result<Option<RouteMessage>, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.flags = flags;
        message.header.address_family = family(to);
        message.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(RouteAddress::from(to)));
        if by.iter().any(|attribute| matches!(attribute, RouteAttribute::Source(_))) {
            message.header.source_prefix_length = message.header.destination_prefix_length;
        }
        message.attributes.extend(by);
        let unreachable = [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::ACCESS, Errno::INVAL, Errno::AFNOSUPPORT];
        let found = match self.answers(0, RouteNetlinkMessage::GetRoute(message)) {
            Ok(found) => found,
            Err(e) if unreachable.iter().any(|errno| Some(errno.raw_os_error()) == e.raw_os_error()) => {
                return Ok(None);
            }
            Err(source) => return Err(NetlinkError { what: format!("asking for the route to {to}"), source }),
        };
        Ok(found.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) if route.header.kind == RouteType::Unicast => Some(route),
            _ => None,
        }))
    }

    /// The ways out of the main table in the family of `like` that lead to a router: its default routes, whatever other routes
    /// and rules come before them.
    pub fn routers(&mut self, like: IpAddr) -> Result<Vec<Route>, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(like);
        let found = self.answers(NLM_F_DUMP, RouteNetlinkMessage::GetRoute(message));
        let found =
            found.map_err(|source| NetlinkError { what: "asking for the default routes".to_owned(), source })?;
        let default = |route: &RouteMessage| {
            let header = &route.header;
            (header.address_family, header.destination_prefix_length, header.table, header.kind)
                == (family(like), 0, RouteHeader::RT_TABLE_MAIN, RouteType::Unicast)
        };
        let routes = found.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) if default(&route) => Some(way(&route)),
            _ => None,
        });
        Ok(routes.filter(|route| route.gateway.is_some()).collect())
    }

    /// The address that a packet to `to` would be sent from if it left by `interface`; `None` if it cannot. Where no route leads
    /// there by that interface, the kernel takes the peer to be on its link.
    pub fn source_by(&mut self, interface: u32, to: IpAddr) -> Result<Option<IpAddr>, NetlinkError> {
        Ok(self.route_by(to, vec![RouteAttribute::Oif(interface)])?.and_then(|route| route.source))
    }

    /// The hardware address of `ip` on `interface`, if the kernel has it.
    pub fn hardware_of(&mut self, interface: u32, ip: IpAddr) -> Result<Option<Mac>, NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(ip);
        let what = || format!("asking for the neighbours on interface {interface}");
        let found = self.answers(NLM_F_DUMP, RouteNetlinkMessage::GetNeighbour(message));
        let found = found.map_err(|source| NetlinkError { what: what(), source })?;
        Ok(found.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewNeighbour(n) if n.header.ifindex == interface => hardware(&n, ip),
            _ => None,
        }))
    }

    /// The longest packet that an interface sends, if the kernel tells.
    pub fn mtu_of(&mut self, interface: u32) -> Result<Option<u32>, NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        let what = || format!("asking for the MTU of interface {interface}");
        let found = self.answers(0, RouteNetlinkMessage::GetLink(message));
        let found = found.map_err(|source| NetlinkError { what: what(), source })?;
        Ok(found.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => mtu(&link),
            _ => None,
        }))
    }

    /// All interfaces.
    pub fn interfaces(&mut self) -> Result<Vec<Interface>, NetlinkError> {
        let found = self.answers(NLM_F_DUMP, RouteNetlinkMessage::GetLink(LinkMessage::default()));
        let found = found.map_err(|source| NetlinkError { what: "asking for the interfaces".to_owned(), source })?;
        Ok(found
            .into_iter()
            .filter_map(
                |message| if let RouteNetlinkMessage::NewLink(link) = message { interface(&link) } else { None },
            )
            .collect())
    }

    /// The length of the prefix of this host's own address `ip`.
    pub fn prefix_length(&mut self, ip: IpAddr) -> Result<Option<u8>, NetlinkError> {
        let found = self.own(family(ip))?;
        Ok(found.iter().find(|own| is_of(own, ip)).map(|own| own.header.prefix_len))
    }

    /// The interfaces that have this address.
    pub fn interfaces_with(&mut self, ip: IpAddr) -> Result<Vec<u32>, NetlinkError> {
        let found = self.own(family(ip))?;
        Ok(found.iter().filter(|own| is_of(own, ip)).map(|own| own.header.index).collect())
    }

    /// The addresses of this host's interfaces, those of loopback too.
    pub fn addresses(&mut self) -> Result<Vec<IpAddr>, NetlinkError> {
        let own = self.own(AddressFamily::Unspec)?;
        let address = |own: &AddressMessage| {
            own.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(ip) => Some(*ip),
                _ => None,
            })
        };
        Ok(own.iter().filter_map(address).collect())
    }

    fn own(&mut self, family: AddressFamily) -> Result<Vec<AddressMessage>, NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family = family;
        let found = self.answers(NLM_F_DUMP, RouteNetlinkMessage::GetAddress(message));
        let found =
            found.map_err(|source| NetlinkError { what: "asking for this host's addresses".to_owned(), source })?;
        let addresses = found.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewAddress(own) => Some(own),
            _ => None,
        });
        Ok(addresses.collect())
    }

    /// Sends a question and collects its answers; what cannot be read is left out.
    fn answers(&mut self, flags: u16, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        let bytes = self.bytes(flags, message);
        self.socket.send(&bytes, 0)?;
        let mut found = Vec::new();
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            if answer.is_empty() {
                return Ok(found);
            }
            for piece in pieces(&answer) {
                let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(piece) else { continue };
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(found),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) => return Ok(found),
                    NetlinkPayload::InnerMessage(inner) => found.push(inner),
                    _ => {}
                }
            }
            // Only dumps are told their end.
            if flags & NLM_F_DUMP == 0 && !found.is_empty() {
                return Ok(found);
            }
        }
    }
}

fn mtu(link: &LinkMessage) -> Option<u32> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    })
}

fn interface(link: &LinkMessage) -> Option<Interface> {
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })?;
    let header = &link.header;
    let is_ethernet = header.link_layer_type == LinkLayerType::Ether;
    Some(Interface {
        index: header.index,
        name,
        mtu: mtu(link)?,
        is_ethernet,
        is_up: header.flags.contains(LinkFlags::Up),
    })
}

/// The messages in a datagram, each of which begins with its length in the host's byte order and is padded to four bytes
/// (netlink(7)).
fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let piece = bytes.get(..length).filter(|piece| !piece.is_empty())?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(piece)
    })
}

fn table_route(route: &RouteMessage) -> Option<TableRoute> {
    let header = &route.header;
    // What the kernel has learned of the way to one host is listed too.
    if header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let refusal = match header.kind {
        RouteType::Unicast => None,
        RouteType::Unreachable => Some(Refusal::Unreachable),
        RouteType::Prohibit => Some(Refusal::Prohibit),
        RouteType::BlackHole => Some(Refusal::BlackHole),
        _ => return None,
    };
    let mut to = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0u16; 8]),
        _ => return None,
    };
    let mut metric = 0;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(address) => to = ip_of(address)?,
            RouteAttribute::Priority(priority) => metric = *priority,
            _ => {}
        }
    }
    let is_main = header.table == RouteHeader::RT_TABLE_MAIN;
    let (prefix, mtu) = (header.destination_prefix_length, own_mtu(route));
    is_main.then_some(TableRoute { to, prefix, metric, refusal, mtu })
}

/// The MTU of a route's own.
fn own_mtu(route: &RouteMessage) -> Option<RouteMtu> {
    let metrics = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) => Some(metrics),
        _ => None,
    })?;
    let bytes = metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(bytes) => Some(*bytes),
        _ => None,
    })?;
    let is_lock = |metric: &RouteMetric| matches!(metric, RouteMetric::Lock(locked) if locked & LOCKED_MTU != 0);
    Some(RouteMtu { bytes, locked: metrics.iter().any(is_lock) })
}

fn way(route: &RouteMessage) -> Route {
    let mut way = Route::default();
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(interface) => way.interface = *interface,
            RouteAttribute::Gateway(address) => way.gateway = ip_of(address),
            RouteAttribute::PrefSource(address) => way.source = ip_of(address),
            // An IPv4 route by an IPv6 router (RFC 5549).
            RouteAttribute::Via(netlink_packet_route::route::RouteVia::Inet6(ip)) => way.gateway = Some((*ip).into()),
            _ => {}
        }
    }
    way
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn hardware(neighbour: &NeighbourMessage, ip: IpAddr) -> Option<Mac> {
    let is_it = neighbour.attributes.iter().any(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(n)) => ip == IpAddr::V4(*n),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(n)) => ip == IpAddr::V6(*n),
        _ => false,
    });
    neighbour.attributes.iter().filter(|_| is_it).find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => Mac::try_from(bytes.as_slice()).ok(),
        _ => None,
    })
}

/// Whether `message` is about `ip`; on point-to-point links `Address` is the other end's.
fn is_of(message: &AddressMessage, ip: IpAddr) -> bool {
    let local = message.attributes.iter().find_map(|a| match a {
        AddressAttribute::Local(local) => Some(*local),
        _ => None,
    });
    let address = message.attributes.iter().find_map(|a| match a {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    local.or(address) == Some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::{LOOPBACK, VethEnd, Via};
    use crate::sys::netns::NetNs;

    #[test]
    fn pieces_end_with_what_is_no_message() {
        let two: Vec<u8> = [&6u32.to_ne_bytes()[..], &[1, 2, 0, 0], &4u32.to_ne_bytes()[..]].concat();
        assert_eq!(pieces(&two).map(<[u8]>::len).collect::<Vec<_>>(), [6, 4]);
        assert_eq!(pieces(&[]).count() + pieces(&0u32.to_ne_bytes()).count() + pieces(&[9, 0, 0]).count(), 0);
        assert_eq!(pieces(&u32::MAX.to_ne_bytes()).count(), 0, "longer than the datagram");
    }

    #[test]
    fn what_the_kernel_has_learned_of_a_path_is_no_route_of_the_table() {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.destination_prefix_length = 32;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.kind = RouteType::Unicast;
        let metrics = vec![RouteMetric::Lock(LOCKED_MTU | 1 << 3), RouteMetric::Mtu(1300)];
        message.attributes.push(RouteAttribute::Metrics(metrics));
        assert_eq!(table_route(&message).unwrap().mtu, Some(RouteMtu { bytes: 1300, locked: true }));
        message.header.flags = RouteFlags::Cloned;
        assert_eq!(table_route(&message), None);
    }

    #[test]
    fn the_way_to_this_host_itself_is_no_way_out() {
        let mut netlink = Netlink::open().unwrap();
        assert_eq!(netlink.route_to([127, 0, 0, 1].into()).unwrap(), None, "local, not unicast");
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn the_next_router_its_hardware_address_and_our_prefix_are_told() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let there = NetNs::create().unwrap();
        let (mac, router): (Mac, IpAddr) = ([2, 0, 0, 0, 0, 9], [192, 0, 2, 1].into());
        here.run(|| {
            let mut netlink = Netlink::open().unwrap();
            let to = [198, 51, 100, 1].into();
            assert_eq!(netlink.route_to(to).unwrap(), None, "no route yet");
            let one = VethEnd { name: "one", mac: [2, 0, 0, 0, 0, 1], ns: &here };
            netlink.veth(one, VethEnd { name: "two", mac, ns: &there }).unwrap();
            there
                .run(|| {
                    let mut netlink = Netlink::open().unwrap();
                    let two = netlink.index("two").unwrap();
                    netlink.up(two).unwrap();
                })
                .unwrap();
            let index = netlink.index("one").unwrap();
            netlink.up(LOOPBACK).unwrap();
            netlink.up(index).unwrap();
            netlink.address(index, [192, 0, 2, 7].into(), 24).unwrap();
            netlink.route([0, 0, 0, 0].into(), 0, Via::Gateway(router, index)).unwrap();
            let way = netlink.route_to(to).unwrap().unwrap();
            let expected = Route { interface: index, gateway: Some(router), source: Some([192, 0, 2, 7].into()) };
            assert_eq!(way, expected);
            assert_eq!(netlink.routers(router).unwrap(), [Route { source: None, ..expected }]);
            assert_eq!(netlink.source_by(index, to).unwrap(), expected.source);
            assert_eq!(netlink.hardware_of(index, router).unwrap(), None, "not heard yet");
            netlink.neighbour(index, router, mac).unwrap();
            assert_eq!(netlink.hardware_of(index, router).unwrap(), Some(mac));
            assert_eq!(netlink.prefix_length([192, 0, 2, 7].into()).unwrap(), Some(24));
            assert_eq!(netlink.prefix_length([192, 0, 2, 8].into()).unwrap(), None);
        })
        .unwrap();
    }
}
