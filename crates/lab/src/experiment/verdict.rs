//! What a measured ratio says about a claim of a paper: one rule for all of them, fixed before anything is measured
//! (decision 0080).
//!
//! It first asks whether the paper's *problem* is there at all: a baseline that does not take what the paper prints for it
//! leaves nothing to improve, and a verdict on the remedy would be one on our conditions.

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

/// What a row says about its claim. In the order of what decides a claim with several rows: the first of them that occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// No effect, or one the other way. Results of earlier versions say "contradicted".
    #[serde(rename = "not reproduced", alias = "contradicted")]
    NotReproduced,
    /// An effect of the same direction, smaller than the paper's.
    #[serde(rename = "weaker")]
    Weaker,
    /// The effect of the paper was seen.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// An effect of the same direction, larger than the paper's.
    #[serde(rename = "stronger")]
    Stronger,
    /// A way of ours, better than the best of the paper.
    #[serde(rename = "exceeded")]
    Exceeded,
    /// The baseline does not take what the paper prints for it: nothing can be said about the remedy.
    #[serde(rename = "problem absent")]
    ProblemAbsent,
    /// It was measured, and the measurement does not decide.
    #[serde(rename = "instrument only")]
    InstrumentOnly,
}

impl Verdict {
    /// All of them, in the order in which they decide.
    pub const ALL: [Self; 7] = [
        Self::NotReproduced,
        Self::Weaker,
        Self::Reproduced,
        Self::Stronger,
        Self::Exceeded,
        Self::ProblemAbsent,
        Self::InstrumentOnly,
    ];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotReproduced => "not reproduced",
            Self::Weaker => "weaker",
            Self::Reproduced => "reproduced",
            Self::Stronger => "stronger",
            Self::Exceeded => "exceeded",
            Self::ProblemAbsent => "problem absent",
            Self::InstrumentOnly => "instrument only",
        })
    }
}

/// Ratios within 2 % of one count as "no difference" in a paper: they print percentages without decimals.
const NO_EFFECT: f64 = 1.02;

/// A measured difference below 10 % agrees with "no difference".
const EQUIVALENT: f64 = 1.1;

/// A ratio within this factor of the paper's, either way, is the paper's: 0.8 to 1.25.
const SAME: f64 = 1.25;

/// A baseline further than this from the printed one is another problem than the paper's.
const SAME_PROBLEM: f64 = 0.2;

/// A comparison as it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Arm / baseline.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// The value of the baseline, in the unit of the claim.
    pub baseline: f64,
}

/// The comparison that a paper prints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Arm / baseline.
    pub ratio: f64,
    /// The value of the baseline, in the unit of the claim; none where only a percentage is printed.
    pub baseline: Option<f64>,
}

/// Judges what was measured of the paper's own way.
///
/// In this order:
///
/// 1. **problem absent**: the paper prints the value of its baseline, and ours differs from it by more than 20 %.
/// 2. The paper saw no difference (its ratio is within 2 % of 1): **reproduced** if the whole interval is within 10 % of 1,
///    **not reproduced** if it is wholly outside.
/// 3. **not reproduced**: the whole interval is on the other side of 1, or reaches 1 and not the paper's ratio.
/// 4. The whole interval is on the paper's side of 1: **reproduced** if it touches 0.8 to 1.25 times the paper's ratio, else
///    **stronger** or **weaker**.
/// 5. Anything else, and anything that is not a positive number: **instrument only**; more trials may decide.
///
/// ```
/// use headstart_lab::experiment::{Measured, Printed, Verdict, judge};
/// use headstart_lab::stats::Interval;
///
/// // Paper 1 saw 48 ms in the place of 75, which is 0.64; here 0.70 of 76 ms.
/// let measured = Measured { ratio: 0.70, interval: Interval { lo: 0.62, hi: 0.79 }, baseline: 76.0 };
/// assert_eq!(judge(measured, Printed { ratio: 0.64, baseline: Some(75.0) }), Verdict::Reproduced);
/// // 150 ms would be another network: nothing follows for the paper.
/// let elsewhere = Measured { baseline: 150.0, ..measured };
/// assert_eq!(judge(elsewhere, Printed { ratio: 0.64, baseline: Some(75.0) }), Verdict::ProblemAbsent);
/// ```
pub fn judge(measured: Measured, printed: Printed) -> Verdict {
    let Measured { interval: Interval { lo, hi }, baseline, .. } = measured;
    let numbers = [measured.ratio, lo, hi, printed.ratio];
    if !numbers.iter().all(|v| v.is_finite() && *v > 0.0) || lo > hi {
        return Verdict::InstrumentOnly;
    }
    if printed.baseline.is_some_and(|paper| (baseline / paper - 1.0).abs() > SAME_PROBLEM) {
        return Verdict::ProblemAbsent;
    }
    let paper = printed.ratio;
    if paper.ln().abs() <= NO_EFFECT.ln() {
        let (least, most) = (1.0 / EQUIVALENT, EQUIVALENT);
        return if lo >= least && hi <= most {
            Verdict::Reproduced
        } else if hi < least || lo > most {
            Verdict::NotReproduced
        } else {
            Verdict::InstrumentOnly
        };
    }
    // Turned so that the paper's effect is below 1.
    let (lo, hi, paper) = if paper < 1.0 { (lo, hi, paper) } else { (1.0 / hi, 1.0 / lo, 1.0 / paper) };
    if hi < 1.0 {
        if hi < paper / SAME {
            Verdict::Stronger
        } else if lo > paper * SAME {
            Verdict::Weaker
        } else {
            Verdict::Reproduced
        }
    } else if lo > paper {
        Verdict::NotReproduced
    } else {
        Verdict::InstrumentOnly
    }
}

/// Judges what was measured of a way of ours, against what the paper prints for the same comparison.
///
/// **exceeded** if the whole interval is better than that; else as [`judge`] has it.
pub fn judge_ours(measured: Measured, printed: Printed, better: Direction) -> Verdict {
    let verdict = judge(measured, printed);
    let decided = !matches!(verdict, Verdict::ProblemAbsent | Verdict::InstrumentOnly);
    let beyond = match better {
        Direction::Lower => measured.interval.hi < printed.ratio,
        Direction::Higher => measured.interval.lo > printed.ratio,
    };
    if decided && beyond { Verdict::Exceeded } else { verdict }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Exceeded, InstrumentOnly, NotReproduced, ProblemAbsent, Reproduced, Stronger, Weaker};
    use super::*;

    fn measured(ratio: f64, lo: f64, hi: f64) -> Measured {
        Measured { ratio, interval: Interval { lo, hi }, baseline: 100.0 }
    }

    /// The paper prints a percentage alone.
    fn judged(ratio: f64, lo: f64, hi: f64, paper: f64) -> Verdict {
        judge(measured(ratio, lo, hi), Printed { ratio: paper, baseline: None })
    }

    #[test]
    fn an_effect_whose_interval_touches_that_of_the_paper_is_reproduced() {
        assert_eq!(judged(0.64, 0.60, 0.68, 0.64), Reproduced);
        assert_eq!(judged(0.85, 0.79, 0.92, 0.64), Reproduced, "0.79 is below 1.25 times 0.64");
        assert_eq!(judged(0.45, 0.40, 0.52, 0.64), Reproduced, "0.52 is above 0.8 times 0.64");
    }

    #[test]
    fn an_effect_of_the_same_direction_is_stronger_or_weaker() {
        assert_eq!(judged(0.40, 0.35, 0.50, 0.64), Stronger);
        assert_eq!(judged(0.90, 0.85, 0.95, 0.64), Weaker);
        assert_eq!(judged(5.27, 5.10, 5.49, 8.43), Weaker, "a cost, and a smaller one");
        assert_eq!(judged(5.80, 5.79, 5.80, 3.00), Stronger);
    }

    #[test]
    fn no_effect_and_the_other_direction_are_not_reproduced() {
        assert_eq!(judged(1.30, 1.10, 1.50, 0.64), NotReproduced);
        assert_eq!(judged(0.95, 0.90, 1.04, 0.17), NotReproduced);
        assert_eq!(
            judged(1.00, 0.98, 1.02, 0.90),
            NotReproduced,
            "sure to be no effect, though it is near the paper's"
        );
        assert_eq!(judged(0.90, 0.80, 0.95, 1.40), NotReproduced, "a gain where the paper saw a cost");
    }

    #[test]
    fn an_interval_that_reaches_from_no_effect_to_the_papers_decides_nothing() {
        assert_eq!(judged(0.70, 0.40, 1.05, 0.64), InstrumentOnly);
        assert_eq!(judged(1.50, 0.95, 3.10, 3.00), InstrumentOnly);
    }

    #[test]
    fn a_gain_and_the_cost_of_the_same_size_are_judged_alike() {
        for (ratio, lo, hi, paper) in [
            (0.64, 0.60, 0.68, 0.64),
            (0.40, 0.35, 0.50, 0.64),
            (0.90, 0.85, 0.95, 0.64),
            (1.0, 0.95, 1.05, 1.0),
            (1.3, 1.2, 1.4, 1.0),
            (0.7, 0.4, 1.05, 0.64),
        ] {
            assert_eq!(judged(1.0 / ratio, 1.0 / hi, 1.0 / lo, 1.0 / paper), judged(ratio, lo, hi, paper));
        }
    }

    #[test]
    fn no_difference_is_reproduced_by_a_tight_interval_around_one() {
        assert_eq!(judged(1.01, 0.95, 1.06, 1.0), Reproduced);
        assert_eq!(judged(1.01, 0.80, 1.30, 1.0), InstrumentOnly);
        assert_eq!(judged(1.30, 1.15, 1.50, 1.0), NotReproduced);
        assert_eq!(judged(0.70, 0.60, 0.85, 1.0), NotReproduced);
    }

    #[test]
    fn where_the_baseline_is_another_nothing_is_said_about_the_remedy() {
        let here = |baseline| {
            let measured = Measured { baseline, ..measured(0.95, 0.90, 1.04) };
            judge(measured, Printed { ratio: 0.17, baseline: Some(336.0) })
        };
        assert_eq!(here(65.9), ProblemAbsent);
        assert_eq!(here(336.0 * 1.25), ProblemAbsent, "a worse problem is another one, too");
        assert_eq!(here(336.0 * 0.85), NotReproduced);
    }

    #[test]
    fn only_a_way_of_ours_exceeds() {
        let best = Printed { ratio: 0.64, baseline: Some(100.0) };
        let ours = |ratio, lo, hi| judge_ours(measured(ratio, lo, hi), best, Direction::Lower);
        assert_eq!(ours(0.60, 0.57, 0.63), Exceeded);
        assert_eq!(ours(0.40, 0.35, 0.50), Exceeded);
        assert_eq!(ours(0.60, 0.57, 0.65), Reproduced);
        assert_eq!(ours(1.00, 0.95, 1.05), NotReproduced);
        let more = |lo, hi| judge_ours(measured(1.6, lo, hi), Printed { ratio: 1.5, ..best }, Direction::Higher);
        assert_eq!((more(1.55, 1.7), more(1.45, 1.7)), (Exceeded, Reproduced));
        let elsewhere = Measured { baseline: 10.0, ..measured(0.40, 0.35, 0.50) };
        assert_eq!(judge_ours(elsewhere, best, Direction::Lower), ProblemAbsent);
    }

    #[test]
    fn numbers_that_mean_nothing_decide_nothing() {
        assert_eq!(judged(f64::NAN, 0.5, 0.6, 0.64), InstrumentOnly);
        assert_eq!(judged(0.5, 0.0, 0.6, 0.64), InstrumentOnly);
        assert_eq!(judged(0.5, 0.6, 0.4, 0.64), InstrumentOnly);
        assert_eq!(judged(0.5, 0.4, 0.6, 0.0), InstrumentOnly);
    }

    #[test]
    fn results_of_earlier_versions_are_read() {
        assert_eq!(serde_json::from_str::<Verdict>("\"contradicted\"").unwrap(), NotReproduced);
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.to_string());
        }
    }
}
