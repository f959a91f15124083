//! Super-packets of TCP: one set of headers before the payload of many segments, cut into the packets that a wire carries and
//! joined again.
//!
//! Headers change as a kernel's own segmentation changes them (lengths, IPv4 identification and checksum, sequence number and
//! flags; RFC 791, 8200, 9293, 3168); payloads are never touched. Only what is the very next segment of the same flow, with the
//! same options, is joined, and only after its checksum was found right: the receiver of a super-packet checks none.

use super::checksum::{add, fold};
use super::tcp::{CHECKSUM_AT, Flags, HEADER};
use super::{TCP, V4_HEADER, V6_HEADER};
use std::ops::Range;

/// Flags, as byte 13 has them.
const FIN: u8 = Flags::FIN.0;
const PSH: u8 = Flags::PSH.0;
const ACK: u8 = Flags::ACK.0;
const CWR: u8 = Flags::CWR.0;
/// Bytes of a super-packet at most: what its length field can say.
const LONGEST: usize = 65_535;
/// Where the checksum is in a header of TCP.
pub const CHECKSUM: usize = CHECKSUM_AT as usize;

/// Where things are in a packet of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    v4: bool,
    /// Where the header of TCP begins.
    start: usize,
    /// Where its payload begins.
    headers: usize,
}

impl Layout {
    /// None of what is no TCP, a fragment, or has extension headers.
    fn of(packet: &[u8]) -> Option<Self> {
        let (v4, start) = match packet.first()? >> 4 {
            4 => {
                let header = packet.get(..V4_HEADER)?;
                let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
                let len = 4 * usize::from(header[0] & 15);
                (header[9] == TCP && fragment == 0 && len >= V4_HEADER).then_some((true, len))?
            }
            6 => (packet.get(..V6_HEADER)?[6] == TCP).then_some((false, V6_HEADER))?,
            _ => return None,
        };
        let len = 4 * usize::from(packet.get(start + 12)? >> 4);
        let headers = start + len;
        (len >= HEADER && headers <= packet.len()).then_some(Self { v4, start, headers })
    }

    fn addresses(self) -> Range<usize> {
        if self.v4 { 12..20 } else { 8..40 }
    }

    /// The sum of the pseudo header of `len` bytes of TCP.
    fn pseudo(self, packet: &[u8], len: usize) -> u64 {
        add(u64::from(TCP) + len as u64, &packet[self.addresses()])
    }

    /// Writes lengths, and the checksum of IPv4.
    fn set_lengths(self, packet: &mut [u8], len: usize) {
        if self.v4 {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            packet[10..12].fill(0);
            let sum = !fold(add(0, &packet[..self.start]));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&((len - V6_HEADER) as u16).to_be_bytes());
        }
    }

    /// Bytes that the packet's own length says.
    fn says(self, packet: &[u8]) -> usize {
        let word = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        if self.v4 { word(2) } else { V6_HEADER + word(4) }
    }

    fn sequence(self, packet: &[u8]) -> u32 {
        let at = self.start + 4;
        u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
    }
}

/// The checksum that `packet` still needs: over all from `start` on, where the sum of the pseudo header is already.
pub fn checksum(packet: &[u8], start: usize) -> Option<u16> {
    let sum = packet.get(start..).map(|bytes| !fold(add(0, bytes)))?;
    // A sum of zero would say "no checksum" to UDP (RFC 768); its other form is as true.
    Some(if sum == 0 { u16::MAX } else { sum })
}

/// Fills in the checksum that `packet` still needs: over all from `start` on, to `offset` behind it, where the sum of the pseudo
/// header is already. Leaves alone what has no room for one.
pub fn finish(packet: &mut [u8], start: usize, offset: usize) {
    let Some(sum) = checksum(packet, start) else { return };
    if let Some(field) = packet.get_mut(start + offset..start + offset + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// How a super-packet is cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    packet: &'a [u8],
    layout: Layout,
    size: usize,
}

impl<'a> Cut<'a> {
    /// `packet` in segments of `size` bytes of payload. None if it is no TCP, or has no payload.
    pub fn plan(packet: &'a [u8], size: usize) -> Option<Self> {
        let layout = Layout::of(packet)?;
        let sound = size > 0 && packet.len() > layout.headers && packet.len() <= LONGEST;
        // No payload is longer, and places in the packet are reckoned in sizes.
        sound.then_some(Self { packet, layout, size: size.min(LONGEST) })
    }

    /// Segments that there are; at least one.
    pub fn count(&self) -> usize {
        (self.packet.len() - self.layout.headers).div_ceil(self.size)
    }

    /// Segment number `n`, finished, in the place of what is in `to`.
    pub fn write(&self, n: usize, to: &mut Vec<u8>) {
        let Layout { start, headers, v4 } = self.layout;
        let end = |n: usize| (headers + n * self.size).min(self.packet.len());
        to.clear();
        to.extend_from_slice(&self.packet[..headers]);
        to.extend_from_slice(&self.packet[end(n)..end(n + 1)]);
        if v4 {
            let id = u16::from_be_bytes([to[4], to[5]]).wrapping_add(n as u16);
            to[4..6].copy_from_slice(&id.to_be_bytes());
        }
        let len = to.len();
        self.layout.set_lengths(to, len);
        let sequence = self.layout.sequence(to).wrapping_add((n * self.size) as u32);
        to[start + 4..start + 8].copy_from_slice(&sequence.to_be_bytes());
        if n + 1 < self.count() {
            to[start + 13] &= !(FIN | PSH);
        }
        if n > 0 {
            to[start + 13] &= !CWR;
        }
        let pseudo = fold(self.layout.pseudo(to, len - start));
        to[start + CHECKSUM..start + CHECKSUM + 2].copy_from_slice(&pseudo.to_be_bytes());
        finish(to, start, CHECKSUM);
    }
}

/// What became of a packet that might be joined to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It was.
    Joined,
    /// It is of the same flow, and not what comes next: what was joined goes before it.
    Apart,
    /// It is of another flow.
    Other,
}

/// What a joined packet is to the receiver of super-packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Super {
    /// It is IPv4.
    pub v4: bool,
    /// Where the header of TCP begins; the checksum is to be made from there on, into [`CHECKSUM`] behind it.
    pub start: u16,
    /// Bytes of all headers.
    pub headers: u16,
    /// Bytes of payload in each segment but the last.
    pub size: u16,
}

/// Segments in a row, joined.
#[derive(Clone, Debug)]
pub struct Join {
    packet: Vec<u8>,
    layout: Layout,
    size: usize,
    count: usize,
    /// The last one was short, or asked to be delivered at once.
    closed: bool,
}

/// The flags, if nothing but acknowledging and pushing is among them.
fn plain(packet: &[u8], layout: Layout) -> Option<u8> {
    let flags = packet[layout.start + 13];
    (flags & !PSH == ACK).then_some(flags)
}

/// Where `packet` can be a segment among others: it is plain TCP with data, as long as it says, and its checksum is right.
fn joinable(packet: &[u8]) -> Option<(Layout, u8)> {
    let layout = Layout::of(packet)?;
    let flags = plain(packet, layout)?;
    let sound = packet.len() > layout.headers && layout.says(packet) == packet.len();
    let sum = || fold(add(layout.pseudo(packet, packet.len() - layout.start), &packet[layout.start..]));
    (sound && sum() == u16::MAX).then_some((layout, flags))
}

impl Join {
    /// Begins with a packet. It comes back if nothing can be joined to it.
    pub fn begin(packet: Vec<u8>) -> Result<Self, Vec<u8>> {
        match joinable(&packet) {
            Some((layout, flags)) if flags & PSH == 0 => {
                Ok(Self { size: packet.len() - layout.headers, packet, layout, count: 1, closed: false })
            }
            _ => Err(packet),
        }
    }

    fn same(&self, packet: &[u8], range: Range<usize>) -> bool {
        self.packet.get(range.clone()).is_some_and(|own| packet.get(range) == Some(own))
    }

    /// Whether `packet` is of the same flow: addresses, protocol and ports.
    fn is_of_flow(&self, packet: &[u8]) -> bool {
        let Some(layout) = Layout::of(packet) else { return false };
        (layout.v4, layout.start) == (self.layout.v4, self.layout.start)
            && self.same(packet, layout.addresses())
            && self.same(packet, layout.start..layout.start + 4)
    }

    /// Joins `packet` if it comes next.
    pub fn join(&mut self, packet: &[u8]) -> Next {
        if !self.is_of_flow(packet) {
            return Next::Other;
        }
        let Some((layout, flags)) = joinable(packet) else { return Next::Apart };
        let start = layout.start;
        let ip = if layout.v4 {
            self.same(packet, 0..2) && self.same(packet, 6..10) && self.same(packet, V4_HEADER..start)
        } else {
            self.same(packet, 0..4) && self.same(packet, 6..8)
        };
        // Acknowledgement and length of the header, window, urgent pointer and options.
        let tcp = [8..13, 14..16, 18..layout.headers - start];
        let tcp = tcp.into_iter().all(|range| self.same(packet, start + range.start..start + range.end));
        let payload = &packet[layout.headers..];
        let before = self.packet.len() - self.layout.headers;
        let expected = self.layout.sequence(&self.packet).wrapping_add(before as u32);
        let fits = !self.closed && payload.len() <= self.size && self.packet.len() + payload.len() <= LONGEST;
        if !(ip && tcp && fits && layout == self.layout && layout.sequence(packet) == expected) {
            return Next::Apart;
        }
        self.packet.extend_from_slice(payload);
        self.packet[start + 13] |= flags & PSH;
        self.count += 1;
        self.closed = payload.len() < self.size || flags & PSH != 0;
        Next::Joined
    }

    /// What was joined: a packet as it came if it is only one, or a super-packet whose checksum is left to be made.
    pub fn end(mut self) -> (Vec<u8>, Option<Super>) {
        if self.count == 1 {
            return (self.packet, None);
        }
        let (Layout { v4, start, headers }, len) = (self.layout, self.packet.len());
        self.layout.set_lengths(&mut self.packet, len);
        let pseudo = fold(self.layout.pseudo(&self.packet, len - start));
        self.packet[start + CHECKSUM..start + CHECKSUM + 2].copy_from_slice(&pseudo.to_be_bytes());
        let shape = Super { v4, start: start as u16, headers: headers as u16, size: self.size as u16 };
        (self.packet, Some(shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ip::tcp::{self, Segment};
    use crate::wire::ip::{self, Header};
    use proptest::prelude::*;

    /// A super-packet with twelve bytes of options and a payload that counts; its checksum is not made.
    fn super_packet(v4: bool, payload: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        if v4 {
            bytes.extend([0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, TCP, 0, 0, 198, 18, 0, 2, 198, 19, 0, 1]);
        } else {
            bytes.extend([0x60, 0, 0, 0, 0, 0, TCP, 64]);
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        }
        bytes.extend([0x1f, 0x90, 0, 80, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x80, 0x18, 1, 0, 0, 0, 0, 0]);
        bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        bytes.extend((0..payload).map(|n| n as u8));
        let layout = Layout::of(&bytes).unwrap();
        let len = bytes.len();
        layout.set_lengths(&mut bytes, len);
        bytes
    }

    fn cut(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
        let plan = Cut::plan(packet, size).unwrap();
        let one = |n| {
            let mut to = vec![9; 5];
            plan.write(n, &mut to);
            to
        };
        (0..plan.count()).map(one).collect()
    }

    #[test]
    fn segments_are_what_a_wire_would_have_carried() {
        for v4 in [true, false] {
            let packet = super_packet(v4, 3_000);
            let segments = cut(&packet, 1_400);
            assert_eq!(
                segments.iter().map(|s| s.len() - Layout::of(s).unwrap().headers).collect::<Vec<_>>(),
                [1_400, 1_400, 200]
            );
            for (n, segment) in segments.iter().enumerate() {
                let (layout, flags) = joinable(segment).expect("lengths and checksums are right");
                assert_eq!(layout.sequence(segment), 0xffff_ff00_u32.wrapping_add(1_400 * n as u32), "it wraps");
                assert_eq!(flags & PSH != 0, n == 2, "the last one alone pushes");
                if v4 {
                    assert_eq!(fold(add(0, &segment[..20])), u16::MAX);
                    assert_eq!(u16::from_be_bytes([segment[4], segment[5]]), 0xfffe_u16.wrapping_add(n as u16));
                }
            }
        }
    }

    #[test]
    fn segments_that_would_be_longer_than_any_packet_are_the_packet_itself() {
        let packet = super_packet(true, 3_000);
        assert_eq!(cut(&packet, usize::MAX), cut(&packet, 3_000));
        assert_eq!(cut(&packet, usize::MAX).len(), 1);
    }

    fn join(segments: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Option<Super>)> {
        let (mut out, mut open): (Vec<_>, Option<Join>) = (Vec::new(), None);
        for segment in segments {
            if open.as_mut().is_some_and(|open| open.join(&segment) == Next::Joined) {
                continue;
            }
            out.extend(open.take().map(Join::end));
            match Join::begin(segment) {
                Ok(begun) => open = Some(begun),
                Err(packet) => out.push((packet, None)),
            }
        }
        out.extend(open.map(Join::end));
        out
    }

    #[test]
    fn what_was_cut_is_joined_and_a_gap_another_flow_or_another_option_is_not() {
        let packet = super_packet(true, 3_000);
        let segments = cut(&packet, 1_400);
        let whole = join(segments.clone());
        assert_eq!(whole.len(), 1);
        let Some(Super { v4: true, start: 20, headers: 52, size: 1_400 }) = whole[0].1 else {
            panic!("{:?}", whole[0].1)
        };
        // All but the checksum is as it was, which is the pseudo header's sum until it is made.
        let mut finished = whole[0].0.clone();
        finish(&mut finished, 20, CHECKSUM);
        assert!(joinable(&finished).is_some());
        assert_eq!(whole[0].0[52..], packet[52..]);
        assert_eq!(join(vec![segments[0].clone(), segments[2].clone()]).len(), 2, "a gap");
        let mut begun = Join::begin(segments[0].clone()).unwrap();
        let mut other = segments[1].clone();
        other[21] ^= 1;
        assert_eq!(begun.join(&other), Next::Other, "another port");
        let mut wrong = segments[1].clone();
        wrong[900] ^= 1;
        assert_eq!(begun.join(&wrong), Next::Apart, "its checksum is wrong");
        let mut later = super_packet(true, 3_000);
        later[51] = 3;
        assert_eq!(begun.join(&cut(&later, 1_400)[1]), Next::Apart, "another timestamp");
        assert_eq!(begun.join(&segments[1]), Next::Joined);
        let v6 = join(cut(&super_packet(false, 50_000), 1_340));
        assert!(v6.len() == 1 && v6[0].1.is_some_and(|s| !s.v4 && s.headers == 72));
    }

    #[test]
    fn what_is_no_plain_segment_is_left_as_it_is() {
        let mut fin = cut(&super_packet(true, 100), 1_400).remove(0);
        assert!(Join::begin(fin.clone()).is_err(), "it pushes: nothing comes behind it");
        fin[33] |= FIN;
        assert!(Join::begin(fin).is_err());
        assert!(Join::begin(vec![0x45; 10]).is_err() && Join::begin(Vec::new()).is_err());
        let packet = super_packet(true, 100);
        assert!(Cut::plan(&packet, 0).is_none() && Cut::plan(&packet[..52], 100).is_none());
        assert!((0..52).all(|len| Cut::plan(&packet[..len], 100).is_none()));
    }

    /// What a program that sends a counting payload, `sequence` being the number of its first byte, puts on the wire.
    fn segment(v4: bool, sequence: u32, flags: Flags, payload: usize) -> Vec<u8> {
        let (from, to) = if v4 { ("198.18.0.2", "198.19.0.1") } else { ("2001:db8::2", "2001:db8::1") };
        let header = Header {
            source: from.parse().unwrap(),
            destination: to.parse().unwrap(),
            protocol: TCP,
            traffic_class: 0,
            hop_limit: 64,
            whole: true,
            fragment: None,
        };
        let (source, destination, acknowledged, window) = (4000, 80, 9, 256);
        let segment = Segment { source, destination, sequence, acknowledged, flags, window, ..Segment::default() };
        tcp::packet(&header, &segment, &counting(payload))
    }

    fn counting(payload: usize) -> Vec<u8> {
        (0..payload).map(|n| (n + n / 256) as u8).collect()
    }

    #[test]
    fn each_segment_is_a_packet_by_itself_with_its_part_of_the_data_and_of_the_flags() {
        let (inner, last) = (Flags::ACK, Flags::ACK | Flags::PSH | Flags::FIN);
        let first = inner | Flags::CWR;
        for v4 in [true, false] {
            // All bytes of its number are different.
            let segments = cut(&segment(v4, 0x0102_0304, last | first, 3_000), 1_400);
            for (n, flags) in [first, inner, last].into_iter().enumerate() {
                assert!(ip::is_sound(&segments[n]), "its checksum is right");
                let (read, data) = tcp::parse(ip::parse(&segments[n]).unwrap().1).unwrap();
                assert_eq!((read.sequence, read.flags), (0x0102_0304 + 1_400 * n as u32, flags));
                assert_eq!(data, &counting(3_000)[1_400 * n..3_000.min(1_400 * (n + 1))]);
            }
        }
    }

    #[test]
    fn what_is_no_tcp_or_a_fragment_is_not_cut() {
        let packet = segment(true, 0, Flags::ACK, 100);
        assert!(Cut::plan(&packet, 50).is_some());
        for (at, byte) in [(9, 17), (6, 0x20), (7, 1), (0, 0x44)] {
            let mut other = packet.clone();
            other[at] = byte;
            assert!(Cut::plan(&other, 50).is_none(), "{byte} at {at}");
        }
    }

    #[test]
    fn what_differs_in_its_header_is_not_joined() {
        for v4 in [true, false] {
            let alone = segment(v4, 100, Flags::ACK, 0);
            assert!(Join::begin(alone).is_err(), "an acknowledgement has nothing to join");
            let mut begun = Join::begin(segment(v4, 100, Flags::ACK, 1_000)).unwrap();
            let next = segment(v4, 1_100, Flags::ACK, 1_000);
            // Its source; its traffic class, whether it may be cut or its flow label, and its hop limit.
            let (other, apart) = if v4 { (15, [1, 6, 8]) } else { (23, [1, 3, 7]) };
            for (at, is) in [(other, Next::Other)].into_iter().chain(apart.map(|at| (at, Next::Apart))) {
                let mut changed = next.clone();
                changed[at] ^= 0x40;
                assert_eq!(begun.join(&changed), is, "byte {at}");
            }
            assert_eq!(begun.join(&next), Next::Joined);
        }
    }

    #[test]
    fn what_is_short_or_pushes_is_the_last_and_none_is_longer_than_the_first() {
        for (last, flags) in [(500, Flags::ACK), (1_000, Flags::ACK | Flags::PSH)] {
            let mut begun = Join::begin(segment(true, 0, Flags::ACK, 1_000)).unwrap();
            assert_eq!(begun.join(&segment(true, 1_000, Flags::ACK, 1_001)), Next::Apart);
            assert_eq!(begun.join(&segment(true, 1_000, Flags::ACK, 1_000)), Next::Joined);
            assert_eq!(begun.join(&segment(true, 2_000, flags, last)), Next::Joined);
            assert_eq!(begun.join(&segment(true, 2_000 + last as u32, Flags::ACK, 400)), Next::Apart);
            let (mut packet, shape) = begun.end();
            assert_eq!(shape, Some(Super { v4: true, start: 20, headers: 40, size: 1_000 }));
            finish(&mut packet, 20, CHECKSUM);
            assert!(ip::is_sound(&packet));
            let (read, data) = tcp::parse(ip::parse(&packet).unwrap().1).unwrap();
            assert_eq!((read.flags, data.len()), (flags, 2_000 + last), "it pushes if one of them does");
        }
    }

    #[test]
    fn no_more_are_joined_than_the_length_of_a_packet_can_say() {
        for v4 in [true, false] {
            let mut begun = Join::begin(segment(v4, 0, Flags::ACK, 1_460)).unwrap();
            let mut more = (1..100).map(|n| begun.join(&segment(v4, 1_460 * n, Flags::ACK, 1_460)));
            assert_eq!(more.position(|next| next == Next::Apart), Some(43), "44 are 64 240 bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_cut_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), v4: bool, size in 0usize..300) {
            if bytes.len() > 10 {
                bytes[0] = if v4 { 0x45 } else { 0x60 };
                bytes[if v4 { 9 } else { 6 }] = TCP;
            }
            if let Some(plan) = Cut::plan(&bytes, size) {
                let mut to = Vec::new();
                for n in 0..plan.count() {
                    plan.write(n, &mut to);
                    prop_assert!(to.len() <= bytes.len());
                }
            }
            if let Ok(mut join) = Join::begin(bytes.clone()) {
                let _ = join.join(&bytes);
                prop_assert!(join.end().0.len() <= 2 * bytes.len());
            }
        }

        #[test]
        fn cutting_and_joining_give_back_every_byte(payload in 1usize..60_000, size in 500usize..1_500, v4: bool) {
            let packet = super_packet(v4, payload);
            let headers = Layout::of(&packet).unwrap().headers;
            let joined = join(cut(&packet, size));
            prop_assert_eq!(joined.len(), 1);
            prop_assert_eq!(&joined[0].0[headers..], &packet[headers..]);
        }
    }
}
