//! The recipe of one direction of a link: a model for each stage, and what else happens to packets.
//!
//! As with the recipes that it consists of, each link built from it starts fresh: it never holds running state.

use std::fmt;

use headstart_core::time::Duration;

use crate::{Mishaps, delay, loss, quantity, queue, rate};

/// Whether a packet may overtake the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// It waits for the one before it, as on a radio link with in-order delivery and in a router's queue.
    #[default]
    Kept,
    /// A shorter delay overtakes a longer one, as with netem's jitter and on parallel paths.
    Free,
}

impl Order {
    /// Every order, by the name to write in a specification.
    pub const ALL: &[(&str, Order)] = &[("kept", Order::Kept), ("free", Order::Free)];
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// How fast packets leave the queue.
    pub rate: rate::RateSpec,
    /// How long a packet is under way after the rate has let it go.
    pub delay: delay::DelaySpec,
    /// Which packets vanish on arrival.
    pub loss: loss::LossSpec,
    /// How many packets may wait for the rate.
    pub queue: queue::QueueSpec,
    /// Whether a short delay may overtake a long one.
    pub order: Order,
    /// What else happens to packets.
    pub mishaps: Mishaps,
}

impl Default for LinkSpec {
    /// An ideal wire, but for the queue: unlimited rate, no delay, no loss, [`queue::DEFAULT_PACKETS`] of room.
    fn default() -> Self {
        Self {
            rate: rate::unlimited(),
            delay: delay::constant(Duration::ZERO),
            loss: loss::none(),
            queue: queue::drop_tail(Some(queue::DEFAULT_PACKETS), None),
            order: Order::Kept,
            mishaps: Mishaps::default(),
        }
    }
}

impl LinkSpec {
    /// A constant rate (bit/s) and delay, no loss, the default queue.
    pub fn constant(bits_per_second: u64, delay: Duration) -> Self {
        Self { rate: rate::constant(bits_per_second), delay: delay::constant(delay), ..Self::default() }
    }

    /// The shortest time that the delay model may take, without queueing and serialisation.
    pub fn least_delay(&self) -> Duration {
        self.delay.build().least()
    }

    /// Whether a packet may be released before one that was sent earlier.
    pub(crate) fn overtakes(&self) -> bool {
        self.order == Order::Free || self.mishaps.reorder > 0.0
    }

    /// The same direction with another rate.
    pub fn with_rate(self, rate: rate::RateSpec) -> Self {
        Self { rate, ..self }
    }

    /// The same direction with another delay.
    pub fn with_delay(self, delay: delay::DelaySpec) -> Self {
        Self { delay, ..self }
    }

    /// The same direction with another loss.
    pub fn with_loss(self, loss: loss::LossSpec) -> Self {
        Self { loss, ..self }
    }

    /// The same direction with another queue.
    pub fn with_queue(self, queue: queue::QueueSpec) -> Self {
        Self { queue, ..self }
    }
}

impl fmt::Display for LinkSpec {
    /// The form that [`crate::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate={},delay={},loss={},queue={}", self.rate, self.delay, self.loss, self.queue)?;
        if self.order == Order::Free {
            f.write_str(",order=free")?;
        }
        let Mishaps { reorder, duplicate, corrupt } = self.mishaps;
        for (key, share) in [("reorder", reorder), ("duplicate", duplicate), ("corrupt", corrupt)] {
            if share > 0.0 {
                write!(f, ",{key}={}", quantity::show_fraction(share))?;
            }
        }
        Ok(())
    }
}
