//! PKT-Control (paper 5, section 3): packets without data are fast, all others fat.

use super::{Choice, Policy, View};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct PktControl;

impl Policy for PktControl {
    fn choose(&self, view: &View<'_>) -> Choice {
        if view.packet.kind.is_control() { Choice::fast("control") } else { Choice::fat("data") }
    }
}
