//! Ethernet frames as the emulator sees them: whose they are, and whether they are emulated at all.
//!
//! Reads addresses and types by offset; never looks at payloads, never alters a byte.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an Ethernet header without tags.
pub(super) const ETHERNET: usize = 14;

/// Source and destination of a frame that goes through the link models; `None` for what passes untouched: everything
/// that is not unicast IPv4 or IPv6 beyond the link itself (ARP, neighbour discovery, multicast, link-local).
pub(super) fn endpoints(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (header, packet) = frame.split_at_checked(ETHERNET)?;
    match header[12..] {
        [0x08, 0x00] => {
            let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
            let (from, to) = (address(12)?, address(16)?);
            let local = to.is_multicast() || to.is_broadcast() || to.is_link_local() || from.is_link_local();
            (!local).then_some((from.into(), to.into()))
        }
        [0x86, 0xdd] => {
            let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
            let (from, to) = (address(8)?, address(24)?);
            let local = to.is_multicast() || to.is_unicast_link_local() || from.is_unicast_link_local();
            (!local && !is_neighbour_discovery(packet)).then_some((from.into(), to.into()))
        }
        _ => None,
    }
}

/// Router and neighbour solicitations, advertisements and redirects: ICMPv6 types 133 to 137 (RFC 4861).
fn is_neighbour_discovery(packet: &[u8]) -> bool {
    const ICMPV6: u8 = 58;
    packet.get(6) == Some(&ICMPV6) && packet.get(40).is_some_and(|kind| (133..=137).contains(kind))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame with `payload` bytes after the IP header.
    pub(in super::super) fn frame(from: IpAddr, to: IpAddr, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                bytes.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
                bytes.extend(from.octets());
                bytes.extend(to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 58, 64]);
                bytes.extend(from.octets());
                bytes.extend(to.octets());
            }
            _ => panic!("two families in one frame"),
        }
        bytes.extend(payload);
        bytes
    }

    fn read(from: &str, to: &str, payload: &[u8]) -> Option<(IpAddr, IpAddr)> {
        endpoints(&frame(from.parse().unwrap(), to.parse().unwrap(), payload))
    }

    #[test]
    fn unicast_packets_of_both_families_are_emulated() {
        for (from, to) in [("198.18.0.2", "198.19.0.1"), ("2001:db8::2", "2001:db8::1")] {
            assert_eq!(read(from, to, &[128]), Some((from.parse().unwrap(), to.parse().unwrap())));
        }
    }

    #[test]
    fn what_keeps_the_wire_itself_alive_passes_untouched() {
        assert_eq!(endpoints(&[&[2; 12][..], &[8, 6], &[0; 28]].concat()), None, "ARP");
        assert_eq!(read("2001:db8::2", "2001:db8::1", &[135]), None, "neighbour solicitation");
        assert_eq!(read("fe80::2", "ff02::16", &[143]), None, "multicast listener report");
        assert_eq!(read("198.18.0.2", "224.0.0.251", &[]), None, "multicast DNS");
    }

    #[test]
    fn a_frame_cut_short_is_no_packet() {
        let whole = frame("2001:db8::2".parse().unwrap(), "2001:db8::1".parse().unwrap(), &[]);
        assert!((0..whole.len()).all(|n| endpoints(&whole[..n]).is_none()));
    }
}
