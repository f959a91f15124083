//! Virtual time, the network of a world, and the calls of a program as futures: a program is an `async fn` that knows
//! nothing of how its calls are served.

use super::headstart::{PORT, Supervisor};
use super::world::{Fate, Record, Says, Server, World};
use headstart_core::connect::AttemptId;
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::RecordType;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

pub const ECONNREFUSED: i32 = 111;
pub const ETIMEDOUT: i32 = 110;
pub const EHOSTUNREACH: i32 = 113;
pub const ENETUNREACH: i32 = 101;
/// When the kernel gives up a silent address: tcp_syn_retries = 6, as measured with wget.
pub const GIVES_UP: u64 = 130_000;
/// When the kernel repeats a SYN (RFC 6298).
const SYN_AGAIN: [u64; 6] = [0, 1000, 3000, 7000, 15_000, 31_000];

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Addresses(Vec<IpAddr>),
    NoData,
    NxDomain,
    Fails,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Time,
    /// getaddrinfo; none for an error.
    Resolved(Vec<IpAddr>),
    /// The C library is to do it.
    Passed,
    Reply(Reply),
    /// connect; an errno.
    Tcp(Result<(), i32>),
}

/// A call that a program waits for, by its place in [`Sim::calls`].
pub type Call = usize;

#[derive(Debug)]
pub enum Event {
    End(Call, Outcome),
    /// For the connector.
    Lookup(u64, u32, Reply),
    /// An attempt of the connector's, or one of a program's that it watches.
    Attempt(AttemptId),
    /// A connection that nobody has is reset.
    Spoilt(AttemptId),
    /// The library has waited long enough for a getaddrinfo, and leaves it to the C library.
    Patience(u64),
    Move,
}

/// A SYN that was sent, not counting what the kernel repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syn {
    pub at: Instant,
    pub to: IpAddr,
    /// 443 is where the program goes; what is guessed may be another.
    pub port: u16,
    pub visit: usize,
    /// The host had moved.
    pub moved: bool,
    /// Begun before the program said a port or went anywhere: a guess.
    pub guessed: bool,
}

pub struct Sim {
    pub world: Rc<World>,
    pub now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    next: u64,
    calls: Vec<Option<Outcome>>,
    asked: BTreeMap<(usize, RecordType), u32>,
    pub syns: Vec<Syn>,
    /// The addresses that the program was told in each visit.
    pub told: Vec<Vec<IpAddr>>,
    pub visit: usize,
    pub moved: bool,
    /// The program has gone somewhere in this visit.
    pub has_gone: bool,
    pub supervisor: Option<Supervisor>,
}

impl Sim {
    pub fn new(world: &Rc<World>, supervisor: Option<Supervisor>) -> Self {
        Self {
            world: Rc::clone(world),
            now: Instant::ZERO,
            events: BTreeMap::new(),
            next: 0,
            calls: Vec::new(),
            asked: BTreeMap::new(),
            syns: Vec::new(),
            told: Vec::new(),
            visit: 0,
            moved: false,
            has_gone: false,
            supervisor,
        }
    }

    /// What is lost of a visit's questions is lost of as many of the next one's, whether it had fewer to ask or not: what is in a
    /// cache is no reason for another visit's luck.
    pub fn begin_visit(&mut self, n: usize) {
        self.visit = n;
        self.has_gone = false;
        self.told.push(Vec::new());
        self.asked.clear();
    }

    pub fn call(&mut self) -> Call {
        self.calls.push(None);
        self.calls.len() - 1
    }

    pub fn end(&mut self, call: Call, outcome: Outcome) {
        if !matches!(outcome, Outcome::Time) && self.calls[call].is_none() {
            note(self.now, &("program", call, &outcome));
        }
        self.calls[call].get_or_insert(outcome);
    }

    pub fn outcome(&self, call: Call) -> Option<&Outcome> {
        self.calls[call].as_ref()
    }

    pub fn after(&mut self, time: Duration, event: Event) -> (Instant, u64) {
        self.next += 1;
        let key = (self.now + time, self.next);
        self.events.insert(key, event);
        key
    }

    pub fn cancel(&mut self, which: impl Fn(&Event) -> bool) {
        self.events.retain(|_, event| !which(event));
    }

    pub fn routes(&self) -> (bool, bool) {
        match &self.world.moves {
            Some(to) if self.moved => to.routes,
            _ => self.world.routes,
        }
    }

    /// What comes of a question to `server`, if anything does.
    pub fn asks(&mut self, server: usize, record: RecordType) -> Option<(Duration, Reply)> {
        let server = server % self.world.servers.len();
        let count = self.asked.entry((server, record)).or_default();
        *count += 1;
        let count = *count;
        let Server { a, aaaa, https } = self.world.servers[server];
        let (of, family) = match record {
            RecordType::A => (a, Some(Family::V4)),
            RecordType::Aaaa => (aaaa, Some(Family::V6)),
            RecordType::Https => (https, None),
        };
        note(self.now, &("asks", server, record, count));
        let Record { after, says, lost, failed } = of?;
        if count <= lost {
            return None;
        }
        let reply = match (says, family) {
            _ if count <= lost + failed => Reply::Fails,
            (Says::Addresses, Some(family)) => Reply::Addresses(self.world.addresses(family)),
            (Says::NoData | Says::Addresses, _) => Reply::NoData,
            (Says::NxDomain, _) => Reply::NxDomain,
            (Says::Fails, _) => Reply::Fails,
        };
        Some((ms(after), reply))
    }

    pub fn fate(&self, to: IpAddr) -> Fate {
        self.world.fate(to, self.moved)
    }

    /// A SYN to `to`: when and how the attempt ends.
    pub fn dial(&mut self, to: IpAddr, port: u16) -> (Duration, Result<(), i32>) {
        let routes = self.routes();
        if !(if to.is_ipv4() { routes.0 } else { routes.1 }) {
            return (Duration::ZERO, Err(ENETUNREACH));
        }
        let guessed = !self.has_gone && !self.world.says_port();
        note(self.now, &("SYN", to, port, self.fate(to)));
        self.syns.push(Syn { at: self.now, to, port, visit: self.visit, moved: self.moved, guessed });
        let (after, result) = match self.fate(to) {
            Fate::Alive(rtt) | Fate::Resets(rtt, _) => (rtt, Ok(())),
            Fate::Refuses(rtt) => (rtt, Err(ECONNREFUSED)),
            Fate::Silent => (GIVES_UP, Err(ETIMEDOUT)),
            Fate::Loses(n, rtt) => (SYN_AGAIN[n as usize] + rtt, Ok(())),
            Fate::Unreachable(after) => (after, Err(EHOSTUNREACH)),
        };
        (ms(after), result)
    }

    /// The program's own connect by the kernel.
    pub fn dial_for(&mut self, call: Call, to: IpAddr) {
        let (after, result) = self.dial(to, PORT);
        if after.is_zero() {
            self.end(call, Outcome::Tcp(result));
        } else {
            self.after(after, Event::End(call, Outcome::Tcp(result)));
        }
    }

    /// The host is on another network: what is on its way gets no answer any more.
    fn change(&mut self) {
        self.moved = true;
        let late = self.now + ms(GIVES_UP);
        let lost: Vec<_> = self.events.iter().filter(|(_, e)| is_tcp(e)).map(|(key, _)| *key).collect();
        for key in lost {
            let event = match self.events.remove(&key) {
                Some(Event::End(call, _)) => Event::End(call, Outcome::Tcp(Err(ETIMEDOUT))),
                Some(Event::Attempt(id)) => {
                    if let Some(supervisor) = &mut self.supervisor {
                        supervisor.is_lost(self.now, id);
                    }
                    Event::Attempt(id)
                }
                _ => continue,
            };
            self.next += 1;
            self.events.insert((late, self.next), event);
        }
    }
}

fn is_tcp(event: &Event) -> bool {
    matches!(event, Event::End(_, Outcome::Tcp(_)) | Event::Attempt(_))
}

/// Whether what happens is printed: for counter-examples that are looked at.
pub static TRACE: AtomicBool = AtomicBool::new(false);

/// Prints what happens at `now`, if it is looked at.
pub fn note(now: Instant, what: &dyn std::fmt::Debug) {
    if TRACE.load(Ordering::Relaxed) {
        println!("    {:>10.1} {what:?}", now.as_millis_f64());
    }
}

/// What a program sees of the host: its calls.
#[derive(Clone)]
pub struct Os(pub Rc<RefCell<Sim>>);

/// Waits for the end of a call.
pub struct Wait {
    os: Os,
    pub call: Call,
}

impl Future for Wait {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        self.os.0.borrow().outcome(self.call).map_or(Poll::Pending, |outcome| Poll::Ready(outcome.clone()))
    }
}

impl Os {
    pub fn wait(&self, call: Call) -> Wait {
        Wait { os: self.clone(), call }
    }

    pub fn now(&self) -> Instant {
        self.0.borrow().now
    }

    pub fn sleep(&self, time: Duration) -> Wait {
        let mut sim = self.0.borrow_mut();
        let call = sim.call();
        if time.is_zero() {
            sim.end(call, Outcome::Time);
        } else {
            sim.after(time, Event::End(call, Outcome::Time));
        }
        drop(sim);
        self.wait(call)
    }

    /// Lets time pass until `program` has ended, and at most `limit`.
    pub fn run<T>(&self, limit: Duration, program: impl Future<Output = T>) -> Option<T> {
        let mut program = pin!(program);
        let mut context = Context::from_waker(Waker::noop());
        let end = self.now() + limit;
        loop {
            if let Poll::Ready(value) = program.as_mut().poll(&mut context) {
                return Some(value);
            }
            if !self.step(end) {
                return None;
            }
        }
    }

    /// The next thing happens, if it does by `end`.
    fn step(&self, end: Instant) -> bool {
        let mut sim = self.0.borrow_mut();
        let event = sim.events.keys().next().copied();
        let timer = sim.supervisor.as_ref().and_then(Supervisor::deadline).map(|at| at.max(sim.now));
        let at = event.map_or(Instant::FAR_FUTURE, |(at, _)| at).min(timer.unwrap_or(Instant::FAR_FUTURE));
        if at > end {
            sim.now = sim.now.max(end);
            return false;
        }
        sim.now = at;
        let event = event.filter(|(t, _)| *t == at).and_then(|key| sim.events.remove(&key));
        match event {
            Some(Event::End(call, outcome)) => sim.end(call, outcome),
            Some(Event::Move) => {
                sim.change();
                Supervisor::with(&mut sim, Supervisor::moved);
            }
            other => {
                Supervisor::with(&mut sim, |supervisor, sim| supervisor.event(sim, other));
            }
        }
        true
    }
}

/// Whichever of the two ends first; the first if both have.
pub async fn first<A: Future + Unpin, B: Future + Unpin>(a: &mut A, b: &mut B) -> Either<A::Output, B::Output> {
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = Pin::new(&mut *a).poll(context) {
            return Poll::Ready(Either::First(value));
        }
        Pin::new(&mut *b).poll(context).map(Either::Second)
    })
    .await
}

pub enum Either<A, B> {
    First(A),
    Second(B),
}
