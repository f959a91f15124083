//! `early-synack`: what paper 3 found in PrivacyGuard (sections 3.1, 3.3 and 3.6): it answers a SYN before it has connected,
//! and reads what comes in at a fixed interval, which the paper does not give. 10 ms: with 20 ms between messages, as in its
//! Listing 1, that many are late that come just after a look.

use super::{Entry, Pace};
use crate::time::Duration;

pub(super) const ENTRY: Entry = Entry {
    name: "early-synack",
    what: "Answers programs before it has connected, and polls every 10 ms (PrivacyGuard)",
    lab_only: true,
    early_answer: true,
    claimed_mss: None,
    mirrors_delay: false,
    programs: Pace::AtOnce,
    peers: Pace::Fixed(Duration::from_millis(10)),
};
