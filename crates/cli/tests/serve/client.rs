//! Clients of QUIC and HTTP/3 that do what `headstart get` never does.

use crate::scene::Server;
use h3::client::SendRequest;
use headstart_core::time::Duration;
use hyper::body::Bytes;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// TLS that trusts `server`, offering `protocols`.
fn tls(server: &Server, protocols: Vec<Vec<u8>>) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(server.cert()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = protocols;
    tls
}

fn quic(server: &Server, protocols: Vec<Vec<u8>>) -> quinn::ClientConfig {
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls(server, protocols)).unwrap();
    quinn::ClientConfig::new(Arc::new(crypto))
}

/// A connection to `to`, where `server` is, whose client offers `protocols`.
pub async fn connected_to(server: &Server, to: SocketAddr, protocols: Vec<Vec<u8>>) -> quinn::Connection {
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.connect_with(quic(server, protocols), to, "localhost").unwrap().await.unwrap()
}

/// A connection to `server`.
pub async fn connected(server: &Server) -> quinn::Connection {
    connected_to(server, server.address, vec![b"h3".to_vec()]).await
}

/// A connection to `server` from the address `from`, which gives each stream credit for `credit` bytes that are not read.
pub async fn connected_with(server: &Server, from: IpAddr, credit: u32) -> quinn::Connection {
    connected_by(server, from, server.address, credit).await
}

/// As [`connected_with`], by way of `to`.
pub async fn connected_by(server: &Server, from: IpAddr, to: SocketAddr, credit: u32) -> quinn::Connection {
    let endpoint = quinn::Endpoint::client((from, 0).into()).unwrap();
    let mut config = quic(server, vec![b"h3".to_vec()]);
    let mut transport = quinn::TransportConfig::default();
    transport.stream_receive_window(credit.into()).keep_alive_interval(Some(Duration::from_secs(5)));
    config.transport_config(Arc::new(transport));
    endpoint.connect_with(config, to, "localhost").unwrap().await.unwrap()
}

/// Fetches `path` from `server` with one of these tokens, and keeps those that it gives; the field Server-Timing of the answer.
pub async fn visited(server: &Server, path: &str, tokens: Arc<dyn quinn::TokenStore>) -> String {
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut config = quic(server, vec![b"h3".to_vec()]);
    config.token_store(tokens);
    let connection = endpoint.connect_with(config, server.address, "localhost").unwrap().await.unwrap();
    let mut requests = http(connection.clone()).await;
    let request = hyper::Request::get(format!("https://localhost/{path}")).body(()).unwrap();
    let mut stream = requests.send_request(request).await.unwrap();
    stream.finish().await.unwrap();
    let answer = stream.recv_response().await.unwrap();
    while stream.recv_data().await.unwrap().is_some() {}
    connection.close(0x100u32.into(), b"");
    endpoint.wait_idle().await;
    answer.headers()["server-timing"].to_str().unwrap().to_owned()
}

/// TLS over TCP to `server` from the address `from`, speaking `protocol`.
pub async fn open_tls(server: &Server, from: IpAddr, protocol: &[u8]) -> tokio_rustls::client::TlsStream<TcpStream> {
    let socket = if from.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.unwrap();
    socket.bind((from, 0).into()).unwrap();
    open_tls_over(server, socket.connect(server.address).await.unwrap(), protocol).await
}

/// TLS to `server` over `stream`, speaking `protocol`.
pub async fn open_tls_over<S: AsyncRead + AsyncWrite + Unpin>(
    server: &Server,
    stream: S,
    protocol: &[u8],
) -> tokio_rustls::client::TlsStream<S> {
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls(server, vec![protocol.to_vec()])));
    connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

/// HTTP/3 over `connection`.
pub async fn http(connection: quinn::Connection) -> SendRequest<h3_quinn::OpenStreams, Bytes> {
    let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    requests
}

/// Sends a GET of `path` with these fields; the status of the answer.
pub async fn asked(
    requests: &mut SendRequest<h3_quinn::OpenStreams, Bytes>,
    path: &str,
    fields: &[(&str, &str)],
) -> Result<u16, h3::error::StreamError> {
    let mut request = hyper::Request::get(format!("https://localhost{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let mut stream = requests.send_request(request.body(()).unwrap()).await?;
    stream.finish().await?;
    Ok(stream.recv_response().await?.status().as_u16())
}

/// A server of QUIC for HTTP/3, and its address. Inside a runtime only.
fn endpoint() -> (quinn::Endpoint, SocketAddr) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().with_no_client_auth();
    let mut tls = builder.with_single_cert(vec![own.cert.der().clone()], key.into()).unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    (endpoint, address)
}

/// A server of HTTP/3 that has nothing; how its first connection ended. Inside a runtime only.
pub fn refusing_server() -> (SocketAddr, JoinHandle<quinn::ConnectionError>) {
    let (endpoint, address) = endpoint();
    let ended = tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let built = h3::server::Connection::<_, Bytes>::new(h3_quinn::Connection::new(connection.clone())).await;
        let mut http = built.unwrap();
        let (_, mut stream) = http.accept().await.unwrap().unwrap().resolve_request().await.unwrap();
        stream.send_response(hyper::Response::builder().status(404).body(()).unwrap()).await.unwrap();
        stream.finish().await.unwrap();
        connection.closed().await
    });
    (address, ended)
}

/// A server of HTTP/3 whose answer is a head that does not end; the bytes of it that were taken. Inside a runtime only.
pub fn endless_server() -> (SocketAddr, JoinHandle<u64>) {
    let (endpoint, address) = endpoint();
    let sent = tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let (mut answer, _request) = connection.accept_bi().await.unwrap();
        // A HEADERS frame (RFC 9114, section 7.2.2) of 2^40 bytes.
        answer.write_all(&[&[1], &(0xc000_0000_0000_0000 | 1u64 << 40).to_be_bytes()[..]].concat()).await.unwrap();
        let (piece, mut sent) = (vec![0; 64 * 1024], 0);
        while answer.write_all(&piece).await.is_ok() {
            sent += piece.len() as u64;
        }
        sent
    });
    (address, sent)
}
