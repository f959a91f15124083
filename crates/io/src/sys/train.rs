//! Trains of datagrams: many of one length by one system call, each way (UDP_SEGMENT and UDP_GRO, udp(7)).
//!
//! The kernel cuts a train into datagrams as late as it can, and joins what has come in a row from one peer into one again;
//! between, each hop of its stack is taken once and not once a datagram. What never happens here: a train is longer than the
//! kernel takes.

use super::datagram::{receive_with, send_with};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

/// Datagrams of a train at most: UDP_MAX_SEGMENTS of linux/udp.h, as it was first.
pub const MOST: usize = 64;
/// Bytes of a train at most: what a length of UDP can say, less the headers of either family.
pub const LONGEST: usize = 65_535 - 48;
/// Room for what is received at once.
pub const ROOM: usize = 65_536;

/// Sends `bytes` in datagrams of `size` bytes, of which the last may be shorter. What is longer than one train is refused.
pub fn send(socket: impl AsFd, to: SocketAddr, bytes: &[u8], size: u16) -> io::Result<()> {
    send_with(socket, to, bytes, None, (bytes.len() > usize::from(size)).then_some(size))
}

/// From now on [`receive`] may bring more than one datagram at once.
pub fn take(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let len = size_of_val(&on) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `on` outlives the call and the length is its own.
    let rc = unsafe { libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_GRO, (&raw const on).cast(), len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives into the spare room of `bytes`, of which there must be [`ROOM`]: the sender, and how long each datagram is; the last
/// may be shorter.
pub fn receive(socket: impl AsFd, bytes: &mut Vec<u8>) -> io::Result<(SocketAddr, usize)> {
    let (before, mut size) = (bytes.len(), None);
    let from = receive_with(socket, bytes, 0, |level, kind, data| {
        if (level, kind) == (libc::SOL_UDP, libc::UDP_GRO)
            && let Some(word) = data.first_chunk::<4>()
        {
            size = usize::try_from(i32::from_ne_bytes(*word)).ok().filter(|size| *size > 0);
        }
    })?;
    let from = from.ok_or_else(|| io::Error::other("a datagram from nowhere"))?;
    Ok((from, size.unwrap_or(bytes.len() - before)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn what_is_sent_as_a_train_comes_as_the_datagrams_it_is_made_of() {
        for here in ["127.0.0.1:0", "[::1]:0"] {
            let (Ok(there), Ok(socket)) = (UdpSocket::bind(here), UdpSocket::bind(here)) else { continue };
            there.set_nonblocking(true).unwrap();
            take(&there).unwrap();
            let sent: Vec<u8> = (0..10 * 1_000 + 300).map(|n| (n / 1_000) as u8).collect();
            send(&socket, there.local_addr().unwrap(), &sent, 1_000).unwrap();
            let mut came = Vec::new();
            while came.len() < sent.len() {
                let mut bytes = Vec::with_capacity(ROOM);
                match receive(&there, &mut bytes) {
                    Ok((from, size)) => {
                        assert_eq!((from, size), (socket.local_addr().unwrap(), 1_000.min(bytes.len())));
                        came.extend(bytes);
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                    Err(e) => panic!("{e}"),
                }
            }
            assert_eq!(came, sent);
        }
    }

    #[test]
    fn one_datagram_is_a_train_too() {
        let (there, socket) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        send(&socket, there.local_addr().unwrap(), b"hello", 1_000).unwrap();
        let mut bytes = [0; 10];
        assert_eq!(there.recv(&mut bytes).unwrap(), 5);
    }
}
