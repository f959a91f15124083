//! Two namespaces, two pairs of veth between them, and both ends of a tunnel in threads of their own.

use super::super::ends::{self, End, INSIDE, Shape};
use super::plain;
use headstart_core::steer::Channel;
use headstart_io::sys::netlink::{LOOPBACK, Mac, Netlink, VethEnd};
use headstart_io::sys::netns::NetNs;
use std::net::{IpAddr, Ipv4Addr};

/// Where the gateway is on the fat link, and on the fast one.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const OUTSIDE_FAST: Ipv4Addr = Ipv4Addr::new(192, 0, 3, 2);

/// By what the host reaches the gateway.
pub enum TunnelMode {
    /// Nothing in between.
    Bare,
    /// A tunnel over one channel.
    Plain,
    /// A tunnel over two, by this policy.
    Steered(&'static str),
}

/// See the module.
pub struct Rig {
    pub host: NetNs,
    pub gateway: NetNs,
    /// Where servers of the gateway are reached.
    pub server: IpAddr,
    _ends: Vec<End>,
}

/// The Ethernet address of an end of link `n`: 1 is the host's, 2 the gateway's.
fn mac(n: u8, last: u8) -> Mac {
    [2, 0x68, 0x73, 1, n, last]
}

impl Rig {
    /// The addresses of an end of a channel: 1 is the host's, 2 the gateway's.
    pub fn neighbour(channel: Channel, last: u8) -> (IpAddr, Mac) {
        let n = channel.index() as u8 + 2;
        (Ipv4Addr::new(192, 0, n, last).into(), mac(n, last))
    }

    /// Namespaces, links and a tunnel that is up.
    pub fn build(way: TunnelMode) -> anyhow::Result<Self> {
        let (host, gateway) = (NetNs::create()?, NetNs::create()?);
        for (n, name) in ["fat", "fast"].into_iter().enumerate() {
            let n = n as u8 + 2;
            let end = |last, ns| VethEnd { name, mac: mac(n, last), ns };
            Netlink::open()?.veth(end(1, &host), end(2, &gateway))?;
            for (last, ns) in [(1, &host), (2, &gateway)] {
                ns.run(|| {
                    let mut netlink = Netlink::open()?;
                    netlink.up(LOOPBACK)?;
                    let index = netlink.index(name)?;
                    netlink.address(index, Ipv4Addr::new(192, 0, n, last).into(), 24)?;
                    netlink.up(index)
                })??;
            }
        }
        let mut rig = Self { host, gateway, server: INSIDE.into(), _ends: Vec::new() };
        let ends = match way {
            TunnelMode::Bare => {
                rig.server = OUTSIDE.into();
                return Ok(rig);
            }
            TunnelMode::Plain => {
                let [of_host, of_gateway] = plain::pair(OUTSIDE);
                [
                    End::start(&rig.gateway, move |clock| plain::Plain::open(&of_gateway, clock))?,
                    End::start(&rig.host, move |clock| plain::Plain::open(&of_host, clock))?,
                ]
            }
            TunnelMode::Steered(policy) => ends::of_tunnel(
                [&rig.host, &rig.gateway],
                &Shape { policy, rates: ["10gbit", "10mbit"], gateway: [OUTSIDE, OUTSIDE_FAST], behind: "" },
            )?,
        };
        ends::wait(&ends)?;
        rig._ends = ends.into();
        Ok(rig)
    }
}
