//! What is kept of a flow: a little, and of a bounded number of them.

use super::channel::Channel;
use super::packet::{Facts, FlowKey};
use crate::time::Instant;
use crate::wire::ip::tcp;

/// One flow, as the end that steers one direction of it sees it. Kept small: of many flows each packet finds another one, out of
/// the processor's caches, and with its key it is one line of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Length of the packet before, in this direction; the paper's only state. Zero before the first one.
    pub previous: u32,
    /// Bytes of data in this direction since the other one spoke; no more are counted than there is room for.
    pub burst: u32,
    /// Everything sent so far has arrived in order by then, as predicted.
    pub arrives: Instant,
    /// Times that data has changed its direction: 1 while only the first speaker has spoken, so that in TLS 1.3 2 is the
    /// server's flight, 3 the first request and 4 its response. It stops at the last two numbers that there are, odd
    /// while the first speaker speaks.
    pub turns: u8,
    /// Whether the data before went in the direction that is steered here.
    pub ours: bool,
    /// What came last from the other end came over the fast channel, from number `from` on.
    pub(super) is_hurried: bool,
    /// Something of it was acknowledged over the fat one: `acknowledged`, which has arrived by `acknowledged_by`.
    pub(super) has_acknowledged: bool,
    pub(super) from: u32,
    pub(super) acknowledged: u32,
    pub(super) acknowledged_by: Instant,
    /// The last packet's number on each channel, from 1; zero while there was none.
    pub(super) last: [u64; 2],
    /// How many flows there had been when it was last asked for: [`Flows`].
    pub(super) seen: u32,
}

impl Flow {
    /// A packet of the other end was received over `channel`.
    pub(super) fn received(&mut self, facts: &Facts, channel: Channel) {
        if facts.payload == 0 || facts.ack.is_none() {
            return;
        }
        match (channel, self.is_hurried) {
            (Channel::Fast, false) => (self.is_hurried, self.from) = (true, facts.seq),
            // What is only retransmitted is older than what was hurried.
            (Channel::Fat, true) if tcp::before(self.from, facts.seq.wrapping_add(facts.payload as u32)) => {
                self.is_hurried = false;
            }
            _ => {}
        }
    }

    /// What a packet that arrives at `at` may acknowledge at most, if that is less than what it does: what came over the fast
    /// channel is acknowledged over the fat one.
    pub(super) fn may_acknowledge(&self, facts: &Facts, at: Instant) -> Option<u32> {
        let ack = facts.ack.filter(|_| self.is_hurried)?;
        let known = self.has_acknowledged && self.acknowledged_by <= at && tcp::before(self.from, self.acknowledged);
        let most = if known { self.acknowledged } else { self.from };
        tcp::before(most, ack).then_some(most)
    }

    /// `ack` is on its way over the fat channel, and arrives at `at`.
    pub(super) fn acknowledges(&mut self, ack: u32, at: Instant) {
        if !self.has_acknowledged || tcp::before(self.acknowledged, ack) {
            (self.has_acknowledged, self.acknowledged, self.acknowledged_by) = (true, ack, at);
        }
    }

    /// Whether `ack` is on its way over the fat channel already.
    pub(super) fn has_acknowledged(&self, ack: u32) -> bool {
        self.has_acknowledged && !tcp::before(self.acknowledged, ack)
    }

    /// Data goes by, in the direction that is steered (`ours`) or in the other one.
    pub(super) fn speaks(&mut self, facts: &Facts, ours: bool) {
        if facts.payload == 0 {
            return;
        }
        if self.turns == 0 || self.ours != ours {
            // Whether the number is odd says which side speaks, however many turns there are.
            self.turns = self.turns.checked_add(1).unwrap_or(u8::MAX - 1);
            self.ours = ours;
            self.burst = 0;
        }
        if ours {
            self.burst = self.burst.saturating_add(facts.payload as u32);
        }
    }
}

/// A flow and whose it is: a line of the processor's caches.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Slot {
    key: FlowKey,
    flow: Flow,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// Flows that are remembered: one that has been quiet while this many others began is forgotten. More than a busy host has at once.
const REMEMBERED: u32 = 28_000;
/// Slots at first, and at most: more than twice as many as are remembered, so that most are found where they are looked for first.
const SLOTS: (usize, usize) = (1 << 10, 1 << 16);
/// A flow is in one of so many slots from its own one on.
const WINDOW: usize = 16;
/// The golden ratio of 64 bits (Knuth, volume 3, section 6.4): keys are hashes, but a simulation's are numbers.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The flows that are remembered: a table of slots, searched from a flow's own slot on. What never happens here: a slot becomes
/// empty again. So a flow that is not found before an empty slot is not in the table.
pub(super) struct Flows {
    slots: Vec<Slot>,
    /// Slots that are not empty.
    used: usize,
    /// Flows that there have been; never zero.
    begun: u32,
}

impl Default for Flows {
    fn default() -> Self {
        Self { slots: vec![Slot::default(); SLOTS.0], used: 0, begun: 1 }
    }
}

impl Flows {
    /// What is kept of the flow `key`; nothing yet, if it is new or was forgotten.
    #[inline]
    pub fn get(&mut self, key: FlowKey) -> &mut Flow {
        let at = self.find(key).unwrap_or_else(|| self.enter(key));
        let flow = &mut self.slots[at].flow;
        flow.seen = self.begun;
        flow
    }

    /// The slots in which a flow may be, its own one first.
    fn window(&self, key: FlowKey) -> impl Iterator<Item = usize> + use<> {
        let last = self.slots.len() - 1;
        let own = key.0.wrapping_mul(SPREAD) >> (64 - self.slots.len().trailing_zeros());
        (0..WINDOW).map(move |n| (own as usize + n) & last)
    }

    fn find(&self, key: FlowKey) -> Option<usize> {
        for at in self.window(key) {
            let Slot { key: of, flow } = &self.slots[at];
            match flow.seen {
                0 => return None,
                _ if *of == key => return Some(at),
                _ => {}
            }
        }
        None
    }

    /// Whether nothing of use is in a slot.
    fn is_free(&self, at: usize) -> bool {
        let seen = self.slots[at].flow.seen;
        seen == 0 || self.begun.wrapping_sub(seen) > REMEMBERED
    }

    /// A new flow takes the first free slot, or that of the flow that has been quiet for longest. Kept out of the way of packets of
    /// known flows.
    #[cold]
    fn enter(&mut self, key: FlowKey) -> usize {
        while self.slots.len() < SLOTS.1
            && (self.used * 2 >= self.slots.len() || !self.window(key).any(|at| self.is_free(at)))
        {
            self.grow();
        }
        self.begun = self.begun.wrapping_add(1).max(1);
        let free = self.window(key).find(|at| self.is_free(*at));
        let quiet = |at: &usize| std::cmp::Reverse(self.begun.wrapping_sub(self.slots[*at].flow.seen));
        let at = free.or_else(|| self.window(key).min_by_key(quiet)).unwrap_or(0);
        self.used += usize::from(self.slots[at].flow.seen == 0);
        self.slots[at] = Slot { key, flow: Flow::default() };
        at
    }

    fn grow(&mut self) {
        let twice = vec![Slot::default(); self.slots.len() * 2];
        let before = std::mem::replace(&mut self.slots, twice);
        self.used = 0;
        for slot in before.into_iter().filter(|slot| slot.flow.seen != 0) {
            let free = self.window(slot.key).find(|at| self.slots[*at].flow.seen == 0);
            if let Some(at) = free {
                self.slots[at] = slot;
                self.used += 1;
            }
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Room that is taken, in bytes.
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::packet::Kind;

    fn data(payload: usize) -> Facts {
        Facts { payload, len: payload + 52, ..Facts::of(FlowKey(1), Kind::Data) }
    }

    #[test]
    fn turns_count_who_speaks_and_acknowledgements_say_nothing() {
        let mut flow = Flow::default();
        flow.speaks(&data(500), true);
        flow.speaks(&data(0), false);
        assert_eq!((flow.turns, flow.burst), (1, 500));
        flow.speaks(&data(3000), false);
        flow.speaks(&data(400), true);
        flow.speaks(&data(400), true);
        assert_eq!((flow.turns, flow.burst), (3, 800));
    }

    #[test]
    fn odd_turns_are_the_first_speakers_however_many_there_are() {
        let mut flow = Flow::default();
        for n in 0..1_000 {
            flow.speaks(&data(1), n % 2 == 0);
            assert_eq!(flow.turns % 2 == 1, n % 2 == 0, "{n}");
        }
    }

    #[test]
    fn twenty_thousand_flows_are_known_in_far_less_than_60_megabytes_and_a_million_take_no_more_room() {
        let mut flows = Flows::default();
        for n in 0..20_000u64 {
            flows.get(key(n)).burst = n as u32;
        }
        assert_eq!(flows.len(), 20_000);
        assert!((0..20_000).all(|n| flows.get(key(n)).burst == n as u32));
        for n in 0..1_000_000 {
            flows.get(key(1_000_000 + n));
        }
        assert!(flows.len() <= SLOTS.1 && flows.bytes() < 10_000_000, "{} {}", flows.len(), flows.bytes());
        // Quiet flows make room, and no others.
        let of_late = 1_000_000 + 1_000_000 - 20_000..1_000_000 + 1_000_000;
        of_late.clone().for_each(|n| flows.get(key(n)).burst = n as u32);
        assert!(of_late.into_iter().all(|n| flows.get(key(n)).burst == n as u32));
        assert_eq!(flows.get(key(5)).burst, 0);
    }

    /// Keys as hashes are, and as a simulation numbers them.
    fn key(n: u64) -> FlowKey {
        FlowKey(if n.is_multiple_of(2) { n.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(31) } else { n })
    }

    #[test]
    fn flows_of_neighbouring_numbers_from_both_ends_do_not_meet() {
        let mut flows = Flows::default();
        let keys = (0..5_000u64).flat_map(|n| [n, n | 1 << 62, u64::MAX - n]);
        keys.clone().for_each(|n| flows.get(FlowKey(n)).burst = n as u32 ^ 0x55);
        assert!(keys.into_iter().all(|n| flows.get(FlowKey(n)).burst == n as u32 ^ 0x55));
    }

    #[test]
    fn who_speaks_again_is_not_forgotten_with_the_others() {
        let mut flows = Flows::default();
        flows.get(FlowKey(7)).burst = 9;
        for n in 0..100_000u64 {
            flows.get(FlowKey(1_000 + n));
            if n % 1_000 == 0 {
                assert_eq!(flows.get(FlowKey(7)).burst, 9);
            }
        }
    }

    #[test]
    fn the_table_doubles_when_half_of_it_is_taken_and_not_before() {
        let mut flows = Flows::default();
        let line = size_of::<Slot>();
        (0..512).for_each(|n| _ = flows.get(FlowKey(n)));
        assert_eq!((flows.len(), flows.bytes()), (512, SLOTS.0 * line));
        flows.get(FlowKey(512));
        assert_eq!((flows.len(), flows.bytes()), (513, 2 * SLOTS.0 * line));
    }

    #[test]
    fn only_what_is_newer_is_on_its_way_over_the_fat_channel_and_only_data_is_hurried() {
        let mut flow = Flow::default();
        assert!(!flow.has_acknowledged(0));
        // Half the circle from where numbers begin, and an older one behind it.
        flow.acknowledges(3_000_000_000, Instant::from_millis(5));
        flow.acknowledges(2_999_999_000, Instant::from_millis(9));
        assert!(flow.has_acknowledged(3_000_000_000) && !flow.has_acknowledged(3_000_000_001));
        assert_eq!(flow.acknowledged_by, Instant::from_millis(5));
        for nothing in [data(10), Facts { ack: Some(7), ..data(0) }] {
            flow.received(&nothing, Channel::Fast);
        }
        let says = Facts { ack: Some(5_000), ..data(0) };
        assert_eq!(flow.may_acknowledge(&says, Instant::ZERO), None);
        flow.received(&Facts { ack: Some(7), seq: 4_000, ..data(10) }, Channel::Fast);
        assert_eq!(flow.may_acknowledge(&says, Instant::ZERO), Some(4_000));
    }

    #[test]
    fn a_flow_whose_key_is_zero_is_one_as_others_are() {
        let mut flows = Flows::default();
        flows.get(FlowKey(0)).burst = 7;
        assert_eq!((flows.len(), flows.get(FlowKey(0)).burst), (1, 7));
    }
}
