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
