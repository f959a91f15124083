//! Of DNS servers that deny, refuse, are late, and contradict each other.

use super::*;

#[test]
fn a_second_server_does_not_deny_what_the_first_is_slow_to_say() {
    // The servers of two networks: the second does not know the names of the first's (split horizon).
    let of_here = server(says(1200), says(1200));
    let no = Some(Record { after: 1, says: Says::NxDomain, lost: 0, failed: 0 });
    keeps_only(&[Law::Reaches, Law::InTime], &World { servers: vec![of_here, server(no, no)], ..world() });
}

#[test]
fn a_second_server_does_not_refuse_what_the_first_is_slow_to_say() {
    let second = Server { https: None, ..server(None, no(Says::Fails)) };
    let refuses = World { v4: vec![Fate::Refuses(1)], ..two(server(says(1), says(409)), second) };
    keeps_only(&[Law::Reaches, Law::InTime], &refuses);
}

#[test]
fn the_server_that_has_one_family_is_asked_for_the_other_that_was_denied() {
    // The C library takes both from one server: it drops what the first denies as soon as the first owes it the rest.
    let world = two(server(None, no(Says::NoData)), server(says(1), says(1)));
    keeps_only(&[Law::Reaches], &World { v4: vec![Fate::Refuses(1)], ..world.clone() });
    keeps_only(&[Law::Reaches], &World { routes: (false, true), ..world });
}

#[test]
fn a_program_that_was_refused_one_family_is_not_told_that_the_other_is_not_waited_for() {
    // It does not have the addresses that came after the refusal.
    for failed in 1..5 {
        let a = Some(Record { failed, ..says(1).unwrap() });
        for front in [Front::Preload, Front::Both, Front::Filter] {
            keeps_only(&[Law::Reaches], &World { front, servers: vec![server(a, None)], ..world() });
        }
    }
}

#[test]
fn a_server_that_answers_one_question_is_not_silent() {
    let world = two(server(says(1), None), server(no(Says::NoData), says(1)));
    keeps_only(&[Law::Reaches], &World { v6: vec![Fate::Refuses(1)], visits: 2, pause: 60_000, ..world });
}

#[test]
fn two_servers_that_deny_a_family_each_are_not_believed_of_both() {
    for front in [Front::Preload, Front::Both] {
        let servers = vec![server(None, no(Says::NoData)), server(no(Says::NoData), says(1))];
        keeps_only(&[Law::Reaches], &World { front, servers, ..world() });
    }
}

#[test]
fn a_denial_is_not_told_while_the_other_family_may_make_another_server_decide() {
    let servers = vec![server(None, no(Says::NoData)), server(says(1), says(1))];
    let world = World { front: Front::Filter, servers, v4: vec![Fate::Refuses(1)], ..world() };
    keeps_only(&[Law::Reaches], &world);
    keeps_only(&[Law::Reaches], &World { client: Client::Go, ..world });
}

#[test]
fn a_program_that_was_told_a_denial_over_dns_is_not_kept_from_the_other_family() {
    let servers = vec![server(no(Says::NoData), None), server(says(1), says(83))];
    keeps_only(&[Law::Reaches], &World { client: Client::Musl, front: Front::Filter, servers, ..world() });
}

const BOTH: &[Law] = &[Law::Reaches, Law::InTime];

#[test]
fn a_program_that_asks_over_dns_hears_a_refusal_when_it_would() {
    // Each resolver makes something else of it: musl asks again, the C library leaves the family out, Go asks the next server.
    let one = || server(after_refusing(1, 1), None);
    keeps_only(BOTH, &World { v6: vec![Fate::Alive(201)], ..asks(Client::Musl, vec![one(), server(None, says(1))]) });
    let musl = asks(Client::Musl, vec![server(None, after_refusing(1, 1)), server(None, None)]);
    keeps_only(BOTH, &World { families: (false, true), ..musl });
    let lost = Some(Record { lost: 1, ..no(Says::Fails).unwrap() });
    let java = asks(Client::Java, vec![server(after_refusing(1, 1), lost)]);
    keeps_only(BOTH, &World { v4: vec![Fate::Loses(1, 1)], ..java });
    let go = asks(Client::Go, vec![server(no(Says::NoData), no(Says::Fails)), server(None, says(1))]);
    keeps_only(BOTH, &World { v6: vec![Fate::Alive(201)], ..go });
    keeps_only(
        BOTH,
        &World { families: (false, true), ..asks(Client::Blocking, vec![server(says(1), after_refusing(1, 1))]) },
    );
}

#[test]
fn a_question_after_a_refusal_is_another_one() {
    let denies = |after| Some(Record { after, ..no(Says::NoData).unwrap() });
    let servers = vec![server(None, after_refusing(1, 1)), server(denies(1), denies(3))];
    keeps_only(BOTH, &asks(Client::Musl, servers));
}

#[test]
fn who_refuses_one_family_and_owes_the_other_is_asked_once_more() {
    let servers = vec![server(after_refusing(1, 1), None), server(no(Says::NoData), None)];
    keeps_only(&[Law::Reaches], &World { servers, ..world() });
}

#[test]
fn the_server_that_has_answered_a_is_asked_for_aaaa() {
    let lost = Some(Record { lost: 2, ..says(1).unwrap() });
    let servers = vec![server(no(Says::NoData), lost), server(no(Says::NoData), no(Says::NoData))];
    keeps_only(&[Law::Reaches], &World { servers, ..world() });
}

#[test]
fn a_refusal_that_was_followed_by_another_question_is_no_last_word() {
    let none = Record { failed: 1, ..no(Says::NoData).unwrap() };
    let both = vec![server(Some(none), after_refusing(1, 2))];
    keeps_only(&[Law::Reaches], &World { servers: both.clone(), routes: (false, true), ..world() });
    keeps_only(&[Law::Reaches], &asks(Client::Node, both));
    // The second server answers for both; the first has not been heard on one of them.
    let servers = vec![server(after_refusing(1, 1), None), server(no(Says::NoData), says(1))];
    keeps_only(&[Law::Reaches], &World { servers, v6: vec![Fate::Refuses(1)], ..world() });
}

#[test]
fn a_denial_that_comes_late_is_heard_when_its_server_has_its_second_turn() {
    let first = server(Some(Record { lost: 2, ..says(1001).unwrap() }), no(Says::NoData));
    let second = server(Some(Record { after: 5001, ..no(Says::NoData).unwrap() }), None);
    keeps_only(&[Law::Reaches], &two(first, second));
}

#[test]
fn two_answers_of_two_servers_are_no_answer() {
    let first = || server(None, no(Says::NoData));
    let second = server(no(Says::NoData), says(1));
    let twice = World { visits: 2, pause: 60_000, ..asks(Client::Blocking, vec![first(), second]) };
    keeps_only(&[Law::Reaches], &twice);
    let third = server(says(1), Some(Record { lost: 1, ..says(1).unwrap() }));
    let servers = vec![first(), server(None, None), third];
    let late = World { v4: vec![Fate::Refuses(198)], v6: vec![Fate::Loses(1, 1)], ..asks(Client::Blocking, servers) };
    keeps_only(&[Law::Reaches], &late);
    let refuses = vec![server(after_refusing(1, 1), no(Says::Fails)), server(says(1), says(1))];
    let both = asks(Client::Java, refuses);
    keeps_only(BOTH, &World { v4: vec![Fate::Unreachable(0)], visits: 2, pause: 60_000, ..both });
}

#[test]
fn what_was_refused_at_first_is_left_out_as_the_c_library_does() {
    let first = server(says(60), after_refusing(1, 1));
    for client in [Client::Blocking, Client::Chromium] {
        let world = World { client, v6: vec![Fate::Alive(120)], servers: vec![first], ..world() };
        keeps_only(BOTH, &world);
    }
    let node = World { client: Client::Node, v4: vec![Fate::Alive(251)], v6: vec![Fate::Refuses(1); 2], ..world() };
    keeps_only(BOTH, &World { servers: vec![first], ..node });
}

#[test]
fn addresses_of_a_family_without_a_route_do_not_speak_for_the_other() {
    let first = server(says(1), after_refusing(1, 1));
    let world = World {
        families: (false, true),
        routes: (false, true),
        servers: vec![first, server(says(1), says(1))],
        ..world()
    };
    keeps_only(BOTH, &World { v6: vec![Fate::Loses(1, 1)], ..world });
}

#[test]
fn a_denial_that_came_first_comes_first_again_where_all_servers_are_asked() {
    let world = World { v6: vec![Fate::Alive(53)], visits: 2, ..world() };
    let late = |servers| World { client: Client::Musl, front: Front::Filter, servers, ..world.clone() };
    keeps_only(BOTH, &late(vec![server(says(1), says(23)), server(None, no(Says::NoData))]));
    keeps_only(BOTH, &late(vec![server(None, no(Says::NoData)), server(says(1), says(1))]));
}

#[test]
fn a_server_that_has_refused_both_families_is_not_asked_again_while_another_has_said_nothing() {
    let refuses = server(Some(Record { after: 60, ..no(Says::Fails).unwrap() }), after_refusing(1, 1));
    let slow = server(says(1001), None);
    let world = World { v6: vec![Fate::Refuses(1)], ..asks(Client::Chromium, vec![refuses, slow]) };
    keeps_only(&[Law::Reaches], &world);
    // It has denied by then what the other has.
    let refuses_twice = server(Some(Record { failed: 2, ..no(Says::NoData).unwrap() }), None);
    let one = World { families: (true, false), servers: vec![refuses_twice, server(says(4000), None)], ..world };
    keeps_only(&[Law::Reaches], &World { front: Front::Preload, client: Client::Node, ..one });
}

#[test]
fn the_server_that_has_answered_one_family_is_asked_again_for_the_other() {
    let lost = Some(Record { lost: 2, ..says(1).unwrap() });
    let dead = Server { a: None, aaaa: None, https: None };
    let world = World { servers: vec![server(lost, says(1)), dead, dead], routes: (true, false), ..world() };
    keeps_only(&[Law::Reaches], &world);
}

#[test]
fn a_refusal_is_not_told_where_the_other_family_was_answered_late() {
    // The C library asks for both again, since the first answer was lost.
    let lost = Some(Record { lost: 1, ..says(1).unwrap() });
    let world = asks(Client::Blocking, vec![server(lost, after_refusing(1, 1002))]);
    keeps_only(&[Law::Reaches], &World { v4: vec![Fate::Refuses(1)], ..world });
}

#[test]
fn what_a_third_server_has_said_is_kept_where_the_first_two_contradict_each_other() {
    let at_last = Some(Record { failed: 1, ..says(1).unwrap() });
    let servers = vec![server(at_last, says(754)), server(None, no(Says::NoData)), server(no(Says::NoData), says(1))];
    let world = World { client: Client::Chromium, v4: vec![Fate::Refuses(1)], v6: vec![Fate::Alive(199)], ..world() };
    keeps_only(&[Law::Reaches], &World { servers, ..world });
}

#[test]
fn a_program_that_asks_a_slow_server_is_not_told_the_refusal_of_another() {
    let servers = vec![server(no(Says::Fails), says(1)), server(says(400), None)];
    keeps_only(&[Law::Reaches], &World { v6: vec![Fate::Refuses(1)], ..asks(Client::Go, servers) });
}

#[test]
fn no_server_is_left_out_for_good_because_another_has_answered_the_other_family() {
    let only = |a, aaaa| Server { a, aaaa, https: None };
    let servers = vec![only(after_refusing(1, 1), None), only(None, says(1)), only(None, None)];
    keeps_only(&[Law::Reaches], &World { v6: vec![Fate::Refuses(1)], servers, ..world() });
}

#[test]
fn who_connects_only_because_a_question_was_lost_connects_by_luck() {
    let lost = Some(Record { lost: 1, ..says(1).unwrap() });
    let servers = vec![server(after_refusing(1, 138), lost)];
    let world = World { front: Front::Filter, servers, v6: vec![Fate::Refuses(1)], ..world() };
    assert!(play(&Rc::new(world.clone()), None).visits[0].0.is_some());
    let reached: Vec<_> = luck(&world).map(|bare| bare.visits[0].0.is_some()).collect();
    assert_eq!(reached, [false, true, true, false], "AAAA lost once less or more, A refused once less or more");
}

#[test]
fn what_is_asked_for_to_be_translated_decides_nothing_for_a_program_of_ipv6_alone() {
    let servers = vec![server(no(Says::NoData), after_refusing(1, 1)), server(says(1), says(1))];
    let world = World { families: (false, true), routes: (false, true), servers, ..world() };
    keeps_only(&[Law::Reaches], &world);
}
