//! A connection of the loader: to the first address that answers, TLS, then one request after the other (HTTP/1.1) or all at
//! once (HTTP/2; HTTP/3 is [`super::http3`]'s).

use super::{FALLBACK, LoaderState, ObjectEvent, Queue, Transport, http3};
use crate::page::Protocol;
use crate::server::head::{self, Chunks, Framing};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Chromium's windows: 6 MiB a stream, 15 MiB a connection.
const STREAM_WINDOW: u32 = 6 << 20;
const CONNECTION_WINDOW: u32 = 15 << 20;

/// Serves a host's queue until the loader is gone.
pub(super) async fn serve(
    name: String,
    protocol: Protocol,
    queue: Arc<Queue>,
    opening: Arc<AtomicUsize>,
    shared: Arc<LoaderState>,
) {
    // The object for which a connection is opened again, after a server has closed one.
    let mut first = None;
    loop {
        let served = if protocol == Protocol::Http3 {
            http3::serve(&name, first.take(), &queue, &shared).await
        } else {
            opening.fetch_add(1, Ordering::Relaxed);
            let stream = open(&name, protocol, &shared).await;
            opening.fetch_sub(1, Ordering::Relaxed);
            match stream {
                Err(e) => Err(e),
                Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                    all_at_once(stream, first.take(), &queue, &shared).await
                }
                Ok(stream) => one_by_one(stream, first.take(), &queue, &shared).await,
            }
        };
        if served.is_err() {
            for object in queue.drain().into_iter().chain(first) {
                let _ = shared.tell.send(ObjectEvent::Failed(object));
            }
            return;
        }
        first = Some(queue.next(&shared.requests).await);
    }
}

async fn open(name: &str, protocol: Protocol, shared: &LoaderState) -> io::Result<TlsStream<TcpStream>> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name, 443)).await?.collect();
    let socket = connect(&addresses, shared.transport).await?;
    socket.set_nodelay(true)?;
    let mut config = (*shared.config).clone();
    let offered: &[&[u8]] = if protocol == Protocol::Http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = offered.iter().map(|p| p.to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

/// IPv6 first, IPv4 beside it after a while; within a family one after the other.
async fn connect(addresses: &[SocketAddr], transport: Transport) -> io::Result<TcpStream> {
    let of = |v6: bool| addresses.iter().copied().filter(move |a| a.is_ipv6() == v6).collect::<Vec<_>>();
    let in_turn = |list: Vec<SocketAddr>| async move {
        let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "no address of this family");
        for address in list {
            match connect_to(address, transport).await {
                Ok(socket) => return Ok(socket),
                Err(e) => last = e,
            }
        }
        Err(last)
    };
    let first = in_turn(of(true));
    tokio::pin!(first);
    match tokio::time::timeout(FALLBACK, &mut first).await {
        Ok(Ok(socket)) => return Ok(socket),
        Ok(Err(_)) => return in_turn(of(false)).await,
        Err(_) => {}
    }
    let second = in_turn(of(false));
    tokio::pin!(second);
    tokio::select! {
        Ok(socket) = &mut first => Ok(socket),
        Ok(socket) = &mut second => Ok(socket),
        else => Err(io::Error::new(io::ErrorKind::NotConnected, "no address of either family answers")),
    }
}

async fn connect_to(address: SocketAddr, transport: Transport) -> io::Result<TcpStream> {
    if transport == Transport::Tcp {
        return TcpStream::connect(address).await;
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::MPTCP))?;
    TcpSocket::from_std_stream(socket.into()).connect(address).await
}

/// Until the server says that it closes the connection.
async fn one_by_one(
    mut stream: TlsStream<TcpStream>,
    mut first: Option<usize>,
    queue: &Queue,
    shared: &LoaderState,
) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        let object = match first.take() {
            Some(object) => object,
            None => queue.next(&shared.requests).await,
        };
        let asked = exchange(&mut stream, object, &mut read, shared).await;
        let _ = shared.tell.send(if asked.is_ok() { ObjectEvent::Done(object) } else { ObjectEvent::Failed(object) });
        if asked? {
            return Ok(());
        }
    }
}

/// Whether the connection ends with it.
async fn exchange(
    stream: &mut TlsStream<TcpStream>,
    object: usize,
    read: &mut Vec<u8>,
    shared: &LoaderState,
) -> io::Result<bool> {
    let request = &shared.requests[object];
    let start = format!("GET {} HTTP/1.1\r\nHost: {}\r\nPad: ", request.target, request.host);
    let pad = (request.bytes as usize).saturating_sub(start.len() + 4);
    stream.write_all(format!("{start}{}\r\n\r\n", "x".repeat(pad)).as_bytes()).await?;
    stream.flush().await?;
    let _ = shared.tell.send(ObjectEvent::Sent(object));
    let (mut framing, mut chunks, mut seen, mut closes) = (None, Chunks::default(), 0u64, false);
    let broken = |what: head::Bad| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut buffer = vec![0; 64 << 10];
    loop {
        if framing.is_none()
            && let Some(end) = head::end(read)
        {
            let answer = head::parse(&read[..end]).map_err(broken)?;
            framing = Some(head::of_response(&answer, b"GET").map_err(broken)?);
            closes = head::closes(&answer);
            read.drain(..end);
        }
        match framing {
            Some(Framing::Length(length)) => {
                let taken = (read.len() as u64).min(length - seen);
                read.drain(..taken as usize);
                seen += taken;
                if seen == length {
                    return Ok(closes);
                }
            }
            Some(Framing::Chunked) => {
                let taken = chunks.take(read, |_| ()).map_err(broken)?;
                read.drain(..taken);
                if chunks.done() {
                    return Ok(closes);
                }
            }
            Some(Framing::UntilClose) => read.clear(),
            None => {}
        }
        let new = stream.read(&mut buffer).await?;
        if new == 0 {
            let whole = framing == Some(Framing::UntilClose);
            return if whole { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        read.extend(&buffer[..new]);
        let _ = shared.tell.send(ObjectEvent::Bytes(object, new as u64));
    }
}

async fn all_at_once(
    stream: TlsStream<TcpStream>,
    mut first: Option<usize>,
    queue: &Queue,
    shared: &Arc<LoaderState>,
) -> io::Result<()> {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW).enable_push(false);
    let (mut client, connection) =
        builder.handshake::<_, io::Cursor<Vec<u8>>>(stream).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    loop {
        let object = match first.take() {
            Some(object) => object,
            None => queue.next(&shared.requests).await,
        };
        client = client.ready().await.map_err(io::Error::other)?;
        let asked = &shared.requests[object];
        let request = http::Request::get(format!("https://{}{}", asked.host, asked.target))
            .header("priority", format!("u={}", asked.urgency))
            .body(())
            .map_err(io::Error::other)?;
        let (answer, _) = client.send_request(request, true).map_err(io::Error::other)?;
        let _ = shared.tell.send(ObjectEvent::Sent(object));
        let tell = shared.tell.clone();
        tokio::spawn(async move {
            let told = match receive(answer, object, &tell).await {
                Ok(()) => ObjectEvent::Done(object),
                Err(_) => ObjectEvent::Failed(object),
            };
            let _ = tell.send(told);
        });
    }
}

async fn receive(
    answer: h2::client::ResponseFuture,
    object: usize,
    tell: &tokio::sync::mpsc::UnboundedSender<ObjectEvent>,
) -> Result<(), h2::Error> {
    let mut body = answer.await?.into_body();
    // A head is bytes, too.
    let _ = tell.send(ObjectEvent::Bytes(object, 1));
    while let Some(bytes) = body.data().await {
        let bytes = bytes?;
        body.flow_control().release_capacity(bytes.len())?;
        let _ = tell.send(ObjectEvent::Bytes(object, bytes.len() as u64));
    }
    Ok(())
}
