//! `cargo xtask peers`: headstart's forwarder beside tun2socks and sing-box, measured by the lab in the same turns, and the table of it in
//! docs/compare.md. The others are built from Go's module proxy in a scratch folder and only ever run as programs.

mod build;
mod page;

use crate::Failure;
use crate::conformance::{Scratch, built};
use crate::step::{Step, day_and_kernel, said};
use crate::tree::workspace_root;
use std::fs;
use std::path::{Path, PathBuf};

/// The page with the table, and the heading before which it stands.
const PAGE: &str = "docs/compare.md";
const BEFORE: &str = "## Realtime";
/// Where the programs are kept.
const KEPT: &str = "target/peers";
/// What the lab is asked for.
const RUNS: [(&str, &[&str]); 2] = [
    ("measure-throughput", &["one-flow-up", "one-flow-down", "eight-flows-up", "eight-flows-down", "phone"]),
    ("measure-latency", &["wire"]),
];

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    quick: bool,
    program: Option<PathBuf>,
}

fn wanted(arguments: &[String]) -> Result<Wanted, Failure> {
    let mut wanted = Wanted::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => wanted.quick = true,
            "--program" => match arguments.next() {
                Some(program) => wanted.program = Some(program.into()),
                None => return Err(Failure::Usage("`--program` needs a file".to_owned())),
            },
            stranger => return Err(Failure::Usage(format!("`{stranger}` is not one of: --quick, --program FILE"))),
        }
    }
    Ok(wanted)
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let wanted = wanted(arguments)?;
    let failed = |why: String| Failure::Failed(why);
    let root = workspace_root()?;
    let programs = root.join(KEPT);
    if let Err(why) = build::all(&programs) {
        println!("xtask: skipped: the other forwarders cannot be built: {why}");
        return Ok(());
    }
    let headstart = wanted.program.clone().map_or_else(|| built(true), Ok)?;
    let scratch = Scratch::new("side-by-side")?;
    let mut rows = Vec::new();
    for (experiment, conditions) in RUNS {
        let results = scratch.folder(experiment)?;
        measured(&headstart, &programs, experiment, conditions, (&results, wanted.quick))?;
        let file = results.join("rows.csv");
        let text = fs::read_to_string(&file).map_err(|e| failed(format!("{experiment}: {}: {e}", file.display())))?;
        rows.extend(page::rows(&text));
    }
    let file = root.join(PAGE);
    let old = fs::read_to_string(&file).map_err(|e| failed(format!("{PAGE}: {e}")))?;
    let section = page::section(&rows, &about_here(&headstart), wanted.quick);
    print!("{section}");
    let new = page::put(&old, &section, BEFORE).map_err(|why| failed(format!("{PAGE}: {why}")))?;
    fs::write(&file, new).map_err(|e| failed(format!("{PAGE}: {e}")))?;
    println!("xtask: wrote {PAGE}");
    Ok(())
}

/// Runs an experiment with the others as arms. It fails where the machine was busy, which its rows say too.
fn measured(
    headstart: &Path,
    programs: &Path,
    experiment: &str,
    conditions: &[&str],
    (results, quick): (&Path, bool),
) -> Result<(), Failure> {
    let results = results.display().to_string();
    let mut words = vec!["lab", "run", experiment, "--out", &results];
    words.extend(conditions.iter().flat_map(|condition| ["--condition", condition]));
    words.extend(quick.then_some("--quick"));
    let step = Step::command(&headstart.display().to_string(), &words);
    let step = step.with("HEADSTART_LAB_PEERS", programs.display().to_string());
    println!("xtask: {}", step.line());
    step.capture().map(drop)
}

/// The day, the machine and headstart's version.
fn about_here(headstart: &Path) -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let version = said(&headstart.display().to_string(), &["--version"]);
    format!("{}, {processors} processors; {version}", day_and_kernel())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_asked_for_is_understood_or_refused() {
        let all = wanted(&words("--quick --program x")).unwrap();
        assert!(all.quick && all.program == Some("x".into()) && wanted(&[]).unwrap() == Wanted::default());
        for wrong in ["slow", "--program"] {
            assert!(matches!(wanted(&words(wrong)), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
