//! Headers of TCP on the fast channel, said shorter: what a flow's packets have in common is said once.
//!
//! After ROHC (RFC 5795) in its thought, not in its bytes. A *context* is a packet that went whole; later packets of its flow
//! say where they differ from it: numbers, window, timestamps. Differences are to the context and not to the packet before,
//! so that a lost packet spoils no other one; a lost context spoils those that lean on it until the other end has said so
//! ([`Compressor::forget`]), and contexts are renewed now and then in any case, soon at first. A packet comes out as it went
//! in, to the bit. Only plain TCP with timestamps is compressed, the rest goes as it is. What never happens here: a packet
//! whose IPv4 checksum is not right is compressed.

use super::packet::FlowKey;
use crate::wire::ip::TCP;
use crate::wire::ip::tcp::Flags;

/// Contexts: as many as their number's byte can name.
const CONTEXTS: usize = 256;
/// Packets after which a context is renewed, counted from its beginning; at this distance for ever after.
const RENEWED_AT: [u32; 3] = [1, 4, 16];
const RENEWED_EVERY: u32 = 64;
/// Headers with timestamps: of IPv4, of IPv6.
const HEADERS: [usize; 2] = [52, 72];
/// SYN, RST, URG: nothing of these is compressed.
const UNUSUAL: u8 = Flags::SYN.0 | Flags::RST.0 | Flags::URG.0;

/// Bytes that a packet of TCP is shorter by, of IPv4 and of IPv6: of a stream of acknowledgements, as the test beside it
/// measures. For code that counts bytes and has no packets.
pub const SAVED: [usize; 2] = [37, 57];

/// What went whole.
#[derive(Clone, Copy, Debug)]
struct Context {
    flow: FlowKey,
    generation: u8,
    uses: u32,
    headers: [u8; HEADERS[1]],
    v6: bool,
    used: u64,
}

/// How a packet is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// It goes as it is.
    Whole,
    /// It goes as it is behind two bytes, and is a context from now on.
    Context,
    /// It goes shorter.
    Compressed,
}

/// Why a packet could not be made whole again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CompressError {
    /// It leans on a context that is not known, the one with this number: that one was lost.
    #[error("a compressed packet refers to the unknown context {0}")]
    UnknownContext(u8),
    /// It is not what a compressor writes.
    #[error("a compressed packet is malformed")]
    Malformed,
}

/// The sending half.
#[derive(Debug, Default)]
pub struct Compressor {
    contexts: Vec<Context>,
    clock: u64,
}

/// The receiving half.
#[derive(Debug)]
pub struct Decompressor {
    contexts: Vec<Option<Context>>,
}

impl Default for Decompressor {
    fn default() -> Self {
        Self { contexts: vec![None; CONTEXTS] }
    }
}

/// The family of a packet that can be compressed.
fn compressible(packet: &[u8]) -> Option<bool> {
    let v6 = match packet.first()? {
        0x45 => false,
        first if first >> 4 == 6 => true,
        _ => return None,
    };
    let at = HEADERS[usize::from(v6)];
    let headers = packet.get(..at)?;
    let tcp = &headers[at - 32..];
    let plain = tcp[12] == 0x80 && tcp[13] & UNUSUAL == 0 && tcp[18..20] == [0, 0] && tcp[20..24] == [1, 1, 8, 10];
    let whole = if v6 {
        headers[6] == TCP && 40 + usize::from(u16::from_be_bytes([headers[4], headers[5]])) == packet.len()
    } else {
        headers[9] == TCP
            && u16::from_be_bytes([headers[6], headers[7]]) & 0x3fff == 0
            && usize::from(u16::from_be_bytes([headers[2], headers[3]])) == packet.len()
            && ip_checksum(&headers[..20]) == u16::from_be_bytes([headers[10], headers[11]])
    };
    (plain && whole).then_some(v6)
}

/// The checksum of an IPv4 header, whatever stands in its place.
fn ip_checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).enumerate().filter(|(n, _)| *n != 5);
    let sum: u32 = words.map(|(_, w)| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Everything that packets of a flow have in common: two headers without what a compressed packet says.
fn common(headers: &[u8], v6: bool) -> [u8; HEADERS[1]] {
    let mut common = [0; HEADERS[1]];
    common[..headers.len()].copy_from_slice(headers);
    let tcp = headers.len() - 32;
    // Lengths, and in IPv4 its number and checksum.
    if v6 {
        common[4..6].fill(0);
    } else {
        common[2..6].fill(0);
        common[10..12].fill(0);
    }
    // Numbers, flags, window, checksum, timestamps.
    for range in [4..12, 13..18, 24..32] {
        common[tcp + range.start..tcp + range.end].fill(0);
    }
    common
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A difference in as few bytes as it takes: seven bits each, the sign in the last of them.
fn put(to: &mut Vec<u8>, difference: i32) {
    let mut left = ((difference << 1) ^ (difference >> 31)) as u32;
    while left >= 0x80 {
        to.push(left as u8 | 0x80);
        left >>= 7;
    }
    to.push(left as u8);
}

fn get(from: &mut &[u8]) -> Option<i32> {
    let mut value = 0u64;
    for place in 0..5 {
        let (first, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((value >> 1) as i32 ^ -((value & 1) as i32));
        }
    }
    None
}

/// The five numbers of TCP that are said as differences, by their places in its header.
const WORDS: [usize; 4] = [4, 8, 24, 28];

impl Compressor {
    /// Writes what is to be sent of `packet`, which is of `flow`, into `to`, in the place of what is there.
    pub fn compress(&mut self, flow: FlowKey, packet: &[u8], to: &mut Vec<u8>) -> Encoding {
        to.clear();
        let Some(v6) = compressible(packet) else {
            to.extend_from_slice(packet);
            return Encoding::Whole;
        };
        self.clock += 1;
        let clock = self.clock;
        let (headers, payload) = packet.split_at(HEADERS[usize::from(v6)]);
        let known = self.contexts.iter().position(|c| c.flow == flow && c.v6 == v6);
        if let Some(id) = known {
            let context = &mut self.contexts[id];
            context.used = clock;
            context.uses += 1;
            let renew = RENEWED_AT.contains(&context.uses) || context.uses.is_multiple_of(RENEWED_EVERY);
            let same = common(&context.headers[..headers.len()], v6) == common(headers, v6);
            if same && !renew {
                to.extend_from_slice(&[id as u8, context.generation]);
                write(&context.headers, headers, v6, to);
                to.extend_from_slice(payload);
                return Encoding::Compressed;
            }
        }
        let id = known.unwrap_or_else(|| self.room());
        let fresh = Context { flow, generation: 0, uses: 0, headers: [0; HEADERS[1]], v6, used: clock };
        if id == self.contexts.len() {
            self.contexts.push(fresh);
        }
        let context = &mut self.contexts[id];
        let uses = if known.is_some() { context.uses } else { 0 };
        *context = Context { generation: context.generation.wrapping_add(1), uses, ..fresh };
        context.headers[..headers.len()].copy_from_slice(headers);
        to.extend_from_slice(&[id as u8, context.generation]);
        to.extend_from_slice(packet);
        Encoding::Context
    }

    /// The other end does not know a context: its next packet goes whole.
    pub fn forget(&mut self, id: u8) {
        if let Some(context) = self.contexts.get_mut(usize::from(id)) {
            context.uses = RENEWED_AT[0] - 1;
        }
    }

    /// The number of a context that is free, or was not used for longest.
    fn room(&self) -> usize {
        if self.contexts.len() < CONTEXTS {
            return self.contexts.len();
        }
        let oldest = self.contexts.iter().enumerate().min_by_key(|(_, c)| c.used);
        oldest.map_or(0, |(id, _)| id)
    }
}

/// What a packet with `headers` says beyond its context. Twelve bytes at least: with a frame's header those of the least frame.
fn write(context: &[u8], headers: &[u8], v6: bool, to: &mut Vec<u8>) {
    let tcp = headers.len() - 32;
    to.push(headers[tcp + 13]);
    let id = if v6 { 0 } else { half(headers, 4).wrapping_sub(half(context, 4)) as i16 };
    put(to, id.into());
    for at in WORDS {
        put(to, word(headers, tcp + at).wrapping_sub(word(context, tcp + at)) as i32);
    }
    to.extend_from_slice(&headers[tcp + 14..tcp + 18]);
}

impl Decompressor {
    /// Remembers a context, and writes the packet that it is into `to`.
    pub fn context(&mut self, said: &[u8], to: &mut Vec<u8>) -> Result<(), CompressError> {
        let (head, packet) = said.split_at_checked(2).ok_or(CompressError::Malformed)?;
        let v6 = compressible(packet).ok_or(CompressError::Malformed)?;
        let mut headers = [0; HEADERS[1]];
        let len = HEADERS[usize::from(v6)];
        headers[..len].copy_from_slice(&packet[..len]);
        let context = Context { flow: FlowKey(0), generation: head[1], uses: 0, headers, v6, used: 0 };
        self.contexts[usize::from(head[0])] = Some(context);
        to.clear();
        to.extend_from_slice(packet);
        Ok(())
    }

    /// Writes the packet that a compressed one stands for into `to`.
    pub fn decompress(&self, said: &[u8], to: &mut Vec<u8>) -> Result<(), CompressError> {
        let (head, mut rest) = said.split_at_checked(3).ok_or(CompressError::Malformed)?;
        let context = self.contexts[usize::from(head[0])]
            .as_ref()
            .filter(|c| c.generation == head[1])
            .ok_or(CompressError::UnknownContext(head[0]))?;
        let mut headers = context.headers;
        let len = HEADERS[usize::from(context.v6)];
        let tcp = len - 32;
        if head[2] & UNUSUAL != 0 {
            return Err(CompressError::Malformed);
        }
        headers[tcp + 13] = head[2];
        let rest = &mut rest;
        let id = get(rest).ok_or(CompressError::Malformed)?;
        for at in WORDS {
            let difference = get(rest).ok_or(CompressError::Malformed)?;
            let value = word(&headers, tcp + at).wrapping_add(difference as u32);
            headers[tcp + at..tcp + at + 4].copy_from_slice(&value.to_be_bytes());
        }
        let (fixed, payload) = rest.split_at_checked(4).ok_or(CompressError::Malformed)?;
        headers[tcp + 14..tcp + 18].copy_from_slice(fixed);
        let total = len + payload.len();
        if context.v6 {
            if id != 0 {
                return Err(CompressError::Malformed);
            }
            let length = u16::try_from(total - 40).map_err(|_| CompressError::Malformed)?;
            headers[4..6].copy_from_slice(&length.to_be_bytes());
        } else {
            let length = u16::try_from(total).map_err(|_| CompressError::Malformed)?;
            headers[2..4].copy_from_slice(&length.to_be_bytes());
            let id = half(&headers, 4).wrapping_add(id as u16);
            headers[4..6].copy_from_slice(&id.to_be_bytes());
            let checksum = ip_checksum(&headers[..20]);
            headers[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        to.clear();
        to.extend_from_slice(&headers[..len]);
        to.extend_from_slice(payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::tcp;
    use super::*;
    use crate::wire::ip::checksum;
    use proptest::prelude::*;

    const ACK: u8 = Flags::ACK.0;

    fn packet(v6: bool, seq: u32, ack: u32, stamps: (u32, u32), payload: &[u8]) -> Vec<u8> {
        let mut p = tcp(v6, false, ACK, (seq, ack), stamps, payload);
        if !v6 {
            sum_up(&mut p);
        }
        p
    }

    /// Makes the checksum of IPv4 right, as others compute it.
    fn sum_up(p: &mut [u8]) {
        p[10..12].fill(0);
        let sum = !checksum::fold(checksum::add(0, &p[..20]));
        p[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// What comes out of the other end, if what was said is `Some`.
    fn through(d: &mut Decompressor, said: Encoding, bytes: &[u8]) -> Result<Vec<u8>, CompressError> {
        let mut out = Vec::new();
        match said {
            Encoding::Whole => out.extend_from_slice(bytes),
            Encoding::Context => d.context(bytes, &mut out)?,
            Encoding::Compressed => d.decompress(bytes, &mut out)?,
        }
        Ok(out)
    }

    /// Bytes on average of a thousand acknowledgements of a download at 50 Mbit/s.
    fn mean_length(v6: bool) -> f64 {
        let (mut c, mut d, mut to, mut bytes) = (Compressor::default(), Decompressor::default(), Vec::new(), 0);
        for n in 0..1_000u32 {
            let p = packet(v6, 501, 9_000 + n * 2_856, (70_000 + n / 2, 90_000 + n / 2), b"");
            let said = c.compress(FlowKey(1), &p, &mut to);
            assert_eq!(through(&mut d, said, &to), Ok(p));
            bytes += to.len();
        }
        f64::from(bytes as u32) / 1_000.0
    }

    #[test]
    fn acknowledgements_are_a_third_of_their_length_and_as_short_as_is_said() {
        for (v6, whole) in [(false, 52.0), (true, 72.0)] {
            let saved = whole - mean_length(v6);
            assert!((saved - SAVED[usize::from(v6)] as f64).abs() < 1.0, "{v6}: {saved} saved");
        }
    }

    #[test]
    fn a_lost_packet_spoils_no_other_and_a_lost_context_is_made_good() {
        let (mut c, mut d, mut to) = (Compressor::default(), Decompressor::default(), Vec::new());
        let (mut unknown, mut good, mut told) = (0, 0, Vec::new());
        for n in 0..200u32 {
            // What the other end says takes the time of three packets.
            for (_, id) in told.extract_if(.., |(at, _)| *at + 3 <= n) {
                c.forget(id);
            }
            let p = packet(false, 501, 9_000 + n * 2_856, (70_000 + n, 90_000 + n), b"");
            let said = c.compress(FlowKey(1), &p, &mut to);
            // The first context and every seventh packet are lost.
            if n == 0 || n % 7 == 3 {
                continue;
            }
            match through(&mut d, said, &to) {
                Ok(out) => good += usize::from(out == p),
                Err(e) => {
                    assert_eq!(e, CompressError::UnknownContext(0));
                    told.push((n, 0));
                    unknown += 1;
                }
            }
        }
        // Only packets that need a lost context are lost with it, until the other end has said so.
        assert!(good + unknown == 170 && (1..=8).contains(&unknown), "{good} {unknown}");
    }

    #[test]
    fn more_flows_than_contexts_still_come_out_as_they_went_in() {
        let (mut c, mut d, mut to) = (Compressor::default(), Decompressor::default(), Vec::new());
        for round in 0..8u32 {
            for flow in 0..300u32 {
                let mut p = packet(true, 1, round, (flow, 2), b"x");
                p[41] = flow as u8;
                p[40] = (flow >> 8) as u8;
                let said = c.compress(FlowKey(flow.into()), &p, &mut to);
                assert_eq!(through(&mut d, said, &to), Ok(p));
            }
        }
    }

    #[test]
    fn what_is_not_plain_goes_as_it_is() {
        let mut c = Compressor::default();
        let mut to = Vec::new();
        let syn = tcp(true, false, 2, (1, 0), (1, 0), b"");
        let mut wrong_sum = packet(false, 1, 2, (3, 4), b"");
        wrong_sum[10] ^= 1;
        let mut urgent = packet(true, 1, 2, (3, 4), b"");
        urgent[58] = 1;
        // Of no version of IP, not TCP, longer than it says, a fragment.
        let with = |v6: bool, at: usize, value: u8| {
            let mut p = packet(v6, 1, 2, (3, 4), b"");
            p[at] = value;
            if !v6 {
                sum_up(&mut p);
            }
            p
        };
        let others = [
            with(true, 0, 0x70),
            with(true, 6, 17),
            with(true, 5, 33),
            with(false, 9, 17),
            with(false, 3, 53),
            with(false, 6, 0x20),
        ];
        for p in [&syn[..], &wrong_sum, &urgent, b"", b"abc"].into_iter().chain(others.iter().map(Vec::as_slice)) {
            assert_eq!((c.compress(FlowKey(1), p, &mut to), &to[..]), (Encoding::Whole, p));
        }
    }

    #[test]
    fn whatever_number_a_packet_of_ipv4_has_its_checksum_is_right_and_comes_back() {
        let (mut c, mut d, mut to) = (Compressor::default(), Decompressor::default(), Vec::new());
        let mut p = packet(false, 1, 2, (3, 4), b"");
        for id in 0..=u16::MAX {
            p[4..6].copy_from_slice(&id.to_be_bytes());
            sum_up(&mut p);
            let said = c.compress(FlowKey(1), &p, &mut to);
            assert_ne!(said, Encoding::Whole);
            assert_eq!(through(&mut d, said, &to).as_ref(), Ok(&p));
        }
    }

    #[test]
    fn what_a_flow_says_only_now_and_then_is_said_whole_when_it_changes() {
        let (mut c, mut d, mut to) = (Compressor::default(), Decompressor::default(), Vec::new());
        for (v6, place) in [(false, 8), (true, 7)] {
            let said = [64, 64, 64, 60, 60].map(|hops| {
                let mut p = packet(v6, 1, 2, (3, 4), b"");
                p[place] = hops;
                if !v6 {
                    sum_up(&mut p);
                }
                let said = c.compress(FlowKey(1), &p, &mut to);
                assert_eq!(through(&mut d, said, &to), Ok(p));
                said
            });
            let [whole, short] = [Encoding::Context, Encoding::Compressed];
            // The first two in any case, and a flow has one context a family.
            assert_eq!(said, [whole, whole, short, whole, whole]);
        }
    }

    #[test]
    fn the_flow_that_was_quiet_for_longest_loses_its_context_and_no_other_does() {
        let (mut c, mut d, mut to) = (Compressor::default(), Decompressor::default(), Vec::new());
        let mut say = |c: &mut Compressor, flow: u16| {
            let mut p = packet(true, 1, 2, (3, 4), b"");
            p[40..42].copy_from_slice(&flow.to_be_bytes());
            let said = c.compress(FlowKey(flow.into()), &p, &mut to);
            assert_eq!(through(&mut d, said, &to), Ok(p));
            said
        };
        for _ in 0..2 {
            assert!((0..256).all(|flow| say(&mut c, flow) == Encoding::Context));
        }
        assert!((0..256).all(|flow| say(&mut c, flow) == Encoding::Compressed));
        assert_eq!([0, 300].map(|flow| say(&mut c, flow)), [Encoding::Compressed, Encoding::Context]);
        // The other end asks for one again.
        c.forget(7);
        let next = [0, 255, 7, 1].map(|flow| say(&mut c, flow));
        assert_eq!(next, [Encoding::Context, Encoding::Compressed, Encoding::Context, Encoding::Context]);
    }

    proptest! {
        #[test]
        fn every_packet_comes_back_to_the_bit(
            packets in proptest::collection::vec((any::<bool>(), any::<u32>(), any::<u32>(), any::<(u32, u32)>(), 0usize..40,
                                                  any::<u8>(), any::<u16>()), 1..40)) {
            let (mut c, mut d, mut to) = (Compressor::default(), Decompressor::default(), Vec::new());
            for (v6, seq, ack, stamps, payload, flags, id) in packets {
                let mut p = packet(v6, seq, ack, stamps, &vec![7; payload]);
                let tcp = HEADERS[usize::from(v6)] - 32;
                p[tcp + 13] = flags;
                if !v6 {
                    p[4..6].copy_from_slice(&id.to_be_bytes());
                    sum_up(&mut p);
                }
                let said = c.compress(FlowKey(u64::from(v6)), &p, &mut to);
                prop_assert!(said != Encoding::Compressed || to.len() >= 12);
                prop_assert_eq!(through(&mut d, said, &to), Ok(p));
            }
        }

        #[test]
        fn any_bytes_are_a_packet_or_an_error(said in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..6),
                                              seed: u32) {
            let (mut c, mut d, mut to) = (Compressor::default(), Decompressor::default(), Vec::new());
            let first = packet(false, seed, 1, (2, 3), b"");
            c.compress(FlowKey(1), &first, &mut to);
            let good = to.clone();
            prop_assert!(d.context(&good, &mut to).is_ok());
            for mut bytes in said {
                let _ = d.context(&bytes, &mut to);
                let _ = d.context(&good, &mut to);
                if let Some(head) = bytes.get_mut(..2) {
                    head.copy_from_slice(&good[..2]);
                }
                if d.decompress(&bytes, &mut to).is_ok() {
                    prop_assert!(to.len() >= HEADERS[0]);
                }
            }
        }
    }
}
