//! The other side of a relay: asks it for streams, and puts sessions over them.

use crate::keys::{self, KeyError, PublicKey, SecretKey};
use crate::session::{Config, Session, SessionError, draw_id};
use crate::tcp_options;
use headstart_core::realtime::access::Destination;
use headstart_core::realtime::preface::{Answer, Request};
use rustls::pki_types::{IpAddr, Ipv4Addr, ServerName};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why a relay gave no stream.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The relay was not reached.
    #[error("no connection to the relay: {0}")]
    Connect(#[source] io::Error),
    /// It is another one, or does not know us.
    #[error("the relay has another key than the one given, or does not list this client's key: {0}")]
    Keys(#[source] io::Error),
    /// It answered that it does not.
    #[error("the relay said: {reason}", reason = in_words(*.0))]
    Answered(Answer),
    /// It answered something else.
    #[error("unknown answer from the relay: it may be newer than this side")]
    Unknown,
}

fn in_words(answer: Answer) -> &'static str {
    match answer {
        Answer::Granted => "granted",
        Answer::Refused => "the destination is not on its list (`headstart relay serve --allow HOST:PORT`)",
        Answer::Unreachable => "the destination cannot be reached from there",
        Answer::Gone => "the session is no longer known: the relay was restarted, or the session expired",
        Answer::Busy => "it has too many connections",
    }
}

impl ClientError {
    /// Whether asking again may help.
    fn is_final(&self) -> bool {
        matches!(self, Self::Answered(Answer::Gone | Answer::Refused))
    }
}

/// A relay, as a client knows it.
#[derive(Clone)]
pub struct Client {
    address: Arc<str>,
    tls: TlsConnector,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Client {
    /// The relay at `address` (HOST:PORT) whose public key is `relay`, for a client with `key`.
    pub fn new(address: &str, key: &SecretKey, relay: PublicKey) -> Result<Self, KeyError> {
        Ok(Self { address: address.into(), tls: keys::client(key, relay)?.into() })
    }

    /// Asks for what `request` says, over a connection of its own.
    async fn ask(&self, request: &Request) -> Result<TlsStream<TcpStream>, ClientError> {
        let stream = TcpStream::connect(&*self.address).await.map_err(ClientError::Connect)?;
        tcp_options::turn(&stream, None);
        tcp_options::watch(&stream);
        // The relay is known by its key; TLS wants a name all the same, and gets one that is never sent.
        let nameless = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0; 4])));
        let mut stream = self.tls.connect(nameless, stream).await.map_err(refused)?;
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        stream.write_all(&bytes).await.map_err(ClientError::Connect)?;
        stream.flush().await.map_err(ClientError::Connect)?;
        let mut answer = [0];
        // A client that is not known is told so after its own handshake, so here.
        stream.read_exact(&mut answer).await.map_err(refused)?;
        match Answer::of_code(answer[0]) {
            Some(Answer::Granted) => Ok(stream),
            Some(answer) => Err(ClientError::Answered(answer)),
            None => Err(ClientError::Unknown),
        }
    }

    /// A session with the program that listens for sessions at `to`. Its ends are there and here, so it outlives the relay.
    pub async fn session(&self, to: Destination, config: Config) -> Result<Session, SessionError> {
        let peer = to.to_string();
        let (client, request) = (self.clone(), Arc::new(Request::Through(to)));
        let dial = move || {
            let (client, request) = (client.clone(), Arc::clone(&request));
            async move { client.ask(&request).await.map_err(io::Error::other) }
        };
        let session = Session::connect_over(dial, config).await?;
        session.name_peer(Some(peer));
        Ok(session)
    }

    /// A session with the relay itself, which carries a stream to `to`; and what tells that the relay has given it up.
    pub(super) async fn open(&self, to: Destination, config: Config) -> Result<(Session, Arc<Notify>), SessionError> {
        let (id, peer) = (draw_id()?, to.to_string());
        let (client, opened, gone) = (self.clone(), AtomicBool::new(false), Arc::new(Notify::new()));
        let told = Arc::clone(&gone);
        let dial = move || {
            let first = !opened.swap(true, Ordering::Relaxed);
            let request = if first { Request::Open(id, to.clone()) } else { Request::Join(id) };
            let (client, gone) = (client.clone(), Arc::clone(&gone));
            async move {
                let asked = client.ask(&request).await;
                if asked.as_ref().is_err_and(|error| !first && error.is_final()) {
                    gone.notify_one();
                }
                asked.map_err(io::Error::other)
            }
        };
        let session = Session::connect_as(id, dial, config).await?;
        session.name_peer(Some(peer));
        Ok((session, told))
    }
}

/// What TLS calls an invalid certificate or an alert is a key that one side does not know.
fn refused(error: io::Error) -> ClientError {
    let by_keys = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    if by_keys { ClientError::Keys(error) } else { ClientError::Connect(error) }
}
