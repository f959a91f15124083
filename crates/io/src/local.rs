//! A connection to a Unix socket. Any user may have taken its name, and the listener may have stopped: its backlog may stay full,
//! so connecting has a time limit like everything else.

use headstart_core::time::Duration;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::os::fd::OwnedFd;

/// Connects; this, and whatever is sent and received there, takes `patience` at most (EAGAIN).
pub fn connect(kind: SocketType, to: &SocketAddrUnix, patience: Duration) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(patience))?;
    }
    rustix::net::connect(&socket, to)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen};
    use std::sync::mpsc::channel;

    #[test]
    fn who_lets_no_one_in_is_not_waited_for() {
        let to =
            SocketAddrUnix::new_abstract_name(format!("headstart-full-{}", std::process::id()).as_bytes()).unwrap();
        let open = |flags| socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let listener = open(SocketFlags::CLOEXEC);
        bind(&listener, &to).unwrap();
        listen(&listener, 0).unwrap();
        let mut line = Vec::new();
        loop {
            let waits = open(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
            if rustix::net::connect(&waits, &to).is_err() {
                break;
            }
            line.push(waits);
        }
        let (tell, told) = channel();
        // Ends with the process of the tests if it waits for ever.
        std::thread::spawn(move || tell.send(connect(SocketType::STREAM, &to, Duration::from_millis(20)).map(drop)));
        assert_eq!(told.recv_timeout(Duration::from_secs(60)).expect("it comes back"), Err(Errno::AGAIN));
    }
}
