//! The sending half: what goes when, what is lost, and how much may be in flight.

use super::super::hystart::{self, Round};
use super::bbr::{Bbr, Stamp};
use super::{MSS, Segment, Stack};
use headstart_core::path::RttEstimate;
use headstart_core::time::{Duration, Instant};
use std::collections::VecDeque;

/// Linux's TCP_RTO_MIN; RFC 6298 says a second.
const MIN_RTO: Duration = Duration::from_millis(200);
/// Linux's TCP_RTO_MAX.
const MAX_RTO: Duration = Duration::from_secs(120);
/// Duplicate acknowledgements that mean a loss (RFC 5681, section 3.2).
const DUP_THRESH: u32 = 3;
/// CUBIC's multiplicative decrease and its scale (RFC 9438, sections 4.6 and 5).
const BETA: f64 = 0.7;
const C: f64 = 0.4;
/// Before the first loss a window grows by a segment for as many at least (Linux: 5 % a round trip).
const UNKNOWN_GROWTH: f64 = 20.0;

#[derive(Debug)]
struct Piece {
    seq: u64,
    len: usize,
    bytes: Vec<u8>,
    sent: Instant,
    again: u32,
    sacked: bool,
    lost: bool,
    stamp: Option<Stamp>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.seq + self.len as u64
    }
}

/// The most recently sent segment that was delivered (RFC 8985, section 5.2).
#[derive(Clone, Copy, Debug)]
struct Rack {
    sent: Instant,
    end: u64,
    rtt: Duration,
}

#[derive(Debug)]
pub(super) struct Sender {
    stack: Stack,
    pieces: VecDeque<Piece>,
    unsent: VecDeque<u8>,
    pub endless: bool,
    /// Bytes without content that are still to be sent; behind `unsent`.
    pub blank: u64,
    /// Bytes of payload in a full segment.
    pub segment: usize,
    next: u64,
    una: u64,
    /// Pieces in flight, pieces that arrived out of order, pieces to be sent again.
    flying: usize,
    sacked: usize,
    lost: usize,
    /// No piece before this is to be sent again.
    lost_from: u64,
    window: f64,
    threshold: f64,
    /// What decides instead of CUBIC.
    bbr: Option<Bbr>,
    /// CUBIC: the window before the last reduction, and when that was.
    most: f64,
    reduced: Option<Instant>,
    /// Slow start was left without a loss: when, and at which window.
    left: Option<(Instant, f64)>,
    round: Round,
    /// The least round trip of all; none before the first, as in Linux, whose CUBIC begins after the handshake.
    least: Option<Duration>,
    rtt: RttEstimate,
    shortest: Duration,
    rack: Option<Rack>,
    /// Recovery, fast or by timeout, lasts until this is acknowledged.
    recovery: Option<u64>,
    by_timeout: bool,
    duplicates: u32,
    probed: bool,
    backoff: u32,
    retransmit_at: Option<Instant>,
    probe_at: Option<Instant>,
    reorder_at: Option<Instant>,
    /// A probe is to go out whatever the window says.
    probe: bool,
    pub retransmissions: u64,
}

impl Sender {
    pub fn new(stack: Stack, rtt: Duration) -> Self {
        Self {
            stack,
            pieces: VecDeque::new(),
            unsent: VecDeque::new(),
            endless: false,
            blank: 0,
            segment: MSS,
            next: 0,
            una: 0,
            flying: 0,
            sacked: 0,
            lost: 0,
            lost_from: 0,
            window: f64::from(stack.initial_window),
            threshold: f64::INFINITY,
            bbr: stack.bbr.then(|| Bbr::new(rtt, f64::from(stack.initial_window))),
            most: 0.0,
            reduced: None,
            left: None,
            round: Round::new(Instant::ZERO, 0),
            least: None,
            rtt: RttEstimate::first(rtt),
            shortest: rtt,
            rack: None,
            recovery: None,
            by_timeout: false,
            duplicates: 0,
            probed: false,
            backoff: 0,
            retransmit_at: None,
            probe_at: None,
            reorder_at: None,
            probe: false,
            retransmissions: 0,
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn unacknowledged(&self) -> u64 {
        self.next - self.una + self.unsent.len() as u64 + self.blank
    }

    pub fn deadline(&self) -> Option<Instant> {
        [self.retransmit_at, self.probe_at, self.reorder_at, self.paced()].into_iter().flatten().min()
    }

    /// When a segment may leave that waits for nothing else.
    fn paced(&self) -> Option<Instant> {
        let bbr = self.bbr.as_ref()?;
        let waits = self.endless || self.blank > 0 || self.lost > 0 || !self.unsent.is_empty();
        (waits && self.has_room(0)).then_some(bbr.next)
    }

    fn has_room(&self, gone: usize) -> bool {
        self.flying.saturating_sub(gone) as f64 + 1.0 <= self.window.floor().max(1.0)
    }

    /// RFC 6298 with Linux's reading of the minimum: at least 200 ms more than the smoothed round trip.
    fn timeout_after(&self) -> Duration {
        let base = self.rtt.smoothed + (self.rtt.variation * 4).max(MIN_RTO);
        (base * 2u32.pow(self.backoff.min(16))).min(MAX_RTO)
    }

    /// The next segment: its number, length and bytes.
    pub fn poll(&mut self, now: Instant) -> Option<(u64, usize, Vec<u8>)> {
        if std::mem::take(&mut self.probe) {
            if self.unsent.is_empty()
                && self.blank == 0
                && let Some(last) = self.pieces.len().checked_sub(1)
            {
                return Some(self.send_again(now, last));
            }
            return self.send_new(now);
        }
        // Without SACK, a duplicate acknowledgement says that something has left the network (RFC 6582).
        let gone = if self.stack.sack { 0 } else { self.duplicates as usize };
        if !self.has_room(gone) || self.bbr.as_ref().is_some_and(|bbr| bbr.next > now) {
            return None;
        }
        if self.lost > 0 {
            let from = self.pieces.partition_point(|p| p.seq < self.lost_from);
            if let Some(lost) = self.pieces.iter().skip(from).position(|p| p.lost) {
                self.lost_from = self.pieces[from + lost].seq;
                return Some(self.send_again(now, from + lost));
            }
        }
        self.send_new(now)
    }

    fn send_new(&mut self, now: Instant) -> Option<(u64, usize, Vec<u8>)> {
        let (len, bytes): (usize, Vec<u8>) = if self.endless {
            (self.segment, Vec::new())
        } else if self.unsent.is_empty() {
            let len = self.segment.min(usize::try_from(self.blank).unwrap_or(usize::MAX));
            self.blank -= len as u64;
            (len, Vec::new())
        } else {
            let len = self.unsent.len().min(self.segment);
            (len, self.unsent.drain(..len).collect())
        };
        if len == 0 {
            return None;
        }
        let seq = self.next;
        self.next += len as u64;
        let flying = self.flying;
        let stamp = self.bbr.as_mut().map(|bbr| bbr.leaves(now, flying));
        self.pieces.push_back(Piece {
            seq,
            len,
            bytes: bytes.clone(),
            sent: now,
            again: 0,
            sacked: false,
            lost: false,
            stamp,
        });
        self.flying += 1;
        if self.retransmit_at.is_none() {
            self.retransmit_at = Some(now + self.timeout_after());
        }
        self.arm_probe(now);
        Some((seq, len, bytes))
    }

    fn send_again(&mut self, now: Instant, at: usize) -> (u64, usize, Vec<u8>) {
        let piece = &mut self.pieces[at];
        if std::mem::take(&mut piece.lost) {
            self.lost -= 1;
            self.flying += 1;
        }
        piece.stamp = self.bbr.as_mut().map(|bbr| bbr.leaves(now, self.flying));
        piece.sent = now;
        piece.again += 1;
        self.retransmissions += 1;
        (piece.seq, piece.len, piece.bytes.clone())
    }

    /// RFC 8985, section 7.2: after two round trips, and as Linux does 200 ms more if only one segment is out; not while
    /// something is known to be missing.
    fn arm_probe(&mut self, now: Instant) {
        let calm = self.recovery.is_none() && !self.probed && self.sacked == 0;
        if !self.stack.probes || !calm || self.pieces.is_empty() {
            self.probe_at = None;
            return;
        }
        let alone = if self.pieces.len() == 1 { MIN_RTO } else { Duration::from_millis(2) };
        let at = now + self.rtt.smoothed * 2 + alone;
        self.probe_at = self.retransmit_at.map(|retransmit| at.min(retransmit)).or(Some(at));
    }

    pub fn acknowledged(&mut self, now: Instant, segment: &Segment) {
        let full = self.flying as f64 >= self.window.floor();
        let before = self.una;
        let mut sample = None;
        // Of the newest that is acknowledged in order: what Linux's CUBIC looks at.
        let mut newest = None;
        let mut newly = 0usize;
        while self.pieces.front().is_some_and(|p| p.end() <= segment.ack) {
            let Some(piece) = self.pieces.pop_front() else { break };
            self.una = piece.end();
            if !piece.sacked {
                newly += 1;
                newest = (piece.again == 0).then(|| now.since(piece.sent));
                self.delivered(now, &piece, &mut sample);
            }
            self.flying -= usize::from(!piece.sacked && !piece.lost);
            self.sacked -= usize::from(piece.sacked);
            self.lost -= usize::from(piece.lost);
        }
        let sacked = if self.stack.sack { self.selectively(now, segment, &mut sample) } else { 0 };
        newly += sacked;
        if let Some(rtt) = sample {
            self.rtt = self.rtt.update(rtt);
            self.shortest = self.shortest.min(rtt);
        }
        if let Some(rtt) = newest {
            self.hystart(now, rtt);
        }
        let advanced = self.una > before;
        if advanced {
            self.backoff = 0;
            self.probed = false;
            if self.recovery.is_some_and(|point| self.una >= point) {
                (self.recovery, self.by_timeout) = (None, false);
                self.duplicates = 0;
            }
        }
        if self.stack.sack {
            self.detect(now);
        } else {
            self.count_duplicates(now, segment, advanced);
        }
        if let Some(bbr) = &mut self.bbr {
            bbr.on_ack(now, sample, self.flying);
            self.window = bbr.window().min(self.window + newly as f64);
        } else if full && self.recovery.is_none_or(|_| self.by_timeout) {
            self.grow(now, newly);
        }
        if self.pieces.is_empty() {
            (self.retransmit_at, self.probe_at, self.reorder_at) = (None, None, None);
        } else if advanced || sacked > 0 {
            if advanced {
                self.retransmit_at = Some(now + self.timeout_after());
            }
            self.arm_probe(now);
        }
    }

    /// Marks what has arrived beyond a gap (RFC 2018); how many pieces are new among it.
    fn selectively(&mut self, now: Instant, segment: &Segment, sample: &mut Option<Duration>) -> usize {
        let mut newly = 0;
        for (from, to) in segment.sacks.into_iter().filter(|(from, to)| from < to) {
            let first = self.pieces.partition_point(|p| p.seq < from);
            for at in first..self.pieces.len() {
                let piece = &mut self.pieces[at];
                if piece.end() > to {
                    break;
                }
                if piece.sacked {
                    continue;
                }
                self.flying -= usize::from(!piece.lost);
                self.lost -= usize::from(piece.lost);
                self.sacked += 1;
                (piece.sacked, piece.lost) = (true, false);
                newly += 1;
                let copy = Piece { bytes: Vec::new(), ..*piece };
                self.delivered(now, &copy, sample);
            }
        }
        newly
    }

    /// A piece has arrived: round trips (Karn: of what was sent once; the oldest of those that one acknowledgement names) and
    /// the most recently sent one (RFC 8985, section 6.2, step 2).
    fn delivered(&mut self, now: Instant, piece: &Piece, sample: &mut Option<Duration>) {
        let rtt = now.since(piece.sent);
        if let (Some(bbr), Some(stamp)) = (&mut self.bbr, piece.stamp) {
            bbr.arrived(now, piece.sent, stamp);
        }
        if piece.again == 0 {
            sample.get_or_insert(rtt);
        } else if rtt < self.shortest {
            return;
        }
        if self.rack.is_none_or(|rack| (piece.sent, piece.end()) > (rack.sent, rack.end)) {
            self.rack = Some(Rack { sent: piece.sent, end: piece.end(), rtt });
        }
    }

    /// RFC 8985, section 6.2, steps 4 and 5: what was sent well before something that has arrived is lost.
    fn detect(&mut self, now: Instant) {
        self.reorder_at = None;
        let Some(rack) = self.rack else { return };
        let eager = self.recovery.is_some() || self.sacked >= DUP_THRESH as usize;
        // Then everything that is out was sent once, in order.
        let orderly = self.recovery.is_none() && self.sacked == 0;
        let window = if eager { Duration::ZERO } else { (self.shortest / 4).min(self.rtt.smoothed) };
        let mut lost = false;
        for piece in &mut self.pieces {
            let older = (piece.sent, piece.end()) < (rack.sent, rack.end);
            if orderly && !older && piece.again == 0 {
                break;
            }
            if piece.sacked || piece.lost || !older {
                continue;
            }
            let due = piece.sent + rack.rtt + window;
            if due <= now {
                piece.lost = true;
                self.lost_from = self.lost_from.min(piece.seq);
                self.flying -= 1;
                self.lost += 1;
                lost = true;
            } else {
                self.reorder_at = Some(self.reorder_at.map_or(due, |at: Instant| at.min(due)));
            }
        }
        if lost {
            self.recover(now);
        }
    }

    /// NewReno (RFC 6582): three duplicates, then one hole a round trip.
    fn count_duplicates(&mut self, now: Instant, segment: &Segment, advanced: bool) {
        if advanced {
            if self.recovery.is_some() && !self.by_timeout {
                self.lose_first();
            }
            self.duplicates = 0;
        } else if segment.ack == self.una && segment.len == 0 && !self.pieces.is_empty() {
            self.duplicates += 1;
            if self.duplicates == DUP_THRESH && self.recovery.is_none() {
                self.lose_first();
                self.recover(now);
            }
        }
    }

    fn lose_first(&mut self) {
        if let Some(first) = self.pieces.front_mut().filter(|p| !p.lost) {
            first.lost = true;
            self.lost_from = self.lost_from.min(first.seq);
            self.flying -= 1;
            self.lost += 1;
        }
    }

    fn recover(&mut self, now: Instant) {
        if self.recovery.is_none() {
            self.recovery = Some(self.next);
            if self.bbr.is_none() {
                self.reduce(now);
                self.window = self.threshold;
            }
        }
        self.probe_at = None;
    }

    fn reduce(&mut self, now: Instant) {
        self.most = self.window;
        self.reduced = Some(now);
        self.threshold = (self.window * BETA).max(2.0);
    }

    /// Leaves slow start when as much is under way as fits.
    fn hystart(&mut self, now: Instant, rtt: Duration) {
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        if self.una > self.round.end {
            self.round = Round::new(now, self.next);
        }
        let looks = self.window < self.threshold && self.window >= hystart::LOW_WINDOW;
        if looks && self.round.is_full(now, rtt, least) {
            self.threshold = self.window;
        }
    }

    fn grow(&mut self, now: Instant, newly: usize) {
        if self.window < self.threshold {
            self.window += newly as f64;
            return;
        }
        if self.reduced.is_none() {
            // No loss has shown how much fits: the curve is flat where slow start was left.
            let (at, window) = *self.left.get_or_insert((now, self.window));
            let target = C * (now.since(at) + self.rtt.smoothed).as_secs_f64().powi(3) + window;
            let share = ((target - self.window) / self.window).clamp(1.0 / UNKNOWN_GROWTH, 0.5);
            self.window += newly as f64 * share;
            return;
        }
        let since = self.reduced.map_or(0.0, |at| now.since(at).as_secs_f64());
        let k = (self.most * (1.0 - BETA) / C).cbrt();
        let target = C * (since + self.rtt.smoothed.as_secs_f64() - k).powi(3) + self.most;
        // RFC 9438, section 4.3: never slower than a Reno of the same decrease.
        let reno =
            self.most * BETA + 3.0 * (1.0 - BETA) / (1.0 + BETA) * since / self.rtt.smoothed.as_secs_f64().max(1e-4);
        let target = target.max(reno).clamp(self.window, self.window * 1.5);
        self.window += (target - self.window) / self.window * newly as f64;
    }

    pub fn timeout(&mut self, now: Instant) {
        if self.reorder_at.is_some_and(|at| at <= now) {
            self.detect(now);
        }
        if self.retransmit_at.is_some_and(|at| at <= now) {
            self.backoff += 1;
            self.retransmit_at = Some(now + self.timeout_after());
            self.probe_at = None;
            if self.recovery.is_none() || !self.by_timeout {
                self.reduce(now);
            }
            (self.recovery, self.by_timeout, self.duplicates) = (Some(self.next), true, 0);
            self.window = 1.0;
            let rtt = self.rtt.smoothed;
            for (at, piece) in self.pieces.iter_mut().enumerate().filter(|(_, p)| !p.sacked && !p.lost) {
                // RFC 8985, section 6.3: the first, and what is older than a round trip.
                if at == 0 || !self.stack.sack || piece.sent + rtt <= now {
                    piece.lost = true;
                    self.lost_from = self.lost_from.min(piece.seq);
                    self.flying -= 1;
                    self.lost += 1;
                }
            }
        } else if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            (self.probed, self.probe) = (true, true);
            self.retransmit_at = Some(now + self.timeout_after());
        }
    }
}
