//! What the connector says of itself: that it is what happened, when it happened.

use super::*;
use crate::connect::explain::Explanation;
use crate::connect::timeline::Event;

const SITE: &str = "www.example";

impl Story {
    fn explain(&mut self, host: &str) -> Option<Explanation> {
        self.connector.explain(self.now, host)
    }
}

/// The events of the last race, each as its time in ms and a few words.
fn events(explanation: &Explanation) -> Vec<String> {
    let race = explanation.race.as_ref().expect("a race");
    race.events.iter().map(|e| format!("{} {:?}", e.at_ms, e.event)).collect()
}

#[test]
fn a_race_is_told_from_the_question_to_the_hand_over() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 30), (40, 50));
    s.pass(1000);
    s.visit("curl", SITE);
    s.pass(500);
    let explanation = s.explain("WWW.example.").unwrap();
    let events = events(&explanation);
    let order = [
        "0 Asked",
        "0 Query",
        "0 Query",
        "20 Answer",
        "30 Answer",
        "30 Returned",
        "30 Attempt",
        "30 Wanted",
        "80 Connected",
        "80 HandedOver",
    ];
    let mut rest = events.iter();
    for wanted in order {
        assert!(rest.any(|line| line.contains(wanted)), "{wanted} in its place: {events:#?}");
    }
    let race = explanation.race.unwrap();
    assert_eq!((race.app.as_str(), race.race.as_str(), race.began_ago_ms), ("curl", "adaptive", 580.0));
    assert!(race.events.iter().any(|e| e.event == Event::Connected { to: v6(1), rtt_ms: 50.0 }));
}

#[test]
fn what_is_cached_is_told_with_the_time_that_it_still_holds() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.resolve("curl", SITE, Want::Both, None);
    s.pass(10_000);
    let cached = s.explain(SITE).unwrap().cached;
    let of = |record: &str| cached.iter().find(|c| c.record == record && c.app == "curl").unwrap();
    assert_eq!((&of("A").addresses, of("A").left_ms), (&vec![v4(1)], 50_000.0));
    assert_eq!(of("AAAA").addresses, [v6(1)]);
    s.pass(60_000);
    assert_eq!(s.explain(SITE).unwrap().cached[0].left_ms, 0.0, "remembered, no more");
    s.resolve("curl", SITE, Want::Both, None);
    s.resolve("curl", SITE, Want::Both, None);
    assert!(events(&s.explain(SITE).unwrap()).iter().any(|line| line.contains("FromCache")));
}

#[test]
fn an_address_is_explained_by_the_name_that_has_it() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 30), (40, 50));
    s.visit("curl", SITE);
    let explanation = s.explain(&v6(1).to_string()).unwrap();
    assert_eq!(explanation.race.unwrap().name, SITE);
    let peer = explanation.addresses.iter().find(|a| a.address == v6(1)).unwrap();
    assert_eq!((peer.rtt_ms, peer.has_answered, peer.failing), (Some(50.0), true, false));
}

#[test]
fn failures_suspensions_and_repeated_queries_are_told() {
    let mut s = Story::of("happy-eyeballs-v2");
    for n in 1..=3 {
        s = s.site(&format!("{n}.example"), n, (20, 20), (40, 0)).host(v6(n.into()), Host::Refuses(10));
        s.visit("curl", &format!("{n}.example"));
    }
    s = s.dns("slow.example", Family::V4, says(1500, &[v4(9)])).host(v4(9), Host::Answers(10));
    s.resolve("curl", "slow.example", Want::Only(Family::V4), None);
    let lines = events(&s.explain("slow.example").unwrap());
    assert!(lines.iter().any(|line| line.starts_with("1000 Query") && line.contains("before: 1")), "{lines:#?}");
    let explanation = s.explain("3.example").unwrap();
    assert!(events(&explanation).iter().any(|line| line.contains("Failed") && line.contains("errno: 111")));
    let [v6, v4] = &explanation.families[..] else { panic!("two families") };
    assert!(v6.suspended_ms > 0.0 && v4.suspended_ms == 0.0 && v4.rtt_ms == Some(40.0), "{v6:?} {v4:?}");
    assert!(explanation.addresses.iter().any(|a| a.failing && a.address.is_ipv6()));
}

#[test]
fn calls_that_were_left_alone_are_told_with_their_reasons_by_name_and_by_address() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.connect("curl", v4(1), false);
    s.connect("curl", v4(9), false);
    s.input(Input::Passed(RequestId(77), Some("Printer.local.".into()), Pass::LocalName));
    s.visit("curl", SITE);
    let of = |e: &Explanation, reason: Pass| e.left_alone.get(reason.describe()).copied();
    let site = s.explain(SITE).unwrap();
    assert_eq!(of(&site, Pass::UnknownAddress), Some(1), "by an address that is its own");
    assert_eq!(site.left_alone_in_all[Pass::UnknownAddress.describe()], 2);
    assert_eq!(of(&s.explain("printer.local").unwrap(), Pass::LocalName), Some(1));
    assert_eq!(of(&s.explain(&v4(9).to_string()).unwrap(), Pass::UnknownAddress), Some(1));
    assert_eq!(s.connector.tally().passed[&Pass::LocalName], 1);
}

#[test]
fn of_a_host_that_nobody_asked_for_nothing_is_told() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    s.visit("curl", SITE);
    assert_eq!(s.explain("other.example"), None);
    assert_eq!(s.explain(""), None);
    assert_eq!(s.explain("192.0.2.77"), None);
}

#[test]
fn races_are_told_the_last_first_and_later_only_what_has_changed() {
    let mut s = Story::of("adaptive").site("1.example", 1, (20, 20), (40, 50)).site("2.example", 2, (20, 20), (40, 50));
    assert!(s.connector.races(s.now, 9, 0).is_empty());
    s.visit("curl", "1.example");
    s.visit("curl", "2.example");
    let names = |s: &Story, most, after| -> Vec<_> {
        s.connector.races(s.now, most, after).into_iter().map(|race| race.name).collect()
    };
    assert_eq!(names(&s, 9, 0), ["2.example", "1.example"]);
    assert_eq!(names(&s, 1, 0), ["2.example"]);
    let seen = s.connector.changes_of_races();
    assert!(names(&s, 9, seen).is_empty());
    s.visit("curl", "1.example");
    assert_eq!(names(&s, 9, seen), ["1.example"]);
    assert!(s.connector.changes_of_races() > seen);
}

#[test]
fn a_race_without_an_answer_is_told_and_so_is_an_answer_without_a_race() {
    let mut s = Story::of("adaptive");
    assert_eq!(s.resolve("curl", "silent.example", Want::Both, None), Resolved::Unanswered);
    let silent = s.explain("silent.example").expect("it was asked for");
    assert!(silent.race.is_some() && silent.cached.is_empty());
    for (name, result) in [
        ("gone.example", LookupResult::NxDomain(Duration::from_secs(60))),
        ("empty.example", LookupResult::NoData(Duration::from_secs(60))),
    ] {
        s.input(Input::Overheard { app: app(), name: name.into(), record: RecordType::A, result });
    }
    let says = |s: &mut Story, name| s.explain(name).unwrap().cached.iter().map(|c| c.no_such_name).collect::<Vec<_>>();
    assert_eq!((says(&mut s, "gone.example"), says(&mut s, "empty.example")), (vec![true], vec![false]));
}

#[test]
fn the_answers_of_sixteen_programs_are_told_both_families_of_each() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 50));
    for n in 0..20 {
        s.resolve(&format!("program-{n:02}"), SITE, Want::Both, None);
    }
    let cached = s.explain(SITE).unwrap().cached;
    assert_eq!((cached.len(), cached[31].app.as_str()), (32, "program-15"));
}
