//! Go's own tests of its package `net`, in two programs: one with the C library and one without any, static.

use super::outcomes::{Outcome, Outcomes, add};
use super::{Found, Suite, Work};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// See the module.
pub const SUITE: Suite = Suite { name: "go", find };

/// What is built: its name, and whether with the C library.
const BUILDS: [(&str, &str); 2] = [("with the C library", "1"), ("static", "0")];

fn find(scratch: &Path) -> Result<Vec<Found>, String> {
    let go = |words: &[&str], cgo: &str| {
        let mut command = Command::new("go");
        // No other toolchain than the one that is here, nothing downloaded. Modules on: without them the program would have
        // the defaults of old versions of Go (GODEBUG), and fail tests by that.
        command.args(words).env("CGO_ENABLED", cgo).env("GOTOOLCHAIN", "local").env("GO111MODULE", "on");
        let output = command.env("GOFLAGS", "").current_dir(scratch).stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("go cannot be run: {e} (Debian package: golang-go)"))?;
        if !output.status.success() {
            return Err(format!("go {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let version = go(&["env", "GOVERSION"], "0")?;
    let sources = PathBuf::from(go(&["env", "GOROOT"], "0")?).join("src/net");
    let build = |(n, (what, cgo)): (usize, (&str, &str))| {
        let program = scratch.join(format!("net-{n}.test"));
        go(&["test", "-c", "-o", &program.to_string_lossy(), "net"], cgo)?;
        let sources = sources.clone();
        Ok(Found {
            name: format!("{version}, package net, {what}"),
            run: Box::new(move |work| run(&program, &sources, work)),
        })
    };
    BUILDS.into_iter().enumerate().map(build).collect()
}

fn run(program: &Path, sources: &Path, work: &Work<'_>) -> Result<Outcomes, String> {
    let mut command = work.command(program);
    // They read files beside their sources. Short: without tests that need the world outside.
    command.args(["-test.short", "-test.v"]).current_dir(sources).env_remove("GODEBUG");
    let said = work.run(command)?;
    let outcomes = parse(&said);
    if outcomes.is_empty() { Err(format!("it ran no tests, and said: {}", said.trim())) } else { Ok(outcomes) }
}

/// The outcomes in what a test program of Go prints: lines with `--- PASS: TestName (0.00s)`.
fn parse(text: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for line in text.lines() {
        for (mark, outcome) in
            [("--- PASS: ", Outcome::Passed), ("--- FAIL: ", Outcome::Failed), ("--- SKIP: ", Outcome::Skipped)]
        {
            // A test may have printed something without ending its line.
            let Some((_, rest)) = line.split_once(mark) else { continue };
            if let Some((name, _)) = rest.rsplit_once(" (") {
                add(&mut outcomes, name, outcome);
            }
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_and_of_their_parts_are_read_wherever_they_begin() {
        let text = "=== RUN   TestA\nhello--- PASS: TestA (0.00s)\n    --- SKIP: TestA/part_(one) (0.00s)\n        x.go:1: no\n\
                    --- FAIL: TestB (1.25s)\nPASS\nok\n";
        let outcomes: Vec<_> = parse(text).into_iter().collect();
        let expected = [("TestA", Outcome::Passed), ("TestA/part_(one)", Outcome::Skipped), ("TestB", Outcome::Failed)];
        assert_eq!(outcomes, expected.map(|(name, outcome)| (name.to_owned(), outcome)));
    }
}
