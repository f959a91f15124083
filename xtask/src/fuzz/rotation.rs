//! Whose turn it is: every target that has had none has one in the first round; one that finds nothing new rests for a round, then two, four, at most
//! [`LONGEST_REST`]; one that finds something is there in the next round again. What earlier runs have found, or not, counts as well.

use std::collections::BTreeMap;

/// The longest rest, in rounds: no target is given up.
const LONGEST_REST: u32 = 16;

/// See the module.
#[derive(Debug)]
pub struct Rotation {
    round: u32,
    waiting: BTreeMap<String, Turn>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The round of its next turn.
    due: u32,
    /// For how many rounds it has rested last.
    rest: u32,
}

impl Rotation {
    /// Of these targets, each of which has found nothing in so many turns before.
    pub fn of(targets: &[String], quiet: impl Fn(&str) -> u64) -> Self {
        let turn = |target: &String| {
            let rest = (0..quiet(target).min(u64::from(LONGEST_REST))).fold(0, |rest, _| longer(rest));
            (target.clone(), Turn { due: rest, rest })
        };
        Self { round: 0, waiting: targets.iter().map(turn).collect() }
    }

    /// The target whose turn it is; none if none is left.
    pub fn next(&mut self) -> Option<String> {
        let (target, turn) = self.waiting.iter().min_by_key(|(name, turn)| (turn.due, name.as_str()))?;
        self.round = turn.due;
        Some(target.clone())
    }

    /// It has had its turn, and found so many features that nothing before had.
    pub fn found(&mut self, target: &str, new: u64) {
        let Some(turn) = self.waiting.get_mut(target) else { return };
        turn.rest = if new > 0 { 0 } else { longer(turn.rest) };
        turn.due = self.round + 1 + turn.rest;
    }

    /// It is broken, and is not played any more.
    pub fn leave(&mut self, target: &str) {
        self.waiting.remove(target);
    }
}

/// The rest after one of so many rounds.
fn longer(rest: u32) -> u32 {
    (2 * rest).clamp(1, LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_something_has_more_turns_and_nobody_is_given_up() {
        let targets = ["dull", "keen", "poor"].map(str::to_owned);
        let mut rotation = Rotation::of(&targets, |_| 0);
        let mut turns = BTreeMap::<String, u32>::new();
        for turn in 0..300 {
            let target = rotation.next().unwrap();
            *turns.entry(target.clone()).or_default() += 1;
            let new = match target.as_str() {
                "keen" => 3,
                "poor" if turn % 4 == 0 => 1,
                _ => 0,
            };
            rotation.found(&target, new);
        }
        assert!(turns["keen"] > 200 && turns["dull"] >= 12 && turns["poor"] >= turns["dull"], "{turns:?}");
        for target in &targets {
            assert!(rotation.next().is_some());
            rotation.leave(target);
        }
        assert_eq!(rotation.next(), None);
    }

    #[test]
    fn a_run_begins_with_those_that_found_something_lately_in_the_run_before() {
        let targets = ["dull", "keen", "poor"].map(str::to_owned);
        let quiet = |target: &str| match target {
            "dull" => u64::MAX,
            "poor" => 2,
            _ => 0,
        };
        let mut rotation = Rotation::of(&targets, quiet);
        let turns = std::iter::from_fn(|| {
            let target = rotation.next()?;
            rotation.found(&target, u64::from(target == "keen"));
            Some(target)
        });
        let turns: Vec<_> = turns.take(21).collect();
        assert_eq!(turns[..4], ["keen", "keen", "keen", "poor"], "two turns without a find: a rest of two rounds");
        assert_eq!(turns.iter().filter(|target| *target == "dull").count(), 1, "it is not given up: {turns:?}");
    }
}
