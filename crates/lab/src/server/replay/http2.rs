//! Recorded answers over HTTP/2 (RFC 9113), by the crate `h2`: what means something on a connection of HTTP/1.1 only is left
//! out, names of fields are lower case, chunks are taken apart. The bytes of the content are those that were recorded.

use super::Shared;
use crate::page::recording::{Asked, Message, Scheme};
use crate::server::head;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// Content as `h2` takes it.
type Content = std::io::Cursor<Vec<u8>>;

/// Streams at a time: what nginx allows.
const STREAMS: u32 = 128;

/// Answers until the other side goes away, or says nothing for long.
pub(super) async fn serve<S>(stream: S, shared: Arc<Shared>) -> Result<(), h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(STREAMS).max_header_list_size(head::LONGEST_HEAD as u32);
    let mut connection = builder.handshake::<_, Content>(stream).await?;
    let mut answering = JoinSet::new();
    loop {
        match tokio::time::timeout(super::PATIENCE, connection.accept()).await {
            Ok(Some(request)) => {
                let (request, respond) = request?;
                answering.spawn(answer(request, respond, shared.clone()));
            }
            Ok(None) => return Ok(()),
            // A large answer over a slow link is no silence.
            Err(_) if connection.has_streams() => {}
            Err(_) => {
                connection.graceful_shutdown();
                return Ok(());
            }
        }
        while answering.try_join_next().is_some() {}
    }
}

/// What goes wrong with a stream is for whoever asked to tell.
async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Content>, shared: Arc<Shared>) {
    let (parts, mut body) = request.into_parts();
    while let Some(Ok(bytes)) = body.data().await {
        // The window opens again for what is thrown away.
        if body.flow_control().release_capacity(bytes.len()).is_err() {
            return;
        }
    }
    let named = parts.headers.get("host").and_then(|h| h.to_str().ok());
    let host = parts.uri.authority().map(|a| a.as_str()).or(named).unwrap_or_default();
    let target = parts.uri.path_and_query().map_or("/", |t| t.as_str());
    let found = shared.find(Asked { host, method: parts.method.as_str(), target });
    let made = found.map_or_else(missing, |e| make(&e.response, e.scheme == Scheme::Http));
    let Some((head, content)) = made else {
        respond.send_reset(Reason::INTERNAL_ERROR);
        return;
    };
    let empty = content.is_empty() || parts.method == http::Method::HEAD;
    if let Ok(mut stream) = respond.send_response(head, empty)
        && !empty
    {
        let _ = stream.send_data(Content::new(content), true);
    }
}

fn missing() -> Option<(Response<()>, Vec<u8>)> {
    Some((Response::builder().status(StatusCode::NOT_FOUND).body(()).ok()?, Vec::new()))
}

/// What means something on a connection only (RFC 9113, section 8.2.2).
const OF_CONNECTIONS: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings"];

/// An answer in HTTP/2, and its content; none if its status is none. It is `upgraded` if it was recorded plain.
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
    fn a_client_of_http_2_gets_answers_over_one_connection() {
        let shared = Arc::new(shared(&[("Content-Type", "text/plain")], &[b'x'; 200_000]));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let told = shared.clone();
        runtime.block_on(async move {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let server = tokio::spawn(serve(theirs, told));
            let (client, connection) = h2::client::handshake(ours).await.unwrap();
            let driver = tokio::spawn(connection);
            let mut client = client.ready().await.unwrap();
            let mut answers = Vec::new();
            for target in ["/x?t=2", "/nothing"] {
                let request = Request::get(format!("https://a.example{target}")).body(()).unwrap();
                answers.push(client.send_request(request, true).unwrap().0);
            }
            let mut lengths = Vec::new();
            for answer in answers {
                let answer = answer.await.unwrap();
                let (status, mut body) = (answer.status().as_u16(), answer.into_body());
                let mut length = 0;
                while let Some(bytes) = body.data().await {
                    let bytes = bytes.unwrap();
                    length += bytes.len();
                    body.flow_control().release_capacity(bytes.len()).unwrap();
                }
                lengths.push((status, length));
            }
            assert_eq!(lengths, [(200, 200_000), (404, 0)]);
            drop(client);
            driver.await.unwrap().unwrap();
            server.await.unwrap().unwrap();
        });
        assert_eq!(*shared.unanswered.lock().unwrap(), ["GET a.example/nothing"]);
    }
}
