//! What is read of a packet before it is steered: a few facts, out of its headers, without trust.
//!
//! RFC 791, RFC 8200, RFC 9293. Nothing of a payload is read. Whatever is no IP packet of its own length is refused; what is
//! IP and not understood (fragments, extension headers, other protocols) is a [`Kind::Datagram`] between two addresses.

use super::cap::Use;
use super::channel::Channel;
use crate::wire::ip::tcp::Flags;
use crate::wire::ip::{TCP, UDP};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::ops::Range;

const DNS_PORT: u16 = 53;
const TLS_PORTS: [u16; 2] = [443, 853];

/// A flow, both directions of it: a keyed hash of addresses, ports and protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey(pub u64);

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It opens a TCP connection, from either end.
    Open,
    /// It acknowledges, and nothing else.
    Ack,
    /// It ends a TCP connection without data.
    Close,
    /// It carries data of a TCP connection.
    Data,
    /// A question to a DNS server or its answer.
    Dns,
    /// Anything else.
    Datagram,
}

impl Kind {
    /// Whether it carries no data of a program: the paper's *control packets* (section 3).
    pub fn is_control(self) -> bool {
        matches!(self, Self::Open | Self::Ack | Self::Close)
    }
}

/// All that a policy may know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its flow.
    pub flow: FlowKey,
    /// What it is for.
    pub kind: Kind,
    /// Bytes of the IP packet.
    pub len: usize,
    /// Bytes behind its headers.
    pub payload: usize,
    /// The number of its first byte, if it is TCP.
    pub seq: u32,
    /// What it acknowledges, if it is TCP and does.
    pub ack: Option<u32>,
    /// It is TCP without any options but timestamps: what it acknowledges may be changed on its way, as nothing signs it
    /// (RFC 5925) or leans on it.
    pub plain: bool,
    /// It says what has come beyond a hole (RFC 2018): something is lost, or was overtaken.
    pub sacks: bool,
    /// It is IPv6.
    pub v6: bool,
    /// Its flow begins with a TLS handshake, by its port.
    pub tls: bool,
    /// The channel that the opener of its connection has asked for.
    pub hint: Option<Channel>,
}

impl Facts {
    /// Facts of a packet of which only this is known; an empty one.
    pub fn of(flow: FlowKey, kind: Kind) -> Self {
        Self {
            flow,
            kind,
            len: 0,
            payload: 0,
            seq: 0,
            ack: None,
            plain: false,
            sacks: false,
            v6: false,
            tls: false,
            hint: None,
        }
    }

    /// Whether it may take a channel that is there for this, although the other one is alive.
    pub(super) fn may_take(&self, of: Use) -> bool {
        match of {
            Use::Primary => true,
            // Everything else waits for these, and they are few.
            Use::Secondary => matches!(self.kind, Kind::Open | Kind::Dns),
            Use::Backup | Use::Never => false,
        }
    }

    /// Reads a packet; `None` if it is no IP packet of exactly this length. `keys` are those of the hash that makes flows of
    /// five-tuples: a sender that chooses tuples does not choose their places in a table.
    pub fn parse(packet: &[u8], keys: (u64, u64)) -> Option<Self> {
        let Outer { v6, addresses, protocol, at, whole } = Outer::parse(packet)?;
        let rest = &packet[at..];
        let transport = whole && matches!(protocol, TCP | UDP);
        let ports = match rest.get(..4) {
            Some(p) if transport => (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])),
            _ => (0, 0),
        };
        let flow = flow(&packet[addresses], ports, protocol, keys);
        let has = |port: u16| ports.0 == port || ports.1 == port;
        let mut facts = Self {
            len: packet.len(),
            payload: rest.len(),
            v6,
            tls: protocol == TCP && TLS_PORTS.iter().any(|p| has(*p)),
            ..Self::of(flow, Kind::Datagram)
        };
        if !transport {
            return Some(facts);
        }
        if protocol == UDP {
            facts.payload = rest.len().saturating_sub(8);
        } else if let Some(header) = rest.get(..20) {
            let behind = usize::from(header[12] >> 4) * 4;
            facts.payload = rest.len().checked_sub(behind)?;
            let flags = Flags(header[13]);
            let number = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
            facts.ack = flags.has(Flags::ACK).then_some(number);
            facts.seq = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            facts.plain = matches!(rest.get(20..behind), Some([] | [1, 1, 8, 10, _, _, _, _, _, _, _, _]));
            facts.sacks = !facts.plain && rest.get(20..behind).is_some_and(has_blocks);
            facts.kind = if flags.has(Flags::SYN) {
                Kind::Open
            } else if facts.payload > 0 {
                Kind::Data
            } else if flags.has(Flags::FIN) || flags.has(Flags::RST) {
                Kind::Close
            } else {
                Kind::Ack
            };
        }
        if has(DNS_PORT) && matches!(facts.kind, Kind::Datagram | Kind::Data) {
            facts.kind = Kind::Dns;
        }
        Some(facts)
    }
}

/// What the IP header says.
struct Outer {
    v6: bool,
    /// Where both addresses are.
    addresses: Range<usize>,
    protocol: u8,
    /// Where what is inside begins.
    at: usize,
    /// It is no fragment.
    whole: bool,
}

impl Outer {
    fn parse(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => {
                let header = packet.get(..20)?;
                let at = usize::from(header[0] & 15) * 4;
                let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
                let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
                let fits = at >= 20 && total == packet.len() && at <= total;
                let (addresses, protocol, whole) = (12..20, header[9], fragment == 0);
                fits.then_some(Self { v6: false, addresses, protocol, at, whole })
            }
            6 => {
                let header = packet.get(..40)?;
                let fits = 40 + usize::from(u16::from_be_bytes([header[4], header[5]])) == packet.len();
                fits.then_some(Self { v6: true, addresses: 8..40, protocol: header[6], at: 40, whole: true })
            }
            _ => None,
        }
    }
}

/// Whether SACK blocks are among these options.
fn has_blocks(mut options: &[u8]) -> bool {
    const BLOCKS: u8 = 5;
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [BLOCKS, len, ..] => return usize::from(*len) <= options.len() && *len >= 10,
            [kind, len, ..] if *kind != 0 && *len >= 2 => {
                let Some(rest) = options.get(usize::from(*len)..) else { return false };
                options = rest;
            }
            _ => return false,
        }
    }
}

/// The same for both directions of a flow.
fn flow(addresses: &[u8], ports: (u16, u16), protocol: u8, keys: (u64, u64)) -> FlowKey {
    let (from, to) = addresses.split_at(addresses.len() / 2);
    let (low, high) = if (from, ports.0) <= (to, ports.1) {
        ((from, ports.0), (to, ports.1))
    } else {
        ((to, ports.1), (from, ports.0))
    };
    let mut hasher = SipHasher13::new_with_keys(keys.0, keys.1);
    for (address, port) in [low, high] {
        hasher.write(address);
        hasher.write_u16(port);
    }
    hasher.write_u8(protocol);
    FlowKey(hasher.finish())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: (u64, u64) = (1, 2);
    const FIN: u8 = Flags::FIN.0;
    const SYN: u8 = Flags::SYN.0;
    const ACK: u8 = Flags::ACK.0;

    /// A TCP packet with timestamps from host 1, port 40000, to host 2, port 443, or back.
    pub fn tcp(v6: bool, back: bool, flags: u8, (seq, ack): (u32, u32), stamps: (u32, u32), payload: &[u8]) -> Vec<u8> {
        let mut p = Vec::new();
        let length = (32 + payload.len()) as u16;
        let (mut from, mut to) = ((1u8, 40_000u16), (2u8, 443u16));
        if back {
            std::mem::swap(&mut from, &mut to);
        }
        if v6 {
            p.extend_from_slice(&[0x60, 0, 0, 0]);
            p.extend_from_slice(&length.to_be_bytes());
            p.extend_from_slice(&[TCP, 64]);
            for host in [from.0, to.0] {
                p.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
        } else {
            p.extend_from_slice(&[0x45, 0]);
            p.extend_from_slice(&(20 + length).to_be_bytes());
            p.extend_from_slice(&[0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, from.0, 10, 0, 0, to.0]);
        }
        p.extend_from_slice(&from.1.to_be_bytes());
        p.extend_from_slice(&to.1.to_be_bytes());
        p.extend_from_slice(&seq.to_be_bytes());
        p.extend_from_slice(&ack.to_be_bytes());
        p.extend_from_slice(&[0x80, flags, 1, 0, 0, 0, 0, 0]);
        p.extend_from_slice(&[1, 1, 8, 10]);
        p.extend_from_slice(&stamps.0.to_be_bytes());
        p.extend_from_slice(&stamps.1.to_be_bytes());
        p.extend_from_slice(payload);
        p
    }

    /// A UDP packet over IPv4 between these ports.
    pub fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let length = (28 + payload.len()) as u16;
        let mut p = vec![0x45, 0];
        p.extend_from_slice(&length.to_be_bytes());
        p.extend_from_slice(&[0, 0, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        for word in [ports.0, ports.1, length - 20, 0] {
            p.extend_from_slice(&word.to_be_bytes());
        }
        p.extend_from_slice(payload);
        p
    }

    fn kind(flags: u8, payload: &[u8]) -> Kind {
        Facts::parse(&tcp(false, false, flags, (1, 2), (3, 4), payload), KEYS).unwrap().kind
    }

    #[test]
    fn both_directions_are_one_flow_in_both_families_and_other_flows_are_others() {
        for v6 in [false, true] {
            let facts = |back| Facts::parse(&tcp(v6, back, ACK, (1, 77), (0, 0), b"hello"), KEYS).unwrap();
            assert_eq!(facts(false).flow, facts(true).flow);
            let f = facts(false);
            assert_eq!((f.payload, f.ack, f.v6, f.tls, f.kind), (5, Some(77), v6, true, Kind::Data));
        }
        let four = Facts::parse(&tcp(false, false, ACK, (1, 77), (0, 0), b""), KEYS).unwrap();
        assert_ne!(four.flow, Facts::parse(&tcp(true, false, ACK, (1, 77), (0, 0), b""), KEYS).unwrap().flow);
        assert_ne!(four.flow, Facts::parse(&tcp(false, false, ACK, (1, 77), (0, 0), b""), (9, 9)).unwrap().flow);
    }

    #[test]
    fn a_packets_kind_is_what_it_is_for() {
        assert_eq!([kind(SYN, b""), kind(SYN | ACK, b""), kind(ACK, b"")], [Kind::Open, Kind::Open, Kind::Ack]);
        assert_eq!(
            [kind(ACK, b"x"), kind(FIN | ACK, b""), kind(FIN | ACK, b"x")],
            [Kind::Data, Kind::Close, Kind::Data]
        );
        let of = |packet: &[u8]| Facts::parse(packet, KEYS).unwrap().kind;
        assert_eq!(of(&udp((5353, 53), b"question")), Kind::Dns);
        assert_eq!(of(&udp((5000, 443), b"quic")), Kind::Datagram);
        assert!(!Facts::parse(&udp((5000, 443), b"quic"), KEYS).unwrap().tls);
        let mut plain = tcp(false, false, ACK, (1, 2), (3, 4), b"http");
        plain[22..24].copy_from_slice(&80u16.to_be_bytes());
        assert!(!Facts::parse(&plain, KEYS).unwrap().tls);
    }

    #[test]
    fn options_say_whether_something_is_missing_and_whether_a_packet_may_be_changed() {
        // The header of 32 bytes with these options in the place of timestamps.
        let of = |options: [u8; 12]| {
            let mut packet = tcp(false, false, ACK, (1, 2), (0, 0), b"");
            packet[40..].copy_from_slice(&options);
            let facts = Facts::parse(&packet, KEYS).unwrap();
            (facts.sacks, facts.plain, facts.seq)
        };
        // Behind an option of another kind.
        assert_eq!(of([7, 2, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9]), (true, false, 1));
        assert_eq!(of([1, 1, 8, 10, 5, 10, 5, 10, 5, 10, 5, 10]), (false, true, 1));
        assert_eq!(of([1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9]), (true, false, 1));
        // The end of the options, a length of nothing, a length beyond them, no block at all, a signature's kind.
        for bad in [
            [0, 5, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [7, 0, 5, 10, 0, 0, 0, 0, 0, 0, 0, 0],
            [1, 1, 1, 5, 10, 0, 0, 0, 0, 0, 0, 0],
            [5, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            [29, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(of(bad), (false, false, 1), "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_whole_packet_is_refused() {
        let good = tcp(false, false, ACK, (1, 2), (3, 4), b"abc");
        for bad in [&good[..good.len() - 1], &good[..19], &[], &[0x55; 40], &[&good[..], b"x"].concat()] {
            assert_eq!(Facts::parse(bad, KEYS), None);
        }
        let mut long_header = good.clone();
        long_header[32] = 0xf0;
        assert_eq!(Facts::parse(&long_header, KEYS), None);
        let mut fragment = good;
        fragment[6] = 0x20;
        let first = Facts::parse(&fragment, KEYS).unwrap();
        assert_eq!(first.kind, Kind::Datagram);
        // There are no ports in the others of its datagram.
        fragment[20..24].copy_from_slice(b"more");
        assert_eq!(Facts::parse(&fragment, KEYS).unwrap().flow, first.flow);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), four: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = if four { 0x45 } else { 0x60 };
            }
            if let Some(facts) = Facts::parse(&bytes, KEYS) {
                prop_assert!(facts.payload <= facts.len && facts.len == bytes.len());
            }
        }
    }
}
