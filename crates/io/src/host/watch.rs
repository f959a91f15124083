//! Word from the kernel that routes, rules or interfaces have changed, whoever changed them: a socket that wakes its reader
//! then, and never else.

use super::KernelError;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

/// RTNLGRP_LINK, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV6_RULE (rtnetlink.h).
const GROUPS: [u32; 5] = [1, 7, 8, 11, 19];

/// The ear.
#[derive(Debug)]
pub struct Watch {
    socket: Socket,
}

impl Watch {
    /// Listens in the calling thread's network namespace. Needs no privilege.
    pub fn open() -> Result<Self, KernelError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            socket.set_non_blocking(true)?;
            GROUPS.iter().try_for_each(|group| socket.add_membership(*group))?;
            Ok(socket)
        };
        let socket = open().map_err(|e: std::io::Error| KernelError::new("listening for changes of routes", e))?;
        Ok(Self { socket })
    }

    /// Forgets what has been said; whether anything was. What was lost because there was too much of it counts too.
    pub fn drain(&mut self) -> bool {
        let mut heard = false;
        loop {
            match self.socket.recv_from_full() {
                Ok(_) => heard = true,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return heard,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // ENOBUFS: something was lost, and the queue is open again.
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => heard = true,
                Err(_) => return true,
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
