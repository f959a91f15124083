//! Clients that ask for much and take nothing: what they make the server hold is bounded, and others are served beside them.

mod beside;
mod halves;
mod stalls;

use crate::attack::{Attack, raise_files};
use crate::client::{asked, connected, connected_with, http, open_tls};
use crate::scene::{Scratch, Server, until};
use h3::client::SendRequest;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use hyper::Request;
use hyper::body::{Body as _, Bytes};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::{Resource, getrlimit};
use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::pin::Pin;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// What the server may take at most, in kB.
const MOST_MEMORY: u64 = 300_000;
/// Files of the site: no two answers of a connection are of the same.
const FILES: u32 = 128;

fn site() -> Scratch {
    raise_files();
    let scratch = Scratch::new();
    (0..FILES).for_each(|n| drop(scratch.file(&format!("f{n}"), 500_000)));
    scratch
}

/// Which address of loopback the `n`th hostile client has: one of sixteen.
fn source(n: usize) -> IpAddr {
    [127, 0, 1, 1 + (n % 16) as u8].into()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// The server is within its bounds, and serves others: over every version of HTTP.
fn is_well(server: &Server, attack: &'static str) {
    for version in ["1.1", "2", "3"] {
        let ended = server.get(&server.url("f0"), &server.scratch.path("f"), &["--http", version]);
        assert_eq!(ended.objects()[0]["bytes"], 500_000, "HTTP/{version}");
    }
    let (memory, descriptors, limit) = (server.most_memory(), server.descriptors(), server.most_descriptors());
    let row = Attack { attack, listener: "serve" };
    row.at_most("memory, kB", MOST_MEMORY as f64, memory as f64);
    row.at_most("descriptors", (limit / 2) as f64, descriptors as f64);
}

#[test]
fn certificates_and_keys_without_end_are_not_read_until_memory_ends() {
    let server = Server::start(Scratch::new(), &[]);
    let (site, cert) = (server.scratch.path("site"), server.cert());
    let serve = |cert, key| ["serve", site.to_str().unwrap(), "--cert", cert, "--key", key].to_vec();
    let starts = [
        serve("/dev/zero", "/dev/null"),
        serve(&cert, "/dev/zero"),
        vec!["get", "--ca", "/dev/zero", "https://127.0.0.1:1/"],
    ];
    let is_refused = |words: &&Vec<&str>| {
        let ended = server.scratch.headstart(words);
        println!("{words:?}: {ended:?}");
        ended.code == Some(2) && ended.err.contains("/dev/zero: larger than")
    };
    let refused = starts.iter().filter(is_refused).count();
    let row = Attack { attack: "a certificate, a key, an authority without end", listener: "serve, get" };
    row.at_most("starts that are not refused, of 3", 0.0, (starts.len() - refused) as f64);
}

#[test]
fn answers_that_are_not_taken_over_http2_cost_little() {
    let server = Server::start(site(), &[]);
    let runtime = runtime();
    let held = not_taken_over_http2(&server, &runtime);
    is_well(&server, "HTTP/2 answers that are not taken");
    drop((held, runtime));
}

/// 60 connections, each with 128 requests whose answers may have a byte.
fn not_taken_over_http2(server: &Server, runtime: &Runtime) -> Vec<JoinHandle<()>> {
    let held = runtime.block_on(async {
        let mut held = Vec::new();
        for n in 0..60 {
            let stream = open_tls(server, source(n), b"h2").await;
            let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
            builder.initial_stream_window_size(1);
            let (requests, connection) = builder.handshake::<_, String>(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            for n in 0..FILES {
                let request = Request::get(format!("https://localhost/f{n}")).body(String::new()).unwrap();
                let mut requests = requests.clone();
                held.push(tokio::spawn(async move {
                    let answer = requests.send_request(request).await;
                    // Held, and never read.
                    std::future::pending::<()>().await;
                    drop(answer);
                }));
            }
        }
        held
    });
    // Some were told to come back, or to leave; the others wait for credit.
    until("answers are under way", || server.descriptors() > 60);
    held
}

#[test]
fn answers_that_are_not_taken_over_http3_cost_little() {
    let server = Server::start(site(), &[]);
    let runtime = runtime();
    let held = not_taken_over_http3(&server, &runtime);
    is_well(&server, "HTTP/3 answers that are not taken");
    drop((held, runtime));
}

/// What sends a request, and what keeps its connection.
type Asked = (h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>, SendRequest<h3_quinn::OpenStreams, Bytes>);

/// 30 connections, each with 100 requests whose answers may have little more than a head.
fn not_taken_over_http3(server: &Server, runtime: &Runtime) -> Vec<Asked> {
    runtime.block_on(async {
        let mut held = Vec::new();
        for n in 0..30 {
            // Enough for the head of an answer.
            let connection = connected_with(server, source(n), 500).await;
            let mut requests = http(connection).await;
            for n in 0..100 {
                let request = Request::get(format!("https://localhost/f{n}")).body(()).unwrap();
                // A connection may have been told to leave.
                let Ok(mut stream) = requests.send_request(request).await else { break };
                let _ = stream.finish().await;
                // A connection ends with the last that may send requests.
                held.push((stream, requests.clone()));
            }
        }
        // The last has come, so that all before it are under way.
        let _ = held.last_mut().unwrap().0.recv_response().await;
        held
    })
}

/// quinn would keep 1.25 MB of them for each connection, and nothing reads them.
#[test]
fn datagrams_are_not_taken() {
    let server = Server::start(Scratch::new(), &[]);
    let most = runtime().block_on(async { connected(&server).await.max_datagram_size() });
    assert_eq!(most, None);
}

#[test]
fn silent_connections_make_room_for_others() {
    let server = Server::start(site(), &[]);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let silent = 4_300.min(limit.saturating_sub(200)) as usize;
    let mut held: Vec<TcpStream> = (0..silent).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // From the same address as theirs: each newcomer takes the place of the one that has been silent for longest.
    is_well(&server, "silent connections");
    // What moves stays while others come and go.
    let runtime = runtime();
    runtime.block_on(async {
        let mut stream = open_tls(&server, [127, 0, 0, 1].into(), b"http/1.1").await;
        let mut answer = vec![0; 600_000];
        for _ in 0..3 {
            stream.write_all(b"GET /f1 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            stream.read_exact(&mut answer[..500_000]).await.unwrap();
            let more: Vec<_> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
            held.extend(more);
            let _ = stream.read(&mut answer).await.unwrap();
        }
    });
}

#[test]
#[ignore = "takes half a minute: cargo xtask test"]
fn who_takes_nothing_is_left_and_who_takes_little_is_served() {
    let scratch = Scratch::new();
    scratch.file("large", 50_000_000);
    let server = Server::start(scratch, &[]);
    let runtime = runtime();
    runtime.block_on(async {
        let from = IpAddr::from([127, 0, 0, 1]);
        let ask = b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let (mut slow, mut silent) =
            (open_tls(&server, from, b"http/1.1").await, open_tls(&server, from, b"http/1.1").await);
        slow.write_all(ask).await.unwrap();
        silent.write_all(ask).await.unwrap();
        let two = {
            let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
            builder.initial_stream_window_size(1);
            let stream = open_tls(&server, from, b"h2").await;
            let (mut requests, connection) = builder.handshake::<_, String>(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let request = Request::get("https://localhost/large").body(String::new()).unwrap();
            (requests.send_request(request).await.unwrap(), requests)
        };
        let mut requests = http(connected_with(&server, from, 100_000).await).await;
        let mut three = requests.send_request(Request::get("https://localhost/large").body(()).unwrap()).await.unwrap();
        three.finish().await.unwrap();
        three.recv_response().await.unwrap();
        // As slow as a link may be: 4 kB a second. Every buffer on the way is full.
        let clock = Clock::new();
        let mut bytes = [0; 1024];
        while clock.now().since(Instant::ZERO) < Duration::from_secs(40) {
            slow.read_exact(&mut bytes).await.expect("it takes what it can");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let mut body = two.0.into_body();
        let ended = loop {
            match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                Some(Ok(_)) => {}
                other => break other,
            }
        };
        assert!(
            ended.is_some_and(|ended| ended.is_err()) && !two.1.is_closed(),
            "HTTP/2: the answer, not the connection"
        );
        let mut rest = Vec::new();
        let _ = silent.read_to_end(&mut rest).await;
        assert!(rest.len() < 50_000_000, "HTTP/1.1");
        let ended = loop {
            match three.recv_data().await {
                Ok(Some(_)) => {}
                other => break other.map(drop),
            }
        };
        assert!(ended.is_err(), "HTTP/3");
        assert_eq!(asked(&mut requests, "/large", &[]).await.unwrap(), 200, "the connection is as good as before");
        slow.read_exact(&mut bytes).await.expect("it takes what it can");
    });
}

/// A hung client does not hold the server on shutdown: neither one that has said half a word nor one that is idle.
#[test]
fn shutdown_waits_for_no_client_that_wants_nothing() {
    let mut server = Server::start(site(), &["--grace", "3600"]);
    let runtime = runtime();
    let held = runtime.block_on(async {
        let mut requests = http(connected_with(&server, source(0), 1_000_000).await).await;
        let mut half = TcpStream::connect(server.address).unwrap();
        // A handshake record of TLS, of 512 bytes.
        half.write_all(&[22, 3, 1, 2, 0]).unwrap();
        half.set_nonblocking(true).unwrap();
        assert!(half.read(&mut [0]).is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock));
        let mut stream = requests.send_request(Request::get("https://localhost/f0").body(()).unwrap()).await.unwrap();
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap();
        while stream.recv_data().await.unwrap().is_some() {}
        (requests, half)
    });
    server.end();
    assert_eq!(server.ended(), Some(0));
    drop(held);
}
