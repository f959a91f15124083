//! Getting connected: a program's getaddrinfo and connect, and the connector that stands behind them.
//!
//! Each connection that the browser opens is two calls: the name is resolved unless its addresses are known from this
//! load, then a blocking connect to each of them until one succeeds. The connector answers as it does in the supervisor;
//! what it leaves alone goes to the kernel.

use super::super::faster;
use super::super::stack::{Event, Stack};
use super::Arm;
use crate::world::{Fate, Host, Site, World};
use headstart_core::connect::{self, Claim, Connector, Input, Output, RequestId, Resolve, Resolved, Want};
use headstart_core::connect::{AttemptId, AttemptResult, QueryId};
use headstart_core::machine::Machine;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use headstart_link::ParseError;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

const PORT: u16 = 443;
const PROGRAM: &str = "browser";
/// Sockets that the connector knows nothing of.
const OWN_SOCKETS: u64 = 1 << 63;

/// What came of a call for a connection.
#[derive(Debug)]
pub(super) struct Dialled {
    /// Index of the host.
    pub host: usize,
    /// Its addresses, as they were told.
    pub addresses: Vec<IpAddr>,
    /// The socket and the peer that it reached.
    pub connected: Option<(u64, IpAddr)>,
    /// When it was called for.
    pub began: Instant,
    /// When its addresses were known.
    pub resolved: Instant,
}

struct Call {
    host: usize,
    over_quic: bool,
    began: Instant,
    resolved: Instant,
    addresses: Vec<IpAddr>,
    /// Addresses that it has tried to connect to.
    tried: usize,
}

fn answering(site: &Site) -> impl Iterator<Item = &Host> {
    site.v4.iter().chain(&site.v6).filter(|h| h.fate == Fate::Answers)
}

fn all_answering(world: &World) -> BTreeSet<IpAddr> {
    world.sites.iter().flat_map(answering).map(|h| h.addr).collect()
}

/// The nearest address of a site that answers, of either family.
fn nearest(site: &Site) -> Option<IpAddr> {
    answering(site).min_by_key(|h| h.extra_rtt).map(|h| h.addr)
}

/// See the module.
pub(super) struct Dialler {
    connector: Connector,
    names: Vec<String>,
    /// By host, the nearest address that answers, if everything is ready when it is asked for.
    ready: Option<Vec<Option<IpAddr>>>,
    /// Addresses that answer, over QUIC as over TCP.
    answering: BTreeSet<IpAddr>,
    calls: HashMap<RequestId, Call>,
    /// Calls whose socket is still connecting: one of the kernel's own, or one that was handed over under way.
    connecting: HashMap<u64, Call>,
    targets: HashMap<AttemptId, IpAddr>,
    began: HashMap<u64, Instant>,
    account: u32,
    next_request: u64,
    next_own: u64,
    due: Option<Instant>,
    done: VecDeque<Dialled>,
    /// Times that the connector woke up by itself.
    pub wakeups: u64,
}

impl Dialler {
    pub fn new(world: &World, arm: Arm, seed: u64) -> Result<Self, ParseError> {
        let settings = connect::Settings {
            lifetime: arm.lifetime,
            ahead: arm.ahead,
            faster: faster(world, arm.lifetime)?,
            seed,
            ..connect::Settings::of(arm.race)
        };
        let mut connector = Connector::new(settings);
        let servers = u32::try_from(world.resolvers.len()).unwrap_or(u32::MAX);
        connector.handle_input(Instant::ZERO, Input::Servers(servers));
        Ok(Self {
            connector,
            ready: arm.ready.then(|| world.sites.iter().map(nearest).collect()),
            answering: all_answering(world),
            names: world.sites.iter().map(|s| s.name.clone()).collect(),
            calls: HashMap::new(),
            connecting: HashMap::new(),
            targets: HashMap::new(),
            began: HashMap::new(),
            account: 0,
            next_request: 0,
            next_own: OWN_SOCKETS,
            due: None,
            done: VecDeque::new(),
            wakeups: 0,
        })
    }

    pub fn unused(&self) -> u64 {
        self.connector.tally().unused
    }

    /// The browser begins to load a page: a run of its own, as the supervisor sees it.
    pub fn begin(&mut self, stack: &mut Stack) {
        self.account += 1;
        self.input(stack, Input::Launched { account: self.account, app: PROGRAM.into() });
    }

    /// It has ended.
    pub fn end(&mut self, stack: &mut Stack) {
        self.connector.close_account(self.account);
        self.carry_out(stack);
    }

    /// The host is on another network now, `world`, with routes for both families; `stack` is its machine there.
    pub fn moved(&mut self, stack: &mut Stack, world: &World, id: NetworkId) {
        self.answering = all_answering(world);
        if let Some(ready) = &mut self.ready {
            *ready = world.sites.iter().map(nearest).collect();
        }
        self.input(stack, Input::Network { id, v4: true, v6: true, v4_first: false });
        self.forget_calls();
    }

    /// When the connector wants to be woken.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Calls whose end has come, oldest first.
    pub fn done(&mut self) -> Option<Dialled> {
        self.done.pop_front()
    }

    /// The browser has gone on: no call is waited for any more.
    pub fn forget_calls(&mut self) {
        self.calls.clear();
        self.connecting.clear();
        self.done.clear();
    }

    /// Opens a connection to a host; by its addresses, if they are known. `over_quic`: its addresses are all that is needed.
    pub fn dial(&mut self, stack: &mut Stack, host: usize, addresses: &[IpAddr], over_quic: bool) {
        let now = stack.now();
        let call = Call { host, over_quic, began: now, resolved: now, addresses: addresses.to_vec(), tried: 0 };
        if let Some(ready) = &self.ready {
            return match ready[host] {
                Some(nearest) => {
                    self.next_own += 1;
                    self.connected(self.next_own, nearest, call);
                }
                None => self.give_up(call),
            };
        }
        if !addresses.is_empty() {
            return self.connect(stack, call);
        }
        let request = self.request(call);
        // A browser that goes on over UDP wants no connection.
        let port = (!over_quic).then_some(PORT);
        let ask = Resolve { app: PROGRAM.into(), name: self.names[host].clone(), want: Want::Both, port };
        self.input(stack, Input::Resolve(request, ask));
    }

    fn request(&mut self, call: Call) -> RequestId {
        self.next_request += 1;
        let request = RequestId(u64::from(self.account) << 32 | self.next_request);
        self.calls.insert(request, call);
        request
    }

    /// The first address that answers, with a socket that is known only here.
    fn over_quic(&mut self, call: Call) {
        let Some(addr) = call.addresses.iter().copied().find(|a| self.answering.contains(a)) else {
            return self.give_up(call);
        };
        self.next_own += 1;
        self.connected(self.next_own, addr, call);
    }

    /// To the next of its addresses.
    fn connect(&mut self, stack: &mut Stack, mut call: Call) {
        if call.over_quic {
            return self.over_quic(call);
        }
        let Some(addr) = call.addresses.get(call.tried).copied() else { return self.give_up(call) };
        call.tried += 1;
        let domain = Family::of(addr);
        let claim = Claim {
            app: PROGRAM.into(),
            to: SocketAddr::new(addr, PORT),
            domain,
            nonblocking: false,
            accepts_mapped: domain == Family::V6,
            rescuable: None,
        };
        let request = self.request(call);
        self.input(stack, Input::Claim(request, claim));
    }

    /// The kernel tries the address that the call is for; there is none for a lookup.
    fn connect_alone(&mut self, stack: &mut Stack, call: Call) {
        let Some(addr) = call.tried.checked_sub(1).map(|last| call.addresses[last]) else { return self.give_up(call) };
        self.next_own += 1;
        self.connecting.insert(self.next_own, call);
        stack.connect(self.next_own, addr);
    }

    fn give_up(&mut self, call: Call) {
        self.tell(call, None);
    }

    fn connected(&mut self, socket: u64, to: IpAddr, call: Call) {
        self.tell(call, Some((socket, to)));
    }

    fn tell(&mut self, call: Call, connected: Option<(u64, IpAddr)>) {
        let Call { host, began, resolved, addresses, .. } = call;
        self.done.push_back(Dialled { host, addresses, connected, began, resolved });
    }

    /// Something of the network that is no data.
    pub fn notice(&mut self, stack: &mut Stack, event: &Event) {
        match event {
            Event::Answer { query, result } => self.input(stack, Input::Lookup(QueryId(*query), result.clone())),
            Event::Connected { socket, .. } if *socket >= OWN_SOCKETS => {
                if let Some(call) = self.connecting.remove(socket) {
                    let to = call.addresses[call.tried - 1];
                    self.connected(*socket, to, call);
                }
            }
            Event::Failed { socket, .. } if *socket >= OWN_SOCKETS => {
                if let Some(call) = self.connecting.remove(socket) {
                    self.connect(stack, call);
                }
            }
            Event::Connected { socket, .. } => {
                if let (Some(call), Some(to)) =
                    (self.connecting.remove(socket), self.targets.get(&AttemptId(*socket)).copied())
                {
                    self.connected(*socket, to, call);
                }
                let took = self.began.get(socket).map_or(Duration::ZERO, |at| stack.now() - *at);
                self.input(stack, Input::Attempt(AttemptId(*socket), AttemptResult::Connected(took)));
            }
            Event::Failed { socket, errno } => {
                if let Some(call) = self.connecting.remove(socket) {
                    self.connect(stack, call);
                }
                self.input(stack, Input::Attempt(AttemptId(*socket), AttemptResult::Failed(*errno)));
            }
            Event::Segment(_) | Event::Company(_) => {}
        }
    }

    /// Wakes the connector, if it wanted to be.
    pub fn handle_timeout(&mut self, stack: &mut Stack) {
        if self.due.is_some_and(|at| at <= stack.now()) {
            self.wakeups += 1;
            self.connector.handle_timeout(stack.now());
            self.carry_out(stack);
        }
    }

    fn input(&mut self, stack: &mut Stack, input: Input) {
        self.connector.handle_input(stack.now(), input);
        self.carry_out(stack);
    }

    fn carry_out(&mut self, stack: &mut Stack) {
        let mut then = Vec::new();
        while let Some(output) = self.connector.poll_output() {
            match output {
                Output::Query { id, name, record, server } => stack.ask(id.0, &name, record, server as usize),
                Output::Forget(id) | Output::Late(id) => stack.forget(id.0),
                Output::Connect { id, to, .. } => {
                    self.targets.insert(id, to.ip());
                    self.began.insert(id.0, stack.now());
                    stack.connect(id.0, to.ip());
                }
                Output::Close(id) => stack.close(id.0),
                told => then.push(told),
            }
        }
        self.due = self.connector.poll_timeout().map(|d| d.at);
        for output in then {
            match output {
                Output::Answer(request, resolved) => {
                    let Some(mut call) = self.calls.remove(&request) else { continue };
                    if let Resolved::Addresses(list) = resolved {
                        call.addresses = list;
                    }
                    call.resolved = stack.now();
                    self.connect(stack, call);
                }
                Output::HandOver { request, attempt, connected } => {
                    let (Some(call), Some(to)) = (self.calls.remove(&request), self.targets.get(&attempt).copied())
                    else {
                        continue;
                    };
                    if connected {
                        self.connected(attempt.0, to, call);
                    } else {
                        self.connecting.insert(attempt.0, call);
                    }
                }
                Output::Fail(request, _) => {
                    if let Some(call) = self.calls.remove(&request) {
                        self.connect(stack, call);
                    }
                }
                Output::Pass(request, _) => {
                    if let Some(call) = self.calls.remove(&request) {
                        self.connect_alone(stack, call);
                    }
                }
                _ => {}
            }
        }
    }
}
