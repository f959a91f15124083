//! One POST of what was seen, to another system: a webhook, a collector of traces or logs.

use crate::exit::Usage;
use crate::get::trust::Trust;
use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A server that has not answered after this long has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of an answer that is read.
const MOST_BYTES: usize = 64 << 10;

/// Where to: an http or https URL. The path of a webhook is often a secret, so messages name only its host.
#[derive(Clone, Debug)]
pub struct Target {
    uri: Uri,
    host: String,
    port: u16,
    tls: bool,
}

impl std::str::FromStr for Target {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let refuse = |why: &str| Usage(format!("{why}; give a URL such as https://host/path"));
        let uri: Uri = text.parse().map_err(|why| refuse(&format!("not a valid URL: {why}")))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(refuse("the URL must begin with http:// or https://")),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(refuse("user names in URLs are not supported"));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if ServerName::try_from(host.as_str()).is_err() {
            return Err(refuse("the URL has no valid host name"));
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { uri, host, port, tls })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Posts `body`, of media type `kind`. Any answer but 2xx is an error.
pub fn post(to: &Target, kind: &'static str, body: impl Into<Bytes>) -> anyhow::Result<()> {
    ask(to, kind, body.into(), false).map(drop)
}

/// Posts `body` and gives what the answer says; nothing if that is too long or is cut: the body has arrived nevertheless.
pub fn post_and_read(to: &Target, kind: &'static str, body: impl Into<Bytes>) -> anyhow::Result<Bytes> {
    ask(to, kind, body.into(), true)
}

fn ask(to: &Target, kind: &'static str, body: Bytes, read: bool) -> anyhow::Result<Bytes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sent = async { tokio::time::timeout(PATIENCE, send(to, (kind, body), read)).await };
    let answer = runtime.block_on(sent).unwrap_or_else(|_| anyhow::bail!("no answer within {PATIENCE:?}"));
    let (status, said) = answer.with_context(|| format!("sending to {to}"))?;
    anyhow::ensure!(status.is_success(), "sending to {to}: the server answered {status}");
    Ok(said)
}

async fn send(to: &Target, what: (&'static str, Bytes), read: bool) -> anyhow::Result<(StatusCode, Bytes)> {
    let tcp = TcpStream::connect((to.host.as_str(), to.port)).await?;
    if !to.tls {
        return exchange(to, what, read, tcp).await;
    }
    let tls = tokio_rustls::TlsConnector::from(Arc::new(Trust::Host.configuration(&["http/1.1"], false)?));
    let name = ServerName::try_from(to.host.clone())?;
    exchange(to, what, read, tls.connect(name, tcp).await?).await
}

async fn exchange(
    to: &Target,
    (kind, body): (&'static str, Bytes),
    read: bool,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let (mut requests, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post(to.uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(HOST, to.uri.authority().map_or("", |authority| authority.as_str()))
        .header(CONTENT_TYPE, kind)
        .header(CONTENT_LENGTH, body.len())
        .body(Full::new(body))?;
    let answer = requests.send_request(request).await?;
    let status = answer.status();
    let said = async { Limited::new(answer.into_body(), MOST_BYTES).collect().await.map(|body| body.to_bytes()) };
    let said = if read { said.await.unwrap_or_default() } else { Bytes::new() };
    connection.abort();
    Ok((status, said))
}

/// A request as a server of tests took it: head and body.
#[cfg(test)]
pub type Taken = (String, Vec<u8>);

/// A server for tests: it answers with these status codes, one a request, and gives the requests.
#[cfg(test)]
pub fn server(statuses: &'static [u16]) -> (std::net::SocketAddr, std::thread::JoinHandle<Vec<Taken>>) {
    answering(statuses.iter().map(|status| (*status, Vec::new())).collect())
}

/// [`server`], with a body for each answer.
#[cfg(test)]
pub fn answering(answers: Vec<(u16, Vec<u8>)>) -> (std::net::SocketAddr, std::thread::JoinHandle<Vec<Taken>>) {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move |(status, answer): (u16, Vec<u8>)| {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap()];
        stream.read_exact(&mut body).unwrap();
        write!(stream.get_mut(), "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", answer.len()).unwrap();
        stream.get_mut().write_all(&answer).unwrap();
        (head, body)
    };
    (address, std::thread::spawn(move || answers.into_iter().map(serve).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_arrives_and_only_success_is_success() {
        let (address, served) = server(&[200, 503]);
        let to: Target = format!("http://{address}/hook?key=secret").parse().unwrap();
        post(&to, "text/plain", "hello").unwrap();
        let refused = format!("{:#}", post(&to, "text/plain", "again").unwrap_err());
        assert!(refused.contains("503") && refused.contains(&address.to_string()), "{refused}");
        assert!(!refused.contains("secret") && !to.to_string().contains("secret"), "{refused}");
        let requests = served.join().unwrap();
        assert!(requests[0].0.starts_with("POST /hook?key=secret HTTP/1.1\r\n"), "{requests:?}");
        assert!(requests[0].0.to_lowercase().contains("content-type: text/plain"), "{requests:?}");
        assert_eq!((&requests[0].1[..], &requests[1].1[..]), (&b"hello"[..], &b"again"[..]));
        let gone = format!("{:#}", post(&to, "text/plain", "third").unwrap_err());
        assert!(gone.contains("refused"), "{gone}");
    }

    #[test]
    fn what_is_no_address_for_it_is_named_without_what_may_be_secret() {
        for wrong in
            ["", "host/secret", "ftp://host/secret", "https://user:secret@host/", "http:///secret", "http://a b/secret"]
        {
            let why = wrong.parse::<Target>().unwrap_err().to_string();
            assert!(why.contains("https://host/path") && !why.contains("secret"), "{wrong}: {why}");
        }
        assert_eq!("https://[::1]/x".parse::<Target>().unwrap().to_string(), "::1:443");
    }
}
