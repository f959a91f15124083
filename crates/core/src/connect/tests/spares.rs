//! When a connection is opened ahead and when not, and why one was not there.

use super::*;

/// Everything is done ahead of time; round trips of 40 ms, answers after 30 ms, which hold for a minute.
fn story() -> Story {
    let settings = Settings { explore: 0.0, ahead: Ahead::ON, ..Settings::of(race::find("adaptive").unwrap()) };
    let names = ["a.example", "b.example"].into_iter().zip(1u8..);
    names.fold(Story::with(settings), |s, (name, n)| s.site(name, n, (30, 30), (40, 40)))
}

/// Launches of `mail` that teach: each visits these names, so long after it began.
fn learn(s: &mut Story, launches: usize, visits: &[(u64, &str)]) {
    for _ in 0..launches {
        s.launch("mail");
        let began = s.now;
        for (after, name) in visits {
            let wait = ms(*after).saturating_sub(s.now - began);
            s.pass(u64::try_from(wait.as_millis()).unwrap());
            s.visit("mail", name);
        }
        s.pass(120_000);
    }
}

fn ask(s: &mut Story, account: u32, app: &str, name: &str) {
    s.next += 1;
    let request = RequestId(u64::from(account) << 32 | s.next);
    let ask = Resolve { app: app.into(), name: name.into(), want: Want::Both, port: Some(443) };
    s.input(Input::Resolve(request, ask));
}

fn missed(s: &Story, why: PoolMiss) -> u64 {
    s.connector.tally().missed.get(&why).copied().unwrap_or_default()
}

#[test]
fn what_others_have_under_way_keeps_no_connection_from_being_opened() {
    let mut s = story();
    learn(&mut s, 3, &[(500, "a.example")]);
    let before = s.connector.tally().spares;
    ask(&mut s, 77, "news", "a.example");
    ask(&mut s, 77, "mail", "b.example");
    ask(&mut s, 77, "mail", "a.example");
    let account = s.account + 1;
    ask(&mut s, account, "news", "a.example");
    s.launch("mail");
    s.pass(500);
    assert_eq!(s.connector.tally().spares, before + 1);
}

#[test]
fn why_no_connection_was_there_is_told_apart() {
    let mut s = story();
    learn(&mut s, 3, &[(500, "a.example")]);
    assert_eq!([missed(&s, PoolMiss::Unknown), missed(&s, PoolMiss::Untried)], [2, 1]);
    s.launch("mail");
    s.pass(10);
    s.visit("mail", "a.example");
    assert_eq!(missed(&s, PoolMiss::Late), 1, "its handshake had not ended");
    s.visit("mail", "a.example");
    assert_eq!(missed(&s, PoolMiss::Beside), 1, "the program goes to one at a time otherwise");
    s.pass(10_000);
    s.visit("mail", "a.example");
    assert_eq!(missed(&s, PoolMiss::Unexpected), 1, "it never came back before");
    assert_eq!([missed(&s, PoolMiss::Unknown), missed(&s, PoolMiss::Untried)], [2, 1]);
}

#[test]
fn where_a_program_goes_after_a_name_is_opened_when_it_asks_for_that_unless_it_still_has_a_connection_there() {
    let mut s = story();
    learn(&mut s, 4, &[(120_000, "a.example"), (120_300, "b.example")]);
    s.launch("mail");
    s.pass(100_000);
    let before = s.connector.tally().spares;
    s.visit("mail", "a.example");
    s.pass(200);
    assert_eq!(s.connector.tally().spares, before + 1);
    assert_eq!(s.visit("mail", "b.example").1, 0);
    s.pass(20_000);
    let before = s.connector.tally().spares;
    s.visit("mail", "a.example");
    s.pass(200);
    assert_eq!(s.connector.tally().spares, before, "it has never come back for another");
}

#[test]
fn as_many_are_opened_as_a_program_usually_opens_side_by_side() {
    let mut s = story();
    learn(&mut s, 4, &[(500, "a.example"), (501, "a.example"), (502, "a.example")]);
    s.launch("mail");
    s.pass(500);
    let took = [0; 3].map(|_| s.visit("mail", "a.example").1);
    assert_eq!(took, [0, 0, 40], "two at most are opened ahead");
}

/// As [`story`], with so much done ahead.
fn with(ahead: Ahead) -> Story {
    let settings = Settings { explore: 0.0, ahead, ..Settings::of(race::find("adaptive").unwrap()) };
    let names = ["a.example", "b.example", "c.example"].into_iter().zip(1u8..);
    names.fold(Story::with(settings), |s, (name, n)| s.site(name, n, (30, 30), (40, 40)))
}

/// The connections that are watched for a program to come, in the order in which they were opened.
fn watched(s: &Story) -> Vec<AttemptId> {
    let watched = |(_, o): &(u64, Output)| if let Output::Watch(id) = o { Some(*id) } else { None };
    s.outputs.iter().filter_map(watched).collect()
}

fn is_closed(s: &Story, id: AttemptId) -> bool {
    s.outputs.iter().any(|(_, o)| *o == Output::Close(id))
}

fn sent(s: &Story, record: RecordType) -> usize {
    s.outputs.iter().filter(|(_, o)| matches!(o, Output::Query { record: r, .. } if *r == record)).count()
}

/// Whether a question of `app` for `name` leads to a job of its own.
fn is_new(s: &mut Story, account: u32, app: &str, name: &str, want: Want, port: Option<u16>) -> bool {
    let before = s.connector.open_jobs();
    s.next += 1;
    let request = RequestId(u64::from(account) << 32 | s.next);
    s.input(Input::Resolve(request, Resolve { app: app.into(), name: name.into(), want, port }));
    s.connector.open_jobs() > before
}

#[test]
fn a_spare_goes_to_who_asks_for_just_that_and_once() {
    let mut s = story();
    learn(&mut s, 3, &[(500, "a.example")]);
    s.launch("mail");
    s.pass(100);
    let (own, tls) = (s.account, Some(443));
    assert!(is_new(&mut s, own, "news", "a.example", Want::Both, tls), "another program");
    assert!(is_new(&mut s, 77, "mail", "a.example", Want::Both, tls), "another run");
    assert!(is_new(&mut s, own, "mail", "b.example", Want::Both, tls), "another name");
    assert!(is_new(&mut s, own, "mail", "a.example", Want::Only(Family::V4), tls), "one family");
    assert!(is_new(&mut s, own, "mail", "a.example", Want::Both, Some(80)), "another port");
    let begun = s.begun().len();
    let before = s.connector.tally_of(own);
    assert!(!is_new(&mut s, own, "mail", "A.example.", Want::Both, tls));
    assert_eq!(s.begun().len(), begun, "what is open will do");
    let since = s.connector.tally_of(own).since(&before);
    assert_eq!((since.cache_hits, since.cache_misses), (2, 0));
    assert!(is_new(&mut s, own, "mail", "a.example", Want::Both, tls), "it is taken");
}

#[test]
fn a_spare_whose_lookup_goes_on_is_waited_for_by_one_alone() {
    let mut s = with(Ahead { prefetch: false, ..Ahead::ON });
    learn(&mut s, 3, &[(500, "a.example")]);
    s.launch("mail");
    s.pass(10);
    let own = s.account;
    let before = s.connector.tally_of(own);
    assert!(!is_new(&mut s, own, "mail", "a.example", Want::Both, Some(443)));
    let since = s.connector.tally_of(own).since(&before);
    assert_eq!((since.cache_hits, since.cache_misses), (0, 2));
    assert!(is_new(&mut s, own, "mail", "a.example", Want::Both, Some(443)));
}

#[test]
fn a_spare_is_not_for_who_asks_when_its_answers_hold_no_more_or_it_is_too_old() {
    let mut s = story();
    learn(&mut s, 3, &[(500, "a.example")]);
    s.launch("mail");
    s.pass(100);
    let own = s.account;
    s.connector.forget_answers();
    assert!(is_new(&mut s, own, "mail", "a.example", Want::Both, Some(443)), "another may be right by now");

    let mut s = story();
    learn(&mut s, 2, &[(500, "a.example")]);
    s.launch("mail");
    s.pass(100);
    let own = s.account;
    assert_eq!(watched(&s).len(), 1);
    assert!(is_new(&mut s, own, "mail", "a.example", Want::Both, Some(443)), "it is open to learn");
}

#[test]
fn more_are_opened_beside_the_first_until_as_many_are_there_as_usual() {
    let mut s = story();
    learn(&mut s, 4, &[(500, "a.example"), (501, "a.example"), (502, "a.example")]);
    let before = s.connector.tally().spares;
    s.launch("mail");
    s.pass(500);
    assert_eq!(s.connector.tally().spares, before + 2, "with the launch");
    (0..3).for_each(|_| _ = s.visit("mail", "a.example"));
    s.pass(100);
    assert_eq!(s.connector.tally().spares, before + 3, "with the first connect, and none for a fourth");
}

#[test]
fn none_is_opened_beside_what_the_program_has_under_way_itself() {
    let mut s = story();
    learn(&mut s, 4, &[(500, "a.example"), (501, "a.example"), (502, "a.example")]);
    s.launch("mail");
    s.pass(500);
    let account = s.account;
    // Two of these are the spares.
    (0..3).for_each(|_| ask(&mut s, account, "mail", "a.example"));
    let before = s.connector.tally().spares;
    assert!(matches!(s.connect("mail", v6(1), false), Output::HandOver { connected: true, .. }));
    assert_eq!(s.connector.tally().spares, before);
}

#[test]
fn where_no_connections_are_opened_ahead_nothing_is_expected_and_names_are_looked_up_all_the_same() {
    let mut s = with(Ahead { spares: 0, ..Ahead::ON });
    // The answers of one launch hold in none of the next.
    let visits = [(90_000, "a.example"), (90_300, "b.example")];
    learn(&mut s, 3, &visits);
    s.launch("mail");
    assert_eq!(s.connector.poll_timeout(), None, "nothing is to be opened");
    s.pass(90_000);
    let before = sent(&s, RecordType::A);
    s.resolve("mail", "a.example", Want::Both, None);
    assert_eq!(sent(&s, RecordType::A), before + 2, "b will follow");
    assert_eq!(s.connector.tally().spares, 0);
}

#[test]
fn what_rarely_follows_a_name_is_not_looked_up_after_it() {
    let mut s = with(Ahead { spares: 0, ..Ahead::ON });
    learn(&mut s, 1, &[(90_000, "a.example"), (90_300, "b.example")]);
    learn(&mut s, 2, &[(90_000, "a.example")]);
    s.launch("mail");
    s.pass(90_000);
    let before = sent(&s, RecordType::A);
    s.resolve("mail", "a.example", Want::Both, None);
    assert_eq!(sent(&s, RecordType::A), before + 1, "once in three times");
}

#[test]
fn from_when_no_connections_are_to_be_opened_none_is() {
    let mut s = story();
    learn(&mut s, 4, &[(120_000, "a.example"), (120_300, "b.example")]);
    let before = s.connector.tally().spares;
    s.input(Input::Ahead(Ahead { spares: 0, ..Ahead::ON }));
    s.launch("mail");
    s.pass(120_000);
    s.visit("mail", "a.example");
    s.pass(200);
    s.visit("mail", "b.example");
    assert_eq!(s.connector.tally().spares, before);
}

#[test]
fn a_name_that_is_rarely_asked_for_is_missed_as_unlikely() {
    let mut s = story();
    let (a, b) = ((9000, "a.example"), (9000, "b.example"));
    for visit in [a, b, b, a, b, b] {
        learn(&mut s, 1, &[visit]);
    }
    let before = (s.connector.tally().spares, missed(&s, PoolMiss::Unlikely));
    s.launch("mail");
    s.pass(500);
    s.visit("mail", "a.example");
    assert_eq!((s.connector.tally().spares, missed(&s, PoolMiss::Unlikely)), (before.0, before.1 + 1));
}

#[test]
fn where_it_is_anybodys_guess_when_a_name_is_asked_for_nothing_is_opened_for_it() {
    let mut s = story();
    for after in [5000, 95_000, 5000, 95_000, 5000, 95_000, 5000, 95_000] {
        learn(&mut s, 1, &[(after, "a.example")]);
    }
    let before = s.connector.tally().spares;
    s.launch("mail");
    s.pass(200_000);
    assert_eq!(s.connector.tally().spares, before);
}

#[test]
fn what_always_follows_a_name_is_opened_after_it_however_rarely_that_is_asked_for() {
    let mut s = with(Ahead::ON);
    for _ in 0..4 {
        learn(&mut s, 1, &[(90_000, "a.example"), (90_300, "b.example")]);
        learn(&mut s, 1, &[(90_000, "c.example")]);
    }
    s.launch("mail");
    s.pass(1000);
    let before = s.connector.tally().spares;
    s.visit("mail", "a.example");
    assert_eq!(s.connector.tally().spares, before + 1);
    s.pass(300);
    assert_eq!(s.visit("mail", "b.example").1, 0);
}

#[test]
fn a_name_that_is_always_asked_for_and_rarely_connected_to_is_not_opened() {
    let mut s = story();
    for n in 0..7 {
        s.launch("mail");
        s.pass(90_000);
        s.visit("mail", "a.example");
        s.pass(300);
        if n < 2 {
            s.visit("mail", "b.example");
        } else {
            s.resolve("mail", "b.example", Want::Both, None);
        }
        s.pass(120_000);
    }
    s.launch("mail");
    s.pass(90_000);
    let before = s.connector.tally().spares;
    s.visit("mail", "a.example");
    s.pass(300);
    assert_eq!(s.connector.tally().spares, before);
}

#[test]
fn where_another_has_taken_all_the_room_that_is_told() {
    let mut s = with(Ahead { spares: 1, ..Ahead::ON });
    learn(&mut s, 3, &[(500, "a.example"), (600, "b.example")]);
    s.launch("mail");
    s.pass(500);
    let before = missed(&s, PoolMiss::NoRoom);
    assert_eq!(s.visit("mail", "a.example").1, 0);
    s.pass(100);
    s.visit("mail", "b.example");
    assert_eq!(missed(&s, PoolMiss::NoRoom), before + 1);
}

#[test]
fn what_has_become_of_a_connection_that_is_not_there_any_more_is_told() {
    for (launches, how, why) in [
        (3, None, PoolMiss::Expired),
        (2, None, PoolMiss::Untried),
        (3, Some(Spoilt::Closed), PoolMiss::Closed),
        (3, Some(Spoilt::Spoke), PoolMiss::Barred),
    ] {
        let mut s = story();
        learn(&mut s, launches, &[(500, "a.example")]);
        let before = missed(&s, why);
        s.launch("mail");
        s.pass(100);
        let spare = *watched(&s).last().unwrap();
        match how {
            Some(how) => s.input(Input::Spoilt(spare, how, ms(0))),
            None => s.pass(25_000),
        }
        assert!(is_closed(&s, spare));
        s.visit("mail", "a.example");
        assert_eq!(missed(&s, why), before + 1, "{how:?} after {launches}");
    }
}

#[test]
fn a_connection_that_is_spoilt_is_closed_and_the_others_are_not() {
    let mut s = story();
    learn(&mut s, 3, &[(500, "a.example"), (600, "b.example")]);
    s.launch("mail");
    s.pass(100);
    let [.., first, second] = watched(&s)[..] else { panic!("two are open") };
    s.input(Input::Spoilt(second, Spoilt::Closed, ms(0)));
    assert!(is_closed(&s, second) && !is_closed(&s, first));
}

#[test]
fn a_program_that_has_asked_already_is_given_another_for_what_its_server_has_closed() {
    let mut s = story();
    learn(&mut s, 3, &[(500, "a.example")]);
    s.launch("mail");
    s.pass(100);
    let (spare, account) = (*watched(&s).last().unwrap(), s.account);
    ask(&mut s, account, "mail", "a.example");
    let jobs = s.connector.open_jobs();
    s.input(Input::Spoilt(spare, Spoilt::Closed, ms(0)));
    assert!(is_closed(&s, spare));
    assert_eq!(s.connector.open_jobs(), jobs, "the program may still come");
    let to = s.connect("mail", v6(1), false);
    assert!(matches!(to, Output::HandOver { attempt, connected: true, .. } if attempt != spare), "{to:?}");
}

#[test]
fn a_spare_asks_for_services_only_where_they_may_be_used() {
    let (race, ahead) = (race::find("happy-eyeballs-v3").unwrap(), Ahead { prefetch: false, ..Ahead::ON });
    let settings = Settings { explore: 0.0, ahead, ..Settings::of(race) };
    let mut s = Story::with(settings).site("a.example", 1, (30, 30), (40, 40));
    learn(&mut s, 3, &[(500, "a.example")]);
    let before = sent(&s, RecordType::Https);
    s.launch("mail");
    s.pass(100);
    assert_eq!(sent(&s, RecordType::Https), before + 1);
}

#[test]
fn what_was_begun_for_a_caller_that_has_gone_is_no_spare() {
    let mut s = story();
    let request = RequestId(900);
    let resolve = Resolve { app: "mail".into(), name: "a.example".into(), want: Want::Both, port: Some(443) };
    s.input(Input::Resolve(request, resolve));
    s.input(Input::Abandon(request));
    assert_eq!(s.connector.open_jobs(), 1);
    assert!(is_new(&mut s, 0, "mail", "a.example", Want::Both, Some(443)));
}

#[test]
fn what_follows_a_name_is_not_opened_while_the_program_has_a_connection_there() {
    let mut s = story();
    learn(&mut s, 4, &[(120_000, "a.example"), (120_300, "b.example")]);
    s.launch("mail");
    s.pass(70_000);
    s.visit("mail", "b.example");
    s.pass(20_000);
    let before = s.connector.tally().spares;
    s.visit("mail", "a.example");
    s.pass(200);
    assert_eq!(s.connector.tally().spares, before);
}
