//! What was seen of the traffic of programs, with whose it was.

use super::owner::{Owner, Process};
use headstart_core::forward::Record;

/// Something that was recorded, and whose it was, if that is known.
#[derive(Clone, Debug)]
pub struct Attributed {
    /// What was seen.
    pub record: Record,
    /// What the kernel knew of the program's socket.
    pub owner: Option<Owner>,
    /// The process.
    pub process: Option<Process>,
}

/// Receives what was seen.
pub type Sink = Box<dyn FnMut(Attributed)>;
