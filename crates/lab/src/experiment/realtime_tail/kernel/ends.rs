//! The two ends of a hop for each way of sending: an ordinary socket, a session, or datagrams.

use super::socket::{Counter, Stream, Traffic};
use crate::experiment::realtime_tail::{ALL_LOST, BUNDLE, CONTROL, DATAGRAMS, ORACLE, PLAIN};
use crate::sim::messages::{REPEATED, TOUCH, UDP_HEADERS};
use crate::sim::tcp::Stack;
use anyhow::Context as _;
use headstart_realtime::{Config, Kind, Lane, Listener, Session, technique};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc::UnboundedSender;

/// How often it is looked whether a session has all of its connections.
const GLANCE: Duration = Duration::from_millis(10);

/// What messages are written to.
pub enum Near {
    /// An ordinary socket: one write a message, with TCP_NODELAY.
    Plain(Stream, Counter),
    /// A session of this number of connections.
    Session(Session, Lane, Counter, usize),
    /// Each datagram with so many messages, the last ones; `None` where datagrams are passed on as they are.
    Datagrams(UdpSocket, Option<(usize, Vec<u8>)>, Traffic),
}

/// Messages in a datagram of a way of sending; none if it sends no datagrams.
fn repeated(arm: &str) -> Option<usize> {
    match arm {
        DATAGRAMS => Some(REPEATED as usize),
        ORACLE => Some(ALL_LOST as usize),
        _ => None,
    }
}

/// Whether an ordinary socket is all that it takes.
fn is_plain(arm: &str) -> bool {
    [PLAIN, CONTROL, BUNDLE].contains(&arm)
}

impl Near {
    /// Opens what `arm` writes to; `first` is where messages are made.
    pub async fn open(arm: &str, to: SocketAddr, stack: Stack, first: bool) -> anyhow::Result<Self> {
        let counter = Counter::default();
        match arm {
            arm if is_plain(arm) => Ok(Self::Plain(Stream::connect(to, stack, &counter).await?, counter)),
            name => {
                if let Some(repeated) = repeated(name) {
                    let socket = UdpSocket::bind("0.0.0.0:0").await?;
                    socket.connect(to).await?;
                    return Ok(Self::Datagrams(socket, first.then(|| (repeated, Vec::new())), Traffic::default()));
                }
                let config = Config { technique: name.into(), interval: Some(TOUCH.interval), ..Config::default() };
                let watched = counter.clone();
                let dial = move || {
                    let watched = watched.clone();
                    async move { Stream::connect(to, stack, &watched).await }
                };
                let session = Session::connect_over(dial, config).await?;
                let kind = if name.contains("reduction") { Kind::Latest } else { Kind::Event };
                let lane = session.lane(0, kind);
                Ok(Self::Session(session, lane, counter, technique::find(name)?.connections()))
            }
        }
    }

    /// Waits until all connections are open.
    pub async fn ready(&self) {
        if let Self::Session(session, _, _, connections) = self {
            while session.connections() < *connections {
                tokio::time::sleep(GLANCE).await;
            }
        }
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Plain(stream, _) => stream.write_all(message).await.context("writing to an ordinary socket"),
            Self::Session(_, lane, ..) => {
                lane.send_value(0, message).await.map(|_| ()).context("sending over a session")
            }
            Self::Datagrams(socket, before, traffic) => {
                let mut datagram = message.to_vec();
                if let Some((repeated, before)) = before {
                    datagram.extend_from_slice(before);
                    datagram.truncate(*repeated * TOUCH.bytes);
                    before.clone_from(&datagram);
                }
                traffic.packets += 1;
                traffic.bytes += (UDP_HEADERS + datagram.len()) as u64;
                // What the socket does not take is lost like anything else.
                let _ = socket.send(&datagram).await;
                Ok(())
            }
        }
    }

    /// What its sockets have carried.
    pub fn traffic(&self) -> Traffic {
        match self {
            Self::Plain(_, counter) | Self::Session(_, _, counter, _) => counter.traffic(),
            Self::Datagrams(_, _, traffic) => *traffic,
        }
    }
}

/// What messages come out of.
pub enum Far {
    /// For an ordinary socket, and whether for the connections of a session.
    Streams(TcpListener, bool),
    /// For datagrams.
    Datagrams(UdpSocket),
}

impl Far {
    /// Listens for `arm`.
    pub async fn bind(arm: &str, at: SocketAddr) -> anyhow::Result<Self> {
        let what = || format!("listening at {at} for {arm}");
        if repeated(arm).is_some() {
            return Ok(Self::Datagrams(UdpSocket::bind(at).await.with_context(what)?));
        }
        let listener = TcpListener::bind(at).await.with_context(what)?;
        Ok(Self::Streams(listener, !is_plain(arm)))
    }

    /// Hands out what comes, each message of a plain stream or a session, each datagram whole; until the peer leaves.
    pub async fn run(self, stack: Stack, out: UnboundedSender<Vec<u8>>) -> anyhow::Result<()> {
        match self {
            Self::Streams(listener, false) => {
                let mut stream = Stream::accepted(listener.accept().await?.0, stack)?;
                let mut message = vec![0; TOUCH.bytes];
                while stream.read_exact(&mut message).await.is_ok() && out.send(message.clone()).is_ok() {}
            }
            Self::Streams(socket, true) => {
                let listener = Listener::unbound();
                let accepting = async {
                    loop {
                        match socket.accept().await.and_then(|(stream, _)| Stream::accepted(stream, stack)) {
                            Ok(stream) => listener.add(stream),
                            // The client that connected has gone again.
                            Err(_) => tokio::task::yield_now().await,
                        }
                    }
                };
                let receiving = async {
                    let session = listener.accept().await?;
                    while let Some(message) = session.receive().await {
                        out.send(message.bytes).ok()?;
                    }
                    Some(())
                };
                tokio::select! {
                    () = accepting => {}
                    _ = receiving => {}
                }
            }
            Self::Datagrams(socket) => {
                let mut datagram = vec![0; ALL_LOST as usize * TOUCH.bytes];
                loop {
                    let length = socket.recv(&mut datagram).await?;
                    if out.send(datagram[..length].to_vec()).is_err() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
