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
