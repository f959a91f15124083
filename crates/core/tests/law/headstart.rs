//! The supervisor's hands in virtual time: the real `Connector`, and what `io::supervisor` and the library do around it.
//! Nothing is decided here that is not decided there.

use super::sim::{Call, Event, Os, Outcome, Reply, Sim, Wait, ms};
use super::world::{Fate, Front, World};
use headstart_core::connect::{
    Ahead, Answered, Ask, AttemptId, AttemptResult, Claim, Connector, Input, Looks, LookupResult, Output, QueryId,
    RequestId, Resolve, Resolved, Settings, Spoilt, Want, race,
};
use headstart_core::machine::Machine;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::RecordType;
use headstart_core::wire::shim::Pass;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub const NAME: &str = "www.example";
pub const PORT: u16 = 443;
/// How long the library waits for a getaddrinfo.
const PATIENCE: u64 = 60_000;
const TTL: Duration = Duration::from_secs(60);

/// A call that waits for the connector.
#[derive(Debug)]
enum Pending {
    Resolve(Call),
    Claim { call: Call, to: IpAddr, domain: Family },
    Ask { call: Call, socket: u64, server: usize, record: RecordType },
}

/// A socket of the supervisor's, or one of a program's that it watches.
#[derive(Debug)]
struct Attempt {
    domain: Family,
    result: Result<(), i32>,
    began: Instant,
    ends: Instant,
    /// The program's call, if it holds the socket.
    call: Option<Call>,
    /// The other side resets it then, if it is open.
    resets: Option<Instant>,
}

pub struct Supervisor {
    pub connector: Connector,
    app: Arc<str>,
    pending: BTreeMap<u64, Pending>,
    attempts: BTreeMap<u64, Attempt>,
    replies: BTreeMap<u64, Reply>,
    /// Queries of which an answer is kept: what comes late is not.
    late: BTreeSet<u64>,
    known: BTreeSet<IpAddr>,
    next: u64,
    /// Where attempts went and what programs were told, to see whether their hints allow it.
    pub touched: BTreeSet<IpAddr>,
}

impl Supervisor {
    pub fn new(world: &World, race: &'static race::Entry) -> Self {
        let ahead = if world.ahead { Ahead::ON } else { Ahead::OFF };
        let mut connector = Connector::new(Settings { seed: world.seed, ahead, ..Settings::of(race) });
        let (v4, v6) = world.routes;
        let inputs =
            [Input::Servers(world.servers.len() as u32), Input::Network { id: NetworkId(1), v4, v6, v4_first: false }];
        inputs.into_iter().for_each(|input| connector.handle_input(Instant::ZERO, input));
        let (app, next) = ("program".into(), 0);
        let (pending, attempts, replies, late) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self {
            connector,
            app,
            pending,
            attempts,
            replies,
            late,
            known: BTreeSet::new(),
            next,
            touched: BTreeSet::new(),
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.connector.poll_timeout().map(|deadline| deadline.at)
    }

    /// Does `act` with the supervisor of `sim`, if it has one.
    pub fn with<T>(sim: &mut Sim, act: impl FnOnce(&mut Self, &mut Sim) -> T) -> Option<T> {
        let mut supervisor = sim.supervisor.take()?;
        let result = act(&mut supervisor, sim);
        sim.supervisor = Some(supervisor);
        Some(result)
    }

    /// What is left when nobody asks for anything any more.
    pub fn leftovers(&self) -> Option<String> {
        let timer = self.connector.poll_timeout();
        (timer.is_some() || !self.pending.is_empty() || !self.attempts.is_empty())
            .then(|| format!("timer {timer:?}, calls {:?}, sockets {:?}", self.pending, self.attempts))
    }

    fn feed(&mut self, sim: &mut Sim, input: Input) {
        super::sim::note(sim.now, &("in", &input));
        self.connector.handle_input(sim.now, input);
        self.drain(sim);
    }

    /// An event of the network, or none if it is the connector's timer.
    pub fn event(&mut self, sim: &mut Sim, event: Option<Event>) {
        match event {
            None => {
                self.connector.handle_timeout(sim.now);
                self.drain(sim);
            }
            Some(Event::Lookup(query, server, reply)) => {
                if let Reply::Addresses(list) = &reply {
                    self.known.extend(list);
                }
                let result = match &reply {
                    Reply::Addresses(list) => LookupResult::Addresses(list.clone(), TTL),
                    Reply::NoData => LookupResult::NoData(TTL),
                    Reply::NxDomain => LookupResult::NxDomain(TTL),
                    Reply::Fails => LookupResult::Refused,
                };
                let is_kept = reply != Reply::Fails || !self.replies.contains_key(&query);
                if is_kept && !self.late.contains(&query) {
                    self.replies.insert(query, reply);
                }
                self.connector.handle_input(sim.now, Input::Replied(QueryId(query), server));
                self.feed(sim, Input::Lookup(QueryId(query), result));
            }
            Some(Event::Attempt(AttemptId(n))) => self.attempt_ended(sim, n),
            Some(Event::Spoilt(id)) => {
                if self.attempts.contains_key(&id.0) {
                    self.feed(sim, Input::Spoilt(id, Spoilt::Closed, Duration::ZERO));
                }
            }
            Some(Event::Patience(request)) => {
                if let Some(Pending::Resolve(call)) = self.pending.remove(&request) {
                    sim.end(call, Outcome::Passed);
                    self.feed(sim, Input::Abandon(id_of(sim, request)));
                }
            }
            Some(Event::End(..) | Event::Move) => {}
        }
    }

    fn attempt_ended(&mut self, sim: &mut Sim, n: u64) {
        let Some(attempt) = self.attempts.get(&n) else { return };
        let (result, call, began) = (attempt.result, attempt.call, attempt.began);
        if call.is_some() || result.is_err() {
            self.attempts.remove(&n);
        }
        let told = match result {
            Ok(()) => AttemptResult::Connected(sim.now - began),
            Err(errno) => AttemptResult::Failed(errno),
        };
        if let Some(call) = call {
            sim.end(call, Outcome::Tcp(result));
        }
        self.feed(sim, Input::Attempt(AttemptId(n), told));
    }

    pub fn is_lost(&mut self, now: Instant, AttemptId(n): AttemptId) {
        if let Some(attempt) = self.attempts.get_mut(&n) {
            (attempt.result, attempt.ends) = (Err(super::sim::ETIMEDOUT), now + ms(super::sim::GIVES_UP));
        }
    }

    pub fn moved(&mut self, sim: &mut Sim) {
        let (v4, v6) = sim.routes();
        self.feed(sim, Input::Network { id: NetworkId(2), v4, v6, v4_first: false });
    }

    /// A program has ended, and whatever it waited for.
    pub fn ended(&mut self, sim: &mut Sim) {
        for request in std::mem::take(&mut self.pending).into_keys() {
            self.feed(sim, Input::Abandon(id_of(sim, request)));
        }
        let account = sim.visit as u32 + 1;
        self.connector.close_account(account);
        self.drain(sim);
    }

    fn request(&mut self, sim: &Sim, pending: Pending) -> RequestId {
        self.next += 1;
        self.pending.insert(self.next, pending);
        id_of(sim, self.next)
    }

    fn drain(&mut self, sim: &mut Sim) {
        while let Some(output) = self.connector.poll_output() {
            super::sim::note(sim.now, &("out", &output));
            match output {
                Output::Query { id: QueryId(id), name, record, server } => {
                    let asked = if *name == *NAME { record } else { RecordType::Https };
                    if let Some((after, reply)) = sim.asks(server as usize, asked) {
                        sim.after(after, Event::Lookup(id, server, reply));
                    }
                }
                Output::Late(QueryId(id)) => _ = self.late.insert(id),
                Output::Forget(QueryId(id)) => sim.cancel(|e| matches!(e, Event::Lookup(q, ..) if *q == id)),
                Output::Connect { id, to, domain } => {
                    self.touched.insert(to.ip());
                    self.begin(sim, id, to, (domain, None));
                }
                Output::Watch(id) => {
                    if let Some(at) = self.attempts.get(&id.0).and_then(|a| a.resets) {
                        sim.after(at - sim.now, Event::Spoilt(id));
                    }
                }
                Output::Close(id) => self.close(sim, id),
                Output::Answer(request, resolved) => self.answer(sim, request, resolved),
                Output::Answered(request, answered) => self.answered(sim, request, answered),
                Output::Fail(request, errno) => {
                    if let Some((call, ..)) = self.claimed(request) {
                        sim.end(call, Outcome::Tcp(Err(errno)));
                    }
                }
                Output::Pass(request, _) => match self.pending.remove(&number(request)) {
                    Some(Pending::Claim { call, to, .. }) => sim.dial_for(call, to),
                    Some(Pending::Resolve(call)) => sim.end(call, Outcome::Passed),
                    _ => {}
                },
                Output::Begin { request, attempt } => {
                    if let Some((call, to, domain)) = self.claimed(request) {
                        self.begin(sim, attempt, (to, PORT).into(), (domain, Some(call)));
                    }
                }
                Output::HandOver { request, attempt, connected } => self.hand_over(sim, request, attempt, connected),
                Output::Rescue { stalled, by, .. } => {
                    let (stalled, by) = (self.attempts.remove(&stalled.0), self.attempts.remove(&by.0));
                    // It is woken, and looks at its socket at once.
                    if let (Some(call), Some(_)) = (stalled.and_then(|a| a.call), by) {
                        sim.end(call, Outcome::Tcp(Ok(())));
                    }
                }
            }
        }
    }

    fn claimed(&mut self, request: RequestId) -> Option<(Call, IpAddr, Family)> {
        match self.pending.remove(&number(request))? {
            Pending::Claim { call, to, domain } => Some((call, to, domain)),
            other => {
                self.pending.insert(number(request), other);
                None
            }
        }
    }

    fn begin(&mut self, sim: &mut Sim, id: AttemptId, to: SocketAddr, (domain, call): (Family, Option<Call>)) {
        let (after, result) = sim.dial(to.ip(), to.port());
        let to = to.ip();
        let ends = sim.now + after;
        let resets = match sim.fate(to) {
            Fate::Resets(_, after) => Some(ends + ms(after)),
            _ => None,
        };
        self.attempts.insert(id.0, Attempt { domain, result, began: sim.now, ends, call, resets });
        match (after.is_zero(), result) {
            // The system call says so.
            (true, Err(errno)) => {
                self.attempts.remove(&id.0);
                if let Some(call) = call {
                    sim.end(call, Outcome::Tcp(result));
                }
                self.connector.handle_input(sim.now, Input::Attempt(id, AttemptResult::Failed(errno)));
            }
            _ => drop(sim.after(after, Event::Attempt(id))),
        }
    }

    /// Nothing more is to be known of an attempt; a program that has it keeps it.
    fn close(&mut self, sim: &mut Sim, id: AttemptId) {
        sim.cancel(|e| matches!(e, Event::Attempt(a) | Event::Spoilt(a) if *a == id));
        if let Some(Attempt { call: Some(call), ends, result, .. }) = self.attempts.remove(&id.0) {
            sim.after(ends - sim.now, Event::End(call, Outcome::Tcp(result)));
        }
    }

    fn hand_over(&mut self, sim: &mut Sim, request: RequestId, id: AttemptId, connected: bool) {
        let Some((call, to, domain)) = self.claimed(request) else { return };
        if let Some(attempt) = self.attempts.get(&id.0) {
            // What is connected becomes a socket of AF_INET (IPV6_ADDRFORM), or has all that one has but its name (0056).
            let becomes = connected && domain == Family::V4;
            assert!(attempt.domain == domain || becomes, "{attempt:?} in the place of a socket of {domain:?}");
        }
        if !connected {
            if let Some(attempt) = self.attempts.get_mut(&id.0) {
                attempt.call = Some(call);
            }
            return;
        }
        sim.cancel(|e| matches!(e, Event::Spoilt(a) if *a == id));
        match self.attempts.remove(&id.0) {
            Some(attempt) if attempt.resets.is_none_or(|at| sim.now < at) => {
                assert!(attempt.result.is_ok() && attempt.ends <= sim.now, "{attempt:?} is handed over");
                sim.end(call, Outcome::Tcp(Ok(())));
            }
            _ => {
                sim.dial_for(call, to);
                let reason = Pass::NothingReady;
                self.connector.handle_input(sim.now, Input::NotTaken { request, to, connected, reason });
            }
        }
    }

    fn answer(&mut self, sim: &mut Sim, request: RequestId, resolved: Resolved) {
        let Some(Pending::Resolve(call)) = self.pending.remove(&number(request)) else { return };
        let list = match resolved {
            Resolved::Addresses(list) => list,
            Resolved::NoData | Resolved::NxDomain | Resolved::Unanswered => Vec::new(),
        };
        self.known.extend(&list);
        self.touched.extend(&list);
        sim.end(call, Outcome::Resolved(list));
    }

    fn answered(&mut self, sim: &mut Sim, request: RequestId, answered: Answered) {
        let Some(Pending::Ask { call, server, record, .. }) = self.pending.remove(&number(request)) else { return };
        match answered {
            Answered::Reply { query, .. } => match self.replies.get(&query.0) {
                Some(reply) => sim.end(call, Outcome::Reply(reply.clone())),
                None => forward(sim, call, server, record),
            },
            Answered::NotWaitedFor => sim.end(call, Outcome::Reply(Reply::NoData)),
            Answered::Unanswered => forward(sim, call, server, record),
        }
    }
}

fn forward(sim: &mut Sim, call: Call, server: usize, record: RecordType) {
    if let Some((after, reply)) = sim.asks(server, record) {
        sim.after(after, Event::End(call, Outcome::Reply(reply)));
    }
}

/// On the account of the visit that goes on.
fn id_of(sim: &Sim, n: u64) -> RequestId {
    RequestId((sim.visit as u64 + 1) << 32 | n)
}

fn number(request: RequestId) -> u64 {
    request.0 & 0xffff_ffff
}

/// The calls of a program, as its front end serves them.
impl Os {
    fn preloaded(&self) -> bool {
        let sim = self.0.borrow();
        sim.supervisor.is_some() && sim.world.front != Front::Filter
    }

    fn is_filtered(&self) -> bool {
        let sim = self.0.borrow();
        sim.supervisor.is_some() && sim.world.front != Front::Preload
    }

    /// getaddrinfo by the library, if it is there.
    pub fn resolve(&self) -> Option<Wait> {
        if !self.preloaded() {
            return None;
        }
        let mut sim = self.0.borrow_mut();
        let call = sim.call();
        Supervisor::with(&mut sim, |supervisor, sim| {
            let want = match sim.world.families {
                (true, false) => Want::Only(Family::V4),
                (false, true) => Want::Only(Family::V6),
                _ => Want::Both,
            };
            let port = sim.world.port.then_some(PORT);
            let request = supervisor.request(sim, Pending::Resolve(call));
            sim.after(ms(PATIENCE), Event::Patience(number(request)));
            let resolve = Resolve { app: supervisor.app.clone(), name: NAME.into(), want, port };
            supervisor.feed(sim, Input::Resolve(request, resolve));
        });
        drop(sim);
        Some(self.wait(call))
    }

    /// A question by DNS from a socket of the program's.
    pub fn ask(&self, server: usize, record: RecordType, socket: u64) -> Wait {
        let filtered = self.is_filtered();
        let mut sim = self.0.borrow_mut();
        let call = sim.call();
        let again =
            |p: &Pending| matches!(p, Pending::Ask { socket: s, record: r, .. } if (*s, *r) == (socket, record));
        let repeated = sim.supervisor.as_ref().is_some_and(|s| s.pending.values().any(again));
        if filtered && !repeated {
            Supervisor::with(&mut sim, |supervisor, sim| {
                let request = supervisor.request(sim, Pending::Ask { call, socket, server, record });
                let ask = Ask { app: supervisor.app.clone(), name: NAME.into(), record, server: server as u32 };
                supervisor.feed(sim, Input::Ask(request, ask));
            });
        } else {
            forward(&mut sim, call, server, record);
        }
        drop(sim);
        self.wait(call)
    }

    /// connect: how it ends, whether the program waits in it or not. `domain` is that of its socket.
    pub fn connect(&self, to: IpAddr, domain: Family, blocking: bool) -> Wait {
        let filtered = self.is_filtered();
        let mut sim = self.0.borrow_mut();
        sim.has_gone = true;
        let call = sim.call();
        let knows = sim.supervisor.as_ref().is_some_and(|s| s.known.contains(&to));
        if knows {
            Supervisor::with(&mut sim, |supervisor, sim| {
                let request = supervisor.request(sim, Pending::Claim { call, to, domain });
                let claim = Claim {
                    app: supervisor.app.clone(),
                    to: (to, PORT).into(),
                    domain,
                    nonblocking: !blocking,
                    accepts_mapped: domain == Family::V6,
                    rescuable: (filtered && !blocking).then_some(Looks::Always),
                };
                supervisor.feed(sim, Input::Claim(request, claim));
            });
        } else {
            sim.dial_for(call, to);
        }
        drop(sim);
        self.wait(call)
    }
}
