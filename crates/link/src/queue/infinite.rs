//! A queue that never drops. For open-loop traffic that exceeds the rate, it grows without end.

use headstart_core::time::Instant;

use super::{Backlog, Queue, QueueSpec};
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "infinite";

pub(super) const ENTRY: Entry<dyn Queue> = Entry {
    name: NAME,
    what: "a queue that never drops",
    source: "mahimahi's default queue",
    parameters: "",
    example: "",
    parse,
};

/// A queue that never drops.
pub fn infinite() -> QueueSpec {
    QueueSpec::new(NAME, String::new(), || Box::new(Infinite))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<QueueSpec, BadModel> {
    split(text, NAME, "", 0..=0)?;
    Ok(infinite())
}

struct Infinite;

impl Queue for Infinite {
    fn admits(&mut self, _: Instant, _: usize, _: Backlog) -> bool {
        true
    }
}
