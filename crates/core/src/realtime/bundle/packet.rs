//! TCP in IPv4 and IPv6: read without trust, and written anew with bytes before the payload.
//!
//! RFC 791, RFC 8200, RFC 9293. Fragments and IPv6 extension headers are left alone. Checksums are computed in full, so that
//! it does not matter what the sender left to its network card.

use crate::wire::ip::TCP;
use crate::wire::ip::checksum::{add, fold};
use crate::wire::ip::tcp::Flags;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// One direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Address and port of the sender.
    pub from: (IpAddr, u16),
    /// Address and port of the receiver.
    pub to: (IpAddr, u16),
}

impl Flow {
    /// The other direction.
    pub fn reversed(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

/// Where things are in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its stream and direction.
    pub flow: Flow,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// What it acknowledges, if it does.
    pub ack: Option<u32>,
    /// It holds urgent data.
    pub urgent: bool,
    /// Where its payload lies.
    pub payload: Range<usize>,
    /// Where its TCP header begins.
    tcp: usize,
    flags: Flags,
}

impl Segment {
    /// Reads a packet of IP; `None` if it is not a whole, plain TCP segment.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (from, to, tcp, end) = match packet.first()? >> 4 {
            4 => {
                let header = packet.get(..20)?;
                let tcp = usize::from(header[0] & 15) * 4;
                let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
                let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
                if tcp < 20 || fragment != 0 || header[9] != TCP {
                    return None;
                }
                let address =
                    |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
                (address(12), address(16), tcp, end)
            }
            6 => {
                let header = packet.get(..40)?;
                if header[6] != TCP {
                    return None;
                }
                let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
                let address =
                    |at: usize| IpAddr::V6(Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| header[at + i])));
                (address(8), address(24), 40, end)
            }
            _ => return None,
        };
        // Anything after the end by the header is not the packet's.
        if end != packet.len() {
            return None;
        }
        let header = packet.get(tcp..tcp + 20)?;
        let start = tcp + usize::from(header[12] >> 4) * 4;
        if start < tcp + 20 || start > end || is_signed(&packet[tcp + 20..start]) {
            return None;
        }
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let flags = Flags(header[13]);
        Some(Self {
            flow: Flow { from: (from, port(0)), to: (to, port(2)) },
            seq: word(4),
            ack: flags.has(Flags::ACK).then(|| word(8)),
            urgent: flags.has(Flags::URG),
            payload: start..end,
            tcp,
            flags,
        })
    }

    /// Whether it opens, closes or resets its stream.
    pub fn begins_or_ends(&self) -> bool {
        [Flags::SYN, Flags::FIN, Flags::RST].iter().any(|flag| self.flags.has(*flag))
    }
}

/// Whether a segment with these options is signed: by TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925). With other payload its peer would drop it.
fn is_signed(mut options: &[u8]) -> bool {
    const SIGNATURES: [u8; 2] = [19, 29];
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [kind, ..] if SIGNATURES.contains(kind) => return true,
            [kind, len, ..] if *kind != 0 && *len >= 2 => {
                let Some(rest) = options.get(usize::from(*len)..) else { return false };
                options = rest;
            }
            _ => return false,
        }
    }
}

/// Puts `prefix` before the payload of `packet`, which begins at `seq` from now on; `false`, and nothing changed, if it
/// would be too long for IP.
pub fn prepend(packet: &mut Vec<u8>, segment: &Segment, seq: u32, prefix: &[u8]) -> bool {
    let four = packet[0] >> 4 == 4;
    let counted = packet.len() + prefix.len() - if four { 0 } else { 40 };
    let Ok(counted) = u16::try_from(counted) else { return false };
    let at = segment.payload.start;
    packet.splice(at..at, prefix.iter().copied());
    let length = if four { 2 } else { 4 };
    packet[length..length + 2].copy_from_slice(&counted.to_be_bytes());
    packet[segment.tcp + 4..segment.tcp + 8].copy_from_slice(&seq.to_be_bytes());
    checksums(packet, segment.tcp);
    true
}

/// Writes the checksums of the IPv4 header and of TCP.
fn checksums(packet: &mut [u8], tcp: usize) {
    let length = (packet.len() - tcp) as u32;
    let addresses = if packet[0] >> 4 == 4 {
        packet[10..12].fill(0);
        let sum = !fold(add(0, &packet[..tcp]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        12..20
    } else {
        8..40
    };
    packet[tcp + 16..tcp + 18].fill(0);
    let pseudo = add(u64::from(TCP) + u64::from(length), &packet[addresses]);
    let sum = !fold(add(pseudo, &packet[tcp..]));
    packet[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::{Bundler, MAX_FLOWS, Tally};
    use super::*;
    use crate::time::Instant;
    use proptest::prelude::*;

    /// A packet with an option (timestamps' twelve bytes) and right checksums.
    fn packet(v6: bool, back: bool, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
        let mut p = Vec::new();
        let length = (32 + payload.len()) as u16;
        let (mut from, mut to) = (1u8, 2u8);
        if back {
            std::mem::swap(&mut from, &mut to);
        }
        if v6 {
            p.extend_from_slice(&[0x60, 0, 0, 0]);
            p.extend_from_slice(&length.to_be_bytes());
            p.extend_from_slice(&[TCP, 64]);
            for host in [from, to] {
                p.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
        } else {
            p.extend_from_slice(&[0x45, 0]);
            p.extend_from_slice(&(20 + length).to_be_bytes());
            p.extend_from_slice(&[0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        }
        let tcp = p.len();
        let (from, to) = (u16::from(from) * 1000, u16::from(to) * 1000);
        p.extend_from_slice(&from.to_be_bytes());
        p.extend_from_slice(&to.to_be_bytes());
        p.extend_from_slice(&seq.to_be_bytes());
        p.extend_from_slice(&ack.to_be_bytes());
        p.extend_from_slice(&[0x80, (Flags::ACK | Flags::PSH).0, 1, 0, 0, 0, 0, 0]);
        p.extend_from_slice(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        p.extend_from_slice(payload);
        checksums(&mut p, tcp);
        p
    }

    fn assert_sums(p: &[u8]) {
        let segment = Segment::parse(p).unwrap();
        let mut again = p.to_vec();
        checksums(&mut again, segment.tcp);
        assert_eq!(p, again);
    }

    #[test]
    fn a_bundled_packet_reads_as_one_longer_segment_with_right_checksums_in_both_families() {
        for v6 in [false, true] {
            let mut bundler = Bundler::new();
            let mut a = packet(v6, false, 1000, 1, b"first");
            let mut b = packet(v6, false, 1005, 1, b"second!");
            assert!(!bundler.outgoing(Instant::from_millis(0), &mut a, 1500));
            assert!(bundler.outgoing(Instant::from_millis(30), &mut b, 1500));
            let segment = Segment::parse(&b).unwrap();
            assert_eq!((segment.seq, &b[segment.payload.clone()]), (1000, b"firstsecond!".as_slice()));
            assert_sums(&b);
            // Acknowledged, and gone.
            bundler.incoming(Instant::from_millis(40), &packet(v6, true, 1, 1012, b""));
            let mut c = packet(v6, false, 1012, 1, b"third");
            assert!(!bundler.outgoing(Instant::from_millis(60), &mut c, 1500));
            assert_eq!((bundler.tally().bundled, bundler.tally().bytes), (1, 5));
        }
    }

    #[test]
    fn what_is_signed_is_left_as_it_is() {
        for kind in [19, 29] {
            let mut bundler = Bundler::new();
            let mut signed = |seq, payload: &[u8]| {
                let mut p = packet(false, false, seq, 1, payload);
                p[40..52].copy_from_slice(&[1, 1, kind, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
                let before = p.clone();
                assert!(!bundler.outgoing(Instant::from_millis(seq.into()), &mut p, 1500));
                assert_eq!(p, before);
            };
            signed(0, b"first");
            signed(5, b"second");
        }
    }

    #[test]
    fn what_would_not_fit_the_path_goes_as_it_is() {
        let mut bundler = Bundler::new();
        bundler.outgoing(Instant::ZERO, &mut packet(false, false, 0, 1, b"first"), 1500);
        let whole = packet(false, false, 5, 1, b"second");
        let mut sent = whole.clone();
        assert!(!bundler.outgoing(Instant::ZERO, &mut sent, whole.len() + 4));
        assert_eq!(sent, whole);
        let third = packet(false, false, 11, 1, b"third");
        assert!(bundler.outgoing(Instant::ZERO, &mut third.clone(), third.len() + 11), "what just fits");
    }

    #[test]
    fn streams_beside_each_other_are_kept_apart_and_the_quietest_makes_room() {
        let (mut bundler, mut millis) = (Bundler::new(), 0);
        let mut send = |n: u16, seq| {
            let mut p = packet(false, false, seq, 1, b"aa");
            p[20..22].copy_from_slice(&n.to_be_bytes());
            millis += 1;
            bundler.outgoing(Instant::from_millis(millis), &mut p, 1500)
        };
        assert_eq!([(1, 0), (2, 0), (1, 2), (2, 2)].map(|(n, seq)| send(n, seq)), [false, false, true, true]);
        let full = MAX_FLOWS as u16;
        (3..=full + 1).for_each(|n| assert!(!send(n, 0)));
        assert_eq!([(2, 4), (1, 4)].map(|(n, seq)| send(n, seq)), [true, false]);
        let Tally { outgoing, bundled, bytes } = bundler.tally();
        assert_eq!((outgoing, bundled, bytes, bundler.flows.len()), (4 + 1_023 + 2, 3, 8, MAX_FLOWS));
    }

    #[test]
    fn fragments_options_that_do_not_fit_and_other_protocols_are_no_segments() {
        let good = packet(false, false, 0, 1, b"x");
        assert!(Segment::parse(&good).is_some());
        for (at, value) in [(0, 0x44), (6, 0x20), (9, 17), (32, 0x40), (32, 0xf0), (3, 10)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(Segment::parse(&bad), None, "byte {at}");
        }
        assert_eq!(Segment::parse(&good[..good.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_segment_or_none_and_are_never_spoilt(bytes in proptest::collection::vec(any::<u8>(), 0..120),
                                                                 four: bool) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = if four { 0x45 } else { 0x60 };
            }
            let mut bundler = Bundler::new();
            for millis in 0..3 {
                let mut sent = bytes.clone();
                bundler.incoming(Instant::from_millis(millis), &sent);
                let changed = bundler.outgoing(Instant::from_millis(millis), &mut sent, 1500);
                prop_assert!(changed || sent == bytes);
            }
        }

        #[test]
        fn a_receiver_puts_the_same_stream_together(cuts in proptest::collection::vec(1usize..100, 1..12),
                                                    lost in proptest::collection::vec(any::<bool>(), 12)) {
            let mut bundler = Bundler::new();
            let (mut seq, mut stream, mut got) = (7u32, Vec::new(), std::collections::BTreeMap::new());
            for (k, cut) in cuts.iter().enumerate() {
                let payload: Vec<u8> = (0..*cut).map(|i| (k * 31 + i) as u8).collect();
                let mut p = packet(k % 2 == 0, false, seq, 1, &payload);
                bundler.outgoing(Instant::from_millis(30 * k as u64), &mut p, 1500);
                stream.extend_from_slice(&payload);
                seq += *cut as u32;
                if lost[k] {
                    continue;
                }
                let segment = Segment::parse(&p).unwrap();
                for (i, byte) in p[segment.payload.clone()].iter().enumerate() {
                    got.insert(segment.seq as usize - 7 + i, *byte);
                }
            }
            prop_assert!(got.iter().all(|(at, byte)| stream[*at] == *byte));
        }
    }

    /// Whether all 16-bit words of `parts` add up to none, as RFC 1071 has it.
    fn adds_up(parts: &[&[u8]]) -> bool {
        let mut bytes = parts.concat();
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(word[1])).sum::<u64>() % 0xffff == 0
    }

    fn assert_adds_up(p: &[u8]) {
        let tcp = Segment::parse(p).unwrap().tcp;
        let v4 = p[0] >> 4 == 4;
        assert!(!v4 || adds_up(&[&p[..tcp]]), "the header of IPv4");
        let addresses = if v4 { 12..20 } else { 8..40 };
        let length = ((p.len() - tcp) as u16).to_be_bytes();
        assert!(adds_up(&[&p[addresses], &[0, TCP], &length, &p[tcp..]]), "TCP, with an IPv4 header: {v4}");
    }

    /// The same packet with four bytes of options in its header of IPv4.
    fn with_ip_options(p: &[u8]) -> Vec<u8> {
        let mut p = p.to_vec();
        p.splice(20..20, [1, 1, 1, 0]);
        p[0] = 0x46;
        let length = p.len() as u16;
        p[2..4].copy_from_slice(&length.to_be_bytes());
        checksums(&mut p, 24);
        p
    }

    #[test]
    fn what_is_bundled_adds_up_for_the_receiver_in_both_families_and_behind_options_of_ip() {
        let plain: fn(&[u8]) -> Vec<u8> = <[u8]>::to_vec;
        for (v6, dress) in [(false, plain), (true, plain), (false, with_ip_options)] {
            let mut bundler = Bundler::new();
            let mut seq = 0x0102_0304;
            for (k, payload) in [b"first".as_slice(), b"second", b"a third"].into_iter().enumerate() {
                let mut p = dress(&packet(v6, false, seq, 1, payload));
                assert_adds_up(&p);
                assert_eq!(bundler.outgoing(Instant::from_millis(30 * k as u64), &mut p, 1500), k > 0);
                assert_adds_up(&p);
                let segment = Segment::parse(&p).unwrap();
                assert_eq!(segment.seq, 0x0102_0304);
                assert!(p[segment.payload].ends_with(payload));
                seq += payload.len() as u32;
            }
        }
    }

    #[test]
    fn a_segment_says_from_where_to_where_it_goes_and_needs_no_options() {
        let mut p = packet(false, true, 0x0102_0304, 0x0506_0708, b"x");
        p.drain(40..52);
        (p[3], p[32]) = (41, 0x50);
        p[12..16].copy_from_slice(&[10, 20, 30, 40]);
        let segment = Segment::parse(&p).unwrap();
        let address = |text: &str, port| (text.parse::<IpAddr>().unwrap(), port);
        assert_eq!(segment.flow, Flow { from: address("10.20.30.40", 2000), to: address("10.0.0.1", 1000) });
        assert_eq!((segment.seq, segment.ack, segment.payload), (0x0102_0304, Some(0x0506_0708), 40..41));
    }

    #[test]
    fn a_signature_is_found_behind_other_options_and_not_behind_their_end() {
        let stamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert!(is_signed(&[&stamps[..], &[1, 19, 18]].concat()) && is_signed(&[2, 4, 5, 180, 29, 16]));
        for options in [&stamps[..], &[], &[0, 2, 19, 18], &[8, 0, 19, 18], &[8, 10, 19, 18], &[8, 1, 19, 18]] {
            assert!(!is_signed(options), "{options:?}");
        }
    }

    #[test]
    fn what_opens_closes_or_resets_a_stream_goes_as_it_is_and_ends_what_is_kept_of_it() {
        for flag in [Flags::SYN, Flags::FIN, Flags::RST] {
            let mut bundler = Bundler::new();
            assert!(!bundler.outgoing(Instant::ZERO, &mut packet(false, false, 0, 1, b"first"), 1500));
            let mut p = packet(false, false, 5, 1, b"second");
            p[33] |= flag.0;
            let before = p.clone();
            assert!(!bundler.outgoing(Instant::ZERO, &mut p, 1500));
            assert_eq!((p, bundler.flows.len()), (before, 0));
        }
    }
}
