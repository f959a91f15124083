//! What the host's routes say of a program's packets. First of all, which of the host's addresses it has chosen (bind(2), IP_PKTINFO): what
//! is sent for it begins there too.
//!
//! Only where our packet leaves by an interface that has this very address. A kernel may have chosen it for a reason that does not hold for our
//! sockets, such as a rule for the program's user, or that it is the forwarder's own interface's: from there, no answer would come back.

use crate::forward::enclosure::FAR_AWAY;
use crate::forward::exit::Exit;
use crate::sys::netlink::{Netlink, NetlinkError};
use headstart_core::time::{Duration, Instant};
use std::collections::HashMap;
use std::net::IpAddr;

/// How long what the kernel has said is taken to hold. 10 s: a program that has chosen an address of a network that is gone tries again then.
const HOLDS: Duration = Duration::from_secs(10);
/// Pairs of addresses that are kept.
const MOST: usize = 1024;
/// What is known of programs' addresses.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    netlink: Option<Netlink>,
    /// For each family the latest for which nothing need be done: the kernel takes it by itself, or it is not this host's.
    plain: [Option<IpAddr>; 2],
    /// Until when it holds what was said of a program's address and its peer's.
    known: HashMap<(IpAddr, IpAddr), (Instant, bool)>,
}

impl Addresses {
    /// The address at which a socket to `peer` is to begin for a program at `app`, where the kernel would not take it by itself. Without a
    /// peer: one to most. To be called in the namespace of the sockets.
    pub fn chosen(&mut self, now: Instant, app: IpAddr, peer: Option<IpAddr>, exit: &Exit) -> Option<IpAddr> {
        let place = usize::from(app.is_ipv6());
        // Where another program has made the interface and protects sockets, it has chosen the way too.
        if self.plain[place] == Some(app) || exit.protector.is_some() {
            return None;
        }
        let peer = peer.unwrap_or(FAR_AWAY[place]);
        let known = self.known.get(&(app, peer)).filter(|(until, _)| now < *until);
        let is_chosen = known.map(|(_, is_chosen)| *is_chosen).unwrap_or_else(|| {
            // What cannot be asked is as it was without the question.
            let is_chosen = self.ask(app, peer, exit.mark).unwrap_or(false);
            if self.known.len() >= MOST {
                self.known.clear();
            }
            self.known.insert((app, peer), (now + HOLDS, is_chosen));
            is_chosen
        });
        is_chosen.then_some(app)
    }

    /// Whether the host's route to a peer is sure to have no MTU of its own. What is not known is not sure, and where another program protects
    /// sockets, routes are its business.
    pub fn is_unbounded(&mut self, peer: IpAddr, exit: &Exit) -> bool {
        let mtu = exit.protector.is_none().then(|| self.netlink()?.mtu_of_route(peer, exit.mark));
        mtu.is_some_and(|mtu| matches!(mtu, Ok(None)))
    }

    fn netlink(&mut self) -> Result<&mut Netlink, NetlinkError> {
        Ok(match &mut self.netlink {
            Some(netlink) => netlink,
            none => none.insert(Netlink::open()?),
        })
    }

    fn ask(&mut self, app: IpAddr, peer: IpAddr, mark: Option<u32>) -> Result<bool, NetlinkError> {
        let netlink = self.netlink()?;
        let usual = netlink.route_with(peer, mark, None)?.and_then(|way| way.source);
        let at = if usual == Some(app) { Vec::new() } else { netlink.interfaces_with(app)? };
        if at.is_empty() {
            self.plain[usize::from(app.is_ipv6())] = Some(app);
            return Ok(false);
        }
        let way = netlink.route_with(peer, mark, Some(app))?;
        Ok(way.is_some_and(|way| at.contains(&way.interface)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::exit::Protect;
    use crate::sys::netlink::{LOOPBACK, RouteMtu, VethEnd, Via};
    use crate::sys::netns::NetNs;
    use rustix::io::Errno;
    use std::os::fd::BorrowedFd;
    use std::rc::Rc;

    #[derive(Debug)]
    struct Protects;

    impl Protect for Protects {
        fn protect(&self, _: BorrowedFd<'_>) -> Result<(), Errno> {
            Ok(())
        }
    }

    /// A host with two interfaces and a default route by the first, which has two addresses.
    fn furnish(here: &NetNs, there: &NetNs) {
        let mut netlink = Netlink::open().unwrap();
        netlink.up(LOOPBACK).unwrap();
        for (number, name, far) in [(1, "one", "far-one"), (2, "two", "far-two")] {
            let end = VethEnd { name, mac: [2, 0, 0, 0, 0, number], ns: here };
            netlink.veth(end, VethEnd { name: far, mac: [2, 0, 0, 0, 1, number], ns: there }).unwrap();
            let index = netlink.index(name).unwrap();
            netlink.up(index).unwrap();
            for last in [2, 3] {
                netlink.address(index, [192, 0, number, last].into(), 24).unwrap();
            }
        }
        let one = netlink.index("one").unwrap();
        netlink.route([0, 0, 0, 0].into(), 0, Via::Gateway([192, 0, 1, 1].into(), one)).unwrap();
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn an_address_is_kept_where_answers_come_back_to_it_and_nowhere_else() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        let there = NetNs::create().unwrap();
        here.run(|| {
            furnish(&here, &there);
            let (far, near): (IpAddr, IpAddr) = ([198, 51, 100, 1].into(), [192, 0, 2, 9].into());
            let (mut all, exit, mut now) = (Addresses::default(), Exit::default(), Instant::ZERO);
            let chosen = |all: &mut Addresses, now, app: [u8; 4], peer| all.chosen(now, app.into(), peer, &exit);
            for (peer, app, is_chosen) in [
                (Some(far), [192, 0, 1, 2], false),
                (Some(far), [192, 0, 1, 3], true),
                (None, [192, 0, 1, 3], true),
                // A packet from there would leave by the other interface.
                (Some(far), [192, 0, 2, 2], false),
                (Some(far), [192, 0, 2, 3], false),
                (Some(far), [127, 0, 0, 1], false),
                (Some(near), [192, 0, 2, 2], false),
                (Some(near), [192, 0, 2, 3], true),
                (Some(near), [192, 0, 1, 3], false),
                // Of another host.
                (Some(far), [203, 0, 113, 1], false),
            ] {
                let expected = is_chosen.then(|| IpAddr::from(app));
                assert_eq!(chosen(&mut all, now, app, peer), expected, "{app:?} to {peer:?}");
            }
            let protected = Exit { mark: None, protector: Some(Rc::new(Protects)) };
            assert_eq!(all.chosen(now, [192, 0, 1, 3].into(), Some(far), &protected), None);
            // One route has an MTU of its own.
            let mut netlink = Netlink::open().unwrap();
            let one = netlink.index("one").unwrap();
            let narrow = RouteMtu { bytes: 1300, locked: false };
            netlink
                .route_with_mtu([203, 0, 113, 0].into(), 24, Via::Gateway([192, 0, 1, 1].into(), one), narrow)
                .unwrap();
            let bounds =
                |all: &mut Addresses, exit| [far, [203, 0, 113, 1].into()].map(|to| all.is_unbounded(to, exit));
            assert_eq!((bounds(&mut all, &exit), bounds(&mut all, &protected)), ([true, false], [false; 2]));
            // What has changed since is seen later.
            netlink.delete_address(one, [192, 0, 1, 3].into(), 24).unwrap();
            assert!(chosen(&mut all, now, [192, 0, 1, 3], Some(far)).is_some());
            now += HOLDS;
            assert_eq!(chosen(&mut all, now, [192, 0, 1, 3], Some(far)), None);
        })
        .unwrap();
    }
}
