//! HTTP/3 (RFC 9114), over QUIC connections that start by the history of their paths.

use super::Serving;
use super::access::Visit;
use super::answer::{self, Body, answer};
use super::borrowed::Borrowed;
use super::bounded::Bounded;
use super::places::{Place, Places, Turn};
use super::stalls::{LOOK, Path, Pieces, STALLED};
use super::tcp::PATIENCE;
use crate::paths::Remembering;
use h3::error::{Code, ConnectionError};
use h3::quic;
use h3::server::RequestResolver;
use headstart_quic::Watch;
use hyper::body::Bytes;
use hyper::header::{self, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue};
use hyper::{Method, Response};
use quinn::{Connecting, Connection, Endpoint, Incoming, Runtime as _, TokioRuntime, TransportConfig};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};

/// Bytes of the head of a request: as much as browsers send with all their cookies.
const MOST_HEAD: u64 = 64 * 1024;

/// Bytes of a stream that may come before they are looked at.
const RECEIVED: u32 = 128 * 1024;

/// Bytes that may wait in a connection to be acknowledged: four initial windows, and four of 4 MB.
const LEAST_SENDING: u64 = 48 * 1024;
const MOST_SENDING: u64 = 16 * 1024 * 1024;
/// A congestion window in bytes that is worth large pieces.
const LARGE: u64 = 128 * 1024;
/// What a connection sends in [`STALLED`] at most if nothing but probes and signs of life gets through.
const PROBES: u64 = 16 * 1024;
/// How often is looked whether anything is on its way.
const GLANCE: Duration = Duration::from_secs(1);
/// How long an idle connection has to close itself on shutdown.
const LINGER: Duration = Duration::from_millis(500);

type Quic = Bounded<h3_quinn::Connection>;
type Stream = h3::server::RequestStream<<Quic as h3::quic::OpenStreams<Bytes>>::BidiStream, Bytes>;

/// How connections begin.
#[derive(Clone, Debug)]
pub struct Start {
    /// QUIC, but for what each connection has of its own.
    pub config: quinn::ServerConfig,
    /// What is remembered of paths.
    pub paths: Arc<Remembering>,
}

/// Serves connections to `endpoint` until shutdown; open requests are finished.
pub async fn serve(endpoint: Endpoint, start: Start, serving: Serving) {
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
        if let Some((incoming, place)) = admitted(incoming, &serving.places) {
            connections.spawn(admit(incoming, place, start.clone(), serving.clone()));
        }
    }
    while connections.join_next().await.is_some() {}
    endpoint.close(quinn::VarInt::from_u32(0x100), b"");
    // What was said last has left; whether it is heard is of no use to know any more.
    let _ = tokio::time::timeout(LINGER, endpoint.wait_idle()).await;
}

/// Half full, addresses are to be proved first (RFC 9000, section 8.1.2), so that spoofed ones cost a packet each; full,
/// another gives way or no connection is accepted.
fn admitted(incoming: Incoming, places: &Arc<Places>) -> Option<(Incoming, Arc<Place>)> {
    if places.is_half_full() && !incoming.remote_address_validated() && incoming.may_retry() {
        let _ = incoming.retry();
        return None;
    }
    match places.enter(incoming.remote_address().ip()) {
        Some(place) => Some((incoming, place)),
        None => {
            incoming.refuse();
            None
        }
    }
}

async fn admit(incoming: Incoming, place: Arc<Place>, start: Start, serving: Serving) {
    let Start { mut config, paths } = start;
    let paths = &paths;
    let (remote, validated) = (incoming.remote_address(), incoming.remote_address_validated());
    let borrowed = Borrowed::of(paths, remote.ip(), validated).await;
    let plan = paths.memory.plan(TokioRuntime.now(), remote, validated);
    let remembered = plan.remembered().map_or(0, |known| known.window);
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(128u32.into());
    transport.send_window(sending(remembered));
    let watch = plan.apply(&mut transport);
    // Clients have little to say; what they say unasked is not to fill the memory of the host. Datagrams (RFC 9221) are read by
    // nothing here, and quinn would keep 1.25 MB of them for each connection.
    transport.datagram_receive_buffer_size(None);
    transport.max_concurrent_uni_streams(8u32.into());
    transport.stream_receive_window(RECEIVED.into()).receive_window((8 * RECEIVED).into());
    config.transport_config(Arc::new(transport));
    let report = StartReport { watch: watch.clone(), rule: paths.memory.options().rule.name, remembered };
    if let Ok(connecting) = incoming.accept_with(Arc::new(config)) {
        tokio::select! {
            () = carry(connecting, serving.of(remote.ip()), place.clone(), report) => {}
            // What is dropped is closed.
            () = place.must_leave() => {}
        }
    }
    watch.close(TokioRuntime.now());
    paths.learned();
    borrowed.give_back(paths);
}

/// Bytes that wait to be acknowledged, or to leave, of a connection whose window is `window`: enough for it to grow by slow
/// start, so that what a client makes this server keep is what it has shown to take.
fn sending(window: u64) -> u64 {
    (4 * window).clamp(LEAST_SENDING, MOST_SENDING)
}

async fn carry(connecting: Connecting, serving: Serving, place: Arc<Place>, report: StartReport) {
    let opened = tokio::select! {
        opened = greeted(connecting) => opened,
        // It has not asked for anything.
        () = serving.stopped() => return,
    };
    if let Some(opened) = opened {
        place.has_moved();
        connection(opened, serving, place, report).await;
    }
}

/// The connection, as soon as its client has said what it bears: the first word of TLS, which may be longer than a packet
/// (key shares that withstand quantum computers, names cut up against censors). quinn lets a server open streams before
/// that, when there is credit for none, and forgets to wake what waited for credit when it comes with that word: SETTINGS were
/// never sent and no request was read. See docs/internals/quinn-streams-before-parameters.md.
async fn greeted(mut connecting: Connecting) -> Option<Connection> {
    tokio::time::timeout(PATIENCE, connecting.handshake_data()).await.ok()?.ok()?;
    // A server may always speak before the handshake is confirmed, and so answers requests in 0-RTT at once.
    match connecting.into_0rtt() {
        Ok((opened, _)) => Some(opened),
        Err(connecting) => connecting.await.ok(),
    }
}

/// What an answer tells of how its connection began.
#[derive(Clone)]
struct StartReport {
    watch: Watch,
    rule: &'static str,
    remembered: u64,
}

impl StartReport {
    /// Bytes that may wait to be acknowledged, or to leave: a jump to what is remembered finds data to send, unless so many answers
    /// are under way that each is to keep little (`is_scarce`), as those of clients that ask and take nothing are.
    fn may_wait(&self, is_scarce: bool) -> u64 {
        let now = sending(self.watch.window().unwrap_or(0));
        if is_scarce { now } else { now.max(self.remembered.min(MOST_SENDING)) }
    }

    /// As Server-Timing (W3C) has it: the start rule, what was remembered of the path and the window now, in bytes.
    fn header(&self) -> Option<HeaderValue> {
        let Self { rule, remembered, .. } = self;
        let window = self.watch.window().unwrap_or(0);
        HeaderValue::from_str(&format!("start;desc=\"{rule} remembered={remembered} window={window}\"")).ok()
    }
}

/// HTTP/3 over a connection, within bounds.
pub(super) async fn bounded<C>(connection: C) -> Result<h3::server::Connection<Bounded<C>, Bytes>, ConnectionError>
where
    C: quic::Connection<Bytes>,
    C::RecvStream: quic::RecvStream<Buf = Bytes>,
    C::BidiStream: quic::RecvStream<Buf = Bytes>,
{
    let mut builder = h3::server::builder();
    builder.max_field_section_size(MOST_HEAD);
    builder.build(Bounded::new(connection)).await
}

async fn connection(opened: Connection, serving: Serving, place: Arc<Place>, report: StartReport) {
    let http = bounded(h3_quinn::Connection::new(opened.clone()));
    // A client that gives no credit for what a server must say first wants nothing.
    let built = tokio::select! {
        built = tokio::time::timeout(PATIENCE, http) => built,
        () = serving.stopped() => return,
    };
    let Ok(Ok(mut http)) = built else { return };
    let (mut requests, mut ends) = (JoinSet::new(), JoinSet::new());
    let stopped = serving.clone();
    let mut stopped = pin!(stopped.stopped());
    loop {
        tokio::select! {
            () = &mut stopped => break,
            Some(done) = requests.join_next(), if !requests.is_empty() => {
                if let Ok(Some(stream)) = done {
                    ends.spawn(ended(stream));
                }
            }
            Some(_) = ends.join_next(), if !ends.is_empty() => {}
            // What goes wrong with one connection concerns its client alone.
            accepted = http.accept() => match accepted {
                Ok(Some(resolver)) => {
                    let asked = Asked { serving: serving.clone(), place: place.clone(), report: report.clone(), opened: opened.clone() };
                    requests.spawn(asked.answered(resolver));
                }
                _ => return finish(requests).await,
            },
        }
    }
    // GOAWAY: what has begun is finished, nothing else is begun (RFC 9114, section 5.2). What was sent last may still be on
    // its way: the client closes when it has it. One that was idle, and has acknowledged all, has nothing to wait for.
    let was_idle = requests.is_empty();
    let mut look = tokio::time::interval(LINGER);
    let mut looks = 0;
    if http.shutdown(1).await.is_ok() {
        loop {
            tokio::select! {
                Some(done) = requests.join_next(), if !requests.is_empty() => stopped_sending(done),
                _ = look.tick(), if was_idle => {
                    looks = if report.watch.flight().unwrap_or(0) == 0 { looks + 1 } else { 0 };
                    if looks == 2 {
                        break;
                    }
                }
                accepted = http.accept() => if !matches!(accepted, Ok(Some(_))) { break },
            }
        }
    }
    finish(requests).await;
}

async fn finish(mut requests: JoinSet<Option<Stream>>) {
    while let Some(done) = requests.join_next().await {
        stopped_sending(done);
    }
}

/// What is left of a request whose connection ends is not waited for.
fn stopped_sending(done: Result<Option<Stream>, JoinError>) {
    if let Ok(Some(mut stream)) = done {
        stream.stop_sending(Code::H3_NO_ERROR);
    }
}

/// Waits for the end of a request that has its answer. It may come in a packet behind the head's, and clients by h3 over s2n-quic take
/// STOP_SENDING for an error where nothing but the end is left to send.
async fn ended(mut stream: Stream) {
    let _ = tokio::time::timeout(PATIENCE, stream.recv_data()).await;
    stream.stop_sending(Code::H3_NO_ERROR);
}

/// Whether the head of a request says that content follows, which is not read here.
fn has_content(method: &Method, headers: &HeaderMap) -> bool {
    let is_nothing = |length: &HeaderValue| length.as_bytes() == b"0";
    !matches!(*method, Method::GET | Method::HEAD)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| !is_nothing(length))
}

/// Whether a field is among them that concerns a connection of HTTP/1.1 alone: then the request is malformed (RFC 9114,
/// section 4.2). `te` may say that trailers are taken, and nothing else.
fn is_of_one_connection(headers: &HeaderMap) -> bool {
    let names = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    names.iter().any(|name| headers.contains_key(*name))
        || headers.get_all(header::TE).iter().any(|te| !te.as_bytes().eq_ignore_ascii_case(b"trailers"))
}

/// What answers a request.
struct Asked {
    serving: Serving,
    place: Arc<Place>,
    report: StartReport,
    opened: Connection,
}

impl Asked {
    /// Answers a request. The stream, unless all is over: the request may not have ended.
    async fn answered(self, resolver: RequestResolver<Quic, Bytes>) -> Option<Stream> {
        // A request whose head does not end is no request.
        let head = tokio::time::timeout(PATIENCE, resolver.resolve_request()).await;
        let Ok(Ok((request, mut stream))) = head else { return None };
        self.place.has_moved();
        let (head, ()) = request.into_parts();
        if is_of_one_connection(&head.headers) {
            stream.stop_sending(Code::H3_MESSAGE_ERROR);
            stream.stop_stream(Code::H3_MESSAGE_ERROR);
            return None;
        }
        if has_content(&head.method, &head.headers) {
            stream.stop_sending(Code::H3_NO_ERROR);
        }
        let visit = self.serving.access.visit(&head.method, &head.uri, head.version, &head.headers);
        let turn = self.place.answer();
        let found = match &turn {
            None => Ok(answer::busy()),
            Some(_) => {
                let site = self.serving.site.clone();
                let look = self.place.look().await;
                let found = move || {
                    let _look = look;
                    answer(&site, &head.method, &head.uri, &head.headers)
                };
                tokio::task::spawn_blocking(found).await
            }
        };
        let sent = match found {
            Ok(found) => self.send(&mut stream, found, turn.as_ref(), &visit).await,
            Err(_) => Err(Code::H3_INTERNAL_ERROR),
        };
        // Less than was announced is never passed off as all of it.
        if let Err(code) = sent {
            stream.stop_stream(code);
        }
        Some(stream)
    }

    /// Sends the answer; the code that ends the stream if it cannot.
    async fn send(
        &self,
        stream: &mut Stream,
        found: Response<Body>,
        turn: Option<&Turn>,
        visit: &Visit,
    ) -> Result<(), Code> {
        let (mut head, body) = found.into_parts();
        visit.is_answered(head.status);
        // Over TCP, the library does it.
        let now = httpdate::fmt_http_date(headstart_io::clock::wall());
        if let Ok(now) = HeaderValue::from_str(&now) {
            head.headers.insert(DATE, now);
        }
        if let Some(timing) = self.report.header() {
            head.headers.insert("server-timing", timing);
        }
        self.taken(stream.send_response(Response::from_parts(head, ()))).await?;
        let mut pieces = (Pieces::new(), visit);
        match body {
            Body::Empty => {}
            Body::Text(text) => {
                self.opened.set_send_window(self.report.may_wait(turn.is_none_or(Turn::is_scarce)));
                self.pieces(stream, &mut pieces, text).await?;
            }
            Body::File(mut chunks) => {
                loop {
                    let window = self.report.watch.window().unwrap_or(0);
                    let is_scarce = turn.is_none_or(Turn::is_scarce);
                    // quinn keeps a piece until all of it was acknowledged: several are to fit into what it may keep.
                    let is_little = window < LARGE || is_scarce;
                    let Some(piece) = chunks.next(is_little).await else { break };
                    let piece = piece.map_err(|_| Code::H3_INTERNAL_ERROR)?;
                    self.opened.set_send_window(self.report.may_wait(is_scarce));
                    self.pieces(stream, &mut pieces, piece).await?;
                }
            }
        }
        self.taken(stream.finish()).await
    }

    /// Sends `bytes` in pieces.
    async fn pieces(
        &self,
        stream: &mut Stream,
        (pieces, visit): &mut (Pieces, &Visit),
        bytes: Bytes,
    ) -> Result<(), Code> {
        pieces.fill(bytes);
        // QUIC takes what there is credit for, and no more: the last byte need not be a piece.
        while let Some(piece) = pieces.next(false) {
            let length = piece.len();
            self.taken(stream.send_data(piece)).await?;
            visit.has_sent(length);
            self.place.has_moved();
        }
        Ok(())
    }

    /// Waits for `work`, but not for a client that takes nothing, while the path would let it through.
    async fn taken<E>(&self, work: impl Future<Output = Result<(), E>>) -> Result<(), Code> {
        let mut work = pin!(work);
        let mut silent = Duration::ZERO;
        while silent < STALLED {
            let sent = self.opened.stats().udp_tx.bytes;
            let mut is_empty = false;
            for _ in 0..LOOK.as_secs() {
                if let Ok(done) = tokio::time::timeout(GLANCE, work.as_mut()).await {
                    return done.map_err(|_| Code::H3_REQUEST_CANCELLED);
                }
                // When nothing is on its way, it is not others that this waits for.
                is_empty |= self.report.watch.flight() == Some(0);
            }
            let moved = self.opened.stats().udp_tx.bytes - sent;
            let probes = PROBES * LOOK.as_secs() / STALLED.as_secs();
            let path = Path { is_empty, moved: moved.saturating_sub(probes) };
            // A slow path, and room for this when what is before it has got through.
            if !path.is_busy(self.place.answers() as u64, LOOK) {
                silent += LOOK;
            }
        }
        Err(Code::H3_REQUEST_CANCELLED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_quic::{CarefulResume, Store};

    #[test]
    fn a_connection_may_keep_what_it_will_send_after_a_jump() {
        let report = |remembered| {
            let plan = CarefulResume::new(Store::memory()).plan(TokioRuntime.now(), ([192, 0, 2, 1], 443).into(), true);
            StartReport { watch: plan.apply(&mut TransportConfig::default()), rule: "careful-resume", remembered }
        };
        assert_eq!(report(0).may_wait(false), LEAST_SENDING);
        assert_eq!(report(400_000).may_wait(false), 400_000);
        assert_eq!(report(400_000).may_wait(true), LEAST_SENDING, "many that take nothing keep little each");
        assert_eq!(report(u64::MAX).may_wait(false), MOST_SENDING);
    }
}
