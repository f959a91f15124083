//! TCP segments: headers, the options of a handshake, timestamps and selective acknowledgements (RFC 9293, 7323, 2018), to meaning and back.

use super::{Header, TCP, checksum, header_len, write};
use std::ops::BitOr;

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Bytes that timestamps take in a header.
pub const STAMPS: usize = 12;
/// Where in the header its checksum is.
pub const CHECKSUM_AT: u16 = 16;

/// The flags of a segment, as they are in its byte 13.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data comes from here.
    pub const FIN: Self = Self(1);
    /// A connection begins.
    pub const SYN: Self = Self(2);
    /// There is no such connection any more.
    pub const RST: Self = Self(4);
    /// To be delivered at once.
    pub const PSH: Self = Self(8);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(16);
    /// The urgent pointer counts.
    pub const URG: Self = Self(32);
    /// The congestion window has been reduced (RFC 3168).
    pub const CWR: Self = Self(128);

    /// Whether all of these are set.
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// Number of its first byte.
    pub sequence: u32,
    /// Number of the byte that its sender expects next.
    pub acknowledged: u32,
    /// Its flags.
    pub flags: Flags,
    /// Bytes that its sender has room for, not scaled.
    pub window: u16,
    /// With URG: the number of bytes up to and with the urgent one, as senders of today count (RFC 6093).
    pub urgent: u16,
    /// With SYN: the largest payload of a segment that its sender takes.
    pub mss: Option<u16>,
    /// With SYN: powers of two by which later windows are to be multiplied, at most 14.
    pub scale: Option<u8>,
    /// With SYN: whether its sender takes selective acknowledgements.
    pub takes_ranges: bool,
    /// Its sender's clock, and the last that it has read of the receiver's.
    pub stamps: Option<(u32, u32)>,
    /// What its sender has beyond `acknowledged`, from one number to another: as many as there is room for beside timestamps. Written, but not
    /// read.
    pub ranges: [Option<(u32, u32)>; 3],
}

/// Reads a segment: its header, and the payload behind it. Options that mean nothing here, and any behind a broken one, are
/// left out.
pub fn parse(bytes: &[u8]) -> Option<(Segment, &[u8])> {
    let head = bytes.first_chunk::<HEADER>()?;
    let len = 4 * usize::from(head[12] >> 4);
    let options = bytes.get(HEADER..len)?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let mut segment = Segment {
        source: word(0),
        destination: word(2),
        sequence: long(4),
        acknowledged: long(8),
        flags: Flags(head[13]),
        window: word(14),
        urgent: word(18),
        mss: None,
        scale: None,
        takes_ranges: false,
        stamps: None,
        ranges: Default::default(),
    };
    read_options(options, &mut segment);
    Some((segment, &bytes[len..]))
}

fn read_options(mut options: &[u8], segment: &mut Segment) {
    let opens = segment.flags.has(Flags::SYN);
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [0, ..] | [] => return,
            [8, 10, a, b, c, d, e, f, g, h, rest @ ..] => {
                segment.stamps = Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])));
                options = rest;
            }
            [4, 2, rest @ ..] if opens => {
                segment.takes_ranges = true;
                options = rest;
            }
            [2, 4, high, low, rest @ ..] if opens => {
                segment.mss = Some(u16::from_be_bytes([*high, *low])).filter(|mss| *mss > 0);
                options = rest;
            }
            [3, 3, scale, rest @ ..] if opens => {
                segment.scale = Some((*scale).min(14));
                options = rest;
            }
            [_, len, ..] if *len >= 2 => {
                let Some(rest) = options.get(usize::from(*len)..) else { return };
                options = rest;
            }
            _ => return,
        }
    }
}

impl Segment {
    /// Bytes of the header that [`Self::write`] makes.
    pub fn len(&self) -> usize {
        let four = |there: bool| if there { 4 } else { 0 };
        let stamps = if self.stamps.is_some() { STAMPS } else { four(self.takes_ranges) };
        let ranges = self.ranges.iter().flatten().count();
        HEADER + four(self.mss.is_some()) + four(self.scale.is_some()) + stamps + four(ranges > 0) + 8 * ranges
    }

    /// Never: a header has 20 bytes at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header into the first [`Self::len`] bytes of `into`, with a checksum of zero.
    pub fn write(&self, into: &mut [u8]) {
        let len = self.len();
        let head = &mut into[..len];
        head.fill(0);
        head[0..2].copy_from_slice(&self.source.to_be_bytes());
        head[2..4].copy_from_slice(&self.destination.to_be_bytes());
        head[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        head[8..12].copy_from_slice(&self.acknowledged.to_be_bytes());
        head[12] = ((len / 4) as u8) << 4;
        head[13] = self.flags.0;
        head[14..16].copy_from_slice(&self.window.to_be_bytes());
        head[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        let mut at = HEADER;
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            head[at..at + 4].copy_from_slice(&[2, 4, high, low]);
            at += 4;
        }
        let before = if self.takes_ranges { [4, 2] } else { [1, 1] };
        if let Some((clock, echo)) = self.stamps {
            head[at..at + 4].copy_from_slice(&[before[0], before[1], 8, 10]);
            head[at + 4..at + 8].copy_from_slice(&clock.to_be_bytes());
            head[at + 8..at + STAMPS].copy_from_slice(&echo.to_be_bytes());
            at += STAMPS;
        } else if self.takes_ranges {
            head[at..at + 4].copy_from_slice(&[1, 1, 4, 2]);
            at += 4;
        }
        if let Some(scale) = self.scale {
            head[at..at + 4].copy_from_slice(&[1, 3, 3, scale]);
            at += 4;
        }
        let ranges = self.ranges.iter().flatten().count();
        if ranges > 0 {
            head[at..at + 4].copy_from_slice(&[1, 1, 5, 2 + 8 * ranges as u8]);
            at += 4;
        }
        for (from, to) in self.ranges.iter().flatten() {
            head[at..at + 4].copy_from_slice(&from.to_be_bytes());
            head[at + 4..at + 8].copy_from_slice(&to.to_be_bytes());
            at += 8;
        }
    }
}

/// A packet: the IP header, the segment and its data, with all checksums in their places. What it carries is TCP, whatever `header` says.
pub fn packet(header: &Header, segment: &Segment, data: &[u8]) -> Vec<u8> {
    let (start, head) = (header_len(header.destination), segment.len());
    let len = head + data.len();
    let mut bytes = Vec::with_capacity(start + len);
    bytes.resize(start + head, 0);
    bytes.extend_from_slice(data);
    write(&Header { protocol: TCP, ..*header }, len, &mut bytes);
    segment.write(&mut bytes[start..]);
    let sum = checksum::pseudo_header(header.source, header.destination, TCP, len);
    let sum = !checksum::fold(checksum::add(sum, &bytes[start..]));
    let at = start + usize::from(CHECKSUM_AT);
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Whether `a` comes before `b` in a circle of sequence numbers.
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_reads_back() {
        let segment = Segment {
            source: 4000,
            destination: 80,
            sequence: 0xffff_fff0,
            acknowledged: 7,
            flags: Flags::SYN | Flags::ACK,
            window: 65535,
            urgent: 0,
            mss: Some(1448),
            scale: Some(4),
            takes_ranges: true,
            stamps: Some((0x0102_0304, 5)),
            ranges: Default::default(),
        };
        for (takes_ranges, stamps, len) in
            [(true, segment.stamps, 40), (false, segment.stamps, 40), (true, None, 32), (false, None, 28)]
        {
            let segment = Segment { takes_ranges, stamps, ..segment };
            let mut bytes = vec![0; segment.len() + 3];
            segment.write(&mut bytes);
            assert_eq!((parse(&bytes), segment.len()), (Some((segment, &[0_u8; 3][..])), len));
        }
    }

    #[test]
    fn later_segments_have_timestamps_and_ranges_and_no_option_of_an_opening() {
        let segment = Segment { flags: Flags::ACK, stamps: Some((7, 9)), ..Segment::default() };
        let with = Segment { ranges: [Some((1000, 2000)), Some((3000, 0xffff_ffff)), Some((5, 6))], ..segment };
        let mut bytes = vec![0; with.len()];
        with.write(&mut bytes);
        assert_eq!((bytes.len(), parse(&bytes)), (60, Some((segment, &[][..]))));
        let expected = [&[1, 1, 5, 26][..], &1000u32.to_be_bytes(), &2000u32.to_be_bytes()].concat();
        assert_eq!((&bytes[32..44], &bytes[56..]), (&expected[..], &6u32.to_be_bytes()[..]));
        let opening = Segment { mss: Some(1), scale: Some(2), takes_ranges: true, ..segment };
        let mut bytes = vec![0; opening.len()];
        opening.write(&mut bytes);
        assert_eq!(parse(&bytes).unwrap().0, segment);
    }

    #[test]
    fn a_packet_reads_back_and_its_sum_is_right() {
        for (from, to) in [("192.0.2.1", "198.51.100.2"), ("2001:db8::1", "2001:db8::2")] {
            let (source, destination) = (from.parse().unwrap(), to.parse().unwrap());
            let (protocol, traffic_class, hop_limit, whole) = (TCP, 0, 64, true);
            let header = Header { source, destination, protocol, traffic_class, hop_limit, whole, fragment: None };
            let segment = Segment { source: 1, destination: 2, flags: Flags::SYN, mss: Some(1), ..Segment::default() };
            let bytes = packet(&header, &segment, b"odd");
            let (read, payload) = super::super::parse(&bytes).expect("a packet");
            assert_eq!((read, parse(payload)), (header, Some((segment, &b"odd"[..]))));
            let sum = checksum::pseudo_header(source, destination, TCP, payload.len());
            assert_eq!(checksum::fold(checksum::add(sum, payload)), u16::MAX, "with its sum it sums to ones");
        }
    }

    #[test]
    fn an_option_that_is_broken_ends_the_options() {
        let segment = Segment { flags: Flags::SYN, mss: Some(1448), scale: Some(2), ..Segment::default() };
        let mut bytes = vec![0; segment.len()];
        segment.write(&mut bytes);
        bytes[24] = 99;
        bytes[25] = 0;
        assert_eq!(parse(&bytes).unwrap().0, Segment { scale: None, ..segment });
    }

    #[test]
    fn what_is_behind_the_end_of_the_options_is_none_and_no_segment_is_of_no_bytes() {
        let read = |options: &[u8]| {
            let mut bytes = vec![0; HEADER];
            Segment { flags: Flags::SYN, ..Segment::default() }.write(&mut bytes);
            bytes[12] = ((HEADER + options.len()) as u8 / 4) << 4;
            parse(&[&bytes[..], options].concat()).unwrap().0.mss
        };
        assert_eq!(read(&[0, 4, 0, 0, 2, 4, 5, 180]), None);
        assert_eq!(read(&[1, 1, 1, 1, 2, 4, 5, 180]), Some(1460));
        assert_eq!(read(&[2, 4, 0, 0]), None);
    }

    #[test]
    fn no_option_is_written_over_another() {
        let segment = Segment { scale: Some(2), ranges: [Some((1000, 2000)), None, None], ..Segment::default() };
        let mut bytes = vec![0; segment.len()];
        segment.write(&mut bytes);
        let options = [&[1, 3, 3, 2, 1, 1, 5, 10][..], &1000u32.to_be_bytes(), &2000u32.to_be_bytes()].concat();
        assert_eq!((&bytes[HEADER..], segment.is_empty()), (&options[..], false));
    }

    #[test]
    fn a_flag_that_is_set_twice_is_set() {
        assert_eq!((Flags::SYN | Flags::ACK) | Flags::ACK, Flags::SYN | Flags::ACK);
    }

    #[test]
    fn numbers_are_in_a_circle() {
        assert!(before(u32::MAX, 3) && !before(3, u32::MAX) && !before(5, 5));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_segment_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some((_, payload)) = parse(&bytes) {
                prop_assert!(payload.len() + HEADER <= bytes.len());
            }
        }
    }
}
