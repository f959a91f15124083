//! `lab shell`, and that nothing of a lab survives its end.
//!
//! These tests stay outside and look at processes that go inside: this program again, as other "tests" of its own, which
//! do nothing unless the environment asks for it.
#![forbid(unsafe_code)]

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_lab::netns::{Entered, InnerCommand, Network, default_world, shell};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::{Command, Stdio};

mod processes;

const LINK: &str = "HEADSTART_TEST_LINK";
const PROGRAM: &str = "HEADSTART_TEST_PROGRAM";
const SCRIPT: &str = "HEADSTART_TEST_SCRIPT";
const VICTIM: &str = "HEADSTART_TEST_VICTIM";

/// Words that make this program run one test.
fn alone(test: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let flags = ["--exact", "--include-ignored", "--nocapture", "--test-threads=1"];
    [program, test.to_owned()].into_iter().chain(flags.map(str::to_owned)).collect()
}

fn this_program(test: &str) -> Command {
    let words = alone(test);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Words as one line for `sh`.
fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ")
}

/// A line for `sh` that runs `script` in a shell behind `link`.
fn inner(link: &str, script: &str) -> String {
    let settings = ["env".to_owned(), format!("{LINK}={link}"), format!("{SCRIPT}={script}")];
    quoted(&settings.into_iter().chain(alone("program_shell")).collect::<Vec<_>>())
}

/// Not a test of its own: `lab shell`, with link and command from the environment.
#[test]
#[ignore = "started by the tests of the shell"]
fn program_shell() {
    let Ok(link) = std::env::var(LINK) else { return };
    let command = match (std::env::var_os(SCRIPT), std::env::var_os(PROGRAM)) {
        (Some(script), _) => vec!["sh".into(), "-c".into(), script],
        (None, program) => program.into_iter().collect(),
    };
    std::process::exit(shell(&link, &command).unwrap_or_else(|e| panic!("{e}")));
}

/// Not a test of its own: connects to `www.lab.example` over both families and prints the microseconds that each took.
#[test]
#[ignore = "started by a_shell_in_a_shell_adds_its_delay"]
fn program_connect() {
    if std::env::var_os(LINK).is_none() {
        return;
    }
    for address in "www.lab.example:80".to_socket_addrs().unwrap() {
        let clock = Clock::new();
        let mut stream = TcpStream::connect(address).unwrap();
        let took = clock.now().as_nanos() / 1000;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: www.lab.example\r\nConnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        println!("\ntook {took}\n{page}");
    }
}

/// Not a test of its own: a lab that others kill.
#[test]
#[ignore = "started by kill_minus_nine_leaves_nothing"]
fn program_victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    match InnerCommand::this_command().enter().unwrap_or_else(|e| panic!("{e}")) {
        Entered::Ended(status) => std::process::exit(status),
        Entered::Inside => {}
    }
    let network = Network::build(&default_world("lan")).unwrap();
    let mut sleeper = network.command("sleep").unwrap().arg("1000").spawn().unwrap();
    println!("\nvictim is ready");
    sleeper.wait().unwrap();
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn kill_minus_nine_leaves_nothing() {
    const PATIENCE: Instant = Instant::from_millis(60_000);
    // Among processes of its own: the kernel gives numbers of namespaces again, and other tests make many.
    let words = alone("kill_minus_nine_leaves_nothing");
    match InnerCommand::with_arguments(&words[1..]).enter().unwrap_or_else(|e| panic!("{e}")) {
        Entered::Ended(status) => return assert_eq!(status, 0, "failed inside its namespaces; see above"),
        Entered::Inside => {}
    }
    // By generation: the caller, the init, the lab.
    for generation in 0..3 {
        let mut outer = this_program("program_victim").env(VICTIM, "1").spawn().unwrap();
        let lines = BufReader::new(outer.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "victim is ready"));
        let family = processes::family(outer.id());
        assert_eq!(family.len(), 4, "caller, init, lab, sleep: {family:?}");
        let namespaces = processes::network_namespaces(&family);
        assert!(namespaces.len() >= 3, "lab, client, servers: {namespaces:?}");
        processes::kill(family[generation].pid);
        let clock = Clock::new();
        while family.iter().any(processes::alive) && clock.now() < PATIENCE {
            // Reaps the caller, once it has ended.
            let _ = outer.try_wait();
            clock.sleep(Duration::from_millis(10));
        }
        assert!(!family.iter().any(processes::alive), "after the end of {generation}: {family:?}");
        let left = processes::all_network_namespaces();
        assert!(namespaces.iter().all(|ns| !left.contains(ns)), "{namespaces:?} of {left:?}");
        outer.wait().unwrap();
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn the_shell_ends_as_its_command_ends() {
    let end = |variable: &str, value: &str| {
        let output = this_program("program_shell").env(LINK, "lan").env(variable, value).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (variable, value, status) in [
        (SCRIPT, "exit 0", 0),
        (SCRIPT, "exit 7", 7),
        (SCRIPT, "kill -KILL $$", 128 + 9),
        (PROGRAM, "no-such-command-anywhere", 127),
        (PROGRAM, "/dev/null", 126),
    ] {
        let (code, errors) = end(variable, value);
        assert_eq!(code, Some(status), "{value}: {errors}");
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_signal_sent_to_the_shell_reaches_its_command() {
    let script = "trap 'exit 42' TERM; echo; echo trap is set; while :; do sleep 0.05; done";
    let mut outer = this_program("program_shell").env(LINK, "lan").env(SCRIPT, script).spawn().unwrap();
    let lines = BufReader::new(outer.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "trap is set"));
    processes::terminate(outer.id());
    assert_eq!(outer.wait().unwrap().code(), Some(42));
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_shell_in_a_shell_adds_its_delay() {
    // Two shells side by side in the second.
    let third = inner("delay=10ms", &quoted(&alone("program_connect")));
    let second = inner("delay=20ms", &format!("{third} & one=$!; {third} && wait $one"));
    let output = this_program("program_shell").env(LINK, "delay=15ms").env(SCRIPT, second).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // Not by lines: several programs write to one pipe, and a test harness leaves its last line open for a while.
    let times: Vec<u64> = text.split("took ").skip(1).filter_map(|rest| rest.lines().next()?.parse().ok()).collect();
    assert_eq!(times.len(), 4, "two shells, two families: {text}");
    assert!(times.iter().all(|us| *us >= 2 * (15 + 20 + 10) * 1000), "{times:?}");
    assert!(text.contains("family: IPv6") && text.contains("family: IPv4"), "{text}");
}
