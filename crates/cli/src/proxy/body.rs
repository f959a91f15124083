//! What follows the head of an answer: a text of ours, or what a server sends, counted as it goes by.
//!
//! When all of it has come its size is learned, and the connection that it came over may be asked again.

use super::ProxyState;
use headstart_core::steer::Channel;
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// See the module.
pub enum Body {
    /// A text of the proxy.
    Text(Bytes),
    /// A server's.
    Passing(Passing),
}

/// A body on its way.
pub struct Passing {
    pub inner: Incoming,
    pub bytes: u64,
    pub ended: bool,
    /// Where its size is recorded, and under which key; none for parts of objects.
    pub learn: Option<u64>,
    pub shared: Arc<ProxyState>,
    /// The connection that it comes over, and where that leads.
    pub connection: Option<(Channel, String, SendRequest<Incoming>)>,
}

impl Drop for Passing {
    fn drop(&mut self) {
        if !self.ended && !self.inner.is_end_stream() {
            return;
        }
        if let Some(key) = self.learn {
            self.shared.guess.learn(key, self.bytes);
        }
        if let Some((channel, authority, connection)) = self.connection.take() {
            self.shared.pool.put(channel, authority, connection);
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Text(text) if text.is_empty() => Poll::Ready(None),
            Self::Text(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Self::Passing(passing) => {
                let polled = Pin::new(&mut passing.inner).poll_frame(cx);
                match &polled {
                    Poll::Ready(None) => passing.ended = true,
                    Poll::Ready(Some(Ok(frame))) => {
                        passing.bytes += frame.data_ref().map_or(0, |data| data.len() as u64)
                    }
                    _ => {}
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Passing(passing) => passing.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.len() as u64),
            Self::Passing(passing) => passing.inner.size_hint(),
        }
    }
}
