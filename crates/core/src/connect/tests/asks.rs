//! Programs that ask DNS themselves: what the server said, from one cache, and no family held up by the other.

use super::*;
use Family::{V4, V6};

const SITE: &str = "www.example";

impl Story {
    /// A question under request id `n`.
    fn ask(&mut self, n: u64, app: &str, family: Family) {
        self.ask_of(n, app, SITE, family);
    }

    fn ask_of(&mut self, n: u64, app: &str, name: &str, family: Family) {
        let ask = Ask { app: app.into(), name: name.into(), record: family.into(), server: 0 };
        self.input(Input::Ask(RequestId(n), ask));
    }

    /// When and how each question was answered.
    fn answers(&self) -> Vec<(u64, u64, Answered)> {
        let answered = |(t, o): &(u64, Output)| match o {
            Output::Answered(RequestId(n), answered) => Some((*t, *n, *answered)),
            _ => None,
        };
        self.outputs.iter().filter_map(answered).collect()
    }

    fn queries(&self) -> Vec<RecordType> {
        let query = |(_, o): &(u64, Output)| match o {
            Output::Query { record, .. } => Some(*record),
            _ => None,
        };
        self.outputs.iter().filter_map(query).collect()
    }
}

fn reply(query: u64, age: u64) -> Answered {
    Answered::Reply { query: QueryId(query), age: ms(age) }
}

#[test]
fn both_families_are_answered_as_the_server_answers_and_no_earlier() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 60), (30, 50));
    s.ask(1, "dig", V4);
    s.ask(2, "dig", V6);
    s.pass(1000);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (60, 2, reply(1, 0))]);
}

#[test]
fn the_server_is_asked_for_both_at_the_first_question() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 50));
    s.ask(1, "go", V6);
    assert_eq!(s.queries(), [RecordType::Aaaa, RecordType::A]);
    s.pass(5);
    s.ask(2, "go", V4);
    s.pass(1000);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (20, 2, reply(1, 0))], "not 20 ms after the second question");
    assert_eq!(s.queries().len(), 2);
}

#[test]
fn it_is_asked_for_one_family_of_a_program_that_has_left_out_the_other_and_where_there_is_one() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 50));
    s.ask_of(1, "ping", "first.example", V4);
    s.pass(100);
    s.ask(2, "ping", V4);
    assert_eq!(s.queries(), [RecordType::A, RecordType::Aaaa, RecordType::A]);
    s.pass(100);
    s.ask(3, "another", V4);
    assert_eq!(s.queries().len(), 5, "what one program leaves out says nothing of another");
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 50));
    s.input(Input::Network { id: crate::path::NetworkId(7), v4: true, v6: false, v4_first: false });
    s.ask(1, "go", V4);
    assert_eq!(s.queries(), [RecordType::A]);
}

#[test]
fn a_denial_is_kept_no_longer_than_without_us_from_what_may_want_nothing_else() {
    let nothing = Dns::Says(20, LookupResult::NoData(Duration::from_secs(60)));
    let answered = |servers| {
        let mut s = Story::of("adaptive").dns(SITE, V4, Dns::Silent).dns(SITE, V6, nothing.clone());
        s.input(Input::Servers(servers));
        s.ask(1, "dig", V4);
        s.ask(2, "dig", V6);
        s.pass(6000);
        s.answers().iter().map(|(at, n, _)| (*at, *n)).collect::<Vec<_>>()
    };
    assert_eq!(answered(1), [(20, 2)], "there is no other server that could decide");
    assert_eq!(answered(2), [(5000, 2)], "by then the C library asks the next one for both");
}

#[test]
fn a_lost_aaaa_is_waited_for_until_a_guessed_port_of_the_other_family_has_answered() {
    let mut s = Story::of("adaptive").dns(SITE, V4, says(20, &[v4(1)])).dns(SITE, V6, Dns::Silent);
    s = s.host(v4(1), Host::Answers(30));
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(10_000);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (100, 2, Answered::NotWaitedFor)]);
    assert_eq!((s.connector.tally().asked, s.connector.tally().not_waited_for), (2, 1));
    s.pass(60_000);
    s.ask(3, "go", V4);
    s.ask(4, "go", V6);
    s.pass(100);
    s.connect("go", v4(1), false);
    s.pass(60_000);
    let asked = s.now.as_millis_f64() as u64;
    s.ask(5, "go", V4);
    s.ask(6, "go", V6);
    s.pass(1000);
    assert_eq!(s.answers().last(), Some(&(asked + 20 + 50, 6, Answered::NotWaitedFor)));
}

#[test]
fn a_family_is_not_waited_for_either_that_is_asked_for_after_the_other_was_answered() {
    // Between two questions of a program there are system calls, and others may have the processor.
    let story = || Story::of("adaptive").dns(SITE, V4, says(20, &[v4(1)])).dns(SITE, V6, Dns::Silent);
    let mut s = story().host(v4(1), Host::Answers(30));
    s.ask(1, "go", V4);
    s.pass(25);
    s.ask(2, "go", V6);
    s.pass(10_000);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (25 + 50 + 30, 2, Answered::NotWaitedFor)]);
    // What is known is answered at once, and is no less known for that.
    let mut s = story().host(v4(1), Host::Answers(30));
    s.ask(1, "go", V4);
    s.pass(3000);
    s.ask(2, "go", V6);
    s.pass(10);
    s.ask(3, "go", V4);
    s.pass(10_000);
    let told = [(20, 1, reply(0, 0)), (3010, 3, reply(0, 2990)), (3010 + 50 + 30, 2, Answered::NotWaitedFor)];
    assert_eq!(s.answers(), told);
}

#[test]
fn a_question_that_is_repeated_begins_no_second_connection() {
    let mut s = Story::of("adaptive").dns(SITE, V4, says(20, &[v4(1)])).dns(SITE, V6, Dns::Silent);
    // Too far away to be returned alone.
    s = s.host(v4(1), Host::Answers(300));
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(5000);
    s.ask(3, "go", V6);
    s.pass(3000);
    assert_eq!(s.begun(), [(70, v4(1))]);
}

#[test]
fn a_lost_aaaa_is_waited_for_as_ever_where_the_other_family_has_failed() {
    let mut s = Story::of("adaptive").dns(SITE, V4, says(20, &[v4(1)])).dns(SITE, V6, Dns::Silent);
    s = s.host(v4(1), Host::Refuses(10));
    s.ask(1, "go", V4);
    s.pass(100);
    s.connect("go", v4(1), false);
    s.ask(2, "go", V4);
    s.ask(3, "go", V6);
    s.pass(20_000);
    assert_eq!(s.answers().last(), Some(&(15_000, 3, Answered::Unanswered)), "as the C library, asked at 0");
}

#[test]
fn a_lost_a_is_waited_for_no_longer_either() {
    let mut s = Story::of("adaptive").dns(SITE, V6, says(20, &[v6(1)])).dns(SITE, V4, Dns::Silent);
    s = s.host(v6(1), Host::Answers(30));
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(10_000);
    assert_eq!(s.answers(), [(20, 2, reply(1, 0)), (100, 1, Answered::NotWaitedFor)]);
}

#[test]
fn a_program_that_asks_for_one_family_alone_waits_as_long_as_it_likes() {
    let mut s = Story::of("adaptive").dns(SITE, V4, says(20, &[v4(1)])).dns(SITE, V6, Dns::Silent);
    s.ask(1, "ping", V4);
    s.pass(3000);
    s.ask(2, "ping", V6);
    s.pass(20_000);
    assert_eq!(
        s.answers(),
        [(20, 1, reply(0, 0)), (15_000, 2, Answered::Unanswered)],
        "3 s later it is another question"
    );
}

#[test]
fn a_family_is_waited_for_while_the_other_has_no_addresses_or_no_route() {
    let nothing = Dns::Says(20, LookupResult::NoData(Duration::from_secs(60)));
    let mut s = Story::of("adaptive").dns(SITE, V4, nothing).dns(SITE, V6, Dns::Silent);
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(20_000);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (15_000, 2, Answered::Unanswered)]);

    let mut s = Story::of("adaptive").dns(SITE, V6, says(20, &[v6(1)])).dns(SITE, V4, Dns::Silent);
    s.input(Input::Network { id: Default::default(), v4: true, v6: false, v4_first: false });
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(20_000);
    assert_eq!(
        s.answers(),
        [(20, 2, reply(1, 0)), (15_000, 1, Answered::Unanswered)],
        "addresses without a way to them"
    );
}

#[test]
fn what_was_not_waited_for_is_not_remembered_and_what_comes_late_is() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 2200), (30, 30));
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(3000);
    s.ask(3, "go", V6);
    assert_eq!(s.answers()[1..], [(100, 2, Answered::NotWaitedFor), (3000, 3, reply(1, 800))]);
}

#[test]
fn an_answer_ages_and_is_asked_for_again_after_its_time() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30));
    s.ask(1, "go", V4);
    s.pass(59_000);
    s.ask(2, "go", V4);
    s.pass(2000);
    s.ask(3, "go", V4);
    s.pass(1000);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (59_000, 2, reply(0, 58_980)), (61_020, 3, reply(2, 0))]);
}

#[test]
fn an_answer_serves_getaddrinfo_too_and_the_reverse() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30));
    s.resolve("curl", SITE, Want::Both, None);
    s.pass(100);
    s.ask(1, "curl", V4);
    assert_eq!(s.answers().len(), 1, "from the cache, at once");
    s.ask(2, "other", V4);
    assert_eq!(s.answers().len(), 1, "no other program's cache");
    s.pass(100);
    s.ask(3, "other", V6);
    s.pass(100);
    let before = s.queries().len();
    s.resolve("other", SITE, Want::Both, None);
    assert_eq!(s.queries().len(), before);
}

#[test]
fn questions_that_are_repeated_share_one_query_and_each_is_answered() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30));
    (1..=3).for_each(|n| s.ask(n, "musl", V4));
    s.input(Input::Abandon(RequestId(2)));
    s.pass(100);
    assert_eq!(s.queries(), [RecordType::A, RecordType::Aaaa]);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (20, 3, reply(0, 0))]);
}

#[test]
fn addresses_that_were_asked_for_over_dns_can_be_raced() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30)).host(v6(1), Host::Silent);
    s.ask(1, "static", V4);
    s.ask(2, "static", V6);
    s.pass(100);
    match s.connect("static", v6(1), false) {
        Output::HandOver { attempt, connected: true, .. } => assert_eq!(s.reached(attempt), v4(1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_has_asked_for_one_family_alone_is_not_raced_over_the_other() {
    // The stub asks the server for both.
    let mut s = Story::of("adaptive").dns(SITE, V6, says(20, &[v6(1), v6(2)])).dns(SITE, V4, says(20, &[v4(1)]));
    s = s.host(v4(1), Host::Answers(10)).host(v6(1), Host::Answers(600)).host(v6(2), Host::Answers(600));
    s.ask(1, "curl", V6);
    s.pass(100);
    s.connect("curl", v6(1), false);
    assert!(!s.begun().is_empty() && s.begun().iter().all(|(_, to)| to.is_ipv6()), "{:?}", s.begun());
    // It has asked for the other too, by now.
    s = s.host(v6(1), Host::Silent).host(v6(2), Host::Silent);
    s.ask(2, "curl", V4);
    s.pass(100);
    s.connect("curl", v6(1), false);
    assert!(s.begun().iter().any(|(_, to)| to.is_ipv4()), "{:?}", s.begun());
}

#[test]
fn a_refusal_is_passed_on_and_not_remembered() {
    let refused = || Story::of("adaptive").dns(SITE, V4, Dns::Says(20, LookupResult::Refused));
    let mut s = refused().dns(SITE, V6, Dns::Says(20, LookupResult::NoData(Duration::ZERO)));
    s.ask(1, "go", V4);
    s.pass(100);
    s.ask(2, "go", V4);
    s.pass(100);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (120, 2, reply(2, 0))], "it has its own mind about asking again");

    let mut s = refused();
    s.ask(1, "go", V4);
    s.pass(100);
    s.ask(2, "go", V4);
    s.pass(100);
    let asked = [(20, 1, reply(0, 0)), (120, 2, reply(0, 0))];
    assert_eq!(s.answers(), asked, "no program waits for the other family, which is silent");
}

#[test]
fn whoever_asks_the_second_server_is_answered_by_it_or_by_the_next() {
    let servers = |s: &Story| -> Vec<_> {
        let server = |(_, o): &(u64, Output)| match o {
            Output::Query { server, record: RecordType::A, .. } => Some(*server),
            _ => None,
        };
        s.outputs.iter().filter_map(server).collect()
    };
    let ask = || Ask { app: "dig".into(), name: SITE.into(), record: V4.into(), server: 1 };
    let mut s = Story::of("adaptive").dns(SITE, V4, Dns::Says(20, LookupResult::Refused));
    s = s.dns(SITE, V6, Dns::Says(20, LookupResult::NoData(Duration::ZERO)));
    s.servers = 3;
    s.input(Input::Servers(3));
    s.input(Input::Ask(RequestId(1), ask()));
    s.pass(500);
    assert_eq!(servers(&s), [1, 2, 3, 4, 5, 6], "each twice, as the C library does");
    s.outputs.clear();
    s.servers = 2;
    s.input(Input::Servers(2));
    s.input(Input::Ask(RequestId(2), ask()));
    s.pass(500);
    assert_eq!(servers(&s), [1, 2, 3, 4], "there are fewer now");

    let mut s = Story::of("adaptive").dns(SITE, V4, Dns::Silent);
    s.input(Input::Ask(RequestId(1), ask()));
    s.pass(10_000);
    assert_eq!(servers(&s), [1, 2, 3, 4, 5]);
}

#[test]
fn a_flood_of_questions_is_bounded_and_the_oldest_go_unanswered() {
    let mut s = Story::of("adaptive");
    for n in 0..1500 {
        let ask = Ask { app: "flood".into(), name: format!("{n}.example"), record: V4.into(), server: 0 };
        s.input(Input::Ask(RequestId(n), ask));
    }
    assert_eq!(s.answers().len(), 1500 - 1024);
    assert!(s.answers().iter().all(|(_, n, a)| *n < 476 && *a == Answered::Unanswered));
    s.pass(11_000);
    assert_eq!(s.answers().len(), 1500, "given up in the end");
}

#[test]
fn a_connection_is_begun_with_the_question_where_a_program_has_gone_before() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30));
    for visit in 0..2 {
        s.ask(1, "go", V4);
        s.ask(2, "go", V6);
        s.pass(500);
        assert_eq!(s.begun().len(), visit, "nobody knew where it would go before the first");
        let to = s.connect("go", v6(1), true);
        match visit {
            0 => assert_eq!(passed(&to), Some(Pass::NothingReady)),
            _ => assert!(matches!(to, Output::HandOver { connected: true, .. }), "{to:?}"),
        }
        s.pass(100_000);
    }
    assert_eq!(s.begun(), [(100_520, v6(1))]);
    let before = s.begun().len();
    for n in 0..3 {
        s.ask(10 + 2 * n, "go", V4);
        s.ask(11 + 2 * n, "go", V6);
        s.pass(100_000);
    }
    assert_eq!(s.begun().len(), before + 1, "whoever only asks is run ahead of once");
    assert_eq!(s.connector.open_jobs(), 0);
}

#[test]
fn a_program_that_asks_for_one_family_is_run_ahead_of_in_that_family() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30));
    for n in 0..2 {
        s.ask(n, "go4", V4);
        s.pass(500);
        s.connect("go4", v4(1), false);
        s.pass(100_000);
    }
    assert!(s.begun().iter().all(|(_, addr)| *addr == v4(1)), "{:?}", s.begun());
    assert_eq!(
        s.queries(),
        [RecordType::A, RecordType::Aaaa, RecordType::A],
        "the first time it might have asked for both"
    );
}

#[test]
fn nothing_is_guessed_where_a_program_has_gone_by_itself() {
    let mut s = Story::of("adaptive").dns(SITE, V4, says(20, &[v4(1)])).dns(SITE, V6, Dns::Silent);
    s = s.host(v4(1), Host::Answers(30));
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(30);
    assert_eq!(passed(&s.connect("go", v4(1), true)), Some(Pass::NothingReady));
    s.pass(1000);
    assert_eq!(s.begun(), []);
}

/// As whois does: it waits for the last address alone. With thirty addresses that refuse, the first has done so two seconds ago.
#[test]
fn what_has_refused_a_program_itself_is_not_tried_again_in_favour_of_its_last_connect() {
    for since in [30, 2000] {
        let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30));
        s = s.host(v4(1), Host::Refuses(30)).host(v6(1), Host::Refuses(30));
        s.rescuable = true;
        s.ask(1, "whois", V4);
        s.ask(2, "whois", V6);
        s.pass(20);
        assert!(matches!(s.connect("whois", v6(1), true), Output::Begin { .. }));
        s.pass(since);
        assert!(matches!(s.connect("whois", v4(1), false), Output::Fail(_, 111)));
        assert_eq!(s.begun(), [(20 + since, v4(1))]);
    }
}

/// A program has asked for both families and gone to port 443, some time ago.
fn has_gone(s: &mut Story, to: IpAddr) {
    s.ask(91, "go", V4);
    s.ask(92, "go", V6);
    s.pass(500);
    assert!(matches!(s.connect("go", to, false), Output::HandOver { connected: true, .. }));
    s.pass(100_000);
}

#[test]
fn a_connection_that_is_open_for_a_program_already_is_not_begun_again_with_its_question() {
    let story = || {
        let s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30));
        s.site("other.example", 2, (20, 20), (30, 30))
    };
    let begun = |s: &mut Story| {
        s.pass(100);
        let before = s.begun().len();
        s.ask(1, "go", V4);
        s.pass(500);
        s.begun().len() - before
    };
    let mut s = story();
    has_gone(&mut s, v6(1));
    s.resolve("go", SITE, Want::Both, Some(443));
    assert_eq!(begun(&mut s), 0);
    let mut s = story();
    has_gone(&mut s, v6(1));
    for (app, name, port) in [("go", "other.example", 443), ("wget", SITE, 443), ("go", SITE, 80)] {
        s.resolve(app, name, Want::Both, Some(port));
    }
    assert_eq!(begun(&mut s), 1, "others are of no use to it");
}

/// The families of the sockets by which connections begin with the question of a program that has gone to the nearer IPv4 address before,
/// and asks for these families.
fn sockets(families: &[Family], aaaa: Dns, has_route: bool) -> Vec<Family> {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 90));
    s.input(Input::Network { id: Default::default(), v4: true, v6: has_route, v4_first: false });
    for visit in 0..2 {
        for (n, family) in (0..).zip(families) {
            s.ask(10 * visit + n, "go", *family);
        }
        s.pass(500);
        if visit == 0 {
            assert!(matches!(s.connect("go", v4(1), false), Output::HandOver { connected: true, .. }));
            s.pass(100_000);
            s.outputs.clear();
            s.connector.path().current().record(Instant::ZERO, v6(1), crate::path::Outcome::Connected(ms(90)));
            s = s.dns(SITE, V6, aaaa.clone());
        }
    }
    let domain = |(_, o): &(u64, Output)| match o {
        Output::Connect { to, domain, .. } if to.ip() == v4(1) => Some(*domain),
        _ => None,
    };
    s.outputs.iter().filter_map(domain).collect()
}

#[test]
fn what_is_begun_over_ipv4_fits_the_socket_that_a_program_which_sorts_addresses_itself_will_bring() {
    let none = || Dns::Says(10, LookupResult::NoData(Duration::from_secs(60)));
    assert_eq!(sockets(&Family::BOTH, says(60, &[v6(1)]), true), [V6], "it will most likely hear of IPv6");
    assert_eq!(sockets(&Family::BOTH, says(10, &[v6(1)]), true), [V6], "it has");
    assert_eq!(sockets(&Family::BOTH, none(), true), [V4], "there is none");
    assert_eq!(sockets(&Family::BOTH, says(10, &[v6(1)]), false), [V4], "no use without a route");
    assert_eq!(sockets(&[V4], says(10, &[v6(1)]), true), [V4], "it does not ask for it");
}

#[test]
fn questions_are_counted_by_whether_the_cache_has_the_answer() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (30, 30));
    for n in 1..=2 {
        s.ask(n, "dig", V4);
        s.pass(100);
    }
    let tally = s.connector.tally();
    assert_eq!((tally.asked, tally.not_waited_for, tally.cache_hits, tally.cache_misses), (2, 0, 1, 1));
}

#[test]
fn servers_that_a_program_asks_itself_are_asked_no_more_often_for_that() {
    let mut s = Story::of("adaptive").dns(SITE, V4, Dns::Says(20, LookupResult::Refused)).dns(SITE, V6, Dns::Silent);
    s.servers = 2;
    s.input(Input::Servers(2));
    for (n, server) in [(1, 0), (2, 1)] {
        let ask = Ask { app: "node".into(), name: SITE.into(), record: V4.into(), server };
        s.input(Input::Ask(RequestId(n), ask));
    }
    s.pass(500);
    assert_eq!(s.queries().iter().filter(|record| **record == RecordType::A).count(), 4, "each twice");
}

#[test]
fn what_the_only_server_has_denied_is_remembered() {
    let nothing = || Dns::Says(20, LookupResult::NoData(Duration::from_secs(60)));
    let mut s = Story::of("adaptive").dns(SITE, V4, nothing()).dns(SITE, V6, nothing());
    s.ask(1, "dig", V4);
    s.pass(100);
    s.ask(2, "dig", V4);
    assert_eq!(s.answers(), [(20, 1, reply(0, 0)), (100, 2, reply(0, 80))]);
}

#[test]
fn a_family_that_every_server_has_refused_is_not_kept_until_the_other_is_too() {
    let mut s = Story::of("adaptive").dns(SITE, V4, Dns::Says(20, LookupResult::Refused));
    s = s.dns(SITE, V6, Dns::Says(200, LookupResult::Refused));
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(2000);
    assert_eq!(s.answers(), [(40, 1, reply(0, 0)), (200, 2, reply(1, 0))], "it was asked twice");
}

#[test]
fn a_question_that_could_not_be_sent_was_not_answered() {
    let mut s = Story::of("adaptive").dns(SITE, V4, Dns::Says(0, LookupResult::NotSent)).dns(SITE, V6, Dns::Silent);
    s.ask(1, "dig", V4);
    s.pass(10);
    assert_eq!(s.answers(), [(0, 1, Answered::Unanswered)]);
}

#[test]
fn nothing_is_tried_for_a_program_whose_name_has_no_address_so_far() {
    let nothing = Dns::Says(20, LookupResult::NoData(Duration::from_secs(60)));
    let mut s = Story::of("adaptive").dns(SITE, V4, nothing).dns(SITE, V6, Dns::Silent);
    s.ask(1, "go", V4);
    s.ask(2, "go", V6);
    s.pass(1000);
    assert_eq!(s.connector.open_jobs(), 0);
}
