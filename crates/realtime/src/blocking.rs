//! The same without async: calls that wait, each no longer than it is given.
//!
//! A thread of its own runs the tasks of all sessions made here.

use crate::ending::Ending;
use crate::session::{Config, Message, SessionError};
use headstart_core::realtime::{Kind, Sent, Stats};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
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

/// Waits for `what`, for `within` at most.
fn wait<T>(within: Duration, what: impl Future<Output = Result<T, SessionError>>) -> Result<T, SessionError> {
    let runtime = runtime().map_err(SessionError::Connect)?;
    runtime.block_on(async { tokio::time::timeout(within, what).await.unwrap_or(Err(SessionError::TimedOut)) })
}

/// One end of a session. See [`crate::Session`].
#[derive(Clone, Debug)]
pub struct Session(crate::Session);

impl Session {
    /// Connects to a listener, and waits until that has shown that it is one, as long as the patience of `config` is.
    /// See [`crate::Session::connect`].
    pub fn connect(peer: &str, config: Config) -> Result<Self, SessionError> {
        let within = config.patience;
        wait(within, async {
            let session = crate::Session::connect(peer.to_owned(), config).await?;
            session.greeted().await?;
            Ok(Self(session))
        })
    }

    /// Sends a message; waits while too many are on their way, as long as the patience of the session is.
    pub fn send(&self, lane: u8, kind: Kind, key: u64, bytes: &[u8]) -> Result<Sent, SessionError> {
        self.send_within(self.0.patience(), (lane, kind, key), bytes)
    }

    /// Sends a message; waits for `within` while too many are on their way.
    pub fn send_within(
        &self,
        within: Duration,
        (lane, kind, key): (u8, Kind, u64),
        bytes: &[u8],
    ) -> Result<Sent, SessionError> {
        wait(within, self.0.lane(lane, kind).send_value(key, bytes))
    }

    /// Sends a message, or says at once that it cannot.
    pub fn try_send(&self, lane: u8, kind: Kind, key: u64, bytes: &[u8]) -> Result<Sent, SessionError> {
        self.0.lane(lane, kind).try_send(key, bytes)
    }

    /// Waits until the peer has everything, for `within` at most. Whether it has.
    pub fn delivered_within(&self, within: Duration) -> bool {
        wait(within, async { Ok(self.0.delivered().await) }).unwrap_or(false)
    }

    /// Why the session is over, if it is. See [`crate::Session::ending`].
    pub fn ending(&self) -> Option<Ending> {
        self.0.ending()
    }

    /// Messages that were handed in and that the peer has not confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.0.unconfirmed()
    }

    /// A descriptor to poll. See [`crate::Session::descriptor`].
    pub fn descriptor(&self) -> io::Result<RawFd> {
        self.0.descriptor()
    }

    /// The next message, or `None` when the session is over: until then it waits, however long nothing comes.
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

    /// The next session; `None` when the listener was stopped. See [`Listener::accept_within`].
    pub fn accept(&self) -> Option<Session> {
        runtime().ok()?.block_on(self.0.accept()).map(Session)
    }

    /// The next session, if one comes within `within`; `Ok(None)` when the listener was stopped.
    pub fn accept_within(&self, within: Duration) -> Result<Option<Session>, SessionError> {
        wait(within, async { Ok(self.0.accept().await.map(Session)) })
    }

    /// Accepts no more; what waits in another thread is told. Sessions stay.
    pub fn stop(&self) {
        self.0.stop();
    }
}
