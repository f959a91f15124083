//! Counts what a server sends: `cargo run -p headstart-quic --example client -- 127.0.0.1:4433 cert.der`.

use headstart_quic::{CarefulResume, Store};
use quinn::{ClientConfig, Endpoint};
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [address, file]: [String; 2] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "ADDRESS FILE")?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(std::fs::read(file)?.into())?;
    let client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let endpoint = Endpoint::client(([0, 0, 0, 0], 0).into())?;
    let careful = CarefulResume::new(Store::memory());
    let connection = careful.connect(&endpoint, client, address.parse()?, "localhost")?.await?;
    let mut stream = connection.accept_uni().await?;
    println!("{} bytes", stream.read_to_end(2_000_000).await?.len());
    connection.close(0u8.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}
