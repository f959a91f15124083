//! `cargo xtask test`: every test of the workspace, those that need network namespaces included.
//!
//! Without `--install` it changes nothing on the host. All steps share one profile, one set of features and one target
//! folder, so nothing is compiled twice.

use crate::Failure;
use crate::outcome::{Hidden, Outcome};
use crate::packages;
use crate::step::{Step, timed};
use std::collections::{BTreeMap, BTreeSet};

/// The flags, also for `ci`, which passes them on.
pub const FLAGS: &[&str] = &["--install", "--quick"];

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, FLAGS)?;
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let missing = packages::missing(packages::Brings::is_there);
    if has("--install") && !missing.is_empty() {
        packages::install(&missing)?;
    } else if !missing.is_empty() {
        for package in &missing {
            eprintln!("xtask: {} is missing ({}): tests that want it will skip", package.brings, package.why);
        }
        eprintln!("xtask: to have them: cargo xtask test --install, or: {}", packages::line_for(&missing));
    }
    // `cargo test` alone builds neither the command, unless its own package has integration tests, nor the preloaded
    // library. Naming the kinds of targets makes this build resolve features as the tests do, with dev-dependencies.
    let build = Step::cargo(&["build", "--workspace", "--lib", "--bins", "--tests", "--examples"]);
    println!("xtask: {}", build.line());
    part(|| build.run())?;
    let in_namespaces: &[&str] = if has("--quick") { &[] } else { &["--include-ignored"] };
    // The app's tests run even if others failed (`and` takes a value): a run of half an hour says all that it can.
    let tests = part(|| every_test(in_namespaces));
    if has("--quick") { tests } else { tests.and(part(crate::android::unit)) }
}

fn part(work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let (result, took) = timed(work);
    println!("xtask: {} after {:.1} s", if result.is_ok() { "done" } else { "failed" }, took.as_secs_f64());
    result
}

/// Runs the tests of the workspace once, all of them even if some fail, with `flags` for the tests themselves.
///
/// No test gets a second chance: one that fails now and then hides a fault of its own or of the product.
fn every_test(flags: &[&str]) -> Result<(), Failure> {
    let step = Step::cargo(&[&["test", "--workspace", "--no-fail-fast", "--"], flags, &["--show-output"]].concat());
    println!("xtask: {}", step.line());
    let mut hidden = Hidden::default();
    let captured = step.capture_showing(move |line| hidden.shows(line))?;
    let Outcome { passed, failed, targets, skipped } = Outcome::of(&captured);
    println!("xtask: {}", summary(passed, failed.len(), &skipped));
    if captured.success {
        return Ok(());
    }
    Err(Failure::Failed(format!("`{}` failed: {}", step.line(), [targets, failed].concat().join(", "))))
}

/// How many tests passed, failed and were skipped; the skipped ones by name, under the reason that they gave.
fn summary(passed: usize, failed: usize, skipped: &[(String, String)]) -> String {
    let names: BTreeSet<&str> = skipped.iter().map(|(name, _)| name.as_str()).collect();
    let mut out = format!("{passed} passed, {failed} failed, {} skipped", names.len());
    let mut by_reason = BTreeMap::<&str, Vec<&str>>::new();
    for (name, why) in skipped {
        by_reason.entry(why).or_default().push(name);
    }
    for (why, names) in by_reason {
        out += &format!("\n  skipped: {why}: {}", names.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_named_under_their_reasons() {
        let skipped = [("a::c", "no nft here"), ("b", "no tshark"), ("a::b", "no nft here"), ("b", "no nft here")];
        let skipped = skipped.map(|(name, why)| (name.to_owned(), why.to_owned()));
        let expected = "7 passed, 1 failed, 3 skipped\n  skipped: no nft here: a::c, a::b, b\n  skipped: no tshark: b";
        assert_eq!(summary(7, 1, &skipped), expected);
        assert_eq!(summary(7, 0, &[]), "7 passed, 0 failed, 0 skipped");
    }
}
