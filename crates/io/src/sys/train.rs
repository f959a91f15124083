//! Trains of datagrams: many of one length by one system call, each way (UDP_SEGMENT and UDP_GRO, udp(7)).
//!
//! The kernel cuts a train into datagrams as late as it can, and joins what has come in a row from one peer into one again;
//! between, each hop of its stack is taken once and not once a datagram. What never happens here: a train is longer than the
//! kernel takes.

use super::datagram::{self, Around, past_refusals, receive_with, send_with};
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

/// Sends `data` in datagrams of `size` bytes, of which the last may be shorter, with this around each: at once where the kernel takes them
/// so. The error of the first that was not sent, if there was one.
pub fn send_around(socket: impl AsFd, to: SocketAddr, data: &[u8], around: Around, size: u16) -> io::Result<()> {
    let each = usize::from(size.max(1));
    let mut result = Ok(());
    for train in data.chunks(each * MOST.min((LONGEST / each).max(1))) {
        let at_once = (train.len() > each).then_some(size);
        let sent = past_refusals(|| send_with(&socket, to, train, Some(around), at_once));
        // A length that its device does not take, or a device without checksums: what is wrong with one is said of each.
        let apart = |e: &io::Error| matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE));
        let sent = match sent {
            Err(e) if apart(&e) => {
                let one = |one| past_refusals(|| datagram::send_around(&socket, to, one, around));
                train.chunks(each).map(one).fold(Ok(()), io::Result::and)
            }
            other => other,
        };
        result = result.and(sent);
    }
    result
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
    fn a_train_comes_whole_or_in_datagrams_with_the_traffic_class_it_was_sent_with() {
        for here in ["127.0.0.1:0", "[::1]:0"] {
            let here: SocketAddr = here.parse().unwrap();
            let (Ok(there), Ok(socket)) = (datagram::udp(here.is_ipv4()), datagram::udp(here.is_ipv4())) else {
                continue;
            };
            if rustix::net::bind(&there, &here).is_err() {
                continue;
            }
            let there = UdpSocket::from(there);
            let to = there.local_addr().unwrap();
            let data: Vec<u8> = (0..130 * 400 + 100).map(|n| (n / 400) as u8).collect();
            let hear = |at: usize| {
                let mut bytes = Vec::with_capacity(ROOM);
                loop {
                    match datagram::receive(&there, &mut bytes) {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                        other => {
                            let arrived = other.unwrap();
                            assert_eq!(arrived.traffic_class, 0xb8);
                            assert_eq!(bytes, data[at..at + bytes.len()]);
                            break (bytes.len(), arrived.train);
                        }
                    }
                }
            };
            let around = Around { traffic_class: 0xb8, hop_limit: 64, from: None };
            send_around(&socket, to, &data[..900], around, 400).unwrap();
            assert_eq!([hear(0), hear(400), hear(800)], [(400, None), (400, None), (100, None)]);
            take(&there).unwrap();
            // More than goes at once.
            send_around(&socket, to, &data, around, 400).unwrap();
            let (mut at, mut came) = (0, 0);
            while at < data.len() {
                let (len, size) = hear(at);
                assert!(size == Some(400) || len <= 400);
                (at, came) = (at + len, came + 1);
            }
            assert!(came <= 6, "{came}");
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
