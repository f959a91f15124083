//! HTTP/3 (RFC 9114), over QUIC connections that start by the history of their paths.

use super::Serving;
use super::answer::{Body, answer};
use super::borrowed::Borrowed;
use super::bounded::Bounded;
use h3::error::Code;
use h3::server::RequestResolver;
use headstart_quic::adapter::Watch;
use hyper::body::Bytes;
use hyper::header::{DATE, HeaderValue};
use quinn::{Connection, Endpoint, Incoming, Runtime as _, TokioRuntime, TransportConfig};
use std::pin::pin;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Bytes of the head of a request: as much as browsers send with all their cookies.
const MOST_HEAD: u64 = 64 * 1024;

/// Bytes of a stream that may come before they are looked at.
const RECEIVED: u32 = 128 * 1024;

type Quic = Bounded<h3_quinn::Connection>;

/// Serves connections to `endpoint` until shutdown; open requests are finished.
pub async fn serve(endpoint: Endpoint, serving: Serving) {
    let mut connections = JoinSet::new();
    let stopped = serving.clone();
    let mut stopped = pin!(stopped.stopped());
    loop {
        let incoming = tokio::select! {
            () = &mut stopped => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { break };
        if let Some(incoming) = admitted(&endpoint, incoming, serving.most_connections) {
            let serving = serving.clone();
            connections.spawn(async move { admit(incoming, serving).await });
        }
    }
    while connections.join_next().await.is_some() {}
    endpoint.close(quinn::VarInt::from_u32(0x100), b"");
    endpoint.wait_idle().await;
}

/// Half full, addresses are to be proved first (RFC 9000, section 8.1.2), so that spoofed ones cost a packet each; full,
/// no connection is accepted.
fn admitted(endpoint: &Endpoint, incoming: Incoming, most: usize) -> Option<Incoming> {
    let open = endpoint.open_connections();
    if open >= most {
        incoming.refuse();
        None
    } else if open >= most / 2 && !incoming.remote_address_validated() && incoming.may_retry() {
        let _ = incoming.retry();
        None
    } else {
        Some(incoming)
    }
}

async fn admit(incoming: Incoming, serving: Serving) {
    let paths = &serving.paths;
    let (remote, validated) = (incoming.remote_address(), incoming.remote_address_validated());
    let borrowed = Borrowed::of(paths, remote.ip(), validated).await;
    let plan = paths.memory.plan(TokioRuntime.now(), remote, validated);
    let remembered = plan.remembered().map_or(0, |known| known.window);
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(128u32.into());
    let watch = plan.apply(&mut transport);
    // Clients have little to say; what they say unasked is not to fill the memory of the host.
    transport.max_concurrent_uni_streams(8u32.into());
    transport.stream_receive_window(RECEIVED.into()).receive_window((8 * RECEIVED).into());
    let mut config = serving.quic.clone();
    config.transport_config(Arc::new(transport));
    let told = Told { watch: watch.clone(), rule: paths.memory.options().rule.name, remembered };
    if let Ok(connecting) = incoming.accept_with(Arc::new(config)) {
        // A server may always speak before the handshake is confirmed, and so answers requests in 0-RTT at once.
        match connecting.into_0rtt() {
            Ok((opened, _)) => connection(opened, serving.clone(), told).await,
            Err(connecting) => {
                if let Ok(opened) = connecting.await {
                    connection(opened, serving.clone(), told).await;
                }
            }
        }
    }
    watch.close(TokioRuntime.now());
    paths.learned();
    borrowed.give_back(paths);
}

/// What an answer tells of how its connection began.
#[derive(Clone)]
struct Told {
    watch: Watch,
    rule: &'static str,
    remembered: u64,
}

impl Told {
    /// As Server-Timing (W3C) has it: the start rule, what was remembered of the path and the window now, in bytes.
    fn header(&self) -> Option<HeaderValue> {
        let Self { rule, remembered, .. } = self;
        let window = self.watch.window().unwrap_or(0);
        HeaderValue::from_str(&format!("start;desc=\"{rule} remembered={remembered} window={window}\"")).ok()
    }
}

async fn connection(opened: Connection, serving: Serving, told: Told) {
    let mut builder = h3::server::builder();
    builder.max_field_section_size(MOST_HEAD);
    let Ok(mut http) = builder.build::<_, Bytes>(Quic::new(h3_quinn::Connection::new(opened))).await else { return };
    let mut requests = JoinSet::new();
    let stopped = serving.clone();
    let mut stopped = pin!(stopped.stopped());
    loop {
        tokio::select! {
            () = &mut stopped => break,
            Some(_) = requests.join_next(), if !requests.is_empty() => {}
            // What goes wrong with one connection concerns its client alone.
            accepted = http.accept() => match accepted {
                Ok(Some(resolver)) => _ = requests.spawn(request(resolver, serving.clone(), told.clone())),
                _ => return finish(requests).await,
            },
        }
    }
    // GOAWAY: what has begun is finished, nothing else is begun (RFC 9114, section 5.2). What was sent last may still be on
    // its way: the client closes when it has it.
    if http.shutdown(1).await.is_ok() {
        loop {
            tokio::select! {
                Some(_) = requests.join_next(), if !requests.is_empty() => {}
                accepted = http.accept() => if !matches!(accepted, Ok(Some(_))) { break },
            }
        }
    }
    finish(requests).await;
}

async fn finish(mut requests: JoinSet<()>) {
    while requests.join_next().await.is_some() {}
}

async fn request(resolver: RequestResolver<Quic, Bytes>, serving: Serving, told: Told) {
    // A request whose head does not end is no request.
    let head = tokio::time::timeout(super::tcp::PATIENCE, resolver.resolve_request()).await;
    let Ok(Ok((request, mut stream))) = head else { return };
    let (head, ()) = request.into_parts();
    let found =
        tokio::task::spawn_blocking(move || answer(&serving.site, &head.method, &head.uri, &head.headers)).await;
    let Ok(found) = found else { return stream.stop_stream(Code::H3_INTERNAL_ERROR) };
    let (mut head, body) = found.into_parts();
    // Over TCP, the library does it.
    let now = httpdate::fmt_http_date(headstart_io::clock::wall());
    if let Ok(now) = HeaderValue::from_str(&now) {
        head.headers.insert(DATE, now);
    }
    if let Some(told) = told.header() {
        head.headers.insert("server-timing", told);
    }
    // Nobody reads what comes behind the head of a request to us.
    stream.stop_sending(Code::H3_NO_ERROR);
    if stream.send_response(hyper::Response::from_parts(head, ())).await.is_err() {
        return;
    }
    match body {
        Body::Empty => {}
        Body::Text(text) => {
            if stream.send_data(text).await.is_err() {
                return;
            }
        }
        Body::File(mut chunks) => {
            while let Some(piece) = chunks.next().await {
                // Less than was announced is never passed off as all of it.
                let Ok(piece) = piece else { return stream.stop_stream(Code::H3_INTERNAL_ERROR) };
                if stream.send_data(piece).await.is_err() {
                    return;
                }
            }
        }
    }
    let _ = stream.finish().await;
}
