//! `cargo xtask fuzz`: the fuzz targets, each for a while, by the stable compiler. They begin with the inputs in
//! `fuzz/seeds`; what they find is kept in `fuzz/corpus`, what breaks a parser in `fuzz/artifacts`. With `--keep` nothing
//! is played: of what was found, the least that covers as much becomes the new seeds, which every run of the tests
//! replays.
//!
//! cargo-fuzz wants a nightly compiler for its flags. Those that guide libFuzzer (SanitizerCoverage) are passes of
//! LLVM, which the stable one has too; left out are the address sanitizer's, which code without `unsafe` has little use
//! for.

mod seeds;

use crate::Failure;
use crate::step::Step;
use crate::tree::workspace_root;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Seconds for each target, unless `--seconds` says otherwise.
const SECONDS: u32 = 60;

/// A new seed is no longer than this many bytes: of 12890 inputs that were found one in thirteen was, with more than half of the
/// bytes. These stay in `fuzz/corpus`.
const LONGEST: usize = 1024;

/// Coverage that libFuzzer sees, and what only debug builds check besides.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions=yes -Coverflow-checks=yes";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum What {
    /// To play each target for so many seconds.
    Play(u32),
    /// To keep what was found.
    Keep,
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let root = workspace_root()?;
    let all = targets(&root.join("fuzz/fuzz_targets"))?;
    let (what, chosen) = read(arguments, &all)?;
    let host = host()?;
    build(&host).run()?;
    let mut broken = Vec::new();
    for target in chosen {
        for folder in ["corpus", "artifacts"] {
            let folder = root.join("fuzz").join(folder).join(&target);
            fs::create_dir_all(&folder).map_err(|e| failed("making", &folder, &e))?;
        }
        plant(&root, &target)?;
        match what {
            What::Keep => keep(&root, &host, &target)?,
            What::Play(seconds) => {
                println!("xtask: fuzz target {target}, {seconds} s");
                let dictionary = root.join("fuzz").join(format!("{target}.dict")).exists();
                if played(&host, &target, seconds, dictionary).run().is_err() {
                    broken.push(target);
                }
            }
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("{} broke; the inputs are in fuzz/artifacts", broken.join(", "))))
}

fn failed(doing: &str, what: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("{doing} {}: {error}", what.display()))
}

/// Puts a target's seeds where it finds them, beside what it found itself.
fn plant(root: &Path, target: &str) -> Result<(), Failure> {
    let (file, folder) = (root.join("fuzz/seeds").join(target), root.join("fuzz/corpus").join(target));
    let Ok(bytes) = fs::read(&file) else { return Ok(()) };
    let inputs =
        seeds::unpack(&bytes).ok_or_else(|| failed("reading", &file, &"it is cut short: check it out again"))?;
    for (n, input) in inputs.iter().enumerate() {
        let input_file = folder.join(format!("seed-{n:05}"));
        fs::write(&input_file, input).map_err(|e| failed("writing", &input_file, &e))?;
    }
    Ok(())
}

/// Writes the least of a target's inputs that covers as much as all of them.
fn keep(root: &Path, host: &str, target: &str) -> Result<(), Failure> {
    let least = root.join("target/fuzz/least").join(target);
    // What an earlier run left there is no input of this one; there is none at first.
    let _ = fs::remove_dir_all(&least);
    fs::create_dir_all(&least).map_err(|e| failed("making", &least, &e))?;
    merged(host, target).run()?;
    let files = fs::read_dir(&least).map_err(|e| failed("reading", &least, &e))?;
    let inputs = files.flatten().map(|file| fs::read(file.path()));
    let inputs = inputs.collect::<Result<Vec<_>, _>>().map_err(|e| failed("reading", &least, &e))?;
    let file = root.join("fuzz/seeds").join(target);
    let before = fs::read(&file).unwrap_or_default();
    let before = seeds::unpack(&before).unwrap_or_default();
    let inputs: Vec<_> = inputs.into_iter().filter(|i| i.len() <= LONGEST || before.contains(&i.as_slice())).collect();
    let (count, packed) = (inputs.len(), seeds::pack(inputs));
    println!("xtask: fuzz target {target}: {count} inputs, {} bytes", packed.len());
    let folder = root.join("fuzz/seeds");
    fs::create_dir_all(&folder).map_err(|e| failed("making", &folder, &e))?;
    fs::write(&file, packed).map_err(|e| failed("writing", &file, &e))
}

/// The names of the targets.
fn targets(folder: &Path) -> Result<Vec<String>, Failure> {
    let files = fs::read_dir(folder).map_err(|e| Failure::Failed(format!("reading {}: {e}", folder.display())))?;
    let name = |file: fs::DirEntry| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned());
    let mut names: Vec<_> = files.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// What to do, for how long, and with which.
fn read(arguments: &[String], all: &[String]) -> Result<(What, Vec<String>), Failure> {
    let (mut what, mut chosen) = (None, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let asked = match word.as_str() {
            "--keep" => What::Keep,
            "--seconds" => {
                let number = words.next().and_then(|number| number.parse().ok()).filter(|n| *n > 0);
                What::Play(number.ok_or_else(|| Failure::Usage("--seconds: give whole seconds, at least one".into()))?)
            }
            target if all.contains(word) => {
                chosen.push(target.to_owned());
                continue;
            }
            _ => {
                let known = all.join(", ");
                return Err(Failure::Usage(format!("`{word}` is not --seconds, --keep or one of: {known}")));
            }
        };
        if what.replace(asked).is_some() {
            return Err(Failure::Usage("--seconds plays, --keep keeps what was found: one of them, once".into()));
        }
    }
    Ok((what.unwrap_or(What::Play(SECONDS)), if chosen.is_empty() { all.to_vec() } else { chosen }))
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

/// Copies to `target/fuzz/least` what covers something that nothing before it does, short inputs first.
fn merged(host: &str, target: &str) -> Step {
    let (to, from) = (format!("target/fuzz/least/{target}"), format!("fuzz/corpus/{target}"));
    let words = ["-merge=1", "-rss_limit_mb=2048", "-timeout=25", &to, &from];
    Step::command(&format!("target/fuzz/{host}/release/{target}"), &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_for_a_minute_unless_told_otherwise() {
        let all = ["har".to_owned(), "scenario".to_owned()];
        let of = |words: &[&str]| read(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), &all);
        assert_eq!(of(&[]), Ok((What::Play(60), all.to_vec())));
        assert_eq!(of(&["--seconds", "5", "har"]), Ok((What::Play(5), vec!["har".to_owned()])));
        assert_eq!(of(&["har", "--keep"]), Ok((What::Keep, vec!["har".to_owned()])));
        let both = ["--seconds", "5", "--keep"];
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["hare"], &both, &["--keep", "--keep"]] {
            assert!(matches!(of(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
        let line = played("host", "har", 5, false).line();
        assert!(
            line.starts_with("target/fuzz/host/release/har -max_total_time=5 ") && line.ends_with(" fuzz/corpus/har")
        );
    }
}
