//! The connect engine behind programs' SYNs (`--accelerate`): which addresses belong to one name is overheard from the answers that
//! programs get over DNS, and a connection to one of them is raced over all.
//!
//! No host is asked and nothing is opened ahead of time: what programs do not cause is not sent. What was said to one
//! user's programs is not used for another's. Nothing is decided here; it is the [`Connector`]'s hands, as the supervisor is.

use super::attribution::Here;
use super::{ATTEMPTS, Whose, sockets};
use crate::forward::exit::Exit;
use crate::forward::sockets::{Origin, Stock};
use crate::poll::{Interest, Poll};
use crate::surroundings;
use crate::sys::netlink::Watch;
use crate::tcp;
use headstart_core::connect::{
    AppId, AttemptId, AttemptResult, Claim, Connector, Input, LookupResult, Output, RequestId, Settings,
};
use headstart_core::forward::{DnsExchange, FlowId};
use headstart_core::machine::{Deadline, Machine};
use headstart_core::path::Family;
use headstart_core::path::identity::Surroundings;
use headstart_core::time::Instant;
use headstart_core::wire::dns::Answer;
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A connection of a program that waits for its race.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// Its name in the forwarder.
    pub flow: FlowId,
    /// The program's end.
    pub app: SocketAddr,
    /// The peer that the program wants to reach.
    pub peer: SocketAddr,
    /// The traffic class of the program's packets.
    pub traffic_class: u8,
    /// Whether Nagle's algorithm is off to begin with.
    pub no_delay: bool,
    /// Whose it is.
    pub whose: Whose,
}

/// What has become of a race.
#[derive(Debug)]
pub(super) enum Ended {
    /// This connection stands, to this address.
    Connected(OwnedFd, SocketAddr),
    /// None could be opened.
    Failed(Errno),
    /// There was no race: the program's own connection is to be opened.
    NotRun,
}

/// A connection that is being opened.
#[derive(Debug)]
struct Attempt {
    socket: OwnedFd,
    to: SocketAddr,
    began: Instant,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Accelerator {
    connector: Connector,
    /// `None` where the kernel does not tell: then each look is a full one.
    watch: Option<Watch>,
    seen: Option<Surroundings>,
    /// The network is given by the caller, not looked up.
    fixed_network: bool,
    /// Nothing is raced where a login is asked for.
    captive: bool,
    /// Users whose programs got answers for names.
    users: BTreeSet<u32>,
    /// How packets leave the host.
    pub exit: Rc<Exit>,
    attempts: HashMap<u64, Attempt>,
    waiting: HashMap<u64, Waiting>,
    ended: VecDeque<(Waiting, Ended)>,
}

/// The number of a flow's request: no two of those that are open at a time share it.
fn request(flow: FlowId) -> u64 {
    flow.0 & u64::from(u32::MAX)
}

/// The program that an answer was for, as the connector knows programs.
fn app_of(user: u32) -> AppId {
    format!("user {user}").into()
}

impl Accelerator {
    /// In the network of the calling thread.
    pub fn new(settings: Settings) -> Self {
        Self::of(settings, Watch::open().ok())
    }

    fn of(settings: Settings, watch: Option<Watch>) -> Self {
        Self {
            connector: Connector::new(settings),
            watch,
            seen: None,
            fixed_network: false,
            captive: false,
            users: BTreeSet::new(),
            exit: Rc::default(),
            attempts: HashMap::new(),
            waiting: HashMap::new(),
            ended: VecDeque::new(),
        }
    }

    /// Where another program says on which network the host is ([`Self::network_changed`]).
    pub fn of_program(settings: Settings) -> Self {
        Self { fixed_network: true, ..Self::of(settings, None) }
    }

    /// The host is on this network.
    pub fn network_changed(&mut self, now: Instant, poll: &Poll, here: &Here) {
        let (id, (v4, v6)) = (here.id, here.families);
        self.captive = here.captive;
        self.feed(now, poll, Input::Network { id, v4, v6, v4_first: false });
    }

    /// A program of this user received an answer over DNS.
    pub fn on_dns_answer(&mut self, now: Instant, poll: &Poll, user: u32, lookup: &DnsExchange) {
        let Some((record, answer)) = &lookup.answer else { return };
        let result = match answer.clone() {
            Answer::Addresses(list, ttl) => LookupResult::Addresses(list, ttl),
            Answer::NoData(ttl) => LookupResult::NoData(ttl),
            Answer::NxDomain(ttl) => LookupResult::NxDomain(ttl),
            // What an HTTPS record says besides addresses is for the program that has read it.
            Answer::Services(..) | Answer::Refused | Answer::NotUnderstood | Answer::Truncated => return,
        };
        self.look_around(now, poll);
        self.users.insert(user);
        let (app, name) = (app_of(user), lookup.name.clone());
        self.feed(now, poll, Input::Overheard { app, name, record: *record, result });
    }

    /// Whether there is anything to race: this user's programs got another address of the host at `peer`.
    pub fn knows_another(&mut self, now: Instant, poll: &Poll, user: u32, peer: IpAddr) -> bool {
        self.look_around(now, poll);
        !self.captive && self.connector.knows_another(&app_of(user), peer)
    }

    /// Whether there is anything to race for a program of any user.
    pub fn anyone_knows_another(&self, peer: IpAddr) -> bool {
        !self.captive && self.users.iter().any(|user| self.connector.knows_another(&app_of(*user), peer))
    }

    /// Races for a connection of this user's program.
    pub fn race(&mut self, now: Instant, poll: &Poll, user: u32, waiting: Waiting) {
        let claim = Claim {
            app: app_of(user),
            to: waiting.peer,
            // Only we have the socket, and it may be of either family: as one is that takes mapped addresses.
            domain: Family::V6,
            accepts_mapped: true,
            nonblocking: false,
            rescuable: None,
        };
        let number = request(waiting.flow);
        self.waiting.insert(number, waiting);
        self.feed(now, poll, Input::Claim(RequestId(number), claim));
    }

    /// Removes the connection that waits for the race of `flow`, and returns it.
    pub fn abandon(&mut self, now: Instant, poll: &Poll, flow: FlowId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&request(flow))?;
        self.feed(now, poll, Input::Abandon(RequestId(request(flow))));
        Some(waiting)
    }

    /// The connection that waits for the race of `flow`.
    pub fn waiting(&mut self, flow: FlowId) -> Option<&mut Waiting> {
        self.waiting.get_mut(&request(flow))
    }

    /// An attempt has ended.
    pub fn event(&mut self, now: Instant, poll: &Poll, number: u64) {
        let Some(attempt) = self.attempts.get(&number) else { return };
        let result = match tcp::outcome(&attempt.socket, now - attempt.began) {
            Ok(rtt) => AttemptResult::Connected(rtt),
            Err(errno) => AttemptResult::Failed(errno.raw_os_error()),
        };
        // One that stands is kept until it is known whose it is.
        poll.remove(&attempt.socket);
        if matches!(result, AttemptResult::Failed(_)) {
            self.attempts.remove(&number);
        }
        self.feed(now, poll, Input::Attempt(AttemptId(number), result));
    }

    /// When it wants to be woken.
    pub fn deadline(&self) -> Option<Deadline> {
        self.connector.poll_timeout()
    }

    /// A deadline may have come.
    pub fn timeout(&mut self, now: Instant, poll: &Poll) {
        if self.connector.wake(now).is_some() {
            self.drain(now, poll);
        }
    }

    /// The next race that has ended.
    pub fn ended(&mut self) -> Option<(Waiting, Ended)> {
        self.ended.pop_front()
    }

    fn feed(&mut self, now: Instant, poll: &Poll, input: Input) {
        self.connector.handle_input(now, input);
        self.drain(now, poll);
    }

    fn drain(&mut self, now: Instant, poll: &Poll) {
        while let Some(output) = self.connector.poll_output() {
            match output {
                Output::Connect { id, to, .. } => self.begin(now, poll, id, to),
                Output::Close(AttemptId(number)) => _ = self.attempts.remove(&number),
                // It asks for translators alone; programs here do without.
                Output::Query { id, .. } => {
                    self.connector.handle_input(now, Input::Lookup(id, LookupResult::NotSent));
                }
                Output::HandOver { request, attempt: AttemptId(number), .. } => {
                    let attempt = self.attempts.remove(&number);
                    self.end(request, attempt.map_or(Ended::NotRun, |a| Ended::Connected(a.socket, a.to)));
                }
                Output::Fail(request, errno) => self.end(request, Ended::Failed(Errno::from_raw_os_error(errno))),
                Output::Pass(request, _) | Output::Begin { request, .. } => self.end(request, Ended::NotRun),
                // Said to programs that ask for names or hold attempts, of which there are none here.
                Output::Forget(_)
                | Output::Late(_)
                | Output::Watch(_)
                | Output::Answer(..)
                | Output::Answered(..)
                | Output::Rescue { .. } => {}
            }
        }
    }

    fn end(&mut self, request: RequestId, how: Ended) {
        if let Some(waiting) = self.waiting.remove(&request.0) {
            self.ended.push_back((waiting, how));
        }
    }

    fn begin(&mut self, now: Instant, poll: &Poll, AttemptId(number): AttemptId, to: SocketAddr) {
        let begun = sockets::begin(to, Origin::default(), (0, None, true, None), (&mut Stock::default(), &self.exit))
            .and_then(|socket| {
                let added = poll.add(&socket, ATTEMPTS + number, Interest::Write);
                added.map(|()| socket).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
            });
        let result = match begun {
            Ok(socket) => {
                self.attempts.insert(number, Attempt { socket, to, began: now });
                return;
            }
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::NOSPC)) => {
                AttemptResult::NotBegun(errno.raw_os_error())
            }
            Err(errno) => AttemptResult::Failed(errno.raw_os_error()),
        };
        self.connector.handle_input(now, Input::Attempt(AttemptId(number), result));
    }

    /// Sees whether the host is on another network, where what was said on this one does not hold.
    fn look_around(&mut self, now: Instant, poll: &Poll) {
        if self.fixed_network {
            return;
        }
        let changed = self.watch.as_ref().is_none_or(Watch::changed);
        if !changed && self.seen.is_some() {
            return;
        }
        // The servers that programs ask are seen with each answer; they do not make the network here.
        let Ok(here) = surroundings::look(&[]) else { return };
        let (id, v4, v6) = (here.network(), here.reaches(Family::V4), here.reaches(Family::V6));
        let v4_first = here.v4_first();
        match self.seen.replace(here.clone()) {
            Some(before) if before == here => {}
            Some(before) if here.refines(&before) => self.feed(now, poll, Input::Recognised(id)),
            _ => self.feed(now, poll, Input::Network { id, v4, v6, v4_first }),
        }
    }
}
