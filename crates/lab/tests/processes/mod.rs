//! Processes and namespaces as `/proc` shows them, for tests that kill labs.
//!
//! Signals only what a test has started.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// Start time, in clock ticks since boot.
    started: String,
}

/// Parent and start time from `/proc/PID/stat`, unless the process has ended.
fn stat(pid: u32) -> Option<(u32, String)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; fields are counted from the parenthesis that closes it.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    (fields[0] != "Z" && fields[0] != "X").then(|| (fields[1].parse().unwrap(), fields[19].to_owned()))
}

fn pids() -> Vec<u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A process and all its descendants, parents first.
pub fn family(pid: u32) -> Vec<Process> {
    let mut family = vec![Process { pid, started: stat(pid).expect("a live process").1 }];
    let mut next = 0;
    while next < family.len() {
        let parent = family[next].pid;
        let children = pids().into_iter().filter_map(|pid| stat(pid).filter(|s| s.0 == parent).map(|s| (pid, s.1)));
        family.extend(children.map(|(pid, started)| Process { pid, started }));
        next += 1;
    }
    family
}

pub fn alive(process: &Process) -> bool {
    stat(process.pid).is_some_and(|(_, started)| started == process.started)
}

/// Network namespaces of the threads of these processes, other than the caller's.
pub fn network_namespaces(processes: &[Process]) -> BTreeSet<String> {
    let own = fs::read_link("/proc/self/ns/net").unwrap().display().to_string();
    let mut all: BTreeSet<String> = processes.iter().flat_map(|process| of(process.pid)).collect();
    all.remove(&own);
    all
}

/// Network namespaces of all threads of all processes.
pub fn all_network_namespaces() -> BTreeSet<String> {
    pids().into_iter().flat_map(of).collect()
}

fn of(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| Some(fs::read_link(task.path().join("ns/net")).ok()?.display().to_string())).collect()
}

pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

pub fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}
