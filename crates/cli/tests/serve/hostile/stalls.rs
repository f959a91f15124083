//! Answers that are not taken, on a connection that fetches something else now and then: each ends by itself. And answers that wait for
//! each other on a slow link: none ends.

use super::{FILES, is_well, runtime, site, source};
use crate::attack::Attack;
use crate::client::{connected_by, connected_with, http, open_tls, open_tls_over};
use crate::scene::{Scratch, Server};
use h2::client::SendRequest;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use hyper::Request;
use hyper::body::Bytes;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, UdpSocket};

/// As long as the slowest machine may take; twenty seconds and a look on any other.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two fetches.
const NOW_AND_THEN: Duration = Duration::from_secs(2);
/// Bytes a second of a slow link.
const SLOW: usize = 8_000;

/// Files of half a megabyte, some of 3 kB, and a tiny one.
fn files() -> Scratch {
    let scratch = site();
    (0..FILES).for_each(|n| drop(scratch.file(&format!("s{n}"), 3_000)));
    scratch.file("tiny", 50);
    scratch
}

fn get(path: &str) -> Request<()> {
    Request::get(format!("https://localhost{path}")).body(()).unwrap()
}

/// HTTP/2 over `stream`, each of whose streams has credit for `window` bytes.
async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, window: u32) -> SendRequest<Bytes> {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(16_000_000);
    let (requests, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    requests
}

/// All of an answer, for which credit is given.
async fn taken(requests: &mut SendRequest<Bytes>, path: &str) -> Result<usize, h2::Error> {
    let mut body = requests.send_request(get(path), true)?.0.await?.into_body();
    let mut length = 0;
    while let Some(piece) = body.data().await {
        let piece = piece?;
        length += piece.len();
        let _ = body.flow_control().release_capacity(piece.len());
    }
    Ok(length)
}

/// Answers that are not over yet.
type Open = Arc<AtomicUsize>;

/// Whether every answer is over before patience is, while `fetch` works now and then.
async fn end(open: &Open, mut fetch: impl AsyncFnMut()) -> usize {
    let clock = Clock::new();
    while open.load(Ordering::SeqCst) > 0 && clock.now().since(Instant::ZERO) < PATIENCE {
        fetch().await;
        tokio::time::sleep(NOW_AND_THEN).await;
    }
    open.load(Ordering::SeqCst)
}

fn row(attack: &'static str, left: usize) {
    Attack { attack, listener: "serve" }.at_most("answers that are never ended", 0.0, left as f64);
}

#[test]
#[ignore = "takes half a minute: cargo xtask test"]
fn stalled_streams_end_beside_one_that_fetches_over_http2() {
    let server = Server::start(files(), &[]);
    let left = runtime().block_on(async {
        let mut requests = http2(open_tls(&server, source(0), b"h2").await, 1).await;
        let open = Open::new(AtomicUsize::new(127));
        for n in 0..127 {
            requests = requests.ready().await.unwrap();
            // Of which the library keeps nothing, and of which it keeps all.
            let path = if n % 2 == 0 { format!("/f{n}") } else { format!("/s{n}") };
            let answer = requests.send_request(get(&path), true).unwrap().0;
            let open = open.clone();
            tokio::spawn(async move {
                let mut body = answer.await.unwrap().into_body();
                let ended = loop {
                    match body.data().await {
                        Some(Ok(_)) => {}
                        other => break other,
                    }
                };
                assert!(ended.is_some_and(|ended| ended.is_err()), "less is never passed off as all");
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
        end(&open, async || assert_eq!(taken(&mut requests, "/tiny").await.unwrap(), 50)).await
    });
    let attack = "streams of HTTP/2 that stall beside one that fetches";
    row(attack, left);
    is_well(&server, attack);
}

#[test]
#[ignore = "takes half a minute: cargo xtask test"]
fn stalled_streams_end_beside_one_that_fetches_over_http3() {
    let server = Server::start(files(), &[]);
    let left = runtime().block_on(async {
        // Enough for the head of an answer.
        let mut requests = http(connected_with(&server, source(0), 500).await).await;
        let mut held = Vec::new();
        for n in 0..100 {
            let mut stream = requests.send_request(get(&format!("/f{n}"))).await.unwrap();
            let _ = stream.finish().await;
            stream.recv_response().await.unwrap();
            held.push(stream);
        }
        // What is under way keeps its file open.
        let open = Open::new(AtomicUsize::new(held.len()));
        let fetch = async || {
            // More than may be signs of life.
            for _ in 0..10 {
                let mut stream = requests.send_request(get("/tiny")).await.unwrap();
                let _ = stream.finish().await;
                stream.recv_response().await.unwrap();
                while stream.recv_data().await.unwrap().is_some() {}
            }
            let files = server.kinds().iter().filter(|(of, _)| of.contains("/site/f")).map(|(_, count)| count).sum();
            open.store(files, Ordering::SeqCst);
        };
        let left = end(&open, fetch).await;
        for mut stream in held.into_iter().take(if left == 0 { 100 } else { 0 }) {
            while let Ok(piece) = stream.recv_data().await {
                assert!(piece.is_some(), "less is never passed off as all");
            }
        }
        left
    });
    let attack = "streams of HTTP/3 that stall beside one that fetches";
    row(attack, left);
    is_well(&server, attack);
}

/// What a client at the end of a slow link has of a connection over TCP: the kernel takes next to nothing for it.
async fn slow_tcp(server: &Server) -> tokio::io::DuplexStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let (mut from, mut to) = socket.connect(server.address).await.unwrap().into_split();
    let (near, far) = tokio::io::duplex(1024);
    let (mut asked, mut answers) = tokio::io::split(far);
    tokio::spawn(async move { tokio::io::copy(&mut asked, &mut to).await });
    tokio::spawn(async move {
        let mut bytes = [0; SLOW / 20];
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            tokio::time::sleep(Duration::from_secs(1) * length as u32 / SLOW as u32).await;
            if answers.write_all(&bytes[..length]).await.is_err() {
                break;
            }
        }
    });
    near
}

/// Where a server is reached by UDP over a slow link with a short queue.
async fn slow_udp(server: &Server) -> SocketAddr {
    let (near, far) =
        (Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap()), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    far.connect(server.address).await.unwrap();
    let (address, far) = (near.local_addr().unwrap(), Arc::new(far));
    let (client, mut clients) = tokio::sync::watch::channel(None);
    let (queue, mut queued) = tokio::sync::mpsc::channel::<Vec<u8>>(16);
    let (from_client, to_server) = (near.clone(), far.clone());
    tokio::spawn(async move {
        let mut bytes = [0; 65_536];
        while let Ok((length, from)) = from_client.recv_from(&mut bytes).await {
            client.send_replace(Some(from));
            let _ = to_server.send(&bytes[..length]).await;
        }
    });
    tokio::spawn(async move {
        let mut bytes = [0; 65_536];
        while let Ok(length) = far.recv(&mut bytes).await {
            // A full queue drops it.
            let _ = queue.try_send(bytes[..length].to_vec());
        }
    });
    tokio::spawn(async move {
        let to: SocketAddr = clients.wait_for(Option::is_some).await.unwrap().unwrap();
        while let Some(datagram) = queued.recv().await {
            tokio::time::sleep(Duration::from_secs(1) * datagram.len() as u32 / SLOW as u32).await;
            let _ = near.send_to(&datagram, to).await;
        }
    });
    address
}

#[test]
#[ignore = "takes a minute: cargo xtask test"]
fn answers_that_wait_for_each_other_on_a_slow_link_are_not_ended() {
    let server = Server::start(files(), &[]);
    let minute = Duration::from_secs(50);
    runtime().block_on(async {
        let two = async {
            let requests = http2(open_tls_over(&server, slow_tcp(&server).await, b"h2").await, 65_535).await;
            let all = (0..8).map(|n| {
                let mut requests = requests.clone();
                tokio::spawn(tokio::time::timeout(minute, async move { taken(&mut requests, &format!("/f{n}")).await }))
            });
            for one in all.collect::<Vec<_>>() {
                // 400 kB come in this time, not 4 MB.
                let ended = one.await.unwrap();
                assert!(ended.is_err(), "it is ended: {ended:?}");
            }
        };
        let three = async {
            let connection =
                connected_by(&server, Ipv4Addr::LOCALHOST.into(), slow_udp(&server).await, 1_000_000).await;
            let requests = http(connection).await;
            let all = (0..8).map(|n| {
                let mut requests = requests.clone();
                tokio::spawn(tokio::time::timeout(minute, async move {
                    let mut stream = requests.send_request(get(&format!("/f{n}"))).await.unwrap();
                    let _ = stream.finish().await;
                    stream.recv_response().await.unwrap();
                    while stream.recv_data().await.unwrap().is_some() {}
                }))
            });
            for one in all.collect::<Vec<_>>() {
                let ended = one.await.unwrap();
                assert!(ended.is_err(), "it is ended: {ended:?}");
            }
        };
        tokio::join!(two, three);
    });
}
