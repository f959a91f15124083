//! What several servers have learned of paths, in a server that speaks as Redis does (Redis, Valkey): for fleets behind one
//! load balancer, whose members see the same peers.
//!
//! This never waits: a thread of its own speaks to it; the caller gives it a few milliseconds and then goes on as if
//! nothing were known. A record is leased to one connection of all servers at a time (RFC 9959, section 3.1). Peers are
//! named by keyed digests; the key is in the store, made by the first server.

use crate::clock::{Clock, wall};
use headstart_core::cwnd::history::{Record, Secret};
use headstart_core::path::NetworkId;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::resp::{self, Reply};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// How long a server may take for an answer before it counts as gone; its clients have gone on long before.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long one that is gone is left alone.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);
/// Questions and records that wait; more are dropped.
const QUEUE: usize = 1024;
/// How much younger than we think a record may be: the clocks of two hosts.
const SKEW: Duration = Duration::from_secs(60);
/// What is leased for ever would be lost to a server that was killed.
const LEASE: Duration = Duration::from_secs(60);
/// The lease until a peer has proved its address: until then the address may be forged.
const SHORT_LEASE: Duration = Duration::from_secs(5);
/// The record of KEYS[1], and whether it is ours alone now.
const RECALL: &[u8] = b"local r = redis.call('GET', KEYS[1]) if not r then return false end \
    if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return {r, 1} end return {r, 0}";
/// Gives a lease back, if it is still ours.
const RELEASE: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Where a shared store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
}

impl std::str::FromStr for Place {
    type Err = String;

    /// Reads `redis://HOST[:PORT]` or `redis+unix:///PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("redis+unix://") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::Unix(path))
            } else {
                Err(format!("{text:?} names no absolute path"))
            };
        }
        let host = text.strip_prefix("redis://").map(|host| host.trim_end_matches('/'));
        match host {
            Some(host) if !host.is_empty() && !host.contains(['@', '/']) => {
                let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
                // The port that IANA has for it.
                Ok(Self::Tcp(if has_port { host.to_owned() } else { format!("{host}:6379") }))
            }
            _ => Err(format!("{text:?} is no place of a shared store: redis://HOST[:PORT] or redis+unix:///PATH")),
        }
    }
}

impl Place {
    /// Connects once, to see whether there is a server at all.
    pub fn try_to_connect(&self) -> io::Result<()> {
        match self {
            Self::Unix(path) => UnixStream::connect(path).map(drop),
            Self::Tcp(host) => {
                let address = host.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
                TcpStream::connect_timeout(&address, PATIENCE).map(drop)
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(host) => f.write_str(host),
        }
    }
}

/// What is known of a peer by all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recalled {
    /// Nothing.
    Nothing,
    /// This, and no other connection uses it now.
    Ours(Record),
    /// This, and a connection somewhere uses it.
    Taken(Record),
    /// The store does not answer.
    Gone,
}

type Answer = Box<dyn FnOnce(Recalled) + Send>;

enum Job {
    Recall { peer: IpAddr, validated: bool, answer: Answer },
    Keep { peer: IpAddr, record: Record, lifetime: Duration },
    Forget { peer: IpAddr },
    Release { peer: IpAddr },
}

/// A shared store. Clones share its connection; the last one's end ends its thread.
#[derive(Clone)]
pub struct Shared {
    jobs: SyncSender<Job>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    /// The store at `place`, for what is learned on `network`. Connects when it is first asked.
    pub fn at(place: Place, network: NetworkId) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
        let notes = Arc::new(Mutex::new(Vec::new()));
        let speaker = Speaker {
            place,
            network,
            clock: Clock::new(),
            notes: Arc::clone(&notes),
            open: None,
            silent_until: Instant::ZERO,
            told: false,
        };
        std::thread::Builder::new().name("shared paths".into()).spawn(move || speaker.run(&queue))?;
        Ok(Self { jobs, notes })
    }

    /// What went wrong since the last question, in a line each.
    pub fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for what is known of `peer`, and to use it alone; `answer` is called once, at some time. `validated`: the peer has
    /// shown that it is there.
    pub fn recall(&self, peer: IpAddr, validated: bool, answer: impl FnOnce(Recalled) + Send + 'static) {
        let job = Job::Recall { peer, validated, answer: Box::new(answer) };
        if let Err(
            std::sync::mpsc::TrySendError::Full(Job::Recall { answer, .. })
            | std::sync::mpsc::TrySendError::Disconnected(Job::Recall { answer, .. }),
        ) = self.jobs.try_send(job)
        {
            answer(Recalled::Gone);
        }
    }

    /// Keeps what was learned of `peer`, for as long as it may be used.
    pub fn keep(&self, peer: IpAddr, record: Record, lifetime: Duration) {
        let _ = self.jobs.try_send(Job::Keep { peer, record, lifetime });
    }

    /// What was known of `peer` has misled.
    pub fn forget(&self, peer: IpAddr) {
        let _ = self.jobs.try_send(Job::Forget { peer });
    }

    /// Gives back what was recalled as ours alone.
    pub fn release(&self, peer: IpAddr) {
        let _ = self.jobs.try_send(Job::Release { peer });
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// An open connection.
struct Open {
    stream: Box<dyn Stream>,
    secret: Secret,
    /// Which server we are.
    name: String,
    read: Vec<u8>,
}

struct Speaker {
    place: Place,
    network: NetworkId,
    clock: Clock,
    notes: Arc<Mutex<Vec<String>>>,
    open: Option<Open>,
    /// Until then it is left alone.
    silent_until: Instant,
    told: bool,
}

impl Speaker {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            let network = self.network;
            let done = self.ready().and_then(|open| open.carry_out(&job, network));
            let recalled = match done {
                Ok(recalled) => recalled,
                Err(why) => {
                    self.fail(&why);
                    Recalled::Gone
                }
            };
            if let Job::Recall { answer, .. } = job {
                answer(recalled);
            }
        }
    }

    /// The connection, opened if need be.
    fn ready(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            if self.clock.now() < self.silent_until {
                return Err(io::ErrorKind::NotConnected.into());
            }
            self.open = Some(Open::connect(&self.place)?);
            self.told = false;
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn fail(&mut self, why: &io::Error) {
        self.open = None;
        if self.clock.now() < self.silent_until {
            return;
        }
        self.silent_until = self.clock.now() + BETWEEN_TRIES;
        // Once for each time that it goes.
        if !std::mem::replace(&mut self.told, true) {
            let note = format!("paths: the shared store {} is gone ({why}): connections start as usual", self.place);
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        }
    }
}

fn wrong(what: impl fmt::Display) -> io::Error {
    io::Error::other(what.to_string())
}

impl Open {
    fn connect(place: &Place) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
            Place::Tcp(host) => {
                let address = host.to_socket_addrs()?.next().ok_or_else(|| wrong(format!("{host} has no address")))?;
                let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        };
        let mut own = [0; 16];
        rustix::rand::getrandom(&mut own, rustix::rand::GetRandomFlags::empty())?;
        let name = own.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut open = Self { stream, secret: Secret::new(own), name, read: Vec::new() };
        // All servers share the first server's secret.
        open.ask(&[b"SET", b"headstart:paths:secret", &own, b"NX"])?;
        let secret = match open.ask(&[b"GET", b"headstart:paths:secret"])? {
            Reply::Bytes(bytes) => <[u8; 16]>::try_from(bytes).ok(),
            _ => None,
        };
        open.secret = Secret::new(secret.ok_or_else(|| wrong("headstart:paths:secret is none: delete it"))?);
        Ok(open)
    }

    fn ask(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.stream.write_all(&resp::command(words))?;
        loop {
            if let Some((reply, length)) = resp::reply(&self.read).map_err(wrong)? {
                self.read.drain(..length);
                return match reply {
                    Reply::Error(why) => Err(wrong(why)),
                    reply => Ok(reply),
                };
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.read.extend_from_slice(&bytes[..length]),
            }
        }
    }

    fn carry_out(&mut self, job: &Job, network: NetworkId) -> io::Result<Recalled> {
        let secret = self.secret;
        let names = |peer: &IpAddr| {
            let key = secret.keys(network, *peer).exact.0;
            (format!("headstart:path:{key:016x}").into_bytes(), format!("headstart:lease:{key:016x}").into_bytes())
        };
        let own = self.name.clone().into_bytes();
        match job {
            Job::Recall { peer, validated, .. } => {
                let (path, lease) = names(peer);
                let long = if *validated { LEASE } else { SHORT_LEASE }.as_millis().to_string();
                let reply = self.ask(&[b"EVAL", RECALL, b"2", &path, &lease, &own, long.as_bytes()])?;
                let Reply::List(list) = reply else { return Ok(Recalled::Nothing) };
                let [Reply::Bytes(record), Reply::Number(granted)] = &list[..] else { return Ok(Recalled::Nothing) };
                let Some(record) = read(record) else { return Ok(Recalled::Nothing) };
                return Ok(if *granted == 1 { Recalled::Ours(record) } else { Recalled::Taken(record) });
            }
            Job::Keep { peer, record, lifetime } => {
                let (path, _) = names(peer);
                let lifetime = lifetime.as_millis().max(1).to_string();
                self.ask(&[b"SET", &path, &record.encode(), b"PX", lifetime.as_bytes()])?;
            }
            Job::Forget { peer } => {
                let (path, _) = names(peer);
                self.ask(&[b"DEL", &path])?;
            }
            Job::Release { peer } => {
                let (_, lease) = names(peer);
                self.ask(&[b"EVAL", RELEASE, b"1", &lease, &own])?;
            }
        }
        Ok(Recalled::Nothing)
    }
}

/// The record that another server wrote, by its clock; by ours it is never from the future.
fn read(bytes: &[u8]) -> Option<Record> {
    let since_1970 = wall().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let now = Instant::ZERO + since_1970;
    let mut record = Record::decode(bytes, now + SKEW).ok()?;
    record.at = record.at.min(now);
    Some(record)
}

#[cfg(test)]
mod tests;
