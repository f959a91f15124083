//! PKT-Uplink (paper 5, section 3): what the host sends is fast, what it gets is fat.

use super::{Choice, Policy, View};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct PktUplink;

impl Policy for PktUplink {
    fn choose(&self, view: &View<'_>) -> Choice {
        if view.uplink { Choice::fast("uplink") } else { Choice::fat("downlink") }
    }
}
