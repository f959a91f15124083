//! Signals to processes that a test has started, and to those alone.

use crate::lab::until;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

fn pid(number: u32) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).unwrap()
}

/// Sends a signal to one process.
pub fn send(child: &Child, signal: Signal) {
    kill_process(pid(child.id()), signal).unwrap();
}

/// Makes a command lead a process group of its own, as a shell does with its jobs.
pub fn lead_a_group(command: &mut Command) {
    command.process_group(0);
}

/// Sends a signal to the group that a child leads, as a terminal does.
pub fn send_to_group(leader: &Child, signal: Signal) {
    kill_process_group(pid(leader.id()), signal).unwrap();
}

/// Whether the process `number` is there; dead ones that nobody has waited for are not.
pub fn is_alive(number: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    test_kill_process(pid(number)).is_ok() && !matches!(state, Some('Z' | 'X') | None)
}

/// The program of a run, by the process of its `headstart run`, and its private supervisor.
pub fn program_and_supervisor(run: u32) -> (u32, u32) {
    let name = |number: &u32| fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
    // The name that it gives itself; before that it has that of its parent, as a program has before it is executed.
    until("program and supervisor are there", || {
        let all = besides_its_watchdog(run);
        all.len() == 2
            && all.iter().filter(|number| name(number) == "headstart-super\n").count() == 1
            && !all.iter().any(|number| name(number) == "headstart\n")
    });
    let (supervisor, program) =
        besides_its_watchdog(run).into_iter().partition(|number| name(number) == "headstart-super\n");
    let only = |list: Vec<u32>| list[0];
    (only(program), only(supervisor))
}

/// The watchdog of a run, if it has one.
pub fn watchdog(run: u32) -> Option<u32> {
    children(run).into_iter().find(|number| is_watchdog(*number))
}

fn is_watchdog(number: u32) -> bool {
    fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|name| name == "seccomp-watch\n")
}

/// The program that `headstart run --measure` has started, and the watchdog beside it, which may name itself a moment later. Both are children
/// of `forwarder`.
pub fn measured_and_watchdog(forwarder: u32) -> (u32, u32) {
    until("its watchdog is there", || watchdog(forwarder).is_some());
    (besides_its_watchdog(forwarder)[0], watchdog(forwarder).unwrap())
}

fn besides_its_watchdog(run: u32) -> Vec<u32> {
    children(run).into_iter().filter(|number| !is_watchdog(*number)).collect()
}

/// Sends a signal to the process `number`, which a test has started.
pub fn send_to(number: u32, signal: Signal) {
    kill_process(pid(number), signal).unwrap();
}

/// Asks the process `number` to end, if it has not done so by itself.
pub fn ask_to_end(number: u32) {
    let _ = kill_process(pid(number), Signal::TERM);
}

/// Processes whose parent is `parent`.
pub fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let of = |number: &u32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let parent_of = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        parent_of == Some(parent)
    };
    all.filter(of).collect()
}
