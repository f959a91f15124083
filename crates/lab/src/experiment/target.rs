//! Targets of the project's own instruments, in words for the notes of an outcome.
//!
//! A target that is missed is said, not hidden, and does not make a run invalid: the number is true all the same.

use std::fmt;

/// What a number is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Target {
    /// Whether `value` reaches the target.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    /// `what: 3.21 us, target at most 5 us: met`.
    pub fn note(self, what: &str, value: f64, unit: &str) -> String {
        let verdict = if self.is_met(value) { "met" } else { "MISSED" };
        format!("{what}: {value:.2} {unit}, target {self} {unit}: {verdict}")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One that was computed is no longer than one that was written.
        let short = |limit: f64| (limit * 1e6).round() / 1e6;
        match *self {
            Self::AtMost(limit) => write!(f, "at most {}", short(limit)),
            Self::AtLeast(limit) => write!(f, "at least {}", short(limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_on_its_own_edge_and_says_what_was_measured() {
        assert!(Target::AtMost(5.0).is_met(5.0) && !Target::AtMost(5.0).is_met(5.01));
        assert!(Target::AtLeast(95.0).is_met(95.0) && !Target::AtLeast(95.0).is_met(94.99));
        assert_eq!(Target::AtMost(5.0).note("a call", 5.5, "us"), "a call: 5.50 us, target at most 5 us: MISSED");
        assert_eq!(
            Target::AtLeast(95.0).note("rate", 99.0, "Mbit/s"),
            "rate: 99.00 Mbit/s, target at least 95 Mbit/s: met"
        );
    }

    #[test]
    fn a_target_that_was_computed_is_said_as_it_was_meant() {
        assert_ne!((1.0 - 0.41) * 100.0, 59.0);
        let said = [(1.0 - 0.41) * 100.0, 0.5, 1_400.0].map(|limit| Target::AtLeast(limit).to_string());
        assert_eq!(said, ["at least 59", "at least 0.5", "at least 1400"]);
    }

    #[test]
    fn a_value_that_is_no_number_meets_nothing() {
        assert!(!Target::AtMost(5.0).is_met(f64::NAN) && !Target::AtLeast(5.0).is_met(f64::NAN));
    }
}
