//! The side that is connected to: puts connections that come in together into sessions.
//!
//! A connection belongs to the session that its first frame names. Whoever says nothing sensible within a while is dropped,
//! and only so many may be undecided at a time ([`crate::doorstep`]).

use crate::doorstep::{Doorstep, Place};
use crate::driver;
use crate::knobs;
use crate::session::{Config, Connection, Session, Stream};
use crate::shared::Shared;
use headstart_core::realtime::frame::{Frame, begins_a_connection};
use headstart_core::realtime::{Messenger, SessionId};
use headstart_io::clock::Clock;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::mpsc;

/// A connection has so long to say for which session it is. Ours.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// Connections at most that have not said it.
const UNDECIDED: usize = 256;
/// Sessions that may wait to be accepted.
const BACKLOG: usize = 128;
/// Longest first frame: a header and the longest name of a technique, with room for what may be added.
const LONGEST_HELLO: usize = 512;

type Sessions = Mutex<HashMap<SessionId, Weak<Shared>>>;

/// Accepts sessions.
pub struct Listener {
    address: Option<SocketAddr>,
    accepted: tokio::sync::Mutex<mpsc::Receiver<Session>>,
    door: Arc<Door>,
    accepting: Option<tokio::task::JoinHandle<()>>,
}

struct Door {
    sessions: Sessions,
    out: mpsc::Sender<Session>,
    undecided: Arc<Doorstep>,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = &self.accepting {
            task.abort();
        }
    }
}

impl Default for Listener {
    /// As [`Listener::unbound`].
    fn default() -> Self {
        Self::unbound()
    }
}

impl Listener {
    /// Listens on TCP, to whoever comes.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_for(address, |_| true).await
    }

    /// Listens on TCP; whose address is not `admitted` is closed at once.
    pub async fn bind_for(
        address: impl ToSocketAddrs,
        admitted: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let mut listener = Self::unbound();
        listener.address = Some(socket.local_addr()?);
        let door = Arc::clone(&listener.door);
        listener.accepting = Some(tokio::spawn(async move {
            loop {
                match socket.accept().await {
                    Ok((_, peer)) if !admitted(peer.ip().to_canonical()) => {}
                    Ok((stream, peer)) => {
                        knobs::turn(&stream, None);
                        knobs::watch(&stream);
                        let place = door.undecided.enter(Some(peer.ip())).await;
                        Door::admit(&door, Box::new(stream), place, None);
                    }
                    // Out of descriptors, most likely: some will come back.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        }));
        Ok(listener)
    }

    /// One that gets its connections from [`Listener::add`] alone.
    pub fn unbound() -> Self {
        let (out, accepted) = mpsc::channel(BACKLOG);
        let door = Door { sessions: Sessions::default(), out, undecided: Doorstep::new(UNDECIDED) };
        Self { address: None, accepted: accepted.into(), door: Arc::new(door), accepting: None }
    }

    /// Takes in a connection that came in elsewhere: TLS, say. Where too many have not said for which session they are, it is closed.
    pub fn add(&self, stream: impl Stream) {
        if let Some(place) = self.door.undecided.enter_now(None) {
            Door::admit(&self.door, Box::new(stream), place, None);
        }
    }

    /// Takes in a connection for session `id`, if that goes on here: it is closed if it is for another, or too late.
    pub(crate) fn join(&self, id: SessionId, stream: impl Stream) {
        if let Some(place) = self.door.undecided.enter_now(None) {
            Door::admit(&self.door, Box::new(stream), place, Some(id));
        }
    }

    /// Begins session `id` with its first connection; `None` if that is for another, or says nothing sensible in time.
    pub(crate) async fn begin(&self, id: SessionId, stream: impl Stream) -> Option<Session> {
        let introduced = tokio::time::timeout(INTRODUCTION, introduce(Box::new(stream))).await.ok()??;
        if introduced.session == id { self.door.place(introduced, true) } else { None }
    }

    /// Whether session `id` goes on here.
    pub(crate) fn knows(&self, id: SessionId) -> bool {
        let sessions = self.door.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&id).and_then(Weak::upgrade).is_some_and(|shared| !shared.lock().closed)
    }

    /// The address that it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The next session.
    pub async fn accept(&self) -> Option<Session> {
        self.accepted.lock().await.recv().await
    }
}

impl Door {
    /// Waits for what a connection says, and puts it into its session: into `only` this one, if it is given, else into a new one if
    /// there is none.
    fn admit(door: &Arc<Self>, stream: Connection, place: Place, only: Option<SessionId>) {
        let door = Arc::clone(door);
        tokio::spawn(async move {
            if let Some(introduced) = said(stream, place).await
                && only.is_none_or(|id| id == introduced.session)
                && let Some(session) = door.place(introduced, only.is_none())
            {
                // Nobody accepts any more: the session ends as its handle is dropped.
                let _ = door.out.send(session).await;
            }
        });
    }

    /// Puts a connection into its session; that comes back if it is a new one, which it may only be if it `may_begin`.
    fn place(&self, introduced: Introduced, may_begin: bool) -> Option<Session> {
        let Introduced { session: id, connection, config, stream, bytes } = introduced;
        let new = {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let known = sessions.get(&id).and_then(Weak::upgrade).filter(|shared| !shared.lock().closed);
            if let Some(shared) = known {
                driver::attach(&shared, connection, stream, bytes);
                return None;
            }
            if !may_begin {
                return None;
            }
            sessions.retain(|_, session| session.strong_count() > 0);
            // A technique that only the peer knows is its own affair: this side then does nothing special.
            let settings =
                config.settings().or_else(|_| Config { technique: "plain".into(), ..config.clone() }.settings());
            let shared = Shared::new(Messenger::new(id, settings.ok()?), Clock::new());
            sessions.insert(id, Arc::downgrade(&shared));
            shared
        };
        let session = Session::of(Arc::clone(&new));
        tokio::spawn(driver::keep_time(Arc::clone(&new)));
        driver::attach(&new, connection, stream, bytes);
        Some(session)
    }
}

/// A connection that has said for which session it is.
struct Introduced {
    session: SessionId,
    connection: u32,
    config: Config,
    stream: Connection,
    /// What it said.
    bytes: Vec<u8>,
}

/// What a connection says of itself in time, if its place is not needed for another before it does.
async fn said(stream: Connection, place: Place) -> Option<Introduced> {
    tokio::select! {
        introduced = tokio::time::timeout(INTRODUCTION, introduce(stream)) => introduced.ok()?,
        () = place.is_needed() => None,
    }
}

async fn introduce(mut stream: Connection) -> Option<Introduced> {
    let mut bytes = Vec::new();
    let mut buffer = [0; LONGEST_HELLO];
    loop {
        let n = stream.read(&mut buffer).await.ok()?;
        bytes.extend_from_slice(&buffer[..n]);
        if n == 0 || !begins_a_connection(bytes[0]) {
            return None;
        }
        match Frame::decode(&bytes) {
            Ok(Some((Frame::Hello(hello), _))) => {
                let interval = Duration::from_micros(hello.interval_micros.into());
                let (session, connection) = (hello.session, hello.connection);
                let config =
                    Config { technique: hello.technique.into(), interval: (!interval.is_zero()).then_some(interval) };
                return Some(Introduced { session, connection, config, stream, bytes });
            }
            Ok(None) if bytes.len() < LONGEST_HELLO => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::realtime::frame::Hello;
    use tokio::io::AsyncWriteExt;

    const OURS: SessionId = SessionId([7; 16]);

    /// The near end of a connection whose far end has said that it is for this session.
    async fn said_for(session: SessionId, connection: u32) -> (tokio::io::DuplexStream, tokio::io::DuplexStream) {
        let (mut far, near) = tokio::io::duplex(4096);
        let mut bytes = Vec::new();
        Frame::Hello(Hello { session, connection, interval_micros: 0, technique: "plain" }).encode(&mut bytes);
        far.write_all(&bytes).await.unwrap();
        (far, near)
    }

    #[tokio::test]
    async fn who_joins_a_session_begins_none() {
        let listener = Listener::unbound();
        let gone = |mut far: tokio::io::DuplexStream| async move { far.read(&mut [0; 64]).await };
        let (far, near) = said_for(OURS, 0).await;
        listener.join(OURS, near);
        assert_eq!(gone(far).await.unwrap(), 0, "it is over already");
        assert!(!listener.knows(OURS));
        let (_first, near) = said_for(OURS, 0).await;
        let session = listener.begin(OURS, near).await.unwrap();
        // For another than it was granted.
        let (far, near) = said_for(SessionId([8; 16]), 1).await;
        listener.join(OURS, near);
        assert_eq!(gone(far).await.unwrap(), 0);
        let (mut far, near) = said_for(OURS, 2).await;
        listener.join(OURS, near);
        assert!(far.read(&mut [0; 64]).await.unwrap() > 0, "it is welcome");
        drop(session);
    }
}
