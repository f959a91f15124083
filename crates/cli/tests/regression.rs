//! The virtual-time campaign of the last release (`regression/`), played again by this build: nothing may be worse, and nothing missing.
//!
//! Tasks and seeds are the same, so that trials are compared in pairs, and a build that changes nothing gives the same bits. What is worse on
//! purpose is renewed with the commit that makes it so, which says why; a release renews all of it (CONTRIBUTING.md):
//! `HEADSTART_REGRESSION=renew cargo test -p headstart --test regression`.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

#[path = "verbs/schema.rs"]
mod schema;

const LAB: &str = env!("CARGO_BIN_EXE_headstart-lab");
/// The campaign, and what it came to: `campaign.toml`, `pooled/EXPERIMENT/result.json`, and the version that it is of.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/regression");
/// Percent by which a row may be worse.
const TOLERANCE: &str = "1";
/// What a time without an interval may be at most, of what it was: of few trials, chance has more of a part.
const WITHOUT_INTERVAL: f64 = 1.1;

/// The campaign by this build, collected.
static PLAYED: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let plan = lab(folder.path(), &["plan", &format!("{KEPT}/campaign.toml")]);
    fs::write(folder.path().join("plan.jsonl"), &plan.stdout).unwrap();
    lab(folder.path(), &["work", "--plan", "plan.jsonl", "--out", "results"]);
    lab(folder.path(), &["collect", "--plan", "plan.jsonl", "results", "--out", "campaign"]);
    folder
});

fn lab(folder: &Path, words: &[&str]) -> Output {
    let output = run(folder, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    output
}

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(LAB);
    // This very test may run under a scheduler.
    for name in ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "PARALLEL_SEQ"] {
        command.env_remove(name);
    }
    command.args(words).current_dir(folder).output().unwrap()
}

/// The results of a campaign, by experiment.
fn pooled(campaign: &Path) -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(campaign.join("pooled")).unwrap().flatten();
    folders.map(|folder| (folder.file_name().into_string().unwrap(), folder.path().join("result.json"))).collect()
}

/// What a result says, but for the machine and the time.
fn bare(file: &Path) -> Value {
    let mut outcome: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    outcome["device"] = Value::Null;
    outcome["extent"]["seconds"] = 0.into();
    outcome
}

/// Rows of times without an interval that are longer than before by more than [`WITHOUT_INTERVAL`].
fn longer(comparison: &Value) -> Vec<&Value> {
    let rows = comparison["changes"].as_array().unwrap().iter();
    let is_longer = |row: &&Value| is_time(row) && row["ratio"].as_f64().is_some_and(|ratio| ratio > WITHOUT_INTERVAL);
    rows.filter(|row| row["interval"].is_null()).filter(is_longer).collect()
}

fn is_time(of: &Value) -> bool {
    ["us", "µs", "ms", "s"].iter().any(|unit| of["unit"] == *unit)
}

/// What `lab compare` says of `before` and this build, in words too.
fn compared(before: &str) -> (Option<i32>, Value, String) {
    let words = ["compare", "--tolerance", TOLERANCE, before, "campaign"];
    let output = run(PLAYED.path(), &[&words[..], &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    schema::must_hold("lab-compare", &text);
    let shown = String::from_utf8(run(PLAYED.path(), &words).stdout).unwrap();
    (output.status.code(), serde_json::from_str(&text).unwrap(), shown)
}

#[test]
fn nothing_is_worse_than_in_the_last_release() {
    let campaign = PLAYED.path().join("campaign");
    if std::env::var("HEADSTART_REGRESSION").is_ok_and(|word| word == "renew") {
        let _ = fs::remove_dir_all(Path::new(KEPT).join("pooled"));
        for (experiment, file) in pooled(&campaign) {
            let folder = Path::new(KEPT).join("pooled").join(experiment);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("result.json"), format!("{}\n", bare(&file))).unwrap();
        }
        fs::write(Path::new(KEPT).join("version"), concat!(env!("CARGO_PKG_VERSION"), "\n")).unwrap();
    }
    let (code, comparison, shown) = compared(KEPT);
    println!("{shown}");
    let version = fs::read_to_string(format!("{KEPT}/version")).unwrap();
    assert_eq!(code, Some(0), "worse than version {version}");
    assert_eq!(comparison["only_before"], Value::Array(Vec::new()));
    assert!(longer(&comparison).is_empty(), "longer than in version {version}: {:#?}", longer(&comparison));
}

#[test]
fn a_release_that_was_faster_is_a_failure_that_names_the_row() {
    let before = tempfile::tempdir().unwrap();
    let mut made = 0;
    for (experiment, file) in pooled(&PLAYED.path().join("campaign")) {
        let mut outcome = bare(&file);
        for series in outcome["samples"].as_array_mut().unwrap().iter_mut().filter(|series| is_time(series)) {
            made += 1;
            for value in series["values"].as_array_mut().unwrap() {
                *value = value.as_f64().map_or(Value::Null, |value| (value / 1.05).into());
            }
        }
        let folder = before.path().join("pooled").join(experiment);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("result.json"), outcome.to_string()).unwrap();
    }
    assert!(made > 0);
    let (code, comparison, shown) = compared(before.path().to_str().unwrap());
    let worst = &comparison["changes"][0];
    assert!(code == Some(1) && shown.contains("worse"), "{shown}");
    assert!(worst["judged"] == "worse" && (worst["ratio"].as_f64().unwrap() - 1.05).abs() < 1e-9, "{worst}");
    let row = |unit: &str, ratio: f64| serde_json::json!({ "unit": unit, "ratio": ratio, "interval": null });
    let rows = serde_json::json!({ "changes": [row("ms", 1.2), row("ms", 1.05), row("bytes", 1.2)] });
    assert_eq!(longer(&rows), [&rows["changes"][0]], "of rows without an interval");
}
