//! `cargo xtask fuzz`: the fuzz targets, each for a while, by the stable compiler. What they find is kept in
//! `fuzz/corpus`, what breaks a parser in `fuzz/artifacts`.
//!
//! cargo-fuzz wants a nightly compiler for its flags. Those that guide libFuzzer (SanitizerCoverage) are passes of
//! LLVM, which the stable one has too; left out are the address sanitizer's, which code without `unsafe` has little use
//! for.

use crate::Failure;
use crate::step::Step;
use crate::tree::workspace_root;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Seconds for each target, unless `--seconds` says otherwise.
const SECONDS: u32 = 60;

/// Coverage that libFuzzer sees, and what only debug builds check besides.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions=yes -Coverflow-checks=yes";

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let root = workspace_root()?;
    let all = targets(&root.join("fuzz/fuzz_targets"))?;
    let (seconds, chosen) = read(arguments, &all)?;
    let host = host()?;
    build(&host).run()?;
    let mut broken = Vec::new();
    for target in chosen {
        println!("xtask: fuzz target {target}, {seconds} s");
        for folder in ["corpus", "artifacts"] {
            let folder = root.join("fuzz").join(folder).join(&target);
            fs::create_dir_all(&folder).map_err(|e| Failure::Failed(format!("making {}: {e}", folder.display())))?;
        }
        let dictionary = root.join("fuzz").join(format!("{target}.dict")).exists();
        if played(&host, &target, seconds, dictionary).run().is_err() {
            broken.push(target);
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("{} broke; the inputs are in fuzz/artifacts", broken.join(", "))))
}

/// The names of the targets.
fn targets(folder: &Path) -> Result<Vec<String>, Failure> {
    let files = fs::read_dir(folder).map_err(|e| Failure::Failed(format!("reading {}: {e}", folder.display())))?;
    let name = |file: fs::DirEntry| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned());
    let mut names: Vec<_> = files.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// For how long, and which.
fn read(arguments: &[String], all: &[String]) -> Result<(u32, Vec<String>), Failure> {
    let (mut seconds, mut chosen) = (SECONDS, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let number = words.next().and_then(|number| number.parse().ok()).filter(|n| *n > 0);
            seconds = number.ok_or_else(|| Failure::Usage("--seconds: give whole seconds, at least one".into()))?;
        } else if all.contains(word) {
            chosen.push(word.clone());
        } else {
            return Err(Failure::Usage(format!("`{word}` is not --seconds or one of: {}", all.join(", "))));
        }
    }
    Ok((seconds, if chosen.is_empty() { all.to_vec() } else { chosen }))
}

/// What the compiler calls this machine.
fn host() -> Result<String, Failure> {
    let output = Command::new("rustc").arg("-vV").output();
    let text = output.map_err(|e| Failure::Failed(format!("rustc -vV: {e}")))?.stdout;
    let text = String::from_utf8_lossy(&text);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::Failed("`rustc -vV` names no host".into()))
}

/// The flags are for the targets alone, and not for programs of the build, where a compiler is told for whom it compiles.
fn build(host: &str) -> Step {
    let words = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target/fuzz", "--bins"];
    Step::cargo(&[&words[..], &["--target", host]].concat()).with("RUSTFLAGS", FLAGS)
}

fn played(host: &str, target: &str, seconds: u32, dictionary: bool) -> Step {
    let mut words = vec![
        format!("-max_total_time={seconds}"),
        "-rss_limit_mb=2048".to_owned(),
        "-timeout=25".to_owned(),
        format!("-artifact_prefix=fuzz/artifacts/{target}/"),
    ];
    words.extend(dictionary.then(|| format!("-dict=fuzz/{target}.dict")));
    words.push(format!("fuzz/corpus/{target}"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Step::command(&format!("target/fuzz/{host}/release/{target}"), &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_for_a_minute_unless_told_otherwise() {
        let all = ["har".to_owned(), "scenario".to_owned()];
        let of = |words: &[&str]| read(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), &all);
        assert_eq!(of(&[]), Ok((60, all.to_vec())));
        assert_eq!(of(&["--seconds", "5", "har"]), Ok((5, vec!["har".to_owned()])));
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["hare"]] {
            assert!(matches!(of(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
        let line = played("host", "har", 5, false).line();
        assert!(
            line.starts_with("target/fuzz/host/release/har -max_total_time=5 ") && line.ends_with(" fuzz/corpus/har")
        );
    }
}
