//! How long a program waits for the addresses of the second family.

use super::*;
use Family::V6;

const SITE: &str = "www.example";

#[test]
fn a_lost_aaaa_answer_costs_the_resolution_delay_and_no_more() {
    for race in ["happy-eyeballs-v2", "adaptive"] {
        let mut s = Story::of(race).site(SITE, 1, (20, 0), (40, 50)).dns(SITE, V6, Dns::Silent);
        assert_eq!(s.visit("curl", SITE), (v4(1), 20 + 50 + 40), "{race}");
    }
}

#[test]
fn an_answer_within_the_resolution_delay_is_returned_even_where_a_connection_is_open() {
    for race in ["happy-eyeballs-v2", "happy-eyeballs-v3", "adaptive"] {
        // The IPv6 connection is open at 30 ms. What its server makes of it is not known, and bare the program hears of both.
        let mut s = Story::of(race).site(SITE, 1, (50, 20), (40, 10));
        let list = s.resolve("curl", SITE, Want::Both, Some(443));
        assert_eq!((list, s.now), (Resolved::Addresses(vec![v6(1), v4(1)]), Instant::from_millis(50)), "{race}");
        let mut s = Story::of(race).site(SITE, 1, (500, 20), (40, 10));
        let list = s.resolve("curl", SITE, Want::Both, Some(443));
        assert_eq!((list, s.now), (Resolved::Addresses(vec![v6(1)]), Instant::from_millis(70)), "{race}: no longer");
    }
}

#[test]
fn a_program_that_comes_again_without_a_port_hears_of_the_other_family() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 1), (10, 10));
    s.warm("curl", SITE);
    s.pass(60_000);
    // The IPv6 host has died since, and a program that was returned this address alone would have nowhere to go.
    s = s.host(v6(1), Host::Silent);
    let began = s.now;
    let Resolved::Addresses(list) = s.resolve("node", SITE, Want::Both, None) else { panic!("it resolves") };
    assert!(list.contains(&v6(1)) && list.contains(&v4(1)), "{list:?}");
    assert_eq!(s.now - began, ms(20));
}

#[test]
fn an_answer_that_usually_takes_longer_than_the_resolution_delay_is_not_waited_for_in_vain() {
    let mut s = Story::of("adaptive").site(SITE, 1, (300, 1), (10, 10));
    s.warm("curl", SITE);
    s.pass(60_000);
    let began = s.now;
    assert_eq!(s.resolve("node", SITE, Want::Both, None), Resolved::Addresses(vec![v6(1)]));
    assert_eq!(s.now - began, ms(1));
}

#[test]
fn the_connection_to_a_second_port_that_was_guessed_is_for_the_program_that_goes_there() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 0), (40, 50)).dns(SITE, V6, Dns::Silent);
    s = s.host(v4(1), Host::Refuses(30));
    let request = s.request();
    s.input(Input::Resolve(request, Resolve { app: app(), name: SITE.into(), want: Want::Both, port: None }));
    // HTTPS is refused; HTTP, which is guessed then, is not.
    s.pass(80);
    s = s.host(v4(1), Host::Answers(40));
    s.pass(100);
    assert!(s.outputs.iter().any(|(_, o)| matches!(o, Output::Answer(r, _) if *r == request)));
    let to = (v4(1), 80).into();
    let (domain, nonblocking, accepts_mapped) = (Family::V4, false, false);
    let request = s.request();
    s.input(Input::Claim(request, Claim { app: app(), to, domain, nonblocking, accepts_mapped, rescuable: None }));
    let handed_over = |o: &Output| matches!(o, Output::HandOver { request: r, connected: true, .. } if *r == request);
    assert!(s.outputs.iter().any(|(_, o)| handed_over(o)));
    assert_eq!(s.begun().len(), 2, "one to each port");
}
