//! Names with many addresses: the first of them dead, one family of them dead, all but one dead.

use super::*;
use Family::{V4, V6};
use proptest::prelude::*;

const SITE: &str = "www.example";

/// `n` addresses in each family, all 30 ms away; answers after 10 ms.
fn many(race: &str, n: u8) -> Story {
    let (list4, list6): (Vec<_>, Vec<_>) = ((1..=n).map(v4).collect(), (1..=n).map(|i| v6(i.into())).collect());
    let mut s = Story::of(race).dns(SITE, V4, says(10, &list4)).dns(SITE, V6, says(10, &list6));
    s.hosts.extend(list4.iter().chain(&list6).map(|addr| (*addr, Host::Answers(30))));
    s
}

/// As [`many`], in one family.
fn of_one_family(race: &str, family: Family, n: u8) -> Story {
    many(race, n).dns(SITE, family.other(), says(10, &[]))
}

#[test]
fn the_first_of_many_being_dead_costs_one_attempt_delay_and_the_next_time_nothing() {
    for family in Family::BOTH {
        let first = if family == V4 { v4(1) } else { v6(1) };
        let mut s = of_one_family("adaptive", family, 4).host(first, Host::Silent);
        assert_eq!(s.visit("curl", SITE).1, 10 + 250 + 30);
        s.pass(3000);
        s.outputs.clear();
        assert_eq!(s.visit("curl", SITE).1, 30, "it goes last");
        assert_eq!(s.begun().len(), 1);
    }
}

#[test]
fn where_round_trips_are_known_the_first_being_dead_costs_far_less() {
    for slow in [V4, V6] {
        let mut s = many("adaptive", 4);
        for n in 1..=4 {
            let (near, far) = if slow == V4 { (v6(n.into()), v4(n)) } else { (v4(n), v6(n.into())) };
            s = s.host(near, Host::Answers(30)).host(far, Host::Answers(300));
        }
        s.warm("curl", SITE);
        let best = s.visit("curl", SITE).0;
        s.pass(3000);
        s = s.host(best, Host::Silent);
        let (second, took) = s.visit("curl", SITE);
        assert_eq!(Family::of(second), slow.other(), "one silent host does not make a family dead");
        assert!(took <= 30 + 4 * 15 + 10 + 30, "{took} ms: SRTT and four variations, slack, and the second handshake");
        s.pass(3000);
        assert_eq!(s.visit("curl", SITE), (second, 30));
    }
}

#[test]
fn a_dead_address_is_tried_again_once_its_failure_is_forgotten() {
    let mut s = of_one_family("adaptive", V4, 3).host(v4(1), Host::Silent);
    s.visit("curl", SITE);
    s.pass(601_000);
    s = s.host(v4(1), Host::Answers(5));
    assert_eq!(s.visit("curl", SITE), (v4(1), 10 + 5));
    s.pass(3000);
    assert_eq!(s.visit("curl", SITE), (v4(1), 5), "and is the best there is");
}

#[test]
fn a_dead_address_comes_after_all_others_and_is_tried_when_they_are_dead_too() {
    let mut s = of_one_family("adaptive", V4, 3).host(v4(1), Host::Silent);
    s.visit("curl", SITE);
    s.pass(3000);
    s = s.host(v4(1), Host::Answers(30)).host(v4(2), Host::Silent).host(v4(3), Host::Silent);
    s.outputs.clear();
    assert_eq!(s.visit("curl", SITE).0, v4(1));
    assert_eq!(s.begun().iter().map(|b| b.1).collect::<Vec<_>>(), [v4(2), v4(3), v4(1)]);
}

#[test]
fn a_dead_family_is_not_sat_out_address_by_address() {
    for (dead, alive) in [(V4, V6), (V6, V4)] {
        let mut s = many("adaptive", 6);
        s.warm("curl", SITE);
        for n in 1..=6 {
            s = s.host(if dead == V4 { v4(n) } else { v6(n.into()) }, Host::Silent);
            let rtt = if alive == V4 { (v4(n), 40) } else { (v6(n.into()), 40) };
            s = s.host(rtt.0, Host::Answers(rtt.1));
        }
        s.outputs.clear();
        assert_eq!(Family::of(s.visit("curl", SITE).0), alive);
        let tried = s.begun().iter().filter(|b| Family::of(b.1) == dead).count();
        assert!(tried <= 2, "two silent addresses are enough: {:?}", s.begun());
    }
}

#[test]
fn without_history_families_take_turns_every_250_ms() {
    let mut s = many("adaptive", 3);
    for n in 1..=3 {
        s = s.host(v4(n), Host::Silent).host(v6(n.into()), Host::Silent);
    }
    s = s.host(v6(3), Host::Answers(30));
    assert_eq!(s.visit("curl", SITE).0, v6(3));
    let begun = [(10, v6(1)), (260, v4(1)), (510, v6(2)), (760, v4(2)), (1010, v6(3))];
    assert_eq!(s.begun(), begun);
}

#[test]
fn a_refusal_is_followed_at_once_by_two() {
    let mut s = of_one_family("adaptive", V4, 4).host(v4(1), Host::Refuses(20)).host(v4(2), Host::Silent);
    assert_eq!(s.visit("curl", SITE), (v4(3), 10 + 20 + 30));
}

#[test]
fn the_last_of_many_is_reached_with_24_under_way_at_most() {
    for race in ["happy-eyeballs-v2", "happy-eyeballs-v3", "adaptive"] {
        let mut s = of_one_family(race, V6, 40);
        s.hosts.extend((1..40).map(|n| (v6(n), Host::Silent)));
        let (reached, took) = s.visit("curl", SITE);
        assert_eq!(reached, v6(40), "{race}");
        assert!(took < 39 * 2000 + 40, "{race}: {took} ms, not the kernel's 130 s");
        let mut open: Vec<AttemptId> = Vec::new();
        for (_, output) in &s.outputs {
            match output {
                Output::Connect { id, .. } => open.push(*id),
                Output::Close(id) => open.retain(|o| o != id),
                _ => {}
            }
            assert!(open.len() <= 24, "{race}: {open:?}");
        }
    }
}

#[test]
fn any_one_living_address_of_any_number_is_found() {
    for entry in race::ALL.iter().filter(|e| !["sequential", "simultaneous", "oracle"].contains(&e.name)) {
        for alive in 0..8u8 {
            let mut s = many(entry.name, 4);
            let all: Vec<_> = (1..=4).flat_map(|n| [v4(n), v6(n.into())]).collect();
            for (i, addr) in all.iter().enumerate() {
                s.hosts.insert(*addr, if i == usize::from(alive) { Host::Answers(30) } else { Host::Silent });
            }
            let Resolved::Addresses(list) = s.resolve("java", SITE, Want::Both, Some(443)) else { panic!("addresses") };
            assert_eq!(list.len(), 8, "{}: the program is told all", entry.name);
            let head = list.iter().find(|a| a.is_ipv6()).copied().unwrap();
            let reached = match s.connect("java", head, false) {
                Output::HandOver { attempt, connected: true, .. } => s.reached(attempt),
                other => panic!("{}: {other:?}", entry.name),
            };
            assert_eq!(reached, all[usize::from(alive)], "{}", entry.name);
            assert!(s.now < Instant::from_millis(15_000), "{}: {:?}", entry.name, s.now);
        }
    }
}

#[test]
fn exploring_learns_the_other_addresses_of_the_only_family_one_after_the_other() {
    let settings = Settings { explore: 1.0, ..Settings::of(race::find("adaptive").unwrap()) };
    let mut s = Story::with(settings)
        .dns(SITE, V4, says(10, &[v4(1), v4(2), v4(3)]))
        .dns(SITE, V6, says(10, &[]))
        .host(v4(1), Host::Answers(80))
        .host(v4(2), Host::Answers(90))
        .host(v4(3), Host::Answers(20));
    assert_eq!(s.visit("curl", SITE), (v4(1), 10 + 80), "nobody waits for what is explored");
    s.pass(3000);
    s.visit("curl", SITE);
    s.pass(3000);
    assert_eq!(s.visit("curl", SITE), (v4(3), 20));
    assert_eq!(s.connector.tally().explorations, 3);
}

proptest! {
    /// However many there are, however far, and whatever is known: that the one which was to be tried first is dead
    /// costs no more than one attempt delay, and the handshake with the next.
    #[test]
    fn the_first_being_dead_never_costs_more_than_one_attempt_delay(
        n4 in 0u8..6, n6 in 0u8..6, rtts in proptest::collection::vec(1u64..600, 12), warm: bool, visits in 0usize..4,
    ) {
        prop_assume!(n4 > 1 || n6 > 1);
        let list4: Vec<_> = (1..=n4).map(v4).collect();
        let list6: Vec<_> = (1..=n6).map(|n| v6(n.into())).collect();
        let mut s = Story::of("adaptive").dns(SITE, V4, says(10, &list4)).dns(SITE, V6, says(10, &list6));
        s.hosts = list4.iter().chain(&list6).copied().zip(rtts.iter().map(|r| Host::Answers(*r))).collect();
        if warm {
            s.warm("java", SITE);
        }
        for _ in 0..visits {
            s.visit_either("java", SITE);
            s.pass(3000);
        }
        let mut rehearsal = s.connector.path().clone();
        s.outputs.clear();
        let first = {
            s.visit_either("java", SITE);
            s.begun()[0].1
        };
        // A socket cannot change its family: it takes two addresses of one to have a first.
        prop_assume!(s.hosts.keys().filter(|a| Family::of(**a) == Family::of(first)).count() > 1);
        std::mem::swap(s.connector.path(), &mut rehearsal);
        s.pass(3000);
        s = s.host(first, Host::Silent);
        s.outputs.clear();
        let began = s.now;
        s.visit_either("java", SITE);
        let took = u64::try_from((s.now - began).as_millis()).unwrap();
        let begun = s.begun();
        prop_assert!(begun.len() > 1 && begun[0].1 == first, "{begun:?}");
        let usual = s.hosts[&begun[1].1];
        let Host::Answers(next) = usual else { panic!("one is dead") };
        let Host::Answers(was) = rtts_of(&rtts, &list4, &list6, first) else { panic!("it lived") };
        // The longest delay is the standard's, or as long as the handshake used to take.
        let delay = begun[1].0 - begun[0].0;
        prop_assert!(delay <= 250.max(was + 10), "{delay} ms after a host of {was} ms");
        prop_assert!(took <= 10 + delay + next, "{took} ms: {begun:?}");
    }
}

fn rtts_of(rtts: &[u64], list4: &[IpAddr], list6: &[IpAddr], addr: IpAddr) -> Host {
    let at = list4.iter().chain(list6).position(|a| *a == addr).expect("one of them");
    Host::Answers(rtts[at])
}

#[test]
fn a_program_that_looks_up_often_before_it_connects_has_few_connections_opened() {
    let mut s = Story::of("adaptive").site("www.example", 1, (20, 20), (40, 40));
    for _ in 0..200 {
        s.resolve("aiohttp", "www.example", Want::Both, Some(443));
    }
    s.pass(1000);
    assert_eq!(s.begun().len(), 16);
    for n in 0..200 {
        let to = s.connect("aiohttp", v6(1), false);
        assert!(matches!(to, Output::HandOver { connected: true, .. }), "{n}: {to:?}");
    }
    s.pass(5000);
    assert_eq!((s.begun().len(), s.connector.tally().unused), (200, 0));
}

#[test]
fn many_that_are_open_for_one_place_say_nothing_of_another() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 40)).site("other.example", 2, (20, 20), (40, 40));
    for _ in 0..20 {
        s.resolve("aiohttp", SITE, Want::Both, Some(443));
    }
    s.pass(100);
    assert_eq!(s.begun().len(), 16);
    for (app, name, port) in [("aiohttp", "other.example", 443), ("curl", SITE, 443), ("aiohttp", SITE, 80)] {
        let before = s.begun().len();
        s.resolve(app, name, Want::Both, Some(port));
        s.pass(100);
        assert_eq!(s.begun().len(), before + 1, "{app} {name} {port}");
    }
}
