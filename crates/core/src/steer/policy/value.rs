//! Ours: a packet goes where it is of use soonest, unless that costs those behind it more.
//!
//! Of use is a packet when everything before it in its flow has arrived too, and a full one when the message has that it is
//! a part of: handshakes of TLS and requests have a length that is known beforehand. Of a response nobody knows it; its
//! full packets are never fast (the lab: beside a fat channel of 150 ms pages lose by it what single packets gain). What a packet gains over the fast channel is weighed by what it is for, and must be worth what it costs:
//! the time that it, or its message, keeps the channel from others, times how many of them there are of late. The rule is that of
//! DChannel (NSDI 2023, reward against cost) with a price that follows the queue. Weights and factors are ours and first
//! values; none was tuned.

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
/// A client's half of a handshake of TLS with a hybrid key share, or a request that does not fit into a packet.
const HELLO: u64 = 2_000;
/// The server's.
const CERTIFICATES: u64 = 4_000;

/// Datagrams of so many bytes are a part of more: QUIC's are at least 1228 with their headers, whatever the MTU is, and those of
/// calls and games are far less.
const LARGE_DATAGRAM: usize = 1_000;

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

/// Bytes that are expected of a handshake or a request from this full packet on, itself included.
fn ahead(packet: &Facts, flow: &Flow) -> u64 {
    let usual = if packet.tls && flow.turns == 2 { CERTIFICATES } else { HELLO };
    let before = flow.burst.saturating_sub(packet.payload as u64);
    usual.saturating_sub(before).max(packet.len as u64)
}

impl Policy for Value {
    fn level(&self, packet: &Facts, flow: &Flow) -> u8 {
        class(packet, flow).1
    }

    fn choose(&self, view: &View<'_>) -> Choice {
        let (weight, _, why) = class(view.packet, view.flow);
        let [fat, fast] = view.outlooks.map(|outlook| outlook.transmit.as_secs_f64());
        let large = is_large(view);
        if large && !(view.packet.kind == Kind::Data && asks(view.packet, view.flow)) {
            return Choice::fat("full size");
        }
        let (gain, takes) = if large {
            let more = ahead(view.packet, view.flow) as f64 / view.packet.len.max(1) as f64 - 1.0;
            // The rest of the message comes behind it, whichever way both go.
            (view.gain().as_secs_f64() - more * (fast - fat), fast * (1.0 + more))
        } else {
            (view.gain().as_secs_f64(), fast)
        };
        if gain <= 0.0 {
            return Choice::fat(if large { "full size" } else { "no sooner" });
        }
        if gain * weight <= COST * view.price * takes {
            return Choice::fat("not worth its price");
        }
        Choice::fast(why)
    }
}
