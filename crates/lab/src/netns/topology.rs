//! The wires: client namespace - veth - emulator namespace - veth - server namespace (or, in a nested lab, the client
//! namespace of the lab around it).
//!
//! Both families, global addresses, default routes, permanent neighbours and no duplicate address detection, so the
//! first packet of either family is as quick as any other. Nothing has a name in the file system: the namespaces live as
//! long as the handles in [`Wires`] and the processes inside.

use super::Error;
use super::addressing::{Block, Ends, MOST_DNS_SERVERS, dns_server};
use super::settings::PortKind;
use super::switch::Port;
use super::worker::Ports;
use headstart_core::path::Family;
use headstart_io::sys::ethtool::offloads_off;
use headstart_io::sys::netlink::{LOOPBACK, Mac, Netlink, NetlinkError, VethEnd, Via};
use headstart_io::sys::netns::NetNs;
use headstart_io::sys::packet::PacketSocket;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Locally administered Ethernet addresses ("hs" and a number).
const CLIENT_MAC: Mac = [0x02, 0x68, 0x73, 0, 0, 1];
const CLIENT_PORT_MAC: Mac = [0x02, 0x68, 0x73, 0, 0, 2];
const SERVER_MAC: Mac = [0x02, 0x68, 0x73, 0, 0, 3];
const SERVER_PORT_MAC: Mac = [0x02, 0x68, 0x73, 0, 0, 4];

/// Places of the two ports among the emulator's: the client's, and that of the servers or of the lab around this one.
pub(super) const ACCESS: [Port; 2] = [0, 1];
/// What records call the link between them.
pub(super) const ACCESS_NAME: &str = "access";

/// Names in the emulator's namespace.
const CLIENT_PORT: &str = "client";
const SERVER_PORT: &str = "server";
/// The client's only interface, named as on many a real host.
const CLIENT_LINK: &str = "eth0";

/// Settings of every namespace that packets end in. Reverse path filters would drop what a nested lab sends.
pub(super) const ENDPOINT: &[(&str, &str)] = &[
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    // What one trial learns of a path must not help the next.
    ("net/ipv4/tcp_no_metrics_save", "1"),
];
/// The server binds addresses that are local by route only.
const SERVER: &[(&str, &str)] = &[("net/ipv4/ip_nonlocal_bind", "1"), ("net/ipv6/ip_nonlocal_bind", "1")];
/// The emulator's kernel must not speak.
pub(super) const EMULATOR: &[(&str, &str)] =
    &[("net/ipv6/conf/all/disable_ipv6", "1"), ("net/ipv6/conf/default/disable_ipv6", "1")];
/// Hosts on a link that carries super-packets, those of more than 500 Mbit/s: their windows may grow to 64 MiB, several
/// products of rate and delay. The kernel's own limits, 6 and 4 MiB, are one at 1.5 Gbit/s and 30 ms.
pub(super) const FAST: &[(&str, &str)] =
    &[("net/ipv4/tcp_rmem", "4096 131072 67108864"), ("net/ipv4/tcp_wmem", "4096 65536 67108864")];
/// The client of the outer lab becomes a router for the inner one.
pub(super) const ROUTER: &[(&str, &str)] = &[("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")];

const CONGESTION_CONTROL: &str = "net/ipv4/tcp_congestion_control";
/// What the papers' servers used; the kernel's default may be another.
pub(crate) const PREFERRED_CONGESTION_CONTROL: &str = "cubic";

/// What is at the far side of the emulator.
pub(super) enum Far<'a> {
    /// A server namespace of our own, with these addresses.
    Servers(&'a [IpAddr]),
    /// The namespace of the caller, the client of another lab, whose block this is.
    OuterClient(Block),
}

/// The namespaces and what is in them.
pub(super) struct Wires {
    /// The client's namespace.
    pub client: NetNs,
    /// The server's namespace, or the outer client's.
    pub far: NetNs,
    /// The emulator's namespace; kept so that its interfaces stay.
    _emulator: NetNs,
    /// The addresses in use.
    pub block: Block,
    /// Congestion control that the client's connections begin with.
    pub client_congestion_control: String,
}

/// Makes namespaces and interfaces, and opens the emulator's sockets.
pub(super) fn lay(far: Far<'_>, kind: PortKind) -> Result<(Wires, Ports), Error> {
    let (client, emulator) = (NetNs::create().map_err(creating)?, NetNs::create().map_err(creating)?);
    let (far_ns, block) = match &far {
        Far::Servers(_) => (NetNs::create().map_err(creating)?, Block::OUTERMOST),
        Far::OuterClient(outer) => {
            let outer_ns = NetNs::current().map_err(creating)?;
            let block = outer.inner().next().ok_or(Error::TooDeep)?;
            (outer_ns, block)
        }
    };
    // Sysctls of "default" must be set before the interfaces come, which copy them.
    in_ns(&emulator, || sysctls(EMULATOR))?;
    let tuned = if kind == PortKind::SuperPackets { FAST } else { &[] };
    in_ns(&client, || sysctls(ENDPOINT).and_then(|()| sysctls(tuned)))?;
    let client_end = VethEnd { name: CLIENT_LINK, mac: CLIENT_MAC, ns: &client };
    let client_port = VethEnd { name: CLIENT_PORT, mac: CLIENT_PORT_MAC, ns: &emulator };
    in_ns(&emulator, || Ok(Netlink::open()?.veth(client_port, client_end)?))?;
    let (block, far_name) = match far {
        Far::Servers(addresses) => {
            in_ns(&far_ns, || [ENDPOINT, SERVER, tuned].into_iter().try_for_each(sysctls))?;
            let far_end = VethEnd { name: CLIENT_LINK, mac: SERVER_MAC, ns: &far_ns };
            let far_port = VethEnd { name: SERVER_PORT, mac: SERVER_PORT_MAC, ns: &emulator };
            in_ns(&emulator, || Ok(Netlink::open()?.veth(far_port, far_end)?))?;
            in_ns(&far_ns, || {
                let mut netlink = Netlink::open()?;
                netlink.up(LOOPBACK)?;
                let dns = |family| (0..MOST_DNS_SERVERS).map(move |n| dns_server(n, family));
                let dns: Vec<IpAddr> = Family::BOTH.into_iter().flat_map(dns).collect();
                addresses.iter().chain(&dns).try_for_each(|ip| own(&mut netlink, *ip))?;
                Ok(())
            })?;
            (block, CLIENT_LINK.to_owned())
        }
        Far::OuterClient(outer) => in_ns(&far_ns, || {
            sysctls(ROUTER)?;
            let far_port = VethEnd { name: SERVER_PORT, mac: SERVER_PORT_MAC, ns: &emulator };
            attach(outer, far_port, &far_ns)
        })?,
    };
    let ends = block.ends();
    let client_congestion_control = in_ns(&client, || {
        join_client(ends, kind)?;
        congestion_control(ends)
    })?;
    in_ns(&far_ns, || join_far(&far_name, ends, kind))?;
    let ports = in_ns(&emulator, || {
        Ok(Ports {
            sockets: vec![port(CLIENT_PORT, kind)?, port(SERVER_PORT, kind)?],
            gather: vec![kind.quantum(); 2],
            probe: (ACCESS[1], SERVER_MAC),
        })
    })?;
    Ok((Wires { client, far: far_ns, _emulator: emulator, block, client_congestion_control }, ports))
}

/// Gives an address to the server's namespace.
pub(super) fn own(netlink: &mut Netlink, ip: IpAddr) -> Result<(), NetlinkError> {
    netlink.route(ip, if ip.is_ipv4() { 32 } else { 128 }, Via::Local)
}

/// Takes it away again.
pub(super) fn disown(netlink: &mut Netlink, ip: IpAddr) -> Result<(), NetlinkError> {
    netlink.delete_route(ip, if ip.is_ipv4() { 32 } else { 128 }, Via::Local)
}

/// Runs `f` in a namespace.
pub(super) fn in_ns<T: Send>(ns: &NetNs, f: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    ns.run(f).map_err(Error::io("entering a network namespace"))?
}

/// Plugs the link into the outer client's namespace, in the first free position.
fn attach(outer: Block, port: VethEnd<'_>, ns: &NetNs) -> Result<(Block, String), Error> {
    let mut netlink = Netlink::open()?;
    for block in outer.inner() {
        let name = format!("lab{}", block.position());
        match netlink.veth(VethEnd { name: &name, mac: SERVER_MAC, ns }, port) {
            Ok(()) => return Ok((block, name)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(Error::TooMany)
}

fn join_client(ends: [Ends; 2], kind: PortKind) -> Result<(), Error> {
    let mut netlink = Netlink::open()?;
    netlink.up(LOOPBACK)?;
    let index = plug(&mut netlink, CLIENT_LINK, kind)?;
    Ok(ends.into_iter().try_for_each(|end| join(&mut netlink, index, end))?)
}

/// Gives the client its address and its default route in a family.
fn join(netlink: &mut Netlink, index: u32, end: Ends) -> Result<(), NetlinkError> {
    netlink.address(index, end.client, end.prefix)?;
    netlink.neighbour(index, end.gateway, SERVER_MAC)?;
    netlink.route(anywhere(end), 0, Via::Gateway(end.gateway, index))
}

/// The client's own connectivity, which a world may change while programs run. Stays in the client's namespace, wherever
/// it is used.
pub(super) struct Attachment {
    netlink: Netlink,
    index: u32,
    ends: [Ends; 2],
    congestion_control: String,
}

impl Attachment {
    /// That of these wires.
    pub fn of(wires: &Wires) -> Result<Self, Error> {
        let netlink = in_ns(&wires.client, || {
            let mut netlink = Netlink::open()?;
            let index = netlink.index(CLIENT_LINK)?;
            Ok((netlink, index))
        });
        let (netlink, index) = netlink?;
        let congestion_control = wires.client_congestion_control.clone();
        Ok(Self { netlink, index, ends: wires.block.ends(), congestion_control })
    }

    /// Takes the client's default route and address in `family`.
    pub fn leave(&mut self, family: Family) -> Result<(), NetlinkError> {
        let end = self.end(family);
        // First the address, at which the kernel itself may take the route away.
        self.netlink.delete_address(self.index, end.client, end.prefix)?;
        match self.netlink.delete_route(anywhere(end), 0, Via::Gateway(end.gateway, self.index)) {
            Err(e) if e.is_missing() => Ok(()),
            other => other,
        }
    }

    /// Gives both back, as they were.
    pub fn come(&mut self, family: Family) -> Result<(), NetlinkError> {
        let end = self.end(family);
        join(&mut self.netlink, self.index, end)?;
        let via = Via::Gateway(end.gateway, self.index);
        // Where the namespace's default does it, the route need not, and may not be allowed to.
        let _ = self.netlink.route_with_congestion_control(anywhere(end), 0, via, &self.congestion_control);
        Ok(())
    }

    fn end(&self, family: Family) -> Ends {
        let [v4, v6] = self.ends;
        if family == Family::V4 { v4 } else { v6 }
    }
}

fn join_far(name: &str, ends: [Ends; 2], kind: PortKind) -> Result<(), Error> {
    let mut netlink = Netlink::open()?;
    let index = plug(&mut netlink, name, kind)?;
    for end in ends {
        netlink.address(index, end.gateway, end.prefix)?;
        netlink.neighbour(index, end.client, CLIENT_MAC)?;
        netlink.route(end.block, end.block_prefix, Via::Gateway(end.client, index))?;
    }
    Ok(())
}

/// Switches an interface on, and its offloads off unless the emulator takes super-packets; its index.
pub(super) fn plug(netlink: &mut Netlink, name: &str, kind: PortKind) -> Result<u32, Error> {
    if kind == PortKind::SinglePackets {
        offloads_off(name).map_err(Error::io(format!("switching off offloads of {name}")))?;
    }
    let index = netlink.index(name)?;
    netlink.up(index)?;
    Ok(index)
}

pub(super) fn port(name: &str, kind: PortKind) -> Result<PacketSocket, Error> {
    let mut netlink = Netlink::open()?;
    let index = plug(&mut netlink, name, kind)?;
    PacketSocket::bind(index, kind == PortKind::SuperPackets)
        .map_err(Error::io(format!("opening a packet socket on {name}")))
}

pub(super) fn creating(source: io::Error) -> Error {
    Error::Io { what: "making a network namespace".into(), source }
}

/// Destination of the default route of that family.
fn anywhere(end: Ends) -> IpAddr {
    if end.gateway.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// Gives the client the preferred congestion control if there is a way; which is in force.
///
/// The kernel lets a namespace other than the host's choose only among what the host allows to all users, even if root
/// asks; a route may ask for any that the kernel has.
fn congestion_control(ends: [Ends; 2]) -> Result<String, Error> {
    let path = format!("/proc/sys/{CONGESTION_CONTROL}");
    let chosen = fs::write(&path, PREFERRED_CONGESTION_CONTROL).is_ok();
    let mut netlink = Netlink::open()?;
    let index = netlink.index(CLIENT_LINK)?;
    let mut route = |end: Ends| {
        let via = Via::Gateway(end.gateway, index);
        netlink.route_with_congestion_control(anywhere(end), 0, via, PREFERRED_CONGESTION_CONTROL)
    };
    if chosen || ends.into_iter().all(|end| route(end).is_ok()) {
        return Ok(PREFERRED_CONGESTION_CONTROL.to_owned());
    }
    Ok(fs::read_to_string(&path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned()))
}

pub(super) fn sysctls(settings: &[(&str, &str)]) -> Result<(), Error> {
    settings.iter().try_for_each(|(name, value)| match fs::write(format!("/proc/sys/{name}"), value) {
        Ok(()) => Ok(()),
        Err(source) => Err(Error::Io { what: format!("setting {} to {value}", name.replace('/', ".")), source }),
    })
}
