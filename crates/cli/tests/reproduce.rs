//! `headstart lab reproduce` as a user starts it: goes on where it was, writes the ledger, refuses what it cannot do.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[path = "verbs/schema.rs"]
mod schema;

const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");

fn reproduce(out: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(HEADSTART);
    command.args(["lab", "reproduce", "--quick", "--speed", "sim", "--only", "P1.10", "--out"]).arg(out);
    command.args(words).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_has_a_result_is_not_run_again_and_the_ledger_names_every_claim() {
    let folder = tempfile::tempdir().unwrap();
    let first = reproduce(folder.path(), &[]);
    assert!(first.status.success() && err(&first).contains("1/1 connect-model\n"), "{first:?}");
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(text.contains("P1.10") && text.contains("not measured"), "{text}");

    let second = reproduce(folder.path(), &["--json"]);
    assert!(second.status.success() && err(&second).contains("1/1 connect-model: already measured"), "{second:?}");
    assert!(err(&second).contains("experiments: 1, to run: 0\n"), "{second:?}");
    schema::must_hold("lab-reproduce", std::str::from_utf8(&second.stdout).unwrap());
    let object: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    let claims = object["claims"].as_array().unwrap();
    let of = |id: &str| claims.iter().find(|claim| claim["id"] == id).unwrap();
    assert!(of("P1.10")["verdict"].is_string() && !of("P1.10")["rows"].as_array().unwrap().is_empty(), "{object}");
    assert!(of("P1.1")["verdict"].is_null(), "it was not asked for");

    let other = reproduce(folder.path(), &["--seed", "2"]);
    assert!(err(&other).contains("1/1 connect-model\n"), "another seed is another result: {other:?}");
    assert!(err(&other).contains("experiments: 1, to run: 1, about 1 min, as last time\n"), "{other:?}");
    let page = fs::read_to_string(folder.path().join("claims.md")).unwrap();
    assert!(page.contains("### P1.10 (paper 1") && page.contains("seed 2"), "{page}");
    assert!(page.contains(" Quick, in virtual time: `connect-model`."), "{page}");
    assert!(page.contains("`headstart lab run connect-model --quick --speed sim`, 2"), "{page}");
}

#[test]
fn a_result_of_another_commit_is_named_with_its_own() {
    let folder = tempfile::tempdir().unwrap();
    assert!(reproduce(folder.path(), &[]).status.success());
    let result = fs::read_to_string(folder.path().join("connect-model/result.json")).unwrap();
    let mut older: serde_json::Value = serde_json::from_str(&result).unwrap();
    older["experiment"] = "app-session".into();
    older["device"]["commit"] = "0123456789abcdef".into();
    fs::create_dir(folder.path().join("app-session")).unwrap();
    fs::write(folder.path().join("app-session/result.json"), older.to_string()).unwrap();
    assert!(reproduce(folder.path(), &[]).status.success());
    let page = fs::read_to_string(folder.path().join("claims.md")).unwrap();
    assert!(page.contains("Of commit 0123456789ab: `app-session`."), "{page}");
}

#[test]
fn results_of_another_program_are_judged_anew_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let none = reproduce(folder.path(), &["--judge"]);
    assert!(none.status.success() && !folder.path().join("connect-model").exists(), "{none:?}");
    assert!(reproduce(folder.path(), &[]).status.success());
    // As if another program had been asked for something else, and two rows of a headline had come out like this.
    fs::write(folder.path().join("connect-model/asked.json"), "{}").unwrap();
    let result = folder.path().join("connect-model/result.json");
    let before = fs::read_to_string(&result).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&before).unwrap();
    other["experiment"] = "connect-overhead".into();
    let row = |arm: &str, ours: f64| {
        serde_json::json!({
            "claim": null, "condition": "paper1-lte-cold", "metric": "connectivity overhead, median", "unit": "ms", "arm": arm,
            "baseline_arm": "sequential", "ours": ours, "baseline": 120.0, "ratio": ours / 120.0,
            "interval": [ours / 120.0, ours / 120.0], "paper": null,
        })
    };
    other["rows"] = serde_json::json!([row("simultaneous", 66.0), row("adaptive", 60.0), row("oracle", 54.0)]);
    fs::create_dir(folder.path().join("connect-overhead")).unwrap();
    fs::write(folder.path().join("connect-overhead/result.json"), other.to_string()).unwrap();

    let judged = reproduce(folder.path(), &["--judge"]);
    assert!(judged.status.success() && !err(&judged).contains("connect-model"), "nothing is run: {judged:?}");
    assert_eq!(fs::read_to_string(&result).unwrap(), before);
    let page = fs::read_to_string(folder.path().join("claims.md")).unwrap();
    let line = page.lines().find(|line| line.contains("(P1.3: paper1-lte-cold)")).unwrap();
    for part in ["sequential 120 ms", "| 0.69 |", "simultaneous 66.0 ms, 0.55", "adaptive 60.0 ms, 0.50", "| better |"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(page.contains("### P1.10 (paper 1") && page.contains("Quick, in virtual time: `connect-"), "{page}");
}

#[test]
fn a_checkout_gets_the_ledger_and_another_folder_is_left_alone() {
    let (folder, checkout) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let docs = checkout.path().to_str().unwrap();
    let refused = reproduce(folder.path(), &["--docs", docs]);
    assert!(!refused.status.success() && err(&refused).contains("is not a checkout of headstart"), "{refused:?}");
    assert!(!checkout.path().join("docs").exists());

    fs::create_dir(checkout.path().join("docs")).unwrap();
    fs::write(checkout.path().join("docs/claims.toml"), "").unwrap();
    fs::write(checkout.path().join("docs/results"), "a file").unwrap();
    let refused = reproduce(folder.path(), &["--docs", docs]);
    assert!(!refused.status.success() && err(&refused).contains("docs/results: "), "{refused:?}");
    assert!(!folder.path().join("connect-model").exists(), "the verdicts could not be written: nothing is measured");
    fs::remove_file(checkout.path().join("docs/results")).unwrap();
    let written = reproduce(folder.path(), &["--docs", docs]);
    assert!(written.status.success(), "{written:?}");
    let page = fs::read_to_string(checkout.path().join("docs/results/claims.md")).unwrap();
    assert!(page.contains("| P1.10 |"), "{page}");
    assert!(checkout.path().join("docs/results/verdicts.toml").exists());
}

#[test]
fn who_ends_it_ends_the_experiment_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(HEADSTART);
    command.args(["lab", "reproduce", "--speed", "sim", "--only", "page-load", "--out"]).arg(folder.path());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "experiments: 1, to run: 1");
    assert_eq!(said.next().unwrap().unwrap(), "1/1 page-load");
    let children = || fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let experiment = loop {
        // The whole experiment takes minutes: it does not end before it is found.
        if let Some(pid) = children().split_whitespace().next() {
            break pid.to_owned();
        }
    };
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(said.any(|line| line.unwrap().contains("interrupted; run the same command again")));
    assert!(!Path::new("/proc").join(&experiment).exists(), "{experiment} goes on");
}

#[test]
fn what_nothing_measures_is_refused_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let output = reproduce(folder.path(), &["--only", "P9.9"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(err(&output).contains("`P9.9`") && err(&output).contains("connect-overhead (P1.1"), "{output:?}");
}
