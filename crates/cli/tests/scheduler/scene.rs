//! A campaign in virtual time in a folder of its own, the same campaign by a single process to compare with, and what is said of both.

use headstart_io::clock::Clock;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The program under test.
pub const LAB: &str = env!("CARGO_BIN_EXE_headstart-lab");

/// What tasks say of themselves, but for machine and time, by their ids.
pub type Bits = BTreeMap<String, String>;

pub struct Campaign {
    pub folder: tempfile::TempDir,
    /// Tasks of the plan.
    pub tasks: usize,
}

impl Campaign {
    /// The plan, with as many seeds as are asked for.
    pub fn new() -> Self {
        let seeds = std::env::var("HEADSTART_CAMPAIGN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[[set]]\nexperiment = \"connect-model\"\nconditions = [\"healthy\", \"aaaa-slow\"]\nquick = true\nseeds = {seeds}\n"
        );
        fs::write(folder.path().join("campaign.toml"), text).unwrap();
        let campaign = Self { folder, tasks: 2 * seeds };
        let plan = campaign.lab(&["plan", "campaign.toml"]);
        assert!(plan.status.success(), "{plan:?}");
        fs::write(campaign.path("plan.jsonl"), plan.stdout).unwrap();
        campaign
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command of the lab, in the campaign's folder.
    pub fn lab(&self, words: &[&str]) -> Output {
        self.command(LAB, words).output().unwrap()
    }

    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Writes what `engine` needs, in `shards`.
    pub fn submission(&self, engine: &str, shards: usize) -> Output {
        self.submission_of(engine, shards, LAB)
    }

    /// The same with another program on the nodes.
    pub fn submission_of(&self, engine: &str, shards: usize, program: &str) -> Output {
        let shards = shards.to_string();
        let words = ["submit", "--engine", engine, "plan.jsonl", "--out", "results", "--shards", &shards];
        let output = self.lab(&[&words[..], &["--program", program]].concat());
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// A program that is the lab, but never ends the second shard that it is given on `node`; on other hosts the second waits for that, so
    /// that there is one. `begun` says whether it has come to that.
    pub fn stuck_on(&self, node: &str) -> (String, impl Fn() -> bool) {
        let (file, begun) = (self.path("stuck"), self.path("begun"));
        let text = format!(
            "#!/bin/sh\nif ! mkdir {at}/first-$(uname -n) 2> /dev/null; then\n  if [ \"$(uname -n)\" = {node} ]; then\n    touch {at}/begun\n    \
             exec sleep infinity\n  fi\n  while [ ! -e {at}/begun ]; do sleep 0.1; done\nfi\nexec {LAB} \"$@\"\n",
            at = self.folder.path().display(),
        );
        executable(&file, &text);
        (file.into_os_string().into_string().unwrap(), move || begun.exists())
    }

    /// How many tasks have a result.
    pub fn done(&self) -> usize {
        let entries = fs::read_dir(self.path("results")).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().len() == 64).count()
    }

    pub fn bits(&self, folder: &str) -> Bits {
        let entries = fs::read_dir(self.path(folder)).unwrap().flatten();
        let entries = entries.filter(|entry| entry.file_name().len() == 64);
        let of = |folder: &Path| bits(&fs::read(folder.join("result.json")).unwrap());
        entries.map(|entry| (entry.file_name().into_string().unwrap(), of(&entry.path()))).collect()
    }

    /// Every id exactly once, and the same bits as those of a single process.
    pub fn is_whole_and_the_same(&self) {
        let collected = self.lab(&["collect", "--json", "--plan", "plan.jsonl", "results", "--out", "campaign"]);
        let account: serde_json::Value = serde_json::from_slice(&collected.stdout).unwrap();
        println!("account: {account}");
        assert!(collected.status.success(), "{collected:?}");
        assert_eq!(
            (account["planned"].as_u64(), account["counted"].as_u64()),
            (Some(self.tasks as u64), Some(self.tasks as u64))
        );
        let alone = self.lab(&["work", "--plan", "plan.jsonl", "--out", "alone"]);
        assert!(alone.status.success(), "{alone:?}");
        let (here, there) = (self.bits("alone"), self.bits("results"));
        assert_eq!(here.len(), self.tasks);
        assert!(here == there, "tasks in virtual time have other bits under a scheduler");
        println!("{} tasks, the same bits as those of one process", here.len());
    }
}

/// A script that can be run.
pub fn executable(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// What a result says of itself, but for machine and time.
pub fn bits(result: &[u8]) -> String {
    let mut outcome: serde_json::Value = serde_json::from_slice(result).unwrap();
    outcome["device"] = serde_json::Value::Null;
    outcome["extent"]["seconds"] = serde_json::Value::Null;
    outcome.to_string()
}

/// Whether a program is there; says which Debian package brings it where it is not.
pub fn found(program: &str, package: &str) -> bool {
    let folders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let there = folders.iter().any(|folder| Path::new(folder).join(program).exists());
    if !there {
        println!("skipped: {program} is not installed (Debian package: {package})");
    }
    there
}

/// The Python that has `module`; says so where none has.
pub fn python_with(module: &str) -> Option<String> {
    let named = std::env::var("HEADSTART_PYTHON").ok();
    let all = named.into_iter().chain(["python3".to_owned()]);
    let has = |python: &String| {
        let probe = Command::new(python).args(["-c", &format!("import {module}")]).output();
        probe.is_ok_and(|output| output.status.success())
    };
    let found = all.into_iter().find(has);
    if found.is_none() {
        println!("skipped: no Python has the module {module} (`cargo xtask campaigns` makes one that has it)");
    }
    found
}

/// Waits for something that must come; says what did not after ten minutes.
pub fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let clock = Clock::new();
    let until = clock.now() + Duration::from_secs(600);
    while !is() {
        assert!(clock.now() < until, "{what} did not come");
        clock.sleep(Duration::from_millis(100));
    }
}
