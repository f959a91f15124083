//! From the peer to the program: what was read is kept until the program's kernel has it.

use crate::time::{Duration, Instant};
use crate::wire::ip::tcp::{Flags, Segment, before};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that may be on the way to the program's kernel. 1 MiB: it acknowledges within microseconds.
const MOST_FLIGHT: usize = 1024 * 1024;
/// The most that goes to the program in one packet: 64 KiB with headers.
const MOST_PACKET: usize = 65_400;
/// The first time after which something is retransmitted, and the longest. As Linux has them (RFC 6298 would have 1 s first).
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A window that stays closed is asked about after this long at first: an update may have been lost.
const FIRST_PROBE: Duration = Duration::from_secs(1);
/// After so many unanswered retransmissions, the program's kernel is gone: 12 are nearly 6 minutes.
const MOST_TIMES: u32 = 12;
/// Duplicate acknowledgements that mean a loss (RFC 5681).
const DUPLICATES: u32 = 3;

/// Something that the program's kernel has not acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Its first number.
    pub sequence: u32,
    /// A buffer with the data; none for a FIN.
    pub bytes: Option<Arc<Vec<u8>>>,
    /// Where in it the data begins; it goes on to the end.
    pub from: usize,
    /// Whether it is one urgent byte.
    pub urgent: bool,
}

impl Sent {
    fn data(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len() - self.from)
    }

    /// The number behind it.
    fn end(&self) -> u32 {
        self.sequence.wrapping_add(if self.bytes.is_some() { self.data() as u32 } else { 1 })
    }
}

/// What a timer that has gone off wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    SendAgain,
    Probe,
    GiveUp,
}

/// The peer's half.
#[derive(Debug)]
pub(super) struct Down {
    /// The first number that is not acknowledged.
    unacked: u32,
    next: u32,
    /// The program's window, and the largest that it ever was.
    window: u32,
    largest: u32,
    scale: u8,
    /// The segment that last updated the window: sequence and acknowledgement (RFC 9293, SND.WL1 and SND.WL2).
    window_update: (u32, u32),
    /// The largest segment that goes to the program.
    pub mss: u16,
    queue: VecDeque<Sent>,
    ended: bool,
    duplicates: u32,
    wait: Duration,
    again: Option<Instant>,
    times: u32,
    /// Room was asked for, and there was none.
    starved: bool,
    probe: Option<Instant>,
    probe_wait: Duration,
}

impl Down {
    pub fn new(first: u32, syn: &Segment, mss: u16) -> Self {
        Self {
            unacked: first,
            next: first.wrapping_add(1),
            window: u32::from(syn.window),
            largest: u32::from(syn.window),
            scale: syn.scale.unwrap_or(0),
            window_update: (syn.sequence, first),
            mss,
            queue: VecDeque::new(),
            ended: false,
            duplicates: 0,
            wait: FIRST_WAIT,
            again: None,
            times: 0,
            starved: false,
            probe: None,
            probe_wait: FIRST_PROBE,
        }
    }

    /// That of a peer whose SYN the program has answered by `answer`, whose window is never scaled (RFC 7323, section 2.2); `next` is behind it.
    pub fn opened(next: u32, answer: &Segment, mss: u16) -> Self {
        let down = Self::new(next, answer, mss);
        Self { next, ..down }
    }

    pub fn next(&self) -> u32 {
        self.next
    }

    /// The first number that is not acknowledged; to begin with that of our SYN.
    pub fn first(&self) -> u32 {
        self.unacked
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the FIN has been acknowledged, and so everything.
    pub fn is_done(&self) -> bool {
        self.ended && self.queue.is_empty()
    }

    /// Bytes that the program's kernel takes now.
    fn usable(&self) -> usize {
        if self.ended {
            return 0;
        }
        let flight = self.next.wrapping_sub(self.unacked) as usize;
        let usable = (self.window as usize).min(MOST_FLIGHT).saturating_sub(flight);
        //= RFC 9293#3.8.6.2.1
        // No small pieces into a window that is about to open.
        if usable < usize::from(self.mss).min((self.largest / 2) as usize).max(1) { 0 } else { usable }
    }

    pub fn room(&mut self, now: Instant) -> usize {
        let usable = self.usable();
        if usable == 0 {
            self.starved = true;
            if self.queue.is_empty() && !self.ended && self.probe.is_none() {
                self.probe = Some(now + self.probe_wait);
            }
            return 0;
        }
        let mss = usize::from(self.mss).max(1);
        // Whole segments, so that no packet ends in a small one in the middle of a stream.
        usable.min((MOST_PACKET / mss).max(1) * mss).min(MOST_PACKET)
    }

    /// There is no room yet, although it was asked for.
    pub fn starve(&mut self) -> usize {
        self.starved = true;
        0
    }

    /// Whether there is room again after there was none for the socket; true once.
    pub fn has_recovered(&mut self) -> bool {
        let recovered = self.starved && self.usable() > 0;
        if recovered {
            self.starved = false;
            self.probe = None;
            self.probe_wait = FIRST_PROBE;
        }
        recovered
    }

    /// Data, or a FIN, goes to the program; its first number.
    pub fn send(&mut self, now: Instant, bytes: Option<Arc<Vec<u8>>>, from: usize, urgent: bool) -> u32 {
        let sent = Sent { sequence: self.next, bytes, from, urgent };
        self.ended |= sent.bytes.is_none();
        self.next = sent.end();
        let sequence = sent.sequence;
        self.queue.push_back(sent);
        self.again.get_or_insert(now + self.wait);
        sequence
    }

    /// The first thing that is not acknowledged.
    pub fn head(&self) -> Option<&Sent> {
        self.queue.front()
    }

    /// Takes in the acknowledgement and the window of a segment that acknowledges nothing we have not sent; whether something
    /// has been lost.
    pub fn acknowledged(&mut self, now: Instant, segment: &Segment, empty: bool) -> bool {
        let (number, window) = (segment.acknowledged, u32::from(segment.window) << self.scale);
        if before(number, self.unacked) {
            return false;
        }
        let mut lost = false;
        let (sequence, acknowledged) = self.window_update;
        //= RFC 9293#3.10.7.4/window
        let is_news = before(sequence, segment.sequence)
            || (sequence == segment.sequence && !before(number, acknowledged))
            || number != self.unacked;
        if number != self.unacked {
            self.unacked = number;
            while self.queue.front().is_some_and(|sent| !before(number, sent.end())) {
                self.queue.pop_front();
            }
            (self.duplicates, self.times, self.wait) = (0, 0, FIRST_WAIT);
            self.again = (!self.queue.is_empty()).then(|| now + self.wait);
        } else if empty && !self.queue.is_empty() && window == self.window && !segment.flags.has(Flags::FIN) {
            self.duplicates += 1;
            lost = self.duplicates == DUPLICATES;
        }
        if is_news {
            self.window = window;
            self.largest = self.largest.max(window);
            self.window_update = (segment.sequence, number);
        }
        // A socket that was told that there is no room does not ask again: only the opening would say so, and it can be lost.
        if self.starved && self.queue.is_empty() && !self.ended && self.usable() == 0 {
            self.probe.get_or_insert(now + self.probe_wait);
        }
        lost
    }

    pub fn timeout(&mut self, now: Instant) -> Due {
        if self.again.is_some_and(|at| now >= at) {
            self.times += 1;
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
            self.again = Some(now + self.wait);
            return if self.times > MOST_TIMES { Due::GiveUp } else { Due::SendAgain };
        }
        if self.probe.is_some_and(|at| now >= at) {
            self.probe_wait = (self.probe_wait * 2).min(LONGEST_WAIT);
            self.probe = Some(now + self.probe_wait);
            return Due::Probe;
        }
        Due::Nothing
    }

    pub fn deadline(&self) -> Option<(Instant, &'static str)> {
        let again = self.again.map(|at| (at, "data that a program's kernel has not acknowledged"));
        let probe = self.probe.map(|at| (at, "a window that stays closed"));
        again.into_iter().chain(probe).min_by_key(|(at, _)| *at)
    }
}
