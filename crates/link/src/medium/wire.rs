//! Two directions that share nothing.

use super::{Medium, MediumSpec};
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "wire";

pub(super) const ENTRY: Entry<Medium> = Entry {
    name: NAME,
    what: "each direction has its own rate; they do not affect each other",
    source: "full-duplex Ethernet; the links of mahimahi and netem",
    parameters: "",
    example: "",
    parse,
};

/// Two directions that share nothing.
pub fn wire() -> MediumSpec {
    MediumSpec::new(NAME, String::new(), || Box::new(Medium::Wire))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<MediumSpec, BadModel> {
    split(text, NAME, "", 0..=0)?;
    Ok(wire())
}
