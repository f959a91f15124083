//! HTTP/2 and HTTP/1.1 over TLS over TCP (RFC 9113, RFC 9112), which also tell of HTTP/3 beside them (Alt-Svc, RFC 7838).

use super::Serving;
use super::access::Visit;
use super::answer::{self, Body, answer};
use super::places::{Place, Turn};
use super::stalls::{LOOK, MOVING, Path, Pieces, Progress, STALLED, Streams, own};
use headstart_io::sys::socket_option;
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
/// How long a client of HTTP/2 may take for the answer to a PING, which waits behind what was sent before: a minute and more behind
/// megabytes on a slow link, if the kernel may take them, and [`UNSENT`] behind the window with this bound.
const PONG: Duration = Duration::from_secs(40);
/// Bytes that may wait in the kernel to be sent for the first time (TCP_NOTSENT_LOWAT of linux/tcp.h).
const UNSENT: i32 = 64 * 1024;
const NOTSENT_LOWAT: (i32, i32) = (6, 25);
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
            // Kernels of today have it; without it more waits in the socket.
            socket_option::set(&stream, NOTSENT_LOWAT, &socket_option::Value::of_int(UNSENT));
            let stream = PeekStream(Arc::new(stream));
            let turns = serving.turns.clone();
            let streams = Streams::new(turns.clone(), place.group());
            let serving = serving.of(from.ip());
            let connection = connection(stream.clone(), acceptor, alt_svc, serving, place.clone(), streams.clone());
            tokio::select! {
                () = turns.of(place.group(), connection) => {}
                () = place.must_leave() => {}
                () = has_stalled(&stream.0, &place, &streams) => {}
            }
        }
    })
    .await;
}

/// Ends streams of which the client takes nothing for a while, and returns when it takes next to nothing of all that is under way:
/// neither does it give credit nor acknowledge anything but what keeps a connection alive. A slow link acknowledges, however much
/// is in the kernel.
async fn has_stalled(stream: &TcpStream, place: &Place, streams: &Streams) {
    let looked = || headstart_io::sys::tcp_info::tcp_info(stream).ok();
    let acked = || looked().and_then(|info| info.bytes_acked);
    let (mut mark, mut last, mut silent) = (acked(), acked(), Duration::ZERO);
    loop {
        tokio::time::sleep(LOOK).await;
        silent += LOOK;
        let info = looked();
        let now = info.and_then(|info| info.bytes_acked);
        let since = |mark: Option<u64>| Some(now?.saturating_sub(mark?));
        let is_empty = info.is_some_and(|info| info.unacked == 0 && info.not_sent == Some(0));
        // Without the count of the kernel no stream is taken for stalled.
        let has_ended = streams.look(LOOK, Path { is_empty, moved: since(last).unwrap_or(u64::MAX) });
        last = now;
        if since(mark).is_none_or(|moved| moved >= MOVING) || !place.is_answering() {
            (mark, silent) = (now, Duration::ZERO);
        }
        // One whose streams end by themselves may be good for others.
        if silent >= STALLED && !has_ended {
            return;
        }
    }
}

/// A stream that can be looked at while it is used.
#[derive(Clone, Debug)]
struct PeekStream(Arc<TcpStream>);

impl AsyncRead for PeekStream {
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

impl AsyncWrite for PeekStream {
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
    stream: PeekStream,
    acceptor: TlsAcceptor,
    alt_svc: Option<HeaderValue>,
    serving: Serving,
    place: Arc<Place>,
    streams: Streams,
) {
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(PATIENCE, acceptor.accept(stream)) => accepted,
        // It has not asked for anything.
        () = serving.stopped() => return,
    };
    let Ok(Ok(stream)) = accepted else { return };
    place.has_moved();
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    carry(stream, is_http2, alt_svc, serving, place, streams).await;
}

/// HTTP over a stream, until it ends.
pub(super) async fn carry(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    is_http2: bool,
    alt_svc: Option<HeaderValue>,
    serving: Serving,
    place: Arc<Place>,
    streams: Streams,
) {
    let stopped = serving.clone();
    let mut stopped = pin!(stopped.stopped());
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
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(PATIENCE)
            .keep_alive_timeout(PONG)
            .max_concurrent_streams(128);
        builder.max_send_buf_size(SENDING);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = &mut stopped => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        // Not by writev: there hyper 1.12 puts the refusal of what is no request into an answer that is half written.
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD).writev(false);
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
    let (head, _) = request.into_parts();
    let visit = serving.access.visit(&head.method, &head.uri, head.version, &head.headers);
    let Some(turn) = place.answer() else { return sent(answer::busy(), None, visit) };
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
    sent(answer, Some(turn), visit)
}

fn sent(answer: Response<Body>, turn: Option<Turn>, visit: Visit) -> Response<Sent> {
    visit.is_answered(answer.status());
    answer.map(|body| Sent { body, pieces: Pieces::new(), turn, progress: own(), visit })
}

/// A body under way, which has its turn until it was taken.
struct Sent {
    body: Body,
    pieces: Pieces,
    turn: Option<Turn>,
    progress: Option<Arc<Progress>>,
    visit: Visit,
}

impl Sent {
    /// Bytes behind those that are being cut into pieces.
    fn behind(&self) -> u64 {
        match &self.body {
            Body::Empty => 0,
            Body::Text(text) => text.len() as u64,
            Body::File(chunks) => chunks.left(),
        }
    }
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(progress) = &self.progress {
            progress.is_asked();
        }
        if self.pieces.left() == 0 {
            let is_scarce = self.turn.as_ref().is_none_or(Turn::is_scarce);
            let more = match &mut self.body {
                Body::Empty => return Poll::Ready(None),
                Body::Text(text) => std::mem::take(text),
                Body::File(chunks) => match ready!(chunks.poll(cx, is_scarce)) {
                    Some(Ok(more)) => more,
                    Some(Err(why)) => return Poll::Ready(Some(Err(why))),
                    None => return Poll::Ready(None),
                },
            };
            self.pieces.fill(more);
        }
        let is_last = self.behind() == 0;
        let piece = match &self.progress {
            Some(_) => self.pieces.next(is_last),
            // HTTP/1.1: what is taken of it shows in the connection.
            None => self.pieces.all(),
        };
        let Some(piece) = piece else { return Poll::Ready(None) };
        if let Some(progress) = &self.progress {
            progress.has_handed();
        }
        if let Some(turn) = &self.turn {
            turn.has_moved();
        }
        self.visit.has_sent(piece.len());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pieces.left() + self.behind())
    }
}
