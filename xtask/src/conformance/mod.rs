//! `cargo xtask conformance`: the tests that toolchains bring for their own sockets, bare and under `headstart run`,
//! test by test. A test that does not come to the same is a difference, and differences fail. And h2spec, against `headstart serve`.
//!
//! Suites of toolchains come from what is installed; nothing is downloaded but h2spec. They run in the lab's namespaces, with loopback, a network of
//! the lab's and no other, and both arms run in the same surroundings. Tests that wait for clocks may come to this and that
//! on a busy machine: where something differs both arms run again, and only what never was the same is a difference.

mod go;
mod h2spec;
mod outcomes;
mod python;

use crate::Failure;
use crate::step::{Step, timed};
use outcomes::{Comparison, Outcomes, tally};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The suites of one toolchain.
pub struct Suite {
    /// The word on the command line.
    pub name: &'static str,
    /// Finds and builds them, in a folder of its own; says what is missing if there are none.
    pub find: fn(scratch: &Path) -> Result<Vec<Found>, String>,
}

/// A suite that can be run.
pub struct Found {
    /// Which, of which version.
    pub name: String,
    /// Runs all of its tests once; `Err` if none ran.
    pub run: Box<Runner>,
}

/// Runs all tests once.
type Runner = dyn Fn(&Work<'_>) -> Result<Outcomes, String>;

/// Every suite.
const ALL: &[Suite] = &[python::SUITE, go::SUITE];

/// Rounds at most: a second and a third only if something differs.
const ROUNDS: usize = 3;
/// The link of the lab that is around the tests: the fastest, for there is nothing to be reached over it.
const LINK: &str = "lan";

/// Surroundings of one run.
pub struct Work<'a> {
    headstart: &'a Path,
    /// Flags of `headstart run`; none for the bare arm.
    flags: Option<&'a [String]>,
    /// An empty folder.
    folder: &'a Path,
}

impl Work<'_> {
    /// A command of `program` in the lab, perhaps under headstart.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(self.headstart);
        command.args(["lab", "shell", "--link", LINK, "--"]);
        if let Some(flags) = self.flags {
            command.arg(self.headstart).args(["run", "--quiet"]).args(flags).arg("--");
        }
        command.arg(program);
        // Both arms in the same surroundings, and a supervisor for this run alone.
        command.env_remove("HEADSTART_DIR").env_remove("LD_PRELOAD").env("HEADSTART", "private");
        command
    }

    /// Runs it to its end, whatever that is; what it printed.
    fn run(&self, mut command: Command) -> Result<String, String> {
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("{}: {e}", self.headstart.display()))?;
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // Failing tests make it fail: what came of them is in what it printed.
        Ok(if out.is_empty() { err } else { out })
    }
}

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    suites: Vec<String>,
    via: Option<String>,
    release: bool,
}

/// The words for all suites.
fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|suite| suite.name).chain([h2spec::NAME])
}

fn wanted(arguments: &[String]) -> Result<Wanted, Failure> {
    let mut wanted = Wanted::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--release" => wanted.release = true,
            "--via" => {
                let name = arguments.next().ok_or_else(|| Failure::Usage("`--via` wants a name".into()))?;
                wanted.via = Some(name.clone());
            }
            name if names().any(|known| known == name) => wanted.suites.push(name.into()),
            stranger => {
                let names: Vec<_> = names().collect();
                let known = format!("{}, --via NAME, --release", names.join(", "));
                return Err(Failure::Usage(format!("`{stranger}` is not one of: {known}")));
            }
        }
    }
    Ok(wanted)
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let wanted = wanted(arguments)?;
    let headstart = built(wanted.release)?;
    let flags: Vec<String> = wanted.via.iter().flat_map(|name| ["--via".to_owned(), name.clone()]).collect();
    let scratch = Scratch::new("conformance")?;
    let mut different = Vec::new();
    for name in names().filter(|name| wanted.suites.is_empty() || wanted.suites.iter().any(|wanted| wanted == name)) {
        match tried(name, &headstart, &flags, &scratch)? {
            Ok(tests) => different.extend(tests),
            Err(why) if wanted.suites.is_empty() => println!("xtask: skipped: {name}: {why}"),
            Err(why) => return Err(Failure::Failed(format!("{name}: {why}"))),
        }
    }
    match different.len() {
        0 => Ok(()),
        n => Err(Failure::Failed(format!(
            "{n} tests fail, or do not come to the same under headstart:\n  {}",
            different.join("\n  ")
        ))),
    }
}

/// Runs the suites of this name; the tests that are not as they should be, or what is missing.
fn tried(
    name: &str,
    headstart: &Path,
    flags: &[String],
    scratch: &Scratch,
) -> Result<Result<Vec<String>, String>, Failure> {
    let folder = scratch.folder(name)?;
    let Some(suite) = ALL.iter().find(|suite| suite.name == name) else {
        return match h2spec::find(&folder) {
            Ok(program) => h2spec::failed(&program, headstart, &folder).map(Ok),
            Err(missing) => Ok(Err(missing)),
        };
    };
    let all = match (suite.find)(&folder) {
        Ok(all) => all,
        Err(missing) => return Ok(Err(missing)),
    };
    let mut different = Vec::new();
    for found in all {
        different.extend(compare(&found, headstart, flags, scratch)?);
    }
    Ok(Ok(different))
}

/// Runs a suite under both arms; the tests that differ.
fn compare(found: &Found, headstart: &Path, flags: &[String], scratch: &Scratch) -> Result<Vec<String>, Failure> {
    let mut comparison = Comparison::default();
    for round in 1..=ROUNDS {
        let arm = |name: &str, flags| {
            let folder = scratch.folder("run")?;
            let (outcomes, took) = timed(|| (found.run)(&Work { headstart, flags, folder: &folder }));
            let outcomes = outcomes.map_err(|why| Failure::Failed(format!("{}, {name}: {why}", found.name)))?;
            println!("xtask: {}, {name}: {} in {:.1} s", found.name, tally(&outcomes), took.as_secs_f64());
            Ok(outcomes)
        };
        let (bare, ours) = (arm("bare", None)?, arm("under headstart", Some(flags))?);
        comparison.add(&bare, &ours);
        let differences = comparison.differences();
        let standing = differences.iter().filter(|difference| difference.stands).count();
        if standing == 0 || round == ROUNDS {
            break;
        }
        println!("xtask: {standing} differ: again, to see whether they always do");
    }
    let (standing, shaky): (Vec<_>, Vec<_>) = comparison.differences().into_iter().partition(|d| d.stands);
    for difference in shaky {
        println!("xtask: not always the same, with or without headstart: {}", difference.what);
    }
    Ok(standing.into_iter().map(|difference| format!("{}, {}", found.name, difference.what)).collect())
}

/// Builds the command; where it is.
pub fn built(release: bool) -> Result<PathBuf, Failure> {
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let step = Step::cargo(&[&["build", "--package", "headstart"], profile].concat());
    println!("xtask: {}", step.line());
    step.run()?;
    let failed = |why: &str| Failure::Failed(format!("finding the built command: {why}"));
    // This chore is in the same target folder, in that of its own profile.
    let own = std::env::current_exe().map_err(|e| failed(&e.to_string()))?;
    let target = own.parent().and_then(Path::parent).ok_or_else(|| failed("xtask is in no target folder"))?;
    let headstart = target.join(if release { "release" } else { "debug" }).join("headstart");
    headstart.is_file().then_some(headstart.clone()).ok_or_else(|| failed(&format!("no {}", headstart.display())))
}

/// A folder for suites and what they leave, gone with this. Its path is short: sockets have names in it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it, for this chore.
    pub fn new(chore: &str) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("headstart-{chore}-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| Failure::Failed(format!("making {}: {e}", path.display())))?;
        Ok(Self(path))
    }

    /// A folder of that name, empty.
    pub fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.0.join(name);
        let emptied = if path.exists() { fs::remove_dir_all(&path) } else { Ok(()) };
        let made = emptied.and_then(|()| fs::create_dir(&path));
        made.map_err(|e| Failure::Failed(format!("making {}: {e}", path.display())))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_names_suites_and_a_front_end() {
        assert_eq!(wanted(&[]).unwrap(), Wanted::default());
        let asked = wanted(&words("go --via seccomp --release")).unwrap();
        assert_eq!(asked, Wanted { suites: words("go"), via: Some("seccomp".into()), release: true });
        assert!(matches!(wanted(&words("--via")), Err(Failure::Usage(_))));
        let Err(Failure::Usage(why)) = wanted(&words("perl")) else { panic!("it was taken") };
        assert!(why.contains("`perl`") && why.contains("python, go, h2spec, --via NAME"), "{why}");
    }

    #[test]
    fn both_arms_are_in_the_lab_and_differ_in_headstart_alone() {
        let flags = words("--via preload");
        let line = |flags: Option<&[String]>| {
            let work = Work { headstart: Path::new("/b/headstart"), flags, folder: Path::new("/f") };
            let command = work.command("prog");
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(None), "lab shell --link lan -- prog");
        assert_eq!(line(Some(&flags)), "lab shell --link lan -- /b/headstart run --quiet --via preload -- prog");
    }

    #[test]
    fn a_folder_is_empty_each_time_and_gone_in_the_end() {
        let scratch = Scratch::new("conformance").unwrap();
        let folder = scratch.folder("run").unwrap();
        fs::write(folder.join("left"), "").unwrap();
        assert_eq!(fs::read_dir(scratch.folder("run").unwrap()).unwrap().count(), 0);
        let path = scratch.0.clone();
        drop(scratch);
        assert!(!path.exists());
    }
}
