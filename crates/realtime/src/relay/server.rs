//! The relay: which clients may come, where they may go, and what is between.
//!
//! A client is known by its key before it can say anything. It asks for a stream that goes through (a session's two ends are
//! then beyond the relay: nothing depends on what the relay remembers, and it may be killed and started again), or for one
//! that is carried over a session with the relay. The list says what a client may ask for; what it costs is bounded: so
//! many connections, one read of each that is not taken, and for sessions what a session may hold.

use super::carry::carry;
use super::joined::Joined;
use super::records::Records;
use super::served::Served;
use super::splice::splice;
use crate::admission::{self, Admission};
use crate::keys::{self, KeyError, PublicKey, SecretKey};
use crate::listener::Listener;
use crate::tcp_options;
use headstart_core::realtime::access::{Access, Destination, Host};
use headstart_core::realtime::preface::{Answer, HEADER, Request, text_length};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::JoinSet;

/// Connections at most that have not identified themselves and said what they want. Ours.
const UNDECIDED: usize = 512;
/// … and at most one for so many descriptors that the program may have: with those that wait for a place (eight for each) less than a third.
const OF_FILES: usize = 32;
/// After a failure to accept: out of descriptors, most likely, and some will come back.
const PAUSE: Duration = Duration::from_millis(50);

/// How a relay is to be.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Its key.
    pub key: SecretKey,
    /// The keys of the clients that may use it.
    pub clients: Vec<PublicKey>,
    /// Where they may go.
    pub access: Access,
    /// Connections of clients at most; further ones get the answer that the relay is busy. Where one client has more than half of them, its newest
    /// is ended for another client's. Those of others do not count: they have bounds of their own.
    pub most: usize,
    /// How long a connection may take to identify itself and say what it wants, and a destination to answer.
    pub patience: Duration,
}

impl ServerSettings {
    /// For up to 40 000 connections (6 600 sessions with six each), each with ten seconds to say what it wants. Ours.
    pub fn new(key: SecretKey, clients: Vec<PublicKey>, access: Access) -> Self {
        Self { key, clients, access, most: 40_000, patience: Duration::from_secs(10) }
    }
}

/// What a relay tells of, for its operator. Names and addresses of destinations are in it: nothing for a log that others read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer came that is no client, or said nothing sensible in time.
    Unknown(SocketAddr),
    /// A client was answered.
    Answered(Answer, Option<Destination>),
}

/// What a relay has done so far.
#[derive(Debug, Default)]
pub struct Tally {
    accepted: AtomicU64,
    open: AtomicU64,
    unknown: AtomicU64,
    answers: [AtomicU64; Answer::ALL.len()],
}

impl Tally {
    /// Connections that came in.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections of peers that were no clients, or said nothing sensible in time.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    /// How often this was answered.
    pub fn answered(&self, answer: Answer) -> u64 {
        self.answers[usize::from(answer.code())].load(Ordering::Relaxed)
    }
}

/// A relay that listens.
pub struct Server {
    socket: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    tls: Arc<rustls::ServerConfig>,
    settings: ServerSettings,
    sessions: Listener,
    undecided: Arc<Admission>,
    tally: Arc<Tally>,
    /// Connections of clients.
    served: Arc<Served>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why a relay does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its key is of no use.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The address cannot be listened on.
    #[error("cannot listen: {0}")]
    Listen(#[source] io::Error),
}

impl Server {
    /// Listens.
    pub async fn bind(address: impl ToSocketAddrs, settings: ServerSettings) -> Result<Self, ServerError> {
        let config = keys::server(&settings.key, settings.clients.iter().copied().collect())?;
        let socket = TcpListener::bind(address).await.map_err(ServerError::Listen)?;
        admission::lengthen(&socket);
        let address = socket.local_addr().map_err(ServerError::Listen)?;
        let shared = Shared {
            tls: config,
            served: Arc::new(Served::new(settings.most)),
            settings,
            sessions: Listener::unbound(),
            undecided: Admission::new(admission::places(UNDECIDED, OF_FILES)),
            tally: Arc::default(),
        };
        Ok(Self { socket, address, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done, now and later.
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.shared.tally)
    }

    /// Serves until it is dropped, and tells of what happens.
    pub async fn run(self, tell: impl Fn(Event) + Clone + Send + Sync + 'static) {
        let mut connections = JoinSet::new();
        loop {
            let (stream, peer) = tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(_) => {
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                },
                // Those that are done are let go of as they end.
                Some(_) = connections.join_next() => continue,
            };
            self.shared.tally.accepted.fetch_add(1, Ordering::Relaxed);
            let (shared, tell) = (Arc::clone(&self.shared), tell.clone());
            // Accepting never waits for a place: beyond its network's line a connection is closed at once, which is heard sooner
            // than silence.
            let Some(arrival) = shared.undecided.arrive(&stream, peer) else {
                shared.tally.unknown.fetch_add(1, Ordering::Relaxed);
                let _ = stream.set_zero_linger();
                continue;
            };
            connections.spawn(async move {
                let counted = Counted::one_more(&shared.tally);
                let Ok(Some(place)) = tokio::time::timeout(shared.settings.patience, arrival.place()).await else {
                    shared.tally.unknown.fetch_add(1, Ordering::Relaxed);
                    return tell(Event::Unknown(peer));
                };
                // Each part on the heap: what a connection takes while it lasts is far less than what it took to begin it.
                let asked = Box::pin(async {
                    tokio::select! {
                        heard = tokio::time::timeout(shared.settings.patience, shared.read_request(stream)) => {
                            let heard = heard.inspect_err(|_| place.was_silent());
                            heard.ok()?.ok()
                        }
                        () = place.is_needed() => None,
                    }
                })
                .await;
                drop(place);
                match asked {
                    Some((stream, request)) => Box::pin(shared.serve(stream, request, counted, tell)).await,
                    _ => {
                        shared.tally.unknown.fetch_add(1, Ordering::Relaxed);
                        tell(Event::Unknown(peer));
                    }
                }
            });
        }
    }
}

/// Counts a connection while it is there.
struct Counted(Arc<Tally>);

impl Counted {
    fn one_more(tally: &Arc<Tally>) -> Self {
        tally.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(tally))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

type Client = Box<Records<TcpStream>>;

impl Shared {
    /// Learns which client it is and what it wants.
    async fn read_request(&self, stream: TcpStream) -> io::Result<(Client, Request)> {
        tcp_options::turn(&stream, None);
        tcp_options::watch(&stream);
        let mut stream = Box::new(Records::accept(Arc::clone(&self.tls), stream).await?);
        let mut bytes = vec![0; HEADER];
        stream.read_exact(&mut bytes).await?;
        let header = [bytes[0], bytes[1], bytes[2]];
        bytes.resize(HEADER + text_length(header).map_err(io::Error::other)?, 0);
        stream.read_exact(&mut bytes[HEADER..]).await?;
        match Request::decode(&bytes).map_err(io::Error::other)? {
            Some((request, _)) => Ok((stream, request)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn serve(&self, mut stream: Client, request: Request, counted: Counted, tell: impl Fn(Event)) {
        let service = stream.client().and_then(|client| self.served.enter(client));
        let to = match &request {
            Request::Through(to) | Request::Open(_, to) => Some(to.clone()),
            Request::Join(_) => None,
        };
        let reached = match (&to, &request) {
            _ if service.is_none() => Err(Answer::Busy),
            (Some(to), _) => Box::pin(self.reach(to)).await.map(Some),
            (None, Request::Join(id)) if self.sessions.knows(*id) => Ok(None),
            (None, _) => Err(Answer::Gone),
        };
        let answer = reached.as_ref().err().copied().unwrap_or(Answer::Granted);
        self.tally.answers[usize::from(answer.code())].fetch_add(1, Ordering::Relaxed);
        tell(Event::Answered(answer, to));
        let told = async {
            stream.write_all(&[answer.code()]).await?;
            stream.flush().await
        };
        let Ok(Ok(())) = Box::pin(tokio::time::timeout(self.settings.patience, told)).await else { return };
        let (Ok(target), Some(service)) = (reached, service) else {
            let _ = Box::pin(tokio::time::timeout(self.settings.patience, stream.shutdown())).await;
            return;
        };
        match (request, target) {
            (Request::Through(_), Some(target)) => {
                // What breaks off on one side is broken off on the other, and the client's session knows what to do.
                tokio::select! {
                    _ = splice(stream, target) => {}
                    () = service.must_end() => {}
                }
            }
            (Request::Open(id, _), Some(target)) => {
                if let Some(session) = Box::pin(self.sessions.begin(id, stream)).await {
                    Box::pin(carry(target, session, service.must_end())).await;
                }
            }
            // Others than these were not granted.
            (Request::Join(id), _) => {
                self.sessions.join(id, Joined::new(stream, service.must_end(), (service, counted)));
            }
            _ => {}
        }
    }

    /// Connects to a destination that is allowed.
    async fn reach(&self, to: &Destination) -> Result<TcpStream, Answer> {
        if !self.settings.access.may_resolve(to) {
            return Err(Answer::Refused);
        }
        let within = self.settings.patience;
        let addresses: Vec<SocketAddr> = match &to.host {
            Host::Address(ip) => vec![(*ip, to.port).into()],
            Host::Name(name) => {
                let looked_up = tokio::time::timeout(within, tokio::net::lookup_host((name.as_str(), to.port))).await;
                looked_up.ok().and_then(Result::ok).ok_or(Answer::Unreachable)?.collect()
            }
        };
        let mut answer = if addresses.is_empty() { Answer::Unreachable } else { Answer::Refused };
        for address in addresses.into_iter().filter(|at| self.settings.access.allows(to, at.ip())) {
            match tokio::time::timeout(within, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    tcp_options::turn(&stream, None);
                    tcp_options::attend(&stream);
                    return Ok(stream);
                }
                _ => answer = Answer::Unreachable,
            }
        }
        Err(answer)
    }
}
