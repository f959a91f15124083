//! A program whose addresses lie in a page that is never supplied: a thread that reads it blocks for good.
//! The supervisor's does not.

use crate::attack::Attack;
use crate::lab::{HEADSTART, Lab, compiled, found, inside};
use crate::one_supervisor::{end, run, supervisor};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

/// Runs beside the program.
const BESIDE: usize = 5;

inside!(a_page_that_never_comes_holds_up_no_other_run, || {
    let lab = Lab::new();
    let Some(curl) = found("curl", "curl") else { return };
    let Some(program) = compiled(&lab.scratch, "absent.c", &[]) else { return };
    let mut command = lab.command(HEADSTART);
    command.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600").stdin(Stdio::piped());
    let mut stalled = command.args(["run", "--via", "seccomp", "--"]).arg(program).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(stalled.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() && stalled.wait().unwrap().code() == Some(77) {
        return println!("skipped: no userfaultfd for this user");
    }
    assert_eq!(line, "waits\n");
    let words = [curl.to_str().unwrap(), "-sS", "http://www.lab.example/"];
    let served = |_: &usize| {
        let beside = run(&lab, &words);
        beside.code == Some(0) && beside.summary["resolved"] == 1
    };
    let served = (0..BESIDE).filter(served).count();
    let row = Attack { attack: "addresses of connect in a page that never comes", listener: "supervisor" };
    row.at_most("runs beside it that are not served, of 5", 0.0, (BESIDE - served) as f64);
    drop(stalled.stdin.take());
    assert_eq!(stalled.wait().unwrap().code(), Some(0));
    end(supervisor());
});
