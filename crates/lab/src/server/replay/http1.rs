//! Recorded answers over HTTP/1.1: byte for byte, one request after the other.

use super::ReplayState;
use crate::page::recording::{Exchange, Message, RequestKey, Scheme};
use crate::server::files::more;
use crate::server::head::{self, Chunks, Framing};
use std::io::{self, Read, Write};

/// 64 MiB: bodies of requests are read and thrown away.
const LONGEST_BODY: u64 = 64 << 20;

/// Answers until the other side closes, an answer says that the connection ends, or something cannot be read.
pub(super) fn serve(stream: &mut (impl Read + Write), shared: &ReplayState, over_tls: bool) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = head::end(&read) {
                break end;
            }
            if read.len() > head::LONGEST_HEAD {
                return stream.write_all(&refusal("431 Request Header Fields Too Large"));
            }
            if !more(stream, &mut read)? {
                return Ok(());
            }
        };
        let Some((request, framing)) = parse(&read[..end]) else {
            return stream.write_all(&refusal("400 Bad Request"));
        };
        read.drain(..end);
        if request.field("expect").is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue")) {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            stream.flush()?;
        }
        match skip(stream, &mut read, framing) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => return stream.write_all(&refusal("400 Bad Request")),
            Err(e) => return Err(e),
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (method, target) = (text(request.word(0)), text(request.word(1)));
        let host = text(request.field("host").unwrap_or_default());
        let scheme = if over_tls { Scheme::Https } else { Scheme::Http };
        let asked = RequestKey { host: &host, method: &method, target: origin_form(&target), scheme };
        let (answer, close) = match shared.find(asked) {
            Some(exchange) => {
                shared.clock.sleep(exchange.behind());
                let alternative = shared.tls.alternative(&host).filter(|_| over_tls);
                wire(exchange, method == "HEAD", over_tls, alternative)
            }
            None => (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), false),
        };
        stream.write_all(&answer)?;
        stream.flush()?;
        if close || head::closes(&request) {
            return Ok(());
        }
    }
}

/// A request and the framing of its body; none if it is no request of HTTP/1.x, or of a body that is too long.
fn parse(bytes: &[u8]) -> Option<(Message, Framing)> {
    let request = head::parse(bytes).ok()?;
    let fits = request.first_line.split(|b| *b == b' ').count() == 3 && request.word(2).starts_with(b"HTTP/1.");
    let framing = head::of_request(&request).ok()?;
    (fits && !matches!(framing, Framing::Length(LONGEST_BODY..))).then_some((request, framing))
}

/// The path of a target that may be a whole address, as proxies are asked.
fn origin_form(target: &str) -> &str {
    match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => target,
    }
}

/// Reads a body and throws it away; whether it was all there. `InvalidData` if its framing is broken or it does not end.
fn skip(stream: &mut impl Read, read: &mut Vec<u8>, framing: Framing) -> io::Result<bool> {
    let (mut chunks, mut seen) = (Chunks::default(), 0);
    loop {
        let taken = match framing {
            Framing::Length(length) => (read.len() as u64).min(length - seen) as usize,
            _ => chunks.take(read, |_| ()).map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))?,
        };
        read.drain(..taken);
        seen += taken as u64;
        match framing {
            Framing::Length(length) if seen == length => return Ok(true),
            Framing::Chunked if chunks.done() => return Ok(true),
            _ if seen > LONGEST_BODY => return Err(io::ErrorKind::InvalidData.into()),
            _ => {}
        }
        if !more(stream, read)? {
            return Ok(false);
        }
    }
}

fn refusal(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}

/// An answer as it goes over the wire, and whether the connection ends with it. `alternative`: what it says of other
/// ways to its host.
fn wire(exchange: &Exchange, head_only: bool, over_tls: bool, alternative: Option<&str>) -> (Vec<u8>, bool) {
    let recorded = &exchange.response;
    let upgraded = over_tls && exchange.scheme == Scheme::Http;
    let mut out = recorded.first_line.clone();
    out.extend(b"\r\n");
    for (name, value) in &recorded.fields {
        let value = if upgraded { super::over_tls(name, value) } else { value.into() };
        for part in [name.as_slice(), b": ", &value, b"\r\n"] {
            out.extend(part);
        }
    }
    let status = recorded.status().unwrap_or(200);
    let bodiless = status == 204 || status == 304 || (100..200).contains(&status);
    if recorded.field("content-length").is_none() && recorded.field("transfer-encoding").is_none() && !bodiless {
        out.extend(format!("Content-Length: {}\r\n", recorded.body.len()).into_bytes());
    }
    if upgraded && super::is_page(recorded) {
        out.extend(format!("Content-Security-Policy: {}\r\n", super::UPGRADE).into_bytes());
    }
    if let Some(alternative) = alternative {
        out.extend(format!("Alt-Svc: {alternative}\r\n").into_bytes());
    }
    out.extend(b"\r\n");
    if !head_only && !bodiless {
        out.extend(&recorded.body);
    }
    (out, head::closes(recorded))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::shared;
    use super::*;
    use std::sync::atomic::Ordering;

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

    /// What is answered to these bytes over plain HTTP.
    pub fn answer(shared: &ReplayState, asked: Vec<u8>) -> Vec<u8> {
        let mut wire = Wire(io::Cursor::new(asked), Vec::new());
        serve(&mut wire, shared, false).unwrap();
        wire.1
    }

    fn talk_over(shared: &ReplayState, said: &str, over_tls: bool) -> String {
        let mut wire = Wire(io::Cursor::new(said.as_bytes().to_vec()), Vec::new());
        serve(&mut wire, shared, over_tls).unwrap();
        String::from_utf8_lossy(&wire.1).into_owned()
    }

    fn talk(shared: &ReplayState, said: &str) -> String {
        talk_over(shared, said, true)
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
    fn a_length_is_added_where_there_is_none_and_pages_over_tls_ask_for_tls() {
        let s = shared(&[("Content-Type", "text/html; charset=utf-8")], b"");
        let said = talk(&s, ASKED);
        assert!(said.contains("Content-Length: 0\r\n") && said.contains("upgrade-insecure-requests"), "{said}");
        assert!(!talk_over(&s, ASKED, false).contains("upgrade-insecure-requests"));
        let plain = shared(&[("Content-Type", "image/png"), ("Content-Length", "1")], b"x");
        assert!(talk(&plain, ASKED).ends_with("Content-Length: 1\r\n\r\nx"));
        assert!(talk(&plain, &ASKED.replace("GET", "HEAD")).ends_with("Content-Length: 1\r\n\r\n"));
        assert!(talk(&plain, &ASKED.replace("/x", "http://a.example/x")).ends_with("\r\n\r\nx"));
    }

    #[test]
    fn bodies_of_requests_are_read_and_what_was_not_recorded_is_counted() {
        for body in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"] {
            let s = shared(&[("Content-Length", "1")], b"x");
            let said = talk(&s, &format!("POST /beacon HTTP/1.1\r\nHost: a.example\r\n{body}{ASKED}"));
            assert!(said.starts_with("HTTP/1.1 404") && said.ends_with("\r\n\r\nx"), "{said}");
            assert_eq!(*s.unanswered.lock().unwrap(), ["POST a.example/beacon"]);
        }
    }

    #[test]
    fn hosts_that_speak_http_3_say_so_over_tls() {
        let mut s = shared(&[("Content-Length", "1")], b"x");
        s.tls = s.tls.clone().over_quic(["a.example".to_owned()].into());
        assert!(talk(&s, ASKED).contains("\r\nAlt-Svc: h3=\":443\"; ma=86400\r\n\r\nx"));
        assert!(!talk_over(&s, ASKED, false).contains("Alt-Svc"));
    }

    #[test]
    fn nonsense_and_endless_heads_are_refused() {
        let s = shared(&[], b"");
        assert!(talk(&s, "hello\r\n\r\n").starts_with("HTTP/1.1 400"));
        assert!(talk(&s, "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").starts_with("HTTP/1.1 400"));
        assert!(talk(&s, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n").starts_with("HTTP/1.1 400"));
        assert!(talk(&s, &"x".repeat(head::LONGEST_HEAD + 1)).starts_with("HTTP/1.1 431"));
    }
}
