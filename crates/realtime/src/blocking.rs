//! The same without async: calls that wait, each no longer than it is given.
//!
//! A thread of its own runs the tasks of all sessions made here.

use crate::driver::Connection;
use crate::ending::Ending;
use crate::session::{Config, Message, SessionError};
use headstart_core::realtime::{Kind, Sent, Stats};
use rustix::net::{AddressFamily, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
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

/// The stream behind a socket of the program's.
fn stream(socket: OwnedFd) -> io::Result<Connection> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    match sockopt::socket_domain(&socket)? {
        AddressFamily::UNIX => Ok(Box::new(UnixStream::from_std(socket.into())?)),
        AddressFamily::INET | AddressFamily::INET6 => Ok(Box::new(TcpStream::from_std(socket.into())?)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a TCP nor a Unix socket")),
    }
}

/// The program's own dialling: one call at a time, none once it is over, and nothing waits for one that takes its time.
#[derive(Debug, Default)]
struct Dialling(Mutex<Stage>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    UnderWay,
    Over,
}

impl Dialling {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run<T>(&self, dial: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        // Held for this look alone.
        match &mut *self.stage() {
            stage @ Stage::Idle => *stage = Stage::UnderWay,
            Stage::UnderWay => return Err(io::ErrorKind::WouldBlock.into()),
            Stage::Over => return Err(io::ErrorKind::NotConnected.into()),
        }
        let _done = Done(self);
        dial()
    }

    fn end(&self) {
        *self.stage() = Stage::Over;
    }
}

/// The end of a call, by a panic too.
struct Done<'a>(&'a Dialling);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut stage = self.0.stage();
        if *stage == Stage::UnderWay {
            *stage = Stage::Idle;
        }
    }
}

/// One end of a session. See [`crate::Session`].
#[derive(Clone, Debug)]
pub struct Session {
    session: crate::Session,
    /// The program's own dialling, if it dials itself.
    dialling: Option<Arc<Dialling>>,
}

// Handles may be shared by threads.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Session>();
    is_shared::<Listener>();
};

impl From<crate::Session> for Session {
    fn from(session: crate::Session) -> Self {
        Self { session, dialling: None }
    }
}

impl Session {
    /// Connects over stream sockets, TCP or Unix, that `dial` opens: one end of a pair, say, behind whose other end the program does TLS.
    /// It is called by other threads, one at a time, whenever a connection is wanted. Neither this function nor [`Session::close`] waits
    /// for a call that takes longer than they may: one may be under way when they come back, and none begins after. Else as
    /// [`Session::connect`].
    pub fn connect_over(
        dial: impl Fn() -> io::Result<OwnedFd> + Send + Sync + 'static,
        config: Config,
    ) -> Result<Self, SessionError> {
        let within = config.patience;
        let (dial, dialling) = (Arc::new(dial), Arc::new(Dialling::default()));
        let own = Arc::clone(&dialling);
        let open = move || {
            let (dial, dialling) = (Arc::clone(&dial), Arc::clone(&dialling));
            async move {
                let socket = tokio::task::spawn_blocking(move || dialling.run(|| dial()));
                stream(socket.await.map_err(io::Error::other)??)
            }
        };
        let session = wait(within, async {
            let session = crate::Session::connect_over(open, config).await?;
            session.greeted().await?;
            Ok(session)
        });
        let session = session.inspect_err(|_| own.end())?;
        Ok(Self { session, dialling: Some(own) })
    }

    /// Connects to a listener, and waits until that has shown that it is one, as long as the patience of `config` is.
    /// See [`crate::Session::connect`].
    pub fn connect(peer: &str, config: Config) -> Result<Self, SessionError> {
        let within = config.patience;
        wait(within, async {
            let session = crate::Session::connect(peer.to_owned(), config).await?;
            session.greeted().await?;
            Ok(session.into())
        })
    }

    /// See [`crate::Session::set_patience`].
    pub fn set_patience(&self, patience: Duration) {
        self.session.set_patience(patience);
    }

    /// Sends a message; waits while too many are on their way, as long as the patience of the session is.
    pub fn send(&self, lane: u8, kind: Kind, key: u64, bytes: &[u8]) -> Result<Sent, SessionError> {
        self.send_within(self.session.patience(), (lane, kind, key), bytes)
    }

    /// Sends a message; waits for `within` while too many are on their way.
    pub fn send_within(
        &self,
        within: Duration,
        (lane, kind, key): (u8, Kind, u64),
        bytes: &[u8],
    ) -> Result<Sent, SessionError> {
        wait(within, self.session.lane(lane, kind).send_value(key, bytes))
    }

    /// Sends a message, or says at once that it cannot.
    pub fn try_send(&self, lane: u8, kind: Kind, key: u64, bytes: &[u8]) -> Result<Sent, SessionError> {
        self.session.lane(lane, kind).try_send(key, bytes)
    }

    /// Waits until the peer has everything, for `within` at most. Whether it has.
    pub fn delivered_within(&self, within: Duration) -> bool {
        wait(within, async { Ok(self.session.delivered().await) }).unwrap_or(false)
    }

    /// Why the session is over, if it is. See [`crate::Session::ending`].
    pub fn ending(&self) -> Option<Ending> {
        self.session.ending()
    }

    /// Messages that were handed in and that the peer has not confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.session.unconfirmed()
    }

    /// A descriptor to poll. See [`crate::Session::descriptor`].
    pub fn descriptor(&self) -> io::Result<RawFd> {
        self.session.descriptor()
    }

    /// The next message, or `None` when the session is over: until then it waits, however long nothing comes.
    pub fn receive(&self) -> Option<Message> {
        runtime().ok()?.block_on(self.session.receive())
    }

    /// The next message, if one comes within `patience`.
    pub fn receive_within(&self, patience: Duration) -> Option<Message> {
        runtime().ok()?.block_on(async { tokio::time::timeout(patience, self.session.receive()).await.ok().flatten() })
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.session.stats()
    }

    /// Waits until the peer has everything, for two seconds at most, and ends the session. Whether it is known to have it. See
    /// [`crate::Session::close`].
    pub fn close(self) -> bool {
        let arrived = runtime().is_ok_and(|runtime| runtime.block_on(self.session.close()));
        self.dialling.iter().for_each(|dialling| dialling.end());
        arrived
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

    /// See [`crate::Listener::set_patience`].
    pub fn set_patience(&self, patience: Duration) {
        self.0.set_patience(patience);
    }

    /// The next session; `None` when the listener was stopped. See [`Listener::accept_within`].
    pub fn accept(&self) -> Option<Session> {
        runtime().ok()?.block_on(self.0.accept()).map(Session::from)
    }

    /// The next session, if one comes within `within`; `Ok(None)` when the listener was stopped.
    pub fn accept_within(&self, within: Duration) -> Result<Option<Session>, SessionError> {
        wait(within, async { Ok(self.0.accept().await.map(Session::from)) })
    }

    /// Accepts no more; a call that waits in another thread returns `None`. Sessions stay.
    pub fn stop(&self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generous: nothing here is about speed.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_dials_once_at_a_time_and_not_after_the_end() {
        let dialling = Dialling::default();
        let refused = || dialling.run(|| Ok(())).unwrap_err().kind();
        assert_eq!(dialling.run(|| Ok(refused())).unwrap(), io::ErrorKind::WouldBlock);
        assert!(dialling.run(|| Ok(())).is_ok(), "the first has come back");
        // The end comes while one is under way.
        let run = dialling.run(|| {
            dialling.end();
            Ok(())
        });
        assert!(run.is_ok());
        assert_eq!(refused(), io::ErrorKind::NotConnected);
    }

    #[test]
    fn a_socket_of_the_program_is_a_stream_if_it_is_of_tcp_or_unix() {
        let _here = runtime().unwrap().enter();
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(stream(unix.into()).is_ok());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(stream(std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap().into()).is_ok());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(stream(file.into()).is_err());
    }

    #[test]
    fn the_handles_say_what_those_of_async_programs_say() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        listener.set_patience(LONG);
        let near = Session::connect(&listener.address().unwrap().to_string(), Config::default()).unwrap();
        let far = listener.accept_within(LONG).unwrap().unwrap();
        assert_eq!(far.session.patience(), LONG);
        near.set_patience(LONG * 2);
        assert_eq!((near.session.patience(), near.session.connections() > 0), (LONG * 2, true));
        for n in 0..3 {
            near.send(0, Kind::Ordered, 0, &[n]).unwrap();
        }
        assert!(near.delivered_within(LONG));
        assert_eq!((near.stats().sent, near.unconfirmed(), near.ending()), (3, 0, None));
        assert_eq!(far.descriptor().unwrap(), far.session.descriptor().unwrap());
        assert!(far.descriptor().unwrap() > 0);
        assert_eq!([(); 3].map(|()| far.receive().unwrap().bytes[0]), [0, 1, 2]);
        assert!(near.close());
        assert!(far.receive().is_none() && far.ending().is_some());
        // One that is thrown away.
        let near = Session::connect(&listener.address().unwrap().to_string(), Config::default()).unwrap();
        near.send(0, Kind::Ordered, 0, b"x").unwrap();
        assert!(near.delivered_within(LONG));
        drop(listener.accept_within(LONG));
        assert!(near.receive().is_none() && !near.close());
    }
}
