//! HTTPS records, and the race that asks for them.

use super::*;
use crate::connect::explain::EventReport;
use crate::connect::timeline::Event;
use crate::wire::record::Service;
use Family::{V4, V6};
use RecordType::Https;

const SITE: &str = "www.example";
const V3: &str = "happy-eyeballs-v3";

fn hints(n: u8) -> Service {
    let v6 = [0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()].into();
    Service { priority: 1, ipv4hint: vec![[192, 0, 2, n].into()], ipv6hint: vec![v6], ..Service::default() }
}
fn services(after: u64, list: &[Service]) -> Dns {
    Dns::Says(after, LookupResult::Services(list.to_vec(), Duration::from_secs(60)))
}
/// A after 20 ms, AAAA after 30, HTTPS after 10, round trips of 40 and 50 ms.
fn site() -> Story {
    Story::of(V3).site(SITE, 1, (20, 30), (40, 50)).dns(SITE, Https, services(10, &[]))
}
fn queries(s: &Story) -> Vec<(u64, RecordType)> {
    let query = |(t, o): &(u64, Output)| match o {
        Output::Query { record, .. } => Some((*t, *record)),
        _ => None,
    };
    s.outputs.iter().filter_map(query).collect()
}

#[test]
fn https_aaaa_and_a_are_asked_back_to_back_by_this_race_alone() {
    for entry in race::ALL {
        let mut s = Story::of(entry.name).site(SITE, 1, (20, 30), (40, 50));
        s.visit("curl", SITE);
        assert_eq!(queries(&s).iter().any(|q| q.1 == Https), entry.name == V3, "{}", entry.name);
    }
    let mut s = site();
    s.visit("curl", SITE);
    assert_eq!(queries(&s), [(0, Https), (0, RecordType::Aaaa), (0, RecordType::A)]);
}

#[test]
fn only_port_443_is_worth_a_question() {
    for port in [None, Some(80), Some(8443)] {
        let mut s = site();
        s.resolve("ssh", SITE, Want::Both, port);
        assert_eq!(queries(&s).len(), 2, "{port:?}");
    }
}

#[test]
fn it_goes_when_the_preferred_family_and_https_have_answered() {
    assert_eq!(site().visit("curl", SITE), (v6(1), 30 + 50), "AAAA was the last");
    let mut s = site().dns(SITE, Https, services(45, &[]));
    assert_eq!(s.visit("curl", SITE), (v6(1), 45 + 50), "HTTPS was the last");
}

#[test]
fn a_lost_https_answer_costs_the_resolution_delay_after_the_first_addresses_and_no_more() {
    let mut s = site().dns(SITE, Https, Dns::Silent);
    assert_eq!(s.visit("curl", SITE), (v6(1), 20 + 50 + 50));
    let mut s = site().dns(SITE, V6, Dns::Silent);
    assert_eq!(s.visit("curl", SITE), (v4(1), 20 + 50 + 40), "as does a lost AAAA");
}

//= RFC 9460#7.3
#[test]
fn hints_count_as_addresses_and_are_gone_with_the_answer() {
    // AAAA is late: the hint is tried when the Resolution Delay after it is over.
    let mut s = site().dns(SITE, V6, says(500, &[v6(2)])).dns(SITE, V4, says(500, &[v4(2)]));
    s = s.dns(SITE, Https, services(10, &[hints(1)])).host(v6(1), Host::Answers(50));
    assert_eq!(s.visit("curl", SITE), (v6(1), 10 + 50 + 50));
    // The hint is silent; once A and AAAA are there, its sibling is no candidate any more.
    let mut s = site().dns(SITE, V6, says(100, &[v6(2)])).dns(SITE, V4, says(100, &[v4(2)]));
    s = s.dns(SITE, Https, services(10, &[hints(1)])).host(v6(1), Host::Silent).host(v6(2), Host::Silent);
    s = s.host(v4(2), Host::Answers(20));
    assert_eq!(s.visit("java", SITE).0, v4(2));
    // The program goes to the head of its list; 250 ms later, in turn. Never the hint of 192.0.2.1.
    assert_eq!(s.begun(), [(60, v6(1)), (100, v6(2)), (350, v4(2))]);
}

#[test]
fn a_hint_that_is_denied_is_no_answer_while_the_other_family_is_pending() {
    let none = Dns::Says(30, LookupResult::NoData(Duration::from_secs(60)));
    let hint = Service { ipv4hint: vec![], ..hints(1) };
    let mut s = site().dns(SITE, Https, services(10, &[hint])).dns(SITE, V6, none).dns(SITE, V4, says(300, &[v4(1)]));
    assert_eq!(s.resolve("curl", SITE, Want::Both, None), Resolved::Addresses(vec![v4(1)]));
    let hint = Service { ipv4hint: vec![], ..hints(1) };
    let none = Dns::Says(30, LookupResult::NoData(Duration::from_secs(60)));
    let mut s = site().dns(SITE, Https, services(10, &[hint])).dns(SITE, V6, none).dns(SITE, V4, says(300, &[v4(1)]));
    assert_eq!(s.visit("curl", SITE), (v4(1), 300 + 40), "never to the hint, and nobody is told that there is nothing");
}

#[test]
fn what_was_begun_on_a_hint_goes_on_when_the_answer_leaves_it_out() {
    let mut s = site().dns(SITE, V6, says(80, &[v6(2)])).dns(SITE, Https, services(10, &[hints(1)]));
    s = s.host(v6(1), Host::Answers(100));
    assert_eq!(s.visit("curl", SITE), (v6(1), 60 + 100));
}

#[test]
fn a_program_that_was_told_a_hint_may_connect_to_it_again() {
    let mut s = Story::of(V3).dns(SITE, Https, services(10, &[hints(1)])).host(v6(1), Host::Answers(30));
    s = s.dns(SITE, V4, Dns::Silent).dns(SITE, V6, Dns::Silent);
    assert_eq!(s.visit("curl", SITE), (v6(1), 10 + 50 + 30));
    s.pass(6000);
    assert!(matches!(s.connect("curl", v6(1), false), Output::HandOver { connected: true, .. }));
}

#[test]
fn an_alias_is_used_where_the_name_has_no_address_of_its_own() {
    let pool = v4(9);
    let alias = Service { target: Some("pool.example".into()), addresses: vec![pool], ..Service::default() };
    let none = || Dns::Says(10, LookupResult::NoData(Duration::from_secs(60)));
    let mut s = site().dns(SITE, Https, services(10, std::slice::from_ref(&alias))).host(pool, Host::Answers(30));
    assert_eq!(s.visit("curl", SITE), (v6(1), 30 + 50), "it has some");
    let mut s = Story::of(V3).dns(SITE, V4, none()).dns(SITE, V6, none()).host(pool, Host::Answers(30));
    s = s.dns(SITE, Https, services(10, &[alias]));
    assert_eq!(s.visit("curl", SITE), (pool, 10 + 30));
    let mut s = Story::of(V3).dns(SITE, V4, none()).dns(SITE, V6, none());
    s = s.dns(SITE, Https, services(10, &[hints(1)]));
    assert_eq!(s.resolve("curl", SITE, Want::Both, Some(443)), Resolved::NoData, "a hint never contradicts an answer");
}

#[test]
fn a_port_is_never_changed_behind_a_programs_back() {
    let elsewhere = Service { port: Some(8443), ..hints(2) };
    let mut s = site().dns(SITE, Https, services(10, &[elsewhere, hints(1)])).dns(SITE, V6, Dns::Silent);
    s = s.dns(SITE, V4, Dns::Silent);
    assert_eq!(s.visit("curl", SITE).0, v6(1));
    let ports = s.outputs.iter().filter_map(|(_, o)| match o {
        Output::Connect { to, .. } => Some(to.port()),
        _ => None,
    });
    assert!(ports.into_iter().all(|p| p == 443) && s.begun().iter().all(|b| b.1 == v6(1)));
}

#[test]
fn https_records_are_cached_as_answers_are() {
    let mut s = site().dns(SITE, Https, services(10, &[hints(1)]));
    s.visit("curl", SITE);
    assert_eq!(s.visit("curl", SITE), (v6(1), 50));
    assert_eq!(queries(&s).len(), 3, "a second visit asks nothing");
    s.pass(61_000);
    s.visit("curl", SITE);
    assert_eq!(queries(&s).len(), 6, "the time of all three was 60 s");
}

#[test]
fn the_next_attempt_comes_when_the_syn_would_be_repeated_within_bounds() {
    // 250 ms without history; else SRTT and four variations, which settle at SRTT: 100 ms at least, 2 s at most.
    for (rtt, delay) in [(None, 250), (Some(20), 100), (Some(300), 300), (Some(3000), 2000)] {
        let mut s = site();
        for _ in 0..rtt.map_or(0, |_| 60) {
            let sample = crate::path::Outcome::Connected(ms(rtt.unwrap()));
            s.connector.path().current().record(Instant::ZERO, v6(1), sample);
        }
        s = s.host(v6(1), Host::Silent);
        s.visit("curl", SITE);
        assert_eq!(s.begun(), [(30, v6(1)), (30 + delay, v4(1))], "{rtt:?}");
    }
}

#[test]
fn history_sorts_within_a_family_on_this_network_and_never_turns_families_around() {
    let two = || Story::of(V3).dns(SITE, V4, says(10, &[v4(1), v4(2)])).dns(SITE, V6, says(10, &[v6(1), v6(2), v6(3)]));
    let told = |s: &mut Story| match s.resolve("curl", SITE, Want::Both, None) {
        Resolved::Addresses(list) => list,
        other => panic!("{other:?}"),
    };
    let mut s = two();
    for (addr, rtt) in [(v6(2), 90), (v6(3), 40), (v4(1), 5)] {
        s.connector.path().current().record(Instant::ZERO, addr, crate::path::Outcome::Connected(ms(rtt)));
    }
    assert_eq!(told(&mut s), [v6(3), v4(1), v6(2), v4(2), v6(1)]);
    s.input(Input::Network { id: crate::path::NetworkId(7), v4: true, v6: true, v4_first: false });
    assert_eq!(told(&mut s), [v6(1), v4(1), v6(2), v4(2), v6(3)], "another network, another history");
}

#[test]
fn races_drawn_for_it_ignore_history_so_that_it_converges() {
    let settings = Settings { explore: 1.0, ..Settings::of(race::find(V3).unwrap()) };
    let mut s = Story::with(settings).dns(SITE, V6, says(10, &[v6(1), v6(2)])).dns(SITE, V4, says(10, &[]));
    s = s.host(v6(1), Host::Answers(20)).host(v6(2), Host::Answers(40));
    s.connector.path().current().record(Instant::ZERO, v6(1), crate::path::Outcome::Failed);
    assert_eq!(s.visit("curl", SITE).0, v6(1), "it failed once, and is back");
    assert_eq!(s.begun().len(), 1, "ignoring costs no extra SYN");
}

#[test]
fn without_an_ipv6_route_ipv4_is_preferred_and_aaaa_not_waited_for() {
    let mut s = site();
    s.input(Input::Network { id: Default::default(), v4: true, v6: false, v4_first: false });
    assert_eq!(s.visit("curl", SITE), (v4(1), 20 + 40));
}

#[test]
fn a_new_answer_is_sorted_into_what_is_left() {
    let mut s = site().dns(SITE, V6, says(100, &[v6(1), v6(2)])).dns(SITE, V4, says(20, &[v4(1), v4(2)]));
    s = s.host(v4(1), Host::Silent).host(v4(2), Host::Silent).host(v6(1), Host::Silent).host(v6(2), Host::Answers(30));
    s.resolve("java", SITE, Want::Both, Some(443));
    // Java's socket may go to either family.
    let claim = Claim {
        app: "java".into(),
        to: (v4(1), 443).into(),
        domain: V6,
        nonblocking: false,
        accepts_mapped: true,
        rescuable: None,
    };
    s.input(Input::Claim(RequestId(900), claim));
    s.pass(2000);
    // As if all had been there from the beginning: IPv6, IPv4, IPv6, IPv4. The first is begun once more, by a socket that can
    // take the place of Java's.
    assert_eq!(s.begun(), [(70, v4(1)), (100, v4(1)), (320, v6(1)), (570, v6(2))]);
}

#[test]
fn records_that_a_program_was_told_elsewhere_are_not_asked_for() {
    let mut s = Story::of(V3).dns(SITE, V4, Dns::Silent).dns(SITE, V6, Dns::Silent).host(v6(1), Host::Answers(30));
    let result = LookupResult::Services(vec![hints(1)], Duration::from_secs(60));
    s.input(Input::Overheard { app: app(), name: SITE.into(), record: Https, result });
    assert_eq!(s.visit("curl", SITE), (v6(1), 50 + 30));
    assert!(queries(&s).iter().all(|(_, record)| *record != Https));
}

#[test]
fn what_each_answer_has_said_is_written_down() {
    let said = |https: &[Service], aaaa: &[IpAddr]| {
        let mut s = site().dns(SITE, Https, services(10, https)).dns(SITE, V6, says(15, aaaa));
        s.resolve("curl", SITE, Want::Both, Some(443));
        let race = s.connector.explain(s.now, SITE).and_then(|known| known.race).expect("a race");
        let answer = |told: &EventReport| match &told.event {
            Event::Answer { record, says, addresses } => {
                Some((record.to_string(), says.to_string(), addresses.clone()))
            }
            _ => None,
        };
        race.events.iter().filter_map(answer).collect::<Vec<_>>()
    };
    let of = |record: &str, says: &str, list: &[IpAddr]| (record.to_owned(), says.to_owned(), list.to_vec());
    let a = of("A", "addresses", &[v4(1)]);
    let all = [of("HTTPS", "services", &[v6(1), v4(1)]), of("AAAA", "addresses", &[v6(1)]), a.clone()];
    assert_eq!(said(&[hints(1)], &[v6(1)]), all);
    assert_eq!(said(&[], &[]), [of("HTTPS", "none", &[]), of("AAAA", "none", &[]), a]);
}

#[test]
fn https_records_are_looked_up_ahead_for_a_program_that_goes_to_their_port() {
    for (port, are_asked_for) in [(443, true), (80, false)] {
        let settings = Settings { explore: 0.0, ahead: Ahead::ON, ..Settings::of(race::find(V3).unwrap()) };
        let mut s = Story::with(settings).site(SITE, 1, (20, 30), (40, 50)).dns(SITE, Https, services(10, &[]));
        s.launch("mail");
        s.pass(500);
        s.resolve("mail", SITE, Want::Both, Some(port));
        s.pass(120_000);
        let before = queries(&s).len();
        s.launch("mail");
        let ahead: Vec<_> = queries(&s)[before..].iter().map(|(_, record)| *record).collect();
        assert!(ahead.contains(&RecordType::A) && ahead.contains(&Https) == are_asked_for, "{port}: {ahead:?}");
    }
}
