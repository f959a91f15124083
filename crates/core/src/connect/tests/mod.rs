//! Conversations between programs, the connector and a scripted network, in virtual time.

mod ahead;
mod asks;
mod beside;
mod calls;
mod claimed;
mod contract;
mod counted;
mod denied;
mod explained;
mod first;
mod guessed;
mod many;
mod overheard;
mod place;
mod rescue;
mod servers;
mod services;
mod spares;
mod stories;
mod told;
mod translator;
mod wanted;

use super::*;
use crate::machine::Machine;
use crate::path::Family;
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use crate::wire::shim::Pass;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
pub(super) fn v4(n: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, n])
}
pub(super) fn v6(n: u16) -> IpAddr {
    IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n])
}

/// How a host treats attempts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Host {
    Answers(u64),
    Refuses(u64),
    Silent,
    /// There is no descriptor for a socket.
    OutOfReach,
}

/// How the DNS server treats queries for one record type of a name.
#[derive(Clone, Debug)]
pub(super) enum Dns {
    Says(u64, LookupResult),
    Silent,
}

pub(super) fn says(after: u64, addresses: &[IpAddr]) -> Dns {
    Dns::Says(after, LookupResult::Addresses(addresses.to_vec(), Duration::from_secs(60)))
}

#[derive(Debug)]
enum Event {
    Lookup(QueryId, u32, LookupResult),
    Attempt(AttemptId, AttemptResult),
}

/// A network by script, and a record of all that the connector asked for.
#[derive(Debug)]
pub(super) struct Story {
    pub connector: Connector,
    pub now: Instant,
    pub names: BTreeMap<(String, RecordType), Dns>,
    pub hosts: BTreeMap<IpAddr, Host>,
    /// How many DNS servers there are, and those that answer nothing.
    pub servers: u32,
    pub dead: Vec<u32>,
    /// Programs that do not wait may be rescued.
    pub rescuable: bool,
    pub looks: Looks,
    /// Where the programs' own attempts go.
    claimed: BTreeMap<RequestId, IpAddr>,
    /// Everything that came out, with its time in milliseconds.
    pub outputs: Vec<(u64, Output)>,
    /// The account that calls are on.
    pub account: u32,
    events: BTreeMap<(Instant, u64), Event>,
    next: u64,
}

impl Story {
    pub fn of(race: &str) -> Self {
        Self::with(Settings { explore: 0.0, ..Settings::of(race::find(race).unwrap()) })
    }

    pub fn with(settings: Settings) -> Self {
        Self {
            connector: Connector::new(settings),
            now: Instant::ZERO,
            names: BTreeMap::new(),
            hosts: BTreeMap::new(),
            servers: 1,
            dead: Vec::new(),
            rescuable: false,
            looks: Looks::Always,
            claimed: BTreeMap::new(),
            outputs: Vec::new(),
            account: 0,
            events: BTreeMap::new(),
            next: 0,
        }
    }

    pub fn dns(mut self, name: &str, record: impl Into<RecordType>, dns: Dns) -> Self {
        self.names.insert((name.into(), record.into()), dns);
        self
    }

    pub fn host(mut self, addr: IpAddr, host: Host) -> Self {
        self.hosts.insert(addr, host);
        self
    }

    /// A dual-stack site: A after `a` ms, AAAA after `aaaa` ms, round trips of `r4` and `r6` ms.
    pub fn site(self, name: &str, n: u8, (a, aaaa): (u64, u64), (r4, r6): (u64, u64)) -> Self {
        self.dns(name, Family::V4, says(a, &[v4(n)]))
            .dns(name, Family::V6, says(aaaa, &[v6(n.into())]))
            .host(v4(n), Host::Answers(r4))
            .host(v6(n.into()), Host::Answers(r6))
    }

    pub(super) fn drain(&mut self) {
        while let Some(output) = self.connector.poll_output() {
            match &output {
                Output::Query { id, name, record, server } => {
                    let server = server % self.servers;
                    let says = self.dns_for(name, *record).filter(|_| !self.dead.contains(&server));
                    if let Some(Dns::Says(after, result)) = says {
                        self.schedule(after, Event::Lookup(*id, server, result));
                    }
                }
                Output::Connect { id, to, .. } => self.dial(*id, to.ip()),
                Output::Begin { request, attempt } => self.dial(*attempt, self.claimed[request]),
                Output::Close(id) | Output::Rescue { stalled: id, .. } => {
                    self.events.retain(|_, e| !matches!(e, Event::Attempt(a, _) if a == id));
                }
                _ => {}
            }
            self.outputs.push((self.now.as_nanos() / 1_000_000, output));
        }
    }

    fn dial(&mut self, id: AttemptId, to: IpAddr) {
        let (after, result) = match self.hosts.get(&to) {
            Some(Host::Answers(rtt)) => (*rtt, AttemptResult::Connected(ms(*rtt))),
            Some(Host::Refuses(rtt)) => (*rtt, AttemptResult::Failed(111)),
            Some(Host::OutOfReach) => (0, AttemptResult::NotBegun(24)),
            // tcp_syn_retries = 6: the kernel gives up after about 130 s.
            Some(Host::Silent) | None => (130_000, AttemptResult::Failed(110)),
        };
        self.schedule(after, Event::Attempt(id, result));
    }

    /// Where the story is silent about HTTPS there is none, and that is said as soon as one of the others is answered.
    fn dns_for(&self, name: &str, record: RecordType) -> Option<Dns> {
        let told = |record| self.names.get(&(name.to_owned(), record)).cloned();
        let none = || {
            let others = [told(RecordType::A), told(RecordType::Aaaa)].into_iter().flatten();
            let after = others.filter_map(|d| match d {
                Dns::Says(after, _) => Some(after),
                Dns::Silent => None,
            });
            Some(Dns::Says(after.min()?, LookupResult::NoData(Duration::from_secs(60))))
        };
        told(record).or_else(|| none().filter(|_| record == RecordType::Https))
    }

    fn schedule(&mut self, after: u64, event: Event) {
        self.next += 1;
        self.events.insert((self.now + ms(after), self.next), event);
    }

    pub fn input(&mut self, input: Input) {
        self.connector.handle_input(self.now, input);
        self.drain();
    }

    /// Lets time pass to `until`, or until `stop` says that it has seen enough.
    pub(super) fn run_while(&mut self, until: Instant, stop: impl Fn(&Output) -> bool) {
        let mut seen = self.outputs.len();
        let (mut idle, mut last) = (0, self.now);
        loop {
            idle = if last == self.now { idle + 1 } else { 0 };
            last = self.now;
            assert!(idle < 1000, "stuck at {:?}, wanting to wake at {:?}", self.now, self.connector.poll_timeout());
            if self.outputs[seen..].iter().any(|(_, o)| stop(o)) {
                return;
            }
            seen = self.outputs.len();
            let event = self.events.keys().next().copied();
            let timer = self.connector.poll_timeout().map(|d| d.at.max(self.now));
            let at = event.map_or(Instant::FAR_FUTURE, |(t, _)| t).min(timer.unwrap_or(Instant::FAR_FUTURE));
            if at > until {
                self.now = self.now.max(until);
                return;
            }
            self.now = at;
            match event.filter(|(t, _)| *t == at).and_then(|key| self.events.remove(&key)) {
                Some(Event::Lookup(id, server, r)) => {
                    self.connector.handle_input(at, Input::Replied(id, server));
                    self.connector.handle_input(at, Input::Lookup(id, r));
                }
                Some(Event::Attempt(id, r)) => self.connector.handle_input(at, Input::Attempt(id, r)),
                None => self.connector.handle_timeout(at),
            }
            self.drain();
        }
    }

    /// Lets `millis` pass.
    pub fn pass(&mut self, millis: u64) {
        self.run_while(self.now + ms(millis), |_| false);
    }

    /// The launch that went on is over, and another one of `app` begins, on an account of its own.
    pub fn launch(&mut self, app: &str) {
        self.connector.close_account(self.account);
        self.drain();
        self.account += 1;
        self.input(Input::Launched { account: self.account, app: app.into() });
    }

    fn request(&mut self) -> RequestId {
        self.next += 1;
        RequestId(u64::from(self.account) << 32 | self.next)
    }

    /// getaddrinfo by `app`, waited for.
    pub fn resolve(&mut self, app: &str, name: &str, want: Want, port: Option<u16>) -> Resolved {
        let request = self.request();
        let before = self.outputs.len();
        self.input(Input::Resolve(request, Resolve { app: app.into(), name: name.into(), want, port }));
        let answer = |o: &Output| matches!(o, Output::Answer(r, _) if *r == request);
        if !self.outputs[before..].iter().any(|(_, o)| answer(o)) {
            self.run_while(self.now + Duration::from_secs(1000), answer);
        }
        let found = self.outputs.iter().find_map(|(_, o)| match o {
            Output::Answer(r, resolved) if *r == request => Some(resolved.clone()),
            _ => None,
        });
        found.expect("every getaddrinfo is answered")
    }

    /// connect by `app` with a socket of the address's family, waited for.
    pub fn connect(&mut self, app: &str, addr: IpAddr, nonblocking: bool) -> Output {
        let domain = Family::of(addr);
        let claim = Claim {
            app: app.into(),
            to: (addr, 443).into(),
            domain,
            nonblocking,
            accepts_mapped: domain == Family::V6,
            rescuable: (self.rescuable && nonblocking).then_some(self.looks),
        };
        let request = self.request();
        let before = self.outputs.len();
        self.claimed.insert(request, addr);
        self.input(Input::Claim(request, claim));
        let reply = |o: &Output| match o {
            Output::HandOver { request: r, .. } | Output::Begin { request: r, .. } => *r == request,
            Output::Fail(r, _) | Output::Pass(r, _) => *r == request,
            _ => false,
        };
        if !self.outputs[before..].iter().any(|(_, o)| reply(o)) {
            // Six silent addresses one after the other: 6 times 130 s.
            self.run_while(self.now + Duration::from_secs(1000), reply);
        }
        self.outputs.iter().map(|(_, o)| o).find(|o| reply(o)).expect("every connect is answered").clone()
    }

    /// getaddrinfo, then a blocking connect to the first address: the address reached and how long it took in all, in ms.
    pub fn visit(&mut self, app: &str, name: &str) -> (IpAddr, u64) {
        let began = self.now;
        let Resolved::Addresses(list) = self.resolve(app, name, Want::Both, Some(443)) else {
            panic!("{name} resolves");
        };
        match self.connect(app, list[0], false) {
            Output::HandOver { attempt, connected: true, .. } => {
                (self.reached(attempt), u64::try_from((self.now - began).as_millis()).unwrap())
            }
            other => panic!("{name} was not reached: {other:?}"),
        }
    }

    /// As [`Self::visit`], by a program whose socket takes either family, like Java's.
    pub fn visit_either(&mut self, app: &str, name: &str) -> IpAddr {
        let Resolved::Addresses(list) = self.resolve(app, name, Want::Both, Some(443)) else {
            panic!("{name} resolves");
        };
        for addr in list {
            if let Output::HandOver { attempt, connected: true, .. } = self.connect(app, addr, false) {
                return self.reached(attempt);
            }
        }
        panic!("{name} was not reached");
    }

    pub fn reached(&self, attempt: AttemptId) -> IpAddr {
        let to = self.outputs.iter().find_map(|(_, o)| match o {
            Output::Connect { id, to, .. } if *id == attempt => Some(to.ip()),
            _ => None,
        });
        to.expect("only what was begun is handed over")
    }

    /// Both families of `name` visited on their own once, as `curl -4` and `curl -6` would: a warm history.
    pub fn warm(&mut self, app: &str, name: &str) {
        for family in Family::BOTH {
            if let Resolved::Addresses(list) = self.resolve(app, name, Want::Only(family), Some(443)) {
                self.connect(app, list[0], false);
            }
            self.pass(5000);
        }
    }

    /// The times in ms at which attempts to each address began.
    pub fn begun(&self) -> Vec<(u64, IpAddr)> {
        let begun = |(t, o): &(u64, Output)| match o {
            Output::Connect { to, .. } => Some((*t, to.ip())),
            _ => None,
        };
        self.outputs.iter().filter_map(begun).collect()
    }
}

pub(super) fn app() -> AppId {
    Arc::from("curl")
}

pub(super) fn passed(o: &Output) -> Option<Pass> {
    match o {
        Output::Pass(_, reason) => Some(*reason),
        _ => None,
    }
}
