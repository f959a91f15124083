//! Calls and runs of programs, each for itself: how each ends, what it is told and what is counted of it.

use super::place::{begun_since, mail};
use super::*;
use crate::connect::timeline::Event;
use crate::timing::What;
use Family::{V4, V6};

const SITE: &str = "www.example";

fn site() -> Story {
    Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50))
}

/// By a socket of the address's own family, from a program that waits.
fn claim(to: IpAddr) -> Claim {
    let domain = Family::of(to);
    let accepts_mapped = domain == V6;
    Claim { app: app(), to: (to, 443).into(), domain, nonblocking: false, accepts_mapped, rescuable: None }
}

fn events(s: &mut Story, name: &str) -> Vec<Event> {
    let race = s.connector.explain(s.now, name).and_then(|known| known.race).expect("a race");
    race.events.into_iter().map(|told| told.event).collect()
}

#[test]
fn each_run_is_counted_apart() {
    let mut s = site();
    for (account, misses) in [(1, 2), (2, 0)] {
        s.account = account;
        s.visit("curl", SITE);
        let tally = s.connector.tally_of(account);
        assert_eq!((tally.resolved, tally.attempts, tally.handed_over), (1, 1, 1));
        assert_eq!((tally.cache_misses, tally.cache_hits, tally.queries), (misses, 2 - misses, misses));
    }
    assert_eq!(s.connector.tally_of(3), Tally::default());
}

#[test]
fn what_was_opened_for_a_run_is_for_no_other_and_no_longer_than_that() {
    for (closed, begun) in [(2, 1), (1, 2)] {
        let mut s = site();
        s.account = 1;
        s.resolve("curl", SITE, Want::Both, Some(443));
        s.pass(100);
        s.connector.close_account(closed);
        s.drain();
        assert!(matches!(s.connect("curl", v6(1), false), Output::HandOver { connected: true, .. }));
        assert_eq!(s.begun().len(), begun, "{closed}");
    }
}

#[test]
fn what_is_expected_of_a_program_is_opened_unless_its_run_has_ended_or_it_was_forgotten() {
    type Change = fn(&mut Story);
    let changes: [(Change, bool); 6] = [
        (|_| (), true),
        (|s| s.connector.close_account(77), true),
        (|s| s.connector.close_account(s.account), false),
        (|s| s.connector.forget(Some("news")), true),
        (|s| s.connector.forget(Some("mail")), false),
        (|s| s.connector.forget(None), false),
    ];
    for (n, (change, is_opened)) in changes.into_iter().enumerate() {
        let mut s = mail();
        let seen = s.begun().len();
        change(&mut s);
        s.pass(5000);
        assert_eq!(begun_since(&s, seen), [is_opened; 2], "{n}");
    }
}

#[test]
fn a_run_that_has_ended_and_a_program_that_is_forgotten_change_what_is_remembered() {
    let mut s = mail();
    s.visit("mail", "a.example");
    let before = s.connector.memory_version();
    s.launch("mail");
    let learned = s.connector.memory_version();
    s.connector.forget(Some("mail"));
    assert!(before < learned && learned < s.connector.memory_version());
}

#[test]
fn who_goes_away_is_not_answered_and_others_are() {
    let mut s = site().site("b.example", 2, (20, 20), (40, 50));
    for (n, name) in [(900, SITE), (901, "b.example")] {
        let ask = Resolve { app: app(), name: name.into(), want: Want::Both, port: None };
        s.input(Input::Resolve(RequestId(n), ask));
    }
    s.input(Input::Abandon(RequestId(900)));
    s.pass(100);
    for (n, to) in [(902, v6(1)), (903, v6(2))] {
        s.input(Input::Claim(RequestId(n), claim(to)));
    }
    s.input(Input::Abandon(RequestId(902)));
    s.pass(100);
    let answered = |(_, o): &(u64, Output)| match o {
        Output::Answer(request, _) | Output::HandOver { request, .. } => Some(*request),
        _ => None,
    };
    assert_eq!(s.outputs.iter().filter_map(answered).collect::<Vec<_>>(), [RequestId(901), RequestId(903)]);
}

#[test]
fn a_question_that_is_repeated_is_told_of_the_race_that_it_is_for() {
    let late = || says(1500, &[v4(2)]);
    let mut s = site().dns("b.example", V4, late()).dns("b.example", V6, late());
    for (n, name) in [(900, SITE), (901, "b.example")] {
        let ask = Resolve { app: app(), name: name.into(), want: Want::Both, port: Some(443) };
        s.input(Input::Resolve(RequestId(n), ask));
    }
    s.pass(1200);
    let repeated = |event: &Event| matches!(event, Event::Query { before: 1, .. });
    assert_eq!(["b.example", SITE].map(|name| events(&mut s, name).iter().filter(|e| repeated(e)).count()), [2, 0]);
}

#[test]
fn a_hand_over_is_told_as_complete_or_under_way_and_counted_as_that() {
    for nonblocking in [false, true] {
        let mut s = site();
        s.resolve("curl", SITE, Want::Both, Some(443));
        s.connect("curl", v6(1), nonblocking);
        let connected = !nonblocking;
        assert!(events(&mut s, SITE).contains(&Event::HandedOver { to: v6(1), connected }));
        let tally = s.connector.tally();
        assert_eq!((tally.handed_over, tally.handed_over_in_progress), (u64::from(connected), u64::from(nonblocking)));
    }
}

#[test]
fn a_lookup_is_timed_and_counted_by_what_it_came_to() {
    let held = Duration::from_secs(60);
    for (said, outcome) in [
        (LookupResult::NoData(held), "no-data"),
        (LookupResult::Addresses(vec![], held), "no-data"),
        (LookupResult::NxDomain(held), "no-such-name"),
        (LookupResult::Refused, "unanswered"),
        (LookupResult::NotSent, "not-handled"),
    ] {
        let mut s = Story::of("adaptive").dns(SITE, V6, Dns::Says(10, said));
        let ask = Resolve { app: app(), name: SITE.into(), want: Want::Only(V6), port: None };
        s.input(Input::Resolve(RequestId(900), ask));
        s.pass(20_000);
        let timed = s.connector.timings().snapshot();
        let outcomes = timed.iter().filter(|t| t.key.what == What::Lookup).map(|t| &*t.key.outcome);
        assert_eq!(outcomes.collect::<Vec<_>>(), [outcome]);
        let is_passed = outcome == "not-handled";
        assert_eq!((s.connector.tally().unresolved, s.connector.tally().resolved), (u64::from(!is_passed), 0));
    }
}

#[test]
fn an_answer_without_addresses_says_that_there_are_none_now_and_the_next_time() {
    let mut s = Story::of("adaptive").dns(SITE, V6, says(10, &[]));
    for _ in 0..2 {
        assert_eq!(s.resolve("curl", SITE, Want::Only(V6), None), Resolved::NoData);
        assert_eq!(s.now, Instant::from_millis(10));
    }
}

#[test]
fn a_program_hears_how_the_address_failed_that_it_wanted() {
    let mut s = site().host(v6(1), Host::Refuses(5)).host(v4(1), Host::Silent);
    s.resolve("curl", SITE, Want::Both, Some(443));
    assert!(matches!(s.connect("curl", v6(1), false), Output::Fail(_, 111)), "the other is silent");
    assert_eq!(s.connector.tally().failed, 1);
    // Where the other answers meanwhile, which its socket cannot be exchanged for, it hears of that as soon as its own has failed.
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 90));
    s.warm("wget", SITE);
    s = s.host(v4(1), Host::Refuses(400));
    s.resolve("wget", SITE, Want::Both, Some(443));
    let began = s.now;
    assert!(matches!(s.connect("wget", v4(1), false), Output::Fail(_, 111)));
    assert_eq!((s.now - began, s.connector.tally().failed), (ms(400), 1));
}

#[test]
fn an_answer_that_is_to_come_is_waited_for_if_the_socket_can_go_to_its_addresses() {
    for accepts_mapped in [true, false] {
        let mut s = Story::of("adaptive").site(SITE, 1, (600, 20), (30, 30));
        s.connector.path().current().record(Instant::ZERO, v6(1), crate::path::Outcome::Connected(ms(30)));
        assert_eq!(s.resolve("curl", SITE, Want::Both, None), Resolved::Addresses(vec![v6(1)]));
        s = s.host(v6(1), Host::Refuses(10));
        s.input(Input::Claim(RequestId(900), Claim { accepts_mapped, ..claim(v6(1)) }));
        s.pass(2000);
        let end = s.outputs.iter().find_map(|(at, o)| match o {
            Output::HandOver { request: RequestId(900), attempt, connected: true } => {
                Some((*at, Ok(s.reached(*attempt))))
            }
            Output::Fail(RequestId(900), errno) => Some((*at, Err(*errno))),
            _ => None,
        });
        assert_eq!(end, Some(if accepts_mapped { (600 + 30, Ok(v4(1))) } else { (70 + 10, Err(111)) }));
    }
}

#[test]
fn a_far_host_serves_a_program_that_waits_though_it_asked_for_another() {
    let mut s = Story::of("happy-eyeballs-v2").site(SITE, 1, (20, 20), (300, 0)).host(v6(1), Host::Silent);
    assert_eq!(s.visit("curl", SITE), (v4(1), 20 + 250 + 300));
}

#[test]
fn an_attempt_over_ipv4_waits_until_it_is_known_what_socket_the_program_brings() {
    for (is_known, at) in [(false, 20 + 10), (true, 20 + 5)] {
        let mut s = site().host(v6(1), Host::Refuses(5));
        if is_known {
            // It does not wait for connections: its sockets are of their address's family.
            s.connect("curl", v6(9), true);
        }
        s.resolve("curl", SITE, Want::Both, Some(443));
        s.pass(100);
        assert_eq!(s.begun(), [(20, v6(1)), (at, v4(1))]);
    }
}

#[test]
fn a_failure_is_held_against_an_address_before_a_program_comes_unless_its_port_was_only_guessed() {
    let mut s = site().host(v6(1), Host::Refuses(10));
    s.resolve("curl", SITE, Want::Both, Some(443));
    s.pass(15);
    let now = s.now;
    assert!(s.connector.path().current().is_failing(v6(1), now));
    let mut s = Story::of("adaptive").dns(SITE, V4, says(20, &[v4(1)])).dns(SITE, V6, Dns::Silent);
    s = s.host(v4(1), Host::Silent);
    assert_eq!(s.resolve("curl", SITE, Want::Both, None), Resolved::Addresses(vec![v4(1)]));
    s.pass(5000);
    assert_eq!((s.begun(), s.connector.open_jobs()), (vec![(70, v4(1))], 0));
    let now = s.now;
    assert!(!s.connector.path().current().is_failing(v4(1), now), "another port may answer");
}

#[test]
fn a_program_goes_to_the_address_that_it_names_though_it_has_asked_for_the_other_family() {
    let mut s = site();
    s.account = 1;
    s.resolve("curl", SITE, Want::Both, None);
    s.account = 2;
    s.resolve("curl", SITE, Want::Only(V4), None);
    s.pass(5000);
    let Output::HandOver { attempt, connected: true, .. } = s.connect("curl", v6(1), false) else {
        panic!("{:?}", s.outputs)
    };
    assert_eq!(s.reached(attempt), v6(1));
}

#[test]
fn what_is_on_its_way_to_the_next_address_is_for_the_program_that_goes_on_to_it() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 90));
    s.warm("wget", SITE);
    s = s.host(v4(1), Host::Refuses(120));
    s.resolve("wget", SITE, Want::Both, Some(443));
    let (began, before) = (s.now, s.begun().len());
    assert!(matches!(s.connect("wget", v4(1), false), Output::Fail(_, 111)));
    assert_eq!(s.now - began, ms(120));
    assert!(matches!(s.connect("wget", v6(1), false), Output::HandOver { connected: true, .. }));
    assert_eq!(s.begun().len(), before + 1, "{:?}", s.begun());
}
