//! A connection that a session of the relay holds for as long as it likes: its client's until then.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that keeps its place, and all that counts it, until it is dropped, and breaks off when the place is another's.
pub(super) struct Joined<S, P> {
    stream: S,
    must_end: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
    _place: P,
}

impl<S: Unpin, P> Joined<S, P> {
    pub(super) fn new(stream: S, must_end: impl Future<Output = ()> + Send + 'static, place: P) -> Self {
        Self { stream, must_end: Box::pin(must_end), ended: false, _place: place }
    }

    /// The stream, while it may go on; the task of `cx` is woken when it may not.
    fn stream(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut S>> {
        self.ended = self.ended || self.must_end.as_mut().poll(cx).is_ready();
        if self.ended { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(Pin::new(&mut self.stream)) }
    }
}

impl<S: AsyncRead + Unpin, P: Unpin> AsyncRead for Joined<S, P> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_read(cx, buf)
    }
}

/// What has no room for what it reads still writes, and ends then.
impl<S: AsyncWrite + Unpin, P: Unpin> AsyncWrite for Joined<S, P> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream(cx)?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::sync::Notify;

    #[tokio::test]
    async fn a_connection_goes_on_until_its_place_is_anothers_and_keeps_it_until_it_is_dropped() {
        let (leave, place) = (Arc::new(Notify::new()), Arc::new(()));
        let must_end = Arc::clone(&leave);
        let (mut far, near) = duplex(16);
        let mut joined = Joined::new(near, async move { must_end.notified().await }, Arc::clone(&place));
        far.write_all(b"in").await.unwrap();
        joined.write_all(b"out").await.unwrap();
        joined.flush().await.unwrap();
        let mut bytes = [0; 16];
        assert_eq!((joined.read(&mut bytes).await.unwrap(), far.read(&mut bytes).await.unwrap()), (2, 3));
        let (ended, ()) = tokio::join!(joined.read(&mut bytes), async { leave.notify_one() });
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionAborted, "one that reads is woken");
        far.write_all(b"more").await.unwrap();
        assert!(
            joined.read(&mut bytes).await.is_err()
                && joined.write(b"x").await.is_err()
                && joined.flush().await.is_err()
        );
        joined.shutdown().await.unwrap();
        assert_eq!(far.read(&mut bytes).await.unwrap(), 0);
        assert_eq!(Arc::strong_count(&place), 2);
        drop(joined);
        assert_eq!(Arc::strong_count(&place), 1);
    }
}
