//! One direction of a connection's data: a sender with Linux's default congestion control and a receiver with its
//! acknowledgements, as far as page loads feel them.
//!
//! Slow start from ten segments (RFC 6928), left early when round trips grow or acknowledgements come in a train that
//! is as long as half a round trip (HyStart, both as in Linux's `tcp_cubic.c`), or on loss; CUBIC after that (RFC 9438,
//! with Linux's least growth while no loss has shown how much fits); losses found by selective acknowledgements (RFC
//! 6675, three segments) or by a timer of at least 200 ms (Linux's); every second segment is acknowledged at once, a
//! single one after 40 ms. Segments are numbered anew when they are sent again, so that no acknowledgement is
//! ambiguous.
//!
//! A sender whose host remembers its paths ([`super::servers`]) is governed by the window of `core::cwnd` in the place
//! of its own; losses and timers are found as before.
//!
//! Not modelled: flow control, pacing, slow start after idle, ECN. Nothing here reads a clock; bytes are counted, never
//! made.

use super::hystart::{self, Round};
use headstart_core::cwnd;
use headstart_core::cwnd::start::Loss;
use headstart_core::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Payload of a full segment: 1500 bytes of IP less the headers of IPv6 and TCP with timestamps.
pub(super) const SEGMENT: u64 = 1428;
/// RFC 6928.
const INITIAL_WINDOW: f64 = 10.0;
/// Segments after a missing one until it counts as lost: RFC 6675.
const REORDERING: u64 = 3;
/// Linux's least retransmission timeout, and the first before any sample (RFC 6298).
const LEAST_RTO: Duration = Duration::from_millis(200);
const FIRST_RTO: Duration = Duration::from_secs(1);
/// Linux's least delay of an acknowledgement.
const DELAYED_ACK: Duration = Duration::from_millis(40);
/// RFC 9438: multiplicative decrease, and the constant of growth in segments a cubic second.
const BETA: f64 = 0.7;
const CUBIC_C: f64 = 0.4;
/// Before the first loss a window grows by a segment for as many at least (Linux: 5 % a round trip).
const UNKNOWN_GROWTH: f64 = 20.0;
/// Segments that are acknowledged for each that a window of Reno's kind and CUBIC's decrease grows by, over the window
/// (Linux: `beta_scale`; RFC 9438, section 4.3).
const RENO: f64 = 1.875;

/// Ranges of numbers that an acknowledgement can carry: as many as SACK blocks fit beside timestamps.
const RANGES: usize = 3;

/// What has arrived, by number: inclusive ranges, the highest first; unused ones are none.
pub(super) type Ranges = [Option<(u64, u64)>; RANGES];

/// A segment of data, as its sender numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    /// Never used twice.
    pub number: u64,
    /// Its first byte.
    pub at: u64,
    /// Its bytes.
    pub len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    data: Data,
    when: Instant,
}

/// CUBIC since it last began to grow.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    /// The window on which the curve is flat, and after how many seconds it is reached.
    origin: f64,
    after: f64,
    /// The window that Reno would have.
    reno: f64,
}

/// The end that has bytes.
#[derive(Debug)]
pub(super) struct Sender {
    segment: u64,
    offered: u64,
    next: u64,
    next_number: u64,
    lost: VecDeque<(u64, u64)>,
    flight: VecDeque<Sent>,
    in_flight: u64,
    highest: Option<u64>,
    /// Segments.
    window: f64,
    threshold: f64,
    /// Losses of segments below this number are of the same event.
    recovery: u64,
    /// The window at the last loss; zero before the first.
    most: f64,
    epoch: Option<Epoch>,
    smoothed: Option<(Duration, Duration)>,
    least_rtt: Duration,
    round: Round,
    /// The most that was under way in this round and the one before, in segments: a window that is not used does not grow.
    peak: [f64; 2],
    backoff: u32,
    timer: Option<Instant>,
    /// Says how much may be under way, in the place of `window`.
    governor: Option<Box<cwnd::sender::Sender>>,
}

impl Sender {
    /// An end that sends full segments of so many bytes of payload.
    pub fn new(segment: u64) -> Self {
        Self {
            segment,
            offered: 0,
            next: 0,
            next_number: 0,
            lost: VecDeque::new(),
            flight: VecDeque::new(),
            in_flight: 0,
            highest: None,
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            recovery: 0,
            most: 0.0,
            epoch: None,
            smoothed: None,
            least_rtt: Duration::MAX,
            round: Round::new(Instant::ZERO, 0),
            peak: [0.0; 2],
            backoff: 0,
            timer: None,
            governor: None,
        }
    }

    /// The same under a window of `core::cwnd`, which takes packets to be full segments.
    pub fn governed(self, by: Box<cwnd::sender::Sender>) -> Self {
        Self { governor: Some(by), ..self }
    }

    /// What governs it, if anything does.
    pub fn governor(&mut self) -> Option<&mut cwnd::sender::Sender> {
        self.governor.as_deref_mut()
    }

    /// Bytes that may be under way.
    fn allowed(&self) -> f64 {
        self.governor.as_ref().map_or(self.window * self.segment as f64, |governor| governor.window() as f64)
    }

    /// There is nothing to send, and there would be room.
    fn is_limited_by_program(&self) -> bool {
        self.unsent() == 0 && self.lost.is_empty() && (self.in_flight as f64) < self.allowed()
    }

    /// More bytes to send; the number of the byte behind them.
    pub fn offer(&mut self, bytes: u64) -> u64 {
        self.offered += bytes;
        self.offered
    }

    /// Bytes that were offered and not yet sent.
    pub fn unsent(&self) -> u64 {
        self.offered - self.next
    }

    /// The next segment that may go now.
    pub fn send(&mut self, now: Instant) -> Option<Data> {
        if self.in_flight as f64 >= self.allowed() {
            return None;
        }
        let (at, len) = match self.lost.pop_front() {
            Some(lost) => lost,
            None => {
                let (at, len) = (self.next, self.unsent().min(self.segment));
                if len == 0 {
                    return None;
                }
                self.next += len;
                (at, len)
            }
        };
        let data = Data { number: self.next_number, at, len };
        self.next_number += 1;
        self.in_flight += len;
        self.flight.push_back(Sent { data, when: now });
        if let Some(governor) = &mut self.governor {
            governor.sent(now, len);
        }
        self.peak[0] = self.peak[0].max(self.in_flight as f64 / self.segment as f64);
        if self.timer.is_none() {
            self.arm(now);
        }
        Some(data)
    }

    /// When nothing has been heard for too long.
    pub fn deadline(&self) -> Option<Instant> {
        self.timer
    }

    /// Nothing was heard: all that is under way counts as lost, and it begins again with one segment.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.timer = None;
        if self.flight.is_empty() {
            return;
        }
        self.threshold = (self.window * BETA).max(2.0);
        (self.most, self.epoch) = (self.window, None);
        self.window = 1.0;
        self.recovery = self.next_number;
        if let (Some(governor), Some(last)) = (&mut self.governor, self.flight.back()) {
            governor.lost(now, &Loss { sent: last.when, bytes: self.in_flight, persistent: true });
        }
        self.lost.extend(self.flight.drain(..).map(|s| (s.data.at, s.data.len)));
        self.in_flight = 0;
        self.backoff = (self.backoff + 1).min(6);
    }

    /// An acknowledgement has come.
    pub fn acknowledged(&mut self, now: Instant, ranges: &Ranges) {
        let Some(highest) = ranges[0].map(|r| r.1) else { return };
        let is_in = |n: u64| ranges.iter().flatten().any(|(lo, hi)| (*lo..=*hi).contains(&n));
        let limited = self.is_limited_by_program();
        let governor = &mut self.governor;
        let (mut newly, mut newest) = (0, None);
        let mut take = |sent: &Sent| {
            newly += sent.data.len;
            newest = Some(*sent);
            if let Some(governor) = governor.as_mut() {
                governor.acknowledged(now, sent.when, sent.data.len, limited);
            }
        };
        while let Some(first) = self.flight.front().filter(|sent| is_in(sent.data.number)) {
            take(first);
            self.flight.pop_front();
        }
        // Behind a hole, seldom.
        if self.flight.front().is_some_and(|sent| sent.data.number < highest) {
            self.flight.retain(|sent| {
                let acknowledged = is_in(sent.data.number);
                if acknowledged {
                    take(sent);
                }
                !acknowledged
            });
        }
        let Some(newest) = newest else { return };
        self.in_flight -= newly;
        self.highest = self.highest.max(Some(highest));
        self.backoff = 0;
        if newest.data.number == highest {
            self.sample(now, now - newest.when, highest);
        }
        self.find_losses(now);
        // As Linux has it: in slow start a window of twice what is used, then one that is used.
        let used = self.peak[0].max(self.peak[1]) * if self.window < self.threshold { 2.0 } else { 1.0 };
        if self.window < used + 1.0 && highest >= self.recovery {
            self.grow(now, newly as f64 / self.segment as f64);
        }
        if let Some(governor) = &mut self.governor {
            governor.end_of_acknowledgement(now, self.in_flight, limited);
        }
        self.timer = None;
        if !self.flight.is_empty() {
            self.arm(now);
        }
    }

    fn find_losses(&mut self, now: Instant) {
        let Some(highest) = self.highest else { return };
        let mut lost_any = false;
        let mut loss = Loss { sent: now, bytes: 0, persistent: false };
        while let Some(first) = self.flight.front().filter(|s| s.data.number + REORDERING <= highest).copied() {
            self.flight.pop_front();
            self.in_flight -= first.data.len;
            self.lost.push_back((first.data.at, first.data.len));
            lost_any |= first.data.number >= self.recovery;
            loss = Loss { sent: first.when, bytes: loss.bytes + first.data.len, ..loss };
        }
        if let Some(governor) = self.governor.as_mut().filter(|_| loss.bytes > 0) {
            governor.lost(now, &loss);
        }
        if lost_any {
            self.recovery = self.next_number;
            self.most = self.window;
            self.window = (self.window * BETA).max(2.0);
            self.threshold = self.window;
            self.epoch = None;
        }
    }

    fn grow(&mut self, now: Instant, segments: f64) {
        if self.window < self.threshold {
            self.window += segments;
            return;
        }
        let (window, most) = (self.window, self.most);
        let epoch = self.epoch.get_or_insert_with(|| {
            let after = ((most - window).max(0.0) / CUBIC_C).cbrt();
            Epoch { began: now, origin: most.max(window), after, reno: window }
        });
        epoch.reno += segments / (RENO * window);
        let t = (now - epoch.began + self.least_rtt).as_secs_f64() - epoch.after;
        let target = (CUBIC_C * t * t * t + epoch.origin).max(epoch.reno);
        let least = if most == 0.0 { 1.0 / UNKNOWN_GROWTH } else { 0.01 / window };
        self.window += segments * ((target - window) / window).clamp(least, 0.5);
    }

    fn sample(&mut self, now: Instant, rtt: Duration, highest: u64) {
        self.least_rtt = self.least_rtt.min(rtt);
        self.smoothed = Some(match self.smoothed {
            None => (rtt, rtt / 2),
            Some((mean, spread)) => (mean * 7 / 8 + rtt / 8, spread * 3 / 4 + mean.abs_diff(rtt) / 4),
        });
        if highest >= self.round.end {
            self.round = Round::new(now, self.next_number);
            self.peak = [self.in_flight as f64 / self.segment as f64, self.peak[0]];
        }
        let looks = self.window < self.threshold && self.window >= hystart::LOW_WINDOW;
        if looks && self.round.is_full(now, rtt, self.least_rtt) {
            self.threshold = self.window;
        }
    }

    fn arm(&mut self, now: Instant) {
        let rto = self.smoothed.map_or(FIRST_RTO, |(mean, spread)| mean + (spread * 4).max(LEAST_RTO));
        self.timer = Some(now + rto * 2u32.pow(self.backoff));
    }
}

/// The end that gets them.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// Numbers that have arrived, the highest first.
    ranges: VecDeque<(u64, u64)>,
    delivered: u64,
    early: BTreeMap<u64, u64>,
    unacknowledged: u32,
    timer: Option<Instant>,
    hole: bool,
}

impl Receiver {
    /// A segment has arrived. Afterwards [`Receiver::delivered`] may have grown.
    pub fn receive(&mut self, now: Instant, data: Data) {
        self.note(data.number);
        let end = data.at + data.len;
        self.hole = data.at > self.delivered || !self.early.is_empty();
        if data.at > self.delivered {
            self.early.insert(data.at, end);
        } else {
            self.delivered = self.delivered.max(end);
            while let Some(next) = self.early.first_entry().filter(|e| *e.key() <= self.delivered) {
                self.delivered = self.delivered.max(next.remove());
            }
        }
        self.unacknowledged += 1;
        self.timer = self.timer.or(Some(now + DELAYED_ACK));
    }

    /// Bytes from the beginning on without a hole.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The acknowledgement that is due, if one is.
    pub fn acknowledge(&mut self, now: Instant) -> Option<Ranges> {
        let due = self.unacknowledged >= 2 || self.hole || self.timer.is_some_and(|at| at <= now);
        (due && self.unacknowledged > 0).then(|| self.ranges())
    }

    /// What rides on a segment of data that goes the other way anyway.
    pub fn piggyback(&mut self) -> Option<Ranges> {
        (self.unacknowledged > 0).then(|| self.ranges())
    }

    /// When an acknowledgement is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.timer
    }

    fn ranges(&mut self) -> Ranges {
        (self.unacknowledged, self.timer, self.hole) = (0, None, false);
        let mut ranges = [None; RANGES];
        ranges.iter_mut().zip(&self.ranges).for_each(|(to, from)| *to = Some(*from));
        ranges
    }

    fn note(&mut self, number: u64) {
        match self.ranges.front_mut() {
            Some((_, hi)) if number == *hi + 1 => *hi = number,
            Some((_, hi)) if number <= *hi => self.note_late(number),
            _ => self.ranges.push_front((number, number)),
        }
        // Older ones have been told often enough.
        self.ranges.truncate(8);
    }

    /// A segment that was overtaken.
    fn note_late(&mut self, number: u64) {
        let place = self.ranges.iter().position(|(lo, _)| *lo <= number).unwrap_or(self.ranges.len());
        if self.ranges.get(place).is_none_or(|(_, hi)| *hi < number) {
            self.ranges.insert(place, (number, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Sends `bytes` over a path of 50 ms each way that drops the segments of these numbers; when the last byte was there,
    /// and how many segments it took.
    fn transfer(bytes: u64, dropped: &[u64]) -> (Instant, u64) {
        let (mut sender, mut receiver) = (Sender::new(SEGMENT), Receiver::default());
        let mut data: VecDeque<(Instant, Data)> = VecDeque::new();
        let mut acks: VecDeque<(Instant, Ranges)> = VecDeque::new();
        let (mut now, way) = (Instant::ZERO, Duration::from_millis(50));
        sender.offer(bytes);
        let mut sent = 0;
        while receiver.delivered() < bytes {
            while let Some(segment) = sender.send(now) {
                sent += 1;
                if !dropped.contains(&segment.number) {
                    data.push_back((now + way, segment));
                }
            }
            let next = [data.front().map(|d| d.0), acks.front().map(|a| a.0), sender.deadline(), receiver.deadline()];
            now = next.into_iter().flatten().min().expect("a transfer that stands still");
            while data.front().is_some_and(|d| d.0 <= now)
                && let Some((_, segment)) = data.pop_front()
            {
                receiver.receive(now, segment);
                acks.extend(receiver.acknowledge(now).map(|r| (now + way, r)));
            }
            acks.extend(receiver.acknowledge(now).map(|r| (now + way, r)));
            while acks.front().is_some_and(|a| a.0 <= now)
                && let Some((_, ranges)) = acks.pop_front()
            {
                sender.acknowledged(now, &ranges);
            }
            sender.handle_timeout(now);
        }
        (now, sent)
    }

    #[test]
    fn ten_segments_take_one_way_and_each_doubling_a_round_trip() {
        assert_eq!(transfer(10 * SEGMENT, &[]), (ms(50), 10));
        assert_eq!(transfer(30 * SEGMENT, &[]).0, ms(150));
        assert_eq!(transfer(70 * SEGMENT, &[]).0, ms(250));
    }

    #[test]
    fn a_lost_segment_is_sent_again_a_round_trip_later_and_only_it() {
        let (end, sent) = transfer(10 * SEGMENT, &[2]);
        assert_eq!((end, sent), (ms(150), 11));
    }

    #[test]
    fn a_lost_tail_waits_for_the_timer() {
        let (end, sent) = transfer(10 * SEGMENT, &[9]);
        assert!(end >= ms(250) && end < ms(1500), "{end:?}");
        assert_eq!(sent, 11);
        assert!(transfer(SEGMENT, &[0]).0 == ms(1050), "the first timeout is a second");
    }

    /// Round trips of 100 ms through a queue that lets a segment pass in `each`: the window at which slow start ends, in whole
    /// segments.
    fn slow_start_ends_at(each: Duration) -> u64 {
        let (mut sender, mut receiver) = (Sender::new(SEGMENT), Receiver::default());
        let (mut data, mut acks) = (VecDeque::new(), VecDeque::new());
        let (mut now, mut free, way) = (Instant::ZERO, Instant::ZERO, Duration::from_millis(50));
        sender.offer(100_000 * SEGMENT);
        while sender.threshold.is_infinite() {
            while let Some(segment) = sender.send(now) {
                free = free.max(now) + each;
                data.push_back((free + way, segment));
            }
            let next = [data.front().map(|d: &(Instant, Data)| d.0), acks.front().map(|a: &(Instant, Ranges)| a.0)];
            now = next.into_iter().flatten().min().expect("a transfer that stands still");
            if data.front().is_some_and(|d| d.0 <= now)
                && let Some((_, segment)) = data.pop_front()
            {
                receiver.receive(now, segment);
            }
            acks.extend(receiver.acknowledge(now).map(|r| (now + way, r)));
            if acks.front().is_some_and(|a| a.0 <= now)
                && let Some((_, ranges)) = acks.pop_front()
            {
                sender.acknowledged(now, &ranges);
            }
        }
        sender.threshold as u64
    }

    #[test]
    fn slow_start_ends_when_a_train_is_half_a_round_trip_long_or_the_queue_grows() {
        // 1 ms each: two segments an acknowledgement, 2 ms apart. Trains are 10, 20, 40 and 80 ms long; the last one is found out
        // after 51 ms, by when the window has grown from 80 by 2 for each of 26.
        assert_eq!(slow_start_ends_at(Duration::from_millis(1)), 132);
        // 5 ms each: no train. 20 segments fill the path, so that from the round of 80 on the first nine that are acknowledged
        // have all waited; by then it has grown by 2 for each of eight.
        assert_eq!(slow_start_ends_at(Duration::from_millis(5)), 96);
    }

    #[test]
    fn everything_arrives_whatever_is_lost() {
        let dropped: Vec<u64> = (0..400).filter(|n| n % 7 == 3 || (40..60).contains(n)).collect();
        let (_, sent) = transfer(200 * SEGMENT + 17, &dropped);
        assert!(sent > 200, "{sent}");
    }

    #[test]
    fn after_a_loss_the_window_is_smaller_and_grows_again() {
        let clean = transfer(400 * SEGMENT, &[]).0;
        let lossy = transfer(400 * SEGMENT, &[60]).0;
        assert!(lossy > clean, "{lossy:?} {clean:?}");
    }
}
