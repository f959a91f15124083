//! Between sender and receiver: each hop has its own loss recovery, and its own technique (paper 4, section 5).
//!
//! A session that comes in gets one that goes out, to the one address that the relay was given: it forwards nowhere else.
//! Messages are passed on as they come, in both directions, each in its lane; a lane that pushes back holds up its own
//! session alone. What never happens here: a message is read.

use crate::Listener;
use crate::knobs;
use crate::session::{Config, Session, SessionError};
use headstart_core::realtime::Kind;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The lane that bytes of a program go over which knows nothing of messages.
const BYTES: u8 = 0;
/// Bytes in one message at most, so that it is a segment on every path but the narrowest.
const CHUNK: usize = 1200;

/// How messages go on.
#[derive(Clone, Debug)]
pub struct Onward {
    /// Where to.
    pub to: String,
    /// How, on that hop.
    pub config: Config,
}

/// Passes on every session that `listener` accepts, until it accepts no more. `failed` is told of sessions that could not be
/// passed on.
pub async fn run(listener: Listener, onward: Onward, failed: impl Fn(&SessionError) + Clone + Send + 'static) {
    while let Some(near) = listener.accept().await {
        let (onward, failed) = (onward.clone(), failed.clone());
        tokio::spawn(async move {
            if let Err(error) = pass(near, onward).await {
                failed(&error);
            }
        });
    }
}

/// Passes on one session, until either side is over.
async fn pass(near: Session, onward: Onward) -> Result<(), SessionError> {
    let far = Session::connect(onward.to, onward.config).await?;
    tokio::select! {
        result = one_way(&near, &far) => result?,
        result = one_way(&far, &near) => result?,
    }
    // What has been taken in is still to be delivered.
    far.close().await;
    near.close().await;
    Ok(())
}

async fn one_way(from: &Session, to: &Session) -> Result<(), SessionError> {
    while let Some(message) = from.receive().await {
        to.lane(message.lane, message.kind).send_value(message.key, &message.bytes).await?;
    }
    Ok(())
}

/// Takes in plain TCP connections and carries each over a session of its own to `onward`, where [`run_far`] makes it a
/// connection again: so a program that knows nothing of sessions gains on the hop between the two.
pub async fn run_near(
    listener: TcpListener,
    admitted: impl Fn(IpAddr) -> bool,
    onward: Onward,
    failed: impl Fn(&SessionError) + Clone + Send + 'static,
) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors, most likely: some will come back.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        if !admitted(peer.ip().to_canonical()) {
            continue;
        }
        let (onward, failed) = (onward.clone(), failed.clone());
        tokio::spawn(async move {
            knobs::turn(&stream);
            match Session::connect(onward.to, onward.config).await {
                Ok(session) => carry(stream, session).await,
                Err(error) => failed(&error),
            }
        });
    }
}

/// Makes of each session that comes from [`run_near`] a plain TCP connection to `to`.
pub async fn run_far(listener: Listener, to: String, failed: impl Fn(&SessionError) + Clone + Send + 'static) {
    while let Some(session) = listener.accept().await {
        let (to, failed) = (to.clone(), failed.clone());
        tokio::spawn(async move {
            match TcpStream::connect(to).await {
                Ok(stream) => {
                    knobs::turn(&stream);
                    carry(stream, session).await;
                }
                Err(error) => failed(&SessionError::Connect(error)),
            }
        });
    }
}

/// Carries the bytes of `stream` both ways over `session`, in order. An empty message is the end of one direction.
async fn carry(stream: TcpStream, session: Session) {
    let (mut from, mut to) = stream.into_split();
    let lane = session.lane(BYTES, Kind::Ordered);
    let out = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            // A connection that breaks ends as one that is closed: what came before it has been passed on.
            let n = from.read(&mut buffer).await.unwrap_or(0);
            if lane.send(&buffer[..n]).await.is_err() || n == 0 {
                return;
            }
        }
    };
    let back = async {
        while let Some(message) = session.receive().await {
            if message.bytes.is_empty() || to.write_all(&message.bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(out, back);
    session.close().await;
}
