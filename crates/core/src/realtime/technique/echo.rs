//! Something back for each message, so that TCP's acknowledgement leaves with it at once (paper 4, section 4: Return).
//!
//! It is of use where the receiver's TCP delays acknowledgements, and costs a packet a message where it does not.

use super::Technique;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Echo;

impl Technique for Echo {
    fn echoes(&self) -> bool {
        true
    }
}
