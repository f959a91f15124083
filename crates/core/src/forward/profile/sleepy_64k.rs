//! `sleepy-64k`: what paper 3 found in Video Optimizer (sections 3.3 to 3.6 and 4): its thread sleeps for 100 ms when it has
//! found nothing to read, and it tells programs to send segments of 65535 bytes.

use super::{Entry, Pace};
use crate::time::Duration;

pub(super) const ENTRY: Entry = Entry {
    name: "sleepy-64k",
    what: "Sleeps for 100 ms when there is nothing to read, and makes programs send segments of 65535 bytes (Video Optimizer)",
    lab_only: true,
    early_answer: false,
    claimed_mss: Some(65_535),
    mirrors_delay: false,
    programs: Pace::Fixed(Duration::from_millis(100)),
    peers: Pace::AtOnce,
};
