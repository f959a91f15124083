//! A peer by s2n-quic: peer client CASE URL BYTES CERTIFICATE, or peer server CASE PORT FOLDER CERTIFICATE KEY.
//!
//! A client says nothing and ends with 0 if all came as it should.

use bytes::{Buf, Bytes};
use h3_util::s2n::s2n_quic_h3::{Connection, OpenStreams};
use http::{Request, Response};
use s2n_quic::client::Connect;
use s2n_quic::provider::endpoint_limits;
use s2n_quic::{Client, Server};
use std::path::Path;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
type Sender = h3::client::SendRequest<OpenStreams, Bytes>;

const REQUESTS: usize = 1000;
const AT_ONCE: usize = 10;

async fn fetch(mut sender: Sender, url: String, bytes: usize) -> Result<()> {
    let mut stream = sender.send_request(Request::get(&url).body(())?).await?;
    stream.finish().await?;
    let answer = stream.recv_response().await?;
    let mut came = 0;
    while let Some(part) = stream.recv_data().await? {
        came += part.remaining();
    }
    match (answer.status().as_u16(), came) {
        (200, n) if n == bytes => Ok(()),
        (status, n) => Err(format!("status {status}, {n} of {bytes} bytes").into()),
    }
}

async fn client(word: &str, url: &str, bytes: usize, certificate: &str) -> Result<()> {
    let mut client = Client::builder().with_tls(Path::new(certificate))?.with_io("127.0.0.1:0")?.start()?;
    let authority = url.parse::<http::Uri>()?.authority().ok_or("no authority")?.to_string();
    let connect = Connect::new(authority.parse::<std::net::SocketAddr>()?).with_server_name("localhost");
    let (mut driver, sender) = h3::client::new(Connection::new(client.connect(connect).await?)).await?;
    let driven = tokio::spawn(async move { driver.wait_idle().await });
    let (mut open, mut tasks) = (if word == "requests" { REQUESTS } else { 1 }, JoinSet::new());
    while open > 0 || !tasks.is_empty() {
        if open > 0 && tasks.len() < AT_ONCE {
            tasks.spawn(fetch(sender.clone(), url.to_owned(), bytes));
            open -= 1;
        } else {
            tasks.join_next().await.ok_or("no task")???;
        }
    }
    // The connection closes with its last sender.
    drop(sender);
    let _ = driven.await?;
    Ok(client.wait_idle().await?)
}

async fn answer(connection: Connection, folder: String) -> Result<()> {
    let mut http = h3::server::Connection::<_, Bytes>::new(connection).await?;
    loop {
        let request = match http.accept().await {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(end) if end.is_h3_no_error() => {
                println!("closed 256");
                return Ok(());
            }
            Err(end) => return Err(end.into()),
        };
        let folder = folder.clone();
        tokio::spawn(async move {
            let (request, mut stream) = request.resolve_request().await?;
            let content = tokio::fs::read(format!("{folder}{}", request.uri().path())).await?;
            stream.send_response(Response::builder().header("content-length", content.len()).body(())?).await?;
            stream.send_data(content.into()).await?;
            stream.finish().await?;
            Result::Ok(())
        });
    }
}

async fn server(word: &str, port: u16, folder: &str, certificate: &str, key: &str) -> Result<()> {
    // More handshakes at once than this, and addresses are proved.
    let handshakes = if word == "retry" { 0 } else { 100 };
    let limits = endpoint_limits::Default::builder().with_inflight_handshake_limit(handshakes)?.build()?;
    let mut server = Server::builder()
        .with_tls((Path::new(certificate), Path::new(key)))?
        .with_io(("127.0.0.1", port))?
        .with_endpoint_limits(limits)?
        .start()?;
    while let Some(connection) = server.accept().await {
        let folder = folder.to_owned();
        tokio::spawn(async move {
            if let Err(why) = answer(Connection::new(connection), folder).await {
                println!("{why}");
            }
        });
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", case, url, bytes, certificate] => client(case, url, bytes.parse()?, certificate).await,
        ["server", case, port, folder, certificate, key] => server(case, port.parse()?, folder, certificate, key).await,
        _ => Err("client CASE URL BYTES CERTIFICATE, or server CASE PORT FOLDER CERTIFICATE KEY".into()),
    }
}
