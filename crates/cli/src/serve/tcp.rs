//! HTTP/2 and HTTP/1.1 over TLS over TCP (RFC 9113, RFC 9112), which also tell of HTTP/3 beside them (Alt-Svc, RFC 7838).

use super::Serving;
use super::answer::{Body, answer};
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALT_SVC, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// How long a client may take for the handshake of TLS, and for the head of a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Serves connections to `listener` until shutdown; open requests are finished.
pub async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, alt_svc: Option<HeaderValue>, serving: Serving) {
    let acceptor = TlsAcceptor::from(tls);
    let stopped = serving.clone();
    let most = serving.most_connections;
    crate::accept::each(listener, most, async move { stopped.stopped().await }, |stream, place| {
        let (acceptor, alt_svc, serving) = (acceptor.clone(), alt_svc.clone(), serving.clone());
        async move {
            connection(stream, acceptor, alt_svc, serving).await;
            drop(place);
        }
    })
    .await;
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, alt_svc: Option<HeaderValue>, serving: Serving) {
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await else { return };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stopped = serving.clone();
    let mut stopped = pin!(stopped.stopped());
    let service = service_fn(move |request: Request<Incoming>| {
        let (serving, alt_svc) = (serving.clone(), alt_svc.clone());
        async move {
            let mut answer = respond(serving, request).await;
            if let Some(alt_svc) = alt_svc {
                answer.headers_mut().insert(ALT_SVC, alt_svc);
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let io = TokioIo::new(stream);
    // What goes wrong with one connection concerns its client alone.
    if is_http2 {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(PATIENCE).max_concurrent_streams(128);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = &mut stopped => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = &mut stopped => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// The answer, looked up where a disk may be waited for.
async fn respond(serving: Serving, request: Request<Incoming>) -> Response<Body> {
    let (head, _) = request.into_parts();
    let found = tokio::task::spawn_blocking(move || answer(&serving.site, &head.method, &head.uri, &head.headers));
    found.await.unwrap_or_else(|_| {
        let mut failed = Response::new(Body::Empty);
        *failed.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        failed
    })
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Text(text) if text.is_empty() => Poll::Ready(None),
            Self::Text(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Self::File(chunks) => chunks.poll(cx).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Empty => 0,
            Self::Text(text) => text.len() as u64,
            Self::File(chunks) => chunks.left(),
        })
    }
}
