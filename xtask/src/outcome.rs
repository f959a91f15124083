//! What `cargo test -- --show-output` printed: which tests passed, failed and were skipped.
//!
//! A test that cannot run here prints `skipped: ` and the reason, and returns; for libtest it passed. It counts as skipped.
//! Reads lines, starts nothing.

use crate::step::Captured;

/// What a test prints before the reason when it skips all or a part of itself.
const SKIPPED: &str = "skipped: ";

/// The tests of one `cargo test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many passed, without those that were skipped.
    pub passed: usize,
    /// Names of those that failed.
    pub failed: Vec<String>,
    /// Targets with a failure, as words of cargo's command line: `-p headstart --test run`.
    pub targets: Vec<String>,
    /// Name and reason of each that was skipped, wholly or in part; one that gave two reasons is here twice.
    pub skipped: Vec<(String, String)>,
}

impl Outcome {
    /// Reads what was printed.
    pub fn of(captured: &Captured) -> Self {
        let mut outcome = Self { targets: failed_targets(captured), ..Self::default() };
        let mut list = Vec::new();
        let mut test = None;
        for line in &captured.output {
            if line == "failures:" || line == "successes:" {
                list.clear();
                test = None;
            } else if let Some(result) = line.strip_prefix("test result: ") {
                if result.starts_with("FAILED") {
                    outcome.failed.append(&mut list);
                }
                outcome.passed += count(result, "passed");
                (list, test) = (Vec::new(), None);
            } else if let Some(name) = line.strip_prefix("---- ").and_then(|l| l.strip_suffix(" stdout ----")) {
                test = Some(name.to_owned());
            } else if let (Some(name), Some(why)) = (&test, line.strip_prefix(SKIPPED)) {
                outcome.skipped.push((name.clone(), why.to_owned()));
            } else if let Some(name) = line.strip_prefix("    ") {
                list.push(name.to_owned());
            } else if !line.is_empty() {
                list.clear();
            }
        }
        outcome.failed.sort();
        outcome.failed.dedup();
        // The same name in two test programs is one test here; so is a test that skipped and failed.
        outcome.skipped.sort();
        outcome.skipped.dedup();
        let mut names: Vec<&String> = outcome.skipped.iter().map(|(name, _)| name).collect();
        names.dedup();
        names.retain(|name| !outcome.failed.contains(name));
        outcome.passed = outcome.passed.saturating_sub(names.len());
        outcome
    }
}

/// The number before `word` in a summary line such as `ok. 3 passed; 0 failed; 1 ignored`.
fn count(result: &str, word: &str) -> usize {
    let words: Vec<&str> = result.split([' ', ';']).collect();
    let at = words.iter().position(|w| *w == word);
    at.and_then(|at| words[at.checked_sub(1)?].parse().ok()).unwrap_or(0)
}

/// The targets that cargo lists at its end.
fn failed_targets(captured: &Captured) -> Vec<String> {
    let end = captured.errors.iter().rposition(|line| line.starts_with("error: ") && line.ends_with(" failed:"));
    let listed = end.map_or(&[][..], |at| &captured.errors[at + 1..]);
    listed.iter().map_while(|line| Some(line.trim().strip_prefix('`')?.strip_suffix('`')?.to_owned())).collect()
}

/// Hides what tests printed that passed: `--show-output` is there to hear of those that were skipped, not to fill the screen.
#[derive(Default)]
pub struct Hidden {
    within: bool,
}

impl Hidden {
    /// Whether to show the next line.
    pub fn shows(&mut self, line: &str) -> bool {
        if line == "successes:" {
            self.within = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.within = false;
        }
        !self.within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(output: &str, errors: &str) -> Captured {
        let lines = |text: &str| text.lines().map(str::to_owned).collect();
        Captured { success: false, output: lines(output), errors: lines(errors) }
    }

    const OUTPUT: &str = "\nrunning 4 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest a::s ... ok\n\n\
        successes:\n\n---- a::s stdout ----\nskipped: no nft here\n\n\nsuccesses:\n    a::b\n    a::s\n\n\
        failures:\n\n---- a::c stdout ----\n\nthread 'a::c' panicked at src/x.rs:1:\n    an indented line\nboom\n\n\n\
        failures:\n    a::c\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n\n\
        running 1 test\ntest d ... ok\n\nsuccesses:\n\nsuccesses:\n    d\n\n\
        test result: ok. 1 passed; 0 failed; 0 ignored\n";

    #[test]
    fn what_failed_passed_and_was_skipped_is_read_from_the_ends_of_test_programs_and_of_cargo() {
        let errors = "     Running tests/x.rs (target/debug/deps/x-1)\nerror: test failed, to rerun pass `-p p --test x`\n\
            error: 1 target failed:\n    `-p p --test x`\n";
        let expected = Outcome {
            passed: 2,
            failed: vec!["a::c".into()],
            targets: vec!["-p p --test x".into()],
            skipped: vec![("a::s".into(), "no nft here".into())],
        };
        assert_eq!(Outcome::of(&captured(OUTPUT, errors)), expected);
    }

    #[test]
    fn a_build_that_fails_names_no_target() {
        let errors = "error[E0425]: cannot find value\nerror: could not compile `x` (lib) due to 1 previous error\n";
        assert_eq!(Outcome::of(&captured("", errors)), Outcome::default());
    }

    #[test]
    fn the_output_of_what_passed_is_hidden_and_that_of_what_failed_is_not() {
        let mut hidden = Hidden::default();
        let shown: Vec<&str> = OUTPUT.lines().filter(|line| hidden.shows(line)).collect();
        assert!(!shown.contains(&"skipped: no nft here") && !shown.contains(&"    d"), "{shown:?}");
        assert!(
            shown.contains(&"boom") && shown.contains(&"test d ... ok") && shown.contains(&"    a::c"),
            "{shown:?}"
        );
    }
}
