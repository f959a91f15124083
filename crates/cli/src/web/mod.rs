//! A small HTTP/1.1 server for this host's own programs and browsers: a table of routes, each checked before it is served.
//!
//! Connections, their heads and their patience are bounded. Bodies of requests are never read: what is asked for is in the path.

mod guard;

#[cfg(test)]
pub use guard::Needs;
pub use guard::{Guard, Route};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Connections at once. Browsers open at most six.
const MOST_CONNECTIONS: usize = 64;
/// How long a client may take for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a head at most.
const LONGEST_HEAD: usize = 16 * 1024;
/// How long open answers may take when the server stops.
const GRACE: Duration = Duration::from_secs(1);

/// What a route is asked.
#[derive(Debug)]
pub struct Asked {
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
    respond: impl Fn(Asked) -> F + Send + Sync + 'static,
    ending: OwnedFd,
) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(4).enable_all().build()?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (guard, respond) = (Arc::new(guard), Arc::new(respond));
        let (stop, stopped) = watch::channel(false);
        let mut until = stopped.clone();
        let all = crate::accept::each(
            listener,
            MOST_CONNECTIONS,
            async move { _ = until.wait_for(|stop| *stop).await },
            move |stream, place| {
                let (guard, respond, mut stopped) = (Arc::clone(&guard), Arc::clone(&respond), stopped.clone());
                async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (guard, respond) = (Arc::clone(&guard), Arc::clone(&respond));
                        async move { Ok::<_, Infallible>(answer(&guard, routes, &*respond, &request).await) }
                    });
                    let mut builder = hyper::server::conn::http1::Builder::new();
                    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD);
                    tokio::select! {
                        // What goes wrong with one connection concerns its client alone.
                        _ = builder.serve_connection(TokioIo::new(stream), service) => {}
                        _ = stopped.wait_for(|stop| *stop) => {}
                    }
                    drop(place);
                }
            },
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

async fn answer<F: Future<Output = Answer>>(
    guard: &Guard,
    routes: &'static [Route],
    respond: &impl Fn(Asked) -> F,
    request: &Request<Incoming>,
) -> Response<Content> {
    let checked = guard.check(routes, request.method(), request.uri().path(), request.headers());
    let Answer(mut response) = match checked {
        Ok(path) => {
            let query = request.uri().query().unwrap_or_default().to_owned();
            respond(Asked { path, query, headers: request.headers().clone() }).await
        }
        Err((status, why)) => Answer::plain(status, why),
    };
    guard.label(response.headers_mut());
    response
}
