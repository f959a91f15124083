//! Requests that never end (slowloris), over TLS: half a head, or a head and half a body, and then a byte or a frame now and then.

use super::{is_well, runtime, site, source};
use crate::attack::Attack;
use crate::client::open_tls;
use crate::scene::Server;
use headstart_core::time::Instant;
use headstart_io::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Connections of an attack.
const CONNECTIONS: usize = 200;
/// Between two bytes of a request.
const NOW_AND_THEN: Duration = Duration::from_millis(500);

/// Begins requests with `begun`, and goes on by bytes that end nothing, until each is ended by the server.
fn never_ends(attack: &'static str, begun: &'static str) {
    let server = Server::start(site(), &[]);
    let (runtime, open) = (runtime(), Arc::new(AtomicUsize::new(CONNECTIONS)));
    runtime.block_on(async {
        for n in 0..CONNECTIONS {
            let mut stream = open_tls(&server, source(n), b"http/1.1").await;
            stream.write_all(begun.as_bytes()).await.unwrap();
            let open = Arc::clone(&open);
            tokio::spawn(async move {
                let (mut answer, mut request) = tokio::io::split(stream);
                let drips = async {
                    while request.write_all(b"x").await.is_ok() && request.flush().await.is_ok() {
                        tokio::time::sleep(NOW_AND_THEN).await;
                    }
                };
                let mut room = [0; 4096];
                let ends = async { while answer.read(&mut room).await.is_ok_and(|length| length > 0) {} };
                tokio::select! {
                    () = drips => {}
                    () = ends => {}
                }
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    all_end(&server, attack, &open);
}

/// The server is well beside them, ends them all and has their descriptors back.
fn all_end(server: &Server, attack: &'static str, open: &AtomicUsize) {
    is_well(server, attack);
    let clock = Clock::new();
    // Ten seconds for a head; here as long as the slowest machine may take.
    while open.load(Ordering::SeqCst) > 0 && clock.now() < Instant::from_millis(60_000) {
        clock.sleep(Duration::from_millis(50));
    }
    let row = Attack { attack, listener: "serve" };
    row.at_most("connections that are never ended", 0.0, open.load(Ordering::SeqCst) as f64);
    let clock = Clock::new();
    while server.descriptors() >= CONNECTIONS as u64 / 2 {
        assert!(clock.now() < Instant::from_millis(60_000), "descriptors are not given back: {:?}", server.kinds());
        clock.sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "takes ten seconds: cargo xtask test"]
fn a_head_that_never_ends_is_ended() {
    never_ends("heads over HTTP/1.1 that never end", "GET /f0 HTTP/1.1\r\nhost: localhost\r\nx-more: ");
}

#[test]
#[ignore = "takes ten seconds: cargo xtask test"]
fn a_body_that_never_ends_is_not_waited_for() {
    let begun = "POST /f0 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    never_ends("bodies over HTTP/1.1 that never end", begun);
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;

/// Begins a request of HTTP/2 whose head never ends, until the server ends the connection: its frames end nothing, or are not ended
/// themselves, or only its PINGs are answered.
async fn half_a_head(mut stream: tokio_rustls::client::TlsStream<tokio::net::TcpStream>, way: usize) {
    // GET, https, /.
    let head = [0x82, 0x87, 0x84];
    let mut begun = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    begun.extend(frame(SETTINGS, 0, 0, &[]));
    begun.extend(match way {
        0 => frame(HEADERS, END_STREAM, 1, &head)[..10].to_vec(),
        _ => frame(HEADERS, END_STREAM, 1, &head),
    });
    stream.write_all(&begun).await.unwrap();
    // One byte of a head: an indexed field.
    let drip = if way == 1 { frame(CONTINUATION, 0, 1, &[0x90]) } else { Vec::new() };
    let mut came = [0; 9];
    let mut have = 0;
    loop {
        let read = tokio::time::timeout(NOW_AND_THEN, stream.read(&mut came[have..])).await;
        match read {
            Ok(Ok(length @ 1..)) => have += length,
            Ok(_) => return,
            Err(_) => {
                if stream.write_all(&drip).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
            }
        }
        if have < came.len() {
            continue;
        }
        let mut payload = vec![0; usize::from(came[1]) << 8 | usize::from(came[2])];
        if stream.read_exact(&mut payload).await.is_err() {
            return;
        }
        if way == 2 && came[3] == PING && came[4] & ACK == 0 {
            let _ = stream.write_all(&frame(PING, ACK, 0, &payload)).await;
        }
        have = 0;
    }
}

#[test]
#[ignore = "takes half a minute: cargo xtask test"]
fn a_head_of_http2_that_never_ends_is_ended() {
    let server = Server::start(site(), &[]);
    let (runtime, open) = (runtime(), Arc::new(AtomicUsize::new(CONNECTIONS)));
    runtime.block_on(async {
        for n in 0..CONNECTIONS {
            let stream = open_tls(&server, source(n), b"h2").await;
            let open = Arc::clone(&open);
            tokio::spawn(async move {
                half_a_head(stream, n % 3).await;
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    all_end(&server, "heads over HTTP/2 that never end", &open);
}
