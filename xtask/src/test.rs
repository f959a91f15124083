//! `cargo xtask test`: every test of the workspace, those that need network namespaces included.
//!
//! Without `--install` it changes nothing on the host. All steps share one profile, one set of features and one target
//! folder, so nothing is compiled twice.

use crate::Failure;
use crate::again;
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
    // `cargo test` alone builds neither the command, unless its own package has integration tests, nor the preloaded
    // library. Naming the kinds of targets makes this build resolve features as the tests do, with dev-dependencies.
    let build = Step::cargo(&["build", "--workspace", "--lib", "--bins", "--tests", "--examples"]);
    println!("xtask: {}", build.line());
    part(|| build.run())?;
    let in_namespaces: &[&str] = if has("--quick") { &[] } else { &["--include-ignored"] };
    part(|| again::run(&["test", "--workspace"], in_namespaces))?;
    if has("--quick") { Ok(()) } else { part(crate::android::unit) }
}

fn part(work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let (result, took) = timed(work);
    println!("xtask: {} after {:.1} s", if result.is_ok() { "done" } else { "failed" }, took.as_secs_f64());
    result
}
