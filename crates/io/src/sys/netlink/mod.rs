//! Interfaces, addresses, routes and neighbours of one network namespace, by rtnetlink.
//!
//! A [`Netlink`] speaks for the namespace that its thread was in when it was opened. What the lab and a room need to
//! change is here: every request is acknowledged and each error names what was asked for. What the supervisor needs to know is in
//! `look`, and notices of changes in [`Watch`].

mod look;
mod watch;

pub use look::{Interface, Route, TableRoute};
pub use watch::Watch;

use super::netns::NetNs;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope, CacheInfo,
};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::{AddressFamily as Family, SocketFlags, SocketType, socket_with};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

/// A socket's descriptor.
pub(crate) fn borrow(socket: &Socket) -> BorrowedFd<'_> {
    // SAFETY: the socket is open for as long as it is borrowed.
    unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) }
}

/// An Ethernet address.
pub type Mac = [u8; 6];

/// One end of a veth pair that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Name of the interface, at most 15 bytes.
    pub name: &'a str,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The namespace that it goes to.
    pub ns: &'a NetNs,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug)]
pub enum Via {
    /// To this gateway, on the interface with this index.
    Gateway(IpAddr, u32),
    /// Out of the interface with this index, which has no neighbours.
    Interface(u32),
    /// Unreachable: a sender gets the error that there is no route.
    Nowhere,
    /// Nowhere, which a sender is told so.
    Refused(Refusal),
    /// To this host itself: every address of the prefix is its own ("AnyIP").
    Local,
}

/// How a route refuses (ip-route(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// A sender gets the error that the host is unreachable (EHOSTUNREACH).
    Unreachable,
    /// That it is forbidden (EACCES).
    Prohibit,
    /// Packets vanish; a sender on this host gets EINVAL.
    BlackHole,
}

/// The MTU of a route (ip-route(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteMtu {
    /// The longest packet that the way takes.
    pub bytes: u32,
    /// It holds whatever routers say, and packets may be cut on the way.
    pub locked: bool,
}

/// The bit of RTAX_MTU in RTAX_LOCK (rtnetlink.h).
const LOCKED_MTU: u32 = 1 << 2;

/// What was asked of the kernel, and what it said.
#[derive(Debug, thiserror::Error)]
#[error("netlink: {what}: {source}")]
pub struct NetlinkError {
    what: String,
    source: io::Error,
}

impl NetlinkError {
    /// What the kernel said.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Whether what was to be removed is not there (ESRCH, ENOENT, EADDRNOTAVAIL: each kind of object has its own).
    pub fn is_missing(&self) -> bool {
        let missing = [rustix::io::Errno::SRCH, rustix::io::Errno::NOENT, rustix::io::Errno::ADDRNOTAVAIL];
        self.source.raw_os_error().is_some_and(|n| missing.iter().any(|e| e.raw_os_error() == n))
    }
}

/// A request socket.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        borrow(&self.socket)
    }
}

/// Index of the loopback interface in every namespace.
pub const LOOPBACK: u32 = 1;

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = Socket::new(NETLINK_ROUTE);
        Self::with(socket)
    }

    /// Speaks for the namespace in which `socket`, a fresh one of NETLINK_ROUTE, was made.
    pub fn over(socket: OwnedFd) -> Result<Self, NetlinkError> {
        // SAFETY: the descriptor is owned, and handed on.
        Self::with(Ok(unsafe { Socket::from_raw_fd(socket.into_raw_fd()) }))
    }

    fn with(socket: io::Result<Socket>) -> Result<Self, NetlinkError> {
        let open = || {
            let mut socket = socket?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Text for errors; old kernels do without.
            let _ = socket.set_ext_ack(true);
            Ok(socket)
        };
        let socket = open().map_err(|source| NetlinkError { what: "opening a socket".into(), source })?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Makes a veth pair whose ends are at once in the namespaces asked for; both still down.
    pub fn veth(&mut self, one: VethEnd<'_>, other: VethEnd<'_>) -> Result<(), NetlinkError> {
        let attributes = |end: VethEnd<'_>| {
            vec![
                LinkAttribute::IfName(end.name.to_owned()),
                LinkAttribute::Address(end.mac.to_vec()),
                LinkAttribute::NetNsFd(end.ns.as_raw_fd()),
            ]
        };
        let mut peer = LinkMessage::default();
        peer.attributes = attributes(other);
        let mut link = LinkMessage::default();
        link.attributes = attributes(one);
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let what = format!("making the veth pair {} - {}", one.name, other.name);
        self.request(NLM_F_CREATE | NLM_F_EXCL, RouteNetlinkMessage::NewLink(link), what)
    }

    /// Index of the interface `name`.
    pub fn index(&mut self, name: &str) -> Result<u32, NetlinkError> {
        // An ioctl on a fresh socket of the calling thread: simpler than a dump, and the same answer.
        let lookup = || {
            let socket = socket_with(Family::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            rustix::net::netdevice::name_to_index(socket, name)
        };
        lookup().map_err(|e| NetlinkError { what: format!("looking for the interface {name}"), source: e.into() })
    }

    /// Sets how large packets on an interface may be.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes.push(LinkAttribute::Mtu(mtu));
        self.request(0, RouteNetlinkMessage::SetLink(link), format!("giving interface {index} an MTU of {mtu}"))
    }

    /// Switches an interface on.
    pub fn up(&mut self, index: u32) -> Result<(), NetlinkError> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.request(0, RouteNetlinkMessage::SetLink(link), format!("switching on interface {index}"))
    }

    /// Sets the longest packet that an interface sends.
    pub fn mtu(&mut self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes.push(LinkAttribute::Mtu(mtu));
        self.request(0, RouteNetlinkMessage::SetLink(link), format!("setting the MTU of interface {index} to {mtu}"))
    }

    /// Gives an interface an address, usable at once: without duplicate address detection.
    pub fn address(&mut self, index: u32, ip: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
        self.give(index, ip, prefix, None)
    }

    /// The same of an address that is only used where it is chosen: it is deprecated (RFC 6724).
    pub fn spare_address(&mut self, index: u32, ip: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
        let mut lifetimes = CacheInfo::default();
        (lifetimes.ifa_preferred, lifetimes.ifa_valid) = (0, u32::MAX);
        self.give(index, ip, prefix, Some(AddressAttribute::CacheInfo(lifetimes)))
    }

    fn give(&mut self, index: u32, ip: IpAddr, prefix: u8, more: Option<AddressAttribute>) -> Result<(), NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family = family(ip);
        message.header.prefix_len = prefix;
        message.header.index = index;
        message.header.scope = AddressScope::Universe;
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        if ip.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        message.attributes.extend(more);
        let what = format!("giving {ip}/{prefix} to interface {index}");
        self.request(NLM_F_CREATE | NLM_F_REPLACE, RouteNetlinkMessage::NewAddress(message), what)
    }

    /// Takes an address from an interface, and with it the route to its own prefix.
    pub fn delete_address(&mut self, index: u32, ip: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family = family(ip);
        message.header.prefix_len = prefix;
        message.header.index = index;
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        let what = format!("taking {ip}/{prefix} from interface {index}");
        self.request(0, RouteNetlinkMessage::DelAddress(message), what)
    }

    /// Adds or replaces a route.
    pub fn route(&mut self, to: IpAddr, prefix: u8, via: Via) -> Result<(), NetlinkError> {
        let what = format!("routing {to}/{prefix} {via:?}");
        let message = RouteNetlinkMessage::NewRoute(route(to, prefix, via));
        self.request(NLM_F_CREATE | NLM_F_REPLACE, message, what)
    }

    /// Adds a route where there is none: one that another program has made stays, and is an error.
    pub fn new_route(&mut self, to: IpAddr, prefix: u8, via: Via) -> Result<(), NetlinkError> {
        let what = format!("routing {to}/{prefix} {via:?}, which no other table may route");
        let message = RouteNetlinkMessage::NewRoute(route(to, prefix, via));
        self.request(NLM_F_CREATE | NLM_F_EXCL, message, what)
    }

    /// Adds or replaces a route over which TCP connections use `congestion_control`, whatever the namespace's default is.
    pub fn route_with_congestion_control(
        &mut self,
        to: IpAddr,
        prefix: u8,
        via: Via,
        congestion_control: &str,
    ) -> Result<(), NetlinkError> {
        let what = format!("routing {to}/{prefix} {via:?} with congestion control {congestion_control}");
        let mut message = route(to, prefix, via);
        let metric = RouteMetric::CcAlgo(congestion_control.to_owned());
        message.attributes.push(RouteAttribute::Metrics(vec![metric]));
        self.request(NLM_F_CREATE | NLM_F_REPLACE, RouteNetlinkMessage::NewRoute(message), what)
    }

    /// Adds or replaces a route that has an MTU of its own.
    pub fn route_with_mtu(&mut self, to: IpAddr, prefix: u8, via: Via, mtu: RouteMtu) -> Result<(), NetlinkError> {
        let what = format!("routing {to}/{prefix} {via:?} with {mtu:?}");
        let mut message = route(to, prefix, via);
        let lock = mtu.locked.then_some(RouteMetric::Lock(LOCKED_MTU));
        message
            .attributes
            .push(RouteAttribute::Metrics([RouteMetric::Mtu(mtu.bytes)].into_iter().chain(lock).collect()));
        self.request(NLM_F_CREATE | NLM_F_REPLACE, RouteNetlinkMessage::NewRoute(message), what)
    }

    /// Removes a route.
    pub fn delete_route(&mut self, to: IpAddr, prefix: u8, via: Via) -> Result<(), NetlinkError> {
        let what = format!("removing the route to {to}/{prefix} {via:?}");
        self.request(0, RouteNetlinkMessage::DelRoute(route(to, prefix, via)), what)
    }

    /// Tells the kernel the Ethernet address of `ip` once and for all. A fresh veth otherwise holds up the first IPv6
    /// packets for 0.6 to 1 s (measured), even without duplicate address detection.
    pub fn neighbour(&mut self, index: u32, ip: IpAddr, mac: Mac) -> Result<(), NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(ip);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        let destination = match ip {
            IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
            IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
        };
        message.attributes =
            vec![NeighbourAttribute::Destination(destination), NeighbourAttribute::LinkLayerAddress(mac.to_vec())];
        let what = format!("setting the neighbour {ip} on interface {index}");
        self.request(NLM_F_CREATE | NLM_F_REPLACE, RouteNetlinkMessage::NewNeighbour(message), what)
    }

    /// Sends one request and waits for its acknowledgement.
    fn request(&mut self, flags: u16, message: RouteNetlinkMessage, what: String) -> Result<(), NetlinkError> {
        let bytes = self.bytes(NLM_F_ACK | flags, message);
        self.exchange(&bytes).map_err(|source| NetlinkError { what, source })
    }

    /// A request with the next number, as bytes.
    fn bytes(&mut self, flags: u16, message: RouteNetlinkMessage) -> Vec<u8> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        bytes
    }

    fn exchange(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send(bytes, 0)?;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            if let NetlinkPayload::Error(error) = answer.payload {
                return match error.code {
                    None => Ok(()),
                    Some(_) => Err(error.to_io()),
                };
            }
        }
    }
}

fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn route(to: IpAddr, prefix: u8, via: Via) -> RouteMessage {
    /// The table of this host's own addresses (rtnetlink.h).
    const RT_TABLE_LOCAL: u8 = 255;
    let mut message = RouteMessage::default();
    message.header.address_family = family(to);
    message.header.destination_prefix_length = prefix;
    message.header.protocol = RouteProtocol::Static;
    if prefix > 0 {
        message.attributes.push(RouteAttribute::Destination(RouteAddress::from(to)));
    }
    match via {
        Via::Gateway(gateway, index) => {
            message.header.table = RouteHeader::RT_TABLE_MAIN;
            message.header.scope = RouteScope::Universe;
            message.header.kind = RouteType::Unicast;
            message.attributes.push(RouteAttribute::Gateway(RouteAddress::from(gateway)));
            message.attributes.push(RouteAttribute::Oif(index));
        }
        Via::Interface(index) => {
            message.header.table = RouteHeader::RT_TABLE_MAIN;
            message.header.scope = if to.is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
            message.header.kind = RouteType::Unicast;
            message.attributes.push(RouteAttribute::Oif(index));
        }
        Via::Nowhere => return route(to, prefix, Via::Refused(Refusal::Unreachable)),
        Via::Refused(refusal) => {
            message.header.table = RouteHeader::RT_TABLE_MAIN;
            message.header.kind = match refusal {
                Refusal::Unreachable => RouteType::Unreachable,
                Refusal::Prohibit => RouteType::Prohibit,
                Refusal::BlackHole => RouteType::BlackHole,
            };
        }
        Via::Local => {
            message.header.table = RT_TABLE_LOCAL;
            message.header.scope = RouteScope::Host;
            message.header.kind = RouteType::Local;
            message.attributes.push(RouteAttribute::Oif(LOOPBACK));
        }
    }
    message
}
