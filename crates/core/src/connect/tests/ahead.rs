//! Programs that are launched again and again, and what is there before they ask.

use super::*;
use crate::connect::cache::Lifetime;
use proptest::prelude::*;

const MINUTE: u64 = 60_000;

/// Everything is done ahead of time; round trips of 40 ms, answers after 30 ms, which hold for a minute.
fn story() -> Story {
    let settings = Settings { explore: 0.0, ahead: Ahead::ON, ..Settings::of(race::find("adaptive").unwrap()) };
    let mut s = Story::with(settings);
    for (n, name) in ["a.example", "b.example", "c.example"].iter().enumerate() {
        s = s.site(name, n as u8 + 1, (30, 30), (40, 40));
    }
    s
}

/// A launch in which the program visits `names`, half a second apart, and how long each visit took.
fn day(s: &mut Story, names: &[&str]) -> Vec<u64> {
    s.launch("mail");
    s.pass(500);
    let took = names.iter().map(|name| {
        let took = s.visit("mail", name).1;
        s.pass(500);
        took
    });
    took.collect()
}

/// So many launches, far enough apart for all to be learned that can be.
fn days(s: &mut Story, launches: usize, names: &[&str]) -> Vec<u64> {
    let launch = |_| {
        let took = day(s, names);
        s.pass(MINUTE / 2);
        took
    };
    (0..launches).flat_map(launch).collect()
}

/// Launches that teach where a program goes, and how long the servers there bear silence.
const LEARNED: usize = 3;

fn queries(s: &Story) -> usize {
    s.outputs.iter().filter(|(_, o)| matches!(o, Output::Query { .. })).count()
}

/// Connections opened so far that are watched for a program to come.
fn watched(s: &Story) -> Vec<AttemptId> {
    let watched = |(_, o): &(u64, Output)| match o {
        Output::Watch(id) => Some(*id),
        _ => None,
    };
    s.outputs.iter().filter_map(watched).collect()
}

#[test]
fn names_of_habit_are_there_when_the_second_launch_asks_for_them() {
    let mut s = story();
    assert_eq!(day(&mut s, &["a.example"]), [70], "30 ms of lookup and 40 ms of handshake");
    s.pass(2 * MINUTE);
    let before = queries(&s);
    s.launch("mail");
    assert_eq!(queries(&s) - before, 2, "A and AAAA, before anybody asks");
    s.pass(500);
    assert_eq!(s.visit("mail", "a.example").1, 40, "the lookup is over already");
    assert_eq!(s.connector.tally().queries_ahead, 2);
}

#[test]
fn a_host_that_a_program_comes_back_to_is_measured_over_the_other_family_once_and_the_nearer_one_is_used() {
    let settings = Settings { explore: 0.0, ahead: Ahead::ON, ..Settings::of(race::find("adaptive").unwrap()) };
    let mut s = Story::with(settings).site("a.example", 1, (30, 30), (20, 80));
    assert_eq!(day(&mut s, &["a.example"]), [110], "IPv6 first, where nothing is known");
    assert_eq!(s.connector.tally().explorations, 0, "it may never come back");
    s.pass(2 * MINUTE);
    day(&mut s, &["a.example"]);
    s.pass(2 * MINUTE);
    s.launch("mail");
    s.pass(500);
    assert_eq!(s.visit("mail", "a.example").0, v4(1));
    assert_eq!(s.connector.tally().explorations, 1);
}

#[test]
fn a_program_without_a_history_and_another_program_get_nothing_ahead() {
    let mut s = story();
    s.launch("news");
    s.launch("mail");
    assert_eq!(queries(&s), 0);
    day(&mut s, &["a.example"]);
    s.pass(2 * MINUTE);
    let before = queries(&s);
    s.launch("news");
    assert_eq!(queries(&s), before);
}

#[test]
fn what_follows_a_name_is_looked_up_when_that_is_asked_for() {
    let mut s = story();
    for _ in 0..2 {
        s.launch("mail");
        // Too late for a lookup at the launch to be of use: the answer holds for a minute.
        s.pass(2 * MINUTE);
        s.visit("mail", "a.example");
        s.pass(200);
        s.visit("mail", "b.example");
        s.pass(5 * MINUTE);
    }
    s.launch("mail");
    s.pass(2 * MINUTE);
    let before = queries(&s);
    s.resolve("mail", "a.example", Want::Both, None);
    assert_eq!(queries(&s) - before, 4, "both names, both families");
}

#[test]
fn an_answer_that_is_used_in_the_last_tenth_of_its_life_is_looked_up_again() {
    let mut s = story();
    s.visit("mail", "a.example");
    s.pass(50_000);
    let before = queries(&s);
    s.resolve("mail", "a.example", Want::Both, None);
    assert_eq!(queries(&s), before, "ten seconds are left");
    s.pass(5_000);
    s.resolve("mail", "a.example", Want::Both, None);
    assert_eq!(queries(&s) - before, 2);
    s.pass(30_000);
    let before = queries(&s);
    s.resolve("mail", "a.example", Want::Both, None);
    assert_eq!(queries(&s), before, "what was asked for ahead holds");
}

#[test]
fn an_answer_of_yesterday_leads_the_attempt_and_the_fresh_one_lets_the_program_have_it() {
    let mut s = story();
    s.visit("mail", "a.example");
    s.pass(10 * MINUTE);
    let (_, took) = s.visit("mail", "a.example");
    assert_eq!(took, 40, "the lookup is hidden behind the handshake");
    assert_eq!(s.connector.tally().optimistic, 1);
    s.pass(70 * MINUTE);
    assert_eq!(s.visit("mail", "a.example").1, 70, "older than an hour, it leads nobody");
}

#[test]
fn a_stale_address_that_the_fresh_answer_denies_is_never_handed_over() {
    let mut s = story();
    s.visit("mail", "a.example");
    s.pass(10 * MINUTE);
    // The name has moved, and its answer is late: the connection to the old address is complete long before.
    s = s.site("a.example", 9, (300, 300), (40, 40));
    let (reached, took) = s.visit("mail", "a.example");
    assert!([v4(9), v6(9)].contains(&reached), "{reached}");
    assert_eq!(took, 340);
    s.pass(MINUTE);
    assert_eq!(s.connector.open_jobs(), 0);
}

#[test]
fn a_stale_address_that_no_answer_confirms_is_not_handed_over_either() {
    let mut s = story();
    s.visit("mail", "a.example");
    s.pass(10 * MINUTE);
    s = s.dns("a.example", Family::V4, Dns::Silent).dns("a.example", Family::V6, Dns::Silent);
    assert_eq!(s.resolve("mail", "a.example", Want::Both, Some(443)), Resolved::Unanswered);
    assert_eq!(s.connector.tally().optimistic, 1);
}

#[test]
fn nothing_stale_is_used_across_networks() {
    let mut s = story();
    s.visit("mail", "a.example");
    s.pass(10 * MINUTE);
    s.input(Input::Network { id: crate::path::NetworkId(7), v4: true, v6: true, v4_first: false });
    assert_eq!(s.visit("mail", "a.example").1, 70);
    assert_eq!(s.connector.tally().optimistic, 0);
}

#[test]
fn the_fourth_launch_finds_its_connection_open() {
    let mut s = story();
    let took = days(&mut s, 4, &["a.example"]);
    assert_eq!(took, [70, 40, 40, 0], "nothing; the answer; the same while the server is tried; the connection");
    let tally = s.connector.tally();
    // What was opened to learn, and the one over the other family, to be measured.
    assert_eq!((tally.spares, tally.spares_taken, tally.unused, tally.explorations), (2, 1, 2, 1));
    let missed: Vec<_> = tally.missed.into_iter().collect();
    assert_eq!(missed, [(PoolMiss::Unknown, 2), (PoolMiss::Untried, 1)]);
}

#[test]
fn a_connection_is_opened_shortly_before_it_is_expected_and_not_when_the_program_begins() {
    let mut s = story();
    for _ in 0..=LEARNED {
        s.launch("mail");
        s.pass(9000);
        s.visit("mail", "a.example");
        s.pass(30_000);
    }
    let before = watched(&s).len();
    s.launch("mail");
    s.pass(3500);
    assert_eq!(watched(&s).len(), before, "not with the launch");
    s.pass(5000);
    assert_eq!(watched(&s).len(), before + 1);
    s.pass(500);
    assert_eq!(s.visit("mail", "a.example").1, 0);
}

#[test]
fn what_has_come_sooner_than_expected_is_not_opened_again() {
    let mut s = story();
    for _ in 0..=LEARNED {
        s.launch("mail");
        s.pass(9000);
        s.visit("mail", "a.example");
        s.pass(30_000);
    }
    s.launch("mail");
    let before = watched(&s).len();
    s.visit("mail", "a.example");
    s.pass(30_000);
    assert_eq!(watched(&s).len(), before);
}

#[test]
fn a_connection_kept_to_learn_outlives_its_launch_and_is_nobodys() {
    let mut s = story();
    (0..2).for_each(|_| drop(day(&mut s, &["a.example"])));
    s.launch("mail");
    s.pass(100);
    let probe = *watched(&s).last().unwrap();
    s.launch("mail");
    let closed = |s: &Story| s.outputs.iter().any(|(_, o)| *o == Output::Close(probe));
    assert!(!closed(&s));
    assert_eq!(s.visit("mail", "a.example").1, 40, "nobody may have it");
    s.pass(19_000);
    assert!(!closed(&s));
    s.pass(2000);
    assert!(closed(&s), "after twenty seconds it has taught what there is to learn");
    assert_eq!(s.connector.remembered().programs[0].names[0].ports[0].idle_ms, 20_000);
}

#[test]
fn while_one_is_kept_to_learn_the_next_is_handed_over_for_as_long_as_that_has_shown() {
    let mut s = story();
    (0..2).for_each(|_| drop(day(&mut s, &["a.example"])));
    s.launch("mail");
    s.pass(8000);
    s.launch("mail");
    s.pass(3000);
    assert_eq!(s.visit("mail", "a.example").1, 0, "eight seconds are borne, so four are safe");
}

#[test]
fn a_name_that_leads_to_a_neighbour_costs_nothing_however_often_it_is_expected() {
    let mut s = story();
    let inside: IpAddr = "10.1.2.3".parse().unwrap();
    for family in Family::BOTH {
        let list: &[IpAddr] = if family == Family::V4 { &[inside] } else { &[] };
        s = s.dns("printer.example", family, Dns::Says(10, LookupResult::Addresses(list.to_vec(), ms(3_600_000))));
    }
    s = s.host(inside, Host::Answers(10));
    let visit = |s: &mut Story| {
        s.launch("mail");
        s.pass(500);
        let Resolved::Addresses(list) = s.resolve("mail", "printer.example", Want::Both, Some(631)) else { panic!() };
        let claim = Claim {
            app: "mail".into(),
            to: (list[0], 631).into(),
            domain: Family::V4,
            nonblocking: false,
            accepts_mapped: false,
            rescuable: None,
        };
        s.next += 1;
        let request = RequestId(u64::from(s.account) << 32 | s.next);
        s.input(Input::Claim(request, claim));
        s.pass(25_000);
    };
    (0..10).for_each(|_| visit(&mut s));
    let tally = s.connector.tally();
    assert!(tally.spares <= 2, "tried once and left alone: {}", tally.spares);
    assert!(watched(&s).is_empty());
    assert_eq!(tally.handed_over, 10);
    assert_eq!(s.begun().len(), 10, "none was begun but for the program itself");
}

#[test]
fn a_spare_connection_is_nobody_elses() {
    let mut s = story();
    days(&mut s, LEARNED, &["a.example"]);
    s.launch("mail");
    s.pass(100);
    let (open, account) = (watched(&s).len(), s.account);
    assert_eq!(open, 2, "one that taught, and this one");
    assert_eq!(s.visit("news", "a.example").1, 70, "another program");
    s.account = 77;
    assert_eq!(s.visit("mail", "a.example").1, 40, "another run of the program");
    s.account = account;
    assert_eq!(s.visit("mail", "a.example").1, 0);
}

#[test]
fn what_a_launch_leaves_behind_is_closed_with_it() {
    let mut s = story();
    days(&mut s, LEARNED, &["a.example"]);
    s.launch("mail");
    s.pass(100);
    let spare = *watched(&s).last().unwrap();
    s.launch("news");
    assert!(s.outputs.iter().any(|(_, o)| *o == Output::Close(spare)));
}

#[test]
fn a_change_of_network_closes_every_spare_connection() {
    let mut s = story();
    days(&mut s, LEARNED, &["a.example"]);
    s.launch("mail");
    s.pass(100);
    let spare = *watched(&s).last().unwrap();
    s.input(Input::Network { id: crate::path::NetworkId(7), v4: true, v6: true, v4_first: false });
    assert_eq!(s.outputs.last().map(|(_, o)| o), Some(&Output::Close(spare)));
    assert_eq!(s.visit("mail", "a.example").1, 70);
}

#[test]
fn a_server_that_closes_early_has_its_connections_taken_early_or_not_at_all() {
    let mut s = story();
    for _ in 0..2 {
        day(&mut s, &["a.example"]);
    }
    s.launch("mail");
    s.pass(5040);
    let spare = *watched(&s).last().unwrap();
    s.input(Input::Spoilt(spare, Spoilt::Closed, ms(0)));
    assert_eq!(s.outputs.last().map(|(_, o)| o), Some(&Output::Close(spare)));
    assert_eq!(s.visit("mail", "a.example").1, 40);
    s.launch("mail");
    s.pass(2000);
    assert_eq!(s.visit("mail", "a.example").1, 0, "it has been open for two seconds, and is closed after five");
    s.launch("mail");
    s.pass(3000);
    assert_eq!(s.visit("mail", "a.example").1, 40, "with less than half of that left, it is not handed over");
}

#[test]
fn a_close_that_is_noticed_late_is_learned_as_early_as_it_was() {
    let mut s = story();
    (0..2).for_each(|_| drop(day(&mut s, &["a.example"])));
    s.launch("mail");
    s.pass(5040);
    let spare = *watched(&s).last().unwrap();
    s.input(Input::Spoilt(spare, Spoilt::Closed, ms(2000)));
    assert_eq!(s.connector.remembered().programs[0].names[0].ports[0].closes_ms, 3000);
}

#[test]
fn to_a_server_that_closes_within_two_seconds_nothing_is_handed_over_and_soon_nothing_opened() {
    let mut s = story();
    (0..2).for_each(|_| drop(day(&mut s, &["a.example"])));
    for n in 1..6 {
        s.launch("mail");
        s.pass(200);
        assert_eq!(s.visit("mail", "a.example").1, 40);
        s.pass(840);
        let open = watched(&s);
        assert_eq!(open.len(), n.min(3), "three times will not have been an accident");
        if n <= 3 {
            s.input(Input::Spoilt(*open.last().unwrap(), Spoilt::Closed, ms(0)));
        }
    }
    s.pass(3_700_000);
    s.launch("mail");
    s.pass(100);
    assert_eq!(watched(&s).len(), 4, "an hour later it is tried again");
}

#[test]
fn a_server_that_speaks_first_is_left_alone_from_then_on() {
    let mut s = story();
    for _ in 0..2 {
        day(&mut s, &["a.example"]);
    }
    s.launch("mail");
    s.pass(60);
    let spare = *watched(&s).last().unwrap();
    s.input(Input::Spoilt(spare, Spoilt::Spoke, ms(0)));
    for _ in 0..5 {
        day(&mut s, &["a.example"]);
    }
    assert_eq!(watched(&s).len(), 1);
    assert!(s.connector.remembered().programs[0].names[0].ports[0].speaks_first);
}

#[test]
fn habits_that_are_given_up_cost_a_few_connections_and_no_more() {
    let mut s = story();
    (0..6).for_each(|_| drop(day(&mut s, &["a.example", "b.example"])));
    let before = s.connector.tally().spares;
    for _ in 0..10 {
        day(&mut s, &["c.example"]);
        s.pass(MINUTE);
    }
    let tally = s.connector.tally();
    assert!(tally.spares - before <= 3 * 2 + 8, "three launches' worth, and those of c: {}", tally.spares - before);
}

#[test]
fn what_was_learned_is_of_use_to_a_later_supervisor() {
    let mut s = story();
    days(&mut s, LEARNED, &["a.example"]);
    let mut later = story();
    later.connector.recall(&s.connector.remembered());
    assert_eq!(day(&mut later, &["a.example"]), [0], "looked up, connected, all before it was asked for");
}

#[test]
fn with_the_cache_off_nothing_is_known_ahead() {
    let settings = Settings {
        explore: 0.0,
        ahead: Ahead::ON,
        lifetime: Lifetime::Off,
        ..Settings::of(race::find("adaptive").unwrap())
    };
    let mut s = Story::with(settings).site("a.example", 1, (30, 30), (40, 40));
    s.visit("mail", "a.example");
    s.launch("mail");
    assert_eq!(queries(&s), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is launched, asked for, spoilt and moved: every call is answered, what is handed over is open and goes to
    /// one program alone, and everything else is closed.
    #[test]
    fn whatever_happens_calls_are_answered_and_connections_go_to_one_program_or_are_closed(
        seed: u64,
        steps in proptest::collection::vec((0u8..9, 0usize..4, 0u64..4000), 1..120),
    ) {
        for entry in race::ALL {
            let settings = Settings { explore: 0.2, seed, ahead: Ahead::ON, ..Settings::of(entry) };
            let mut s = Story::with(settings);
            let hosts = [Host::Answers(40), Host::Answers(250), Host::Refuses(20), Host::Silent];
            for (n, host) in (1u8..).zip(hosts) {
                s = s.site(&format!("{n}.example"), n, (20, 90), (40, 60)).host(v4(n), host);
            }
            for (what, n, pause) in &steps {
                let (name, app) = (format!("{}.example", n + 1), if *n < 3 { "mail" } else { "news" });
                match what {
                    0 | 1 => s.launch(app),
                    2 => s.input(Input::Network { id: crate::path::NetworkId(*n as u64), v4: true, v6: *n != 2, v4_first: false }),
                    3 => {
                        let how = if *n == 0 { Spoilt::Spoke } else { Spoilt::Closed };
                        if let Some(id) = watched(&s).last() {
                            s.input(Input::Spoilt(*id, how, ms(0)));
                        }
                    }
                    4 => s.pass(*pause * 20),
                    _ => {
                        let port = (what % 2 == 0).then_some(443);
                        if let Resolved::Addresses(list) = s.resolve(app, &name, Want::Both, port) {
                            s.connect(app, list[0], *what == 7);
                        }
                    }
                }
                s.pass(*pause);
            }
            s.connector.close_account(s.account);
            s.drain();
            s.pass(300_000);
            prop_assert_eq!(s.connector.open_jobs(), 0, "{} leaves jobs open", entry.name);
            let mut open: BTreeMap<AttemptId, bool> = BTreeMap::new();
            for (_, output) in &s.outputs {
                match output {
                    Output::Connect { id, .. } => prop_assert!(open.insert(*id, false).is_none()),
                    Output::Close(id) => prop_assert!(open.remove(id).is_some(), "{} closes twice", entry.name),
                    Output::Watch(id) => prop_assert_eq!(open.get(id), Some(&false)),
                    Output::HandOver { attempt, connected: true, .. } => {
                        prop_assert_eq!(open.remove(attempt), Some(false), "{} hands over what is not", entry.name);
                    }
                    Output::HandOver { attempt, connected: false, .. } => {
                        prop_assert_eq!(open.insert(*attempt, true), Some(false), "{} hands over twice", entry.name);
                    }
                    _ => {}
                }
            }
            let tally = s.connector.tally();
            prop_assert!(tally.spares_taken <= tally.spares && tally.at_once <= tally.handed_over);
        }
    }
}

/// A name that was visited, ten minutes ago.
fn yesterday(addresses: &[IpAddr]) -> Story {
    let mut s = story();
    for family in Family::BOTH {
        let list: Vec<_> = addresses.iter().filter(|a| Family::of(**a) == family).copied().collect();
        s = s.dns("old.example", family, says(30, &list));
    }
    s.hosts.extend(addresses.iter().map(|addr| (*addr, Host::Answers(40))));
    s.visit("mail", "old.example");
    s.pass(10 * MINUTE);
    s
}

/// Attempts to addresses of old answers that a program's question leads to.
fn optimistic(s: &mut Story, port: u16) -> u64 {
    let before = s.connector.tally().optimistic;
    s.resolve("mail", "old.example", Want::Both, Some(port));
    s.connector.tally().optimistic - before
}

#[test]
fn no_attempt_goes_to_an_old_address_that_has_failed_or_has_no_route() {
    assert_eq!(optimistic(&mut yesterday(&[v4(7)]), 443), 1);
    let mut s = yesterday(&[v4(7)]);
    s.input(Input::Unreached(v4(7)));
    assert_eq!(optimistic(&mut s, 443), 0, "it has just failed");
    let mut s = yesterday(&[v6(7)]);
    s.input(Input::Network { id: crate::path::NetworkId::default(), v4: true, v6: false, v4_first: false });
    assert_eq!(optimistic(&mut s, 443), 0, "there is no way to it any more");
    let mut s = yesterday(&[v6(7)]);
    (20..40).for_each(|n| s.input(Input::Unreached(v6(n))));
    let now = s.now;
    assert!(s.connector.path().current().is_suspended(Family::V6, now));
    assert_eq!(optimistic(&mut s, 443), 0, "nothing of its family answers");
}

#[test]
fn a_program_that_asks_may_be_led_to_a_neighbour_of_old() {
    let neighbour = "10.1.2.3".parse().unwrap();
    assert_eq!(optimistic(&mut yesterday(&[neighbour]), 80), 1);
}

#[test]
fn while_one_familys_answer_holds_the_others_old_one_leads_nobody() {
    let mut s = story();
    let short = Dns::Says(30, LookupResult::Addresses(vec![v6(7)], Duration::from_secs(30)));
    s = s.dns("old.example", Family::V4, says(30, &[v4(7)])).dns("old.example", Family::V6, short);
    s = s.host(v4(7), Host::Answers(40)).host(v6(7), Host::Answers(40));
    s.visit("mail", "old.example");
    s.pass(45_000);
    assert_eq!(optimistic(&mut s, 443), 0);
}

#[test]
fn a_program_that_asks_again_and_again_is_not_run_ahead_of_each_time() {
    let mut s = yesterday(&[v4(7)]);
    for n in 0..30 {
        let ask = Resolve { app: "mail".into(), name: "old.example".into(), want: Want::Both, port: Some(443) };
        s.input(Input::Resolve(RequestId(900 + n), ask));
    }
    s.pass(20);
    assert_eq!(s.connector.tally().optimistic, 16);
}

#[test]
fn an_old_address_that_was_denied_is_given_up_at_once_and_attempts_are_counted_each() {
    let mut s = yesterday(&[v4(7), v6(7)]);
    // The name has moved.
    s = s.site("old.example", 9, (30, 30), (40, 40));
    let (seen, asked) = (s.outputs.len(), s.now.as_millis_f64() as u64);
    s.visit("mail", "old.example");
    let begun = |o: &Output| if let Output::Connect { id, .. } = o { Some(*id) } else { None };
    let ids: Vec<_> = s.outputs[seen..].iter().filter_map(|(_, o)| begun(o)).collect();
    let [old, new] = ids[..] else { panic!("{ids:?}") };
    assert_ne!(old, new);
    assert!(s.outputs.contains(&(asked + 30, Output::Close(old))), "{:?}", &s.outputs[seen..]);
    assert_eq!(s.connector.tally().attempts, s.begun().len() as u64);
}
