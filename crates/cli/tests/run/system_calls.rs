//! Programs that are heard by their system calls: faults that `headstart run` and its supervisor go through with them.

use crate::inertness::differences;
use crate::lab::{Ended, HEADSTART, Lab, compiled, inside, python, until};
use crate::processes::{is_alive, program_and_supervisor, send_to};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};

inside!(a_run_within_a_run_is_reached_through_its_library_and_says_why, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let program = program.to_str().unwrap();
    let bare = lab.bare(&[program, "blocking"]);
    let nested = lab.ours(&[HEADSTART, "run", "--", program, "blocking"]);
    assert_eq!(differences(&bare, &nested), Vec::<String>::new(), "{nested:?}");
    let said = "is covered through its C library only: a sandbox or another headstart already intercepts";
    assert!(nested.err.contains(said), "{nested:?}");
    let alone = lab.ours(&[HEADSTART, "run", "--via", "seccomp", "--", program, "blocking"]);
    assert_eq!(differences(&bare, &alone), Vec::<String>::new(), "{alone:?}");
    assert!(
        alone.err.contains("runs without headstart: a sandbox or another headstart already intercepts"),
        "{alone:?}"
    );
    // The outer one says what it has seen; the inner one has seen nothing, and says nothing of it.
    assert!(!alone.err.contains("nothing to gain"), "{alone:?}");
});

inside!(what_the_library_was_declined_is_not_asked_about_a_second_time, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let program = program.to_str().unwrap();
    for behaviour in ["blocking", "nonblocking", "refused"] {
        let library = lab.ours_with(&["--via", "preload"], &[program, behaviour]);
        let both = lab.ours_with(&["--via", "auto"], &[program, behaviour]);
        // Which is which depends on whether an attempt is quicker than the program.
        let asked = |run: &Ended| {
            let passed = run.summary["not_handled"].as_object().into_iter().flatten();
            let passed: u64 = passed.filter_map(|(_, n)| n.as_u64()).sum();
            passed + run.count("handed_over") + run.count("handed_over_in_progress") + run.count("failed")
        };
        assert_eq!(asked(&library), asked(&both), "{library:?} {both:?}");
    }
});

inside!(a_supervisor_without_descriptors_leaves_the_program_alone, || {
    let lab = Lab::new();
    let Some(python) = python() else { return };
    let script = r#"
import os, resource, socket, time
run = os.getppid()
name = lambda pid: open(f"/proc/{pid}/comm").read().strip()
supervisor = next(int(c) for c in open(f"/proc/{run}/task/{run}/children").read().split() if name(c) == "headstart-super")
to = socket.getaddrinfo("v4.lab.example", 80, type=socket.SOCK_STREAM)[0][4]
used, before = None, 0
while used != before:
    used, before = set(map(int, os.listdir(f"/proc/{supervisor}/fd"))), used
    time.sleep(0.1)
free = next(n for n in range(10**6) if n not in used)
hard = resource.prlimit(supervisor, resource.RLIMIT_NOFILE)[1]
resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (free, hard))
s = socket.socket()
s.connect(to)
s.sendall(b"GET / HTTP/1.0\r\n\r\n")
print(s.recv(4))
"#;
    let run = lab.ours(&[python.as_str(), "-c", script]);
    assert_eq!((run.code, run.out.trim()), (Some(0), "b'HTTP'"), "{run:?}");
    assert!(run.summary["not_handled"]["no file descriptors left"].as_u64().is_some_and(|n| n > 0), "{run:?}");
});

/// Starts a program that leaves another behind, which visits a server after the first has ended; what that one printed.
fn left_behind(lab: &Lab, program: &Path, supervisor_dies: bool) -> Option<String> {
    let (go, out): (PathBuf, PathBuf) = (lab.scratch.path("go"), lab.scratch.path("out"));
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let visit = format!("{wait}; {} blocking; echo over", program.display());
    let stop = lab.scratch.path("stop");
    let script = format!(
        "({visit}) </dev/null >{} 2>&1 & while [ ! -e {} ]; do sleep 0.05; done; exit 3",
        out.display(),
        stop.display()
    );
    let mut command = lab.command(HEADSTART);
    let mut run = command.args(["run", "-q", "--via", "seccomp", "--", "sh", "-c", &script]).spawn().unwrap();
    let (_, supervisor) = program_and_supervisor(run.id());
    if supervisor_dies {
        send_to(supervisor, Signal::KILL);
        until("the supervisor is gone", || !is_alive(supervisor));
    }
    fs::write(&stop, "").unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(3), "it does not wait for what its program leaves behind");
    fs::write(&go, "").unwrap();
    let read = || fs::read_to_string(&out).unwrap_or_default();
    until("the one left behind is done", || read().ends_with("over\n"));
    until("nobody is left", || !is_alive(supervisor));
    [go, stop].iter().for_each(|file| fs::remove_file(file).unwrap());
    Some(read().trim_end_matches("over\n").to_owned())
}

inside!(what_a_program_leaves_behind_connects_when_its_run_is_over, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let bare = lab.bare(&[program.to_str().unwrap(), "blocking"]);
    for supervisor_dies in [false, true] {
        let Some(out) = left_behind(&lab, &program, supervisor_dies) else { return };
        assert_eq!(out, bare.out, "supervisor killed: {supervisor_dies}");
    }
});
