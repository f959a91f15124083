//! A queue of the kernel's packets that wait for this program's word (nfnetlink_queue): each is let go on, changed or not.
//!
//! No packet is ever held back or dropped: where no program reads, or not fast enough, the kernel lets packets pass by itself. On
//! closing, those that still wait would be dropped; [`PacketQueue::serve`] once the rule that fills it is gone leaves none.

use crate::host::KernelError;
use headstart_core::wire::nfqueue::{self, Direction, Message, messages};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that one message of the kernel has at most: a whole packet and what is said of it.
const MOST: usize = 80 * 1024;
/// Packets dealt with in one go, so that other sources get their turn.
const BATCH: usize = 256;

/// See the module.
pub struct PacketQueue {
    socket: Socket,
    number: u16,
    bytes: Vec<u8>,
    packet: Vec<u8>,
    verdict: Vec<u8>,
}

impl std::fmt::Debug for PacketQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketQueue").field("number", &self.number).finish_non_exhaustive()
    }
}

impl PacketQueue {
    /// Opens queue `number` of the calling thread's network namespace (CAP_NET_ADMIN).
    pub fn open(number: u16) -> Result<Self, KernelError> {
        let failed = |e: io::Error| KernelError::new(format!("opening the kernel's packet queue {number}"), e);
        let open = || {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let socket = open().map_err(failed)?;
        for request in nfqueue::bind(number) {
            ask(&socket, &request).map_err(failed)?;
        }
        socket.set_non_blocking(true).map_err(failed)?;
        let (packet, verdict) = (Vec::new(), Vec::new());
        Ok(Self { socket, number, bytes: Vec::with_capacity(MOST), packet, verdict })
    }

    /// Hears `decide` about the packets that wait, at most some hundreds: it may change a packet, and says whether it has. Whether
    /// there may be more.
    pub fn serve(&mut self, mut decide: impl FnMut(Direction, &mut Vec<u8>) -> bool) -> io::Result<bool> {
        for _ in 0..BATCH {
            self.bytes.clear();
            match self.socket.recv(&mut self.bytes, 0) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // Some had no room, and were let through.
                Err(e) if e.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => continue,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            for message in messages(&self.bytes) {
                let Message::Packet { id, direction, payload } = message else { continue };
                self.packet.clear();
                self.packet.extend_from_slice(payload);
                let changed = decide(direction, &mut self.packet);
                self.verdict.clear();
                nfqueue::accept(&mut self.verdict, self.number, id, changed.then_some(&self.packet));
                self.socket.send(&self.verdict, 0)?;
            }
        }
        Ok(true)
    }
}

impl AsFd for PacketQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        crate::sys::netlink::borrow(&self.socket)
    }
}

/// Adds the rule that hands packets over, on kernels whose nf_tables has none of its own.
pub(crate) fn add_rule(table: &str, chain: &str, number: u16) -> Result<(), KernelError> {
    let failed = |e: io::Error| KernelError::new(format!("adding a rule for packet queue {number} to {table}"), e);
    let add = || {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        ask(&socket, &nfqueue::rule(table, chain, number))
    };
    add().map_err(failed)
}

/// Sends a request with one message that is to be acknowledged, and waits for that.
fn ask(socket: &Socket, request: &[u8]) -> io::Result<()> {
    socket.send(request, 0)?;
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        for message in messages(&bytes) {
            if let Message::Acknowledged { error, .. } = message {
                return if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) };
            }
        }
    }
}
