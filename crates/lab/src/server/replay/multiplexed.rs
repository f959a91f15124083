//! What a recorded answer is over HTTP/2 and HTTP/3: what means something on a connection of HTTP/1.1 only is left out,
//! names of fields are lower case, chunks are taken apart. The bytes of the content are those that were recorded.

use crate::page::recording::{Exchange, Message, Scheme};
use crate::server::head;
use http::{HeaderName, HeaderValue, Response, StatusCode};

/// The answer to a request for which this was `found`, and its content; none if it has no status. `alternative`: what
/// it says of other ways to its host (RFC 7838).
pub(super) fn answer(found: Option<&Exchange>, alternative: Option<&'static str>) -> Option<(Response<()>, Vec<u8>)> {
    let Some(exchange) = found else {
        return Some((Response::builder().status(StatusCode::NOT_FOUND).body(()).ok()?, Vec::new()));
    };
    let (mut head, content) = make(&exchange.response, exchange.scheme == Scheme::Http)?;
    if let Some(alternative) = alternative {
        head.headers_mut().insert(http::header::ALT_SVC, HeaderValue::from_static(alternative));
    }
    Some((head, content))
}

/// What means something on a connection only (RFC 9113, section 8.2.2; RFC 9114, section 4.2).
const OF_CONNECTIONS: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings"];

/// A recorded answer there, and its content; none if its status is none. It is `upgraded` if it was recorded plain.
fn make(recorded: &Message, upgraded: bool) -> Option<(Response<()>, Vec<u8>)> {
    let status = recorded.status().and_then(|s| StatusCode::from_u16(s).ok()).filter(|s| !s.is_informational())?;
    let chunked = recorded.field("transfer-encoding").is_some_and(|c| c.to_ascii_lowercase().ends_with(b"chunked"));
    let content = match status {
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => Vec::new(),
        // What is no chunks after all is sent as it is.
        _ if chunked => head::unchunked(&recorded.body).unwrap_or_else(|| recorded.body.clone()),
        _ => recorded.body.clone(),
    };
    let mut head = Response::new(());
    *head.status_mut() = status;
    for (name, value) in &recorded.fields {
        let value = if upgraded { super::over_tls(name, value) } else { value.into() };
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(&value)) else { continue };
        let wrong_length =
            name == http::header::CONTENT_LENGTH && value.as_bytes() != content.len().to_string().as_bytes();
        if !OF_CONNECTIONS.contains(&name.as_str()) && (!wrong_length || content.is_empty()) {
            head.headers_mut().append(name, value);
        }
    }
    if upgraded && super::is_page(recorded) {
        let upgrade = HeaderValue::from_static(super::UPGRADE);
        head.headers_mut().append(http::header::CONTENT_SECURITY_POLICY, upgrade);
    }
    Some((head, content))
}

#[cfg(test)]
mod tests {
    use super::super::tests::shared;
    use super::*;

    fn message(fields: &[(&str, &str)], body: &[u8]) -> Message {
        shared(fields, body).answers.exchanges()[0].response.clone()
    }

    #[test]
    fn chunks_are_taken_apart_and_what_belongs_to_connections_is_left_out() {
        let chunked = message(
            &[("Transfer-Encoding", "chunked"), ("Connection", "close"), ("X-Y", "1"), ("b ad", "2"), ("X-Y", "3")],
            b"3\r\nabc\r\n0\r\n\r\n",
        );
        let (head, content) = make(&chunked, false).unwrap();
        assert_eq!(content, b"abc");
        let fields: Vec<_> = head.headers().iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
        assert_eq!(fields, [("x-y", "1"), ("x-y", "3")]);
    }

    #[test]
    fn a_length_that_is_wrong_is_left_out_and_broken_chunks_are_sent_as_they_are() {
        let (head, content) = make(&message(&[("Content-Length", "9")], b"abc"), false).unwrap();
        assert!(head.headers().is_empty() && content == b"abc");
        let (head, _) =
            make(&message(&[("Content-Length", "3"), ("Content-Type", "text/html")], b"abc"), true).unwrap();
        assert!(head.headers().contains_key("content-length"));
        assert_eq!(head.headers()["content-security-policy"], super::super::UPGRADE);
        assert_eq!(make(&message(&[("Transfer-Encoding", "chunked")], b"abc"), false).unwrap().1, b"abc");
        let mut early = message(&[], b"");
        early.first_line = b"HTTP/1.1 103 Early Hints".to_vec();
        assert!(make(&early, false).is_none());
    }

    #[test]
    fn what_was_not_recorded_is_not_found_and_other_ways_are_told() {
        let (head, content) = answer(None, Some("h3=\":443\"")).unwrap();
        assert_eq!((head.status().as_u16(), content.len()), (404, 0));
        let shared = shared(&[("Alt-Svc", "clear")], b"abc");
        let (head, _) = answer(Some(&shared.answers.exchanges()[0]), Some("h3=\":443\"")).unwrap();
        assert_eq!(head.headers()["alt-svc"], "h3=\":443\"");
    }
}
