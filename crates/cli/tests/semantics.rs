//! `headstart lab run measure-semantics` as a user starts it: no check tells our forwarder from none.

use std::process::Command;

/// Checks of each kind; all of them where [`ALL`] is set (`cargo xtask harden`).
const SOME: [&str; 7] =
    ["refused", "mss-v6", "half-close", "reset-by-peer", "dscp-ecn-udp", "udp-fragments", "udp-trains"];
/// The variable that asks for every check: minutes, on a slow machine.
const ALL: &str = "HEADSTART_EVERY_CHECK";

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_program_cannot_tell_our_forwarder_from_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_headstart"));
    command.args(["lab", "run", "measure-semantics", "--quick", "--json", "--out"]).arg(folder.path());
    let all = std::env::var_os(ALL).is_some();
    if !all {
        command.args(SOME.iter().flat_map(|check| ["--condition", check]));
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // Whether the machine kept the emulated link's time is no matter here: no check is about time.
    let object: serde_json::Value = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(|| panic!("no result: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let rows: Vec<_> = object["rows"].as_array().unwrap().iter().filter(|row| row["arm"] == "ours").collect();
    assert!(if all { rows.len() > 20 } else { rows.len() == SOME.len() }, "{object}");
    let told: Vec<_> = rows.iter().filter(|row| row["ours"] != 1.0).map(|row| &row["condition"]).collect();
    assert!(told.is_empty(), "a program can tell: {told:?}");
}
