//! What is refused, and what is said then.

use crate::client::{endless_server, refusing_server};
use crate::scene::{Scratch, Server};
use std::os::unix::fs::symlink;

/// The status that `headstart get` tells of `path`.
fn refused(server: &Server, path: &str) -> String {
    let ended = server.get(&server.url(path), &server.scratch.path("refused"), &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!server.scratch.path("refused").exists() && !server.scratch.path("refused.part").exists());
    ended.err
}

#[test]
fn nothing_outside_of_the_folder_and_nothing_hidden_is_served() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("secret"), "secret").unwrap();
    std::fs::write(scratch.path("site/.hidden"), "secret").unwrap();
    symlink("../secret", scratch.path("site/link")).unwrap();
    symlink("/etc/hostname", scratch.path("site/absolute")).unwrap();
    let server = Server::start(scratch, &[]);
    for path in [".hidden", "%2ehidden", "link", "absolute", "none"] {
        assert!(refused(&server, path).contains("404"), "{path}");
    }
    for path in ["../secret", "%2e%2e/secret", "a/../../secret", "..%2fsecret", "%00"] {
        assert!(refused(&server, path).contains("400"), "{path}");
    }
}

#[test]
fn a_number_that_is_taken_a_folder_that_is_missing_and_half_a_certificate_are_named() {
    let server = Server::start(Scratch::new(), &[]);
    let site = server.scratch.path("site");
    let site = site.to_str().unwrap();
    let taken = server.scratch.headstart(&["serve", "--listen", &server.address.to_string(), site]);
    assert!(taken.code == Some(1) && taken.err.contains("is in use"), "{taken:?}");
    let missing = server.scratch.headstart(&["serve", "/nowhere/at/all"]);
    assert!(missing.code == Some(2) && missing.err.contains("/nowhere/at/all"), "{missing:?}");
    assert_eq!(server.scratch.headstart(&["serve", site, "--cert", "x"]).code, Some(2));
    let unread = server.scratch.headstart(&["serve", site, "--cert", "/dev/null", "--key", "/dev/null"]);
    assert!(unread.code == Some(2) && unread.err.contains("/dev/null: no valid certificate"), "{unread:?}");
}

#[test]
fn a_server_that_nobody_knows_is_not_believed() {
    let server = Server::start(Scratch::new(), &[]);
    let other = Server::start(Scratch::new(), &[]);
    let (to, url) = (server.scratch.path("f"), server.url(""));
    let words = ["get", "--json", "-o", to.to_str().unwrap()];
    let with = |more: &[&str]| {
        let words = words.iter().chain(more).copied().chain([&url[..]]);
        server.scratch.headstart(&words.collect::<Vec<_>>())
    };
    for version in ["3", "2"] {
        let ended = with(&["--http", version, "--ca", &other.cert()]);
        assert!(ended.code == Some(1) && ended.err.contains("--ca"), "{ended:?}");
        assert_eq!(with(&["--http", version, "--insecure"]).code, Some(0));
    }
}

#[test]
fn what_cannot_be_fetched_is_said_with_a_code_of_its_own() {
    let scratch = Scratch::new();
    let url = "https://127.0.0.1:1/";
    // Nobody listens on port 1 of loopback: TCP is refused at once.
    let gone = scratch.headstart(&["get", "--insecure", "--http", "2", url]);
    assert!(gone.code == Some(5) && gone.err.contains("127.0.0.1:1 over TCP"), "{gone:?}");
    // Nothing tells that nobody listens on its UDP port; that is not waited for as long as for a silent server.
    let both = scratch.headstart(&["get", "--insecure", url]);
    assert!(both.code == Some(5) && both.err.contains("no answer over QUIC for another 3 s"), "{both:?}");
    let to_stdout = scratch.headstart(&["get", "--json", "--insecure", url]);
    assert!(to_stdout.code == Some(2) && to_stdout.err.contains("-o FILE"), "{to_stdout:?}");
    let plain = scratch.headstart(&["get", "http://127.0.0.1:1/"]);
    assert!(plain.code == Some(2) && plain.err.contains("only https"), "{plain:?}");
    let unresumable = scratch.headstart(&["get", "--continue", "--insecure", url]);
    assert!(unresumable.code == Some(2) && unresumable.err.contains("-o FILE"), "{unresumable:?}");
}

#[test]
fn a_connection_that_brought_no_answer_to_keep_is_closed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (address, ended) = runtime.block_on(async { refusing_server() });
    let scratch = Scratch::new();
    let failed = scratch.headstart(&["get", "--insecure", "--http", "3", &format!("https://{address}/none")]);
    assert!(failed.code == Some(1) && failed.err.contains("404"), "{failed:?}");
    let why = runtime.block_on(async { ended.await.unwrap() });
    // H3_NO_ERROR: it was told to end, and not just dropped, which may be heard or not.
    let quinn::ConnectionError::ApplicationClosed(why) = why else { panic!("{why:?}") };
    assert_eq!(why.error_code, 0x100u32.into());
}

/// h3 would keep it until it is whole.
#[test]
fn a_head_that_does_not_end_is_given_up_before_it_fills_the_memory() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (address, sent) = runtime.block_on(async { endless_server() });
    let scratch = Scratch::new();
    let failed = scratch.headstart(&["get", "--insecure", "--http", "3", &format!("https://{address}/endless")]);
    assert!(failed.code == Some(1) && failed.err.contains("does not end"), "{failed:?}");
    // Twice the window of 16 MB, and what comes between two looks.
    let sent = runtime.block_on(async { sent.await.unwrap() });
    assert!(sent < 256 << 20, "{sent}");
}
