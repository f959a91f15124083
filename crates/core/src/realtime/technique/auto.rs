//! What the state of the path asks for. Ours, and the default.
//!
//! After a loss, what is unacknowledged is resent with the next message, over another connection, so that another loss costs the time
//! between two messages and no packet. What is overdue is resent whatever was before, with the next message or, if that is far, by
//! itself, as `hedge` has it, for at most 15 % extra packets, after a loss for more. So a path that loses nothing pays nothing. Queued:
//! whatever is sent waits behind what was sent, so nothing is resent, patience
//! is longer, and `Latest` lanes send at most twice a round trip. Outage: each message takes along what is overdue, so that the
//! first to get through brings all.

use super::hedge::{self, CONNECTIONS};
use super::{State, Technique, View};
use crate::time::Duration;

/// Hundredths of a packet that a message earns, by state. Ours: `clean` bounds the price on a path that needs nothing; `lossy`
/// pays for a loss of one in five each way; `queued` leaves a way to find out that it is over.
const CLEAN: u32 = 15;
const LOSSY: u32 = 40;
const QUEUED: u32 = 2;
/// How much longer patience is where packets wait: what is late is not lost. Ours.
const QUEUED_PATIENCE: u32 = 2;
/// Messages that go again before they are overdue, after a loss: with one, only two losses in a row cost more than an interval … Ours.
const DEPTH: usize = 1;
/// … and where no connection gets anything through, as `bundle` has it. Ours.
const OUTAGE_DEPTH: usize = 2;

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

    fn carries(&self, view: &View) -> Option<usize> {
        match view.state {
            State::Clean => Some(0),
            State::Lossy => Some(DEPTH),
            State::Outage => Some(OUTAGE_DEPTH),
            State::Queued => None,
        }
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
