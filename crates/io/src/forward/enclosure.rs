//! A network namespace whose only way out is a TUN interface: programs in it have the host's addresses and see no other
//! difference. The host itself is not changed, and when the enclosure is dropped nothing is left of it.

use super::Routes;
use crate::sys::netlink::{LOOPBACK, Netlink, NetlinkError, Via};
use crate::sys::netns::NetNs;
use crate::sys::tun::{Tun, TunError};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The interface, as programs see it.
pub(super) const NAME: &str = "eth0";
/// Packets that may wait to be read. 4096: a window of the forwarder in segments of 128 bytes.
pub(super) const QUEUE: i32 = 4096;
/// The MTU where nothing tells another, and the longest that a TUN interface takes.
pub(super) const USUAL_MTU: u32 = 1500;
const LONGEST_MTU: u32 = 65_535;
/// What is asked for the host's own addresses: no packet is sent there (RFC 2544 and 3849 keep them for tests).
pub(super) const FAR_AWAY: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
/// Where the host has no way out: addresses that no host has (RFC 5737), so that programs get the host's own errors.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// What a program may find out of its namespace, and behaves by: as the host has it.
const COPIED: [&str; 14] = [
    "net/core/somaxconn",
    "net/ipv4/ip_default_ttl",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ping_group_range",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_ecn",
    "net/ipv4/tcp_keepalive_time",
    "net/ipv4/tcp_no_metrics_save",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_syn_retries",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_timestamps",
];
/// Only the programs cause packets; and what the host says of them by its own address, which they have too, is heard.
const QUIET: [(&str, &str); 5] = [
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/default/accept_local", "1"),
];

/// Why there is no enclosure.
#[derive(Debug, thiserror::Error)]
pub enum EnclosureError {
    /// No namespace.
    #[error("making a network namespace: {0}; it needs root")]
    Namespace(io::Error),
    /// No interface.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// No address or route.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl EnclosureError {
    /// Whether a right is missing.
    pub fn is_not_permitted(&self) -> bool {
        let kind = match self {
            Self::Namespace(e) => e.kind(),
            Self::Tun(e) => e.kind(),
            Self::Netlink(e) => e.kind(),
        };
        kind == io::ErrorKind::PermissionDenied
    }
}

/// The namespace and its interface.
#[derive(Debug)]
pub struct Enclosure {
    /// Where programs are to run, or run already.
    pub namespace: NetNs,
    /// Where their packets come out.
    pub tun: Tun,
    /// Its MTU, if that is known.
    pub mtu: Option<u32>,
    /// Its addresses, as far as they are known.
    pub addresses: Vec<IpAddr>,
    /// What it has of the host's routes, if they could be copied.
    pub routes: Option<Routes>,
}

impl Enclosure {
    /// Makes one for the host, or the namespace, of the calling thread. `mtu` is the longest packet of its interface, that of
    /// the host's way out if none. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub fn create(mtu: Option<u32>) -> Result<Self, EnclosureError> {
        let mut host = Netlink::open()?;
        let mut addresses = Vec::new();
        let mut least = None;
        for far in FAR_AWAY {
            let Some(route) = host.route_to(far)? else { continue };
            addresses.extend(route.source);
            least = least.into_iter().chain(host.mtu_of(route.interface)?).min();
        }
        let mtu = mtu.or(least).unwrap_or(USUAL_MTU).min(LONGEST_MTU);
        if addresses.is_empty() {
            addresses.push(NOWHERE);
        }
        let settings: Vec<_> = COPIED.iter().filter_map(|name| Some((*name, read(name)?))).collect();
        let namespace = NetNs::create().map_err(EnclosureError::Namespace)?;
        let (tun, inside) = namespace
            .run(|| {
                // Not every kernel has all of them, nor lets every namespace have its own.
                QUIET.iter().for_each(|(name, value)| write(name, value));
                settings.iter().for_each(|(name, value)| write(name, value));
                furnish(&addresses, mtu)
            })
            .map_err(EnclosureError::Namespace)??;
        // Without them there are errors later, or others, and that is all.
        let routes = Routes::copy(host, inside, &addresses, mtu).ok();
        Ok(Self { namespace, tun, mtu: Some(mtu), addresses, routes })
    }
}

fn read(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()
}

fn write(name: &str, value: &str) {
    let _ = fs::write(format!("/proc/sys/{name}"), value.trim());
}

/// The interface, and what speaks for its namespace, with its index.
fn furnish(addresses: &[IpAddr], mtu: u32) -> Result<(Tun, (Netlink, u32)), EnclosureError> {
    let mut netlink = Netlink::open()?;
    netlink.up(LOOPBACK)?;
    let mut tun = Tun::create(NAME, QUEUE)?;
    tun.take_trains();
    let index = netlink.index(NAME)?;
    netlink.mtu(index, mtu)?;
    netlink.up(index)?;
    for ip in addresses {
        let (prefix, anywhere) = match ip {
            IpAddr::V4(_) => (32, Ipv4Addr::UNSPECIFIED.into()),
            IpAddr::V6(_) => (128, Ipv6Addr::UNSPECIFIED.into()),
        };
        netlink.address(index, *ip, prefix)?;
        netlink.route(anywhere, 0, Via::Interface(index))?;
    }
    Ok((tun, (netlink, index)))
}
