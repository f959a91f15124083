//! The receiver says that it misses a message, and the sender writes tiny segments, whose duplicate acknowledgements start
//! TCP's fast retransmission (paper 4, section 4: Trigger).

use super::{Technique, View};
use crate::time::Duration;

/// How much later than the interval a message is missed. Paper 4, section 5.
const LATER: Duration = Duration::from_millis(20);
/// Times the jitter that an arrival may be late: RTTVAR's factor in a timeout (RFC 6298).
const JITTERS: u32 = 4;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub enum Trigger {
    /// After interval + 20 ms.
    Fixed,
    /// Later where arrivals scatter.
    Adaptive,
}

impl Technique for Trigger {
    fn silence(&self, view: &View, interval: Duration) -> Option<Duration> {
        Some(match self {
            Self::Fixed => interval + LATER,
            Self::Adaptive => interval + LATER.max(view.jitter * JITTERS),
        })
    }
}
