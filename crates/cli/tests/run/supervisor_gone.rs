//! The supervisor dies, or `headstart run`, or both, whatever the program is doing: the program goes on as without us.

use crate::lab::{HEADSTART, Lab, compiled, inside, until};
use crate::processes::{is_alive, program_and_supervisor, send, send_to};
use headstart_core::time::Duration;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Kills the supervisor, `headstart run`, or both, at any moment; the program, which ends when it is told to, goes on.
fn kill_in_the_middle(lab: &Lab, random: &mut fastrand::Rng, supervisor_too: bool, run_too: bool) {
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let mut command = lab.command(HEADSTART);
    // Calls that wait for an answer fail if there is nobody left to give it; a library asks nobody then.
    let via = if supervisor_too && run_too { "preload" } else { "auto" };
    command.args(["run", "-q", "--via", via, "--"]).arg(&program).arg("endless").stdin(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let stop = run.stdin.take();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    // At least one connection is there, and others are on their way.
    assert!(lines.any(|line| line == "connect: ok"));
    let (program, supervisor) = program_and_supervisor(run.id());
    lab.network.clock().sleep(Duration::from_micros(random.u64(0..40_000)));
    if supervisor_too {
        send_to(supervisor, Signal::KILL);
    }
    if run_too {
        send(&run, Signal::KILL);
        run.wait().unwrap();
    }
    assert!(is_alive(program));
    let (mut connected, mut pages) = (0, 0);
    for line in lines.by_ref() {
        assert!(!line.starts_with("connect: ") || line == "connect: ok", "{line}");
        assert!(!line.starts_with("getaddrinfo"), "{line}");
        connected += u32::from(line == "connect: ok");
        pages += u32::from(line == "family: IPv4");
        if connected >= 20 {
            break;
        }
    }
    assert!(connected >= 20 && pages + 2 >= connected, "{connected} connections, {pages} pages");
    assert!(supervisor_too || is_alive(supervisor), "it serves the program, whatever became of headstart run");
    drop(stop);
    lines.for_each(drop);
    until("the program ends", || !is_alive(program));
    until("the supervisor ends with it", || !is_alive(supervisor));
    run.wait().unwrap();
}

inside!(a_program_goes_on_when_its_supervisor_is_killed_at_any_moment, || {
    let lab = Lab::new();
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..8 {
        kill_in_the_middle(&lab, &mut random, true, false);
    }
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(a_program_is_served_on_when_headstart_run_is_killed, || {
    let lab = Lab::new();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..4 {
        kill_in_the_middle(&lab, &mut random, false, true);
    }
    assert!(!lab.scratch.left_behind().is_empty(), "kill -9 leaves the last folder");
    assert_eq!(lab.ours(&["true"]).code, Some(0));
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(a_program_goes_on_when_all_of_headstart_is_killed, || {
    let lab = Lab::new();
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..4 {
        kill_in_the_middle(&lab, &mut random, true, true);
    }
    assert_eq!(lab.ours(&["true"]).code, Some(0));
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(a_blocking_connect_goes_on_when_the_supervisor_is_killed_in_the_middle, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let mut command = lab.command(HEADSTART);
    command.args(["run", "-q", "--"]).arg(&program).arg("sa_restart");
    let mut run = command.spawn().unwrap();
    let out = BufReader::new(run.stdout.take().unwrap());
    until("the lookup is over", || lab.network.dns_count("far.lab.example", "AAAA") >= 1);
    let (_, supervisor) = program_and_supervisor(run.id());
    lab.network.clock().sleep(Duration::from_millis(500));
    send_to(supervisor, Signal::KILL);
    let lines: Vec<String> = out.lines().map(Result::unwrap).collect();
    assert!(lines.first().is_some_and(|line| line.starts_with("connect: ok")), "{lines:?}");
    assert!(lines.iter().any(|line| line == "family: IPv4"), "{lines:?}");
    run.wait().unwrap();
});
