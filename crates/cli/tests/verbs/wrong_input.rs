//! Wrong input is refused with what is wrong and what to do, before anything is done. One line a mistake.

use crate::schema::must_hold;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");

/// The command with these words, without the settings and the history of the user who runs the test.
pub fn headstart(words: &[&str]) -> Command {
    let mut command = Command::new(HEADSTART);
    command.args(words).env("HEADSTART_CONFIG", "off").env("HEADSTART_HISTORY", "off");
    for name in ["HEADSTART", "HEADSTART_LINGER", "HEADSTART_QUIET"] {
        command.env_remove(name);
    }
    command
}

/// Checks that the command fails with this code and says this.
fn fails(command: &mut Command, code: i32, says: &str) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(code) && said.contains(says), "{command:?}: {:?}: {said}", output.status);
}

#[test]
fn with_json_an_error_is_one_object_on_standard_error() {
    for (words, code, says) in [
        (&["explain", "--json"][..], 2, "required arguments were not provided: <HOST>"),
        (&["status", "--json", "--nonsense"], 2, "unexpected argument '--nonsense'"),
        (&["get", "https://localhost/", "--json"], 2, "--json needs `-o FILE`"),
        (&["lab", "run", "nonsense", "--json"], 2, "unknown experiment `nonsense`"),
        (&["lab", "run", "connect-model", "--pages", "x", "--json"], 2, "connect-model does not use it"),
    ] {
        let output = headstart(words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let object: serde_json::Value =
            serde_json::from_str(&said).unwrap_or_else(|e| panic!("{words:?}: {e}: {said}"));
        must_hold("error", &said);
        assert!(object["error"].as_str().is_some_and(|error| error.contains(says) && !error.contains('\n')), "{said}");
        assert_eq!((object["exit_code"].as_i64(), output.status.code()), (Some(code.into()), Some(code)), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    let output = headstart(&["get", "https://localhost/", "--json", "--time", "2"]).output().unwrap();
    let object: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(object["hint"], "a similar argument exists: '--times'", "{object}");
    for (words, hint) in [
        (&["nosuch", "--json"][..], "`headstart --help` lists the verbs"),
        (&["relay", "key", "--json"], "`headstart relay key --help` shows the options and examples"),
        (&["lab", "fleet", "report", "--json"], "`headstart lab fleet report --help` shows the options and examples"),
        (&["run", "--json", "--summary", "x", "--", "true"], "`headstart run --help` shows the options and examples"),
    ] {
        let output = headstart(words).output().unwrap();
        let object: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(object["hint"], hint, "{words:?}: {object}");
    }
    let help = headstart(&["status", "--json", "--help"]).output().unwrap();
    assert!(help.status.success() && help.stdout.starts_with(b"Show the daemon"), "{help:?}");
}

#[test]
fn a_file_that_is_no_history_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    std::fs::write(&file, "x\n").unwrap();
    let site = "df39d3ed1748acbb2d56cacf9c34369d6ad037632591f2083ae177b9adb79a25";
    let mut import = headstart(&["history", "import", "--site", site]);
    fails(import.arg(&file).env("HEADSTART_HISTORY", folder.path()), 2, "x: not a signed history");
}

#[test]
fn wrong_words_are_usage_errors_that_name_the_way_out() {
    for (words, says) in [
        (&["serve", ".", "--store", "foo://x"][..], "unknown store `foo://x`"),
        (&["serve", ".", "--store", "bar"], "./bar"),
        (&["serve", ".", "--grace", "-1"], "invalid value '-1' for '--grace"),
        (&["serve", ".", "--start", "soon"], "unknown start rule `soon`"),
        (&["proxy", "--fat", "lo", "--fast", "lo"], "--fat and --fast are the same"),
        (&["proxy", "--fat", "a b", "--fast", "lo"], "must be an IP address or an interface name"),
        (&["proxy", "--fat", "x0", "--fast", "lo", "--policy", "pkt-state"], "works on packets"),
        (&["proxy", "--fat", "x0", "--fast", "lo", "--listen", "0.0.0.0:0"], "add --users FILE"),
        (&["realtime", "receive", "--senders", "0"], "invalid value '0' for '--senders"),
        (&["realtime", "send", "127.0.0.1:1", "--interval", "-5"], "invalid value '-5'"),
        (&["realtime", "send", "127.0.0.1:1", "--bytes", "3"], "--bytes 3: must be from 20"),
        (&["lab", "run", "connect-model", "--pages", "x"], "--pages: connect-model does not use it"),
        (&["lab", "run", "nonsense"], "unknown experiment `nonsense`"),
        (
            &["lab", "shell", "--link", "rate=trace:/nonexistent/trace"],
            "cannot read `/nonexistent/trace`: No such file",
        ),
        (&["lab", "shell", "--link", "nonsense"], "unknown preset `nonsense`"),
        (&["history", "forget", "--host", ""], "--host: must not be empty"),
        (&["history", "show", "--app", ""], "--app: must not be empty"),
        (&["measure", "lte", "--blocks", "0"], "invalid value '0' for '--blocks"),
        (&["measure", "lte", "--packet", "0"], "invalid value '0' for '--packet"),
        (&["measure", "lte", "--cqi", "16"], "--cqi 16: must be from 1 to 15"),
        (&["top", "-i", "1e300"], "must be from 0.1 to 3600 seconds (got 1e300)"),
        (&["top", "--interval", "-1"], "must be from 0.1 to 3600 seconds (got -1)"),
        (&["get", "https://localhost/", "--json"], "--json needs `-o FILE`"),
        (&["get", "https://localhost/", "--continue"], "--continue needs `-o FILE`"),
        (&["list", "nonsense"], "unknown list `nonsense`; choose one of races"),
        (&["--verbose", "list"], "--verbose goes with --version"),
        (&["run", "--race", "nonsense", "--", "true"], "nonsense"),
        (&["run", "--cache-lifetime", "soon", "--", "true"], "must be `ttl`, `off`, or seconds"),
        (&["run", "--explore", "-1", "--", "true"], "--explore: must be a number from 0 to 1 (got -1)"),
        (&["up", "--measure", "--capture", "198.51.100.0"], "must be ADDRESS/BITS"),
        (&["completions", "csh"], "invalid value 'csh'"),
    ] {
        fails(&mut headstart(words), 2, says);
    }
}

#[test]
fn variables_that_are_not_understood_are_named() {
    for (name, value) in [("HEADSTART", "nonsense"), ("HEADSTART_LINGER", "abc"), ("HEADSTART_QUIET", "maybe")] {
        let says = format!("{name}: must be ");
        fails(headstart(&["run", "--", "true"]).env(name, value), 2, &says);
        fails(headstart(&["list"]).env(name, value), 2, &says);
    }
    for (name, says) in [
        ("HEADSTART_HISTORY", "HEADSTART_HISTORY: must be `off` or the absolute path"),
        ("HEADSTART_CONFIG", "HEADSTART_CONFIG: must be `on` or `off`"),
        ("HEADSTART_RUN__QUITE", "did you mean `HEADSTART_RUN__QUIET`"),
    ] {
        for words in [&["run", "--", "true"][..], &["history", "show"], &["list"], &["steer", "genkey"]] {
            fails(headstart(words).env(name, "some/where"), 2, says);
        }
    }
}

#[test]
fn a_report_that_could_not_be_written_is_refused_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    fails(&mut headstart(&["demo", "--out", file.to_str().unwrap()]), 2, "cannot write");
}

/// A server that answers everything as a web server does that is spoken to in another protocol; its port.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 16_384]);
                let answer = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\n{}", " ".repeat(100));
                let _ = stream.write_all(answer.as_bytes());
                // Until the client has read it: to close earlier would discard it.
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    port
}

#[test]
fn a_server_of_another_kind_is_recognised() {
    let at = format!("127.0.0.1:{}", web_server());
    fails(&mut headstart(&["measure", "network", &at]), 5, "no `headstart measure serve` answers there");
    let url = format!("https://{at}/");
    let get = &mut headstart(&["get", &url, "-o", "/dev/null", "--store", "redis://127.0.0.1:1"]);
    fails(get, 5, "the server does not speak TLS on this port");
    fails(get, 5, "no answer from the store redis://127.0.0.1:1");
}

#[test]
fn a_trace_of_a_link_is_read_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("cellular.trace");
    std::fs::write(&trace, "1\n2\n4\n").unwrap();
    headstart_lab::netns::link(&format!("rate=trace:{},delay=15ms", trace.display())).unwrap();
    std::fs::write(&trace, "4\n2\n").unwrap();
    let shell = ["lab", "shell", "--link", &format!("rate=trace:{}", trace.display()), "--", "true"];
    fails(&mut headstart(&shell), 2, ":2: 2 comes after 4: sort the timestamps");
}

#[test]
fn the_line_of_a_run_can_be_silenced() {
    let says = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let run = || headstart(&["run", "--private", "--", "true"]);
    assert!(says(&mut run()).starts_with("headstart: "), "there is something to silence");
    assert_eq!(says(run().env("HEADSTART_QUIET", "1")), "");
    assert_eq!(says(run().env("HEADSTART_RUN__QUIET", "true")), "");
    assert!(says(run().env("HEADSTART_QUIET", "0")).starts_with("headstart: "));
}
