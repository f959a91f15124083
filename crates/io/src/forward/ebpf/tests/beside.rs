//! Measurers of one group beside each other, and what is left of one that is killed.

use super::{Programs, Stage, answers, flows};
use crate::clock::Clock;
use crate::sys::bpf::{HOOKS, attached};
use headstart_core::time::Duration;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

/// For [`holder`]: the folder of the group that it attaches to.
const GROUP: &str = "HEADSTART_TEST_GROUP";

/// Every program of every kind that a group has.
fn list(group: impl AsFd) -> Vec<(&'static str, Vec<u32>)> {
    HOOKS.iter().map(|(name, kind)| (*name, attached(&group, *kind).unwrap())).collect()
}

#[test]
fn another_tools_programs_on_the_same_group_stay_when_ours_go() {
    let Some((stage, others)) = Stage::new() else { return };
    let before = list(&stage.group);
    assert_eq!(before.iter().filter(|(_, programs)| programs.len() == 1).count(), 10, "{before:?}");
    let ours = Programs::attach(&stage.group).unwrap();
    assert!(list(&stage.group).iter().all(|(name, programs)| programs.len() == 2 || *name == "sock_create"));
    drop(ours);
    until(|| list(&stage.group) == before);
    // And what the others measure is measured.
    let to = stage.listen("127.0.0.1:0", answers);
    let (seen, ..) = stage.run(others, &format!("exec 3<>/dev/tcp/127.0.0.1/{}; exec 3>&-", to.port()));
    assert_eq!(flows(&seen).len(), 1);
}

/// Until something is so that the kernel does in the background.
fn until(mut is_so: impl FnMut() -> bool) {
    let clock = Clock::new();
    // A minute in all: this is for what never comes to be so.
    assert!((0..6000).any(|_| is_so() || {
        clock.sleep(Duration::from_millis(10));
        false
    }));
}

/// No test but a program for the next one: attaches to a group, says so, and waits to be killed.
#[test]
fn holder() {
    let Some(folder) = std::env::var_os(GROUP) else { return };
    let programs = Programs::attach(File::open(folder).unwrap()).unwrap();
    println!("\nattached");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(programs);
}

#[test]
fn whenever_of_a_hundred_times_a_measurer_is_killed_nothing_of_it_is_left_and_others_stay() {
    let Some((stage, others)) = Stage::new() else { return };
    let before = list(&stage.group);
    let mut moment = 1u64;
    for n in 0..100u32 {
        let mut holder = Command::new(std::env::current_exe().unwrap());
        holder
            .args(["--exact", "forward::ebpf::tests::beside::holder", "--nocapture"])
            .env(GROUP, stage.group.folder());
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        if n % 3 == 0 {
            // It is killed with everything attached, or at some moment before.
            let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
            assert!(lines.map_while(Result::ok).any(|line| line == "attached"));
            assert_ne!(list(&stage.group), before);
        } else {
            moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Clock::new().sleep(Duration::from_millis((moment >> 33) % 400));
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        until(|| list(&stage.group) == before);
    }
    let to = stage.listen("127.0.0.1:0", answers);
    let (seen, ..) = stage.run(others, &format!("exec 3<>/dev/tcp/127.0.0.1/{}; exec 3>&-", to.port()));
    assert_eq!(flows(&seen).len(), 1, "what others measure is measured");
    until(|| list(&stage.group).iter().all(|(_, programs)| programs.is_empty()));
}
