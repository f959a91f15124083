//! The server of `headstart serve` over streams that are no sockets: what tests and fuzz targets say to it goes straight to HTTP, without
//! TLS and without QUIC. The code behind is that of the server, places and turns included.

use super::site::Site;
use super::stalls::Streams;
use super::{Serving, http3, tcp};
use h3::quic;
use hyper::body::Bytes;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

pub use super::bounded::{OF_CONTROL, OF_REQUEST};

/// A folder that is served.
#[derive(Debug)]
pub struct Server {
    serving: Serving,
    /// Dropped on shutdown.
    _stop: watch::Sender<bool>,
}

impl Server {
    /// Serves a folder.
    pub fn of(folder: &Path) -> anyhow::Result<Self> {
        let (stop_all, stop) = watch::channel(false);
        Ok(Self { serving: Serving::new(Arc::new(Site::open(folder)?), stop), _stop: stop_all })
    }

    /// Serves a connection of HTTP/2 or HTTP/1.1 until it ends. Inside a runtime only.
    pub async fn connection(&self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, is_http2: bool) {
        let Some(place) = self.serving.places.enter(IpAddr::V4(Ipv4Addr::LOCALHOST)) else { return };
        let (turns, serving) = (&self.serving.turns, self.serving.clone());
        let streams = Streams::new(turns.clone(), place.group());
        turns.of(place.group(), tcp::carry(stream, is_http2, None, serving, place.clone(), streams)).await;
    }

    /// Gives connections their turns, and never ends.
    pub async fn turns(&self) {
        self.serving.turns.run().await;
    }

    /// Connections and answers that there are.
    pub fn held(&self) -> (usize, usize) {
        self.serving.places.held()
    }
}

/// Reads requests of HTTP/3 from a connection until it ends: how many heads were read. They are not answered.
pub async fn http3<C>(connection: C) -> usize
where
    C: quic::Connection<Bytes>,
    C::RecvStream: quic::RecvStream<Buf = Bytes>,
    C::BidiStream: quic::RecvStream<Buf = Bytes>,
{
    let Ok(mut http) = http3::bounded(connection).await else { return 0 };
    let mut heads = 0;
    while let Ok(Some(resolver)) = http.accept().await {
        heads += usize::from(resolver.resolve_request().await.is_ok());
    }
    heads
}
