//! Which packets vanish on arrival, before the queue: one trait, one registry.
//!
//! A model says of each packet in turn whether it is lost, by when it arrives at most. It never looks at the packet, and a
//! lost packet takes no room and no rate.

mod bernoulli;
mod fades;
mod gilbert_elliott;
mod none;

pub use bernoulli::bernoulli;
pub use fades::{Fades, fades};
pub use gilbert_elliott::{GilbertElliott, gilbert_elliott};
pub use none::none;

use crate::{Entry, Spec};
use headstart_core::time::Instant;

/// One verdict a packet.
pub trait Loss: Send {
    /// Whether the next packet, which arrives at `at`, is lost; `at` never decreases.
    fn loses(&mut self, at: Instant, rng: &mut fastrand::Rng) -> bool;
}

/// The recipe of a loss.
pub type LossSpec = Spec<dyn Loss>;

/// All losses. The first is what a bare value means: `loss=1%` is `loss=bernoulli:1%`.
pub const ALL: &[Entry<dyn Loss>] = &[
    // One line a model.
    bernoulli::ENTRY,
    fades::ENTRY,
    gilbert_elliott::ENTRY,
    none::ENTRY,
];

/// A number as a share: clamped to 0 … 1, and 0 if it is no number.
fn share(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}
