//! A small HTTP/1.1 server for this host's own programs and browsers: a table of routes, each checked before it is served.
//!
//! Connections, their heads and their patience are bounded. Bodies of requests are never read: what is asked for is in the path.

mod guard;
mod patient;

#[cfg(test)]
pub use guard::Needs;
pub use guard::{Guard, Route};

use crate::seat::{Room, Seat};
use headstart_realtime::admission::{Admission, Arrival};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use patient::Patient;
use std::convert::Infallible;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

/// Connections at once. Browsers open at most six.
const MOST_CONNECTIONS: usize = 64;
/// Connections that have not asked for anything yet.
const MOST_UNDECIDED: usize = 64;
/// How long a client may take for the head of a request, and take nothing of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a head at most.
const LONGEST_HEAD: usize = 16 * 1024;
/// How long open answers may take when the server stops.
const GRACE: Duration = Duration::from_secs(1);

/// What a route is asked.
#[derive(Debug)]
pub struct RouteRequest {
    /// The route's path, as the table has it.
    pub path: &'static str,
    /// What follows `?`, as it was written.
    pub query: String,
    /// The header.
    pub headers: HeaderMap,
}

/// An answer.
#[derive(Debug)]
pub struct Answer(Response<Content>);

impl Answer {
    /// Text or bytes of a media type.
    pub fn of(media_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let mut answer = Response::new(Content::Whole(Some(bytes.into())));
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        Self(answer)
    }

    /// Words, with a status.
    pub fn plain(status: StatusCode, words: impl Into<Bytes>) -> Self {
        let mut answer = Self::of("text/plain; charset=utf-8", words);
        *answer.0.status_mut() = status;
        answer
    }

    /// Pieces that come one by one; it ends when their sender is gone.
    pub fn pieces(media_type: &'static str, pieces: mpsc::Receiver<Bytes>) -> Self {
        let mut answer = Self::of(media_type, "");
        *answer.0.body_mut() = Content::Pieces(pieces);
        answer
    }
}

/// The body of an answer.
#[derive(Debug)]
pub enum Content {
    Whole(Option<Bytes>),
    Pieces(mpsc::Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b)))),
            Self::Pieces(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}

/// Serves `routes` until `ending` becomes readable (see `sys::signal::ending`).
pub fn serve<F: Future<Output = Answer> + Send + 'static>(
    listener: TcpListener,
    guard: Guard,
    routes: &'static [Route],
    respond: impl Fn(RouteRequest) -> F + Send + Sync + 'static,
    ending: OwnedFd,
) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(4).enable_all().build()?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let server = Arc::new(Server { guard, routes, respond, room: Room::of_host(MOST_CONNECTIONS) });
        let admission = Admission::new(MOST_UNDECIDED);
        let (stop, stopped) = watch::channel(false);
        let mut until = stopped.clone();
        let all = crate::accept::admitted(
            listener,
            move |stream, peer| admission.arrive(stream, peer),
            async move { _ = until.wait_for(|stop| *stop).await },
            move |stream, arrival| connection(Arc::clone(&server), stream, arrival, stopped.clone()),
        );
        let all = tokio::spawn(all);
        crate::serve::ended(ending).await?;
        let _ = stop.send(true);
        let _ = tokio::time::timeout(GRACE, all).await;
        anyhow::Ok(())
    });
    // A question that is not answered is not waited for.
    runtime.shutdown_background();
    served
}

/// What all connections share.
struct Server<R> {
    guard: Guard,
    routes: &'static [Route],
    respond: R,
    room: Arc<Room>,
}

/// Serves one connection. Until its first request it may have to give way to others.
async fn connection<F: Future<Output = Answer> + Send + 'static, R: Fn(RouteRequest) -> F + Send + Sync + 'static>(
    server: Arc<Server<R>>,
    stream: TcpStream,
    arrival: Arrival,
    mut stopped: watch::Receiver<bool>,
) {
    let Ok(Some(place)) = tokio::time::timeout(PATIENCE, arrival.place()).await else { return };
    let is_needed = place.is_needed();
    let seat = Arc::new(Seat::new(place, Arc::clone(&server.room)));
    let of_requests = Arc::clone(&seat);
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, seat) = (Arc::clone(&server), Arc::clone(&of_requests));
        async move {
            let Server { guard, routes, respond, .. } = &*server;
            Ok::<_, Infallible>(if seat.admit(seat.own()) {
                answer(guard, routes, respond, &request).await
            } else {
                Answer::plain(StatusCode::SERVICE_UNAVAILABLE, "too many connections are open\n").0
            })
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    // Not by writev: as in `serve::tcp`.
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD).writev(false);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(Patient::new(stream)), service));
    let silent = tokio::select! {
        // What goes wrong with one connection concerns its client alone.
        ended = served.as_mut() => ended.is_err_and(|why| why.is_timeout()),
        () = is_needed => false,
        () = async { _ = stopped.wait_for(|stop| *stop).await } => {
            // An answer may be under way: that the daemon has stopped reaches the page that has stopped it.
            served.as_mut().graceful_shutdown();
            _ = served.await;
            false
        }
    };
    seat.ended(silent);
}

async fn answer<F: Future<Output = Answer>>(
    guard: &Guard,
    routes: &'static [Route],
    respond: &impl Fn(RouteRequest) -> F,
    request: &Request<Incoming>,
) -> Response<Content> {
    let checked = guard.check(routes, request.method(), request.uri().path(), request.headers());
    let Answer(mut response) = match checked {
        Ok(path) => {
            let query = request.uri().query().unwrap_or_default().to_owned();
            respond(RouteRequest { path, query, headers: request.headers().clone() }).await
        }
        Err((status, why)) => Answer::plain(status, why),
    };
    guard.label(response.headers_mut());
    response
}
