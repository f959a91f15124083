//! The front end of programs that speak DNS themselves: static ones, Go's, c-ares', musl's, and callers of res_query.
//!
//! The code that traps their system calls asks [`Stub::redirect`] what to do with a UDP socket that turns to a DNS server of
//! this host. The socket then leads here, to a *post* that stands for that server. Questions for addresses are the
//! connector's, as those of getaddrinfo are; everything else goes to the server that the program meant, and back, as it
//! is (see `core::wire::relay`). A program gets a server's answer, with one exception: a family that is
//! silent while the other has addresses has none, for now (see `core::connect`).

mod askers;
mod forward;
mod redirect;
mod strays;
#[cfg(test)]
mod tests;

use super::engine::{Engine, Notice};
use super::token::{FORWARD, POST, QUESTION, STRAY, split};
use askers::Askers;
use forward::{Asker, Forwards, Returned};
use headstart_core::connect::{Answered, AppId, Ask, Input, RequestId};
use headstart_core::time::Instant;
use headstart_core::wire::relay::Question;
pub(super) use redirect::{Call, Redirected};
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Questions that may wait for the connector at once; more are taken to the server.
const MAX_PENDING: usize = 1024;
/// Questions read at a time; the rest of a flood waits until all other sources have been served.
const AT_A_TIME: usize = 32;
/// The longest question: no query without options is longer than 512 bytes, and what has options may be as long as it likes.
const MAX_QUESTION: usize = 4096;

/// A question that the connector is asked.
#[derive(Debug)]
struct Pending {
    asker: Asker,
    query: Vec<u8>,
    question: Question,
}

/// A place where questions to one server arrive.
#[derive(Debug)]
struct Post {
    /// The server that it stands for.
    server: SocketAddr,
    socket: OwnedFd,
}

/// All posts and the programs that ask there.
#[derive(Debug)]
pub(super) struct Stub {
    ways: redirect::Ways,
    posts: Vec<Post>,
    askers: Askers,
    pending: BTreeMap<u64, Pending>,
    next: u32,
    forwards: Forwards,
    buf: Vec<u8>,
}

impl Stub {
    /// A stub without posts. They come with the first program that needs them.
    pub fn new() -> Self {
        Self {
            ways: redirect::Ways::default(),
            posts: Vec::new(),
            askers: Askers::default(),
            pending: BTreeMap::new(),
            next: 0,
            forwards: Forwards::default(),
            buf: Vec::new(),
        }
    }

    /// Begins now what takes the longest of a first [`redirect`](Self::redirect): a network namespace, some milliseconds.
    pub fn furnish(&mut self, engine: &Engine) {
        self.ways.furnish(engine);
    }

    /// When [`attend`](Self::attend) is to be called next, whatever happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.ways.deadline()
    }

    /// The program that waited has its answer: makes what the next one will need; some of it only in a `pause`, when nothing else
    /// has happened.
    pub fn attend(&mut self, engine: &Engine, pause: bool) {
        self.ways.attend(engine, &mut self.posts, pause);
    }

    /// Whether the socket `file` of a program leads here.
    pub fn has_given(&self, file: &OwnedFd) -> bool {
        self.ways.has_given(file)
    }

    /// A socket of the host to take the place of `file`, which its program no longer wants to lead anywhere; `None` if that does not
    /// lead here.
    pub fn let_out(&self, file: &OwnedFd) -> Option<OwnedFd> {
        self.has_given(file).then(|| redirect::let_out(file)).flatten()
    }

    /// A UDP socket of program `app`, counted on `account`, turns to `to` by `call`: what is to be done with it. `None`: the
    /// call is the kernel's. `socket` is a descriptor of ours for the program's own file.
    pub fn redirect(
        &mut self,
        engine: &mut Engine,
        (app, account): (&AppId, u32),
        to: SocketAddr,
        socket: BorrowedFd<'_>,
        call: Call,
    ) -> Option<Redirected> {
        let (redirected, post, port) = self.ways.redirect(engine, &mut self.posts, to, socket, call)?;
        if let Some(port) = port {
            self.askers.insert(post, port, (AppId::clone(app), account));
        }
        Some(redirected)
    }

    fn read(&mut self, engine: &mut Engine, post: usize) {
        let mut buf = [0u8; MAX_QUESTION];
        for _ in 0..AT_A_TIME {
            let Some(Post { socket, .. }) = self.posts.get(post) else { return };
            let (len, peer) = match recvfrom(socket, &mut buf[..], RecvFlags::empty()) {
                Ok((_, len, peer)) => (len, peer.and_then(|p| SocketAddr::try_from(p).ok())),
                // ICMP errors are of earlier answers, to programs that have gone.
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNREFUSED) => continue,
                Err(_) => return,
            };
            if let (Some(peer), Some(query)) = (peer, buf.get(..len)) {
                self.on_query(engine, Asker { post, peer }, query);
            }
        }
    }

    fn on_query(&mut self, engine: &mut Engine, asker: Asker, query: &[u8]) {
        let known = self.askers.get(asker.post, asker.peer.port());
        if known.is_none() && !self.ways.is_private() {
            // Any process on this host can send to a post on loopback.
            return;
        }
        engine.look_around();
        let question = Question::read(query).filter(|q| engine.names.check(&format!("{}.", q.name)).is_ok());
        let server = self.posts.get(asker.post).map(|p| p.server);
        let index = server.and_then(|server| engine.names.servers().iter().position(|s| *s == server));
        let (Some((app, account)), Some(question), Some(index)) = (known, question, index) else {
            return self.forward(engine, asker, query.to_vec());
        };
        // Asked again because no answer has come: whatever holds it up here must not hold up what would come without us.
        let again = self.pending.values().any(|p| p.asker == asker && p.query == query);
        if again || self.pending.len() >= MAX_PENDING {
            return self.forward(engine, asker, query.to_vec());
        }
        let n = u64::from(account) << 32 | u64::from(self.next);
        self.next = self.next.wrapping_add(1);
        let server = u32::try_from(index).unwrap_or(0);
        let ask = Ask { app, name: question.name.clone(), record: question.record, server };
        self.pending.insert(n, Pending { asker, query: query.to_vec(), question });
        engine.feed(Input::Ask(RequestId(QUESTION | n), ask));
    }

    fn forward(&mut self, engine: &Engine, asker: Asker, query: Vec<u8>) {
        let Some(server) = self.posts.get(asker.post).map(|p| p.server) else { return };
        let whither = (engine.clock.now(), server);
        // A question that cannot be sent is lost, as any may be.
        let _ = self.forwards.send(&engine.poll, |n| FORWARD | n, whither, asker, query);
    }

    fn answer(&self, asker: Asker, answer: &[u8]) {
        if let Some(post) = self.posts.get(asker.post) {
            // Lost like any datagram if there is no room for it.
            let _ = sendto(&post.socket, answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &asker.peer);
        }
    }
}

/// The two ends: what arrives, and what the connector says to it.
impl Stub {
    /// Something arrived at a post, or came back from a server.
    pub fn event(&mut self, engine: &mut Engine, token: u64) {
        match split(token) {
            (POST, n) => self.read(engine, usize::try_from(n).unwrap_or(usize::MAX)),
            (STRAY, n) => self.ways.strays.carry_out(n, &self.posts, &mut self.buf),
            (_, n) => match self.forwards.event(n, &mut self.buf) {
                Some(Returned::Reply(asker, reply)) => self.answer(asker, &reply),
                Some(Returned::Unreachable(asker, query)) => {
                    // Where the kernel would have told the program by an error on its socket.
                    if let Some(question) = Question::read(&query) {
                        self.answer(asker, &question.failed());
                    }
                }
                None => {}
            },
        }
        engine.transport.ignored += std::mem::take(&mut self.forwards.ignored);
    }

    /// The connector answers question `n`.
    pub fn tell(&mut self, engine: &mut Engine, n: u64, told: Notice) {
        let (Some(Pending { asker, query, question }), Notice::Answered(answered)) = (self.pending.remove(&n), told)
        else {
            return;
        };
        match answered {
            Answered::Reply { query: said, age } => {
                let reply = engine.transport.replies.get(said);
                match reply.and_then(|reply| question.answer_from(reply, age)) {
                    Some(answer) => self.answer(asker, &answer),
                    // No server answered, or its reply is no longer kept.
                    None => self.forward(engine, asker, query),
                }
            }
            Answered::NotWaitedFor => self.answer(asker, &question.empty()),
            // Nothing has come that we could read. The program may still wait, and take what we do not.
            Answered::Unanswered => self.forward(engine, asker, query),
        }
    }
}
