//! Where another program knows whose flows are and on which network the host is, and the kernel does not say (`engine`, on a phone).
//!
//! It is asked once a flow. No packet waits for the answer, with one exception: a connection that could be raced is opened when it is known
//! whose it is, because what was said to one app is not used for another's. A question that is not answered in time counts as answered by "unknown".

use super::accelerator::{Here, Waiting};
use super::ahead::{HeldQuestion, Outgoing};
use super::{MAPPINGS, Upstream, Whose, Worker, sockets};
use crate::driver::Hands;
use crate::forward::board::Board;
use crate::forward::owner::{Owner, Process};
use headstart_core::forward::{DnsExchange, Failure, FlowId, Input, MappingId, Record};
use headstart_core::machine::Deadline;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::dns::Answer;
use headstart_core::wire::ip::icmp::Trouble;
use headstart_core::wire::relay;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Questions that may be open; flows beyond those have no owner. 4096: as many as there are ports that send datagrams.
const MOST_OPEN: usize = 4096;
/// How long a question stays open. 10 s: a call of Android's takes a millisecond, and an app that hangs for 5 s is reported.
const OPEN: Duration = Duration::from_secs(10);

/// Whose is this flow?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The number of the question.
    pub number: u64,
    /// Whether it is a connection, or datagrams.
    pub is_tcp: bool,
    /// The end of the flow on this host.
    pub app: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
}

/// What is asked, and what waits for answers.
#[derive(Debug)]
pub(super) struct Attribution {
    /// How long a connection waits at most until it is known whose it is.
    patience: Duration,
    questions: VecDeque<Question>,
    /// When a question was asked, which token it is about, and the peer; in the order of their numbers, which is that of time.
    open: BTreeMap<u64, (Instant, u64, SocketAddr)>,
    asked: u64,
    /// What was recorded of ports whose owner is asked for.
    records: HashMap<u64, Vec<Record>>,
    /// Connections that are not opened yet, and until when they wait.
    held: VecDeque<(Instant, Waiting)>,
    /// Questions over DNS whose asker is asked for, by the number of the question about it.
    names: BTreeMap<u64, HeldQuestion>,
}

impl Attribution {
    /// Nothing yet.
    pub fn new(patience: Duration) -> Self {
        let (questions, open, records, held, names) = Default::default();
        Self { patience, questions, open, asked: 0, records, held, names }
    }

    /// Asks about a token; whether there will be an answer.
    pub fn ask(&mut self, now: Instant, token: u64, is_tcp: bool, app: SocketAddr, peer: SocketAddr) -> bool {
        if self.open.len() >= MOST_OPEN {
            return false;
        }
        self.asked += 1;
        self.open.insert(self.asked, (now, token, peer));
        self.questions.push_back(Question { number: self.asked, is_tcp, app, peer });
        true
    }

    /// Opens this connection when its owner is known.
    pub fn hold(&mut self, now: Instant, waiting: Waiting) {
        self.held.push_back((now + self.patience, waiting));
    }

    /// A connection that waits for its owner.
    pub fn waiting(&mut self, flow: FlowId) -> Option<&mut Waiting> {
        self.held.iter_mut().map(|(_, waiting)| waiting).find(|waiting| waiting.flow == flow)
    }

    /// Opens this connection no more, or now.
    pub fn release(&mut self, flow: FlowId) -> Option<Waiting> {
        let place = self.held.iter().position(|(_, waiting)| waiting.flow == flow)?;
        self.held.remove(place).map(|(_, waiting)| waiting)
    }

    /// A question over DNS, about whose asker the latest question is: it waits for the answer, or is returned, to be sent.
    pub fn hold_question(
        &mut self,
        now: Instant,
        (question, server): (relay::Question, SocketAddr),
        datagram: Outgoing,
        holds: bool,
    ) -> Option<Outgoing> {
        let is_asked = self.open.get(&self.asked).is_some_and(|(_, token, _)| *token == MAPPINGS + datagram.mapping.0);
        if !is_asked || self.names.contains_key(&self.asked) {
            return Some(datagram);
        }
        let (held, sent) = if holds { (Some((now + self.patience, datagram)), None) } else { (None, Some(datagram)) };
        self.names.insert(self.asked, HeldQuestion { question, server, held });
        sent
    }

    /// A question over DNS that has waited for long enough is to be sent.
    fn overdue(&mut self, now: Instant) -> Option<Outgoing> {
        let held = self.names.values_mut().find(|asked| asked.held.is_some())?;
        held.held.take_if(|(until, _)| *until <= now).map(|(_, datagram)| datagram)
    }

    /// Keeps a record until it is known whose it is.
    pub fn keep(&mut self, token: u64, record: Record) {
        self.records.entry(token).or_default().push(record);
    }

    /// Whether an answer with this address went to an app that is not known yet.
    pub fn may_be_known(&self, peer: IpAddr) -> bool {
        let leads_there = |record: &Record| match record {
            Record::Dns(DnsExchange { answer: Some((_, Answer::Addresses(list, _))), .. }) => list.contains(&peer),
            _ => false,
        };
        self.records.values().flatten().any(leads_there)
    }

    /// What was kept, owners or not.
    pub fn finish(&mut self) -> Vec<Record> {
        self.open.clear();
        self.names.clear();
        std::mem::take(&mut self.records).into_values().flatten().collect()
    }

    /// When the oldest question is closed, and its number. A connection that waits longer for its owner keeps it open as long.
    fn oldest(&self) -> Option<(Instant, u64)> {
        self.open.first_key_value().map(|(number, (asked, ..))| (*asked + OPEN.max(self.patience), *number))
    }

    /// When a connection, or a question, has waited for long enough.
    pub fn deadline(&self) -> Option<Deadline> {
        let held = self.held.front().map(|(at, _)| *at);
        let question = self.names.values().find_map(|asked| asked.held.as_ref()).map(|(at, _)| *at);
        let at = held.into_iter().chain(question).chain(self.oldest().map(|(at, _)| at)).min()?;
        Some(Deadline { at, why: "reporting an owner" })
    }
}

impl Worker {
    /// The questions that have come up since the last time.
    pub(crate) fn questions(&mut self) -> Vec<Question> {
        self.teller.attribution().map_or_else(Vec::new, |told| told.questions.drain(..).collect())
    }

    /// A question was answered with the user and the name of the app, as far as they are known.
    pub(crate) fn on_owner(&mut self, now: Instant, number: u64, user: Option<u32>, name: Option<String>) {
        let Some(told) = self.teller.attribution() else { return };
        let Some((_, token, peer)) = told.open.remove(&number) else { return };
        let asked = told.names.remove(&number);
        let records = told.records.remove(&token).unwrap_or_default();
        let held = told.release(FlowId(token));
        let owner = user.map(|user| Owner { user, inode: 0 });
        let process = name.or_else(|| user.map(|user| format!("user {user}"))).map(Process::of_app);
        let whose = Whose { owner, process, sought: false };
        if let Some(waiting) = held {
            let waiting = Waiting { whose, ..waiting };
            if !self.race(now, waiting.clone()) {
                self.open_as_asked(now, waiting);
            }
            return self.drain(now);
        }
        match token.checked_sub(MAPPINGS) {
            Some(mapping) => {
                // A question that was closed takes away nothing that the answer to a later one has told.
                let is_news =
                    |known: &Option<Whose>| owner.is_some() || known.as_ref().is_none_or(|known| known.sought);
                if let Some(port) = self.ports.get_mut(&MappingId(mapping)).filter(|port| is_news(&port.whose)) {
                    port.whose = Some(whose.clone());
                }
                records.into_iter().for_each(|record| self.record_as(now, whose.clone(), record));
                asked.into_iter().for_each(|asked| self.asker_is(now, user, asked));
            }
            None => {
                if let Some((accelerator, user)) = self.accelerator.as_mut().zip(user) {
                    accelerator.goes_itself(now, &self.poll, user, peer);
                }
                self.attribute(FlowId(token), whose);
            }
        }
    }

    /// Connections that have waited for their owner for long enough are opened without; questions that have, are closed.
    pub(super) fn open_unowned(&mut self, now: Instant) {
        while let Some(told) = self.teller.attribution()
            && told.held.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, waiting)) = told.held.pop_front()
        {
            self.open_as_asked(now, waiting);
            self.drain(now);
        }
        while let Some(datagram) = self.teller.attribution().and_then(|told| told.overdue(now)) {
            self.transmit(now, datagram);
            self.drain(now);
        }
        let late = |told: &mut Attribution| told.oldest().filter(|(at, _)| *at <= now);
        while let Some((_, number)) = self.teller.attribution().and_then(late) {
            self.on_owner(now, number, None, None);
        }
    }

    /// The host is on this network now. Connections that begin at an address which it no longer has are over, and their programs learn that at
    /// once, as they would from a kernel whose interface has gone.
    pub(crate) fn on_network(&mut self, now: Instant, here: &Here) {
        if let Some(accelerator) = &mut self.accelerator {
            accelerator.network_changed(now, &self.poll, here);
        }
        let is_gone = |upstream: &Upstream| {
            let local = sockets::local(&upstream.socket).map(|local| local.ip()).filter(|ip| !ip.is_unspecified());
            local.is_some_and(|ip| !ip.is_loopback() && !here.addresses.contains(&ip))
        };
        let gone = self.upstreams.iter().filter(|(_, upstream)| !here.addresses.is_empty() && is_gone(upstream));
        let mut gone: Vec<_> = gone.map(|(flow, upstream)| (*flow, upstream.connecting)).collect();
        gone.sort_unstable();
        for (flow, connecting) in gone {
            let why = if connecting { Failure::Trouble(Trouble::NoRoute) } else { Failure::Reset };
            self.feed(now, Input::Failed { flow, why });
        }
        self.raced(now);
        self.drain(now);
        self.catch_up(now);
    }

    /// How it stands; programs and connections in no more lines than these.
    pub(crate) fn board_of(&self, now: Instant, lines: usize) -> Board {
        let mut board = self.window.as_ref().map(|window| self.board(now, window.everything())).unwrap_or_default();
        board.omitted += board.connections.len().saturating_sub(lines) + board.apps.len().saturating_sub(lines);
        board.connections.truncate(lines);
        board.apps.truncate(lines);
        board
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::wire::record::RecordType;

    fn ask(told: &mut Attribution, now: Instant, token: u64) -> bool {
        let end = "192.0.2.1:53".parse().unwrap();
        told.ask(now, token, false, end, end)
    }

    #[test]
    fn questions_that_are_never_answered_are_closed_the_oldest_first_and_give_their_places_back() {
        let mut told = Attribution::new(Duration::from_millis(100));
        let begun = Instant::ZERO + Duration::from_secs(1);
        let later = begun + Duration::from_secs(3);
        assert!(ask(&mut told, begun, 7));
        assert!((1..MOST_OPEN as u64).all(|n| ask(&mut told, later, n)), "as many as there are places");
        assert!(!ask(&mut told, later, 8), "no place is left");
        assert_eq!((told.oldest(), told.deadline().map(|due| due.at)), (Some((begun + OPEN, 1)), Some(begun + OPEN)));
        told.open.remove(&1);
        assert_eq!(told.oldest(), Some((later + OPEN, 2)));
        assert!(ask(&mut told, later, 8));
        assert!(!ask(&mut told, later, 9));
    }

    #[test]
    fn a_question_that_may_be_answered_here_waits_for_its_asker_so_long_and_is_sent_once() {
        let (patience, now) = (Duration::from_millis(100), Instant::ZERO);
        let mut told = Attribution::new(patience);
        let query = headstart_core::wire::dns::encode_query(1, "a.example", RecordType::A).unwrap();
        let server = "192.0.2.1:53".parse().unwrap();
        let hold = |told: &mut Attribution, holds| {
            let (mapping, bytes) = (MappingId(3), query.clone());
            let outgoing = Outgoing { mapping, to: server, bytes, from: 0, marks: (0, 64, false), train: None };
            told.hold_question(now, (relay::Question::read(&query).unwrap(), server), outgoing, holds).is_none()
        };
        assert!(!hold(&mut told, true), "no one is asked whose it is");
        ask(&mut told, now, MAPPINGS + 3);
        assert!(hold(&mut told, true) && !hold(&mut told, true), "one question about it, one that waits");
        assert_eq!(told.deadline().map(|due| due.at), Some(now + patience));
        assert!(told.overdue(now + patience / 2).is_none() && told.overdue(now + patience).is_some());
        assert!(told.overdue(now + patience).is_none(), "it was sent");
        assert!(told.names.contains_key(&1), "and its asker may still become known");
        ask(&mut told, now, MAPPINGS + 3);
        assert!(!hold(&mut told, false), "nothing to answer it with");
        assert!(told.names.contains_key(&2) && told.deadline().map(|due| due.at) == Some(now + OPEN));
    }

    #[test]
    fn a_session_that_is_patient_with_its_app_keeps_questions_open_as_long() {
        let patience = OPEN * 6;
        let mut told = Attribution::new(patience);
        assert_eq!(told.deadline(), None, "nothing is waited for where nothing was asked");
        ask(&mut told, Instant::ZERO, 7);
        assert_eq!(told.oldest(), Some((Instant::ZERO + patience, 1)));
    }
}
