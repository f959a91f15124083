//! 1 MB over each connection by s2n-quic: peer server PORT CERTIFICATE KEY cubic|careful, or peer client HOST PORT CERTIFICATE TIMES.
//!
//! A client says how many milliseconds each connection took, from its first packet to the last byte, a line each.

use headstart_quic::{CarefulResume, Store};
use s2n_quic::client::Connect;
use s2n_quic::{Client, Connection, Server};
use std::path::Path;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const BYTES: usize = 1_000_000;

async fn client(host: &str, port: u16, certificate: &str, times: usize) -> Result<()> {
    let address = tokio::net::lookup_host((host, port)).await?.find(|found| found.is_ipv4()).ok_or("no address")?;
    for _ in 0..times {
        let mut client = Client::builder().with_tls(Path::new(certificate))?.with_io("0.0.0.0:0")?.start()?;
        let began = Instant::now();
        let mut connection = client.connect(Connect::new(address).with_server_name("localhost")).await?;
        let mut stream = connection.accept_receive_stream().await?.ok_or("no stream")?;
        let mut came = 0;
        while let Some(part) = stream.receive().await? {
            came += part.len();
        }
        if came != BYTES {
            return Err(format!("{came} of {BYTES} bytes").into());
        }
        println!("{:.1}", began.elapsed().as_secs_f64() * 1e3);
        connection.close(0u32.into());
        client.wait_idle().await?;
    }
    Ok(())
}

async fn answer(mut connection: Connection) -> Result<()> {
    let mut stream = connection.open_send_stream().await?;
    stream.send(vec![7; BYTES].into()).await?;
    stream.close().await?;
    // The client closes.
    let _ = connection.accept().await;
    Ok(())
}

async fn server(port: u16, certificate: &str, key: &str, windows: &str) -> Result<()> {
    let builder = Server::builder().with_tls((Path::new(certificate), Path::new(key)))?.with_io(("127.0.0.1", port))?;
    let mut server = match windows {
        "careful" => builder.with_congestion_controller(CarefulResume::new(Store::memory()).s2n_quic())?.start()?,
        "cubic" => builder.start()?,
        _ => return Err("cubic or careful".into()),
    };
    while let Some(connection) = server.accept().await {
        tokio::spawn(answer(connection));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", host, port, certificate, times] => client(host, port.parse()?, certificate, times.parse()?).await,
        ["server", port, certificate, key, windows] => server(port.parse()?, certificate, key, windows).await,
        _ => Err("client HOST PORT CERTIFICATE TIMES, or server PORT CERTIFICATE KEY cubic|careful".into()),
    }
}
