//! The supervisor dies, whatever the program is doing: the program goes on as without us.

use crate::lab::{HEADSTART, Lab, compiled, inside, until};
use crate::processes::{children, is_alive, send};
use headstart_core::time::Duration;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

inside!(a_program_goes_on_when_its_supervisor_is_killed_at_any_moment, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..12 {
        let mut command = lab.command(HEADSTART);
        command.args(["run", "-q", "--"]).arg(&program).arg("endless").stdin(Stdio::piped());
        let mut supervisor = command.spawn().unwrap();
        let stop = supervisor.stdin.take();
        let mut lines = BufReader::new(supervisor.stdout.take().unwrap()).lines().map(Result::unwrap);
        // At least one connection is there, and others are on their way.
        assert!(lines.any(|line| line == "connect: ok"));
        let program = children(supervisor.id());
        lab.network.clock().sleep(Duration::from_micros(random.u64(0..40_000)));
        send(&supervisor, Signal::KILL);
        supervisor.wait().unwrap();
        assert!(program.len() == 1 && is_alive(program[0]));
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
        drop(stop);
        lines.for_each(drop);
        until("the program ends", || !is_alive(program[0]));
    }
    assert!(!lab.scratch.left_behind().is_empty(), "kill -9 leaves the last folder");
    assert_eq!(lab.ours(&["true"]).code, Some(0));
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(a_blocking_connect_goes_on_when_the_supervisor_is_killed_in_the_middle, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let mut command = lab.command(HEADSTART);
    command.args(["run", "-q", "--"]).arg(&program).arg("sa_restart");
    let mut supervisor = command.spawn().unwrap();
    let out = BufReader::new(supervisor.stdout.take().unwrap());
    until("the lookup is over", || lab.network.dns_count("far.lab.example", "AAAA") >= 1);
    lab.network.clock().sleep(Duration::from_millis(500));
    send(&supervisor, Signal::KILL);
    supervisor.wait().unwrap();
    let lines: Vec<String> = out.lines().map(Result::unwrap).collect();
    assert!(lines.first().is_some_and(|line| line.starts_with("connect: ok")), "{lines:?}");
    assert!(lines.iter().any(|line| line == "family: IPv4"), "{lines:?}");
});
