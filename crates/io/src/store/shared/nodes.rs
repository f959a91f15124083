//! The servers of a shared store: one, or the nodes of a cluster. Any node is asked for any key; it says which one has it (`MOVED`,
//! `ASK`: Redis Cluster Specification, "Redirection and resharding"), which is remembered by slot.
//!
//! A node that fails is left alone for a while, and silences no other: docs/decisions/0128.

use super::location::Location;
use crate::clock::Clock;
use headstart_core::time::{Duration, Instant};
use redis::{Cmd, Connection, ErrorKind, FromRedisValue, RedisError, RedisResult, ServerErrorKind};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Before a node that failed is tried again; doubled after each failure.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);
/// The longest of these waits.
const LONGEST_BETWEEN: Duration = Duration::from_secs(30);
/// Slots of a cluster, by its specification.
const SLOTS: u16 = 16384;
/// Nodes asked in turn for one answer: a cluster at rest needs two, one that moves a slot three.
const HOPS: usize = 5;
/// Nodes that are remembered: the most that a cluster should have, by its specification.
const NODES: usize = 1000;

/// One server.
struct Node {
    /// Host and port, of a node that another has named or that the place names; a socket or a Sentinel's master has none.
    address: Option<(String, u16)>,
    /// Its number among the servers that the place names.
    named: Option<usize>,
    open: Option<Connection>,
    /// Until then it is left alone.
    silent_until: Instant,
    between: Duration,
    reported: bool,
    /// How often it failed.
    failures: u64,
}

/// A node, and how often it had failed when it answered.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct NodeState(usize, u64);

/// The servers of a store.
pub(super) struct Nodes {
    location: Location,
    clock: Clock,
    notes: Arc<Mutex<Vec<String>>>,
    /// First those that the place names.
    nodes: Vec<Node>,
    /// The node that has a slot, where one has said so.
    slots: BTreeMap<u16, usize>,
    /// The node that answered last.
    last: usize,
    /// That the cluster is down was said, and no node has come since.
    down: bool,
}

impl Node {
    fn new(address: Option<(String, u16)>, named: Option<usize>) -> Self {
        let (silent_until, between) = (Instant::ZERO, BETWEEN_TRIES);
        Self { address, named, open: None, silent_until, between, reported: false, failures: 0 }
    }
}

impl Nodes {
    /// The servers of `location`; what goes wrong is added to `notes`.
    pub(super) fn new(location: Location, notes: Arc<Mutex<Vec<String>>>) -> Self {
        let named = location.addresses().into_iter().enumerate();
        let nodes = named.map(|(number, address)| Node::new(address, Some(number))).collect();
        Self { location, clock: Clock::new(), notes, nodes, slots: BTreeMap::new(), last: 0, down: false }
    }

    /// What the node that has `key` answers to `command`; nothing if it cannot be had now.
    pub(super) fn ask<T: FromRedisValue>(&mut self, key: &str, command: &Cmd) -> Option<T> {
        let slot = slot(key);
        let mut index = self.slots.get(&slot).copied().or_else(|| self.any())?;
        let mut asking = false;
        for _ in 0..HOPS {
            if self.is_silent(index) {
                return None;
            }
            let why = match self.query(index, command, asking) {
                Ok(answer) => {
                    self.last = index;
                    return Some(answer);
                }
                Err(why) => why,
            };
            asking = why.kind() == ErrorKind::Server(ServerErrorKind::Ask);
            if let Some(other) = self.redirection(index, &why) {
                // Of one that is silent nothing is remembered: the next question learns who has taken over.
                if !asking && !self.is_silent(other) {
                    self.slots.insert(slot, other);
                }
                index = other;
                continue;
            }
            match why.kind() {
                // Keys of one slot are on two nodes while it moves.
                ErrorKind::Server(ServerErrorKind::TryAgain) => return None,
                ErrorKind::Server(ServerErrorKind::ClusterDown) => {
                    self.is_down(&why);
                    return None;
                }
                _ => self.fail(index, &why),
            }
            index = self.any()?;
        }
        self.fail(index, &io::Error::other("the nodes lead in a circle").into());
        None
    }

    /// Where the last answer came from.
    pub(super) fn source(&self) -> NodeState {
        NodeState(self.last, self.nodes[self.last].failures)
    }

    /// Whether this node has not failed since.
    pub(super) fn is_valid(&self, source: NodeState) -> bool {
        self.nodes[source.0].failures == source.1
    }

    /// What this node answered is none of ours.
    pub(super) fn refuse(&mut self, source: NodeState, why: String) {
        self.fail(source.0, &io::Error::other(why).into());
    }

    /// One that may answer.
    fn any(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|index| !self.is_silent(*index))
    }

    fn is_silent(&self, index: usize) -> bool {
        self.clock.now() < self.nodes[index].silent_until
    }

    fn query<T: FromRedisValue>(&mut self, index: usize, command: &Cmd, asking: bool) -> RedisResult<T> {
        let node = &mut self.nodes[index];
        let mut open = match node.open.take() {
            Some(open) => open,
            None => {
                let open = match (&node.address, node.named) {
                    (Some((host, port)), None) => self.location.connect_to(host, *port)?,
                    (_, named) => self.location.connect(named.unwrap_or_default())?,
                };
                self.down = false;
                open
            }
        };
        if asking {
            redis::cmd("ASKING").exec(&mut open)?;
        }
        let answer = command.query(&mut open);
        node.open = Some(open);
        if answer.as_ref().err().is_none_or(is_word_of_a_cluster) {
            (node.reported, node.between) = (false, BETWEEN_TRIES);
        }
        answer
    }

    /// The node that `why` leads to.
    fn redirection(&mut self, from: usize, why: &RedisError) -> Option<usize> {
        let (host, port) = why.redirect_node()?.0.rsplit_once(':')?;
        // Without a host it is that of the node which says so.
        let here = || self.nodes[from].address.as_ref().map(|(host, _)| host.as_str());
        let host = if host.is_empty() { here()? } else { host.trim_start_matches('[').trim_end_matches(']') };
        let address = Some((host.to_owned(), port.parse().ok()?));
        if let Some(known) = self.nodes.iter().position(|node| node.address == address) {
            return Some(known);
        }
        if self.nodes.len() >= NODES {
            return None;
        }
        self.nodes.push(Node::new(address, None));
        Some(self.nodes.len() - 1)
    }

    fn fail(&mut self, index: usize, why: &RedisError) {
        self.slots.retain(|_, node| *node != index);
        let several = self.nodes.len() > 1;
        let node = &mut self.nodes[index];
        node.open = None;
        node.failures += 1;
        node.silent_until = self.clock.now() + node.between;
        node.between = (node.between * 2).min(LONGEST_BETWEEN);
        // Once for each time that it goes.
        if std::mem::replace(&mut node.reported, true) {
            return;
        }
        let which = match &node.address {
            Some((host, port)) if several => format!("{host} port {port} of "),
            _ => String::new(),
        };
        self.note(&which, why);
    }

    /// No node has the slot. Said once, and not if it was said which node is gone.
    fn is_down(&mut self, why: &RedisError) {
        if !std::mem::replace(&mut self.down, true) && !self.nodes.iter().any(|node| node.reported) {
            self.note("", why);
        }
    }

    fn note(&self, which: &str, why: &RedisError) {
        let note = format!(
            "paths: {which}the shared store {} is unavailable ({why}): connections start as usual",
            self.location
        );
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }
}

/// An answer that only a node in order gives.
fn is_word_of_a_cluster(why: &RedisError) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
    matches!(why.kind(), ErrorKind::Server(Ask | ClusterDown | Moved | TryAgain))
}

/// The slot of a key: CRC-16/XMODEM of what is between its first braces, or of all of it.
fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let mut sum = 0_u16;
    for byte in tag.filter(|tag| !tag.is_empty()).unwrap_or(key).bytes() {
        sum ^= u16::from(byte) << 8;
        for _ in 0..8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 };
        }
    }
    sum % SLOTS
}

#[cfg(test)]
mod tests;
