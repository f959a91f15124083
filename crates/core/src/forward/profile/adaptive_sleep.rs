//! `adaptive-sleep`: what paper 3 found in Lumen (sections 3.3, 3.6 and 5): it sleeps for longer the longer there has been
//! nothing to read. 1 to 8 ms: the 3 to 5 ms of added latency that the paper measured are a sleep's middle.

use super::{Entry, Pace};
use crate::time::Duration;

pub(super) const ENTRY: Entry = Entry {
    name: "adaptive-sleep",
    what: "Sleeps for 1 to 8 ms when there is nothing to read, longer each time (Lumen)",
    lab_only: true,
    early_answer: false,
    claimed_mss: None,
    mirrors_delay: false,
    programs: Pace::Growing(Duration::from_millis(1), Duration::from_millis(8)),
    peers: Pace::Growing(Duration::from_millis(1), Duration::from_millis(8)),
};
