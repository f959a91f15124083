//! Fewer messages: of the values of a `Latest` lane only every second or third is sent (paper 4, section 4: Reduction-P).
//!
//! The newest is never lost: one that was held goes out when no newer one comes. Lanes of other kinds are left alone, for
//! their messages may not be dropped.

use super::{Technique, View};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    one_of: u32,
}

impl Reduction {
    /// `percent` fewer messages, 1 to 99: the paper's 30 ms become 60 by 50 percent and 90 by 66.
    pub fn new(percent: u32) -> Option<Self> {
        (1..100).contains(&percent).then(|| Self { one_of: (100 + (100 - percent) / 2) / (100 - percent) })
    }
}

impl Technique for Reduction {
    fn one_of(&self, _: &View) -> u32 {
        self.one_of
    }
}
