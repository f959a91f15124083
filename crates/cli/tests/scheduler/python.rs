//! `headstart.lab` of the Python package, in an environment of its own: a campaign as Arrow tables, results without Arrow.

use super::scene::Campaign;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Prints what the package reads.
const READ: &str = r#"
import json, sys
from headstart import lab
tables = lab.read("campaign")
for name, table in sorted(tables.items()):
    assert type(table).__module__.startswith("pyarrow"), type(table)
rows, samples = tables["rows"].to_pylist(), tables["samples"].to_pylist()
print(json.dumps({
    "rows": rows,
    "samples": [[s["task"], s["condition"], s["metric"], s["arm"], s["trial"], s["value"]] for s in samples],
    "devices": tables["devices"].num_rows,
    "counted": lab.account("campaign")["counted"],
    "results": [[r.task["id"], r.outcome["rows"]] for r in lab.results("results")],
}))
"#;

/// Says what an error the package makes of a damaged result, of no campaign, of a later schema, and of no pyarrow.
const REFUSE: &str = r#"
import glob, json, os, shutil, sys
from headstart import lab
def why(do):
    try:
        do()
    except lab.LabError as error:
        return str(error)
    return "nothing"
said = [why(lambda: lab.read("results")), why(lambda: list(lab.results("nowhere")))]
result = sorted(glob.glob("results/" + "?" * 64))[0]
with open(os.path.join(result, "result.json"), "a") as file:
    file.write(" ")
said.append(why(lambda: list(lab.results("results"))))
lab.SCHEMA = 0
said.append(why(lambda: lab.read("campaign")))
sys.modules["pyarrow.dataset"] = None
said.append(why(lambda: lab.read("campaign")))
print(json.dumps(said))
"#;

/// A Python with pyarrow; says so where pip cannot make one.
fn python(campaign: &Campaign) -> Option<String> {
    let environment = campaign.path("python").to_str().unwrap().to_owned();
    let python = format!("{environment}/bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--prefer-binary", "--disable-pip-version-check", "pyarrow>=14"];
    let steps: [(&str, &[&str]); 2] = [("python3", &["-m", "venv", &environment]), (&python, &install)];
    for (program, words) in steps {
        let done = Command::new(program).args(words).output();
        if !done.as_ref().is_ok_and(|output| output.status.success()) {
            let why = done.map_or_else(|why| why.to_string(), |o| String::from_utf8_lossy(&o.stderr).into_owned());
            println!("skipped: pip cannot install pyarrow: {}", why.lines().last().unwrap_or_default());
            return None;
        }
    }
    Some(python)
}

/// Runs `script` with the package's own files: `cargo xtask python` tries them as a wheel.
fn ask(campaign: &Campaign, python: &str, script: &str) -> Value {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let output = campaign.command(python, &["-Bc", script]).env("PYTHONPATH", package).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_campaign_is_read_by_python_as_it_was_measured() {
    let campaign = Campaign::new();
    let Some(python) = python(&campaign) else { return };
    assert!(campaign.lab(&["work", "--plan", "plan.jsonl", "--out", "results"]).status.success());
    assert!(campaign.lab(&["collect", "--plan", "plan.jsonl", "results", "--out", "campaign"]).status.success());
    let read = ask(&campaign, &python, READ);
    let tasks = campaign.tasks as u64;
    assert_eq!((read["devices"].as_u64(), read["counted"].as_u64()), (Some(tasks), Some(tasks)));

    let lines = |name: &str| read[name].as_array().unwrap().clone();
    assert_eq!(lines("results").len(), campaign.tasks);
    let (mut rows, mut trials) = (0, 0);
    for result in lines("results") {
        let outcome = fs::read(campaign.path("results").join(result[0].as_str().unwrap()).join("result.json")).unwrap();
        let outcome: Value = serde_json::from_slice(&outcome).unwrap();
        assert_eq!(result[1], outcome["rows"]);
        for row in outcome["rows"].as_array().unwrap() {
            rows += 1;
            let same = |line: &&Value| {
                line["task"] == result[0]
                    && ["condition", "metric", "arm", "baseline_arm", "unit"]
                        .iter()
                        .all(|name| line[*name] == row[*name])
            };
            let line = lines("rows").iter().find(same).cloned().unwrap_or_else(|| panic!("{row} is not in the table"));
            assert_eq!((&line["ours"], &line["ratio"]), (&row["ours"], &row["ratio"]), "{line}");
            assert_eq!((&line["experiment"], &line["valid"]), (&"connect-model".into(), &true.into()));
        }
        for series in outcome["samples"].as_array().unwrap() {
            trials += series["values"].as_array().unwrap().len();
        }
    }
    assert_eq!((lines("rows").len(), lines("samples").len()), (rows, trials));
    assert!(lines("samples").iter().all(|sample| sample[5].is_f64()));

    let said = ask(&campaign, &python, REFUSE);
    for (n, wanted) in ["is not a campaign", "is not a folder of results", "is damaged", "of schema 1", "pip install"]
        .iter()
        .enumerate()
    {
        assert!(said[n].as_str().unwrap().contains(wanted), "{wanted}: {said}");
    }
}
