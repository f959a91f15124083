//! `headstart lab run connect-overhead` in namespaces, as somebody starts it who has switched headstart off for a shell.

use std::process::Command;

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn headstart_is_in_its_arms_whatever_the_callers_environment_says() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("connect-overhead");
    let mut command = Command::new(env!("CARGO_BIN_EXE_headstart"));
    command.args(["lab", "run", "connect-overhead", "--quick", "--json", "--speed", "netns"]);
    command.args(["--condition", "aaaa-lost-cold", "--out"]).arg(&out).env("HEADSTART", "off");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // 7: the machine was too busy for the numbers to be believed, which is no fault of what is tested here.
    assert!(matches!(output.status.code(), Some(0 | 7)), "{:?}: {said}", output.status);
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let is = |row: &&serde_json::Value| {
        row["condition"] == "aaaa-lost-cold-netns"
            && row["metric"] == "connectivity overhead, median"
            && (&row["arm"], &row["baseline_arm"]) == (&"adaptive".into(), &"bare".into())
    };
    let row = result["rows"].as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no such row: {text}"));
    let (ours, bare) = (row["ours"].as_f64().unwrap(), row["baseline"].as_f64().unwrap());
    // Alone it waits for the lost answer, 15 s; so would every arm that runs bare.
    assert!(bare >= 14_000.0 && ours < bare / 2.0, "{row}");
}
