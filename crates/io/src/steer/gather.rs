//! What leaves at once leaves together: datagrams of one length to one peer as a train, neighbouring segments of a flow as
//! one super-packet.
//!
//! System calls and the ways through the kernel behind them are what a tunnel costs most; so they are made for up to 64 packets
//! at a time. What never happens here: a packet waits for one that is not there yet, or is overtaken by another of its flow or
//! channel.

use crate::sys::offload::{Checksum, Offload, Segments, Transport};
use crate::sys::train;
use crate::sys::tun::Tun;
use headstart_core::steer::Channel;
use headstart_core::wire::ip::segments::{CHECKSUM, Join, Next, Super};
use std::net::{SocketAddr, UdpSocket};

/// Flows whose segments are joined at a time.
const MOST_FLOWS: usize = 16;

/// Datagrams to one peer, one behind the other.
#[derive(Debug)]
struct Train {
    to: SocketAddr,
    /// Bytes of each but the last.
    size: usize,
    count: usize,
    /// The last one was shorter.
    closed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Gather {
    trains: [Option<Train>; 2],
    bytes: [Vec<u8>; 2],
    /// The kernel, or the interface behind it, takes no trains on this channel.
    singly: [bool; 2],
    joins: Vec<Join>,
    /// Buffers of what was handed over.
    left: Vec<Vec<u8>>,
}

impl Gather {
    /// A datagram is to leave over `channel`.
    pub fn send(&mut self, sockets: &[UdpSocket; 2], channel: Channel, to: SocketAddr, datagram: &[u8]) {
        let n = channel.index();
        let most = if self.singly[n] { 1 } else { train::MOST };
        let fits = self.trains[n].as_ref().is_some_and(|train| {
            train.to == to
                && !train.closed
                && datagram.len() <= train.size
                && train.count < most
                && self.bytes[n].len() + datagram.len() <= train::LONGEST
        });
        if !fits {
            self.depart(sockets, channel);
        }
        let train = self.trains[n].get_or_insert(Train { to, size: datagram.len(), count: 0, closed: false });
        train.count += 1;
        train.closed = datagram.len() < train.size;
        self.bytes[n].extend_from_slice(datagram);
    }

    /// What was gathered for `channel` leaves.
    fn depart(&mut self, sockets: &[UdpSocket; 2], channel: Channel) {
        let n = channel.index();
        let Some(Train { to, size, count, .. }) = self.trains[n].take() else { return };
        let (socket, bytes) = (&sockets[n], &mut self.bytes[n]);
        // An empty datagram has no segment size, and we send none.
        let size = size.max(1);
        let sent = train::send(socket, to, bytes, size as u16);
        if let (Err(e), 2..) = (sent, count) {
            // A socket that cannot take a train says so at once; one datagram is too long for the way by itself as well.
            let never = matches!(e.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP));
            self.singly[n] |= never;
            if never || e.raw_os_error() == Some(libc::EMSGSIZE) {
                for datagram in bytes.chunks(size) {
                    // What the kernel has no room for, or no way to, is lost, as packets are.
                    let _ = train::send(socket, to, datagram, size as u16);
                }
            }
        }
        bytes.clear();
    }

    /// A packet is to be handed to the kernel. A buffer comes back to be used again, if there is one.
    pub fn deliver(&mut self, tun: &Tun, packet: Vec<u8>) -> Option<Vec<u8>> {
        for n in 0..self.joins.len() {
            match self.joins[n].join(&packet) {
                Next::Joined => return Some(packet),
                Next::Apart => {
                    self.left.push(hand_over(tun, self.joins.remove(n)));
                    break;
                }
                Next::Other => {}
            }
        }
        match Join::begin(packet) {
            Ok(begun) => {
                if self.joins.len() >= MOST_FLOWS {
                    self.left.push(hand_over(tun, self.joins.remove(0)));
                }
                self.joins.push(begun);
                self.left.pop()
            }
            Err(packet) => {
                let _ = tun.write(&Offload::default(), &packet);
                Some(packet)
            }
        }
    }

    /// Everything leaves: nothing more is there for now.
    pub fn flush(&mut self, sockets: &[UdpSocket; 2], tun: &Tun) {
        for channel in Channel::ALL {
            self.depart(sockets, channel);
        }
        self.left.extend(self.joins.drain(..).map(|join| hand_over(tun, join)));
        self.left.truncate(MOST_FLOWS);
    }
}

/// Hands what was joined to the kernel; what it has no room for is lost.
fn hand_over(tun: &Tun, join: Join) -> Vec<u8> {
    let (packet, shape) = join.end();
    let offload = shape.map(|Super { v4, start, headers, size }| Offload {
        checksum: Some(Checksum { start, offset: CHECKSUM as u16 }),
        segments: Some(Segments {
            transport: if v4 { Transport::TcpV4 } else { Transport::TcpV6 },
            ecn: false,
            headers,
            size,
        }),
    });
    let _ = tun.write(&offload.unwrap_or_default(), &packet);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_any_lengths_come_one_by_one_in_their_order_and_none_is_left() {
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = there.local_addr().unwrap();
        let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let lengths: Vec<usize> = (0..200).map(|n| [1_400, 1_400, 1_400, 90, 1_400, 1_430, 200][n % 7]).collect();
        for singly in [false, true] {
            let mut gather = Gather { singly: [singly; 2], ..Gather::default() };
            let mut came = 0;
            for (n, len) in lengths.iter().enumerate() {
                gather.send(&sockets, Channel::Fast, to, &vec![n as u8; *len]);
                // As much as a socket has room for.
                if n % 40 == 39 {
                    gather.depart(&sockets, Channel::Fast);
                    let mut bytes = [0; 2_000];
                    while came <= n {
                        let got = there.recv(&mut bytes).unwrap();
                        assert_eq!((got, bytes[0]), (lengths[came], came as u8));
                        came += 1;
                    }
                }
            }
            assert_eq!((came, gather.bytes[1].len()), (lengths.len(), 0));
        }
    }
}
