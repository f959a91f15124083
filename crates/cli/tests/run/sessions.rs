//! Sessions under headstart: a shell on a terminal with job control, and the script for login shells.

use crate::lab::{HEADSTART, Lab, found, inside, python};

/// Runs the rest of its words on a terminal of their own, sends them the lines of its first, and prints what came back.
const TERMINAL: &str = "import os, pty, select, sys
lines, words = sys.argv[1], sys.argv[2:]
number, terminal = pty.fork()
if number == 0:
    os.execvp(words[0], words)
os.write(terminal, lines.encode())
out = b''
while True:
    try:
        read = os.read(terminal, 4096)
    except OSError:
        break
    if not read:
        break
    out += read
sys.stdout.buffer.write(out)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
";

inside!(a_shell_on_a_terminal_has_its_jobs_and_its_programs_are_served, || {
    let (Some(python), Some(bash), Some(curl)) = (python(), found("bash", "bash"), found("curl", "curl")) else {
        return;
    };
    let (bash, curl) = (bash.to_str().unwrap(), curl.to_str().unwrap());
    let lab = Lab::new();
    let lines = format!(
        "sleep 1000 & kill -STOP %1; until [[ $(jobs) == *Stopped* ]]; do sleep 0.01; done; jobs; kill -KILL %1; wait; echo job-$((40+2)); {curl} -sS http://www.lab.example/; \
         echo \"preloaded-${{LD_PRELOAD:+yes}}\"; exit 7\n"
    );
    for via in ["auto", "preload"] {
        let shell = [HEADSTART, "run", "-q", "--via", via, "--", bash, "--norc", "--noprofile", "-i"];
        let words = [&[python.as_str(), "-c", TERMINAL, &lines], &shell[..]].concat();
        let ended = lab.bare(&words);
        assert_eq!(ended.code, Some(7), "{via}: {ended:?}");
        assert!(!ended.out.contains("no job control"), "{via}: {ended:?}");
        for wanted in ["Stopped", "job-42", "family: IPv", "preloaded-yes"] {
            assert!(ended.out.contains(wanted), "{via}: {wanted}: {ended:?}");
        }
    }
});

inside!(a_login_shell_is_started_once_more_under_headstart_and_only_if_that_works, || {
    let (Some(python), Some(bash)) = (python(), found("bash", "bash")) else { return };
    let lab = Lab::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/profile/headstart.sh");
    let folder = std::path::Path::new(HEADSTART).parent().unwrap().display().to_string();
    let shell = format!("SHELL={}", bash.display());
    // The host's own profile sets a PATH, so this one comes after it; the name `headstart` is found by it, or not at all.
    let login = |path: &str, variable: &str| {
        std::fs::write(lab.scratch.path(".profile"), format!("PATH={path}:/usr/bin:/bin\n. {script}\n")).unwrap();
        let lines = "echo \"folder-${HEADSTART_DIR:+given} here\"; exit\n";
        let bash = bash.to_str().unwrap();
        lab.bare(&[&python, "-c", TERMINAL, lines, "env", &shell, variable, bash, "--login", "-i"]).out
    };
    let ours = login(&folder, "HEADSTART=private");
    assert!(ours.contains("folder-given here"), "{ours}");
    for (path, variable) in [("/nowhere", "HEADSTART=private"), (&*folder, "HEADSTART=off")] {
        let bare = login(path, variable);
        assert!(bare.contains("folder- here"), "{path}, {variable}: {bare}");
    }
    std::fs::write(lab.scratch.path(".no-headstart"), "").unwrap();
    let bare = login(&folder, "HEADSTART=private");
    assert!(bare.contains("folder- here"), "{bare}");
});
