//! A request over whatever connection there is, and what comes back.

use super::connect::Opened;
use super::url::Url;
use crate::exit::{self, Coded};
use h3::error::{Code, StreamError};
use hyper::body::{Body as _, Buf as _, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

/// What a server learns about us.
const AGENT: &str = concat!("headstart/", env!("CARGO_PKG_VERSION"));

/// How often it is looked at how much has come before the head of an answer.
const LOOK: Duration = Duration::from_millis(20);

/// What comes back.
pub struct Reply {
    /// Whether it worked.
    pub status: StatusCode,
    /// What is said of it.
    pub headers: HeaderMap,
    body: Body,
}

enum Body {
    Three(Box<h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>>),
    Tcp(Incoming),
}

impl Opened {
    /// What is spoken.
    pub fn protocol(&self) -> &'static str {
        match self {
            Self::Three { .. } => "HTTP/3",
            Self::Two(_) => "HTTP/2",
            Self::One(_) => "HTTP/1.1",
        }
    }

    /// Asks for `url` with `headers` besides the usual ones; returns with the head of the answer.
    pub async fn ask(&mut self, url: &Url, headers: &HeaderMap) -> anyhow::Result<Reply> {
        let mut request = Request::new(());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = url.uri.clone();
        request.headers_mut().extend(headers.clone());
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        match self {
            Self::Three { requests, connection, window, .. } => {
                let mut stream = requests.send_request(request).await?;
                match stream.finish().await {
                    // A server that wants no more of a request may say so before it has seen its end, and answers all the same
                    // (RFC 9114, section 4.1).
                    Err(StreamError::RemoteTerminate { code, .. }) if code == Code::H3_NO_ERROR => {}
                    finished => finished?,
                }
                let (head, ()) = before_too_much(connection, *window, stream.recv_response()).await??.into_parts();
                Ok(Reply { status: head.status, headers: head.headers, body: Body::Three(Box::new(stream)) })
            }
            Self::Two(requests) => Ok(requests.send_request(request.map(|()| String::new())).await?.into()),
            Self::One(requests) => {
                // The old form: the path in the line, the host beside it (RFC 9112, section 3.2).
                let authority = url.uri.authority().map_or("", |authority| authority.as_str());
                request.headers_mut().insert(header::HOST, HeaderValue::from_str(authority)?);
                let path = url.uri.path_and_query().map_or("/", |path| path.as_str());
                *request.uri_mut() = path.parse()?;
                Ok(requests.send_request(request.map(|()| String::new())).await?.into())
            }
        }
    }
}

/// Waits for the head of an answer, `head`, while no more has come than the `window` that may lie behind a lost packet of it, twice over for
/// retransmissions. h3 keeps a frame until it is whole, however long the server says that it will be.
async fn before_too_much<T>(
    connection: &quinn::Connection,
    window: u64,
    head: impl Future<Output = T>,
) -> anyhow::Result<T> {
    let came = || connection.stats().udp_rx.bytes;
    let before = came();
    let mut head = pin!(head);
    loop {
        tokio::select! {
            head = &mut head => return Ok(head),
            () = tokio::time::sleep(LOOK) => {
                if came() - before > 2 * window {
                    return Err(Coded(exit::FAILURE, "the server sends an answer whose head does not end".into()).into());
                }
            }
        }
    }
}

impl From<hyper::Response<Incoming>> for Reply {
    fn from(answer: hyper::Response<Incoming>) -> Self {
        let (head, body) = answer.into_parts();
        Self { status: head.status, headers: head.headers, body: Body::Tcp(body) }
    }
}

impl Reply {
    /// The next bytes of the body; `None` behind the last.
    pub async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        match &mut self.body {
            Body::Three(stream) => {
                let data = stream.recv_data().await?;
                Ok(data.map(|mut data| data.copy_to_bytes(data.remaining())))
            }
            Body::Tcp(body) => loop {
                match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.transpose()? {
                    None => return Ok(None),
                    Some(frame) => {
                        // Trailers are of no use to us.
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data));
                        }
                    }
                }
            },
        }
    }
}
