//! `cargo xtask mutants`: does a test fail when the code is wrong? By cargo-mutants, over the crates that decide.
//!
//! A mutant is one change of a function. It is *caught* if a test of its crate fails or hangs, *unviable* if it does not compile, and a
//! *survivor* if all tests pass. A run that was interrupted goes on where it was: what was caught before is not played again until
//! `--anew`. Survivors stand in `docs/internals/mutants.md`, each with a reason; one that does not is a failure.

use crate::Failure;
use crate::step::Step;
use crate::tree::workspace_root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate whose tests have to bite.
struct Crate {
    folder: &'static str,
    package: &'static str,
    /// What cargo tests for each mutant.
    tests: &'static [&'static str],
}

const CRATES: &[Crate] = &[
    Crate {
        folder: "crates/core/",
        package: "headstart-core",
        tests: &["--lib", "--test", "machines", "--test", "registries", "--test", "eyeballs_v3", "--test", "law"],
    },
    Crate { folder: "crates/link/", package: "headstart-link", tests: &["--lib", "--tests"] },
    Crate { folder: "crates/realtime/", package: "headstart-realtime", tests: &["--lib", "--tests"] },
    // Its other tests run its examples, which cargo does not build for them.
    Crate { folder: "crates/quic/", package: "headstart-quic", tests: &["--lib"] },
];

/// Where survivors have their reasons.
const REASONS: &str = "docs/internals/mutants.md";

/// The version that is installed, and its results are read of.
const TOOL: &str = "cargo-mutants@^27";

/// Of the mutants that compile, so many in a hundred are to be caught.
const GOAL: usize = 90;

/// What the chore was called with.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    /// Only functions that differ from the main branch.
    changed: bool,
    /// Forget what earlier runs have found.
    anew: bool,
    /// One part of so many, as cargo-mutants has it: `0/8`.
    shard: Option<String>,
    /// Files, by what cargo-mutants takes for `--file`.
    files: Vec<String>,
}

fn parse(arguments: &[String]) -> Result<Call, Failure> {
    let mut call = Call::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--changed" => call.changed = true,
            "--anew" => call.anew = true,
            "--shard" => {
                let shard = rest.next().filter(|shard| is_shard(shard));
                let wrong = || Failure::Usage("--shard: K/N, K from 0, less than N".into());
                call.shard = Some(shard.ok_or_else(wrong)?.clone());
            }
            file if package_of(file).is_some() => call.files.push(file.to_owned()),
            other => {
                let crates: Vec<_> = CRATES.iter().map(|of| of.folder).collect();
                return Err(Failure::Usage(format!("`{other}`: a file below {}, or an option", crates.join(", "))));
            }
        }
    }
    Ok(call)
}

fn is_shard(text: &str) -> bool {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse::<u32>().ok()?, n.parse::<u32>().ok()?)));
    parts.is_some_and(|(k, n)| k < n)
}

fn package_of(file: &str) -> Option<&'static str> {
    CRATES.iter().find(|of| file.starts_with(of.folder)).map(|of| of.package)
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let call = parse(arguments)?;
    let root = workspace_root()?;
    let tool = tool(&root)?;
    let mut all = Found::default();
    for Crate { folder, package, tests } in CRATES {
        let files: Vec<_> = call.files.iter().filter(|file| file.starts_with(folder)).collect();
        if !call.files.is_empty() && files.is_empty() {
            continue;
        }
        // One folder of results a package: a run of one does not forget the others.
        let output = root.join("target/mutants").join(package);
        if call.anew && output.exists() {
            fs::remove_dir_all(&output).map_err(|e| Failure::Failed(format!("{}: {e}", output.display())))?;
        }
        fs::create_dir_all(&output).map_err(|e| Failure::Failed(format!("{}: {e}", output.display())))?;
        let mut words = words(&call, package, &files, &output, &root)?;
        words.push("--".to_owned());
        words.extend(tests.iter().map(|word| (*word).to_owned()));
        let step = Step::command(&tool.to_string_lossy(), &words.iter().map(String::as_str).collect::<Vec<_>>());
        // Missed mutants are its failure (exit code 2) and our result; what it could not play leaves no results.
        let _ = step.with("CARGO_TARGET_DIR", root.join("target/mutants-build").to_string_lossy()).run();
        all.add(&output.join("mutants.out"));
    }
    judge(&all, &fs::read_to_string(root.join(REASONS)).unwrap_or_default())
}

/// The words of cargo-mutants for one package.
fn words(call: &Call, package: &str, files: &[&String], output: &Path, root: &Path) -> Result<Vec<String>, Failure> {
    let mut words: Vec<String> = ["mutants", "--package", package, "--iterate", "--no-shuffle", "--output"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    words.push(output.to_string_lossy().into_owned());
    for file in files {
        words.extend(["--file".to_owned(), (*file).clone()]);
    }
    if let Some(shard) = &call.shard {
        words.extend(["--shard".to_owned(), shard.clone()]);
    }
    if call.changed {
        let diff = Step::command("git", &["diff", "main...HEAD", "--", "crates"]).capture()?;
        let file = root.join("target/mutants/changed.diff");
        fs::write(&file, diff.output.join("\n") + "\n")
            .map_err(|e| Failure::Failed(format!("{}: {e}", file.display())))?;
        words.extend(["--in-diff".to_owned(), file.to_string_lossy().into_owned()]);
    }
    Ok(words)
}

/// cargo-mutants, installed by name into `target/tools` the first time.
fn tool(root: &Path) -> Result<PathBuf, Failure> {
    let tools = root.join("target/tools");
    let ours = tools.join("bin/cargo-mutants");
    if !ours.is_file() {
        Step::cargo(&["install", TOOL, "--locked", "--root", &tools.to_string_lossy()]).run()?;
    }
    Ok(ours)
}

/// What was found, a line of cargo-mutants each.
#[derive(Debug, Default)]
struct Found {
    caught: usize,
    unviable: usize,
    missed: Vec<String>,
}

impl Found {
    /// Adds the results in a folder; a run that found nothing to play has left none. What `--iterate` has left out was caught or
    /// unviable before.
    fn add(&mut self, folder: &Path) {
        let lines = |name: &str| -> Vec<String> {
            let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
            text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
        };
        let of = |now: &str, before: &str| lines(now).into_iter().chain(lines(before)).collect::<BTreeSet<_>>().len();
        // One that hangs is caught by the time that it takes.
        self.caught += of("caught.txt", "previously_caught.txt") + lines("timeout.txt").len();
        self.unviable += lines("unviable.txt").len();
        self.missed.extend(lines("missed.txt"));
    }
}

/// A mutant without its line, which moves with every change above it.
fn name(line: &str) -> String {
    match line.split_once(": ") {
        Some((at, what)) => format!("{}: {what}", at.split(':').next().unwrap_or(at)),
        None => line.to_owned(),
    }
}

/// The mutants that have a reason: the first two columns of a table, `| file | mutant | reason |`.
fn with_reasons(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(|cell| cell.trim().trim_matches('`'));
        let (file, mutant, reason) = (cells.next()?, cells.next()?, cells.next()?);
        (package_of(file).is_some() && !reason.is_empty()).then(|| format!("{file}: {mutant}"))
    });
    rows.collect()
}

fn judge(found: &Found, page: &str) -> Result<(), Failure> {
    let viable = found.caught + found.missed.len();
    if viable == 0 {
        println!("mutants: none were played");
        return Ok(());
    }
    println!(
        "mutants: {} of {viable} viable ones caught ({} %), {} unviable",
        found.caught,
        found.caught * 100 / viable,
        found.unviable
    );
    let known = with_reasons(page);
    let unknown: Vec<_> = found.missed.iter().filter(|line| !known.contains(&escaped(&name(line)))).collect();
    unknown.iter().for_each(|line| println!("  survives without a reason in {REASONS}: {line}"));
    if !unknown.is_empty() {
        return Err(Failure::Failed(format!("{} mutants survive without a reason", unknown.len())));
    }
    if found.caught * 100 < GOAL * viable {
        return Err(Failure::Failed(format!("less than {GOAL} % of the viable mutants are caught")));
    }
    Ok(())
}

/// As it stands in a table: a bar would end its cell.
fn escaped(mutant: &str) -> String {
    mutant.replace('|', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| file | mutant | why |\n|---|---|---|\n\
        | `crates/core/src/a.rs` | `replace f -> u8 with 0` | f is 0 by its contract |\n\
        | `crates/core/src/a.rs` | `replace // with && in g` | the same where it can be reached |\n\
        | `crates/core/src/b.rs` | `replace h with ()` | |\n";

    fn found(missed: &[&str]) -> Found {
        Found { caught: 95, unviable: 3, missed: missed.iter().map(|line| (*line).to_owned()).collect() }
    }

    #[test]
    fn a_survivor_with_a_reason_is_none_to_fail_for_wherever_it_has_moved() {
        let known =
            ["crates/core/src/a.rs:12:5: replace f -> u8 with 0", "crates/core/src/a.rs:1:2: replace || with && in g"];
        assert_eq!(judge(&found(&known), PAGE), Ok(()));
        for unknown in
            ["crates/core/src/a.rs:12:5: replace f -> u8 with 1", "crates/core/src/b.rs:1:2: replace h with ()"]
        {
            assert!(judge(&found(&[unknown]), PAGE).is_err(), "{unknown}");
        }
    }

    #[test]
    fn less_than_the_goal_is_a_failure_even_with_reasons() {
        let mut few = found(&["crates/core/src/a.rs:12:5: replace f -> u8 with 0"; 9]);
        few.caught = 81;
        assert_eq!(judge(&few, PAGE), Ok(()));
        few.caught = 80;
        assert!(judge(&few, PAGE).is_err());
    }

    #[test]
    fn what_it_is_called_with_is_read_or_refused() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let call = parse(&words("--changed --shard 0/4 crates/core/src/time.rs")).unwrap();
        let expected = Call {
            changed: true,
            shard: Some("0/4".into()),
            files: vec!["crates/core/src/time.rs".into()],
            ..Call::default()
        };
        assert_eq!(call, expected);
        for wrong in ["--shard", "--shard 4/4", "--shard x", "crates/cli/src/lib.rs", "--frobnicate"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
