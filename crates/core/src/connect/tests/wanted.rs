//! Programs that have an order of their own, and go first to what they were not told first.

use super::*;
use Family::{V4, V6};

const SITE: &str = "www.example";

/// Java: IPv4 first, from sockets of AF_INET6. When and where attempts began.
fn java(s: &mut Story) -> Vec<(u64, IpAddr)> {
    s.resolve("java", SITE, Want::Both, None);
    s.outputs.clear();
    let (app, to) = ("java".into(), (v4(1), 443).into());
    let claim = Claim { app, to, domain: V6, nonblocking: false, accepts_mapped: true, rescuable: None };
    s.input(Input::Claim(RequestId(900), claim));
    s.pass(2000);
    s.begun()
}

#[test]
fn the_first_attempt_goes_where_the_program_wants_if_nothing_is_known() {
    for race in ["adaptive", "happy-eyeballs-v2", "happy-eyeballs-v3"] {
        let mut s = Story::of(race).site(SITE, 1, (10, 10), (20, 60));
        assert_eq!(java(&mut s), [(10, v4(1))], "{race}");
        let mut s = Story::of(race).site(SITE, 1, (10, 10), (20, 60)).host(v4(1), Host::Silent);
        assert_eq!(java(&mut s), [(10, v4(1)), (260, v6(1))], "{race}: and the other 250 ms later");
    }
}

#[test]
fn and_where_the_race_would_go_if_that_is_known() {
    let mut s = Story::of("adaptive").site(SITE, 1, (9, 10), (20, 60));
    s.connector.path().current().record(Instant::ZERO, v6(1), crate::path::Outcome::Connected(ms(60)));
    assert_eq!(java(&mut s)[0], (10, v6(1)));
    let mut s = Story::of("adaptive").dns(SITE, V4, says(10, &[v4(1)])).dns(SITE, V6, says(10, &[v6(1)]));
    s.connector.path().current().record(Instant::ZERO, v4(1), crate::path::Outcome::Failed);
    assert_eq!(java(&mut s)[0], (10, v6(1)), "not where it has failed");
}

/// A name with two IPv4 addresses, the second of which does not answer.
fn two(race: &str) -> Story {
    Story::of(race).dns(SITE, V4, says(10, &[v4(1), v4(2)])).host(v4(1), Host::Answers(20)).host(v4(2), Host::Silent)
}

#[test]
fn a_program_that_goes_on_to_another_address_of_a_name_that_it_has_reached_means_that_one() {
    for race in race::ALL {
        let mut s = two(race.name);
        let visit = |s: &mut Story| {
            s.resolve("check", SITE, Want::Only(V4), Some(443));
            let first = s.connect("check", v4(1), false);
            assert!(matches!(first, Output::HandOver { connected: true, .. }), "{}: {first:?}", race.name);
            s.pass(3000);
        };
        visit(&mut s);
        for addr in [v4(2), v4(1), v4(2)] {
            let left = s.connect("check", addr, false);
            assert!(matches!(left, Output::Pass(_, Pass::Chosen)), "{}: {left:?}", race.name);
        }
        // It looks the name up again: it wants any.
        visit(&mut s);
        let again = s.connect("check", v4(1), false);
        assert!(matches!(again, Output::HandOver { connected: true, .. }), "{}: the same again: {again:?}", race.name);
    }
}

#[test]
fn and_is_not_rescued_from_it() {
    let mut s = two("adaptive");
    s.rescuable = true;
    s.resolve("check", SITE, Want::Only(V4), Some(443));
    s.pass(100);
    assert!(matches!(s.connect("check", v4(1), true), Output::HandOver { .. } | Output::Begin { .. }));
    s.pass(3000);
    assert!(matches!(s.connect("check", v4(2), true), Output::Pass(_, Pass::Chosen)));
    s.pass(5000);
    assert!(!s.outputs.iter().any(|(_, o)| matches!(o, Output::Rescue { .. })));
}
