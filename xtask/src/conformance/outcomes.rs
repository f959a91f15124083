//! What a suite's tests came to, and how two arms differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a test came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It said that it cannot run here.
    Skipped,
    /// It failed, or broke.
    Failed,
    /// It was not there at all.
    Absent,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Absent => "absent",
        })
    }
}

/// The outcomes of one run, by the tests' names. A name that occurs more than once has the worst of its outcomes.
pub type Outcomes = BTreeMap<String, Outcome>;

/// Adds an outcome.
pub fn add(to: &mut Outcomes, name: &str, outcome: Outcome) {
    let known = to.entry(name.to_owned()).or_insert(outcome);
    *known = outcome.max(*known);
}

/// How many tests came to what: "570 passed, 3 skipped".
pub fn tally(outcomes: &Outcomes) -> String {
    let count = |wanted: Outcome| outcomes.values().filter(|outcome| **outcome == wanted).count();
    let kinds = [Outcome::Passed, Outcome::Skipped, Outcome::Failed].map(|kind| (count(kind), kind));
    let said: Vec<_> = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}")).collect();
    if said.is_empty() { "no tests".into() } else { said.join(", ") }
}

/// All outcomes of a test, over all rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    bare: BTreeSet<Outcome>,
    headstart: BTreeSet<Outcome>,
}

/// What the two arms came to, round by round.
#[derive(Debug, Default)]
pub struct Comparison {
    tests: BTreeMap<String, Seen>,
}

/// A test whose outcomes are not the same.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// The test's name, and what it came to.
    pub what: String,
    /// Whether no outcome of one arm ever was one of the other's: what is not, is a test that comes to this and that.
    pub stands: bool,
}

impl Comparison {
    /// Adds a round.
    pub fn add(&mut self, bare: &Outcomes, headstart: &Outcomes) {
        let names: BTreeSet<_> = bare.keys().chain(headstart.keys()).chain(self.tests.keys()).cloned().collect();
        for name in names {
            let of = |arm: &Outcomes| arm.get(&name).copied().unwrap_or(Outcome::Absent);
            let (bare, headstart) = (of(bare), of(headstart));
            let seen = self.tests.entry(name).or_default();
            seen.bare.insert(bare);
            seen.headstart.insert(headstart);
        }
    }

    /// The tests that did not come to the same in every round.
    pub fn differences(&self) -> Vec<Difference> {
        let differing = self.tests.iter().filter(|(_, seen)| seen.bare != seen.headstart || seen.bare.len() > 1);
        differing
            .map(|(name, Seen { bare, headstart })| {
                let words =
                    |all: &BTreeSet<Outcome>| all.iter().map(Outcome::to_string).collect::<Vec<_>>().join(" and ");
                Difference {
                    what: format!("{name}: {} bare, {} under headstart", words(bare), words(headstart)),
                    stands: bare.is_disjoint(headstart),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(list: &[(&str, Outcome)]) -> Outcomes {
        list.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect()
    }

    #[test]
    fn a_name_that_comes_twice_has_the_worse_outcome() {
        let mut all = Outcomes::new();
        [Outcome::Passed, Outcome::Failed, Outcome::Skipped].into_iter().for_each(|o| add(&mut all, "a", o));
        assert_eq!(all["a"], Outcome::Failed);
        assert_eq!((tally(&all), tally(&Outcomes::new())), ("1 failed".into(), "no tests".into()));
    }

    #[test]
    fn the_same_in_both_arms_is_no_difference_even_if_it_fails() {
        let mut comparison = Comparison::default();
        let all = outcomes(&[("a", Outcome::Passed), ("b", Outcome::Failed)]);
        comparison.add(&all, &all);
        assert_eq!(comparison.differences(), []);
    }

    #[test]
    fn a_difference_in_every_round_stands_and_one_that_comes_and_goes_is_told() {
        let mut comparison = Comparison::default();
        let bare = outcomes(&[("gone", Outcome::Passed), ("shaky", Outcome::Passed)]);
        comparison.add(&bare, &outcomes(&[("shaky", Outcome::Failed)]));
        assert!(comparison.differences().iter().all(|d| d.stands));
        comparison.add(&bare, &outcomes(&[("shaky", Outcome::Passed)]));
        let [gone, shaky] = &comparison.differences()[..] else { panic!("{:?}", comparison.differences()) };
        assert_eq!((gone.what.as_str(), gone.stands), ("gone: passed bare, absent under headstart", true));
        assert_eq!(
            (shaky.what.as_str(), shaky.stands),
            ("shaky: passed bare, passed and failed under headstart", false)
        );
    }
}
