//! Tells the service manager that the daemon is up (sd_notify(3)): one datagram, if NOTIFY_SOCKET is set.

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};
use std::os::unix::ffi::OsStrExt as _;

/// Says so to the socket in NOTIFY_SOCKET, if there is one. A socket without a listener is no error.
pub fn ready() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    // An `@` stands for the zero byte of an abstract name.
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddrUnix::new_abstract_name(rest),
        path => SocketAddrUnix::new(path),
    };
    let send = |address: SocketAddrUnix| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sendto(&socket, b"READY=1", SendFlags::NOSIGNAL | SendFlags::DONTWAIT, &address)
    };
    let _ = address.and_then(send);
}
