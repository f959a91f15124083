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
    /// What lies in `early`, in order; blocks that touch are one.
    blocks: Vec<(u64, u64)>,
    /// Where the last segment that came early lies: its block is reported first (RFC 2018, section 4).
    latest: u64,
    pub ready: Vec<u8>,
    pub ack_now: bool,
    pub ack_at: Option<Instant>,
    /// Bytes in order that were not acknowledged.
    pending: usize,
    /// Bytes of payload in a full segment.
    pub segment: usize,
    /// The program answers what it gets, so acknowledgements wait for the answer (Linux: ping-pong mode).
    ping_pong: bool,
    /// Something has come since the program wrote.
    has_received: bool,
}

impl Receiver {
    pub fn new(stack: Stack) -> Self {
        Self {
            stack,
            next: 0,
            early: BTreeMap::new(),
            blocks: Vec::new(),
            latest: 0,
            ready: Vec::new(),
            ack_now: false,
            ack_at: None,
            pending: 0,
            segment: MSS,
            ping_pong: false,
            has_received: false,
        }
    }

    pub fn data(&mut self, now: Instant, segment: &Segment) {
        self.has_received = true;
        let end = segment.seq + segment.len as u64;
        if end <= self.next {
            // Nothing new: an acknowledgement was lost (RFC 9293, section 3.10.7.4).
            self.ack_now = true;
            return;
        }
        if segment.seq > self.next {
            // Out of order, told at once (RFC 5681, section 4.2).
            self.latest = segment.seq;
            // What is here is not given up for less: a bundled segment is longer than the one that is sent again.
            if self.early.get(&segment.seq).is_none_or(|(len, _)| *len < segment.len) {
                self.early.insert(segment.seq, (segment.len, segment.bytes.clone()));
                self.block(segment.seq, end);
            }
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
        let taken = self.blocks.partition_point(|(from, _)| *from <= self.next);
        self.blocks.drain(..taken);
        // A gap was filled, or more than a full segment waits: at once (RFC 5681, section 4.2).
        if filled || self.pending > self.segment || !(self.stack.delays_acks || self.ping_pong) {
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
        self.ping_pong |= std::mem::take(&mut self.has_received);
    }

    pub fn timeout(&mut self, now: Instant) {
        if self.ack_at.is_some_and(|at| at <= now) {
            // No answer came to go with: Linux leaves ping-pong mode.
            self.ping_pong = false;
            self.ack_now = true;
        }
    }

    /// An acknowledgement is being sent.
    pub fn acknowledged(&mut self) {
        (self.ack_now, self.ack_at, self.pending) = (false, None, 0);
    }

    /// Takes what is between the two into the blocks.
    fn block(&mut self, mut from: u64, mut to: u64) {
        let first = self.blocks.partition_point(|(_, end)| *end < from);
        let mut last = first;
        while let Some((begin, end)) = self.blocks.get(last).filter(|(begin, _)| *begin <= to) {
            (from, to) = (from.min(*begin), to.max(*end));
            last += 1;
        }
        self.blocks.splice(first..last, [(from, to)]);
    }

    pub fn state(&self) -> (u64, [(u64, u64); 3]) {
        if !self.stack.sack || self.blocks.is_empty() {
            return (self.next, [(0, 0); 3]);
        }
        let at = self.blocks.partition_point(|(_, to)| *to <= self.latest);
        let newest = self.blocks.get(at).filter(|(from, _)| *from <= self.latest);
        let others =
            self.blocks.iter().enumerate().filter(|(k, _)| newest.is_none() || *k != at).map(|(_, block)| block);
        let mut blocks = newest.into_iter().chain(others).copied();
        (self.next, std::array::from_fn(|_| blocks.next().unwrap_or((0, 0))))
    }
}
