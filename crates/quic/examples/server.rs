//! Sends 1 MB over each connection: `cargo run -p headstart-quic --example server -- 127.0.0.1:4433 cert.der`.

use headstart_quic::{CarefulResume, Store};
use quinn::{Endpoint, ServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [address, file]: [String; 2] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "ADDRESS FILE")?;
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    let endpoint = Endpoint::server(server.clone(), address.parse()?)?;
    std::fs::write(file, made.cert.der())?;
    let careful = CarefulResume::new(Store::memory());
    while let Some(incoming) = endpoint.accept().await {
        let Ok(connecting) = careful.accept(incoming, &server) else { continue };
        tokio::spawn(async move {
            let connection = connecting.await?;
            let mut stream = connection.open_uni().await?;
            stream.write_all(&vec![0; 1_000_000]).await?;
            stream.finish().map_err(std::io::Error::from)?;
            Ok::<_, std::io::Error>(drop(connection.closed().await))
        });
    }
    Ok(())
}
