//! Recorded pages, replayed: every host of a recording on its own addresses with its own certificate, port 443.
//!
//! An answer is sent as it was recorded, byte for byte: its status line, its fields, its body with whatever compression and
//! chunks it has. Only what a connection needs is added: a length where there is none, and over TLS the wish that the page's
//! own plain addresses be asked over TLS too (`upgrade-insecure-requests`), without which a recording of plain HTTP could not
//! be replayed there. A request that has no answer gets 404 and is counted by its address. HTTP/1.1; a thread a
//! connection. Nothing outside the recording is read.

use super::files::more;
use crate::page::recording::{Answers, Asked, Message};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const PORT: u16 = 443;
/// 256 KiB: addresses of advertisements are long, and no browser sends longer heads.
const LONGEST_HEAD: usize = 256 << 10;
/// 64 MiB: bodies of requests are read and thrown away.
const LONGEST_BODY: u64 = 64 << 20;
/// A connection that says nothing for so long is closed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Addresses without an answer that are remembered.
const MOST_UNANSWERED: usize = 1000;

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

#[derive(Debug)]
struct Shared {
    answers: Answers,
    config: Arc<ServerConfig>,
    connections: AtomicU64,
    answered: AtomicU64,
    missing: AtomicU64,
    unanswered: Mutex<Vec<String>>,
}

/// A running server; it takes no more connections when dropped.
pub struct ReplayServer {
    shared: Arc<Shared>,
    listeners: Vec<(TcpListener, JoinHandle<()>)>,
}

impl ReplayServer {
    /// A server of these answers, that listens nowhere yet.
    pub fn new(answers: Answers, config: Arc<ServerConfig>) -> Self {
        let (connections, answered, missing, unanswered) = Default::default();
        let shared = Shared { answers, config, connections, answered, missing, unanswered };
        Self { shared: Arc::new(shared), listeners: Vec::new() }
    }

    /// Listens on port 443 of `ip`, in the network namespace of the calling thread.
    pub fn listen(&mut self, ip: IpAddr) -> io::Result<()> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{ip} port {PORT}: {e}"));
        let listener = TcpListener::bind((ip, PORT)).map_err(named)?;
        let waiting = listener.try_clone().map_err(named)?;
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("replay".into()).spawn(move || {
            // It fails when the server ends, and only then: see `drop`.
            while let Ok((socket, _)) = waiting.accept() {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let shared = shared.clone();
                // Without a thread the connection closes, which the program sees.
                let _ = std::thread::Builder::new().name("replay".into()).spawn(move || {
                    // What goes wrong on a connection is for the program at its other end to tell.
                    let _ = secure(socket, &shared);
                });
            }
        })?;
        self.listeners.push((listener, thread));
        Ok(())
    }

    /// What was asked for so far.
    pub fn served(&self) -> Served {
        let Shared { connections, answered, missing, unanswered, .. } = &*self.shared;
        Served {
            connections: connections.load(Ordering::Relaxed),
            answered: answered.load(Ordering::Relaxed),
            missing: missing.load(Ordering::Relaxed),
            unanswered: unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone(),
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

fn secure(socket: TcpStream, shared: &Shared) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    let tls = ServerConnection::new(shared.config.clone()).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(tls, socket);
    let served = serve(&mut stream, shared);
    stream.conn.send_close_notify();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut stream.sock)?;
    }
    served
}

fn serve(stream: &mut (impl Read + Write), shared: &Shared) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if read.len() > LONGEST_HEAD {
                return stream.write_all(&refusal("431 Request Header Fields Too Large"));
            }
            if !more(stream, &mut read)? {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end + 4);
        let Some(request) = Request::parse(&head) else { return stream.write_all(&refusal("400 Bad Request")) };
        if request.waits {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = request.length;
        while body > 0 {
            if read.is_empty() && !more(stream, &mut read)? {
                return Ok(());
            }
            let taken = (read.len() as u64).min(body);
            read.drain(..taken as usize);
            body -= taken;
        }
        let asked = Asked { host: request.host, method: request.method, target: request.target };
        let (answer, close) = match shared.answers.find(asked) {
            Some(exchange) => {
                shared.answered.fetch_add(1, Ordering::Relaxed);
                wire(&exchange.response, request.method == "HEAD", true)
            }
            None => {
                shared.missing.fetch_add(1, Ordering::Relaxed);
                let mut list = shared.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
                if list.len() < MOST_UNANSWERED {
                    list.push(format!("{} {}{}", request.method, request.host, request.target));
                }
                drop(list);
                (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), false)
            }
        };
        stream.write_all(&answer)?;
        stream.flush()?;
        if close || request.close {
            return Ok(());
        }
    }
}

fn refusal(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}

struct Request<'a> {
    method: &'a str,
    target: &'a str,
    host: &'a str,
    length: u64,
    waits: bool,
    close: bool,
}

impl<'a> Request<'a> {
    fn parse(head: &'a str) -> Option<Self> {
        let mut start = head.split("\r\n").next()?.split(' ');
        let (method, target, version) = (start.next()?, start.next()?, start.next()?);
        let field = |wanted: &str| {
            let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
            fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
        };
        let length = match field("content-length") {
            None => 0,
            Some(text) => text.parse().ok().filter(|n| *n <= LONGEST_BODY)?,
        };
        // Browsers send no body in chunks.
        if start.next().is_some() || !version.starts_with("HTTP/1.") || field("transfer-encoding").is_some() {
            return None;
        }
        let close = field("connection").is_some_and(|v| v.eq_ignore_ascii_case("close")) || version == "HTTP/1.0";
        let waits = field("expect").is_some_and(|v| v.eq_ignore_ascii_case("100-continue"));
        Some(Self { method, target, host: field("host").unwrap_or_default(), length, waits, close })
    }
}

/// An answer as it goes over the wire, and whether the connection ends with it.
fn wire(recorded: &Message, head_only: bool, over_tls: bool) -> (Vec<u8>, bool) {
    let has = |name: &str, value: &str| recorded.field(name).is_some_and(|v| v.eq_ignore_ascii_case(value.as_bytes()));
    let mut out = recorded.first_line.clone();
    out.extend(b"\r\n");
    for (name, value) in &recorded.fields {
        for part in [name.as_slice(), b": ", value, b"\r\n"] {
            out.extend(part);
        }
    }
    let status = recorded.status().unwrap_or(200);
    let bodiless = status == 204 || status == 304 || (100..200).contains(&status);
    if recorded.field("content-length").is_none() && recorded.field("transfer-encoding").is_none() && !bodiless {
        out.extend(format!("Content-Length: {}\r\n", recorded.body.len()).into_bytes());
    }
    if over_tls && recorded.field("content-type").is_some_and(|t| t.to_ascii_lowercase().starts_with(b"text/html")) {
        out.extend(b"Content-Security-Policy: upgrade-insecure-requests\r\n");
    }
    out.extend(b"\r\n");
    if !head_only && !bodiless {
        out.extend(&recorded.body);
    }
    let old = recorded.first_line.starts_with(b"HTTP/1.0") && !has("connection", "keep-alive");
    (out, old || has("connection", "close"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::recording::{Exchange, Scheme};
    use crate::server::authority::Authority;

    fn shared(said: &[(&str, &str)], body: &[u8]) -> Shared {
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
        let (connections, answered, missing, unanswered) = Default::default();
        Shared { answers: Answers::new(vec![exchange]), config, connections, answered, missing, unanswered }
    }

    struct Wire(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Wire {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn talk(shared: &Shared, said: &str) -> String {
        let mut wire = Wire(io::Cursor::new(said.as_bytes().to_vec()), Vec::new());
        serve(&mut wire, shared).unwrap();
        String::from_utf8_lossy(&wire.1).into_owned()
    }

    const ASKED: &str = "GET /x?t=2 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";

    #[test]
    fn an_answer_in_chunks_goes_out_as_it_was_recorded() {
        let s = shared(&[("Transfer-Encoding", "chunked"), ("X-nnCoection", "1")], b"3\r\nabc\r\n0\r\n\r\n");
        let said = "HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nX-nnCoection: 1\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!(talk(&s, &ASKED.repeat(2)), said.repeat(2));
        assert_eq!(s.answered.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_length_is_added_where_there_is_none_and_pages_ask_for_tls() {
        let s = shared(&[("Content-Type", "text/html; charset=utf-8")], b"");
        let said = talk(&s, ASKED);
        assert!(said.contains("Content-Length: 0\r\n") && said.contains("upgrade-insecure-requests"), "{said}");
        let plain = shared(&[("Content-Type", "image/png"), ("Content-Length", "1")], b"x");
        assert!(talk(&plain, ASKED).ends_with("Content-Length: 1\r\n\r\nx"));
        assert!(talk(&plain, &ASKED.replace("GET", "HEAD")).ends_with("Content-Length: 1\r\n\r\n"));
    }

    #[test]
    fn bodies_of_requests_are_read_and_what_was_not_recorded_is_counted() {
        let s = shared(&[("Content-Length", "1")], b"x");
        let said =
            talk(&s, &format!("POST /beacon HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello{ASKED}"));
        assert!(said.starts_with("HTTP/1.1 404") && said.ends_with("\r\n\r\nx"), "{said}");
        assert_eq!(*s.unanswered.lock().unwrap(), ["POST a.example/beacon"]);
    }

    #[test]
    fn nonsense_and_endless_heads_are_refused() {
        let s = shared(&[], b"");
        assert!(talk(&s, "hello\r\n\r\n").starts_with("HTTP/1.1 400"));
        assert!(talk(&s, "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").starts_with("HTTP/1.1 400"));
        assert!(talk(&s, &"x".repeat(LONGEST_HEAD + 1)).starts_with("HTTP/1.1 431"));
    }
}
