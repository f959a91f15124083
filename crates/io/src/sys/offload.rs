//! What is left to do about a frame that the kernel hands over unfinished: `struct virtio_net_hdr`, as AF_PACKET sockets
//! use it under PACKET_VNET_HDR.
//!
//! A frame may want its transport checksum filled in, and may be a super-packet: one set of headers before the payload of
//! many segments. Source: linux/virtio_net.h (the legacy header, in the byte order of the host). Reads and writes bytes;
//! touches no frame.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of the header.
pub const HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Beside a kind: the first segment alone carries CWR.
const GSO_ECN: u8 = 0x80;

/// The checksum that a frame still needs: ones' complement over all bytes from `start` on. Where it goes is the sum of
/// the pseudo header already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Where the transport header begins, from the first byte of the frame.
    pub start: u16,
    /// Where in the transport header the checksum goes.
    pub offset: u16,
}

/// The transport of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over either.
    Udp,
}

/// How a super-packet wants to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Its transport.
    pub transport: Transport,
    /// Only the first segment carries CWR (RFC 3168).
    pub ecn: bool,
    /// Bytes of headers. The kernel gives it as a hint; to the kernel it must be true.
    pub headers: u16,
    /// Bytes of payload in each segment but the last; never zero.
    pub size: u16,
}

/// What is left to do about a frame; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Its checksum, unless it is there already.
    pub checksum: Option<Checksum>,
    /// Its segments, if it is a super-packet.
    pub segments: Option<Segments>,
}

impl Offload {
    /// Reads a header; `None` for a kind of super-packet that is not known here.
    pub fn read(bytes: [u8; HEADER]) -> Option<Self> {
        let [flags, kind, ..] = bytes;
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let checksum = (flags & NEEDS_CHECKSUM != 0).then(|| Checksum { start: word(6), offset: word(8) });
        let transport = match kind & !GSO_ECN {
            GSO_NONE => return Some(Self { checksum, segments: None }),
            GSO_TCP_V4 => Transport::TcpV4,
            GSO_TCP_V6 => Transport::TcpV6,
            GSO_UDP_L4 => Transport::Udp,
            _ => return None,
        };
        let (headers, size) = (word(2), word(4));
        let segments = Segments { transport, ecn: kind & GSO_ECN != 0, headers, size };
        (size > 0).then_some(Self { checksum, segments: Some(segments) })
    }

    /// The header for these.
    pub fn write(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut word = |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        if let Some(Checksum { start, offset }) = self.checksum {
            word(6, start);
            word(8, offset);
        }
        if let Some(Segments { headers, size, .. }) = self.segments {
            word(2, headers);
            word(4, size);
        }
        bytes[0] = if self.checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
        bytes[1] = match self.segments {
            None => GSO_NONE,
            Some(Segments { transport, ecn, .. }) => {
                let kind = match transport {
                    Transport::TcpV4 => GSO_TCP_V4,
                    Transport::TcpV6 => GSO_TCP_V6,
                    Transport::Udp => GSO_UDP_L4,
                };
                kind | if ecn { GSO_ECN } else { 0 }
            }
        };
        bytes
    }
}

/// Has the kernel cut what is sent over this UDP socket into datagrams of `size` bytes (UDP_SEGMENT), so that one call
/// sends up to 64 of them.
pub fn segment_datagrams(socket: &impl AsFd, size: u16) -> io::Result<()> {
    let (fd, value) = (socket.as_fd().as_raw_fd(), libc::c_int::from(size));
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` outlives the call and the length is its own.
    let rc = unsafe { libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const value).cast(), len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_do_survives_its_header() {
        let checksum = Some(Checksum { start: 34, offset: 16 });
        let segments = |transport, ecn| Some(Segments { transport, ecn, headers: 66, size: 1448 });
        for offload in [
            Offload::default(),
            Offload { checksum, segments: None },
            Offload { checksum, segments: segments(Transport::TcpV4, false) },
            Offload { checksum, segments: segments(Transport::TcpV6, true) },
            Offload { checksum, segments: segments(Transport::Udp, false) },
        ] {
            assert_eq!(Offload::read(offload.write()), Some(offload));
        }
    }

    #[test]
    fn a_super_packet_of_an_unknown_kind_or_without_a_size_is_none() {
        let mut bytes = Offload::default().write();
        bytes[1] = 3;
        assert_eq!(Offload::read(bytes), None, "UDP fragments, which no current kernel makes");
        bytes[1] = GSO_TCP_V4;
        assert_eq!(Offload::read(bytes), None, "segments of no bytes");
    }
}
