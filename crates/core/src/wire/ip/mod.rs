//! IP packets: headers of IPv4 and IPv6 to meaning and back, with the transports that are forwarded.
//!
//! RFC 791 and 8200 for the headers, RFC 2474 and 3168 for the byte of the traffic class. Foreign bytes are a header or none;
//! they never panic. Reading checks no transport checksum: a packet of this very host may have its sum left to be done. Where it is done,
//! [`is_sound`] says whether it is right.

pub mod checksum;
pub mod icmp;
pub mod segments;
pub mod tcp;
pub mod udp;

use std::net::IpAddr;

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMP_V6: u8 = 58;
/// Bytes of an IPv4 header without options.
pub const V4_HEADER: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub const V6_HEADER: usize = 40;
/// How many routers what begins on this host may pass: the default of today's hosts (RFC 1700).
pub const HOP_LIMIT: u8 = 64;
/// The two bits of ECN in a traffic class (RFC 3168).
pub const ECN: u8 = 0b11;

/// Extension headers that are looked past (RFC 8200): hop-by-hop options, routing, destination options.
const LOOKED_PAST: [u8; 3] = [0, 43, 60];
/// The extension header of a fragment.
const V6_FRAGMENT: u8 = 44;
/// No honest packet has more extension headers than this.
const MOST_EXTENSIONS: usize = 8;

/// Which part of a packet a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The same for all fragments of a packet.
    pub id: u32,
    /// Where its payload goes, in bytes.
    pub offset: usize,
    /// Whether others come behind it.
    pub more: bool,
}

/// What an IP header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender.
    pub source: IpAddr,
    /// The destination.
    pub destination: IpAddr,
    /// What its payload is: [`TCP`], [`UDP`] and others.
    pub protocol: u8,
    /// Type of service or traffic class: six bits of DSCP, two of ECN.
    pub traffic_class: u8,
    /// Routers that it may pass yet.
    pub hop_limit: u8,
    /// Whether routers must not cut it (always so for IPv6).
    pub whole: bool,
    /// Which part it is, if it is not all.
    pub fragment: Option<Fragment>,
}

/// Reads a packet: its header, and the payload behind it.
pub fn parse(packet: &[u8]) -> Option<(Header, &[u8])> {
    match packet.first()? >> 4 {
        4 => parse_v4(packet),
        6 => parse_v6(packet),
        _ => None,
    }
}

fn parse_v4(packet: &[u8]) -> Option<(Header, &[u8])> {
    let head = packet.first_chunk::<V4_HEADER>()?;
    let len = 4 * usize::from(head[0] & 0xf);
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if len < V4_HEADER || total < len {
        return None;
    }
    let payload = packet.get(len..total)?;
    let flags = u16::from_be_bytes([head[6], head[7]]);
    let (offset, more) = (8 * usize::from(flags & 0x1fff), flags & 0x2000 != 0);
    let id = u32::from(u16::from_be_bytes([head[4], head[5]]));
    let address = |at: usize| IpAddr::from([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let header = Header {
        source: address(12),
        destination: address(16),
        protocol: head[9],
        traffic_class: head[1],
        hop_limit: head[8],
        whole: flags & 0x4000 != 0,
        fragment: (offset > 0 || more).then_some(Fragment { id, offset, more }),
    };
    Some((header, payload))
}

fn parse_v6(packet: &[u8]) -> Option<(Header, &[u8])> {
    let head = packet.first_chunk::<V6_HEADER>()?;
    let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&head[at..at + 16]).unwrap_or_default());
    let mut payload = packet.get(V6_HEADER..V6_HEADER + len)?;
    let mut protocol = head[6];
    let mut fragment = None;
    for _ in 0..=MOST_EXTENSIONS {
        if protocol == V6_FRAGMENT {
            let extension = payload.first_chunk::<8>()?;
            let place = u16::from_be_bytes([extension[2], extension[3]]);
            let id = u32::from_be_bytes([extension[4], extension[5], extension[6], extension[7]]);
            let (offset, more) = (usize::from(place & !7), place & 1 != 0);
            protocol = extension[0];
            payload = &payload[8..];
            // A packet that is its own only fragment is a packet (RFC 6946).
            fragment = (offset > 0 || more).then_some(Fragment { id, offset, more });
            if offset > 0 {
                break;
            }
        } else if LOOKED_PAST.contains(&protocol) {
            let [next, words, ..] = *payload.first_chunk::<8>()?;
            payload = payload.get(8 * (1 + usize::from(words))..)?;
            protocol = next;
        } else {
            break;
        }
    }
    let header = Header {
        source: address(8),
        destination: address(24),
        protocol,
        traffic_class: (head[0] << 4) | (head[1] >> 4),
        hop_limit: head[7],
        whole: true,
        fragment,
    };
    Some((header, payload))
}

/// Whether the checksum of a segment of TCP, or of a datagram of UDP, is right, or left out (RFC 768 and 6935). What is neither, or not all
/// of one, is sound.
pub fn is_sound(packet: &[u8]) -> bool {
    let Some((header, payload)) = parse(packet).filter(|(header, _)| header.fragment.is_none()) else { return true };
    let payload = match header.protocol {
        TCP => payload,
        UDP => {
            let Some(head) = payload.first_chunk::<{ udp::HEADER }>() else { return true };
            if head[6..] == [0, 0] {
                return true;
            }
            // Bytes behind the datagram are not its own.
            let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
            payload.get(..len).unwrap_or(payload)
        }
        _ => return true,
    };
    let sum = checksum::pseudo_header(header.source, header.destination, header.protocol, payload.len());
    checksum::fold(checksum::add(sum, payload)) == 0xffff
}

/// Bytes of the header that [`write()`] makes for a packet to `destination`.
pub fn header_len(destination: IpAddr) -> usize {
    if destination.is_ipv4() { V4_HEADER } else { V6_HEADER }
}

/// Writes the header of a packet with `payload` bytes behind it into the first bytes of `into`, which must have room. The two
/// addresses must be of one family, and the packet no longer than 65535 bytes.
pub fn write(header: &Header, payload: usize, into: &mut [u8]) {
    let len16 = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    match (header.source, header.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let head = &mut into[..V4_HEADER];
            head.fill(0);
            head[0] = 0x45;
            head[1] = header.traffic_class;
            head[2..4].copy_from_slice(&len16(V4_HEADER + payload));
            head[6] = if header.whole { 0x40 } else { 0 };
            head[8] = header.hop_limit;
            head[9] = header.protocol;
            head[12..16].copy_from_slice(&source.octets());
            head[16..20].copy_from_slice(&destination.octets());
            let sum = !checksum::fold(checksum::add(0, head));
            head[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let head = &mut into[..V6_HEADER];
            head.fill(0);
            head[0] = 0x60 | (header.traffic_class >> 4);
            head[1] = header.traffic_class << 4;
            head[4..6].copy_from_slice(&len16(payload));
            head[6] = header.protocol;
            head[7] = header.hop_limit;
            head[8..24].copy_from_slice(&source.octets());
            head[24..40].copy_from_slice(&destination.octets());
        }
        _ => debug_assert!(false, "addresses of two families in one header"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(source: &str, destination: &str) -> Header {
        Header {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: UDP,
            traffic_class: 0xb9,
            hop_limit: 7,
            whole: true,
            fragment: None,
        }
    }

    #[test]
    fn one_wrong_bit_makes_a_packet_unsound_and_no_checksum_does_not() {
        for (from, to) in [("192.0.2.1", "198.51.100.2"), ("2001:db8::1", "2001:db8::2")] {
            let (header, start) = (header(from, to), header_len(to.parse().unwrap()));
            let segment = tcp::Segment { source: 1, destination: 2, flags: tcp::Flags::ACK, ..tcp::Segment::default() };
            let mut datagram = vec![0; start + udp::HEADER + 3];
            write(&header, udp::HEADER + 3, &mut datagram);
            datagram[start..].copy_from_slice(&[0, 1, 0, 2, 0, 11, 0, 0, b'o', b'd', b'd']);
            assert!(is_sound(&datagram), "it has none");
            let sum = checksum::pseudo_header(header.source, header.destination, UDP, udp::HEADER + 3);
            let sum = !checksum::fold(checksum::add(sum, &datagram[start..]));
            datagram[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
            for packet in [tcp::packet(&header, &segment, b"odd"), datagram] {
                assert!(is_sound(&packet), "{packet:?}");
                for place in start..packet.len() {
                    let mut wrong = packet.clone();
                    wrong[place] ^= 4;
                    assert!(!is_sound(&wrong), "{place} of {packet:?}");
                }
            }
            let mut other = vec![7; start + 9];
            write(&Header { protocol: ICMP, ..header }, 9, &mut other);
            assert!(is_sound(&other) && is_sound(b"") && is_sound(&[0x45]));
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for (from, to) in [("192.0.2.1", "198.51.100.2"), ("2001:db8::1", "2001:db8::2")] {
            let header = header(from, to);
            let len = header_len(header.destination);
            let mut packet = vec![0xee; len + 5];
            write(&header, 5, &mut packet);
            assert_eq!(parse(&packet), Some((header, &[0xee_u8; 5][..])));
            if len == V4_HEADER {
                assert_eq!(checksum::fold(checksum::add(0, &packet[..len])), 0xffff);
            }
        }
    }

    #[test]
    fn a_fragment_says_where_it_goes() {
        let mut v4 = vec![0; 28];
        write(&header("192.0.2.1", "192.0.2.2"), 8, &mut v4);
        v4[4..8].copy_from_slice(&[0x12, 0x34, 0x20, 3]);
        let fragment = parse(&v4).unwrap().0.fragment;
        assert_eq!(fragment, Some(Fragment { id: 0x1234, offset: 24, more: true }));
        let mut v6 = vec![0; 40 + 16];
        write(&header("2001:db8::1", "2001:db8::2"), 16, &mut v6);
        v6[6] = V6_FRAGMENT;
        v6[40..48].copy_from_slice(&[UDP, 0, 0, 16, 0, 0, 0, 9]);
        let (header, payload) = parse(&v6).unwrap();
        assert_eq!(header.fragment, Some(Fragment { id: 9, offset: 16, more: false }));
        assert_eq!((header.protocol, payload.len()), (UDP, 8));
    }

    #[test]
    fn extensions_are_looked_past_and_what_is_behind_the_packet_is_left_out() {
        let mut packet = vec![0; 40 + 12 + 3];
        write(&header("2001:db8::1", "2001:db8::2"), 12, &mut packet);
        packet[6] = 60;
        packet[40] = UDP;
        let (header, payload) = parse(&packet).unwrap();
        assert_eq!((header.protocol, payload.len()), (UDP, 4));
        assert_eq!(parse(&packet[..50]), None, "cut");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some((_, payload)) = parse(&bytes) {
                prop_assert!(payload.len() < bytes.len());
            }
        }
    }

    #[test]
    fn options_are_looked_past_and_lengths_that_cannot_be_are_no_packet() {
        let mut packet = vec![0; 28];
        write(&Header { whole: false, ..header("192.0.2.1", "192.0.2.2") }, 8, &mut packet);
        packet[20..].copy_from_slice(b"optsdata");
        assert_eq!(parse(&packet).map(|(header, payload)| (header.whole, payload)), Some((false, &b"optsdata"[..])));
        // So many words of header, and so many bytes of it all.
        for (words, total, payload) in [
            (6, 28, Some(&b"data"[..])),
            (6, 24, Some(b"")),
            (7, 28, Some(b"")),
            (4, 28, None),
            (6, 23, None),
            (8, 28, None),
            (5, 29, None),
        ] {
            (packet[0], packet[3]) = (0x40 | words, total);
            assert_eq!(parse(&packet).map(|(_, payload)| payload), payload, "{words} {total}");
        }
    }

    #[test]
    fn behind_a_fragments_header_extensions_are_looked_past_in_the_first_part_alone() {
        // An extension of 16 bytes, and what is behind it.
        let extension = [&[UDP, 1][..], &[0; 14], b"data"].concat();
        let part = |place: u16| {
            let mut packet = vec![0; V6_HEADER + 8];
            write(&header("2001:db8::1", "2001:db8::2"), 8 + extension.len(), &mut packet);
            packet[6] = V6_FRAGMENT;
            packet[V6_HEADER] = 60;
            packet[V6_HEADER + 2..V6_HEADER + 4].copy_from_slice(&place.to_be_bytes());
            packet.extend(&extension);
            let (header, payload) = parse(&packet).unwrap();
            (header.fragment.map(|fragment| (fragment.offset, fragment.more)), header.protocol, payload.to_vec())
        };
        assert_eq!(part(0), (None, UDP, b"data".to_vec()), "it is all there is (RFC 6946)");
        assert_eq!(part(1), (Some((0, true)), UDP, b"data".to_vec()));
        assert_eq!(part(8), (Some((8, false)), 60, extension.clone()));
    }
}
