//! Which calls nothing is to be done for: what the thread that receives them asks, and what the supervisor tells it.

use super::looks::Knowledge;
use crate::calls::Sieve;
use crate::clock::Clock;
use crate::supervisor::engine::DNS;
use crate::supervisor::returned::Addresses;
use crate::sys::seccomp::{Kind, Notification};
use headstart_core::connect::{AppId, Looks};
use headstart_core::time::Instant;
use headstart_core::wire::sockaddr;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers of descriptors remembered: what most programs may have open.
const MAX_REDIRECTED: usize = 1024;
/// Connects to unknown addresses that are counted later. One more is handed on, and they are counted with it.
const MAX_PASSED: usize = 256;

/// What is known of the programs of one run.
#[derive(Debug)]
pub(super) struct Known {
    returned: Arc<Addresses>,
    clock: Clock,
    /// A program's attempt has stalled, and its next call is waited for.
    rescuing: AtomicBool,
    connects: AtomicU64,
    event_sets_made: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Numbers of descriptors under which a program has been given a socket that leads to the stub. Any of them may be
    /// turned elsewhere.
    redirected: BTreeSet<RawFd>,
    knowledge: Knowledge,
    passed: Vec<(Instant, IpAddr)>,
}

impl Known {
    /// Nothing yet, but which addresses were `returned` to programs.
    pub fn new(returned: Arc<Addresses>, clock: Clock) -> Self {
        let (rescuing, connects, event_sets_made, inner) = Default::default();
        Self { returned, clock, rescuing, connects, event_sets_made, inner }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all calls are to be seen that may be those of a program whose attempt has stalled.
    pub fn set_rescuing(&self, rescuing: bool) {
        self.rescuing.store(rescuing, Ordering::Release);
    }

    /// One more connect was trapped.
    pub fn count_connect(&self) {
        self.connects.fetch_add(1, Ordering::Relaxed);
    }

    /// Connects that were trapped so far.
    pub fn connects(&self) -> u64 {
        self.connects.load(Ordering::Relaxed)
    }

    /// How many epoll sets programs have made so far.
    pub fn event_sets_made(&self) -> u64 {
        self.event_sets_made.load(Ordering::Acquire)
    }

    /// A program has a socket that leads to the stub under this number.
    pub fn add_redirected(&self, number: RawFd) {
        let redirected = &mut self.inner().redirected;
        if redirected.len() < MAX_REDIRECTED {
            redirected.insert(number);
        }
    }

    /// Whether a program has had such a socket under this number.
    pub fn is_redirected(&self, number: RawFd) -> bool {
        self.inner().redirected.contains(&number)
    }

    /// The program of `thread` has asked the kernel how its connect ended.
    pub fn looks(&self, thread: i32) {
        self.inner().knowledge.looks(thread);
    }

    /// Whether `app`, which is the program of `thread`, is known to look.
    pub fn of(&self, thread: i32, app: &AppId) -> Looks {
        self.inner().knowledge.of(thread, app)
    }

    /// When connects went where to addresses that were not returned to any program, since the last time that this was asked.
    pub fn passed(&self) -> Vec<(Instant, IpAddr)> {
        std::mem::take(&mut self.inner().passed)
    }

    /// Whether nothing is to be done for a connect of `number` to `address`.
    fn lets_connect(&self, number: RawFd, address: &[u8]) -> bool {
        let mut inner = self.inner();
        let had_one_of_ours = inner.redirected.contains(&number);
        // What is no address of the internet is the kernel's, unless it undoes a connect of ours.
        let Some(to) = sockaddr::destination(address) else { return !(had_one_of_ours && is_undoing(address)) };
        let is_ours = had_one_of_ours || to.port() == DNS || self.returned.may_have(to.ip());
        if is_ours || inner.passed.len() == MAX_PASSED {
            return false;
        }
        inner.passed.push((self.clock.now(), to.ip()));
        true
    }
}

impl Sieve for Known {
    fn lets_go(&self, call: &Notification, address: &[u8]) -> bool {
        if call.kind == Kind::EventSet {
            self.event_sets_made.fetch_add(1, Ordering::Release);
            return true;
        }
        if call.kind == Kind::Send || self.rescuing.load(Ordering::Acquire) {
            return false;
        }
        if call.kind == Kind::Look {
            self.looks(call.thread);
        }
        if call.kind != Kind::Connect {
            return true;
        }
        let lets_go = self.lets_connect(call.number, address);
        if lets_go {
            self.count_connect();
        }
        lets_go
    }
}

/// Whether this is the address by which a connect is undone (connect(2)): AF_UNSPEC.
pub(super) fn is_undoing(address: &[u8]) -> bool {
    address.first_chunk().is_some_and(|family| i32::from(u16::from_ne_bytes(*family)) == libc::AF_UNSPEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELSEWHERE: [u8; 4] = [192, 0, 2, 7];

    /// A `sockaddr_in`.
    fn v4(addr: [u8; 4], port: u16) -> Vec<u8> {
        let family = (libc::AF_INET as u16).to_ne_bytes();
        [&family[..], &port.to_be_bytes(), &addr, &[0; 8]].concat()
    }

    fn known() -> Known {
        Known::new(Arc::default(), Clock::new())
    }

    fn call(kind: Kind, number: RawFd) -> Notification {
        Notification { id: 1, thread: 0, kind, number, address: (0, 0) }
    }

    #[test]
    fn a_connect_to_an_address_that_no_program_was_given_is_let_go_and_counted() {
        let known = known();
        assert!(known.lets_go(&call(Kind::Connect, 5), &v4(ELSEWHERE, 80)));
        assert_eq!(known.connects(), 1);
        let passed: Vec<_> = known.passed().into_iter().map(|(_, addr)| addr).collect();
        assert_eq!(passed, [IpAddr::from(ELSEWHERE)]);
        assert!(known.passed().is_empty());
        known.returned.add(ELSEWHERE.into());
        assert!(!known.lets_go(&call(Kind::Connect, 5), &v4(ELSEWHERE, 80)));
        assert_eq!(known.connects(), 1, "counted where it is dealt with");
    }

    #[test]
    fn dns_servers_and_sockets_that_lead_to_the_stub_are_seen_to() {
        let known = known();
        let undone = [0u8; 16];
        assert!(known.lets_go(&call(Kind::Connect, 5), &undone));
        known.add_redirected(5);
        assert!(!known.lets_go(&call(Kind::Connect, 5), &undone));
        assert!(!known.lets_go(&call(Kind::Connect, 5), &v4(ELSEWHERE, 80)));
        assert!(known.lets_go(&call(Kind::Connect, 6), &v4(ELSEWHERE, 80)));
        assert!(!known.lets_go(&call(Kind::Connect, 6), &v4(ELSEWHERE, 53)));
        assert!(!known.lets_go(&call(Kind::Send, 6), &v4(ELSEWHERE, 80)));
    }

    #[test]
    fn epoll_sets_that_are_made_are_counted() {
        let known = known();
        known.set_rescuing(true);
        assert!(known.lets_go(&call(Kind::EventSet, 0), &[]));
        assert_eq!((known.event_sets_made(), known.connects()), (1, 0));
    }

    #[test]
    fn while_a_program_is_being_rescued_every_call_is_seen() {
        let known = known();
        for kind in [Kind::Connect, Kind::Peer] {
            assert!(known.lets_go(&call(kind, 5), &v4(ELSEWHERE, 80)));
            known.set_rescuing(true);
            assert!(!known.lets_go(&call(kind, 5), &v4(ELSEWHERE, 80)));
            known.set_rescuing(false);
        }
    }

    #[test]
    fn what_is_counted_later_does_not_grow_for_ever() {
        let known = known();
        let connect = || known.lets_go(&call(Kind::Connect, 5), &v4(ELSEWHERE, 80));
        assert!((0..MAX_PASSED).all(|_| connect()));
        assert!(!connect(), "is handed on, and the others are counted with it");
        assert_eq!(known.passed().len(), MAX_PASSED);
        assert!(connect());
    }
}
