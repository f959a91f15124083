//! A TUN interface on the host itself, for what its programs send: it takes nothing that a rule does not lead to it, and is gone
//! with the process that has it, its routes too.

use super::Enclosure;
use super::enclosure::{EnclosureError, FAR_AWAY, QUEUE, USUAL_MTU};
use crate::sys::netlink::Netlink;
use crate::sys::netns::NetNs;
use crate::sys::tun::Tun;
use std::fs;
use std::net::Ipv4Addr;

/// Its name.
pub const NAME: &str = "headstart0";
/// Its address: IPv4's dummy (RFC 7600), at which no host is reached. Linux takes nothing from an interface without any where the
/// way back is checked (rp_filter), not even loosely.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// What holds for the interface alone. Packets of peers come out of it that the main table has elsewhere: 2 is a loose check of
/// their way back (RFC 3704); and what this host says by an address of its own. It asks no router for addresses.
const SETTINGS: [(&str, &str); 5] = [
    ("ipv4/conf/headstart0/rp_filter", "2"),
    ("ipv4/conf/headstart0/accept_local", "1"),
    ("ipv6/conf/headstart0/addr_gen_mode", "1"),
    ("ipv6/conf/headstart0/router_solicitations", "0"),
    ("ipv6/conf/headstart0/accept_ra", "0"),
];

/// Makes the interface in the calling thread's namespace, as long as the way out; its number too. Needs CAP_NET_ADMIN.
pub fn create() -> Result<(Enclosure, u32), EnclosureError> {
    let mut netlink = Netlink::open()?;
    let mut least = None;
    for far in FAR_AWAY {
        let Some(route) = netlink.route_to(far)? else { continue };
        least = least.into_iter().chain(netlink.mtu_of(route.interface)?).min();
    }
    let mut tun = Tun::create(NAME, QUEUE)?;
    tun.take_trains();
    let index = netlink.index(NAME)?;
    for (name, value) in SETTINGS {
        // Not every kernel has both families.
        let _ = fs::write(format!("/proc/sys/net/{name}"), value);
    }
    netlink.address(index, ADDRESS.into(), 32)?;
    let mtu = least.unwrap_or(USUAL_MTU);
    netlink.mtu(index, mtu)?;
    netlink.up(index)?;
    let namespace = NetNs::current().map_err(EnclosureError::Namespace)?;
    Ok((Enclosure { namespace, tun, mtu: Some(mtu), addresses: Vec::new(), routes: None }, index))
}
