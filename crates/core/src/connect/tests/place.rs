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
