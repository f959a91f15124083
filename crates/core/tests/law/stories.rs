//! Counter-examples that the law has found, made as simple as they go, as stories.

mod servers;

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

/// One server answers both questions, the other one of them.
fn two(first: Server, second: Server) -> World {
    World { servers: vec![first, second], ..world() }
}

fn no(says: Says) -> Option<Record> {
    Some(Record { after: 1, says, lost: 0, failed: 0 })
}

/// What a server says after it has refused so many times.
fn after_refusing(failed: u32, after: u64) -> Option<Record> {
    Some(Record { failed, ..says(after).unwrap() })
}

/// By system calls alone: the programs of these worlds ask over DNS.
fn asks(client: Client, servers: Vec<Server>) -> World {
    World { client, front: Front::Filter, servers, ..world() }
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
                    let broken: Vec<_> = broken.iter().filter(|b| laws.contains(&b.law.promise())).collect();
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
            assert!(broken.iter().all(|b| b.law.promise() != Law::Reaches), "{} by {front:?}: {broken:?}", race.name);
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
            assert!(broken.iter().all(|b| b.law.promise() != Law::InTime), "{}: {broken:?}", race.name);
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
    assert!(broken.iter().all(|b| !laws.contains(&b.law.promise())), "{broken:?} in {world:?}");
}

#[test]
fn what_is_under_way_on_a_network_that_was_left_is_not_handed_over() {
    let moves = Move { visit: 1, after: 2, v4: vec![Fate::Alive(1)], v6: vec![Fate::Alive(1)], routes: (true, true) };
    let alive = || vec![Fate::Alive(104)];
    let world = World { v4: alive(), v6: alive(), moves: Some(moves), visits: 2, ahead: true, ..world() };
    keeps_only(&[Law::Reaches], &World { client: Client::Go, front: Front::Filter, ..world.clone() });
    keeps_only(&[Law::Reaches], &World { client: Client::Limited(384), front: Front::Both, port: true, ..world });
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
fn a_program_that_fails_with_all_addresses_is_not_compared_with_one_that_was_told_fewer() {
    // Node gives the first two 250 ms each, and the last refuses. Bare, it is told the second alone, since AAAA is lost.
    let servers = vec![server(says(1), None), server(says(1), says(1))];
    let lost = World { client: Client::Node, v4: vec![Fate::Loses(1, 1)], servers, ..world() };
    let world = Rc::new(World { v6: vec![Fate::Alive(251), Fate::Refuses(1)], ..lost });
    let fails = |world: &Rc<World>, run: &mut Run| {
        run.visits[0].0 = None;
        judge(world, &play(world, None), run).iter().any(|b| b.law.promise() == Law::Reaches)
    };
    let mut run = play(&world, race::find(race::DEFAULT).ok());
    assert_eq!((play(&world, None).visits[0].0.is_some(), fails(&world, &mut run)), (true, false));
    let near = Rc::new(World { v6: vec![Fate::Alive(249), Fate::Refuses(1)], ..World::clone(&world) });
    assert!(fails(&near, &mut run), "with all addresses it connects");
    assert!(fails(&world, &mut play(&world, None)), "it was not told more");
}

#[test]
fn a_program_of_ipv6_alone_is_not_led_to_ipv4_by_a_second_connect_where_there_is_no_ipv4() {
    let world = World { client: Client::Chromium, families: (false, true), routes: (false, true), ..world() };
    keeps_only(&[Law::Hints], &World { front: Front::Both, v6: vec![Fate::Silent; 2], ..world });
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
