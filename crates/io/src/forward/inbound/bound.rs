//! Ports of UDP that programs bind, which strangers may send to from then on.
//!
//! bind(2) of such a socket waits as listen(2) does, and is made in the program's place, on its own socket and by what was read of its
//! memory once. A port below 1024 is left to the kernel where the program has no right to it, for ours is not the program's.

use super::{Inbound, canonical, is_here};
use crate::forward::enclosure::NAME as INTERFACE;
use crate::forward::loopback::listening::{ServiceKind, seen_as};
use crate::sys::netlink::Netlink;
use crate::sys::process;
use crate::sys::seccomp::Notification;
use headstart_core::forward::MappingId;
use headstart_core::time::Instant;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, ipproto, sockopt};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;

/// Below it, a port needs CAP_NET_BIND_SERVICE (ip(7)).
const FIRST_UNPRIVILEGED: u16 = 1024;
/// Bytes of a `sockaddr_in`, and of the least `sockaddr_in6` that the kernel takes (SIN6_LEN_RFC2133 of linux/in6.h).
const V4_LEN: usize = 16;
const V6_LEN: usize = 24;
const WHOLE_V6_LEN: usize = 28;
/// Addresses that programs have. 256: what is asked of each packet is asked of all of them.
const MOST_ADDRESSES: usize = 256;

/// A port that a program has bound, to be opened outside before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::forward) struct Wanted {
    /// The program's end, as its packets have it.
    pub app: SocketAddr,
    /// The address of the host to which alone datagrams for it come.
    pub scope: Option<IpAddr>,
    /// What the program has bound.
    inside: SocketAddr,
    /// The program has chosen the number, and others know it by that.
    is_chosen: bool,
}

fn is_of_udp(socket: &OwnedFd) -> bool {
    sockopt::socket_type(socket) == Ok(SocketType::DGRAM) && sockopt::socket_protocol(socket) == Ok(Some(ipproto::UDP))
}

/// A port that is open outside.
#[derive(Debug)]
pub(super) struct Bound {
    pub app: SocketAddr,
    pub mapping: MappingId,
    /// Where it is open.
    pub outside: SocketAddr,
}

impl Inbound {
    /// Makes the call, if it is one of these programs' and of UDP: what is to be opened.
    pub(super) fn bind_for(&mut self, call: Notification, address: &[u8]) -> Option<Result<Vec<Wanted>, Errno>> {
        let socket = process::descriptor(call.thread, call.number).ok()?;
        if !self.is_of_the_internet(&socket) {
            return None;
        }
        let len = call.address.1.min(WHOLE_V6_LEN);
        // What was read of a thread is its own if it still waits.
        let wanted = parse(address.get(..len)?).filter(|_| self.calls.listener().waits(call.id))?;
        self.have(wanted.ip().to_canonical());
        if !is_of_udp(&socket) {
            return None;
        }
        let is_v4 = sockopt::socket_domain(&socket) == Ok(AddressFamily::INET);
        let is_privileged = (1..FIRST_UNPRIVILEGED).contains(&wanted.port());
        if wanted.is_ipv4() != is_v4 || (is_privileged && !process::may_bind_any_port(call.thread)) {
            return None;
        }
        if let Err(errno) = bind(&socket, &wanted) {
            return Some(Err(errno));
        }
        let at = rustix::net::getsockname(&socket).ok().and_then(|at| SocketAddr::try_from(at).ok());
        let takes_mapped = !is_v4 && !sockopt::ipv6_v6only(&socket).unwrap_or(true);
        Some(Ok(at.map_or_else(Vec::new, |at| self.wanted(canonical(at), takes_mapped, wanted.port() != 0))))
    }

    fn is_of_the_internet(&self, socket: &OwnedFd) -> bool {
        matches!(sockopt::socket_domain(socket), Ok(AddressFamily::INET | AddressFamily::INET6))
            && self.is_theirs(socket)
    }

    /// The programs have an address of the host from when one of them wants to bind it (docs/decisions/0119).
    fn have(&mut self, ip: IpAddr) {
        let is_nobodys = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
        if is_nobodys || self.addresses.contains(&ip) || self.addresses.len() >= MOST_ADDRESSES || !is_here(ip) {
            return;
        }
        let add = || {
            let mut netlink = Netlink::open()?;
            let index = netlink.index(INTERFACE)?;
            netlink.spare_address(index, ip, if ip.is_ipv4() { 32 } else { 128 })
        };
        // Where that fails, binding it does too, as it would have.
        if matches!(self.inside.run(add), Ok(Ok(()))) {
            self.addresses.push(ip);
            self.theirs.look();
        }
    }

    /// What is to be opened for what a program has bound: for one of any address, the one that its packets have, of each family.
    fn wanted(&self, inside: SocketAddr, takes_mapped: bool, is_chosen: bool) -> Vec<Wanted> {
        let (ip, port) = (inside.ip(), inside.port());
        let of = |app: IpAddr, scope| Wanted { app: SocketAddr::new(app, port), scope, inside, is_chosen };
        let own = |v4: bool| self.addresses.iter().copied().find(|ip| ip.is_ipv4() == v4);
        let mut all = Vec::new();
        if ip.is_unspecified() {
            let v4 = own(true).unwrap_or(Ipv4Addr::LOCALHOST.into());
            let v6 = own(false).unwrap_or(Ipv6Addr::LOCALHOST.into());
            all.extend(ip.is_ipv6().then(|| of(v6, None)));
            all.extend((ip.is_ipv4() || takes_mapped).then(|| of(v4, None)));
        } else if ip.is_loopback() || self.addresses.contains(&ip) {
            all.push(of(ip, Some(ip)));
        }
        // Where several processes have bound one port, it is open already.
        all.retain(|one| !self.bound.iter().any(|bound| bound.app == one.app));
        all
    }

    /// What has become of what a program wanted: its name, and where it is open.
    pub(in crate::forward) fn has_opened(
        &mut self,
        now: Instant,
        wanted: Wanted,
        open: Option<(MappingId, SocketAddr)>,
    ) {
        let Wanted { app, inside, is_chosen, .. } = wanted;
        let outside = open.map(|(_, outside)| outside);
        if is_chosen && outside.is_none_or(|outside| outside.port() != app.port()) {
            self.tell_moved(inside, outside, true);
        }
        let Some((mapping, outside)) = open else { return };
        self.look_from(now);
        self.theirs.lock().extend(seen_as(outside, ServiceKind::Datagrams));
        self.bound.push(Bound { app, mapping, outside });
    }

    /// The program that has bound a port goes on.
    pub(in crate::forward) fn go_on(&self, call: u64) {
        self.calls.answer(call, Ok(()));
    }

    /// Forgets the ports that no program has bound any more, where these are: their names.
    pub(super) fn forget_unbound(&mut self, there: &BTreeSet<SocketAddr>) -> Vec<MappingId> {
        let all = std::mem::take(&mut self.bound).into_iter();
        let (kept, gone): (Vec<_>, Vec<_>) = all.partition(|bound| is_there(bound.app, there));
        self.bound = kept;
        let mut theirs = self.theirs.lock();
        let forget = |bound: Bound| {
            seen_as(bound.outside, ServiceKind::Datagrams).iter().for_each(|service| _ = theirs.remove(service));
            bound.mapping
        };
        gone.into_iter().map(forget).collect()
    }
}

/// Whether a socket receives at `app`: there, or at any address.
fn is_there(app: SocketAddr, there: &BTreeSet<SocketAddr>) -> bool {
    let any_v6 = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let any_v4 = app.is_ipv4().then_some(Ipv4Addr::UNSPECIFIED.into());
    [Some(app.ip()), Some(any_v6), any_v4]
        .into_iter()
        .flatten()
        .any(|ip| there.contains(&SocketAddr::new(ip, app.port())))
}

/// An address of the internet as programs give it to the kernel (ip(7), ipv6(7)).
fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        libc::AF_INET if bytes.len() >= V4_LEN => {
            let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some(SocketAddr::new(ip.into(), port))
        }
        libc::AF_INET6 if bytes.len() >= V6_LEN => {
            let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let scope =
                bytes.get(V6_LEN..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word));
            Some(SocketAddrV6::new(ip.into(), port, 0, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::LOOPBACK;
    use crate::sys::netns::NetNs;

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let v4 = [&(libc::AF_INET as u16).to_ne_bytes()[..], &5000u16.to_be_bytes(), &[192, 0, 2, 1], &[0; 8]].concat();
        assert_eq!(parse(&v4), Some("192.0.2.1:5000".parse().unwrap()));
        let ip: Ipv6Addr = "fe80::1".parse().unwrap();
        let family = (libc::AF_INET6 as u16).to_ne_bytes();
        let v6 = [&family[..], &53u16.to_be_bytes(), &[9; 4], &ip.octets(), &7u32.to_ne_bytes()].concat();
        assert_eq!(parse(&v6), Some(SocketAddrV6::new(ip, 53, 0, 7).into()));
        assert_eq!(parse(&v6[..24]), Some(SocketAddrV6::new(ip, 53, 0, 0).into()));
        for bytes in [&v4[..15], &v6[..23], &[], &[2], &[0; 28]] {
            assert_eq!(parse(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn all_addresses_of_a_host_are_its_own_and_no_others() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        here.run(|| {
            let mut netlink = Netlink::open().unwrap();
            netlink.up(LOOPBACK).unwrap();
            let ip = |text: &str| text.parse::<IpAddr>().unwrap();
            // The second of a network, and one that is taken only where it is chosen.
            netlink.address(LOOPBACK, ip("192.0.2.1"), 24).unwrap();
            netlink.spare_address(LOOPBACK, ip("192.0.2.2"), 24).unwrap();
            netlink.address(LOOPBACK, ip("2001:db8::1"), 64).unwrap();
            netlink.spare_address(LOOPBACK, ip("2001:db8::2"), 64).unwrap();
            let own = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "127.0.0.9", "::1"];
            let others = ["198.51.100.1", "255.255.255.255", "2001:db9::1", "fe80::1"];
            assert_eq!(own.map(|text| is_here(ip(text))), [true; 6]);
            assert_eq!(others.map(|text| is_here(ip(text))), [false; 4]);
        })
        .unwrap();
    }

    #[test]
    fn a_port_is_there_as_long_as_a_socket_receives_at_its_address() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (app, there, is) in [
            ("192.0.2.1:5000", "0.0.0.0:5000", true),
            ("192.0.2.1:5000", "[::]:5000", true),
            ("192.0.2.1:5000", "192.0.2.1:5000", true),
            ("[2001:db8::1]:5000", "[::]:5000", true),
            ("[2001:db8::1]:5000", "0.0.0.0:5000", false),
            ("192.0.2.1:5000", "0.0.0.0:5001", false),
            ("192.0.2.1:5000", "127.0.0.1:5000", false),
        ] {
            assert_eq!(is_there(at(app), &BTreeSet::from([at(there)])), is, "{app} {there}");
        }
    }
}
