//! Ports of this host that lead through a relay, for programs that know nothing of it: one destination a port, or SOCKS5.
//!
//! Each connection of a program is carried over a session with the relay, whose technique decides how. A program that asks by
//! SOCKS gets the result; one at a forwarded port is reset if no connection can be opened for it.

use super::carry::carry;
use super::client::{Client, ClientError};
use super::clients::Clients;
use crate::session::{Config, Session, SessionError};
use crate::tcp_options;
use headstart_core::realtime::access::{Destination, Host};
use headstart_core::realtime::preface::Answer;
use headstart_core::wire::socks::{self, Reply, SocksError};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A program has so long to say by SOCKS where it wants to go. Ours.
const INTRODUCTION: Duration = Duration::from_secs(30);
/// After a failure to accept: out of descriptors, most likely, and some will come back.
const PAUSE: Duration = Duration::from_millis(50);

/// Why a connection of a program was not carried.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// No session with the relay.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// What the program said is not SOCKS, or not what is served of it.
    #[error("a program's request: {0}")]
    Socks(#[from] SocksError),
    /// The program's connection broke.
    #[error("a program's connection: {0}")]
    Program(#[from] io::Error),
    /// There are too many already.
    #[error("a program's connection was closed: {0}")]
    Crowded(String),
    /// It said nothing in time.
    #[error("the program sent no destination")]
    Silent,
}

/// Leads every connection to `listener` to `to`.
pub async fn forward(
    (listener, clients): (TcpListener, Arc<Clients>),
    to: Destination,
    relay: Client,
    config: Config,
    failed: impl Fn(&PortError) + Clone + Send + 'static,
) {
    each((listener, clients), failed, move |stream| {
        let (to, relay, config) = (to.clone(), relay.clone(), config.clone());
        async move {
            // A reset is all that a program without a protocol can be told.
            tcp_options::break_off(&stream, true);
            carry_until_gone(stream, relay.open(to, config).await?).await;
            Ok(())
        }
    })
    .await;
}

/// Leads connections to `listener` to where they ask for by SOCKS5.
pub async fn by_socks(
    (listener, clients): (TcpListener, Arc<Clients>),
    relay: Client,
    config: Config,
    failed: impl Fn(&PortError) + Clone + Send + 'static,
) {
    each((listener, clients), failed, move |mut stream| {
        let (relay, config) = (relay.clone(), config.clone());
        async move {
            let asked = tokio::time::timeout(INTRODUCTION, asked(&mut stream)).await.map_err(|_| PortError::Silent)?;
            let to = match asked {
                Ok(to) => to,
                Err(PortError::Socks(error)) => {
                    stream.write_all(&error.reply()).await?;
                    return Err(error.into());
                }
                Err(error) => return Err(error),
            };
            match relay.open(to, config).await {
                Ok(opened) => {
                    stream.write_all(&socks::reply(Reply::Succeeded)).await?;
                    carry_until_gone(stream, opened).await;
                    Ok(())
                }
                Err(error) => {
                    stream.write_all(&socks::reply(reply_for(&error))).await?;
                    Err(error.into())
                }
            }
        }
    })
    .await;
}

async fn carry_until_gone(stream: TcpStream, (session, gone): (Session, Arc<Notify>)) {
    carry(stream, session, async move { gone.notified().await }).await;
}

/// Does the same with each connection, and tells of those that failed.
async fn each<F>(
    (listener, clients): (TcpListener, Arc<Clients>),
    failed: impl Fn(&PortError) + Clone + Send + 'static,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = Result<(), PortError>> + Send + 'static,
{
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let place = match stream.local_addr() {
            Ok(to) => clients.enter(from, to),
            Err(why) => Err(why.to_string()),
        };
        let place = match place {
            Ok(place) => place,
            Err(why) => {
                let _ = stream.set_zero_linger();
                failed(&PortError::Crowded(why));
                continue;
            }
        };
        tcp_options::turn(&stream, None);
        tcp_options::attend(&stream);
        let (served, failed) = (serve(stream), failed.clone());
        tokio::spawn(async move {
            if let Err(error) = served.await {
                failed(&error);
            }
            drop(place);
        });
    }
}

/// Reads where a program wants to go.
async fn asked(stream: &mut TcpStream) -> Result<Destination, PortError> {
    let mut bytes = Vec::new();
    let length = whole(stream, &mut bytes, socks::greeting).await?;
    bytes.drain(..length);
    stream.write_all(&socks::WELCOME).await?;
    let (host, port, length) = whole(stream, &mut bytes, socks::request).await?;
    // A program that goes on before it is answered does not speak this protocol.
    if length != bytes.len() {
        return Err(SocksError::Address.into());
    }
    let host = match host {
        socks::Host::Address(address) => {
            return Ok(Destination { host: Host::Address(address.to_canonical()), port: some(port)? });
        }
        socks::Host::Name(name) => name,
    };
    format!("{host}:{}", some(port)?).parse().map_err(|_| SocksError::Address.into())
}

fn some(port: u16) -> Result<u16, SocksError> {
    if port == 0 { Err(SocksError::Address) } else { Ok(port) }
}

/// Reads until there is a whole message.
async fn whole<T>(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
    read: impl Fn(&[u8]) -> Result<Option<T>, SocksError>,
) -> Result<T, PortError> {
    loop {
        if let Some(message) = read(bytes)? {
            return Ok(message);
        }
        let mut buffer = [0; socks::MAX_MESSAGE];
        match stream.read(&mut buffer).await? {
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

/// What the program learns of a failure.
fn reply_for(error: &SessionError) -> Reply {
    let SessionError::Connect(error) = error else { return Reply::Failed };
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(ClientError::Answered(Answer::Refused)) => Reply::NotAllowed,
        Some(ClientError::Answered(Answer::Unreachable)) => Reply::Unreachable,
        _ => Reply::Failed,
    }
}
