//! HTTP/1.1 on the wire (RFC 9112): where a head ends, what it says, and how its body is framed.
//!
//! For servers and the recorder, which read what programs and foreign servers send. Nothing here does input or output,
//! panics on any bytes, or keeps a body: the callers bound what they keep. What could be read in two ways (two lengths,
//! both a content length and chunks, a folded line) is refused, since the server behind may read it in the other way.

use crate::page::recording::Message;

/// 256 KiB: addresses of advertisements are long, and no browser sends longer heads.
pub const LONGEST_HEAD: usize = 256 << 10;
/// A line of chunk framing or of a trailer, at most.
const LONGEST_LINE: usize = 8 << 10;

/// What is wrong with a message, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Bad(pub String);

fn bad<T>(what: impl Into<String>) -> Result<T, Bad> {
    Err(Bad(what.into()))
}

/// How the body of a message is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By its length in bytes; 0 if there is none.
    Length(u64),
    /// In chunks.
    Chunked,
    /// By the end of the connection (answers only).
    UntilClose,
}

/// Bytes of the first head in `read`, with the empty line behind it; none if it is not all there.
pub fn end(read: &[u8]) -> Option<usize> {
    read.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// A head, with or without the empty line behind it, as a message without a body.
pub fn parse(head: &[u8]) -> Result<Message, Bad> {
    let mut lines = head.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first_line = lines.next().unwrap_or_default().to_vec();
    if first_line.split(|b| *b == b' ').count() < 2 || first_line.iter().any(u8::is_ascii_control) {
        return bad(format!("'{}' does not start an HTTP/1.1 message", shown(&first_line)));
    }
    let mut fields = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let Some(colon) = line.iter().position(|b| *b == b':') else {
            return bad(format!("'{}' is not a header field", shown(line)));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(|b| b.is_ascii_whitespace() || b.is_ascii_control()) {
            return bad(format!("'{}' is not the name of a header field", shown(name)));
        }
        if value.iter().any(|b| matches!(b, 0 | b'\r')) {
            return bad(format!("the value of '{}' has control characters", shown(name)));
        }
        fields.push((name.to_vec(), value.to_vec()));
    }
    Ok(Message { first_line, fields, body: Vec::new() })
}

/// As much of `bytes` as fits into a message for people.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).escape_debug().to_string()
}

/// The length that the head states; `Err` if it states two.
fn length(head: &Message) -> Result<Option<u64>, Bad> {
    let mut stated = None;
    for (name, value) in &head.fields {
        if !name.eq_ignore_ascii_case(b"content-length") {
            continue;
        }
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let Some(length) = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|v| v.parse::<u64>().ok())
        else {
            return bad(format!("'{}' is not a length", shown(value)));
        };
        if stated.is_some_and(|before| before != length) {
            return bad("two lengths");
        }
        stated = Some(length);
    }
    Ok(stated)
}

/// The transfer coding that is applied last, in lower case; none if there is none.
fn coding(head: &Message) -> Option<Vec<u8>> {
    let fields = head.fields.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(b"transfer-encoding"))?;
    let last = fields.1.rsplit(|b| *b == b',').next().unwrap_or_default();
    Some(last.trim_ascii().to_ascii_lowercase())
}

/// How the body of a request is framed (RFC 9112, section 6.3).
pub fn of_request(head: &Message) -> Result<Framing, Bad> {
    match (coding(head).as_deref(), length(head)?) {
        (Some(b"chunked"), None) => Ok(Framing::Chunked),
        (Some(b"chunked"), Some(_)) => bad("both a content length and chunks"),
        (Some(other), _) => bad(format!("a body of unknown length: transfer coding '{}'", shown(other))),
        (None, length) => Ok(Framing::Length(length.unwrap_or(0))),
    }
}

/// How the body of the answer to a request of `method` is framed (RFC 9112, section 6.3).
pub fn of_response(head: &Message, method: &[u8]) -> Result<Framing, Bad> {
    let Some(status) = head.status() else { return bad(format!("'{}' has no status", shown(&head.first_line))) };
    if method == b"HEAD" || matches!(status, 100..200 | 204 | 304) {
        return Ok(Framing::Length(0));
    }
    match (coding(head).as_deref(), length(head)?) {
        (Some(b"chunked"), _) => Ok(Framing::Chunked),
        (Some(_), _) | (None, None) => Ok(Framing::UntilClose),
        (None, Some(length)) => Ok(Framing::Length(length)),
    }
}

/// Whether a message says that its connection ends with it (RFC 9112, section 9.3).
pub fn closes(head: &Message) -> bool {
    let old = head.first_line.ends_with(b" HTTP/1.0") || head.first_line.starts_with(b"HTTP/1.0");
    let said = head.field("connection").unwrap_or_default().to_ascii_lowercase();
    let says = |what: &[u8]| said.split(|b| *b == b',').any(|token| token.trim_ascii() == what);
    says(b"close") || (old && !says(b"keep-alive"))
}

/// A body in chunks, as it comes: where it ends, and what it holds.
#[derive(Debug)]
pub struct Chunks {
    state: State,
    line: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Size,
    Data(u64),
    /// Behind the data of a chunk: an empty line.
    Behind,
    Trailer,
    Done,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { state: State::Size, line: Vec::new() }
    }
}

impl Chunks {
    /// Whether the body has ended.
    pub fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what belongs to the body off the beginning of `bytes`: how many bytes of framing and content these are.
    /// Content goes to `content`.
    pub fn take(&mut self, bytes: &[u8], mut content: impl FnMut(&[u8])) -> Result<usize, Bad> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            if let State::Data(left) = self.state {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                content(&bytes[at..at + taken]);
                at += taken;
                let left = left - taken as u64;
                self.state = if left == 0 { State::Behind } else { State::Data(left) };
                continue;
            }
            let rest = &bytes[at..];
            let Some(line_end) = rest.iter().position(|b| *b == b'\n') else {
                self.line.extend(rest);
                at = bytes.len();
                if self.line.len() > LONGEST_LINE {
                    return bad("an unterminated line of chunk framing");
                }
                break;
            };
            self.line.extend(&rest[..line_end]);
            at += line_end + 1;
            let line = std::mem::take(&mut self.line);
            self.state = self.after(line.strip_suffix(b"\r").unwrap_or(&line))?;
        }
        Ok(at)
    }

    fn after(&self, line: &[u8]) -> Result<State, Bad> {
        match self.state {
            State::Size => {
                let size = line.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
                let digits = !size.is_empty() && size.len() <= 15 && size.iter().all(u8::is_ascii_hexdigit);
                let size = std::str::from_utf8(size).ok().filter(|_| digits);
                match size.and_then(|s| u64::from_str_radix(s, 16).ok()) {
                    Some(0) => Ok(State::Trailer),
                    Some(size) => Ok(State::Data(size)),
                    None => bad(format!("'{}' is not a chunk size", shown(line))),
                }
            }
            State::Behind if line.is_empty() => Ok(State::Size),
            State::Behind => bad(format!("'{}' after a chunk", shown(line))),
            State::Trailer if line.is_empty() => Ok(State::Done),
            State::Trailer => Ok(State::Trailer),
            State::Data(_) | State::Done => bad("an unexpected line"),
        }
    }
}

/// The content of a whole body in chunks; none if its framing is broken or does not end.
pub fn unchunked(body: &[u8]) -> Option<Vec<u8>> {
    let (mut chunks, mut content) = (Chunks::default(), Vec::new());
    chunks.take(body, |bytes| content.extend(bytes)).ok()?;
    chunks.done().then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> Message {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_head_reads_as_it_was_written_with_its_misspelt_names() {
        let text = b"GET /x?y HTTP/1.1\r\nHost: a.example\r\nnnCoection: close \r\n\r\nbody";
        let end = end(text).unwrap();
        let message = parse(&text[..end]).unwrap();
        assert_eq!(message.first_line, b"GET /x?y HTTP/1.1");
        assert_eq!(message.field("nncoection"), Some(&b"close"[..]));
        assert_eq!((end, message.fields.len()), (text.len() - 4, 2));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for text in
            ["", "hello", "GET / HTTP/1.1\r\nno field", "GET / HTTP/1.1\r\nA : b", "GET / HTTP/1.1\r\nA: b\r\n c: d"]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        let two = head("POST / HTTP/1.1\r\nContent-Length: 5\r\ncontent-length: 6");
        assert_eq!(of_request(&two).unwrap_err().to_string(), "two lengths");
        let both = head("POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked");
        assert!(of_request(&both).is_err());
        assert!(of_request(&head("POST / HTTP/1.1\r\nContent-Length: +5")).is_err());
        assert!(of_request(&head("POST / HTTP/1.1\r\nTransfer-Encoding: gzip")).is_err());
    }

    #[test]
    fn answers_are_framed_by_status_method_chunks_length_or_the_end() {
        let ok = |fields: &str| head(&format!("HTTP/1.1 200 OK\r\n{fields}"));
        let framing = |m: &Message| of_response(m, b"GET").unwrap();
        assert_eq!(framing(&ok("Content-Length: 7")), Framing::Length(7));
        assert_eq!(framing(&ok("Transfer-Encoding: gzip, Chunked")), Framing::Chunked);
        assert_eq!(framing(&ok("")), Framing::UntilClose);
        assert_eq!(of_response(&ok("Content-Length: 7"), b"HEAD"), Ok(Framing::Length(0)));
        assert_eq!(framing(&head("HTTP/1.1 304 Not Modified\r\nContent-Length: 7")), Framing::Length(0));
        assert!(closes(&head("HTTP/1.0 200 OK")) && !closes(&ok("")) && closes(&ok("Connection: x, Close")));
    }

    #[test]
    fn chunks_end_where_they_end_however_they_are_cut() {
        let body = b"3\r\nabc\r\n10;name=x\r\n0123456789abcdef\r\n0\r\nTrailer: 1\r\n\r\n";
        for cut in 0..body.len() {
            let (mut chunks, mut content) = (Chunks::default(), Vec::<u8>::new());
            let first = chunks.take(&body[..cut], |b| content.extend(b)).unwrap();
            assert_eq!((first, chunks.done()), (cut, false));
            let mut rest = body[cut..].to_vec();
            rest.extend(b"next");
            assert_eq!(chunks.take(&rest, |b| content.extend(b)), Ok(body.len() - cut));
            assert!(chunks.done());
            assert_eq!(content, b"abc0123456789abcdef");
        }
        assert_eq!(unchunked(b"3\r\nab"), None);
        assert!(Chunks::default().take(b"zz\r\n", |_| ()).is_err());
        assert!(Chunks::default().take(b"1\r\nab\r\n", |_| ()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = parse(&bytes) {
                let _ = (of_request(&message), of_response(&message, b"GET"), closes(&message));
            }
            let mut chunks = Chunks::default();
            if let Ok(taken) = chunks.take(&bytes, |_| ()) {
                prop_assert!(taken <= bytes.len() && (taken == bytes.len() || chunks.done()));
            }
        }
    }
}
