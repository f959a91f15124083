//! Two hosts on a wire.

use headstart_io::sys::netlink::{LOOPBACK, Netlink, VethEnd, Via};
use headstart_io::sys::netns::NetNs;
use std::net::{IpAddr, Ipv4Addr};

/// The server's address on a [`Wire`].
pub const WIRED: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
/// The client's.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Two hosts with nothing between them: no emulator, so that microseconds count.
pub struct Wire {
    /// Where programs are.
    pub(super) client: NetNs,
    /// Where their peers are.
    pub(super) server: NetNs,
}

impl Wire {
    /// Two namespaces and a pair of veth between them.
    pub fn lay() -> anyhow::Result<Self> {
        let (client, server) = (NetNs::create()?, NetNs::create()?);
        let end = |ns, last| VethEnd { name: "eth0", mac: [2, 0x68, 0x73, 0, 1, last], ns };
        Netlink::open()?.veth(end(&client, 1), end(&server, 2))?;
        for (ns, own, other, mac) in [(&client, CLIENT, WIRED, 2), (&server, WIRED, CLIENT, 1)] {
            ns.run(|| {
                // A forwarder's own connections may come back another way than the programs' go.
                for name in ["all", "default"] {
                    let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0");
                }
                let mut netlink = Netlink::open()?;
                netlink.up(LOOPBACK)?;
                let index = netlink.index("eth0")?;
                netlink.address(index, own.into(), 32)?;
                netlink.up(index)?;
                netlink.route(Ipv4Addr::UNSPECIFIED.into(), 0, Via::Interface(index))?;
                netlink.neighbour(index, IpAddr::from(other), [2, 0x68, 0x73, 0, 1, mac])
            })??;
        }
        Ok(Self { client, server })
    }
}
