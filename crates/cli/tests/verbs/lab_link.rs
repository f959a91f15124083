//! `headstart lab link`: the link of a running shell becomes another, from inside and from outside.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");

/// Connects over the link, changes it, connects again; then waits for the test to change it, and connects once more.
const SCRIPT: &str = r#"
connect() { curl -4 -s -o /dev/null -w '%{time_connect}\n' --resolve v4.lab.example:80:198.19.0.2 http://v4.lab.example/; }
"$HEADSTART_BIN" lab link show
connect
"$HEADSTART_BIN" lab link set delay=150ms
connect
"$HEADSTART_BIN" lab link set medium=wlan:strong; echo "refused $?"
echo "pid $$"
read -r go
connect
"#;

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_link_in_use_becomes_another_from_inside_and_from_outside() {
    let mut lab = Command::new(HEADSTART)
        .args(["lab", "shell", "--link", "rate=100mbit,delay=1ms", "--", "sh", "-c", SCRIPT])
        .env("HEADSTART_BIN", HEADSTART)
        .env_remove("HEADSTART_LAB_BLOCK")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(lab.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut next = || out.next().expect("a line");
    // Nobody has sized the queue: it is 200 ms long, or twice the delay.
    let link = |delay: &str, queue: &str| {
        both(&format!("rate=constant:100mbit,delay=constant:{delay},loss=none,queue=drop-tail:{queue}"))
    };
    assert_eq!(next(), link("1ms", "2500000b"));
    let took = |line: String| line.parse::<f64>().unwrap();
    // However slow the machine is.
    assert!(took(next()) >= 0.002);
    assert_eq!(next(), link("150ms", "3750000b"));
    assert!(took(next()) >= 0.3, "a round trip of 300 ms");
    assert_eq!(next(), "refused 1");
    assert!(next().starts_with("pid "), "the shell has a PID of its own namespace");

    // The shell is the only child of the only child of the lab.
    let child = |pid: u32| -> u32 {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut pid = lab.id();
    let shell = loop {
        pid = child(pid);
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        if environ.windows(19).any(|part| part == b"HEADSTART_LAB_LINK=") {
            break pid.to_string();
        }
    };
    let set = Command::new(HEADSTART).args(["lab", "link", "set", "delay=400ms", "--pid", &shell]).output().unwrap();
    assert!(set.status.success(), "{set:?}");
    writeln!(lab.stdin.take().unwrap(), "go").unwrap();
    assert!(took(next()) >= 0.8, "a round trip of 800 ms");
    let shown = String::from_utf8(set.stdout).unwrap();
    assert_eq!(shown.trim_end(), link("400ms", "10000000b"));
    let ended = lab.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("the medium of a link in use is wire, and stays"), "{said}");
}

/// A link that is the same both ways.
fn both(link: &str) -> String {
    format!("{link};{link}")
}

#[test]
fn outside_a_lab_and_for_a_process_of_none_it_says_what_to_do() {
    let said = |args: &[&str]| {
        let output = Command::new(HEADSTART).args(["lab", "link"]).args(args).env_remove("HEADSTART_LAB_LINK").output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, why) = said(&["show"]);
    assert!(code == Some(1) && why.contains("name one of its processes by --pid"), "{why}");
    let own = std::process::id().to_string();
    let (code, why) = said(&["set", "rate=1mbit", "--pid", &own]);
    assert!(code == Some(1) && why.contains("was not started in a `headstart lab shell`"), "{why}");
    let (code, why) = said(&["set", "rate=x"]);
    assert!(code == Some(2) && why.contains("`x` is not a rate"), "{why}");
}
