//! The ten questions of the guide, asked of a campaign by DuckDB; their answers are compared with what the results say themselves.

use super::scene::{Campaign, LAB, python_with};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The questions as the guide prints them.
fn questions() -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/campaigns.md");
    let text = fs::read_to_string(guide).unwrap();
    let parts = text.split("```sql\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap().trim().to_owned()).collect()
}

fn ask(campaign: &Campaign, python: &str, question: &str) -> Vec<Value> {
    let mut command = campaign.command(LAB, &["query", "--json", question, "campaign"]);
    let output = command.env("HEADSTART_PYTHON", python).output().unwrap();
    assert!(output.status.success(), "{question}\n{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every result, as it was written.
fn results(campaign: &Campaign) -> Vec<Value> {
    let entries =
        fs::read_dir(campaign.path("results")).unwrap().flatten().filter(|entry| entry.file_name().len() == 64);
    entries.map(|entry| serde_json::from_slice(&fs::read(entry.path().join("result.json")).unwrap()).unwrap()).collect()
}

#[test]
fn the_ten_questions_of_the_guide_have_the_answers_of_the_results() {
    let Some(python) = python_with("duckdb") else { return };
    let campaign = Campaign::new();
    assert!(campaign.lab(&["work", "--plan", "plan.jsonl", "--out", "results"]).status.success());
    assert!(campaign.lab(&["collect", "--plan", "plan.jsonl", "results", "--out", "campaign"]).status.success());
    let questions = questions();
    assert_eq!(questions.len(), 10);
    let answers: Vec<Vec<Value>> = questions.iter().map(|question| ask(&campaign, &python, question)).collect();
    let results = results(&campaign);

    let [tasks] = answers[0].as_slice() else { panic!("{:?}", answers[0]) };
    assert_eq!(
        (&tasks["experiment"], tasks["tasks"].as_u64(), tasks["valid"].as_u64()),
        (&"connect-model".into(), Some(campaign.tasks as u64), Some(campaign.tasks as u64))
    );

    let numbers = |field: &str, like: &Value| -> Vec<f64> {
        let rows = results.iter().flat_map(|result| result["rows"].as_array().unwrap());
        let same =
            |row: &&Value| ["condition", "metric", "arm", "baseline_arm"].iter().all(|name| row[*name] == like[*name]);
        rows.filter(same).filter_map(|row| row[field].as_f64()).collect()
    };
    assert!(!answers[1].is_empty());
    for line in &answers[1] {
        let mut ratios = numbers("ratio", line);
        assert_eq!(line["seeds"].as_u64(), Some(ratios.len() as u64), "{line}");
        ratios.sort_by(f64::total_cmp);
        let middle = (ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / 2.0;
        assert!((line["ratio"].as_f64().unwrap() - middle).abs() < 1e-9, "{line}");
    }
    let trials = |like: &Value| -> Vec<Option<f64>> {
        let all = results.iter().flat_map(|result| result["samples"].as_array().unwrap());
        let same = |series: &&Value| {
            ["condition", "metric", "arm"].iter().all(|name| like[*name].is_null() || series[*name] == like[*name])
        };
        all.filter(same).flat_map(|series| series["values"].as_array().unwrap()).map(Value::as_f64).collect()
    };
    for line in &answers[2] {
        let mut values: Vec<f64> = trials(line).into_iter().flatten().collect();
        assert_eq!(line["trials"].as_u64(), Some(values.len() as u64), "{line}");
        values.sort_by(f64::total_cmp);
        let place = 0.95 * (values.len() - 1) as f64;
        let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
        let p95 = low + (high - low) * place.fract();
        assert!((line["p95"].as_f64().unwrap() - p95).abs() <= 1e-9 * p95.abs(), "{line}");
    }
    for line in &answers[3] {
        let all = trials(line);
        let failed = 100.0 * all.iter().filter(|value| value.is_none()).count() as f64 / all.len() as f64;
        assert!((line["failed_percent"].as_f64().unwrap() - failed).abs() < 1e-9, "{line}");
    }
    for line in &answers[5] {
        let ratios = numbers("ratio", line);
        let spread = ratios.iter().copied().fold(f64::MIN, f64::max) - ratios.iter().copied().fold(f64::MAX, f64::min);
        assert!((line["spread"].as_f64().unwrap() - spread).abs() < 1e-9, "{line}");
    }
    let rows: usize = results.iter().map(|result| result["rows"].as_array().unwrap().len()).sum();
    let counted: u64 = answers[7].iter().map(|line| line["rows"].as_u64().unwrap()).sum();
    assert_eq!(counted, rows as u64);
    assert!(answers[6].iter().all(|line| !line["host"].as_str().unwrap().is_empty()) && !answers[6].is_empty());
    assert_eq!(answers[8].len(), 2, "two conditions were planned");
    assert!(answers[9].is_empty(), "virtual time is never invalid");
    // Where an arm is slower than another in so many trials, that one is slower in at most the rest.
    for line in &answers[4] {
        let other = answers[4].iter().find(|o| {
            ["condition", "metric"].iter().all(|name| o[*name] == line[*name])
                && o["arm"] == line["other"]
                && o["other"] == line["arm"]
        });
        let sum = line["slower_percent"].as_f64().unwrap() + other.unwrap()["slower_percent"].as_f64().unwrap();
        assert!(sum <= 100.0 + 1e-9, "{line}");
    }
}
