//! What the state of the path asks for. Ours, and the default.
//!
//! Clean: as `hedge`, with at most 15 % extra packets. Lossy: seven of ten messages on two connections at once,
//! so that few are hurt by a loss. Queued: whatever is sent waits behind what was sent, so copies are as
//! good as forbidden, patience is longer, and `Latest` lanes send at most twice a round trip. Outage: as queued; the newest
//! is what goes out first when it is over.

use super::hedge::{self, CONNECTIONS};
use super::{State, Technique, View};
use crate::time::Duration;

/// Hundredths of a packet that a message earns, by state. Ours: `clean` bounds the price on a path that needs nothing; `lossy`
/// leaves room below two packets a message for acknowledgements and retransmissions; `queued`
/// leaves a way to find out that it is over.
const CLEAN: u32 = 15;
const LOSSY: u32 = 70;
const QUEUED: u32 = 2;
/// How much longer patience is where packets wait: what is late is not lost. Ours.
const QUEUED_PATIENCE: u32 = 2;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Auto;

impl Technique for Auto {
    fn connections(&self) -> usize {
        CONNECTIONS
    }

    fn acknowledges(&self) -> bool {
        true
    }

    fn patience(&self, view: &View) -> Option<Duration> {
        let patience = hedge::patience(view);
        Some(if view.state == State::Queued { patience * QUEUED_PATIENCE } else { patience })
    }

    fn copies(&self, view: &View) -> usize {
        if view.state == State::Lossy { 2 } else { 1 }
    }

    fn earns(&self, view: &View) -> u32 {
        match view.state {
            State::Clean => CLEAN,
            State::Lossy => LOSSY,
            State::Queued | State::Outage => QUEUED,
        }
    }

    fn pace(&self, view: &View) -> Option<Duration> {
        (view.state == State::Queued).then(|| view.rtt.map(|rtt| rtt.smoothed / 2))?
    }
}
