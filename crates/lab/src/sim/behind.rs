//! The engine of a phone between its apps and the network: what `headstart engine` does with connections and DNS answers that pass
//! through it, in virtual time, by the same `Connector`.
//!
//! It overhears the answers that apps get, and races a connection whose address has another of the same name; any other one is
//! opened as it is. It asks for nothing and opens nothing ahead of time. Not modelled: the time that the app takes to tell whose a
//! connection is, and the forwarder itself.

use super::stack::{Event, Stack};
use headstart_core::connect::{
    self, AppId, AttemptId, AttemptResult, Claim, Connector, Input, LookupResult, Output, RequestId,
};
use headstart_core::machine::{Deadline, Machine};
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::RecordType;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

/// Sockets of the engine, apart from those of connectors and of apps.
const SOCKETS: u64 = 1 << 62;
/// Where the names of sockets that are no connector's begin.
const APPS: u64 = 1 << 63;

/// See the module.
pub(super) struct Behind {
    connector: Connector,
    /// Sockets of apps that wait for a race, and since when.
    waiting: BTreeMap<RequestId, (u64, SocketAddr, Instant)>,
    /// Queries of apps: whose, for what.
    asked: HashMap<u64, (AppId, String, RecordType)>,
    began: HashMap<u64, Instant>,
    /// Of an app's socket, the one of ours that its connection goes over.
    over: HashMap<u64, u64>,
    ended: VecDeque<Event>,
    last: u64,
    /// Times that it woke up by itself.
    pub wakeups: u64,
}

impl Behind {
    pub fn new(settings: connect::Settings) -> Self {
        Self {
            connector: Connector::new(settings),
            waiting: BTreeMap::new(),
            asked: HashMap::new(),
            began: HashMap::new(),
            over: HashMap::new(),
            ended: VecDeque::new(),
            last: 0,
            wakeups: 0,
        }
    }

    pub fn deadline(&self) -> Option<Deadline> {
        self.connector.poll_timeout()
    }

    pub fn timeout(&mut self, stack: &mut Stack) {
        if self.connector.wake(stack.now()).is_some() {
            self.wakeups += 1;
            self.drain(stack);
        }
    }

    /// Connections that it has opened, and that no app has got.
    pub fn unused(&self) -> u64 {
        self.connector.tally().unused
    }

    /// The next thing that an app notices.
    pub fn ended(&mut self) -> Option<Event> {
        self.ended.pop_front()
    }

    /// The phone is on another network: sockets of the old one are no more.
    pub fn moved(&mut self, stack: &mut Stack, network: Input) {
        self.began.clear();
        self.feed(stack, network);
    }

    /// An app asks.
    pub fn asks(&mut self, query: u64, app: &AppId, name: &str, record: RecordType) {
        self.asked.insert(query, (AppId::clone(app), name.to_owned(), record));
    }

    /// An app connects.
    pub fn connect(&mut self, stack: &mut Stack, app: &AppId, socket: u64, to: SocketAddr) {
        if !self.connector.knows_another(app, to.ip()) {
            return stack.connect(socket, to.ip());
        }
        self.last += 1;
        let request = RequestId(self.last);
        self.waiting.insert(request, (socket, to, stack.now()));
        // As the engine's own accelerator has it: a socket of either family.
        let claim = Claim {
            app: AppId::clone(app),
            to,
            domain: Family::V6,
            accepts_mapped: true,
            nonblocking: false,
            rescuable: None,
        };
        self.feed(stack, Input::Claim(request, claim));
    }

    /// An app closes a socket, or gives it up.
    pub fn close(&mut self, stack: &mut Stack, socket: u64) {
        let of = |(_, (waits, ..)): &(&RequestId, &(u64, SocketAddr, Instant))| *waits == socket;
        if let Some(request) = self.waiting.iter().find(of).map(|(request, _)| *request) {
            self.waiting.remove(&request);
            self.feed(stack, Input::Abandon(request));
        }
        self.ended.retain(|event| !matches!(event, Event::Connected { socket: s, .. } | Event::Failed { socket: s, .. } if *s == socket));
        stack.close(self.over.remove(&socket).unwrap_or(socket));
    }

    /// What the network says, as an app sees it; nothing of what concerns the engine alone.
    pub fn hears(&mut self, stack: &mut Stack, event: Event) -> Option<Event> {
        match &event {
            Event::Answer { query, result } => self.overhears(stack, *query, result),
            Event::Connected { socket, .. } | Event::Failed { socket, .. }
                if *socket & SOCKETS != 0 && *socket < APPS =>
            {
                let took = self.began.remove(socket).map_or(Duration::ZERO, |at| stack.now() - at);
                let result = match event {
                    Event::Failed { errno, .. } => AttemptResult::Failed(errno),
                    _ => AttemptResult::Connected(took),
                };
                let id = AttemptId(socket & !SOCKETS);
                self.feed(stack, Input::Attempt(id, result));
                return None;
            }
            _ => {}
        }
        Some(event)
    }

    fn overhears(&mut self, stack: &mut Stack, query: u64, result: &LookupResult) {
        let heard = matches!(result, LookupResult::Addresses(..) | LookupResult::NoData(_) | LookupResult::NxDomain(_));
        if let Some((app, name, record)) = self.asked.remove(&query).filter(|_| heard) {
            self.feed(stack, Input::Overheard { app, name, record, result: result.clone() });
        }
    }

    fn feed(&mut self, stack: &mut Stack, input: Input) {
        self.connector.handle_input(stack.now(), input);
        self.drain(stack);
    }

    fn drain(&mut self, stack: &mut Stack) {
        while let Some(output) = self.connector.poll_output() {
            match output {
                Output::Connect { id, to, .. } => {
                    self.began.insert(SOCKETS | id.0, stack.now());
                    stack.connect(SOCKETS | id.0, to.ip());
                }
                Output::Close(id) => stack.close(SOCKETS | id.0),
                Output::Query { id, .. } => {
                    self.connector.handle_input(stack.now(), Input::Lookup(id, LookupResult::NotSent));
                }
                Output::HandOver { request, attempt, .. } => {
                    let Some((socket, _, since)) = self.waiting.remove(&request) else { continue };
                    self.over.insert(socket, SOCKETS | attempt.0);
                    self.ended.push_back(Event::Connected { socket, took: stack.now() - since });
                }
                Output::Fail(request, errno) => {
                    let Some((socket, ..)) = self.waiting.remove(&request) else { continue };
                    self.ended.push_back(Event::Failed { socket, errno });
                }
                Output::Pass(request, _) | Output::Begin { request, .. } => {
                    let Some((socket, to, _)) = self.waiting.remove(&request) else { continue };
                    stack.connect(socket, to.ip());
                }
                Output::Forget(_)
                | Output::Late(_)
                | Output::Watch(_)
                | Output::Answer(..)
                | Output::Answered(..)
                | Output::Rescue { .. } => {}
            }
        }
    }
}
