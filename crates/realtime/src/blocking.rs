//! The same without async: calls that wait.
//!
//! A thread of its own runs the tasks of all sessions made here.

use crate::session::{Config, Message, SessionError};
use headstart_core::realtime::{Kind, Sent, Stats};
use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The thread that runs the tasks.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let new = Builder::new_multi_thread().worker_threads(1).thread_name("headstart-realtime").enable_all().build()?;
    // Another thread may have been faster; then this one ends, unused.
    Ok(RUNTIME.get_or_init(|| new))
}

/// One end of a session. See [`crate::Session`].
#[derive(Clone, Debug)]
pub struct Session(crate::Session);

impl Session {
    /// Connects to a listener. See [`crate::Session::connect`].
    pub fn connect(peer: &str, config: Config) -> Result<Self, SessionError> {
        let runtime = runtime().map_err(SessionError::Connect)?;
        Ok(Self(runtime.block_on(crate::Session::connect(peer.to_owned(), config))?))
    }

    /// Sends a message; waits while too many are on their way.
    pub fn send(&self, lane: u8, kind: Kind, key: u64, bytes: &[u8]) -> Result<Sent, SessionError> {
        let runtime = runtime().map_err(SessionError::Connect)?;
        runtime.block_on(self.0.lane(lane, kind).send_value(key, bytes))
    }

    /// The next message, or `None` when the session is over.
    pub fn receive(&self) -> Option<Message> {
        runtime().ok()?.block_on(self.0.receive())
    }

    /// The next message, if one comes within `patience`.
    pub fn receive_within(&self, patience: Duration) -> Option<Message> {
        runtime().ok()?.block_on(async { tokio::time::timeout(patience, self.0.receive()).await.ok().flatten() })
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Waits until the peer has everything, for two seconds at most, and ends the session. Whether it has.
    pub fn close(self) -> bool {
        runtime().is_ok_and(|runtime| runtime.block_on(self.0.close()))
    }
}

/// Accepts sessions. See [`crate::Listener`].
#[derive(Debug)]
pub struct Listener(crate::Listener);

impl Listener {
    /// Listens on TCP.
    pub fn bind(address: &str) -> io::Result<Self> {
        Ok(Self(runtime()?.block_on(crate::Listener::bind(address.to_owned()))?))
    }

    /// The address that it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.address()
    }

    /// The next session.
    pub fn accept(&self) -> Option<Session> {
        runtime().ok()?.block_on(self.0.accept()).map(Session)
    }
}
