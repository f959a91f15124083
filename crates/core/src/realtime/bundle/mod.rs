//! Redundant data bundling outside the kernel: a tiny segment carries the one or two before it again, if these are not
//! acknowledged yet. One loss then costs nothing, no packet is added, and neither program nor peer needs to know.
//!
//! The idea is from the RITE project's patch for Linux (Petlund and others; LCN 2015 on its fairness), which was never
//! merged; that it is done to packets on their way is ours. It hides losses from congestion control, so the gate is strict:
//! small payloads, few in flight, new data only, and nothing while round trips are inflated. What never happens here: a
//! retransmission, a SYN, FIN or urgent segment is changed, or a byte is sent that the program did not write there.

pub mod packet;

use crate::path::RttEstimate;
use crate::time::{Duration, Instant};
use packet::{Flow, Segment};
use std::collections::{HashMap, VecDeque};

/// Segments that are repeated by the next one at most: with two, only three losses in a row cost anything. Ours.
const DEPTH: usize = 2;
/// Longest payload of a thin stream, in bytes. Ours; the paper's messages have 50.
const THIN: usize = 120;
/// Segments in flight of a thin stream at most: fewer than these, TCP cannot retransmit fast (RFC 5681; Linux calls a stream
/// with less than four thin).
const MOST_IN_FLIGHT: usize = 4;
/// Longest payload with what was added, in bytes: safe on any path (RFC 9293's default MSS is 536).
const LONGEST: usize = 536;
const _: () = assert!((DEPTH + 1) * THIN <= LONGEST);
/// Round trips are inflated from twice the shortest on, if that is 10 ms more: as in `realtime::state`.
const INFLATED_FLOOR: Duration = super::state::QUEUED_FLOOR;
/// Streams that are kept in mind; the one that was quiet longest makes room.
const MAX_FLOWS: usize = 1024;

#[derive(Debug)]
struct Piece {
    seq: u32,
    bytes: Vec<u8>,
    sent: Instant,
}

/// One direction of one stream.
#[derive(Debug, Default)]
pub struct Thin {
    pieces: VecDeque<Piece>,
    /// Number of the byte after the last one that was sent.
    next: Option<u32>,
    rtt: Option<RttEstimate>,
    shortest: Option<Duration>,
    last: Instant,
}

/// Whether sequence number `a` is before `b` (RFC 9293, section 3.4).
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Thin {
    /// A segment with `payload` at `seq` is about to leave. If it is to carry more, `prefix` is filled with what goes before
    /// its payload, and the sequence number of that comes back.
    pub fn outgoing(&mut self, now: Instant, seq: u32, payload: &[u8], prefix: &mut Vec<u8>) -> Option<u32> {
        self.last = now;
        prefix.clear();
        let new = self.next.is_none_or(|next| next == seq);
        let end = seq.wrapping_add(payload.len() as u32);
        if !new {
            // Sent again, or a gap that was not seen here.
            if self.next.is_none_or(|next| before(next, seq)) {
                self.pieces.clear();
                self.next = Some(end);
            }
            return None;
        }
        self.next = Some(end);
        if payload.is_empty() {
            return None;
        }
        if payload.len() > THIN {
            self.pieces.clear();
            return None;
        }
        let mut from = seq;
        if self.pieces.len() < MOST_IN_FLIGHT && !self.is_inflated() {
            let mut count = 0;
            for piece in self.pieces.iter().rev().take(DEPTH) {
                if piece.seq.wrapping_add(piece.bytes.len() as u32) != from {
                    break;
                }
                from = piece.seq;
                count += 1;
            }
            for piece in self.pieces.iter().skip(self.pieces.len() - count) {
                prefix.extend_from_slice(&piece.bytes);
            }
        }
        while self.pieces.len() > MOST_IN_FLIGHT {
            self.pieces.pop_front();
        }
        self.pieces.push_back(Piece { seq, bytes: payload.to_vec(), sent: now });
        (!prefix.is_empty()).then_some(from)
    }

    /// The peer has everything before `ack`.
    pub fn acknowledged(&mut self, now: Instant, ack: u32) {
        let has = |piece: &Piece| !before(ack, piece.seq.wrapping_add(piece.bytes.len() as u32));
        while let Some(piece) = self.pieces.front().filter(|piece| has(piece)) {
            // Only the newest was surely sent once: those before it went again with it.
            if self.pieces.len() == 1 {
                let sample = now.since(piece.sent);
                self.rtt = Some(RttEstimate::extend(self.rtt, sample));
                self.shortest = Some(self.shortest.map_or(sample, |old| old.min(sample)));
            }
            self.pieces.pop_front();
        }
    }

    fn is_inflated(&self) -> bool {
        let (Some(rtt), Some(shortest)) = (self.rtt, self.shortest) else { return false };
        rtt.smoothed >= shortest * 2 && rtt.smoothed >= shortest + INFLATED_FLOOR
    }
}

/// Packets seen, and packets changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// TCP packets that went out.
    pub outgoing: u64,
    /// Of these, how many carry something again.
    pub bundled: u64,
    /// Bytes that were repeated.
    pub bytes: u64,
}

/// All streams of a host.
#[derive(Debug, Default)]
pub struct Bundler {
    flows: HashMap<Flow, Thin>,
    prefix: Vec<u8>,
    tally: Tally,
}

impl Bundler {
    /// One that knows of no stream yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet of IP is about to leave; whether it was changed. It may be `longest` bytes long at most.
    pub fn outgoing(&mut self, now: Instant, packet: &mut Vec<u8>, longest: usize) -> bool {
        let Some(segment) = Segment::parse(packet) else { return false };
        self.tally.outgoing += 1;
        if segment.begins_or_ends() {
            self.flows.remove(&segment.flow);
            return false;
        }
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&segment.flow) {
            let quiet = self.flows.iter().min_by_key(|(_, thin)| thin.last).map(|(flow, _)| *flow);
            quiet.map(|flow| self.flows.remove(&flow));
        }
        let thin = self.flows.entry(segment.flow).or_default();
        let payload = &packet[segment.payload.clone()];
        let from = thin.outgoing(now, segment.seq, payload, &mut self.prefix);
        let Some(from) = from.filter(|_| !segment.urgent && packet.len() + self.prefix.len() <= longest) else {
            return false;
        };
        if !packet::prepend(packet, &segment, from, &self.prefix) {
            return false;
        }
        self.tally.bundled += 1;
        self.tally.bytes += self.prefix.len() as u64;
        true
    }

    /// A packet of IP has come in: what it acknowledges need not be repeated.
    pub fn incoming(&mut self, now: Instant, packet: &[u8]) {
        let Some(segment) = Segment::parse(packet) else { return };
        if let Some(thin) = segment.ack.and_then(|_| self.flows.get_mut(&segment.flow.reversed()))
            && let Some(ack) = segment.ack
        {
            thin.acknowledged(now, ack);
        }
    }

    /// What has been done so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn send(thin: &mut Thin, millis: u64, seq: u32, text: &str) -> Option<(u32, String)> {
        let mut prefix = Vec::new();
        let from = thin.outgoing(at(millis), seq, text.as_bytes(), &mut prefix)?;
        Some((from, String::from_utf8(prefix).unwrap()))
    }

    #[test]
    fn a_segment_carries_the_two_before_it_that_are_not_acknowledged() {
        let mut thin = Thin::default();
        assert_eq!(send(&mut thin, 0, 100, "aa"), None);
        assert_eq!(send(&mut thin, 30, 102, "bb"), Some((100, "aa".into())));
        assert_eq!(send(&mut thin, 60, 104, "cc"), Some((100, "aabb".into())));
        assert_eq!(send(&mut thin, 90, 106, "dd"), Some((102, "bbcc".into())));
        thin.acknowledged(at(95), 106);
        assert_eq!(send(&mut thin, 120, 108, "ee"), Some((106, "dd".into())));
        thin.acknowledged(at(125), 110);
        assert_eq!(send(&mut thin, 150, 110, "ff"), None);
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        let mut thin = Thin::default();
        send(&mut thin, 0, u32::MAX - 1, "abc");
        assert_eq!(send(&mut thin, 30, 1, "de"), Some((u32::MAX - 1, "abc".into())));
        thin.acknowledged(at(40), 1);
        assert_eq!(send(&mut thin, 60, 3, "f"), Some((1, "de".into())));
    }

    #[test]
    fn a_retransmission_goes_as_it_is() {
        let mut thin = Thin::default();
        send(&mut thin, 0, 100, "aa");
        send(&mut thin, 30, 102, "bb");
        assert_eq!(send(&mut thin, 60, 100, "aa"), None);
        assert_eq!(send(&mut thin, 90, 104, "cc"), Some((100, "aabb".into())));
    }

    #[test]
    fn streams_that_are_not_thin_are_left_alone() {
        let mut thin = Thin::default();
        let long = "x".repeat(THIN + 1);
        send(&mut thin, 0, 0, "aa");
        assert_eq!(send(&mut thin, 1, 2, &long), None);
        assert_eq!(send(&mut thin, 2, 2 + long.len() as u32, "bb"), None);
        let mut thin = Thin::default();
        send(&mut thin, 0, 0, "aa");
        assert_eq!(send(&mut thin, 1, 2, &long[1..]), Some((0, "aa".into())), "not longer than that");
        let mut thin = Thin::default();
        let bundled: Vec<bool> = (0..10).map(|k| send(&mut thin, k, 2 * k as u32, "aa").is_some()).collect();
        let few = |k| (1..MOST_IN_FLIGHT).contains(&k);
        assert!(bundled.iter().enumerate().all(|(k, bundled)| *bundled == few(k)), "many in flight: {bundled:?}");
    }

    #[test]
    fn nothing_is_added_while_round_trips_are_inflated() {
        // Round trips in milliseconds at first, and as they are later.
        let is_added = |first: u64, later: u64| {
            let mut thin = Thin::default();
            let mut seq = 0;
            for k in 0..40u64 {
                send(&mut thin, 1000 * k, seq, "aa");
                seq += 2;
                thin.acknowledged(at(1000 * k + if k < 5 { first } else { later }), seq);
            }
            send(&mut thin, 50_000, seq, "aa");
            send(&mut thin, 50_030, seq + 2, "bb").is_some()
        };
        assert!(!is_added(10, 200) && !is_added(10, 21));
        assert!(is_added(5, 12), "the jitter of a short path is no queue");
        assert!(is_added(100, 130), "nor is that of a long one");
    }
}
