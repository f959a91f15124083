//! What is done before programs ask, and what they are given of what they were told (`--ahead`): answers out of their user's own cache, names
//! that are looked up and connections that are opened before they are wanted. What is to be done is the connector's to say.
//!
//! An answer is what the very server that is asked has said to a program of the same user. What is answered or open ahead is marked: it
//! measures nothing.

use super::{Accelerator, app_of, claim};
use crate::dns::Transport;
use crate::forward::worker::QUERIES;
use crate::poll::Poll;
use crate::replies::Replies;
use headstart_core::connect::{Ahead, Input, LookupResult, QueryId, RequestId, Starts};
use headstart_core::forward::{Flow, FlowEnd};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::nat64::WELL_KNOWN_NAME;
use headstart_core::wire::record::RecordType;
use headstart_core::wire::relay::Question;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Answers that are known by user and question; the one that is oldest makes room. 4096: a thousand names of a few apps.
const MOST_SAID: usize = 4096;
/// A SYN without an answer for so long, when its program gives up, has come to nothing. 2 s: the kernel has repeated it (RFC 6298), and
/// programs that race by themselves leave one sooner than that.
const SILENT: Duration = Duration::from_secs(2);

/// What a server has said to a user's program.
#[derive(Clone, Copy, Debug)]
struct Said {
    number: u64,
    at: Instant,
    server: SocketAddr,
}

/// What there is ahead of programs.
#[derive(Debug)]
pub(super) struct Aheads {
    /// What is done, where it may be.
    wanted: Ahead,
    starts: Starts,
    pub transport: Transport,
    /// Whose queries are under way.
    queries: HashMap<QueryId, (u32, Arc<str>, RecordType, SocketAddr)>,
    said: BTreeMap<(u32, String, RecordType), Said>,
    replies: Replies,
    next: u64,
    /// The server that has answered each user's programs last.
    servers: HashMap<u32, SocketAddr>,
}

impl Aheads {
    /// Nothing yet.
    pub fn of(wanted: Ahead) -> Self {
        Self {
            wanted,
            starts: Starts::default(),
            transport: Transport::default(),
            queries: HashMap::new(),
            said: BTreeMap::new(),
            replies: Replies::default(),
            next: 0,
            servers: HashMap::new(),
        }
    }

    /// A server has said this to a program of `user`.
    pub fn keep(
        &mut self,
        (user, name, record): (u32, &str, RecordType),
        at: Instant,
        server: SocketAddr,
        reply: &[u8],
    ) {
        let key = (user, name.to_ascii_lowercase(), record);
        if self.said.len() >= MOST_SAID && !self.said.contains_key(&key) {
            let oldest = self.said.iter().min_by_key(|(_, said)| said.number).map(|(key, _)| key.clone());
            oldest.into_iter().for_each(|oldest| _ = self.said.remove(&oldest));
        }
        self.servers.insert(user, server);
        self.replies.keep(QueryId(self.next), reply);
        self.said.insert(key, Said { number: self.next, at, server });
        self.next += 1;
    }

    /// What `server` has said to `user`, as an answer to this copy of the question.
    fn answer(&self, now: Instant, user: u32, server: SocketAddr, question: &Question) -> Option<Vec<u8>> {
        let said = self.said.get(&(user, question.name.to_ascii_lowercase(), question.record))?;
        let reply = self.replies.get(QueryId(said.number)).filter(|_| said.server == server)?;
        question.answer_from(reply, now.since(said.at))
    }

    /// What was said on another network is not what is said on this one.
    pub fn forget(&mut self) {
        self.said.clear();
        self.servers.clear();
    }
}

impl Accelerator {
    /// The start of the user's app that goes on; it is alive.
    pub(super) fn account(&mut self, now: Instant, poll: &Poll, user: u32) -> u32 {
        let Some(ahead) = &mut self.ahead else { return 0 };
        let (account, over) = ahead.starts.seen(now, user);
        if let Some(over) = over {
            self.connector.close_account(over);
            self.drain(now, poll);
        }
        account
    }

    /// Whether something may be done ahead now: not where data costs or the battery is low.
    pub fn may_be_ahead(&mut self, now: Instant, poll: &Poll, may: bool) {
        let Some(wanted) = self.ahead.as_ref().map(|ahead| ahead.wanted) else { return };
        self.feed(now, poll, Input::Ahead(if may { wanted } else { Ahead::OFF }));
    }

    /// A program of this user asks `server`: what it has said, if that still holds.
    pub fn ask(
        &mut self,
        now: Instant,
        poll: &Poll,
        user: u32,
        server: SocketAddr,
        question: &Question,
    ) -> Option<Vec<u8>> {
        self.look_around(now, poll);
        let account = self.account(now, poll, user);
        let (app, name, record) = (app_of(user), question.name.clone(), question.record);
        let answer = self.answer(now, user, server, question);
        // Where a login is asked for, what is said is not what the name has.
        if !self.captive {
            self.feed(now, poll, Input::AsksItself { account, app, name, record });
        }
        answer
    }

    fn answer(&mut self, now: Instant, user: u32, server: SocketAddr, question: &Question) -> Option<Vec<u8>> {
        let ahead = self.ahead.as_ref().filter(|_| !self.captive)?;
        let answer = ahead.answer(now, user, server, question)?;
        self.connector.answer_holds(now, &app_of(user), &question.name, question.record).then_some(answer)
    }

    /// Whether there is an answer for a program of any user.
    pub fn anyone_was_told(&mut self, now: Instant, server: SocketAddr, question: &Question) -> bool {
        let users: Vec<u32> = self.users.iter().copied().collect();
        users.into_iter().any(|user| self.answer(now, user, server, question).is_some())
    }

    /// Whether a connection to `peer` was begun before this user's program wanted it.
    pub fn is_ahead(&self, now: Instant, user: u32, peer: SocketAddr) -> bool {
        let Some(ahead) = self.ahead.as_ref().filter(|_| !self.captive) else { return false };
        let request = RequestId(u64::from(ahead.starts.account(user)) << 32);
        self.connector.is_ahead_of(now, request, &claim(user, peer))
    }

    /// The same for a program of any user.
    pub fn is_ahead_of_anyone(&self, now: Instant, peer: SocketAddr) -> bool {
        self.ahead.is_some() && self.users.iter().any(|user| self.is_ahead(now, *user, peer))
    }

    /// A program of this user opens its connection itself.
    pub fn goes_itself(&mut self, now: Instant, poll: &Poll, user: u32, peer: SocketAddr) {
        if self.ahead.is_some() && !self.captive {
            let request = RequestId(u64::from(self.account(now, poll, user)) << 32);
            self.feed(now, poll, Input::GoesItself(request, claim(user, peer)));
        }
    }

    /// How a connection ended that no race has led.
    pub fn has_ended(&mut self, now: Instant, poll: &Poll, flow: &Flow) {
        let waited = flow.ended.is_some_and(|at| at.since(flow.asked) >= SILENT);
        let came_to_nothing = match flow.end {
            FlowEnd::Refused | FlowEnd::Unreachable | FlowEnd::Silent => true,
            FlowEnd::ResetByProgram => waited,
            _ => false,
        };
        if self.ahead.is_some() && flow.connected.is_none() && flow.accelerated.is_none() && came_to_nothing {
            self.feed(now, poll, Input::Unreached(flow.peer.ip()));
        }
    }

    /// Sends a query that no program waits for to the server that its user's programs ask; whether it is on its way.
    pub(super) fn look_up(&mut self, poll: &Poll, id: QueryId, name: Arc<str>, record: RecordType) -> bool {
        let app = self.connector.asker(id);
        let user = app.and_then(|app| app.strip_prefix("user ")?.parse().ok());
        let Some((ahead, user)) = self.ahead.as_mut().zip(user) else { return false };
        // Programs here do without translators.
        let server = ahead.servers.get(&user).copied().filter(|_| &*name != WELL_KNOWN_NAME);
        let Some(server) = server else { return false };
        ahead.transport.exit = Rc::clone(&self.exit);
        let question = (Arc::clone(&name), record);
        let sent = ahead.transport.send(poll, |n| QUERIES + n, id, question, server).is_ok();
        if sent {
            ahead.queries.insert(id, (user, name, record, server));
        }
        sent
    }

    /// Something has come for a query.
    pub fn replied(&mut self, now: Instant, poll: &Poll, number: u64) {
        let Some(ahead) = &mut self.ahead else { return };
        let Some((id, result)) = ahead.transport.event(poll, |n| QUERIES + n, number) else { return };
        // A refusal is one server's, now: it takes the place of no answer.
        let is_kept = !matches!(result, LookupResult::Refused | LookupResult::NotSent);
        let reply = ahead.transport.replies.get(id).filter(|_| is_kept).map(<[u8]>::to_vec);
        if let Some((user, name, record, server)) = ahead.queries.remove(&id)
            && let Some(reply) = reply
        {
            ahead.keep((user, &name, record), now, server, &reply);
        }
        // Those that were given up.
        let connector = &mut self.connector;
        ahead.queries.retain(|id, _| connector.asker(*id).is_some());
        self.feed(now, poll, Input::Lookup(id, result));
    }

    /// Whether anything is to be done ahead at all.
    pub fn does_ahead(&self) -> bool {
        self.ahead.is_some()
    }
}
