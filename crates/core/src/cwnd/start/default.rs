//! `default`: the initial window of RFC 9002, section 7.2, and nothing else. The baseline of every comparison.

use super::Start;

/// Does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Default;

impl Start for Default {}
