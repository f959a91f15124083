//! Which job a connect belongs to, what it is given at once, and what is begun for it.

use super::*;
use Family::{V4, V6};
use std::net::SocketAddr;

const SITE: &str = "www.example";

/// A name with these addresses, each of which is told after 10 ms.
fn name(s: Story, name: &str, addresses: &[IpAddr]) -> Story {
    let of = |family| addresses.iter().filter(|a| Family::of(**a) == family).copied().collect::<Vec<_>>();
    s.dns(name, V4, says(10, &of(V4))).dns(name, V6, says(10, &of(V6)))
}

fn claim(app: &str, to: IpAddr, port: u16, domain: Family) -> Claim {
    let (app, to) = (app.into(), (to, port).into());
    Claim { app, to, domain, nonblocking: false, accepts_mapped: domain == V6, rescuable: None }
}

/// A connect of the account `account`, not waited for.
fn go(s: &mut Story, account: u32, claim: Claim) -> RequestId {
    s.next += 1;
    let request = RequestId(u64::from(account) << 32 | s.next);
    s.claimed.insert(request, claim.to.ip());
    s.input(Input::Claim(request, claim));
    request
}

/// The attempt that a request was given, if it is connected.
fn given(s: &Story, request: RequestId) -> Option<AttemptId> {
    s.outputs.iter().find_map(|(_, o)| match o {
        Output::HandOver { request: r, attempt, connected: true } if *r == request => Some(*attempt),
        _ => None,
    })
}

/// Where attempts went, and by sockets of which family.
fn sockets(s: &Story) -> Vec<(SocketAddr, Family)> {
    let socket = |(_, o): &(u64, Output)| match o {
        Output::Connect { to, domain, .. } => Some((*to, *domain)),
        _ => None,
    };
    s.outputs.iter().filter_map(socket).collect()
}

/// The connection that was opened for `curl`, which has not come yet.
fn opened() -> Story {
    let mut s = Story::of("adaptive").site(SITE, 1, (10, 10), (40, 40)).site("other.example", 2, (10, 10), (40, 40));
    s.visit("wget", SITE);
    s.visit("curl", "other.example");
    s.pass(5000);
    s.outputs.clear();
    s.resolve("curl", SITE, Want::Both, Some(443));
    s.pass(100);
    assert_eq!(s.begun().len(), 1);
    s
}

#[test]
fn a_connection_that_is_open_is_for_its_program_its_run_its_port_and_its_name_alone() {
    for (account, claim, what) in [
        (0, claim("wget", v6(1), 443, V6), "another program"),
        (7, claim("curl", v6(1), 443, V6), "another run"),
        (0, claim("curl", v6(1), 80, V6), "another port"),
        (0, claim("curl", v6(2), 443, V6), "another name"),
    ] {
        let mut s = opened();
        let to = claim.to;
        let request = go(&mut s, account, claim);
        assert_eq!(sockets(&s).get(1), Some(&(to, V6)), "{what} has one of its own");
        s.pass(40);
        assert!(given(&s, request).is_some());
        let request = go(&mut s, 0, self::claim("curl", v6(1), 443, V6));
        assert!(given(&s, request).is_some(), "it was kept from {what}");
        assert_eq!(s.begun().len(), 2);
    }
}

#[test]
fn two_that_connect_at_once_get_a_connection_each() {
    let mut s = Story::of("adaptive").site(SITE, 1, (10, 10), (40, 40));
    s.resolve("curl", SITE, Want::Both, None);
    let requests = [0; 2].map(|_| go(&mut s, 0, claim("curl", v6(1), 443, V6)));
    s.pass(40);
    let [one, two] = requests.map(|request| given(&s, request).expect("it is connected"));
    assert_ne!(one, two);
}

#[test]
fn of_two_that_are_under_way_the_one_that_is_open_is_given() {
    let mut s = Story::of("adaptive").site(SITE, 1, (10, 10), (40, 40));
    s.resolve("curl", SITE, Want::Both, Some(443));
    s.pass(30);
    s.resolve("curl", SITE, Want::Both, Some(443));
    s.pass(15);
    assert_eq!(s.begun().len(), 2);
    let request = go(&mut s, 0, claim("curl", v6(1), 443, V6));
    assert!(given(&s, request).is_some(), "at once");
}

#[test]
fn what_was_left_to_a_program_that_does_not_wait_is_not_given_to_one_that_does() {
    let mut s = Story::of("adaptive").site(SITE, 1, (10, 10), (40, 40)).host(v6(1), Host::Silent);
    s.rescuable = true;
    s.resolve("curl", SITE, Want::Both, None);
    assert!(matches!(s.connect("curl", v6(1), true), Output::Begin { .. }));
    let request = go(&mut s, 0, claim("curl", v4(1), 443, V4));
    assert_eq!(sockets(&s), [(SocketAddr::new(v4(1), 443), V4)]);
    s.pass(40);
    assert!(given(&s, request).is_some());
}

#[test]
fn a_connection_that_its_server_has_most_likely_closed_by_now_is_not_given() {
    let settings = Settings { explore: 0.0, ahead: Ahead::ON, ..Settings::of(race::find("adaptive").unwrap()) };
    let mut s = Story::with(settings).site(SITE, 1, (10, 10), (40, 40));
    for _ in 0..2 {
        s.launch("mail");
        s.visit("mail", SITE);
        s.pass(30_000);
    }
    s.launch("mail");
    s.pass(1000);
    let spare = s.outputs.iter().rev().find_map(|(_, o)| if let Output::Watch(id) = o { Some(*id) } else { None });
    s.input(Input::Spoilt(spare.expect("one is open"), Spoilt::Closed, ms(0)));
    for (waits, at_once) in [(80, true), (500, false)] {
        s.pass(5000);
        s.resolve("mail", SITE, Want::Both, Some(443));
        s.pass(waits);
        let account = s.account;
        let request = go(&mut s, account, claim("mail", v6(1), 443, V6));
        assert_eq!(given(&s, request).is_some(), at_once, "it bears a second of silence, and has borne {waits} ms");
        s.pass(100);
    }
}

#[test]
fn a_call_that_is_left_to_its_program_leaves_nothing_to_do() {
    let mut s = Story::of("adaptive").site(SITE, 1, (10, 10), (40, 40));
    s.visit("curl", SITE);
    s.pass(5000);
    assert_eq!(passed(&s.connect("curl", v6(1), true)), Some(Pass::NothingReady));
    assert_eq!(s.connector.open_jobs(), 0);
}

#[test]
fn the_address_that_a_program_tries_again_is_tried_again() {
    let mut s = name(Story::of("adaptive"), SITE, &[v4(1), v4(2)]);
    s = s.host(v4(1), Host::Refuses(20)).host(v4(2), Host::Refuses(20));
    s.resolve("curl", SITE, Want::Both, None);
    assert!(matches!(s.connect("curl", v4(1), false), Output::Fail(_, 111)));
    assert!(matches!(s.connect("curl", v4(2), false), Output::Fail(_, 111)));
    assert_eq!((s.begun().len(), s.connector.tally().failed), (2, 2), "the second was known to fail");
    s = s.host(v4(1), Host::Answers(20));
    let began = s.now;
    assert!(matches!(s.connect("curl", v4(1), false), Output::HandOver { connected: true, .. }));
    assert_eq!((s.begun().len(), s.now - began), (3, ms(20)));
}

/// The first of two addresses has just refused; what a program that does not wait is told when it goes to one of them.
fn after_a_refusal(second: Host, known: bool, after: u64, to: IpAddr) -> (Story, Output) {
    let mut s = name(Story::of("adaptive"), SITE, &[v4(1), v4(2)]);
    s = s.host(v4(1), Host::Refuses(20)).host(v4(2), second);
    if known {
        let network = s.connector.path().current();
        network.record(Instant::ZERO, v4(1), crate::path::Outcome::Connected(ms(20)));
        network.record(Instant::ZERO, v4(2), crate::path::Outcome::Connected(ms(60)));
    }
    let request = s.request();
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Both, port: Some(443) };
    s.input(Input::Resolve(request, ask));
    s.pass(10 + 20 + after);
    assert_eq!(s.begun(), [(10, v4(1)), (30, v4(2))]);
    let told = s.connect("curl", to, true);
    (s, told)
}

#[test]
fn a_program_that_does_not_wait_hears_of_a_refusal_unless_another_address_will_do() {
    let (mut s, told) = after_a_refusal(Host::Silent, false, 5, v4(1));
    assert!(matches!(told, Output::Fail(_, 111)), "{told:?}");
    let told = s.connect("curl", v4(2), true);
    assert!(matches!(told, Output::HandOver { connected: false, .. }), "the next is under way: {told:?}");

    let (_, told) = after_a_refusal(Host::Silent, false, 5, v4(2));
    assert!(matches!(told, Output::HandOver { connected: false, .. }), "it is not of the one that refused: {told:?}");
    let (_, told) = after_a_refusal(Host::Answers(60), true, 5, v4(1));
    assert!(matches!(told, Output::HandOver { connected: false, .. }), "it will soon be there: {told:?}");
    let (_, told) = after_a_refusal(Host::Answers(60), false, 100, v4(1));
    assert!(matches!(told, Output::HandOver { connected: true, .. }), "it is open: {told:?}");
}

#[test]
fn a_socket_of_another_kind_takes_the_place_of_an_attempt_that_is_of_no_use() {
    let mut s = name(Story::of("adaptive"), SITE, &[v4(1), v4(2), v4(3)]);
    s.input(Input::Resolve(
        RequestId(900),
        Resolve { app: "java".into(), name: SITE.into(), want: Want::Both, port: Some(443) },
    ));
    s.pass(300);
    assert_eq!(s.begun(), [(10, v4(1)), (260, v4(2))]);
    let first = |s: &Story, to: IpAddr| {
        let attempt = |o: &Output| match o {
            Output::Connect { id, to: t, .. } if t.ip() == to => Some(*id),
            _ => None,
        };
        s.outputs.iter().find_map(|(_, o)| attempt(o)).unwrap()
    };
    let seen = s.outputs.len();
    go(&mut s, 0, claim("java", v4(2), 443, V6));
    let closed = |o: &Output| if let Output::Close(id) = o { Some(*id) } else { None };
    let closed: Vec<_> = s.outputs[seen..].iter().filter_map(|(_, o)| closed(o)).collect();
    assert_eq!(closed, [first(&s, v4(2))]);
    assert_eq!(sockets(&s)[2], (SocketAddr::new(v4(2), 443), V6));
    s.pass(300);
    assert_eq!(s.begun()[3..], [(260 + 250, v4(3))], "the next, as if it had been like that from the beginning");
}

/// What is begun at once when a program that waits goes to `to`, while the first attempt of the race is under way. `known`: round-trip
/// times of before; `failing`: what has just failed.
fn begun_for(list: &[IpAddr], known: &[(IpAddr, u64)], failing: &[IpAddr], to: IpAddr) -> Vec<IpAddr> {
    let mut s = name(Story::of("adaptive"), SITE, list);
    for (addr, rtt) in known {
        s.connector.path().current().record(Instant::ZERO, *addr, crate::path::Outcome::Connected(ms(*rtt)));
    }
    failing.iter().for_each(|addr| s.input(Input::Unreached(*addr)));
    let ask = Resolve { app: app(), name: SITE.into(), want: Want::Both, port: Some(443) };
    s.input(Input::Resolve(RequestId(900), ask));
    s.pass(15);
    assert_eq!(s.begun().len(), 1);
    go(&mut s, 0, claim("curl", to, 443, Family::of(to)));
    s.begun().iter().skip(1).map(|(_, addr)| *addr).collect()
}

#[test]
fn where_a_program_goes_itself_is_begun_unless_what_is_under_way_is_known_to_do() {
    let both = [v4(1), v6(1)];
    assert_eq!(begun_for(&both, &[], &[], v4(1)), [v4(1)], "nothing else fits its socket");
    assert_eq!(begun_for(&both, &[(v6(1), 30)], &[], v4(1)), [v4(1)], "however well it is known");
    assert_eq!(begun_for(&both, &[(v6(1), 30)], &[v4(1)], v4(1)), [v4(1)], "and whatever became of it");
    let two = [v4(1), v4(2)];
    assert_eq!(begun_for(&two, &[], &[], v4(2)), [v4(2)], "of the one under way nothing is known");
    assert_eq!(begun_for(&two, &[], &[], v4(1)), [] as [IpAddr; 0], "it is under way");
    assert_eq!(begun_for(&two, &[(v4(1), 30)], &[], v4(2)), [] as [IpAddr; 0], "it will do");
    assert_eq!(begun_for(&two, &[], &[v4(2)], v4(2)), [] as [IpAddr; 0], "it has just failed");
}

#[test]
fn a_second_connection_waits_for_the_other_family_that_is_still_looked_up() {
    let mut s = Story::of("adaptive").site(SITE, 1, (10, 3000), (40, 40));
    assert_eq!(s.resolve("curl", SITE, Want::Both, Some(443)), Resolved::Addresses(vec![v4(1)]));
    s.connect("curl", v4(1), false);
    s = s.host(v4(1), Host::Refuses(20));
    let Output::HandOver { attempt, connected: true, .. } = s.connect("curl", v4(1), false) else {
        panic!("{:?}", s.outputs)
    };
    assert_eq!((s.reached(attempt), s.now), (v6(1), Instant::from_millis(3000 + 40)));
}

/// By sockets of which family an IPv4 address that is the only one, and then one beside a silent IPv6 address, is tried for a program
/// that has made these connects.
fn tried_after(claims: &[Claim]) -> [Family; 2] {
    let mut s = Story::of("adaptive").site(SITE, 1, (10, 10), (40, 40)).site("two.example", 2, (10, 10), (40, 40));
    s = name(s, "four.example", &[v4(3)]).host(v4(3), Host::Answers(40)).host(v6(2), Host::Silent);
    for claim in claims {
        s.resolve("curl", SITE, Want::Both, None);
        go(&mut s, 0, claim.clone());
        s.pass(5000);
    }
    ["four.example", "two.example"].map(|name| {
        s.outputs.clear();
        s.resolve("curl", name, Want::Both, Some(443));
        s.pass(1000);
        let (_, domain) = *sockets(&s).iter().find(|(to, _)| to.is_ipv4()).expect("it is tried");
        domain
    })
}

#[test]
fn sockets_are_of_the_kind_that_a_program_has_been_seen_to_have() {
    let waits = |to, domain| claim("curl", to, 443, domain);
    let races = |to, domain| Claim { nonblocking: true, ..waits(to, domain) };
    assert_eq!(tried_after(&[]), [V4, V6], "what its list begins with");
    assert_eq!(tried_after(&[waits(v6(1), V6)]), [V4, V6]);
    assert_eq!(tried_after(&[waits(v4(1), V6)]), [V6, V6], "all of its sockets are of IPv6");
    assert_eq!(tried_after(&[waits(v4(1), V6), waits(v6(1), V6)]), [V6, V6]);
    assert_eq!(tried_after(&[waits(v4(1), V6), waits(v4(1), V4)]), [V4, V6], "not all of them");
    assert_eq!(tried_after(&[races(v6(1), V6)]), [V4, V4], "it goes to each family with a socket of that family");
    assert_eq!(tried_after(&[races(v4(1), V4)]), [V4, V4]);
    assert_eq!(tried_after(&[races(v6(1), V6), waits(v6(1), V6)]), [V4, V6], "it waits after all");
}

#[test]
fn a_connection_that_could_not_be_put_in_place_is_counted_as_unused() {
    for connected in [true, false] {
        let mut s = Story::of("adaptive").site(SITE, 1, (10, 10), (40, 40));
        s.resolve("curl", SITE, Want::Both, Some(443));
        s.pass(if connected { 100 } else { 10 });
        let Output::HandOver { request, .. } = s.connect("curl", v6(1), true) else { panic!("{:?}", s.outputs) };
        let counted = |s: &Story| (s.connector.tally().connections(), s.connector.tally().unused);
        let before = counted(&s);
        let reason = Pass::Unsuitable;
        s.input(Input::NotTaken { request, to: v6(1), connected, reason });
        assert_eq!(counted(&s), (before.0 - 1, before.1 + 1));
        assert_eq!(s.connector.tally().passed[&reason], 1);
    }
}
