//! `careful-wireless`: careful resume where packets are lost without congestion.
//!
//! RFC 9959 takes every loss of the jump for congestion, halves what the path has proved and forgets the path. On radio most
//! losses say nothing of the kind, and a threshold from the middle of the jump then holds a connection back for seconds. Here
//! a jump that loses little while the round-trip time has not risen is left to the controller, which reduces as for any
//! loss; more losses, a rise, or a mark (ECN), and it is a safe retreat after all. Ours: not of the RFC, and said so.

use super::{Care, CarefulResume, Terms};

/// The rule.
pub fn new(terms: &Terms) -> CarefulResume {
    CarefulResume::new(terms, Care::Wireless)
}
