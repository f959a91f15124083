//! How many attempts may begin beside the chosen one: what hosts pay for programs that need not wait.
//!
//! A page meets its unknown hosts all at once and waits for the first of them most, so the budget is a bucket: full at first, and then one
//! more for every [`PRICE`] races. The figures are measured (docs/decisions/0147).

/// Attempts that may begin one soon after the other.
const BURST: u32 = 2;
/// Races that pay for one.
const PRICE: u32 = 24;

/// The bucket, in races.
#[derive(Debug)]
pub(super) struct Extras(u32);

impl Default for Extras {
    fn default() -> Self {
        Self(BURST * PRICE)
    }
}

impl Extras {
    /// A race begins.
    pub fn earn(&mut self) {
        self.0 = (self.0 + 1).min(BURST * PRICE);
    }

    /// Whether one may begin.
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
    fn the_first_races_have_one_each_and_later_ones_by_the_price() {
        let mut extras = Extras::default();
        let mut taken = 0;
        for race in 1..=BURST + 10 * PRICE {
            extras.earn();
            if extras.is_there() {
                extras.take();
                taken += 1;
            }
            assert!(race > BURST || taken == race, "{race}: {taken}");
        }
        assert_eq!(taken, BURST + 10);
    }
}
