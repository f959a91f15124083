//! Ours: a packet goes where it is of use soonest, unless that costs those behind it more.
//!
//! Of use is a packet when everything before it in its flow has arrived too. Full packets are never fast: more of the same
//! message follows, and a download whose first packets came over the short way takes the long one for a queue
//! (docs/decisions/0029). What a packet gains over the fast channel is lessened by what it would cost to lose it there, weighed
//! by what it is for, and must be worth what it costs: the time that it keeps the channel from others, times how many of
//! them there are of late. The rule is that of DChannel (NSDI 2023, reward
//! against cost) with a price that follows the queue. Weights and factors are ours and first values.

use super::{Choice, Facts, Flow, Policy, View};
use crate::steer::packet::Kind;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Value;

/// Cost of a packet's time on the fast channel, in parts of it. Ours.
const COST: f64 = 0.75;
/// Names and handshakes of TCP: everything of a page waits for them. Ours.
const OPENING: f64 = 3.0;
/// Handshakes of TLS and requests. Ours.
const ASKING: f64 = 2.0;

/// Bytes of a turn that are asking; whoever says more in a turn is sending something. Ours: a server's half of a handshake with
/// two certificates and a hybrid key share has about 4 kB.
const ASKS: u64 = 5_000;

/// Datagrams of so many bytes are a part of more: QUIC's are at least 1228 with their headers, whatever the MTU is, and those of
/// calls and games are far less.
const LARGE_DATAGRAM: usize = 1_000;

/// Seconds until a lost SYN is sent again: RFC 6298, section 2.1. A question to a DNS server takes as long or longer.
const OPENS_AGAIN: f64 = 1.0;
/// Seconds until the lost end of a message is sent again: Linux's TCP_RTO_MIN, the round trip left out.
const SAYS_AGAIN: f64 = 0.2;
/// What a datagram that never comes is worth waiting for, in seconds: a call has no use for it later than that (ITU-T G.114).
const MISSED: f64 = 0.15;

/// Whether the data of this turn is a handshake or a request: a client speaks in odd turns, and a server answers the first
/// one with its half of the handshake if there is one.
fn asks(packet: &Facts, flow: &Flow) -> bool {
    flow.burst <= ASKS && (flow.turns % 2 == 1 || packet.tls && flow.turns == 2)
}

/// What a packet is for: its weight, its level, and the word for it.
fn class(packet: &Facts, flow: &Flow) -> (f64, u8, &'static str) {
    match packet.kind {
        Kind::Open | Kind::Dns => (OPENING, 0, "opening"),
        Kind::Data if asks(packet, flow) => (ASKING, 1, "asking"),
        Kind::Data | Kind::Datagram => (1.0, 1, "sooner in order"),
        Kind::Ack | Kind::Close => (1.0, 2, "acknowledging"),
    }
}

/// Whether more of the same message is likely to follow.
fn is_large(view: &View<'_>) -> bool {
    match view.packet.kind {
        Kind::Datagram => view.packet.len >= LARGE_DATAGRAM,
        _ => !view.is_small(),
    }
}

/// Seconds that it costs to lose a packet.
fn lost(kind: Kind) -> f64 {
    match kind {
        Kind::Open | Kind::Dns => OPENS_AGAIN,
        Kind::Data => SAYS_AGAIN,
        Kind::Datagram => MISSED,
        // The next one says the same.
        Kind::Ack | Kind::Close => 0.0,
    }
}

impl Policy for Value {
    fn level(&self, packet: &Facts, flow: &Flow) -> u8 {
        class(packet, flow).1
    }

    fn choose(&self, view: &View<'_>) -> Choice {
        let (weight, _, why) = class(view.packet, view.flow);
        let [fat, fast] = view.outlooks;
        if is_large(view) {
            return Choice::fat("full size");
        }
        let gain = view.gain().as_secs_f64();
        if gain <= 0.0 {
            return Choice::fat("no sooner");
        }
        let gain = gain - (fast.loss - fat.loss).max(0.0) * lost(view.packet.kind);
        if gain <= 0.0 {
            return Choice::fat("too likely to be lost");
        }
        if gain * weight <= COST * view.price * fast.transmit.as_secs_f64() {
            return Choice::fat("not worth its price");
        }
        Choice::fast(why)
    }
}
