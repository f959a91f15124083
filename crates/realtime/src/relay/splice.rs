//! Bytes from one stream to another and back, until both directions are at their ends.
//!
//! What one side does not take is held, at most one read of it, and the other side is not read meanwhile: so a slow reader
//! costs 16 KiB and holds up no other pair. An idle pair holds nothing.

use crate::scratch;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};

/// One direction.
#[derive(Default)]
struct Way {
    held: Vec<u8>,
    written: usize,
    /// Written, and perhaps not sent: TLS has buffers of its own.
    unflushed: bool,
    ended: bool,
}

impl Way {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        loop {
            while self.written < self.held.len() {
                self.written += ready!(write(cx, to, &self.held[self.written..]))?;
                self.unflushed = true;
            }
            (self.held, self.written) = (Vec::new(), 0);
            if self.ended {
                return Pin::new(&mut *to).poll_shutdown(cx);
            }
            let Self { held, unflushed, .. } = self;
            let took = scratch::poll_read(cx, from, usize::MAX, |cx, bytes| {
                let mut at = 0;
                while at < bytes.len() {
                    match write(cx, to, &bytes[at..]) {
                        Poll::Ready(Ok(n)) => (at, *unflushed) = (at + n, true),
                        Poll::Ready(Err(error)) => return Err(error),
                        Poll::Pending => {
                            held.extend_from_slice(&bytes[at..]);
                            break;
                        }
                    }
                }
                Ok(bytes.len())
            });
            match took {
                Poll::Ready(taken) => self.ended = taken?? == 0,
                Poll::Pending => {
                    if self.unflushed {
                        ready!(Pin::new(&mut *to).poll_flush(cx))?;
                        self.unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

/// Writes something of `bytes`; a stream that takes none is broken.
fn write(cx: &mut Context<'_>, to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Poll<io::Result<usize>> {
    match ready!(Pin::new(to).poll_write(cx, bytes)) {
        Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        other => Poll::Ready(other),
    }
}

/// Carries bytes both ways; ends when both directions have, or at the first error.
pub(crate) async fn splice(
    mut a: impl AsyncRead + AsyncWrite + Unpin,
    mut b: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    let (mut there, mut back) = (Way::default(), Way::default());
    let (mut there_done, mut back_done) = (false, false);
    poll_fn(|cx| {
        if !there_done {
            there_done = match there.poll(cx, &mut a, &mut b) {
                Poll::Ready(result) => result.map(|()| true)?,
                Poll::Pending => false,
            };
        }
        if !back_done {
            back_done = match back.poll(cx, &mut b, &mut a) {
                Poll::Ready(result) => result.map(|()| true)?,
                Poll::Pending => false,
            };
        }
        if there_done && back_done { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn bytes_go_both_ways_and_the_end_of_one_is_not_the_end_of_the_other() {
        // Narrower than a read, so that something is always held.
        let (mut near, a) = tokio::io::duplex(100);
        let (b, mut far) = tokio::io::duplex(7);
        let splicing = tokio::spawn(splice(a, b));
        let sent: Vec<u8> = (0..50_000u32).map(|k| (k.wrapping_mul(k) >> 5) as u8).collect();
        let expected = sent.clone();
        let writing = tokio::spawn(async move {
            near.write_all(&sent).await.unwrap();
            near.shutdown().await.unwrap();
            let mut back = Vec::new();
            near.read_to_end(&mut back).await.unwrap();
            back
        });
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        assert!(got == expected);
        far.write_all(&got).await.unwrap();
        drop(far);
        assert!(writing.await.unwrap() == expected);
        splicing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn who_does_not_read_stops_the_reading_of_the_other_side() {
        let (mut near, a) = tokio::io::duplex(1024);
        let (b, far) = tokio::io::duplex(1024);
        let splicing = tokio::spawn(splice(a, b));
        let mut taken = 0;
        // Until nothing is taken for as long as anything could still move in this thread.
        let mut idle = 0;
        while idle < 100 {
            let once = poll_fn(|cx| Poll::Ready(Pin::new(&mut near).poll_write(cx, &[7; 512]))).await;
            match once {
                Poll::Ready(n) => (taken, idle) = (taken + n.unwrap(), 0),
                Poll::Pending => idle += 1,
            }
            tokio::task::yield_now().await;
        }
        assert!((1024..=2 * 1024 + 16 * 1024).contains(&taken), "{taken}");
        drop(far);
        assert!(splicing.await.unwrap().is_err());
    }
}
