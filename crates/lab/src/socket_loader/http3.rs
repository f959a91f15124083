//! A connection of the loader over QUIC: all requests at once (HTTP/3).

use super::{FALLBACK, LoaderState, ObjectEvent, Queue};
use bytes::{Buf as _, Bytes};
use h3::client::RequestStream;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

/// Asks for what is in the queue, `first` before it, until the loader is gone.
pub(super) async fn serve(
    name: &str,
    mut first: Option<usize>,
    queue: &Queue,
    shared: &Arc<LoaderState>,
) -> io::Result<()> {
    let connection = connect(name, shared).await?;
    let (mut driver, mut requests) =
        h3::client::new(h3_quinn::Connection::new(connection)).await.map_err(io::Error::other)?;
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    loop {
        let object = match first.take() {
            Some(object) => object,
            None => queue.next(&shared.requests).await,
        };
        let asked = &shared.requests[object];
        let request = http::Request::get(format!("https://{}{}", asked.host, asked.target))
            .header("priority", format!("u={}", asked.urgency))
            .body(())
            .map_err(io::Error::other)?;
        let mut stream = requests.send_request(request).await.map_err(io::Error::other)?;
        stream.finish().await.map_err(io::Error::other)?;
        let _ = shared.tell.send(ObjectEvent::Sent(object));
        let tell = shared.tell.clone();
        tokio::spawn(async move {
            let told = match receive(&mut stream, object, &tell).await {
                Ok(()) => ObjectEvent::Done(object),
                Err(_) => ObjectEvent::Failed(object),
            };
            let _ = tell.send(told);
        });
    }
}

async fn receive(
    stream: &mut RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    object: usize,
    tell: &UnboundedSender<ObjectEvent>,
) -> Result<(), h3::error::StreamError> {
    stream.recv_response().await?;
    // A head is bytes, too.
    let _ = tell.send(ObjectEvent::Bytes(object, 1));
    while let Some(piece) = stream.recv_data().await? {
        let _ = tell.send(ObjectEvent::Bytes(object, piece.remaining() as u64));
    }
    Ok(())
}

/// To the first address of IPv6, and to that of IPv4 beside it after a while; whichever is there first.
async fn connect(name: &str, shared: &LoaderState) -> io::Result<Connection> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name, 443)).await?.collect();
    let mut tls = (*shared.config).clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let config = ClientConfig::new(Arc::new(tls));
    let mut attempts = JoinSet::new();
    let of = |v6: bool| addresses.iter().copied().find(move |a| a.is_ipv6() == v6);
    for (n, address) in [of(true), of(false)].into_iter().flatten().enumerate() {
        let (config, name) = (config.clone(), name.to_owned());
        attempts.spawn(async move {
            tokio::time::sleep(FALLBACK * n as u32).await;
            let any: IpAddr =
                if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            let endpoint = Endpoint::client((any, 0).into())?;
            endpoint.connect_with(config, address, &name).map_err(io::Error::other)?.await.map_err(io::Error::other)
        });
    }
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt.map_err(io::Error::other).flatten() {
            Ok(connection) => return Ok(connection),
            Err(e) => last = e,
        }
    }
    Err(last)
}
