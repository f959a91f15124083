//! Programs that headstart does not reach, or in one of its ways only: they run as they are, and one line says so.

use crate::lab::{Ended, HEADSTART, Lab, compiled, found, go_program, inside};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a program that no library reaches: it does what it does, and one line names it and gives the reason. Its system
/// calls are heard where they may be.
fn not_covered(lab: &Lab, program: &Path, reason: &str, code: i32) {
    let words = [program.to_str().unwrap()];
    let bare = lab.bare(&words);
    let heard = lab.ours(&words);
    assert_eq!((heard.code, &heard.out), (Some(code), &bare.out), "{heard:?}");
    let said = format!("headstart: {} is covered through system calls only: ", words[0]);
    assert!(heard.err.starts_with(&said) && heard.err.contains(reason), "{heard:?}");
    assert!(heard.count("connect_calls") > 0 && heard.count("processes") == 0, "{heard:?}");
    not_reached(lab, &["--via", "preload"], program, reason, code);
}

/// Runs a program that is not reached at all, with these flags.
fn not_reached(lab: &Lab, flags: &[&str], program: &Path, reason: &str, code: i32) {
    let words = [program.to_str().unwrap()];
    let (bare, ours) = (lab.bare(&words), lab.ours_with(flags, &words));
    assert_eq!((ours.code, &ours.out), (Some(code), &bare.out), "{ours:?}");
    assert_eq!(ours.err.lines().count(), 1, "{ours:?}");
    let name = words[0];
    assert!(
        ours.err.starts_with(&format!("headstart: {name} runs without headstart: ")) && ours.err.contains(reason),
        "{ours:?}"
    );
    let quiet = lab.ours_with(&[flags, &["--quiet"]].concat(), &words);
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(code), ""));
    assert!(lab.scratch.left_behind().is_empty());
}

inside!(a_static_c_program_runs_and_is_said_not_to_be_covered, || {
    let lab = Lab::new();
    // The linker warns of getaddrinfo in static programs, which is what is being tried here.
    let Some(program) = compiled(&lab.scratch, "hello.c", &["-static"]) else { return };
    not_covered(&lab, &program, "statically linked", 7);
});

inside!(a_go_program_without_the_c_library_runs_and_is_said_not_to_be_covered, || {
    let lab = Lab::new();
    let text = "package main\nimport (\"io\"; \"net/http\"; \"os\")\nfunc main() {\n\
                r, err := http.Get(\"http://v4.lab.example/\")\nif err != nil { panic(err) }\n\
                io.Copy(os.Stdout, r.Body)\nos.Exit(7)\n}\n";
    let Some(program) = go_program(&lab.scratch, text) else { return };
    not_covered(&lab, &program, "statically linked", 7);
});

inside!(a_set_user_id_program_runs_and_is_said_not_to_be_covered, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "hello.c", &[]) else { return };
    // In a user namespace there is only one user to give it to.
    let Ok(()) = chown(&program, Some(12_345), None) else {
        println!("skipped: only root may give a file to another user");
        return;
    };
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(program.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    not_reached(&lab, &[], &program, "set-user-ID", 7);
    not_reached(&lab, &["--via", "seccomp"], &program, "set-user-ID", 7);
});

inside!(a_program_of_another_loader_is_said_not_to_be_covered, || {
    let lab = Lab::new();
    // The loader of this machine under the name of another C library's.
    let loaders = fs::read_dir("/lib64").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_loader = |file: &PathBuf| file.file_name().is_some_and(|n| n.to_string_lossy().starts_with("ld-linux"));
    let Some(real) = loaders.into_iter().find(is_loader) else {
        println!("skipped: no loader of the GNU C library in /lib64 (Debian package: libc6)");
        return;
    };
    let musl = lab.scratch.path("ld-musl-x86_64.so.1");
    fs::copy(real, &musl).unwrap();
    let flag = format!("-Wl,--dynamic-linker={}", musl.display());
    let Some(program) = compiled(&lab.scratch, "hello.c", &[&flag]) else { return };
    not_covered(&lab, &program, "ld-musl-x86_64.so.1", 7);
});

inside!(switched_off_nothing_is_preloaded, || {
    let lab = Lab::new();
    let mut command = lab.command(HEADSTART);
    let script = "echo \"${LD_PRELOAD-none} ${HEADSTART_DIR-none}\"; exit 3";
    command.args(["run", "--", "sh", "-c", script]).env("HEADSTART", "off");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "none none\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("runs without headstart: HEADSTART=off"), "{said}");
});

inside!(switched_off_further_down_a_program_is_left_alone, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "inert.c", &[]) else { return };
    let run: Ended = lab.ours(&["env", "HEADSTART=off", program.to_str().unwrap(), "blocking"]);
    assert!(run.code == Some(0) && run.count("processes") == 0, "{run:?}");
    assert!(run.err.contains("nothing to gain"), "{run:?}");
});

inside!(a_static_program_started_by_a_covered_one_does_no_harm, || {
    let lab = Lab::new();
    let Some(program) = compiled(&lab.scratch, "hello.c", &["-static"]) else { return };
    let run = lab.ours(&["sh", "-c", &format!("{}; echo then $?", program.display())]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "connect: 0\nthen 7\n"), "{run:?}");
});

inside!(the_users_own_preloads_are_kept, || {
    let lab = Lab::new();
    let Some(found) = found("cc", "gcc") else { return };
    let (source, library) = (lab.scratch.path("mine.c"), lab.scratch.path("mine.so"));
    fs::write(&source, "#include <unistd.h>\n__attribute__((constructor)) static void f(void) {\nif (write(1, \"mine\\n\", 5)) {}\n}\n").unwrap();
    let built = Command::new(found).args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(built.success());
    let mut command = lab.command(HEADSTART);
    command.args(["run", "-q", "--", "true"]).env("LD_PRELOAD", &library);
    assert_eq!(String::from_utf8_lossy(&command.output().unwrap().stdout).lines().filter(|l| *l == "mine").count(), 2);
});

inside!(what_a_preload_of_the_user_does_with_connections_comes_first, || {
    let lab = Lab::new();
    let (Some(cc), Some(curl)) = (found("cc", "gcc"), found("curl", "curl")) else { return };
    let (source, library) = (lab.scratch.path("mine.c"), lab.scratch.path("mine.so"));
    // As torsocks: no connection goes anywhere but through it.
    let text = "#define _GNU_SOURCE\n#include <errno.h>\n#include <sys/socket.h>\n\
                int connect(int fd, const struct sockaddr *a, socklen_t l) { errno = EHOSTDOWN; return -1; }\n";
    fs::write(&source, text).unwrap();
    let built = Command::new(cc).args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(built.success());
    for via in ["preload", "auto"] {
        let mut command = lab.command(HEADSTART);
        command.args(["run", "-q", "--via", via, "--"]).arg(&curl).args(["-sS", "http://www.lab.example/"]);
        let output = command.env("LD_PRELOAD", &library).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(7), 0), "{via}: {output:?}");
    }
});

inside!(what_a_sandbox_starts_does_not_complain_of_a_library_that_is_not_there, || {
    let lab = Lab::new();
    let (Some(bwrap), Some(curl)) = (found("bwrap", "bubblewrap"), found("curl", "curl")) else { return };
    let (bwrap, curl) = (bwrap.to_str().unwrap(), curl.to_str().unwrap());
    let view = "--ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
                --symlink usr/bin /bin --proc /proc --dev /dev --tmpfs /tmp --tmpfs /run";
    let fetch = format!("{bwrap} {view} {curl} -sS http://www.lab.example/");
    let direct: Vec<&str> = fetch.split_ascii_whitespace().collect();
    let bare = lab.bare(&direct);
    if bare.code != Some(0) {
        println!("skipped: bwrap cannot make a sandbox in here: {}", bare.err);
        return;
    }
    for words in [&direct[..], &["sh", "-c", &*format!("{fetch}; true")]] {
        let ours = lab.ours(words);
        assert!(ours.code == Some(0) && !ours.err.contains("ld.so"), "{ours:?}");
        assert!(ours.out.lines().any(|line| line.starts_with("family: ")), "{ours:?}");
        assert!(ours.count("program_queries") > 0, "its system calls are heard: {ours:?}");
    }
});

inside!(a_program_of_another_c_library_that_a_covered_one_starts_runs_as_without, || {
    let lab = Lab::new();
    let Some(cc) = found("musl-gcc", "musl-tools") else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/programs/lookup.c");
    let program = lab.scratch.path("lookup");
    let built = Command::new(cc).args(["-O1", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    // A shell of its own, which the library is in.
    let script = format!("{} www.lab.example; exit $?", program.display());
    let bare = lab.bare(&["sh", "-c", &script]);
    assert!(bare.code == Some(0) && bare.out.contains("198.19.0.1"), "{bare:?}");
    for via in ["auto", "preload", "seccomp"] {
        let ours = lab.ours_with(&["-q", "--via", via], &["sh", "-c", &script]);
        assert_eq!((ours.code, &ours.out, &ours.err), (bare.code, &bare.out, &bare.err), "{via}");
    }
});

inside!(a_program_that_becomes_another_user_starts_others_without_a_complaint, || {
    let lab = Lab::new();
    let Some(setpriv) = found("setpriv", "util-linux") else { return };
    let words = [setpriv.to_str().unwrap(), "--reuid=65534", "--clear-groups", "sh", "-c", "id -u"];
    let bare = lab.bare(&words);
    if bare.code != Some(0) {
        return println!("skipped: a user namespace has no other user: {}", bare.err);
    }
    // Where systemd puts the private folder of root: the other user cannot pass.
    let private = lab.scratch.path("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    for via in ["auto", "preload"] {
        for place in [&private, &lab.scratch.path("run")] {
            let mut command = lab.command(HEADSTART);
            command.args(["run", "-q", "--via", via, "--"]).args(words).env("XDG_RUNTIME_DIR", place);
            let ours = command.output().unwrap();
            let [out, err] = [&ours.stdout, &ours.stderr].map(|text| String::from_utf8_lossy(text));
            assert_eq!((ours.status.code(), &*out, &*err), (bare.code, &*bare.out, ""), "{via}, {place:?}");
        }
    }
});
