//! What waits for the fast channel: three levels, newer acknowledgements in the place of older ones, nobody for ever.
//!
//! The queue is paced by the steerer, so that it stands here and not in the network, where nobody could change its mind.

use super::flow::FlowKey;
use super::packet::{Facts, Kind};
use crate::time::{Duration, Instant};
use std::collections::VecDeque;

/// Levels; 0 goes first.
const LEVELS: usize = 3;
/// Who has waited so long goes before everybody else. Ours: less than what an acknowledgement may be delayed by anyway.
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
    pub why: &'static str,
    pub gained: Duration,
}

#[derive(Debug)]
pub(super) struct Queue<P> {
    levels: [VecDeque<Waiting<P>>; LEVELS],
    bytes: usize,
}

impl<P> Queue<P> {
    pub fn new() -> Self {
        Self { levels: [VecDeque::new(), VecDeque::new(), VecDeque::new()], bytes: 0 }
    }

    pub fn len(&self) -> usize {
        self.levels.iter().map(VecDeque::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(VecDeque::is_empty)
    }

    /// Bytes that leave before something that comes to `level` now.
    pub fn before(&self, level: u8) -> usize {
        let through = usize::from(level) + 1;
        if through >= LEVELS {
            return self.bytes;
        }
        self.levels[..through].iter().flatten().map(|w| w.bytes).sum()
    }

    /// Puts `waiting` behind its level. An acknowledgement that says all that an older one of its flow says takes its place
    /// instead, and the older one comes back.
    pub fn push(&mut self, level: u8, mut waiting: Waiting<P>) -> Option<Waiting<P>> {
        let queue = &mut self.levels[usize::from(level).min(LEVELS - 1)];
        if waiting.facts.kind == Kind::Ack
            && let Some(ack) = waiting.facts.ack
        {
            let older = queue.iter_mut().find(|w| {
                let newer = |old: u32| ack.wrapping_sub(old) as i32 > 0;
                w.facts.flow == waiting.facts.flow
                    && w.facts.kind == Kind::Ack
                    // What it says of a hole may be said once only.
                    && !w.facts.sacks
                    && w.facts.ack.is_some_and(newer)
            });
            if let Some(older) = older {
                waiting.since = older.since;
                self.bytes = self.bytes + waiting.bytes - older.bytes;
                return Some(std::mem::replace(older, waiting));
            }
        }
        self.bytes += waiting.bytes;
        queue.push_back(waiting);
        None
    }

    /// Who goes next.
    pub fn pop(&mut self, now: Instant) -> Option<Waiting<P>> {
        let overdue =
            |queue: &VecDeque<Waiting<P>>| queue.front().filter(|w| now.since(w.since) >= PATIENCE).map(|w| w.since);
        let level = (0..LEVELS)
            .filter_map(|n| Some((overdue(&self.levels[n])?, n)))
            .min()
            .map(|(_, n)| n)
            .or_else(|| (0..LEVELS).find(|n| !self.levels[*n].is_empty()))?;
        let first = self.levels[level].pop_front()?;
        self.bytes -= first.bytes;
        Some(first)
    }

    /// Takes out what has waited for longest of a flow, of packets of these kinds.
    pub fn pop_of(&mut self, flow: FlowKey, kinds: impl Fn(Kind) -> bool) -> Option<Waiting<P>> {
        let is_of = |w: &Waiting<P>| w.facts.flow == flow && kinds(w.facts.kind);
        let first = |queue: &VecDeque<Waiting<P>>| queue.iter().position(is_of).map(|at| (queue[at].since, at));
        let of_levels = self.levels.iter().enumerate().filter_map(|(level, queue)| Some((first(queue)?, level)));
        let ((_, at), level) = of_levels.min()?;
        let out = self.levels[level].remove(at)?;
        self.bytes -= out.bytes;
        Some(out)
    }

    /// The last of the least urgent, and how many bytes leave before it.
    pub fn last(&self) -> Option<(&Waiting<P>, usize)> {
        let last = self.levels.iter().rev().find_map(VecDeque::back)?;
        Some((last, self.bytes - last.bytes))
    }

    /// Takes that one out.
    pub fn pop_last(&mut self) -> Option<Waiting<P>> {
        let last = self.levels.iter_mut().rev().find_map(VecDeque::pop_back)?;
        self.bytes -= last.bytes;
        Some(last)
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
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(Instant::ZERO)).map(|w| w.packet).collect();
        assert_eq!((order, queue.bytes), (vec![300, 5, 300, 200, 4], 0));
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
        assert_eq!((queue.len(), queue.bytes), (2, 552));
    }

    #[test]
    fn the_last_and_least_urgent_leaves_first() {
        let mut queue = Queue::new();
        queue.push(1, data(1, 1));
        queue.push(2, ack(1, 2));
        assert_eq!(queue.last().map(|(w, before)| (w.packet, before)), Some((2, 500)));
        assert_eq!(queue.pop_last().map(|w| w.packet), Some(2));
        assert_eq!(queue.bytes, 500);
    }
}
