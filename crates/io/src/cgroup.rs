//! Control groups of version 2 (cgroups(7)): where they are mounted, and one for a program, which it joins before it is executed.
//!
//! The group is made inside the caller's own, so that whatever limits the caller limits the program. It limits nothing itself: no
//! controller is switched on. Its maker holds it (flock(2)): one that was killed leaves an empty folder, which the next one removes.

use crate::clock::Clock;
use crate::sys::process::join_before_exec;
use headstart_core::forward::group::belongs_to;
use headstart_core::time::Duration;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// What names of ours begin with; the number of the process follows, and which of its groups it is.
const NAME: &str = "headstart-run-";
/// Groups that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);
/// Names that are tried.
const MOST_TRIES: u32 = 1000;
/// Times that processes are moved out of a group before its folder is left: a millisecond later each time, a fifth of a second in all.
const MOST_RELEASES: u64 = 20;
/// Where a group's processes are listed, and joined.
const PROCESSES: &str = "cgroup.procs";

/// Where version 2 is mounted, be it beside version 1.
pub fn root() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let place = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(place))
    });
    place.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "control groups of version 2 are not mounted"))
}

/// The root as programs of a measurement are attached to it.
pub fn whole_host() -> io::Result<File> {
    File::open(root()?)
}

/// The group of this process, in the hierarchy that is mounted at `root`.
fn own(root: &Path) -> io::Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    Ok(root.join(path.trim_start_matches('/')))
}

/// The limits of the group of this process, by the names of their files: a group inside it has no such files, so that a program that looks
/// only into its own (older Java, Node) takes the whole host for its own.
pub fn limits() -> io::Result<Vec<&'static str>> {
    Ok(limits_of(&own(&root()?)?))
}

fn limits_of(group: &Path) -> Vec<&'static str> {
    let is_limit = |name: &&str| fs::read_to_string(group.join(name)).is_ok_and(|text| !text.starts_with("max"));
    ["memory.max", "memory.high", "cpu.max"].into_iter().filter(is_limit).collect()
}

/// Groups whose belonging is kept: more than most hosts have.
const MOST_KNOWN: usize = 4096;

/// What groups belong to, by their numbers, as they are asked for.
#[derive(Debug, Default)]
pub struct Belongings(BTreeMap<u64, Option<String>>);

impl Belongings {
    /// The container or the unit of a group; none if it belongs to neither, or was removed before it was asked for.
    pub fn of(&mut self, number: u64) -> Option<String> {
        if let Some(known) = self.0.get(&number) {
            return known.clone();
        }
        let root = root().ok()?;
        let found = find(&root, number).and_then(|folder| belongs_to(folder.strip_prefix(&root).ok()?.to_str()?));
        if self.0.len() >= MOST_KNOWN {
            self.0.clear();
        }
        self.0.insert(number, found.clone());
        found
    }
}

/// The folder of a group, whose number is that of its file.
fn find(folder: &Path, number: u64) -> Option<PathBuf> {
    if fs::metadata(folder).ok()?.ino() == number {
        return Some(folder.to_owned());
    }
    let folders =
        fs::read_dir(folder).ok()?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).find_map(|inside| find(&inside, number))
}

/// A group for a program and its children. Those that are left when it is dropped go back to where they would have been.
#[derive(Debug)]
pub struct Group {
    parent: PathBuf,
    folder: PathBuf,
    file: File,
}

impl Group {
    /// A group of its own inside the caller's. Needs root, or a group that was delegated to the caller.
    pub fn create() -> io::Result<Self> {
        let parent = own(&root()?)?;
        sweep(&parent);
        let mut tries = MOST_TRIES;
        loop {
            tries -= 1;
            match Self::named(&parent, MADE.fetch_add(1, Ordering::Relaxed)) {
                // A process in another namespace has our number; or another run has swept the folder before it was held.
                Err(e) if tries > 0 && matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {}
                made => return made,
            }
        }
    }

    fn named(parent: &Path, which: u32) -> io::Result<Self> {
        let folder = parent.join(format!("{NAME}{}-{which}", std::process::id()));
        fs::create_dir(&folder)?;
        let held = File::open(&folder).and_then(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            // Another run that sweeps may have held it for a moment, and removed it then.
            fs::metadata(&folder).map(|_| file)
        });
        match held {
            Ok(file) => Ok(Self { parent: parent.to_owned(), folder, file }),
            Err(why) => {
                let _ = fs::remove_dir(&folder);
                Err(if why.kind() == ErrorKind::WouldBlock { ErrorKind::NotFound.into() } else { why })
            }
        }
    }

    /// Makes `command` start in this group.
    pub fn adopt(&self, command: &mut Command) -> io::Result<()> {
        let processes = File::options().write(true).open(self.folder.join(PROCESSES))?;
        join_before_exec(command, processes);
        Ok(())
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Moves the processes that are left to the parent.
    fn release(&self) -> io::Result<()> {
        let processes = fs::read_to_string(self.folder.join(PROCESSES))?;
        for process in processes.lines() {
            // One that has ended meanwhile need not be moved.
            let _ = fs::write(self.parent.join(PROCESSES), process);
        }
        fs::remove_dir(&self.folder)
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that is being started may come in between, and one that has just ended still counts for a moment; one that
        // starts others without end keeps the folder.
        let clock = Clock::new();
        let released = |n| {
            clock.sleep(Duration::from_millis(n));
            self.release().is_ok()
        };
        let _ = (0..MOST_RELEASES).any(released);
    }
}

/// Removes the groups of runs that were killed: those that are held by no process. One that a process is in stays: the kernel refuses.
fn sweep(parent: &Path) {
    let Ok(all) = fs::read_dir(parent) else { return };
    let ours = all.flatten().filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME)));
    for folder in ours.map(|entry| entry.path()) {
        let held = File::open(&folder).and_then(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(file)
        });
        // Held until the folder is gone: a run that has just made it would take it for its own otherwise, and measure nothing.
        if let Ok(_held) = held {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, test_kill_process};
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn limits_are_named_and_what_has_none_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(limits_of(folder.path()).is_empty(), "the root, and where no controller is switched on");
        for (name, text) in [("memory.max", "536870912\n"), ("memory.high", "max\n"), ("cpu.max", "50000 100000\n")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        assert_eq!(limits_of(folder.path()), ["memory.max", "cpu.max"]);
    }

    fn group() -> Option<Group> {
        Group::create().map_err(|e| eprintln!("skipped: control groups cannot be made here: {e}")).ok()
    }

    #[test]
    fn a_group_is_found_by_its_number_and_says_what_it_belongs_to() {
        let Some(group) = group() else { return };
        let inside = group.folder().join("headstart-test.service");
        fs::create_dir(&inside).unwrap();
        let number = fs::metadata(&inside).unwrap().ino();
        let mut all = Belongings::default();
        assert_eq!(all.of(number).as_deref(), Some("headstart-test.service"));
        fs::remove_dir(&inside).unwrap();
        assert_eq!(all.of(number).as_deref(), Some("headstart-test.service"), "it is kept for what is told later");
        assert_eq!(Belongings::default().of(number), None);
    }

    #[test]
    fn a_program_is_in_its_group_and_whoever_it_leaves_behind_is_let_go() {
        let Some(group) = group() else { return };
        let folder = group.folder().to_owned();
        let mut command = Command::new("sh");
        command.args(["-c", "cat /proc/self/cgroup; sleep 1000 >/dev/null 2>&1 & echo $!"]);
        group.adopt(&mut command).unwrap();
        let output = command.output().unwrap();
        assert_eq!(output.status.into_raw(), 0);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(said.lines().any(|line| line.starts_with("0::") && line.ends_with(name)), "{said}");
        let left: i32 = said.lines().last().unwrap().parse().unwrap();
        drop(group);
        assert!(!folder.exists(), "nothing is left of the group");
        let left = Pid::from_raw(left).unwrap();
        assert!(test_kill_process(left).is_ok(), "the program goes on");
        rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
    }

    /// Inside a group of its own: other runs sweep the one that this process is in.
    #[test]
    fn what_a_killed_run_has_left_is_removed_and_what_is_held_stays() {
        let Some(outer) = group() else { return };
        let held = Group::named(outer.folder(), 0).unwrap();
        let left = outer.folder().join(format!("{NAME}1-left"));
        fs::create_dir(&left).unwrap();
        sweep(outer.folder());
        assert!(!left.exists() && held.folder().exists());
    }

    #[test]
    fn a_group_that_is_in_use_is_never_swept_by_runs_that_start_at_the_same_time() {
        if group().is_none() {
            return;
        }
        let starts = || (0..200).all(|_| Group::create().unwrap().folder().join(PROCESSES).exists());
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(starts)).collect();
            assert!(all.into_iter().all(|one| one.join().unwrap()), "a group was removed while its run had it");
        });
    }
}
