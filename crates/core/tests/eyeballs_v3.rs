//! `happy-eyeballs-v3` against the state machine of draft-ietf-happy-happyeyeballs-v3, written anew from its text: random
//! answers and hosts, compared attempt by attempt, address and moment.
//!
//! Where the race does otherwise, and why. Everything else must be the same.
//!
//! | draft | race |
//! |---|---|
//! | section 4.2: "a resolution time delay has passed" does not say since when | since the first addresses, hints included |
//! | section 4.2.1: targets of other names, aliases are asked for in their turn | not asked for: below a program nobody knows whether it may go there (`connect::service`); not played here |
//! | sections 5.1, 5.2: groups by protocol and priority | one group: the program's protocol is unknown; not played here |
//! | section 5.3: all rules of RFC 6724 | rule 1 (routes) and the precedence of IPv6; the others need source addresses |
//! | section 6: the next attempt when the timer fires | and at once when nothing is under way any more: an attempt that has failed keeps nobody waiting |
//! | section 6: no bound on attempts | a bound, which five addresses a family do not reach |
//! | section 8: "including those previously received": whether a hint that is gone still has its place | it has, if it was tried; else it has none |
//! | section 8: the timer MAY fire sooner after a new answer | it does not |
//! | section 9.4: A is asked 2 s after the last attempt on networks without IPv4 | A is asked with AAAA; not played here |
#![forbid(unsafe_code)]

use headstart_core::connect::{
    AttemptId, AttemptResult, Claim, Connector, Input, LookupResult, Output, QueryId, RequestId, Resolve, Resolved,
    Settings, Want, race,
};
use headstart_core::machine::Machine;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::{RecordType, Service};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What is played. Times in milliseconds.
#[derive(Clone, Debug)]
struct Script {
    /// HTTPS, AAAA, A: when it is answered, if it is.
    after: [Option<u64>; 3],
    /// AAAA, A: numbers of the addresses; none is a negative answer.
    own: [Vec<u8>; 2],
    /// The same of the hints of HTTPS.
    hints: [Vec<u8>; 2],
    /// What becomes of attempts to IPv6 and IPv4 addresses, by number.
    hosts: [Vec<Host>; 2],
    ipv6: bool,
}

#[derive(Clone, Copy, Debug)]
enum Host {
    Answers(u64),
    Refuses(u64),
    Silent,
}

fn scripts() -> impl Strategy<Value = Script> {
    // No two answers, and no answer and the end of the resolution delay (50 ms), come in the same millisecond: the draft decides with
    // all that is known by then, the race with one input after the other.
    let after = |rest| proptest::option::weighted(0.85, (0u64..25).prop_map(move |n| 16 * n + rest));
    let list = || proptest::sample::subsequence((0u8..5).collect::<Vec<_>>(), 0..5);
    let host = || prop_oneof![1 => (1u64..900).prop_map(Host::Answers), 2 => (1u64..900).prop_map(Host::Refuses), 2 => Just(Host::Silent)];
    let hosts = || proptest::collection::vec(host(), 5);
    let hints = prop_oneof![Just([vec![], vec![]]), (list(), list()).prop_map(|(a, b)| [a, b])];
    let ipv6 = proptest::bool::weighted(0.85);
    ([after(0), after(3), after(7)], [list(), list()], hints, [hosts(), hosts()], ipv6)
        .prop_map(|(after, own, hints, hosts, ipv6)| Script { after, own, hints, hosts, ipv6 })
}

fn address(family: usize, n: u8) -> IpAddr {
    match family {
        0 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(n) + 1]),
        _ => IpAddr::from([198, 51, 100, n + 1]),
    }
}

impl Script {
    fn host(&self, to: IpAddr) -> Host {
        match to {
            IpAddr::V6(v6) => self.hosts[0][usize::from(v6.segments()[7]) - 1],
            IpAddr::V4(v4) => self.hosts[1][usize::from(v4.octets()[3]) - 1],
        }
    }
}

/// The draft's machine.
struct Draft<'a> {
    script: &'a Script,
    attempts: Vec<(u64, IpAddr)>,
}

impl Draft<'_> {
    /// Section 4.2: whether this record has been answered by then.
    fn answered(&self, record: usize, now: u64) -> bool {
        self.script.after[record].is_some_and(|at| at <= now)
    }

    /// Section 4.2.1 and 8: addresses of a family; hints only until its own records are there, which replace them.
    fn known(&self, family: usize, now: u64) -> Vec<IpAddr> {
        let list = match (self.answered(family + 1, now), self.answered(0, now)) {
            (true, _) => &self.script.own[family],
            (false, true) => &self.script.hints[family],
            (false, false) => return Vec::new(),
        };
        list.iter().map(|n| address(family, *n)).collect()
    }

    fn positive(&self, now: u64) -> bool {
        (0..2).any(|family| !self.known(family, now).is_empty())
    }

    /// Section 4.2: IPv6, unless IPv4 alone has a default route.
    fn preferred(&self) -> usize {
        usize::from(!self.script.ipv6)
    }

    /// Section 4.2: one of the two sets of conditions.
    fn may_go(&self, now: u64) -> bool {
        let complete = self.answered(self.preferred() + 1, now) && self.answered(0, now);
        let since = self.script.after.into_iter().flatten().filter(|at| *at <= now && self.positive(*at)).min();
        self.positive(now) && (complete || since.is_some_and(|at| now >= at + 50))
    }

    /// Section 8: the complete list of a family, with what was received before and is gone, if it was tried.
    fn complete(&self, family: usize, now: u64) -> Vec<IpAddr> {
        let known = self.known(family, now);
        let tried = self.attempts.iter().map(|(_, to)| *to).filter(|to| to.is_ipv4() == (family == 1));
        tried.filter(|to| !known.contains(to)).chain(known.iter().copied()).collect()
    }

    /// Section 5.3: families in turn from the preferred one (a count of 1).
    fn list(&self, now: u64) -> Vec<IpAddr> {
        let (first, second) = (self.complete(self.preferred(), now), self.complete(1 - self.preferred(), now));
        let longest = first.len().max(second.len());
        (0..longest).flat_map(|n| [first.get(n), second.get(n)].into_iter().flatten().copied()).collect()
    }

    /// How an attempt begun then stands: failed, connected, or neither yet.
    fn fate(&self, (began, to): (u64, IpAddr), now: u64) -> Option<bool> {
        match self.script.host(to) {
            Host::Answers(rtt) => (began + rtt <= now).then_some(true),
            Host::Refuses(rtt) => (began + rtt <= now).then_some(false),
            Host::Silent => None,
        }
    }

    /// Section 6: one attempt at a time, the next when its timer fires, until one has succeeded.
    fn play(mut self, until: u64) -> Vec<(u64, IpAddr)> {
        for now in 0..until {
            loop {
                let fates: Vec<_> = self.attempts.iter().map(|a| (a.0, self.fate(*a, now))).collect();
                if fates.iter().any(|(_, fate)| *fate == Some(true)) {
                    return self.attempts;
                }
                let timer = fates.iter().filter(|(_, fate)| fate.is_none()).map(|(began, _)| began + 250).max();
                let tried = |to: &IpAddr| self.attempts.iter().any(|(_, tried)| tried == to);
                let next = self.list(now).into_iter().find(|to| !tried(to));
                match next.filter(|_| self.may_go(now) && timer.is_none_or(|at| now >= at)) {
                    Some(to) => self.attempts.push((now, to)),
                    None => break,
                }
            }
        }
        self.attempts
    }
}

/// The race, driven by the same script: its first attempt to each address.
fn race(script: &Script, until: u64) -> Vec<(u64, IpAddr)> {
    let settings =
        Settings { explore: 0.0, ..Settings::of(race::find("happy-eyeballs-v3").expect("it is registered")) };
    let (connector, events) = (Connector::new(settings), BTreeMap::new());
    let mut play = Play { script, connector, now: 0, events, next: 0, begun: vec![], told: vec![] };
    play.input(Input::Network { id: NetworkId(1), v4: true, v6: script.ipv6, v4_first: false });
    // It is known to have sockets of AF_INET6 alone, so that nothing is begun once more for its sake.
    play.input(Input::Claim(RequestId(3), claim(address(1, 99))));
    let (app, name) = ("program".into(), "www.example".to_owned());
    let resolve = Resolve { app, name, want: Want::Both, port: Some(443) };
    play.input(Input::Resolve(RequestId(1), resolve));
    play.run(until);
    play.begun
}

fn claim(to: IpAddr) -> Claim {
    let app = "program".into();
    Claim { app, to: (to, 443).into(), domain: Family::V6, nonblocking: false, accepts_mapped: true, rescuable: false }
}

struct Play<'a> {
    script: &'a Script,
    connector: Connector,
    now: u64,
    events: BTreeMap<(u64, u64), Input>,
    next: u64,
    begun: Vec<(u64, IpAddr)>,
    /// What the program was told, until it goes there.
    told: Vec<IpAddr>,
}

impl Play<'_> {
    fn input(&mut self, input: Input) {
        self.connector.handle_input(Instant::from_millis(self.now), input);
        self.drain();
    }

    /// Of what comes in the same moment, ends of attempts come last: the draft knows the answers when it begins the next.
    fn later(&mut self, after: u64, input: Input) {
        let last = u64::from(matches!(input, Input::Attempt(..))) << 32;
        self.next += 1;
        self.events.insert((self.now + after, last | self.next), input);
    }

    fn drain(&mut self) {
        while let Some(output) = self.connector.poll_output() {
            match output {
                Output::Query { id, record, .. } => self.ask(id, record),
                Output::Connect { id, to, .. } => self.dial(id, to.ip()),
                Output::Close(id) => self.events.retain(|_, e| !matches!(e, Input::Attempt(a, _) if *a == id)),
                Output::Answer(_, Resolved::Addresses(list)) => self.told = list,
                _ => {}
            }
        }
        // A program whose socket takes either family and that goes where the race has begun, so that nothing is left out or
        // begun for its sake.
        if let Some(to) = self.begun.iter().map(|(_, to)| *to).find(|to| self.told.contains(to)) {
            self.told.clear();
            self.later(0, Input::Claim(RequestId(2), claim(to)));
        }
    }

    fn ask(&mut self, id: QueryId, record: RecordType) {
        let ttl = Duration::from_secs(60);
        let (place, result) = match record {
            RecordType::Https => {
                let [v6, v4] = [0, 1].map(|family| {
                    self.script.hints[family].iter().map(move |n| address(family, *n)).collect::<Vec<_>>()
                });
                let ipv6hint =
                    v6.into_iter().filter_map(|a| if let IpAddr::V6(a) = a { Some(a) } else { None }).collect();
                let ipv4hint =
                    v4.into_iter().filter_map(|a| if let IpAddr::V4(a) = a { Some(a) } else { None }).collect();
                let service = Service { priority: 1, ipv6hint, ipv4hint, ..Service::default() };
                (0, LookupResult::Services(vec![service], ttl))
            }
            RecordType::Aaaa => (1, self.addresses(0)),
            RecordType::A => (2, self.addresses(1)),
        };
        if let Some(at) = self.script.after[place] {
            self.later(at.saturating_sub(self.now), Input::Lookup(id, result));
        }
    }

    fn addresses(&self, family: usize) -> LookupResult {
        let list: Vec<_> = self.script.own[family].iter().map(|n| address(family, *n)).collect();
        let ttl = Duration::from_secs(60);
        if list.is_empty() { LookupResult::NoData(ttl) } else { LookupResult::Addresses(list, ttl) }
    }

    fn dial(&mut self, id: AttemptId, to: IpAddr) {
        if self.begun.iter().all(|(_, known)| *known != to) {
            self.begun.push((self.now, to));
        }
        match self.script.host(to) {
            Host::Answers(rtt) => {
                self.later(rtt, Input::Attempt(id, AttemptResult::Connected(Duration::from_millis(rtt))));
            }
            Host::Refuses(rtt) => self.later(rtt, Input::Attempt(id, AttemptResult::Failed(111))),
            Host::Silent => {}
        }
    }

    /// Until then, or until somebody has answered.
    fn run(&mut self, until: u64) {
        loop {
            let event = self.events.keys().next().copied();
            let timer = self.connector.poll_timeout().map(|d| d.at.as_nanos().div_ceil(1_000_000).max(self.now));
            let at = event.map_or(u64::MAX, |(at, _)| at).min(timer.unwrap_or(u64::MAX));
            if at >= until {
                return;
            }
            self.now = at;
            // What is open in the same moment as an answer comes ends the race: the draft begins nothing then.
            let is_open = |input: &Input| matches!(input, Input::Attempt(_, AttemptResult::Connected(_)));
            if self.events.iter().take_while(|((t, _), _)| *t == at).any(|(_, input)| is_open(input)) {
                return;
            }
            match event.filter(|(t, _)| *t == at).and_then(|key| self.events.remove(&key)) {
                Some(input) => self.input(input),
                None => {
                    self.connector.handle_timeout(Instant::from_millis(at));
                    self.drain();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    #[test]
    fn it_begins_every_attempt_that_the_draft_begins_and_when_the_draft_does(script in scripts()) {
        // Longer than all ten addresses take, one after the other.
        let until = 4000;
        let draft = Draft { script: &script, attempts: Vec::new() }.play(until);
        prop_assert_eq!(race(&script, until), draft);
    }
}
