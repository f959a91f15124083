//! What is fetched is what is served, over each version of HTTP, whole or gone on with.

use crate::scene::{Datagrams, HEADSTART, Relay, Scratch, Server, until};
use std::io::Read as _;
use std::sync::atomic::Ordering;

#[test]
fn a_file_comes_whole_over_every_version_of_http() {
    let scratch = Scratch::new();
    let served = scratch.file("file.bin", 1_000_000);
    let server = Server::start(scratch, &[]);
    for (flags, protocol) in [
        // Whichever answers first, and QUIC has a lead: a busy machine may use it up.
        (&[][..], "HTTP/"),
        (&["--http", "3"], "HTTP/3"),
        (&["--http", "2"], "HTTP/2"),
        (&["--http", "1.1"], "HTTP/1.1"),
    ] {
        let to = server.scratch.path("fetched.bin");
        let told = &server.get(&server.url("file.bin"), &to, flags).objects()[0];
        assert!(told["protocol"].as_str().unwrap().starts_with(protocol) && told["bytes"] == 1_000_000, "{told}");
        assert!(std::fs::read(&to).unwrap() == served, "{protocol}");
        let ms = |name: &str| told[name].as_f64().unwrap();
        assert!(ms("name_ms") <= ms("handshake_ms") && ms("handshake_ms") <= ms("first_byte_ms"), "{told}");
        assert!(ms("first_byte_ms") <= ms("total_ms"), "{told}");
        std::fs::remove_file(to).unwrap();
    }
}

#[test]
fn an_empty_file_and_one_on_standard_output_come_too() {
    let scratch = Scratch::new();
    scratch.file("empty", 0);
    std::fs::write(scratch.path("site/a b.txt"), "text").unwrap();
    let server = Server::start(scratch, &[]);
    let to = server.scratch.path("fetched");
    assert_eq!(server.get(&server.url("empty"), &to, &[]).objects()[0]["bytes"], 0);
    assert_eq!(std::fs::read(&to).unwrap(), b"");
    let cert = server.cert();
    let ended = server.scratch.headstart(&["get", "--ca", &cert, &server.url("a%20b.txt")]);
    assert_eq!((ended.code, &ended.out[..]), (Some(0), "text"), "{ended:?}");
}

#[test]
fn where_quic_does_not_answer_tcp_is_taken() {
    let scratch = Scratch::new();
    let served = scratch.file("file.bin", 50_000);
    let server = Server::start(scratch, &[]);
    let relay = Relay::start(server.address, u64::MAX);
    let to = server.scratch.path("fetched.bin");
    let told = &server.get(&format!("https://{}/file.bin", relay.address), &to, &[]).objects()[0];
    assert_eq!(told["protocol"], "HTTP/2");
    assert!(std::fs::read(to).unwrap() == served);
}

#[test]
fn a_reader_that_does_not_read_stops_no_connection() {
    let scratch = Scratch::new();
    let served = scratch.file("file.bin", 1_000_000);
    let server = Server::start(scratch, &[]);
    let relay = Datagrams::start(server.address);
    let mut get = server.scratch.command(HEADSTART);
    get.args(["get", "-q", "--http", "3", "--ca", &server.cert(), &format!("https://{}/file.bin", relay.address)]);
    let mut get = get.spawn().unwrap();
    // A pipe holds 64 KiB, a first window less: all the rest is acknowledged while nobody reads.
    until("everything has come", || relay.passed.load(Ordering::SeqCst) > 1_000_000);
    let mut fetched = Vec::new();
    get.stdout.take().unwrap().read_to_end(&mut fetched).unwrap();
    assert!(get.wait().unwrap().success() && fetched == served);
}

#[test]
fn an_interrupted_fetch_keeps_what_came_and_goes_on_with_it() {
    for version in ["2", "1.1"] {
        let scratch = Scratch::new();
        let served = scratch.file("file.bin", 3_000_000);
        let server = Server::start(scratch, &[]);
        let relay = Relay::start(server.address, 500_000);
        let url = format!("https://{}/file.bin", relay.address);
        let (to, part) = (server.scratch.path("f"), server.scratch.path("f.part"));
        let ended = server.get(&url, &to, &["--http", version]);
        assert!(ended.code == Some(3) && ended.err.contains("--continue"), "{ended:?}");
        let have = std::fs::metadata(&part).unwrap().len();
        assert!(have > 0 && have < 500_000 && !to.exists(), "{have}");
        relay.mend();
        let told = &server.get(&url, &to, &["--http", version, "--continue"]).objects()[0];
        assert_eq!((told["from"].as_u64(), told["bytes"].as_u64()), (Some(have), Some(3_000_000 - have)));
        assert!(std::fs::read(&to).unwrap() == served && !part.exists());
    }
}

#[test]
fn a_file_that_was_replaced_meanwhile_is_fetched_anew() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 2_000_000);
    let server = Server::start(scratch, &[]);
    let relay = Relay::start(server.address, 500_000);
    let url = format!("https://{}/file.bin", relay.address);
    let to = server.scratch.path("f");
    assert_eq!(server.get(&url, &to, &[]).code, Some(3));
    std::fs::write(server.scratch.path("site/file.bin"), "other").unwrap();
    relay.mend();
    let ended = server.get(&url, &to, &["--continue"]);
    assert_eq!((&ended.objects()[0]["from"], std::fs::read(&to).unwrap()), (&0.into(), b"other".to_vec()));
    assert!(ended.err.contains("f.part~") && server.scratch.path("f.part~").exists(), "{ended:?}");
}

#[test]
fn later_fetches_of_a_run_send_their_request_with_the_first_packet() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 10_000);
    let server = Server::start(scratch, &[]);
    let to = server.scratch.path("fetched");
    let told = server.get(&server.url("file.bin"), &to, &["--http", "3", "--times", "12"]).objects();
    assert_eq!(told.len(), 12);
    assert!(told[0]["early_data"].is_null(), "{told:?}");
    // The server's ticket comes when it likes, behind the answer: on a slow machine one of them may be too late.
    assert!(told[1..].iter().any(|told| told["early_data"] == true), "{told:?}");
    assert!(told.iter().all(|told| told["bytes"] == 10_000), "{told:?}");
}

#[test]
fn a_server_that_is_to_end_finishes_what_it_has_begun() {
    for version in ["3", "2", "1.1"] {
        let scratch = Scratch::new();
        let served = scratch.file("file.bin", 30_000_000);
        let mut server = Server::start(scratch, &["--grace", "60"]);
        let (cert, url) = (server.cert(), server.url("file.bin"));
        let to = server.scratch.path("f");
        let mut get = server.scratch.command(HEADSTART);
        get.args(["get", "--http", version, "--ca", &cert, "-q", "-o"]).arg(&to).arg(url);
        let mut get = get.spawn().unwrap();
        let came = |name: &str| std::fs::metadata(server.scratch.path(name)).is_ok_and(|found| found.len() > 0);
        // Who ends before that says why.
        until("something has come", || came("f.part") || came("f") || get.try_wait().unwrap().is_some());
        server.end();
        let ended = crate::scene::Ended::of(get.wait_with_output().unwrap());
        assert!(ended.code == Some(0) && std::fs::read(&to).unwrap() == served, "HTTP/{version}: {ended:?}");
        assert_eq!(server.ended(), Some(0), "HTTP/{version}");
    }
}
