//! A TUN interface: packets of IP that the kernel routes to it are read, packets that are written arrive in the kernel.
//!
//! The interface lives as long as its descriptor, so whatever ends its holder takes it away, with its addresses and routes:
//! nothing is left to be undone. Packets come without a header of the kernel's (IFF_NO_PI), one a call.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// An interface of ours.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    name: String,
}

impl Tun {
    /// Makes an interface in the calling thread's network namespace, called `name`, or by a name of the kernel's choice if it
    /// holds a `%d`. Needs CAP_NET_ADMIN there, and /dev/net/tun. Reading and writing never wait.
    pub fn open(name: &str) -> io::Result<Self> {
        let fd = rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
        // SAFETY: all zeros are a valid value: integers, pointers that are not followed, and a union of them.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() || name.bytes().any(|b| b == 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name of an interface has 1 to 15 bytes"));
        }
        for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is open and `request` is valid for reading and writing.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let name = request.ifr_name.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect();
        Ok(Self { fd, name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next packet; [`io::ErrorKind::WouldBlock`] if there is none.
    pub fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.fd, to)?)
    }

    /// Hands a packet to the kernel.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.fd, packet)?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
