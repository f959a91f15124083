//! No loss but that of a full queue.

use super::{Loss, LossSpec};
use crate::spec::split;
use crate::{BadModel, Entry, Files};
use headstart_core::time::Instant;

const NAME: &str = "none";

pub(super) const ENTRY: Entry<dyn Loss> =
    Entry { name: NAME, what: "no loss except by a full queue", source: "a wire", parameters: "", example: "", parse };

/// No loss.
pub fn none() -> LossSpec {
    LossSpec::new(NAME, String::new(), || Box::new(Lossless))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<LossSpec, BadModel> {
    split(text, NAME, "", 0..=0)?;
    Ok(none())
}

struct Lossless;

impl Loss for Lossless {
    fn loses(&mut self, _: Instant, _: &mut fastrand::Rng) -> bool {
        false
    }
}
