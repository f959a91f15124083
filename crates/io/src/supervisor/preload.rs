//! The front end of the preloaded library: one question on a connection, one reply, with a descriptor where there is one
//! to hand over.

use super::Front;
use super::engine::{Engine, Notice};
use super::stub::Stub;
use super::token::{CALLER, LISTENER, of_run, split};
use crate::poll::Interest;
use crate::sys::netns;
use crate::tcp;
use headstart_core::connect::{Claim, Input, RequestId, Resolve, Resolved, Want};
use headstart_core::path::Family;
use headstart_core::time::Instant;
use headstart_core::wire::shim::{FILTER_BYTES, MAX_ADDRESSES, MAX_MESSAGE, Pass, Reply, Request, filter_bit};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, accept_with, recv, sendmsg, sockopt,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// The most processes that are counted.
const MAX_COUNTED: usize = 65_536;

/// A program that waits for a reply.
#[derive(Debug)]
struct Caller {
    socket: OwnedFd,
    /// The name it asked for, if it did.
    name: Option<String>,
    /// The address it wants to connect to, if it does, and the domain of its socket.
    to: Option<(IpAddr, Family)>,
    /// Its question has been read.
    asked: bool,
    since: Instant,
}

/// The preloaded libraries of one run.
#[derive(Debug)]
pub(super) struct Preload {
    listener: OwnedFd,
    /// Given up to turn callers away when there are no more descriptors.
    spare: Option<OwnedFd>,
    filter: File,
    known: Box<[u8; FILTER_BYTES]>,
    callers: BTreeMap<u64, Caller>,
    run: u32,
    next_caller: u32,
    processes: BTreeSet<i32>,
    user: rustix::process::Uid,
    /// Ours; `None` on kernels that do not tell (before 5.14).
    network_namespace: Option<u64>,
}

impl Preload {
    /// Listens to the libraries of run `run` on `listener`, and tells them through `filter` which addresses are known.
    pub fn new(engine: &Engine, run: u32, listener: OwnedFd, filter: File) -> io::Result<Self> {
        let network_namespace = netns::cookie(&listener).ok();
        engine.poll.add(&listener, LISTENER | of_run(run), Interest::Read)?;
        Ok(Self {
            spare: listener.try_clone().ok(),
            listener,
            filter,
            known: Box::new([0; FILTER_BYTES]),
            callers: BTreeMap::new(),
            run,
            next_caller: 0,
            processes: BTreeSet::new(),
            user: rustix::process::getuid(),
            network_namespace,
        })
    }

    /// Processes that have asked anything.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// A program wants to connect.
    pub fn accept(&mut self, engine: &mut Engine) {
        // One at a time: poll reports the next one again, and most often there is none.
        let socket = match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE) => return self.turn_away(),
            Err(_) => return,
        };
        let n = of_run(self.run) | u64::from(self.next_caller);
        self.next_caller = self.next_caller.wrapping_add(1);
        match sockopt::socket_peercred(&socket) {
            // The folder is private already; root may look in, others may not.
            Ok(peer) if peer.uid == self.user || peer.uid.is_root() => {
                if self.processes.len() < MAX_COUNTED {
                    self.processes.insert(peer.pid.as_raw_pid());
                }
            }
            _ => return,
        }
        // What is reached from here is not what is reached from another network namespace. The accepted end belongs to
        // the namespace of the one that connected.
        if netns::cookie(&socket).ok() != self.network_namespace {
            return;
        }
        self.callers.insert(n, Caller { socket, name: None, to: None, asked: false, since: engine.clock.now() });
        // A library sends right after it has connected, so the question is most often here already.
        self.on_readable(engine, n, false);
        if let Some(caller) = self.callers.get(&n) {
            let interest = if caller.asked { Interest::HangUp } else { Interest::Read };
            if engine.poll.add(&caller.socket, CALLER | n, interest).is_err() {
                self.callers.remove(&n);
            }
        }
    }

    /// Out of descriptors: the caller is let go, so that it helps itself, by means of one that was kept for this.
    fn turn_away(&mut self) {
        drop(self.spare.take());
        drop(accept_with(&self.listener, SocketFlags::CLOEXEC));
        self.spare = self.listener.try_clone().ok();
    }

    /// Reads from a caller, which is `watched` already or has just been accepted.
    fn on_readable(&mut self, engine: &mut Engine, n: u64, watched: bool) {
        let Some(caller) = self.callers.get_mut(&n) else { return };
        if caller.asked {
            // A caller that waits sends nothing; it can only have gone.
            self.callers.remove(&n);
            return engine.feed(Input::Abandon(RequestId(CALLER | n)));
        }
        let mut bytes = [0u8; MAX_MESSAGE];
        let request = match recv(&caller.socket, &mut bytes[..], RecvFlags::empty()) {
            Ok((_, 0)) => None,
            Ok((_, len)) => Request::decode(&bytes[..len.min(MAX_MESSAGE)]),
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => None,
        };
        let Some(request) = request else {
            self.callers.remove(&n);
            return;
        };
        caller.asked = true;
        if watched {
            // Should it fail, the caller's going away is noticed when it is replied to.
            let _ = engine.poll.change(&caller.socket, CALLER | n, Interest::HangUp);
        }
        let id = RequestId(CALLER | n);
        match request {
            Request::Resolve { app, name, family, port, configured_only } => {
                caller.name = Some(name.clone());
                engine.look_around();
                if let Err(reason) = engine.names.check(&name) {
                    engine.feed(Input::Passed(id, Some(name), reason));
                    return self.reply(n, &Reply::Pass(reason), None);
                }
                let want = match (family, engine.configured()) {
                    // getaddrinfo(3), AI_ADDRCONFIG: not even asked for. The program goes on to the other family at once.
                    (Some(Family::V4), Some((false, _))) | (Some(Family::V6), Some((_, false))) if configured_only => {
                        return self.reply(n, &Reply::NoName, None);
                    }
                    (Some(family), _) => Want::Only(family),
                    (None, Some((true, false))) if configured_only => Want::Only(Family::V4),
                    (None, Some((false, true))) if configured_only => Want::Only(Family::V6),
                    (None, _) => Want::Both,
                };
                engine.feed(Input::Resolve(id, Resolve { app: app.into(), name, want, port }));
            }
            Request::Connect { app, to, domain, nonblocking, accepts_mapped } => {
                caller.to = Some((to.ip(), domain));
                engine.feed(Input::Claim(
                    id,
                    Claim { app: app.into(), to, domain, nonblocking, accepts_mapped, rescuable: None },
                ));
            }
        }
    }

    fn answer(&mut self, engine: &Engine, n: u64, resolved: Resolved) {
        let asked = self.callers.get(&n).and_then(|caller| Some((caller.name.as_deref()?, caller.since)));
        let goes_on = asked.and_then(|(name, _)| engine.names.would_go_on(name));
        // Servers that have said that they cannot answer are not the end of it; those that have said nothing were waited for long enough.
        let is_soon = |since| engine.clock.now() - since < engine.names.patience().timeout;
        let searches = asked.is_some_and(|(name, since)| engine.names.would_search(name) && is_soon(since));
        let reply = match resolved {
            Resolved::NxDomain | Resolved::NoData if goes_on.is_some() => goes_on.map_or(Reply::NoName, Reply::Pass),
            // The C library tells all, and programs may need the last.
            Resolved::Addresses(list) if list.len() > MAX_ADDRESSES => Reply::Pass(Pass::TooMany),
            Resolved::Addresses(list) => {
                list.iter().for_each(|a| self.make_known(*a));
                Reply::Addresses(list)
            }
            Resolved::Unanswered if searches => Reply::Pass(Pass::SearchDomain),
            Resolved::NxDomain => Reply::NoName,
            Resolved::NoData => Reply::NoData,
            Resolved::Unanswered => Reply::TryAgain,
        };
        self.reply(n, &reply, None);
    }

    /// Tells the libraries that the system calls of their programs are trapped too.
    pub fn calls_are_trapped(&self) {
        // Should it fail, they ask as if they were not.
        let _ = self.filter.write_all_at(&[1], FILTER_BYTES as u64);
    }

    /// Sets the bit of `addr` in the filter that the libraries have mapped.
    fn make_known(&mut self, addr: IpAddr) {
        let bit = filter_bit(addr);
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        if self.known[at] & mask == 0 {
            self.known[at] |= mask;
            // Should it fail, programs connect to this address themselves.
            let _ = self.filter.write_all_at(&self.known[at..=at], at as u64);
        }
    }

    /// Replies to a caller, which thereby has its answer and is let go.
    fn reply(&mut self, n: u64, reply: &Reply, descriptor: Option<BorrowedFd<'_>>) {
        let Some(caller) = self.callers.remove(&n) else { return };
        let encoded = reply.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: &[BorrowedFd<'_>] = descriptor.as_slice();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let bytes = [IoSlice::new(encoded.as_ref())];
        // A caller that has gone needs no reply; one that cannot be replied to makes its own connect.
        let _ = sendmsg(&caller.socket, &bytes, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

impl Front for Preload {
    fn event(&mut self, engine: &mut Engine, _: &mut Stub, token: u64) {
        match split(token) {
            (CALLER, n) => self.on_readable(engine, n, true),
            _ => self.accept(engine),
        }
    }

    fn close(&mut self, engine: &mut Engine) {
        engine.poll.remove(&self.listener);
        for n in std::mem::take(&mut self.callers).into_keys() {
            engine.feed(Input::Abandon(RequestId(CALLER | n)));
        }
    }

    fn tell(&mut self, engine: &mut Engine, n: u64, told: Notice) {
        match told {
            Notice::Answer(resolved) => self.answer(engine, n, resolved),
            Notice::HandOver { attempt, connected } => {
                let wanted = self.callers.get(&n).and_then(|caller| caller.to);
                let suits = |socket: &OwnedFd| wanted.is_none_or(|(_, domain)| tcp::take_on(domain, socket));
                match engine.hand_over(attempt, connected).filter(suits) {
                    Some(socket) => self.reply(n, &Reply::HandOver { connected }, Some(socket.as_fd())),
                    None => {
                        self.reply(n, &Reply::Pass(Pass::NothingReady), None);
                        if let Some((to, _)) = wanted {
                            let (request, reason) = (RequestId(CALLER | n), Pass::NothingReady);
                            engine.feed(Input::NotTaken { request, to, connected, reason });
                        }
                    }
                }
            }
            Notice::Fail(errno) => self.reply(n, &Reply::Failed(errno), None),
            // Claims by the library cannot be rescued.
            Notice::Answered(_) | Notice::Begin(_) | Notice::Rescue { .. } => {}
            Notice::Pass(reason) => self.reply(n, &Reply::Pass(reason), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use headstart_core::connect::{AttemptId, Settings, race};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, send, socket_with};

    #[test]
    fn a_connection_that_was_closed_before_it_could_be_handed_over_is_not_counted_as_handed_over() {
        const RUN: u32 = 3;
        let mut engine = Engine::new(Settings::of(race::find("adaptive").unwrap()), Names::of_host()).unwrap();
        let local = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (listener, library) = (local(), local());
        let name = format!("headstart-preload-{}", std::process::id());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        bind(&listener, &address).unwrap();
        listen(&listener, 1).unwrap();
        let filter = File::options().write(true).open("/dev/null").unwrap();
        let mut preload = Preload::new(&engine, RUN, listener, filter).unwrap();

        connect(&library, &address).unwrap();
        let to = "192.0.2.1:443".parse().unwrap();
        let (app, domain) = ("test".to_owned(), Family::V4);
        let wish = Request::Connect { app, to, domain, nonblocking: false, accepts_mapped: false };
        send(&library, wish.encode().as_ref(), SendFlags::NOSIGNAL).unwrap();
        preload.accept(&mut engine);
        // The attempt is none that the engine has any more.
        let told = Notice::HandOver { attempt: AttemptId(7), connected: true };
        preload.tell(&mut engine, of_run(RUN), told);
        let mut reply = [0u8; MAX_MESSAGE];
        let (_, len) = recv(&library, &mut reply[..], RecvFlags::DONTWAIT).unwrap();
        assert_eq!(Reply::decode(&reply[..len]), Some(Reply::Pass(Pass::NothingReady)));
        let tally = engine.connector.tally_of(RUN);
        assert_eq!((tally.unused, tally.passed.get(&Pass::NothingReady)), (1, Some(&1)));
    }
}
