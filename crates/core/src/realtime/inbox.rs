//! Messages that have come in, until the program takes them: each once, in the order that its lane promises.
//!
//! Copies are distinguished by number. What a program does not take is bounded: `Latest` lanes keep the newest value of each
//! key, and for the rest the caller must stop reading ([`Inbox::is_full`]).

use super::frame::{FrameError, MAX_MESSAGE};
use super::lane::{Kind, LaneId, WINDOW};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Numbers of a lane that a receiver keeps in mind: twice as many as a sender has on its way.
const REMEMBERED: u64 = 2 * WINDOW as u64;
/// Keys of a `Latest` lane at most; a peer that uses more is refused.
const MAX_KEYS: usize = 4096;

/// What a message that waits takes besides its bytes: an empty one takes room as well. An entry of the queue, rounded up.
const OVERHEAD: usize = 64;
/// What a lane takes besides its messages, rounded up.
const OF_LANE: usize = 512;
/// Lanes whose messages may all have come early but the first, all that their senders may have on their way: of `Ordered` messages a peer
/// that sends more too early is refused.
const EARLY_LANES: usize = 4;

/// A message for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its lane.
    pub lane: LaneId,
    /// The kind of that lane.
    pub kind: Kind,
    /// Its number in the lane.
    pub seq: u64,
    /// What it is the newest value of, in a `Latest` lane.
    pub key: u64,
}

/// What became of a message that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It is for the program.
    New,
    /// It has been here before.
    Copy,
    /// A newer value was here before.
    Stale,
    /// It is the newest value, and one that the program had not taken was dropped for it.
    Conflated,
}

#[derive(Debug)]
struct Waiting {
    what: Delivered,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct IncomingLane {
    id: LaneId,
    kind: Kind,
    /// All numbers below have been here.
    base: u64,
    /// Which of the numbers from `base` on have been here, a bit each, by number modulo [`REMEMBERED`].
    seen: Vec<u64>,
    /// Of an `Ordered` lane: what came early, by number.
    early: BTreeMap<u64, Vec<u8>>,
    /// Of an `Ordered` lane: the first number that has not been handed out.
    handed: u64,
    /// Of a `Latest` lane: the newest number of each key, and its place among all messages that were ever to be taken.
    newest: HashMap<u64, (u64, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    lanes: Vec<IncomingLane>,
    ready: VecDeque<Waiting>,
    /// Messages that the program has taken: the place of the first in `ready`.
    taken: u64,
    bytes: usize,
    limit: usize,
    /// Bytes that came early, and what they take besides.
    early: usize,
    most_early: usize,
    spare: Vec<Vec<u8>>,
}

impl Inbox {
    /// One that is full from `limit` bytes on.
    pub fn new(limit: usize) -> Self {
        Self { limit, most_early: most_early(EARLY_LANES, MAX_MESSAGE), ..Self::default() }
    }

    /// From when on it is full.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Messages are sent over so many lanes, and are of at most so many bytes: more is not kept of what comes early.
    pub fn expect(&mut self, lanes: usize, longest: usize) {
        self.most_early = most_early(lanes, longest);
    }

    /// Whether the program has so much to take that no more should be read.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.limit
    }

    /// Messages that the program has not taken, but values: a newer one would take their place.
    pub fn untaken(&self) -> u64 {
        let ready = self.ready.iter().filter(|waiting| waiting.what.kind != Kind::Latest).count();
        let early = self.lanes.iter().map(|lane| lane.early.len()).sum::<usize>();
        (ready + early) as u64
    }

    /// Whether a message waits for the program.
    pub fn has_some(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Bytes that wait for the program, and what they take besides.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that are kept, for the program or until what is before them has come, and what keeping them takes besides.
    pub fn kept(&self) -> usize {
        self.bytes + self.early + self.lanes.len() * OF_LANE
    }

    pub fn accept(
        &mut self,
        id: LaneId,
        kind: Kind,
        seq: u64,
        key: u64,
        payload: &[u8],
    ) -> Result<Accepted, FrameError> {
        let at = match self.lanes.iter().position(|lane| lane.id == id) {
            Some(at) => at,
            None => {
                self.lanes.push(IncomingLane::new(id, kind));
                self.lanes.len() - 1
            }
        };
        let lane = &mut self.lanes[at];
        if lane.kind != kind {
            return Err(FrameError::KindChanged(id.0));
        }
        let what = Delivered { lane: id, kind, seq, key };
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(payload);
        if kind == Kind::Latest {
            return self.accept_latest(at, what, bytes);
        }
        if !lane.is_new(seq)? {
            self.recycle(bytes);
            return Ok(Accepted::Copy);
        }
        if kind == Kind::Event {
            self.deliver(what, bytes);
            return Ok(Accepted::New);
        }
        if seq != lane.handed {
            // Not counted as waiting for the program: to stop reading for it would keep the missing one out.
            let early = self.early + bytes.len() + OVERHEAD;
            if early > self.most_early {
                return Err(FrameError::Impossible("too many messages wait for a missing one"));
            }
            self.early = early;
            lane.early.insert(seq, bytes);
            return Ok(Accepted::New);
        }
        let mut next = Some(bytes);
        while let Some(bytes) = next {
            let lane = &mut self.lanes[at];
            let seq = lane.handed;
            lane.handed += 1;
            next = lane.early.remove(&lane.handed);
            self.early -= next.as_ref().map_or(0, |bytes| bytes.len() + OVERHEAD);
            self.deliver(Delivered { seq, ..what }, bytes);
        }
        Ok(Accepted::New)
    }

    fn accept_latest(&mut self, at: usize, what: Delivered, bytes: Vec<u8>) -> Result<Accepted, FrameError> {
        let (taken, next) = (self.taken, self.taken + self.ready.len() as u64);
        let newest = &mut self.lanes[at].newest;
        let room = newest.len() < MAX_KEYS;
        match newest.get_mut(&what.key) {
            Some((last, _)) if *last >= what.seq => {
                let same = *last == what.seq;
                self.recycle(bytes);
                return Ok(if same { Accepted::Copy } else { Accepted::Stale });
            }
            Some((last, place)) => {
                *last = what.seq;
                // Found by its place: any number of others may wait.
                let waiting = place.checked_sub(taken).and_then(|at| self.ready.get_mut(usize::try_from(at).ok()?));
                if let Some(old) = waiting {
                    self.bytes = self.bytes + bytes.len() - old.bytes.len();
                    old.what = what;
                    let old = std::mem::replace(&mut old.bytes, bytes);
                    self.recycle(old);
                    return Ok(Accepted::Conflated);
                }
                *place = next;
            }
            None if !room => {
                return Err(FrameError::Impossible("too many keys in a lane"));
            }
            None => {
                newest.insert(what.key, (what.seq, next));
            }
        }
        self.deliver(what, bytes);
        Ok(Accepted::New)
    }

    fn deliver(&mut self, what: Delivered, bytes: Vec<u8>) {
        self.bytes += bytes.len() + OVERHEAD;
        self.ready.push_back(Waiting { what, bytes });
    }

    /// The next message for the program; its bytes take the place of what is in `into`.
    pub fn take(&mut self, into: &mut Vec<u8>) -> Option<Delivered> {
        let Waiting { what, mut bytes } = self.ready.pop_front()?;
        self.taken += 1;
        self.bytes -= bytes.len() + OVERHEAD;
        std::mem::swap(into, &mut bytes);
        self.recycle(bytes);
        Some(what)
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.spare.push(bytes);
    }
}

/// What is kept at most of messages that came early.
const fn most_early(lanes: usize, longest: usize) -> usize {
    lanes * WINDOW * (longest + OVERHEAD)
}

/// Where the bit of a number is: its word, and itself.
const fn bit(seq: u64) -> (usize, u64) {
    let place = seq % REMEMBERED;
    ((place / u64::BITS as u64) as usize, 1 << (place % u64::BITS as u64))
}

impl IncomingLane {
    fn new(id: LaneId, kind: Kind) -> Self {
        let words = if kind == Kind::Latest { 0 } else { (REMEMBERED / u64::BITS as u64) as usize };
        Self { id, kind, base: 0, seen: vec![0; words], early: BTreeMap::new(), handed: 0, newest: HashMap::new() }
    }

    /// Whether `seq` has not been here before; from now on it has.
    fn is_new(&mut self, seq: u64) -> Result<bool, FrameError> {
        if seq < self.base {
            return Ok(false);
        }
        if seq - self.base >= REMEMBERED {
            return Err(FrameError::Impossible("a message beyond the window"));
        }
        let (word, mask) = bit(seq);
        if self.seen[word] & mask != 0 {
            return Ok(false);
        }
        self.seen[word] |= mask;
        loop {
            let (word, mask) = bit(self.base);
            if self.seen[word] & mask == 0 {
                break;
            }
            self.seen[word] &= !mask;
            self.base += 1;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inbox() -> Inbox {
        Inbox::new(1 << 20)
    }

    fn drain(inbox: &mut Inbox) -> Vec<(u64, Vec<u8>)> {
        let mut bytes = Vec::new();
        std::iter::from_fn(|| inbox.take(&mut bytes).map(|what| (what.seq, bytes.clone()))).collect()
    }

    fn accept(inbox: &mut Inbox, kind: Kind, seq: u64) -> Accepted {
        inbox.accept(LaneId(kind.code() as u8), kind, seq, 0, &seq.to_be_bytes()).unwrap()
    }

    #[test]
    fn an_event_passes_those_before_it_and_its_copy_does_not() {
        let mut inbox = inbox();
        assert_eq!(accept(&mut inbox, Kind::Event, 1), Accepted::New);
        assert_eq!(accept(&mut inbox, Kind::Event, 1), Accepted::Copy);
        assert_eq!(accept(&mut inbox, Kind::Event, 0), Accepted::New);
        assert_eq!(accept(&mut inbox, Kind::Event, 0), Accepted::Copy);
        assert_eq!(drain(&mut inbox).iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn an_ordered_message_waits_for_those_before_it() {
        let mut inbox = inbox();
        for seq in [2, 1, 1] {
            accept(&mut inbox, Kind::Ordered, seq);
        }
        assert_eq!(drain(&mut inbox), []);
        accept(&mut inbox, Kind::Ordered, 0);
        assert_eq!(drain(&mut inbox).iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [0, 1, 2]);
        accept(&mut inbox, Kind::Ordered, 3);
        assert_eq!(drain(&mut inbox), [(3, 3u64.to_be_bytes().to_vec())]);
    }

    #[test]
    fn of_a_latest_lane_only_the_newest_of_each_key_waits() {
        let mut inbox = inbox();
        let mut accept = |seq, key| inbox.accept(LaneId(0), Kind::Latest, seq, key, &[seq as u8]).unwrap();
        assert_eq!([accept(0, 7), accept(1, 8), accept(3, 7), accept(2, 7)], {
            [Accepted::New, Accepted::New, Accepted::Conflated, Accepted::Stale]
        });
        assert_eq!(drain(&mut inbox), [(3, vec![3]), (1, vec![1])]);
    }

    #[test]
    fn a_program_that_does_not_read_stops_the_reading_and_latest_lanes_do_not_grow() {
        let mut inbox = Inbox::new(1000);
        for seq in 0..200 {
            inbox.accept(LaneId(0), Kind::Latest, seq, 0, &[0; 50]).unwrap();
        }
        assert!(!inbox.is_full());
        for seq in 0..20 {
            inbox.accept(LaneId(1), Kind::Event, seq, 0, &[0; 50]).unwrap();
        }
        assert!(inbox.is_full());
        assert_eq!(drain(&mut inbox).len(), 21);
        assert!(!inbox.is_full());
    }

    #[test]
    fn what_is_empty_takes_room_as_well_and_what_waits_for_a_missing_message_is_bounded() {
        let mut inbox = Inbox::new(1000);
        for seq in 0..20 {
            inbox.accept(LaneId(1), Kind::Event, seq, 0, &[]).unwrap();
        }
        assert!(inbox.is_full());
        assert_eq!(drain(&mut inbox).len(), 20);
        assert!(!inbox.is_full());
        let full = [0; MAX_MESSAGE];
        let mut early = |lane: u8, seq| inbox.accept(LaneId(lane), Kind::Ordered, seq, 0, &full);
        let all = (2..6).flat_map(|lane| (1..=WINDOW as u64).map(move |seq| (lane, seq)));
        assert!(all.clone().all(|(lane, seq)| early(lane, seq) == Ok(Accepted::New)));
        assert!(matches!(early(6, 1), Err(FrameError::Impossible(_))));
        // What was missing comes: all of them are handed out, and there is room again.
        for lane in 2..6 {
            inbox.accept(LaneId(lane), Kind::Ordered, 0, 0, &[]).unwrap();
        }
        assert_eq!(drain(&mut inbox).len(), 4 * (WINDOW + 1));
        assert_eq!((inbox.early, inbox.bytes), (0, 0));
    }

    #[test]
    fn a_lane_keeps_its_kind_and_numbers_stay_near() {
        let mut inbox = inbox();
        inbox.accept(LaneId(0), Kind::Event, 0, 0, &[]).unwrap();
        assert_eq!(inbox.accept(LaneId(0), Kind::Ordered, 1, 0, &[]), Err(FrameError::KindChanged(0)));
        assert!(inbox.accept(LaneId(0), Kind::Event, u64::MAX, 0, &[]).is_err());
    }

    #[test]
    fn what_the_program_has_not_taken_is_told_and_buffers_are_used_again() {
        let mut inbox = Inbox::new(100);
        assert!(!inbox.has_some());
        for seq in 0..3 {
            accept(&mut inbox, Kind::Event, seq);
            accept(&mut inbox, Kind::Latest, seq);
        }
        [1, 2].into_iter().for_each(|seq| _ = accept(&mut inbox, Kind::Ordered, seq));
        // Three events and two that came early; the value may be replaced.
        assert_eq!((inbox.untaken(), inbox.has_some(), inbox.is_full()), (5, true, true));
        assert_eq!(inbox.bytes(), 4 * (8 + OVERHEAD));
        inbox.set_limit(1_000);
        assert!(!inbox.is_full());
        let mut into = Vec::with_capacity(5_000);
        inbox.take(&mut into).unwrap();
        assert_eq!((inbox.bytes(), into.len()), (3 * (8 + OVERHEAD), 8));
        accept(&mut inbox, Kind::Event, 3);
        let capacities = std::iter::from_fn(|| {
            let mut into = Vec::new();
            inbox.take(&mut into).map(|_| into.capacity())
        });
        assert!(capacities.collect::<Vec<_>>().iter().any(|capacity| *capacity >= 5_000));
    }

    #[test]
    fn numbers_go_on_beyond_those_that_are_remembered_and_keys_do_not() {
        let mut inbox = inbox();
        for seq in 0..3 * REMEMBERED {
            assert_eq!(accept(&mut inbox, Kind::Event, seq), Accepted::New);
            drain(&mut inbox);
        }
        assert_eq!(accept(&mut inbox, Kind::Event, REMEMBERED), Accepted::Copy);
        let mut value = |key| inbox.accept(LaneId(0), Kind::Latest, key, key, &[]);
        assert!((0..MAX_KEYS as u64).all(|key| value(key) == Ok(Accepted::New)));
        assert!(matches!(value(MAX_KEYS as u64), Err(FrameError::Impossible(_))));
    }

    #[test]
    fn what_is_kept_for_later_counts_and_is_bounded_as_is_expected() {
        let mut inbox = inbox();
        assert_eq!(inbox.kept(), 0);
        // The first is missing; an empty one takes room too.
        (1..=10).for_each(|seq| _ = inbox.accept(LaneId(1), Kind::Ordered, seq, 0, &[0; 100]).unwrap());
        inbox.accept(LaneId(1), Kind::Ordered, 11, 0, &[]).unwrap();
        assert_eq!((inbox.bytes(), inbox.kept()), (0, OF_LANE + 1000 + 11 * OVERHEAD));
        inbox.accept(LaneId(1), Kind::Ordered, 0, 0, &[]).unwrap();
        assert_eq!((inbox.early, inbox.kept()), (0, OF_LANE + inbox.bytes()));
        inbox.expect(1, 100);
        let mut early = |seq| inbox.accept(LaneId(2), Kind::Ordered, seq, 0, &[0; 100]);
        assert!((1..=WINDOW as u64).all(|seq| early(seq) == Ok(Accepted::New)));
        assert!(matches!(early(1025), Err(FrameError::Impossible(_))));
    }

    #[test]
    fn a_value_takes_the_place_of_the_one_that_waits_and_of_no_other() {
        let mut inbox = inbox();
        let mut into = Vec::new();
        for round in 0..3 {
            let mut accept =
                |kind: Kind, seq, key| inbox.accept(LaneId(kind.code() as u8), kind, seq, key, &[]).unwrap();
            accept(Kind::Event, 2 * round, 0);
            assert_eq!([7, 8].map(|key| accept(Kind::Latest, 10 * round + 1, key)), [Accepted::New; 2]);
            accept(Kind::Event, 2 * round + 1, 0);
            assert_eq!([8, 7].map(|key| accept(Kind::Latest, 10 * round + 2, key)), [Accepted::Conflated; 2]);
            let mut taken = || inbox.take(&mut into).map(|what| (what.seq, what.key));
            assert_eq!(taken(), Some((2 * round, 0)));
            assert_eq!([taken(), taken()], [Some((10 * round + 2, 7)), Some((10 * round + 2, 8))]);
            assert_eq!((taken(), taken()), (Some((2 * round + 1, 0)), None));
        }
    }

    proptest! {
        #[test]
        fn however_copies_are_mixed_each_message_comes_out_once(mut order in proptest::collection::vec(0u64..300, 0..900),
                                                                 ordered: bool) {
            let kind = if ordered { Kind::Ordered } else { Kind::Event };
            order.extend(0..300);
            let mut inbox = inbox();
            for seq in &order {
                accept(&mut inbox, kind, *seq);
            }
            let mut out: Vec<u64> = drain(&mut inbox).into_iter().map(|(seq, _)| seq).collect();
            if !ordered {
                out.sort_unstable();
            }
            prop_assert!(out.into_iter().eq(0..300));
            prop_assert_eq!(inbox.bytes, 0);
        }
    }
}
