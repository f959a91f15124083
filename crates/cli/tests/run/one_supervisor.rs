//! One supervisor a user: found or started by runs, shared by them and by nobody else, gone after a while.

use crate::lab::{Ended, HEADSTART, Lab, ended, found, inside, python, supervisors, until};
use crate::processes::{is_alive, send_to};
use rustix::process::Signal;
use std::fs;
use std::process::Command;

/// `headstart run` without a supervisor of its own; the supervisor that it starts stays for `linger` seconds.
fn shared(lab: &Lab, linger: &str, flags: &[&str], words: &[&str]) -> Command {
    let mut command = lab.command(HEADSTART);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", linger);
    command.arg("run").args(flags).arg("--").args(words);
    command
}

/// Runs a program by the shared supervisor; how it ended, with its summary.
pub fn run(lab: &Lab, words: &[&str]) -> Ended {
    let file = lab.scratch.path("shared-summary");
    let _ = fs::remove_file(&file);
    let ended = ended(shared(lab, "3600", &["--summary", file.to_str().unwrap()], words).spawn().unwrap());
    let summary = fs::read(&file).map(|text| serde_json::from_slice(&text).expect("valid JSON"));
    Ended { summary: summary.unwrap_or_default(), ..ended }
}

/// The supervisor, of which there is one.
pub fn supervisor() -> u32 {
    let all = supervisors();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

/// Ends the supervisor as a user would.
pub fn end(supervisor: u32) {
    send_to(supervisor, Signal::TERM);
    until("the supervisor has ended", || !is_alive(supervisor));
}

const PAGE: &str = "http://www.lab.example/";

inside!(the_second_run_finds_what_the_first_has_learned, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let words = [curl.to_str().unwrap(), "-sS", PAGE];
    let (first, second) = (run(&lab, &words), run(&lab, &words));
    assert!(first.code == Some(0) && first.count("queries") == 2, "{first:?}");
    assert!(second.code == Some(0) && second.out == first.out, "{second:?}");
    assert_eq!((second.count("queries"), second.count("cache_hits"), second.count("resolved")), (0, 2, 1));
    assert_eq!((first.count("processes"), second.count("processes")), (1, 1), "each has a summary of its own");
    assert!(second.err.contains("(2 of 2 lookups cached)"), "{second:?}");
    end(supervisor());
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(another_program_learns_nothing_of_what_the_first_was_told, || {
    let (Some(curl), Some(python)) = (found("curl", "curl"), python()) else { return };
    let lab = Lab::new();
    let first = run(&lab, &[curl.to_str().unwrap(), "-sS", PAGE]);
    let other = run(&lab, &[&python, "-c", "import socket; print(socket.getaddrinfo('www.lab.example', 80))"]);
    assert!(first.code == Some(0) && other.code == Some(0), "{first:?} {other:?}");
    assert_eq!((other.count("queries"), other.count("cache_hits")), (2, 0), "{other:?}");
    end(supervisor());
});

inside!(what_the_users_settings_say_holds_for_the_shared_supervisor, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let settings = lab.scratch.path(".config/headstart");
    fs::create_dir_all(&settings).unwrap();
    fs::write(settings.join("config.toml"), "[connect]\ncache-lifetime = \"off\"\n").unwrap();
    let words = [curl.to_str().unwrap(), "-sS", PAGE];
    let (first, second) = (run(&lab, &words), run(&lab, &words));
    assert!(first.code == Some(0) && second.code == Some(0), "{first:?} {second:?}");
    assert_eq!((second.count("queries"), second.count("cache_hits")), (2, 0), "answers are not kept: {second:?}");
    end(supervisor());
    // The lab's arms read no settings.
    let mut command = shared(&lab, "3600", &[], &["true"]);
    assert_eq!(ended(command.env("HEADSTART_CONFIG", "off").spawn().unwrap()).code, Some(0));
    let line = fs::read_to_string(format!("/proc/{}/cmdline", supervisor())).unwrap();
    assert!(!line.contains("config.toml"), "{line}");
    end(supervisor());
});

inside!(a_supervisor_keeps_nothing_open_that_its_first_run_was_given, || {
    let lab = Lab::new();
    let file = lab.scratch.path("held");
    let mut shell = lab.command("sh");
    shell.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600");
    shell.args(["-c", "exec 7>\"$1\"; exec \"$2\" run -- true", "sh"]).arg(&file).arg(HEADSTART);
    assert_eq!(ended(shell.spawn().unwrap()).code, Some(0));
    let open: Vec<_> = fs::read_dir(format!("/proc/{}/fd", supervisor())).unwrap().flatten().collect();
    let leads_to: Vec<_> = open.iter().filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
    assert!(!leads_to.is_empty() && !leads_to.contains(&file), "{leads_to:?}");
    end(supervisor());
});

inside!(runs_that_start_at_once_start_one_supervisor, || {
    let lab = Lab::new();
    let all: Vec<_> = (0..12).map(|_| shared(&lab, "3600", &[], &["true"]).spawn().unwrap()).collect();
    for run in all.into_iter().map(ended) {
        assert!(run.code == Some(0) && !run.err.contains("of its own"), "{run:?}");
    }
    end(supervisor());
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(a_supervisor_ends_by_itself_and_leaves_nothing, || {
    let lab = Lab::new();
    for _ in 0..2 {
        let run = ended(shared(&lab, "1", &[], &["true"]).spawn().unwrap());
        assert_eq!(run.code, Some(0), "{run:?}");
        until("the supervisor has gone", || supervisors().is_empty());
        assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
    }
});

inside!(runs_meet_a_supervisor_that_is_about_to_end_and_are_served, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    for _ in 0..30 {
        let run = ended(shared(&lab, "0", &[], &[curl.to_str().unwrap(), "-sS", PAGE]).spawn().unwrap());
        assert!(run.code == Some(0) && run.err.contains("1 name resolved"), "{run:?}");
    }
    until("the last supervisor has gone", || supervisors().is_empty());
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(a_supervisor_that_was_killed_is_replaced_by_the_next_run, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let words = [curl.to_str().unwrap(), "-sS", PAGE];
    assert_eq!(run(&lab, &words).code, Some(0));
    let killed = supervisor();
    send_to(killed, Signal::KILL);
    until("it is dead", || !is_alive(killed));
    let next = run(&lab, &words);
    assert!(next.code == Some(0) && next.count("queries") == 2, "{next:?}");
    end(supervisor());
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(runs_with_settings_of_their_own_have_supervisors_of_their_own, || {
    let lab = Lab::new();
    for flags in [
        &["--private"][..],
        &["--race", "sequential"],
        &["--cache-lifetime", "3600s"],
        &["--cache-lifetime", "off"],
        &["--explore", "0"],
    ] {
        let run = ended(shared(&lab, "3600", flags, &["true"]).spawn().unwrap());
        assert!(run.code == Some(0) && supervisors().is_empty(), "{flags:?}: {run:?}");
    }
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(a_supervisor_of_another_version_is_left_alone, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    assert_eq!(run(&lab, &["true"]).code, Some(0));
    // The name of the socket tells the version.
    let home = fs::read_dir(&lab.scratch.left_behind()[0]).unwrap().map(|entry| entry.unwrap().path());
    let home = home.into_iter().find(|path| path.is_dir()).unwrap();
    let socket = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path());
    let socket = socket.into_iter().find(|path| path.file_name() != Some("lock".as_ref())).unwrap();
    fs::rename(&socket, home.join("socket-0.0.1-9")).unwrap();
    let other = supervisor();
    let run = run(&lab, &[curl.to_str().unwrap(), "-sS", PAGE]);
    assert!(run.code == Some(0) && run.count("resolved") == 1, "{run:?}");
    assert!(run.err.contains("another version") && run.err.contains("using a separate supervisor"), "{run:?}");
    assert!(is_alive(other));
    end(other);
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});

inside!(a_shared_supervisor_dies_and_the_programs_go_on, || {
    let Some(python) = python() else { return };
    let lab = Lab::new();
    let script = "import socket, sys; print('ready', flush=True); sys.stdin.read(); \
                  print(socket.create_connection(('www.lab.example', 80)).recv(0))";
    let mut command = shared(&lab, "3600", &[], &[&python, "-c", script]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    until("the supervisor serves", || !supervisors().is_empty());
    let mut line = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    send_to(supervisor(), Signal::KILL);
    drop(child.stdin.take());
    let run = ended(child);
    assert!(run.code == Some(0) && run.out.contains("b''"), "{run:?}");
    assert!(run.err.contains("continued without headstart"), "{run:?}");
});

inside!(an_idle_supervisor_does_not_wake_up, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    assert_eq!(run(&lab, &[curl.to_str().unwrap(), "-sS", PAGE]).code, Some(0));
    let supervisor = supervisor();
    let status = |name: &str| -> u64 {
        let status = fs::read_to_string(format!("/proc/{supervisor}/status")).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.split_whitespace().next().unwrap().parse().unwrap()
    };
    let wakes = || status("voluntary_ctxt_switches:") + status("nonvoluntary_ctxt_switches:");
    // What the run has left to be done is done after some seconds at most (connections that nobody claims, retries).
    let clock = lab.network.clock();
    clock.sleep(std::time::Duration::from_secs(6));
    let before = wakes();
    clock.sleep(std::time::Duration::from_secs(5));
    assert_eq!(wakes(), before);
    // What ten thousand names take besides is in the tests of headstart-io.
    println!("an idle supervisor has {} kB in memory", status("VmRSS:"));
    assert!(status("VmRSS:") < 20_000, "{} kB", status("VmRSS:"));
    end(supervisor);
});
