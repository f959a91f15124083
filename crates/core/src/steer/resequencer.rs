//! The receiving half: no packet overtakes an earlier one of its flow that was sent over the other channel.
//!
//! Each packet has a number on its channel, and says which packet of the other channel was the last of its flow before it
//! ([`super::Order`]). It is held until that one is there. A channel keeps its order, so once a later packet of the other channel
//! has come, the missing one is lost and is not waited for any longer: there is a time limit only for a channel that has
//! gone quiet. Of a packet that was sent over both channels the first copy goes on.
//! What never happens here: a packet that follows no other is held, or one is held twice.

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
    /// It is a copy: those of the packet of the other channel that says the same.
    pub copy_of: Option<u16>,
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
    /// Packets that had come over the other channel before.
    pub twice: u64,
}

/// Numbers of a channel of which is known whether they were noted.
const NOTED: u64 = 1_024;

/// Which of a channel's last numbers were noted.
#[derive(Debug)]
struct Notes {
    highest: u64,
    bits: [u64; (NOTED / 64) as usize],
}

impl Notes {
    const NONE: Self = Self { highest: 0, bits: [0; (NOTED / 64) as usize] };

    fn place(number: u64) -> (usize, u64) {
        ((number % NOTED / 64) as usize, 1 << (number % 64))
    }

    /// Whether `number` was noted; what is too old to be known was not.
    fn has(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        number <= self.highest && self.highest - number < NOTED && self.bits[word] & bit != 0
    }

    fn note(&mut self, number: u64) {
        if number > self.highest {
            // What was there is too old from now on.
            for between in (self.highest + 1..=number).rev().take(NOTED as usize) {
                let (word, bit) = Self::place(between);
                self.bits[word] &= !bit;
            }
            self.highest = number;
        } else if self.highest - number >= NOTED {
            return;
        }
        let (word, bit) = Self::place(number);
        self.bits[word] |= bit;
    }
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
    /// By channel, what has come, and what is not to come any more because its copy has.
    come: [Notes; 2],
    copied: [Notes; 2],
    ready: VecDeque<P>,
    tally: Held,
}

/// The number with these last bits that is nearest to `near`; while nothing has come (`near` is 0) the other end may be anywhere, since it
/// does not begin anew with this one.
fn extend(near: u64, low: u16) -> u64 {
    if near == 0 {
        return if low == 0 { 1 << 16 } else { low.into() };
    }
    near.saturating_add_signed(i64::from(low.wrapping_sub(near as u16) as i16))
}

impl<P> Resequencer<P> {
    /// No packet is held for longer than `hold`.
    pub fn new(hold: Duration) -> Self {
        Self {
            highest: [0; 2],
            waiting: [BTreeMap::new(), BTreeMap::new()],
            due: BTreeSet::new(),
            order: 0,
            hold,
            come: [Notes::NONE; 2],
            copied: [Notes::NONE; 2],
            ready: VecDeque::new(),
            tally: Held::default(),
        }
    }

    /// From now on no packet is held for longer than `hold`.
    pub fn set_hold(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// Whether what says the same as this number of `channel` has already arrived over the other one: the second one is dropped.
    /// `copy_of` as in [`Arrived`].
    pub fn has_come(&self, channel: Channel, number: u16, copy_of: Option<u16>) -> bool {
        let other = channel.other().index();
        copy_of.map_or_else(
            || self.copied[channel.index()].has(extend(self.highest[channel.index()], number)),
            |twin| self.come[other].has(extend(self.highest[other], twin)),
        )
    }

    /// The other end has started its numbers again. Packets that are held are released.
    pub fn reset(&mut self) {
        for channel in Channel::ALL {
            self.highest[channel.index()] = u64::MAX;
            self.release(channel, u64::MAX);
            self.highest[channel.index()] = 0;
        }
        self.come = [Notes::NONE; 2];
        self.copied = [Notes::NONE; 2];
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

    /// Releases the packets that wait for exactly this number of `of`: a copy of it has come.
    fn release_behind(&mut self, of: Channel, number: u64) {
        let waiting = &mut self.waiting[of.index()];
        while let Some(key) = waiting.range((number, 0)..=(number, u64::MAX)).next().map(|(key, _)| *key) {
            if let Some((due, packet)) = waiting.remove(&key) {
                self.due.remove(&(due, key.1, of.index(), key.0));
                self.ready.push_back(packet);
            }
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
        let Arrived { channel, number, after, copy_of, packet } = arrived;
        let other = channel.other();
        let known = self.highest[channel.index()];
        let number = extend(known, number);
        if number > known {
            let before = if known == 0 { number } else { known + 1 };
            self.tally.missing[channel.index()] += number - before;
            self.highest[channel.index()] = number;
        } else {
            self.tally.missing[channel.index()] = self.tally.missing[channel.index()].saturating_sub(1);
        }
        // Packets that waited for an earlier number waited without result.
        self.release(channel, number.saturating_sub(1));
        self.come[channel.index()].note(number);
        if let Some(twin) = copy_of.map(|low| extend(self.highest[other.index()], low)) {
            if self.come[other.index()].has(twin) {
                self.tally.twice += 1;
            } else {
                self.come[other.index()].note(twin);
                self.copied[other.index()].note(twin);
                self.ready.push_back(packet);
                self.release_behind(other, twin);
            }
            self.release(channel, self.highest[channel.index()]);
            return;
        }
        if self.copied[channel.index()].has(number) {
            self.tally.twice += 1;
            self.release(channel, self.highest[channel.index()]);
            return;
        }
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
        self.due.first().map(|(at, ..)| Deadline { at: *at, why: "waiting for order has timed out" })
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
        Arrived { channel: Channel::Fat, number, after, copy_of: None, packet }
    }

    fn fast(number: u16, after: Option<u16>, packet: u32) -> Arrived<u32> {
        Arrived { channel: Channel::Fast, number, after, copy_of: None, packet }
    }

    fn take(r: &mut Resequencer<u32>, at: u64, arrived: Arrived<u32>) -> Vec<u32> {
        r.handle_input(ms(at), arrived);
        std::iter::from_fn(|| r.poll_output()).collect()
    }

    #[test]
    fn a_packet_waits_for_what_was_sent_before_it_over_the_other_channel() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        assert_eq!(take(&mut r, 0, fast(1, Some(2), 30)), []);
        // Of another flow, which waits for no other packet.
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
        // Number 2 is lost; 3 comes, and what waited for 2 goes before it.
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
        r.set_hold(Duration::from_millis(20));
        assert_eq!(take(&mut r, 100, fast(2, Some(2), 40)), []);
        assert_eq!((r.poll_timeout().map(|d| d.at), r.tally().held), (Some(ms(120)), 2));
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
    fn who_begins_anew_takes_the_other_ends_numbers_as_they_are() {
        for begin in [1u32, 32_767, 32_768, 40_000, 65_536] {
            let mut r = Resequencer::new(Duration::from_millis(50));
            let low = |n: u32| (begin + n) as u16;
            // A copy first: it is of that number, and of no other.
            assert_eq!(take(&mut r, 0, Arrived { copy_of: Some(low(0)), ..fast(1, None, 7) }), [7]);
            assert_eq!(take(&mut r, 0, fat(low(0), None, 7)), [], "{begin}");
            for n in 1..100 {
                assert_eq!(take(&mut r, 0, fat(low(n), None, n)), [n], "{begin}");
            }
            assert_eq!(take(&mut r, 0, fast(2, Some(low(100)), 8)), []);
            assert_eq!(take(&mut r, 0, fat(low(100), None, 9)), [9, 8]);
            assert_eq!(r.tally().missing, [0, 0], "{begin}");
        }
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

    fn copy(number: u16, of: u16, packet: u32) -> Arrived<u32> {
        Arrived { copy_of: Some(of), ..fat(number, None, packet) }
    }

    #[test]
    fn of_two_that_say_the_same_the_first_goes_on_and_the_second_does_not() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        assert_eq!(take(&mut r, 0, fast(1, None, 10)), [10]);
        let has_come = |r: &Resequencer<u32>| {
            (
                r.has_come(Channel::Fat, 1, Some(1)),
                r.has_come(Channel::Fat, 2, Some(3)),
                r.has_come(Channel::Fast, 3, None),
            )
        };
        assert_eq!(has_come(&r), (true, false, false));
        assert_eq!(take(&mut r, 12, copy(1, 1, 10)), []);
        // The fast one of these is late, that of the others is lost.
        assert_eq!(take(&mut r, 13, copy(2, 3, 30)), [30]);
        assert_eq!(has_come(&r), (true, true, true));
        assert_eq!(take(&mut r, 14, fast(2, None, 20)), [20]);
        assert_eq!(take(&mut r, 15, fast(3, None, 30)), []);
        assert_eq!(take(&mut r, 16, fast(5, None, 50)), [50]);
        assert_eq!(take(&mut r, 17, copy(3, 4, 40)), [40]);
        assert_eq!((r.tally().twice, r.tally().missing), (2, [0, 1]));
        // After a new beginning numbers mean something else.
        r.reset();
        assert_eq!(take(&mut r, 20, fast(3, None, 60)), [60]);
    }

    #[test]
    fn who_must_not_overtake_what_is_lost_goes_with_its_copy() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        assert_eq!(take(&mut r, 0, fast(1, None, 10)), [10]);
        // Number 2 of the fast channel is lost, and nothing of its flow overtakes its copy.
        assert_eq!(take(&mut r, 12, fat(2, Some(2), 30)), []);
        assert_eq!(take(&mut r, 12, fat(3, Some(3), 40)), []);
        assert_eq!(take(&mut r, 13, copy(4, 2, 20)), [20, 30]);
        assert_eq!((r.poll_timeout().map(|d| d.at), take(&mut r, 14, fast(3, None, 35))), (Some(ms(62)), vec![35, 40]));
    }

    #[test]
    fn what_was_noted_long_ago_is_not_known_and_numbers_go_round() {
        let mut notes = Notes::NONE;
        for number in (0..5_000).filter(|n| n % 3 == 0) {
            notes.note(number);
        }
        assert!((4_000..5_000).all(|n| notes.has(n) == (n % 3 == 0)) && !notes.has(3_000) && !notes.has(6_000));
        notes.note(3_000);
        assert!(!notes.has(3_000 + NOTED) && !notes.has(3_000));
        notes.note(1_000_000);
        assert!(notes.has(1_000_000) && (1_000_000 - NOTED + 1..1_000_000).all(|n| !notes.has(n)));
    }

    #[test]
    fn a_number_is_the_nearest_with_its_last_bits_and_before_the_first_all_are_possible() {
        assert_eq!(extend(0, 5), 5);
        // Not zero: numbers below it may still come.
        assert_eq!(extend(0, 0), 1 << 16);
        assert_eq!(extend(1 << 16, u16::MAX), (1 << 16) - 1);
        assert_eq!(extend(1 << 16, 3), (1 << 16) + 3);
        assert_eq!(extend(40_000, 40_000u16.wrapping_add(32_767)), 72_767);
        assert_eq!(extend(40_000, 40_000 - 32_000), 8_000);
    }

    #[test]
    fn beyond_a_number_of_held_packets_the_one_that_has_waited_longest_goes() {
        let mut r = Resequencer::new(Duration::from_millis(50));
        for n in 1..=MOST as u16 {
            assert_eq!(take(&mut r, 0, fast(n, Some(9), n.into())), []);
        }
        for n in [1, 2] {
            assert_eq!(take(&mut r, 1, fast(MOST as u16 + n, Some(9), 0)), [u32::from(n)]);
        }
        assert_eq!((r.tally().held, r.tally().impatient), (MOST as u64 + 2, 2));
    }

    proptest! {
        /// Everything is sent twice, each channel keeps its order and loses some: whatever comes at all comes out once.
        #[test]
        fn a_copy_is_never_seen(plan in proptest::collection::vec(any::<[bool; 2]>(), 1..200), skew in -30isize..30) {
            let mut ways: [VecDeque<(isize, Arrived<u32>)>; 2] = Default::default();
            for (k, comes) in plan.iter().enumerate() {
                let number = k as u16 + 1;
                let late = k as isize + skew;
                if comes[0] {
                    ways[0].push_back((late, copy(number, number, k as u32)));
                }
                if comes[1] {
                    ways[1].push_back((k as isize, fast(number, None, k as u32)));
                }
            }
            let mut r = Resequencer::new(Duration::from_millis(1_000));
            let mut out = Vec::new();
            for now in -30..plan.len() as isize + 31 {
                for way in &mut ways {
                    while way.front().is_some_and(|(at, _)| *at <= now) {
                        if let Some((_, arrived)) = way.pop_front() {
                            out.extend(take(&mut r, 0, arrived));
                        }
                    }
                }
            }
            out.sort_unstable();
            let came = (0..plan.len() as u32).filter(|k| plan[*k as usize].contains(&true));
            prop_assert_eq!(out, came.collect::<Vec<_>>());
        }

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
                    let arrived = Arrived { channel, number: counters[i], after, copy_of: None, packet: k as u32 };
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
