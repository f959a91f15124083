//! HTTP/2 and HTTP/1.1 over TLS over TCP (RFC 9113, RFC 9112), which also tell of HTTP/3 beside them (Alt-Svc, RFC 7838).

use super::Serving;
use super::answer::{self, Body, answer};
use super::places::{Place, Turn};
use super::turns::Streams;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALT_SVC, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// How long a client may take for the handshake of TLS, and for the head of a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the head of a request over HTTP/1.1; hyper's own bound is 400 KiB, which silent clients could make it keep.
const LONGEST_HEAD: usize = 16 * 1024;
/// How long a client may take nothing of what it has asked for, over any version of HTTP.
pub(super) const STALLED: Duration = Duration::from_secs(20);
/// Bytes in that time that are more than keeps a connection alive: a word each [`PATIENCE`] and its acknowledgement.
const MOVING: u64 = 512;
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Bytes of a stream of HTTP/2 that wait for credit in the library; hyper's own are 400 KiB.
const SENDING: usize = 64 * 1024;

/// Serves connections to `listener` until shutdown; open requests are finished.
pub async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, alt_svc: Option<HeaderValue>, serving: Serving) {
    let acceptor = TlsAcceptor::from(tls);
    let stopped = serving.clone();
    // What is too much is decided by address below.
    let most = tokio::sync::Semaphore::MAX_PERMITS;
    crate::accept::each(listener, most, async move { stopped.stopped().await }, |stream, _| {
        let (acceptor, alt_svc, serving) = (acceptor.clone(), alt_svc.clone(), serving.clone());
        async move {
            let Ok(from) = stream.peer_addr() else { return };
            let Some(place) = serving.places.enter(from.ip()) else { return };
            let stream = Shared(Arc::new(stream));
            let turns = serving.turns.clone();
            let connection = connection(stream.clone(), acceptor, alt_svc, serving, place.clone());
            tokio::select! {
                () = turns.of(place.group(), connection) => {}
                () = place.must_leave() => {}
                () = has_stalled(&stream.0, &place) => {}
            }
        }
    })
    .await;
}

/// Returns when answers are under way of which the client has taken next to nothing for a while: neither does it give credit
/// nor acknowledge anything but what keeps a connection alive. A slow link acknowledges, however much is in the kernel.
async fn has_stalled(stream: &TcpStream, place: &Place) {
    let acked = || headstart_io::sys::tcp_info::tcp_info(stream).ok().and_then(|info| info.bytes_acked);
    let (mut mark, mut silent) = (acked(), Duration::ZERO);
    loop {
        tokio::time::sleep(LOOK).await;
        silent += LOOK;
        let now = acked();
        let moved = match (mark, now) {
            (Some(mark), Some(now)) => now.saturating_sub(mark) >= MOVING,
            // A kernel that does not tell.
            _ => true,
        };
        if moved || !place.is_answering() {
            (mark, silent) = (now, Duration::ZERO);
        }
        if silent >= STALLED {
            return;
        }
    }
}

/// A stream that can be looked at while it is used.
#[derive(Clone, Debug)]
struct Shared(Arc<TcpStream>);

impl AsyncRead for Shared {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(into) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl AsyncWrite for Shared {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.0, rustix::net::Shutdown::Write).map_err(io::Error::from))
    }
}

async fn connection(
    stream: Shared,
    acceptor: TlsAcceptor,
    alt_svc: Option<HeaderValue>,
    serving: Serving,
    place: Arc<Place>,
) {
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(PATIENCE, acceptor.accept(stream)) => accepted,
        // It has not asked for anything.
        () = serving.stopped() => return,
    };
    let Ok(Ok(stream)) = accepted else { return };
    place.has_moved();
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    carry(stream, is_http2, alt_svc, serving, place).await;
}

/// HTTP over a stream, until it ends.
pub(super) async fn carry(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    is_http2: bool,
    alt_svc: Option<HeaderValue>,
    serving: Serving,
    place: Arc<Place>,
) {
    let stopped = serving.clone();
    let mut stopped = pin!(stopped.stopped());
    let streams = Streams(serving.turns.clone(), place.group());
    let service = service_fn(move |request: Request<Incoming>| {
        let (serving, alt_svc, place) = (serving.clone(), alt_svc.clone(), place.clone());
        async move {
            let mut answer = respond(serving, place, request).await;
            if let Some(alt_svc) = alt_svc {
                answer.headers_mut().insert(ALT_SVC, alt_svc);
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let io = TokioIo::new(stream);
    // What goes wrong with one connection concerns its client alone.
    if is_http2 {
        let mut builder = hyper::server::conn::http2::Builder::new(streams);
        builder.timer(TokioTimer::new()).keep_alive_interval(PATIENCE).max_concurrent_streams(128);
        builder.max_send_buf_size(SENDING);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = &mut stopped => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = &mut stopped => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// The answer, looked up where a disk may be waited for.
async fn respond(serving: Serving, place: Arc<Place>, request: Request<Incoming>) -> Response<Sent> {
    place.has_moved();
    let Some(turn) = place.answer() else { return answer::busy().map(|body| Sent { body, turn: None }) };
    let (head, _) = request.into_parts();
    let look = place.look().await;
    let found = tokio::task::spawn_blocking(move || {
        let _look = look;
        answer(&serving.site, &head.method, &head.uri, &head.headers)
    });
    let answer = found.await.unwrap_or_else(|_| {
        let mut failed = Response::new(Body::Empty);
        *failed.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        failed
    });
    answer.map(|body| Sent { body, turn: Some(turn) })
}

/// A body under way, which has its turn until it was taken.
struct Sent {
    body: Body,
    turn: Option<Turn>,
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let is_scarce = self.turn.as_ref().is_none_or(Turn::is_scarce);
        let piece = match &mut self.body {
            Body::Empty => return Poll::Ready(None),
            Body::Text(text) if text.is_empty() => return Poll::Ready(None),
            Body::Text(text) => Ok(std::mem::take(text)),
            Body::File(chunks) => match ready!(chunks.poll(cx, is_scarce)) {
                Some(piece) => piece,
                None => return Poll::Ready(None),
            },
        };
        if let Some(turn) = &self.turn {
            turn.has_moved();
        }
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.body {
            Body::Empty => 0,
            Body::Text(text) => text.len() as u64,
            Body::File(chunks) => chunks.left(),
        })
    }
}
