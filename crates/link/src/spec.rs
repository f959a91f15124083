//! What a link is made of, before it is made: one [`Spec`] a stage, and the registry entry that reads it from text.
//!
//! A spec is a recipe: it can be copied, compared and printed, and each link built from it starts fresh. It never holds
//! running state.

use std::fmt;
use std::sync::Arc;

use headstart_core::time::Duration;

use crate::delay::BadDelays;
use crate::quantity::{self, BadQuantity};
use crate::rate::BadTrace;
use crate::{Mishaps, delay, loss, queue, rate};

/// The recipe of one model: its name in the registry, its parameters, and how to build it.
pub struct Spec<M: ?Sized> {
    name: &'static str,
    parameters: String,
    /// Tells apart recipes whose parameters do not say everything (a trace file's contents).
    digest: u64,
    build: Arc<dyn Fn() -> Box<M> + Send + Sync>,
}

impl<M: ?Sized> Spec<M> {
    /// A recipe. `parameters` must say all that `build` depends on, in the form that the registry entry reads.
    pub(crate) fn new(
        name: &'static str,
        parameters: String,
        build: impl Fn() -> Box<M> + Send + Sync + 'static,
    ) -> Self {
        Self { name, parameters, digest: 0, build: Arc::new(build) }
    }

    /// The same recipe, distinguished from others of equal text by `digest`.
    pub(crate) fn with_digest(mut self, digest: u64) -> Self {
        self.digest = digest;
        self
    }

    /// The model's name in its registry.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A fresh model in its first state.
    pub fn build(&self) -> Box<M> {
        (self.build)()
    }
}

impl<M: ?Sized> Clone for Spec<M> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            parameters: self.parameters.clone(),
            digest: self.digest,
            build: Arc::clone(&self.build),
        }
    }
}

impl<M: ?Sized> PartialEq for Spec<M> {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.parameters, self.digest) == (other.name, &other.parameters, other.digest)
    }
}

impl<M: ?Sized> fmt::Display for Spec<M> {
    /// The form that [`crate::parse`] reads: `name` or `name:parameters`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.parameters.is_empty() { Ok(()) } else { write!(f, ":{}", self.parameters) }
    }
}

impl<M: ?Sized> fmt::Debug for Spec<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a model reads a file that its parameters name: the path goes in, the text or the reason comes out.
///
/// The caller does the reading; nothing in this crate opens a file.
pub type Files<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// One line of a registry.
pub struct Entry<M: ?Sized> {
    /// The name to write in a specification.
    pub name: &'static str,
    /// What the model does, in one sentence.
    pub what: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The form of the parameters, e.g. `RATE`; empty if there are none.
    pub parameters: &'static str,
    /// Parameters that are valid, for help texts and the contract test.
    pub example: &'static str,
    /// Reads the parameters (what follows `name:`).
    pub parse: fn(&str, &mut Files<'_>) -> Result<Spec<M>, BadModel>,
}

impl<M: ?Sized> fmt::Debug for Entry<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ({})", self.name, self.parameters, self.what)
    }
}

/// Why a model could not be made from its parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadModel {
    /// A number with a unit does not read.
    #[error(transparent)]
    Quantity(#[from] BadQuantity),
    /// Too few or too many parameters.
    #[error("{got} parameters given to `{model}`, which reads `{model}:{form}`")]
    Arity {
        /// The model.
        model: &'static str,
        /// Its form.
        form: &'static str,
        /// How many there were.
        got: usize,
    },
    /// The parameters read well but make no sense together.
    #[error("`{model}`: {reason}")]
    Senseless {
        /// The model.
        model: &'static str,
        /// What is wrong and what to write instead.
        reason: &'static str,
    },
    /// A file could not be had.
    #[error("cannot read `{path}`: {reason}")]
    File {
        /// The file.
        path: String,
        /// What the reader said.
        reason: String,
    },
    /// A trace file is malformed.
    #[error(transparent)]
    Trace(#[from] BadTrace),
    /// A file of recorded delays is malformed.
    #[error(transparent)]
    Delays(#[from] BadDelays),
}

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

/// FNV-1a over numbers: what tells two recordings of one name apart.
pub(crate) fn digest(numbers: impl IntoIterator<Item = u64>) -> u64 {
    let bytes = numbers.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Reads the file that is all of a model's parameters: the whole text is its path, colons included.
pub(crate) fn file(
    text: &str,
    model: &'static str,
    form: &'static str,
    files: &mut Files<'_>,
) -> Result<String, BadModel> {
    if text.is_empty() {
        return Err(BadModel::Arity { model, form, got: 0 });
    }
    files(text).map_err(|reason| BadModel::File { path: text.to_owned(), reason })
}

/// Splits `a:b:c` into as many parts as the model's form asks for.
pub(crate) fn split(
    text: &str,
    model: &'static str,
    form: &'static str,
    count: std::ops::RangeInclusive<usize>,
) -> Result<Vec<String>, BadModel> {
    let parts: Vec<String> =
        if text.is_empty() { Vec::new() } else { text.split(':').map(|part| part.trim().to_owned()).collect() };
    if count.contains(&parts.len()) { Ok(parts) } else { Err(BadModel::Arity { model, form, got: parts.len() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_apart_by_fnv_1a() {
        let of = |text: &[u8; 8]| u64::from_le_bytes(*text);
        // By another implementation, of the same bytes.
        assert_eq!(digest([of(b"headline")]), 0x1e93_6c82_d02d_9c09);
        assert_eq!(digest([of(b"headline"), of(b"answered")]), 0x531a_ef06_667c_36ca);
    }
}
