//! The supervisor dies, or `headstart run`, or both, whatever the program is doing: the program goes on as without us.

use crate::lab::{HEADSTART, Lab, compiled, found, inside, python, until};
use crate::processes::{is_alive, program_and_supervisor, send, send_to, watchdog};
use headstart_core::time::Duration;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Kills the supervisor, `headstart run`, or both, at any moment; the program, which ends when it is told to, goes on.
fn kill_in_the_middle(lab: &Lab, random: &mut fastrand::Rng, supervisor_too: bool, run_too: bool) {
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let mut command = lab.command(HEADSTART);
    command.args(["run", "-q", "--"]).arg(&program).arg("endless").stdin(Stdio::piped());
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

/// Looks up and connects once for each line that it reads.
const ONCE_A_LINE: &str = "import socket, sys
for line in sys.stdin:
    s = socket.create_connection((line.strip(), 80))
    s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
    print(s.makefile().readline().strip(), flush=True)
";
/// The same in a shell.
const ONCE_A_LINE_IN_A_SHELL: &str = "while read -r name; do
    exec 3<>\"/dev/tcp/$name/80\" && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && IFS= read -r said <&3
    printf '%s\\n' \"${said%?}\"
done";

inside!(a_program_that_lives_on_looks_up_and_connects_when_all_of_headstart_is_killed, || {
    let lab = Lab::new();
    let (Some(python), Some(bash)) = (python(), found("bash", "bash")) else { return };
    let (bash, shell) = (bash.to_str().unwrap(), ONCE_A_LINE_IN_A_SHELL);
    for (via, words) in [
        ("auto", [&*python, "-c", ONCE_A_LINE]),
        ("seccomp", [&*python, "-c", ONCE_A_LINE]),
        ("preload", [&*python, "-c", ONCE_A_LINE]),
        ("auto", [bash, "-c", shell]),
        ("seccomp", [bash, "-c", shell]),
    ] {
        let mut command = lab.command(HEADSTART);
        let mut run =
            command.args(["run", "-q", "--via", via, "--"]).args(words).stdin(Stdio::piped()).spawn().unwrap();
        let mut ask = run.stdin.take().unwrap();
        let mut said = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut visit = |name: &str| {
            writeln!(ask, "{name}.lab.example").unwrap();
            said.next().unwrap_or_default()
        };
        assert!(visit("www").starts_with("HTTP/1"), "{via}: {words:?}");
        let (program, supervisor) = program_and_supervisor(run.id());
        let watchdog = watchdog(run.id());
        assert_eq!(watchdog.is_some(), via != "preload");
        [supervisor, run.id()].into_iter().for_each(|number| send_to(number, Signal::KILL));
        run.wait().unwrap();
        for name in ["www", "v4", "v6"] {
            assert!(visit(name).starts_with("HTTP/1"), "{via}: {words:?}: {name}");
        }
        drop(ask);
        until("the program ends", || !is_alive(program));
        until("its watchdog ends with it", || watchdog.is_none_or(|number| !is_alive(number)));
    }
});

inside!(a_program_that_is_asked_to_end_together_with_all_of_headstart_still_connects, || {
    // As a service manager stops a service: SIGTERM to every process of it. What a program then has to say is said yet.
    let lab = Lab::new();
    let Some(python) = python() else { return };
    let program =
        ["import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n", ONCE_A_LINE].concat();
    for via in ["auto", "seccomp"] {
        let mut command = lab.command(HEADSTART);
        let words = ["run", "-q", "--via", via, "--", &python, "-c", &program];
        let mut run = command.args(words).stdin(Stdio::piped()).spawn().unwrap();
        let mut ask = run.stdin.take().unwrap();
        let mut said = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
        writeln!(ask, "www.lab.example").unwrap();
        assert!(said.next().is_some_and(|line| line.starts_with("HTTP/1")), "{via}");
        let (program, supervisor) = program_and_supervisor(run.id());
        let watchdog = watchdog(run.id()).unwrap();
        [supervisor, watchdog, program].into_iter().for_each(|number| send_to(number, Signal::TERM));
        assert_eq!(said.next().as_deref(), Some("asked"), "{via}");
        until("the supervisor ends", || !is_alive(supervisor));
        for name in ["v4", "v6"] {
            writeln!(ask, "{name}.lab.example").unwrap();
            assert!(said.next().is_some_and(|line| line.starts_with("HTTP/1")), "{via}: {name}");
        }
        drop(ask);
        assert!(run.wait().unwrap().success());
        until("the watchdog ends with the program", || !is_alive(watchdog));
    }
});

/// Kills the supervisor, and `headstart run` too if it says so, while a blocking connect waits for its answer.
fn kill_while_it_waits(run_too: bool) {
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
    if run_too {
        send(&run, Signal::KILL);
    }
    let lines: Vec<String> = out.lines().map(Result::unwrap).collect();
    assert!(lines.first().is_some_and(|line| line.starts_with("connect: ok")), "{lines:?}");
    assert!(lines.iter().any(|line| line == "family: IPv4"), "{lines:?}");
    run.wait().unwrap();
}

inside!(a_blocking_connect_goes_on_when_the_supervisor_is_killed_in_the_middle, || kill_while_it_waits(false));
inside!(a_blocking_connect_goes_on_when_all_of_headstart_is_killed_in_the_middle, || kill_while_it_waits(true));
