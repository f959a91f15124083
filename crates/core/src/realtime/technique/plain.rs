//! TCP as it is: each message one write with TCP_NODELAY (paper 4's baseline).

use super::Technique;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Technique for Plain {}
