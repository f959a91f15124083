//! What is written beside a program: full disks, limits and pipes that nothing reads from. The program's code is its own, nothing
//! is cut off in silence, and nothing waits that cannot be interrupted.

use crate::lab::{Lab, Scratch, ended, inside, until};
use crate::processes::send;
use crate::schema::must_hold;
use rustix::process::Signal;

#[test]
fn a_summary_that_cannot_be_written_is_told_and_the_code_is_the_programs() {
    let scratch = Scratch::new();
    let to = |file| ended(scratch.headstart(["run", "--summary", file, "--", "sh", "-c", "exit 42"]).spawn().unwrap());
    let full = to("/dev/full");
    assert_eq!(full.code, Some(42), "{full:?}");
    assert!(full.err.contains("writing the summary") && full.err.contains("/dev/full"), "{full:?}");
    let nowhere = to("/nonexistent/summary");
    assert_eq!(nowhere.code, Some(2), "before the program is started: {nowhere:?}");
}

#[test]
fn a_limit_on_files_does_not_end_the_run_and_is_the_programs_as_ever() {
    let scratch = Scratch::new();
    // The program's own writes beyond the limit end it by SIGXFSZ, as they do alone: 128 + 25.
    let file = scratch.path("file");
    for (script, code) in [("exit 42", 42), ("exec dd if=/dev/zero of=\"$0\" count=1", 128 + 25)] {
        let command = scratch.headstart(["run", "--private", "--", "sh", "-c", script]);
        let limited = "ulimit -f 0; exec \"$@\"";
        let mut sh = std::process::Command::new("sh");
        sh.args(["-c", limited, "sh"]).arg(command.get_program()).args(command.get_args()).arg(&file);
        sh.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        sh.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let ended = ended(sh.spawn().unwrap());
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
}

inside!(a_capture_that_is_cut_off_is_told_and_is_no_success, || {
    let lab = Lab::new();
    let measured = |words: &[&str]| ended(lab.scratch.headstart(words.iter().copied()).spawn().unwrap());
    // Enough for the buffer before the file to be written out while the program runs, and little enough for it to wait until the end.
    for script in ["exec 3<>/dev/udp/198.51.100.9/9; echo x >&3; exit 0", "exit 0"] {
        let cut = measured(&["trace", "-w", "/dev/full", "--", "bash", "-c", script]);
        assert_eq!(cut.code, Some(1), "{cut:?}");
        assert!(cut.err.contains("/dev/full") && cut.err.contains("No space left on device"), "{cut:?}");
    }
    let quiet = measured(&["trace", "--quiet", "-w", "/dev/full", "--", "sh", "-c", "exit 7"]);
    assert!(quiet.code == Some(7) && quiet.err.contains("cut off"), "the program's code comes first: {quiet:?}");
    let summary = measured(&["run", "--measure", "--summary", "/nonexistent/summary", "--", "sh", "-c", "exit 7"]);
    assert!(summary.code == Some(2) && summary.err.contains("/nonexistent/summary"), "{summary:?}");
    let file = lab.scratch.path("whole.pcapng");
    let whole = measured(&["trace", "--json", "-w", file.to_str().unwrap(), "--", "true"]);
    must_hold("measure-summary", &whole.err);
    let whole = measured(&["trace", "-w", file.to_str().unwrap(), "--", "true"]);
    assert!(whole.code == Some(0) && !whole.err.contains("cut off"), "{whole:?}");
});

inside!(a_record_of_the_labs_links_that_is_cut_off_is_told_and_is_no_success, || {
    let scratch = Scratch::new();
    for flag in ["--events", "--pcapng"] {
        let says = |script: &str| {
            let words = ["lab", "shell", flag, "/dev/full", "--", "sh", "-c", script];
            ended(scratch.headstart(words).spawn().unwrap())
        };
        let cut = says("exit 0");
        assert!(cut.code == Some(1) && cut.err.contains("No space left on device"), "{flag}: {cut:?}");
        assert_eq!(says("exit 7").code, Some(7), "{flag}");
    }
});

inside!(a_pipe_that_nothing_reads_from_can_be_interrupted, || {
    let lab = Lab::new();
    let pipe = lab.scratch.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    for flag in ["--flows", "--pcapng"] {
        let words = ["run", "--measure", flag, pipe.to_str().unwrap(), "--", "true"];
        let mut child = lab.scratch.headstart(words).spawn().unwrap();
        until("it ends", || {
            send(&child, Signal::TERM);
            child.try_wait().unwrap().is_some()
        });
        assert_eq!(child.wait().unwrap().code(), None, "{flag}: by the signal");
    }
    for measuring in [&[][..], &["--measure"]] {
        let words = [&["run"], measuring, &["--summary", pipe.to_str().unwrap(), "--", "true"]].concat();
        let mut child = lab.scratch.headstart(words).spawn().unwrap();
        until("it ends", || {
            send(&child, Signal::TERM);
            child.try_wait().unwrap().is_some()
        });
    }
    // Whoever reads later gets all of it.
    let words = ["run", "--measure", "--flows", pipe.to_str().unwrap(), "--", "true"];
    let child = lab.scratch.headstart(words).spawn().unwrap();
    let read = std::fs::read(&pipe).unwrap();
    assert!(ended(child).code == Some(0) && read.is_empty());
});
