//! A connection to a server: QUIC is tried at once, TCP as soon as QUIC has not answered for a while; the first that is
//! ready is taken.

use super::trust::Trust;
use super::url::Url;
use crate::exit::{self, Coded, Usage};
use crate::paths::Remembering;
use anyhow::Context as _;
use h3::client::SendRequest;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Runtime as _, VarInt};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// How long an attempt is waited for before the next begins beside it: the Connection Attempt Delay of RFC 8305, section 8.
const DELAY: Duration = Duration::from_millis(250);
/// How long QUIC is waited for once TCP does not answer either: as long as it takes to say the first word three times, 1 s and 2 s
/// apart (RFC 9002, section 6.2: a probe timeout of three first round trips of 333 ms, then twice that). A refusal over UDP is not heard.
const QUIC_ALONE: Duration = Duration::from_secs(3);
/// What a server may send before the program has read it: as much as 1 Gbit/s over 134 ms carries. quinn's own 1.25 MB hold
/// every path to 1.25 MB in a round trip, whatever the sender remembers of it. More where more has come before.
const WINDOW: u32 = 16 << 20;
/// Bytes of the head of an answer over HTTP/3, decoded. h3 sets no bound, and one byte of a head may become a field of a hundred.
const MOST_HEAD: u64 = 256 * 1024;

/// Which versions of HTTP may be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Versions {
    /// HTTP/3, else HTTP/2 or HTTP/1.1.
    Any,
    /// HTTP/3 alone.
    #[value(name = "3")]
    Three,
    /// HTTP/2 alone.
    #[value(name = "2")]
    Two,
    /// HTTP/1.1 alone.
    #[value(name = "1.1")]
    One,
}

/// What is needed to connect. Tickets and tokens of servers stay in it, for the next connection.
pub struct Connector {
    versions: Versions,
    tls: Arc<rustls::ClientConfig>,
    quic: quinn::ClientConfig,
    paths: Arc<Remembering>,
    v4: Option<quinn::Endpoint>,
    v6: Option<quinn::Endpoint>,
}

/// A connection that is ready for a request.
pub enum Opened {
    /// HTTP/3.
    Three {
        /// Sends requests.
        requests: SendRequest<h3_quinn::OpenStreams, Bytes>,
        /// The connection under it.
        connection: quinn::Connection,
        /// Whether the server took what was sent with the first packet, if something could be sent with it.
        early: Option<quinn::ZeroRttAccepted>,
        /// What a server may send of a stream before it was read, in bytes.
        window: u64,
    },
    /// HTTP/2.
    Two(hyper::client::conn::http2::SendRequest<String>),
    /// HTTP/1.1.
    One(hyper::client::conn::http1::SendRequest<String>),
}

/// An error of the TLS library in words.
fn plain(why: &str) -> String {
    why.replace("received corrupt message of type InvalidContentType", "the server does not speak TLS on this port")
}

impl Connector {
    /// Ready to connect. Inside a runtime only.
    pub fn new(versions: Versions, trust: &Trust, paths: Arc<Remembering>) -> anyhow::Result<Self> {
        let protocols: &[&str] = match versions {
            Versions::One => &["http/1.1"],
            Versions::Two => &["h2"],
            Versions::Any | Versions::Three => &["h2", "http/1.1"],
        };
        let tls = Arc::new(trust.configuration(protocols, false)?);
        let quic = QuicClientConfig::try_from(trust.configuration(&["h3"], true)?)?;
        let quic = quinn::ClientConfig::new(Arc::new(quic));
        let speaks_quic = matches!(versions, Versions::Any | Versions::Three);
        let endpoint = |ip: IpAddr| {
            let socket = UdpSocket::bind((ip, 0)).ok()?;
            crate::serve::widen(&socket);
            quinn::Endpoint::new(quinn::EndpointConfig::default(), None, socket, Arc::new(quinn::TokioRuntime)).ok()
        };
        let (v4, v6) = if speaks_quic {
            (endpoint(Ipv4Addr::UNSPECIFIED.into()), endpoint(Ipv6Addr::UNSPECIFIED.into()))
        } else {
            (None, None)
        };
        Ok(Self { versions, tls, quic, paths, v4, v6 })
    }

    /// A connection to one of `addresses`, in their order. `early`: with what an earlier connection left for it.
    pub async fn connect(&self, url: &Url, addresses: &[SocketAddr], early: bool) -> anyhow::Result<Opened> {
        let mut attempts = JoinSet::new();
        let (trying_tcp, mut tcp_ended) = tokio::sync::mpsc::channel::<Infallible>(1);
        let mut begun = 0;
        let over_quic = matches!(self.versions, Versions::Any | Versions::Three);
        let over_tcp = self.versions != Versions::Three;
        if over_quic {
            for address in addresses {
                let endpoint = if address.is_ipv6() { &self.v6 } else { &self.v4 };
                let Some(endpoint) = endpoint.clone() else { continue };
                let (config, address, host) = (self.quic.clone(), *address, url.host.clone());
                let paths = self.paths.clone();
                let after = DELAY * begun;
                begun += 1;
                attempts.spawn(async move {
                    tokio::time::sleep(after).await;
                    quic(endpoint, config, &paths, address, &host, early)
                        .await
                        .with_context(|| format!("{address} over QUIC"))
                });
            }
        }
        if over_tcp {
            for address in addresses {
                let (tls, address, host) = (self.tls.clone(), *address, url.host.clone());
                let (after, trying) = (DELAY * begun, trying_tcp.clone());
                begun += 1;
                attempts.spawn(async move {
                    tokio::time::sleep(after).await;
                    let opened = tcp(tls, address, &host).await.with_context(|| format!("{address} over TCP"));
                    drop(trying);
                    opened
                });
            }
        }
        drop(trying_tcp);
        let mut failed: Vec<String> = Vec::new();
        let mut alone = pin!(async {
            // Nothing is ever sent: it ends when no attempt over TCP is left.
            let _ = tcp_ended.recv().await;
            tokio::time::sleep(QUIC_ALONE).await;
        });
        loop {
            let attempt = tokio::select! {
                attempt = attempts.join_next() => attempt,
                () = &mut alone, if over_tcp => {
                    failed.push(format!("no answer over QUIC for another {} s", QUIC_ALONE.as_secs()));
                    None
                }
            };
            match attempt {
                None => return Err(not_connected(&url.host, failed).into()),
                Some(Ok(Ok(opened))) => return Ok(opened),
                Some(Ok(Err(why))) => failed.push(plain(&exit::one_line(&why))),
                Some(Err(why)) => failed.push(why.to_string()),
            }
        }
    }

    /// Waits until what was said last has left, but not for the other side.
    pub async fn close(self) {
        for endpoint in [self.v4, self.v6].into_iter().flatten() {
            endpoint.close(0x100u32.into(), b"");
            let _ = tokio::time::timeout(Duration::from_millis(200), endpoint.wait_idle()).await;
        }
    }
}

/// What no attempt has reached, and why.
fn not_connected(host: &str, mut failed: Vec<String>) -> Coded {
    if failed.is_empty() {
        failed.push("no usable address".to_owned());
    }
    let code = if failed.iter().any(|why| is_distrust(why)) { exit::FAILURE } else { exit::UNREACHABLE };
    let hint = if code == exit::FAILURE { ": trust a certificate with --ca FILE" } else { "" };
    Coded(code, format!("cannot connect to {host}: {}{hint}", failed.join("; ")))
}

/// Whether a failure is one of the certificate. Its kinds are hidden inside two libraries, which share the words.
fn is_distrust(why: &str) -> bool {
    why.to_ascii_lowercase().contains("certificate")
}

async fn quic(
    endpoint: quinn::Endpoint,
    mut config: quinn::ClientConfig,
    paths: &Remembering,
    address: SocketAddr,
    host: &str,
    early: bool,
) -> anyhow::Result<Opened> {
    let mut transport = quinn::TransportConfig::default();
    // A server that is gone is noticed by silence alone.
    transport.max_idle_timeout(Some(Duration::from_secs(20).try_into()?));
    transport.keep_alive_interval(Some(Duration::from_secs(5)));
    // Nothing here reads datagrams.
    transport.datagram_receive_buffer_size(None);
    let plan = paths.memory.plan(quinn::TokioRuntime.now(), address, true);
    let window = plan.stream_window().unwrap_or(0).max(WINDOW.into());
    plan.apply(&mut transport);
    transport.stream_receive_window(VarInt::from_u64(window)?).receive_window(VarInt::from_u64(2 * window)?);
    config.transport_config(Arc::new(transport));
    let connecting = endpoint.connect_with(config, address, host)?;
    let (connection, early) = match connecting {
        connecting if early => match connecting.into_0rtt() {
            Ok((connection, accepted)) => (connection, Some(accepted)),
            Err(connecting) => (connecting.await?, None),
        },
        connecting => (connecting.await?, None),
    };
    let mut builder = h3::client::builder();
    builder.max_field_section_size(MOST_HEAD);
    let quic = h3_quinn::Connection::new(connection.clone());
    let (mut driver, requests) = builder.build::<_, _, Bytes>(quic).await?;
    tokio::spawn(async move {
        let _ = poll_fn(|cx| driver.poll_close(cx)).await;
    });
    Ok(Opened::Three { requests, connection, early, window })
}

/// A connection over TCP; a server that accepts it and then says nothing is given up.
async fn tcp(tls: Arc<rustls::ClientConfig>, address: SocketAddr, host: &str) -> anyhow::Result<Opened> {
    let opened = tokio::time::timeout(super::SILENCE, over_tcp(tls, address, host)).await;
    opened.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer from {address} for {} s", super::SILENCE.as_secs())))
}

async fn over_tcp(tls: Arc<rustls::ClientConfig>, address: SocketAddr, host: &str) -> anyhow::Result<Opened> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(|why| Usage(why.to_string()))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    if is_http2 {
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (requests, connection) = builder.handshake(io).await?;
        tokio::spawn(connection);
        Ok(Opened::Two(requests))
    } else {
        let (requests, connection) = hyper::client::conn::http1::handshake(io).await?;
        tokio::spawn(connection);
        Ok(Opened::One(requests))
    }
}
