//! Ours: a packet goes where it is of use soonest, unless that costs those behind it more.
//!
//! Of use is a packet when everything before it in its flow has arrived too. What it gains over the fast channel is
//! weighed by what it is for, and must be worth what it costs: the time that it keeps the channel from others, times how
//! many of them there are of late. The rule is that of DChannel (NSDI 2023, reward against cost) with a price that
//! follows the queue. Weights and factors are ours and first values: but for full packets, which the lab showed to fill the
//! fast channel, none was tuned.

use super::{Choice, Facts, Flow, Policy, View};
use crate::steer::packet::Kind;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Value;

/// Cost of a packet's time on the fast channel, in parts of it. Ours.
const COST: f64 = 0.75;
/// Names and handshakes of TCP: everything of a page waits for them. Ours.
const OPENING: f64 = 3.0;
/// Handshakes of TLS and requests: the first data of a side in a turn. Ours.
const ASKING: f64 = 2.0;

/// Bytes of a turn that are asking; whoever says more in a turn is sending something. Ours.
const ASKS: u64 = 4_000;

/// What a packet is for: its weight, its level, and the word for it.
fn class(packet: &Facts, flow: &Flow) -> (f64, u8, &'static str) {
    match packet.kind {
        Kind::Open | Kind::Dns => (OPENING, 0, "opening"),
        Kind::Data if flow.turns <= 3 && flow.burst <= ASKS => (ASKING, 1, "asking"),
        Kind::Data | Kind::Datagram => (1.0, 1, "sooner in order"),
        Kind::Ack | Kind::Close => (1.0, 2, "acknowledging"),
    }
}

impl Policy for Value {
    fn level(&self, packet: &Facts, flow: &Flow) -> u8 {
        class(packet, flow).1
    }

    fn choose(&self, view: &View<'_>) -> Choice {
        // As the paper has it: what is as large belongs to a transfer, and fills the channel before it is over.
        if !view.is_small() {
            return Choice::fat("full size");
        }
        let gain = view.gain().as_secs_f64();
        if gain <= 0.0 {
            return Choice::fat("no sooner");
        }
        let (weight, _, why) = class(view.packet, view.flow);
        let cost = COST * view.price * view.outlooks[1].transmit.as_secs_f64();
        if gain * weight <= cost {
            return Choice::fat("not worth its price");
        }
        Choice::fast(why)
    }
}
