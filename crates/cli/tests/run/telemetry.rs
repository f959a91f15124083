//! Telemetry, end to end: off unless it is asked for, hashes in place of names, and `telemetry show` hides nothing.

use crate::lab::{Ended, HEADSTART, Lab, ended, found, inside};
use crate::schema::must_hold;
use serde_json::Value;
use std::fs;

fn run(lab: &Lab, settings: &[(&str, &str)], words: &[&str]) -> Ended {
    let mut command = lab.command(HEADSTART);
    command.envs(settings.iter().copied()).args(words);
    ended(command.spawn().unwrap())
}

inside!(what_is_written_for_the_fleet_is_what_show_prints_and_names_nobody, || {
    let Some(curl) = found("curl", "curl") else { return };
    let lab = Lab::new();
    let folder = lab.scratch.path("out");
    let on = [("HEADSTART_TELEMETRY__FOLDER", folder.to_str().unwrap()), ("HEADSTART_TELEMETRY__LABEL", "office")];
    let fetch = ["run", "--", curl.to_str().unwrap(), "-sS", "http://www.lab.example/"];
    assert_eq!(run(&lab, &[], &fetch).code, Some(0));
    assert!(!folder.exists(), "off");
    let said = run(&lab, &[], &["telemetry", "show"]);
    assert!(said.code == Some(0) && said.out.is_empty() && said.err.contains("telemetry is off"), "{said:?}");

    assert_eq!(run(&lab, &on, &fetch).code, Some(0));
    let quiet = ["run", "-q", "--", curl.to_str().unwrap(), "-sS", "http://www.lab.example/"];
    assert_eq!(run(&lab, &on, &quiet).err, "");
    let shown = run(&lab, &on, &["telemetry", "show"]);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let batches: Vec<_> =
        files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).collect();
    assert_eq!(batches.len(), 1);
    assert_eq!(shown.out, fs::read_to_string(batches[0]).unwrap(), "byte for byte");
    shown.out.lines().for_each(|line| must_hold("telemetry", line));
    let events: Vec<Value> = shown.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 2);
    for event in &events {
        assert_eq!((&event["kind"], &event["label"], &event["resolved"]), (&"run".into(), &"office".into(), &1.into()));
    }
    assert!(!shown.out.contains("curl") && !shown.out.contains("lab.example"), "{}", shown.out);
    let named = [on[0], on[1], ("HEADSTART_TELEMETRY__NAMES", "true")];
    assert_eq!(run(&lab, &named, &fetch).code, Some(0));
    assert!(run(&lab, &on, &["telemetry", "show"]).out.contains("\"app\":\"curl\""));
});

inside!(a_folder_that_cannot_be_written_to_costs_a_line_and_no_program, || {
    let lab = Lab::new();
    let file = lab.scratch.path("file");
    fs::write(&file, "").unwrap();
    let wrong = [("HEADSTART_TELEMETRY__FOLDER", file.to_str().unwrap())];
    let said = run(&lab, &wrong, &["run", "--", "true"]);
    assert!(
        said.code == Some(0) && said.err.contains("telemetry: ") && said.err.contains("nothing is written"),
        "{said:?}"
    );
    let said = run(&lab, &[("HEADSTART_TELEMETRY__FOLDER", "out")], &["run", "--", "true"]);
    assert!(said.code == Some(2) && said.err.contains("must be an absolute path"), "{said:?}");
});
