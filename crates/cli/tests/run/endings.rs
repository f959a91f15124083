//! How `headstart run` ends: as its program ends, with nothing left behind, and with a word where it was asked for what
//! does not exist. No network is needed: none of these programs looks up a name.

use crate::lab::{Ended, Scratch, ended, until};
use crate::processes::{children, is_alive, lead_a_group, program_and_supervisor, send, send_to_group};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

fn run(scratch: &Scratch, words: &[&str]) -> Ended {
    ended(scratch.headstart(["run", "--"].iter().chain(words)).spawn().unwrap())
}

/// Starts a command and waits until it has printed `ready`.
fn ready(mut command: Command) -> (Child, impl BufRead) {
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended before it was ready");
    }
    (child, out)
}

#[test]
fn it_ends_with_the_programs_code() {
    let scratch = Scratch::new();
    for code in [0, 1, 2, 42, 126, 127, 255] {
        let ended = run(&scratch, &["sh", "-c", &format!("exit {code}")]);
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
    assert!(scratch.left_behind().is_empty());
}

#[test]
fn it_ends_with_128_and_the_signal_that_ended_the_program() {
    let scratch = Scratch::new();
    for (name, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("PIPE", 13), ("USR1", 10)] {
        let ended = run(&scratch, &["sh", "-c", &format!("ulimit -c 0; kill -{name} $$; sleep 60")]);
        assert_eq!(ended.code, Some(128 + number), "{ended:?}");
    }
    assert!(scratch.left_behind().is_empty());
}

#[test]
fn what_cannot_be_run_is_126_and_what_is_not_there_is_127() {
    let scratch = Scratch::new();
    let plain = scratch.path("plain");
    fs::write(&plain, "no program").unwrap();
    let broken = scratch.path("broken");
    fs::write(&broken, "#!/nonexistent/interpreter\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    for (program, code) in [
        (plain.to_str().unwrap(), 126),
        ("/", 126),
        ("/nonexistent/program", 127),
        ("no-such-program-anywhere", 127),
        ("", 127),
        (broken.to_str().unwrap(), 127),
    ] {
        let ended = run(&scratch, &[program]);
        assert_eq!(ended.code, Some(code), "{program}: {ended:?}");
        assert!(ended.err.contains("headstart: "), "{program}: {ended:?}");
    }
    // Its own words ask nothing of ours.
    let ended = ended(scratch.headstart(["run", "-q", "/nonexistent/program", "--json"]).spawn().unwrap());
    assert!(ended.code == Some(127) && ended.err.starts_with("headstart: "), "{ended:?}");
    assert!(scratch.left_behind().is_empty());
}

#[test]
fn standard_streams_arguments_and_environment_are_the_programs() {
    let scratch = Scratch::new();
    let script = "cat; echo \"$# $2 $MARK\" >&2";
    let mut command = scratch.headstart(["run", "-q", "--", "sh", "-c", script, "sh", "--race", "two words"]);
    command.env("MARK", "kept").stdin(fs::File::open("/proc/version").unwrap());
    let ended = ended(command.spawn().unwrap());
    assert_eq!((ended.out, ended.err.as_str()), (fs::read_to_string("/proc/version").unwrap(), "2 two words kept\n"));
}

#[test]
fn signals_sent_to_it_reach_the_program() {
    let scratch = Scratch::new();
    for (name, signal) in [
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let script = format!("trap 'exit 42' {name}; echo ready; while :; do sleep 0.02; done");
        let (child, _out) = ready(scratch.headstart(["run", "-q", "--", "sh", "-c", &script]));
        send(&child, signal);
        let ended = ended(child);
        assert_eq!(ended.code, Some(42), "{name}: {ended:?}");
    }
    assert!(scratch.left_behind().is_empty());
}

#[test]
fn a_program_that_dies_of_a_signal_sent_to_it_is_told_by_128_and_the_signal() {
    let scratch = Scratch::new();
    let (child, _out) = ready(scratch.headstart(["run", "-q", "--", "sh", "-c", "echo ready; exec sleep 600"]));
    send(&child, Signal::TERM);
    assert_eq!(ended(child).code, Some(128 + 15));
}

#[test]
fn control_c_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let mut command = scratch.headstart(["run", "--", "sh", "-c", "echo ready; sleep 600; echo not reached"]);
    lead_a_group(&mut command);
    let (child, _out) = ready(command);
    let (program, supervisor) = program_and_supervisor(child.id());
    // Not merely forked: a shell between fork and exec loses signals.
    let sleeps = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    until("the program has started another", || children(program).iter().any(sleeps));
    let all: Vec<u32> = [program, supervisor].into_iter().chain(children(program)).collect();
    assert_eq!(scratch.left_behind().len(), 1);
    send_to_group(&child, Signal::INT);
    let ended = ended(child);
    assert_eq!(ended.code, Some(128 + 2), "{ended:?}");
    until("all have ended", || !all.iter().any(|pid| is_alive(*pid)));
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
}

#[test]
fn control_c_at_any_moment_leaves_nothing_after_the_next_start() {
    let scratch = Scratch::new();
    let clock = headstart_io::clock::Clock::new();
    // From before the folder is there until after the program runs, in steps of 200 us.
    for step in 0..60 {
        let mut command = scratch.headstart(["run", "-q", "--", "sleep", "600"]);
        lead_a_group(&mut command);
        let child = command.spawn().unwrap();
        clock.sleep(std::time::Duration::from_micros(200 * step));
        send_to_group(&child, Signal::INT);
        let ended = ended(child);
        assert!(ended.code.is_none_or(|code| code == 130), "{step}: {ended:?}");
    }
    assert_eq!(run(&scratch, &["true"]).code, Some(0));
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
}

#[test]
fn a_race_that_does_not_exist_is_a_usage_error_that_lists_those_that_do() {
    let scratch = Scratch::new();
    let ended = ended(scratch.headstart(["run", "--race", "fastest", "--", "true"]).spawn().unwrap());
    assert_eq!(ended.code, Some(2));
    for word in ["fastest", "sequential", "happy-eyeballs-v2", "simultaneous", "adaptive"] {
        assert!(ended.err.contains(word), "{word}: {ended:?}");
    }
    assert!(scratch.left_behind().is_empty());
}

#[test]
fn an_option_that_does_not_exist_is_no_command_and_those_of_the_command_are_its_own() {
    let scratch = Scratch::new();
    for words in [&["run", "--nonsense", "--", "true"][..], &["trace", "--nonsense", "--", "true"]] {
        let wrong = ended(scratch.headstart(words).spawn().unwrap());
        assert!(wrong.code == Some(2) && wrong.err.contains("unexpected argument '--nonsense'"), "{wrong:?}");
    }
    let minus = ended(scratch.headstart(["lab", "run", "emulator", "--seed", "-1"]).spawn().unwrap());
    assert!(minus.code == Some(2) && minus.err.contains("invalid value '-1' for '--seed"), "{minus:?}");
    for words in [&["run", "-q", "sh", "-c", "exit 7"][..], &["run", "-q", "--", "sh", "-c", "exit 7"]] {
        assert_eq!(ended(scratch.headstart(words).spawn().unwrap()).code, Some(7), "{words:?}");
    }
}

#[test]
fn the_labs_own_race_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let ended = ended(scratch.headstart(["run", "--race", "oracle", "--", "true"]).spawn().unwrap());
    assert!(ended.code == Some(2) && ended.err.contains("only the lab can run it"), "{ended:?}");
}

#[test]
fn the_summary_is_one_json_object_and_an_unwritable_place_is_named() {
    let scratch = Scratch::new();
    let file = scratch.path("summary.json");
    let words = ["run", "--summary", file.to_str().unwrap(), "--", "true"];
    let good = ended(scratch.headstart(words).spawn().unwrap());
    assert!(good.code == Some(0) && good.err.contains("nothing to gain"), "{good:?}");
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(summary["version"] == 2 && summary["handed_over"] == 0 && summary["not_handled"].is_object(), "{summary}");
    let bad = ended(scratch.headstart(["run", "--summary", "/nonexistent/file", "--", "true"]).spawn().unwrap());
    assert!(bad.code == Some(2) && bad.err.contains("/nonexistent/file"), "before it runs: {bad:?}");
    assert!(scratch.left_behind().is_empty());
}

#[test]
fn a_place_that_cannot_hold_the_folder_is_passed_over() {
    let scratch = Scratch::new();
    let deep = scratch.path(&"x".repeat(120));
    fs::create_dir(&deep).unwrap();
    for place in [deep.to_str().unwrap(), "/nonexistent", "relative", ""] {
        let mut command = scratch.headstart(["run", "--", "true"]);
        let ended = ended(command.env("XDG_RUNTIME_DIR", place).spawn().unwrap());
        assert_eq!(ended.code, Some(0), "{place}: {ended:?}");
    }
}

#[test]
fn a_program_in_the_background_outlives_the_run_and_its_folder_is_swept_by_the_next() {
    let scratch = Scratch::new();
    // The file is the sign for the background process to go.
    let sign = scratch.path("sign");
    let script = format!("(while [ ! -e {} ]; do sleep 0.02; done) >/dev/null 2>&1 & echo $!", sign.display());
    let first = run(&scratch, &["sh", "-c", &script]);
    let survivor: u32 = first.out.trim().parse().unwrap();
    assert!(first.code == Some(0) && is_alive(survivor), "{first:?}");
    assert_eq!(scratch.left_behind().len(), 1, "what it has mapped stays: the programs that it starts load it too");
    assert_eq!(run(&scratch, &["true"]).code, Some(0));
    assert!(is_alive(survivor) && scratch.left_behind().len() == 1);
    fs::write(&sign, "").unwrap();
    until("the survivor has ended", || !is_alive(survivor));
    assert_eq!(run(&scratch, &["true"]).code, Some(0));
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
}

#[test]
fn what_cannot_be_written_makes_a_verb_fail_and_who_stops_reading_does_not() {
    let scratch = Scratch::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = scratch.headstart(["list", "races"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("standard output: No space left"), "{output:?}");
    let mut reader = scratch.headstart(["list", "races"]).spawn().unwrap();
    drop(reader.stdout.take());
    assert_eq!(ended(reader).code, Some(0));
}
