//! An honest client beside each attack: how long a fetch over a connection of its own takes, as a multiple of what it takes without an
//! attack. Quiet and busy halves of a round follow each other, so that a machine that is slow for a while is slow in both.
//!
//! Times are compared where `cargo xtask hostile` asks for it, on a machine that has nothing else to do. In any other run of the tests
//! a round is short, and says that the client is served.

use super::{MOST_MEMORY, not_taken_over_http2, not_taken_over_http3, runtime, site, source};
use crate::attack::Attack;
use crate::client::{connected_with, http, open_tls};
use crate::scene::{Server, until};
use headstart_io::clock::Clock;
use hyper::Request;
use hyper::body::Body as _;
use hyper::client::conn::http2::SendRequest;
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
/// How long no fetch may take: so many times the quiet time, and milliseconds more for the scheduler.
const WORST: f64 = 10.0;
const WORST_MORE: f64 = 200.0;
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

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Seconds of a fetch over each version: the median of `fetches`, and the worst.
fn fetched(server: &Server, fetches: usize) -> [(f64, f64); 3] {
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
    took.map(|mut took| (median(&mut took), took[fetches - 1]))
}

/// Rounds with and without the attack; a row for each version.
fn beside(attack: &'static str, begin: impl Fn(&Server, &Runtime) -> Held) {
    let scratch = site();
    scratch.file("page", u32::try_from(PAGE).unwrap());
    let server = Server::start(scratch, &[]);
    let timed = std::env::var_os(TIMED).is_some();
    let (rounds, fetches) = if timed { (ROUNDS, FETCHES) } else { (1, 1) };
    let mut ratios = VERSIONS.map(|_| Vec::new());
    let (mut quiets, mut worst) = (VERSIONS.map(|_| Vec::new()), [0f64; 3]);
    let mut descriptors = 0;
    for _ in 0..rounds {
        let before = server.descriptors();
        let quiet = fetched(&server, fetches);
        let runtime = runtime();
        let held = begin(&server, &runtime);
        let busy = fetched(&server, fetches);
        descriptors = descriptors.max(server.descriptors());
        for nth in 0..VERSIONS.len() {
            let ((quiet, _), (busy, worst_busy)) = (quiet[nth], busy[nth]);
            ratios[nth].push(busy / quiet);
            quiets[nth].push(quiet * 1e3);
            worst[nth] = worst[nth].max(worst_busy * 1e3);
        }
        drop(held);
        // QUIC says that it is over, if it may.
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(200)).await });
        runtime.shutdown_background();
        if timed {
            until("the attack is over", || server.descriptors() <= before + 16);
        }
    }
    let row = Attack { attack, listener: "serve" };
    row.at_most("memory while it lasts, kB", MOST_MEMORY as f64, server.most_memory() as f64);
    row.at_most("descriptors while it lasts", (server.most_descriptors() / 2) as f64, descriptors as f64);
    for (nth, version) in VERSIONS.iter().enumerate() {
        println!("{attack}, {version}: {:.2?}, at worst {:.1} ms", ratios[nth], worst[nth]);
        if timed {
            let fetch = format!("fetch of others over {version}");
            row.at_most(&format!("time of a {fetch}, times its quiet time"), MOST, median(&mut ratios[nth]));
            row.at_most(&format!("slowest {fetch}, ms"), WORST * median(&mut quiets[nth]) + WORST_MORE, worst[nth]);
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

/// 60 connections over every version of HTTP that take 4 kB a second.
async fn slowly_taken(server: &Server) -> Vec<tokio::task::JoinHandle<()>> {
    const SLEEP: Duration = Duration::from_millis(250);
    const WINDOW: u32 = 1024;
    let mut held = Vec::new();
    for n in 0..60 {
        held.push(match n % 3 {
            0 => {
                let mut stream = open_tls(server, source(n), b"http/1.1").await;
                stream.write_all(b"GET /f0 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
                tokio::spawn(async move {
                    let mut bytes = [0; WINDOW as usize];
                    while stream.read_exact(&mut bytes).await.is_ok() {
                        tokio::time::sleep(SLEEP).await;
                    }
                })
            }
            1 => {
                let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
                builder.initial_stream_window_size(WINDOW);
                let stream = TokioIo::new(open_tls(server, source(n), b"h2").await);
                let (mut requests, connection) = builder.handshake::<_, String>(stream).await.unwrap();
                tokio::spawn(connection);
                let request = Request::get("https://localhost/f0").body(String::new()).unwrap();
                let mut body = requests.send_request(request).await.unwrap().into_body();
                tokio::spawn(async move {
                    while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                        tokio::time::sleep(SLEEP).await;
                    }
                    drop(requests);
                })
            }
            _ => {
                let mut requests = http(connected_with(server, source(n), WINDOW).await).await;
                let request = Request::get("https://localhost/f0").body(()).unwrap();
                let mut stream = requests.send_request(request).await.unwrap();
                // It may be answered already.
                let _ = stream.finish().await;
                stream.recv_response().await.unwrap();
                tokio::spawn(async move {
                    while let Ok(Some(_)) = stream.recv_data().await {
                        tokio::time::sleep(SLEEP).await;
                    }
                    drop(requests);
                })
            }
        });
    }
    held
}

/// A connection of the `n`th source that says nothing.
fn silent(server: &Server, n: usize) -> TcpStream {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    // Servers of other tests that start now must not inherit it.
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from((source(n), 0))).unwrap();
    // One that is sent away at once may be told so as early as here.
    let _ = rustix::net::connect(&socket, &server.address);
    socket.into()
}

/// So many connections where times are compared, and a tenth of them otherwise.
fn so_many(most: usize) -> usize {
    if std::env::var_os(TIMED).is_some() { most } else { most / 10 }
}

#[test]
fn ten_thousand_silent_connections() {
    beside("10,000 silent connections from 16 addresses", |server, _| {
        Box::new((0..so_many(10_000)).map(|n| silent(server, n)).collect::<Vec<_>>())
    });
}

/// What is held of a connection of each kind.
type OfEach = (tokio_rustls::client::TlsStream<tokio::net::TcpStream>, SendRequest<String>, super::Asked);

/// A connection of each kind whose client takes next to nothing of what it asks for; `None`: it was told to leave.
async fn hardly_taken(server: &Server, n: usize) -> Option<OfEach> {
    let mut one = open_tls(server, source(n), b"http/1.1").await;
    one.write_all(b"GET /f0 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.ok()?;
    one.read_exact(&mut [0; 1024]).await.ok()?;
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(1);
    let stream = TokioIo::new(open_tls(server, source(n), b"h2").await);
    let (mut two, connection) = builder.handshake::<_, String>(stream).await.ok()?;
    tokio::spawn(connection);
    let request = Request::get("https://localhost/f1").body(String::new()).unwrap();
    let answer = two.send_request(request).await.ok()?;
    // Held, and never read.
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(answer);
    });
    let mut three = http(connected_with(server, source(n), 500).await).await;
    let mut stream = three.send_request(Request::get("https://localhost/f2").body(()).unwrap()).await.ok()?;
    let _ = stream.finish().await;
    Some((one, two, (stream, three)))
}

#[test]
fn ten_thousand_connections_of_every_kind() {
    beside("10,000 connections of every kind from 16 addresses", |server, runtime| {
        let each = so_many(800);
        let silent: Vec<_> = (0..so_many(10_000) - 3 * each).map(|n| silent(server, n)).collect();
        let hardly = runtime.block_on(async {
            let mut hardly = Vec::new();
            for n in 0..each {
                hardly.push(hardly_taken(server, n).await);
            }
            hardly
        });
        assert!(hardly.iter().flatten().count() > each / 2, "those that ask have places before those that are silent");
        Box::new((silent, hardly))
    });
}
