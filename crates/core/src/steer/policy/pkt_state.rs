//! PKT-State (paper 5, Algorithm 1): a packet is fast if it and the one before it in its flow are both smaller than the MTU.
//!
//! What is as large belongs to a larger transfer, and what follows it is that one's tail: accelerating a tail would only
//! have it overtake. The first packet of a flow follows nothing, and is judged by itself.

use super::{Choice, Policy, View};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct PktState;

impl Policy for PktState {
    fn choose(&self, view: &View<'_>) -> Choice {
        let tail = view.flow.previous as usize >= view.full;
        match (view.is_small(), tail) {
            (true, false) => Choice::fast("small"),
            (true, true) => Choice::fat("tail"),
            (false, _) => Choice::fat("full size"),
        }
    }
}
