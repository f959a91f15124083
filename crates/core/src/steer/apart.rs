//! Splits a TCP segment in two: its data with an older acknowledgement number, and a pure acknowledgement with the new one.
//!
//! Needed where data of the fast channel is acknowledged over the fat one, while a request that carries the same acknowledgement
//! goes over the fast one (docs/decisions/0033). To TCP this is a reordered segment (RFC 9293, section 3.10.7.4). The checksum is
//! updated by RFC 1624. Never changes payload, nor anything but the two numbers and what depends on them.

use crate::wire::ip::tcp::Flags;
use crate::wire::ip::{TCP, V4_HEADER, V6_HEADER, checksum};

/// Where the sequence number, the acknowledgement, the flags and the checksum are in a header of TCP.
const SEQ: usize = 4;
const ACK: usize = 8;
const FLAGS: usize = 13;
const SUM: usize = 16;

/// Where the header of TCP begins, and where the payload does; none if it is no whole packet of TCP that acknowledges.
fn places(packet: &[u8]) -> Option<(usize, usize)> {
    let (tcp, protocol) = match packet.first()? >> 4 {
        4 => {
            let header = packet.get(..V4_HEADER)?;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
            (usize::from(header[0] & 15) * 4, if fragment == 0 { header[9] } else { 0 })
        }
        6 => (V6_HEADER, packet.get(..V6_HEADER)?[6]),
        _ => return None,
    };
    let header = packet.get(tcp..tcp + 20)?;
    let payload = tcp + usize::from(header[12] >> 4) * 4;
    let acknowledges = Flags(header[FLAGS]).has(Flags::ACK);
    (protocol == TCP && tcp >= V4_HEADER && acknowledges && (tcp + 20..=packet.len()).contains(&payload))
        .then_some((tcp, payload))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes what acknowledges as `packet` does and says nothing else into `to`, in the place of what is there; `false`, and nothing
/// of use there, if it is no TCP. It stands behind `packet` in its sender's order.
pub fn alone(packet: &[u8], to: &mut Vec<u8>) -> bool {
    to.clear();
    let Some((tcp, payload)) = places(packet) else { return false };
    to.extend_from_slice(&packet[..payload]);
    let fin = u32::from(Flags(packet[tcp + FLAGS]).has(Flags::FIN));
    let behind = word(packet, tcp + SEQ).wrapping_add((packet.len() - payload) as u32 + fin);
    to[tcp + SEQ..tcp + SEQ + 4].copy_from_slice(&behind.to_be_bytes());
    to[tcp + FLAGS] &= !(Flags::FIN | Flags::PSH | Flags::URG | Flags::CWR).0;
    to[tcp + 18..tcp + 20].fill(0);
    let addresses = if packet[0] >> 4 == 4 {
        to[2..4].copy_from_slice(&(payload as u16).to_be_bytes());
        to[10..12].fill(0);
        let sum = !checksum::fold(checksum::add(0, &to[..tcp]));
        to[10..12].copy_from_slice(&sum.to_be_bytes());
        12..20
    } else {
        to[4..6].copy_from_slice(&((payload - V6_HEADER) as u16).to_be_bytes());
        8..40
    };
    to[tcp + SUM..tcp + SUM + 2].fill(0);
    let pseudo = checksum::add(u64::from(TCP) + (payload - tcp) as u64, &to[addresses]);
    let sum = !checksum::fold(checksum::add(pseudo, &to[tcp..]));
    to[tcp + SUM..tcp + SUM + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Has `packet` acknowledge `ack`; what is no TCP stays as it is.
pub fn set_back(packet: &mut [u8], ack: u32) {
    let Some((tcp, _)) = places(packet) else { return };
    let at = tcp + ACK;
    let sum = u16::from_be_bytes([packet[tcp + SUM], packet[tcp + SUM + 1]]);
    let before = word(packet, at);
    packet[at..at + 4].copy_from_slice(&ack.to_be_bytes());
    // RFC 1624, equation 3: a sum that was wrong before stays wrong.
    let halves = |n: u32| [(n >> 16) as u16, n as u16];
    let removed: u64 = halves(before).into_iter().map(|half| u64::from(!half)).sum();
    let added: u64 = halves(ack).into_iter().map(u64::from).sum();
    let sum = !checksum::fold(u64::from(!sum) + removed + added);
    packet[tcp + SUM..tcp + SUM + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::tcp;
    use super::super::{Facts, Kind};
    use super::*;
    use proptest::prelude::*;

    const DATA: u8 = Flags::ACK.0 | Flags::PSH.0;

    /// A packet with right checksums.
    fn packet(v6: bool, flags: u8, numbers: (u32, u32), payload: &[u8]) -> Vec<u8> {
        let mut packet = tcp(v6, false, flags, numbers, (70, 90), payload);
        let (tcp, _) = places(&packet).unwrap();
        if !v6 {
            packet[10..12].fill(0);
            let sum = !checksum::fold(checksum::add(0, &packet[..tcp]));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let sum = !checksum::fold(
            summed(&packet, tcp) - u64::from(u16::from_be_bytes([packet[tcp + SUM], packet[tcp + SUM + 1]])),
        );
        packet[tcp + SUM..tcp + SUM + 2].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// Everything that a checksum of TCP is over, itself too.
    fn summed(packet: &[u8], tcp: usize) -> u64 {
        let addresses = if packet[0] >> 4 == 4 { 12..20 } else { 8..40 };
        let pseudo = checksum::add(u64::from(TCP) + (packet.len() - tcp) as u64, &packet[addresses]);
        checksum::add(pseudo, &packet[tcp..])
    }

    fn is_right(packet: &[u8]) -> bool {
        let (tcp, _) = places(packet).unwrap();
        let ip = packet[0] >> 4 == 6 || checksum::fold(checksum::add(0, &packet[..tcp])) == 0xffff;
        ip && checksum::fold(summed(packet, tcp)) == 0xffff
    }

    #[test]
    fn a_request_becomes_one_that_says_less_and_what_it_said_in_both_families() {
        for v6 in [false, true] {
            let whole = packet(v6, DATA, (u32::MAX - 1, 9_000), b"request");
            assert!(is_right(&whole));
            let (mut request, mut rest) = (whole.clone(), vec![1; 7]);
            assert!(alone(&request, &mut rest));
            set_back(&mut request, 5_000);
            let facts = |packet: &[u8]| Facts::parse(packet, (1, 2)).unwrap();
            let (request_says, says) = (facts(&request), facts(&rest));
            assert_eq!(
                (request_says.kind, request_says.ack, request_says.seq),
                (Kind::Data, Some(5_000), u32::MAX - 1)
            );
            assert_eq!((says.kind, says.ack, says.payload), (Kind::Ack, Some(9_000), 0));
            // Behind the request, round the circle.
            assert_eq!((says.seq, says.flow), (5, request_says.flow));
            assert!(is_right(&request) && is_right(&rest));
            assert_eq!(request[request.len() - 7..], *b"request");
            set_back(&mut request, 9_000);
            assert_eq!(request, whole);
        }
    }

    #[test]
    fn the_end_of_a_stream_counts_and_is_not_said_twice() {
        let whole = packet(false, DATA | Flags::FIN.0, (100, 7), b"bye");
        let mut rest = Vec::new();
        assert!(alone(&whole, &mut rest) && is_right(&rest));
        let facts = Facts::parse(&rest, (1, 2)).unwrap();
        assert_eq!((facts.seq, facts.kind), (104, Kind::Ack));
    }

    #[test]
    fn a_sum_that_was_wrong_stays_wrong() {
        let mut whole = packet(false, DATA, (1, 2), b"x");
        *whole.last_mut().unwrap() ^= 1;
        set_back(&mut whole, 1);
        assert!(!is_right(&whole));
    }

    #[test]
    fn what_is_no_tcp_that_acknowledges_stays_as_it_is() {
        let good = packet(false, DATA, (1, 2), b"x");
        let six = packet(true, DATA, (1, 2), b"x");
        let with = |of: &[u8], at: usize, value: u8| {
            let mut bad = of.to_vec();
            bad[at] = value;
            bad
        };
        // UDP in both families, a header of IPv4 that is none, no acknowledgement, headers of TCP too short and too long.
        for bad in [
            with(&good, 9, 17),
            with(&six, 6, 17),
            with(&good, 0, 0x44),
            with(&good, 33, Flags::PSH.0),
            with(&good, 32, 0x40),
            with(&good, 32, 0xf0),
        ] {
            let mut after = bad.clone();
            set_back(&mut after, 1);
            assert!(!alone(&bad, &mut Vec::new()) && after == bad, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_set_back_or_stay(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()], ack: u32) {
            if let Some(at) = bytes.first_mut() {
                *at = first;
            }
            let (before, mut rest) = (bytes.clone(), Vec::new());
            let is_tcp = alone(&bytes, &mut rest);
            set_back(&mut bytes, ack);
            prop_assert!(bytes.len() == before.len() && (is_tcp || bytes == before));
            prop_assert!(!is_tcp || rest.len() <= bytes.len());
        }

        #[test]
        fn whatever_is_acknowledged_the_sums_are_right(v6: bool, numbers: (u32, u32), back: u32, payload in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut packet = packet(v6, DATA, numbers, &payload);
            let mut rest = Vec::new();
            prop_assert!(alone(&packet, &mut rest) && is_right(&rest));
            set_back(&mut packet, back);
            prop_assert!(is_right(&packet));
        }
    }
}
