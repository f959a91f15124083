//! `cargo xtask test`: every test of the workspace, those that need network namespaces included.
//!
//! Without `--install` it changes nothing on the host. All steps share one profile, one set of features and one target
//! folder, so nothing is compiled twice.

use crate::Failure;
use crate::packages;
use crate::step::{Step, timed};

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
    for step in steps(has("--quick")) {
        println!("xtask: {}", step.line());
        let (result, took) = timed(|| step.run());
        result?;
        println!("xtask: done in {:.1} s", took.as_secs_f64());
    }
    Ok(())
}

/// The commands, in order.
fn steps(quick: bool) -> Vec<Step> {
    // `cargo test` alone builds neither the command, unless its own package has integration tests, nor the preloaded
    // library. Naming the kinds of targets makes this build resolve features as the tests do, with dev-dependencies.
    let build = Step::cargo(&["build", "--workspace", "--lib", "--bins", "--tests", "--examples"]);
    let mut arguments = vec!["test", "--workspace"];
    if !quick {
        arguments.extend(["--", "--include-ignored"]);
    }
    vec![build, Step::cargo(&arguments)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_leaves_out_what_needs_namespaces_and_nothing_else_changes() {
        let lines = |quick| steps(quick).iter().map(Step::line).collect::<Vec<_>>();
        let (full, quick) = (lines(false), lines(true));
        assert_eq!(full[0], quick[0]);
        assert_eq!(full[1], format!("{} -- --include-ignored", quick[1]));
    }
}
