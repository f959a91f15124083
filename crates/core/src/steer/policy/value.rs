//! Ours: a packet goes where it is of use soonest, unless that costs the packets behind it more.
//!
//! A packet is of use when everything before it in its flow has arrived too; a full one when its whole message has:
//! handshakes of TLS and requests have a length that is known beforehand. A response's length is unknown, and its full
//! packets are never fast; nor are those of any message where the fast channel loses packets (the lab: what a lost part of
//! a handshake costs is more than what hurrying it gains). What is small and dear to lose takes both, a lossy fast channel and
//! the fat one. What a packet gains over the fast channel is lessened by what it
//! would cost to lose it there, weighed by what it is for, and must be worth what it costs: the time that it, or its message,
//! keeps the channel from others, times how many of them there are of late. What tells of a loss takes the fat channel, where
//! no acknowledgement is replaced or overtaken by the next; so does what acknowledges fast packets, which is the
//! steerer's to do (docs/decisions/0033). The rule is that of DChannel (NSDI 2023, reward
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

/// Bytes of a turn that are asking; a side that says more in a turn is sending something. Ours: a server's half of a handshake with
/// two certificates and a hybrid key share has about 4 kB.
const ASKS: u32 = 5_000;

/// A client's half of a handshake of TLS with a hybrid key share, or a request that does not fit into a packet.
const HELLO: u32 = 2_000;
/// The server's.
const CERTIFICATES: u32 = 4_000;

/// Datagrams of so many bytes are a part of more: QUIC's are at least 1228 with their headers, whatever the MTU is, and those of
/// calls and games are far less.
const LARGE_DATAGRAM: usize = 1_000;

/// A channel that loses less loses nothing. Ours: of a handshake of four packets less than one in two hundred is hit.
const CLEAN: f64 = 0.001;
/// Seconds until a lost SYN is retransmitted: RFC 6298, section 2.1. A question to a DNS server takes as long or longer.
const OPENS_AGAIN: f64 = 1.0;
/// Seconds until the lost end of a message is retransmitted: Linux's TCP_RTO_MIN, the round trip left out.
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
        Kind::Data | Kind::Datagram => (1.0, 1, "arrives in order sooner"),
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
fn ahead(packet: &Facts, flow: &Flow) -> u32 {
    let usual = if packet.tls && flow.turns == 2 { CERTIFICATES } else { HELLO };
    let before = flow.burst.saturating_sub(packet.payload as u32);
    usual.saturating_sub(before).max(packet.len as u32)
}

/// Seconds that it costs to lose a packet.
fn lost(kind: Kind) -> f64 {
    match kind {
        Kind::Open | Kind::Dns => OPENS_AGAIN,
        Kind::Data => SAYS_AGAIN,
        Kind::Datagram => MISSED,
        // The next one says the same. The last one of a window is retransmitted with its window, which the copy covers.
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
        let large = is_large(view);
        let clean = fast.loss < CLEAN;
        let hurried = view.packet.kind == Kind::Data && asks(view.packet, view.flow) && clean;
        if large && !hurried {
            return Choice::fat("full size");
        }
        if view.packet.kind == Kind::Ack && view.packet.sacks {
            return Choice::fat("repairs a loss");
        }
        // The rest of the message comes behind it, whichever way both go.
        let more =
            if large { f64::from(ahead(view.packet, view.flow)) / view.packet.len.max(1) as f64 - 1.0 } else { 0.0 };
        let [fat_takes, takes] = [fat, fast].map(|outlook| outlook.transmit.as_secs_f64());
        let gain = view.gain().as_secs_f64() - more * (takes - fat_takes);
        if gain <= 0.0 {
            return Choice::fat(if large { "full size" } else { "no sooner" });
        }
        let risk = (fast.loss - fat.loss).clamp(0.0, 1.0);
        let cost = risk * lost(view.packet.kind) * (1.0 + more);
        // A copy over the fat channel, if that takes less than what it saves: then what is lost has lost its gain and no more.
        let twice = !clean && cost > fat_takes;
        // An acknowledgement costs nothing to lose, but what is left of many does.
        let left = view.packet.kind == Kind::Ack && !clean && risk * SAYS_AGAIN > fat_takes;
        let gain = if twice { gain * (1.0 - risk) } else { gain - cost };
        if gain <= 0.0 {
            return Choice::fat("too likely to be lost");
        }
        if gain * weight <= COST * view.price * takes * (1.0 + more) {
            return Choice::fat("no gain");
        }
        Choice { twice: twice || left, ..Choice::fast(why) }
    }
}
