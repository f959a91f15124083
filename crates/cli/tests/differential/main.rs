//! A few dozen cases of `cargo xtask differential`, whose programs are in this folder: what an ordinary program sees under `run --measure` and
//! `up --measure` is what it sees bare, but for the named exceptions (`exceptions.toml`). Its namespaces are its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Cases of each kind, a second at most each.
const CASES: &[&str] = &[
    "refused",
    "refused-v6",
    "refused-without-waiting",
    "port-zero",
    "unreachable-at-the-router",
    "prohibited-at-the-router-v6",
    "filtered-as-no-route",
    "filtered-and-told-by-the-error-queue",
    "prohibited-here",
    "black-hole-here-v6",
    "opening-with-too-few-hops",
    "opened-without-waiting",
    "opened-and-seen-by-epoll-and-select",
    "fast-open",
    "itself",
    "mapped",
    "same-port-to-two-peers",
    "from-another-address-and-any-port",
    "from-a-bound-address-for-one-datagram-v6",
    "echo-v6",
    "half-close",
    "peer-closes-first-v6",
    "wait-for-all",
    "low-water",
    "spliced",
    "from-a-file",
    "urgent-down",
    "reset-while-reading",
    "reset-seen-by-poll-v6",
    "reset-after-data",
    "bits-of-the-end",
    "epoll-of-the-end",
    "shut-for-both",
    "resets",
    "closes-with-bytes-unread",
    "end-then-reset",
    "writes-after-the-peer-closed",
    "writes-after-the-peer-closed-v6",
    "killed-program",
    "set-and-read",
    "opening-with-a-mark-for-routers",
    "opening-with-few-hops-v6",
    "datagram-echo-v6",
    "empty-datagrams-are-counted",
    "large-datagrams",
    "refused-datagram",
    "queue-of-a-refused-datagram",
    "errors-of-here",
    "errors-of-here-v6",
    "answers-from-elsewhere",
    "datagrams-from-another-address-and-any-port",
    "cut-off",
    "one-call-many-datagrams",
    "too-large-for-the-route",
    "too-large-for-the-route-v6",
    "probing-past-the-route",
    "narrow-route-v6",
    "ping-that-is-too-large-for-the-route",
    "ping-the-peer-v6",
    "ping-in-fragments",
    "hops-by-datagrams",
    "own-service-on-loopback",
    "service-of-the-host-on-loopback",
    "later-services-for-a-program-that-tries-again",
    "called-on-a-port-that-is-closed",
    "called-from-outside-on-another-address-v6",
    "own-service-on-another-address",
    "datagram-from-outside",
    "datagram-from-outside-v6",
    "datagram-from-outside-to-another-address-that-is-bound",
    "traceroute-by-tcp",
    "unreachable-here-for-pings",
    "names",
    "resolver-asked-over-tcp",
    "by-hand-an-exchange",
    "by-hand-half-a-close",
    "by-hand-a-reset-that-is-next",
    "by-hand-a-reset-within-the-window",
    "by-hand-a-wrong-checksum",
    "by-hand-bytes-after-the-end",
];
const BARE: &str = "bare";
const ARMS: [&str; 2] = ["run-tun", "up"];
/// A machine that is busy may make a case late: what differs is played again.
const TURNS: usize = 3;

/// The named differences: arm and case.
fn exceptions() -> Vec<(String, String)> {
    let table: toml::Table = include_str!("exceptions.toml").parse().unwrap();
    let strings = |value: &toml::Value| match value {
        toml::Value::Array(many) => many.iter().map(|one| one.as_str().unwrap().to_owned()).collect(),
        one => vec![one.as_str().unwrap().to_owned()],
    };
    let mut pairs = Vec::new();
    for exception in table.get("exception").and_then(|all| all.as_array()).into_iter().flatten() {
        for arm in strings(&exception["arms"]) {
            for case in strings(&exception["cases"]) {
                let name = case.trim_end_matches('*');
                pairs.push((arm.clone(), name.to_owned()));
                if name != case {
                    pairs.push((arm.clone(), format!("{name}-v6")));
                }
            }
        }
    }
    pairs
}

/// What each case said under each arm, and what is wrong with arms.
type Said = BTreeMap<(String, String), String>;

fn play(arms: &[&str], cases: &[&str]) -> Said {
    let stage = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/stage.py");
    let mut command = Command::new("python3");
    command.arg(stage).arg(env!("CARGO_BIN_EXE_headstart")).arg(arms.join(",")).args(cases);
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let mut words = line.splitn(3, '\t').map(str::to_owned);
        Some(((words.next()?, words.next()?), words.next()?))
    };
    text.lines().filter_map(line).collect()
}

/// What the test cannot do without; `false`, and a line that says so, if it is not there.
fn can_be_played() -> bool {
    for (program, package) in
        [("python3", "python3"), ("ip", "iproute2"), ("nft", "nftables"), ("unshare", "util-linux")]
    {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        if !folders.into_iter().any(|folder| folder.join(program).is_file()) {
            println!("skipped: {program} is not here (Debian package: {package})");
            return false;
        }
    }
    let words = ["--net", "--mount", "--pid", "--fork", "--map-root-user", "--user"];
    let own = if rustix::process::geteuid().is_root() { &words[..4] } else { &words[..] };
    let made = Command::new("unshare").args(own).arg("true").output().is_ok_and(|output| output.status.success());
    if !made {
        println!("skipped: no network namespaces here");
    }
    made
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_program_sees_what_it_sees_without_us() {
    if !can_be_played() {
        return;
    }
    let named = exceptions();
    let arms = [&[BARE], &ARMS[..]].concat();
    let said = play(&arms, CASES);
    let mut working = Vec::new();
    for arm in ARMS {
        let has_spoken = CASES.iter().any(|case| said.contains_key(&(arm.to_owned(), (*case).to_owned())));
        match said.get(&(arm.to_owned(), "!".to_owned())) {
            Some(why) if !has_spoken => println!("skipped: {arm}: {why}"),
            Some(why) => panic!("{arm}: {why}"),
            None => working.push(arm),
        }
    }
    for arm in working {
        let of = |said: &Said, arm: &str, case: &str| said.get(&(arm.to_owned(), case.to_owned())).cloned();
        let is_named = |case: &str| named.iter().any(|(of, name)| (of.as_str(), name.as_str()) == (arm, case));
        let mut standing: Vec<&str> = CASES.iter().copied().filter(|case| !is_named(case)).collect();
        let mut last = said.clone();
        for turn in 0..TURNS {
            standing.retain(|case| of(&last, BARE, case).is_none() || of(&last, BARE, case) != of(&last, arm, case));
            if standing.is_empty() || turn + 1 == TURNS {
                break;
            }
            last = play(&[BARE, arm], &standing);
        }
        let told = standing.iter().map(|case| (case, of(&last, BARE, case), of(&last, arm, case)));
        assert!(standing.is_empty(), "a program can tell {arm}: {:#?}", told.collect::<Vec<_>>());
    }
}
