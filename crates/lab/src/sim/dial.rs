//! A host's programs and the connector below them: each connection that they want is a getaddrinfo, unless the addresses are known, then a
//! blocking connect to the first of them, on failure to the next (as wget and Python do).
//!
//! A [`Dialler`] is a machine: it hears what happens on the network, and says what the client's machine is to do. The connector answers
//! as it does in the supervisor; what it leaves alone goes to the kernel. What never happens here: a decision of headstart's.

use super::stack::Event;
use crate::world::{Fate, Host, Site, World};
use headstart_core::connect::{
    self, AppId, AttemptId, AttemptResult, Claim, Connector, Input, Output, QueryId, RequestId, Resolve, Resolved, Want,
};
use headstart_core::machine::{Deadline, Machine};
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// The port that is connected to; nothing depends on its number.
const PORT: u16 = 443;
/// Sockets and queries that the connector knows nothing of, apart from those that it numbers.
pub(super) const OWN: u64 = 1 << 63;

/// A connection that a program wants, and what has come of it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Its number, as the program has it.
    pub wish: usize,
    /// To which site of the world.
    pub site: usize,
    /// By addresses of which families.
    pub want: Want,
    /// Over QUIC: addresses are all that is needed.
    pub over_quic: bool,
    /// The addresses of the site, once they are known.
    pub addresses: Vec<IpAddr>,
    /// When it was called for.
    pub began: Instant,
    /// When the connector first tried an address of the site since.
    pub attempted: Option<Instant>,
    /// When its addresses were known, or that there are none.
    pub resolved: Instant,
    /// When the program tried the last of its addresses, and how many it has tried.
    pub last: Instant,
    pub tried: usize,
    /// When it last began to wait.
    pub since: Instant,
    /// The socket and the peer that it reached.
    pub connected: Option<(u64, IpAddr)>,
}

impl Call {
    /// A call for any address of this site.
    pub fn new(now: Instant, wish: usize, site: usize) -> Self {
        Self {
            wish,
            site,
            want: Want::Both,
            over_quic: false,
            addresses: Vec::new(),
            began: now,
            attempted: None,
            resolved: now,
            last: now,
            tried: 0,
            since: now,
            connected: None,
        }
    }

    /// Until there was an address to go on: the first attempt for it, or the answer to getaddrinfo if that came first.
    pub fn lookup(&self) -> Duration {
        self.attempted.map_or(self.resolved, |at| at.min(self.resolved)) - self.began
    }
}

/// What a program waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    /// What the connector says.
    Request(RequestId),
    /// A connect of its own.
    Socket(u64),
}

/// What a connector hears when its host is on another network, with routes for both families.
pub(super) fn network(place: u8) -> Input {
    Input::Network { id: NetworkId(place.into()), v4: true, v6: true, v4_first: false }
}

fn answering(site: &Site) -> impl Iterator<Item = &Host> {
    site.v4.iter().chain(&site.v6).filter(|h| h.fate == Fate::Answers)
}

/// See the module.
pub(super) struct Dialler {
    pub connector: Connector,
    app: AppId,
    sites: Vec<Site>,
    /// Everything is ready when it is asked for: the nearest address that answers.
    ready: bool,
    /// A program that has waited for so long in one call gives that one up.
    pub patience: Option<Duration>,
    waiting: BTreeMap<Wait, Call>,
    /// Where attempts of the connector lead, and when they began.
    opened: HashMap<AttemptId, (IpAddr, Instant)>,
    account: u32,
    requests: u64,
    sockets: u64,
    due: Option<Deadline>,
    outputs: VecDeque<Output>,
    done: VecDeque<Call>,
    /// Times that the connector woke up by itself.
    pub wakeups: u64,
}

impl Dialler {
    /// On a host in `world`, as far as `app` is concerned.
    pub fn new(world: &World, settings: connect::Settings, app: &str) -> Self {
        let mut connector = Connector::new(settings);
        let servers = u32::try_from(world.resolvers.len()).unwrap_or(u32::MAX);
        connector.handle_input(Instant::ZERO, Input::Servers(servers));
        Self {
            connector,
            app: app.into(),
            sites: world.sites.clone(),
            ready: false,
            patience: None,
            waiting: BTreeMap::new(),
            opened: HashMap::new(),
            account: 0,
            requests: 0,
            sockets: OWN,
            due: None,
            outputs: VecDeque::new(),
            done: VecDeque::new(),
            wakeups: 0,
        }
    }

    /// The same where names and connections cost nothing, if `ready`: the nearest address of a site, at once.
    #[must_use]
    pub fn ready(self, ready: bool) -> Self {
        Self { ready, ..self }
    }

    /// Connections that were opened and never used.
    pub fn unused(&self) -> u64 {
        self.connector.tally().unused
    }

    /// Whose calls there are.
    pub fn app(&self) -> &AppId {
        &self.app
    }

    /// The name of a site.
    pub fn name(&self, site: usize) -> &str {
        &self.sites[site].name
    }

    /// Something is said to the connector that no call is about.
    pub fn tell(&mut self, now: Instant, input: Input) {
        self.connector.handle_input(now, input);
        self.settle(now);
    }

    /// A run of `app` begins, as the supervisor sees it.
    pub fn launched(&mut self, now: Instant, app: &str) {
        self.app = app.into();
        self.account += 1;
        self.tell(now, Input::Launched { account: self.account, app: self.app.clone() });
    }

    /// It has ended.
    pub fn ended(&mut self, now: Instant) {
        self.connector.close_account(self.account);
        self.settle(now);
    }

    /// The host is on another network now, `world`, with routes for both families.
    pub fn moved(&mut self, now: Instant, world: &World, place: u8) {
        self.sites.clone_from(&world.sites);
        self.tell(now, network(place));
    }

    /// Whether a call has not ended.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A call that has ended, the oldest first.
    pub fn done(&mut self) -> Option<Call> {
        self.done.pop_front()
    }

    /// No call is waited for any more.
    pub fn forget_calls(&mut self) {
        self.waiting.clear();
        self.done.clear();
    }

    /// A program calls for a connection: by its addresses, if they are known.
    pub fn dial(&mut self, now: Instant, call: Call) {
        if self.ready {
            let nearest = answering(&self.sites[call.site]).min_by_key(|h| h.extra_rtt).map(|h| h.addr);
            return self.ends_at(now, call, nearest);
        }
        if call.addresses.is_empty() {
            // A program that goes on over UDP wants no connection.
            let port = (!call.over_quic).then_some(PORT);
            let (name, want) = (self.name(call.site).to_owned(), call.want);
            let ask = Resolve { app: self.app.clone(), name, want, port };
            let request = self.request(now, call);
            self.connector.handle_input(now, Input::Resolve(request, ask));
        } else {
            self.connect(now, call);
        }
        self.settle(now);
    }

    fn request(&mut self, now: Instant, call: Call) -> RequestId {
        self.requests += 1;
        let request = RequestId(u64::from(self.account) << 32 | self.requests);
        self.waiting.insert(Wait::Request(request), Call { since: now, ..call });
        request
    }

    fn answered(&mut self, request: RequestId) -> Option<Call> {
        self.waiting.remove(&Wait::Request(request))
    }

    /// To the next of its addresses.
    fn connect(&mut self, now: Instant, mut call: Call) {
        if call.over_quic {
            let answers = |a: &IpAddr| self.sites.iter().flat_map(answering).any(|h| h.addr == *a);
            let first = call.addresses.iter().copied().find(answers);
            return self.ends_at(now, call, first);
        }
        let Some(to) = call.addresses.get(call.tried).copied() else { return self.ends_at(now, call, None) };
        call.tried += 1;
        call.last = now;
        let domain = Family::of(to);
        let claim = Claim {
            app: self.app.clone(),
            to: SocketAddr::new(to, PORT),
            domain,
            nonblocking: false,
            accepts_mapped: domain == Family::V6,
            rescuable: None,
        };
        let request = self.request(now, call);
        self.connector.handle_input(now, Input::Claim(request, claim));
    }

    /// The kernel tries the address that the call is for.
    fn connect_alone(&mut self, now: Instant, call: Call) {
        let Some(to) = call.tried.checked_sub(1).map(|last| call.addresses[last]) else {
            return self.ends_at(now, call, None);
        };
        self.sockets += 1;
        self.waiting.insert(Wait::Socket(self.sockets), Call { since: now, ..call });
        let (id, to) = (AttemptId(self.sockets), SocketAddr::new(to, PORT));
        self.outputs.push_back(Output::Connect { id, to, domain: Family::of(to.ip()) });
    }

    /// It has come to its end, with a socket that is known only here if there is a peer.
    fn ends_at(&mut self, now: Instant, mut call: Call, peer: Option<IpAddr>) {
        if call.addresses.is_empty() {
            call.resolved = now;
        }
        self.sockets += 1;
        self.ends(call, peer.map(|peer| (self.sockets, peer)));
    }

    fn ends(&mut self, call: Call, connected: Option<(u64, IpAddr)>) {
        self.done.push_back(Call { connected, ..call });
    }

    /// Programs that have no patience left go on.
    fn lose_patience(&mut self, now: Instant) {
        let late = |(wait, call): (&Wait, &Call)| (call.since + self.patience? <= now).then_some(*wait);
        let late: Vec<_> = self.waiting.iter().filter_map(late).collect();
        for wait in late {
            match wait {
                Wait::Request(request) => self.connector.handle_input(now, Input::Abandon(request)),
                Wait::Socket(socket) => self.outputs.push_back(Output::Close(AttemptId(socket))),
            }
            if let Some(call) = self.waiting.remove(&wait) {
                self.connect(now, call);
            }
        }
    }

    /// Takes in what the connector says.
    fn settle(&mut self, now: Instant) {
        while let Some(output) = self.connector.poll_output() {
            match output {
                Output::Answer(request, resolved) => {
                    let Some(mut call) = self.answered(request) else { continue };
                    if let Resolved::Addresses(list) = resolved {
                        call.addresses = list;
                    }
                    call.resolved = now;
                    self.connect(now, call);
                }
                // A blocking call gets what is connected.
                Output::HandOver { request, attempt, .. } => {
                    let (Some(call), Some((to, _))) = (self.answered(request), self.opened.get(&attempt).copied())
                    else {
                        continue;
                    };
                    self.ends(call, Some((attempt.0, to)));
                }
                Output::Fail(request, _) => {
                    if let Some(call) = self.answered(request) {
                        self.connect(now, call);
                    }
                }
                Output::Pass(request, _) => {
                    if let Some(call) = self.answered(request) {
                        self.connect_alone(now, call);
                    }
                }
                Output::Connect { id, to, .. } => {
                    self.opened.insert(id, (to.ip(), now));
                    self.attempted(now, to.ip());
                    self.outputs.push_back(output);
                }
                Output::Query { .. } | Output::Forget(_) | Output::Late(_) | Output::Close(_) => {
                    self.outputs.push_back(output);
                }
                Output::Answered(..) | Output::Watch(_) | Output::Begin { .. } | Output::Rescue { .. } => {}
            }
        }
        self.due = self.connector.poll_timeout();
    }

    /// The connector tries an address.
    fn attempted(&mut self, now: Instant, to: IpAddr) {
        for call in self.waiting.values_mut().filter(|call| call.attempted.is_none()) {
            let site = &self.sites[call.site];
            call.attempted = site.v4.iter().chain(&site.v6).any(|h| h.addr == to).then_some(now);
        }
    }
}

impl Machine for Dialler {
    type Input = Event;
    /// Of the connector's, those that are for the network; numbers from [`OWN`] on are of programs' own sockets.
    type Output = Output;

    fn handle_input(&mut self, now: Instant, event: Event) {
        let (socket, result) = match event {
            Event::Answer { query, result } => return self.tell(now, Input::Lookup(QueryId(query), result)),
            Event::Connected { socket, .. } => {
                let took = self.opened.get(&AttemptId(socket)).map_or(Duration::ZERO, |(_, began)| now - *began);
                (socket, AttemptResult::Connected(took))
            }
            Event::Failed { socket, errno } => (socket, AttemptResult::Failed(errno)),
            Event::Segment(_) | Event::Company(_) => return,
        };
        if socket < OWN {
            return self.tell(now, Input::Attempt(AttemptId(socket), result));
        }
        let Some(call) = self.waiting.remove(&Wait::Socket(socket)) else { return };
        match result {
            AttemptResult::Connected(_) => {
                let peer = call.addresses[call.tried - 1];
                self.ends(call, Some((socket, peer)));
            }
            _ => self.connect(now, call),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due.at <= now) {
            self.wakeups += 1;
            self.connector.handle_timeout(now);
            self.settle(now);
        }
        if self.patience.is_some() {
            self.lose_patience(now);
            self.settle(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let patience = |call: &Call| Some(Deadline { at: call.since + self.patience?, why: "patience" });
        Deadline::earliest(self.waiting.values().map(patience).chain([self.due]))
    }
}
