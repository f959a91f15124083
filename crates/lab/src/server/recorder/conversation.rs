//! One connection of a program to the recorder: requests in, answers back, whole exchanges kept.

use super::RecorderState;
use super::upstream::{PATIENCE, Server, Stream, Upstream};
use crate::page::recording::{Exchange, MAX_FILE, Message, Scheme};
use crate::server::files::more;
use crate::server::head::{self, Bad, Chunks, Framing};
use rustls::{ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// 64 MiB: a body of a request is kept until it is sent on.
const LONGEST_BODY: usize = 64 << 20;
/// 128 MiB: an answer is kept until it is whole, and a file of a recording is not read if it is longer than twice that.
const LONGEST_ANSWER: u64 = MAX_FILE / 2;
/// The first byte of a handshake of TLS (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Serves a program until it goes away.
pub(super) fn hold(mut socket: TcpStream, shared: &RecorderState) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    let mut read = Vec::new();
    let Some(end) = await_head(&mut socket, &mut read)? else { return Ok(()) };
    let tunnel = head::parse(&read[..end]).ok().filter(|request| request.word(0) == b"CONNECT");
    let Some(request) = tunnel else {
        return Conversation { shared, upstream: None, through: None }.serve(&mut socket, read);
    };
    read.drain(..end);
    let to = String::from_utf8_lossy(request.word(1)).into_owned();
    let Some(server) = Server::of(Scheme::Https, &to) else {
        return socket.write_all(&refusal("400 Bad Request", &format!("{to:?} is not a host with a port")));
    };
    socket.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    if read.is_empty() && !more(&mut socket, &mut read)? {
        return Ok(());
    }
    if read.first() != Some(&HANDSHAKE) {
        let server = Server { scheme: Scheme::Http, ..server };
        return Conversation { shared, upstream: None, through: Some(server) }.serve(&mut socket, read);
    }
    let face = match shared.face(&server.host) {
        Ok(face) => face,
        Err(e) => {
            shared.complain(format!("{to}: {e}"));
            return Ok(());
        }
    };
    let tls = ServerConnection::new(face).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(tls, Ahead { read, socket });
    let held = Conversation { shared, upstream: None, through: Some(server) }.serve(&mut stream, Vec::new());
    stream.conn.send_close_notify();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut stream.sock)?;
    }
    held
}

/// A socket of which something was read already.
struct Ahead {
    read: Vec<u8>,
    socket: TcpStream,
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read.is_empty() {
            return self.socket.read(buffer);
        }
        let taken = self.read.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&self.read[..taken]);
        self.read.drain(..taken);
        Ok(taken)
    }
}

impl Write for Ahead {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Reads until a head is there: how long it is; none if the other side has nothing more to say.
fn await_head(stream: &mut (impl Stream + ?Sized), read: &mut Vec<u8>) -> io::Result<Option<usize>> {
    loop {
        if let Some(end) = head::end(read) {
            return Ok(Some(end));
        }
        if read.len() > head::LONGEST_HEAD {
            return Err(broken("an unterminated header"));
        }
        if !more(&mut &mut *stream, read)? {
            return Ok(None);
        }
    }
}

fn broken(what: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

fn refusal(status: &str, why: &str) -> Vec<u8> {
    let length = why.len() + 1;
    let fields = "Content-Type: text/plain\r\nConnection: close";
    format!("HTTP/1.1 {status}\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{why}\n").into_bytes()
}

/// A body as it is on the wire, which is read from `from` behind what is in `read`; `tell` gets it as it comes, and
/// whether that is its end, as far as one can know (at once, with nothing, if nothing is there yet). Whether it was all
/// there.
fn body(
    from: &mut (impl Stream + ?Sized),
    read: &mut Vec<u8>,
    framing: Framing,
    mut tell: impl FnMut(&[u8], bool) -> io::Result<()>,
) -> io::Result<bool> {
    let (mut chunks, mut seen) = (Chunks::default(), 0u64);
    loop {
        let taken = match framing {
            Framing::Length(length) => (read.len() as u64).min(length - seen) as usize,
            Framing::Chunked => chunks.take(read, |_| ()).map_err(broken)?,
            Framing::UntilClose => read.len(),
        };
        seen += taken as u64;
        let last = framing == Framing::Length(seen) || (framing == Framing::Chunked && chunks.done());
        tell(&read[..taken], last)?;
        read.drain(..taken);
        if last {
            return Ok(true);
        }
        if !more(&mut &mut *from, read)? {
            return Ok(framing == Framing::UntilClose);
        }
    }
}

struct Conversation<'s> {
    shared: &'s RecorderState,
    /// The connection that the last answer came by, if it may be used again.
    upstream: Option<Upstream>,
    /// The server that a tunnel leads to.
    through: Option<Server>,
}

impl Conversation<'_> {
    fn serve(&mut self, stream: &mut impl Stream, mut read: Vec<u8>) -> io::Result<()> {
        loop {
            let end = match await_head(stream, &mut read) {
                Ok(Some(end)) => end,
                Ok(None) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    return stream.write_all(&refusal("431 Request Header Fields Too Large", &e.to_string()));
                }
                Err(e) => return Err(e),
            };
            let asked = head::parse(&read[..end]).and_then(|r| Ok((head::of_request(&r)?, self.onward(r)?)));
            read.drain(..end);
            let (framing, (mut request, server, closes)) = match asked {
                Ok(asked) => asked,
                Err(bad) => return stream.write_all(&refusal("400 Bad Request", &bad.to_string())),
            };
            if request.field("expect").is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue")) {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                stream.flush()?;
                request.fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"expect"));
            }
            let mut whole = Vec::new();
            let kept = body(stream, &mut read, framing, |bytes, _| {
                whole.extend(bytes);
                if whole.len() > LONGEST_BODY { Err(broken("a body of more than 64 MiB")) } else { Ok(()) }
            });
            match kept {
                Ok(true) => request.body = whole,
                Ok(false) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    return stream.write_all(&refusal("413 Content Too Large", &e.to_string()));
                }
                Err(e) => return Err(e),
            }
            if self.pass(stream, request, &server)? || closes {
                return Ok(());
            }
        }
    }

    /// A request as its server is to get it, that server, and whether the program's connection ends with it.
    fn onward(&self, mut request: Message) -> Result<(Message, Server, bool), Bad> {
        let words: Vec<&[u8]> = request.first_line.split(|b| *b == b' ').collect();
        let [method, target, version] = words[..] else { return Err(Bad("a request line has three parts".into())) };
        let text = String::from_utf8_lossy(target).into_owned();
        let (server, path) = match (&self.through, text.strip_prefix("http://")) {
            (Some(server), _) if text.starts_with('/') || text == "*" => (Some(server.clone()), text),
            (None, Some(rest)) => {
                let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
                let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
                (Server::of(Scheme::Http, authority), path)
            }
            _ => (None, text),
        };
        let Some(server) = server else {
            return Err(Bad(format!("{path:?} is not a URL that a proxy can fetch (this is a recording proxy)")));
        };
        let closes = head::closes(&request);
        request.first_line = [method, path.as_bytes(), version].join(&b' ');
        let dropped: [&[u8]; 5] =
            [b"proxy-connection", b"proxy-authorization", b"upgrade", b"http2-settings", b"connection"];
        request.fields.retain(|(name, _)| !dropped.contains(&&*name.to_ascii_lowercase()));
        Ok((request, server, closes))
    }

    /// Asks the server, over the last connection if it leads there, and passes on what it says. Whether the program's
    /// connection ends with it.
    fn pass(&mut self, program: &mut impl Stream, request: Message, server: &Server) -> io::Result<bool> {
        let name = || {
            let (line, host) = (String::from_utf8_lossy(&request.first_line), &server.host);
            format!("{host}: {line}")
        };
        let mut last = self.upstream.take().filter(|u| u.server == *server);
        loop {
            // A server may have closed a connection that waited; then nothing is lost by asking again.
            let again = last.is_some();
            let mut upstream = match last.take().map_or_else(|| Upstream::connect(server, self.shared), Ok) {
                Ok(upstream) => upstream,
                Err(e) => return self.fail(program, &name(), &e),
            };
            let head = match ask(&mut upstream, &request) {
                Ok(head) => head,
                Err(_) if again => continue,
                Err(e) => return self.fail(program, &name(), &e),
            };
            return self.answer(program, request.clone(), upstream, head, &name());
        }
    }

    /// Tells the program that there is no answer.
    fn fail(&self, program: &mut impl Stream, what: &str, why: &io::Error) -> io::Result<bool> {
        self.shared.complain(format!("{what}: {why}"));
        program.write_all(&refusal("502 Bad Gateway", &format!("headstart lab record: {what}: {why}")))?;
        program.flush()?;
        Ok(true)
    }

    /// Passes an answer on as it comes, and keeps it. Whether the program's connection ends with it.
    fn answer(
        &mut self,
        program: &mut impl Stream,
        request: Message,
        mut upstream: Upstream,
        (mut raw, response): (Vec<u8>, Message),
        name: &str,
    ) -> io::Result<bool> {
        let framing = match head::of_response(&response, request.word(0)) {
            Ok(framing) => framing,
            Err(bad) => return self.fail(program, name, &broken(bad)),
        };
        let close = head::closes(&response) || framing == Framing::UntilClose;
        let (mut kept, mut too_long, mut gone) = (Vec::new(), false, false);
        let (ip, Server { scheme, port, .. }) = (upstream.ip, upstream.server.clone());
        let mut exchange = Exchange { ip, port, scheme, request, response };
        let whole = body(&mut *upstream.stream, &mut upstream.read, framing, |bytes, last| {
            too_long |= (kept.len() + bytes.len()) as u64 > LONGEST_ANSWER;
            if !too_long {
                kept.extend(bytes);
            }
            if last && !too_long {
                // Before the program has all of it: what a program has seen when it ends is recorded.
                exchange.response.body = std::mem::take(&mut kept);
                self.shared.keep(&exchange);
            }
            let out = [std::mem::take(&mut raw).as_slice(), bytes].concat();
            program.write_all(&out).and_then(|()| program.flush()).inspect_err(|_| gone = true)
        });
        if gone {
            self.shared.complain(format!("{name}: the program disconnected before the end of the answer"));
            return whole.map(|_| true);
        }
        let why = match whole {
            Ok(true) if too_long => Some(format!("the answer is longer than {LONGEST_ANSWER} bytes")),
            Ok(true) => None,
            Ok(false) => Some("the server closed the connection early".to_owned()),
            Err(e) => Some(e.to_string()),
        };
        if let Some(why) = why {
            self.shared.complain(format!("{name}: {why}"));
            // The program must see a broken answer as one.
            return Ok(true);
        }
        if framing == Framing::UntilClose {
            // That it is whole, the program learns by the end of the connection, which is to come.
            exchange.response.body = kept;
            self.shared.keep(&exchange);
        }
        if !close {
            self.upstream = Some(upstream);
        }
        Ok(close)
    }
}

/// Sends a request and reads the head of its answer, as it came and as a message; earlier ones (103) are left out.
fn ask(upstream: &mut Upstream, request: &Message) -> io::Result<(Vec<u8>, Message)> {
    let mut out = request.first_line.clone();
    out.extend(b"\r\n");
    for (name, value) in &request.fields {
        for part in [name.as_slice(), b": ", value, b"\r\n"] {
            out.extend(part);
        }
    }
    out.extend(b"\r\n");
    out.extend(&request.body);
    upstream.stream.write_all(&out)?;
    upstream.stream.flush()?;
    loop {
        let Some(end) = await_head(&mut *upstream.stream, &mut upstream.read)? else {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection without an answer",
            ));
        };
        let raw: Vec<u8> = upstream.read.drain(..end).collect();
        let head = head::parse(&raw).map_err(broken)?;
        match head.status() {
            Some(101) => return Err(broken("the server switched protocols unasked")),
            Some(100..200) => {}
            _ => return Ok((raw, head)),
        }
    }
}
