//! How long a packet is under way after the rate has let it go: one trait, one registry.
//!
//! A model draws one delay a packet. Order is not its business: the link holds a packet back that would overtake the one
//! before it, as a radio link's in-order delivery and a queue in a router do. (So a dense flow over a jittery link sees
//! the upper part of the distribution; netem, by contrast, reorders, and so does a link with `order=free`.)

mod constant;
mod empirical;
mod normal;
mod pareto;
mod per_packet;
mod recorded;
mod trace;
mod uniform;

pub use constant::constant;
pub use empirical::empirical;
pub use normal::normal;
pub use pareto::pareto;
pub use per_packet::per_packet;
pub use recorded::BadDelays;
pub use trace::trace;
pub use uniform::uniform;

use headstart_core::time::{Duration, Instant};

use crate::{Entry, Spec};

/// One delay a packet.
pub trait Delay: Send {
    /// The delay of the next packet, which sets out at `at`. Moments never decrease from call to call.
    fn draw(&mut self, at: Instant, rng: &mut fastrand::Rng) -> Duration;

    /// No draw is below this.
    fn least(&self) -> Duration;
}

/// The recipe of a delay.
pub type DelaySpec = Spec<dyn Delay>;

/// All delays. The first is what a bare value means: `delay=15ms` is `delay=constant:15ms`.
pub const ALL: &[Entry<dyn Delay>] = &[
    // One line a model.
    constant::ENTRY,
    normal::ENTRY,
    uniform::ENTRY,
    empirical::ENTRY,
    pareto::ENTRY,
    trace::ENTRY,
    per_packet::ENTRY,
];

/// A duration as a signed number of nanoseconds, for drawing in floating point.
fn nanos(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}

/// The nearest whole number of nanoseconds; negative ones become zero.
fn from_nanos(nanos: f64) -> Duration {
    Duration::from_nanos(nanos.round() as u64)
}
