//! Fragments of a program's packets, put together (RFC 791, 8200, 5722).
//!
//! Bounded: so many packets at a time, each for so long. Overlapping fragments end their packet: no honest kernel sends them.

use crate::time::{Duration, Instant};
use crate::wire::ip::{Fragment, Header, header_len, write};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// How long a packet may take to come. 30 s: Linux's ipfrag_time.
const LIFETIME: Duration = Duration::from_secs(30);
/// Packets at a time.
const MOST_PACKETS: usize = 64;
/// The longest payload that a packet of either family can have.
const MOST_BYTES: usize = 65_515;

/// Whose parts they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    protocol: u8,
}

#[derive(Debug)]
struct Partial {
    since: Instant,
    first: Option<Header>,
    parts: BTreeMap<usize, Vec<u8>>,
    bytes: usize,
    len: Option<usize>,
}

/// Packets of which parts are missing.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    partial: BTreeMap<Key, Partial>,
}

impl Fragments {
    /// Takes in a part; the whole packet if it was the last one missing.
    pub fn add(&mut self, now: Instant, header: &Header, fragment: Fragment, payload: &[u8]) -> Option<Vec<u8>> {
        self.partial.retain(|_, partial| now.since(partial.since) < LIFETIME);
        // The protocol is in the first part alone, in IPv6.
        let protocol = if header.source.is_ipv4() { header.protocol } else { 0 };
        let key = Key { source: header.source, destination: header.destination, id: fragment.id, protocol };
        let end = fragment.offset + payload.len();
        if payload.is_empty() || end > MOST_BYTES || (fragment.more && !payload.len().is_multiple_of(8)) {
            self.partial.remove(&key);
            return None;
        }
        if !self.partial.contains_key(&key) && self.partial.len() >= MOST_PACKETS {
            let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.since).map(|(key, _)| *key);
            oldest.and_then(|key| self.partial.remove(&key));
        }
        let new = || Partial { since: now, first: None, parts: BTreeMap::new(), bytes: 0, len: None };
        let partial = self.partial.entry(key).or_insert_with(new);
        if partial.parts.get(&fragment.offset).is_some_and(|part| part == payload) {
            return None;
        }
        let before = partial.parts.range(..=fragment.offset).next_back();
        let overlaps = before.is_some_and(|(at, part)| at + part.len() > fragment.offset)
            || partial.parts.range(fragment.offset..).next().is_some_and(|(at, _)| *at < end)
            || partial.len.is_some_and(|len| end > len || (!fragment.more && end != len));
        if overlaps {
            self.partial.remove(&key);
            return None;
        }
        partial.parts.insert(fragment.offset, payload.to_vec());
        partial.bytes += payload.len();
        if fragment.offset == 0 {
            partial.first = Some(*header);
        }
        if !fragment.more {
            partial.len = Some(end);
        }
        if partial.len != Some(partial.bytes) || partial.first.is_none() {
            return None;
        }
        let whole = self.partial.remove(&key)?;
        let header = Header { fragment: None, whole: false, ..whole.first? };
        let mut packet = vec![0; header_len(header.destination)];
        write(&header, whole.bytes, &mut packet);
        whole.parts.into_values().for_each(|part| packet.extend(part));
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ip::{UDP, parse};

    fn header() -> Header {
        Header {
            source: "192.0.2.1".parse().unwrap(),
            destination: "192.0.2.2".parse().unwrap(),
            protocol: UDP,
            traffic_class: 0,
            hop_limit: 64,
            whole: false,
            fragment: None,
        }
    }

    fn part(offset: usize, more: bool) -> Fragment {
        Fragment { id: 7, offset, more }
    }

    #[test]
    fn parts_make_a_packet_in_any_order() {
        let mut fragments = Fragments::default();
        let now = Instant::ZERO;
        assert_eq!(fragments.add(now, &header(), part(16, false), b"end"), None);
        assert_eq!(fragments.add(now, &header(), part(8, true), b"the midd"), None);
        assert_eq!(fragments.add(now, &header(), part(8, true), b"the midd"), None, "twice");
        let packet = fragments.add(now, &header(), part(0, true), b"begin...").unwrap();
        let (read, payload) = parse(&packet).unwrap();
        assert_eq!((read.fragment, payload), (None, &b"begin...the middend"[..]));
        assert!(fragments.partial.is_empty());
    }

    #[test]
    fn parts_that_overlap_and_parts_that_take_too_long_make_none() {
        let mut fragments = Fragments::default();
        fragments.add(Instant::ZERO, &header(), part(0, true), &[1; 16]);
        assert_eq!(fragments.add(Instant::ZERO, &header(), part(8, false), &[2; 16]), None);
        assert!(fragments.partial.is_empty());
        fragments.add(Instant::ZERO, &header(), part(0, true), &[1; 16]);
        assert_eq!(fragments.add(Instant::ZERO + LIFETIME, &header(), part(16, false), &[2; 16]), None);
    }

    #[test]
    fn a_flood_of_first_parts_takes_bounded_room() {
        let mut fragments = Fragments::default();
        for id in 0..10_000 {
            let fragment = Fragment { id, offset: 0, more: true };
            assert_eq!(fragments.add(Instant::from_millis(id.into()), &header(), fragment, &[0; 8]), None);
        }
        assert_eq!(fragments.partial.len(), MOST_PACKETS);
    }

    #[test]
    fn the_first_part_says_what_the_packet_is() {
        let mut fragments = Fragments::default();
        let other = Header { traffic_class: 0x22, hop_limit: 3, ..header() };
        assert_eq!(fragments.add(Instant::ZERO, &other, part(8, false), b"end"), None);
        let packet = fragments.add(Instant::ZERO, &header(), part(0, true), b"begin...").unwrap();
        assert_eq!(parse(&packet).unwrap().0, header());
    }

    #[test]
    fn parts_that_contradict_each_other_make_none() {
        let contradictions: [[(usize, bool, usize); 2]; 7] = [
            // Over the beginning of the next one, and over the end of the one before.
            [(8, true, 16), (0, true, 16)],
            [(0, true, 16), (8, true, 16)],
            // Behind the end, be it the middle of something or another end; and an end before the end.
            [(8, false, 8), (16, true, 8)],
            [(8, false, 8), (16, false, 8)],
            [(16, false, 8), (0, false, 8)],
            // Nothing, and what no packet has room for.
            [(8, true, 8), (16, false, 0)],
            [(8, true, 8), (65_512, false, 4)],
        ];
        for [first, second] in contradictions {
            let mut fragments = Fragments::default();
            for (offset, more, len) in [first, second] {
                assert_eq!(fragments.add(Instant::ZERO, &header(), part(offset, more), &vec![1; len]), None);
            }
            assert!(fragments.partial.is_empty(), "{first:?} {second:?}");
        }
    }

    #[test]
    fn the_longest_packet_there_is_can_come_in_parts() {
        let mut fragments = Fragments::default();
        assert_eq!(fragments.add(Instant::ZERO, &header(), part(0, true), &[1; 65_512]), None);
        let packet = fragments.add(Instant::ZERO, &header(), part(65_512, false), &[2; 3]).unwrap();
        assert_eq!(packet.len(), 65_535);
    }
}
