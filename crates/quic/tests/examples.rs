//! The examples as a stranger runs them: a server, two clients one after the other, over loopback.
#![forbid(unsafe_code)]

use bytes::Buf as _;
use std::future::poll_fn;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A server that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example `name`, which cargo builds beside the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo test -p headstart-quic", path.display());
    path
}

/// A port of loopback that was free.
fn free() -> String {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The server `name`, and where it is and its certificate.
fn started(name: &str) -> (Ended, String, PathBuf) {
    let folder = std::env::temp_dir().join(format!("headstart-quic-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (address, file) = (free(), folder.join("cert.der"));
    let mut server = Command::new(example(name));
    let mut server = Ended(server.arg(&address).arg(&file).stdin(Stdio::null()).spawn().unwrap());
    // It listens before it writes, and writes in one piece.
    while !std::fs::read(&file).is_ok_and(|bytes| !bytes.is_empty()) {
        assert!(server.0.try_wait().unwrap().is_none(), "the server ended");
        std::thread::yield_now();
    }
    (server, address, file)
}

#[test]
fn the_server_serves_one_client_after_the_other() {
    let (_server, address, file) = started("server");
    for _ in 0..2 {
        let client = Command::new(example("client")).arg(&address).arg(&file).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&client.stdout), "1000000 bytes\n", "{client:?}");
    }
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

/// What a client of HTTP/3 gets for `path`: the status, and the bytes of the body.
async fn got(address: &str, certificate: Vec<u8>, path: &str) -> (u16, usize) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.into()).unwrap();
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let connection = endpoint.connect_with(config, address.parse().unwrap(), "localhost").unwrap().await.unwrap();
    let (mut driver, mut requests) = h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let request = axum::http::Request::get(format!("https://localhost{path}")).body(()).unwrap();
    let mut stream = requests.send_request(request).await.unwrap();
    stream.finish().await.unwrap();
    let (status, mut bytes) = (stream.recv_response().await.unwrap().status().as_u16(), 0);
    while let Some(piece) = stream.recv_data().await.unwrap() {
        bytes += piece.remaining();
    }
    (status, bytes)
}

#[tokio::test]
async fn a_router_of_axum_answers_over_http3() {
    let (_server, address, file) = started("axum-h3");
    let certificate = std::fs::read(&file).unwrap();
    for _ in 0..2 {
        assert_eq!(got(&address, certificate.clone(), "/").await, (200, 1_000_000));
        assert_eq!(got(&address, certificate.clone(), "/none").await.0, 404);
    }
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
}
