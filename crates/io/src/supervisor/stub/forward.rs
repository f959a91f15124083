//! Questions that are none of ours, taken to the server that the program meant, and its replies brought back: byte for
//! byte, each from a socket, and so a port, of its own (RFC 5452, section 9.2).

use crate::poll::{Interest, Poll};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::relay::is_reply;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Questions on their way at once; the oldest is given up for a new one.
const MAX_OPEN: usize = 128;
/// How long a reply may take: no resolver waits longer (the C library's largest `timeout` is 30 s).
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
/// Messages read at a time, against a flood of forgeries.
const AT_A_TIME: usize = 32;
/// The largest message.
const MAX_MESSAGE: usize = 65_535;

/// Where a question came from: a post, and the socket that asked there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub post: usize,
    pub peer: SocketAddr,
}

#[derive(Debug)]
struct Open {
    asker: Asker,
    query: Vec<u8>,
    socket: OwnedFd,
    since: Instant,
}

/// Questions on their way.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    open: BTreeMap<u64, Open>,
    next: u64,
    /// What came back and was no reply.
    pub ignored: u64,
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Returned {
    /// The server's reply.
    Reply(Asker, Vec<u8>),
    /// The server is not there; the question itself.
    Unreachable(Asker, Vec<u8>),
}

impl Forwards {
    /// Takes `query` to `server`. Events of its socket come under `token(n)`, n for [`Self::event`].
    pub fn send(
        &mut self,
        poll: &Poll,
        token: impl Fn(u64) -> u64,
        (now, server): (Instant, SocketAddr),
        asker: Asker,
        query: Vec<u8>,
    ) -> io::Result<()> {
        // No timer for these: the next question removes them.
        while self.open.len() >= MAX_OPEN || self.open.values().next().is_some_and(|o| now >= o.since + GIVE_UP_AFTER) {
            self.open.pop_first();
        }
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        connect(&socket, &server)?;
        send(&socket, &query, SendFlags::NOSIGNAL)?;
        poll.add(&socket, token(self.next), Interest::Read)?;
        self.open.insert(self.next, Open { asker, query, socket, since: now });
        self.next += 1;
        Ok(())
    }

    /// Something happened to question `n`; what came of it, if that was it.
    pub fn event(&mut self, n: u64, buf: &mut Vec<u8>) -> Option<Returned> {
        let open = self.open.get(&n)?;
        buf.resize(MAX_MESSAGE, 0);
        for _ in 0..AT_A_TIME {
            match recv(&open.socket, &mut buf[..], RecvFlags::empty()) {
                Ok((_, len)) if is_reply(&buf[..len.min(MAX_MESSAGE)], &open.query) => {
                    let reply = buf[..len.min(MAX_MESSAGE)].to_vec();
                    return self.open.remove(&n).map(|o| Returned::Reply(o.asker, reply));
                }
                // Forged or broken: the true reply may still come.
                Ok(_) => self.ignored += 1,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Err(_) => return self.open.remove(&n).map(|o| Returned::Unreachable(o.asker, o.query)),
            }
        }
        None
    }
}
