//! A host with apps that are launched again and again: many names at once, each looked up and connected to when the app
//! wants it, whether the last is done or not. Below it the very `Connector` that the supervisor runs.
//!
//! Each connection is wanted as any program wants one: getaddrinfo, then a blocking connect to the first address of the
//! list, on failure to the next. What is not modelled is what is not in [`super`]; servers close no connection here.

use super::behind::Behind;
use super::stack::{Event, Stack, Traffic};
use crate::world::{Site, World};
use headstart_core::connect::{self, Claim, Connector, Input, Output, RequestId, Resolve, Resolved, Tally, Want};
use headstart_core::connect::{AttemptId, AttemptResult, QueryId};
use headstart_core::machine::Machine;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use headstart_link::ParseError;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// The port that is connected to.
const PORT: u16 = 443;
/// Sockets of the app's own, apart from those that the connector numbers.
const OWN_SOCKETS: u64 = 1 << 63;

/// A connection that an app wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How long after its launch.
    pub at: Duration,
    /// To which site of the world.
    pub site: usize,
}

/// What became of a wish, as the app saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Until there was an address to go on: the first attempt for it, or the answer to getaddrinfo if that came first.
    pub lookup: Duration,
    /// From then until there was a connection, or none to be had.
    pub connect: Duration,
    /// getaddrinfo was answered at once.
    pub hit: bool,
    /// connect was answered at once: not even one round trip.
    pub at_once: bool,
    /// There was a connection.
    pub connected: bool,
}

/// What a launch came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The wishes, in order.
    pub granted: Vec<Granted>,
    /// When queries were sent, since the launch.
    pub queries: Vec<Duration>,
    /// The connector's own counters for this launch.
    pub tally: Tally,
}

enum Stage {
    Resolving,
    Resolved { left: VecDeque<IpAddr> },
    Connecting { to: IpAddr, left: VecDeque<IpAddr> },
    Alone { socket: u64, left: VecDeque<IpAddr> },
}

struct Pending {
    wish: usize,
    site: usize,
    began: Instant,
    asked_to_connect: Instant,
    first_attempt: Option<Instant>,
    answered: Option<Instant>,
    stage: Stage,
}

/// The host. See the module.
pub struct AppHost {
    stack: Stack,
    sites: Vec<Site>,
    connector: Connector,
    /// What is between its programs and the network, on a phone.
    engine: Option<Behind>,
    app: connect::AppId,
    account: u32,
    next_request: u64,
    next_own: u64,
    began: HashMap<u64, Instant>,
    pending: BTreeMap<RequestId, Pending>,
    queries: Vec<Instant>,
    /// Of the networks before this one.
    before: Traffic,
    wakeups: u64,
}

impl AppHost {
    /// A host on which no app was ever launched.
    pub fn new(world: &World, settings: connect::Settings) -> Result<Self, ParseError> {
        let servers = u32::try_from(world.resolvers.len()).unwrap_or(u32::MAX);
        let mut connector = Connector::new(settings);
        connector.handle_input(Instant::ZERO, Input::Servers(servers));
        Ok(Self {
            stack: Stack::new(world)?,
            sites: world.sites.clone(),
            connector,
            engine: None,
            app: "".into(),
            account: 0,
            next_request: 0,
            next_own: OWN_SOCKETS,
            began: HashMap::new(),
            pending: BTreeMap::new(),
            queries: Vec::new(),
            before: Traffic::default(),
            wakeups: 0,
        })
    }

    /// The same host with an engine of these settings between its apps and the network.
    #[must_use]
    pub fn behind(self, engine: connect::Settings) -> Self {
        Self { engine: Some(Behind::new(engine)), ..self }
    }

    /// The host goes to another network, with routes for both families: `world` has the same sites behind another link.
    pub fn move_to(&mut self, place: u8, world: &World) -> Result<(), ParseError> {
        self.before = self.traffic();
        self.stack = Stack::new(world)?.starting(self.stack.now());
        self.sites.clone_from(&world.sites);
        let here = || Input::Network { id: NetworkId(place.into()), v4: true, v6: true, v4_first: false };
        if let Some(engine) = &mut self.engine {
            engine.moved(&mut self.stack, here());
        }
        self.input(here(), &mut []);
        Ok(())
    }

    /// What was sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.before + self.stack.traffic()
    }

    /// Connections that connectors have opened, and that no app has got.
    pub fn unused(&self) -> u64 {
        self.connector.tally().unused + self.engine.as_ref().map_or(0, Behind::unused)
    }

    /// Times that connectors woke up by themselves, calls and answers apart.
    pub fn wakeups(&self) -> u64 {
        self.wakeups + self.engine.as_ref().map_or(0, |engine| engine.wakeups)
    }

    /// Launches this app, grants its wishes (in order of time), and ends it `stays` after its launch.
    ///
    /// # Panics
    ///
    /// If a wish is for a site that the world does not have.
    pub fn launch(&mut self, app: &str, wishes: &[Wish], stays: Duration) -> Launch {
        self.app = app.into();
        let (began, before) = (self.stack.now(), self.connector.tally());
        self.account += 1;
        self.queries.clear();
        self.engine.iter_mut().for_each(|engine| engine.queries.clear());
        let mut granted = vec![None; wishes.len()];
        self.input(Input::Launched { account: self.account, app: self.app.clone() }, &mut granted);
        for (n, wish) in wishes.iter().enumerate() {
            self.until(began + wish.at, &mut granted);
            let now = self.stack.now();
            let request = self.request();
            let pending = Pending {
                wish: n,
                site: wish.site,
                began: now,
                asked_to_connect: now,
                first_attempt: None,
                answered: None,
                stage: Stage::Resolving,
            };
            self.pending.insert(request, pending);
            let name = self.sites[wish.site].name.clone();
            let ask = Resolve { app: self.app.clone(), name, want: Want::Both, port: Some(PORT) };
            self.input(Input::Resolve(request, ask), &mut granted);
        }
        self.until(began + stays, &mut granted);
        while !self.pending.is_empty() {
            self.turn(Instant::FAR_FUTURE, &mut granted);
        }
        let engines = self.engine.iter().flat_map(|engine| &engine.queries);
        let mut queries: Vec<_> = self.queries.iter().chain(engines).map(|at| *at - began).collect();
        queries.sort_unstable();
        self.connector.close_account(self.account);
        self.carry_out(&mut []);
        let tally = self.connector.tally().since(&before);
        Launch { granted: granted.into_iter().flatten().collect(), queries, tally }
    }

    /// No program does anything for this long.
    pub fn idle(&mut self, time: Duration) {
        let until = self.stack.now() + time;
        self.until(until, &mut []);
    }

    /// The counters over all launches.
    pub fn tally(&self) -> Tally {
        self.connector.tally()
    }

    fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(u64::from(self.account) << 32 | self.next_request)
    }

    fn until(&mut self, until: Instant, granted: &mut [Option<Granted>]) {
        while self.stack.now() < until {
            self.turn(until, granted);
        }
    }

    /// One event of the network or one deadline of the connector, at most until `until`.
    fn turn(&mut self, until: Instant, granted: &mut [Option<Granted>]) {
        let before = self.stack.now();
        let own = self.connector.poll_timeout().map(|d| d.at.max(before));
        let engines = self.engine.as_ref().and_then(Behind::deadline).map(|d| d.at.max(before));
        let wake = own.into_iter().chain(engines).min().filter(|at| *at <= until);
        let ended = self.engine.as_mut().and_then(Behind::ended);
        let mut event = ended.or_else(|| self.stack.step(wake.unwrap_or(until)));
        if let Some(engine) = &mut self.engine
            && let Some(happened) = event.take()
        {
            event = engine.hears(&mut self.stack, happened);
            if event.is_none() {
                return;
            }
        }
        let now = self.stack.now();
        match event {
            Some(Event::Answer { query, result }) => self.input(Input::Lookup(QueryId(query), result), granted),
            Some(Event::Connected { socket, .. }) if socket < OWN_SOCKETS => {
                let took = self.began.get(&socket).map_or(Duration::ZERO, |at| now - *at);
                let result = AttemptResult::Connected(took);
                self.input(Input::Attempt(AttemptId(socket), result), granted);
            }
            Some(Event::Failed { socket, errno }) if socket < OWN_SOCKETS => {
                self.input(Input::Attempt(AttemptId(socket), AttemptResult::Failed(errno)), granted);
            }
            // Nothing is said on these connections.
            Some(Event::Segment(_) | Event::Company(_)) => {}
            Some(Event::Connected { socket, .. } | Event::Failed { socket, .. }) => {
                let connected = matches!(event, Some(Event::Connected { .. }));
                let own = |p: &Pending| matches!(p.stage, Stage::Alone { socket: s, .. } if s == socket);
                let request = self.pending.iter().find(|(_, p)| own(p)).map(|(r, _)| *r);
                if let Some(request) = request {
                    if connected { self.grant(request, true, granted) } else { self.next_address(request, granted) }
                }
                self.carry_out(granted);
            }
            None if wake.is_some_and(|at| now >= at) => {
                if let Some(engine) = &mut self.engine {
                    engine.timeout(&mut self.stack);
                }
                self.wakeups += u64::from(self.connector.wake(now).is_some());
                self.carry_out(granted);
            }
            None => assert!(now > before || now >= until, "nothing is to come, and yet somebody waits at {now:?}"),
        }
    }

    fn input(&mut self, input: Input, granted: &mut [Option<Granted>]) {
        self.connector.handle_input(self.stack.now(), input);
        self.carry_out(granted);
    }

    fn carry_out(&mut self, granted: &mut [Option<Granted>]) {
        while let Some(output) = self.connector.poll_output() {
            let now = self.stack.now();
            match output {
                Output::Query { id, name, record, server } => {
                    if let Some(engine) = &mut self.engine
                        && engine.asks(&mut self.stack, id.0, &self.app, &name, record)
                    {
                        continue;
                    }
                    self.queries.push(now);
                    self.stack.ask(id.0, &name, record, server as usize);
                }
                Output::Forget(id) | Output::Late(id) => self.stack.forget(id.0),
                Output::Connect { id, to, .. } => {
                    self.began.insert(id.0, now);
                    for pending in self.pending.values_mut().filter(|p| p.first_attempt.is_none()) {
                        let site = &self.sites[pending.site];
                        if site.v4.iter().chain(&site.v6).any(|h| h.addr == to.ip()) {
                            pending.first_attempt = Some(now);
                        }
                    }
                    self.begin(id.0, to);
                }
                Output::Close(id) => match &mut self.engine {
                    Some(engine) => engine.close(&mut self.stack, id.0),
                    None => self.stack.close(id.0),
                },
                Output::Answer(request, resolved) => {
                    let Some(pending) = self.pending.get_mut(&request) else { continue };
                    pending.answered = Some(now);
                    pending.asked_to_connect = now;
                    let Resolved::Addresses(list) = resolved else {
                        self.grant(request, false, granted);
                        continue;
                    };
                    pending.stage = Stage::Resolved { left: list.into() };
                    self.next_address(request, granted);
                }
                Output::HandOver { request, connected: true, .. } => self.grant(request, true, granted),
                Output::Fail(request, _) => self.next_address(request, granted),
                Output::Pass(request, _) => self.connect_alone(request),
                Output::HandOver { .. }
                | Output::Answered(..)
                | Output::Watch(_)
                | Output::Begin { .. }
                | Output::Rescue { .. } => {}
            }
        }
    }

    /// The app connects to the next address of its list. What the connector says to that is for the caller to carry out.
    fn next_address(&mut self, request: RequestId, granted: &mut [Option<Granted>]) {
        let Some(pending) = self.pending.get_mut(&request) else { return };
        let (Stage::Resolved { left } | Stage::Connecting { left, .. } | Stage::Alone { left, .. }) =
            &mut pending.stage
        else {
            return;
        };
        let mut left = std::mem::take(left);
        let Some(to) = left.pop_front() else { return self.grant(request, false, granted) };
        pending.stage = Stage::Connecting { to, left };
        let domain = Family::of(to);
        let claim = Claim {
            app: self.app.clone(),
            to: SocketAddr::new(to, PORT),
            domain,
            nonblocking: false,
            accepts_mapped: domain == Family::V6,
            rescuable: None,
        };
        self.connector.handle_input(self.stack.now(), Input::Claim(request, claim));
    }

    /// The call was left to the app: its own connect, to the address that it wanted.
    fn connect_alone(&mut self, request: RequestId) {
        let Some(pending) = self.pending.get_mut(&request) else { return };
        let Stage::Connecting { to, left } = &mut pending.stage else { return };
        self.next_own += 1;
        let (socket, to, left) = (self.next_own, *to, std::mem::take(left));
        pending.stage = Stage::Alone { socket, left };
        self.begin(socket, SocketAddr::new(to, PORT));
    }

    /// A connection of this host begins, behind the engine if there is one.
    fn begin(&mut self, socket: u64, to: SocketAddr) {
        match &mut self.engine {
            Some(engine) => engine.connect(&mut self.stack, &self.app, socket, to),
            None => self.stack.connect(socket, to.ip()),
        }
    }

    fn grant(&mut self, request: RequestId, connected: bool, granted: &mut [Option<Granted>]) {
        let Some(pending) = self.pending.remove(&request) else { return };
        let now = self.stack.now();
        let answered = pending.answered.unwrap_or(now);
        let had_address = pending.first_attempt.map_or(answered, |at| at.min(answered));
        if let Some(slot) = granted.get_mut(pending.wish) {
            *slot = Some(Granted {
                lookup: had_address - pending.began,
                connect: now - had_address,
                hit: answered == pending.began,
                at_once: connected && now == pending.asked_to_connect,
                connected,
            });
        }
    }
}
