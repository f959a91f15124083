//! A control group of the lab's own: programs in it have a share of the processors, and some of them (cgroups(7)). A
//! device that saves, without taking a processor from the host.
//!
//! Made at the root of the hierarchy, of either version; gone when dropped. What a killed lab has left is swept by the
//! next one.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// What names of ours begin with; the number of the process follows.
const NAME: &str = "headstart-lab-";
/// Microseconds in which a share is counted: the kernel's own default.
const PERIOD: u32 = 100_000;

/// A group; empty of processes by the time that it is dropped, or the next lab removes it.
#[derive(Debug)]
pub struct Group {
    folders: Vec<PathBuf>,
}

impl Group {
    /// A group that has `percent` of one processor's time, on the processor `cpu`. Needs root.
    pub fn create(percent: u32, cpu: u32) -> io::Result<Self> {
        let (quota, cpu) = (percent * PERIOD / 100, cpu.to_string());
        let name = format!("{NAME}{}", std::process::id());
        let root = Path::new(ROOT);
        let mut group = Self { folders: Vec::new() };
        if root.join("cgroup.controllers").exists() {
            // Those that are on already stay on.
            fs::write(root.join("cgroup.subtree_control"), "+cpu +cpuset")?;
            let folder = group.add(root, &name)?;
            fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD}"))?;
            fs::write(folder.join("cpuset.cpus"), cpu)?;
            return Ok(group);
        }
        let folder = group.add(&root.join("cpu"), &name)?;
        fs::write(folder.join("cpu.cfs_period_us"), PERIOD.to_string())?;
        fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())?;
        let sets = root.join("cpuset");
        let folder = group.add(&sets, &name)?;
        fs::write(folder.join("cpuset.mems"), fs::read_to_string(sets.join("cpuset.mems"))?.trim())?;
        fs::write(folder.join("cpuset.cpus"), cpu)?;
        Ok(group)
    }

    fn add(&mut self, hierarchy: &Path, name: &str) -> io::Result<PathBuf> {
        for old in fs::read_dir(hierarchy)?.flatten() {
            if old.file_name().to_str().is_some_and(|old| old.starts_with(NAME)) {
                // A group that still has a process stays.
                let _ = fs::remove_dir(old.path());
            }
        }
        let folder = hierarchy.join(name);
        fs::create_dir(&folder)?;
        self.folders.push(folder.clone());
        Ok(folder)
    }

    /// Words before a command that run it in the group.
    pub fn words(&self) -> Vec<OsString> {
        let script = "n=$1; shift; while [ $n -gt 0 ]; do echo $$ > \"$1/cgroup.procs\" || exit 1; shift; n=$((n-1)); done; exec \"$@\"";
        let mut words: Vec<OsString> =
            ["sh", "-c", script, "sh", &self.folders.len().to_string()].map(Into::into).into();
        words.extend(self.folders.iter().map(|folder| folder.clone().into_os_string()));
        words
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_in_a_group_is_there_and_the_group_is_gone_afterwards() {
        let group = match Group::create(20, 0) {
            Ok(group) => group,
            Err(e) => return eprintln!("skipped: control groups cannot be made here: {e}"),
        };
        let folders = group.folders.clone();
        let words = group.words();
        let output = Command::new(&words[0]).args(&words[1..]).args(["cat", "/proc/self/cgroup"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.matches(NAME).count(), folders.len(), "{said}");
        drop(group);
        assert!(folders.iter().all(|folder| !folder.exists()));
    }
}
