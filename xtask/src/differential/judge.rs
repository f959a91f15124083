//! What the arms said, compared case by case with what was said bare.

use super::BARE;
use super::exceptions::Exceptions;
use std::collections::{BTreeMap, BTreeSet};

/// What the cases of each arm said, in one turn.
#[derive(Debug, Default)]
pub struct Played {
    said: BTreeMap<String, BTreeMap<String, String>>,
    broken: BTreeMap<String, String>,
}

impl Played {
    /// Reads the lines of the stage: arm, case and words, with tabs between.
    pub fn read(lines: &[String]) -> Self {
        let mut played = Self::default();
        for line in lines {
            let [arm, case, words] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { continue };
            if case == "!" {
                played.broken.insert(arm.into(), words.into());
            } else {
                played.said.entry(arm.into()).or_default().insert(case.into(), words.into());
            }
        }
        played
    }
}

/// A case under an arm, over all turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How often it was played.
    pub turns: usize,
    /// How often it differed.
    pub differed: usize,
    /// What was said bare the last time that it differed, and under the arm.
    pub words: [String; 2],
}

impl Seen {
    /// Whether it differs, rather than not.
    pub fn differs(&self) -> bool {
        self.differed * 2 > self.turns
    }

    /// Whether it wants a program that is not installed here.
    pub fn is_missing(&self) -> bool {
        self.words[0].starts_with("missing: ")
    }
}

/// All that is known of all arms.
#[derive(Debug, Default)]
pub struct Judged {
    seen: BTreeMap<String, BTreeMap<String, Seen>>,
    broken: BTreeMap<String, String>,
}

/// What follows from it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Cases that said one thing and then another without headstart, or did not come to an end as they were written.
    pub unstable: Vec<String>,
    /// Arms that did not work, and why.
    pub broken: Vec<String>,
    /// Differences without a name: arm and case.
    pub unnamed: Vec<(String, String)>,
    /// Exceptions that differ no more: arm and case.
    pub stale: Vec<(String, String)>,
}

impl Judged {
    /// Adds a turn, whose first arm is the reference.
    pub fn add(&mut self, played: Played) {
        let nothing = BTreeMap::new();
        let bare = played.said.get(BARE[0]).unwrap_or(&nothing);
        for (arm, said) in played.said.iter().filter(|(arm, _)| *arm != BARE[0]) {
            for (case, words) in bare {
                let seen = self.seen.entry(arm.clone()).or_default().entry(case.clone()).or_default();
                let ours = said.get(case).map_or("nothing", String::as_str);
                seen.turns += 1;
                if ours != words {
                    seen.differed += 1;
                    seen.words = [words.clone(), ours.to_owned()];
                } else if seen.differed == 0 {
                    seen.words = [words.clone(), words.clone()];
                }
            }
        }
        self.broken.extend(played.broken);
    }

    /// Cases that ever differed under this arm.
    pub fn differing(&self, arm: &str) -> Vec<String> {
        let of = self.seen.get(arm).into_iter().flatten();
        of.filter(|(_, seen)| seen.differed > 0).map(|(case, _)| case.clone()).collect()
    }

    /// Cases that differed and have no name, or have a name and never differed.
    pub fn doubtful(&self, arm: &str, exceptions: &Exceptions) -> Vec<String> {
        let is_doubtful = |case: &str, seen: &Seen| {
            (seen.differed > 0) != exceptions.number(arm, case).is_some() && !seen.is_missing()
        };
        let of = self.seen.get(arm).into_iter().flatten();
        of.filter(|(case, seen)| is_doubtful(case, seen)).map(|(case, _)| case.clone()).collect()
    }

    /// The arms that were compared with the reference.
    pub fn arms(&self) -> impl Iterator<Item = &str> {
        self.seen.keys().map(String::as_str).filter(|arm| *arm != BARE[1])
    }

    /// The cases that were played bare.
    pub fn names(&self) -> BTreeSet<&str> {
        self.seen.values().flatten().map(|(case, _)| case.as_str()).collect()
    }

    /// How many there are.
    pub fn cases(&self) -> usize {
        self.names().len()
    }

    /// A case under an arm.
    pub fn seen(&self, arm: &str, case: &str) -> Option<&Seen> {
        self.seen.get(arm)?.get(case)
    }

    /// Judges by these exceptions.
    pub fn verdict(&self, exceptions: &Exceptions) -> Verdict {
        let mut verdict = Verdict::default();
        for (case, seen) in self.seen.get(BARE[1]).into_iter().flatten() {
            if seen.differed > 0 || seen.words[0].starts_with("unforeseen: ") || seen.words[0].starts_with("it hung") {
                verdict.unstable.push(format!("{case}: {}", seen.words.join(" / ")));
            }
        }
        verdict.broken = self.broken.iter().map(|(arm, why)| format!("{arm}: {why}")).collect();
        for arm in self.arms() {
            for (case, seen) in self.seen.get(arm).into_iter().flatten() {
                let named = exceptions.number(arm, case).is_some();
                if seen.differs() && !named {
                    verdict.unnamed.push((arm.to_owned(), case.clone()));
                } else if seen.differed == 0 && named && !seen.is_missing() && !exceptions.comes_and_goes(arm, case) {
                    verdict.stale.push((arm.to_owned(), case.clone()));
                }
            }
        }
        verdict
    }
}

impl Verdict {
    /// Whether all is as it should be.
    pub fn holds(&self) -> bool {
        *self == Self::default()
    }

    /// What is not, in a line.
    pub fn complaint(&self) -> String {
        let counts = [
            (self.unnamed.len(), "differences without a name"),
            (self.stale.len(), "exceptions that differ no more"),
            (self.unstable.len(), "cases that differ from themselves or fail without headstart"),
            (self.broken.len(), "arms that did not work"),
        ];
        let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        format!("{}; see above", counts.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(turns: &[&str]) -> Judged {
        let mut judged = Judged::default();
        for turn in turns {
            judged.add(Played::read(&turn.lines().map(|line| line.replace(' ', "\t")).collect::<Vec<_>>()));
        }
        judged
    }

    fn named(text: &str) -> Exceptions {
        Exceptions::parse(&format!("[[exception]]\n{text}\nreason = \"why\"\n")).unwrap()
    }

    #[test]
    fn a_difference_needs_a_name_and_a_name_a_difference() {
        let judged = judged(&["bare a 1\nbare b 1\nbare-again a 1\nbare-again b 1\nup a 1\nup b 2"]);
        assert_eq!(judged.differing("up"), ["b"]);
        let pair = |case: &str| ("up".to_owned(), case.to_owned());
        let verdict = judged.verdict(&Exceptions::default());
        assert_eq!((verdict.unnamed.as_slice(), verdict.holds()), (&[pair("b")][..], false));
        assert!(judged.verdict(&named("arms = \"up\"\ncases = \"b\"")).holds());
        let verdict = judged.verdict(&named("arms = \"up\"\ncases = [\"a\", \"b\", \"not-played\"]"));
        assert_eq!((verdict.stale.as_slice(), verdict.unnamed.len()), (&[pair("a")][..], 0));
        assert!(judged.verdict(&named("arms = \"up\"\ncases = [\"a\", \"b\"]\nsometimes = true")).holds());
        let doubtful = |cases: &str| judged.doubtful("up", &named(&format!("arms = \"up\"\ncases = {cases}")));
        assert_eq!((doubtful("\"b\""), doubtful("\"a\"")), (vec![], vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn a_name_for_a_program_that_is_not_installed_waits_for_it() {
        let judged = judged(&["bare a missing:\nup a missing:"]);
        let named = named("arms = \"up\"\ncases = \"a\"");
        assert_eq!(judged.verdict(&named).stale.len(), 1, "these words are no such words");
        let mut judged = Judged::default();
        judged.add(Played::read(&["bare\ta\tmissing: x".to_owned(), "up\ta\tmissing: x".to_owned()]));
        assert!(judged.verdict(&named).holds() && judged.doubtful("up", &named).is_empty());
    }

    #[test]
    fn what_differs_once_in_three_turns_is_no_difference_and_twice_is() {
        let turns = ["bare a 1\nup a 2", "bare a 1\nup a 1", "bare a 1\nup a 1"];
        assert!(judged(&turns).verdict(&Exceptions::default()).holds());
        let turns = ["bare a 1\nup a 2", "bare a 1\nup a 1", "bare a 1\nup a 3"];
        let judged = judged(&turns);
        assert_eq!(judged.verdict(&Exceptions::default()).unnamed.len(), 1);
        assert_eq!(judged.seen("up", "a").unwrap().words, ["1", "3"]);
    }

    #[test]
    fn a_case_that_differs_from_itself_or_is_missing_and_an_arm_that_breaks_are_failures() {
        let verdict = judged(&["bare a 1\nbare-again a 2\nup ! why"]).verdict(&Exceptions::default());
        assert_eq!(
            (verdict.unstable.as_slice(), verdict.broken.as_slice()),
            (&["a: 1 / 2".into()][..], &["up: why".into()][..])
        );
        let verdict = judged(&["bare a 1\nbare b 1\nup a 1"]).verdict(&Exceptions::default());
        assert_eq!(verdict.unnamed, [("up".to_owned(), "b".to_owned())], "it said nothing");
    }
}
