//! An honest client beside each attack: how long a fetch over a connection of its own takes, as a multiple of what it takes without an
//! attack. Quiet and busy halves of a round follow each other, so that a machine that is slow for a while is slow in both.
//!
//! Times are compared where `cargo xtask hostile` asks for it, on a machine that has nothing else to do. In any other run of the tests
//! a round is short, and says that the client is served.

use super::{not_taken_over_http2, not_taken_over_http3, runtime, site, source};
use crate::attack::Attack;
use crate::client::{connected_with, http, open_tls};
use crate::scene::{Server, until};
use headstart_io::clock::Clock;
use hyper::Request;
use hyper::body::Body as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::any::Any;
use std::future::poll_fn;
use std::net::{IpAddr, TcpStream};
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

/// Asks for the comparison of times.
const TIMED: &str = "HEADSTART_HOSTILE";
/// How many times its quiet time a fetch may take beside an attack.
const MOST: f64 = 1.2;
/// Rounds, and fetches of each half of one, where times are compared; otherwise one of each.
const ROUNDS: usize = 7;
const FETCHES: usize = 20;
/// What the honest client fetches.
const PAGE: usize = 20_000;
const HONEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const VERSIONS: [&str; 3] = ["HTTP/1.1", "HTTP/2", "HTTP/3"];

/// What the attackers hold, for as long as the attack goes on.
type Held = Box<dyn Any>;

/// Fetches the page over a new connection.
async fn fetch(server: &Server, version: &str) -> usize {
    match version {
        "HTTP/1.1" => {
            let mut stream = open_tls(server, HONEST, b"http/1.1").await;
            stream.write_all(b"GET /page HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            let head = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            answer.len() - head
        }
        "HTTP/2" => {
            let stream = TokioIo::new(open_tls(server, HONEST, b"h2").await);
            let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
            let (mut requests, connection) = builder.handshake::<_, String>(stream).await.unwrap();
            let carried = tokio::spawn(connection);
            let request = Request::get("https://localhost/page").body(String::new()).unwrap();
            let mut body = requests.send_request(request).await.unwrap().into_body();
            let mut length = 0;
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                length += frame.unwrap().into_data().map_or(0, |data| data.len());
            }
            carried.abort();
            length
        }
        _ => {
            let mut requests = http(connected_with(server, HONEST, 1_000_000).await).await;
            let request = Request::get("https://localhost/page").body(()).unwrap();
            let mut stream = requests.send_request(request).await.unwrap();
            stream.finish().await.unwrap();
            stream.recv_response().await.unwrap();
            let mut length = 0;
            while let Some(piece) = stream.recv_data().await.unwrap() {
                length += hyper::body::Buf::remaining(&piece);
            }
            length
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Seconds of a fetch over each version, the median of `fetches`.
fn fetched(server: &Server, fetches: usize) -> [f64; 3] {
    // A runtime of its own: its turn does not wait for attackers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    let mut took = VERSIONS.map(|_| Vec::new());
    runtime.block_on(async {
        for _ in 0..fetches {
            for (version, took) in VERSIONS.iter().zip(&mut took) {
                let began = clock.now();
                assert_eq!(fetch(server, version).await, PAGE, "{version}");
                took.push(clock.now().since(began).as_secs_f64());
            }
        }
    });
    took.map(median)
}

/// Rounds with and without the attack; a row for each version.
fn beside(attack: &'static str, begin: impl Fn(&Server, &Runtime) -> Held) {
    let scratch = site();
    scratch.file("page", u32::try_from(PAGE).unwrap());
    let server = Server::start(scratch, &[]);
    let timed = std::env::var_os(TIMED).is_some();
    let (rounds, fetches) = if timed { (ROUNDS, FETCHES) } else { (1, 1) };
    let mut ratios = VERSIONS.map(|_| Vec::new());
    for _ in 0..rounds {
        let before = server.descriptors();
        let quiet = fetched(&server, fetches);
        let runtime = runtime();
        let held = begin(&server, &runtime);
        let busy = fetched(&server, fetches);
        for (nth, ratios) in ratios.iter_mut().enumerate() {
            ratios.push(busy[nth] / quiet[nth]);
        }
        drop(held);
        // QUIC says that it is over, if it may.
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(200)).await });
        runtime.shutdown_background();
        if timed {
            until("the attack is over", || server.descriptors() <= before + 16);
        }
    }
    for (version, ratios) in VERSIONS.iter().zip(ratios) {
        println!("{attack}, {version}: {ratios:.2?}");
        if timed {
            let row = Attack { attack, listener: "serve" };
            row.at_most(
                &format!("time of a fetch of others over {version}, times its quiet time"),
                MOST,
                median(ratios),
            );
        }
    }
}

#[test]
fn answers_that_are_not_taken_over_http2() {
    beside("HTTP/2 answers that are not taken", |server, runtime| Box::new(not_taken_over_http2(server, runtime)));
}

#[test]
fn answers_that_are_not_taken_over_http3() {
    beside("HTTP/3 answers that are not taken", |server, runtime| Box::new(not_taken_over_http3(server, runtime)));
}

#[test]
fn slow_readers() {
    beside("slow readers", |server, runtime| Box::new(runtime.block_on(slowly_taken(server))));
}

/// 60 connections over HTTP/1.1 and HTTP/2 that take 4 kB a second, each of several answers.
async fn slowly_taken(server: &Server) -> Vec<tokio::task::JoinHandle<()>> {
    let mut held = Vec::new();
    for n in 0..60 {
        let mut stream = open_tls(server, source(n), b"http/1.1").await;
        stream.write_all(b"GET /f0 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        held.push(tokio::spawn(async move {
            let mut bytes = [0; 1024];
            while stream.read_exact(&mut bytes).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }));
    }
    held
}

#[test]
fn ten_thousand_silent_connections() {
    beside("10,000 silent connections from 16 addresses", |server, _| {
        let most = if std::env::var_os(TIMED).is_some() { 10_000 } else { 1_000 };
        let silent = |n| -> TcpStream {
            use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
            // Servers of other tests that start now must not inherit it.
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            rustix::net::bind(&socket, &std::net::SocketAddr::from((source(n), 0))).unwrap();
            // One that is sent away at once may be told so as early as here.
            let _ = rustix::net::connect(&socket, &server.address);
            socket.into()
        };
        Box::new((0..most).map(silent).collect::<Vec<_>>())
    });
}
