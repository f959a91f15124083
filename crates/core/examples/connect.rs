//! A name whose IPv6 address never answers: when a program has its connection, race by race. The loop around a machine, in whole.
//!
//! `cargo run -p headstart-core --example connect`. Virtual time: the same numbers on every machine.
#![forbid(unsafe_code)]

use headstart_core::connect::{
    AttemptResult, Claim, Connector, Input, LookupResult, Output, RequestId, Resolve, Resolved, Settings, Want, race,
};
use headstart_core::machine::Machine;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::RecordType;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bare, Linux gives a connection up after two minutes.
const LIMIT: Instant = Instant::from_millis(120_000);
const HTTPS: u16 = 443;
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// A network without a socket: what is to happen, by the moment at which it does.
#[derive(Default)]
struct World {
    coming: BTreeMap<(Instant, usize), Input>,
    packets: usize,
}

impl World {
    fn later(&mut self, at: Instant, input: Input) {
        self.packets += 1;
        self.coming.insert((at, self.packets), input);
    }

    /// Does what the machine asks for. Whether the program has its connection.
    fn act(&mut self, now: Instant, output: Output) -> bool {
        let ttl = Duration::from_secs(60);
        match output {
            Output::Query { id, record, .. } => {
                let (after, result) = match record {
                    RecordType::Aaaa => (20, LookupResult::Addresses(vec![V6], ttl)),
                    RecordType::A => (25, LookupResult::Addresses(vec![V4], ttl)),
                    RecordType::Https => (20, LookupResult::NoData(ttl)),
                };
                self.later(now + Duration::from_millis(after), Input::Lookup(id, result));
            }
            // IPv6 says nothing, ever.
            Output::Connect { id, to, .. } if to.is_ipv4() => {
                let rtt = Duration::from_millis(40);
                self.later(now + rtt, Input::Attempt(id, AttemptResult::Connected(rtt)));
            }
            Output::Answer(_, Resolved::Addresses(list)) => {
                let to = (list[0], HTTPS).into();
                let domain = if list[0].is_ipv4() { Family::V4 } else { Family::V6 };
                let (app, accepts_mapped) = ("program".into(), domain == Family::V6);
                let claim = Claim { app, to, domain, nonblocking: false, accepts_mapped, rescuable: false };
                self.later(now, Input::Claim(RequestId(2), claim));
            }
            Output::HandOver { connected, .. } => return connected,
            _ => {}
        }
        false
    }
}

/// When the program has its connection under this race, if it gets one.
fn connected_at(race: &'static race::Entry) -> Option<Instant> {
    let (mut connector, mut world) = (Connector::new(Settings::of(race)), World::default());
    let mut now = Instant::ZERO;
    world.later(now, Input::Network { id: NetworkId(1), v4: true, v6: true, v4_first: false });
    let (app, name) = ("program".into(), "www.example".to_owned());
    world.later(now, Input::Resolve(RequestId(1), Resolve { app, name, want: Want::Both, port: Some(HTTPS) }));
    while now < LIMIT {
        match world.coming.first_entry() {
            Some(next) if next.key().0 <= now => connector.handle_input(now, next.remove()),
            _ => connector.handle_timeout(now),
        }
        while let Some(output) = connector.poll_output() {
            if world.act(now, output) {
                return Some(now);
            }
        }
        let packet = world.coming.first_key_value().map(|((at, _), _)| *at);
        let timer = connector.poll_timeout().map(|deadline| deadline.at);
        now = packet.into_iter().chain(timer).min()?.max(now);
    }
    None
}

fn main() {
    println!("{:<20} {:>12}", "race", "connected");
    // The oracle must be told beforehand what answers.
    for race in race::ALL.iter().filter(|race| race.name != "oracle") {
        match connected_at(race) {
            Some(at) => println!("{:<20} {:>9} ms", race.name, at.as_nanos() / 1_000_000),
            None => println!("{:<20} {:>12}", race.name, "never"),
        }
    }
}

#[test]
fn a_program_waits_for_the_family_that_never_answers_where_nothing_races() {
    let at = |name| connected_at(race::find(name).unwrap());
    let [raced, in_turn] = ["adaptive", "sequential"].map(at);
    assert!(raced.unwrap() < Instant::from_millis(1000), "{raced:?}");
    assert!(in_turn.is_none_or(|at| at > Instant::from_millis(1000)), "{in_turn:?}");
}
