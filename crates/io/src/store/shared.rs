//! What several servers have learned of paths, in a server that speaks as Redis does (Redis, Valkey): for fleets behind one
//! load balancer, whose members see the same peers. Spoken by the crate `redis` (docs/decisions/0091).
//!
//! It is never waited for: a thread of its own speaks to it; a lookup gives it a few milliseconds and then goes on as if
//! nothing were known. A record is leased to one connection of all servers at a time (RFC 9959, section 3.1). Peers are
//! named by keyed digests. Where the site has a key, names are of it and records are sealed for their name, so that a record
//! written without it is ignored; without one, the key of names is in the store, made by the first server.

mod location;
mod nodes;

pub use location::{Location, site_key_of};

use super::seal::{Digest, Seal};
use crate::clock::wall;
use headstart_core::cwnd::history::{Record, Secret};
use headstart_core::path::NetworkId;
use headstart_core::time::{Duration, Instant};
use nodes::{NodeState, Nodes};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Requests and records in the queue; more are dropped.
const QUEUE: usize = 1024;
/// How far the clocks of two hosts may differ when the age of a record is calculated.
const SKEW: Duration = Duration::from_secs(60);
/// A lease ends by itself, or a killed server would hold it for ever.
const LEASE: Duration = Duration::from_secs(60);
/// The lease before a peer has proved its address: another host may pretend to be it.
const SHORT_LEASE: Duration = Duration::from_secs(5);
/// What has the key of names, where the site has none.
const SECRET: &str = "headstart:paths:secret";
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
pub struct SharedStore {
    jobs: SyncSender<Job>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedStore")
    }
}

impl SharedStore {
    /// The store at `place`, for what is learned on `network`. Connects when it is first asked.
    pub fn at(location: Location, network: NetworkId) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
        let notes = Arc::new(Mutex::new(Vec::new()));
        let mut own = [0; 16];
        rustix::rand::getrandom(&mut own, rustix::rand::GetRandomFlags::empty())?;
        let speaker = Speaker {
            seal: location.seal(),
            nodes: Nodes::new(location, Arc::clone(&notes)),
            network,
            secret: None,
            own,
            name: own.iter().map(|byte| format!("{byte:02x}")).collect(),
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

struct Speaker {
    nodes: Nodes,
    network: NetworkId,
    seal: Option<(Seal, Secret)>,
    /// The key of names that is in the store, and from where.
    secret: Option<(Secret, NodeState)>,
    /// What we offer as this key.
    own: [u8; 16],
    /// Which server we are.
    name: String,
}

impl Speaker {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            let recalled = self.carry_out(&job);
            if let Job::Recall { answer, .. } = job {
                answer(recalled.unwrap_or(Recalled::Gone));
            }
        }
    }

    /// The names of what is kept of a peer and of its lease: in one slot of a cluster. And what a record is sealed for.
    fn names(&mut self, peer: IpAddr) -> Option<([String; 2], Digest)> {
        let network = self.network;
        let key = match &self.seal {
            Some((_, secret)) => secret.keys(network, peer),
            None => self.secret()?.keys(network, peer),
        };
        let key = key.exact.0;
        let mut place = Digest::default();
        place[8..].copy_from_slice(&key.to_be_bytes());
        Some((["path", "lease"].map(|what| format!("headstart:{what}:{{{key:016x}}}")), place))
    }

    /// The key that all servers use: the first one's. It is read again when its node has failed, which may have lost it.
    fn secret(&mut self) -> Option<&Secret> {
        if self.secret.as_ref().is_none_or(|(_, source)| !self.nodes.is_valid(*source)) {
            let offer = redis::cmd("SET").arg(SECRET).arg(&self.own).arg("NX").to_owned();
            self.nodes.ask::<redis::Value>(SECRET, &offer)?;
            let bytes: Vec<u8> = self.nodes.ask(SECRET, redis::cmd("GET").arg(SECRET))?;
            let source = self.nodes.source();
            let Ok(bytes) = <[u8; 16]>::try_from(bytes) else {
                self.nodes.refuse(source, format!("invalid {SECRET}: delete it"));
                return None;
            };
            self.secret = Some((Secret::new(bytes), source));
        }
        self.secret.as_ref().map(|(secret, _)| secret)
    }

    /// Does `job`; nothing if the node that has the peer does not answer.
    fn carry_out(&mut self, job: &Job) -> Option<Recalled> {
        let (Job::Recall { peer, .. } | Job::Keep { peer, .. } | Job::Forget { peer } | Job::Release { peer }) = job;
        let ([path, lease], place) = self.names(*peer)?;
        let seal = self.seal.as_ref().map(|(seal, _)| seal);
        match job {
            Job::Recall { validated, .. } => {
                let long = if *validated { LEASE } else { SHORT_LEASE }.as_millis().to_string();
                let mut script = redis::cmd("EVAL");
                script.arg(RECALL).arg(2).arg(&path).arg(&lease).arg(&self.name).arg(long);
                let known: Option<(Vec<u8>, i64)> = self.nodes.ask(&path, &script)?;
                let known = known.and_then(|(bytes, granted)| {
                    let opened = seal.map_or_else(|| Some(bytes.clone()), |seal| seal.open(&place, &bytes))?;
                    Some((read(&opened)?, granted))
                });
                return Some(match known {
                    Some((record, 1)) => Recalled::Ours(record),
                    Some((record, _)) => Recalled::Taken(record),
                    None => Recalled::Nothing,
                });
            }
            Job::Keep { record, lifetime, .. } => {
                let lifetime = lifetime.as_millis().max(1).to_string();
                let mut bytes = record.encode().to_vec();
                if let Some(seal) = seal {
                    // Without randomness nothing is sealed, and nothing is kept.
                    bytes = seal.close(&place, &bytes).ok()?;
                }
                let command = redis::cmd("SET").arg(&path).arg(bytes).arg("PX").arg(lifetime).to_owned();
                self.nodes.ask::<redis::Value>(&path, &command)?;
            }
            Job::Forget { .. } => {
                self.nodes.ask::<redis::Value>(&path, redis::cmd("DEL").arg(&path))?;
            }
            Job::Release { .. } => {
                let command = redis::cmd("EVAL").arg(RELEASE).arg(1).arg(&lease).arg(&self.name).to_owned();
                self.nodes.ask::<redis::Value>(&lease, &command)?;
            }
        }
        Some(Recalled::Nothing)
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
