//! Networks without IPv4: what a translator makes reachable (RFC 6052, RFC 7050).

use super::*;
use crate::path::NetworkId;
use Family::{V4, V6};

const SITE: &str = "www.example";
const NAME: &str = "ipv4only.arpa";

/// 192.0.2.n behind the translator.
fn via(n: u8) -> IpAddr {
    format!("64:ff9b::c000:2{n:02x}").parse().unwrap()
}
fn well_known() -> Dns {
    says(30, &["64:ff9b::c000:aa".parse().unwrap(), "64:ff9b::c000:ab".parse().unwrap()])
}
/// A network without IPv4, whose DNS server knows a translator but makes no addresses itself (a VPN's, say).
fn ipv6_alone(race: &str) -> Story {
    let mut s =
        Story::of(race).dns(SITE, V4, says(10, &[v4(1)])).dns(SITE, V6, says(10, &[])).dns(NAME, V6, well_known());
    s = s.host(via(1), Host::Answers(40));
    s.input(Input::Network { id: NetworkId(1), v4: false, v6: true, v4_first: false });
    s
}
fn discoveries(s: &Story) -> usize {
    s.outputs.iter().filter(|(_, o)| matches!(o, Output::Query { name, .. } if &**name == NAME)).count()
}

#[test]
fn an_ipv4_address_is_reached_through_the_translator_by_every_race() {
    for entry in race::ALL {
        let mut s = ipv6_alone(entry.name);
        let (reached, took) = s.visit("curl", SITE);
        assert_eq!((reached, took), (via(1), 30 + 40), "{}: the prefix was known after 30 ms", entry.name);
        assert!(s.begun().iter().all(|b| b.1.is_ipv6()), "{}: nothing is tried that has no route", entry.name);
    }
}

#[test]
fn the_prefix_is_asked_for_once_a_network_and_again_when_its_time_is_over() {
    let mut s = ipv6_alone("adaptive");
    s.visit("curl", SITE);
    s.visit("wget", SITE);
    assert_eq!(discoveries(&s), 1, "it belongs to the network, not to a program");
    s.input(Input::Network { id: NetworkId(2), v4: false, v6: true, v4_first: false });
    s.visit("curl", SITE);
    assert_eq!(discoveries(&s), 2);
    s.input(Input::Network { id: NetworkId(1), v4: false, v6: true, v4_first: false });
    s.visit("curl", SITE);
    assert_eq!(discoveries(&s), 2, "known here");
    s.pass(61_000);
    s.visit("curl", SITE);
    assert_eq!(discoveries(&s), 3, "TTL 60 s");
}

#[test]
fn nobody_asks_where_there_is_ipv4_or_no_network_or_nothing_to_look_up() {
    for (v4, v6) in [(true, true), (true, false), (false, false)] {
        let mut s = ipv6_alone("adaptive");
        s.input(Input::Network { id: NetworkId(1), v4, v6, v4_first: false });
        s.resolve("curl", SITE, Want::Both, Some(443));
        s.pass(10_000);
        assert_eq!(discoveries(&s), 0, "{v4} {v6}");
    }
    let mut s = ipv6_alone("adaptive");
    s.pass(10_000);
    assert_eq!(discoveries(&s), 0, "no program, no question");
    assert_eq!(s.resolve("curl", SITE, Want::Only(V4), None), Resolved::Addresses(vec![v4(1)]));
    assert_eq!(discoveries(&s), 0, "whoever wants IPv4 addresses gets IPv4 addresses");
}

#[test]
fn a_program_that_wants_ipv6_alone_gets_what_the_translator_makes_and_nothing_else() {
    let mut s = ipv6_alone("adaptive");
    let want = Want::Only(V6);
    assert_eq!(s.resolve("curl", SITE, want, Some(443)), Resolved::Addresses(vec![via(1)]));
    let none = Dns::Says(10, LookupResult::NxDomain(Duration::from_secs(600)));
    let mut s = ipv6_alone("adaptive").dns(NAME, V6, none);
    assert_eq!(s.resolve("curl", SITE, want, Some(443)), Resolved::NoData);
}

#[test]
fn a_server_that_always_fails_for_ipv6_delays_nothing_that_the_translator_makes() {
    for port in [None, Some(443)] {
        let mut s = ipv6_alone("adaptive").dns(SITE, V6, Dns::Says(10, LookupResult::Refused));
        let began = s.now;
        assert_eq!(s.resolve("curl", SITE, Want::Only(V6), port), Resolved::Addresses(vec![via(1)]));
        assert_eq!(s.now - began, Duration::from_millis(30), "when the prefix is known");
    }
}

#[test]
fn a_name_that_is_not_there_is_denied_to_a_program_of_ipv6_alone_as_soon_as_both_are_answered() {
    let none = |after| Dns::Says(after, LookupResult::NxDomain(Duration::from_secs(600)));
    for (v4, v6) in [(12, 10), (10, 12)] {
        let mut s = ipv6_alone("adaptive").dns(SITE, V4, none(v4)).dns(SITE, V6, none(v6));
        s.servers = 2;
        s.input(Input::Servers(2));
        let began = s.now;
        assert_eq!(s.resolve("curl", SITE, Want::Only(V6), None), Resolved::NxDomain);
        assert_eq!(s.now - began, Duration::from_millis(12), "{v4} {v6}");
    }
}

//= RFC 8305#7.1
#[test]
fn a_literal_is_reached_too() {
    let mut s = ipv6_alone("adaptive");
    assert_eq!(s.resolve("curl", "192.0.2.1", Want::Both, Some(443)), Resolved::Addresses(vec![via(1)]));
    assert!(matches!(s.connect("curl", via(1), false), Output::HandOver { connected: true, .. }));
    assert_eq!(s.outputs.iter().filter(|(_, o)| matches!(o, Output::Query { .. })).count(), 1, "the prefix alone");
    // Java connects to ::ffff:192.0.2.1, without a name, with a socket that may as well go to the translator.
    let (to, domain) = ((v4(1), 443).into(), V6);
    let claim = Claim { app: app(), to, domain, nonblocking: false, accepts_mapped: true, rescuable: None };
    s.input(Input::Claim(RequestId(900), claim));
    s.pass(100);
    let handed = s.outputs.iter().find_map(|(_, o)| match o {
        Output::HandOver { request: RequestId(900), attempt, connected: true } => Some(s.reached(*attempt)),
        _ => None,
    });
    assert_eq!(handed, Some(via(1)));
}

#[test]
fn on_other_networks_a_literal_is_itself() {
    let mut s = Story::of("adaptive");
    assert_eq!(s.resolve("curl", "192.0.2.1", Want::Both, None), Resolved::Addresses(vec![v4(1)]));
    assert_eq!(s.resolve("curl", "2001:db8::1", Want::Both, None), Resolved::Addresses(vec![v6(1)]));
    assert!(s.outputs.iter().all(|(_, o)| matches!(o, Output::Answer(..))), "nothing is asked");
}

#[test]
fn what_a_dns64_has_made_is_one_address_and_counts_as_ipv4() {
    // DNS64 made its address of 192.0.2.1; 2 and 3 are native.
    let mut s = ipv6_alone("happy-eyeballs-v3").dns(SITE, V6, says(40, &[via(1), v6(2), v6(3)]));
    let told = s.resolve("curl", SITE, Want::Both, None);
    assert_eq!(told, Resolved::Addresses(vec![v6(2), via(1), v6(3)]), "native first, then in turn, each once");
}

#[test]
fn a_network_without_a_translator_leaves_addresses_alone_and_is_not_asked_again_soon() {
    let no = Dns::Says(10, LookupResult::NxDomain(Duration::from_secs(600)));
    for answer in [no, Dns::Silent, says(10, &[v6(7)]), Dns::Says(10, LookupResult::Refused)] {
        let mut s = ipv6_alone("adaptive").dns(NAME, V6, answer);
        assert_eq!(s.resolve("curl", SITE, Want::Both, None), Resolved::Addresses(vec![v4(1)]));
        let asked = discoveries(&s);
        s.resolve("wget", SITE, Want::Both, None);
        assert_eq!(discoveries(&s), asked);
    }
}

#[test]
fn ipv6_is_not_kept_waiting_for_a_translator() {
    for race in ["happy-eyeballs-v2", "happy-eyeballs-v3", "adaptive"] {
        let mut s = ipv6_alone(race).dns(NAME, V6, Dns::Silent).dns(SITE, V6, says(20, &[v6(1)]));
        s = s.host(v6(1), Host::Answers(50));
        assert_eq!(s.visit("curl", SITE), (v6(1), 20 + 50), "{race}");
    }
}

#[test]
fn a_broken_aaaa_is_made_up_for_by_the_translator() {
    let mut s = ipv6_alone("adaptive").dns(SITE, V6, says(10, &[v6(1)])).host(v6(1), Host::Silent);
    assert_eq!(s.visit("curl", SITE).0, via(1), "a DNS64 passes the broken address through (RFC 8305, section 7.2)");
}

#[test]
fn a_second_connection_to_what_was_made_races_anew() {
    let mut s = ipv6_alone("adaptive");
    s.visit("curl", SITE);
    assert!(matches!(s.connect("curl", via(1), false), Output::HandOver { connected: true, .. }));
}

#[test]
fn a_move_to_a_network_with_ipv4_lets_those_go_who_wait_for_a_prefix() {
    let mut s = ipv6_alone("adaptive").dns(NAME, V6, Dns::Silent).host(v4(1), Host::Answers(30));
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Both, port: None };
    s.input(Input::Resolve(RequestId(900), ask));
    s.pass(20);
    s.input(Input::Network { id: NetworkId(2), v4: true, v6: true, v4_first: false });
    let told = Output::Answer(RequestId(900), Resolved::Addresses(vec![v4(1)]));
    assert!(s.outputs.iter().any(|(_, o)| *o == told));
}

#[test]
fn a_literal_is_left_alone_if_its_socket_can_go_nowhere_else_or_its_program_does_not_wait() {
    for (alone, domain, nonblocking) in [(true, V4, false), (true, V6, true), (false, V6, false)] {
        let mut s = if alone { ipv6_alone("adaptive") } else { Story::of("adaptive") };
        let (to, accepts_mapped) = ((v4(1), 443).into(), domain == V6);
        let claim = Claim { app: app(), to, domain, nonblocking, accepts_mapped, rescuable: None };
        s.input(Input::Claim(RequestId(900), claim));
        s.pass(1000);
        let left = s.outputs.iter().find_map(|(_, o)| passed(o));
        assert_eq!((left, s.begun()), (Some(Pass::UnknownAddress), vec![]), "{alone} {domain:?} {nonblocking}");
    }
}
