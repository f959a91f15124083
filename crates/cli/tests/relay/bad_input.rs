//! Mistakes are told in a line that says what is wrong and what to do.

use crate::scene::{Folder, HEADSTART, Running};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn fails(words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(HEADSTART).args(words).output().unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_key_is_made_once_for_its_owner_alone_and_told_again() {
    let folder = Folder::new();
    let (file, public) = folder.key("own");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.key("own").1, public);
    assert_ne!(folder.key("other").1, public);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let (code, says) = fails(&["relay", "key", &file]);
    assert!(code == Some(2) && says.contains("chmod 600"), "{says}");
}

#[test]
fn what_is_asked_for_wrongly_is_refused_with_what_to_write() {
    let folder = Folder::new();
    let ((key, public), missing) = (folder.key("own"), folder.path("missing").display().to_string());
    let serve = ["relay", "serve", "--key", &key, "--listen", "127.0.0.1:0"];
    let ports = ["relay", "ports", "--relay", "127.0.0.1:1", "--relay-key", &public, "--key", &key];
    for (words, code, says) in [
        (&[&serve[..], &[]].concat(), 2, "--client"),
        (&[&serve[..], &["--client", "abc"]].concat(), 2, "64 hexadecimal digits"),
        (&[&serve[..], &["--client", &public, "--allow", "host"]].concat(), 2, "HOST:PORT"),
        (&[&serve[..], &["--client", &public, "--allow", "10.0.0.1/8:22"]].concat(), 2, "no host"),
        (&[&serve[..], &["--client", &public, "--most", "0"]].concat(), 2, "--most 0"),
        (&["relay", "serve", "--key", &missing, "--client", &public].into(), 2, "No such file"),
        (&[&ports[..], &[]].concat(), 2, "--forward"),
        (&[&ports[..], &["--forward", "2222"]].concat(), 2, "PORT=HOST:PORT"),
        (&[&ports[..], &["--forward", "x=a:1"]].concat(), 2, "must be a local port"),
        (&[&ports[..], &["--socks", "0", "--technique", "faster"]].concat(), 2, "unknown technique"),
        (&["realtime", "send", "127.0.0.1:1", "--bytes", "3"].into(), 2, "must be from"),
        (&["realtime", "send", "127.0.0.1:1", "--interval", "0"].into(), 2, "at least 1"),
        (&["realtime", "send", "127.0.0.1:1"].into(), 5, "no connection to the peer"),
        (&["realtime", "send", "a:1", "--relay", "b:1"].into(), 2, "--relay-key"),
    ] {
        let (got, said) = fails(words);
        assert!(got == Some(code) && said.contains(says), "{words:?}: {got:?} {said}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let (code, said) =
        fails(&["relay", "serve", "--key", &key, "--client", &public, "--allow", "a:1", "--listen", &at]);
    assert!(code == Some(1) && said.contains(&at) && said.contains("is in use"), "{said}");
}

#[test]
fn what_a_relay_refuses_is_told_to_who_asked() {
    let folder = Folder::new();
    let mut relay = Running::headstart(folder.serve("127.0.0.1:0", "192.0.2.1:7"));
    let at = relay.address(2);
    let send = |through: &[String]| {
        let mut words = vec!["realtime", "send", "127.0.0.1:9"];
        words.extend(through.iter().map(String::as_str));
        fails(&words)
    };
    let (code, said) = send(&folder.through(&at));
    assert!(code == Some(5) && said.contains("not on its list"), "{said}");
    let stranger = Folder::new();
    let mut words = folder.through(&at);
    words[5] = stranger.key("client").0;
    let (code, said) = send(&words);
    assert!(code == Some(5) && said.contains("does not list this client's key"), "{said}");
}

#[test]
fn the_techniques_are_listed() {
    let output = Command::new(HEADSTART).args(["list", "techniques", "--json"]).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = list["techniques"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    for name in ["plain", "reduction-P", "trigger", "echo", "hedge", "auto"] {
        assert!(names.contains(&name), "{names:?}");
    }
}
