//! What an HTTP/3 client may make this server keep in memory: so many bytes of each of its streams, and of all its requests
//! together.
//!
//! h3 keeps what has come of a frame until the frame is whole, however long its sender says that it will be, and QUIC's
//! flow control lets on whatever was taken in. A stream that goes beyond its bound is refused here (H3_EXCESSIVE_LOAD,
//! RFC 9114, section 8.1); what is none of the three kinds of stream that a client must open never gets far in h3
//! itself.

use h3::error::Code;
use h3::quic::{
    self, BidiStream, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming, StreamId,
    WriteBuf,
};
use hyper::body::{Buf as _, Bytes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

/// Bytes of a request: its head, twice as much as is accepted of it (`super::http3`), and what came behind it before
/// it was stopped. A server of files reads no bodies.
pub const OF_REQUEST: u64 = 128 * 1024;
/// Bytes of all requests of a connection that are under way.
const OF_REQUESTS: u64 = 2 * 1024 * 1024;
/// Bytes of a control stream, or of one of QPACK, as long as its connection lives: settings, and some 10 000 changes of
/// priority.
pub const OF_CONTROL: u64 = 256 * 1024;

/// A connection whose streams are bounded, or what opens streams of one.
#[derive(Debug)]
pub struct Bounded<T> {
    inner: T,
    /// Bytes of requests that have come.
    requests: Arc<AtomicU64>,
}

impl<T> Bounded<T> {
    /// Bounds the streams of `inner`.
    pub fn new(inner: T) -> Self {
        Self { inner, requests: Arc::default() }
    }
}

impl<C: quic::Connection<Bytes>> quic::Connection<Bytes> for Bounded<C>
where
    C::RecvStream: RecvStream<Buf = Bytes>,
    C::BidiStream: RecvStream<Buf = Bytes>,
{
    type RecvStream = Stream<C::RecvStream>;
    type OpenStreams = Bounded<C::OpenStreams>;

    fn poll_accept_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        self.inner.poll_accept_recv(cx).map_ok(|inner| Stream::new(inner, OF_CONTROL, None))
    }

    fn poll_accept_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        self.inner.poll_accept_bidi(cx).map_ok(|inner| Stream::new(inner, OF_REQUEST, Some(self.requests.clone())))
    }

    fn opener(&self) -> Self::OpenStreams {
        Bounded { inner: self.inner.opener(), requests: self.requests.clone() }
    }
}

impl<O: OpenStreams<Bytes>> OpenStreams<Bytes> for Bounded<O>
where
    O::BidiStream: RecvStream<Buf = Bytes>,
{
    type BidiStream = Stream<O::BidiStream>;
    type SendStream = O::SendStream;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.inner.poll_open_bidi(cx).map_ok(|inner| Stream::new(inner, OF_REQUEST, Some(self.requests.clone())))
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.inner.close(code, reason);
    }
}

/// A stream of which only so much is taken in.
#[derive(Debug)]
pub struct Stream<S> {
    inner: S,
    /// What has come is part of this sum until the stream is over.
    account: Account,
}

#[derive(Debug)]
struct Account {
    came: u64,
    most: u64,
    all: Option<Arc<AtomicU64>>,
}

impl Account {
    /// `bytes` have come; whether that is too much.
    fn exceeds(&mut self, bytes: u64) -> bool {
        self.came = self.came.saturating_add(bytes);
        let all = self.all.as_ref().map_or(0, |all| all.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
        self.came > self.most || all > OF_REQUESTS
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.fetch_sub(self.came, Ordering::Relaxed);
        }
    }
}

/// More has come than is taken in.
#[derive(Debug)]
struct TooMuch;

impl std::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a client stream exceeds its limit")
    }
}

impl std::error::Error for TooMuch {}

impl<S> Stream<S> {
    fn new(inner: S, most: u64, all: Option<Arc<AtomicU64>>) -> Self {
        Self { inner, account: Account { came: 0, most, all } }
    }
}

impl<S: RecvStream<Buf = Bytes>> RecvStream for Stream<S> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let data = ready!(self.inner.poll_data(cx))?;
        if data.as_ref().is_some_and(|data| self.account.exceeds(data.remaining() as u64)) {
            self.inner.stop_sending(Code::H3_EXCESSIVE_LOAD.value());
            return Poll::Ready(Err(StreamErrorIncoming::Unknown(Box::new(TooMuch))));
        }
        Poll::Ready(Ok(data))
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.inner.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.inner.recv_id()
    }
}

impl<S: SendStream<Bytes>> SendStream<Bytes> for Stream<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.inner.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.inner.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.inner.send_id()
    }
}

impl<S: BidiStream<Bytes> + RecvStream<Buf = Bytes>> BidiStream<Bytes> for Stream<S>
where
    S::RecvStream: RecvStream<Buf = Bytes>,
{
    type SendStream = S::SendStream;
    type RecvStream = Stream<S::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let Self { inner, account } = self;
        let (send, receive) = inner.split();
        (send, Stream { inner: receive, account })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// A client that never ends a frame: so many bytes come each time.
    struct Endless(usize, Option<u64>);

    impl RecvStream for Endless {
        type Buf = Bytes;

        fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
            Poll::Ready(Ok(Some(Bytes::from(vec![0; self.0]))))
        }

        fn stop_sending(&mut self, error_code: u64) {
            self.1 = Some(error_code);
        }

        fn recv_id(&self) -> StreamId {
            StreamId::try_from(0).unwrap()
        }
    }

    /// Takes in what comes until it is refused; how much that was.
    fn taken(stream: &mut Stream<Endless>) -> u64 {
        let mut cx = Context::from_waker(Waker::noop());
        let mut taken = 0;
        while let Poll::Ready(Ok(Some(data))) = stream.poll_data(&mut cx) {
            taken += data.len() as u64;
        }
        assert_eq!(stream.inner.1, Some(Code::H3_EXCESSIVE_LOAD.value()));
        taken
    }

    #[test]
    fn a_frame_that_never_ends_is_refused() {
        assert_eq!(taken(&mut Stream::new(Endless(1024, None), OF_REQUEST, Some(Arc::default()))), OF_REQUEST);
        assert_eq!(taken(&mut Stream::new(Endless(1024, None), OF_CONTROL, None)), OF_CONTROL);
    }

    #[test]
    fn requests_of_a_connection_have_so_much_room_together_and_leave_it_when_they_are_over() {
        let all = Arc::<AtomicU64>::default();
        let mut streams: Vec<_> =
            (0..128).map(|_| Stream::new(Endless(1024, None), OF_REQUEST, Some(all.clone()))).collect();
        let sum: u64 = streams.iter_mut().map(taken).sum();
        assert!(sum <= OF_REQUESTS && sum > OF_REQUESTS / 10 * 9, "{sum}");
        drop(streams);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
