//! Just enough HTTP/1.1 (RFC 9112) for the lab: one request at a time out of a byte stream, and the head of its answer.
//!
//! Pure. Bodies of requests are not taken.

use std::net::{IpAddr, SocketAddr};

/// 16 KiB: no browser sends a longer head.
const LONGEST_HEAD: usize = 16 << 10;

/// What to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// Status line, header fields and, for pages, the body.
    pub start: Vec<u8>,
    /// Bytes of filler that follow.
    pub filler: u64,
    /// Whether the connection ends with it.
    pub close: bool,
}

/// Takes the first whole request out of `stream`; `None` if there is none yet.
pub(super) fn respond(stream: &mut Vec<u8>, peer: SocketAddr) -> Option<Response> {
    let Some(end) = stream.windows(4).position(|four| four == b"\r\n\r\n") else {
        let endless = stream.len() > LONGEST_HEAD;
        return endless.then(|| page("431 Request Header Fields Too Large", "head too long\n", false, true));
    };
    let head = String::from_utf8_lossy(&stream[..end]).into_owned();
    stream.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let mut start = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (start.next(), start.next().unwrap_or("/"), start.next());
    let field = |wanted: &str| {
        let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let asked = field("connection").unwrap_or_default();
    let close = match version {
        Some("HTTP/1.1") => asked.eq_ignore_ascii_case("close"),
        Some("HTTP/1.0") => !asked.eq_ignore_ascii_case("keep-alive"),
        _ => return Some(page("400 Bad Request", "not HTTP/1.1\n", false, true)),
    };
    let head_only = method == Some("HEAD");
    if !head_only && method != Some("GET") {
        return Some(page("405 Method Not Allowed", "GET or HEAD only\n", false, true));
    }
    let path = target.split('?').next().unwrap_or_default();
    Some(match path.strip_prefix("/bytes/").map(str::parse::<u64>) {
        Some(Ok(n)) => Response {
            start: start_of("200 OK", "application/octet-stream", n, close),
            filler: if head_only { 0 } else { n },
            close,
        },
        None if path == "/" => {
            let host = field("host").unwrap_or("-");
            let family = if is_v6(peer.ip()) { "IPv6" } else { "IPv4" };
            page("200 OK", &format!("host: {host}\nfamily: {family}\npeer: {}\n", peer.ip()), head_only, close)
        }
        _ => page("404 Not Found", "available: / and /bytes/N\n", head_only, close),
    })
}

fn is_v6(ip: IpAddr) -> bool {
    !ip.to_canonical().is_ipv4()
}

fn page(status: &str, body: &str, head_only: bool, close: bool) -> Response {
    let mut start = start_of(status, "text/plain; charset=utf-8", body.len() as u64, close);
    if !head_only {
        start.extend(body.as_bytes());
    }
    Response { start, filler: 0, close }
}

fn start_of(status: &str, kind: &str, length: u64, close: bool) -> Vec<u8> {
    let connection = if close { "close" } else { "keep-alive" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         Connection: {connection}\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(stream: &mut Vec<u8>) -> Option<(String, u64, bool)> {
        let response = respond(stream, "[2001:db8::2]:1234".parse().unwrap())?;
        Some((String::from_utf8(response.start).unwrap(), response.filler, response.close))
    }

    fn one(request: &str) -> (String, u64, bool) {
        answer(&mut request.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn the_front_page_names_the_host_and_the_family() {
        let (text, filler, close) = one("GET / HTTP/1.1\r\nhOST: www.lab.example\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nhost: www.lab.example\nfamily: IPv6\npeer: 2001:db8::2\n"), "{text}");
        assert_eq!((filler, close), (0, false));
    }

    #[test]
    fn bytes_are_as_many_as_asked_for() {
        let (text, filler, _) = one("GET /bytes/123456 HTTP/1.1\r\n\r\n");
        assert!(text.contains("Content-Length: 123456\r\n"));
        assert_eq!(filler, 123_456);
        assert_eq!(one("HEAD /bytes/5 HTTP/1.1\r\n\r\n").1, 0);
    }

    #[test]
    fn requests_are_taken_one_by_one_and_only_when_whole() {
        let mut stream = b"GET /a HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\nGET".to_vec();
        assert!(answer(&mut stream).unwrap().0.starts_with("HTTP/1.1 404"));
        assert!(answer(&mut stream).unwrap().2);
        assert_eq!((answer(&mut stream), stream.as_slice()), (None, &b"GET"[..]));
    }

    #[test]
    fn nonsense_is_refused_and_the_connection_closed() {
        for (request, status) in [("hello\r\n\r\n", "400"), ("POST / HTTP/1.1\r\n\r\n", "405")] {
            let (text, _, close) = one(request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")) && close, "{text}");
        }
        let (text, _, close) = one(&"x".repeat(LONGEST_HEAD + 1));
        assert!(text.starts_with("HTTP/1.1 431") && close);
    }
}
