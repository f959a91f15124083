//! Two servers of which one has nothing to say: whose word holds, and who is asked instead.

use super::*;
use Family::{V4, V6};

const NAME: &str = "of.example";

fn servers(count: u32) -> Story {
    let mut s = Story::of("adaptive");
    s.servers = count;
    s.input(Input::Servers(count));
    s
}

/// A program asks for both families, under request id `n`; the queries for A and AAAA.
fn resolve(s: &mut Story, n: u64, name: &str) -> [QueryId; 2] {
    resolve_for(s, n, "curl", name)
}

fn resolve_for(s: &mut Story, n: u64, app: &str, name: &str) -> [QueryId; 2] {
    let resolve = Resolve { app: app.into(), name: name.into(), want: Want::Both, port: None };
    s.input(Input::Resolve(RequestId(n), resolve));
    [V4, V6].map(|family| *queries(s, name, family).last().map(|(id, _)| id).expect("it is asked for"))
}

/// The queries for `family` of `name`, and the servers that they went to.
fn queries(s: &Story, name: &str, family: Family) -> Vec<(QueryId, u32)> {
    let query = |(_, o): &(u64, Output)| match o {
        Output::Query { id, name: of, record, server } if **of == *name && *record == family.into() => {
            Some((*id, server % s.servers))
        }
        _ => None,
    };
    s.outputs.iter().filter_map(query).collect()
}

fn said(s: &mut Story, query: QueryId, server: u32, what: LookupResult) {
    s.input(Input::Replied(query, server));
    s.input(Input::Lookup(query, what));
}

fn has(addr: IpAddr) -> LookupResult {
    LookupResult::Addresses(vec![addr], ms(60_000))
}

fn nothing() -> LookupResult {
    LookupResult::NoData(ms(60_000))
}

/// What request `n` was told.
fn told(s: &Story, n: u64) -> Option<Resolved> {
    s.outputs.iter().find_map(|(_, o)| match o {
        Output::Answer(RequestId(of), resolved) if *of == n => Some(resolved.clone()),
        _ => None,
    })
}

fn is_over(s: &Story, query: QueryId) -> bool {
    s.outputs.iter().any(|(_, o)| matches!(o, Output::Forget(id) | Output::Late(id) if *id == query))
}

fn known(s: &mut Story, addr: IpAddr) {
    s.connector.path().current().record(Instant::ZERO, addr, crate::path::Outcome::Connected(ms(20)));
}

#[test]
fn a_denial_waits_for_every_server_that_a_program_has_asked_until_it_gives_up() {
    let mut s = servers(3);
    for server in 0..3 {
        let ask = Ask { app: "node".into(), name: NAME.into(), record: V4.into(), server };
        s.input(Input::Ask(RequestId(server.into()), ask));
    }
    let id = queries(&s, NAME, V4)[0].0;
    said(&mut s, id, 0, nothing());
    s.pass(6000);
    s.input(Input::Abandon(RequestId(1)));
    assert!(!is_over(&s, id), "the third is still waited for");
    s.input(Input::Abandon(RequestId(2)));
    assert!(is_over(&s, id));
}

#[test]
fn beside_an_address_that_will_do_any_denial_does() {
    for is_known in [true, false] {
        let mut s = servers(2);
        known(&mut s, v4(2));
        if is_known {
            known(&mut s, v4(1));
        }
        let [a, aaaa] = resolve(&mut s, 1, NAME);
        let [of_another, _] = resolve(&mut s, 2, "another.example");
        said(&mut s, a, 0, has(v4(1)));
        said(&mut s, of_another, 0, has(v4(2)));
        s.pass(400);
        said(&mut s, aaaa, 1, nothing());
        assert_eq!(is_over(&s, aaaa), is_known, "that another name's will do says nothing");
    }
}

#[test]
fn whoever_has_addresses_of_one_family_is_asked_for_the_other_that_was_denied_before() {
    let mut s = servers(2);
    let [a, aaaa] = resolve(&mut s, 1, NAME);
    said(&mut s, aaaa, 0, nothing());
    said(&mut s, a, 0, LookupResult::Refused);
    said(&mut s, a, 1, has(v4(1)));
    assert_eq!(queries(&s, NAME, V6), [(aaaa, 0), (aaaa, 1)]);
    assert_eq!(told(&s, 1), None);
    said(&mut s, aaaa, 1, has(v6(1)));
    assert_eq!(told(&s, 1), Some(Resolved::Addresses(vec![v6(1), v4(1)])));
    let race = s.connector.explain(s.now, NAME).and_then(|e| e.race).unwrap();
    let before = race.events.iter().filter_map(|e| match &e.event {
        timeline::Event::Query { record, before } if record == "AAAA" => Some(*before),
        _ => None,
    });
    assert_eq!(before.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn where_every_server_refuses_each_is_asked_twice_and_one_more_that_was_asked_beside() {
    for (wait, asked) in [(0, 4), (400, 5)] {
        let mut s = servers(2);
        let resolve = Resolve { app: app(), name: NAME.into(), want: Want::Only(V4), port: None };
        s.input(Input::Resolve(RequestId(1), resolve));
        s.pass(wait);
        let mut answered = 0;
        while let Some((id, server)) = queries(&s, NAME, V4).get(answered).copied() {
            answered += 1;
            said(&mut s, id, server, LookupResult::Refused);
        }
        assert_eq!((answered, told(&s, 1)), (asked, Some(Resolved::Unanswered)), "after {wait} ms");
    }
}

#[test]
fn where_every_server_refuses_both_families_nobody_waits() {
    let refused = || Dns::Says(5, LookupResult::Refused);
    let mut s = servers(2).dns(NAME, V4, refused()).dns(NAME, V6, refused());
    assert_eq!(s.resolve("curl", NAME, Want::Both, None), Resolved::Unanswered);
    assert_eq!(s.now, Instant::from_millis(4 * 5));
}

#[test]
fn a_family_is_waited_for_longer_where_the_server_has_answered_for_the_other() {
    let none = Dns::Says(20, nothing());
    let mut s = Story::of("adaptive").dns(NAME, V4, Dns::Silent).dns(NAME, V6, none);
    assert_eq!(s.resolve("curl", NAME, Want::Both, None), Resolved::NoData);
    assert_eq!(s.now, Instant::from_millis(15_000), "the C library asks again");
}

#[test]
fn what_a_server_refused_at_first_is_left_out_where_it_has_the_other_family_at_once() {
    let mut s = servers(2);
    let [a, aaaa] = resolve(&mut s, 1, NAME);
    let [of_another, aaaa_of_another] = resolve(&mut s, 2, "another.example");
    let [of_wget, aaaa_of_wget] = resolve_for(&mut s, 3, "wget", NAME);
    said(&mut s, aaaa_of_another, 0, has(v6(2)));
    said(&mut s, aaaa_of_wget, 0, has(v6(1)));
    said(&mut s, aaaa, 0, LookupResult::Refused);
    said(&mut s, aaaa, 1, has(v6(1)));
    said(&mut s, a, 0, has(v4(1)));
    assert_eq!(told(&s, 1), Some(Resolved::Addresses(vec![v4(1)])), "as the C library has it");
    said(&mut s, of_another, 0, has(v4(2)));
    assert_eq!(told(&s, 2), Some(Resolved::Addresses(vec![v6(2), v4(2)])), "another name");
    said(&mut s, of_wget, 0, has(v4(1)));
    assert_eq!(told(&s, 3), Some(Resolved::Addresses(vec![v6(1), v4(1)])), "another program");
}

#[test]
fn and_kept_where_it_has_refused_that_too() {
    let mut s = servers(2);
    let [a, aaaa] = resolve(&mut s, 1, NAME);
    said(&mut s, a, 0, LookupResult::Refused);
    said(&mut s, aaaa, 0, LookupResult::Refused);
    said(&mut s, aaaa, 1, has(v6(1)));
    s.pass(1100);
    assert_eq!(told(&s, 1), None);
    said(&mut s, a, 0, has(v4(1)));
    assert_eq!(told(&s, 1), Some(Resolved::Addresses(vec![v6(1), v4(1)])));
}

#[test]
fn a_refusal_holds_where_the_same_server_has_the_other_family_at_once_and_only_then() {
    for at_once in [true, false] {
        let mut s = servers(2);
        let [a, aaaa] = resolve(&mut s, 1, NAME);
        if !at_once {
            said(&mut s, a, 0, LookupResult::Refused);
        }
        said(&mut s, aaaa, 0, LookupResult::Refused);
        if !at_once {
            s.pass(1100);
        }
        said(&mut s, a, 0, has(v4(1)));
        assert_eq!(told(&s, 1), at_once.then(|| Resolved::Addresses(vec![v4(1)])), "{at_once}");
    }
}

#[test]
fn a_server_that_denies_ipv4_is_waited_for_over_ipv6_and_not_the_other_way_round() {
    // That it has no IPv6 addresses does not make its refusal of IPv4 hold.
    let mut s = servers(2);
    let [a, aaaa] = resolve(&mut s, 1, NAME);
    said(&mut s, a, 0, LookupResult::Refused);
    said(&mut s, aaaa, 0, nothing());
    assert_eq!(told(&s, 1), None);
    said(&mut s, a, 1, has(v4(1)));
    let (again, server) = *queries(&s, NAME, V6).last().unwrap();
    assert_eq!((server, told(&s, 1)), (1, None), "one server has to say both");
    said(&mut s, again, 1, nothing());
    assert_eq!(told(&s, 1), Some(Resolved::Addresses(vec![v4(1)])));
    // That it has no IPv4 addresses makes it the one that is asked for IPv6.
    let mut s = servers(2);
    let [a, aaaa] = resolve(&mut s, 1, NAME);
    said(&mut s, a, 0, nothing());
    s.pass(400);
    said(&mut s, aaaa, 1, nothing());
    s.pass(6000);
    assert!(!is_over(&s, aaaa), "the first is waited for");
    said(&mut s, aaaa, 0, has(v6(1)));
    assert_eq!(told(&s, 1), Some(Resolved::Addresses(vec![v6(1)])));
}

#[test]
fn a_family_that_another_server_has_denied_is_asked_for_again_where_the_other_is_found() {
    let mut s = servers(2);
    let [a, aaaa] = resolve(&mut s, 1, NAME);
    let [of_another, aaaa_of_another] = resolve(&mut s, 2, "another.example");
    let [of_wget, aaaa_of_wget] = resolve_for(&mut s, 3, "wget", NAME);
    s.pass(400);
    said(&mut s, aaaa, 1, nothing());
    said(&mut s, aaaa_of_another, 0, nothing());
    said(&mut s, aaaa_of_wget, 0, nothing());
    s.pass(4700);
    assert!(is_over(&s, aaaa) && is_over(&s, aaaa_of_another), "the first has had its five seconds");
    said(&mut s, a, 0, has(v4(1)));
    assert_eq!(told(&s, 1), None);
    let (again, server) = *queries(&s, NAME, V6).last().unwrap();
    assert!(![aaaa, aaaa_of_wget].contains(&again) && server == 0);
    said(&mut s, of_another, 0, has(v4(2)));
    assert_eq!(told(&s, 2), Some(Resolved::Addresses(vec![v4(2)])), "one server has said both");
    said(&mut s, of_wget, 0, has(v4(1)));
    assert_eq!(told(&s, 3), Some(Resolved::Addresses(vec![v4(1)])), "and to another program");
    said(&mut s, again, 0, has(v6(1)));
    assert_eq!(told(&s, 1), Some(Resolved::Addresses(vec![v6(1), v4(1)])));
}

#[test]
fn and_not_where_the_other_is_refused() {
    let mut s = servers(2);
    let [a, aaaa] = resolve(&mut s, 1, NAME);
    s.pass(400);
    said(&mut s, aaaa, 1, nothing());
    s.pass(4700);
    assert!(is_over(&s, aaaa));
    let refusals = queries(&s, NAME, V4).len();
    (0..refusals).for_each(|n| said(&mut s, a, ((refusals - 1 - n) % 2) as u32, LookupResult::Refused));
    assert_eq!(told(&s, 1), Some(Resolved::NoData));
}
