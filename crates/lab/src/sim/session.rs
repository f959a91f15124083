//! A host for a while: a program that visits names, one after the other, and what is below it.
//!
//! The program is the plainest there is, and that of the lab's own client: getaddrinfo(name, port), then a blocking
//! connect to the first address of the list, on failure to the next (as wget and Python do). Headstart's connector is
//! driven through the machine contract: one input, all outputs, then sleep until the deadline.

use super::stack::{Event, Stack, Traffic};
use super::{Arm, Settings, faster, glibc};
use crate::world::{Site, World};
use headstart_core::connect::{self, Claim, Connector, Input, Output, RequestId, Resolve, Resolved, Want};
use headstart_core::connect::{AttemptId, AttemptResult, QueryId, Tally};
use headstart_core::machine::Machine;
use headstart_core::path::record::NetworkRecord;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use headstart_link::ParseError;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// The port that is visited; nothing depends on its number.
const PORT: u16 = 443;
/// The program that visits, as the connector knows it.
const PROGRAM: &str = "visitor";
/// Sockets of the program's own, apart from those that the connector numbers.
const OWN_SOCKETS: u64 = 1 << 63;

/// One visit: a name looked up and a connection made, as the program saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Until the race had an address to go on: its first attempt, or the answer to getaddrinfo if that came first.
    ///
    /// This is the lookup time that compares with the paper's. A race may begin to connect before it tells the program,
    /// because getaddrinfo tells only once; what is hidden behind a handshake is no lookup time any more.
    pub lookup: Duration,
    /// From then until the program had a connection, or knew that it would get none.
    pub connect: Duration,
    /// How long the program waited in getaddrinfo.
    pub getaddrinfo: Duration,
    /// From the call of getaddrinfo until the program had a connection, or knew that it would get none.
    pub total: Duration,
    /// Of that, what addresses took that the program tried before the one that connected.
    pub in_vain: Duration,
    /// The peer that was reached.
    pub reached: Option<IpAddr>,
    /// Whether getaddrinfo gave addresses.
    pub lookup_ok: bool,
}

/// What a session has cost so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// Packets at the client.
    pub traffic: Traffic,
    /// Visits that ended with a connection.
    pub connections: u64,
    /// Connections that were opened and never used.
    pub unused: u64,
    /// Attempts begun only to learn; contained in the SYNs of the traffic.
    pub explorations: u64,
}

/// One host for a while. See the module.
pub struct Session {
    stack: Stack,
    sites: Vec<Site>,
    connector: Option<Connector>,
    targets: HashMap<AttemptId, IpAddr>,
    began: HashMap<u64, Instant>,
    next_request: u64,
    next_own: u64,
    next_query: u64,
    connections: u64,
    /// Outputs of the connector for the program, oldest first.
    outputs: Vec<Output>,
    /// The routes that the connector knows of: IPv4, IPv6.
    routes: (bool, bool),
}

/// A call of the program that waits for its answer.
enum Reply {
    Resolved(Vec<IpAddr>),
    Connected(IpAddr),
    NotConnected,
    LeftAlone,
    OutOfPatience,
}

impl Session {
    /// A host that has never visited anything.
    pub fn new(world: &World, settings: Settings) -> Result<Self, ParseError> {
        let connector = match settings.arm {
            Arm::Bare => None,
            Arm::Race(race) => {
                let mut connector = Connector::new(connect::Settings {
                    lifetime: settings.lifetime,
                    faster: faster(world, settings.lifetime)?,
                    seed: settings.seed,
                    ..connect::Settings::of(race)
                });
                let servers = u32::try_from(world.resolvers.len()).unwrap_or(u32::MAX);
                connector.handle_input(Instant::ZERO, Input::Servers(servers));
                Some(connector)
            }
        };
        Ok(Self {
            stack: Stack::new(world)?,
            sites: world.sites.clone(),
            connector,
            targets: HashMap::new(),
            began: HashMap::new(),
            next_request: 0,
            next_own: OWN_SOCKETS,
            next_query: OWN_SOCKETS,
            connections: 0,
            outputs: Vec::new(),
            routes: (true, true),
        })
    }

    /// What the session has cost so far.
    pub fn spent(&self) -> Spent {
        let tally = self.connector.as_ref().map(Connector::tally);
        let tally = tally.as_ref();
        Spent {
            traffic: self.stack.traffic(),
            connections: self.connections,
            unused: tally.map_or(0, |t| t.unused),
            explorations: tally.map_or(0, |t| t.explorations),
        }
    }

    /// The connector's own counters; none without headstart.
    pub fn tally(&self) -> Option<Tally> {
        self.connector.as_ref().map(Connector::tally)
    }

    /// What it has learned of networks, as old as it is now; nothing without headstart.
    pub fn learned(&self) -> Vec<NetworkRecord> {
        self.connector.as_ref().map_or_else(Vec::new, |connector| connector.networks(self.stack.now()))
    }

    /// Takes in what another host has learned.
    pub fn take_prior(&mut self, records: &[NetworkRecord]) {
        if let Some(connector) = &mut self.connector {
            connector.take_prior(self.stack.now(), records);
        }
    }

    /// Nothing is visited for this long.
    pub fn idle(&mut self, time: Duration) {
        let until = self.stack.now() + time;
        while self.stack.now() < until {
            self.turn(until);
        }
        self.outputs.clear();
    }

    /// Visits site number `site` of the world as often as it takes to connect or fail.
    ///
    /// # Panics
    ///
    /// If the world has no such site.
    pub fn visit(&mut self, site: usize, want: Want) -> Visit {
        self.visit_within(site, want, None)
    }

    /// As [`Session::visit`]; a program that has waited for `patience` in one call goes away.
    pub fn visit_within(&mut self, site: usize, want: Want, patience: Option<Duration>) -> Visit {
        let name = self.sites[site].name.clone();
        let began = self.stack.now();
        self.outputs.clear();
        let mut first_attempt = None;
        let list = if self.connector.is_some() {
            self.look_around();
            let ask = Resolve { app: PROGRAM.into(), name, want, port: Some(PORT) };
            let request = self.request();
            self.input(Input::Resolve(request, ask));
            match self.wait(request, site, patience, &mut first_attempt) {
                Reply::Resolved(list) => list,
                _ => Vec::new(),
            }
        } else {
            glibc::getaddrinfo(&mut self.stack, &mut self.next_query, &name, want).unwrap_or_default()
        };
        let answered = self.stack.now();
        let lookup = first_attempt.map_or(answered, |at: Instant| at.min(answered)) - began;
        let lookup_ok = !list.is_empty();
        let (mut reached, mut in_vain) = (None, Duration::ZERO);
        for addr in list {
            in_vain = self.stack.now() - answered;
            reached = self.connect(addr, site, patience);
            if reached.is_some() {
                self.connections += 1;
                break;
            }
        }
        let total = self.stack.now() - began;
        let getaddrinfo = answered - began;
        Visit { lookup, connect: total - lookup, getaddrinfo, total, in_vain, reached, lookup_ok }
    }

    /// A blocking connect of the program to `addr`.
    fn connect(&mut self, addr: IpAddr, site: usize, patience: Option<Duration>) -> Option<IpAddr> {
        if self.connector.is_some() {
            let domain = Family::of(addr);
            let claim = Claim {
                app: PROGRAM.into(),
                to: SocketAddr::new(addr, PORT),
                domain,
                nonblocking: false,
                accepts_mapped: domain == Family::V6,
                rescuable: None,
            };
            let request = self.request();
            self.input(Input::Claim(request, claim));
            match self.wait(request, site, patience, &mut None) {
                Reply::Connected(to) => return Some(to),
                Reply::LeftAlone => {}
                _ => return None,
            }
        }
        self.next_own += 1;
        let own = self.next_own;
        let until = patience.map_or(Instant::FAR_FUTURE, |p| self.stack.now() + p);
        self.stack.connect(own, addr);
        loop {
            match self.turn(until) {
                Some(Event::Connected { socket, .. }) if socket == own => return Some(addr),
                Some(Event::Failed { socket, .. }) if socket == own => return None,
                Some(_) => {}
                None if self.stack.now() >= until => {
                    self.stack.close(own);
                    return None;
                }
                None => {}
            }
        }
    }

    /// Tells the connector if routes have come or gone since the last lookup, as the supervisor does.
    fn look_around(&mut self) {
        let routes = (self.stack.has_route(Family::V4), self.stack.has_route(Family::V6));
        if routes != self.routes {
            self.routes = routes;
            self.input(Input::Network { id: NetworkId::default(), v4: routes.0, v6: routes.1, v4_first: false });
        }
    }

    fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// Lets time pass until the connector has answered `request`; notes when the first attempt to `site` began.
    fn wait(
        &mut self,
        request: RequestId,
        site: usize,
        patience: Option<Duration>,
        first_attempt: &mut Option<Instant>,
    ) -> Reply {
        let until = patience.map_or(Instant::FAR_FUTURE, |p| self.stack.now() + p);
        loop {
            let mut reply = None;
            for output in std::mem::take(&mut self.outputs) {
                match output {
                    Output::Connect { id, to, .. } => {
                        let of_site = self.sites[site].v4.iter().chain(&self.sites[site].v6).any(|h| h.addr == to.ip());
                        if first_attempt.is_none() && of_site {
                            *first_attempt = self.began.get(&id.0).copied();
                        }
                    }
                    Output::Answer(r, Resolved::Addresses(list)) if r == request => reply = Some(Reply::Resolved(list)),
                    Output::Answer(r, _) if r == request => reply = Some(Reply::Resolved(Vec::new())),
                    Output::HandOver { request: r, attempt, .. } if r == request => {
                        reply = self.targets.get(&attempt).map(|to| Reply::Connected(*to));
                    }
                    Output::Fail(r, _) if r == request => reply = Some(Reply::NotConnected),
                    Output::Pass(r, _) if r == request => reply = Some(Reply::LeftAlone),
                    _ => {}
                }
            }
            if let Some(reply) = reply {
                return reply;
            }
            if self.stack.now() >= until {
                self.input(Input::Abandon(request));
                return Reply::OutOfPatience;
            }
            self.turn(until);
        }
    }

    /// Tells the connector, and carries out what it says.
    fn input(&mut self, input: Input) {
        if let Some(connector) = &mut self.connector {
            connector.handle_input(self.stack.now(), input);
            self.carry_out();
        }
    }

    /// One event of the network or one deadline of the connector, at most until `until`. An event that was not the
    /// connector's is returned.
    fn turn(&mut self, until: Instant) -> Option<Event> {
        let deadline = self.connector.as_ref().and_then(Connector::poll_timeout).map(|d| d.at.max(self.stack.now()));
        let wake = deadline.filter(|at| *at <= until);
        let before = self.stack.now();
        let event = self.stack.step(wake.unwrap_or(until));
        let now = self.stack.now();
        match event {
            Some(Event::Answer { query, result }) if query < OWN_SOCKETS => {
                self.input(Input::Lookup(QueryId(query), result));
            }
            Some(Event::Connected { socket, .. }) if socket < OWN_SOCKETS => {
                let took = self.began.get(&socket).map_or(Duration::ZERO, |at| now - *at);
                self.input(Input::Attempt(AttemptId(socket), AttemptResult::Connected(took)));
            }
            Some(Event::Failed { socket, errno }) if socket < OWN_SOCKETS => {
                self.input(Input::Attempt(AttemptId(socket), AttemptResult::Failed(errno)));
            }
            Some(event) => return Some(event),
            None if wake.is_some_and(|at| now >= at) => {
                if let Some(connector) = &mut self.connector {
                    connector.handle_timeout(now);
                }
                self.carry_out();
            }
            None => assert!(now > before || now >= until, "nothing is to come, and yet somebody waits at {now:?}"),
        }
        None
    }

    fn carry_out(&mut self) {
        let Some(connector) = &mut self.connector else { return };
        while let Some(output) = connector.poll_output() {
            match &output {
                Output::Query { id, name, record, server } => self.stack.ask(id.0, name, *record, *server as usize),
                Output::Forget(id) | Output::Late(id) => self.stack.forget(id.0),
                Output::Connect { id, to, .. } => {
                    self.targets.insert(*id, to.ip());
                    self.began.insert(id.0, self.stack.now());
                    self.stack.connect(id.0, to.ip());
                }
                Output::Close(id) => self.stack.close(id.0),
                Output::Answer(..)
                | Output::Answered(..)
                | Output::HandOver { .. }
                | Output::Watch(_)
                | Output::Begin { .. }
                | Output::Rescue { .. }
                | Output::Fail(..)
                | Output::Pass(..) => {}
            }
            self.outputs.push(output);
        }
    }
}
