//! The programs of the lab's experiment `interposition`, one by one, under each front end: what they fetch over HTTPS and
//! SSH, and what they send, is byte for byte what it is without headstart. And the experiment itself, through the command.

use crate::lab::{HEADSTART, inside};
use headstart_lab::experiment::interposition::{FRONT_ENDS, LINK, Scene};
use headstart_lab::netns::{Network, default_world};
use headstart_lab::program::{self, Folder};
use headstart_lab::server::suite::Suite;
use std::path::Path;
use std::process::Command;

/// Front ends that are known to reach a program: no less is accepted.
const ALL: &[&str] = &["preload", "seccomp", "auto"];
/// Programs that the preloaded library does not reach, or whose lookups it leaves to the C library.
const BY_CALLS: &[&str] = &["seccomp", "auto"];

/// Compares a program's content under each front end with what it is bare.
fn is_left_as_it_is(name: &str, covered_by: &[&str]) {
    let folder = Folder::new().unwrap();
    let headstart = Path::new(HEADSTART);
    let entry = program::find_entry(name).unwrap();
    let program = match program::prepare(name, headstart, &folder) {
        Ok(Some(program)) => program,
        Ok(None) => return println!("skipped: {}", entry.origin.missing()),
        Err(e) => return println!("skipped: {name} cannot be made ready: {e:#}"),
    };
    let network = Network::build(&default_world(LINK)).unwrap_or_else(|e| panic!("{e}"));
    let suite = Suite::start(&network, &folder).unwrap_or_else(|e| panic!("{e:#}"));
    let scene = Scene { network: &network, suite: &suite, headstart, folder: &folder };
    let compared = match scene.compare(&program, FRONT_ENDS).unwrap_or_else(|e| panic!("{e:#}")) {
        Ok(compared) => compared,
        Err(why) => return println!("skipped: {why}"),
    };
    assert_eq!(compared.len(), FRONT_ENDS.len());
    for (front_end, compared) in compared {
        assert_eq!(compared.differences, [""; 0], "{name} under {front_end}");
        assert!(compared.covered || !covered_by.contains(&front_end), "{name} under {front_end}: {compared:?}");
    }
}

macro_rules! left_as_it_is {
    ($($test:ident: $name:literal, $covered_by:expr;)+) => {
        $(inside!($test, || is_left_as_it_is($name, $covered_by));)+
    };
}

left_as_it_is! {
    curl: "curl", ALL;
    wget: "wget", ALL;
    python_urllib: "python", ALL;
    python_requests: "requests", ALL;
    python_aiohttp: "aiohttp", ALL;
    python_asyncio: "asyncio", ALL;
    node_fetch: "node", ALL;
    node_with_its_own_resolver: "node-resolve", BY_CALLS;
    java: "java", BY_CALLS;
    static_go: "go", BY_CALLS;
    git_over_https: "git", ALL;
    git_over_ssh: "git-ssh", BY_CALLS;
    nginx_that_looks_up_when_it_starts: "nginx", ALL;
    nginx_with_its_own_resolver: "nginx-resolver", BY_CALLS;
    chromium: "chromium", BY_CALLS;
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn the_experiment_has_a_row_for_each_front_end_and_the_price_of_a_connect() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interposition");
    let mut command = Command::new(HEADSTART);
    command.args(["lab", "run", "interposition", "--quick", "--json", "--condition", "python"]);
    let output = command.args(["--condition", "connect-cost", "--out"]).arg(&out).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // 7: the machine was too busy for the numbers to be believed, which is no fault of what is tested here.
    assert!(matches!(output.status.code(), Some(0 | 7)), "{:?}: {said}", output.status);
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let rows = result["rows"].as_array().unwrap();
    let value = |condition: &str, arm: &str, metric: &str| {
        let is =
            |row: &&serde_json::Value| row["condition"] == condition && row["arm"] == arm && row["metric"] == metric;
        rows.iter().find(is).and_then(|row| row["ours"].as_f64())
    };
    for front_end in FRONT_ENDS {
        let cost = value("connect-cost", front_end, "connect without a hand-over, median");
        assert!(cost.is_some_and(|us| us > 0.0), "{front_end}: {text}");
    }
    if value("python", "any", "covered by at least one").is_none() {
        return println!("skipped: python3 is not on this machine (Debian package: python3)");
    }
    for front_end in FRONT_ENDS {
        assert_eq!(value("python", front_end, "content byte-identical"), Some(1.0), "{text}");
        assert!(value("python", front_end, "covered").is_some(), "{text}");
    }
}
