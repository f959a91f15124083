//! Clients whose first word is longer than a packet, and requests that are malformed: what other stacks than ours send.

use crate::client::{asked, connected, connected_to, http};
use crate::scene::{Datagrams, Ended, Scratch, Server, found};
use headstart_core::time::Duration;
use std::path::Path;
use std::process::Command;

/// Bytes of the names of unknown protocols: with them, the first word takes two packets.
const LONG: usize = 200;

#[test]
fn a_first_word_in_two_packets_is_waited_for_before_anything_is_said() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 1000);
    let server = Server::start(scratch, &[]);
    // The server has the first packet, has acknowledged it and done all that it does before the second comes.
    let relay = Datagrams::holding_the_second(server.address, Duration::from_millis(300));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let unspoken = (b'a'..=b'h').map(|letter| vec![letter; LONG]);
        let protocols = [b"h3".to_vec()].into_iter().chain(unspoken).collect();
        let connection = connected_to(&server, relay.address, protocols).await;
        let status = async { asked(&mut http(connection).await, "/file.bin", &[]).await.unwrap() };
        let status = tokio::time::timeout(std::time::Duration::from_secs(20), status).await;
        assert_eq!(status.expect("the request was never read"), 200);
    });
}

#[test]
fn fields_of_a_connection_of_http1_make_a_request_of_http3_malformed() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 1000);
    let server = Server::start(scratch, &[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut requests = http(connected(&server).await).await;
        for field in [
            ("connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("te", "gzip"),
            ("te", "trailers, deflate"),
        ] {
            let why = asked(&mut requests, "/file.bin", &[field]).await.expect_err("it is malformed");
            // H3_MESSAGE_ERROR.
            assert!(format!("{why:?}").contains("H3_MESSAGE_ERROR"), "{field:?}: {why:?}");
        }
        for field in [("te", "trailers"), ("te", "Trailers"), ("accept", "*/*")] {
            assert_eq!(asked(&mut requests, "/file.bin", &[field]).await.unwrap(), 200, "{field:?}");
        }
    });
}

/// HEADERS of `GET https://localhost/file.bin`, or of another method by its number in QPACK's static table.
fn head(method: u8) -> Vec<u8> {
    let (authority, path) = (b"localhost", b"/file.bin");
    let mut fields = vec![0, 0, 0xC0 | method, 0xC0 | 23, 0x50, authority.len() as u8];
    fields.extend(authority);
    fields.extend([0x51, path.len() as u8]);
    fields.extend(path);
    [vec![1, fields.len() as u8], fields].concat()
}

#[test]
fn a_request_whose_end_comes_late_is_not_told_to_stop_and_one_with_content_is() {
    const GET: u8 = 17;
    const POST: u8 = 20;
    let scratch = Scratch::new();
    scratch.file("file.bin", 1000);
    let server = Server::start(scratch, &[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let connection = connected(&server).await;
        for (method, expected) in [(GET, None), (POST, Some(0x100))] {
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(&head(method)).await.unwrap();
            assert!(!receive.read_to_end(10_000).await.unwrap().is_empty());
            let stopped = send.stopped();
            let _ = send.finish();
            assert_eq!(stopped.await.unwrap().map(quinn::VarInt::into_inner), expected, "{method}");
        }
    });
}

/// Builds the client by quic-go, if Go and that module are on this host; nothing is fetched for it.
fn quic_go(scratch: &Path) -> Option<std::path::PathBuf> {
    let go = found("go", "golang-go")?;
    let cache = Command::new(&go).args(["env", "GOMODCACHE"]).output().ok()?;
    let cache = String::from_utf8(cache.stdout).ok()?;
    let modules = std::fs::read_dir(Path::new(cache.trim()).join("github.com/quic-go")).into_iter().flatten().flatten();
    let names = modules.filter_map(|entry| entry.file_name().into_string().ok());
    let versions: Vec<String> = names.filter_map(|name| Some(name.strip_prefix("quic-go@")?.to_owned())).collect();
    let Some(version) = versions.iter().max() else {
        println!(
            "skipped: the module github.com/quic-go/quic-go is not in Go's cache (fetch it with `go mod download`)"
        );
        return None;
    };
    let folder = scratch.join("client");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("main.go"), include_str!("programs/quic_go.go")).unwrap();
    let module = format!("module client\n\ngo 1.24\n\nrequire github.com/quic-go/quic-go {version}\n");
    std::fs::write(folder.join("go.mod"), module).unwrap();
    let mut build = Command::new(go);
    build.args(["build", "-o", "client", "."]).current_dir(&folder);
    build.env("GOPROXY", "off").env("GOSUMDB", "off").env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
    let built = build.env("GOCACHE", scratch.join("go-cache")).env("CGO_ENABLED", "0").output().unwrap();
    if !built.status.success() {
        println!("skipped: quic-go cannot be built from Go's cache: {}", String::from_utf8_lossy(&built.stderr));
        return None;
    }
    Some(folder.join("client"))
}

#[test]
#[ignore = "builds a program by Go: cargo xtask test"]
fn quic_go_is_answered_each_time() {
    let scratch = Scratch::new();
    scratch.file("file.bin", 100_000);
    let Some(client) = quic_go(&scratch.path("")) else { return };
    for flags in [&[][..], &["--start", "default"]] {
        let other = Scratch::new();
        other.file("file.bin", 100_000);
        let server = Server::start(other, flags);
        let mut command = scratch.command(&client);
        let ended = Ended::of(command.args(["40", &server.url("file.bin")]).output().unwrap());
        assert_eq!((ended.code, &ended.out[..]), (Some(0), "40 of 40\n"), "{flags:?}: {ended:?}");
    }
}
