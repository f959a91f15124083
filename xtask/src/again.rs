//! A second look at tests that failed: by themselves, one at a time.
//!
//! Tests in namespaces share their cores with all others, and a host's CI shares its cores with strangers. A test that
//! fails beside others and passes alone is named at the end, to be looked at; it does not throw away a change. A test
//! that fails alone too, or fails in company of many, is a failure.

use crate::Failure;
use crate::outcome::{Hidden, Outcome};
use crate::step::Step;
use std::collections::{BTreeMap, BTreeSet};

/// More tests than this do not fail by accident: they are not tried again.
const AT_MOST: usize = 5;

/// Runs `cargo test` with `arguments`, and what failed once more.
///
/// `flags` are for the tests themselves, after `--`.
pub fn run(arguments: &[&str], flags: &[&str]) -> Result<(), Failure> {
    let first = step(arguments, &["--no-fail-fast"], &[flags, &["--show-output"]].concat(), &[]);
    println!("xtask: {}", first.line());
    let mut hidden = Hidden::default();
    let heard = first.hear_showing(move |line| hidden.shows(line))?;
    let Outcome { passed, failed: names, targets, skipped } = Outcome::of(&heard);
    println!("xtask: {}", summary(passed, names.len(), &skipped));
    if heard.success {
        return Ok(());
    }
    let failure = || Failure::Failed(format!("`{}` failed: {}", first.line(), said(&targets, &names)));
    if targets.is_empty() || names.len() > AT_MOST || targets.len() > AT_MOST {
        return Err(failure());
    }
    for target in &targets {
        let target: Vec<&str> = target.split(' ').collect();
        if !passes_alone(&target, flags, &names)? {
            return Err(failure());
        }
    }
    println!("xtask: failed beside other tests and passed alone, look at them: {}", said(&targets, &names));
    Ok(())
}

/// Whether the failed tests of a target pass by themselves; all of its tests, if it did not say which failed (it crashed).
fn passes_alone(target: &[&str], flags: &[&str], names: &[String]) -> Result<bool, Failure> {
    let mut one_by_one = flags.to_vec();
    one_by_one.push("--test-threads=1");
    if !names.is_empty() {
        let named = step(&["test"], &of_workspace(target), &[one_by_one.clone(), vec!["--exact"]].concat(), names);
        println!("xtask: once more: {}", named.line());
        let heard = named.hear()?;
        if Outcome::of(&heard).passed > 0 || !heard.success {
            return Ok(heard.success);
        }
    }
    let whole = step(&["test"], target, &one_by_one, &[]);
    println!("xtask: once more: {}", whole.line());
    Ok(whole.hear()?.success)
}

/// The target's like in all packages. Of one package alone cargo would choose other features of what it depends on, and build all of that
/// anew; by their whole names, tests are found in no other one.
fn of_workspace<'a>(target: &[&'a str]) -> Vec<&'a str> {
    match target {
        ["-p", _, kind @ ..] if !kind.is_empty() => [&["--workspace"], kind].concat(),
        _ => target.to_vec(),
    }
}

fn step(arguments: &[&str], more: &[&str], flags: &[&str], names: &[String]) -> Step {
    let mut line = [arguments, more].concat();
    if !flags.is_empty() || !names.is_empty() {
        line.push("--");
        line.extend(flags);
        line.extend(names.iter().map(String::as_str));
    }
    Step::cargo(&line)
}

/// How many tests passed, failed and were skipped; those that were skipped by name, under the reason that they gave.
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

fn said(targets: &[String], names: &[String]) -> String {
    if names.is_empty() { targets.join(", ") } else { format!("{} ({})", names.join(", "), targets.join(", ")) }
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

    #[test]
    fn a_named_test_is_looked_for_in_all_packages_as_they_were_built() {
        assert_eq!(of_workspace(&["-p", "p", "--test", "run"]), ["--workspace", "--test", "run"]);
        assert_eq!(of_workspace(&["-p", "p", "--lib"]), ["--workspace", "--lib"]);
        assert_eq!(of_workspace(&["-p", "p"]), ["-p", "p"]);
    }

    #[test]
    fn tests_are_named_exactly_and_run_one_by_one() {
        let line = step(&["test"], &["-p", "p"], &["--include-ignored", "--exact"], &["a::c".into()]).line();
        assert_eq!(line, "cargo test -p p -- --include-ignored --exact a::c");
        assert_eq!(
            step(&["test", "--workspace"], &["--no-fail-fast"], &[], &[]).line(),
            "cargo test --workspace --no-fail-fast"
        );
    }
}
