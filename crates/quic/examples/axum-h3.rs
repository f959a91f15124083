//! A router of axum over HTTP/3: `cargo run -p headstart-quic --example axum-h3 -- 127.0.0.1:4433 cert.der`.

use axum::{Router, routing::get};
use headstart_quic::{CarefulResume, Store};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, ServerConfig};
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [address, file]: [String; 2] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "ADDRESS FILE")?;
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder().with_no_client_auth();
    let mut tls = tls.with_single_cert(vec![made.cert.der().clone()], key.into())?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint = Endpoint::server(server.clone(), address.parse()?)?;
    std::fs::write(file, made.cert.der())?;
    let app = Router::new().route("/", get(|| async { "x".repeat(1_000_000) }));
    let careful = CarefulResume::new(Store::memory());
    while let Some(incoming) = endpoint.accept().await {
        let Ok(connecting) = careful.accept(incoming, &server) else { continue };
        let app = app.clone();
        tokio::spawn(async move {
            // Kept until the end: then what the connection has shown is learned.
            let connection = connecting.await?;
            let http = h3::server::builder().build(h3_quinn::Connection::new((*connection).clone())).await?;
            h3_axum::serve_h3_connection_with_axum(app, http).await
        });
    }
    Ok(())
}
