//! The receiving half: nobody is overtaken by what was sent after him over the other channel.
//!
//! Each packet has a number on its channel, and says which packet of the other channel was the last of its flow before it
//! ([`super::Order`]). It is held until that one is there. A channel keeps its order, so once a later packet of the other channel
//! has come, the missing one is lost and nobody waits for it any longer: there is a time limit only for a channel that has
//! gone quiet. What never happens here: a packet that belongs to no other is held, and one is held twice.

use super::channel::Channel;
use crate::machine::{Deadline, Machine};
use crate::time::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A packet that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived<P> {
    /// Over which channel.
    pub channel: Channel,
    /// The last 16 bits of its number there.
    pub number: u16,
    /// Those of the packet of the other channel that it must not overtake.
    pub after: Option<u16>,
    /// The packet.
    pub packet: P,
}

/// What a resequencer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Packets that had to wait.
    pub held: u64,
    /// Packets that were let go because time was up.
    pub impatient: u64,
    /// Numbers that never came, by channel.
    pub missing: [u64; 2],
}

/// Packets that are held at most; beyond it the one that has waited longest goes.
const MOST: usize = 8_192;

/// See the module.
#[derive(Debug)]
pub struct Resequencer<P> {
    highest: [u64; 2],
    /// By the channel that is waited for: what comes after which number, in the order of arrival.
    waiting: [BTreeMap<(u64, u64), (Instant, P)>; 2],
    due: BTreeSet<(Instant, u64, usize, u64)>,
    order: u64,
    hold: Duration,
    ready: VecDeque<P>,
    tally: Held,
}

/// The number with these last bits that is nearest to `near`.
fn extend(near: u64, low: u16) -> u64 {
    near.saturating_add_signed(i64::from(low.wrapping_sub(near as u16) as i16))
}

impl<P> Resequencer<P> {
    /// Nobody is held for longer than `hold`.
    pub fn new(hold: Duration) -> Self {
        Self {
            highest: [0; 2],
            waiting: [BTreeMap::new(), BTreeMap::new()],
            due: BTreeSet::new(),
            order: 0,
            hold,
            ready: VecDeque::new(),
            tally: Held::default(),
        }
    }

    /// From now on nobody is held for longer than `hold`.
    pub fn set_hold(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// The other end has begun anew with its numbers. Who is held goes.
    pub fn reset(&mut self) {
        for channel in Channel::ALL {
            self.highest[channel.index()] = u64::MAX;
            self.release(channel, u64::MAX);
            self.highest[channel.index()] = 0;
        }
    }

    /// What it has done.
    pub fn tally(&self) -> Held {
        self.tally
    }

    fn release(&mut self, of: Channel, until: u64) {
        let waiting = &mut self.waiting[of.index()];
        while let Some(first) = waiting.first_entry().filter(|e| e.key().0 <= until) {
            let (after, order) = *first.key();
            let (due, packet) = first.remove();
            self.due.remove(&(due, order, of.index(), after));
            self.ready.push_back(packet);
        }
    }

    fn let_go(&mut self) {
        if let Some((_, order, of, after)) = self.due.pop_first()
            && let Some((_, packet)) = self.waiting[of].remove(&(after, order))
        {
            self.tally.impatient += 1;
            self.ready.push_back(packet);
        }
    }
}

impl<P> Machine for Resequencer<P> {
    type Input = Arrived<P>;
    type Output = P;

    fn handle_input(&mut self, now: Instant, arrived: Arrived<P>) {
        let Arrived { channel, number, after, packet } = arrived;
        let other = channel.other();
        let known = self.highest[channel.index()];
        let number = extend(known, number);
        if number > known {
            self.tally.missing[channel.index()] += number - known - 1;
            self.highest[channel.index()] = number;
        } else {
            self.tally.missing[channel.index()] = self.tally.missing[channel.index()].saturating_sub(1);
        }
        // Who waited for one before this one waited in vain.
        self.release(channel, number.saturating_sub(1));
        let after = after.map(|low| extend(self.highest[other.index()], low));
        match after.filter(|after| *after > self.highest[other.index()]) {
            None => self.ready.push_back(packet),
            Some(after) => {
                self.order += 1;
                let due = now + self.hold;
                self.waiting[other.index()].insert((after, self.order), (due, packet));
                self.due.insert((due, self.order, other.index(), after));
                self.tally.held += 1;
                if self.due.len() > MOST {
                    self.let_go();
                }
            }
        }
        self.release(channel, self.highest[channel.index()]);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.due.first().is_some_and(|(due, ..)| *due <= now) {
            self.let_go();
        }
    }

    fn poll_output(&mut self) -> Option<P> {
        self.ready.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.due.first().map(|(at, ..)| Deadline { at: *at, why: "order is not waited for any longer" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn fat(number: u16, after: Option<u16>, packet: u32) -> Arrived<u32> {
        Arrived { channel: Channel::Fat, number, after, packet }
    }

    fn fast(number: u16, after: Option<u16>, packet: u32) -> Arrived<u32> {
        Arrived { channel: Channel::Fast, number, after, packet }
    }

    fn take(r: &mut Resequencer<u32>, at: u64, arrived: Arrived<u32>) -> Vec<u32> {
        r.handle_input(ms(at), arrived);
        std::iter::from_fn(|| r.poll_output()).collect()
    }

    #[test]
    fn a_packet_waits_for_what_was_sent_before_it_over_the_other_channel() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        assert_eq!(take(&mut r, 0, fast(1, Some(2), 30)), []);
        // Of another flow, which is nobody's successor.
        assert_eq!(take(&mut r, 1, fast(2, None, 99)), [99]);
        assert_eq!(take(&mut r, 12, fat(1, None, 10)), [10]);
        assert_eq!(take(&mut r, 13, fat(2, None, 20)), [20, 30]);
        assert_eq!(r.poll_timeout(), None);
    }

    #[test]
    fn a_later_packet_of_the_channel_says_that_the_missing_one_is_lost() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        assert_eq!(take(&mut r, 0, fast(1, Some(2), 30)), []);
        assert_eq!(take(&mut r, 12, fat(1, None, 10)), [10]);
        // Number 2 is lost; 3 comes, and whoever waited for 2 goes before it.
        assert_eq!(take(&mut r, 13, fat(3, None, 40)), [30, 40]);
        assert_eq!((r.tally().missing, r.tally().impatient), ([1, 0], 0));
    }

    #[test]
    fn a_channel_that_is_quiet_is_not_waited_for_beyond_the_limit() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        assert_eq!(take(&mut r, 0, fast(1, Some(2), 30)), []);
        assert_eq!(r.poll_timeout().map(|d| d.at), Some(ms(50)));
        r.handle_timeout(ms(49));
        assert_eq!(r.poll_output(), None);
        r.handle_timeout(ms(50));
        assert_eq!((r.poll_output(), r.tally().impatient), (Some(30), 1));
    }

    #[test]
    fn numbers_go_round() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        for n in 1..200_000u32 {
            assert_eq!(take(&mut r, 0, fat(n as u16, None, n)), [n]);
        }
        assert_eq!(r.tally().missing, [0, 0]);
        assert_eq!(take(&mut r, 0, fast(1, Some(200_000u32 as u16), 7)), []);
        assert_eq!(take(&mut r, 0, fat(200_000u32 as u16, None, 8)), [8, 7]);
    }

    #[test]
    fn after_a_new_beginning_nobody_is_held_by_old_numbers() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        take(&mut r, 0, fat(500, None, 1));
        assert_eq!(take(&mut r, 0, fast(1, Some(501), 2)), []);
        r.reset();
        assert_eq!(r.poll_output(), Some(2));
        assert_eq!(take(&mut r, 1, fat(1, None, 3)), [3]);
        assert_eq!(take(&mut r, 1, fast(1, Some(1), 4)), [4]);
    }

    proptest! {
        /// One flow over both channels, each of which keeps its order and loses some: what comes out is in order, and is all
        /// that came in.
        #[test]
        fn a_flow_comes_out_in_order_whatever_is_lost(plan in proptest::collection::vec((any::<bool>(), 0u8..10), 1..120),
                                                       skew in 0usize..20) {
            let mut last = [None; 2];
            let mut counters = [0u16; 2];
            let mut ways: [VecDeque<(usize, Arrived<u32>)>; 2] = Default::default();
            for (k, (is_fast, luck)) in plan.iter().enumerate() {
                let channel = if *is_fast { Channel::Fast } else { Channel::Fat };
                let i = channel.index();
                counters[i] += 1;
                let after = last[channel.other().index()];
                last[i] = Some(counters[i]);
                if *luck > 0 {
                    let arrived = Arrived { channel, number: counters[i], after, packet: k as u32 };
                    ways[i].push_back((k + if *is_fast { 0 } else { skew }, arrived));
                }
            }
            let mut r = Resequencer::new(Duration::from_millis(1_000));
            let sent: usize = ways.iter().map(VecDeque::len).sum();
            let mut out = Vec::new();
            for now in 0..plan.len() + skew + 1 {
                for way in &mut ways {
                    while way.front().is_some_and(|(at, _)| *at <= now) {
                        if let Some((_, arrived)) = way.pop_front() {
                            out.extend(take(&mut r, now as u64, arrived));
                        }
                    }
                }
            }
            prop_assert!(out.is_sorted(), "{out:?}");
            r.handle_timeout(ms(1_000_000));
            out.extend(std::iter::from_fn(|| r.poll_output()));
            prop_assert_eq!(out.len(), sent);
        }
    }
}
