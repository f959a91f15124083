//! ICMP of both families (RFC 792, 4443): echoes, and errors about packets.
//!
//! An error quotes the packet that it is about, by which a host finds whose it was.

use super::{Header, ICMP, ICMP_V6, checksum, header_len, write as write_ip};
use std::net::IpAddr;

/// Bytes of a header.
pub const HEADER: usize = 8;
/// Most bytes of a packet that are quoted: an error stays within what every host takes, 576 bytes (RFC 1812, section 4.3.2.3) and 1280 (RFC
/// 4443, section 2.4). As many as kernels and routers quote, for programs read them.
pub const fn most_quoted(v4: bool) -> usize {
    if v4 { 576 - super::V4_HEADER - HEADER } else { 1280 - super::V6_HEADER - HEADER }
}

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// No way leads to that network.
    NoRoute,
    /// The host does not answer its neighbours.
    HostUnreachable,
    /// No program listens on that port.
    PortUnreachable,
    /// A filter forbids it.
    Prohibited,
    /// It is unreachable for the reason with this code, which depends on the family (RFC 792, 1122, 1812; 4443).
    Unreachable(u8),
    /// It is longer than this many bytes, which is all that the path takes.
    TooBig(u32),
    /// It has passed all the routers that it might.
    HopsExceeded,
}

impl Trouble {
    /// Type, code and second word of the message, by family.
    fn words(self, v4: bool) -> (u8, u8, u32) {
        match (self, v4) {
            (Self::NoRoute, true) => (3, 0, 0),
            (Self::HostUnreachable, true) => (3, 1, 0),
            (Self::PortUnreachable, true) => (3, 3, 0),
            (Self::Prohibited, true) => (3, 13, 0),
            (Self::Unreachable(code), true) => (3, code, 0),
            (Self::TooBig(mtu), true) => (3, 4, mtu.min(0xffff)),
            (Self::HopsExceeded, true) => (11, 0, 0),
            (Self::NoRoute, false) => (1, 0, 0),
            (Self::HostUnreachable, false) => (1, 3, 0),
            (Self::PortUnreachable, false) => (1, 4, 0),
            (Self::Prohibited, false) => (1, 1, 0),
            (Self::Unreachable(code), false) => (1, code, 0),
            (Self::TooBig(mtu), false) => (2, 0, mtu),
            (Self::HopsExceeded, false) => (3, 0, 0),
        }
    }

    /// What an error message of this type and code says, of IPv4 or IPv6; `word` is its path MTU, if it is about that.
    pub fn of(v4: bool, kind: u8, code: u8, word: u32) -> Option<Self> {
        Some(match (v4, kind, code) {
            (true, 3, 0) | (false, 1, 0) => Self::NoRoute,
            (true, 3, 1) | (false, 1, 3) => Self::HostUnreachable,
            (true, 3, 3) | (false, 1, 4) => Self::PortUnreachable,
            (true, 3, 4) | (false, 2, 0) => Self::TooBig(word),
            (true, 3, 13) | (false, 1, 1) => Self::Prohibited,
            (true, 3, _) | (false, 1, _) => Self::Unreachable(code),
            (true, 11, 0) | (false, 3, 0) => Self::HopsExceeded,
            _ => return None,
        })
    }
}

/// The packet by which `reporter` tells `to` of the trouble with `packet`, of which at most [`most_quoted`] bytes are given, as it comes in:
/// with so many routers that it might still pass. None if the two are not of one family.
pub fn error(reporter: IpAddr, to: IpAddr, trouble: Trouble, packet: &[u8], hop_limit: u8) -> Option<Vec<u8>> {
    if reporter.is_ipv4() != to.is_ipv4() {
        return None;
    }
    let quoted = &packet[..packet.len().min(most_quoted(to.is_ipv4()))];
    let (kind, code, word) = trouble.words(to.is_ipv4());
    let mut message = vec![kind, code, 0, 0];
    message.extend(word.to_be_bytes());
    message.extend(quoted);
    Some(packet_of(reporter, to, (0, hop_limit), message))
}

/// A packet with an ICMP message, of this traffic class and hop limit, whose checksum is filled in.
pub fn packet_of(
    source: IpAddr,
    destination: IpAddr,
    (traffic_class, hop_limit): (u8, u8),
    mut message: Vec<u8>,
) -> Vec<u8> {
    let protocol = if destination.is_ipv4() { ICMP } else { ICMP_V6 };
    if let Some(field) = message.get_mut(2..4) {
        field.fill(0);
    }
    let start =
        if protocol == ICMP { 0 } else { checksum::pseudo_header(source, destination, protocol, message.len()) };
    let sum = !checksum::fold(checksum::add(start, &message));
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    let len = header_len(destination);
    let mut packet = vec![0; len + message.len()];
    let header = Header { source, destination, protocol, traffic_class, hop_limit, whole: false, fragment: None };
    write_ip(&header, message.len(), &mut packet);
    packet[len..].copy_from_slice(&message);
    packet
}

/// Whether `message` says that no program listens on a port.
pub fn is_port_unreachable(v4: bool, message: &[u8]) -> bool {
    message.starts_with(if v4 { &[3, 3] } else { &[1, 4] })
}

/// The identifier of `message`, if it is an echo request.
pub fn echo_request(v4: bool, message: &[u8]) -> Option<u16> {
    echo(if v4 { 8 } else { 128 }, message)
}

/// The identifier of `message`, if it is an echo reply.
pub fn echo_reply(v4: bool, message: &[u8]) -> Option<u16> {
    echo(if v4 { 0 } else { 129 }, message)
}

fn echo(kind: u8, message: &[u8]) -> Option<u16> {
    let head = message.first_chunk::<HEADER>()?;
    (head[0] == kind && head[1] == 0).then(|| u16::from_be_bytes([head[4], head[5]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ip::parse;

    const ALL: [Trouble; 7] = [
        Trouble::NoRoute,
        Trouble::HostUnreachable,
        Trouble::PortUnreachable,
        Trouble::Prohibited,
        Trouble::Unreachable(2),
        Trouble::TooBig(1280),
        Trouble::HopsExceeded,
    ];

    #[test]
    fn codes_of_unreachable_stay_apart() {
        for (v4, kind, codes) in [(true, 3, 0..16), (false, 1, 0..8)] {
            for code in codes {
                let trouble = Trouble::of(v4, kind, code, 1300).unwrap();
                let word = if v4 && code == 4 { 1300 } else { 0 };
                assert_eq!(trouble.words(v4), (kind, code, word));
            }
        }
    }

    #[test]
    fn every_trouble_reads_as_it_was_written_in_both_families() {
        for (reporter, to) in [("192.0.2.1", "192.0.2.9"), ("2001:db8::1", "2001:db8::9")] {
            let (reporter, to): (IpAddr, IpAddr) = (reporter.parse().unwrap(), to.parse().unwrap());
            for trouble in ALL {
                let packet = error(reporter, to, trouble, &[7; 1900], 62).unwrap();
                let (header, message) = parse(&packet).unwrap();
                assert_eq!((header.source, header.destination, header.hop_limit), (reporter, to, 62));
                assert_eq!(packet.len(), if to.is_ipv4() { 576 } else { 1280 });
                let word = u32::from_be_bytes(message[4..8].try_into().unwrap());
                assert_eq!(Trouble::of(to.is_ipv4(), message[0], message[1], word), Some(trouble));
                let start =
                    if to.is_ipv4() { 0 } else { checksum::pseudo_header(reporter, to, ICMP_V6, message.len()) };
                assert_eq!(checksum::fold(checksum::add(start, message)), 0xffff);
            }
        }
        assert_eq!(error("192.0.2.1".parse().unwrap(), "::1".parse().unwrap(), Trouble::NoRoute, &[], 64), None);
    }

    #[test]
    fn an_echo_has_a_number() {
        assert_eq!(echo_request(true, &[8, 0, 0, 0, 1, 2, 0, 1]), Some(0x0102));
        assert_eq!(echo_request(false, &[128, 0, 0, 0, 1, 2, 0, 1, 9]), Some(0x0102));
        assert_eq!(echo_reply(true, &[8, 0, 0, 0, 1, 2, 0, 1]), None);
        assert_eq!(echo_reply(true, &[0, 0, 0, 0, 1, 2]), None);
    }
}
