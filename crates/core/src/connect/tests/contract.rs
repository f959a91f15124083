//! What every race in the registry must keep, whatever the network does.

use super::*;
use crate::wire::record::Service;
use proptest::prelude::*;

fn dns() -> impl Strategy<Value = (Option<u64>, usize)> {
    (proptest::option::weighted(0.8, 0u64..400), 0usize..4)
}

fn host() -> impl Strategy<Value = Host> {
    prop_oneof![4 => (1u64..500).prop_map(Host::Answers), 1 => (1u64..500).prop_map(Host::Refuses), 1 => Just(Host::Silent)]
}

/// What a network is like: with IPv4; without it and with a translator; without both, and no server says so.
const NETWORKS: usize = 3;

fn story(
    race: &str,
    (seed, network): (u64, usize),
    [a, aaaa, https]: [(Option<u64>, usize); 3],
    hosts: &[Host],
) -> Story {
    let settings = Settings { explore: 0.3, seed, ..Settings::of(race::find(race).unwrap()) };
    let list4: Vec<_> = (0..a.1).map(|n| v4(n as u8 + 1)).collect();
    let list6: Vec<_> = (0..aaaa.1).map(|n| v6(n as u16 + 1)).collect();
    let mut s = Story::with(settings);
    for (family, list, delay) in [(Family::V4, list4, a.0), (Family::V6, list6, aaaa.0)] {
        for (i, addr) in list.iter().enumerate() {
            s.hosts.insert(*addr, hosts[(i * 2 + usize::from(family == Family::V6)) % hosts.len()]);
        }
        s = s.dns("x.example", family, delay.map_or(Dns::Silent, |d| says(d, &list)));
    }
    let hint = |n: usize| match n % 2 {
        0 => Service { priority: 1, ipv4hint: vec![[192, 0, 2, 7].into()], ..Service::default() },
        _ => Service { priority: 1, ipv6hint: vec![[0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()], ..Service::default() },
    };
    let records = LookupResult::Services((0..https.1).map(hint).collect(), Duration::from_secs(60));
    s = s.dns("x.example", RecordType::Https, https.0.map_or(Dns::Silent, |d| Dns::Says(d, records)));
    if network > 0 {
        let prefix = "64:ff9b::c000:aa".parse().unwrap();
        s = s.dns("ipv4only.arpa", Family::V6, if network == 1 { says(30, &[prefix]) } else { Dns::Silent });
        s.hosts.insert("64:ff9b::c000:201".parse().unwrap(), hosts[0]);
        s.input(Input::Network { id: Default::default(), v4: false, v6: true, v4_first: false });
    }
    s
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Every call is answered; what is handed over was connected, is handed over once and was not closed before; what
    /// was opened and not handed over is closed; nothing is left over; the same story is told twice the same.
    //= RFC 8305#5/one-wins
    #[test]
    fn every_race_keeps_the_contract(
        seed: u64, network in 0..NETWORKS, records in [dns(), dns(), dns()],
        hosts in proptest::collection::vec(host(), 8), nonblocking: bool, rescuable: bool, early: bool,
    ) {
        for entry in race::ALL {
            let tell = || {
                let mut s = story(entry.name, (seed, network), records, &hosts);
                s.rescuable = rescuable;
                for _ in 0..3 {
                    if let Resolved::Addresses(list) = s.resolve("curl", "x.example", Want::Both, early.then_some(443)) {
                        prop_assert!(!list.is_empty());
                        for addr in &list {
                            if matches!(s.connect("curl", *addr, nonblocking), Output::HandOver { .. }) {
                                break;
                            }
                        }
                    }
                }
                s.pass(200_000);
                prop_assert_eq!(s.connector.open_jobs(), 0, "{} leaves jobs open", entry.name);
                prop_assert!(s.connector.poll_timeout().is_none(), "{} still wants to wake", entry.name);
                Ok(s.outputs)
            };
            let told = tell()?;
            let mut open: BTreeMap<AttemptId, bool> = BTreeMap::new();
            for (_, output) in &told {
                match output {
                    Output::Connect { id, .. } => prop_assert!(open.insert(*id, false).is_none()),
                    Output::Close(id) => prop_assert!(open.remove(id).is_some(), "{} closes twice", entry.name),
                    Output::HandOver { attempt, connected: true, .. } => {
                        prop_assert_eq!(open.remove(attempt), Some(false), "{} hands over what it has not", entry.name);
                    }
                    Output::Begin { attempt, .. } => prop_assert!(open.insert(*attempt, true).is_none()),
                    Output::Rescue { stalled, by, .. } => {
                        prop_assert_eq!(open.remove(stalled), Some(true), "{} takes what is not held", entry.name);
                        prop_assert_eq!(open.remove(by), Some(false), "{} gives what it has not", entry.name);
                    }
                    Output::HandOver { attempt, connected: false, .. } => {
                        prop_assert_eq!(open.insert(*attempt, true), Some(false), "{} hands over twice", entry.name);
                    }
                    _ => {}
                }
            }
            prop_assert!(tell()? == told, "{} is not deterministic", entry.name);
        }
    }

    /// No race is slower than waiting for all answers and then for the slowest good address one after the other.
    #[test]
    fn no_race_does_worse_than_no_race(
        seed: u64, a in 0u64..400, aaaa in 0u64..400, r4 in 1u64..400, r6 in 1u64..400,
    ) {
        for entry in race::ALL {
            let settings = Settings { explore: 0.3, seed, ..Settings::of(entry) };
            let mut s = Story::with(settings).site("x.example", 1, (a, aaaa), (r4, r6));
            let (_, took) = s.visit("curl", "x.example");
            prop_assert!(took <= a + aaaa + r4.max(r6), "{}: {took} ms", entry.name);
        }
    }
}

#[test]
fn names_are_hyphenated_distinct_and_found() {
    let names: std::collections::BTreeSet<_> = race::ALL.iter().map(|e| e.name).collect();
    assert_eq!(names.len(), race::ALL.len());
    for entry in race::ALL {
        assert!(entry.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{entry:?}");
        assert_eq!(race::find(entry.name).unwrap().name, entry.name);
    }
    assert!(race::find(race::DEFAULT).is_ok());
    let error = race::find("fastest").unwrap_err().to_string();
    assert!(race::ALL.iter().all(|e| error.contains(e.name)) && error.contains("fastest"), "{error}");
}

#[test]
fn a_call_that_waits_does_not_depend_on_a_connection_that_the_program_holds() {
    for entry in race::ALL {
        let mut s = Story::with(Settings { explore: 0.0, ..Settings::of(entry) });
        s = s.site("a.example", 1, (20, 90), (40, 60)).host(v4(1), Host::Silent);
        for nonblocking in [true, false] {
            let Resolved::Addresses(list) = s.resolve("app", "a.example", Want::Both, None) else { panic!() };
            s.connect("app", list[0], nonblocking);
        }
        let answer = s.outputs.iter().rev().find(|(_, o)| matches!(o, Output::HandOver { .. } | Output::Pass(..)));
        let (at, answer) = answer.unwrap();
        assert!(*at < 1000, "{}: {answer:?} after {at} ms", entry.name);
    }
}
