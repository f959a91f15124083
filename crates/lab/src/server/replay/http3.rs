//! Recorded answers over HTTP/3 (RFC 9114), by `quinn` and `h3`: one thread for all addresses and connections.
//!
//! Streams of a connection share it evenly, whatever urgency their requests say: h3 does not tell quinn. Congestion
//! control is quinn's CUBIC and remembers nothing, so that loads do not learn from each other.

use super::{ReplayState, multiplexed};
use crate::page::recording::{RequestKey, Scheme};
use crate::server::head;
use bytes::Bytes;
use h3::error::Code;
use h3::server::RequestResolver;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime, TransportConfig};
use rustix::net::sockopt;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use tokio::task::JoinSet;

/// Streams at a time: as over HTTP/2.
const STREAMS: u32 = 128;
/// Room for a burst while the thread is not scheduled.
const BUFFER: usize = 1 << 20;

/// Everything that listens for QUIC. It ends when this is dropped.
pub(super) struct Listeners {
    endpoints: Vec<Endpoint>,
    thread: Option<JoinHandle<()>>,
}

impl Listeners {
    /// Listens on UDP `port` of each of `ips`, in the namespace of the calling thread.
    pub fn start(ips: &[IpAddr], port: u16, shared: &Arc<ReplayState>) -> io::Result<Self> {
        let mut tls = (*shared.tls.plain).clone();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(STREAMS.into());
        config.transport_config(Arc::new(transport));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let endpoint = |ip: &IpAddr| {
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{ip} port {port} over UDP: {e}"));
            let socket = UdpSocket::bind((*ip, port)).map_err(named)?;
            // Whatever the kernel gives will do.
            let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
            let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER);
            Endpoint::new(EndpointConfig::default(), Some(config.clone()), socket, Arc::new(TokioRuntime))
                .map_err(named)
        };
        let endpoints = {
            let _inside = runtime.enter();
            ips.iter().map(endpoint).collect::<io::Result<Vec<_>>>()?
        };
        let (serving, shared) = (endpoints.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("replay-quic".into()).spawn(move || {
            runtime.block_on(async {
                let mut all = JoinSet::new();
                for endpoint in serving {
                    all.spawn(accept(endpoint, shared.clone()));
                }
                while all.join_next().await.is_some() {}
            });
        })?;
        Ok(Self { endpoints, thread: Some(thread) })
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        // Connections end with it, and nothing is accepted any more.
        self.endpoints.iter().for_each(|endpoint| endpoint.close(0u32.into(), b""));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(endpoint: Endpoint, shared: Arc<ReplayState>) {
    let mut connections = JoinSet::new();
    while let Some(incoming) = endpoint.accept().await {
        connections.spawn(connection(incoming, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// What goes wrong on a connection is for the program at its other end to tell.
async fn connection(incoming: Incoming, shared: Arc<ReplayState>) {
    let Ok(opened) = incoming.await else { return };
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let mut builder = h3::server::builder();
    builder.max_field_section_size(head::LONGEST_HEAD as u64);
    let Ok(mut http) = builder.build::<_, Bytes>(h3_quinn::Connection::new(opened)).await else { return };
    let mut answering = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = answering.join_next(), if !answering.is_empty() => {}
            accepted = http.accept() => match accepted {
                Ok(Some(resolver)) => _ = answering.spawn(answer(resolver, shared.clone())),
                _ => break,
            },
        }
    }
    while answering.join_next().await.is_some() {}
}

async fn answer(resolver: RequestResolver<h3_quinn::Connection, Bytes>, shared: Arc<ReplayState>) {
    let Ok((request, mut stream)) = resolver.resolve_request().await else { return };
    // Bodies of requests are thrown away.
    while let Ok(Some(_)) = stream.recv_data().await {}
    let (parts, ()) = request.into_parts();
    let host = parts.uri.authority().map_or("", |a| a.as_str());
    let target = parts.uri.path_and_query().map_or("/", |t| t.as_str());
    let found = shared.find(RequestKey { host, method: parts.method.as_str(), target, scheme: Scheme::Https });
    shared.come(found).await;
    let Some((head, content)) = multiplexed::answer(found, shared.tls.alternative(host)) else {
        return stream.stop_stream(Code::H3_INTERNAL_ERROR);
    };
    if stream.send_response(head).await.is_err() {
        return;
    }
    let empty = content.is_empty() || parts.method == http::Method::HEAD;
    if !empty && stream.send_data(Bytes::from(content)).await.is_err() {
        return;
    }
    let _ = stream.finish().await;
}
