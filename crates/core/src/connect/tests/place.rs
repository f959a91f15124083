//! A host that sleeps, that recognises where it is, and that begins with what was known before a restart.

use super::*;
use crate::path::NetworkId;

const SITE: &str = "www.example";

fn at_home() -> Story {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.input(Input::Network { id: NetworkId(1), v4: true, v6: true, v4_first: false });
    s
}

#[test]
fn answers_do_not_outlive_a_sleep_that_no_clock_has_counted() {
    let mut s = at_home();
    s.resolve("curl", SITE, Want::Both, None);
    let queries = s.connector.tally().queries;
    s.input(Input::Woken(Duration::from_millis(20)));
    s.resolve("curl", SITE, Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries, "that was no sleep");
    s.input(Input::Woken(Duration::from_secs(3600)));
    s.resolve("curl", SITE, Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries + 2);
}

#[test]
fn a_network_that_is_recognised_keeps_its_answers_and_gets_its_history_back() {
    let mut s = at_home();
    s.warm("curl", SITE);
    s.input(Input::Network { id: NetworkId(2), v4: true, v6: true, v4_first: false });
    s.resolve("curl", SITE, Want::Both, None);
    let queries = s.connector.tally().queries;
    assert!(s.connector.path().current().peer(v4(1)).is_none());
    s.input(Input::Recognised(NetworkId(1)));
    s.resolve("curl", SITE, Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries, "the answers hold");
    assert!(s.connector.path().current().peer(v4(1)).is_some_and(|p| p.has_answered));
}

#[test]
fn a_supervisor_that_begins_with_an_earlier_ones_history_does_not_try_the_dead_family_first() {
    let mut first = at_home();
    first.hosts.insert(v6(1), Host::Silent);
    first.visit("curl", SITE);
    first.pass(1000);
    let known = first.connector.networks(first.now);
    let mut second = at_home();
    second.hosts.insert(v6(1), Host::Silent);
    second.connector.recall_networks(second.now, known);
    assert_eq!(second.visit("curl", SITE), (v4(1), 20 + 40), "one lookup and one round trip");
    second.connector.forget_networks();
    assert!(second.connector.networks(second.now).is_empty());
}

/// `mail` goes to two names soon after it is launched, and has done so before; connections are opened ahead.
pub(super) fn mail() -> Story {
    let settings = Settings { explore: 0.0, ahead: Ahead::ON, ..Settings::of(race::find("adaptive").unwrap()) };
    let mut s = Story::with(settings).site("a.example", 1, (30, 30), (40, 40)).site("b.example", 2, (30, 30), (40, 40));
    for _ in 0..4 {
        s.launch("mail");
        s.pass(1000);
        s.visit("mail", "a.example");
        s.pass(1000);
        s.visit("mail", "b.example");
        s.pass(120_000);
    }
    s.launch("mail");
    s
}

/// Whether something was begun since to each of the two.
pub(super) fn begun_since(s: &Story, seen: usize) -> [bool; 2] {
    [[v4(1), v6(1)], [v4(2), v6(2)]].map(|to| s.begun()[seen..].iter().any(|(_, addr)| to.contains(addr)))
}

#[test]
fn a_host_is_forgotten_for_one_program_or_for_all() {
    let mut s = at_home();
    ["curl", "wget"].into_iter().for_each(|app| _ = s.visit(app, SITE));
    let asks = |s: &mut Story| {
        ["curl", "wget"].map(|app| {
            let before = s.connector.tally().queries;
            s.resolve(app, SITE, Want::Both, None);
            s.connector.tally().queries > before
        })
    };
    assert_eq!(asks(&mut s), [false, false]);
    s.connector.forget_host(Some("curl"), "WWW.example.");
    assert_eq!(asks(&mut s), [true, false]);
    assert!(s.connector.path().current().peer(v6(1)).is_some(), "another program's use of it counts");
    s.connector.forget_host(None, SITE);
    assert!(s.connector.path().current().peer(v6(1)).is_none());
    assert_eq!(asks(&mut s), [true, true]);
}

#[test]
fn nothing_is_opened_ahead_to_a_host_that_was_forgotten_and_to_others_it_is() {
    for (forgotten, expected) in [(None, [true, true]), (Some("a.example"), [false, true])] {
        let mut s = mail();
        let seen = s.begun().len();
        forgotten.into_iter().for_each(|host| s.connector.forget_host(Some("mail"), host));
        s.pass(5000);
        assert_eq!(begun_since(&s, seen), expected, "{forgotten:?}");
    }
}

#[test]
fn what_was_opened_ahead_is_closed_where_routes_have_changed() {
    let mut s = mail();
    s.pass(950);
    let seen = s.outputs.len();
    s.input(Input::Network { id: NetworkId::default(), v4: true, v6: true, v4_first: false });
    assert!(s.outputs[seen..].iter().any(|(_, o)| matches!(o, Output::Close(_))), "a route may be another one");
}

#[test]
fn what_is_known_of_networks_is_forgotten_but_for_where_the_host_is() {
    let mut s = at_home();
    assert_eq!(s.connector.network(), NetworkId(1));
    let before = s.connector.networks_version();
    s.visit("curl", SITE);
    assert!(s.connector.networks_version() > before);
    let known = s.connector.networks(s.now);
    s.input(Input::Network { id: NetworkId(1), v4: true, v6: false, v4_first: false });
    s.connector.forget_networks();
    let here = s.connector.path().current();
    assert!(here.peer(v6(1)).is_none() && here.family(Family::V4).has_route && !here.family(Family::V6).has_route);
    // What another host says is taken for what it is.
    s.connector.take_prior(s.now, &known);
    assert!(s.connector.path().current().peer(v6(1)).is_some_and(|peer| peer.is_prior()));
}

#[test]
fn a_program_that_waits_for_a_connection_has_it_tried_on_the_next_network_at_once() {
    let mut s = at_home().host(v4(1), Host::Silent).host(v6(1), Host::Silent);
    // Others have asked before it.
    (0..3).for_each(|_| _ = s.resolve("wget", SITE, Want::Both, None));
    s.resolve("curl", SITE, Want::Both, Some(443));
    let claim = Claim {
        app: app(),
        to: (v6(1), 443).into(),
        domain: Family::V6,
        nonblocking: false,
        accepts_mapped: true,
        rescuable: None,
    };
    let request = RequestId(900);
    s.claimed.insert(request, v6(1));
    s.input(Input::Claim(request, claim));
    s.pass(10);
    s.hosts.insert(v6(1), Host::Answers(50));
    let seen = s.outputs.len();
    s.input(Input::Network { id: NetworkId(2), v4: true, v6: true, v4_first: false });
    let did: Vec<_> = s.outputs[seen..].iter().map(|(_, output)| output).collect();
    assert!(did.iter().any(|output| matches!(output, Output::Close(_))), "what leads nowhere: {did:?}");
    assert!(did.iter().any(|output| matches!(output, Output::Connect { to, .. } if to.ip() == v6(1))), "{did:?}");
    s.pass(50);
    let is_given = |o: &Output| matches!(o, Output::HandOver { request: r, connected: true, .. } if *r == request);
    assert!(s.outputs[seen..].iter().any(|(_, output)| is_given(output)));
}

#[test]
fn a_programs_own_attempt_is_left_to_it_on_the_next_network() {
    let mut s = at_home().host(v6(1), Host::Answers(300));
    s.rescuable = true;
    s.resolve("curl", SITE, Want::Both, None);
    assert!(matches!(s.connect("curl", v6(1), true), Output::Begin { .. }));
    let seen = s.outputs.len();
    s.input(Input::Network { id: NetworkId(2), v4: true, v6: true, v4_first: false });
    assert!(!s.outputs[seen..].iter().any(|(_, output)| matches!(output, Output::Close(_))));
    assert_eq!(s.connector.open_jobs(), 1, "it is still watched");
    s.pass(10_000);
    assert_eq!(s.connector.open_jobs(), 0);
}
