//! `cargo xtask campaigns`: a plan of 200 tasks on real schedulers, in namespaces: Slurm with a node that is killed and one that is
//! drained, GNU parallel, Snakemake, Ray; in a bucket of an S3-compatible store that is built by Go; then the guide's questions by DuckDB
//! (`crates/cli/tests/scheduler`). The Python packages go into an environment of their own under `target/tools`; what is not there is skipped
//! with a line, or with `--install` installed first.

use crate::packages::{self, Brings, CAMPAIGNS};
use crate::step::Step;
use crate::{Failure, tree};

/// Seeds of each of two conditions.
const SEEDS: u32 = 100;
/// The environment with the Python packages.
const PYTHON: &str = "target/tools/campaigns";
/// The Python packages that tests want.
const PACKAGES: [&str; 3] = ["duckdb", "snakemake", "ray"];

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let (seeds, install) = asked(arguments)?;
    let missing = packages::missing_of(CAMPAIGNS, Brings::is_there);
    if install && !missing.is_empty() {
        packages::install(&missing)?;
    }
    for step in python() {
        println!("xtask: {}", step.line());
        if let Err(Failure::Failed(why) | Failure::Usage(why)) = step.run() {
            println!("skipped: {why}; what needs DuckDB, Snakemake or Ray is left out");
            break;
        }
    }
    let python = tree::workspace_root()?.join(PYTHON).join("bin/python");
    let step = test(seeds).with("HEADSTART_PYTHON", python.to_string_lossy());
    println!("xtask: {}", step.line());
    step.run()
}

/// What `--seeds` says, and whether there is `--install`.
fn asked(arguments: &[String]) -> Result<(u32, bool), Failure> {
    if let [flag, rest @ ..] = arguments
        && flag == "--install"
    {
        return Ok((seeds(rest)?, true));
    }
    Ok((seeds(arguments)?, false))
}

fn seeds(arguments: &[String]) -> Result<u32, Failure> {
    match arguments {
        [] => Ok(SEEDS),
        [flag, number] if flag == "--seeds" => number
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| Failure::Usage(format!("`{number}`: give a whole number, at least one"))),
        [flag, ..] => Err(Failure::Usage(format!("`{flag}`: give nothing, or [--install] [--seeds N]"))),
    }
}

fn python() -> [Step; 2] {
    let install = ["-m", "pip", "install", "--quiet", "--prefer-binary"];
    [
        Step::command("python3", &["-m", "venv", PYTHON]),
        Step::command(&format!("{PYTHON}/bin/python"), &[&install[..], &PACKAGES].concat()),
    ]
}

/// One after the other: each takes all processors.
fn test(seeds: u32) -> Step {
    let words = [
        "test",
        "-p",
        "headstart",
        "--test",
        "scheduler",
        "--",
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
    ];
    Step::cargo(&words).with("HEADSTART_CAMPAIGN_SEEDS", seeds.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_tasks_unless_told_otherwise() {
        let of = |words: &[&str]| seeds(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!((of(&[]), of(&["--seeds", "4"])), (Ok(100), Ok(4)));
        for wrong in [&["--seeds"][..], &["--seeds", "0"], &["4"]] {
            assert!(matches!(of(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
        let with = ["--install", "--seeds", "4"].map(str::to_owned);
        assert!(matches!(
            (asked(&with), asked(&with[..1]), asked(&[])),
            (Ok((4, true)), Ok((100, true)), Ok((100, false)))
        ));
        let line = test(4).line();
        assert!(
            line.starts_with("HEADSTART_CAMPAIGN_SEEDS=4 cargo test") && line.contains("--test scheduler"),
            "{line}"
        );
    }
}
