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
    let (_measured, line) = server(&mut headstart(&["measure", "serve", "--listen", "127.0.0.1:0"]));
    let at =
        line.split_whitespace().find(|word| word.starts_with("127.0.0.1:")).unwrap().trim_end_matches([',', ';', ':']);
    must_hold("measure-network", &printed(&mut headstart(&["measure", "network", at, "--seconds", "0.2", "--json"])));
}

#[test]
fn every_verb_that_prints_json_is_in_the_list_of_schemas() {
    let reference = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let commands = std::fs::read_to_string(reference.join("commands.md")).unwrap();
    let listed = std::fs::read_to_string(reference.join("schemas/README.md")).unwrap();
    let verbs = commands.split("\n## ").filter(|verb| verb.contains("\n      --json\n") || verb.contains(" --json "));
    let mut seen = 0;
    for verb in verbs.map(|verb| verb.lines().next().unwrap()).filter(|verb| verb.contains(' ')) {
        assert!(listed.lines().any(|row| row.contains(&format!("{verb} ")) && row.contains("--json")), "{verb}");
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
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
