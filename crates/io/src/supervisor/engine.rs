//! What every front end shares: the connector and its hands, which send its queries and open its connections.
//!
//! A front end feeds inputs under request ids of its own and receives the results ([`Notice`]), and has the host's rules and network
//! looked at before a question. Nothing is decided here, and nothing here knows how a program is reached.

use super::returned::Addresses;
use super::spare;
use super::token::{ATTEMPT, EXCHANGE};
use super::whereabouts::Whereabouts;
use crate::clock::Clock;
use crate::dns::{SendError, Transport};
use crate::driver::Hands;
use crate::names::Names;
use crate::poll::{Interest, Poll};
use crate::sys::netns;
use crate::tcp;
use headstart_core::connect::{
    Answered, AttemptId, AttemptResult, Connector, Input, LookupResult, Output, RequestId, Resolved, Settings,
};
use headstart_core::machine::{Deadline, Machine};
use headstart_core::path::Family;
use headstart_core::time::Instant;
use headstart_core::wire::shim::Pass;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What the connector says to a program that waits.
#[derive(Debug)]
pub(super) enum Notice {
    /// The addresses of a name, or why there are none.
    Answer(Resolved),
    /// What is said to a question that was asked over DNS.
    Answered(Answered),
    /// The attempt's socket is the program's; connected, or under way.
    HandOver { attempt: AttemptId, connected: bool },
    /// Every attempt failed.
    Fail(i32),
    /// The program's own call is to be made.
    Pass(Pass),
    /// The same, without waiting for it; its end is to be reported as that of this attempt.
    Begin(AttemptId),
    /// The program's attempt has stalled on its way `to`; another is to take its place when the program looks.
    Rescue { to: IpAddr, stalled: AttemptId, by: AttemptId },
}

#[derive(Debug)]
struct Attempt {
    socket: OwnedFd,
    began: Instant,
    /// A program holds the same socket.
    given: bool,
    /// Opened before any program asked for it, and watched for what the peer does.
    spare: bool,
}

/// The port of DNS.
pub(super) const DNS: u16 = 53;

/// What has been seen of the host's rules about names.
#[derive(Debug, Default)]
struct Rules {
    seen: bool,
    other: bool,
}

/// The connector with what it needs of the world.
#[derive(Debug)]
pub(super) struct Engine {
    pub clock: Clock,
    pub poll: Poll,
    pub connector: Connector,
    pub names: Names,
    pub transport: Transport,
    /// Notices that the front ends did not get yet.
    notices: VecDeque<(RequestId, Notice)>,
    attempts: BTreeMap<u64, Attempt>,
    pub whereabouts: Whereabouts,
    /// Whether the host's rules have been looked at since we woke up, and whether they were others than before.
    rules: Rules,
    /// Addresses that were returned to programs. The connector knows nothing of others.
    pub returned_addresses: Arc<Addresses>,
    /// The one that queries and attempts go to; `None` on kernels that do not tell (before 5.14).
    pub network_namespace: Option<u64>,
}

impl Engine {
    pub fn new(settings: Settings, names: Names) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut engine = Self {
            clock: Clock::new(),
            connector: Connector::new(settings),
            names,
            transport: Transport::default(),
            notices: VecDeque::new(),
            attempts: BTreeMap::new(),
            whereabouts: Whereabouts::new(&poll),
            rules: Rules::default(),
            returned_addresses: Arc::default(),
            network_namespace: netns::own_cookie().ok(),
            poll,
        };
        // Before anything is learned, so that it is known of which network.
        engine.look_around();
        Ok(engine)
    }

    /// Sees whether the host's rules or its network have changed since the last question.
    pub fn look_around(&mut self) {
        self.see_to_rules();
        let other_rules = std::mem::take(&mut self.rules.other);
        if self.whereabouts.is_stale() || other_rules {
            self.look();
        }
    }

    /// Reads the host's rules about names again if they have changed: seen once for all that has happened by the time we wake up.
    fn see_to_rules(&mut self) {
        if !std::mem::replace(&mut self.rules.seen, true) {
            self.rules.other |= self.names.refresh();
        }
    }

    /// Sees whether the host has slept meanwhile.
    pub fn wake_up(&mut self) {
        self.rules.seen = false;
        if let Some(slept) = self.whereabouts.has_slept() {
            self.feed(Input::Woken(slept));
            self.look();
        }
    }

    fn look(&mut self) {
        self.whereabouts.look(&self.names).for_each(|input| self.feed(input));
    }

    /// Whether `to` is a server that this host asks about names.
    pub fn is_dns_server(&mut self, to: SocketAddr) -> bool {
        to.port() == DNS && {
            self.see_to_rules();
            self.names.servers().contains(&SocketAddr::new(to.ip().to_canonical(), to.port()))
        }
    }

    /// Gives the connector an input and does what it wants done; notices to programs wait for [`Self::next_notice`].
    pub fn feed(&mut self, input: Input) {
        Hands::feed(self, self.clock.now(), input);
    }

    /// The same of what happened `at` that time.
    pub fn feed_at(&mut self, at: Instant, input: Input) {
        Hands::feed(self, at, input);
    }

    /// `account` has no program any more.
    pub fn close_account(&mut self, account: u32) {
        self.connector.close_account(account);
        self.drain(self.clock.now());
    }

    /// The next notice to a front end.
    pub fn next_notice(&mut self) -> Option<(RequestId, Notice)> {
        self.notices.pop_front()
    }

    /// The connector's next deadline.
    pub fn deadline(&self) -> Option<Deadline> {
        self.connector.poll_timeout()
    }

    /// A deadline may have come.
    pub fn timeout(&mut self) {
        self.wake(self.clock.now());
    }

    /// Something happened on a socket of a query.
    pub fn exchange_event(&mut self, n: u64) {
        let server = self.transport.server(n);
        if let Some((query, result)) = self.transport.event(&self.poll, |n| EXCHANGE | n, n) {
            if let LookupResult::Addresses(list, _) = &result {
                // A program that asks over DNS gets the server's answer, whatever its result here.
                list.iter().for_each(|addr| self.returned_addresses.add(*addr));
            }
            let index = self.names.servers().iter().position(|known| Some(*known) == server);
            if let Some(index) = index {
                self.feed(Input::Replied(query, index as u32));
            }
            self.feed(Input::Lookup(query, result));
        }
    }

    /// An attempt ended.
    pub fn attempt_event(&mut self, n: u64) {
        let Some(attempt) = self.attempts.get(&n) else { return };
        if attempt.spare {
            if let Some(how) = spare::spoilt(&attempt.socket) {
                let ago = tcp::closed_ago(&attempt.socket);
                self.feed(Input::Spoilt(AttemptId(n), how, ago));
            }
            return;
        }
        let elapsed = self.clock.now() - attempt.began;
        let outcome = if attempt.given {
            tcp::outcome_for_bystanders(&attempt.socket, elapsed)
        } else {
            tcp::outcome(&attempt.socket, elapsed)
        };
        let result = match outcome {
            Ok(rtt) => AttemptResult::Connected(rtt),
            Err(errno) => AttemptResult::Failed(errno.raw_os_error()),
        };
        self.poll.remove(&attempt.socket);
        if attempt.given || matches!(result, AttemptResult::Failed(_)) {
            self.attempts.remove(&n);
        }
        self.feed(Input::Attempt(AttemptId(n), result));
    }

    /// The socket of an attempt that is to be handed over; `None` if it is no longer good.
    pub fn hand_over(&mut self, AttemptId(n): AttemptId, connected: bool) -> Option<OwnedFd> {
        if connected {
            // Closed by the peer since: the program's own connect will see how things stand.
            let attempt = self.attempts.remove(&n)?;
            if attempt.spare {
                self.poll.remove(&attempt.socket);
                return Some(attempt.socket).filter(spare::is_as_new);
            }
            return Some(attempt.socket).filter(|s| tcp::is_good(s));
        }
        let attempt = self.attempts.get_mut(&n)?;
        attempt.given = true;
        // The program's file and ours are one; ours goes on telling how it ends.
        attempt.socket.try_clone().ok()
    }

    /// The program's own socket is on its way, as this attempt.
    pub fn watch(&mut self, AttemptId(n): AttemptId, socket: OwnedFd) {
        // A socket that cannot be watched is not rescued; nothing else changes.
        if self.poll.add(&socket, ATTEMPT | n, Interest::Write).is_ok() {
            self.attempts.insert(n, Attempt { socket, began: self.clock.now(), given: true, spare: false });
        }
    }

    /// The socket of an attempt that a program holds, if it is still on its way; how it ends does not matter any more.
    pub fn let_go(&mut self, AttemptId(n): AttemptId) -> Option<OwnedFd> {
        let attempt = self.attempts.remove(&n)?;
        self.poll.remove(&attempt.socket);
        tcp::is_on_its_way(&attempt.socket).then_some(attempt.socket)
    }

    /// Whether there are routes for IPv4 and IPv6, as of the last look around.
    pub fn configured(&self) -> Option<(bool, bool)> {
        self.whereabouts.configured()
    }

    fn begin(&mut self, AttemptId(n): AttemptId, to: SocketAddr, domain: Family) {
        let began = self.clock.now();
        let begun = tcp::begin(to, domain).and_then(|socket| {
            let added = self.poll.add(&socket, ATTEMPT | n, Interest::Write);
            added.map(|()| socket).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
        });
        match begun {
            Ok(socket) => {
                self.attempts.insert(n, Attempt { socket, began, given: false, spare: false });
            }
            Err(errno) => {
                let result = match errno.raw_os_error() {
                    n if is_want(errno) => AttemptResult::NotBegun(n),
                    n => AttemptResult::Failed(n),
                };
                self.connector.handle_input(began, Input::Attempt(AttemptId(n), result));
            }
        }
    }
}

impl Hands for Engine {
    type Machine = Connector;

    fn machine(&mut self) -> &mut Connector {
        &mut self.connector
    }

    fn act(&mut self, now: Instant, output: Output) {
        match output {
            Output::Query { id, name, record, server } => {
                let servers = self.names.servers();
                let to = servers[server as usize % servers.len()];
                if let Err(why) = self.transport.send(&self.poll, |n| EXCHANGE | n, id, (name, record), to) {
                    let result = match why {
                        SendError::Io(e) if Errno::from_io_error(&e).is_some_and(is_want) => LookupResult::NotSent,
                        _ => LookupResult::Refused,
                    };
                    self.connector.handle_input(now, Input::Lookup(id, result));
                }
            }
            Output::Forget(query) => self.transport.forget(query),
            Output::Late(query) => self.transport.only_report(query),
            Output::Connect { id, to, domain } => self.begin(id, to, domain),
            Output::Watch(AttemptId(n)) => {
                if let Some(attempt) = self.attempts.get_mut(&n) {
                    attempt.spare = true;
                    // Should it fail, what has happened to it is seen when it is to be handed over.
                    let _ = self.poll.add(&attempt.socket, ATTEMPT | n, Interest::Read);
                }
            }
            Output::Close(AttemptId(n)) => {
                if let Some(attempt) = self.attempts.remove(&n) {
                    self.poll.remove(&attempt.socket);
                }
            }
            Output::Answer(request, resolved) => {
                if let Resolved::Addresses(list) = &resolved {
                    list.iter().for_each(|addr| self.returned_addresses.add(*addr));
                }
                self.notices.push_back((request, Notice::Answer(resolved)));
            }
            Output::Answered(request, answered) => self.notices.push_back((request, Notice::Answered(answered))),
            Output::HandOver { request, attempt, connected } => {
                self.notices.push_back((request, Notice::HandOver { attempt, connected }));
            }
            Output::Begin { request, attempt } => self.notices.push_back((request, Notice::Begin(attempt))),
            Output::Rescue { request, to, stalled, by } => {
                self.notices.push_back((request, Notice::Rescue { to, stalled, by }));
            }
            Output::Fail(request, errno) => self.notices.push_back((request, Notice::Fail(errno))),
            Output::Pass(request, reason) => self.notices.push_back((request, Notice::Pass(reason))),
        }
    }
}

/// Whether we lack something that another process may have. NOSPC is epoll's, of which each user may wait for so many.
fn is_want(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::NOSPC)
}
