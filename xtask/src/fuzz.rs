//! `cargo xtask fuzz`: the fuzz targets, each for a while, by the stable compiler. They begin with the inputs in
//! `fuzz/seeds`; what they find is kept in `fuzz/corpus`, what breaks a parser in `fuzz/artifacts`. With `--keep` nothing
//! is played: of what was found, the least that covers as much becomes the new seeds, which every run of the tests
//! replays.
//!
//! `--all --hours N` is for a timer: targets take turns, those that find something more often; corpora are merged when they have
//! grown. `fuzz/played.md` is written after each turn, however targets are played, and the next run goes on from it.
//!
//! cargo-fuzz wants a nightly compiler for its flags. Those that guide libFuzzer (SanitizerCoverage) are passes of
//! LLVM, which the stable one has too. The address sanitizer's runtime is with it as well (`--asan`), but its flag is not stable:
//! RUSTC_BOOTSTRAP lets it through, for these targets alone.

mod played;
mod rotation;
mod seeds;

use crate::Failure;
use crate::step::{Step, timed};
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

/// Seconds of a turn with `--hours`.
const TURN: u32 = 120;

/// A corpus is merged when it has grown to this many times its files at the last merge.
const GROWN: usize = 2;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// To play each target for so many seconds.
    Play(u32),
    /// To play them in turns for so many hours.
    Rotate(u32),
    /// To keep what was found.
    Keep,
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let root = workspace_root()?;
    let all = targets(&root.join("fuzz/fuzz_targets"))?;
    let asan = arguments.iter().any(|word| word == "--asan");
    let arguments: Vec<_> = arguments.iter().filter(|word| *word != "--asan").cloned().collect();
    let (what, chosen) = read(&arguments, &all)?;
    let host = host()?;
    let build = Build { host: &host, asan };
    build.step().run()?;
    let mut broken = Vec::new();
    if let What::Rotate(hours) = what {
        for target in &chosen {
            prepare(&root, target)?;
        }
        broken = rotate(&root, &build, &chosen, hours)?;
        return broken_or_not(&broken);
    }
    let mut account = Account::open(&root)?;
    for target in chosen {
        prepare(&root, &target)?;
        match what {
            What::Keep => keep(&root, &build, &target)?,
            What::Play(seconds) => {
                println!("xtask: fuzz target {target}, {seconds} s");
                if !account.play(&root, &build, &target, seconds)?.0 {
                    broken.push(target);
                }
            }
            What::Rotate(_) => {}
        }
    }
    broken_or_not(&broken)
}

fn broken_or_not(broken: &[String]) -> Result<(), Failure> {
    match broken {
        [] => Ok(()),
        _ => Err(Failure::Failed(format!("{} broke; the inputs are in fuzz/artifacts", broken.join(", ")))),
    }
}

fn has_dictionary(root: &Path, target: &str) -> bool {
    root.join("fuzz").join(format!("{target}.dict")).exists()
}

/// Makes a target's folders, with its seeds in them.
fn prepare(root: &Path, target: &str) -> Result<(), Failure> {
    for folder in ["corpus", "artifacts"] {
        let folder = root.join("fuzz").join(folder).join(target);
        fs::create_dir_all(&folder).map_err(|e| failed("making", &folder, &e))?;
    }
    plant(root, target)
}

/// Plays targets in turns until the hours are over; those that broke.
fn rotate(root: &Path, build: &Build<'_>, targets: &[String], hours: u32) -> Result<Vec<String>, Failure> {
    let mut account = Account::open(root)?;
    let (mut rotation, mut broken) =
        (rotation::Rotation::of(targets, |target| account.quiet_turns(target)), Vec::new());
    let mut merged = std::collections::BTreeMap::new();
    for target in targets {
        // What earlier runs have left: seeds are the least that covered as much when they were kept.
        if is_grown(in_corpus(root, target), in_seeds(root, target)) {
            merge(root, build, target)?;
        }
        merged.insert(target.clone(), in_corpus(root, target));
    }
    let mut left = u64::from(hours) * 3600;
    while left > 0
        && let Some(target) = rotation.next()
    {
        let seconds = TURN.min(u32::try_from(left).unwrap_or(TURN));
        println!("xtask: fuzz target {target}, {seconds} s; {left} s to go");
        let (turn, took) = timed(|| account.play(root, build, &target, seconds));
        let (holds, new) = turn?;
        left = left.saturating_sub(took.as_secs().max(1));
        rotation.found(&target, new);
        if !holds {
            rotation.leave(&target);
            broken.push(target);
            continue;
        }
        let count = in_corpus(root, &target);
        if is_grown(count, merged.get(&target).copied().unwrap_or(0)) {
            merge(root, build, &target)?;
            merged.insert(target.clone(), in_corpus(root, &target));
        }
    }
    Ok(broken)
}

/// Whether a corpus of so many inputs is worth a merge, when there were so many `before`.
fn is_grown(count: usize, before: usize) -> bool {
    count > GROWN * before.max(100)
}

fn in_corpus(root: &Path, target: &str) -> usize {
    fs::read_dir(root.join("fuzz/corpus").join(target)).map_or(0, Iterator::count)
}

fn in_seeds(root: &Path, target: &str) -> usize {
    let bytes = fs::read(root.join("fuzz/seeds").join(target)).unwrap_or_default();
    seeds::unpack(&bytes).map_or(0, |inputs| inputs.len())
}

/// What each target has had, on disk after every turn.
struct Account {
    file: std::path::PathBuf,
    table: played::Table,
}

impl Account {
    fn open(root: &Path) -> Result<Self, Failure> {
        let file = root.join("fuzz/played.md");
        let text = fs::read_to_string(&file).map_err(|e| failed("reading", &file, &e))?;
        Ok(Self { file, table: played::read(&text) })
    }

    /// For how many turns it has found nothing.
    fn quiet_turns(&self, target: &str) -> u64 {
        self.table.get(target).map_or(0, |row| row.quiet.div_ceil(u64::from(TURN)))
    }

    /// Plays a target for so many seconds: whether it held, and how many new features were found.
    fn play(&mut self, root: &Path, build: &Build<'_>, target: &str, seconds: u32) -> Result<(bool, u64), Failure> {
        let before = of_children();
        let captured = build.played(target, seconds, has_dictionary(root, target)).capture()?;
        let new = self.note(target, &captured.errors, of_children().saturating_sub(before))?;
        Ok((captured.success, new))
    }

    /// Adds what libFuzzer said of a turn that took so many seconds of processor time; how many features were new.
    fn note(&mut self, target: &str, lines: &[String], seconds: u64) -> Result<u64, Failure> {
        let turn = played::Turn::parse(lines);
        let row = self.table.entry(target.to_owned()).or_default();
        *row = row.and(turn, seconds);
        fs::write(&self.file, played::write(&self.table)).map_err(|e| failed("writing", &self.file, &e))?;
        Ok(turn.new)
    }
}

/// Seconds of processor time of what was played until now.
fn of_children() -> u64 {
    played::of_children(&fs::read_to_string("/proc/self/stat").unwrap_or_default())
}

/// Leaves in a target's corpus the least that covers as much as all of it.
fn merge(root: &Path, build: &Build<'_>, target: &str) -> Result<(), Failure> {
    let (least, corpus) = (least(root, target)?, root.join("fuzz/corpus").join(target));
    build.merged(target).run()?;
    // From here to the end a kill loses what was found since the last seeds, and no more.
    fs::remove_dir_all(&corpus).map_err(|e| failed("removing", &corpus, &e))?;
    fs::rename(&least, &corpus).map_err(|e| failed("moving", &least, &e))
}

/// An empty folder for the least of a target's inputs.
fn least(root: &Path, target: &str) -> Result<std::path::PathBuf, Failure> {
    let least = root.join("target/fuzz/least").join(target);
    // What an earlier run left there is no input of this one; there is none at first.
    let _ = fs::remove_dir_all(&least);
    fs::create_dir_all(&least).map_err(|e| failed("making", &least, &e))?;
    Ok(least)
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
fn keep(root: &Path, build: &Build<'_>, target: &str) -> Result<(), Failure> {
    let least = least(root, target)?;
    build.merged(target).run()?;
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
    let mut everything = false;
    while let Some(word) = words.next() {
        let asked = match word.as_str() {
            "--keep" => What::Keep,
            "--all" => {
                everything = true;
                continue;
            }
            flag @ ("--seconds" | "--hours") => {
                let number = words.next().and_then(|number| number.parse().ok()).filter(|n| *n > 0);
                let wrong = || Failure::Usage(format!("{flag}: give a whole number of them, at least one"));
                let number = number.ok_or_else(wrong)?;
                if flag == "--hours" { What::Rotate(number) } else { What::Play(number) }
            }
            target if all.contains(word) => {
                chosen.push(target.to_owned());
                continue;
            }
            _ => {
                let known = all.join(", ");
                return Err(Failure::Usage(format!(
                    "`{word}` is not --all, --hours, --seconds, --keep, --asan or one of: {known}"
                )));
            }
        };
        if what.replace(asked).is_some() {
            return Err(Failure::Usage(
                "--seconds and --hours play, --keep keeps what was found: one of them, once".into(),
            ));
        }
    }
    if everything && !chosen.is_empty() {
        return Err(Failure::Usage("--all is every target: name none, or leave it out".into()));
    }
    Ok((what.unwrap_or(What::Play(SECONDS)), if chosen.is_empty() { all.to_vec() } else { chosen }))
}

/// What the compiler calls this machine.
pub fn host() -> Result<String, Failure> {
    let output = Command::new("rustc").arg("-vV").output();
    let text = output.map_err(|e| Failure::Failed(format!("rustc -vV: {e}")))?.stdout;
    let text = String::from_utf8_lossy(&text);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::Failed("`rustc -vV` names no host".into()))
}

/// How targets are built, and so where they are.
#[derive(Clone, Copy, Debug)]
struct Build<'a> {
    host: &'a str,
    asan: bool,
}

impl Build<'_> {
    fn folder(self) -> &'static str {
        if self.asan { "target/fuzz-asan" } else { "target/fuzz" }
    }

    /// The flags are for the targets alone, and not for programs of the build, where a compiler is told its target.
    fn step(self) -> Step {
        let words =
            ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", self.folder(), "--bins"];
        let step = Step::cargo(&[&words[..], &["--target", self.host]].concat());
        if self.asan {
            step.with("RUSTFLAGS", format!("{FLAGS} -Zsanitizer=address")).with("RUSTC_BOOTSTRAP", "1")
        } else {
            step.with("RUSTFLAGS", FLAGS)
        }
    }

    fn program(self, target: &str) -> String {
        format!("{}/{}/release/{target}", self.folder(), self.host)
    }

    fn played(self, target: &str, seconds: u32, dictionary: bool) -> Step {
        let mut words = vec![
            format!("-max_total_time={seconds}"),
            "-rss_limit_mb=2048".to_owned(),
            "-timeout=25".to_owned(),
            "-print_final_stats=1".to_owned(),
            format!("-artifact_prefix=fuzz/artifacts/{target}/"),
        ];
        words.extend(dictionary.then(|| format!("-dict=fuzz/{target}.dict")));
        words.push(format!("fuzz/corpus/{target}"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Step::command(&self.program(target), &words)
    }

    /// Copies to `target/fuzz/least` what covers something that nothing before it does, short inputs first.
    fn merged(self, target: &str) -> Step {
        let (to, from) = (format!("target/fuzz/least/{target}"), format!("fuzz/corpus/{target}"));
        let words = ["-merge=1", "-rss_limit_mb=2048", "-timeout=25", &to, &from];
        Step::command(&self.program(target), &words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_is_in_the_table_and_the_next_run_goes_on_from_it() {
        let root = std::env::temp_dir().join(format!("xtask-fuzz-{}", std::process::id()));
        fs::create_dir_all(root.join("fuzz")).unwrap();
        fs::write(root.join("fuzz/played.md"), "| `har` | 10 | 0 | 0 | 0 |\n").unwrap();
        let lines = |end: u32| {
            let line = format!("#50\tDONE   cov: 4 ft: {end} corp: 1/3b exec/s: 5 rss: 3Mb");
            ["#2\tINITED cov: 4 ft: 6 corp: 1/3b exec/s: 0 rss: 3Mb", &line, "stat::number_of_executed_units: 50"]
                .map(str::to_owned)
        };
        let mut account = Account::open(&root).unwrap();
        assert_eq!(account.note("har", &lines(6), 241), Ok(0));
        assert_eq!(account.note("new_story", &lines(9), 5), Ok(3));
        let again = Account::open(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let (har, story) = (again.table["har"], again.table["new_story"]);
        assert_eq!((har.seconds, har.inputs, har.features, har.quiet), (251, 50, 6, 241));
        assert_eq!((story.inputs, story.features, story.quiet), (50, 9, 0));
        assert_eq!(["har", "new_story", "never"].map(|target| again.quiet_turns(target)), [3, 0, 0]);
    }

    #[test]
    fn a_corpus_is_merged_when_it_has_grown() {
        assert_eq!(
            [(200, 0), (201, 0), (600, 300), (601, 300)].map(|(n, b)| is_grown(n, b)),
            [false, true, false, true]
        );
    }

    #[test]
    fn all_targets_for_a_minute_unless_told_otherwise() {
        let all = ["har".to_owned(), "scenario".to_owned()];
        let of = |words: &[&str]| read(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), &all);
        assert_eq!(of(&[]), Ok((What::Play(60), all.to_vec())));
        assert_eq!(of(&["--seconds", "5", "har"]), Ok((What::Play(5), vec!["har".to_owned()])));
        assert_eq!(of(&["har", "--keep"]), Ok((What::Keep, vec!["har".to_owned()])));
        let both = ["--seconds", "5", "--keep"];
        assert_eq!(of(&["--all", "--hours", "6"]), Ok((What::Rotate(6), all.to_vec())));
        assert_eq!(of(&["--hours", "1", "har"]), Ok((What::Rotate(1), vec!["har".to_owned()])));
        let named = ["--all", "har"];
        for wrong in [
            &["--seconds"][..],
            &["--seconds", "0"],
            &["hare"],
            &both,
            &["--keep", "--keep"],
            &named,
            &["--hours", "x"],
        ] {
            assert!(matches!(of(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
        let build = Build { host: "host", asan: false };
        let line = build.played("har", 5, false).line();
        assert!(
            line.starts_with("target/fuzz/host/release/har -max_total_time=5 ") && line.ends_with(" fuzz/corpus/har")
        );
        let line = Build { asan: true, ..build }.step().line();
        assert!(line.contains("-Zsanitizer=address") && line.contains("RUSTC_BOOTSTRAP=1 cargo build"), "{line}");
    }
}
