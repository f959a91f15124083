//! From the program to the peer: data in order into the socket, acknowledged when it is there.

use super::super::{HEADROOM, Output, Piece};
use super::{Arrived, Connection, GRACE, Phase};
use crate::time::{Duration, Instant};
use crate::wire::ip::tcp::{Flags, before};
use std::collections::VecDeque;

/// Segments that may wait for one before them. 64: the queue of the device loses single packets, not windows.
const MOST_EARLY: usize = 64;
/// Powers of two of our windows: 512 KiB in 16 bits.
const SCALE: u8 = 4;

/// The window of a new connection, and of how many bytes that a socket has taken one is added to it: a program's kernel makes room for
/// twice the segments that it may have on the way, each counted as several times its length, and that room is full before a program
/// whose peer does not read is held up. 64 KiB and 8: it is as large as it gets after 4 MB.
const FIRST_WINDOW: usize = 64 * 1024;
/// The largest window where no packet is a super-packet: an interface as its maker leaves it holds 500 packets (TUN_READQ_SIZE in Linux' tun.c) and
/// loses what comes then. 64 KiB are 45 of 1460 bytes, so that eleven connections send as fast as they can and none is lost.
pub(super) const PLAIN_WINDOW: usize = 64 * 1024;
const GROWTH: usize = 8;
/// No program's kernel asks whether its peer is there before this silence (TCP_KEEPIDLE is in seconds); timers are a tick off.
const LEAST_KEEP_ALIVE: Duration = Duration::from_millis(990);
/// Of the window, so much may be acknowledged at once where packets come in batches. A quarter: a program's kernel still has three
/// on the way, and gets fewer acknowledgements.
const PUT_OFF: usize = 4;

/// The program's half.
#[derive(Debug)]
pub(super) struct Up {
    /// The next byte that is expected.
    next: u32,
    /// What was acknowledged.
    acked: u32,
    /// The window's right edge, as advertised to the program; never drawn back.
    edge: u32,
    scale: Option<u8>,
    /// The largest window.
    most: usize,
    /// Data in order that the socket has not taken yet.
    held: VecDeque<Piece>,
    /// Bytes that the socket has taken, as far as they were acknowledged for that.
    passed: usize,
    /// Bytes that the socket has not taken: held, or on the way to it.
    waiting: usize,
    /// The socket is being given pieces.
    sending: bool,
    /// The socket is given what waits when the row of packets is over.
    defers: bool,
    /// The socket is full.
    full: bool,
    /// The program's FIN has come, in order.
    fin: bool,
    /// The socket has been informed.
    shut: bool,
    early: Vec<(u32, Vec<u8>)>,
    /// The byte behind the urgent one.
    urgent: Option<u32>,
    /// When what waits is acknowledged anyway.
    grace: Option<Instant>,
    /// An acknowledgement was put off to the end of a batch of packets.
    owes: bool,
    /// The next one is not to be: a gap was filled (RFC 5681, section 4.2).
    hurries: bool,
}

impl Up {
    pub fn new(syn: u32, scaled: bool, most: usize) -> Self {
        let next = syn.wrapping_add(1);
        Self {
            next,
            acked: next,
            // The window of a SYN-ACK is never scaled (RFC 7323, section 2.2).
            edge: next.wrapping_add(65_535),
            scale: scaled.then_some(SCALE),
            most,
            held: VecDeque::new(),
            passed: 0,
            waiting: 0,
            sending: false,
            defers: false,
            full: false,
            fin: false,
            shut: false,
            early: Vec::new(),
            urgent: None,
            grace: None,
            owes: false,
            hurries: false,
        }
    }

    pub fn next(&self) -> u32 {
        self.next
    }

    /// Our scale, for the SYN-ACK.
    pub fn scale(&self) -> Option<u8> {
        self.scale
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    pub fn is_shut(&self) -> bool {
        self.shut
    }

    pub fn grace(&self) -> Option<Instant> {
        self.grace
    }

    /// Whether a reset with this number is the program's own. Its kernel's is never before what we have acknowledged.
    pub fn is_in_window(&self, sequence: u32) -> bool {
        !before(sequence, self.acked) && !before(self.edge, sequence)
    }

    /// Whether it is the number that is expected. As the program's kernel sees it, that is what was acknowledged; what waits comes behind.
    pub fn is_next(&self, sequence: u32) -> bool {
        !before(sequence, self.acked) && !before(self.next, sequence)
    }

    /// Whether what waits has done so for long enough; it is to be acknowledged now.
    pub fn grace_is_over(&mut self, now: Instant) -> bool {
        let over = self.grace.is_some_and(|at| now >= at);
        if over {
            self.grace = None;
            self.acked = self.next;
        }
        over
    }

    /// The number up to which the socket has everything.
    fn taken(&self) -> u32 {
        let fin = u32::from(self.fin && !self.shut);
        self.next.wrapping_sub(self.waiting as u32).wrapping_sub(fin)
    }

    /// Whether an acknowledgement was put off.
    pub fn owes(&self) -> bool {
        self.owes
    }

    /// Whether something waits for the end of a row of packets.
    pub fn defers(&self) -> bool {
        self.defers
    }

    fn window(&self) -> usize {
        match self.scale {
            Some(_) => self.most.min(FIRST_WINDOW + self.passed / GROWTH),
            None => 65_535,
        }
    }

    /// Whether what the socket has taken may be acknowledged later: little of the window, and nothing that the program waits for.
    fn may_put_off(&self) -> bool {
        let due = self.taken().wrapping_sub(self.acked) as usize;
        !self.hurries && self.early.is_empty() && due < self.window() / PUT_OFF
    }

    /// The acknowledgement and the window of the next segment to the program.
    pub fn tell(&mut self) -> (u32, u16) {
        (self.owes, self.hurries) = (false, false);
        let taken = self.taken();
        if before(self.acked, taken) {
            self.passed = self.passed.saturating_add(taken.wrapping_sub(self.acked) as usize);
            self.acked = taken;
        }
        if self.acked == self.next {
            self.grace = None;
        }
        let edge = self.next.wrapping_add(self.window().saturating_sub(self.waiting) as u32);
        if before(self.edge, edge) {
            self.edge = edge;
        }
        let window = self.edge.wrapping_sub(self.acked) >> self.scale.unwrap_or(0);
        (self.acked, u16::try_from(window).unwrap_or(u16::MAX))
    }

    /// Whether the program has ended its side and its FIN was acknowledged.
    pub fn is_fin_acknowledged(&self) -> bool {
        self.fin && self.acked == self.next
    }

    /// What has come beyond what is acknowledged, from number to number: the latest first (RFC 2018, section 4).
    pub fn ranges(&self) -> [Option<(u32, u32)>; 3] {
        let Some((latest, _)) = self.early.last() else { return Default::default() };
        let beyond = |number: u32| number.wrapping_sub(self.next);
        let mut parts: Vec<_> =
            self.early.iter().map(|(at, bytes)| (*at, at.wrapping_add(bytes.len() as u32))).collect();
        parts.sort_unstable_by_key(|(from, to)| (beyond(*from), beyond(*to)));
        let mut all: Vec<(u32, u32)> = Vec::new();
        for (from, to) in parts {
            match all.last_mut() {
                Some(last) if beyond(from) <= beyond(last.1) => {
                    last.1 = if beyond(to) > beyond(last.1) { to } else { last.1 }
                }
                _ => all.push((from, to)),
            }
        }
        let is_latest = |(from, to): &(u32, u32)| (beyond(*from)..beyond(*to)).contains(&beyond(*latest));
        all.sort_by_key(|range| !is_latest(range));
        let mut all = all.into_iter();
        [(); 3].map(|()| all.next())
    }

    /// What was acknowledged, without telling more.
    pub fn acked(&self) -> u32 {
        self.acked
    }
}

impl Connection {
    /// The payload of a packet, and its FIN.
    pub(super) fn data(&mut self, now: Instant, arrived: Arrived<'_>, out: &mut VecDeque<Output>) {
        let Arrived { segment, mut bytes, mut from, mut to, segments, batch, row, .. } = arrived;
        let up = &mut self.up;
        let mut sequence = segment.sequence;
        let mut fin = segment.flags.has(Flags::FIN);
        if from == to && !fin {
            return self.empty_segment(now, sequence, out);
        }
        if before(sequence, up.next) {
            let known = up.next.wrapping_sub(sequence) as usize;
            if known == 1 && to - from == 1 && !fin {
                return self.is_anybody_there(now, sequence, out);
            }
            if known > to - from || (known == to - from && !fin) {
                self.flow.local_retransmissions += 1;
                return self.acknowledge(out);
            }
            from += known;
            sequence = up.next;
        }
        let room = up.edge.wrapping_sub(sequence) as usize;
        if before(up.edge, sequence) || (room == 0 && to > from) {
            return self.acknowledge(out);
        }
        if to - from > room {
            to = from + room;
            fin = false;
        }
        if segment.flags.has(Flags::URG) && segment.urgent > 0 {
            up.urgent = Some(segment.sequence.wrapping_add(u32::from(segment.urgent)));
        }
        if sequence != up.next {
            // The FIN of an early segment comes again.
            if to > from && up.early.len() < MOST_EARLY && !up.early.iter().any(|(at, _)| *at == sequence) {
                up.early.push((sequence, bytes[from..to].to_vec()));
            }
            self.flow.local_retransmissions += 1;
            return self.acknowledge(out);
        }
        if to > from && up.fin {
            // Behind its FIN a program has nothing to say (RFC 9293, section 3.10.7.4: it is ignored).
            return;
        }
        if to > from {
            let look = self.take(now, (std::mem::take(&mut bytes), from, to), segments);
            self.up.fin |= fin;
            self.up.next = self.up.next.wrapping_add(u32::from(fin));
            self.push_or_defer(now, (batch, row), out);
            if look && self.profile.mirrors_delay && self.connected {
                out.push_back(Output::MirrorOptions { flow: self.id });
            }
        } else if fin && !self.up.fin {
            self.up.fin = true;
            self.up.next = self.up.next.wrapping_add(1);
            self.push_or_defer(now, (batch, row), out);
        } else {
            self.acknowledge(out);
        }
    }

    /// Takes data that comes next; whether the program's own settings are to be looked at.
    fn take(&mut self, now: Instant, (bytes, from, to): (Vec<u8>, usize, usize), segments: usize) -> bool {
        let len = to - from;
        let segments = self.cut_to.map_or(segments, |size| len.div_ceil(size.into()));
        let is_first = self.flow.up.packets == 0;
        self.flow.sent(now, &bytes[from..to], segments);
        self.small = self.small.saturating_add(u32::from(len < usize::from(self.mss)));
        let look = is_first || (len < usize::from(self.mss) && self.small.is_power_of_two());
        self.hold(bytes, from, to);
        self.take_early(now);
        look
    }

    //= RFC 9293#3.8.4
    /// Nothing, at a place other than the expected one, asks whether we are there.
    fn empty_segment(&mut self, now: Instant, sequence: u32, out: &mut VecDeque<Output>) {
        if sequence != self.up.next {
            self.is_anybody_there(now, sequence, out);
        }
    }

    /// A segment that only wants an answer.
    fn is_anybody_there(&mut self, now: Instant, sequence: u32, out: &mut VecDeque<Output>) {
        // A program's kernel that asks for room does so in the same words.
        if sequence.wrapping_add(1) == self.up.next && self.connected && self.up.waiting == 0 {
            let last = [self.flow.up.last, self.flow.down.last, self.flow.connected].into_iter().flatten().max();
            if last.is_some_and(|last| now.since(last) >= LEAST_KEEP_ALIVE) {
                // The answer is the peer's to give. Where it gives none, the program's kernel asks on and gives up by its own clock.
                return out.push_back(Output::KeepAlive { flow: self.id });
            }
        }
        self.acknowledge(out);
    }

    /// Data in order waits for the socket, cut behind an urgent byte.
    fn hold(&mut self, bytes: Vec<u8>, from: usize, to: usize) {
        let up = &mut self.up;
        let (start, len) = (up.next, to - from);
        up.next = up.next.wrapping_add(len as u32);
        up.waiting += len;
        let urgent = up.urgent.map(|end| end.wrapping_sub(start) as usize).filter(|end| (1..=len).contains(end));
        match urgent {
            None => up.held.push_back(Piece { bytes, from, to, urgent: false }),
            Some(end) => {
                up.urgent = None;
                let rest = bytes[from + end..to].to_vec();
                up.held.push_back(Piece { bytes, from, to: from + end, urgent: true });
                if !rest.is_empty() {
                    let to = rest.len();
                    up.held.push_back(Piece { bytes: rest, from: 0, to, urgent: false });
                }
            }
        }
    }

    /// What came early, if its turn has come.
    fn take_early(&mut self, now: Instant) {
        loop {
            let next = self.up.next;
            let place = self
                .up
                .early
                .iter()
                .position(|(at, bytes)| !before(next, *at) && before(next, at.wrapping_add(bytes.len() as u32)));
            let Some(place) = place else { break };
            let (at, bytes) = self.up.early.swap_remove(place);
            let (from, to) = (next.wrapping_sub(at) as usize, bytes.len());
            self.flow.sent(now, &bytes[from..to], 1);
            self.hold(bytes, from, to);
            self.up.hurries = true;
        }
        let next = self.up.next;
        self.up.early.retain(|(at, _)| !before(*at, next));
    }

    /// Gives the socket what it is waiting for, or leaves it to the end of a `row`.
    fn push_or_defer(&mut self, now: Instant, (batch, row): (bool, bool), out: &mut VecDeque<Output>) {
        // What came late has others waiting behind it.
        if row && !self.up.hurries { self.up.defers = true } else { self.push(now, batch, out) }
    }

    /// A row of packets is over: the socket is given what it has brought.
    pub(crate) fn push_deferred(&mut self, now: Instant, batch: bool, out: &mut VecDeque<Output>) {
        if self.up.defers {
            self.push(now, batch, out);
            self.advance(now, out);
        }
    }

    /// Whether there is something to [push](Self::push_deferred) at the end of a row.
    pub(crate) fn defers(&self) -> bool {
        self.up.defers()
    }

    /// Gives the socket what it is waiting for; and acknowledges when there is nothing, in a `batch` of packets perhaps later.
    pub(super) fn push(&mut self, now: Instant, batch: bool, out: &mut VecDeque<Output>) {
        self.up.defers = false;
        if self.up.sending || self.is_deaf() {
            return;
        }
        let up = &mut self.up;
        if self.connected && !up.full {
            if let Some(first) = up.held.front() {
                let urgent = first.urgent;
                // An urgent byte is told of by a call of its own; most streams have none.
                let end = if urgent { Some(1) } else { up.held.iter().position(|piece| piece.urgent) };
                let rest = end.map(|end| up.held.split_off(end)).unwrap_or_default();
                let pieces = std::mem::replace(&mut up.held, rest);
                up.sending = true;
                out.push_back(Output::Send { flow: self.id, pieces, urgent });
                return;
            }
            if up.fin && !up.shut {
                up.shut = true;
                out.push_back(Output::Shutdown { flow: self.id });
            }
        } else if up.acked != up.next && up.grace.is_none() {
            up.grace = Some(now + GRACE);
        }
        if self.phase == Phase::Open && (self.up.acked != self.up.taken() || self.up.waiting == 0) {
            if batch && self.up.may_put_off() {
                self.up.owes = true;
            } else {
                self.acknowledge(out);
            }
        }
    }

    /// A batch of packets is over: what was put off is said.
    pub(crate) fn catch_up(&mut self, out: &mut VecDeque<Output>) {
        if self.up.owes {
            self.acknowledge(out);
        }
    }

    /// Whether it is to [catch up](Self::catch_up).
    pub(crate) fn owes(&self) -> bool {
        self.up.owes()
    }

    /// What became of pieces, in a `batch` of packets or not: these were not taken.
    pub(crate) fn sent(&mut self, now: Instant, mut pieces: VecDeque<Piece>, batch: bool, out: &mut VecDeque<Output>) {
        if self.is_deaf() {
            return;
        }
        self.stamps.tick(now);
        let up = &mut self.up;
        up.sending = false;
        up.full = !pieces.is_empty();
        // What has come meanwhile is behind it.
        pieces.append(&mut up.held);
        up.held = pieces;
        up.waiting = up.held.iter().map(|piece| piece.to - piece.from).sum();
        self.push(now, batch, out);
        self.advance(now, out);
    }

    /// The socket takes more.
    pub(crate) fn writable(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        if self.is_deaf() || !self.up.full {
            return;
        }
        self.stamps.tick(now);
        self.up.full = false;
        self.push(now, false, out);
        self.advance(now, out);
    }
}

const _: () = assert!(super::super::WINDOW >> SCALE <= 65_535 && HEADROOM >= 100);
