//! What waits for the fast channel: four levels; newer acknowledgements replace older ones; no packet waits for ever.
//!
//! The steerer paces the queue, so that packets wait here and not in the network, where no decision could be changed. The last
//! level is for what is here in need: all that the fat channel would carry if it could ([`BULK`]). There a stream stands in the
//! order of its bytes: what its sender sends again goes before what comes after it, which is of no use until then
//! (docs/decisions/0047).

use super::packet::{Facts, FlowKey, Kind};
use crate::time::{Duration, Instant};
use crate::wire::ip::tcp;
use std::collections::VecDeque;

/// Levels; 0 goes first.
const LEVELS: usize = 4;
/// The level of what would take the fat channel if that were there. It never takes a turn of the others twice in a row.
pub(super) const BULK: u8 = 3;
/// A packet that has waited so long goes before all others. Ours: less than an acknowledgement may be delayed by anyway.
const PATIENCE: Duration = Duration::from_millis(20);

/// Something that waits.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub facts: Facts,
    pub packet: P,
    pub since: Instant,
    /// Bytes that it is on the channel.
    pub bytes: usize,
    /// What it is to acknowledge on this channel, if that is less than it does.
    pub back_to: Option<u32>,
    /// It is to take the fat channel too; an acknowledgement, if it stands for others.
    pub twice: bool,
    /// Acknowledgements in whose place it is.
    pub replaced: u32,
    pub why: &'static str,
    pub gained: Duration,
}

/// How many packets wait, by the low bits of their flow's key: a flow that counts none need not be searched for.
type Counts = [u16; 256];

fn place(flow: FlowKey) -> usize {
    (flow.0 & 0xff) as usize
}

#[derive(Debug)]
pub(super) struct Queue<P> {
    levels: [VecDeque<Waiting<P>>; LEVELS],
    bytes: [usize; LEVELS],
    len: usize,
    /// Acknowledgements that wait, and everything else that does.
    counts: Box<[Counts; 2]>,
    /// The one before went because it had waited for so long, and was bulk.
    bulk_went: bool,
}

impl<P> Queue<P> {
    pub fn new() -> Self {
        Self {
            levels: std::array::from_fn(|_| VecDeque::new()),
            bytes: [0; LEVELS],
            len: 0,
            counts: Box::new([[0; 256]; 2]),
            bulk_went: false,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that leave before something that comes to `level` now.
    pub fn before(&self, level: u8) -> usize {
        self.bytes.iter().take(usize::from(level) + 1).sum()
    }

    /// Packets that wait on `level`.
    pub fn len_of(&self, level: u8) -> usize {
        self.levels.get(usize::from(level)).map_or(0, VecDeque::len)
    }

    fn count(&mut self, facts: &Facts) -> &mut u16 {
        &mut self.counts[usize::from(facts.kind != Kind::Ack)][place(facts.flow)]
    }

    fn entered(&mut self, level: usize, mut waiting: Waiting<P>) {
        self.bytes[level] += waiting.bytes;
        self.len += 1;
        let count = self.count(&waiting.facts);
        *count = count.saturating_add(1);
        let hole = (level == usize::from(BULK)).then(|| self.hole(&waiting.facts)).flatten();
        let at = hole.unwrap_or(self.levels[level].len());
        if let Some(behind) = self.levels[level].get(at) {
            waiting.since = behind.since;
        }
        self.levels[level].insert(at, waiting);
    }

    /// The last of a flow at the last level, which mostly is among those that came last.
    fn last_bulk_of(&self, flow: FlowKey) -> Option<usize> {
        self.levels[usize::from(BULK)].iter().rposition(|w| w.facts.flow == flow)
    }

    /// Where at the last level what comes after `facts` in its stream begins, if anything of it waits there.
    fn hole(&self, facts: &Facts) -> Option<usize> {
        let bulk = &self.levels[usize::from(BULK)];
        let comes_after = |w: &Waiting<P>| w.facts.flow == facts.flow && tcp::before(facts.seq, w.facts.seq);
        // What is new has nothing after it, and that is seen at its flow's last.
        self.last_bulk_of(facts.flow).filter(|at| comes_after(&bulk[*at]))?;
        bulk.iter().position(comes_after)
    }

    fn left(&mut self, level: usize, waiting: Waiting<P>) -> Waiting<P> {
        self.bytes[level] -= waiting.bytes;
        self.len -= 1;
        let count = self.count(&waiting.facts);
        *count = count.saturating_sub(1);
        waiting
    }

    /// Takes out of the last level the last of what comes after `facts` in its stream, if there is any: a hole goes before it.
    pub fn pop_after(&mut self, facts: &Facts) -> Option<Waiting<P>> {
        self.hole(facts)?;
        let at = self.last_bulk_of(facts.flow)?;
        let last = self.levels[usize::from(BULK)].remove(at)?;
        Some(self.left(usize::from(BULK), last))
    }

    /// Puts `waiting` behind its level, or into a hole of its stream. An acknowledgement that says all that an older one of its flow says takes its place
    /// instead, and the older one comes back.
    pub fn push(&mut self, level: u8, mut waiting: Waiting<P>) -> Option<Waiting<P>> {
        let level = usize::from(level).min(LEVELS - 1);
        if waiting.facts.kind == Kind::Ack
            && let Some(ack) = waiting.facts.ack
            && *self.count(&waiting.facts) > 0
        {
            let older = self.levels[level].iter_mut().find(|w| {
                let newer = |old: u32| ack.wrapping_sub(old) as i32 > 0;
                w.facts.flow == waiting.facts.flow
                    && w.facts.kind == Kind::Ack
                    // What it says of a hole may be said once only.
                    && !w.facts.sacks
                    && w.facts.ack.is_some_and(newer)
            });
            if let Some(older) = older {
                waiting.since = older.since;
                waiting.replaced = older.replaced + 1;
                self.bytes[level] = self.bytes[level] + waiting.bytes - older.bytes;
                return Some(std::mem::replace(older, waiting));
            }
        }
        self.entered(level, waiting);
        None
    }

    /// Takes the packet that goes next.
    pub fn pop(&mut self, now: Instant) -> Option<Waiting<P>> {
        let bulk = usize::from(BULK);
        let waits = |n: &usize| !self.levels[*n].is_empty();
        let overdue = |n: usize| {
            let first = self.levels[n].front().filter(|w| now.since(w.since) >= PATIENCE)?;
            Some((first.since, n))
        };
        // After a packet of bulk, an overdue one of another level goes, if there is one.
        let most = if self.bulk_went { bulk } else { LEVELS };
        let level = (0..most).filter_map(overdue).min().map(|(_, n)| n).or_else(|| (0..LEVELS).find(waits))?;
        self.bulk_went = level == bulk;
        let first = self.levels[level].pop_front()?;
        Some(self.left(level, first))
    }

    /// Whether something of a flow waits at the last level, which nothing else of it may overtake.
    pub fn is_bulk(&self, flow: FlowKey) -> bool {
        let may_be = !self.levels[usize::from(BULK)].is_empty() && self.counts[1][place(flow)] > 0;
        may_be && self.last_bulk_of(flow).is_some()
    }

    /// Takes out what has waited for longest of a flow, but for acknowledgements, of packets of these kinds.
    pub fn pop_of(&mut self, flow: FlowKey, kinds: impl Fn(Kind) -> bool) -> Option<Waiting<P>> {
        if self.counts[1][place(flow)] == 0 {
            return None;
        }
        let is_of = |w: &Waiting<P>| w.facts.flow == flow && w.facts.kind != Kind::Ack && kinds(w.facts.kind);
        let first = |queue: &VecDeque<Waiting<P>>| queue.iter().position(is_of).map(|at| (queue[at].since, at));
        let of_levels = self.levels.iter().enumerate().filter_map(|(level, queue)| Some((first(queue)?, level)));
        let ((_, at), level) = of_levels.min()?;
        let out = self.levels[level].remove(at)?;
        Some(self.left(level, out))
    }

    /// The last of the least urgent, and how many bytes leave before it.
    pub fn last(&self) -> Option<(&Waiting<P>, usize)> {
        let last = self.levels.iter().rev().find_map(VecDeque::back)?;
        Some((last, self.bytes.iter().sum::<usize>() - last.bytes))
    }

    /// Takes that one out.
    pub fn pop_last(&mut self) -> Option<Waiting<P>> {
        let level = (0..LEVELS).rev().find(|n| !self.levels[*n].is_empty())?;
        let last = self.levels[level].pop_back()?;
        Some(self.left(level, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(flow: u64, number: u32) -> Waiting<u32> {
        let facts = Facts { ack: Some(number), ..Facts::of(FlowKey(flow), Kind::Ack) };
        Waiting {
            facts,
            packet: number,
            since: Instant::ZERO,
            bytes: 52,
            back_to: None,
            twice: false,
            replaced: 0,
            why: "",
            gained: Duration::ZERO,
        }
    }

    fn data(flow: u64, packet: u32) -> Waiting<u32> {
        Waiting { facts: Facts { payload: 9, ..Facts::of(FlowKey(flow), Kind::Data) }, bytes: 500, ..ack(flow, packet) }
    }

    #[test]
    fn a_newer_acknowledgement_takes_the_place_of_the_older_one_of_its_flow() {
        let mut queue = Queue::new();
        assert!(queue.push(2, ack(1, 100)).is_none());
        assert!(queue.push(2, ack(2, 5)).is_none());
        assert_eq!(queue.push(2, ack(1, 300)).map(|w| w.packet), Some(100));
        // One that says nothing new (a duplicate), or less, waits for itself: it means something.
        assert!(queue.push(2, ack(1, 300)).is_none());
        assert!(queue.push(2, ack(1, 200)).is_none());
        // Numbers go round.
        assert!(queue.push(2, ack(3, u32::MAX)).is_none());
        assert_eq!(queue.push(2, ack(3, 4)).map(|w| w.packet), Some(u32::MAX));
        assert_eq!(queue.push(2, ack(3, 5)).map(|w| w.packet), Some(4));
        let all = std::iter::from_fn(|| queue.pop(Instant::ZERO)).map(|w| (w.packet, w.replaced));
        assert_eq!(all.collect::<Vec<_>>(), [(300, 1), (5, 0), (300, 0), (200, 0), (5, 2)]);
        assert_eq!((queue.before(BULK), queue.len()), (0, 0));
    }

    #[test]
    fn what_an_acknowledgement_says_of_a_hole_is_not_replaced() {
        let mut queue = Queue::new();
        let of_a_hole = |number| {
            let plain = ack(1, number);
            Waiting { facts: Facts { sacks: true, ..plain.facts }, ..plain }
        };
        for number in [100, 200, 300] {
            assert!(queue.push(2, of_a_hole(number)).is_none());
        }
        assert!(queue.push(2, ack(1, 400)).is_none());
        assert_eq!(queue.push(2, of_a_hole(500)).map(|w| w.packet), Some(400));
        assert_eq!(queue.len(), 4);
    }

    #[test]
    fn what_is_urgent_goes_first_and_nobody_waits_for_ever() {
        let mut queue = Queue::new();
        queue.push(2, ack(1, 1));
        queue.push(1, data(2, 2));
        queue.push(0, data(3, 3));
        assert_eq!((queue.before(0), queue.before(1), queue.before(2)), (500, 1000, 1052));
        assert_eq!(queue.pop(Instant::ZERO).map(|w| w.packet), Some(3));
        queue.push(0, Waiting { since: Instant::from_millis(19), ..data(3, 4) });
        assert_eq!(queue.pop(Instant::from_millis(20)).map(|w| w.packet), Some(2));
        assert_eq!(queue.pop(Instant::from_millis(20)).map(|w| w.packet), Some(1));
        assert_eq!((queue.len(), queue.is_empty()), (1, false));
    }

    #[test]
    fn what_waits_of_a_flow_comes_out_in_the_order_in_which_it_came() {
        let mut queue = Queue::new();
        let at = |ms, waiting: Waiting<u32>| Waiting { since: Instant::from_millis(ms), ..waiting };
        for (level, waiting) in
            [(1, at(1, data(1, 10))), (0, at(2, data(1, 20))), (0, at(3, data(2, 30))), (2, at(4, ack(1, 40)))]
        {
            queue.push(level, waiting);
        }
        let of_1 = std::iter::from_fn(|| queue.pop_of(FlowKey(1), |kind| kind == Kind::Data)).map(|w| w.packet);
        assert_eq!(of_1.collect::<Vec<_>>(), [10, 20]);
        assert_eq!((queue.len(), queue.before(BULK)), (2, 552));
        queue.push(1, data(1, 50));
        assert!(queue.pop_of(FlowKey(1), |kind| kind == Kind::Close).is_none(), "of another kind");
        assert_eq!(queue.pop_of(FlowKey(1), |_| true).map(|w| w.packet), Some(50));
        assert!(queue.pop_of(FlowKey(1), |_| true).is_none(), "an acknowledgement stays");
    }

    #[test]
    fn the_last_and_least_urgent_leaves_first() {
        let mut queue = Queue::new();
        queue.push(1, data(1, 1));
        queue.push(2, ack(1, 2));
        assert_eq!(queue.last().map(|(w, before)| (w.packet, before)), Some((2, 500)));
        assert_eq!(queue.pop_last().map(|w| w.packet), Some(2));
        assert_eq!((queue.before(BULK), queue.len()), (500, 1));
    }

    #[test]
    fn bulk_goes_last_and_takes_every_second_turn_at_most_however_long_it_has_waited() {
        let mut queue = Queue::new();
        for n in 0..6 {
            // There is no level behind it.
            queue.push(if n == 5 { 9 } else { BULK }, data(1, n));
        }
        let late = Instant::from_millis(50);
        for n in 10..12 {
            queue.push(2, Waiting { since: late, ..ack(2, n) });
            queue.push(0, Waiting { since: late, ..data(3, n + 10) });
        }
        assert!(queue.is_bulk(FlowKey(1)) && !queue.is_bulk(FlowKey(3)) && !queue.is_bulk(FlowKey(257)));
        assert_eq!((queue.before(0), queue.before(2), queue.len_of(BULK)), (1_000, 1_052, 6));
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(late)).map(|w| w.packet).collect();
        assert_eq!(order, [0, 20, 1, 21, 2, 11, 3, 4, 5]);
        assert!(!queue.is_bulk(FlowKey(1)) && queue.is_empty());
    }

    #[test]
    fn in_bulk_a_hole_of_a_stream_goes_before_what_comes_after_it_and_before_nobody_else() {
        let of = |flow, seq| {
            let plain = data(flow, seq);
            Waiting { facts: Facts { seq, ..plain.facts }, ..plain }
        };
        let mut queue = Queue::new();
        for (flow, seq) in [(2, 7), (1, 100), (1, 120), (2, 8), (1, 110), (1, u32::MAX), (1, 5), (2, 1), (1, 130)] {
            queue.push(BULK, of(flow, seq));
        }
        // Elsewhere they stand as they came.
        queue.push(1, of(3, 9));
        queue.push(1, of(3, 8));
        assert!(queue.pop_after(&of(1, 130).facts).is_none() && queue.pop_after(&of(4, 0).facts).is_none());
        assert_eq!(queue.pop_after(&of(1, 90).facts).map(|w| w.packet), Some(130));
        assert_eq!((queue.before(BULK), queue.len_of(BULK)), (5_000, 8));
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(Instant::ZERO)).map(|w| w.packet).collect();
        assert_eq!(order, [9, 8, 1, 7, u32::MAX, 5, 100, 110, 120, 8]);
        assert!(queue.is_empty());
    }
}
