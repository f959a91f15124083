//! DNS servers that do not answer, and what is made of it.

use super::*;
use Family::V4;
use std::collections::BTreeSet;

/// Some names of one address a family, two servers, of which the first does not answer.
fn dead_first() -> Story {
    let mut s = Story::of("adaptive");
    for n in 1..=9 {
        s = s.site(&format!("{n}.example"), n, (10, 10), (20, 20));
    }
    (s.servers, s.dead) = (2, vec![0]);
    s.input(Input::Servers(2));
    s
}

/// How long a lookup of the name takes, and the servers that are asked meanwhile.
fn look_up(s: &mut Story, name: &str) -> (u64, Vec<u32>) {
    let (began, seen) = (s.now, s.outputs.len());
    assert!(matches!(s.resolve("wget", name, Want::Both, None), Resolved::Addresses(_)));
    let asked = |(_, o): &(u64, Output)| match o {
        Output::Query { server, .. } => Some(server % 2),
        _ => None,
    };
    let asked: BTreeSet<u32> = s.outputs[seen..].iter().filter_map(asked).collect();
    ((s.now - began).as_millis() as u64, asked.into_iter().collect())
}

#[test]
fn a_dead_first_server_costs_one_lookup_what_is_usual_and_the_next_ones_nothing() {
    let mut s = dead_first();
    assert_eq!(look_up(&mut s, "1.example"), (376 + 10, vec![0, 1]));
    for name in ["2.example", "3.example"] {
        assert_eq!(look_up(&mut s, name), (10, vec![1]));
    }
    s.pass(1000);
    assert_eq!(look_up(&mut s, "4.example"), (10, vec![0, 1]), "whether it is there again");
    assert_eq!(look_up(&mut s, "5.example"), (10, vec![1]));
    s.dead.clear();
    s.pass(60_000);
    assert_eq!(look_up(&mut s, "6.example"), (10, vec![0, 1]));
    assert_eq!(look_up(&mut s, "7.example"), (10, vec![0]), "it is the first, and answers");
    s.dead = vec![0];
    assert_eq!(look_up(&mut s, "8.example"), (200 + 10, vec![0, 1]), "after what is usual of it");
}

#[test]
fn the_late_answer_of_a_slow_first_server_brings_it_back_and_is_not_what_was_said() {
    let mut s = dead_first();
    assert_eq!(look_up(&mut s, "1.example"), (376 + 10, vec![0, 1]));
    let late = |s: &Story| s.outputs.iter().find_map(|(_, o)| if let Output::Late(id) = o { Some(*id) } else { None });
    let id = late(&s).expect("the first is still awaited");
    assert!(!s.outputs.iter().any(|(_, o)| *o == Output::Forget(id)));
    s.dead.clear();
    s.pass(300);
    s.input(Input::Replied(id, 0));
    s.input(Input::Lookup(id, LookupResult::NoData(Duration::from_secs(60))));
    assert_eq!(look_up(&mut s, "1.example"), (0, vec![]), "what the second said is kept");
    assert_eq!(look_up(&mut s, "2.example"), (10, vec![0]));

    let mut s = dead_first();
    look_up(&mut s, "1.example");
    let id = late(&s).unwrap();
    s.input(Input::Servers(2));
    assert!(
        s.outputs.iter().any(|(_, o)| *o == Output::Forget(id)),
        "nothing is awaited from servers that are no more"
    );
}

#[test]
fn what_a_later_server_says_there_is_not_waits_for_the_first_that_is_only_slow() {
    // Names of a private network are unknown to the world's servers.
    let mut s = Story::of("adaptive").dns("a.example", V4, says(600, &[v4(1)]));
    s.servers = 2;
    s.input(Input::Servers(2));
    let request = RequestId(7);
    let resolve = Resolve { app: app(), name: "a.example".into(), want: Want::Only(V4), port: None };
    s.input(Input::Resolve(request, resolve));
    s.pass(500);
    let id = s.outputs.iter().find_map(|(_, o)| match o {
        Output::Query { id, .. } => Some(*id),
        _ => None,
    });
    s.input(Input::Replied(id.unwrap(), 1));
    s.input(Input::Lookup(id.unwrap(), LookupResult::NxDomain(Duration::from_secs(60))));
    s.pass(500);
    let answer = |(at, o): &(u64, Output)| match o {
        Output::Answer(_, resolved) => Some((*at, resolved.clone())),
        _ => None,
    };
    assert_eq!(s.outputs.iter().find_map(answer), Some((600, Resolved::Addresses(vec![v4(1)]))));

    let mut s = dead_first().dns("none.example", V4, Dns::Says(10, LookupResult::NxDomain(Duration::ZERO)));
    assert_eq!(s.resolve("wget", "none.example", Want::Only(V4), None), Resolved::NxDomain);
    assert_eq!(s.now, Instant::from_millis(5000), "when the C library would ask the second: the first might know more");
    let began = s.now;
    assert_eq!(s.resolve("wget", "none.example", Want::Only(V4), None), Resolved::NxDomain);
    assert_eq!(s.now - began, ms(10), "the first is known to be silent");
}

#[test]
fn whoever_asks_a_silent_server_itself_is_answered_by_the_other() {
    let mut s = dead_first();
    look_up(&mut s, "1.example");
    s.outputs.clear();
    let ask = Ask { app: "dig".into(), name: "2.example".into(), record: V4.into(), server: 0 };
    let began = s.now;
    s.input(Input::Ask(RequestId(1), ask));
    s.pass(100);
    let (at, _) = s.outputs.iter().find(|(_, o)| matches!(o, Output::Answered(..))).expect("an answer");
    assert_eq!(*at, (began + ms(10)).as_nanos() / 1_000_000);
}

#[test]
fn a_server_is_not_silent_because_another_refuses() {
    use crate::connect::lookups::{Lookups, Question};
    let at = Instant::from_millis;
    for (no, is_silent) in [(LookupResult::Refused, false), (LookupResult::NoData(ms(60_000)), true)] {
        let mut lookups = Lookups::default();
        lookups.servers.are(2);
        let question = Question { app: "go".into(), name: "a.example".into(), record: V4.into() };
        let (id, _) = lookups.ask(at(0), 0, &question, 0);
        [0, 1].into_iter().for_each(|server| lookups.sent(at(0), id, server));
        lookups.replied(at(10), id, 1);
        lookups.note_denial(id, &no);
        lookups.close(at(2000), id);
        assert_eq!(lookups.servers.instead_of(0) != 0, is_silent, "{no:?}");
    }
}

/// Server 0 of `servers` is silent at first, and says no when it is asked again: whether that holds at once, and once all servers have had their time.
fn late_denial_holds(servers: u32, others: &[(u32, LookupResult)]) -> [bool; 2] {
    use crate::connect::lookups::{Lookups, Question};
    let (at, none) = (Instant::from_millis, LookupResult::NoData(ms(60_000)));
    let mut lookups = Lookups::default();
    lookups.servers.are(servers);
    let question = Question { app: "wget".into(), name: "a.example".into(), record: V4.into() };
    let (id, _) = lookups.ask(at(0), 0, &question, 0);
    lookups.sent(at(0), id, 0);
    for (server, no) in others {
        lookups.sent(at(376), id, *server);
        lookups.replied(at(386), id, *server);
        lookups.note_denial(id, no);
    }
    lookups.sent(at(1000), id, 0);
    lookups.replied(at(1010), id, 0);
    lookups.note_denial(id, &none);
    [at(1010), at(5000 * u64::from(servers))].map(|now| lookups.no_holds(now, id, false))
}

#[test]
fn a_server_that_denies_only_when_it_is_asked_again_does_not_speak_for_others() {
    let none = LookupResult::NoData(ms(60_000));
    assert_eq!(late_denial_holds(1, &[]), [true; 2], "there is no other server");
    assert_eq!(late_denial_holds(2, &[(1, none)]), [true; 2], "all deny it");
    assert_eq!(late_denial_holds(2, &[]), [false, true], "without us the other would be asked now");
    assert_eq!(late_denial_holds(2, &[(1, LookupResult::Refused)]), [false, true], "it would be asked again");
}

/// The last query for `family` of `of.example`.
fn last_query(s: &Story, family: Family) -> QueryId {
    let is_one = |(_, o): &(u64, Output)| match o {
        Output::Query { id, record, .. } if *record == family.into() => Some(*id),
        _ => None,
    };
    s.outputs.iter().rev().find_map(is_one).expect("it was asked for")
}

fn said(s: &mut Story, query: QueryId, server: u32, what: LookupResult) {
    s.input(Input::Replied(query, server));
    s.input(Input::Lookup(query, what));
}

fn two_servers() -> Story {
    let mut s = Story::of("adaptive");
    s.servers = 2;
    s.input(Input::Servers(2));
    s
}

#[test]
fn a_program_that_waits_for_one_server_is_not_told_what_another_has_refused() {
    let mut s = two_servers();
    let ask = |n, server| {
        let ask = Ask { app: "node".into(), name: "of.example".into(), record: V4.into(), server };
        (RequestId(n), ask)
    };
    let answered =
        |s: &Story, n| s.outputs.iter().any(|(_, o)| matches!(o, Output::Answered(r, _) if *r == RequestId(n)));
    let (first, question) = ask(1, 0);
    s.input(Input::Ask(first, question));
    let id = last_query(&s, V4);
    said(&mut s, id, 0, LookupResult::Refused);
    let (second, question) = ask(2, 1);
    s.input(Input::Ask(second, question));
    s.pass(5001);
    let (third, question) = ask(3, 0);
    s.input(Input::Ask(third, question));
    said(&mut s, id, 0, LookupResult::Refused);
    assert!(answered(&s, 1) && answered(&s, 3) && !answered(&s, 2));
    said(&mut s, id, 1, LookupResult::Addresses(vec![v4(1)], ms(60_000)));
    assert!(answered(&s, 2));
}

#[test]
fn a_question_that_one_server_has_denied_ends_when_the_program_gives_up_on_the_other() {
    let mut s = two_servers();
    for server in 0..2 {
        let ask = Ask { app: "node".into(), name: "of.example".into(), record: V4.into(), server };
        s.input(Input::Ask(RequestId(server.into()), ask));
    }
    let id = last_query(&s, V4);
    said(&mut s, id, 0, LookupResult::NoData(ms(60_000)));
    s.pass(6000);
    let is_open =
        |s: &Story| !s.outputs.iter().any(|(_, o)| matches!(o, Output::Forget(q) | Output::Late(q) if *q == id));
    assert!(is_open(&s));
    s.input(Input::Abandon(RequestId(1)));
    assert!(!is_open(&s));
}

#[test]
fn a_server_whose_answer_is_in_the_cache_and_that_has_died_since_is_not_waited_for() {
    let mut s = two_servers();
    let resolve = |want| Resolve { app: app(), name: "of.example".into(), want, port: Some(22) };
    s.input(Input::Resolve(RequestId(1), resolve(Want::Only(V4))));
    let id = last_query(&s, V4);
    s.pass(400);
    said(&mut s, id, 1, LookupResult::Addresses(vec![v4(1)], ms(60_000)));
    // The first was only slow.
    said(&mut s, id, 0, LookupResult::Addresses(vec![v4(1)], ms(60_000)));
    s.pass(10_000);
    // Without us the first would be asked for both, and answer both.
    s.input(Input::Resolve(RequestId(2), resolve(Want::Both)));
    let id = last_query(&s, Family::V6);
    said(&mut s, id, 0, LookupResult::NoData(ms(60_000)));
    s.pass(1500);
    assert!(s.outputs.iter().any(|(_, o)| matches!(o, Output::Answer(RequestId(2), _))));
}

#[test]
fn a_server_that_is_no_more_decides_nothing() {
    let mut s = two_servers();
    let resolve = |want| Resolve { app: app(), name: "of.example".into(), want, port: None };
    s.input(Input::Resolve(RequestId(1), resolve(Want::Only(Family::V6))));
    let id = last_query(&s, Family::V6);
    s.pass(400);
    said(&mut s, id, 1, LookupResult::Addresses(vec![v6(1)], ms(60_000)));
    s.servers = 1;
    s.input(Input::Servers(1));
    s.input(Input::Resolve(RequestId(2), resolve(Want::Both)));
    let id = last_query(&s, V4);
    let before = s.outputs.len();
    for _ in 0..10 {
        said(&mut s, id, 0, LookupResult::Refused);
    }
    let queries = s.outputs[before..].iter().filter(|(_, o)| matches!(o, Output::Query { .. })).count();
    assert!(queries <= 2, "{queries}");
}

#[test]
fn beside_addresses_of_another_server_in_the_cache_a_refusal_is_not_the_last_word() {
    let addresses = |list: &[IpAddr]| LookupResult::Addresses(list.to_vec(), ms(60_000));
    let resolve = |want| Resolve { app: app(), name: "of.example".into(), want, port: None };
    // Which server gave the cached address, and whether the refusal of the first then ends the lookup.
    for (server, ends) in [(0, true), (1, false)] {
        let mut s = two_servers();
        s.input(Input::Resolve(RequestId(1), resolve(Want::Only(Family::V6))));
        let id = last_query(&s, Family::V6);
        if server == 1 {
            s.pass(400);
        }
        said(&mut s, id, server, addresses(&[v6(1)]));
        s.input(Input::Resolve(RequestId(2), resolve(Want::Both)));
        let id = last_query(&s, V4);
        said(&mut s, id, 0, LookupResult::Refused);
        let answer = |(_, o): &(u64, Output)| match o {
            Output::Answer(RequestId(2), resolved) => Some(resolved.clone()),
            _ => None,
        };
        let alone = Resolved::Addresses(vec![v6(1)]);
        assert_eq!(s.outputs.iter().find_map(answer), ends.then_some(alone), "{server}");
    }
}

#[test]
fn what_holds_only_because_nothing_better_came_is_asked_for_again() {
    let held = Duration::from_secs(60);
    let mut s = dead_first().dns("none.example", V4, Dns::Says(10, LookupResult::NxDomain(held)));
    assert_eq!(s.resolve("wget", "none.example", Want::Only(V4), None), Resolved::NxDomain);
    assert_eq!(s.now, Instant::from_millis(5000), "the first is silent");
    let before = s.connector.tally().queries;
    assert_eq!(s.resolve("wget", "none.example", Want::Only(V4), None), Resolved::NxDomain);
    let after = s.connector.tally().queries;
    assert!(after > before);
    assert_eq!(s.resolve("wget", "none.example", Want::Only(V4), None), Resolved::NxDomain);
    assert_eq!(s.connector.tally().queries, after, "the second was the first to be asked");
}

#[test]
fn every_query_is_counted_and_told_with_those_before_it() {
    use crate::connect::timeline::Event;
    let mut s = dead_first();
    look_up(&mut s, "1.example");
    s.pass(1000);
    look_up(&mut s, "2.example");
    let queries = s.outputs.iter().filter(|(_, o)| matches!(o, Output::Query { .. })).count();
    assert_eq!(s.connector.tally().queries, queries as u64, "with that which a silent server is asked");
    let race = s.connector.explain(s.now, "1.example").and_then(|known| known.race).expect("a race");
    let before = race.events.iter().filter_map(|told| match told.event {
        Event::Query { before, .. } => Some(before),
        _ => None,
    });
    assert_eq!(before.collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn lookups_are_swallowed_where_two_are_given_up_however_soon_that_is() {
    let mut s = Story::of("adaptive");
    s.input(Input::Patience(Patience { timeout: Duration::from_secs(1), attempts: 1 }));
    for (name, is_swallowed) in [("1.example", false), ("2.example", true)] {
        assert_eq!(s.resolve("wget", name, Want::Only(V4), None), Resolved::Unanswered);
        assert_eq!(s.connector.path().current().family(V4).is_unanswered(), is_swallowed);
    }
    assert_eq!(s.now, Instant::from_millis(2000));
}

fn asks_of_both(s: &mut Story) -> QueryId {
    for server in 0..2 {
        let ask = Ask { app: "node".into(), name: "of.example".into(), record: V4.into(), server };
        s.input(Input::Ask(RequestId(server.into()), ask));
    }
    last_query(s, V4)
}

#[test]
fn the_denial_that_a_program_took_from_one_of_its_servers_is_what_it_would_take_again() {
    let addresses = || LookupResult::Addresses(vec![v4(1)], ms(60_000));
    for (no, is_kept) in [(LookupResult::Refused, true), (LookupResult::NoData(ms(60_000)), false)] {
        let mut s = two_servers();
        let id = asks_of_both(&mut s);
        said(&mut s, id, 0, no.clone());
        said(&mut s, id, 1, addresses());
        s.pass(2000);
        let ask = Ask { app: "node".into(), name: "of.example".into(), record: V4.into(), server: 0 };
        s.input(Input::Ask(RequestId(9), ask));
        assert_eq!(last_query(&s, V4) == id, is_kept, "{no:?}");
    }
}

fn answer_to(s: &Story, request: u64) -> Option<Resolved> {
    s.outputs.iter().find_map(|(_, o)| match o {
        Output::Answer(RequestId(n), resolved) if *n == request => Some(resolved.clone()),
        _ => None,
    })
}

#[test]
fn the_server_of_an_answer_that_holds_no_more_decides_nothing() {
    let resolve = |want| Resolve { app: app(), name: "of.example".into(), want, port: None };
    for (later, end) in [(10_000, None), (70_000, Some(Resolved::NoData))] {
        let mut s = two_servers();
        s.input(Input::Resolve(RequestId(1), resolve(Want::Only(Family::V6))));
        let id = last_query(&s, Family::V6);
        s.pass(400);
        // The first was only slow.
        for server in [1, 0] {
            said(&mut s, id, server, LookupResult::Addresses(vec![v6(1)], ms(60_000)));
        }
        s.pass(later);
        s.input(Input::Resolve(RequestId(2), resolve(Want::Only(V4))));
        let id = last_query(&s, V4);
        said(&mut s, id, 0, LookupResult::NoData(ms(60_000)));
        assert_eq!(answer_to(&s, 2), end);
    }
}

#[test]
fn beside_a_denial_in_the_cache_a_refusal_is_not_the_last_word() {
    let mut s = two_servers();
    let resolve = |want| Resolve { app: app(), name: "of.example".into(), want, port: None };
    s.input(Input::Resolve(RequestId(1), resolve(Want::Only(Family::V6))));
    let id = last_query(&s, Family::V6);
    said(&mut s, id, 0, LookupResult::NoData(ms(60_000)));
    assert_eq!(answer_to(&s, 1), Some(Resolved::NoData));
    s.input(Input::Resolve(RequestId(2), resolve(Want::Only(V4))));
    let id = last_query(&s, V4);
    said(&mut s, id, 0, LookupResult::Refused);
    assert_eq!(answer_to(&s, 2), None);
    said(&mut s, id, 1, LookupResult::Addresses(vec![v4(1)], ms(60_000)));
    assert_eq!(answer_to(&s, 2), Some(Resolved::Addresses(vec![v4(1)])));
}
