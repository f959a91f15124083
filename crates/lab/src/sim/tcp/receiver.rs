//! The receiving half: puts the stream together, and says what has arrived, at once or later.

use super::{MSS, Segment, Stack};
use headstart_core::time::{Duration, Instant};
use std::collections::BTreeMap;

/// Linux's shortest delay of an acknowledgement (TCP_ATO_MIN); RFC 1122 allows up to 500 ms.
const DELAY: Duration = Duration::from_millis(40);

#[derive(Debug)]
pub(super) struct Receiver {
    stack: Stack,
    next: u64,
    early: BTreeMap<u64, (usize, Vec<u8>)>,
    /// Where the last segment that came early lies: its block is reported first (RFC 2018, section 4).
    latest: u64,
    pub ready: Vec<u8>,
    pub ack_now: bool,
    pub ack_at: Option<Instant>,
    /// Bytes in order that were not acknowledged.
    pending: usize,
    /// The program answers what it gets, so acknowledgements wait for the answer (Linux: ping-pong mode).
    ping_pong: bool,
    /// Something has come since the program wrote.
    heard: bool,
}

impl Receiver {
    pub fn new(stack: Stack) -> Self {
        Self {
            stack,
            next: 0,
            early: BTreeMap::new(),
            latest: 0,
            ready: Vec::new(),
            ack_now: false,
            ack_at: None,
            pending: 0,
            ping_pong: false,
            heard: false,
        }
    }

    pub fn data(&mut self, now: Instant, segment: &Segment) {
        self.heard = true;
        let end = segment.seq + segment.len as u64;
        if end <= self.next {
            // Nothing new: an acknowledgement was lost (RFC 9293, section 3.10.7.4).
            self.ack_now = true;
            return;
        }
        if segment.seq > self.next {
            // Out of order, told at once (RFC 5681, section 4.2).
            self.latest = segment.seq;
            self.early.insert(segment.seq, (segment.len, segment.bytes.clone()));
            self.ack_now = true;
            return;
        }
        let filled = !self.early.is_empty();
        self.take(segment.seq, segment.len, &segment.bytes);
        self.pending += segment.len;
        while let Some(entry) = self.early.first_entry().filter(|e| *e.key() <= self.next) {
            let (seq, (len, bytes)) = entry.remove_entry();
            self.take(seq, len, &bytes);
        }
        // A gap was filled, or more than a full segment waits: at once (RFC 5681, section 4.2).
        if filled || self.pending > MSS || !(self.stack.delays_acks || self.ping_pong) {
            self.ack_now = true;
        } else {
            self.ack_at.get_or_insert(now + DELAY);
        }
    }

    fn take(&mut self, seq: u64, len: usize, bytes: &[u8]) {
        let end = seq + len as u64;
        if end > self.next {
            let known = (self.next - seq) as usize;
            self.ready.extend_from_slice(bytes.get(known..).unwrap_or_default());
            self.next = end;
        }
    }

    /// The program has written.
    pub fn answered(&mut self) {
        self.ping_pong |= std::mem::take(&mut self.heard);
    }

    pub fn timeout(&mut self, now: Instant) {
        if self.ack_at.is_some_and(|at| at <= now) {
            // No answer came to go with: Linux leaves ping-pong mode.
            self.ping_pong = false;
            self.ack_now = true;
        }
    }

    /// The peer is being told.
    pub fn told(&mut self) {
        (self.ack_now, self.ack_at, self.pending) = (false, None, 0);
    }

    pub fn state(&self) -> (u64, [(u64, u64); 3]) {
        let mut blocks: Vec<(u64, u64)> = Vec::new();
        if self.stack.sack {
            for (seq, (len, _)) in &self.early {
                let end = seq + *len as u64;
                match blocks.last_mut().filter(|last| *seq <= last.1) {
                    Some(last) => last.1 = last.1.max(end),
                    None => blocks.push((*seq, end)),
                }
            }
            if let Some(at) = blocks.iter().position(|(from, to)| (*from..*to).contains(&self.latest)) {
                blocks[..=at].rotate_right(1);
            }
        }
        (self.next, std::array::from_fn(|k| blocks.get(k).copied().unwrap_or((0, 0))))
    }
}
