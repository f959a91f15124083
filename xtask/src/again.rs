//! A second look at tests that failed: by themselves, one at a time.
//!
//! Tests in namespaces share their cores with all others, and a host's CI shares its cores with strangers. A test that
//! fails beside others and passes alone is named at the end, to be looked at; it does not throw away a change. A test
//! that fails alone too, or fails in company of many, is a failure.

use crate::Failure;
use crate::step::{Heard, Step};

/// More tests than this do not fail by accident: they are not tried again.
const AT_MOST: usize = 5;

/// Runs `cargo test` with `arguments`, and what failed once more.
///
/// `flags` are for the tests themselves, after `--`.
pub fn run(arguments: &[&str], flags: &[&str]) -> Result<(), Failure> {
    let first = step(arguments, &["--no-fail-fast"], flags, &[]);
    println!("xtask: {}", first.line());
    let heard = first.hear()?;
    if heard.success {
        return Ok(());
    }
    let (targets, names) = (failed_targets(&heard), failed_tests(&heard));
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
        if passed(&heard) > 0 || !heard.success {
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

fn said(targets: &[String], names: &[String]) -> String {
    if names.is_empty() { targets.join(", ") } else { format!("{} ({})", names.join(", "), targets.join(", ")) }
}

/// The targets that cargo lists at its end, as words of its command line: `-p headstart --test run`.
fn failed_targets(heard: &Heard) -> Vec<String> {
    let end = heard.errors.iter().rposition(|line| line.starts_with("error: ") && line.ends_with(" failed:"));
    let listed = end.map_or(&[][..], |at| &heard.errors[at + 1..]);
    listed.iter().map_while(|line| Some(line.trim().strip_prefix('`')?.strip_suffix('`')?.to_owned())).collect()
}

/// The names in the lists that test programs print at their ends, after their last `failures:`.
fn failed_tests(heard: &Heard) -> Vec<String> {
    let mut names = Vec::new();
    let mut listed = Vec::new();
    for line in &heard.output {
        if line == "failures:" {
            listed.clear();
        } else if line.starts_with("test result: ") {
            names.append(&mut listed);
        } else if let Some(name) = line.strip_prefix("    ") {
            listed.push(name.to_owned());
        } else if !line.is_empty() {
            listed.clear();
        }
    }
    names.sort();
    names.dedup();
    names
}

/// How many tests passed, by all the summary lines.
fn passed(heard: &Heard) -> usize {
    let summaries = heard.output.iter().filter_map(|line| line.strip_prefix("test result: ok. "));
    summaries.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(output: &str, errors: &str) -> Heard {
        let lines = |text: &str| text.lines().map(str::to_owned).collect();
        Heard { success: false, output: lines(output), errors: lines(errors) }
    }

    #[test]
    fn what_failed_is_read_from_the_ends_of_test_programs_and_of_cargo() {
        let output = "\nrunning 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\nfailures:\n\n---- a::c stdout ----\n\n\
            thread 'a::c' panicked at src/x.rs:1:\n    an indented line\nboom\n\n\nfailures:\n    a::c\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n\n\
            running 1 test\ntest d ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
        let errors = "     Running tests/x.rs (target/debug/deps/x-1)\nerror: test failed, to rerun pass `-p p --test x`\n\
            error: 1 target failed:\n    `-p p --test x`\n";
        let heard = heard(output, errors);
        assert_eq!(failed_tests(&heard), ["a::c"]);
        assert_eq!(failed_targets(&heard), ["-p p --test x"]);
        assert_eq!(passed(&heard), 1);
    }

    #[test]
    fn a_build_that_fails_names_no_target() {
        let heard =
            heard("", "error[E0425]: cannot find value\nerror: could not compile `x` (lib) due to 1 previous error\n");
        assert!(failed_targets(&heard).is_empty() && failed_tests(&heard).is_empty());
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
