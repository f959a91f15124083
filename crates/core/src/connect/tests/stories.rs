//! What happens when: one story for each situation that the races are made for.

use super::cache::Lifetime;
use super::*;
use crate::timing::{Key, What};
use Family::{V4, V6};

const SITE: &str = "www.example";

#[test]
fn sequential_asks_one_family_after_the_other_and_prefers_ipv6() {
    let mut s = Story::of("sequential").site(SITE, 1, (20, 30), (40, 50));
    assert_eq!(s.visit("curl", SITE), (v6(1), 30 + 20 + 50), "equations 1 and 4");
}

#[test]
fn sequential_falls_back_to_ipv4_when_ipv6_refuses() {
    let mut s = Story::of("sequential").site(SITE, 1, (20, 30), (40, 50)).host(v6(1), Host::Refuses(50));
    assert_eq!(s.visit("curl", SITE), (v4(1), 30 + 20 + 50 + 40), "equation 4, failure");
}

//= RFC 8305#3
//= RFC 8305#3/aaaa-first
#[test]
fn happy_eyeballs_goes_as_soon_as_aaaa_is_there() {
    let mut s = Story::of("happy-eyeballs-v2").site(SITE, 1, (90, 30), (40, 50));
    assert_eq!(s.visit("curl", SITE), (v6(1), 30 + 50));
}

//= RFC 8305#3/resolution-delay
#[test]
fn happy_eyeballs_waits_fifty_milliseconds_for_aaaa() {
    let mut s = Story::of("happy-eyeballs-v2").site(SITE, 1, (20, 60), (40, 50));
    assert_eq!(s.visit("curl", SITE), (v6(1), 60 + 50), "AAAA came in time");
    let mut s = Story::of("happy-eyeballs-v2").site(SITE, 1, (20, 90), (40, 50));
    // IPv4 has been begun at 70, but nothing is known of it: the program goes where it would have gone.
    assert_eq!(s.visit("curl", SITE), (v6(1), 90 + 50), "AAAA came late");
    assert_eq!(s.begun(), [(70, v4(1)), (90, v6(1))]);
}

//= RFC 8305#5
//= RFC 8305#3/late
#[test]
fn happy_eyeballs_tries_ipv4_a_quarter_of_a_second_after_a_silent_ipv6() {
    let mut s = Story::of("happy-eyeballs-v2").site(SITE, 1, (20, 20), (40, 0)).host(v6(1), Host::Silent);
    assert_eq!(s.visit("curl", SITE), (v4(1), 20 + 250 + 40));
    assert_eq!(s.begun(), [(20, v6(1)), (270, v4(1))]);
}

#[test]
fn simultaneous_waits_for_both_answers_and_connects_meanwhile() {
    let mut s = Story::of("simultaneous").site(SITE, 1, (20, 60), (30, 50));
    assert_eq!(s.visit("curl", SITE), (v4(1), 60), "the IPv4 handshake was over at 50 ms, the lookups at 60");
    let mut s = Story::of("simultaneous").site(SITE, 1, (20, 30), (40, 20));
    assert_eq!(s.visit("curl", SITE), (v6(1), 50), "equation 5: the faster handshake");
}

#[test]
fn adaptive_without_history_keeps_the_standards_preference() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 30), (40, 50));
    assert_eq!(s.visit("curl", SITE), (v6(1), 30 + 50));
    assert_eq!(s.begun().len(), 1, "one SYN");
}

#[test]
fn adaptive_goes_with_the_faster_family_once_it_knows_it() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 40), (30, 50));
    s.warm("curl", SITE);
    s.connector.forget_answers();
    s.outputs.clear();
    assert_eq!(s.visit("curl", SITE), (v4(1), 20 + 30), "it does not wait for an answer that it does not want");
    assert_eq!(s.begun().len(), 1);
}

#[test]
fn adaptive_waits_for_the_family_whose_lead_is_worth_it() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 30), (90, 40));
    s.warm("curl", SITE);
    s.connector.forget_answers();
    assert_eq!(s.visit("curl", SITE), (v6(1), 30 + 40));
}

#[test]
fn adaptive_does_not_give_up_a_large_lead_for_an_answer_that_is_a_little_late() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 90));
    for _ in 0..12 {
        s.warm("curl", SITE);
        s.connector.forget_answers();
    }
    let mut s = s.dns(SITE, V4, says(27, &[v4(1)]));
    assert_eq!(s.visit("curl", SITE), (v4(1), 27 + 30), "twelve lookups of 20 ms, then one of 27");
}

#[test]
fn what_is_under_way_when_the_program_is_told_is_never_lost_to_the_order_of_its_list() {
    // The family that answers first is begun with; the other answers a millisecond later and is better by one.
    for (lookups, rtts, winner) in [((21, 20), (30, 31), v6(1)), ((20, 21), (31, 30), v4(1))] {
        let mut s = Story::of("adaptive").site(SITE, 1, lookups, rtts);
        s.warm("curl", SITE);
        s.connector.forget_answers();
        let before = s.begun().len();
        assert_eq!(s.visit("curl", SITE), (winner, 20 + 31));
        assert_eq!(s.begun().len(), before + 1, "one SYN");
    }
}

#[test]
fn adaptive_with_both_answers_cached_pays_the_faster_handshake_only() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 30), (40, 50));
    s.warm("curl", SITE);
    assert_eq!(s.visit("curl", SITE), (v4(1), 40));
}

#[test]
fn adaptive_learns_of_a_black_hole_and_does_not_pay_for_it_twice() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 0)).host(v6(1), Host::Silent);
    assert_eq!(s.visit("python", SITE), (v4(1), 20 + 250 + 40));
    s.pass(3000);
    assert_eq!(s.visit("python", SITE), (v4(1), 40), "answers cached, IPv4 first");
}

#[test]
fn global_ipv6_addresses_come_last_where_this_host_has_no_source_address_for_them() {
    for (v4_first, told) in [(false, vec![v6(1), v4(1)]), (true, vec![v4(1), v6(1)])] {
        let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 40));
        s.input(Input::Network { id: crate::path::NetworkId(7), v4: true, v6: true, v4_first });
        assert_eq!(s.resolve("wget", SITE, Want::Both, None), Resolved::Addresses(told));
    }
}

#[test]
fn a_refused_family_waits_for_the_late_answer_of_the_other_and_who_can_is_told_both() {
    for race in ["happy-eyeballs-v2", "adaptive"] {
        let mut s = Story::of(race).site(SITE, 1, (20, 3000), (40, 50)).host(v4(1), Host::Refuses(10));
        let list = s.resolve("curl", SITE, Want::Both, Some(443));
        assert_eq!(list, Resolved::Addresses(vec![v6(1), v4(1)]), "{race}: where the port is known");
        let mut s = Story::of(race).site(SITE, 1, (20, 3000), (40, 50)).host(v4(1), Host::Refuses(10));
        let list = s.resolve("wget", SITE, Want::Both, None);
        assert_eq!(list, Resolved::Addresses(vec![v6(1), v4(1)]), "{race}: where guessed ports are refused");
        assert_eq!(s.now, Instant::from_millis(3000), "{race}");
    }
}

#[test]
fn addresses_that_have_all_refused_are_asked_once_and_the_program_hears_of_each() {
    for race in ["happy-eyeballs-v2", "happy-eyeballs-v3", "adaptive"] {
        let (four, six): (Vec<_>, Vec<_>) = ((1..9).map(v4).collect(), (1..9).map(v6).collect());
        let mut s = Story::of(race).dns(SITE, V4, says(20, &four)).dns(SITE, V6, says(20, &six));
        for addr in four.iter().chain(&six) {
            s = s.host(*addr, Host::Refuses(30));
        }
        let Resolved::Addresses(list) = s.resolve("wget", SITE, Want::Both, None) else { panic!("{race}") };
        assert_eq!(list.len(), 16);
        for addr in list {
            assert!(matches!(s.connect("wget", addr, false), Output::Fail(..)), "{race}: {addr}");
        }
        assert!(s.begun().len() == 16 && s.now <= Instant::from_millis(20 + 16 * 30), "{race}: {:?}", s.now);
    }
}

#[test]
fn adaptive_stops_waiting_for_aaaa_where_none_is_ever_answered() {
    let mut s = Story::of("adaptive");
    for n in 1..=3 {
        let name = format!("{n}.example");
        s = s.site(&name, n, (20, 0), (40, 50)).dns(&name, V6, Dns::Silent);
    }
    for n in 1..=2 {
        assert_eq!(s.visit("curl", &format!("{n}.example")), (v4(n), 20 + 50 + 40));
        s.pass(16_000);
    }
    assert_eq!(s.visit("curl", "3.example"), (v4(3), 20 + 40));
}

#[test]
fn a_program_is_told_to_move_on_from_a_family_that_has_gone_silent() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 90));
    s.warm("wget", SITE);
    s = s.host(v4(1), Host::Silent);
    assert_eq!(s.resolve("wget", SITE, Want::Both, Some(443)), Resolved::Addresses(vec![v4(1), v6(1)]));
    let began = s.now;
    assert!(matches!(s.connect("wget", v4(1), false), Output::Fail(_, 110)));
    assert!(s.now - began <= ms(1500), "two SYNs and a half second, not the kernel's 130 s");
    assert!(matches!(s.connect("wget", v6(1), false), Output::HandOver { connected: true, .. }));
    assert!(s.now - began <= ms(1600));
}

#[test]
fn a_program_that_takes_its_time_is_served_under_the_address_that_it_was_told_first() {
    // IPv4 is nearer by a millisecond, and its answer later by one: the program is told of IPv6, which was begun, first.
    let mut s = Story::of("adaptive").site(SITE, 1, (21, 20), (30, 31));
    s.warm("curl", SITE);
    s.connector.forget_answers();
    s = s.host(v6(1), Host::Silent);
    assert_eq!(s.resolve("curl", SITE, Want::Both, Some(443)), Resolved::Addresses(vec![v6(1), v4(1)]));
    s.pass(400);
    let Output::HandOver { attempt, connected: true, .. } = s.connect("curl", v6(1), false) else {
        panic!("{:?}", s.outputs)
    };
    assert_eq!(s.reached(attempt), v4(1), "by a mapped peer, begun meanwhile");
}

#[test]
fn a_lost_a_answer_costs_nothing_where_ipv6_works() {
    for race in ["happy-eyeballs-v2", "adaptive"] {
        let mut s = Story::of(race).site(SITE, 1, (0, 30), (40, 50)).dns(SITE, V4, Dns::Silent);
        assert_eq!(s.visit("curl", SITE), (v6(1), 30 + 50), "{race}");
    }
}

#[test]
fn the_first_of_many_addresses_being_dead_does_not_matter_much() {
    let mut s = Story::of("adaptive")
        .dns(SITE, V4, says(10, &[v4(1), v4(2), v4(3)]))
        .dns(SITE, V6, says(10, &[]))
        .host(v4(1), Host::Silent)
        .host(v4(2), Host::Answers(30));
    assert_eq!(s.visit("curl", SITE), (v4(2), 10 + 250 + 30));
}

#[test]
fn when_every_address_refuses_the_program_hears_the_errno() {
    for entry in race::ALL {
        let mut s = Story::of(entry.name)
            .site(SITE, 1, (10, 10), (40, 50))
            .host(v6(1), Host::Refuses(5))
            .host(v4(1), Host::Refuses(5));
        s.resolve("curl", SITE, Want::Both, Some(443));
        assert!(matches!(s.connect("curl", v6(1), false), Output::Fail(_, 111)), "{}", entry.name);
    }
}

#[test]
fn a_nonblocking_program_gets_what_is_under_way_and_is_never_made_to_wait() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.resolve("curl", SITE, Want::Both, Some(443));
    let before = s.now;
    let handed = s.connect("curl", v6(1), true);
    assert!(matches!(handed, Output::HandOver { connected: false, .. }), "{handed:?}");
    assert_eq!(s.now, before);
    assert_eq!(passed(&s.connect("curl", v4(1), true)), Some(Pass::NothingReady));
    s.pass(5000);
    assert_eq!(s.connector.open_jobs(), 0);
}

#[test]
fn a_black_hole_is_learned_of_even_from_a_program_that_races_itself() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 0)).host(v6(1), Host::Silent);
    s = s.dns("v4.example", V4, says(10, &[v4(2)])).host(v4(2), Host::Answers(30));
    s = s.dns("v4.example", V6, Dns::Says(10, LookupResult::NoData(Duration::ZERO)));
    s.visit("wget", "v4.example");
    s.pass(3000);
    s.outputs.clear();
    s.resolve("curl", SITE, Want::Both, Some(443));
    assert!(matches!(s.connect("curl", v6(1), true), Output::HandOver { connected: false, .. }));
    s.pass(5000);
    assert_eq!(s.begun().len(), 1, "the rest of the race was the program's own");
    assert_eq!(s.resolve("curl", SITE, Want::Both, Some(443)), Resolved::Addresses(vec![v4(1), v6(1)]));
}

#[test]
fn a_slow_address_is_not_moved_before_one_that_fails_at_once() {
    // Programs such as Node give each address but the last 250 ms.
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (300, 20)).host(v6(1), Host::Refuses(5));
    for _ in 0..2 {
        assert_eq!(s.resolve("node", SITE, Want::Both, Some(443)), Resolved::Addresses(vec![v6(1), v4(1)]));
        s.connect("node", v6(1), false);
        s.pass(3000);
    }
}

#[test]
fn a_connection_opened_ahead_is_handed_over_complete() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.resolve("curl", SITE, Want::Both, Some(443));
    s.pass(100);
    let handed = s.connect("curl", v6(1), true);
    assert!(matches!(handed, Output::HandOver { connected: true, .. }), "{handed:?}");
    assert!(s.connector.tally().connect_wait < s.connector.tally().handshakes);
}

#[test]
fn waits_and_handshakes_are_timed_by_program_family_and_outcome() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.resolve("curl", SITE, Want::Both, Some(443));
    s.pass(100);
    s.connect("curl", v6(1), true);
    s = s.dns("gone.example", Family::V4, Dns::Says(20, LookupResult::NxDomain(Duration::from_secs(60)))).dns(
        "gone.example",
        Family::V6,
        Dns::Says(20, LookupResult::NxDomain(Duration::from_secs(60))),
    );
    s.resolve("wget", "gone.example", Want::Both, Some(443));
    let told = s.connector.timings().snapshot();
    let words = told.iter().map(|timed| {
        let Key { what, program, family, outcome } = &timed.key;
        (*what, program.as_str(), family.as_deref(), &**outcome, timed.histogram.sum.as_millis())
    });
    let of = |app: &str| words.clone().filter(|word| word.1 == app).map(|w| (w.0, w.2, w.3, w.4)).collect::<Vec<_>>();
    let curl = of("curl");
    assert!(curl.contains(&(What::Connect, Some("IPv6"), "ok", 0)), "{curl:?}: it was there when it was asked for");
    assert!(curl.contains(&(What::Handshake, Some("IPv6"), "ok", 50)), "{curl:?}");
    assert!(curl.contains(&(What::Lookup, Some("IPv6"), "ok", 20)), "{curl:?}");
    assert_eq!(of("wget"), [(What::Lookup, None, "no-such-name", 20)]);
}

#[test]
fn a_connection_that_nobody_claims_is_closed_and_counted() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.resolve("curl", SITE, Want::Both, Some(443));
    s.pass(5000);
    assert_eq!((s.connector.tally().unused, s.connector.open_jobs()), (1, 0));
    assert!(s.outputs.iter().any(|(_, o)| matches!(o, Output::Close(_))));
}

#[test]
fn an_ipv4_winner_stands_in_for_an_ipv6_socket_only_as_a_mapped_peer() {
    let mut s = Story::of("happy-eyeballs-v2").site(SITE, 1, (20, 20), (40, 0)).host(v6(1), Host::Silent);
    s.visit("wget", SITE);
    let domain = s.outputs.iter().find_map(|(_, o)| match o {
        Output::Connect { to, domain, .. } if to.ip() == v4(1) => Some(*domain),
        _ => None,
    });
    assert_eq!(domain, Some(V6));
}

#[test]
fn an_ipv4_socket_is_never_exchanged_for_an_ipv6_one() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 10));
    s.resolve("wget", SITE, Want::Both, None);
    let Output::HandOver { attempt, .. } = s.connect("wget", v4(1), false) else { panic!("handed over") };
    assert_eq!(s.reached(attempt), v4(1));
}

#[test]
fn an_address_that_no_lookup_gave_is_left_alone() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    assert_eq!(passed(&s.connect("curl", v4(9), false)), Some(Pass::UnknownAddress));
    s.visit("curl", SITE);
    assert_eq!(passed(&s.connect("wget", v6(1), false)), Some(Pass::UnknownAddress), "answers belong to one program");
}

#[test]
fn a_second_connection_to_the_same_name_races_anew() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.visit("curl", SITE);
    assert!(matches!(s.connect("curl", v6(1), false), Output::HandOver { connected: true, .. }));
    assert_eq!(s.connector.tally().handed_over, 2);
}

#[test]
fn the_cache_answers_the_second_time_for_this_program_only() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.resolve("curl", SITE, Want::Both, None);
    let queries = s.connector.tally().queries;
    s.resolve("curl", "WWW.example.", Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries, "case and the final dot do not matter");
    s.resolve("wget", SITE, Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries + 2);
}

#[test]
fn the_cache_can_be_switched_off_and_can_keep_for_an_hour() {
    for (lifetime, queries) in [(Lifetime::Off, 4), (Lifetime::Ttl, 4), (Lifetime::Fixed(Duration::from_secs(3600)), 2)]
    {
        let settings = Settings { lifetime, explore: 0.0, ..Settings::of(race::find("adaptive").unwrap()) };
        let mut s = Story::with(settings).site(SITE, 1, (20, 20), (40, 50));
        s.resolve("curl", SITE, Want::Both, None);
        s.pass(61_000);
        s.resolve("curl", SITE, Want::Both, None);
        assert_eq!(s.connector.tally().queries, queries, "{lifetime:?}");
    }
}

#[test]
fn two_calls_for_one_name_share_one_query() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Both, port: None };
    s.input(Input::Resolve(RequestId(901), ask.clone()));
    s.input(Input::Resolve(RequestId(902), ask));
    s.pass(100);
    assert_eq!(s.connector.tally().queries, 2);
    assert_eq!(s.connector.tally().resolved, 2);
}

#[test]
fn a_name_that_does_not_exist_is_said_not_to_exist() {
    let no = Dns::Says(10, LookupResult::NxDomain(Duration::from_secs(30)));
    let mut s = Story::of("adaptive").dns(SITE, V4, no.clone()).dns(SITE, V6, no);
    assert_eq!(s.resolve("curl", SITE, Want::Both, None), Resolved::NxDomain);
    let none = Dns::Says(10, LookupResult::NoData(Duration::ZERO));
    let mut s = Story::of("adaptive").dns(SITE, V4, none.clone()).dns(SITE, V6, none);
    assert_eq!(s.resolve("curl", SITE, Want::Both, None), Resolved::NoData);
    let mut s = Story::of("adaptive");
    assert_eq!(s.resolve("curl", SITE, Want::Both, None), Resolved::Unanswered);
    assert_eq!(s.now, Instant::from_millis(10_000), "as the C library");
}

#[test]
fn a_server_that_refuses_is_passed_over_for_the_next() {
    let mut s = Story::of("adaptive").dns(SITE, V4, Dns::Says(5, LookupResult::Refused));
    s.input(Input::Servers(2));
    assert_eq!(s.resolve("curl", SITE, Want::Only(V4), None), Resolved::Unanswered);
    let servers: Vec<u32> = s
        .outputs
        .iter()
        .filter_map(|(_, o)| match o {
            Output::Query { server, .. } => Some(*server),
            _ => None,
        })
        .collect();
    assert_eq!(servers, [0, 1, 2, 3], "each twice, as the C library does");
}

#[test]
fn exploring_learns_the_other_family_and_nobody_waits_for_it() {
    let settings = Settings { explore: 1.0, ..Settings::of(race::find("adaptive").unwrap()) };
    let mut s = Story::with(settings).site(SITE, 1, (20, 30), (90, 50));
    assert_eq!(s.visit("curl", SITE), (v6(1), 30 + 50));
    s.pass(2000);
    assert!(s.connector.path().current().peer(v4(1)).unwrap().rtt.is_some());
    assert_eq!((s.connector.tally().explorations, s.connector.tally().unused, s.connector.open_jobs()), (1, 1, 0));
}

#[test]
fn a_suspended_family_is_probed_beside_the_other_and_comes_back() {
    let mut s = Story::of("adaptive");
    for n in 1..=4 {
        s = s.site(&format!("{n}.example"), n, (10, 10), (30, 20)).host(v6(n.into()), Host::Silent);
    }
    for n in 1..=3 {
        s.visit("curl", &format!("{n}.example"));
    }
    let now = s.now;
    assert!(s.connector.path().current().is_suspended(V6, now));
    s.outputs.clear();
    assert_eq!(s.visit("curl", "4.example"), (v4(4), 10 + 30), "no waiting for a suspended family");
    assert_eq!(s.begun().len(), 1);
    s.pass(31_000);
    s = s.host(v6(4), Host::Answers(20));
    s.outputs.clear();
    s.visit("curl", "4.example");
    s.pass(2000);
    assert_eq!(s.begun().len(), 2, "the probe is an extra SYN");
    let now = s.now;
    assert!(!s.connector.path().current().is_suspended(V6, now));
}

#[test]
fn a_host_without_an_ipv6_route_does_not_try_it_first() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.input(Input::Network { id: Default::default(), v4: true, v6: false, v4_first: false });
    assert_eq!(s.visit("curl", SITE), (v4(1), 20 + 40));
}

#[test]
fn a_new_network_starts_without_the_old_ones_answers() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.resolve("curl", SITE, Want::Both, None);
    s.input(Input::Network { id: crate::path::NetworkId(9), v4: true, v6: true, v4_first: false });
    let queries = s.connector.tally().queries;
    s.resolve("curl", SITE, Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries + 2);
}

fn move_to(s: &mut Story, id: u64) {
    s.input(Input::Network { id: crate::path::NetworkId(id), v4: true, v6: true, v4_first: false });
}

#[test]
fn an_answer_of_the_network_before_serves_who_waits_and_is_not_kept() {
    let mut s = Story::of("adaptive").site(SITE, 1, (100, 100), (40, 50));
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Both, port: None };
    s.input(Input::Resolve(RequestId(900), ask));
    s.pass(50);
    move_to(&mut s, 9);
    s.pass(100);
    assert!(
        s.outputs.iter().any(|(t, o)| *t == 100 && matches!(o, Output::Answer(RequestId(900), _))),
        "{:?}",
        s.outputs
    );
    assert!(s.connector.path().current().family(V4).lookup.is_none(), "nothing is known of this network's servers");
    let queries = s.connector.tally().queries;
    s.resolve("curl", SITE, Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries + 2);
}

#[test]
fn who_asks_after_a_move_is_told_what_this_network_says() {
    let mut s = Story::of("adaptive").site(SITE, 1, (100, 100), (40, 50));
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Both, port: None };
    s.input(Input::Resolve(RequestId(900), ask));
    s.pass(50);
    move_to(&mut s, 9);
    s = s.site(SITE, 2, (100, 100), (40, 50));
    let Resolved::Addresses(list) = s.resolve("curl", SITE, Want::Both, None) else { panic!("it resolves") };
    assert!(list.contains(&v4(2)) && !list.contains(&v4(1)), "{list:?}");
    assert_eq!(s.connector.tally().queries, 4);
    let answers = s.outputs.iter().filter(|(_, o)| matches!(o, Output::Answer(..)));
    assert_eq!(answers.count(), 2, "and so is who had asked before");
}

#[test]
fn an_attempt_that_was_begun_on_another_network_says_nothing_of_this_one() {
    for host in [Host::Answers(100), Host::Refuses(100)] {
        let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (100, 100)).host(v6(1), host);
        s.resolve("curl", SITE, Want::Both, Some(443));
        s.pass(30);
        assert_eq!(s.begun(), [(20, v6(1))]);
        move_to(&mut s, 9);
        s.pass(10_000);
        let network = s.connector.path().current();
        assert!(network.peer(v6(1)).is_none() && network.family(V6).rtt.is_none(), "{host:?}");
    }
}

#[test]
fn a_program_may_have_the_descriptor_for_a_query_that_we_lack() {
    let unsent = || Dns::Says(0, LookupResult::NotSent);
    let mut s = Story::of("adaptive").dns(SITE, V4, unsent()).dns(SITE, V6, unsent());
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Both, port: None };
    s.input(Input::Resolve(RequestId(900), ask));
    s.pass(10_000);
    let told: Vec<_> = s.outputs.iter().filter_map(|(_, o)| passed(o)).collect();
    assert_eq!((told, s.connector.open_jobs()), (vec![Pass::OutOfDescriptors], 0));
    let history = s.connector.path().current().family(V6);
    assert!(history.lookup.is_none() && !history.is_unanswered());

    let mut s = Story::of("adaptive").dns(SITE, V4, unsent()).dns(SITE, V6, says(20, &[v6(1)]));
    assert_eq!(s.resolve("curl", SITE, Want::Both, None), Resolved::Addresses(vec![v6(1)]), "one is enough");
}

#[test]
fn a_query_that_could_not_be_repeated_is_still_waited_for() {
    let mut s = Story::of("adaptive").dns(SITE, V4, says(1500, &[v4(1)]));
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Only(V4), port: None };
    s.input(Input::Resolve(RequestId(900), ask));
    s.pass(1100);
    let query = s.outputs.iter().find_map(|(_, o)| match o {
        Output::Query { id, .. } => Some(*id),
        _ => None,
    });
    s.input(Input::Lookup(query.unwrap(), LookupResult::NotSent));
    s.pass(1000);
    let answer = Output::Answer(RequestId(900), Resolved::Addresses(vec![v4(1)]));
    assert!(s.outputs.contains(&(1500, answer)), "{:?}", s.outputs);
}

#[test]
fn a_program_may_have_the_descriptor_for_a_connection_that_we_lack() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50)).host(v6(1), Host::OutOfReach);
    s = s.host(v4(1), Host::OutOfReach);
    let list = s.resolve("curl", SITE, Want::Both, None);
    assert_eq!(list, Resolved::Addresses(vec![v6(1), v4(1)]));
    let told = s.connect("curl", v6(1), false);
    assert_eq!(passed(&told), Some(Pass::OutOfDescriptors), "{told:?}");
    assert!(s.connector.path().current().peer(v6(1)).is_none(), "it says nothing of the address");
}

#[test]
fn a_caller_that_goes_away_leaves_nothing_behind() {
    let mut s =
        Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50)).host(v6(1), Host::Silent).host(v4(1), Host::Silent);
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Both, port: Some(443) };
    s.input(Input::Resolve(RequestId(900), ask));
    s.input(Input::Abandon(RequestId(900)));
    s.pass(10_000);
    assert_eq!(s.connector.open_jobs(), 0);
    assert!(s.connector.poll_timeout().is_none(), "nothing left to wake for");
}

#[test]
fn a_slow_path_keeps_its_family() {
    let slow = Host::Answers(3000);
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 2500), (0, 10)).host(v4(1), slow);
    s.resolve("wget", SITE, Want::Both, None);
    let began = s.now;
    let Output::HandOver { attempt, connected: true, .. } = s.connect("wget", v4(1), false) else {
        panic!("it is connected");
    };
    // Begun at 70 ms, to see whether IPv4 will do.
    assert_eq!((Family::of(s.reached(attempt)), s.now - began), (V4, ms(570)));
}
