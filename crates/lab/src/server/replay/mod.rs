//! Recorded pages, replayed: every host of a recording on its own addresses with its own certificate.
//!
//! An answer is sent as it was recorded: over HTTP/1.1 byte for byte, its status line, its fields, its body with whatever
//! compression and chunks it has; over HTTP/2 the same content. Only what a connection needs is added: a length where there
//! is none, and, where what was recorded plain goes over TLS, the wish that the page's own plain addresses be asked
//! over TLS too (`upgrade-insecure-requests`), without which it could not be replayed there; origins that may read it
//! are then over TLS. A request that has no answer gets 404 and is counted by its address. HTTP/2 is offered by the
//! hosts that are said to speak it (ALPN), HTTP/3 on the same number over UDP; the answers of a host that speaks HTTP/3
//! say so (Alt-Svc, RFC 7838). A thread a connection over TCP, one for all over QUIC. What was no hit of the cache that
//! was talked to ([`crate::page::recording::cache`]) begins as much later as what is behind it is away. Nothing outside
//! the recording is read.

mod http1;
mod http2;
mod http3;
mod multiplexed;

use crate::lock;
use crate::page::recording::{Answers, Exchange, Message, RequestKey};
use headstart_io::clock::Clock;
use rustls::{ServerConfig, StreamOwned};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// A connection that says nothing for so long is closed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Addresses without an answer that are remembered.
const MOST_UNANSWERED: usize = 1000;
/// What pages over TLS ask browsers for (CSP, "upgrade-insecure-requests").
const UPGRADE: &str = "upgrade-insecure-requests";
/// What hosts that speak HTTP/3 say in their answers, as servers do: on the same number, for a day.
const ALTERNATIVE: &str = "h3=\":443\"; ma=86400";

/// What was asked for so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were not.
    pub missing: u64,
    /// The first of those that were not, by method and address.
    pub unanswered: Vec<String>,
}

impl Served {
    /// Requests that should have had an answer: all but those for an icon, which browsers ask for by themselves and no page here has.
    pub fn wanted(&self) -> u64 {
        let icons = self.unanswered.iter().filter(|u| u.ends_with("/favicon.ico")).count() as u64;
        self.answered + self.missing - icons.min(self.missing)
    }
}

#[derive(Debug)]
struct ReplayState {
    clock: Clock,
    answers: Answers,
    tls: Tls,
    connections: AtomicU64,
    answered: AtomicU64,
    missing: AtomicU64,
    unanswered: Mutex<Vec<String>>,
}

/// How servers speak TLS, which of them HTTP/2, and which HTTP/3.
#[derive(Clone, Debug)]
pub struct Tls {
    plain: Arc<ServerConfig>,
    multiplexed: Arc<ServerConfig>,
    names: BTreeSet<String>,
    over_quic: BTreeSet<String>,
}

impl Tls {
    /// By `config`; the hosts called `multiplexed` offer HTTP/2, and HTTP/1.1 to clients without it.
    pub fn new(config: &ServerConfig, multiplexed: BTreeSet<String>) -> Self {
        let offering = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
            Arc::new(config)
        };
        let (names, over_quic) = (multiplexed, BTreeSet::new());
        Self { plain: offering(&[b"http/1.1"]), multiplexed: offering(&[b"h2", b"http/1.1"]), names, over_quic }
    }

    /// The same; hosts called so (in lower case) say that they speak HTTP/3 too. Where, [`ReplayServer::listen_quic`] says.
    pub fn over_quic(self, names: BTreeSet<String>) -> Self {
        Self { over_quic: names, ..self }
    }

    /// What `host` (which may come with a port) says of other ways to it.
    fn alternative(&self, host: &str) -> Option<&'static str> {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        self.over_quic.contains(&name.to_ascii_lowercase()).then_some(ALTERNATIVE)
    }

    fn of(&self, name: Option<&str>) -> Arc<ServerConfig> {
        let multiplexed = name.is_some_and(|name| self.names.contains(&name.to_ascii_lowercase()));
        if multiplexed { self.multiplexed.clone() } else { self.plain.clone() }
    }
}

impl ReplayState {
    fn new(answers: Answers, tls: Tls) -> Self {
        let (connections, answered, missing, unanswered) = Default::default();
        Self { clock: Clock::new(), answers, tls, connections, answered, missing, unanswered }
    }

    /// Waits until an answer has come to the cache that was asked.
    async fn come(&self, found: Option<&Exchange>) {
        let behind = found.map_or(Duration::ZERO, Exchange::behind);
        if !behind.is_zero() {
            tokio::time::sleep(behind).await;
        }
    }

    /// The answer to a request, counted.
    fn find(&self, asked: RequestKey<'_>) -> Option<&Exchange> {
        let found = self.answers.find(asked);
        if found.is_some() {
            self.answered.fetch_add(1, Ordering::Relaxed);
            return found;
        }
        self.missing.fetch_add(1, Ordering::Relaxed);
        let mut list = lock(&self.unanswered);
        if list.len() < MOST_UNANSWERED {
            list.push(format!("{} {}{}", asked.method, asked.host, asked.target));
        }
        None
    }
}

/// Whether it is a page, which may name plain addresses.
fn is_page(recorded: &Message) -> bool {
    recorded.field("content-type").is_some_and(|t| t.to_ascii_lowercase().starts_with(b"text/html"))
}

/// The value of a field of an answer that was recorded plain and is sent over TLS: origins that may read it are over
/// TLS, too.
fn over_tls<'v>(name: &[u8], value: &'v [u8]) -> Cow<'v, [u8]> {
    match value.strip_prefix(b"http://") {
        Some(origin) if name.eq_ignore_ascii_case(b"access-control-allow-origin") => {
            [b"https://".as_slice(), origin].concat().into()
        }
        _ => value.into(),
    }
}

/// A running server; it takes no more connections when dropped.
pub struct ReplayServer {
    shared: Arc<ReplayState>,
    listeners: Vec<(TcpListener, JoinHandle<()>)>,
    quic: Option<http3::Listeners>,
}

impl ReplayServer {
    /// A server of these answers, that listens nowhere yet.
    pub fn new(answers: Answers, tls: Tls) -> Self {
        Self { shared: Arc::new(ReplayState::new(answers, tls)), listeners: Vec::new(), quic: None }
    }

    /// Listens on `port` of `ip`, in the network namespace of the calling thread: for TLS, or for plain HTTP/1.1.
    pub fn listen(&mut self, ip: IpAddr, port: u16, over_tls: bool) -> io::Result<()> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{ip} port {port}: {e}"));
        let listener = TcpListener::bind((ip, port)).map_err(named)?;
        self.serve(listener, over_tls).map_err(named)
    }

    /// Serves the clients of `listener`, a socket that the caller has made and configured.
    pub fn serve(&mut self, listener: TcpListener, over_tls: bool) -> io::Result<()> {
        let waiting = listener.try_clone()?;
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("replay".into()).spawn(move || {
            // It fails when the server ends, and only then: see `drop`.
            while let Ok((socket, _)) = waiting.accept() {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let shared = shared.clone();
                // Without a thread the connection closes, which the program sees.
                let _ = std::thread::Builder::new().name("replay".into()).spawn(move || {
                    // What goes wrong on a connection is for the program at its other end to tell.
                    let _ = if over_tls { secure(socket, shared) } else { plain(socket, &shared) };
                });
            }
        })?;
        self.listeners.push((listener, thread));
        Ok(())
    }

    /// Listens on UDP `port` of each of `ips`, in the network namespace of the calling thread, for HTTP/3.
    pub fn listen_quic(&mut self, ips: &[IpAddr], port: u16) -> io::Result<()> {
        self.quic = Some(http3::Listeners::start(ips, port, &self.shared)?);
        Ok(())
    }

    /// What was asked for so far.
    pub fn served(&self) -> Served {
        let ReplayState { connections, answered, missing, unanswered, .. } = &*self.shared;
        Served {
            connections: connections.load(Ordering::Relaxed),
            answered: answered.load(Ordering::Relaxed),
            missing: missing.load(Ordering::Relaxed),
            unanswered: lock(unanswered).clone(),
        }
    }
}

impl Drop for ReplayServer {
    fn drop(&mut self) {
        for (listener, thread) in self.listeners.drain(..) {
            // Wakes the thread from accept(2).
            if rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).is_ok() {
                let _ = thread.join();
            }
        }
    }
}

fn plain(mut socket: TcpStream, shared: &ReplayState) -> io::Result<()> {
    prepare(&socket)?;
    http1::serve(&mut socket, shared, false)
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)
}

fn secure(socket: TcpStream, shared: Arc<ReplayState>) -> io::Result<()> {
    prepare(&socket)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let stream = runtime.block_on(async { tokio::time::timeout(PATIENCE, greet(socket, &shared.tls)).await })??;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        return runtime.block_on(http2::serve(stream, shared)).map_err(io::Error::other);
    }
    let (socket, tls) = stream.into_inner();
    let socket = socket.into_std()?;
    socket.set_nonblocking(false)?;
    let mut stream = StreamOwned::new(tls, socket);
    let served = http1::serve(&mut stream, &shared, true);
    stream.conn.send_close_notify();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut stream.sock)?;
    }
    served
}

/// The handshake of TLS, as the host that is asked for has it.
async fn greet(socket: TcpStream, tls: &Tls) -> io::Result<TlsStream<tokio::net::TcpStream>> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpStream::from_std(socket)?;
    let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), socket).await?;
    let config = tls.of(start.client_hello().server_name());
    start.into_stream(config).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::recording::Scheme;
    use crate::server::authority::Authority;

    /// A server of one answer, to `GET /x?t=1` of `a.example`, with these fields and this body.
    pub(super) fn shared(said: &[(&str, &str)], body: &[u8]) -> ReplayState {
        let fields =
            |list: &[(&str, &str)]| list.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
        let exchange = Exchange {
            ip: "198.19.0.1".parse().unwrap(),
            port: 80,
            scheme: Scheme::Http,
            request: Message {
                first_line: b"GET /x?t=1 HTTP/1.1".to_vec(),
                fields: fields(&[("Host", "a.example")]),
                body: Vec::new(),
            },
            response: Message { first_line: b"HTTP/1.1 200 Fine".to_vec(), fields: fields(said), body: body.to_vec() },
        };
        let folder = tempfile::tempdir().unwrap();
        let config = Authority::create(folder.path()).unwrap().servers(&["a.example".into()]).unwrap();
        ReplayState::new(Answers::new(vec![exchange]), Tls::new(&config, BTreeSet::new()))
    }

    /// A recorded request as it went over the wire.
    fn asked(exchange: &Exchange) -> Vec<u8> {
        let Message { first_line, fields, body } = &exchange.request;
        let mut wire = [first_line.as_slice(), b"\r\n"].concat();
        // The body is there whole, whatever the field said that announced it.
        let framing = |name: &[u8]| [b"content-length".as_slice(), b"transfer-encoding", b"expect"].contains(&name);
        for (name, value) in fields.iter().filter(|(name, _)| !framing(&name.to_ascii_lowercase())) {
            wire.extend([name.as_slice(), b": ", value, b"\r\n"].concat());
        }
        wire.extend(format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes());
        wire.extend(body);
        wire
    }

    /// Each request that was recorded, asked in the order of the recording, so that repeated ones get their answers in turn.
    #[test]
    fn every_recorded_request_of_the_labs_pages_gets_the_answer_that_was_recorded_byte_for_byte() {
        let (mut chunked, mut compressed, mut redirects, mut all) = (0, 0, 0, 0);
        for site in crate::page::recording::tests::sites() {
            let (exchanges, broken) = crate::page::recording::read(&site).unwrap();
            assert!(broken.is_empty(), "{broken:?}");
            let tls = shared(&[], b"").tls;
            let shared = ReplayState::new(Answers::new(exchanges.clone()), tls);
            let mut same = 0;
            for exchange in &exchanges {
                let Message { first_line, fields, body } = &exchange.response;
                let said = http1::tests::answer(&shared, asked(exchange));
                let mut head = [first_line.as_slice(), b"\r\n"].concat();
                fields.iter().for_each(|(n, v)| head.extend([n.as_slice(), b": ", v, b"\r\n"].concat()));
                let bodiless =
                    matches!(exchange.response.status(), Some(204 | 304)) || exchange.request.word(0) == b"HEAD";
                let whole = said.starts_with(&head) && (bodiless || said.ends_with(body));
                same += usize::from(whole);
                let text = |name: &str| exchange.response.field(name).unwrap_or_default().to_ascii_lowercase();
                // Over HTTP/2 and HTTP/3: the content without its chunks, still compressed.
                let (_, content) = multiplexed::answer(Some(exchange), None).unwrap();
                if text("transfer-encoding") == b"chunked" && !bodiless {
                    chunked += 1;
                    assert!(content.len() < body.len(), "{first_line:?}");
                } else if !bodiless {
                    assert_eq!(&content, body);
                }
                if text("content-encoding") == b"gzip" && !content.is_empty() {
                    compressed += 1;
                    assert!(content.starts_with(&[0x1f, 0x8b]), "{first_line:?}");
                }
                redirects += usize::from(exchange.response.field("location").is_some());
            }
            all += exchanges.len();
            let share = 100.0 * same as f64 / exchanges.len() as f64;
            println!("{}: {share:.1} % of {} requests answered as recorded", site.display(), exchanges.len());
            assert!(share >= 95.0, "{}: {share:.1} % of {}", site.display(), exchanges.len());
        }
        println!("{all} requests: {chunked} answers in chunks, {compressed} compressed, {redirects} redirects");
    }

    #[test]
    fn plain_origins_that_may_read_an_answer_are_over_tls_where_it_is() {
        let origin = b"http://www.a.example".as_slice();
        assert_eq!(*over_tls(b"access-control-allow-origin", origin), *b"https://www.a.example");
        assert_eq!(*over_tls(b"Access-Control-Allow-Origin", b"*"), *b"*");
        assert_eq!(*over_tls(b"Location", origin), *origin);
    }

    #[test]
    fn the_name_that_is_asked_for_decides_who_offers_http_2() {
        let config = shared(&[], b"").tls.plain;
        let tls = Tls::new(&config, BTreeSet::from(["b.example".to_owned()]));
        let offered = |name| tls.of(name).alpn_protocols.clone();
        assert_eq!(offered(Some("B.example")), [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert_eq!(offered(Some("a.example")), [b"http/1.1".to_vec()]);
        assert_eq!(offered(None), [b"http/1.1".to_vec()]);
    }
}
