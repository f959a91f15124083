//! What several servers have learned of paths, in a server that speaks as Redis does (Redis, Valkey): for fleets behind one
//! load balancer, whose members see the same peers. Spoken by the crate `redis` (docs/decisions/0091).
//!
//! It is never waited for: a thread of its own speaks to it; a lookup gives it a few milliseconds and then goes on as if
//! nothing were known. A record is leased to one connection of all servers at a time (RFC 9959, section 3.1). Peers are
//! named by keyed digests. Where the site has a key, names are of it and records are sealed for their name, so that a record
//! written without it is ignored; without one, the key of names is in the store, made by the first server.

mod place;

pub use place::Place;

use super::seal::{Digest, Seal};
use crate::clock::{Clock, wall};
use headstart_core::cwnd::history::{Record, Secret};
use headstart_core::path::NetworkId;
use headstart_core::time::{Duration, Instant};
use redis::{Connection, RedisResult};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Before a store that does not answer is tried again; doubled after each failure.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);
/// The longest of these waits.
const LONGEST_BETWEEN: Duration = Duration::from_secs(30);
/// Requests and records in the queue; more are dropped.
const QUEUE: usize = 1024;
/// How far the clocks of two hosts may differ when the age of a record is calculated.
const SKEW: Duration = Duration::from_secs(60);
/// A lease ends by itself, or a killed server would hold it for ever.
const LEASE: Duration = Duration::from_secs(60);
/// The lease before a peer has proved its address: another host may pretend to be it.
const SHORT_LEASE: Duration = Duration::from_secs(5);
/// The record of KEYS[1], and whether this process holds its lease now.
const RECALL: &str = "local r = redis.call('GET', KEYS[1]) if not r then return false end \
    if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return {r, 1} end return {r, 0}";
/// Gives a lease back, if this process still holds it.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// What the shared store has of a peer.
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
            between: BETWEEN_TRIES,
            reported: false,
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

/// An open connection.
struct Open {
    connection: Connection,
    secret: Secret,
    seal: Option<Seal>,
    /// Which server we are.
    name: String,
}

struct Speaker {
    place: Place,
    network: NetworkId,
    clock: Clock,
    notes: Arc<Mutex<Vec<String>>>,
    open: Option<Open>,
    /// Until then it is left alone.
    silent_until: Instant,
    between: Duration,
    reported: bool,
}

impl Speaker {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            let recalled = self.carry_out(&job);
            if let Job::Recall { answer, .. } = job {
                answer(recalled);
            }
        }
    }

    fn carry_out(&mut self, job: &Job) -> Recalled {
        if self.open.is_none() && self.clock.now() < self.silent_until {
            return Recalled::Gone;
        }
        match self.ready().and_then(|(open, network)| open.carry_out(job, network)) {
            Ok(recalled) => {
                (self.reported, self.between) = (false, BETWEEN_TRIES);
                recalled
            }
            Err(why) => {
                self.fail(&why);
                Recalled::Gone
            }
        }
    }

    /// The connection, opened if need be.
    fn ready(&mut self) -> RedisResult<(&mut Open, NetworkId)> {
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::connect(&self.place)?,
        };
        Ok((self.open.insert(open), self.network))
    }

    fn fail(&mut self, why: &redis::RedisError) {
        self.open = None;
        self.silent_until = self.clock.now() + self.between;
        self.between = (self.between * 2).min(LONGEST_BETWEEN);
        // Once for each time that it goes.
        if !std::mem::replace(&mut self.reported, true) {
            let note =
                format!("paths: the shared store {} is unavailable ({why}): connections start as usual", self.place);
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        }
    }
}

impl Open {
    fn connect(place: &Place) -> RedisResult<Self> {
        const KEY: &str = "headstart:paths:secret";
        let mut connection = place.connect()?;
        let mut own = [0; 16];
        rustix::rand::getrandom(&mut own, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
        let name = own.iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some((seal, secret)) = place.seal() {
            return Ok(Self { connection, secret, seal: Some(seal), name });
        }
        // All servers use the first one's.
        redis::cmd("SET").arg(KEY).arg(&own).arg("NX").exec(&mut connection)?;
        let secret: Vec<u8> = redis::cmd("GET").arg(KEY).query(&mut connection)?;
        let none = |_| io::Error::other(format!("invalid {KEY}: delete it"));
        let secret = Secret::new(<[u8; 16]>::try_from(secret).map_err(none)?);
        Ok(Self { connection, secret, seal: None, name })
    }

    /// The names of what is kept of a peer and of its lease: in one slot of a cluster. And what a record is sealed for.
    fn names(&self, network: NetworkId, peer: IpAddr) -> ([String; 2], Digest) {
        let key = self.secret.keys(network, peer).exact.0;
        let mut place = Digest::default();
        place[8..].copy_from_slice(&key.to_be_bytes());
        (["path", "lease"].map(|what| format!("headstart:{what}:{{{key:016x}}}")), place)
    }

    fn carry_out(&mut self, job: &Job, network: NetworkId) -> RedisResult<Recalled> {
        match job {
            Job::Recall { peer, validated, .. } => {
                let ([path, lease], place) = self.names(network, *peer);
                let long = if *validated { LEASE } else { SHORT_LEASE }.as_millis().to_string();
                let mut script = redis::cmd("EVAL");
                script.arg(RECALL).arg(2).arg(path).arg(lease).arg(&self.name).arg(long);
                let known: Option<(Vec<u8>, i64)> = script.query(&mut self.connection)?;
                let known = known.and_then(|(bytes, granted)| {
                    let opened =
                        self.seal.as_ref().map_or_else(|| Some(bytes.clone()), |seal| seal.open(&place, &bytes))?;
                    Some((read(&opened)?, granted))
                });
                return Ok(match known {
                    Some((record, 1)) => Recalled::Ours(record),
                    Some((record, _)) => Recalled::Taken(record),
                    None => Recalled::Nothing,
                });
            }
            Job::Keep { peer, record, lifetime } => {
                let ([path, _], place) = self.names(network, *peer);
                let lifetime = lifetime.as_millis().max(1).to_string();
                let mut bytes = record.encode().to_vec();
                if let Some(seal) = &self.seal {
                    bytes = seal.close(&place, &bytes)?;
                }
                redis::cmd("SET").arg(path).arg(bytes).arg("PX").arg(lifetime).exec(&mut self.connection)?;
            }
            Job::Forget { peer } => {
                let ([path, _], _) = self.names(network, *peer);
                redis::cmd("DEL").arg(path).exec(&mut self.connection)?;
            }
            Job::Release { peer } => {
                let ([_, lease], _) = self.names(network, *peer);
                redis::cmd("EVAL").arg(RELEASE).arg(1).arg(lease).arg(&self.name).exec(&mut self.connection)?;
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
