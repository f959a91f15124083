//! The way out of a steerer: what it asks of the world ([`Output`]), how a channel stands for a packet, a packet's number and place on
//! its channel, what goes with it, and the account of it all.
//!
//! What never happens here: a channel is chosen.

use super::cap::Use;
use super::channel::{Channel, ChannelSettings, Model};
use super::flow::Flow;
use super::packet::{Facts, Kind};
use super::queue::Waiting;
use super::{compress, tally::Tally};
use crate::time::Instant;
use std::collections::VecDeque;

/// A packet's place: what the other end needs to keep the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number on its channel, from 1.
    pub number: u64,
    /// The number of the last packet of its flow on the other channel, if it must not overtake that one.
    pub after: Option<u64>,
}

/// What a packet acknowledges is not to arrive as soon as it does: what came over the fast channel is acknowledged over the fat
/// one, or its sender takes the round trip of the fast channel for that of the path (docs/decisions/0033).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The packet is to acknowledge this, which is less than it does.
    pub back_to: u32,
    /// Something that acknowledges what it did, and nothing else, is to be given to the fat channel at this place; nothing,
    /// if that is on its way already.
    pub order: Option<Order>,
}

/// What a steerer asks of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// A packet is to be given to a channel.
    Send {
        /// Which one.
        channel: Channel,
        /// Its place.
        order: Order,
        /// What it acknowledges goes apart.
        apart: Option<Apart>,
        /// It is to be given to the other channel too, under this number, as a copy: whichever comes first is of use.
        copy: Option<u64>,
        /// What is known of it.
        facts: Facts,
        /// The packet.
        packet: P,
        /// Why it takes this channel.
        why: &'static str,
    },
    /// A probe is to be given to a channel.
    Probe {
        /// Which one.
        channel: Channel,
        /// Its number, which is to come back.
        number: u16,
    },
    /// A packet that was given to the other channel, which is lost, is to be given to this one as a copy of it.
    Again {
        /// Which one.
        channel: Channel,
        /// Its number there.
        number: u64,
        /// Its number on the other channel.
        of: u64,
        /// What is known of it.
        facts: Facts,
        /// The packet.
        packet: P,
    },
    /// A packet was given up: it was replaced by a newer one, or there was no room.
    Drop(P),
}

/// How a channel stands for a packet, the better first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// The policy may choose it.
    Open,
    /// It is for the need.
    Kept,
    Dead,
    /// It must not be used.
    Forbidden,
}

/// See the module.
pub(super) struct Outlet<P> {
    pub channels: [Model; 2],
    pub outputs: VecDeque<Output<P>>,
    pub tally: Tally,
}

/// Whether packets of this kind keep an order: pure acknowledgements and openings have none.
pub(super) fn is_ordered(kind: Kind) -> bool {
    !matches!(kind, Kind::Ack | Kind::Open)
}

/// Bytes that a packet is on a channel.
pub(super) fn bytes_on(channel: &ChannelSettings, facts: &Facts) -> usize {
    let with_options = facts.ack.is_some() && facts.kind != Kind::Open;
    let saved = if channel.compresses && with_options { compress::SAVED[usize::from(facts.v6)] } else { 0 };
    (facts.len + channel.overhead).saturating_sub(saved)
}

/// A packet that so many others of its channel have followed has come, or never will. Ours: a quarter of 65536.
const LONG_COME: u64 = 1 << 14;

impl<P> Outlet<P> {
    pub fn new(channels: [Model; 2]) -> Self {
        Self { channels, outputs: VecDeque::new(), tally: Tally::default() }
    }

    /// How a channel stands for a packet.
    pub fn standing(&self, channel: Channel, facts: &Facts) -> Standing {
        let model = &self.channels[channel.index()];
        match model.uses() {
            Use::Never => Standing::Forbidden,
            _ if !model.alive => Standing::Dead,
            uses if facts.may_take(uses) => Standing::Open,
            _ => Standing::Kept,
        }
    }

    /// Gives a packet of `flow` to a channel, which is kept busy for so long as if it had this share of its rate.
    pub fn give(&mut self, now: Instant, flow: &mut Flow, channel: Channel, waiting: Waiting<P>, share: f64) {
        let Waiting { facts, packet, back_to, twice, replaced, why, gained, .. } = waiting;
        let (own, other) = (channel.index(), channel.other().index());
        let apart =
            back_to.filter(|_| channel == Channel::Fast).map(|back_to| self.set_apart(now, flow, &facts, back_to));
        let number = self.take(now, channel, &facts, share);
        let (mut after, ordered) = (None, is_ordered(facts.kind));
        if ordered {
            // No packet waits for what a dead channel has, or for what came long ago: sixteen bits of a number travel, and half a
            // circle back would be read as ahead.
            let Model { counter, alive, .. } = self.channels[other];
            after = Some(flow.last[other]).filter(|last| *last > 0 && alive && counter - *last < LONG_COME);
            flow.last[own] = number;
        }
        // What one acknowledgement says the next one says too, unless it is all that is left of many.
        let twice = twice && (facts.kind != Kind::Ack || replaced > 0);
        let twice = twice && channel == Channel::Fast && self.standing(channel.other(), &facts) == Standing::Open;
        let copy = twice.then(|| self.take(now, channel.other(), &facts, 1.0));
        self.tally.twice += u64::from(twice);
        self.tally.count(why, channel, facts.len, gained);
        self.outputs.push_back(Output::Send {
            channel,
            order: Order { number, after },
            apart,
            copy,
            facts,
            packet,
            why,
        });
    }

    /// The number of a packet on a channel.
    pub fn take(&mut self, now: Instant, channel: Channel, facts: &Facts, share: f64) -> u64 {
        let model = &mut self.channels[channel.index()];
        model.take(now, bytes_on(&model.settings, facts), share)
    }

    /// What a packet acknowledges takes the fat channel, unless it is on its way there.
    fn set_apart(&mut self, now: Instant, flow: &mut Flow, facts: &Facts, back_to: u32) -> Apart {
        let Some(ack) = facts.ack.filter(|ack| !flow.has_acknowledged(*ack)) else {
            return Apart { back_to, order: None };
        };
        let fat = &mut self.channels[Channel::Fat.index()];
        let bytes = facts.len.saturating_sub(facts.payload) + fat.settings.overhead;
        flow.acknowledges(ack, now + fat.outlook(now, 0, bytes).takes());
        self.tally.apart += 1;
        let number = fat.take(now, bytes, 1.0);
        Apart { back_to, order: Some(Order { number, after: None }) }
    }

    /// A packet is given up.
    pub fn give_up(&mut self, packet: P) {
        self.outputs.push_back(Output::Drop(packet));
    }
}

#[cfg(test)]
mod tests {
    use super::super::compress::SAVED;
    use super::super::packet::FlowKey;
    use super::*;
    use crate::time::Duration;

    #[test]
    fn only_what_is_compressed_counts_for_less_on_a_channel() {
        let on = |compresses, kind, ack, v6| {
            let uses = Use::Primary;
            let channel =
                ChannelSettings { rate: 1, delay: Duration::ZERO, loss: None, overhead: 60, compresses, uses };
            bytes_on(&channel, &Facts { len: 100, ack, v6, ..Facts::of(FlowKey(1), kind) })
        };
        assert_eq!(on(true, Kind::Ack, Some(1), false), 160 - SAVED[0]);
        assert_eq!(on(true, Kind::Data, Some(1), true), 160 - SAVED[1]);
        assert_eq!(on(true, Kind::Open, Some(1), false), 160, "an opening has options of its own");
        assert_eq!(on(true, Kind::Datagram, None, false), 160);
        assert_eq!(on(false, Kind::Ack, Some(1), false), 160);
    }
}
