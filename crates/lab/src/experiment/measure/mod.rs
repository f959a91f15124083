//! The experiments of paper 3: what programs see of their network through a forwarder, beside what they see without one.
//!
//! Every arm does the same over the same emulated link, in turns: without a TUN, through ours, and through the flaws of the
//! tools that the paper measured, as profiles of the same forwarder.

pub mod arm;
mod beside;
pub mod cost;
pub mod device;
pub mod gaps;
pub mod latency;
mod least;
pub mod lte;
pub mod probe;
mod process;
pub mod semantics;
pub mod throughput;
pub mod truth;
mod wire;
