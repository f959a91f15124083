//! What one host of a site has learned is where another begins (`history export --sign`, `import`).

use crate::scene::{Ended, HEADSTART, Scratch, Server, until};
use crate::schema::must_hold;
use std::path::Path;

const LENGTH: u32 = 2_000_000;

/// Bytes that a server says it remembered of the path when it was fetched from.
fn remembered(server: &Server) -> u64 {
    let told = &server.get(&server.url("file.bin"), Path::new("/dev/null"), &["--http", "3"]).objects()[0];
    let start = told["start"].as_str().unwrap_or_else(|| panic!("no word of the start: {told}"));
    let number = start.split("remembered=").nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{start}"))
}

/// `headstart history` on the host whose state is in `host`.
fn history(scratch: &Scratch, host: &str, words: &[&str]) -> Ended {
    let mut command = scratch.command(HEADSTART);
    command.env("HEADSTART_HISTORY", scratch.path(host)).arg("history").args(words);
    Ended::of(command.output().unwrap())
}

/// A server that learns; what it hands on, signed by the key of the site, and that key's public half.
fn veteran() -> (Server, String, String) {
    let scratch = Scratch::new();
    scratch.file("file.bin", LENGTH);
    let store = scratch.path("veteran").to_str().unwrap().to_owned();
    let server = Server::start(scratch, &["--store", &store]);
    until("something is remembered", || remembered(&server) > 0);
    let written = server.scratch.path("veteran/paths.redb");
    until("it is written", || written.exists());
    let key = server.scratch.path("site.key").to_str().unwrap().to_owned();
    let site = server.scratch.headstart(&["relay", "key", &key]);
    assert_eq!(site.code, Some(0), "{site:?}");
    let signed = history(&server.scratch, "veteran", &["export", "--sign", &key, "--from", "web-1"]);
    assert_eq!(signed.code, Some(0), "{signed:?}");
    (server, signed.out, site.out.trim().to_owned())
}

#[test]
fn a_server_that_has_just_joined_begins_with_what_another_has_learned() {
    let (server, signed, site) = veteran();
    let scratch = server.scratch.clone();
    let file = scratch.path("web-1.history").to_str().unwrap().to_owned();
    std::fs::write(&file, &signed).unwrap();
    let store = scratch.path("newcomer").to_str().unwrap().to_owned();
    let without = Server::start(scratch.clone(), &["--store", &format!("{store}-without")]);
    assert_eq!(remembered(&without), 0, "the first contact");
    let said = history(&scratch, "other", &["import", &file, "--site", &site, "--json"]);
    must_hold("history-import", &said.out);
    let said = history(&scratch, "newcomer", &["import", &file, "--site", &site]);
    assert!(said.code == Some(0) && said.out.starts_with("imported: history of web-1 ("), "{said:?}");
    let with = Server::start(scratch.clone(), &["--store", &store]);
    assert!(remembered(&with) > 0, "the first contact, too");
    let said = history(&scratch, "newcomer", &["show"]);
    assert!(said.out.contains("from web-1 (site ") && said.out.contains("0 h old"), "{said:?}");
    let said = history(&scratch, "newcomer", &["export"]);
    let object: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&object["priors"][0]["from"], &object["priors"][0]["site"]), (&"web-1".into(), &site.into()));
    let said = history(&scratch, "newcomer", &["forget", "--imported"]);
    assert!(said.code == Some(0) && said.out.starts_with("deleted: history of 1 other host"), "{said:?}");
    assert!(!history(&scratch, "newcomer", &["show"]).out.contains("web-1"));
}

#[test]
fn what_the_site_has_not_signed_is_refused_with_the_reason() {
    let (server, signed, site) = veteran();
    let scratch = server.scratch.clone();
    let other = scratch.headstart(&["relay", "key", scratch.path("other.key").to_str().unwrap()]).out;
    let import = |text: &str, site: &str| {
        let file = scratch.path("handed.history");
        std::fs::write(&file, text).unwrap();
        history(&scratch, "newcomer", &["import", file.to_str().unwrap(), "--site", site])
    };
    let (head, body) = signed.split_once('\n').unwrap();
    let at = head.len() - 1;
    let last = if head.ends_with('0') { "1" } else { "0" };
    for (text, by, why) in [
        (signed.clone(), other.trim(), "not by the site"),
        (signed.replacen("web-1", "web-2", 1), &site, "the signature is wrong"),
        (format!("{}{last}\n{body}", &head[..at]), &site, "the signature is wrong"),
        (head.to_owned(), &site, "not a signed history"),
        (body.to_owned(), &site, "not a signed history"),
        (String::new(), &site, "not a signed history"),
    ] {
        let said = import(&text, by);
        assert!(said.code == Some(2) && said.err.contains(why), "{why}: {said:?}");
    }
    let said = import(&signed, "abc");
    assert!(said.code == Some(2) && said.err.contains("--site: "), "{said:?}");
    assert!(!scratch.path("newcomer").join("prior.redb").exists());
    let said = history(
        &scratch,
        "veteran",
        &["export", "--sign", scratch.path("site.key").to_str().unwrap(), "--from", "a b"],
    );
    assert!(said.code == Some(2) && said.err.contains("--from: "), "{said:?}");
}
