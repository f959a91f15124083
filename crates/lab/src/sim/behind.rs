//! The engine of a phone between its apps and the network: what `headstart engine` does with connections and DNS answers that pass
//! through it, in virtual time, by the same `Connector`.
//!
//! It overhears the answers that apps get, and races a connection whose address has another of the same name; any other one is
//! opened as it is. Where its settings have something done ahead (docs/decisions/0131), it answers from what the app was told, and
//! looks up and opens what its start is known to want. Not modelled: the time that the app takes to tell whose a connection or a
//! question is, and the forwarder itself.

use super::stack::{Event, Stack};
use headstart_core::connect::{
    self, Ahead, AppId, AttemptId, AttemptResult, Claim, Connector, Input, LookupResult, Output, QueryId, RequestId,
    Starts,
};
use headstart_core::machine::Machine;
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::RecordType;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

/// Sockets and queries of the engine, apart from those of connectors and of apps.
const OWN: u64 = 1 << 62;
/// Where the names of sockets that are no connector's begin.
const APPS: u64 = 1 << 63;
/// The server that is asked ahead: the one that apps ask first.
const SERVER: usize = 0;

/// A question of an app, and what it is about.
type Question = (AppId, String, RecordType);

/// See the module.
pub(super) struct Behind {
    connector: Connector,
    /// What tells starts apart, where something is done ahead; and each app's number for it.
    starts: Option<(Starts, HashMap<AppId, u32>)>,
    /// Sockets of apps that wait for a race, and since when.
    waiting: BTreeMap<RequestId, (u64, SocketAddr, Instant)>,
    /// Sockets of apps whose connections are opened as they are.
    alone: HashMap<u64, SocketAddr>,
    /// Queries of apps, and of the engine ahead of them: whose, for what.
    asked: HashMap<u64, Question>,
    /// What apps were told, and when.
    told: HashMap<Question, (Instant, LookupResult)>,
    began: HashMap<u64, Instant>,
    /// Of an app's socket, the one of ours that its connection goes over.
    over: HashMap<u64, u64>,
    ended: VecDeque<Event>,
    last: u64,
    /// When it asked ahead of apps.
    pub queries: Vec<Instant>,
    /// Times that it woke up by itself.
    pub wakeups: u64,
}

impl Behind {
    pub fn new(settings: connect::Settings) -> Self {
        Self {
            starts: (settings.ahead != Ahead::OFF).then(Default::default),
            connector: Connector::new(settings),
            waiting: BTreeMap::new(),
            alone: HashMap::new(),
            asked: HashMap::new(),
            told: HashMap::new(),
            began: HashMap::new(),
            over: HashMap::new(),
            ended: VecDeque::new(),
            last: 0,
            queries: Vec::new(),
            wakeups: 0,
        }
    }

    /// When something of it is due: what apps notice, at once.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let waiting = self.ended.front().map(|_| now);
        waiting.or(self.connector.poll_timeout().map(|deadline| deadline.at))
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

    /// The phone is on another network: sockets of the old one are no more, and what was said there does not count here.
    pub fn moved(&mut self, stack: &mut Stack, network: Input) {
        self.began.clear();
        self.told.clear();
        self.feed(stack, network);
    }

    /// An app asks. Whether it is answered here: then nothing is to be sent.
    pub fn asks(&mut self, stack: &mut Stack, query: u64, app: &AppId, name: &str, record: RecordType) -> bool {
        let question = (AppId::clone(app), name.to_owned(), record);
        let Some(account) = self.account(stack, app) else {
            self.asked.insert(query, question);
            return false;
        };
        let result = self.answer(stack.now(), &question);
        let is_answered = result.is_some();
        match result {
            Some(result) => self.ended.push_back(Event::Answer { query, result }),
            None => _ = self.asked.insert(query, question),
        }
        self.feed(stack, Input::AsksItself { account, app: AppId::clone(app), name: name.to_owned(), record });
        is_answered
    }

    /// What the app was told, if that still holds, for as long as is left of it.
    fn answer(&mut self, now: Instant, question: &Question) -> Option<LookupResult> {
        let (app, name, record) = question;
        let (at, result) = self.told.get(question)?.clone();
        let left = |time: Duration| time.saturating_sub(now.since(at));
        self.connector.answer_holds(now, app, name, *record).then(|| match result {
            LookupResult::Addresses(addresses, time) => LookupResult::Addresses(addresses, left(time)),
            LookupResult::Services(services, time) => LookupResult::Services(services, left(time)),
            LookupResult::NoData(time) => LookupResult::NoData(left(time)),
            LookupResult::NxDomain(time) => LookupResult::NxDomain(left(time)),
            other => other,
        })
    }

    /// The start of this app that goes on; none where nothing is done ahead.
    fn account(&mut self, stack: &mut Stack, app: &AppId) -> Option<u32> {
        let (starts, users) = self.starts.as_mut()?;
        let number = users.len() as u32;
        let user = *users.entry(AppId::clone(app)).or_insert(number);
        let (account, over) = starts.seen(stack.now(), user);
        if let Some(over) = over {
            self.connector.close_account(over);
            self.drain(stack);
        }
        Some(account)
    }

    /// An app connects.
    pub fn connect(&mut self, stack: &mut Stack, app: &AppId, socket: u64, to: SocketAddr) {
        let account = self.account(stack, app);
        self.last += 1;
        let request = RequestId(u64::from(account.unwrap_or(0)) << 32 | self.last);
        // As the engine's own accelerator has it: a socket of either family.
        let claim = Claim {
            app: AppId::clone(app),
            to,
            domain: Family::V6,
            accepts_mapped: true,
            nonblocking: false,
            rescuable: None,
        };
        let is_ahead = account.is_some() && self.connector.is_ahead_of(stack.now(), request, &claim);
        if is_ahead || self.connector.knows_another(app, to.ip()) {
            self.waiting.insert(request, (socket, to, stack.now()));
            return self.feed(stack, Input::Claim(request, claim));
        }
        if account.is_some() {
            self.alone.insert(socket, to);
            self.feed(stack, Input::GoesItself(request, claim));
        }
        stack.connect(socket, to.ip());
    }

    /// An app closes a socket, or gives it up.
    pub fn close(&mut self, stack: &mut Stack, socket: u64) {
        let of = |(_, (waits, ..)): &(&RequestId, &(u64, SocketAddr, Instant))| *waits == socket;
        if let Some(request) = self.waiting.iter().find(of).map(|(request, _)| *request) {
            self.waiting.remove(&request);
            self.feed(stack, Input::Abandon(request));
        }
        self.alone.remove(&socket);
        self.ended.retain(|event| !matches!(event, Event::Connected { socket: s, .. } | Event::Failed { socket: s, .. } if *s == socket));
        stack.close(self.over.remove(&socket).unwrap_or(socket));
    }

    /// What the network says, as an app sees it; nothing of what concerns the engine alone.
    pub fn hears(&mut self, stack: &mut Stack, event: Event) -> Option<Event> {
        match event {
            Event::Answer { query, ref result } => {
                let is_own = query & OWN != 0;
                self.overhears(stack, query, result);
                if is_own {
                    self.feed(stack, Input::Lookup(QueryId(query & !OWN), result.clone()));
                    return None;
                }
            }
            Event::Connected { socket, .. } | Event::Failed { socket, .. } if socket & OWN != 0 && socket < APPS => {
                let took = self.began.remove(&socket).map_or(Duration::ZERO, |at| stack.now() - at);
                let result = match event {
                    Event::Failed { errno, .. } => AttemptResult::Failed(errno),
                    _ => AttemptResult::Connected(took),
                };
                self.feed(stack, Input::Attempt(AttemptId(socket & !OWN), result));
                return None;
            }
            Event::Failed { socket, .. } => {
                if let Some(to) = self.alone.remove(&socket) {
                    self.feed(stack, Input::Unreached(to.ip()));
                }
            }
            Event::Connected { socket, .. } => _ = self.alone.remove(&socket),
            Event::Segment(_) | Event::Company(_) => {}
        }
        Some(event)
    }

    /// An answer passes: what programs were told. Those to the engine's own queries are kept like them.
    fn overhears(&mut self, stack: &mut Stack, query: u64, result: &LookupResult) {
        let heard = matches!(result, LookupResult::Addresses(..) | LookupResult::NoData(_) | LookupResult::NxDomain(_));
        let Some(question) = self.asked.remove(&query).filter(|_| heard) else { return };
        if self.starts.is_some() {
            self.told.insert(question.clone(), (stack.now(), result.clone()));
        }
        if query & OWN == 0 {
            let (app, name, record) = question;
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
                    self.began.insert(OWN | id.0, stack.now());
                    stack.connect(OWN | id.0, to.ip());
                }
                Output::Close(id) => stack.close(OWN | id.0),
                Output::Query { id, name, record, .. } => match self.connector.asker(id) {
                    Some(app) if self.starts.is_some() => {
                        self.queries.push(stack.now());
                        stack.ask(OWN | id.0, &name, record, SERVER);
                        self.asked.insert(OWN | id.0, (app, name.as_ref().to_owned(), record));
                    }
                    _ => self.connector.handle_input(stack.now(), Input::Lookup(id, LookupResult::NotSent)),
                },
                Output::HandOver { request, attempt, .. } => {
                    let Some((socket, _, since)) = self.waiting.remove(&request) else { continue };
                    self.over.insert(socket, OWN | attempt.0);
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
                Output::Forget(id) | Output::Late(id) => {
                    self.asked.remove(&(OWN | id.0));
                    stack.forget(OWN | id.0);
                }
                Output::Watch(_) | Output::Answer(..) | Output::Answered(..) | Output::Rescue { .. } => {}
            }
        }
    }
}
