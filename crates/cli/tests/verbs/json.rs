//! What verbs print with `--json`, held to its schemas. Verbs that need a network of their own are held to theirs where they are tested.

use crate::schema::must_hold;
use crate::wrong_input::headstart;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// What a command prints, whatever it ends with.
fn printed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(!output.stdout.is_empty(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A server that has printed its first line, on standard output or standard error.
fn server(command: &mut Command) -> (Server, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::null()).stderr(writer.try_clone().unwrap()).stdout(writer);
    let child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    (Server(child), line)
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_needs_no_network_is_as_its_schema_says() {
    for (schema, words) in [
        ("list", &["list"][..]),
        ("list", &["list", "races"]),
        ("lab-list", &["lab", "list"]),
        ("config-show", &["config", "show"]),
        ("config-check", &["config", "check"]),
        ("measure-lte", &["measure", "lte"]),
        ("doctor", &["doctor"]),
    ] {
        must_hold(schema, &printed(headstart(words).arg("--json")));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, "[connect]\nrcae = 1\nlinger = -1\n").unwrap();
    let said = printed(headstart(&["config", "check", "--json"]).arg(&file));
    must_hold("config-check", &said);
    let mistakes: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(mistakes["mistakes"].as_array().map(Vec::len), Some(2), "{said}");
    must_hold("relay-key", &printed(headstart(&["relay", "key", "--json"]).arg(folder.path().join("key"))));
    must_hold("config-init", &printed(headstart(&["config", "init", "--json"]).arg(folder.path().join("new.toml"))));
    let made = printed(&mut headstart(&["steer", "genkey", "--json"]));
    must_hold("steer-genkey", &made);
    let secret: serde_json::Value = serde_json::from_str(&made).unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, secret["secret"].as_str().unwrap()).unwrap();
    let pubkey = headstart(&["steer", "pubkey", "--json"]).stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    must_hold("steer-pubkey", std::str::from_utf8(&pubkey.stdout).unwrap());
    let mut send = headstart(&["telemetry", "send", "--json", "--to", "http://127.0.0.1:9/v1/logs"]);
    send.env("HEADSTART_TELEMETRY__FOLDER", folder.path().join("telemetry"));
    send.env("HEADSTART_TELEMETRY__KEY_FILE", folder.path().join("telemetry.key"));
    must_hold("telemetry-send", &printed(&mut send));
    let history = folder.path().join("history");
    let forget = |words: &[&str]| {
        let mut command = headstart(&["history", "forget", "--json"]);
        let said = printed(command.args(words).env("HEADSTART_HISTORY", &history));
        must_hold("history-forget", &said);
        serde_json::from_str::<serde_json::Value>(&said).unwrap()["deleted"] == true
    };
    assert!(!forget(&["--host", "unknown.example"]) && forget(&[]));
    let mut run = headstart(&["lab", "run", "connect-model", "--quick", "--json", "--out"]);
    let rows = printed(run.arg(folder.path().join("results")));
    must_hold("lab-run", rows.lines().last().unwrap());
    let mut report = headstart(&["lab", "report", "--json", "--out"]);
    must_hold("lab-report", &printed(report.arg(folder.path().join("report")).arg(folder.path().join("results"))));
    let mut fleet = headstart(&["lab", "fleet", "simulate", "--json", "--hosts", "5", "--days", "1", "--out"]);
    must_hold("lab-fleet-simulate", &printed(fleet.arg(folder.path().join("fleet"))));
    let campaign = folder.path().join("campaign.toml");
    std::fs::write(&campaign, "[[set]]\nexperiment = \"connect-model\"\nseeds = 1\nquick = true\n").unwrap();
    let plan = folder.path().join("plan.jsonl");
    std::fs::write(&plan, printed(headstart(&["lab", "plan"]).arg(campaign))).unwrap();
    let mut work = headstart(&["lab", "work", "--json", "--out"]);
    must_hold("lab-work", &printed(work.arg(folder.path().join("tasks")).arg("--plan").arg(plan)));
    let rows = printed(&mut headstart(&["lab", "scenario", "dumbbell", "--time", "virtual", "--json"]));
    must_hold("lab-scenario", rows.lines().last().unwrap());
}

#[test]
fn what_listens_says_where_as_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let made: serde_json::Value =
        serde_json::from_str(&printed(headstart(&["relay", "key", "--json"]).arg(&key))).unwrap();
    let public = made["public"].as_str().unwrap();
    let mut relay = headstart(&["relay", "serve", "--json", "--listen", "127.0.0.1:0", "--client", public]);
    let (_relay, line) = server(relay.args(["--allow", "localhost:*", "--key"]).arg(&key));
    must_hold("relay-serve", &line);
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = told["address"].as_str().unwrap();
    let mut ports = headstart(&["relay", "ports", "--json", "--relay", address, "--relay-key", public]);
    ports.args(["--forward", "0=localhost:80", "--socks", "0", "--key"]).arg(&key);
    let (_ports, line) = server(&mut ports);
    must_hold("relay-ports", &line);
    let proxy = ["proxy", "--json", "--fat", "127.0.0.1", "--fast", "127.0.0.2", "--listen", "127.0.0.1:0"];
    let (_proxy, line) = server(&mut headstart(&proxy));
    must_hold("proxy", &line);
    let (_page, line) = server(&mut headstart(&["ui", "--json", "--no-browser", "--port", "0"]));
    must_hold("ui", &line);
}

#[test]
fn what_goes_over_loopback_is_as_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), [7; 20_000]).unwrap();
    let certificate = folder.path().join("ca.pem");
    let mut serve = headstart(&["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--json", "--write-cert"]);
    let (_server, line) = server(serve.arg(&certificate).arg(folder.path()));
    must_hold("serve", &line);
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = format!("{}f", told["urls"][0].as_str().unwrap());
    for version in ["3", "2"] {
        let mut get = headstart(&["get", &url, "--json", "--http", version, "--store", "memory", "-o", "/dev/null"]);
        printed(get.args(["--times", "2", "--ca"]).arg(&certificate)).lines().for_each(|line| must_hold("get", line));
    }
    let summary = folder.path().join("summary.json");
    let run = headstart(&["run", "--private", "-q", "--summary"]).arg(&summary).args(["--", "true"]).status().unwrap();
    assert!(run.success());
    must_hold("run-summary", &std::fs::read_to_string(summary).unwrap());
    let run = headstart(&["run", "--private", "--json", "--", "sh", "-c", "echo out; echo err >&2"]).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!((run.stdout.as_slice(), said.lines().count()), (&b"out\n"[..], 2), "{said}");
    must_hold("run-summary", said.lines().last().unwrap());
    let (_measured, line) = server(&mut headstart(&["measure", "serve", "--json", "--listen", "127.0.0.1:0"]));
    must_hold("measure-serve", &line);
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let at = told["address"].as_str().unwrap();
    must_hold("measure-network", &printed(&mut headstart(&["measure", "network", at, "--seconds", "0.2", "--json"])));
}

#[test]
fn every_verb_that_prints_json_is_in_the_list_of_schemas() {
    let reference = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let commands = std::fs::read_to_string(reference.join("commands.md")).unwrap();
    let listed = std::fs::read_to_string(reference.join("schemas/README.md")).unwrap();
    let (with, without) = listed.split_once("\n## No `--json`\n").unwrap();
    let mut seen = [0; 2];
    // The first is the title, then come `headstart` and verbs; what has verbs below it does nothing itself.
    for help in commands.split("\n## ").skip(2).filter(|help| !help.contains(" <COMMAND>\n")) {
        let verb = help.lines().next().unwrap();
        let prints = help.contains("\n      --json\n");
        let rows = if prints { with } else { without };
        let is_listed = |row: &str| row.contains(&format!("{verb} ")) && (!prints || row.contains("--json"));
        assert!(rows.lines().any(is_listed), "{verb}: {}", if prints { "has no schema" } else { "why no --json?" });
        seen[usize::from(prints)] += 1;
    }
    assert!(seen[0] > 5 && seen[1] > 30, "{seen:?}");
    assert_eq!(without.lines().filter(|row| row.starts_with("| headstart ")).count(), seen[0], "all of them exist");
}

#[test]
fn every_schema_is_held_to_what_is_printed() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    let mut folders = vec![here.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension() {
                _ if entry.is_dir() => folders.push(entry),
                Some(ending) if ending == "rs" => sources += &std::fs::read_to_string(entry).unwrap(),
                _ => {}
            }
        }
    }
    // Named in the call, or in a table of schemas and words that goes there.
    let is_held = |name: &str| {
        [format!("must_hold(\"{name}\""), format!("(\"{name}\", &[")].iter().any(|call| sources.contains(call))
    };
    let schemas = std::fs::read_dir(here.join("../../docs/reference/schemas")).unwrap();
    for schema in schemas.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        // The engine's is held by the tests of `io::engine::message`.
        if let Some(name) = schema.strip_suffix(".json").filter(|name| *name != "engine") {
            assert!(is_held(name), "no test holds output to {schema}");
        }
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn the_demo_prints_one_object_as_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let output = headstart(&["demo", "--json", "--out"]).arg(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "progress is for terminals: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    must_hold("demo", &text);
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    let report = object["report"].as_str().unwrap();
    assert!(std::fs::read_to_string(report).unwrap().contains("</html>"), "{object}");
}
