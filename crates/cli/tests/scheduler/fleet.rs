//! `lab fleet`: a fleet that never was, and what DuckDB says of it, compared with the events themselves.

use crate::schema::must_hold;

use super::scene::{LAB, python_with};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn lab(folder: &Path, python: &str, words: &[&str]) -> Output {
    Command::new(LAB).arg("fleet").args(words).current_dir(folder).env("HEADSTART_PYTHON", python).output().unwrap()
}

/// Every event of the fleet.
fn events(folder: &Path) -> Vec<Value> {
    let files =
        fs::read_dir(folder.join("fleet")).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    files.flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>()).collect()
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Whether two answers are the same but for the order in which sums were added up.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| alike(value, other)))
        }
        (Value::Number(a), Value::Number(b)) => {
            let [a, b] = [a, b].map(|number| number.as_f64().unwrap());
            (a - b).abs() <= 1e-9 * a.abs().max(1.0)
        }
        _ => one == other,
    }
}

#[test]
fn the_report_of_a_fleet_says_what_its_events_say_and_nothing_twice() {
    let Some(python) = python_with("duckdb") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = lab(folder, &python, &["simulate", "--hosts", "200", "--days", "5", "--seed", "7", "--out", "fleet"]);
    assert!(made.status.success(), "{made:?}");
    let all = events(folder);
    // A batch that was delivered twice, and a line that was cut off.
    let file = fs::read_dir(folder.join("fleet")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(folder.join("fleet/again.jsonl"), format!("{text}{{\"version\":1,\"kind\":\"flo\n")).unwrap();

    let report = lab(folder, &python, &["report", "--json", "fleet"]);
    assert!(report.status.success(), "{report:?}");
    must_hold("lab-fleet-report", std::str::from_utf8(&report.stdout).unwrap());
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let account = &report["account"][0];
    let hosts: BTreeSet<&str> = all.iter().map(|event| event["host"].as_str().unwrap()).collect();
    assert_eq!(
        (account["hosts"].as_u64(), account["events"].as_u64()),
        (Some(200), Some(all.len() as u64)),
        "{account}"
    );
    assert_eq!((hosts.len(), &account["twice"]), (200, &(text.lines().count().into())), "{account}");
    assert_eq!((&account["damaged_lines"], &account["first_day"]), (&1.into(), &"2026-11-01".into()));

    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for flow in all.iter().filter(|event| event["kind"] == "flow") {
        let of =
            times.entry(format!("{} IPv{} {} {}", flow["label"], flow["family"], flow["app"], flow["accelerated"]));
        of.or_default().extend(flow["connect_ms"].as_f64());
    }
    let lines = report["connect"].as_array().unwrap();
    assert_eq!(lines.len(), times.len());
    for line in lines {
        let family = line["family"].as_str().unwrap();
        let mine = &times[&format!("{} {family} {} {}", line["label"], line["app"], line["accelerated"])];
        match line["median_ms"].as_f64() {
            Some(median) => assert!((median - middle(mine.clone())).abs() < 1e-6, "{line}"),
            None => assert!(mine.is_empty(), "{line}"),
        }
    }
    let of = |part: &str, label: &str| {
        let lines = report[part].as_array().unwrap().iter();
        lines.clone().find(|line| line["label"] == label).cloned().unwrap_or_else(|| panic!("{part}: no {label}"))
    };
    assert_eq!(
        [&of("ipv6", "hotel")["verdict"], &of("ipv6", "detour")["verdict"]],
        [&Value::from("fails"), &"slower".into()]
    );
    assert_eq!(of("ipv6", "fibre")["verdict"], "well");
    assert!(of("saved", "hotel")["saved_ms"].as_f64().unwrap() > 1000.0, "{report}");

    // Packed by days, with the batch that came twice: the same report, but that nothing is double or damaged any more.
    let packed = lab(folder, &python, &["pack", "--json", "--delete", "fleet", "--to", "packed"]);
    assert!(packed.status.success(), "{packed:?}");
    must_hold("lab-fleet-pack", std::str::from_utf8(&packed.stdout).unwrap());
    let days = fs::read_dir(folder.join("packed")).unwrap().count();
    assert!((5..=6).contains(&days), "a session may end after midnight: {days}");
    // A batch that came after that is read beside the days.
    fs::rename(folder.join("fleet"), folder.join("empty")).unwrap();
    fs::write(folder.join("packed/late-1.jsonl"), text.lines().next().unwrap()).unwrap();
    let after = lab(folder, &python, &["report", "--json", "packed"]);
    assert!(after.status.success(), "{after:?}");
    let after: Value = serde_json::from_slice(&after.stdout).unwrap();
    for part in ["connect", "lookups", "ipv6", "saved"] {
        assert!(alike(&after[part], &report[part]), "{part}: {} {}", after[part], report[part]);
    }
    let counts = ["hosts", "events", "twice", "damaged_lines"].map(|name| &after["account"][0][name]);
    assert_eq!(counts, [&200.into(), &account["events"], &1.into(), &0.into()]);

    let words = lab(folder, &python, &["report", "packed"]);
    let text = String::from_utf8(words.stdout).unwrap();
    assert!(words.status.success() && text.contains("Where IPv6 hurts") && text.contains("hotel"), "{text}");
    let none = lab(folder, &python, &["report", "."]);
    assert!(none.status.code() == Some(2) && String::from_utf8_lossy(&none.stderr).contains("holds no telemetry"));
}
