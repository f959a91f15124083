//! `headstart-run`: a plain run by it is one by `headstart run`, and what is more than plain is done by that.

use crate::lab::{Ended, Lab, Scratch, ended, found, inside};
use crate::one_supervisor::{end, run, supervisor};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The command under test.
const SMALL: &str = env!("CARGO_BIN_EXE_headstart-run");
const PAGE: &str = "http://www.lab.example/";

fn small(scratch: &Scratch, file: &Path, words: &[&str]) -> Ended {
    let mut command = Command::new(file);
    scratch.set_home(command.args(words));
    ended(command.spawn().unwrap())
}

#[test]
fn it_ends_as_the_program_does_and_leaves_nothing() {
    let scratch = Scratch::new();
    let of = |words: &[&str]| small(&scratch, Path::new(SMALL), words);
    let shell = of(&["-q", "sh", "-c", "echo $LD_PRELOAD; exit 42"]);
    assert_eq!((shell.code, shell.err.as_str()), (Some(42), ""), "{shell:?}");
    assert!(shell.out.contains("libheadstart"), "{shell:?}");
    let killed = of(&["--", "sh", "-c", "kill -9 $$"]);
    assert!(killed.code == Some(137) && killed.err.starts_with("headstart: "), "{killed:?}");
    assert_eq!(of(&["/nonexistent/program"]).code, Some(127));
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
}

#[test]
fn what_is_meant_for_the_process_that_was_started_is_for_the_program() {
    // As systemd does it for services (sd_listen_fds(3), sd_watchdog_enabled(3)).
    let scratch = Scratch::new();
    let start = format!(
        "export LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_PIDFDID=7 WATCHDOG_PID=$$ OTHER_PID=$$; exec {SMALL} -q -- sh -c '\
         [ $LISTEN_PID = $$ ] && [ $WATCHDOG_PID = $$ ] && [ -z $LISTEN_PIDFDID ] && [ $LISTEN_FDS = 1 ] && [ $OTHER_PID != $$ ]'"
    );
    let program = small(&scratch, Path::new("sh"), &["-c", &start]);
    assert_eq!((program.code, program.err.as_str()), (Some(0), ""), "{program:?}");
    // What is meant for another stays so.
    let of_another =
        format!("LISTEN_PID=1 LISTEN_PIDFDID=7 exec {SMALL} -q -- sh -c 'echo $LISTEN_PID $LISTEN_PIDFDID'");
    assert_eq!(small(&scratch, Path::new("sh"), &["-c", &of_another]).out, "1 7\n");
}

#[test]
fn what_is_more_than_plain_is_done_by_the_whole_command() {
    let scratch = Scratch::new();
    let file = scratch.path("summary");
    let of = |words: &[&str]| small(&scratch, Path::new(SMALL), words);
    let told = of(&["--summary", file.to_str().unwrap(), "--", "sh", "-c", "exit 3"]);
    assert_eq!(told.code, Some(3), "{told:?}");
    assert!(fs::read_to_string(&file).unwrap().contains("\"resolved\":0"));
    let help = of(&["--help"]);
    assert!(help.code == Some(0) && help.out.contains("headstart run"), "{help:?}");
    assert_eq!(of(&[]).code, Some(2));
}

#[test]
fn without_the_whole_command_beside_it_programs_run_all_the_same() {
    let scratch = Scratch::new();
    let moved = scratch.path("moved");
    // By another process: what a test beside this one starts meanwhile would have the copy open for writing, and it could not be run.
    assert!(Command::new("cp").arg(SMALL).arg(&moved).status().unwrap().success());
    let help = small(&scratch, &moved, &["--help"]);
    let expected = format!("cannot start {}", moved.with_file_name("headstart").display());
    assert!(help.code == Some(1) && help.err.contains(&expected), "{help:?}");
    let program = small(&scratch, &moved, &["sh", "-c", "echo said; exit 5"]);
    assert!(program.code == Some(5) && program.out == "said\n", "{program:?}");
    assert!(program.err.contains("the program continued without headstart"), "{program:?}");
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
}

inside!(both_commands_are_served_by_one_supervisor, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let curl = curl.to_str().unwrap();
    let mut command = lab.command(SMALL);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600").args([curl, "-sS", PAGE]);
    let first = ended(command.spawn().unwrap());
    assert!(first.code == Some(0) && first.err.contains("headstart: "), "{first:?}");
    let second = run(&lab, &[curl, "-sS", PAGE]);
    assert!(second.code == Some(0) && second.out == first.out, "{second:?}");
    assert_eq!((second.count("queries"), second.count("cache_hits")), (0, 2), "{second:?}");
    end(supervisor());
    // And alone.
    let mut command = lab.command(SMALL);
    let alone = ended(command.args([curl, "-sS", PAGE]).spawn().unwrap());
    assert!(alone.code == Some(0) && alone.out == first.out && alone.err.contains("1 name"), "{alone:?}");
    assert!(lab.scratch.left_behind().is_empty(), "{:?}", lab.scratch.left_behind());
});
