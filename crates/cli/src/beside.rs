//! The two programs: `headstart` has what hosts run, `headstart-lab` the lab, which is larger. A verb of the lab that is given to
//! `headstart` is executed by `headstart-lab`, found beside this program or on the PATH. Where neither has it and this program was
//! started by `cargo run`, that cargo builds it.
//!
//! No verb of the one is known to the other but by name, so `headstart` never links the lab.

use crate::exit::{Coded, FAILURE};
use anyhow::Context as _;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that has the lab.
pub const LAB: &str = "headstart-lab";

/// The verbs that it has, hidden ones too.
const VERBS: [&str; 3] = ["lab", "demo", "probe"];

/// What follows a verb of the lab, unread.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Words {
    /// Passed on to `headstart-lab`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

/// The words for the lab, if it is the lab's verb that these words name, or want the help of.
pub fn of_the_lab(words: &[OsString]) -> Option<Vec<OsString>> {
    let is_its = |word: &OsString| VERBS.iter().any(|verb| word == verb);
    match words {
        [verb, ..] if is_its(verb) => Some(words.to_vec()),
        [help, verb, ..] if help == "help" && is_its(verb) => Some([&words[1..], &["--help".into()]].concat()),
        _ => None,
    }
}

/// Executes `headstart-lab VERB WORDS`; returns only with why not.
pub fn execute(verb: &str, words: Words) -> anyhow::Result<u8> {
    execute_words(&[vec![verb.into()], words.words].concat())
}

/// Executes `headstart-lab WORDS`; returns only with why not.
pub fn execute_words(words: &[OsString]) -> anyhow::Result<u8> {
    let found = find().map_or_else(build, |found| found.ok_or_else(missing))?;
    let why = Command::new(&found).args(words).exec();
    Err(anyhow::Error::new(why).context(format!("cannot start {}", found.display())))
}

/// Executes `headstart-lab WORDS` if it is installed: it knows more of what is asked.
pub fn execute_if_there(words: &[OsString]) -> anyhow::Result<()> {
    match find() {
        Some(Some(_)) => execute_words(words).map(drop),
        _ => Ok(()),
    }
}

/// Where the lab is: none where it is to be built, `Some(None)` where it is not to be had.
fn find() -> Option<Option<PathBuf>> {
    let path = std::env::var_os("PATH");
    let beside = std::env::current_exe().ok().map(|this| this.with_file_name(LAB)).filter(|file| file.is_file());
    let found = beside.or_else(|| headstart_io::program::find(OsStr::new(LAB), path.as_deref()));
    (found.is_some() || package().is_none()).then_some(found)
}

/// The folder of this package, if `cargo run` has started this program, and that cargo.
fn package() -> Option<(PathBuf, OsString)> {
    let is_ours = std::env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == env!("CARGO_PKG_NAME"));
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").filter(|_| is_ours)?;
    Some((folder.into(), std::env::var_os("CARGO")?))
}

/// Builds the lab beside this program, which `cargo run` does not; where it is then.
fn build() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe().context("finding this program")?;
    let (package, cargo) = package().ok_or_else(missing)?;
    // target/PROFILE/headstart; the folder of the profile `dev` is called `debug`.
    let folder = this.parent().unwrap_or(Path::new("."));
    let profile = folder.file_name().map_or("dev".into(), OsStr::to_string_lossy);
    let profile = if profile == "debug" { "dev".into() } else { profile };
    crate::complain!("headstart: building {LAB}, which `cargo run` leaves out");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bin", LAB, "--profile", &profile, "--manifest-path"]);
    command.arg(package.join("Cargo.toml")).arg("--target-dir").arg(folder.parent().unwrap_or(folder));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_cargo_run(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    // Standard output is the verb's.
    let status = command.stdout(std::io::stderr()).status().context("cannot start cargo")?;
    let built = this.with_file_name(LAB);
    anyhow::ensure!(status.success() && built.is_file(), "cargo could not build {LAB}");
    Ok(built)
}

/// Whether `cargo run` has set this variable for the program that it starts. A cargo that inherits it takes what depends on it for
/// changed: all that stands on ring, and this package, would be built a second time.
fn is_of_cargo_run(name: &str) -> bool {
    const OF_BUILD_SCRIPT: [&str; 8] = [
        "OUT_DIR",
        "HEADSTART_FEATURES",
        "HEADSTART_LIBRARY",
        "HEADSTART_LIBRARY_ID",
        "HEADSTART_TARGET",
        "HEADSTART_PROFILE",
        "HEADSTART_COMMIT",
        "HEADSTART_TIME",
    ];
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || OF_BUILD_SCRIPT.contains(&name)
}

fn missing() -> anyhow::Error {
    let why = format!(
        "this verb is in {LAB}, which is neither beside this program nor on the PATH: install the package {LAB}"
    );
    Coded(FAILURE, why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_the_build_script_says_reaches_the_build_of_the_lab() {
        let script = include_str!("../build.rs");
        let set = script.split("cargo::rustc-env=").skip(1).map(|rest| rest.split_once('=').unwrap().0);
        for name in set.chain(["OUT_DIR", "CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"]) {
            assert!(is_of_cargo_run(name), "{name}");
        }
        for name in ["SOURCE_DATE_EPOCH", "CARGO_HOME", "CARGO_NET_OFFLINE", "PATH", "HEADSTART_QUIET"] {
            assert!(!is_of_cargo_run(name), "{name}");
        }
    }

    #[test]
    fn the_labs_verbs_and_their_help_are_passed_on_and_no_others() {
        let passed = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            of_the_lab(&words).map(|words| words.join(OsStr::new(" ")).into_string().unwrap())
        };
        assert_eq!(passed("lab run x --json").as_deref(), Some("lab run x --json"));
        assert_eq!(passed("demo").as_deref(), Some("demo"));
        assert_eq!(passed("help lab run").as_deref(), Some("lab run --help"));
        for other in ["", "run -- lab", "help", "help run", "--help", "list races", "laboratory"] {
            assert_eq!(passed(other), None, "{other}");
        }
    }
}
