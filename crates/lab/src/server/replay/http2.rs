//! Recorded answers over HTTP/2 (RFC 9113), by the crate `h2`. What they look like there is [`super::multiplexed`]'s.

use super::{ReplayState, multiplexed};
use crate::page::recording::{RequestKey, Scheme};
use crate::server::head;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::Request;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// Content as `h2` takes it.
type Content = std::io::Cursor<Vec<u8>>;

/// Streams at a time: what nginx allows.
const STREAMS: u32 = 128;

/// Answers until the other side goes away, or says nothing for long.
pub(super) async fn serve<S>(stream: S, shared: Arc<ReplayState>) -> Result<(), h2::Error>
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

/// What goes wrong with a stream is for the client to report.
async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Content>, shared: Arc<ReplayState>) {
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
    let found = shared.find(RequestKey { host, method: parts.method.as_str(), target, scheme: Scheme::Https });
    shared.come(found).await;
    let Some((head, content)) = multiplexed::answer(found, shared.tls.alternative(host)) else {
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

#[cfg(test)]
mod tests {
    use super::super::tests::shared;
    use super::*;

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
