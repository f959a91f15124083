//! `headstart lab run connect-law` as a user starts it: how many SYNs leave a host whose addresses all refuse, and that programs are
//! heard where nothing is broken. Numbers and outcomes alone: how long anything takes is the machine's affair.

use serde_json::Value;
use std::process::Command;

/// The rows of a quick run over some conditions.
fn rows(conditions: &[&str]) -> Vec<Value> {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("connect-law-{}", conditions[0]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_headstart"));
    command.args(["lab", "run", "connect-law", "--quick", "--json", "--speed", "netns", "--out"]).arg(&out);
    command.args(conditions.iter().flat_map(|condition| ["--condition", condition]));
    let output = command.output().unwrap();
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // 7: the machine was too busy for the times to be believed, which are not looked at.
    assert!(matches!(output.status.code(), Some(0 | 7)), "{:?}: {said}", output.status);
    let result: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    result["rows"].as_array().unwrap().clone()
}

/// Of one condition: program, arm, and the values of headstart and of the program alone.
fn of<'a>(rows: &'a [Value], condition: &str, metric: &str) -> Vec<(&'a str, &'a str, f64, Option<f64>)> {
    let of = |row: &'a Value| {
        let program = row["metric"].as_str()?.strip_suffix(metric)?.strip_suffix(": ")?;
        Some((program, row["arm"].as_str()?, row["ours"].as_f64()?, row["baseline"].as_f64()))
    };
    rows.iter().filter(|row| row["condition"] == condition).filter_map(of).collect()
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn where_all_refuse_there_are_the_programs_own_syns_and_one_an_address() {
    let counts = [("refused-1", 2.0), ("refused-4", 8.0), ("refused-8", 16.0), ("refused-30", 60.0)];
    let rows = rows(&counts.map(|(condition, _)| condition));
    for (condition, addresses) in counts {
        let syns = of(&rows, condition, "SYNs");
        if syns.is_empty() {
            return println!(
                "skipped: none of curl, wget, python3, go, node and socat is on the PATH (Debian package: curl)"
            );
        }
        assert_eq!(syns.len() % 3, 0, "{condition}: by three front ends: {syns:?}");
        for (program, arm, ours, bare) in syns {
            let bare = bare.unwrap();
            println!("{condition}: {program} by {arm}: {ours} SYNs, {bare} alone");
            assert!(bare >= 1.0 && ours <= bare + addresses, "{condition}, {program} by {arm}: {ours}, {bare} alone");
        }
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn every_program_is_heard_where_nothing_is_broken() {
    let rows = rows(&["healthy"]);
    let heard = of(&rows, "healthy", "until it sends something");
    let all = of(&rows, "healthy", "SYNs");
    if all.is_empty() {
        return println!(
            "skipped: none of curl, wget, python3, go, node and socat is on the PATH (Debian package: curl)"
        );
    }
    for (program, arm, ..) in all {
        let found = heard.iter().any(|(p, a, _, bare)| (*p, *a) == (program, arm) && bare.is_some());
        assert!(found, "{program} by {arm}: {heard:?}");
    }
}
