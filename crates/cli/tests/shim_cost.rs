//! The experiment `shim-cost` through the command: two clients, one preloaded, make the same calls. No time is judged.
#![forbid(unsafe_code)]

use std::process::Command;

fn headstart() -> Command {
    Command::new(env!("CARGO_BIN_EXE_headstart"))
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_quick_run_measures_every_call_under_both_arms() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("shim-cost");
    let mut command = headstart();
    command.args(["lab", "run", "shim-cost", "--quick", "--json", "--out"]).arg(&out);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // 7: the machine was too busy for the numbers to be believed, which is no fault of what is tested here.
    assert!(matches!(output.status.code(), Some(0 | 7)), "{:?}: {said}", output.status);
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let rows = result["rows"].as_array().unwrap();
    let compared: Vec<_> = rows.iter().filter(|r| r["arm"] == "headstart" && r["baseline_arm"] == "bare").collect();
    for metric in [
        "connect handed over ready, median",
        "getaddrinfo answered from the cache, median",
        "connect of a UDP socket, median",
        "connect of a Unix socket, median",
        "connect of a TCP socket to an address from no lookup, median",
        "start and end of true(1), median",
    ] {
        let row = compared.iter().find(|r| r["metric"] == metric).unwrap_or_else(|| panic!("{metric}: {said}"));
        assert!(row["ours"].as_f64().unwrap() > 0.0 && row["baseline"].as_f64().unwrap() > 0.0, "{row}");
    }
    // A handshake over the emulated link takes 0.4 ms at least, a cached lookup no packet at all: the bare arm is bare.
    let at_least =
        |metric: &str| compared.iter().find(|r| r["metric"] == metric).unwrap()["baseline"].as_f64().unwrap();
    assert!(at_least("connect handed over ready, median") >= 399.0);
    assert!(at_least("getaddrinfo answered from the cache, median") >= 399.0);
}

#[test]
fn virtual_time_is_refused_by_name() {
    let output = headstart().args(["lab", "run", "shim-cost", "--speed", "sim"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("`shim-cost`") && said.contains("netns or both"), "{said}");
}

#[test]
fn the_client_measures_calls_and_explains_what_is_none() {
    use std::io::Write;
    let mut client = headstart();
    let mut client =
        client.arg("client").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    client.stdin.take().unwrap().write_all(b"bench 4 unix\nbench 4 carrier-pigeon\n").unwrap();
    let output = client.wait_with_output().unwrap();
    let answers: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(answers[0]["call_us"].as_array().unwrap().len(), 4);
    assert!(answers[1]["error"].as_str().unwrap().contains("reach NAME PORT PAUSE_US"), "{}", answers[1]);
    assert!(output.status.success());
}
