//! Counter-examples that the law has found, made as simple as they go, as stories.

use super::headstart::PORT;
use super::judge::{Law, Run, judge, luck, play};
use super::sim::{Syn, ms};
use super::world::{Client, Fate, Front, Move, Record, Says, Server, World};
use super::{broken_by, races};
use headstart_core::connect::race;
use headstart_core::time::{Duration, Instant};
use std::rc::Rc;

/// A blocking program, the library, one server, one host a family, all a millisecond away.
fn world() -> World {
    World {
        client: Client::Blocking,
        front: Front::Preload,
        families: (true, true),
        port: false,
        servers: vec![server(says(1), says(1))],
        v4: vec![Fate::Alive(1)],
        v6: vec![Fate::Alive(1)],
        routes: (true, true),
        moves: None,
        visits: 1,
        pause: 2500,
        ahead: false,
        seed: 0,
    }
}

fn says(after: u64) -> Option<Record> {
    Some(Record { after, says: Says::Addresses, lost: 0, failed: 0 })
}

fn server(a: Option<Record>, aaaa: Option<Record>) -> Server {
    Server { a, aaaa, https: Some(Record { after: 1, says: Says::NoData, lost: 0, failed: 0 }) }
}

/// No race breaks one of `laws` in `world`, whichever program goes there by whichever front end.
fn keeps(laws: &[Law], world: &World) {
    use Client::{Blocking, Chromium, Curl, Go, Java, Musl, Node};
    for client in [Blocking, Curl, Node, Java, Chromium, Go, Musl] {
        for front in [Front::Preload, Front::Both, Front::Filter] {
            if matches!(client, Go | Musl) && front != Front::Filter {
                continue;
            }
            for port in [false, true] {
                let world = World { client, front, port, ..world.clone() };
                for race in races() {
                    let broken = broken_by(&world, race);
                    let broken: Vec<_> = broken.iter().filter(|b| laws.contains(&b.law)).collect();
                    assert!(broken.is_empty(), "{client:?} by {front:?}, port {port}, {}: {broken:?}", race.name);
                }
            }
        }
    }
}

#[test]
fn a_program_that_asks_for_one_family_is_never_led_to_the_other() {
    let refused = || vec![Fate::Refuses(1); 2];
    keeps(&[Law::Hints], &World { families: (true, false), v4: refused(), visits: 2, ..world() });
    keeps(&[Law::Hints], &World { families: (false, true), v6: refused(), visits: 2, ..world() });
    keeps(&[Law::Hints], &World { families: (false, true), v6: vec![Fate::Alive(251)], visits: 2, ..world() });
}

#[test]
fn a_program_that_begins_with_ipv4_is_not_kept_waiting_by_ipv6() {
    let v6 = vec![Fate::Alive(52)];
    let world = World { client: Client::Java, v6, ..world() };
    for (race, front) in
        races().flat_map(|race| [Front::Preload, Front::Both, Front::Filter].map(|front| (race, front)))
    {
        let broken = broken_by(&World { front, ..world.clone() }, race);
        assert!(broken.is_empty(), "{} by {front:?}: {broken:?}", race.name);
    }
}

#[test]
fn a_family_that_answers_late_is_reached_where_the_other_refuses() {
    let v4 = vec![Fate::Refuses(1)];
    keeps(&[Law::Reaches], &World { servers: vec![server(says(1), says(100))], v4: v4.clone(), visits: 2, ..world() });
    // Whoever waits in its connect is given it even then.
    for front in [Front::Preload, Front::Both, Front::Filter] {
        let late = World { servers: vec![server(says(1), says(3500))], v4: v4.clone(), front, ..world() };
        for race in races() {
            let broken = broken_by(&late, race);
            assert!(broken.iter().all(|b| b.law != Law::Reaches), "{} by {front:?}: {broken:?}", race.name);
        }
    }
}

#[test]
fn nothing_is_given_up_before_the_resolver_of_the_program_would() {
    keeps(&[Law::Reaches], &World { servers: vec![server(says(6000), says(6000))], ..world() });
    let failing = Some(Record { after: 1, says: Says::Addresses, lost: 0, failed: 1 });
    keeps(&[Law::Reaches], &World { servers: vec![server(failing, failing)], ..world() });
}

#[test]
fn addresses_that_all_refuse_are_asked_no_more_often_than_bare_and_once_each() {
    let refuse = || vec![Fate::Refuses(30); 8];
    keeps(&[Law::NoStorm], &World { v4: refuse(), v6: refuse(), visits: 2, ..world() });
}

#[test]
fn a_program_that_asks_all_servers_at_once_is_heard_by_all() {
    let world = World { client: Client::Musl, front: Front::Filter, ..world() };
    let dead = Server { a: None, aaaa: None, https: None };
    let world = World { servers: vec![dead, server(says(1), says(1))], ..world };
    for race in races() {
        assert!(broken_by(&world, race).is_empty(), "{}", race.name);
    }
}

#[test]
fn a_program_goes_no_later_where_it_would_have_gone() {
    // Java begins with IPv4; nothing is known of IPv6, which is slower.
    let java = World { client: Client::Java, port: true, v6: vec![Fate::Alive(52)], ..world() };
    // An answer comes just after the attempt to the other family, of which nothing is known, has begun.
    let just = vec![server(says(1), says(60))];
    let late = World { client: Client::Chromium, port: true, servers: just, v4: vec![Fate::Alive(400)], ..world() };
    for race in races() {
        for world in [&java, &late] {
            let broken = broken_by(world, race);
            assert!(broken.iter().all(|b| b.law != Law::InTime), "{}: {broken:?}", race.name);
        }
    }
}

/// The moments of the first SYN to each address, and how long the visit took, under `adaptive`.
fn begun(world: World) -> (Vec<Instant>, Duration) {
    let run = play(&Rc::new(world), Some(race::find(race::DEFAULT).unwrap()));
    (run.syns.iter().map(|syn| syn.at).collect(), run.visits[0].1)
}

#[test]
fn of_twenty_dead_addresses_none_is_tried_later_than_in_steps_of_250_ms() {
    let mut v6 = vec![Fate::Silent; 20];
    v6.push(Fate::Alive(30));
    let servers = vec![server(None, says(1))];
    let (begun, took) = begun(World { families: (false, true), v6, servers, ..world() });
    let late = begun.iter().zip(0..).find(|(at, k)| **at > Instant::ZERO + ms(1 + 250 * k));
    assert!(late.is_none() && begun.len() == 21, "{late:?} of {begun:?}");
    assert_eq!(took, ms(1 + 20 * 250 + 30));
}

#[test]
fn a_lost_family_is_not_waited_for_where_a_guessed_port_answers() {
    for front in [Front::Preload, Front::Both, Front::Filter] {
        let (begun, took) = begun(World { servers: vec![server(says(1), None)], front, ..world() });
        // The Resolution Delay, a handshake, and the program is given that connection.
        assert!(took <= ms(55) && begun.len() == 1, "{front:?}: {took:?}, {begun:?}");
    }
}

#[test]
fn a_family_whose_guessed_ports_are_refused_is_not_told_alone() {
    let servers = vec![server(says(1), says(3500))];
    for client in [Client::Curl, Client::Node, Client::Chromium, Client::Blocking] {
        let world = World { client, v4: vec![Fate::Refuses(1)], servers: servers.clone(), ..world() };
        keeps_only(&[Law::Reaches, Law::InTime], &world);
    }
    let ports = play(&Rc::new(World { v4: vec![Fate::Refuses(1)], servers, ..world() }), race::find("adaptive").ok());
    let guessed = ports.syns.iter().filter(|syn| syn.port != PORT).count();
    assert_eq!(guessed, 1, "{:?}", ports.syns);
}

#[test]
fn a_second_server_does_not_deny_what_the_first_is_slow_to_say() {
    // The servers of two networks: the second does not know the names of the first's (split horizon).
    let of_here = server(says(1200), says(1200));
    let no = Some(Record { after: 1, says: Says::NxDomain, lost: 0, failed: 0 });
    keeps_only(&[Law::Reaches, Law::InTime], &World { servers: vec![of_here, server(no, no)], ..world() });
}

/// One server answers both questions, the other one of them.
fn two(first: Server, second: Server) -> World {
    World { servers: vec![first, second], ..world() }
}

fn no(says: Says) -> Option<Record> {
    Some(Record { after: 1, says, lost: 0, failed: 0 })
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
fn a_silent_address_does_not_keep_a_program_from_another_that_is_open() {
    // What was opened before it was known what sockets it has cannot take the place of this one.
    let asks = |world: World| World { front: Front::Filter, ..world };
    let world = asks(two(server(says(1), None), server(says(1), says(1))));
    let (_, took) = begun(World { v4: vec![Fate::Alive(201)], v6: vec![Fate::Silent], ..world });
    assert!(took < ms(3000), "{took:?}");
}

#[test]
fn a_program_that_gives_an_address_250_ms_does_not_get_a_slow_one_in_place_of_one_that_fails() {
    for front in [Front::Preload, Front::Both, Front::Filter] {
        let world = World { client: Client::Node, front, v6: vec![Fate::Refuses(1)], visits: 2, ..world() };
        keeps_only(&[Law::Reaches], &World { v4: vec![Fate::Alive(251)], ..world.clone() });
        keeps_only(&[Law::Reaches], &World { v4: vec![Fate::Loses(1, 1)], pause: 60_000, ..world });
    }
}

#[test]
fn an_open_connection_does_not_keep_the_other_family_from_a_program() {
    for servers in [vec![server(says(20), says(1))], vec![server(says(1), says(20))]] {
        for client in [Client::Blocking, Client::Curl] {
            keeps_only(&[Law::ToldBoth], &World { client, port: true, servers: servers.clone(), ..world() });
        }
    }
}

#[test]
fn what_has_just_refused_a_guess_is_not_asked_again() {
    let world = World { v6: vec![Fate::Refuses(1)], servers: vec![server(says(337), says(1))], ..world() };
    let run = play(&Rc::new(world), race::find(race::DEFAULT).ok());
    let asked = run.syns.iter().filter(|syn| syn.to.is_ipv6() && syn.port == PORT).count();
    assert_eq!(asked, 1, "{:?}", run.syns);
}

#[test]
fn what_fails_is_followed_at_once_as_the_program_would() {
    for fails in [Fate::Unreachable(0), Fate::Refuses(251)] {
        let v6 = vec![fails, Fate::Alive(1)];
        keeps_only(&[Law::InTime], &World { v4: vec![Fate::Alive(400)], v6, ..world() });
    }
}

#[test]
fn a_network_that_was_left_is_not_waited_for() {
    let to = Move { visit: 0, after: 10, v4: vec![Fate::Alive(20)], v6: vec![Fate::Alive(20)], routes: (true, true) };
    let (_, took) = begun(World { v4: vec![Fate::Silent], v6: vec![Fate::Silent], moves: Some(to), ..world() });
    assert_eq!(took, ms(30), "begun anew when the host moved");
}

#[test]
fn a_program_that_asks_over_dns_is_given_what_is_nearer_by_its_own_socket() {
    let musl = World { client: Client::Musl, front: Front::Filter, visits: 2, ..world() };
    keeps_only(&[Law::InTime], &World { v4: vec![Fate::Alive(193)], v6: vec![Fate::Alive(444)], ..musl });
}

/// `adaptive` breaks none of `laws` in `world`.
fn keeps_only(laws: &[Law], world: &World) {
    let broken = broken_by(world, race::find(race::DEFAULT).unwrap());
    assert!(broken.iter().all(|b| !laws.contains(&b.law)), "{broken:?} in {world:?}");
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

#[test]
fn what_is_under_way_on_a_network_that_was_left_is_not_handed_over() {
    let moves = Move { visit: 1, after: 2, v4: vec![Fate::Alive(1)], v6: vec![Fate::Alive(1)], routes: (true, true) };
    let alive = || vec![Fate::Alive(104)];
    let world = World { v4: alive(), v6: alive(), moves: Some(moves), visits: 2, ahead: true, ..world() };
    keeps_only(&[Law::Reaches], &World { client: Client::Go, front: Front::Filter, ..world.clone() });
    keeps_only(&[Law::Reaches], &World { client: Client::Limited(384), front: Front::Both, port: true, ..world });
}

/// What a server says after it has refused so many times.
fn after_refusing(failed: u32, after: u64) -> Option<Record> {
    Some(Record { failed, ..says(after).unwrap() })
}

/// By system calls alone: the programs of these worlds ask over DNS.
fn asks(client: Client, servers: Vec<Server>) -> World {
    World { client, front: Front::Filter, servers, ..world() }
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
fn a_socket_of_ipv6_to_an_ipv4_address_serves_a_program_that_brings_one_of_ipv4() {
    // Begun for a socket of the other kind, and still on its way when the program comes: it becomes one of AF_INET.
    let servers = vec![server(says(1), None), server(says(1), says(1))];
    let world = World { servers, v4: vec![Fate::Alive(1000)], v6: vec![Fate::Silent], ..world() };
    keeps_only(&[Law::OneSynASecond], &world);
}

#[test]
fn what_has_just_failed_is_told_to_a_program_that_does_not_wait() {
    for v6 in [Fate::Refuses(1), Fate::Unreachable(0)] {
        for client in [Client::Limited(300), Client::Curl] {
            let world = World { client, port: true, servers: vec![server(says(39), says(1))], ..world() };
            keeps_only(
                &[Law::OneSynASecond, Law::InTime],
                &World { v6: vec![v6], v4: vec![Fate::Alive(174)], ..world },
            );
        }
    }
}

#[test]
fn an_attempt_in_the_place_of_one_that_has_failed_is_none_beside_it() {
    let thrice = World { visits: 3, ahead: true, ..world() };
    keeps_only(&[Law::OneSynASecond], &World { v4: vec![Fate::Refuses(1)], routes: (true, false), ..thrice.clone() });
    let world = World { v6: vec![Fate::Unreachable(0)], servers: vec![server(says(1), says(60))], ..thrice };
    keeps_only(&[Law::OneSynASecond], &World { v4: vec![Fate::Alive(9)], port: true, ..world });
}

#[test]
fn a_denial_that_came_first_comes_first_again_where_all_servers_are_asked() {
    let world = World { v6: vec![Fate::Alive(53)], visits: 2, ..world() };
    let late = |servers| World { client: Client::Musl, front: Front::Filter, servers, ..world.clone() };
    keeps_only(BOTH, &late(vec![server(says(1), says(23)), server(None, no(Says::NoData))]));
    keeps_only(BOTH, &late(vec![server(None, no(Says::NoData)), server(says(1), says(1))]));
}

#[test]
fn what_has_failed_for_a_program_is_not_tried_again_when_it_goes_on_to_another_address() {
    // The second has no route; its race would begin with the first.
    let world = World { v4: vec![Fate::Refuses(1)], routes: (true, false), ..world() };
    for client in [Client::Blocking, Client::Musl] {
        keeps_only(&[Law::OneSynASecond], &World { client, front: Front::Filter, ..world.clone() });
    }
}

#[test]
fn a_program_that_has_been_answered_shows_what_sockets_it_has_before_another_attempt_is_made() {
    // Curl brings a socket of AF_INET 200 ms after that of AF_INET6, and what was begun for that one is still on its way.
    for (a, v4, v6) in [(400, 400, Fate::Silent), (268, 201, Fate::Alive(468)), (1058, 201, Fate::Unreachable(0))] {
        let curl = World { client: Client::Curl, port: true, servers: vec![server(says(a), says(1))], ..world() };
        keeps_only(&[Law::OneSynASecond, Law::InTime], &World { v4: vec![Fate::Alive(v4)], v6: vec![v6], ..curl });
    }
    // One that waits loses nothing by that.
    let waits = World { port: true, servers: vec![server(says(400), says(1))], v6: vec![Fate::Silent], ..world() };
    let (begun, took) = begun(waits);
    assert_eq!((begun.last(), took), (Some(&(Instant::ZERO + ms(400))), ms(401)));
}

#[test]
fn what_a_program_tries_after_another_address_is_no_connection_beside_it() {
    // At the third visit it would have been opened beside: two connections were counted in each before.
    let thrice = World { client: Client::Curl, port: true, visits: 3, pause: 60_000, ahead: true, ..world() };
    let a_lost = server(says(1), None);
    let second = server(None, says(105));
    let silent = World { servers: vec![a_lost, second], v4: vec![Fate::Silent], v6: vec![Fate::Alive(201)], ..thrice };
    keeps_only(&[Law::OneSynASecond], &silent);
    let first = server(None, says(1));
    let refused = World { v6: vec![Fate::Refuses(1)], servers: vec![first, server(says(1), says(1))], ..silent };
    keeps_only(&[Law::OneSynASecond], &World { client: Client::Blocking, v4: vec![Fate::Alive(1)], ..refused });
}

#[test]
fn a_race_that_is_over_begins_nothing_more() {
    // The program gives up five seconds after its connect, when it is not watched any more.
    let world = World { client: Client::Limited(5001), front: Front::Both, v6: vec![Fate::Silent], ..world() };
    let servers = vec![server(says(400), says(1))];
    keeps_only(&[Law::OneSynASecond], &World { v4: vec![Fate::Refuses(1)], servers, ..world });
}

#[test]
fn a_move_begins_one_attempt_where_ipv4_has_a_route_again() {
    let fates = || vec![Fate::Alive(251)];
    let moves = Move { visit: 0, after: 677, v4: vec![Fate::Alive(1)], v6: fates(), routes: (true, true) };
    let dead = Server { a: None, aaaa: None, https: None };
    let world = World { servers: vec![dead, server(says(1), says(1))], routes: (false, true), ..world() };
    keeps_only(&[Law::OneSynASecond], &World { v6: vec![Fate::Alive(1154)], moves: Some(moves), ..world });
}

#[test]
fn a_connection_that_its_server_has_reset_leaves_room_for_another() {
    let world = Rc::new(World { families: (true, false), v4: vec![Fate::Resets(1, 300)], ..world() });
    let again = |after| {
        let (bare, mut run) = (play(&world, None), play(&world, None));
        let first = run.syns[0];
        run.syns.push(Syn { at: first.at + ms(after), ..first });
        judge(&world, &bare, &run).iter().any(|b| b.law == Law::OneSynASecond)
    };
    assert!(again(300) && !again(301));
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
fn a_program_that_fails_with_all_addresses_is_not_compared_with_one_that_was_told_fewer() {
    // Node gives the first two 250 ms each, and the last refuses. Bare, it is told the second alone, since AAAA is lost.
    let servers = vec![server(says(1), None), server(says(1), says(1))];
    let lost = World { client: Client::Node, v4: vec![Fate::Loses(1, 1)], servers, ..world() };
    let world = Rc::new(World { v6: vec![Fate::Alive(251), Fate::Refuses(1)], ..lost });
    let fails = |world: &Rc<World>, run: &mut Run| {
        run.visits[0].0 = None;
        judge(world, &play(world, None), run).iter().any(|b| b.law == Law::Reaches)
    };
    let mut run = play(&world, race::find(race::DEFAULT).ok());
    assert_eq!((play(&world, None).visits[0].0.is_some(), fails(&world, &mut run)), (true, false));
    let near = Rc::new(World { v6: vec![Fate::Alive(249), Fate::Refuses(1)], ..World::clone(&world) });
    assert!(fails(&near, &mut run), "with all addresses it connects");
    assert!(fails(&world, &mut play(&world, None)), "it was not told more");
}

#[test]
fn what_a_third_server_has_said_is_kept_where_the_first_two_contradict_each_other() {
    let at_last = Some(Record { failed: 1, ..says(1).unwrap() });
    let servers = vec![server(at_last, says(754)), server(None, no(Says::NoData)), server(no(Says::NoData), says(1))];
    let world = World { client: Client::Chromium, v4: vec![Fate::Refuses(1)], v6: vec![Fate::Alive(199)], ..world() };
    keeps_only(&[Law::Reaches], &World { servers, ..world });
}

#[test]
fn a_program_of_ipv6_alone_is_not_led_to_ipv4_by_a_second_connect_where_there_is_no_ipv4() {
    let world = World { client: Client::Chromium, families: (false, true), routes: (false, true), ..world() };
    keeps_only(&[Law::Hints], &World { front: Front::Both, v6: vec![Fate::Silent; 2], ..world });
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
fn a_host_that_has_refused_a_guessed_port_is_not_asked_again_there() {
    for (client, front) in [(Client::Musl, Front::Filter), (Client::Curl, Front::Preload)] {
        let late = World { servers: vec![server(says(20), says(300))], v4: vec![Fate::Refuses(48)], ..world() };
        keeps_only(&[Law::OneSynASecond], &World { client, front, v6: vec![Fate::Alive(248)], ..late });
    }
}

#[test]
fn what_was_given_up_is_not_expected_to_answer_after_as_long() {
    let servers = vec![Server { https: None, ..server(says(1), says(60)) }];
    let world = World { servers, v4: vec![Fate::Alive(400)], v6: vec![Fate::Alive(50)], port: true, ..world() };
    keeps_only(&[Law::InTime], &World { visits: 2, pause: 60_000, ..world });
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
fn a_program_that_asks_for_one_family_again_and_again_is_not_led_to_the_other() {
    let only = |a, aaaa| vec![Server { a, aaaa, https: None }];
    let late = Some(Record { says: Says::NxDomain, ..says(400).unwrap() });
    let again = World { front: Front::Filter, visits: 2, pause: 6386, ..world() };
    keeps_only(&[Law::Hints], &World { families: (false, true), servers: only(says(7135), late), ..again });

    let (refused, lost) = (after_refusing(1, 5001), Some(Record { lost: 1, ..says(1).unwrap() }));
    let again = World { front: Front::Filter, visits: 3, pause: 60_000, ahead: true, ..world() };
    let silent = vec![Fate::Silent];
    keeps_only(&[Law::Hints], &World { families: (true, false), servers: only(refused, lost), v4: silent, ..again });

    let here = vec![Fate::Alive(1)];
    let to = Move { visit: 1, after: 0, v4: here.clone(), v6: here, routes: (true, true) };
    let again = World { port: true, routes: (false, true), visits: 2, pause: 60_000, ahead: true, ..world() };
    keeps_only(
        &[Law::Hints],
        &World { families: (false, true), servers: only(says(1), None), moves: Some(to), ..again },
    );
}

#[test]
fn what_is_asked_for_to_be_translated_decides_nothing_for_a_program_of_ipv6_alone() {
    let servers = vec![server(no(Says::NoData), after_refusing(1, 1)), server(says(1), says(1))];
    let world = World { families: (false, true), routes: (false, true), servers, ..world() };
    keeps_only(&[Law::Reaches], &world);
}
