//! What a measured ratio says about a claim of a paper: one rule for all of them, fixed before anything is measured.
//!
//! The rule compares effects as logarithms of ratios, so that halving and doubling are equally far from no effect. It
//! never looks at who is judged: baselines, the paper's methods and ours go by the same rule.

use crate::stats::Interval;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Times, losses, bytes.
    Lower,
    /// Hit rates, throughput.
    Higher,
}

/// What a row says about its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The effect of the paper was seen.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The effect was better than the paper's.
    #[serde(rename = "exceeded")]
    Exceeded,
    /// The effect was not there, or turned round.
    #[serde(rename = "contradicted")]
    Contradicted,
    /// It was measured, and the measurement does not decide.
    #[serde(rename = "instrument only")]
    InstrumentOnly,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reproduced => "reproduced",
            Self::Exceeded => "exceeded",
            Self::Contradicted => "contradicted",
            Self::InstrumentOnly => "instrument only",
        })
    }
}

/// Ratios within 2 % of one count as "no difference" in a paper: they print percentages without decimals.
const NO_EFFECT: f64 = 1.02;

/// A measured difference below 10 % agrees with "no difference".
const EQUIVALENT: f64 = 1.1;

/// Judges a measured ratio (ours / baseline) with its 95 % interval against the ratio of the paper.
///
/// Let an *effect* be the logarithm of a ratio, turned so that negative is better. Then, in this order:
///
/// 1. **exceeded**: the whole interval is better than the paper's effect (and better than equivalent, where the paper saw
///    no difference).
/// 2. The paper saw an improvement:
///    **reproduced** if the whole interval is an improvement and the measured effect is at least half of the paper's;
///    **contradicted** if the whole interval falls short of half of the paper's effect.
/// 3. The paper saw a cost: **reproduced** if the measured effect is at most twice the paper's;
///    **contradicted** if the whole interval is above twice the paper's.
/// 4. The paper saw no difference (its ratio is within 2 % of 1): **reproduced** if the whole interval is within 10 % of 1;
///    **contradicted** if the whole interval is more than 10 % worse.
/// 5. Anything else, and anything that is not a positive number: **instrument only**; more trials may decide.
///
/// ```
/// use headstart_lab::experiment::{Direction, Verdict, judge};
/// use headstart_lab::stats::Interval;
///
/// // Paper 1 saw 0.64; we see 0.70, sure to be an improvement, well over half of the paper's.
/// let verdict = judge(0.70, Interval { lo: 0.62, hi: 0.79 }, 0.64, Direction::Lower);
/// assert_eq!(verdict, Verdict::Reproduced);
/// ```
pub fn judge(ratio: f64, interval: Interval, paper: f64, better: Direction) -> Verdict {
    let numbers = [ratio, interval.lo, interval.hi, paper];
    if !numbers.iter().all(|v| v.is_finite() && *v > 0.0) || interval.lo > interval.hi {
        return Verdict::InstrumentOnly;
    }
    let effect = |v: f64| match better {
        Direction::Lower => v.ln(),
        Direction::Higher => -v.ln(),
    };
    let (measured, claimed) = (effect(ratio), effect(paper));
    let (a, b) = (effect(interval.lo), effect(interval.hi));
    let (best, worst) = (a.min(b), a.max(b));

    if claimed.abs() <= NO_EFFECT.ln() {
        let margin = EQUIVALENT.ln();
        return if worst < -margin {
            Verdict::Exceeded
        } else if best > margin {
            Verdict::Contradicted
        } else if best >= -margin && worst <= margin {
            Verdict::Reproduced
        } else {
            Verdict::InstrumentOnly
        };
    }
    if worst < claimed {
        return Verdict::Exceeded;
    }
    let (bound, sure) = if claimed < 0.0 { (claimed / 2.0, worst < 0.0) } else { (claimed * 2.0, true) };
    if best > bound {
        Verdict::Contradicted
    } else if sure && measured <= bound {
        Verdict::Reproduced
    } else {
        Verdict::InstrumentOnly
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Contradicted, Exceeded, InstrumentOnly, Reproduced};

    /// Lower is better.
    fn lower(ratio: f64, lo: f64, hi: f64, paper: f64) -> Verdict {
        judge(ratio, Interval { lo, hi }, paper, Direction::Lower)
    }

    #[test]
    fn an_improvement_as_large_as_the_papers_is_reproduced() {
        assert_eq!(lower(0.64, 0.60, 0.68, 0.64), Reproduced);
        assert_eq!(lower(0.75, 0.70, 0.82, 0.64), Reproduced);
    }

    #[test]
    fn an_interval_wholly_beyond_the_paper_exceeds_it() {
        assert_eq!(lower(0.40, 0.35, 0.63, 0.64), Exceeded);
        assert_eq!(lower(0.40, 0.35, 0.65, 0.64), Reproduced);
    }

    #[test]
    fn less_than_half_of_the_effect_for_sure_contradicts_even_if_it_is_an_improvement() {
        // Half of ln 0.64 is ln 0.8.
        assert_eq!(lower(0.90, 0.85, 0.95, 0.64), Contradicted);
        assert_eq!(lower(1.30, 1.10, 1.50, 0.64), Contradicted);
    }

    #[test]
    fn an_interval_that_reaches_both_sides_decides_nothing() {
        assert_eq!(lower(0.70, 0.40, 1.05, 0.64), InstrumentOnly);
        assert_eq!(lower(0.85, 0.75, 0.95, 0.64), InstrumentOnly);
    }

    #[test]
    fn where_higher_is_better_the_rule_is_the_mirror_image() {
        for (ratio, lo, hi, paper) in [
            (0.64, 0.60, 0.68, 0.64),
            (0.40, 0.35, 0.63, 0.64),
            (0.90, 0.85, 0.95, 0.64),
            (0.70, 0.40, 1.05, 0.64),
            (1.0, 0.95, 1.05, 1.0),
            (1.3, 1.2, 1.4, 1.2),
        ] {
            let mirrored = Interval { lo: 1.0 / hi, hi: 1.0 / lo };
            assert_eq!(judge(1.0 / ratio, mirrored, 1.0 / paper, Direction::Higher), lower(ratio, lo, hi, paper));
        }
    }

    #[test]
    fn no_difference_is_reproduced_by_a_tight_interval_around_one() {
        assert_eq!(lower(1.01, 0.95, 1.06, 1.0), Reproduced);
        assert_eq!(lower(1.01, 0.80, 1.30, 1.0), InstrumentOnly);
        assert_eq!(lower(1.30, 1.15, 1.50, 1.0), Contradicted);
        assert_eq!(lower(0.70, 0.60, 0.85, 1.0), Exceeded);
    }

    #[test]
    fn a_cost_is_reproduced_up_to_twice_its_size_and_beaten_below_it() {
        assert_eq!(lower(1.2, 1.1, 1.35, 1.2), Reproduced);
        assert_eq!(lower(1.0, 0.9, 1.1, 1.2), Exceeded);
        assert_eq!(lower(1.6, 1.5, 1.7, 1.2), Contradicted);
        assert_eq!(lower(1.5, 1.3, 1.7, 1.2), InstrumentOnly);
    }

    #[test]
    fn numbers_that_mean_nothing_decide_nothing() {
        assert_eq!(lower(f64::NAN, 0.5, 0.6, 0.64), InstrumentOnly);
        assert_eq!(lower(0.5, 0.0, 0.6, 0.64), InstrumentOnly);
        assert_eq!(lower(0.5, 0.6, 0.4, 0.64), InstrumentOnly);
        assert_eq!(lower(0.5, 0.4, 0.6, 0.0), InstrumentOnly);
    }
}
