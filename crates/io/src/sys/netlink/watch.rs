//! Notices of changes: links, addresses and routes of one network namespace (the groups of rtnetlink(7)).
//!
//! A notice says *that* something has changed, not what: the receiver looks for itself. So a message that is lost (ENOBUFS)
//! loses nothing. Neighbours are not watched: their states change all the time, and nothing may wake an idle host.

use super::NetlinkError;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE of linux/rtnetlink.h.
const GROUPS: [u32; 5] = [1, 5, 7, 9, 11];
/// RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE.
const RULES: [u32; 2] = [8, 19];

/// Readable when something has changed.
#[derive(Debug)]
pub struct Watch {
    socket: Socket,
}

impl Watch {
    /// Watches the network namespace of the calling thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::of(&GROUPS)
    }

    /// Watches rules as well.
    pub fn open_with_rules() -> Result<Self, NetlinkError> {
        Self::of(&[GROUPS.as_slice(), &RULES].concat())
    }

    fn of(groups: &[u32]) -> Result<Self, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            for group in groups {
                socket.add_membership(*group)?;
            }
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket =
            open().map_err(|source: io::Error| NetlinkError { what: "watching the network".into(), source })?;
        Ok(Self { socket })
    }

    /// Whether something has changed since the last question.
    pub fn changed(&self) -> bool {
        let mut changed = false;
        // What is in the messages does not matter; a byte is enough for each.
        let mut byte = Vec::with_capacity(1);
        loop {
            byte.clear();
            match self.socket.recv(&mut byte, 0) {
                Ok(_) => changed = true,
                Err(e) if e.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => changed = true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return changed,
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        super::borrow(&self.socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::{LOOPBACK, Netlink};
    use crate::sys::netns::NetNs;

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn every_change_is_told_once_and_silence_is_silence() {
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        here.run(|| {
            let watch = Watch::open().unwrap();
            assert!(!watch.changed());
            let mut netlink = Netlink::open().unwrap();
            netlink.up(LOOPBACK).unwrap();
            // The kernel sends before it acknowledges.
            assert!(watch.changed());
            assert!(!watch.changed());
            netlink.address(LOOPBACK, [192, 0, 2, 1].into(), 32).unwrap();
            assert!(watch.changed());
            // More than its buffer holds: told all the same.
            for n in 0..3000u16 {
                let [high, low] = n.to_be_bytes();
                netlink.address(LOOPBACK, [198, 18, high, low].into(), 32).unwrap();
            }
            assert!(watch.changed());
            assert!(!watch.changed());
        })
        .unwrap();
    }
}
