//! How often both families of an unknown host are tried at once: what hosts pay for programs that need not wait.
//!
//! A page meets its unknown hosts all at once, and waits for the first of them; so the budget is a bucket: full at first, and then one more
//! attempt for every [`PRICE`] races.

/// Second attempts that may begin one after the other.
const BURST: u32 = 4;
/// Races that pay for a second attempt.
const PRICE: u32 = 12;

/// The bucket, in races.
#[derive(Debug)]
pub(super) struct Doubles(u32);

impl Default for Doubles {
    fn default() -> Self {
        Self(BURST * PRICE)
    }
}

impl Doubles {
    /// A race begins.
    pub fn earn(&mut self) {
        self.0 = (self.0 + 1).min(BURST * PRICE);
    }

    /// Whether a second attempt may begin.
    pub fn is_there(&self) -> bool {
        self.0 >= PRICE
    }

    /// One has begun.
    pub fn take(&mut self) {
        self.0 = self.0.saturating_sub(PRICE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_races_have_a_second_attempt_each_and_later_ones_every_twelfth() {
        let mut doubles = Doubles::default();
        let mut taken = 0;
        for race in 1..=BURST + 10 * PRICE {
            doubles.earn();
            if doubles.is_there() {
                doubles.take();
                taken += 1;
            }
            assert!(race > BURST || taken == race, "{race}: {taken}");
        }
        assert_eq!(taken, BURST + 10);
    }
}
