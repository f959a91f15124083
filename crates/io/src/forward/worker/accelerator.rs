//! The connect engine behind programs' SYNs (`--accelerate`): which addresses belong to one name is overheard from the answers that
//! programs get over DNS, and a connection to one of them is raced over all.
//!
//! Where nothing is done ahead, no host is asked and nothing is opened ahead of time: what programs do not cause is not sent. Where it is
//! (`accelerator/ahead.rs`), names are looked up and connections opened as the connector has learned them. What was said to one
//! user's programs is not used for another's. Nothing is decided here; it is the [`Connector`]'s hands, as the supervisor is.

mod ahead;

use super::{ATTEMPTS, Whose, sockets};
use crate::forward::exit::Exit;
use crate::forward::sockets::{Origin, Stock};
use crate::poll::{Interest, Poll};
use crate::supervisor::spare::spoilt;
use crate::surroundings;
use crate::sys::netlink::Watch;
use crate::tcp;
use ahead::Aheads;
use headstart_core::connect::{
    Ahead, AppId, AttemptId, AttemptResult, Claim, Connector, Input, LookupResult, Output, RequestId, Settings,
};
use headstart_core::forward::{DnsExchange, FlowId};
use headstart_core::machine::{Deadline, Machine};
use headstart_core::path::identity::Surroundings;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::dns::Answer;
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A network, as another program tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// Which.
    pub id: NetworkId,
    /// Whether it leads anywhere by IPv4, and by IPv6.
    pub families: (bool, bool),
    /// Whether nothing is to be raced on it.
    pub captive: bool,
    /// The host's own addresses on it; none: that is not known.
    pub addresses: Vec<IpAddr>,
}

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
    /// This connection stands, to this address; whether it was begun before it was wanted.
    Connected(OwnedFd, SocketAddr, bool),
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
    /// It is open, and no program has it yet.
    watched: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Accelerator {
    connector: Connector,
    /// What is done ahead, if anything is to be.
    ahead: Option<Aheads>,
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
    /// Since when, and as whose request.
    waiting: HashMap<u64, (Instant, RequestId, Waiting)>,
    ended: VecDeque<(Waiting, Ended)>,
}

/// The number of a flow's request: no two of those that are open at a time share it.
fn number(flow: FlowId) -> u64 {
    flow.0 & u64::from(u32::MAX)
}

/// The program that an answer was for, as the connector knows programs.
fn app_of(user: u32) -> AppId {
    format!("user {user}").into()
}

/// A connection of this user's program to `to`. Only we have the socket, and it may be of either family: as one is that takes mapped addresses.
fn claim(user: u32, to: SocketAddr) -> Claim {
    let (app, domain) = (app_of(user), Family::V6);
    Claim { app, to, domain, accepts_mapped: true, nonblocking: false, rescuable: None }
}

impl Accelerator {
    /// In the network of the calling thread.
    pub fn new(settings: Settings) -> Self {
        Self::of(settings, Watch::open().ok())
    }

    fn of(settings: Settings, watch: Option<Watch>) -> Self {
        let ahead = (settings.ahead != Ahead::OFF).then(|| Aheads::of(settings.ahead));
        Self {
            connector: Connector::new(settings),
            ahead,
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
        if self.captive != here.captive || id != self.connector.network() {
            self.ahead.iter_mut().for_each(Aheads::forget);
        }
        self.captive = here.captive;
        self.feed(now, poll, Input::Network { id, v4, v6, v4_first: false });
    }

    /// A program of this user received an answer over DNS.
    pub fn on_dns_answer(&mut self, now: Instant, poll: &Poll, user: u32, lookup: &DnsExchange) {
        let Some((record, answer)) = lookup.answer.as_ref().filter(|_| !lookup.cached) else { return };
        // It may have taken a while until it was known whose it is.
        let at = lookup.asked + lookup.took;
        let left = |ttl: Duration| ttl.saturating_sub(now.since(at));
        let result = match answer.clone() {
            Answer::Addresses(list, ttl) => LookupResult::Addresses(list, left(ttl)),
            Answer::NoData(ttl) => LookupResult::NoData(left(ttl)),
            Answer::NxDomain(ttl) => LookupResult::NxDomain(left(ttl)),
            // What an HTTPS record says besides addresses is for the program that has read it.
            Answer::Services(..) | Answer::Refused | Answer::NotUnderstood | Answer::Truncated => return,
        };
        self.look_around(now, poll);
        self.users.insert(user);
        if let Some(ahead) = &mut self.ahead {
            ahead.keep((user, &lookup.name, *record), at, lookup.server, &lookup.reply);
        }
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
        let account = self.account(now, poll, user);
        let (number, claim) = (number(waiting.flow), claim(user, waiting.peer));
        let request = RequestId(u64::from(account) << 32 | number);
        self.waiting.insert(number, (now, request, waiting));
        self.feed(now, poll, Input::Claim(request, claim));
    }

    /// Removes the connection that waits for the race of `flow`, and returns it.
    pub fn abandon(&mut self, now: Instant, poll: &Poll, flow: FlowId) -> Option<Waiting> {
        let (_, request, waiting) = self.waiting.remove(&number(flow))?;
        self.feed(now, poll, Input::Abandon(request));
        Some(waiting)
    }

    /// The connection that waits for the race of `flow`.
    pub fn waiting(&mut self, flow: FlowId) -> Option<&mut Waiting> {
        self.waiting.get_mut(&number(flow)).map(|(_, _, waiting)| waiting)
    }

    /// An attempt has ended.
    pub fn event(&mut self, now: Instant, poll: &Poll, number: u64) {
        let Some(attempt) = self.attempts.get(&number) else { return };
        if attempt.watched {
            let how = spoilt(&attempt.socket).map(|how| (how, tcp::closed_ago(&attempt.socket)));
            if let Some((how, ago)) = how {
                self.feed(now, poll, Input::Spoilt(AttemptId(number), how, ago));
            }
            return;
        }
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
                Output::Query { id, name, record, server: _ } => {
                    if !self.look_up(poll, id, name, record) {
                        self.connector.handle_input(now, Input::Lookup(id, LookupResult::NotSent));
                    }
                }
                Output::Forget(query) => self.ahead.iter_mut().for_each(|ahead| ahead.transport.forget(query)),
                Output::Late(query) => self.ahead.iter_mut().for_each(|ahead| ahead.transport.only_report(query)),
                Output::Watch(AttemptId(number)) => {
                    if let Some(attempt) = self.attempts.get_mut(&number) {
                        attempt.watched = true;
                        // Should it fail, what has happened to it is seen when it is to be handed over.
                        let _ = poll.add(&attempt.socket, ATTEMPTS + number, Interest::Read);
                    }
                }
                Output::HandOver { request, attempt: AttemptId(number), .. } => {
                    let attempt = self.attempts.remove(&number);
                    let how = attempt.map_or(Ended::NotRun, |attempt| self.handed_over(poll, request, attempt));
                    self.end(request, how);
                }
                Output::Fail(request, errno) => self.end(request, Ended::Failed(Errno::from_raw_os_error(errno))),
                Output::Pass(request, _) | Output::Begin { request, .. } => self.end(request, Ended::NotRun),
                // Said to programs that ask for names or hold attempts, of which there are none here.
                Output::Answer(..) | Output::Answered(..) | Output::Rescue { .. } => {}
            }
        }
    }

    /// What was open before its program came and has been spoken on or closed since is no new connection.
    fn handed_over(&self, poll: &Poll, request: RequestId, attempt: Attempt) -> Ended {
        let since = self.waiting.get(&(request.0 & u64::from(u32::MAX))).map(|(since, ..)| *since);
        let ahead = self.ahead.is_some() && since.is_some_and(|since| attempt.began < since);
        if attempt.watched {
            poll.remove(&attempt.socket);
        }
        if ahead && spoilt(&attempt.socket).is_some() {
            return Ended::NotRun;
        }
        Ended::Connected(attempt.socket, attempt.to, ahead)
    }

    fn end(&mut self, request: RequestId, how: Ended) {
        if let Some((_, _, waiting)) = self.waiting.remove(&(request.0 & u64::from(u32::MAX))) {
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
                self.attempts.insert(number, Attempt { socket, to, began: now, watched: false });
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

#[cfg(test)]
mod tests;
