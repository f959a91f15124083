//! Requests over HTTP/1.1 that never end (slowloris): half a head, or a head and half a body, and then a byte now and then, over TLS.

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
    is_well(&server, attack);
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
