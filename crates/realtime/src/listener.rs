//! The side that is connected to: puts connections that come in together into sessions.
//!
//! A connection belongs to the session that its first frame names. One that says nothing sensible within a while is closed,
//! only so many may be undecided at a time ([`crate::admission`]), and only so many sessions wait for the program
//! ([`crate::backlog`]): one more is closed without a word, and its client tries again for as long as its patience is. Accepting
//! waits for none of them.

use crate::admission::{self, Admission, Place};
use crate::backlog::Backlog;
use crate::driver::{self, Connection, Stream};
use crate::session::{Config, PATIENCE, Session};
use crate::shared::Shared;
use crate::tcp_options;
use headstart_core::realtime::frame::{Frame, Proof, begins_a_connection};
use headstart_core::realtime::{FrameError, Hello, Messenger, SessionId};
use headstart_io::clock::Clock;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::watch;

/// A connection has so long to say for which session it is. Ours.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// Connections at most that have not said it, and their part of the descriptors that the program may have: with those that wait for
/// a place (eight for each) less than a third.
const UNDECIDED: usize = 256;
const OF_FILES_UNDECIDED: usize = 32;
/// Sessions at most that wait to be accepted, and their part of the descriptors.
const WAITING: usize = 512;
const OF_FILES_WAITING: usize = 8;
/// Longest first frame: a header and the longest name of a technique, with room for what may be added.
const LONGEST_HELLO: usize = 512;
/// Sessions that are over and are remembered, the latest. Ours: a client comes back within its patience, and 16 KiB are little.
const REMEMBERED: usize = 1024;
/// New sessions between two looks through all: those that are over meanwhile keep two kilobytes each.
const SELDOM: usize = 64;

/// What goes on here, and what did of late.
#[derive(Default)]
struct Sessions {
    known: HashMap<SessionId, Weak<Shared>>,
    over: VecDeque<SessionId>,
    /// Sessions that began since all were looked through.
    begun: usize,
}

impl Sessions {
    fn get(&self, id: SessionId) -> Option<Arc<Shared>> {
        self.known.get(&id).and_then(Weak::upgrade).filter(|shared| !shared.lock().closed)
    }

    /// Whether this one was here and is over.
    fn was(&self, id: SessionId) -> bool {
        self.known.contains_key(&id) || self.over.contains(&id)
    }

    /// Forgets those that are over, except that they were: now and then, as it looks through all.
    fn tidy(&mut self) {
        let Self { known, over, begun } = self;
        *begun += 1;
        if *begun < SELDOM {
            return;
        }
        *begun = 0;
        known.retain(|id, session| {
            let goes_on = session.upgrade().is_some_and(|shared| !shared.lock().closed);
            if !goes_on {
                over.push_back(*id);
            }
            goes_on
        });
        over.drain(..over.len().saturating_sub(REMEMBERED));
    }
}

/// Accepts sessions.
pub struct Listener {
    address: Option<SocketAddr>,
    door: Arc<Door>,
    accepting: Option<tokio::task::JoinHandle<()>>,
    stopped: watch::Sender<bool>,
}

struct Door {
    sessions: Mutex<Sessions>,
    patience: Mutex<Duration>,
    backlog: Backlog,
    undecided: Arc<Admission>,
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
        // Nothing accepts any more: those that wait end.
        self.door.backlog.close();
    }
}

impl Default for Listener {
    /// As [`Listener::unbound`].
    fn default() -> Self {
        Self::unbound()
    }
}

impl Listener {
    /// Listens on TCP, for any peer.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_for(address, |_| true).await
    }

    /// Listens on TCP; a connection from an address that is not `admitted` is closed at once.
    pub async fn bind_for(
        address: impl ToSocketAddrs,
        admitted: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        admission::lengthen(&socket);
        let mut listener = Self::unbound();
        listener.address = Some(socket.local_addr()?);
        let door = Arc::clone(&listener.door);
        listener.accepting = Some(tokio::spawn(async move {
            loop {
                match socket.accept().await {
                    Ok((_, peer)) if !admitted(peer.ip().to_canonical()) => {}
                    Ok((stream, peer)) => {
                        tcp_options::turn(&stream, None);
                        tcp_options::watch(&stream);
                        let Some(arrival) = door.undecided.arrive(&stream, peer) else {
                            let _ = stream.set_zero_linger();
                            continue;
                        };
                        let door = Arc::clone(&door);
                        tokio::spawn(async move {
                            if let Ok(Some(place)) = tokio::time::timeout(INTRODUCTION, arrival.place()).await {
                                door.admit(Box::new(stream), place, None, Some(peer)).await;
                            }
                        });
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
        let door = Door {
            sessions: Mutex::default(),
            patience: Mutex::new(PATIENCE),
            backlog: Backlog::new(admission::places(WAITING, OF_FILES_WAITING)),
            undecided: Admission::new(admission::places(UNDECIDED, OF_FILES_UNDECIDED)),
        };
        Self { address: None, door: Arc::new(door), accepting: None, stopped: watch::channel(false).0 }
    }

    /// Sessions that begin from now on are given up when their peer has not answered for so long ([`Config::patience`]); 30 seconds
    /// by default.
    pub fn set_patience(&self, patience: Duration) {
        *self.door.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience;
    }

    /// Takes in a connection that came in elsewhere: TLS, say. Where too many have not said for which session they are, it is closed.
    pub fn add(&self, stream: impl Stream) {
        if let Some(place) = self.door.undecided.enter_now() {
            self.door.take_in(Box::new(stream), place, None);
        }
    }

    /// Takes in a connection for session `id`, if that goes on here: it is closed if it is for another, or too late.
    pub(crate) fn join(&self, id: SessionId, stream: impl Stream) {
        if let Some(place) = self.door.undecided.enter_now() {
            self.door.take_in(Box::new(stream), place, Some(id));
        }
    }

    /// Begins session `id` with its first connection; `None` if that is for another, or says nothing sensible in time.
    pub(crate) async fn begin(&self, id: SessionId, stream: impl Stream) -> Option<Session> {
        let introduced = tokio::time::timeout(INTRODUCTION, introduce(Box::new(stream))).await.ok()??;
        match introduced {
            Introduced::For(entrant) if entrant.session == id => match self.door.place(entrant, May::Begin) {
                Placed::Begun(session) => Some(session),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether session `id` goes on here.
    pub(crate) fn knows(&self, id: SessionId) -> bool {
        let sessions = self.door.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(id).is_some()
    }

    /// The address that it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The next session, of each network in its turn; `None` when the listener was stopped. At most 512 wait to be accepted, fewer
    /// where the program may have few descriptors, and a part of them of one network.
    pub async fn accept(&self) -> Option<Session> {
        let mut stopped = self.stopped.subscribe();
        tokio::select! {
            // Once it was stopped there is none, whether one waits or not.
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => None,
            session = self.door.backlog.take() => Some(session),
        }
    }

    /// Accepts no more: a waiting [`Listener::accept`] returns `None`. Sessions stay.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
        if let Some(task) = &self.accepting {
            task.abort();
        }
    }
}

/// Whether a connection may begin a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    /// It may.
    Begin,
    /// Not now: too many wait for the program.
    BeginLater,
    /// It only goes on with one.
    Join,
}

/// What a connection led to.
enum Placed {
    /// A session that is here goes on with it.
    Joined,
    /// A new session.
    Begun(Session),
    /// Nothing now: it is closed.
    Busy,
    /// The session is not here.
    Unknown(Connection),
}

impl Door {
    fn take_in(self: &Arc<Self>, stream: Connection, place: Place, only: Option<SessionId>) {
        let door = Arc::clone(self);
        tokio::spawn(async move { door.admit(stream, place, only, None).await });
    }

    /// Waits for what a connection says, and puts it into its session: into `only` this one, if it is given, else into a new one if
    /// there is none. It comes from `peer`, where that is known.
    async fn admit(&self, stream: Connection, place: Place, only: Option<SessionId>, peer: Option<SocketAddr>) {
        let introduced = tokio::select! {
            introduced = tokio::time::timeout(INTRODUCTION, introduce(stream)) => {
                introduced.inspect_err(|_| place.was_silent()).ok().flatten()
            }
            () = place.is_needed() => None,
        };
        let entrant = match introduced {
            Some(Introduced::For(entrant)) if only.is_none_or(|id| id == entrant.session) => entrant,
            Some(Introduced::OfVersion(stream)) => return refuse(stream, &newest(), place).await,
            _ => return,
        };
        let gone = Frame::Gone(Proof::gone(entrant.session, entrant.connection));
        let from = place.network();
        let may = match only {
            Some(_) => May::Join,
            None if self.backlog.has_room(from) => May::Begin,
            None => May::BeginLater,
        };
        match self.place(entrant, may) {
            Placed::Begun(session) => {
                session.name_peer(peer);
                self.backlog.put(from, session);
            }
            Placed::Unknown(stream) => refuse(stream, &gone, place).await,
            Placed::Joined | Placed::Busy => {}
        }
    }

    /// Puts a connection into its session; into a new one only if it may begin one, and if the peer does not know it yet.
    fn place(&self, entrant: Entrant, may: May) -> Placed {
        let Entrant { session: id, connection, goes_on, config, stream, bytes } = entrant;
        let new = {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(shared) = sessions.get(id) {
                if !shared.may_join() {
                    return Placed::Busy;
                }
                driver::attach(&shared, connection, stream, bytes);
                return Placed::Joined;
            }
            if may == May::Join || goes_on || sessions.was(id) {
                return Placed::Unknown(stream);
            }
            if may == May::BeginLater {
                return Placed::Busy;
            }
            sessions.tidy();
            // A technique that only the peer knows is its own affair: this side then does nothing special.
            let settings =
                config.settings().or_else(|_| Config { technique: "plain".into(), ..config.clone() }.settings());
            let Ok(settings) = settings else { return Placed::Unknown(stream) };
            let patience = *self.patience.lock().unwrap_or_else(PoisonError::into_inner);
            let shared = Shared::new(Messenger::new(id, settings), Clock::new(), patience);
            sessions.known.insert(id, Arc::downgrade(&shared));
            shared
        };
        let session = Session::of(Arc::clone(&new));
        tokio::spawn(driver::keep_time(Arc::clone(&new)));
        driver::attach(&new, connection, stream, bytes);
        Placed::Begun(session)
    }
}

/// A connection that has said for which session it is.
struct Entrant {
    session: SessionId,
    connection: u32,
    goes_on: bool,
    config: Config,
    stream: Connection,
    /// What it said.
    bytes: Vec<u8>,
}

/// What a connection has said first.
enum Introduced {
    For(Entrant),
    /// Something of another version of this protocol.
    OfVersion(Connection),
}

/// What every version takes for a greeting of another, and names.
fn newest() -> Frame<'static> {
    let session = SessionId::default();
    Frame::Hello(Hello { session, connection: 0, interval_micros: 0, technique: "", goes_on: false })
}

/// Says why a connection is not taken, and reads to its end: to close while something is unread would take the answer along.
async fn refuse(mut stream: Connection, answer: &Frame<'_>, place: Place) {
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    let said = async {
        stream.write_all(&bytes).await?;
        stream.shutdown().await?;
        let mut rest = [0; LONGEST_HELLO];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    tokio::select! {
        _ = tokio::time::timeout(INTRODUCTION, said) => {}
        () = place.is_needed() => {}
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
                let (session, connection, goes_on) = (hello.session, hello.connection, hello.goes_on);
                let interval = (!interval.is_zero()).then_some(interval);
                let config = Config { technique: hello.technique.into(), interval, ..Config::default() };
                return Some(Introduced::For(Entrant { session, connection, goes_on, config, stream, bytes }));
            }
            Err(FrameError::Version(_)) => return Some(Introduced::OfVersion(stream)),
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
        Frame::Hello(Hello { session, connection, interval_micros: 0, technique: "plain", goes_on: false })
            .encode(&mut bytes);
        far.write_all(&bytes).await.unwrap();
        (far, near)
    }

    #[tokio::test]
    async fn who_joins_a_session_begins_none() {
        let listener = Listener::unbound();
        let gone = |mut far: tokio::io::DuplexStream| async move { far.read(&mut [0; 64]).await };
        let (far, near) = said_for(OURS, 0).await;
        listener.join(OURS, near);
        let (mut far, mut said) = (far, Vec::new());
        far.read_to_end(&mut said).await.unwrap();
        far.write_all(&[0; 10_000]).await.expect("what it sends meanwhile is read");
        far.shutdown().await.unwrap();
        assert_eq!(
            Frame::decode(&said),
            Ok(Some((Frame::Gone(Proof::gone(OURS, 0)), said.len()))),
            "it is over already"
        );
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

    #[test]
    fn sessions_that_are_over_are_looked_for_now_and_then_and_remembered_for_a_while() {
        let mut sessions = Sessions::default();
        let id = |n: u32| SessionId(u128::from(n).to_le_bytes());
        let begin = || {
            let messenger = Messenger::new(OURS, Config::default().settings().unwrap());
            Shared::new(messenger, Clock::new(), PATIENCE)
        };
        let (goes_on, closed) = (begin(), begin());
        closed.close(crate::ending::Why::Closed);
        for (n, shared) in [(0, &goes_on), (1, &closed)] {
            sessions.known.insert(id(n), Arc::downgrade(shared));
        }
        (2..2000).for_each(|n| _ = sessions.known.insert(id(n), Weak::new()));
        assert!(sessions.get(id(0)).is_some() && [1, 2].iter().all(|n| sessions.get(id(*n)).is_none()));
        (1..SELDOM).for_each(|_| sessions.tidy());
        assert_eq!((sessions.known.len(), sessions.over.len()), (2000, 0));
        sessions.tidy();
        assert_eq!((sessions.known.len(), sessions.over.len()), (1, REMEMBERED));
        assert!(sessions.get(id(0)).is_some() && sessions.was(sessions.over[0]) && !sessions.was(id(5000)));
        // From the beginning again.
        sessions.known.insert(id(5000), Weak::new());
        (1..SELDOM).for_each(|_| sessions.tidy());
        assert_eq!(sessions.known.len(), 2);
        sessions.tidy();
        assert_eq!((sessions.known.len(), sessions.over.back()), (1, Some(&id(5000))));
    }

    #[tokio::test]
    async fn a_session_is_not_begun_by_a_connection_of_another() {
        let listener = Listener::unbound();
        let (_far, near) = said_for(SessionId([8; 16]), 0).await;
        assert!(listener.begin(OURS, near).await.is_none());
        assert!(!listener.knows(OURS) && !listener.knows(SessionId([8; 16])));
    }

    #[tokio::test]
    async fn a_session_for_which_there_is_no_room_is_closed_without_a_word() {
        let mut listener = Listener::unbound();
        Arc::get_mut(&mut listener.door).unwrap().backlog = Backlog::new(1);
        let mut answered = Vec::new();
        for n in 0..3 {
            let (mut far, near) = said_for(SessionId([n; 16]), 0).await;
            listener.add(near);
            answered.push(far.read(&mut [0; 64]).await.unwrap() > 0);
            if n == 1 {
                listener.accept().await.unwrap();
            }
        }
        assert_eq!(answered, [true, false, true]);
    }

    /// What a connection that says this, and then `more`, is taken for: the interval of its session. Without more it is at its end.
    async fn introduced(bytes: &[u8], more: Option<&[u8]>) -> Option<Option<Duration>> {
        let (mut far, near) = tokio::io::duplex(4096);
        far.write_all(bytes).await.unwrap();
        let listening = tokio::spawn(introduce(Box::new(near)));
        tokio::task::yield_now().await;
        match more {
            Some(more) => far.write_all(more).await.unwrap(),
            None => far.shutdown().await.unwrap(),
        }
        match tokio::time::timeout(Duration::from_secs(60), listening).await.expect("it waits on").unwrap()? {
            Introduced::For(entrant) => Some(entrant.config.interval),
            Introduced::OfVersion(_) => None,
        }
    }

    #[tokio::test]
    async fn a_greeting_may_come_in_pieces() {
        let greeting = |interval_micros, technique| {
            let mut bytes = Vec::new();
            Frame::Hello(Hello { session: OURS, connection: 0, interval_micros, technique, goes_on: false })
                .encode(&mut bytes);
            bytes
        };
        let bytes = greeting(30_000, "plain");
        for at in [1, bytes.len() / 2, bytes.len()] {
            let interval = introduced(&bytes[..at], Some(&bytes[at..])).await;
            assert_eq!(interval, Some(Some(Duration::from_millis(30))), "{at}");
        }
        assert_eq!(introduced(&greeting(0, "plain"), None).await, Some(None), "it is measured");
        assert_eq!(introduced(&bytes[..9], None).await, None);
    }

    #[tokio::test]
    async fn what_is_no_greeting_is_known_by_its_first_byte_and_one_that_is_too_long_by_its_length() {
        assert_eq!(introduced(b"G", Some(&[])).await, None);
        let endless = [&[4, 0, 0xff, 0x0f][..], &[0; LONGEST_HELLO]].concat();
        assert_eq!(introduced(&endless, Some(&[])).await, None);
    }
}
