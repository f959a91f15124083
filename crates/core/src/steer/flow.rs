//! What is kept of a flow: a little, and of a bounded number of them.

use super::channel::Channel;
use super::packet::Facts;
use crate::time::Instant;
use crate::wire::ip::tcp;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A flow, both directions of it: a keyed hash of addresses, ports and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey(pub u64);

/// One flow, as the end that steers one direction of it sees it. Kept small: of many flows each packet finds another one, out of
/// the processor's caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Length of the packet before, in this direction; the paper's only state.
    pub previous: Option<u32>,
    /// Everything sent so far has arrived in order by then, as predicted.
    pub arrives: Instant,
    /// Times that data has changed its direction: 1 while only the first speaker has spoken, so that in TLS 1.3 2 is the
    /// server's flight, 3 the first request and 4 its response. It stops at the last two numbers that there are, odd
    /// while the first speaker speaks.
    pub turns: u8,
    /// Whether the data before went in the direction that is steered here.
    pub ours: bool,
    /// Bytes of data in this direction since the other one spoke.
    pub burst: u64,
    /// The last packet's number on each channel, from 1; zero while there was none.
    pub(super) last: [u64; 2],
    /// What came last from the other end came over the fast channel, from this number on.
    pub(super) hurried: Option<u32>,
    /// What was acknowledged of it over the fat one, and when that has arrived.
    pub(super) told: Option<u32>,
    pub(super) told_by: Instant,
}

impl Flow {
    /// Data of the other end has come over `channel`.
    pub(super) fn heard(&mut self, facts: &Facts, channel: Channel) {
        if facts.payload == 0 || facts.ack.is_none() {
            return;
        }
        match (channel, self.hurried) {
            (Channel::Fast, None) => self.hurried = Some(facts.seq),
            // What is only sent again is older than what was hurried.
            (Channel::Fat, Some(from)) if tcp::before(from, facts.seq.wrapping_add(facts.payload as u32)) => {
                self.hurried = None;
            }
            _ => {}
        }
    }

    /// What a packet that arrives at `at` may acknowledge at most, if that is less than what it does: what came over the fast
    /// channel is acknowledged over the fat one.
    pub(super) fn may_acknowledge(&self, facts: &Facts, at: Instant) -> Option<u32> {
        let (from, ack) = (self.hurried?, facts.ack?);
        let known = self.told.filter(|_| self.told_by <= at);
        let most = known.filter(|told| tcp::before(from, *told)).unwrap_or(from);
        tcp::before(most, ack).then_some(most)
    }

    /// `ack` is on its way over the fat channel, and arrives at `at`.
    pub(super) fn tells(&mut self, ack: u32, at: Instant) {
        if self.told.is_none_or(|told| tcp::before(told, ack)) {
            (self.told, self.told_by) = (Some(ack), at);
        }
    }

    /// Whether `ack` is on its way over the fat channel already.
    pub(super) fn has_told(&self, ack: u32) -> bool {
        self.told.is_some_and(|told| !tcp::before(told, ack))
    }

    /// Data goes by, in the direction that is steered (`ours`) or in the other one.
    pub(super) fn speaks(&mut self, facts: &Facts, ours: bool) {
        if facts.payload == 0 {
            return;
        }
        if self.turns == 0 || self.ours != ours {
            // Who speaks stays legible from whether the number is odd, however many turns there are.
            self.turns = self.turns.checked_add(1).unwrap_or(u8::MAX - 1);
            self.ours = ours;
            self.burst = 0;
        }
        if ours {
            self.burst += facts.payload as u64;
        }
    }
}

/// A key is a hash already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

type Generation = HashMap<FlowKey, Flow, BuildHasherDefault<AsItIs>>;

/// Flows, the ones of late: who has been quiet while as many others spoke as there is room for is forgotten.
#[derive(Default)]
pub(super) struct Flows {
    young: Generation,
    old: Generation,
}

/// Flows of a generation; two of them are kept. More than a busy host has at once: a flow that changes its generation costs more
/// than one that is found.
const GENERATION: usize = 28_000;

impl Flows {
    pub fn get(&mut self, key: FlowKey) -> &mut Flow {
        let Self { young, old } = self;
        if young.len() >= GENERATION && !young.contains_key(&key) {
            // Both tables are used again: they are as large as they will be.
            std::mem::swap(young, old);
            young.clear();
        }
        young.entry(key).or_insert_with(|| old.remove(&key).unwrap_or_default())
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Room that is taken, in bytes: each slot of a table is an entry and a byte.
    pub fn bytes(&self) -> usize {
        let slot = size_of::<(FlowKey, Flow)>() + 1;
        // A table of hashbrown's is at most 7/8 full.
        (self.young.capacity() + self.old.capacity()) * slot * 8 / 7
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
            flows.get(FlowKey(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).burst = n;
        }
        assert_eq!(flows.len(), 20_000);
        assert_eq!(flows.get(FlowKey(5u64.wrapping_mul(0x9e37_79b9_7f4a_7c15))).burst, 5);
        for n in 0..1_000_000u64 {
            flows.get(FlowKey(!n));
        }
        assert!(flows.len() <= 2 * GENERATION && flows.bytes() < 10_000_000, "{} {}", flows.len(), flows.bytes());
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
}
