//! Thousands of busy connections of HTTP/2 that cost their sender little: frames made before, answers that are not decrypted. How long does a
//! client of another address wait beside them?
//!
//! The flood has the same processors, so three times are taken: quiet; beside a flood of *another* server, which is what the machine's
//! business costs; and beside a flood of this one. What the server owes is the third in relation to the second.

use crate::attack::raise_files;
use crate::client::{open_tls, tls};
use crate::scene::{Scratch, Server};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Connections of the flood, from sixteen addresses: nearly all places of the server.
const CONNECTIONS: usize = 4_000;
/// Requests of a connection that are not answered yet; the server allows 128.
const AHEAD: u64 = 48;
/// Bytes of an answer at least: two frames, and what TLS adds.
const ANSWER: u64 = 100;
/// Times that are taken in each state.
const TIMES: usize = 31;

/// A connection of the flood.
struct Busy {
    tls: rustls::ClientConnection,
    tcp: TcpStream,
    /// The next stream, and bytes that have come.
    next: u32,
    heard: u64,
    asked: u64,
}

impl Busy {
    fn new(server: &Server, config: &Arc<rustls::ClientConfig>, n: usize) -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 1, 1 + (n % 16) as u8], 0))).unwrap();
        connect(&socket, &server.address).unwrap();
        let mut tcp = TcpStream::from(socket);
        let mut tls = rustls::ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut tcp).unwrap();
        }
        // The preface, no settings, credit for all that will ever come, and the acknowledgement of the server's settings.
        let mut first = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
        first.extend([0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xfe, 0, 0]);
        first.extend([0, 0, 0, 4, 1, 0, 0, 0, 0]);
        tls.writer().write_all(&first).unwrap();
        tls.complete_io(&mut tcp).unwrap();
        tcp.set_nonblocking(true).unwrap();
        Self { tls, tcp, next: 1, heard: 0, asked: 0 }
    }

    /// Takes what has come, as it is, and asks for as much more; false when it is over.
    fn goes_on(&mut self, bytes: &mut [u8]) -> bool {
        loop {
            match self.tcp.read(bytes) {
                Ok(0) => return false,
                Ok(len) => self.heard += len as u64,
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        let mut frames = Vec::new();
        while self.asked < self.heard / ANSWER + AHEAD {
            // HEADERS, END_STREAM and END_HEADERS: GET https://localhost/s, without a table (RFC 7541).
            const BLOCK: &[u8] = b"\x82\x87\x01\x09localhost\x04\x02/s";
            frames.extend([0, 0, BLOCK.len() as u8, 1, 5]);
            frames.extend(self.next.to_be_bytes());
            frames.extend(BLOCK);
            (self.next, self.asked) = (self.next + 2, self.asked + 1);
        }
        let _ = self.tls.writer().write_all(&frames);
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.tcp) {
                Ok(_) => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        true
    }
}

/// A flood of `server`, while `during` goes on; requests a second that it asked, and connections that were left at the end.
fn beside<T>(server: &Server, during: impl FnOnce() -> T) -> (T, f64, usize) {
    let config = Arc::new(tls(server, vec![b"h2".to_vec()]));
    let mut flood: Vec<Busy> = (0..CONNECTIONS).map(|n| Busy::new(server, &config, n)).collect();
    let (over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            let mut bytes = vec![0; 64 * 1024];
            while !over.load(Ordering::Relaxed) {
                flood.retain_mut(|busy| busy.goes_on(&mut bytes));
                asked.store(flood.iter().map(|busy| busy.asked).sum(), Ordering::Relaxed);
            }
            flood.len()
        });
        while asked.load(Ordering::Relaxed) < (CONNECTIONS as u64) * AHEAD {
            std::thread::yield_now();
        }
        let (clock, before) = (Clock::new(), asked.load(Ordering::Relaxed));
        let told = during();
        let took = clock.now().since(Instant::ZERO).as_secs_f64();
        let rate = (asked.load(Ordering::Relaxed) - before) as f64 / took;
        over.store(true, Ordering::Relaxed);
        (told, rate, flooding.join().unwrap())
    })
}

/// The median time of a visit: a new connection, and 100 kB over HTTP/1.1.
fn visits(server: &Server) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    let visit = async || {
        let began = clock.now();
        let mut stream = open_tls(server, [127, 0, 0, 1].into(), b"http/1.1").await;
        stream.write_all(b"GET /f HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > 100_000, "{}", answer.len());
        clock.now().since(began)
    };
    let mut times: Vec<Duration> = (0..TIMES).map(|_| runtime.block_on(visit())).collect();
    times.sort();
    times[TIMES / 2]
}

fn site() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("f", 100_000);
    scratch.file("s", 1);
    scratch
}

#[test]
#[ignore = "a measurement of half a minute: cargo test -p headstart --test serve busy -- --ignored --nocapture"]
fn a_client_of_another_address_beside_thousands_of_busy_connections() {
    raise_files();
    let (server, other) = (Server::start(site(), &[]), Server::start(site(), &[]));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let quiet = ms(visits(&server));
    let (elsewhere, rate, left) = beside(&other, || ms(visits(&server)));
    println!(
        "quiet {quiet:.1} ms; beside {left} busy connections of another server, {rate:.0} requests/s: {elsewhere:.1} ms"
    );
    drop(other);
    let (here, rate, left) = beside(&server, || ms(visits(&server)));
    println!(
        "beside {left} of this server, {rate:.0} requests/s: {here:.1} ms; {:.2} times the machine's share",
        here / elsewhere
    );
    assert!(left > CONNECTIONS / 2, "{left} connections were there to the end");
}
