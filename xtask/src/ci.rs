//! `cargo xtask ci`: what a change must pass, cheapest first, stopping at the first failure.

use crate::Failure;
use crate::step::{Step, timed};
use std::time::Duration;

/// What a named part of the run does.
enum Part {
    /// A command.
    Command(Step),
    /// Another chore, with its arguments.
    Chore(fn(&[String]) -> Result<(), Failure>, Vec<String>),
}

/// The parts in order: name, how to run it again by hand, and what it does.
fn parts(arguments: &[String]) -> Vec<(&'static str, String, Part)> {
    let command = |name, step: Step| (name, step.line(), Part::Command(step));
    let doc = Step::cargo(&["doc", "--workspace", "--no-deps", "--all-features"]).with("RUSTDOCFLAGS", "-D warnings");
    let mut test_line = vec!["cargo xtask test"];
    test_line.extend(arguments.iter().map(String::as_str));
    vec![
        command("format", Step::cargo(&["fmt", "--all", "--check"])),
        command("clippy", Step::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        command("documentation", doc),
        ("tidy", "cargo xtask tidy".into(), Part::Chore(crate::tidy::run, Vec::new())),
        ("claims", "cargo xtask claims".into(), Part::Chore(crate::claims::run, Vec::new())),
        ("docs", "cargo xtask docs".into(), Part::Chore(crate::docs::run, vec![crate::docs::FOUND.to_owned()])),
        ("test", test_line.join(" "), Part::Chore(crate::test::run, arguments.to_vec())),
    ]
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, crate::test::FLAGS)?;
    let mut done: Vec<(&str, Duration)> = Vec::new();
    for (name, again, part) in parts(arguments) {
        println!("\nci: {name}: {again}");
        let (result, took) = timed(|| match &part {
            Part::Command(step) => step.run(),
            Part::Chore(chore, arguments) => chore(arguments),
        });
        if let Err(failure) = result {
            print_summary(&done, Some((name, took)));
            let (Failure::Failed(why) | Failure::Usage(why)) = failure;
            return Err(Failure::Failed(format!("{why}\nci: `{name}` failed; run it again with: {again}")));
        }
        done.push((name, took));
    }
    print_summary(&done, None);
    Ok(())
}

fn print_summary(done: &[(&str, Duration)], failed: Option<(&str, Duration)>) {
    println!("\nci: summary");
    let passed = done.iter().map(|part| ("ok", part));
    for (word, (name, took)) in passed.chain(failed.iter().map(|part| ("FAILED", part))) {
        println!("  {word:<6}  {name:<13}  {:>7.1} s", took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_come_last_and_get_the_arguments() {
        let parts = parts(&["--quick".to_owned()]);
        let (name, again, _) = parts.last().unwrap();
        assert_eq!((*name, again.as_str()), ("test", "cargo xtask test --quick"));
    }

    #[test]
    fn warnings_are_errors_in_clippy_and_in_the_documentation() {
        let lines: Vec<String> = parts(&[]).into_iter().map(|(_, again, _)| again).collect();
        assert!(lines.iter().any(|line| line.contains("clippy") && line.ends_with("-- -D warnings")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("doc ") && line.starts_with("RUSTDOCFLAGS=")), "{lines:?}");
    }
}
