//! What listens on this host, offered inside an [`Enclosure`](super::Enclosure): services on loopback addresses and on the host's own ones,
//! resolvers on 127.0.0.53 among them.
//!
//! No packet to such an address leaves a namespace, so none comes to the forwarder. As pasta does (passt(1), `--tcp-ns`), addresses
//! and ports on which a program listens outside are listened on inside, and sockets of the host's carry what comes there to them. A
//! program inside that wants such a port itself gets the error that it is in use, as it would be outside. Not carried: UDP services on
//! other than loopback addresses, but for DNS; and Unix sockets with abstract names.

mod datagrams;
pub(super) mod listening;
pub(super) mod streams;

use crate::clock::Clock;
use crate::poll::{Interest, Poll};
use crate::sys::netns::NetNs;
use crate::sys::refusals::Refusals;
use datagrams::Port;
use headstart_core::time::Duration;
use listening::{Service, ServiceKind};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// After how long what listens is looked up again, each time after twice as long: a second first, as pasta does, and at most 64 s, so that
/// a measurement of programs that are silent is silent too.
const FIRST_AGAIN: Duration = Duration::from_secs(1);
const LONGEST_AGAIN: Duration = Duration::from_secs(64);
/// After a look, how long no other follows because a program has been refused: ten times as long as that look has taken, but no less than this. A
/// program that waits for a service tries more often than ten times a second only where it keeps a processor busy.
const REST: Duration = Duration::from_millis(50);
/// Services that are offered at a time.
const MOST: usize = 1024;
/// The tokens of the end, of a wish, and of programs that are refused.
const STOP: u64 = u64::MAX;
const LOOK: u64 = STOP - 1;
const REFUSED: u64 = STOP - 2;

/// Where programs inside are called from outside ([`Inbound`](super::Inbound)): services of the host's by their looks, which are not offered
/// to those programs.
#[derive(Clone, Debug)]
pub struct Theirs {
    services: Arc<Mutex<BTreeSet<Service>>>,
    wish: Arc<OwnedFd>,
}

impl Theirs {
    /// None so far.
    pub fn new() -> io::Result<Self> {
        Ok(Self { services: Arc::default(), wish: Arc::new(event()?) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeSet<Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it looked up soon what listens on the host: the programs have an address that they did not have.
    pub(super) fn look(&self) {
        let _ = rustix::io::write(&*self.wish, &1u64.to_ne_bytes());
    }
}

fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// The offer. It ends when it is dropped.
#[derive(Debug)]
pub struct Loopback {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Where a service is offered inside.
enum Offered {
    Streams(TcpListener),
    Datagrams(Port),
}

/// The thread's own.
struct Offer {
    inside: NetNs,
    theirs: Theirs,
    poll: Poll,
    /// By their numbers, which are the first part of the tokens of what belongs to them.
    offered: BTreeMap<u32, (Service, Offered)>,
    next: u32,
    clock: Clock,
    /// What is refused inside, where that can be heard.
    refusals: Option<Refusals>,
}

impl Loopback {
    /// Offers to the programs of `inside` what listens in the network namespace of the calling thread, but for what is theirs.
    pub fn offer(inside: &NetNs, theirs: &Theirs) -> io::Result<Self> {
        Self::with(inside, theirs, FIRST_AGAIN)
    }

    /// What listens is looked up again after this time first.
    fn with(inside: &NetNs, theirs: &Theirs, first_again: Duration) -> io::Result<Self> {
        let stop = Arc::new(event()?);
        let (inside, theirs, stopped) = (inside.try_clone()?, theirs.clone(), Arc::clone(&stop));
        let (tell, first) = channel();
        let work = move || match Offer::begin(inside, theirs, &stopped) {
            Ok(offer) => {
                // The receiver is still waiting.
                let _ = tell.send(Ok(()));
                offer.run(first_again);
            }
            Err(e) => _ = tell.send(Err(e)),
        };
        let thread = std::thread::Builder::new().name("loopback".into()).spawn(work)?;
        first.recv().unwrap_or_else(|_| Err(io::Error::other("its thread has died")))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Waits until what sockets carry between programs and this host has arrived, but no longer than `patience`.
pub fn settle(patience: Duration) {
    streams::settle(patience);
}

impl Drop for Loopback {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        self.thread.take().map(JoinHandle::join);
    }
}

impl Offer {
    fn begin(inside: NetNs, theirs: Theirs, stop: &OwnedFd) -> io::Result<Self> {
        let (poll, clock) = (Poll::new()?, Clock::new());
        poll.add(stop, STOP, Interest::Read)?;
        poll.add(&theirs.wish, LOOK, Interest::Read)?;
        // A program that is refused may want what has begun since the last look.
        let refusals = inside.run(|| Refusals::hear().ok())?;
        refusals.as_ref().map_or(Ok(()), |refusals| poll.add(refusals, REFUSED, Interest::Read))?;
        let mut offer = Self { inside, theirs, poll, offered: BTreeMap::new(), next: 0, clock, refusals };
        offer.look()?;
        Ok(offer)
    }

    fn run(mut self, first_again: Duration) {
        let (mut tokens, mut wait) = (Vec::new(), first_again);
        let mut rested = self.clock.now();
        let mut again = rested + wait;
        loop {
            if self.poll.wait(&self.clock, Some(again), &mut tokens).is_err() || tokens.contains(&STOP) {
                return;
            }
            let (now, is_wished) = (self.clock.now(), tokens.contains(&LOOK));
            if is_wished {
                let _ = rustix::io::read(&*self.theirs.wish, &mut [0; 8]);
            }
            for token in &tokens {
                // The upper half is the service's number; the lower one is a client's, or 0.
                let (number, client) = ((token >> 32) as u32, *token as u32);
                match self.offered.get_mut(&number) {
                    Some((_, Offered::Streams(listener))) => streams::accept(listener),
                    Some((_, Offered::Datagrams(port))) => port.event(now, &self.poll, client),
                    None => {}
                }
            }
            if self.refusals.as_ref().filter(|_| tokens.contains(&REFUSED)).is_some_and(Refusals::heard) {
                (again, wait) = (again.min(rested), FIRST_AGAIN / 2);
            }
            if is_wished || now >= again {
                // What cannot be seen now is seen later.
                let _ = self.look();
                wait = if is_wished { FIRST_AGAIN } else { (wait * 2).min(LONGEST_AGAIN) };
                let looked = self.clock.now();
                (again, rested) = (looked + wait, looked + (looked.since(now) * 10).max(REST));
            }
        }
    }

    /// Looks up what listens outside, and offers the same inside.
    fn look(&mut self) -> io::Result<()> {
        let there: BTreeSet<Service> = {
            // None of theirs is opened meanwhile.
            let theirs = self.theirs.lock();
            listening::services()?.into_iter().filter(|one| !theirs.contains(one)).take(MOST).collect()
        };
        self.offered.retain(|_, (service, _)| there.contains(service));
        let known: BTreeSet<Service> = self.offered.values().map(|(service, _)| *service).collect();
        let new: Vec<Service> = there.difference(&known).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        // What is in use inside is a program's own.
        let made = self.inside.run(|| {
            let open = |service: &Service| match service.kind {
                ServiceKind::Streams => {
                    listening::listen(service.at, false).ok().map(|socket| Offered::Streams(socket.into()))
                }
                ServiceKind::Datagrams => {
                    listening::bind(service.at).ok().map(|s| Offered::Datagrams(Port::new(s, service.at)))
                }
            };
            new.iter().filter_map(|service| Some((*service, open(service)?))).collect::<Vec<_>>()
        })?;
        for (service, mut offered) in made {
            self.next += 1;
            let token = u64::from(self.next) << 32;
            match &mut offered {
                Offered::Streams(listener) => self.poll.add(&*listener, token, Interest::Read)?,
                Offered::Datagrams(port) => port.listen(&self.poll, token)?,
            }
            self.offered.insert(self.next, (service, offered));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
