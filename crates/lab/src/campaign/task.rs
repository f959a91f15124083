//! A task of a campaign: one experiment in one condition with one seed at one speed, and the id that says so;
//! what the id is made from: the programs and the pages.

use super::{VERSION, hex, sha256};
use crate::experiment::{Entry, Speeds};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The experiments of which real packets come from Chromium; others that can use it leave it out where it is missing.
const CHROMIUM: [&str; 2] = ["page-load", "steer-pages"];
/// Of pages, in files and bytes: many times what recordings have.
const MOST_FILES: usize = 100_000;
const MOST_BYTES: u64 = 8 << 30;

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// [`VERSION`].
    pub version: u32,
    /// SHA-256 of what decides its result, in hexadecimal digits.
    pub id: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Its condition.
    pub condition: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Virtual time or real packets, not both.
    pub speed: Speeds,
    /// Fewer trials.
    pub quick: bool,
    /// Pages in place of the built-in ones.
    pub pages: Option<Pages>,
    /// The programs that it is of: SHA-256 of the lab's, with real packets joined with that of `headstart`.
    pub build: String,
    /// What a host must have for it.
    pub needs: Needs,
    /// How long one like it took before, in seconds; none if none was run.
    pub seconds: Option<f64>,
}

/// Pages that are loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    /// Where they lie; no part of the id.
    pub path: PathBuf,
    /// SHA-256 of their names and contents.
    pub sha256: String,
}

/// What programs the results come from: SHA-256 of the file of each.
#[derive(Clone, Debug)]
pub struct Builds {
    /// Of the lab's program.
    pub lab: String,
    /// Of the program that is measured with real packets, if it is there.
    pub headstart: Option<String>,
}

/// What a host must have for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Processors.
    pub cores: u32,
    /// Network namespaces.
    pub namespaces: bool,
    /// Chromium.
    pub chromium: bool,
    /// Nothing else at work meanwhile.
    pub quiet: bool,
}

impl Needs {
    /// What `entry` needs at `speed`. The published results with real packets are of two processors.
    fn of(entry: &Entry, speed: Speeds) -> Self {
        let real = speed.in_namespaces();
        let chromium = real && CHROMIUM.contains(&entry.name);
        Self { cores: if real { 2 } else { 1 }, namespaces: real, chromium, quiet: real }
    }
}

impl Needs {
    /// What a host of so many processors, with Chromium or without, lacks.
    pub fn lacks(&self, cores: usize, chromium: bool) -> Option<String> {
        if self.chromium && !chromium {
            return Some("it needs Chromium, which is not on the PATH of this host".into());
        }
        (cores < self.cores as usize).then(|| format!("it needs {} processors; this host gives it {cores}", self.cores))
    }
}

impl Task {
    /// The task of `entry` in `condition`.
    pub fn new(
        entry: &Entry,
        condition: &str,
        seed: u64,
        speed: Speeds,
        quick: bool,
        pages: Option<Pages>,
        builds: &Builds,
    ) -> anyhow::Result<Self> {
        let mut task = Self {
            version: VERSION,
            id: String::new(),
            experiment: entry.name.into(),
            condition: condition.into(),
            seed,
            speed,
            quick,
            pages,
            build: build(builds, speed)?,
            needs: Needs::of(entry, speed),
            seconds: None,
        };
        task.id = task.identity();
        Ok(task)
    }

    /// The id that it should have: a plan that was written to by hand gives itself away.
    pub fn identity(&self) -> String {
        let decides = serde_json::json!({
            "version": self.version,
            "experiment": self.experiment,
            "condition": self.condition,
            "seed": self.seed,
            "speed": self.speed,
            "quick": self.quick,
            "pages": self.pages.as_ref().map(|pages| &pages.sha256),
            "build": self.build,
        });
        sha256(decides.to_string().as_bytes())
    }

    /// "page-load lte, seed 7, sim"
    pub fn name(&self) -> String {
        format!("{} {}, seed {}, {}", self.experiment, self.condition, self.seed, self.speed)
    }

    /// Whether the programs here are those that it is of; says which are not.
    pub fn check_build(&self, builds: &Builds) -> anyhow::Result<()> {
        anyhow::ensure!(
            build(builds, self.speed)? == self.build,
            "the plan is of another build of headstart (its tasks of {:.12}, this program {:.12}): run it with the same program \
             everywhere, or make the plan anew",
            self.build,
            build(builds, self.speed)?
        );
        Ok(())
    }

    /// Whether its pages are still those that it was planned with.
    pub fn check_pages(&self) -> anyhow::Result<()> {
        let Some(pages) = &self.pages else { return Ok(()) };
        let now = digest_of_pages(&pages.path).with_context(|| format!("pages {}", pages.path.display()))?;
        anyhow::ensure!(now == pages.sha256, "{} has changed since the plan was made", pages.path.display());
        Ok(())
    }

    /// Whether this host has what it needs, which is cheaper to ask before than to find out.
    pub fn check_host(&self) -> anyhow::Result<()> {
        let cores = std::thread::available_parallelism().map_or(usize::MAX, Into::into);
        let path = std::env::var_os("PATH");
        let chromium = headstart_io::program::find("chromium".as_ref(), path.as_deref()).is_some();
        self.needs.lacks(cores, chromium).map_or(Ok(()), |why| Err(anyhow::anyhow!(why)))
    }

    /// Whether tasks of both take about the same time.
    pub fn is_like(&self, other: &Self) -> bool {
        let of = |task: &Self| (task.speed, task.quick, task.pages.as_ref().map(|p| p.sha256.clone()));
        (&self.experiment, &self.condition, of(self)) == (&other.experiment, &other.condition, of(other))
    }
}

/// The programs that decide a result at `speed`.
fn build(builds: &Builds, speed: Speeds) -> anyhow::Result<String> {
    if !speed.in_namespaces() {
        return Ok(builds.lab.clone());
    }
    let headstart = builds.headstart.as_ref().context("`headstart` is neither beside headstart-lab nor on the PATH")?;
    Ok(sha256(format!("{} {headstart}", builds.lab).as_bytes()))
}

/// SHA-256 of what is in a file.
pub fn digest_of_file(path: &Path) -> std::io::Result<String> {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(digest.finish().as_ref())),
            n => digest.update(&buffer[..n]),
        }
    }
}

/// SHA-256 of a file, or of the names and contents of all files below a folder, in the order of their names.
///
/// Linked folders below it are not entered. What is no file, and more than pages ever are, is an error.
pub fn digest_of_pages(path: &Path) -> anyhow::Result<String> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    if path.is_dir() {
        folders.push(path.to_owned())
    } else {
        files.push(path.to_owned())
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path())
            } else {
                files.push(entry.path())
            }
            anyhow::ensure!(
                files.len() + folders.len() <= MOST_FILES,
                "more than {MOST_FILES} files: not a folder of pages"
            );
        }
    }
    files.sort();
    let mut bytes = 0;
    for file in &files {
        let data = fs::metadata(file).with_context(|| file.display().to_string())?;
        anyhow::ensure!(data.is_file() || data.is_dir(), "{} is not a file", file.display());
        bytes += data.len();
    }
    anyhow::ensure!(bytes <= MOST_BYTES, "{} MB: too large for pages", bytes / 1_000_000);
    files.retain(|file| !file.is_dir());
    if files == [path] {
        return Ok(digest_of_file(path)?);
    }
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    for file in files {
        let name = file.strip_prefix(path).unwrap_or(&file);
        digest.update(format!("{} {}\n", digest_of_file(&file)?, name.display()).as_bytes());
    }
    Ok(hex(digest.finish().as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;

    fn task(seed: u64, lab: &str, pages: Option<Pages>) -> Task {
        let entry = experiment::find("page-load").unwrap();
        let builds = Builds { lab: lab.into(), headstart: None };
        Task::new(entry, "lte", seed, Speeds::Virtual, true, pages, &builds).unwrap()
    }

    #[test]
    fn an_id_depends_on_what_decides_the_result_and_on_nothing_else() {
        let one = task(1, "x", None);
        assert_eq!(one.id, "e8ba6d66bad7ae1bba919390b7339b531a3b8ea6b8a4bf66d0faccf5434ecda3", "of this very text");
        assert_ne!(one.id, task(2, "x", None).id);
        assert_ne!(one.id, task(1, "y", None).id);
        let pages = |path: &str, sha256: &str| Some(Pages { path: path.into(), sha256: sha256.into() });
        assert_eq!(task(1, "x", pages("/here", "p")).id, task(1, "x", pages("/there", "p")).id);
        assert_ne!(task(1, "x", pages("/here", "p")).id, task(1, "x", pages("/here", "q")).id);
        assert_eq!(Task { seconds: Some(3.0), ..one.clone() }.identity(), one.id);
    }

    #[test]
    fn another_build_and_other_pages_are_named() {
        let why = task(1, "x", None).check_build(&Builds { lab: "y".into(), headstart: None }).unwrap_err();
        assert!(why.to_string().contains("another build"), "{why}");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a"), "1").unwrap();
        let pages = Pages { path: folder.path().into(), sha256: digest_of_pages(folder.path()).unwrap() };
        let task = task(1, "x", Some(pages));
        task.check_pages().unwrap();
        fs::write(folder.path().join("sub/a"), "2").unwrap();
        assert!(task.check_pages().unwrap_err().to_string().contains("has changed since the plan"));
        // Neither a folder that leads back to itself nor what has no end keeps anybody.
        std::os::unix::fs::symlink(folder.path(), folder.path().join("sub/again")).unwrap();
        assert!(digest_of_pages(folder.path()).is_ok());
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("endless")).unwrap();
        for endless in [folder.path(), Path::new("/dev/zero")] {
            assert!(digest_of_pages(endless).unwrap_err().to_string().contains("is not a file"));
        }
    }

    #[test]
    fn a_host_that_lacks_what_a_task_needs_is_told_what() {
        let needs = |name: &str, speed| Needs::of(experiment::find(name).unwrap(), speed);
        let (simulated, real) = (needs("page-load", Speeds::Virtual), needs("page-load", Speeds::Namespaces));
        assert_eq!((simulated.lacks(1, false), real.lacks(2, true)), (None, None));
        assert!(real.lacks(8, false).unwrap().contains("Chromium"));
        assert!(real.lacks(1, true).unwrap().contains("needs 2 processors; this host gives it 1"));
        assert_eq!(needs("connect-model", Speeds::Namespaces).lacks(2, false), None, "it loads no page");
    }

    #[test]
    fn real_packets_are_of_two_programs() {
        let entry = experiment::find("page-load").unwrap();
        let with = |headstart: Option<&str>| {
            let builds = Builds { lab: "x".into(), headstart: headstart.map(Into::into) };
            Task::new(entry, "lte", 1, Speeds::Namespaces, true, None, &builds)
        };
        assert_ne!(with(Some("a")).unwrap().id, with(Some("b")).unwrap().id);
        assert!(with(None).unwrap_err().to_string().contains("`headstart` is neither beside headstart-lab"));
    }
}
