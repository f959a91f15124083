//! What a model is before it is made: its [`Spec`], and the registry entry that reads it from text.
//!
//! A spec is a recipe: it can be copied, compared and printed, and each model built from it starts fresh. It never holds
//! running state.

use std::fmt;
use std::sync::Arc;

use crate::delay::BadDelays;
use crate::quantity::BadQuantity;
use crate::rate::BadTrace;

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
