//! Races: asked again and again they come to a wait, whatever is known, and never try what is of no use.

use crate::{MOMENTS, are_named, round_trips};
use headstart_core::connect::race::{ALL, Attempt, Lookup, Next, Race, State, View, find};
use headstart_core::connect::{AttemptId, Want};
use headstart_core::path::{Family, Network, Outcome};
use headstart_core::time::Instant;
use headstart_core::wire::record::RecordType;
use std::net::IpAddr;

#[test]
fn every_race_is_named_and_found() {
    let entries: Vec<_> = ALL.iter().map(|entry| (entry.name, entry.what)).collect();
    are_named(&entries, '-', |name| find(name).ok().map(|entry| entry.name.to_owned()));
}

/// Addresses of every sort: none, one, many, twice the same, and those that lead nowhere.
fn lists() -> Vec<[Vec<IpAddr>; 2]> {
    let v4 = |n: u8| IpAddr::from([192, 0, 2, n]);
    let v6 = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]);
    vec![
        [vec![], vec![]],
        [vec![v4(1)], vec![]],
        [vec![], vec![v6(1)]],
        [vec![v4(1), v4(1)], vec![v6(1), v6(1)]],
        [(0..40).map(v4).collect(), (0..40).map(v6).collect()],
        [vec![[0, 0, 0, 0].into(), [255; 4].into()], vec![[0u16; 8].into(), [0xffff; 8].into()]],
    ]
}

/// A race in play: what is known, and what it has begun.
struct Play {
    now: Instant,
    /// A, AAAA, HTTPS.
    lookups: [Lookup; 3],
    answers: [Vec<IpAddr>; 3],
    attempts: Vec<Attempt>,
    answered: bool,
    path: Network,
    remembered: Vec<IpAddr>,
}

const fn place(record: RecordType) -> usize {
    match record {
        RecordType::A => 0,
        RecordType::Aaaa => 1,
        RecordType::Https => 2,
    }
}

impl Play {
    fn view<'a>(&'a self, want: Want, usable: &'a dyn Fn(IpAddr) -> bool, explore: bool) -> View<'a> {
        View {
            now: self.now,
            want,
            v4: &self.lookups[0],
            v6: &self.lookups[1],
            https: &self.lookups[2],
            positive: self.lookups.iter().filter(|l| !l.addresses().is_empty()).filter_map(Lookup::completed_at).min(),
            answered: self.answered,
            may_connect: true,
            done: false,
            attempts: &self.attempts,
            usable,
            fits: usable,
            serves: &|_| true,
            path: &self.path,
            just_failed: &[],
            remembered: &self.remembered,
            explore,
            comes_again: explore,
            waits: explore,
            may_spend: explore,
            faster: Some(Family::V4),
        }
    }

    /// Carries out what the race says until it waits; how many steps that took, and until when it waits.
    fn run_until_wait(
        &mut self,
        race: &dyn Race,
        want: Want,
        usable: &dyn Fn(IpAddr) -> bool,
        explore: bool,
    ) -> Option<Instant> {
        for _ in 0..1000 {
            let view = self.view(want, usable, explore);
            let next = race.next(&view);
            assert_eq!(next, race.next(&view), "{race:?} does not always say the same");
            let known = view.addresses();
            match next {
                Next::Query(record) => {
                    assert_eq!(self.lookups[place(record)], Lookup::Unasked, "{race:?} asks twice for {record}");
                    self.lookups[place(record)] = Lookup::Asked(self.now);
                }
                Next::Answer => {
                    assert!(!self.answered, "{race:?} tells the program twice");
                    self.answered = true;
                }
                Next::Attempt(addr) | Next::Explore(addr) => {
                    let exploring = matches!(next, Next::Explore(_));
                    assert!(known.contains(&addr), "{race:?} tries {addr}, which nobody has named");
                    assert!(exploring || usable(addr), "{race:?} tries {addr}, which is of no use");
                    assert!(self.attempts.iter().all(|a| a.addr != addr), "{race:?} tries {addr} twice");
                    self.attempts.push(Attempt {
                        id: AttemptId(self.attempts.len() as u64),
                        addr,
                        domain: Family::of(addr),
                        started: self.now,
                        state: State::InFlight,
                        exploring,
                        given: false,
                    });
                }
                Next::GiveUp(id) => {
                    let attempt = self.attempts.iter_mut().find(|a| a.id == id && a.state == State::InFlight);
                    attempt.unwrap_or_else(|| panic!("{race:?} gives up what is not under way")).state = State::Gone;
                }
                Next::Wait(None) => return None,
                Next::Wait(Some((at, why))) => {
                    assert!(
                        at > self.now && !why.is_empty(),
                        "{race:?}: at {:?}, waits until {at:?} ({why})",
                        self.now
                    );
                    return Some(at);
                }
            }
        }
        panic!("{race:?} never comes to a wait");
    }

    /// Whoever was asked answers; whether anybody was.
    fn answer(&mut self) -> bool {
        let mut any = false;
        for (lookup, list) in self.lookups.iter_mut().zip(&self.answers) {
            if matches!(lookup, Lookup::Asked(_)) {
                any = true;
                let list = list.clone();
                *lookup = if list.is_empty() { Lookup::Without(self.now) } else { Lookup::Addresses(self.now, list) };
            }
        }
        any
    }
}

/// From every moment, with every history, families that are wanted and lists of addresses: all attempts fail, then time passes.
#[test]
fn every_race_comes_to_its_end_whatever_it_is_told() {
    let nobody = |_: IpAddr| false;
    let everybody = |_: IpAddr| true;
    for entry in ALL {
        let race = (entry.new)();
        for [v4, v6] in lists() {
            for want in [Want::Both, Want::Only(Family::V4), Want::Only(Family::V6)] {
                for (n, now) in MOMENTS.into_iter().enumerate() {
                    for rtt in round_trips() {
                        let mut path = Network::default();
                        for addr in v4.iter().take(2).chain(v6.iter().take(1)) {
                            path.record(
                                now,
                                *addr,
                                rtt.map_or(Outcome::Failed, |rtt| Outcome::Connected(rtt.smoothed)),
                            );
                        }
                        let https = if entry.asks_https { Lookup::Unasked } else { Lookup::Without(now) };
                        let mut play = Play {
                            now,
                            lookups: [Lookup::Unasked, Lookup::Unasked, https],
                            answers: [v4.clone(), v6.clone(), vec![]],
                            attempts: Vec::new(),
                            answered: false,
                            path,
                            remembered: v6.clone(),
                        };
                        let usable: &dyn Fn(IpAddr) -> bool = if n == 1 { &nobody } else { &everybody };
                        let explore = n == 2;
                        for _ in 0..300 {
                            let wait = play.run_until_wait(&*race, want, usable, explore);
                            if !play.answer() {
                                let Some(at) = wait else { break };
                                play.now = at;
                            }
                            play.attempts.iter_mut().for_each(|attempt| attempt.state = State::Failed(111));
                        }
                        assert!(play.answered, "{entry:?} never tells the program: {v4:?} {v6:?} {want:?}");
                        let mut order = play.view(want, usable, explore).addresses();
                        let mut before = order.clone();
                        race.order(&play.view(want, usable, explore), &mut order);
                        order.sort();
                        before.sort();
                        assert_eq!(order, before, "{entry:?} loses addresses, or makes some up");
                    }
                }
            }
        }
    }
}
