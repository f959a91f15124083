//! `careful-wireless`: careful resume where packets are lost without congestion.
//!
//! RFC 9959 takes every loss of the jump for congestion, halves what the path has proved and forgets the path. On radio most
//! losses say nothing of the kind, and a threshold from the middle of the jump then holds a connection back for seconds. Here
//! a jump that loses little while the round-trip time has not risen is left to the controller, which reduces as for any
//! loss; more losses, a rise, or a mark (ECN), and it is a safe retreat after all. Ours: not of the RFC, and said so.

use super::{Care, CarefulResume, Terms};
use crate::time::Duration;

/// Losses of up to this share of the jump may be the radio's …
pub const SHARE: f64 = 0.05;
/// … and up to so many packets always.
pub const PACKETS: u64 = 3;

/// What counts as a rise of the round-trip time: HyStart++'s measure (RFC 9406, section 4.3).
pub fn has_risen(shortest: Duration, latest: Duration) -> bool {
    let margin = (shortest / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
    latest > shortest.saturating_add(margin)
}

/// The rule.
pub fn new(terms: &Terms) -> CarefulResume {
    CarefulResume::new(terms, Care::Wireless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_more_is_a_rise_within_four_to_sixteen_milliseconds() {
        let ms = Duration::from_millis;
        assert!(!has_risen(ms(10), ms(14)) && has_risen(ms(10), ms(15)));
        assert!(!has_risen(ms(80), ms(90)) && has_risen(ms(80), ms(91)));
        assert!(!has_risen(ms(600), ms(616)) && has_risen(ms(600), ms(617)));
    }
}
