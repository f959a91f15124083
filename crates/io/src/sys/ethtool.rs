//! ethtool ioctls: offloads of an interface of the calling thread's network namespace.
//!
//! Only ever switches off; never on.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::AsRawFd;

/// Commands of linux/ethtool.h that take a `struct ethtool_value`; the order matters: what depends on another goes first.
const OFF: &[(u32, &str)] = &[
    (0x2c, "generic receive offload"),
    (0x24, "generic segmentation offload"),
    (0x1f, "TCP segmentation offload"),
    (0x19, "scatter-gather"),
    (0x17, "transmit checksum offload"),
];

/// SIOCETHTOOL of linux/sockios.h.
const SIOCETHTOOL: u64 = 0x8946;

#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// Switches off transmit checksums, scatter-gather and segmentation of the interface `name`, so that a reader of the
/// other end of a veth pair sees finished packets of at most one MTU.
pub fn offloads_off(name: &str) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    for (cmd, what) in OFF {
        let mut value = EthtoolValue { cmd: *cmd, data: 0 };
        // SAFETY: `ifreq` is plain bytes; all zeroes is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("interface name {name} is too long")));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: `request` and the value that it points to outlive the call; SIOCETHTOOL reads and writes just these.
        let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) };
        if rc != 0 {
            let error = io::Error::last_os_error();
            // A driver without that offload has nothing to switch off.
            if error.raw_os_error() != Some(libc::EOPNOTSUPP) {
                return Err(io::Error::new(error.kind(), format!("switching off {what} of {name}: {error}")));
            }
        }
    }
    Ok(())
}
