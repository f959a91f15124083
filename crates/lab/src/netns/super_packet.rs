//! Super-packets: one set of headers before the payload of many segments, as the kernel hands them over, and how they are
//! cut into the packets of at most one MTU that a wire would carry.
//!
//! A run of neighbouring segments becomes a frame again: either one finished but for its checksum, or a shorter
//! super-packet. Headers change as the kernel's own segmentation changes them (lengths, IPv4 identification and checksum,
//! TCP sequence number and flags); payloads are never touched. Sources: RFC 791, 768, 8200, 9293 and 3168 for the fields,
//! linux/virtio_net.h for what is left to the kernel. Pure: bytes in, bytes out; foreign bytes are cut or refused, they
//! never panic.

use super::frame::ETHERNET;
use headstart_core::wire::ip::checksum::{add, fold};
use headstart_core::wire::ip::tcp::Flags;
use headstart_core::wire::ip::{TCP, UDP, segments};
use headstart_io::sys::offload::{Checksum, Offload, Segments, Transport};
use std::ops::Range;

/// Longest headers that are understood: Ethernet, an IPv6 header with extensions or an IPv4 header with options, and TCP
/// with all of its options.
pub const HEADERS: usize = 256;

/// Flags of TCP, in byte 13: the last segment alone ends a connection or asks to be delivered at once, the first alone
/// says that the window was reduced.
const FIN_PSH: u8 = Flags::FIN.0 | Flags::PSH.0;
const CWR: u8 = Flags::CWR.0;

/// How one super-packet is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    v4: bool,
    transport: Transport,
    ecn: bool,
    /// Where the transport header begins.
    start: usize,
    /// Where the payload begins.
    headers: usize,
    /// Bytes of payload in each segment but the last.
    size: usize,
    /// Bytes of payload in all.
    payload: usize,
}

/// The first part of a frame that is to go out; the second is a range of the payload.
pub struct Headers {
    bytes: [u8; HEADERS],
    len: usize,
    /// What is left to do about the frame.
    pub offload: Offload,
}

impl Headers {
    /// The headers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Cut {
    /// How `frame`, an Ethernet frame, is cut into `segments`. None if it is not what `segments` say that it is.
    pub fn plan(frame: &[u8], segments: Segments) -> Option<Self> {
        let (v4, start, protocol) = transport_of(frame)?;
        let header = frame.get(start..)?;
        let wanted = match segments.transport {
            Transport::TcpV4 if v4 => TCP,
            Transport::TcpV6 if !v4 => TCP,
            Transport::Udp => UDP,
            _ => return None,
        };
        let len = if protocol == TCP { 4 * usize::from(header.get(12)? >> 4) } else { 8 };
        let headers = start + len;
        let least = if protocol == TCP { 20 } else { 8 };
        let sound = protocol == wanted && len >= least && headers <= HEADERS && headers <= frame.len();
        let payload = frame.len().checked_sub(headers)?;
        let cut = Self {
            v4,
            transport: segments.transport,
            ecn: segments.ecn,
            start,
            headers,
            size: usize::from(segments.size),
            payload,
        };
        (sound && segments.size > 0 && payload > 0 && cut.count() <= usize::from(u16::MAX)).then_some(cut)
    }

    /// Number of segments; at least one.
    pub fn count(&self) -> usize {
        self.payload.div_ceil(self.size)
    }

    /// Where in the frame the payload of these segments is.
    pub fn payload(&self, segments: &Range<usize>) -> Range<usize> {
        let at = |n: usize| self.headers + (n * self.size).min(self.payload);
        at(segments.start)..at(segments.end)
    }

    /// Bytes of the IP packet that carries this segment.
    pub fn wire_len(&self, segment: usize) -> usize {
        self.headers - ETHERNET + self.payload(&(segment..segment + 1)).len()
    }

    /// The headers of a frame that carries these segments, at least one, of `frame`, the one that was planned for.
    pub fn headers(&self, frame: &[u8], segments: &Range<usize>) -> Headers {
        let mut bytes = [0; HEADERS];
        bytes[..self.headers].copy_from_slice(&frame[..self.headers]);
        let payload = self.payload(segments).len();
        let (first, last) = (segments.start == 0, segments.end >= self.count());
        let (ip, transport) = bytes[ETHERNET..self.headers].split_at_mut(self.start - ETHERNET);
        let len = transport.len() + payload;
        let ip_len = ip.len();
        let len16 = |len: usize| (len as u16).to_be_bytes();
        if self.v4 {
            ip[2..4].copy_from_slice(&len16(ip_len + len));
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(segments.start as u16);
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].fill(0);
            let sum = !fold(add(0, ip));
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            ip[4..6].copy_from_slice(&len16(ip_len - 40 + len));
        }
        let addresses = if self.v4 { &ip[12..20] } else { &ip[8..40] };
        let (protocol, field) = if self.transport == Transport::Udp { (UDP, 6) } else { (TCP, 16) };
        let pseudo = fold(add(u64::from(protocol) + len as u64, addresses));
        transport[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        if protocol == UDP {
            transport[4..6].copy_from_slice(&len16(len));
        } else {
            let bytes_before = (segments.start * self.size) as u32;
            let seq = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            transport[4..8].copy_from_slice(&seq.wrapping_add(bytes_before).to_be_bytes());
            transport[13] &= if last { 0xff } else { !FIN_PSH } & if first { 0xff } else { !CWR };
        }
        let many = segments.len() > 1;
        let offload = Offload {
            checksum: Some(Checksum { start: self.start as u16, offset: field as u16 }),
            segments: many.then_some(Segments {
                transport: self.transport,
                ecn: self.ecn && first,
                headers: self.headers as u16,
                size: self.size as u16,
            }),
        };
        Headers { bytes, len: self.headers, offload }
    }
}

/// Fills in the checksum that `packet` still needs; leaves alone what has no room for one.
pub fn finish(packet: &mut [u8], checksum: Checksum) {
    segments::finish(packet, checksum.start.into(), checksum.offset.into());
}

/// Whether the frame is IPv4, where its transport header begins, and which transport; none for fragments and for what
/// is not IP.
pub fn transport_of(frame: &[u8]) -> Option<(bool, usize, u8)> {
    let (ethernet, ip) = frame.split_at_checked(ETHERNET)?;
    match ethernet[12..] {
        [0x08, 0x00] => {
            let len = 4 * usize::from(ip.first()? & 0xf);
            let fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff != 0;
            (len >= 20 && ip.len() >= len && !fragment).then_some((true, ETHERNET + len, *ip.get(9)?))
        }
        [0x86, 0xdd] => {
            let (mut next, mut at) = (*ip.get(6)?, 40);
            // Hop-by-hop options, routing, destination options: RFC 8200, section 4.
            while let 0 | 43 | 60 = next {
                next = *ip.get(at)?;
                at += 8 * (1 + usize::from(*ip.get(at + 1)?));
            }
            (ip.len() >= at).then_some((false, ETHERNET + at, next))
        }
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A super-packet of TCP with 12 bytes of options, or of UDP, with a payload that counts.
    pub(in super::super) fn super_packet(transport: Transport, payload: usize, size: u16) -> (Vec<u8>, Segments) {
        let tcp: &[u8] = &[
            0x1f, 0x90, 0, 80, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x80, 0x99, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1,
            0, 0, 0, 2,
        ];
        let udp: &[u8] = &[0x1f, 0x90, 0, 53, 0, 0, 0, 0];
        let header = if transport == Transport::Udp { udp } else { tcp };
        let mut bytes = vec![2; 12];
        if transport == Transport::TcpV6 {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, TCP, 64]);
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        } else {
            let protocol = if transport == Transport::Udp { UDP } else { TCP };
            bytes.extend([8, 0, 0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0]);
            bytes.extend([198, 18, 0, 2, 198, 19, 0, 1]);
        }
        bytes.extend(header);
        bytes.extend((0..payload).map(|n| n as u8));
        (bytes, Segments { transport, ecn: transport != Transport::Udp, headers: 0, size })
    }

    /// The frame of these segments, finished if it is a single one.
    fn frame_of(cut: &Cut, frame: &[u8], segments: Range<usize>) -> (Vec<u8>, Offload) {
        let headers = cut.headers(frame, &segments);
        let mut bytes = [headers.bytes(), &frame[cut.payload(&segments)]].concat();
        if headers.offload.segments.is_none() {
            finish(&mut bytes, headers.offload.checksum.unwrap());
        }
        (bytes, headers.offload)
    }

    /// Checks lengths and checksums of a finished packet; its transport header and payload.
    fn checked(packet: &[u8]) -> &[u8] {
        let (v4, start, protocol) = transport_of(packet).unwrap();
        let ip = &packet[ETHERNET..start];
        let len = packet.len() - start;
        if v4 {
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), packet.len() - ETHERNET);
            assert_eq!(fold(add(0, ip)), 0xffff, "IPv4 header checksum");
        } else {
            assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), packet.len() - ETHERNET - 40);
        }
        let addresses = if v4 { &ip[12..20] } else { &ip[8..40] };
        assert_eq!(fold(add(add(u64::from(protocol) + len as u64, addresses), &packet[start..])), 0xffff, "checksum");
        &packet[start..]
    }

    #[test]
    fn the_segments_of_tcp_are_what_a_wire_would_have_carried() {
        for transport in [Transport::TcpV4, Transport::TcpV6] {
            let (frame, segments) = super_packet(transport, 3000, 1448);
            let cut = Cut::plan(&frame, segments).unwrap();
            assert_eq!(cut.count(), 3);
            let mut payload: Vec<u8> = Vec::new();
            for (n, (flags, size)) in [(0x90, 1448), (0x10, 1448), (0x19, 104)].into_iter().enumerate() {
                let (packet, offload) = frame_of(&cut, &frame, n..n + 1);
                assert_eq!(offload.segments, None);
                assert_eq!(packet.len() - ETHERNET, cut.wire_len(n));
                let tcp = checked(&packet);
                let seq = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
                assert_eq!(seq, 0xffff_ff00_u32.wrapping_add(1448 * n as u32), "it wraps");
                assert_eq!((tcp[13], tcp.len() - 32), (flags, size), "CWR first, PSH and FIN last");
                assert_eq!(tcp[20..32], frame[cut.start + 20..cut.start + 32], "options are on each");
                payload.extend(&tcp[32..]);
            }
            assert_eq!(payload, frame[cut.headers..]);
        }
    }

    #[test]
    fn the_segments_of_udp_are_datagrams_of_their_own() {
        let (frame, segments) = super_packet(Transport::Udp, 2500, 1200);
        let cut = Cut::plan(&frame, segments).unwrap();
        for (n, size) in [1200, 1200, 100].into_iter().enumerate() {
            let (packet, _) = frame_of(&cut, &frame, n..n + 1);
            let udp = checked(&packet);
            assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), 8 + size);
            let id = u16::from_be_bytes([packet[18], packet[19]]);
            assert_eq!(id, 0xfffe_u16.wrapping_add(n as u16));
        }
    }

    #[test]
    fn what_is_cut_out_of_the_middle_is_a_super_packet_again() {
        let (frame, segments) = super_packet(Transport::TcpV4, 10_000, 1000);
        let whole = Cut::plan(&frame, segments).unwrap();
        let (middle, offload) = frame_of(&whole, &frame, 3..7);
        let part = Cut::plan(&middle, offload.segments.unwrap()).unwrap();
        assert_eq!((part.count(), offload.segments.unwrap().ecn), (4, false));
        for n in 0..4 {
            let (packet, _) = frame_of(&part, &middle, n..n + 1);
            assert_eq!(packet, frame_of(&whole, &frame, 3 + n..4 + n).0);
        }
        // The kernel adds lengths on its own; what it begins with must be the sum for the whole.
        let pseudo = u16::from_be_bytes([middle[50], middle[51]]);
        assert_eq!(pseudo, fold(add(u64::from(TCP) + 32 + 4000, &middle[26..34])));
    }

    #[test]
    fn a_frame_that_is_not_what_it_is_said_to_be_is_refused() {
        let (frame, segments) = super_packet(Transport::TcpV4, 3000, 1448);
        assert!((0..66).all(|len| Cut::plan(&frame[..len], segments).is_none()), "cut short");
        for transport in [Transport::TcpV6, Transport::Udp] {
            assert_eq!(Cut::plan(&frame, Segments { transport, ..segments }), None, "{transport:?}");
        }
        assert_eq!(Cut::plan(&frame, Segments { size: 0, ..segments }), None);
        let mut fragment = frame.clone();
        fragment[20] = 0x20;
        assert_eq!(Cut::plan(&fragment, segments), None);
        let mut stub = frame;
        stub[46] = 0x40;
        assert_eq!(Cut::plan(&stub, segments), None, "16 bytes are no TCP header");
    }

    proptest! {
        #[test]
        fn any_bytes_are_cut_or_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
            v4: bool,
            kind in 0..3,
            size: u16,
            ends in (0..400_usize, 0..400_usize),
        ) {
            let transport = [Transport::TcpV4, Transport::TcpV6, Transport::Udp][kind as usize];
            // Most random bytes are no IP at all.
            if bytes.len() > 34 {
                let (ethertype, first, protocol) = if v4 { ([8, 0], 0x45, 23) } else { ([0x86, 0xdd], 0x60, 20) };
                bytes[12..14].copy_from_slice(&ethertype);
                bytes[14] = first;
                bytes[protocol] = if transport == Transport::Udp { UDP } else { TCP };
            }
            let segments = Segments { transport, ecn: true, headers: 0, size };
            if let Some(cut) = Cut::plan(&bytes, segments) {
                let start = ends.0 % cut.count();
                let end = start + 1 + ends.1 % (cut.count() - start);
                let (part, offload) = frame_of(&cut, &bytes, start..end);
                prop_assert_eq!(part.len(), cut.headers + cut.payload(&(start..end)).len());
                prop_assert_eq!(offload.segments.is_some(), end - start > 1);
            }
            finish(&mut bytes, Checksum { start: size, offset: 6 });
        }
    }
}
