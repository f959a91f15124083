//! Machines beside models of what they owe: whatever happens in whatever order, what a machine does is what its model says.
//!
//! Each model is a story: steps, the machine, what is around it, and what must hold after every step. Here the steps come from proptest,
//! which makes a failing story short; in `fuzz/` the same stories come from libFuzzer, which looks for new ways through the machine.
#![forbid(unsafe_code)]

mod delivery;
mod forwarder;
mod resequencer;

use proptest::prelude::*;

/// Stories that are written in bytes, four a step.
fn stories(steps: usize) -> impl Strategy<Value = Vec<[u8; 4]>> {
    proptest::collection::vec(any::<[u8; 4]>(), 1..steps)
}
